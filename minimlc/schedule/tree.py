"""Finding, replacing and naming inside a primitive function: what all primitives share."""

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary, WeakSet

from minimlc.errors import ScheduleError, VerifyError, did_you_mean
from minimlc.names import UniqueNames
from minimlc.node import Mutator, Node, replace, span_of
from minimlc.tir.analysis.access import (
    Access,
    accesses,
    lasting,
    loop_ranges,
    reads,
    statements_in,
    top_statements,
)
from minimlc.tir.analysis.arith import (
    Ranges,
    Simplifier,
    conjuncts,
    constant_value,
    has_loads,
    key,
    simplify,
)
from minimlc.tir.analysis.legality import (
    axis_conflict,
    carried_dependence,
    concurrent_dependence,
    has_lanes,
    private_candidates,
)
from minimlc.tir.analysis.wellformed import blocks_in, check_blocks, iter_loop, loops_in
from minimlc.tir.nodes import (
    Alloc,
    Binary,
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


class _SimplifyFunc(Mutator):
    """Simplifies indices over what the loops around them say."""

    def __init__(self, ranges: Ranges):
        self.ranges = ranges
        self.surroundings = ranges.key()
        self.known: dict[Expr, Expr] = {}
        self.values: dict[Hashable, tuple[Expr, Expr]] = {}
        self.guards: dict[Hashable, tuple[Expr, Expr | None, _SimplifyFunc]] = {}

    def visit(self, value: Any) -> Any:
        if isinstance(value, Expr):
            return self.simple(value)
        if isinstance(value, Block):
            return self.simplified_block(value)
        return super().visit(value)

    def simple(self, expr: Expr) -> Expr:
        """The expression simplified: once, however many blocks have it as an iter's value."""
        if expr not in self.known:
            self.known[expr] = Simplifier(self.ranges).visit(expr)
        return self.known[expr]

    def value(self, expr: Expr) -> Expr:
        """An iter's value simplified: once for all blocks that have an equal one."""
        if expr not in self.known:
            name = key(expr)
            if name not in self.values:
                self.values[name] = (expr, Simplifier(self.ranges).visit(expr))
            first, new = self.values[name]
            self.known[expr] = expr if new is first else new
        return self.known[expr]

    def guard(self, predicate: Expr | None) -> "tuple[Expr | None, _SimplifyFunc]":
        """A predicate simplified, and what is known where it holds."""
        if predicate is None:
            return None, self
        name = key(predicate)
        if name not in self.guards:
            new = _simplified_guard(predicate, self.ranges)
            held = self if new is None else _SimplifyFunc(self.ranges.assume(new))
            self.guards[name] = (predicate, new, held)
        first, new, held = self.guards[name]
        return (predicate if new is first else new), held

    def simplified_block(self, item: Block) -> Stmt:
        """The block, looked at only once for the same surroundings if it is simple already."""
        if _SIMPLE_IN.get(item) == self.surroundings:
            return item
        new = self.visit_Block(item)
        if new is item:
            _SIMPLE_IN[item] = self.surroundings
        return new

    def visit_Store(self, item: Store) -> Stmt:
        """An update stays one: a sum of int64 would be put into an order of its own."""
        indices = tuple(self.simple(at) for at in item.indices)
        same = all(a is b for a, b in zip(indices, item.indices, strict=True))
        value, indices = item.value, item.indices if same else indices
        value = self._update(value, item.buffer)
        return replace(item, indices=indices, value=value)

    def _update(self, value: Expr, target: Buffer) -> Expr:
        if not isinstance(value, Binary) or not reads(value, target):
            return self.simple(value)
        sides = self._update(value.a, target), self._update(value.b, target)
        return replace(value, a=sides[0], b=sides[1])

    def visit_For(self, item: For) -> Stmt:
        inner = _SimplifyFunc(loop_ranges((item,), self.ranges))
        return replace(item, extent=self.visit(item.extent), body=inner.visit(item.body))

    def visit_Block(self, item: Block) -> Stmt:
        predicate, held = self.guard(item.predicate)
        iters = tuple(replace(it, value=held.value(it.value)) for it in item.iters)
        same = all(a is b for a, b in zip(iters, item.iters, strict=True))
        lasts = self.ranges.assume(lasting(predicate, item))
        inside = _SimplifyFunc(lasts.extended({it.var: it.extent for it in item.iters}))
        return replace(
            item,
            predicate=predicate,
            iters=item.iters if same else iters,
            init=inside.visit(item.init),
            body=inside.visit(item.body),
        )


def _simplified_guard(guard: Expr | None, ranges: Ranges) -> Expr | None:
    """The conjuncts of a guard that are not sure to hold anyway."""
    parts = list(conjuncts(guard))
    kept = [part for part in parts if not ranges.prove(part)]
    new = [simplify(part, ranges) for part in kept]
    if len(kept) == len(parts) and all(a is b for a, b in zip(new, parts, strict=True)):
        return guard
    return conjunction(new)


def finish(func: PrimFunc, code: str = "", hint: str = "") -> PrimFunc:
    """A transformed function with its indices simplified and all that it claims proven anew.

    Refused where a proof is not found, with `code` and `hint` or those of what is not proven.
    """
    parts = top_statements(func)
    new = tuple(map(_simplified, parts))
    if any(a is not b for a, b in zip(new, parts, strict=True)):
        func = replace(func, body=Seq(new) if isinstance(func.body, Seq) else new[0])
    try:
        check_blocks(func)
    except VerifyError as error:
        why = f"after this step {error.why}"
        if error.code == "E135":
            refuse(error.code, why, at=func, hint="a step that makes it less large")
        why += ", as far as is known"
        raise ScheduleError(
            why, code=code or error.code, span=error.span, example=error.example, hint=hint
        ) from None
    check_concurrent_loops(func)
    return func


_SIMPLE: WeakSet[Stmt] = WeakSet()
"""Statements of functions that are in their simplest form."""

_SIMPLE_IN: WeakKeyDictionary[Block, Hashable] = WeakKeyDictionary()
"""What was last known around a block that was found to be in its simplest form."""


def _simplified(stmt: Stmt) -> Stmt:
    if stmt in _SIMPLE:
        return stmt
    new: Stmt = _SimplifyFunc(Ranges()).visit(stmt)
    if new is stmt:
        _SIMPLE.add(stmt)
    return new


def check_concurrent_loops(func: PrimFunc) -> None:
    """Refuse a function in which a parallel or vectorized loop carries a dependence."""
    if all(loop.kind in ("serial", "unrolled") for loop in loops_in(func.body)):
        return
    check_thread_axes(func)
    found = concurrent_dependence(func)
    if found is not None:
        check_independent(func, found.loop, found.loop.kind)


def check_thread_axes(func: PrimFunc) -> None:
    """Refuse a function in which a GPU axis is nested in itself, or has two sizes in one nest."""
    bound = any(loop.kind == "thread_binding" for loop in loops_in(func.body))
    found = axis_conflict(func) if bound else None
    if found is not None:
        loop, why = found
        refuse("E141", why, at=loop, hint="bind the loop to another axis, or leave it serial")


def check_independent(func: PrimFunc, loop: For, kind: str, items: list | None = None) -> None:
    """Refuse unless the iterations of `loop` may run together as `kind` runs them."""
    items = accesses(func) if items is None else items
    private = () if kind == "vectorized" else private_candidates(func, loop, items)
    found = carried_dependence(loop, items, private)
    if found is None:
        return
    name = loop.var.name
    first = found.first
    code, why = "E104", f"{name} carries a dependence through {first.buffer.name}"
    hint = _free_loop(func, loop, kind, items)
    if first.role in ("update", "init") and first.block is not None:
        why = f"{name} is a reduction loop of block {first.block.name}"
        if hint.startswith("leave"):
            hint = "partial results first, combined afterwards"
    if carried_dependence(loop, items, func.allocs) is None:
        lanes = next(lp for lp in _around(loop, items) if has_lanes(lp) or lp is loop)
        why = f"all lanes of {lanes.var.name} would share the private buffer {first.buffer.name}"
        code, hint = "E111", f'sch.parallel("{name}")  # gives each iteration a copy of its own'
        if lanes is not loop:
            why = f'it is in the vectorized loop "{lanes.var.name}", and {why}'
            hint = f"leave {lanes.var.name} or {name} serial"
    refuse(
        code,
        f'"{name}" cannot be {spoken(kind)}: {why}',
        at=loop,
        example=found.explain(),
        hint=hint,
    )


def _around(loop: For, items: Sequence[Access]) -> tuple[For, ...]:
    """The loops of an access inside `loop`, outermost first."""
    return next(item.loops for item in items if loop in item.loops)


def _free_loop(func: PrimFunc, loop: For, kind: str, items: list) -> str:
    """A loop of the same nest whose iterations are independent: the outermost one for threads,
    the innermost one for lanes.
    """
    around = _around(loop, items)
    others = [other for other in around if other is not loop and other.kind == "serial"]
    for other in reversed(others) if kind == "vectorized" else others:
        private = () if kind == "vectorized" else private_candidates(func, other, items)
        if carried_dependence(other, items, private) is None:
            name = other.var.name
            call = {
                "vectorized": f'vectorize("{name}")',
                "thread_binding": f'bind("{name}", "{loop.thread or "threadIdx.x"}")',
            }.get(kind, f'parallel("{name}")')
            return f"sch.{call}  # its iterations touch different elements"
    return f"leave {loop.var.name} serial"
