"""Scalar expressions (the grammar is in `nodes`), and their constructors, which check dtypes."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from minimlc.loops.ir import operators
from minimlc.loops.ir.intrinsics import INTRINSICS, RECORDS
from minimlc.loops.ir.tracing import TRACING
from minimlc.loops.values.dtypes import (
    DTYPES,
    INDEX,
    dtype_record,
    integer_range,
    is_float,
    is_integer,
    whole_range,
)
from minimlc.loops.values.errors import CompileError, did_you_mean, shown
from minimlc.loops.values.node import Node, node, walk

COUNTED = 32  # the fewest bits of integers that scripts count with
MOST_OF_EXPR = 2**16
"""The most nodes in an expression."""


def _operator(op: str) -> "Method":
    """The method for `self op other`."""
    return lambda self, other: _joined(op, self, other)


def _reflected(op: str) -> "Method":
    """The method for `other op self`, where `other` is a number."""
    return lambda self, other: _joined(op, other, self)


def _joined(op: str, a: "ExprLike", b: "ExprLike") -> "Expr":
    """`a op b`; `&` and `|` of conditions are `and` and `or`, which proofs understand."""
    left, right = _pair(op, a, b)
    logical = {"&": "and", "|": "or"} if left.dtype == "bool" else {}
    return binary(logical.get(op, op), left, right)


class Expr(Node):
    """A scalar value; every expression has a `dtype`. Proofs cache their results in it."""

    __slots__ = ("_form", "_linear", "_simple")
    _most: ClassVar[int | None] = MOST_OF_EXPR
    _word: ClassVar[str] = "expression"
    dtype: str

    __add__, __radd__ = _operator("+"), _reflected("+")
    __sub__, __rsub__ = _operator("-"), _reflected("-")
    __mul__, __rmul__ = _operator("*"), _reflected("*")
    __truediv__, __rtruediv__ = _operator("/"), _reflected("/")
    __floordiv__, __rfloordiv__ = _operator("//"), _reflected("//")
    __mod__, __rmod__ = _operator("%"), _reflected("%")
    __and__, __rand__ = _operator("&"), _reflected("&")
    __or__, __ror__ = _operator("|"), _reflected("|")
    __xor__ = _operator("^")
    __lshift__ = _operator("<<")
    __rshift__ = _operator(">>")
    __lt__ = _operator("<")
    __le__ = _operator("<=")
    __gt__ = _operator(">")
    __ge__ = _operator(">=")

    def __neg__(self) -> "Expr":
        return unary("-", self)

    def __invert__(self) -> "Expr":
        return unary("not" if self.dtype == "bool" else "~", self)

    def __eq__(self, other: object) -> Any:
        return binary("==", self, other) if TRACING.on else self is other  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Any:
        return binary("!=", self, other) if TRACING.on else self is not other  # type: ignore[arg-type]

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
Method = Callable[[Expr, ExprLike], Expr]


@node
class Var(Expr):
    """A loop variable or the variable of a block's iter."""

    _symbol: ClassVar[bool] = True
    name: str
    dtype: str = INDEX


@node
class Buffer(Node):
    """A dense, row-major array: `shape` in elements.

    `scope` is where it should live: "global" memory, or "local" to the innermost loop that can
    own it (registers or stack, when it is small), "shared" on a GPU, "wmma.accumulator" and others
    for tiles of a warp, or "amx.tile", the tile registers of a CPU that has them. A parameter in
    the scope "scalar", without axes, is passed as a number and only read.
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
        return "bool" if self.op in operators.CONDITIONS else self.a.dtype


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
    """A mathematical function of `intrinsics`, computed in its arguments' dtype."""

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
        raise CompileError(
            f"the number {shown(value)} is not a value of {dtype}", code="E108"
        ) from None


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
        whole = "; an index is an integer: vi * 3 // 2" if dtype == INDEX else ""
        hint = f'T.cast(x, "float32") for the {dtype} side{whole}'
        raise CompileError(f"the number {value} is not a value of {dtype}", code="E108", hint=hint)
    if hasattr(value, "__float__"):
        return as_expr(float(value), dtype)
    why = f"expected a number or an expression, got {type(value).__name__}: {shown(value)}"
    raise CompileError(why, code="E108")


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
    left, right = _counting(left, right), _counting(right, left)
    left, right = meeting(left, right.dtype), meeting(right, left.dtype)
    if left.dtype != right.dtype:
        raise CompileError(
            f'"{op}" needs two operands of one dtype, got {left.dtype} and {right.dtype}',
            code="E108",
            hint=_cast_hint(left, right),
        )
    return left, right


def meeting(value: Expr, dtype: str) -> Expr:
    """`value` where a number of `dtype` is needed. An index becomes one: `A[i] = A[i] + i`; but not
    one of so few bits that `A[i] < i` would compare with another number."""
    narrow = is_integer(dtype) and DTYPES[dtype].bits < COUNTED
    if value.dtype == INDEX and dtype not in (INDEX, "bool") and not narrow and _is_index(value):
        return value.astype(dtype)
    return value


def _counting(value: Expr, other: Expr) -> Expr:
    """An integer constant beside an index counts as one: `i + T.int32(1)`."""
    if not isinstance(value, Const) or other.dtype != INDEX or not is_integer(value.dtype):
        return value
    return index(int(value.value)) if value.dtype != INDEX and _is_index(other) else value


def _is_index(value: Expr) -> bool:
    """Whether an expression is made of variables, and reads no memory."""
    parts = [part for part in walk(value) if isinstance(part, Load) or part._symbol]
    return bool(parts) and not any(isinstance(part, Load) for part in parts)


def _cast_hint(left: Expr, right: Expr) -> str:
    """A hint to convert one operand: the integer beside a float, else the second."""
    to_right = is_float(right.dtype) and not is_float(left.dtype)
    item, dtype = (left, right.dtype) if to_right else (right, left.dtype)
    text = repr(item)
    if len(text) <= 24 and "\n" not in text:
        return f'T.cast({text}, "{dtype}")'
    return f'T.cast(x, "{dtype}") converts the {"first" if to_right else "second"} operand'


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """`a op b` with its dtypes checked; a Python number takes the other operand's dtype."""
    if op not in operators.BINARY_OPS:
        hint = did_you_mean(op, operators.BINARY_OPS)
        raise CompileError(f'unknown operator "{op}"', code="E124", hint=hint)
    left, right = _pair(op, a, b)
    operators.check_operands(op, left.dtype)
    return Binary(op, left, right)


def unary(op: str, a: ExprLike) -> Expr:
    """`-a`, `not a` or `~a`, with its dtype checked."""
    value = as_expr(a)
    operators.check_operand(op, value.dtype)
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
    return Load(buffer, check_indices(buffer, indices))


def check_indices(buffer: Buffer, indices: Iterable[ExprLike]) -> tuple[Expr, ...]:
    items = tuple(as_expr(i, INDEX) for i in indices)
    if len(items) != buffer.ndim:
        why = f"{buffer.name} has {buffer.ndim} dimension(s), got {len(items)} index(es)"
        raise CompileError(why, code="E107", hint=f"{buffer.name} has shape {buffer.shape}")
    for item in items:
        if not is_integer(item.dtype):
            raise CompileError(f"an index must be an integer, got {item.dtype}", code="E107")
    return tuple(index(int(i.value)) if isinstance(i, Const) else i.astype(INDEX) for i in items)
