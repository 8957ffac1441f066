"""What `T.max`, `T.exp` and `T.float32` build, in scripts and in plain Python."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import ml_dtypes
import numpy as np

from minimlc.loops.ir.intrinsics import FLOAT, INTRINSICS, RECORDS, Intrinsic
from minimlc.loops.ir.nodes import (
    Cast,
    Const,
    Expr,
    ExprLike,
    Load,
    Var,
    as_expr,
    binary,
    const,
    intrin,
    select,
    unary,
)
from minimlc.loops.ir.tracing import tracing
from minimlc.loops.values.dtypes import (
    DTYPES,
    INDEX,
    dtype_record,
    integer_range,
    is_float,
    is_integer,
)
from minimlc.loops.values.errors import CompileError, shown
from minimlc.loops.values.literals import float_from_word
from minimlc.loops.values.node import nodes_of, structural_equal


def cast(value: ExprLike, dtype: str) -> Expr:
    """`value` converted to `dtype`, as numpy's `astype` does."""
    return Cast(dtype_record(dtype).name, as_expr(value))


def ceildiv(a: ExprLike, b: ExprLike) -> ExprLike:
    """`a / b`, rounded up; a number of numbers. What it computes on the way never wraps."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return -(-a // b)
    down, rest = binary("//", a, b), binary("%", a, b)
    divisor = b.value if isinstance(b, Const) else b
    counts = rest.dtype == INDEX and not nodes_of(rest, Load)
    if counts and isinstance(divisor, int) and divisor > 0:
        return binary("//", binary("+", a, divisor - 1), divisor)  # as proofs know it
    return down + select(binary("!=", rest, 0), as_expr(1, rest.dtype), as_expr(0, rest.dtype))


def of_dtype(dtype: str, value: ExprLike | str) -> Expr:
    """`T.float32(value)`: a constant of a dtype, or an expression converted to it."""
    if isinstance(value, Expr):
        return value.astype(dtype)
    if isinstance(value, str):
        return _float_word(dtype, value)
    if isinstance(value, bool | int | float | np.generic):
        return _number(dtype, value)
    raise CompileError(
        f"T.{dtype} takes a number or an expression, got {shown(value)}", code="E108"
    )


def _float_word(dtype: str, word: str) -> Expr:
    try:
        if is_float(dtype):
            return const(float_from_word(word), dtype)
    except ValueError:
        pass
    hint = 'a float dtype takes "inf", "-inf" or "nan"'
    raise CompileError(f'"{word}" is not a value of {dtype}', code="E108", hint=hint)


def _number(dtype: str, value: Any) -> Expr:
    if is_integer(dtype):
        low, high = integer_range(dtype)
        if value != value or value in (float("inf"), float("-inf")) or int(value) != value:
            raise CompileError(f"the number {value} is not a value of {dtype}", code="E108")
        if not low <= value <= high:
            raise CompileError(
                f"{shown(value)} is not in {low} ... {high}, as {dtype} is", code="E108"
            )
    return const(value, dtype)


def least(dtype: str) -> Expr:
    """The least finite value of a dtype."""
    if is_float(dtype_record(dtype).name):
        return const(float(ml_dtypes.finfo(DTYPES[dtype].numpy).min), dtype)
    return const(False if dtype == "bool" else integer_range(dtype)[0], dtype)


def greatest(dtype: str) -> Expr:
    """The greatest finite value of a dtype."""
    if is_float(dtype_record(dtype).name):
        return const(float(ml_dtypes.finfo(DTYPES[dtype].numpy).max), dtype)
    return const(True if dtype == "bool" else integer_range(dtype)[1], dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": partial(binary, "max"),
    "min": partial(binary, "min"),
    "floordiv": partial(binary, "//"),
    "floormod": partial(binary, "%"),
    "if_then_else": select,
    "Select": select,
    "cast": cast,
    "infinity": partial(of_dtype, value="inf"),
    "min_value": least,
    "max_value": greatest,
    **{name: partial(intrin, name) for name in INTRINSICS},
    **{name: partial(of_dtype, name) for name in DTYPES},
    "Cast": lambda dtype, value: cast(value, dtype),
    "likely": lambda condition: condition,
    "power": partial(intrin, "pow"),
    "fabs": partial(intrin, "abs"),
    "ceildiv": ceildiv,
    "indexdiv": partial(binary, "//"),
    "indexmod": partial(binary, "%"),
    "shift_left": partial(binary, "<<"),
    "shift_right": partial(binary, ">>"),
    "bitwise_and": partial(binary, "&"),
    "bitwise_or": partial(binary, "|"),
    "bitwise_xor": partial(binary, "^"),
    "bitwise_not": partial(unary, "~"),
}
"""What expressions can call, inside scripts and in plain Python."""


def scalar_operator(
    formula: Callable[..., Expr], *, kinds: tuple[str, ...] = FLOAT
) -> Callable[..., Expr]:
    """Enter a function of scalars, given as a formula over others, under the formula's name.

    Scripts (`T.name`), `te`, the interpreter and every target then have it. `formula` takes
    expressions of one dtype, of the `kinds` ("float", "int", "uint"), and gives one of it or of
    bool; 16-bit floats are computed in float32 and rounded once. `CompileError` for a taken name,
    unless the same definition ran again, as when a notebook cell is repeated.

        @scalar_operator
        def clamp(x, low, high):
            return select(x < low, low, select(x > high, high, x))
    """
    name, arity = formula.__name__, len(signature(formula).parameters)
    dtype = "float32" if "float" in kinds else "int32"
    with tracing():
        result = formula(*[Var(f"x{n}", dtype) for n in range(arity)])
    gives = "bool" if result.dtype == "bool" else ""
    record = Intrinsic(name, arity, kinds, formula, gives, formula)
    if name not in FUNCTIONS and name not in RECORDS:
        INTRINSICS[name] = RECORDS[name] = record
        FUNCTIONS[name] = partial(intrin, name)
    elif not _same_definition(RECORDS.get(name), record):
        raise CompileError(f"there is a function T.{name} already", code="E120")
    return FUNCTIONS[name]


def _same_definition(old: Intrinsic | None, new: Intrinsic) -> bool:
    """Whether two records have formulas that give the same expressions in every dtype."""
    if old is None or old.formula is None or (old.arity, old.kinds) != (new.arity, new.kinds):
        return False
    dtypes = [record.name for record in DTYPES.values() if record.kind in new.kinds]
    inputs = [[Var(f"x{n}", dtype) for n in range(new.arity)] for dtype in dtypes]
    first, second = (
        tuple(_traced(record.formula, each) for each in inputs) for record in (old, new)
    )
    return structural_equal(first, second)


def _traced(formula: Any, inputs: list[Var]) -> Expr | None:
    """The expression that a formula gives; None where it does not take such a dtype."""
    try:
        with tracing():
            return formula(*inputs)
    except Exception:  # a formula is the user's own code
        return None
