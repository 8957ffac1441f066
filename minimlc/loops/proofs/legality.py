"""Dependences that a loop carries, each explained by two iterations that show it."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from minimlc.loops.ir.nodes import THREAD, Block, Buffer, For, PrimFunc, Seq, Stmt, Var
from minimlc.loops.ir.walks import buffers_in, inner_stmts
from minimlc.loops.proofs.access import Access, accesses, nest_key, top_statements, touched
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.proofs.dependence import Conflict
from minimlc.loops.proofs.regions import is_commutative_reduction, is_private, repeats
from minimlc.loops.proofs.witness import Witness, find_conflict


class Carried(NamedTuple):
    """A dependence between iterations of `loop`; without `witness` it is only not excluded.

    `nest` are the loops whose values an explanation names: just `loop`, if empty.
    """

    loop: For
    first: Access
    second: Access
    witness: Witness | None
    nest: tuple[For, ...] = ()

    def explain(self) -> str:
        """The two iterations and the element, or that neither proof nor example was found."""
        name = self.first.buffer.name
        loop = self.loop.var.name
        if self.witness is None:
            return f"whether two iterations of {loop} touch one element of {name} is not known"
        element = f"{name}[{', '.join(map(str, self.witness.element))}]"
        one, two = self._at(self.witness.first), self._at(self.witness.second)
        if self.first.is_write and self.second.is_write:
            verb = "update" if self.second.role == "update" else "write"
            return f"iterations {one} and {two} both {verb} {element}"
        verbs = ["writes" if side.is_write else "reads" for side in (self.first, self.second)]
        return f"iteration {one} {verbs[0]} {element}, {two} {verbs[1]} it"

    def _at(self, values: Mapping[Var, int]) -> str:
        """An iteration in words: its values in the loop, or in the whole nest that matters."""
        named = [f"{loop.var.name}={values[loop.var]}" for loop in self.nest or (self.loop,)]
        return named[0] if len(named) == 1 else f"({', '.join(named)})"


def carried_dependence(
    loop: For,
    items: Sequence[Access],
    private: Iterable[Buffer] = (),
    thread: str = "",
    copied: set[Buffer] | None = None,
) -> Carried | None:
    """A dependence that `loop` carries, among a function's accesses; None where there is none.

    Buffers in `private` may be copied per iteration; those for which that is right do not count,
    and come into `copied` where there would be a dependence without.
    Nor does a reduction among the threads of a block: to one of their axes the loop is bound, or
    is to be (`thread`).
    """
    combined = (thread or loop.thread).startswith(THREAD)
    inside = [item for item in items if loop in item.loops]
    owned: dict[Buffer, bool] = {}
    unsettled = None
    for first, second in conflicting_pairs(inside):
        question = _question(loop, first, second)
        if question is None or (combined and commutes(first, second, (loop,))):
            continue
        buffer = first.buffer
        if buffer not in owned:
            owned[buffer] = _is_owned(buffer, loop, items, private)
        if owned[buffer]:
            if copied is not None and buffer in private:
                copied.add(buffer)
            continue
        carried = _search(loop, question)
        if carried is not None and carried.witness is not None:
            return carried
        unsettled = unsettled or carried
    return unsettled


def combined(loop: For, items: Sequence[Access], private: Iterable[Buffer] = ()) -> list[Block]:
    """The blocks whose values the iterations of `loop` combine, among a function's accesses: that
    is a dependence, but for a reduction among threads. `private` is as for `carried_dependence`.
    """
    inside = [item for item in items if loop in item.loops]
    found: dict[Block, None] = {}
    for first, second in conflicting_pairs(inside):
        if first.block is None or not commutes(first, second, (loop,)):
            continue
        question = _question(loop, first, second)
        if question is not None and not _is_owned(first.buffer, loop, items, private):
            found[first.block] = None
    return list(found)


def _is_owned(
    buffer: Buffer, loop: For, items: Sequence[Access], private: Iterable[Buffer]
) -> bool:
    """Whether each iteration of `loop` has a copy of the buffer, or may get one."""
    if buffer in private and is_private(buffer, loop, items):
        return True
    if loop.kind == "vectorized":
        return False
    return buffer in buffers_in(loop.body)


_PROVEN: WeakKeyDictionary[Stmt, tuple[set[Buffer], ...]] = WeakKeyDictionary()
"""Statements whose concurrent loops carry nothing where they alone use certain buffers."""


def concurrent_dependence(func: PrimFunc) -> Carried | None:
    """A dependence that a parallel or vectorized loop of `func` carries; None where all are sound.

    The dependences of a statement's loops depend on it alone, and on which buffers only it uses.
    """
    everywhere: dict[Buffer, int] = {}
    for part in top_statements(func):
        for buffer in touched(part):
            everywhere[buffer] = everywhere.get(buffer, 0) + 1
    local = {buffer for buffer in func.allocs if everywhere.get(buffer) == 1}
    for part in top_statements(func):
        known, copied = _PROVEN.get(part, ()), set[Buffer]()
        if any(buffers <= local for buffers in known):
            continue
        carried = _carried_in(func, part, copied)
        if carried is not None:
            return carried
        _PROVEN[part] = (*known, copied)
    return None


_FREE: WeakKeyDictionary[For, Hashable] = WeakKeyDictionary()
"""Concurrent loops that carry nothing in a nest, whatever else the function does."""


def _carried_in(func: PrimFunc, part: Stmt, copied: set[Buffer]) -> Carried | None:
    for loop, around in _concurrent(part):
        nest = None
        if around is not None:
            kinds = [(outer.kind, outer.thread) for outer in around]
            nest = frozenset(zip(nest_key(around), kinds, strict=True))
        if nest is not None and _FREE.get(loop) == nest:
            continue
        items = accesses(func)
        private = () if loop.kind == "vectorized" else private_candidates(func, loop, items)
        carried = carried_dependence(loop, items, private, copied=copied)
        if carried is not None:
            return carried
        if nest is not None and not private:
            _FREE[loop] = nest
    return None


def _concurrent(
    stmt: Stmt, around: tuple[For, ...] | None = ()
) -> Iterator[tuple[For, tuple[For, ...] | None]]:
    """The loops in a statement whose iterations run together, and the loops around each; None
    where there are other statements around it than loops and sequences.
    """
    if isinstance(stmt, For):
        if stmt.kind not in ("serial", "unrolled"):
            yield stmt, around
        around = None if around is None else (*around, stmt)
    elif not isinstance(stmt, Seq):
        around = None
    for part in inner_stmts(stmt):
        yield from _concurrent(part, around)


def private_candidates(func: PrimFunc, loop: For, items: Sequence[Access]) -> tuple[Buffer, ...]:
    """The allocations that lowering may copy per iteration of `loop`, if they prove private.

    Empty where `loop` is inside a vectorized loop: all lanes share what is in it.
    """
    around = next((item.loops for item in items if loop in item.loops), (loop,))
    outside = around[: around.index(loop)]
    return () if any(map(has_lanes, outside)) else func.allocs


def has_lanes(loop: For) -> bool:
    """Whether a loop is vectorized, and is not of one iteration."""
    return loop.kind == "vectorized" and constant_value(loop.extent) != 1


def conflicting_pairs(items: Sequence[Access]) -> Iterable[tuple[Access, Access]]:
    """Pairs of accesses to one buffer, one a write; writes first, each with itself too."""
    touching: dict[Buffer, list[Access]] = {}
    for item in items:
        touching.setdefault(item.buffer, []).append(item)
    writes = [item for item in items if item.is_write]
    for first in writes:
        mine = touching[first.buffer]
        yield from ((first, second) for second in mine[mine.index(first) :] if second.is_write)
    for first in writes:
        yield from ((first, second) for second in touching[first.buffer] if not second.is_write)


def commutes(first: Access, second: Access, chain: Sequence[For]) -> bool:
    """Whether two accesses are of one reduction whose instances may be exchanged.

    The loops of the chain must distinguish instances: a reduction that runs anew in each iteration
    of one of them is not the same reduction.
    """
    block = first.block
    if block is None or second.block is not block or "" in (first.role, second.role):
        return False
    loops = first.loops
    if not is_commutative_reduction(block, loops):
        return False
    inner = loops[loops.index(chain[0]) :]
    return block.init is None or not set(inner) & set(repeats(block, loops))


def _question(loop: For, first: Access, second: Access) -> Conflict | None:
    """The question whether two iterations touch one element; None if they plainly do not."""
    if any(a is b is loop.var for a, b in zip(first.indices, second.indices, strict=True)):
        return None  # one element, one iteration
    question = Conflict(first, second)
    same = dict.fromkeys(enclosing(loop, first), "0")
    signs = "+" if first is second else "+-"
    possible = any(question.possible({**same, loop.var: sign}) for sign in signs)
    return question if possible else None


def _search(loop: For, question: Conflict) -> Carried | None:
    first, second = question.first, question.second
    search = find_conflict(first, second, enclosing(loop, first), loop.var)
    if search.witness is None and search.complete:
        return None
    return Carried(loop, first, second, search.witness)


def enclosing(loop: For, item: Access) -> tuple[Var, ...]:
    """The variables of the loops outside `loop` around an access."""
    return tuple(other.var for other in item.loops[: item.loops.index(loop)])
