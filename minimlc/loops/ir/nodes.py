"""The loop IR's grammar on one page.

    func  ::= PrimFunc(params, allocs, body, attrs) | SymbolicFunc(sizes, scalars, func, attrs)
    stmt  ::= Seq(stmts) | For(var, extent, kind, body) | Block(name, iters, predicate, init, body)
            | Store(buffer, indices, value) | IfThenElse(condition, then_case, else_case)
            | While(condition, body) | Alloc(buffer, body)
    expr  ::= Var | Const | Unary(op, a) | Binary(op, a, b) | Select(condition, a, b)
            | Cast(dtype, a) | Intrin(name, args) | Load(buffer, indices) | Let(var, value, body)

Loops start at 0. A block is one step of computation, run once per value of the loops around it;
each of its iters takes the value of an expression over those loops. What a block reads and writes
is not part of the tree: `loops.proofs.regions` derives it. Formulas of `te` have two more
expressions (`loops.te.tensors`): `ReduceAxis` and `Size`, known only at the call. Kernels for
GPUs have one more statement, `Barrier` (`targets.gpu.kernels`).
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, ClassVar, Literal, NoReturn, TypeVar

from minimlc.loops.ir.expr import (  # noqa: F401 (the grammar's other half, imported from here)
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    ExprLike,
    Intrin,
    Load,
    Select,
    Unary,
    Var,
    as_expr,
    binary,
    check_indices,
    const,
    index,
    intrin,
    load,
    meeting,
    select,
    unary,
)
from minimlc.loops.ir.operators import ARITHMETIC, BINARY_OPS, BITWISE, COMPARISONS, LOGICAL  # noqa: F401
from minimlc.loops.values.constants import Attributed
from minimlc.loops.values.errors import CompileError, not_compiled
from minimlc.loops.values.node import Mutator, Node, node

THREAD = "threadIdx"
"""The prefix of the axes of a block's threads on a GPU, which barriers synchronize."""
SHARED = "shared"
"""The prefix of the scopes of the memory that these threads share."""
LoopKind = Literal["serial", "parallel", "vectorized", "unrolled", "thread_binding"]
IterKind = Literal["S", "R", "O"]
Annotations = tuple[tuple[str, object], ...]
N = TypeVar("N", bound=Node)

SCALAR = "scalar"
"""The scope of a parameter that is a number."""

LOOP_KINDS: dict[LoopKind, str] = {
    "serial": "T.serial",
    "parallel": "T.parallel",
    "vectorized": "T.vectorized",
    "unrolled": "T.unroll",
    "thread_binding": "T.thread_binding",
}
"""The kinds of loops, and their spellings in scripts."""

ITER_KINDS: dict[IterKind, str] = {
    "S": "T.axis.spatial",
    "R": "T.axis.reduce",
    "O": "T.axis.opaque",
}
"""Spatial: every value writes its own elements. Reduce: values combine into one element.
Opaque: the values must be taken in order."""


@node
class Let(Expr):
    """`body`, in which `var` is `value`, evaluated once. Lowering makes it; no script has it."""

    _binds: ClassVar[tuple[str, ...]] = ("var",)
    var: Var
    value: Expr
    body: Expr

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.body.dtype


class Stmt(Node):
    """An action; statements run in order. Proofs cache their results in it."""

    __slots__ = ("_simple",)


@node
class Seq(Stmt):
    """Statements one after the other."""

    stmts: tuple[Stmt, ...]


@node
class For(Stmt):
    """`body` for each `var` in 0 ... extent-1. `thread` names a GPU axis in a thread binding."""

    _levels: ClassVar[int] = 4
    _binds: ClassVar[tuple[str, ...]] = ("var",)
    var: Var
    extent: Expr
    kind: LoopKind
    body: Stmt
    thread: str = ""
    annotations: Annotations = ()


@node
class BlockIter(Node):
    """One axis of a block: takes `value`, within 0 ... extent-1, at each instance."""

    _binds: ClassVar[tuple[str, ...]] = ("var",)
    var: Var
    extent: int
    kind: IterKind
    value: Expr


@node
class Block(Stmt):
    """One step of computation over its iters.

    The instance runs only where `predicate` holds (None: everywhere); `predicate` and the iters'
    values are over the loops around the block; `init` and `body` may use the iters' variables too.
    `init` runs before `body` in the instances whose reduce iters are all 0.
    """

    _levels: ClassVar[int] = 4
    name: str
    iters: tuple[BlockIter, ...]
    predicate: Expr | None
    init: Stmt | None
    body: Stmt
    annotations: Annotations = ()


@node
class Store(Stmt):
    """Write one element; `value` has the buffer's dtype."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@node
class IfThenElse(Stmt):
    """`then_case` where `condition` holds, else `else_case` (None: nothing)."""

    condition: Expr
    then_case: Stmt
    else_case: Stmt | None = None


@node
class While(Stmt):
    """`body` again and again, as long as `condition` holds before it.

    The body holds stores and conditions alone: to a schedule it is one step, of unknown length.
    """

    condition: Expr
    body: Stmt


@node
class Alloc(Stmt):
    """A buffer that lives while `body` runs: lowering places storage with it.

    NB: in TVM, blocks carry allocations; here a function's buffers are `PrimFunc.allocs`.
    """

    _binds: ClassVar[tuple[str, ...]] = ("buffer",)
    buffer: Buffer
    body: Stmt


@node
class PrimFunc(Attributed):
    """A function on buffers that its caller owns (destination passing).

    `allocs` are the buffers it works with inside; their content is undefined at the start.
    """

    _binds: ClassVar[tuple[str, ...]] = ("params", "allocs")
    params: tuple[Buffer, ...]
    allocs: tuple[Buffer, ...]
    body: Stmt
    attrs: Annotations = ()

    def __call__(self, *_: object) -> NoReturn:
        raise not_compiled()


@node
class SymbolicFunc(Attributed):
    """A primitive function whose sizes are known only at the call: one function per choice.

    `func` is over the variables `sizes`: in it alone, the sizes of buffers and the extents of axes
    may be expressions. A call finds each size in the shape of an array; or it passes the number
    itself, if the size is one of `scalars`, each with its place among the call's arguments.
    `minimlc.services.sizes.symbolic_loops` makes the instances, in which all sizes are numbers.

    NB: in TVM, one function serves all sizes; here each size has its own program, proofs and
    code.
    """

    _binds: ClassVar[tuple[str, ...]] = ("sizes",)
    sizes: tuple[Var, ...]
    scalars: tuple[tuple[int, Var], ...]
    func: PrimFunc
    attrs: Annotations = ()

    def __call__(self, *_: object) -> NoReturn:
        raise not_compiled()


def store(buffer: Buffer, indices: Iterable[ExprLike], value: ExprLike) -> Store:
    """`buffer[indices] = value`; a Python number takes the buffer's dtype."""
    stored = meeting(as_expr(value, buffer.dtype), buffer.dtype)
    if stored.dtype != buffer.dtype:
        raise CompileError(
            f"{buffer.name} holds {buffer.dtype}, the value is {stored.dtype}",
            code="E108",
            hint=f'T.cast(value, "{buffer.dtype}")',
        )
    return Store(buffer, check_indices(buffer, indices), stored)


def seq(stmts: Iterable[Stmt]) -> Stmt:
    """Statements in order, flattened; a single one stands for itself."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Seq) else (stmt,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """All of the conditions; None when there are none."""
    result: Expr | None = None
    for condition in conditions:
        result = condition if result is None else Binary("and", result, condition)
    return result


Uses = tuple[frozenset[Var], frozenset[Buffer]]
_NOTHING: frozenset[Any] = frozenset()
_USES_NOTHING: Uses = (_NOTHING, _NOTHING)


def used(item: Node) -> Uses:
    """The variables of an expression or statement, and the buffers that it reads."""
    known: Uses | None = getattr(item, "_uses", None)
    if known is None:
        known = (_NOTHING, frozenset((item.buffer,))) if isinstance(item, Load) else _USES_NOTHING
        if item._symbol:
            known = frozenset((item,) if isinstance(item, Expr) else ()), _NOTHING  # type: ignore[arg-type]
        else:
            known = reduce(_both, map(used, item._facts[0]), known)
        object.__setattr__(item, "_uses", known)
    return known


def _both(a: Uses, b: Uses) -> Uses:
    """The union of two uses: one operand itself where it holds the other, as most nodes use no
    more than one of their parts does.
    """
    if b[0] <= a[0] and b[1] <= a[1]:
        return a
    return b if a[0] <= b[0] and a[1] <= b[1] else (a[0] | b[0], a[1] | b[1])


class Substitute(Mutator):
    """Replaces variables and buffers."""

    def __init__(self, mapping: Mapping[Any, Node]):
        self.mapping = mapping

    def visit(self, value: Any) -> Any:
        if isinstance(value, Expr) and all(map(self.mapping.keys().isdisjoint, used(value))):
            return value
        return super().visit(value)

    def visit_Var(self, item: Var) -> Node:
        return self.mapping.get(item, item)

    def visit_Buffer(self, item: Buffer) -> Node:
        return self.mapping.get(item, item)


def substitute(item: N, mapping: dict[Node, Node]) -> N:
    """`item` with variables replaced by expressions and buffers by buffers."""
    return Substitute(mapping).visit(item) if mapping else item
