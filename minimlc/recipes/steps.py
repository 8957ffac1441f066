"""Blocks that take values in order, as scatters and running sums do: rows of them on threads."""

from minimlc.loops.values.target import Target
from minimlc.recipes.general import attempt
from minimlc.recipes.views import Draft, divisor, worth_threads

LEAST, MOST = 16, 256
"""Columns that a thread takes together, of many: at least a cache line of them."""

ROWS = 16
"""Rows at the most that take each step together: while one waits for its last sum, others go on."""


def on_threads(sch: Draft, target: Target) -> Draft:
    """Rows or columns that do not meet go to threads, where there is enough work for them."""
    for name in sch.blocks():
        if sch.loops_of(name, "O") and worth_threads(sch.iterations(name), target):
            sch = _shared(sch, name)
    return sch


def _shared(sch: Draft, name: str) -> Draft:
    """The outermost loop on threads if it may be, else the innermost one, in pieces."""
    first, *others = sch.loops(name)
    last = others[-1] if {*others[-1:]} & {*sch.loops_of(name, "S")} else ""
    shared = attempt(sch, "parallel", first)
    if shared is not sch:
        return attempt(shared, "vectorize", last) if last else _several_rows(sch, name, first)
    width = sch.extent(name, last) if last else 0
    columns = divisor(width, MOST)
    if columns < LEAST or width < 2 * MOST:
        return sch
    cut, (outer, inner) = sch.cut(name, last, columns)
    moved = attempt(cut, "reorder", outer, first, *others[:-1], inner)
    shared = attempt(moved, "parallel", outer) if moved is not cut else cut
    return sch if shared is cut or shared is moved else attempt(shared, "vectorize", inner)


def _several_rows(sch: Draft, name: str, rows: str) -> Draft:
    """Rows on threads, some of them side by side."""
    sch, (outer, inner) = sch.cut(name, rows, divisor(sch.extent(name, rows), ROWS))
    return attempt(attempt(sch, "parallel", outer), "vectorize", inner)
