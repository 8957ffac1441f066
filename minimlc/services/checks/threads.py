"""Axes of a GPU's grid in a nest: where one may be bound, and work that a block's threads share."""

from collections.abc import Iterable, Sequence

from minimlc.loops.ir.nodes import SHARED, THREAD, Alloc, Expr, For, PrimFunc, Seq, Stmt, Var
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.proofs.access import Access, part_accesses, top_statements
from minimlc.loops.proofs.arith import has_loads, key, variables
from minimlc.loops.values.node import walk

SWIZZLED = "shared.swizzled"
"""A scope of 128-byte rows: in each of eight rows the 16-byte pieces are in another order, so that
the pieces of a column are in different banks.
"""


def axis_conflict(func: PrimFunc) -> tuple[For, str] | None:
    """A loop bound to a GPU axis that a loop around it is bound to as well, or that has another
    size elsewhere in the same nest, and the error; None where there is none.

    An axis of threads may be nested in itself where the threads do together what each would do.
    """
    for part in top_statements(func):
        sizes: dict[str, Expr] = {}
        items = part_accesses(part)
        for loop in dict.fromkeys(lp for item in items for lp in item.loops):
            if loop.kind != "thread_binding":
                continue
            axis = loop.thread
            for inner in loops_in(loop.body):
                if inner.thread == axis and (why := _apart(inner, items)):
                    both = f"{inner.var.name} and {loop.var.name} around it are both {axis}"
                    return inner, f"{both}: {why}"
            size = sizes.setdefault(axis, loop.extent)
            if key(size) != key(loop.extent):
                return loop, (
                    f"{axis} has {size.script()} threads in this nest, "
                    f"{loop.var.name} has {loop.extent.script()} iterations"
                )
    return None


def _apart(nest: For, items: Sequence[Access]) -> str:
    """Why the threads of a block cannot do together, once, what each of them does in `nest`, which
    is bound to an axis that a loop around it is bound to; "" where they can.

    They can where no thread makes a difference to it and all come to it, so that barriers can stand
    before and behind it, and where it leaves what it does in memory that they share.
    """
    around = next(item.loops for item in items if nest in item.loops)
    threads = _outside(around[: around.index(nest) + 1])
    if not nest.thread.startswith(THREAD):
        return "its iterations run there already"
    indices = {loop.var for loop in threads}
    if indices & {part for part in walk(nest) if isinstance(part, Var)}:
        return f"what {nest.var.name} runs is not the same for all threads"
    if not _all_come(threads[0].body, nest, indices):
        return f"whether a thread comes to {nest.var.name} is not the same for all"
    inside = [item for item in items if threads[0] in item.loops]
    written = {item.buffer for item in inside if item.is_write}
    mine = [item for item in inside if nest in item.loops]
    for item in mine:
        name = item.buffer.name
        if not item.is_write and item.buffer in written:
            return f"it reads {name}, which single threads write"
        if item.is_write and not item.buffer.scope.startswith(SHARED):
            return f"the {item.buffer.scope} buffer {name} is not shared by the threads"
    left = {item.buffer for item in mine if item.is_write}
    for item in inside:
        if item.is_write and item.buffer in left and not _outside(item.loops):
            return f"single threads write {item.buffer.name}, too"
    return ""


def _outside(loops: Iterable[For]) -> list[For]:
    """The loops of threads around the innermost nest that they run together: it begins where an
    axis is bound anew.
    """
    bound, start = [loop for loop in loops if loop.thread.startswith(THREAD)], 0
    for number, loop in enumerate(bound):
        if loop.thread in [other.thread for other in bound[start:number]]:
            start = number
    return bound[:start]


def _all_come(stmt: Stmt, nest: For, threads: set[Var]) -> bool:
    """Whether all threads come to `nest` alike: only loops that run as often for each of them, and
    no block or condition, are on the way to it from a statement.
    """
    if stmt is nest:
        return True
    match stmt:
        case Seq(stmts):
            return any(_all_come(part, nest, threads) for part in stmts)
        case For(extent=extent) if not has_loads(extent) and not variables(extent) & threads:
            return _all_come(stmt.body, nest, threads)
        case Alloc():
            return _all_come(stmt.body, nest, threads)
        case _:  # other nodes: a block's iters may differ between threads, a condition does
            return False
