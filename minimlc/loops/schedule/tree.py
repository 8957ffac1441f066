"""Finding, replacing and naming inside a primitive function: what all primitives share."""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Generic, NamedTuple, TypeVar

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.walks import inner_stmts
from minimlc.loops.proofs.access import Access, accesses
from minimlc.loops.proofs.arith import conjuncts, constant_value, has_loads
from minimlc.loops.schedule.primitive import refuse
from minimlc.loops.values.errors import ScheduleError, did_you_mean
from minimlc.loops.values.node import replace, walk

S = TypeVar("S", bound=ir.Stmt, covariant=True)
T = TypeVar("T")


class Place(NamedTuple, Generic[S]):
    """A statement (a loop, say: a `Place[For]`) and the statements around it, outermost first."""

    stmt: S
    around: tuple[ir.Stmt, ...]

    @property
    def loops(self) -> tuple[ir.For, ...]:
        """The loops around it, outermost first."""
        return tuple(s for s in self.around if isinstance(s, ir.For))

    def path(self, loop: ir.For) -> tuple[ir.Stmt, ...]:
        """The statements from a loop around it inwards."""
        return self.around[self.around.index(loop) :]

    def nest(self) -> "Nest":
        """The loops that hold only this statement, and those that it shares with others.

        A loop is its own while it directly holds the next; from the first one outside on that holds
        other statements too, all are shared.
        """
        top: ir.Stmt = self.stmt
        inner: list[ir.For] = []
        around = list(self.around)
        while around and isinstance(loop := around[-1], ir.For) and loop.body is top:
            top = around.pop()
            inner.insert(0, loop)
        return Nest(top, tuple(inner), tuple(s for s in around if isinstance(s, ir.For)))


class Nest(NamedTuple):
    """The outermost statement that holds only one block, the loops in it, and the shared loops."""

    top: ir.Stmt
    own: tuple[ir.For, ...]
    shared: tuple[ir.For, ...]


class NoSuchName(ScheduleError):
    """A name that no loop, block or buffer of the function has; `known` are those there are."""

    def __init__(self, kind: str, name: str, known: Iterable[str], remark: str = ""):
        self.kind, self.name, self.known = kind, name, list(known)
        why = f'there is no {kind} "{name}"' + (f"; {remark}" if remark else "")
        super().__init__(why, code="E105", hint=did_you_mean(str(name), self.known))


class Places(NamedTuple):
    """The places of a function's loops and blocks, by name, in program order."""

    loop: dict[str, Place[ir.For]]
    block: dict[str, Place[ir.Block]]


@lru_cache(maxsize=256)
def _places(body: ir.Stmt) -> Places:
    places = Places({}, {})
    stack: list[tuple[ir.Stmt, tuple[ir.Stmt, ...]]] = [(body, ())]
    while stack:
        stmt, around = stack.pop()
        match stmt:
            case ir.For():
                places.loop.setdefault(stmt.var.name, Place(stmt, around))
            case ir.Block():
                places.block.setdefault(stmt.name, Place(stmt, around))
            case _:  # other nodes: no name refers to them
                pass
        stack += [(part, (*around, stmt)) for part in reversed(inner_stmts(stmt))]
    return places


def names_of(func: ir.PrimFunc, kind: str) -> list[str]:
    """The names of a function's loops, blocks or buffers, in program order."""
    if kind == "buffer":
        return [buffer.name for buffer in (*func.params, *func.allocs)]
    return list(getattr(_places(func.body), kind))


def _called(kind: str, name: str, known: Mapping[str, T], remark: str = "") -> T:
    if not isinstance(name, str) or name not in known:
        raise NoSuchName(kind, name, known, remark)
    return known[name]


def find_loop(func: ir.PrimFunc, name: str) -> Place[ir.For]:
    """The loop whose variable is called `name`."""
    loops, blocks = _places(func.body)
    is_block = isinstance(name, str) and name in blocks
    return _called("loop", name, loops, f'"{name}" is a block' if is_block else "")


def find_block(func: ir.PrimFunc, name: str) -> Place[ir.Block]:
    """The block called `name`."""
    return _called("block", name, _places(func.body).block)


def find_stmt(func: ir.PrimFunc, name: str) -> ir.For | ir.Block:
    """The block of that name, or else the loop."""
    block = _places(func.body).block.get(name) if isinstance(name, str) else None
    return find_loop(func, name).stmt if block is None else block.stmt


def find_loop_around(func: ir.PrimFunc, place: Place[ir.Block], name: str, code: str) -> ir.For:
    """The loop called `name`, which must be around a block; refused with `code` if it is not."""
    loop = find_loop(func, name).stmt
    if loop not in place.around:
        listed = ", ".join(lp.var.name for lp in place.loops)
        why = f'"{name}" is not a loop of block "{place.stmt.name}"'
        refuse(code, why, hint=f"its loops: {listed}")
    return loop


def find_buffer(func: ir.PrimFunc, name: str) -> ir.Buffer:
    """The parameter or allocation called `name`."""
    return _called("buffer", name, {buffer.name: buffer for buffer in (*func.params, *func.allocs)})


def _rewritten(stmt: ir.Stmt, changes: Mapping[ir.Stmt, ir.Stmt | None]) -> ir.Stmt | None:
    """A statement with some replaced, by identity; None where nothing is left, not even a loop."""
    if stmt in changes:
        return changes[stmt]
    if isinstance(stmt, ir.Seq):
        parts = [_rewritten(part, changes) for part in stmt.stmts]
        if all(map(is_, parts, stmt.stmts)):
            return stmt
        kept = [part for part in parts if part is not None]
        return ir.seq(kept) if kept else None
    names = HOLDING.get(type(stmt), ())
    old = [getattr(stmt, name) for name in names]
    new = [part and _rewritten(part, changes) for part in old]
    if all(map(is_, new, old)):
        return stmt
    if not any(new):
        return None
    fields = {
        n: p or (ir.Seq(()) if n in FILLED else None) for n, p in zip(names, new, strict=True)
    }
    return replace(stmt, **fields)


HOLDING = {
    ir.For: ("body",),
    ir.While: ("body",),
    ir.Alloc: ("body",),
    ir.Block: ("init", "body"),
    ir.IfThenElse: ("then_case", "else_case"),
}
"""The fields in which statements other than sequences hold statements."""
FILLED = ("body", "then_case")
"""The ones of these that are never None."""


def replaced(func: ir.PrimFunc, changes: Mapping[ir.Stmt, ir.Stmt | None]) -> ir.PrimFunc:
    """`func` with some statements replaced (by None: taken out)."""
    return replace(func, body=replaced_in(func.body, changes))


def replaced_in(stmt: ir.Stmt, changes: Mapping[ir.Stmt, ir.Stmt | None]) -> ir.Stmt:
    """A statement with some inside it replaced (by None: taken out)."""
    new = _rewritten(stmt, changes)
    return ir.Seq(()) if new is None else new


def inside(items: Sequence[Access], stmt: ir.Stmt) -> list[Access]:
    """The accesses that stand in a statement."""
    if isinstance(stmt, ir.For):
        return [item for item in items if stmt in item.loops]
    nodes = set(walk(stmt))
    return [item for item in items if item.node in nodes]


def with_allocs(func: ir.PrimFunc, buffers: Iterable[ir.Buffer]) -> ir.PrimFunc:
    """`func` with more allocations."""
    return replace(func, allocs=(*func.allocs, *buffers))


def without_unused_allocs(func: ir.PrimFunc) -> ir.PrimFunc:
    """`func` less the allocations that nothing touches."""
    used = {item.buffer for item in accesses(func)}
    return replace(func, allocs=tuple(b for b in func.allocs if b in used))


def spoken(kind: str) -> str:
    """A kind of loop in a sentence."""
    return "bound to threads" if kind == "thread_binding" else kind


def serial_loop(func: ir.PrimFunc, name: str) -> ir.For:
    """The loop called `name`, which must not be parallel, vectorized, unrolled or bound yet."""
    loop = find_loop(func, name).stmt
    if loop.kind != "serial":
        why = f'loop "{name}" is {spoken(loop.kind)} already'
        hint = f"do this step before the one that made {name} {spoken(loop.kind)}"
        refuse("E119", why, at=loop, hint=hint)
    return loop


def constant_extent(loop: ir.For) -> int:
    """A loop's number of iterations, which must be constant."""
    extent = constant_value(loop.extent)
    if extent is None:
        why = f'the extent of "{loop.var.name}" is not constant: {loop.extent.script()}'
        refuse("E102", why, at=loop)
    return extent


def runs(loop: ir.For) -> bool:
    """Whether a loop is sure to have iterations: its extent is a constant, at least 1."""
    return (constant_value(loop.extent) or 0) >= 1


def nest(loops: Iterable[ir.For], body: ir.Stmt) -> ir.Stmt:
    """`body` inside copies of `loops`, outermost first."""
    for loop in reversed(list(loops)):
        body = replace(loop, body=body)
    return body


def guarded(stmt: ir.Stmt, condition: ir.Expr, free: Container[object] = ()) -> ir.Stmt:
    """`stmt` run only where `condition` (over the loops outside of it) holds; where it does not,
    nothing is read for it either. The blocks in `free` run all the same.
    """
    match stmt:
        case ir.Block() if stmt in free:
            return stmt
        case ir.For() if not has_loads(stmt.extent):
            return replace(stmt, body=guarded(stmt.body, condition, free))
        case ir.Seq(stmts):
            return ir.Seq(tuple(guarded(part, condition, free) for part in stmts))
        case ir.Block() if not any(has_loads(it.value) for it in stmt.iters):
            held = ir.conjunction((condition, *conjuncts(stmt.predicate)))
            return replace(stmt, predicate=held)
        case _:  # other nodes: what is guarded runs as a whole or not at all
            return ir.IfThenElse(condition, stmt)
