"""Finding, replacing and naming inside a primitive function: what all primitives share."""

from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from minimlc.errors import ScheduleError, did_you_mean
from minimlc.names import UniqueNames
from minimlc.node import Mutator, Node, replace, span_of
from minimlc.tir.analysis.access import (
    accesses,
    statements_in,
)
from minimlc.tir.analysis.arith import conjuncts, constant_value, has_loads
from minimlc.tir.analysis.wellformed import blocks_in, iter_loop, loops_in
from minimlc.tir.nodes import (
    Alloc,
    Block,
    Buffer,
    Expr,
    For,
    IfThenElse,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Var,
    conjunction,
    seq,
    substitute,
)


class Place(NamedTuple):
    """A statement and the statements around it, outermost first."""

    stmt: Stmt
    around: tuple[Stmt, ...]

    @property
    def loops(self) -> tuple[For, ...]:
        """The loops around it, outermost first."""
        return tuple(s for s in self.around if isinstance(s, For))

    @property
    def axes(self) -> tuple[For, ...]:
        """The loops around it, and the iters of blocks around it as loops over all their values."""
        found: list[For] = []
        for stmt in self.around:
            if isinstance(stmt, For):
                found.append(stmt)
            elif isinstance(stmt, Block):
                found += map(iter_loop, stmt.iters)
        return tuple(found)


def refuse(
    code: str, why: str, *, at: Node | None = None, example: str = "", hint: str = ""
) -> NoReturn:
    """Raise a `ScheduleError`; `at` is the statement it is about."""
    excerpt = ""
    span = span_of(at) if at is not None else None
    if at is not None and span is None:
        excerpt = "\n".join(at.script().rstrip().split("\n")[:4])
    raise ScheduleError(why, code=code, span=span, excerpt=excerpt, example=example, hint=hint)


class NoSuchName(ScheduleError):
    """A name that no loop, block or buffer of the function has; `known` are those there are."""

    def __init__(self, kind: str, name: str, known: Iterable[str], remark: str = ""):
        self.kind, self.name, self.known = kind, name, list(known)
        why = f'there is no {kind} "{name}"' + (f"; {remark}" if remark else "")
        super().__init__(why, code="E105", hint=did_you_mean(str(name), self.known))


@lru_cache(maxsize=8)
def _places(body: Stmt) -> dict[str, dict[str, Place]]:
    """Where a function's loops and blocks are, by name, in program order."""
    found: dict[str, dict[str, Place]] = {"loop": {}, "block": {}}
    stack = [Place(body, ())]
    while stack:
        place = stack.pop()
        match place.stmt:
            case For() as loop:
                found["loop"].setdefault(loop.var.name, place)
            case Block() as block:
                found["block"].setdefault(block.name, place)
        around = (*place.around, place.stmt)
        stack += [Place(part, around) for part in reversed(inner_stmts(place.stmt))]
    return found


def names_of(func: PrimFunc, kind: str) -> list[str]:
    """The names of a function's loops, blocks or buffers, in program order."""
    if kind == "buffer":
        return [buffer.name for buffer in (*func.params, *func.allocs)]
    return list(_places(func.body)[kind])


def find_loop(func: PrimFunc, name: str) -> Place:
    """The loop whose variable is called `name`."""
    places = _places(func.body)
    if not isinstance(name, str) or name not in places["loop"]:
        is_block = isinstance(name, str) and name in places["block"]
        remark = f'"{name}" is a block' if is_block else ""
        raise NoSuchName("loop", name, places["loop"], remark)
    return places["loop"][name]


def find_block(func: PrimFunc, name: str) -> Place:
    """The block called `name`."""
    places = _places(func.body)["block"]
    if not isinstance(name, str) or name not in places:
        raise NoSuchName("block", name, places)
    return places[name]


def find_buffer(func: PrimFunc, name: str) -> Buffer:
    """The parameter or allocation called `name`."""
    buffers = {buffer.name: buffer for buffer in (*func.params, *func.allocs)}
    if name not in list(buffers):
        raise NoSuchName("buffer", name, buffers)
    return buffers[name]


def inner_stmts(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside one."""
    match stmt:
        case Seq(stmts):
            return stmts
        case For() | Alloc():
            return (stmt.body,)
        case Block():
            return (stmt.body,) if stmt.init is None else (stmt.init, stmt.body)
        case IfThenElse(_, then_case, else_case):
            return (then_case,) if else_case is None else (then_case, else_case)
    return ()


class _Replace(Mutator):
    """Replaces statements by identity; None takes one out, with the loops left empty."""

    def __init__(self, changes: Mapping[Stmt, Stmt | None]):
        self.changes = changes

    def visit(self, value: Any) -> Any:
        if isinstance(value, Stmt) and value in self.changes:
            return self.changes[value]
        return value if isinstance(value, Expr) else super().visit(value)

    def visit_Store(self, item: Store) -> Stmt:
        return item

    def visit_Block(self, item: Block) -> Stmt | None:
        init, body = self.visit(item.init), self.visit(item.body)
        if init is None and body is None:
            return None
        return replace(item, init=init, body=Seq(()) if body is None else body)

    def visit_Seq(self, item: Seq) -> Stmt | None:
        new = [self.visit(part) for part in item.stmts]
        if all(a is b for a, b in zip(new, item.stmts, strict=True)):
            return item
        kept = [part for part in new if part is not None]
        return seq(kept) if kept else None

    def visit_For(self, item: For) -> Stmt | None:
        body = self.visit(item.body)
        return None if body is None else replace(item, body=body)

    def visit_Alloc(self, item: Alloc) -> Stmt | None:
        body = self.visit(item.body)
        return None if body is None else replace(item, body=body)

    def visit_IfThenElse(self, item: IfThenElse) -> Stmt | None:
        then_case, else_case = self.visit(item.then_case), self.visit(item.else_case)
        if then_case is None and else_case is None:
            return None
        then_case = Seq(()) if then_case is None else then_case
        return replace(item, then_case=then_case, else_case=else_case)


def replaced(func: PrimFunc, changes: Mapping[Stmt, Stmt | None]) -> PrimFunc:
    """`func` with some statements replaced (by None: taken out)."""
    body = _Replace(changes).visit(func.body)
    return replace(func, body=Seq(()) if body is None else body)


def with_alloc(func: PrimFunc, buffer: Buffer) -> PrimFunc:
    """`func` with one more buffer of its own."""
    return replace(func, allocs=(*func.allocs, buffer))


def without_unused_allocs(func: PrimFunc) -> PrimFunc:
    """`func` less the allocations that nothing touches."""
    used = {item.buffer for item in accesses(func)}
    return replace(func, allocs=tuple(b for b in func.allocs if b in used))


def spoken(kind: str) -> str:
    """A kind of loop in a sentence."""
    return "bound to threads" if kind == "thread_binding" else kind


def serial_loop(func: PrimFunc, name: str, verb: str) -> For:
    """The loop called `name`, which must not be parallel, vectorized, unrolled or bound yet."""
    loop = find_loop(func, name).stmt
    assert isinstance(loop, For)
    if loop.kind != "serial":
        refuse(
            "E119",
            f'{verb}: loop "{name}" is {spoken(loop.kind)} already',
            at=loop,
            hint=f"do this step before the one that made {name} {spoken(loop.kind)}",
        )
    return loop


def constant_extent(loop: Stmt, verb: str) -> int:
    """A loop's number of iterations, which must be constant."""
    assert isinstance(loop, For)
    extent = constant_value(loop.extent)
    if extent is None:
        refuse(
            "E102",
            f'{verb}: the extent of "{loop.var.name}" is not constant: {loop.extent.script()}',
            at=loop,
        )
    return extent


def local_buffers(stmt: Stmt) -> list[Buffer]:
    """The buffers that a statement allocates."""
    return [part.buffer for part in statements_in(stmt) if isinstance(part, Alloc)]


class Names:
    """Fresh names: unique among the loops, iters and buffers, or among the blocks, of `func`."""

    def __init__(self, func: PrimFunc):
        self.symbols = UniqueNames(reserved=(), spell=str)
        blocks = blocks_in(func.body)
        self.symbols.reserve(it.var.name for block in blocks for it in block.iters)
        self.symbols.reserve(loop.var.name for loop in loops_in(func.body))
        buffers = (*func.params, *func.allocs, *local_buffers(func.body))
        self.symbols.reserve(buffer.name for buffer in buffers)
        self.blocks = UniqueNames((b.name for b in blocks), reserved=(), spell=str)

    def var(self, name: str) -> Var:
        return Var(self.symbols.take(name))

    def buffer(self, name: str) -> str:
        return self.symbols.take(name)

    def block(self, name: str) -> str:
        return self.blocks.take(name)


def copy_block(block: Block, names: Names, name: str) -> Block:
    """The block under another name, with iters and inner loops of its own."""
    fresh: dict[Node, Node] = {it.var: names.var(it.var.name) for it in block.iters}
    iters = tuple(replace(it, var=fresh[it.var]) for it in block.iters)
    for loop in loops_in(block.body):
        fresh[loop.var] = names.var(loop.var.name)
    for buffer in local_buffers(block.body):
        fresh[buffer] = replace(buffer, name=names.buffer(buffer.name))
    init = None if block.init is None else substitute(block.init, fresh)
    body = substitute(block.body, fresh)
    return replace(block, name=names.block(name), iters=iters, init=init, body=body)


def nest(loops: Iterable[For], body: Stmt) -> Stmt:
    """`body` inside copies of `loops`, outermost first."""
    for loop in reversed(list(loops)):
        body = replace(loop, body=body)
    return body


def guarded(stmt: Stmt, condition: Expr, free: Container[Stmt] = ()) -> Stmt:
    """`stmt` run only where `condition` (over the loops outside of it) holds; where it does not,
    nothing is read for it either. The blocks in `free` run all the same.
    """
    match stmt:
        case Block() if stmt in free:
            return stmt
        case For() if not has_loads(stmt.extent):
            return replace(stmt, body=guarded(stmt.body, condition, free))
        case Seq(stmts):
            return Seq(tuple(guarded(part, condition, free) for part in stmts))
        case Block() if not any(has_loads(it.value) for it in stmt.iters):
            held = conjunction((condition, *conjuncts(stmt.predicate)))
            return replace(stmt, predicate=held)
    return IfThenElse(condition, stmt)
