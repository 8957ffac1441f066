"""The loop IR's grammar on one page.

    func  ::= PrimFunc(params, allocs, body, attrs)
    stmt  ::= Seq(stmts) | For(var, extent, kind, body) | Block(name, iters, predicate, init, body)
            | Store(buffer, indices, value) | IfThenElse(condition, then_case, else_case)
            | Alloc(buffer, body)
    expr  ::= Var | Const | Unary(op, a) | Binary(op, a, b) | Select(condition, a, b)
            | Cast(dtype, a) | Intrin(name, args) | Load(buffer, indices) | Let(var, value, body)

Loops start at 0. A block is one step of computation, run once per value of the loops around it;
each of its iters takes the value of an expression over those loops. What a block reads and writes
is not part of the tree: `minimlc.tir.analysis.regions` derives it.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, NoReturn, TypeVar

import numpy as np

from minimlc.dtypes import (
    DTYPES,
    INDEX,
    dtype_record,
    integer_range,
    is_float,
    is_integer,
    whole_range,
)
from minimlc.errors import CompileError, did_you_mean, not_compiled, shown
from minimlc.node import Mutator, Node, node
from minimlc.tir.intrinsics import INTRINSICS, RECORDS

LoopKind = Literal["serial", "parallel", "vectorized", "unrolled", "thread_binding"]
IterKind = Literal["S", "R", "O"]
Annotations = tuple[tuple[str, object], ...]
MOST_OF_EXPR = 2**16
"""As many nodes may stand in an expression."""
N = TypeVar("N", bound=Node)

LOOP_KINDS: dict[LoopKind, str] = {
    "serial": "T.serial",
    "parallel": "T.parallel",
    "vectorized": "T.vectorized",
    "unrolled": "T.unroll",
    "thread_binding": "T.thread_binding",
}
"""Each kind of loop and how a script spells it."""

ITER_KINDS: dict[IterKind, str] = {
    "S": "T.axis.spatial",
    "R": "T.axis.reduce",
    "O": "T.axis.opaque",
}
"""Spatial: every value writes its own elements. Reduce: values combine into one element.
Opaque: the values must be taken in order."""


class _Tracing(threading.local):
    on = False


_tracing = _Tracing()


@contextmanager
def tracing() -> Iterator[None]:
    """While a function of the user's is called with expressions, `==` and `!=` compare their values
    when the program runs, as `<` always does; elsewhere they ask whether two nodes are the same.
    """
    before, _tracing.on = _tracing.on, True
    try:
        yield
    finally:
        _tracing.on = before


class Expr(Node):
    """A scalar value; every expression has a `dtype`."""

    __slots__ = ()
    _most: ClassVar[int | None] = MOST_OF_EXPR
    _word: ClassVar[str] = "expression"
    dtype: str

    def __add__(self, other: "ExprLike") -> "Expr":
        return binary("+", self, other)

    def __radd__(self, other: "ExprLike") -> "Expr":
        return binary("+", other, self)

    def __sub__(self, other: "ExprLike") -> "Expr":
        return binary("-", self, other)

    def __rsub__(self, other: "ExprLike") -> "Expr":
        return binary("-", other, self)

    def __mul__(self, other: "ExprLike") -> "Expr":
        return binary("*", self, other)

    def __rmul__(self, other: "ExprLike") -> "Expr":
        return binary("*", other, self)

    def __truediv__(self, other: "ExprLike") -> "Expr":
        return binary("/", self, other)

    def __rtruediv__(self, other: "ExprLike") -> "Expr":
        return binary("/", other, self)

    def __floordiv__(self, other: "ExprLike") -> "Expr":
        return binary("//", self, other)

    def __rfloordiv__(self, other: "ExprLike") -> "Expr":
        return binary("//", other, self)

    def __mod__(self, other: "ExprLike") -> "Expr":
        return binary("%", self, other)

    def __rmod__(self, other: "ExprLike") -> "Expr":
        return binary("%", other, self)

    def __neg__(self) -> "Expr":
        return unary("-", self)

    def __lt__(self, other: "ExprLike") -> "Expr":
        return binary("<", self, other)

    def __le__(self, other: "ExprLike") -> "Expr":
        return binary("<=", self, other)

    def __gt__(self, other: "ExprLike") -> "Expr":
        return binary(">", self, other)

    def __ge__(self, other: "ExprLike") -> "Expr":
        return binary(">=", self, other)

    def __and__(self, other: "ExprLike") -> "Expr":
        return _joined("and", "&", self, other)

    def __rand__(self, other: "ExprLike") -> "Expr":
        return _joined("and", "&", other, self)

    def __or__(self, other: "ExprLike") -> "Expr":
        return _joined("or", "|", self, other)

    def __ror__(self, other: "ExprLike") -> "Expr":
        return _joined("or", "|", other, self)

    def __xor__(self, other: "ExprLike") -> "Expr":
        return binary("^", self, other)

    def __lshift__(self, other: "ExprLike") -> "Expr":
        return binary("<<", self, other)

    def __rshift__(self, other: "ExprLike") -> "Expr":
        return binary(">>", self, other)

    def __invert__(self) -> "Expr":
        return unary("not" if self.dtype == "bool" else "~", self)

    def __eq__(self, other: object) -> Any:
        return binary("==", self, other) if _tracing.on else self is other  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Any:
        return binary("!=", self, other) if _tracing.on else self is not other  # type: ignore[arg-type]

    __hash__ = Node.__hash__

    def equal(self, other: "ExprLike") -> "Expr":
        """The comparison `self == other`, also where `==` asks whether two nodes are the same."""
        return binary("==", self, other)

    def astype(self, dtype: str) -> "Expr":
        """This value converted to `dtype`."""
        return self if self.dtype == dtype else Cast(dtype_record(dtype).name, self)

    def __bool__(self) -> bool:
        text = self.script()
        condition = text if len(text) <= 50 else "condition"
        raise CompileError(
            "a traced value has no truth while the program is being written",
            code="E112",
            hint=f"T.if_then_else({condition}, a, b)  # chooses for each element",
        )


ExprLike = Expr | int | float | bool


@node
class Var(Expr):
    """A loop variable or the variable of a block's iter."""

    _symbol: ClassVar[bool] = True
    name: str
    dtype: str = INDEX


@node
class Buffer(Node):
    """A dense, row-major array: `shape` in elements.

    `scope` says where it should live: "global" memory, or "local" to the innermost loop that can
    own it (registers or stack, when it is small), "shared" on a GPU, or "amx.tile", the tile
    registers of a CPU that has them.
    """

    _symbol: ClassVar[bool] = True
    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str = "global"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: "ExprLike | tuple[ExprLike, ...]") -> "Load":
        items = indices if isinstance(indices, tuple) else (indices,)
        return load(self, items)


@node
class Const(Expr):
    """A number or a truth value of a dtype."""

    value: int | float | bool
    dtype: str


@node
class Unary(Expr):
    """`-a`, `not a` or `~a`."""

    op: str
    a: Expr

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.a.dtype


COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
LOGICAL = ("and", "or")
BITWISE = ("&", "|", "^", "<<", ">>")
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "min", "max")
BINARY_OPS = ARITHMETIC + COMPARISONS + LOGICAL + BITWISE


@node
class Binary(Expr):
    """Two operands of one dtype; comparisons give bool.

    `//` and `%` round towards minus infinity, as Python's; on floats they are numpy's
    `floor_divide` and `remainder`, on integers a zero divisor is an error to the interpreter and
    target "python", and gives 0 in native code. `min` and `max` pass NaN on, as numpy's `minimum`
    and `maximum`: `max(a, b)` is `a` where `a >= b` or `a` is NaN, else `b`. Integer arithmetic
    wraps. A shift by a negative count, or by the type's bits or more, gives 0 (-1 for `>>` of a
    negative value), as numpy's. `and` and `or` evaluate `b` only where it counts. 16-bit floats:
    each operation is computed in float32 and rounded.
    """

    op: str
    a: Expr
    b: Expr

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return "bool" if self.op in COMPARISONS or self.op in LOGICAL else self.a.dtype


@node
class Select(Expr):
    """`a` where `condition` holds, else `b`; only the chosen side is evaluated."""

    condition: Expr
    a: Expr
    b: Expr

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.a.dtype


@node
class Cast(Expr):
    """`a` converted to `dtype` as numpy's `astype` does, and defined where that is not.

    A float becomes an integer by dropping its fraction; out of range it saturates, NaN gives 0
    (what LLVM's `fptosi.sat` does; in C, and so in numpy, it depends on the machine). Integers
    wrap. To bool: whether the value differs from 0, so NaN is true. 64-bit floats and wide integers
    become 16-bit floats by way of float32.
    """

    dtype: str
    a: Expr


@node
class Intrin(Expr):
    """A mathematical function of `minimlc.tir.intrinsics`, computed in its arguments' dtype."""

    name: str
    args: tuple[Expr, ...]

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return RECORDS[self.name].result(self.args[0].dtype)


@node
class Load(Expr):
    """One element of a buffer."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.buffer.dtype


@node
class Let(Expr):
    """`body`, in which `var` is `value`, evaluated once. Lowering makes it; no script says it."""

    _binds: ClassVar[tuple[str, ...]] = ("var",)
    var: Var
    value: Expr
    body: Expr

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.body.dtype


class Stmt(Node):
    """An action; statements run in order."""

    __slots__ = ()


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
    values speak of the loops around the block, `init` and `body` may use the iters' variables too.
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
class Alloc(Stmt):
    """A buffer that lives while `body` runs: lowering places storage with it.

    NB: in TVM, blocks carry allocations; here a program's own ones are `PrimFunc.allocs`.
    """

    _binds: ClassVar[tuple[str, ...]] = ("buffer",)
    buffer: Buffer
    body: Stmt


@node
class PrimFunc(Node):
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


def const(value: int | float | bool, dtype: str) -> Const:
    """A constant of `dtype`; integers wrap into range, floats are kept as Python floats."""
    kind = dtype_record(dtype).kind
    if kind == "float":
        return Const(_as_float(value, dtype), dtype)
    if kind == "bool":
        return Const(bool(value), dtype)
    low, high = integer_range(dtype)
    return Const((int(value) - low) % (high - low + 1) + low, dtype)


def _as_float(value: int | float, dtype: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise CompileError(f"the number {shown(value)} is no {dtype}", code="E108") from None


def index(value: int) -> Const:
    """A constant index; wraps at 64 bits as all index arithmetic does."""
    return const(value, INDEX)


def as_expr(value: ExprLike, dtype: str | None = None) -> Expr:
    """`value` as an expression; a Python number takes `dtype` where one is given."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool | np.bool_):
        value = bool(value)
        return Const(value, "bool") if dtype in (None, "bool") else const(value, dtype)
    if isinstance(value, int | np.integer):
        _check_range(int(value), dtype or INDEX)
        return const(int(value), dtype or INDEX)
    if isinstance(value, float | np.floating):
        if dtype is None or is_float(dtype):
            return Const(float(value), dtype or "float32")
        raise CompileError(
            f"the number {value} is no {dtype}",
            code="E108",
            hint=f'T.cast(x, "float32") for the {dtype} side{_WHOLE if dtype == INDEX else ""}',
        )
    if hasattr(value, "__float__"):
        return as_expr(float(value), dtype)
    why = f"expected a number or an expression, got {type(value).__name__}: {shown(value)}"
    raise CompileError(why, code="E108")


_WHOLE = "; an index is an integer: vi * 3 // 2"


def _check_range(value: int, dtype: str) -> None:
    """Refuse an integer that a dtype does not have."""
    limits = whole_range(dtype_record(dtype).name)
    if limits is not None and not limits[0] <= value <= limits[1]:
        why = f"{shown(value)} is not in {limits[0]} ... {limits[1]}, as {dtype} is"
        hint = 'T.cast(x, "int64") for the other side' if limits[1] < 2**63 - 1 else ""
        raise CompileError(why, code="E108", hint=hint)


def _pair(op: str, a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both operands as expressions; a Python number takes the other operand's dtype."""
    if isinstance(a, Expr):
        left, right = a, as_expr(b, a.dtype)
    elif isinstance(b, Expr):
        left, right = as_expr(a, b.dtype), b
    else:
        left, right = as_expr(a), as_expr(b)
    if left.dtype != right.dtype:
        raise CompileError(
            f'"{op}" needs two operands of one dtype, got {left.dtype} and {right.dtype}',
            code="E108",
            hint=_cast_hint(left, right),
        )
    return left, right


def _cast_hint(left: Expr, right: Expr) -> str:
    """Which operand to convert: the integer beside a float, else the second."""
    to_right = is_float(right.dtype) and not is_float(left.dtype)
    item, dtype = (left, right.dtype) if to_right else (right, left.dtype)
    text = repr(item)
    if len(text) <= 24 and "\n" not in text:
        return f'T.cast({text}, "{dtype}")'
    return f'T.cast(x, "{dtype}") converts the {"first" if to_right else "second"} operand'


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """`a op b` with its dtypes checked; a Python number takes the other operand's dtype."""
    if op not in BINARY_OPS:
        hint = did_you_mean(op, BINARY_OPS)
        raise CompileError(f'unknown operator "{op}"', code="E124", hint=hint)
    left, right = _pair(op, a, b)
    _check_operands(op, left.dtype)
    return Binary(op, left, right)


def _joined(logical: str, bitwise: str, a: ExprLike, b: ExprLike) -> Expr:
    """`a & b` or `a | b`: of conditions it is `and` or `or`, which proofs understand."""
    left, right = _pair(bitwise, a, b)
    return binary(logical if left.dtype == "bool" else bitwise, left, right)


def _check_operands(op: str, dtype: str) -> None:
    bad = ""
    if op == "/" and not is_float(dtype):
        bad = "use // for integers, or cast to a float dtype first"
    elif op in LOGICAL and dtype != "bool":
        bad = "compare first, for example x > 0"
    elif op in BITWISE and is_float(dtype):
        bad = "bit operations need integers"
    elif op in ("+", "-", "*", "//", "%") and dtype == "bool":
        bad = 'cast to a number first, for example T.cast(x, "int32")'
    elif op in ("<<", ">>") and dtype == "bool":
        bad = "shifts need integers"
    if bad:
        raise CompileError(f'"{op}" does not apply to {dtype}', code="E108", hint=bad)


def unary(op: str, a: ExprLike) -> Expr:
    """`-a`, `not a` or `~a`, with its dtype checked."""
    value = as_expr(a)
    fits = {
        "-": is_float(value.dtype) or is_integer(value.dtype),
        "not": value.dtype == "bool",
        "~": is_integer(value.dtype),
    }
    if not fits[op]:
        raise CompileError(f'"{op}" does not apply to {value.dtype}', code="E108")
    if op == "-" and isinstance(value, Const):
        return const(-value.value, value.dtype)
    return Unary(op, value)


def select(condition: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """`a` where `condition` holds, else `b`, with its dtypes checked."""
    test = as_expr(condition)
    if test.dtype != "bool":
        raise CompileError(f"a condition must be bool, got {test.dtype}", code="E108")
    return Select(test, *_pair("if_then_else", a, b))


def intrin(name: str, *args: ExprLike) -> Expr:
    """A call of a mathematical function, with its arity and dtype checked."""
    if name not in INTRINSICS:
        hint = did_you_mean(name, INTRINSICS)
        raise CompileError(f'unknown function "{name}"', code="E120", hint=hint)
    record = INTRINSICS[name]
    if len(args) != record.arity:
        why = f"{name} takes {record.arity} argument(s), got {len(args)}"
        raise CompileError(why, code="E121")
    typed = next((a.dtype for a in args if isinstance(a, Expr)), "float32")
    values = tuple(as_expr(a, typed) for a in args)
    kinds = {DTYPES[v.dtype].kind for v in values}
    if len({v.dtype for v in values}) != 1 or not kinds <= set(record.kinds):
        got = ", ".join(v.dtype for v in values)
        raise CompileError(f"{name} does not apply to {got}", code="E108")
    return Intrin(name, values)


def load(buffer: Buffer, indices: Iterable[ExprLike]) -> Load:
    """`buffer[indices]`, with the number of indices and their dtype checked."""
    return Load(buffer, _indices(buffer, indices))


def store(buffer: Buffer, indices: Iterable[ExprLike], value: ExprLike) -> Store:
    """`buffer[indices] = value`; a Python number takes the buffer's dtype."""
    stored = as_expr(value, buffer.dtype)
    if stored.dtype != buffer.dtype:
        raise CompileError(
            f"{buffer.name} holds {buffer.dtype}, the value is {stored.dtype}",
            code="E108",
            hint=f'T.cast(value, "{buffer.dtype}")',
        )
    return Store(buffer, _indices(buffer, indices), stored)


def _indices(buffer: Buffer, indices: Iterable[ExprLike]) -> tuple[Expr, ...]:
    items = tuple(as_expr(i, INDEX) for i in indices)
    if len(items) != buffer.ndim:
        raise CompileError(
            f"{buffer.name} has {buffer.ndim} dimension(s), got {len(items)} index(es)",
            code="E107",
            hint=f"{buffer.name} has shape {buffer.shape}",
        )
    for item in items:
        if not is_integer(item.dtype):
            raise CompileError(f"an index must be an integer, got {item.dtype}", code="E107")
    return tuple(i.astype(INDEX) for i in items)


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


class _Substitute(Mutator):
    def __init__(self, mapping: dict[Node, Node]):
        self.mapping = mapping

    def visit_Var(self, item: Var) -> Node:
        return self.mapping.get(item, item)

    def visit_Buffer(self, item: Buffer) -> Node:
        return self.mapping.get(item, item)


def substitute(item: N, mapping: dict[Node, Node]) -> N:
    """`item` with variables replaced by expressions and buffers by buffers."""
    return _Substitute(mapping).visit(item) if mapping else item
