"""The end of most primitives: the result simplified, and its claims noted, to be proven anew."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.proofs.access import (
    Access,
    accesses,
    lasting,
    loop_ranges,
    reads,
    top_statements,
    touched,
)
from minimlc.loops.proofs.arith import conjuncts, key, variables
from minimlc.loops.proofs.legality import (
    carried_dependence,
    concurrent_dependence,
    has_lanes,
    private_candidates,
)
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.scopes import Scopes
from minimlc.loops.proofs.simplify import Simplifier, simplify
from minimlc.loops.proofs.wellformed import check_blocks
from minimlc.loops.schedule.primitive import claim, location
from minimlc.loops.schedule.tree import spoken
from minimlc.loops.values.errors import ScheduleError, VerifyError
from minimlc.loops.values.node import Mutator, replace, unchanged
from minimlc.loops.values.parts import Hook

N = TypeVar("N", ir.Expr, ir.Stmt)


class _SimplifyFunc(Mutator):
    """Simplifies indices by the ranges of the loops around them."""

    def __init__(self, ranges: Ranges):
        self.ranges = ranges
        self.known: dict[ir.Expr, ir.Expr] = {}
        self.values: dict[Hashable, tuple[ir.Expr, ir.Expr]] = {}
        self.guards: dict[Hashable, tuple[ir.Expr, ir.Expr | None, _SimplifyFunc]] = {}

    def visit(self, value: Any) -> Any:
        if isinstance(value, ir.Expr):
            return self.simple(value)
        if isinstance(value, ir.Stmt):
            return self._once(value, super().visit)
        return super().visit(value)

    def simple(self, expr: ir.Expr) -> ir.Expr:
        """The expression simplified: once, however many blocks have it as an iter's value."""
        if isinstance(expr, ir.Const | ir.Var):
            return expr
        if expr not in self.known:
            self.known[expr] = self._once(expr, Simplifier(self.ranges).visit)
        return self.known[expr]

    def value(self, expr: ir.Expr) -> ir.Expr:
        """An iter's value simplified: once for all blocks that have an equal one."""
        if expr not in self.known:
            self.known[expr] = self._once(expr, self._value)
        return self.known[expr]

    def _value(self, expr: ir.Expr) -> ir.Expr:
        name = key(expr)
        if name not in self.values:
            self.values[name] = (expr, Simplifier(self.ranges).visit(expr))
        first, new = self.values[name]
        return expr if new is first else new

    def _once(self, item: N, simplified: Callable[[N], N]) -> N:
        """An expression or statement simplified; it notes the last ranges of its variables for
        which it was in its simplest form.
        """
        near = self.ranges.key(variables(item))
        if getattr(item, "_simple", None) == near:
            return item
        new = simplified(item)
        if new is item:
            object.__setattr__(item, "_simple", near)
        return new

    def guard(self, predicate: ir.Expr | None) -> "tuple[ir.Expr | None, _SimplifyFunc]":
        """A predicate simplified, and the simplifier for where it holds."""
        if predicate is None:
            return None, self
        name = key(predicate)
        if name not in self.guards:
            new = _simplified_guard(predicate, self.ranges)
            held = self if new is None else _SimplifyFunc(self.ranges.assume(new))
            self.guards[name] = (predicate, new, held)
        first, new, held = self.guards[name]
        return (predicate if new is first else new), held

    def visit_Store(self, item: ir.Store) -> ir.Stmt:
        """An update stays one: a sum of int64 would get another order."""
        value = self._update(item.value, item.buffer)
        return replace(item, indices=self.map_tuple(item.indices), value=value)

    def _update(self, value: ir.Expr, target: ir.Buffer) -> ir.Expr:
        if not isinstance(value, ir.Binary) or not reads(value, target):
            return self.simple(value)
        sides = self._update(value.a, target), self._update(value.b, target)
        return replace(value, a=sides[0], b=sides[1])

    def visit_For(self, item: ir.For) -> ir.Stmt:
        inner = _SimplifyFunc(loop_ranges((item,), self.ranges))
        return replace(item, extent=self.visit(item.extent), body=inner.visit(item.body))

    def visit_Block(self, item: ir.Block) -> ir.Stmt:
        predicate, held = self.guard(item.predicate)
        iters = tuple(replace(it, value=held.value(it.value)) for it in item.iters)
        lasts = self.ranges.assume(lasting(predicate, item))
        inside = _SimplifyFunc(lasts.extended({it.var: it.extent for it in item.iters}))
        return replace(
            item,
            predicate=predicate,
            iters=iters,
            init=inside.visit(item.init),
            body=inside.visit(item.body),
        )


def _simplified_guard(guard: ir.Expr | None, ranges: Ranges) -> ir.Expr | None:
    """The conjuncts of a guard that are not sure to hold anyway."""
    parts = tuple(conjuncts(guard))
    new = tuple(simplify(part, ranges) for part in parts if not ranges.prove(part))
    return guard if unchanged(parts, new) is parts else ir.conjunction(new)


def finish(func: ir.PrimFunc, code: str = "", hint: str = "") -> ir.PrimFunc:
    """A transformed function with its indices simplified, and a note that its claims are to be
    proven: scopes of buffers, ranges, kinds of axes, independence of concurrent loops. That serial
    iterations may change their order, that an init comes first, or that values stay the same is
    not among them: a rule's guards see to it.

    The proof runs where the decorated primitive returns; where a schedule leaves claims open, its
    caller asks for it by `proven`. It refuses with `code` and `hint`, or with those of the failure.
    """
    parts = top_statements(func)
    new = unchanged(parts, [*map(_simplified, parts)])
    if new is not parts:
        func = replace(func, body=ir.Seq(new) if isinstance(func.body, ir.Seq) else new[0])
    return claim(func, partial(proven, code=code, hint=hint))


def proven(func: ir.PrimFunc, code: str = "", hint: str = "") -> ir.PrimFunc:
    """A function all of whose claims are proven; refused as by `finish`."""
    if func in _PROVEN:
        return func
    if func in _ALIKE:
        return as_proven(func, proven(_ALIKE.pop(func), code, hint))
    _check_scopes(func)
    try:
        check_blocks(func)
    except VerifyError as error:
        why = f"after this step {error.why}"
        if error.code == "E135":
            smaller = "a step that makes it less large"
            raise ScheduleError(why, code=error.code, **location(func), hint=smaller) from None
        why += ", as far as is known"
        raise ScheduleError(
            why, code=code or error.code, span=error.span, example=error.example, hint=hint
        ) from None
    check_concurrent_loops(func)
    _PROVEN.add(func)
    return func


def as_proven(func: ir.PrimFunc, other: ir.PrimFunc) -> ir.PrimFunc:
    """`func`, which claims the same as `other`: it is proven if that is, or once it is."""
    if other in _PROVEN:
        _PROVEN.add(func)
    else:
        _ALIKE[func] = _ALIKE.get(other, other)
    return func


def _check_scopes(func: ir.PrimFunc) -> None:
    """Each buffer is used where it exists: a block may have moved out of the scope of one."""
    everywhere = {*func.params, *func.allocs}
    parts = top_statements(func)
    if all(touched(part) <= everywhere for part in parts):
        return
    try:
        Scopes("after this step").function(func)
    except VerifyError as error:
        raise ScheduleError(error.why, code=error.code, span=error.span) from None


LOOP_CHECKS = Hook[Callable[[ir.PrimFunc], None]]("checks of concurrent loops")
"""Checks that raise a `ScheduleError` for other reasons than dependences."""

_PROVEN: WeakSet[ir.PrimFunc] = WeakSet()
"""Functions whose claims are proven: a recipe may end with the result of another one."""

_ALIKE: WeakKeyDictionary[ir.PrimFunc, ir.PrimFunc] = WeakKeyDictionary()
"""Functions that are not proven yet, with others that claim the same."""

_SIMPLE: WeakSet[ir.Stmt] = WeakSet()
"""Statements of functions that are in their simplest form."""


def _simplified(stmt: ir.Stmt) -> ir.Stmt:
    if stmt in _SIMPLE:
        return stmt
    new: ir.Stmt = _SimplifyFunc(Ranges()).visit(stmt)
    if new is stmt:
        _SIMPLE.add(stmt)
    return new


def check_concurrent_loops(func: ir.PrimFunc) -> None:
    """Refuse a function in which a parallel or vectorized loop carries a dependence."""
    if all(loop.kind in ("serial", "unrolled") for loop in loops_in(func.body)):
        return
    for check in LOOP_CHECKS:
        check(func)
    conflict = concurrent_dependence(func)
    if conflict is not None:
        check_independent(func, conflict.loop, conflict.loop.kind)


def check_independent(func: ir.PrimFunc, loop: ir.For, kind: str, thread: str = "") -> None:
    """Refuse unless the iterations of `loop` may run together as `kind`, or `thread`, runs them."""
    items = accesses(func)
    private = () if kind == "vectorized" else private_candidates(func, loop, items)
    conflict = carried_dependence(loop, items, private, thread)
    if conflict is None:
        return
    name = loop.var.name
    first = conflict.first
    code, why = "E104", f"{name} carries a dependence through {first.buffer.name}"
    hint = _free_loop(func, loop, kind, items, thread or loop.thread)
    if first.role in ("update", "init") and first.block is not None:
        why = f"{name} is a reduction loop of block {first.block.name}"
        if hint.startswith("leave"):
            hint = "partial results first, combined afterwards"
    if carried_dependence(loop, items, func.allocs, thread) is None:
        lanes = next(lp for lp in _around(loop, items) if has_lanes(lp) or lp is loop)
        why = f"all lanes of {lanes.var.name} would share the private buffer {first.buffer.name}"
        code, hint = "E111", f'sch.parallel("{name}")  # gives each iteration a copy of its own'
        if lanes is not loop:
            why = f'it is in the vectorized loop "{lanes.var.name}", and {why}'
            hint = f"leave {lanes.var.name} or {name} serial"
    why = f'"{name}" cannot be {spoken(kind)}: {why}'
    raise ScheduleError(why, code=code, **location(loop), example=conflict.explain(), hint=hint)


def _around(loop: ir.For, items: Sequence[Access]) -> tuple[ir.For, ...]:
    """The loops of an access inside `loop`, outermost first."""
    return next(item.loops for item in items if loop in item.loops)


def _free_loop(func: ir.PrimFunc, loop: ir.For, kind: str, items: list, thread: str) -> str:
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
                "thread_binding": f'bind("{name}", "{thread}")',
            }.get(kind, f'parallel("{name}")')
            return f"sch.{call}  # its iterations touch different elements"
    return f"leave {loop.var.name} serial"
