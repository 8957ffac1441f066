"""Uses of elements that were never written.

An own buffer's elements hold nothing before they are written. A value that is read there counts as
unwritten, and so does all that is computed of it; the fault is to decide by it, or to store it in a
parameter. The interpreter finds that where it happens; here it is found where it surely happens: an
iteration that runs whatever the data, and no write that could have come before.
"""

from collections.abc import Hashable, Iterator, Mapping
from itertools import takewhile
from math import isinf, prod
from typing import NamedTuple

import numpy as np

from minimlc.dtypes import is_float
from minimlc.errors import CompileError, VerifyError
from minimlc.node import Node, replace, span_of
from minimlc.tir.access import (
    REDUCERS,
    Access,
    accesses,
    loop_extents,
    loop_ranges,
    statements_in,
)
from minimlc.tir.affine import Digits
from minimlc.tir.arith import has_loads, key
from minimlc.tir.dependence import A_FEW, EXHAUSTIVE, Bounds, Equation, Points, points, solve
from minimlc.tir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Expr,
    For,
    Load,
    PrimFunc,
    Store,
    Var,
    index,
    substitute,
)
from minimlc.tir.points import evaluate
from minimlc.tir.reducers import identity
from minimlc.tir.regions import covers

Values = Mapping[Var, int]
Element = tuple[int, ...]


class Unwritten(NamedTuple):
    """A read of an element that holds nothing yet: which, in which iteration, and what for."""

    load: Load
    element: Element
    values: Mapping[str, int]
    block: Block | None
    into: Store | None

    def error(
        self,
        target: Buffer | None = None,
        place: Element | None = None,
        kind: type[CompileError] = CompileError,
    ) -> CompileError:
        """What to say where `target[place]` would become what is computed of the element, or where
        that would decide something.
        """
        where = f' in block "{self.block.name}"' if self.block is not None else ""
        at = ", ".join(f"{name}={value}" for name, value in self.values.items())
        read = f"{_named(self.load.buffer, self.element)} is read{where}{at and f' at {at}'}"
        lines = (span_of(part) for part in (self.load, self.into, self.block) if part is not None)
        example = "it decides what runs, or where"
        if target is not None:
            example = f"{_named(target, place)} would come of it"
        return kind(
            f"{read} before anything was written there",
            code="E131",
            span=next((span for span in lines if span is not None), None),
            example=example,
            hint=self.advice(),
        )

    def advice(self) -> str:
        """What to write where: the start of a sum, for one."""
        element, into = self.load.script(), self.into
        if into is None or not _is_same_element(self.load, into):
            return f"write {_named(self.load.buffer, self.element)} first"
        value = into.value
        start = "..."
        if isinstance(value, Binary) and value.op in REDUCERS:
            start = _start(value.op, into.buffer.dtype)
        if self.block is not None and any(it.kind == "R" for it in self.block.iters):
            return f'with T.init(): {element} = {start}  # in block "{self.block.name}"'
        return f"{element} = {start}  # before what updates it"


def _start(op: str, dtype: str) -> str:
    """What a reduction starts from, as a script says it."""
    start = identity(op, dtype)
    if isinstance(start.value, float) and isinf(start.value):
        return start.script()
    return "0.0" if start.value == 0.0 and is_float(dtype) else repr(start.value)


def _named(buffer: Buffer, element: Element | None) -> str:
    return buffer.name if element is None else f"{buffer.name}[{', '.join(map(str, element))}]"


def _is_same_element(load: Load, store: Store) -> bool:
    return load.buffer is store.buffer and [*map(key, load.indices)] == [*map(key, store.indices)]


def check_written(func: PrimFunc) -> None:
    """Raise a `VerifyError` where `func` surely uses an element that was never written."""
    scopes = _scopes(func)
    if not scopes:
        return
    search = _Search(func, scopes)
    for read in search.uses():
        found = search.unwritten(read)
        if found is not None:
            raise found


def _scopes(func: PrimFunc) -> dict[Buffer, int]:
    """The function's own buffers, and in how many loops each begins anew."""
    scopes = dict.fromkeys(func.allocs, 0)
    loops: dict[Alloc, int] = {}
    for part in statements_in(func.body):
        if isinstance(part, For):
            for inner in statements_in(part.body):
                if isinstance(inner, Alloc):
                    loops[inner] = loops.get(inner, 0) + 1
        elif isinstance(part, Alloc):
            scopes[part.buffer] = loops.get(part, 0)
    return scopes


class _Search:
    """Looks for an iteration of a read that surely finds nothing written."""

    def __init__(self, func: PrimFunc, scopes: Mapping[Buffer, int]):
        self.scopes = scopes
        self.items = accesses(func)
        self.parts: dict[tuple[Store, Block | None], list[Access]] = {}
        self.writes: dict[Buffer, list[Access]] = {buffer: [] for buffer in scopes}
        for item in self.items:
            if item.is_write and item.buffer in scopes:
                self.writes[item.buffer].append(item)
            elif item.into is not None and item.buffer in scopes:
                self.parts.setdefault((item.into, item.block), []).append(item)
        self.empty = set(scopes)
        self.defining = self._defining()

    def _defining(self) -> dict[Buffer, list[Access]]:
        """The writes of each buffer, less those of a value that is unwritten itself.

        Such are updates of an element by itself: the first one would have to find it written. And
        such are values of a buffer that has no other writes: it stays `empty`.
        """
        while True:
            found = {
                buffer: [write for write in writes if self._unwritten_part(write) is None]
                for buffer, writes in self.writes.items()
            }
            left = {buffer for buffer in self.empty if not found[buffer]}
            if left == self.empty:
                return found
            self.empty = left

    def _unwritten_part(self, write: Access) -> Access | None:
        """A read that each instance of a write is made of: its own element, or an empty buffer."""
        store = write.node
        assert isinstance(store, Store)
        for item in self.parts.get((store, write.block), ()):
            assert isinstance(item.node, Load)
            if len(item.guards) == len(write.guards) and (
                item.buffer in self.empty or _is_same_element(item.node, store)
            ):
                return item
        return None

    def uses(self) -> Iterator[Access]:
        """The reads that decide something, or whose value a parameter takes, unless all they read
        is surely written.
        """
        for item in self.items:
            if item.is_write or item.buffer not in self.scopes:
                continue
            if item.into is not None and item.into.buffer in self.scopes:
                continue
            if not any(_is_before(write, item) for write in self.defining[item.buffer]):
                yield item

    def unwritten(self, read: Access) -> CompileError | None:
        """What is wrong with a read, if some iteration of those tried surely finds nothing."""
        for at in self._candidates(read):
            element = _element(read, at)
            if element is not None and not self._may_be_written(read, at, element):
                return self._explained(read, at, element)
        return None

    def _may_be_written(self, read: Access, at: Values, element: Element) -> bool:
        """Whether a write that defines the element may come before the read in iteration `at`."""
        return any(
            _may_reach(write, fixed, below, element)
            for write in self.defining[read.buffer]
            for fixed, below in self._earlier(write, read, at)
        )

    def _earlier(
        self, write: Access, read: Access, at: Values
    ) -> Iterator[tuple[dict[Var, int], Var | None]]:
        """The instances of a write that come before a read in iteration `at`: values of the loops
        that they share, and the first loop that is behind, if there is one (its value excluded).
        """
        fixed: dict[Var, int] = {}
        for depth, loop in enumerate(_shared(write, read)):
            fixed[loop.var] = at[loop.var]
            if at[loop.var] > 0 and depth >= self.scopes[read.buffer]:
                yield dict(fixed), loop.var
        if write.order < read.order:
            yield fixed, None

    def _candidates(self, read: Access) -> Iterator[Values]:
        """Iterations of a read that may find nothing written: the first one that a look at the
        first iterations of everything shows, then where its loops begin and end.
        """
        found = points(read, A_FEW)
        if found is None:
            return
        late = np.ones(len(found.elements), bool)
        for write in self.defining[read.buffer]:
            late &= ~_written_before(write, read, self.scopes[read.buffer], found)
        for row in np.flatnonzero(late)[:1]:
            yield _values(found, row)
        if found.complete:
            return
        lasts = {var: extent - 1 for var, extent in loop_extents(read.loops).items()}
        first = dict.fromkeys(lasts, 0)
        yield from (first, *({**first, var: last} for var, last in lasts.items()), lasts)

    def _explained(self, read: Access, at: Values, element: Element) -> CompileError:
        first, when, origin = self._origin(read, at, element)
        assert isinstance(first.node, Load)
        values = {loop.var.name: when[loop.var] for loop in first.loops}
        source = Unwritten(first.node, origin, values, first.block, first.into)
        if read.into is None:
            return source.error(kind=VerifyError)
        after = self.items[read.order :]
        store = next(item for item in after if item.is_write and item.node is read.into)
        return source.error(store.buffer, _element(store, at), VerifyError)

    def _origin(
        self, read: Access, at: Values, element: Element, depth: int = 8
    ) -> tuple[Access, Values, Element]:
        """The first read of the element, or of one that it was computed of."""
        for write in self.writes[read.buffer] if depth else ():
            part = self._unwritten_part(write)
            if part is None:
                continue
            for fixed, below in self._earlier(write, read, at):
                found = points(_restricted(write, fixed, below), A_FEW)
                met = None if found is None else _are(found.elements, element)
                if found is None or met is None or not met.any():
                    continue
                when = {**fixed, **_values(found, int(met.argmax()))}
                made_of = _element(part, when)
                if made_of is not None:
                    return self._origin(part, when, made_of, depth - 1)
        return read, at, element


def _shared(write: Access, read: Access) -> list[For]:
    """The loops around both."""
    pairs = zip(write.loops, read.loops, strict=False)
    return [a for a, _ in takewhile(lambda pair: pair[0] is pair[1], pairs)]


def _known(write: Access) -> tuple[Expr, ...]:
    """The conditions on a write that do not depend on data."""
    return tuple(guard for guard in write.guards if not has_loads(guard))


def _is_before(write: Access, read: Access) -> bool:
    """Whether a write surely comes before a read with all its elements."""
    if write.order > read.order:
        return False
    return covers(write, read, [loop.var for loop in _shared(write, read)])


def _element(item: Access, at: Values) -> Element | None:
    """The element that an access surely touches in an iteration; None where it does not run, or
    data decides that.
    """
    values = {var: np.int64(value) for var, value in at.items()}
    try:
        if not all(values[loop.var] < evaluate(loop.extent, values) for loop in item.loops):
            return None
        if not all(evaluate(guard, values) for guard in item.guards):
            return None
        return tuple(int(evaluate(part, values)) for part in item.indices)
    except ValueError:
        return None


def _restricted(write: Access, fixed: Values, below: Var | None) -> Access:
    """A write over the iterations in which some loops have the values `fixed`, and `below` one
    before its value. Conditions that depend on data are taken to hold.
    """
    known: dict[Node, Node] = {v: index(n) for v, n in fixed.items() if v is not below}
    loops = tuple(
        replace(loop, extent=index(fixed[loop.var]))
        if loop.var is below
        else replace(loop, extent=substitute(loop.extent, known))
        for loop in write.loops
        if loop.var not in known
    )
    indices = tuple(substitute(part, known) for part in write.indices)
    guards = tuple(substitute(part, known) for part in _known(write))
    return write._replace(loops=loops, indices=indices, guards=guards)


def _may_reach(write: Access, fixed: Values, below: Var | None, element: Element) -> bool:
    """Whether such an instance of a write may touch the element."""
    item = _restricted(write, fixed, below)
    if not _is_solvable(item, element):
        return False
    for limit in (A_FEW, EXHAUSTIVE):
        found = points(item, limit)
        if found is None or _are(found.elements, element).any():
            return True
        if found.complete:
            return False
    return True


def _values(found: Points, row: int) -> dict[Var, int]:
    return {var: int(column[row]) for var, column in found.values.items()}


def _are(elements: np.ndarray, element: Element) -> np.ndarray:
    return (elements == np.array(element, np.int64)).all(axis=1)


def _is_solvable(item: Access, element: Element) -> bool:
    """Whether nothing known of the indices, conditions and loops excludes the element."""
    ranges = loop_ranges(item.loops)
    for part, value in zip(item.indices, element, strict=True):
        ranges = ranges.assume(Binary("==", part, index(value)))
    for guard in item.guards:
        ranges = ranges.assume(guard)
    if ranges.is_empty():
        return False
    digits = Digits(loop_extents(item.loops))
    bounds: Bounds = {}
    equations = []
    for total, value in zip(digits.sums(item.indices), element, strict=True):
        if total is not None:
            terms: dict[Hashable, int] = {}
            for digit, coefficient in total.terms.items():
                terms[digit], bounds[digit] = coefficient, (0, digit.extent - 1)
            equations.append(Equation(terms, total.constant - value))
    return solve(equations, bounds) is not None


def _written_before(write: Access, read: Access, scope: int, found: Points) -> np.ndarray:
    """At which points of a read a point of a write, of the first ones, has touched its element
    before, in the same iteration of the outermost `scope` loops.
    """
    made = points(write._replace(guards=_known(write)), A_FEW)
    if made is None:
        return np.ones(len(found.elements), bool)
    if len(made.elements) == 0 or len(found.elements) == 0:
        return np.zeros(len(found.elements), bool)
    strides = [prod(read.buffer.shape[n + 1 :]) for n in range(read.buffer.ndim)]
    places = [side.elements @ np.array(strides, np.int64) for side in (made, found)]
    times = [np.zeros(len(side.elements), np.int64) for side in (made, found)]
    for depth, loop in enumerate(_shared(write, read)):
        columns = [side.values[loop.var] for side in (made, found)]
        size = 1 + max(int(column.max()) for column in columns)
        kept = places if depth < scope else times
        kept[:] = [old * size + column for old, column in zip(kept, columns, strict=True)]
    order = np.lexsort((times[0], places[0]))
    elements, starts = np.unique(places[0][order], return_index=True)
    row = np.searchsorted(elements, places[1]).clip(max=len(elements) - 1)
    first = times[0][order][starts][row]
    return (elements[row] == places[1]) & (first < times[1] + (write.order < read.order))
