"""The functions of `T` (`T.max`, `T.exp`, `T.float32`), in scripts and in plain Python."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import ml_dtypes
import numpy as np

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.intrinsics import FLOAT, INTRINSICS, RECORDS, Intrinsic
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


def cast(value: ir.ExprLike, dtype: str) -> ir.Expr:
    """`value` converted to `dtype`, as numpy's `astype` does."""
    return ir.Cast(dtype_record(dtype).name, ir.as_expr(value))


def ceildiv(a: ir.ExprLike, b: ir.ExprLike) -> ir.ExprLike:
    """`a / b`, rounded up; a number of numbers. What it computes on the way never wraps."""
    if not isinstance(a, ir.Expr) and not isinstance(b, ir.Expr):
        return -(-a // b)
    down, rest = ir.binary("//", a, b), ir.binary("%", a, b)
    divisor = b.value if isinstance(b, ir.Const) else b
    counts = rest.dtype == INDEX and not nodes_of(rest, ir.Load)
    if counts and isinstance(divisor, int) and divisor > 0:
        return ir.binary("//", ir.binary("+", a, divisor - 1), divisor)  # as proofs know it
    return down + ir.select(
        ir.binary("!=", rest, 0), ir.as_expr(1, rest.dtype), ir.as_expr(0, rest.dtype)
    )


def of_dtype(dtype: str, value: ir.ExprLike | str) -> ir.Expr:
    """`T.float32(value)`: a constant of a dtype, or an expression converted to it."""
    if isinstance(value, ir.Expr):
        return value.astype(dtype)
    if isinstance(value, str):
        return _float_word(dtype, value)
    if isinstance(value, bool | int | float | np.generic):
        return _number(dtype, value)
    raise CompileError(
        f"T.{dtype} takes a number or an expression, got {shown(value)}", code="E108"
    )


def _float_word(dtype: str, word: str) -> ir.Expr:
    try:
        if is_float(dtype):
            return ir.const(float_from_word(word), dtype)
    except ValueError:
        pass
    hint = 'a float dtype takes "inf", "-inf" or "nan"'
    raise CompileError(f'"{word}" is not a value of {dtype}', code="E108", hint=hint)


def _number(dtype: str, value: Any) -> ir.Expr:
    if is_integer(dtype):
        low, high = integer_range(dtype)
        if value != value or value in (float("inf"), float("-inf")) or int(value) != value:
            raise CompileError(f"the number {value} is not a value of {dtype}", code="E108")
        if not low <= value <= high:
            raise CompileError(
                f"{shown(value)} is not in {low} ... {high}, as {dtype} is", code="E108"
            )
    return ir.const(value, dtype)


def least(dtype: str) -> ir.Expr:
    """The least finite value of a dtype."""
    if is_float(dtype_record(dtype).name):
        return ir.const(float(ml_dtypes.finfo(DTYPES[dtype].numpy).min), dtype)
    return ir.const(False if dtype == "bool" else integer_range(dtype)[0], dtype)


def greatest(dtype: str) -> ir.Expr:
    """The greatest finite value of a dtype."""
    if is_float(dtype_record(dtype).name):
        return ir.const(float(ml_dtypes.finfo(DTYPES[dtype].numpy).max), dtype)
    return ir.const(True if dtype == "bool" else integer_range(dtype)[1], dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": partial(ir.binary, "max"),
    "min": partial(ir.binary, "min"),
    "floordiv": partial(ir.binary, "//"),
    "floormod": partial(ir.binary, "%"),
    "if_then_else": ir.select,
    "Select": ir.select,
    "cast": cast,
    "infinity": partial(of_dtype, value="inf"),
    "min_value": least,
    "max_value": greatest,
    **{name: partial(ir.intrin, name) for name in INTRINSICS},
    **{name: partial(of_dtype, name) for name in DTYPES},
    "Cast": lambda dtype, value: cast(value, dtype),
    "likely": lambda condition: condition,
    "power": partial(ir.intrin, "pow"),
    "fabs": partial(ir.intrin, "abs"),
    "ceildiv": ceildiv,
    "indexdiv": partial(ir.binary, "//"),
    "indexmod": partial(ir.binary, "%"),
    "shift_left": partial(ir.binary, "<<"),
    "shift_right": partial(ir.binary, ">>"),
    "bitwise_and": partial(ir.binary, "&"),
    "bitwise_or": partial(ir.binary, "|"),
    "bitwise_xor": partial(ir.binary, "^"),
    "bitwise_not": partial(ir.unary, "~"),
}
"""The functions that expressions can call, inside scripts and in plain Python."""


def scalar_operator(
    formula: Callable[..., ir.Expr], *, kinds: tuple[str, ...] = FLOAT
) -> Callable[..., ir.Expr]:
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
        result = formula(*[ir.Var(f"x{n}", dtype) for n in range(arity)])
    gives = "bool" if result.dtype == "bool" else ""
    record = Intrinsic(name, arity, kinds, formula, gives, formula)
    if name not in FUNCTIONS and name not in RECORDS:
        INTRINSICS[name] = RECORDS[name] = record
        FUNCTIONS[name] = partial(ir.intrin, name)
    elif not _same_definition(RECORDS.get(name), record):
        raise CompileError(f"there is a function T.{name} already", code="E120")
    return FUNCTIONS[name]


def _same_definition(old: Intrinsic | None, new: Intrinsic) -> bool:
    """Whether two records have formulas that give the same expressions in every dtype."""
    if old is None or old.formula is None or (old.arity, old.kinds) != (new.arity, new.kinds):
        return False
    dtypes = [record.name for record in DTYPES.values() if record.kind in new.kinds]
    inputs = [[ir.Var(f"x{n}", dtype) for n in range(new.arity)] for dtype in dtypes]
    first, second = (
        tuple(_traced(record.formula, variables) for variables in inputs) for record in (old, new)
    )
    return structural_equal(first, second)


def _traced(formula: Any, inputs: list[ir.Var]) -> ir.Expr | None:
    """The expression that a formula gives; None where it does not take such a dtype."""
    try:
        with tracing():
            return formula(*inputs)
    except Exception:  # a formula is the user's own code
        return None
