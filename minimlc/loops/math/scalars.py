"""Definitions of scalar operations, in the operations that every machine has.

Each definition is a straight-line program, like those in `functions`. A target
that lacks an operation writes its definition out (`loops.lower.dialect`), or makes a function
of it.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.intrinsics import GELU_END, GELU_SCALE, INTRINSICS
from minimlc.loops.ir.tracing import tracing
from minimlc.loops.ir.values import HALF
from minimlc.loops.math.float_steps import (
    Define,
    Program,
    Writer,
    at_least,
    bits_of,
    number_of,
    written,
)
from minimlc.loops.math.functions import PROGRAMS, ULP_BOUNDS, scaling
from minimlc.loops.values.dtypes import DTYPES, integer_range, is_float, is_integer
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import Node, replace


def _minimum(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The lesser one; NaN where one is NaN."""
    return ir.select((a <= b) | _is_nan(a), a, b)


def _maximum(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The greater one; NaN where one is NaN."""
    return ir.select((a >= b) | _is_nan(a), a, b)


def _floordiv(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Rounds towards minus infinity; 0 for a zero divisor."""
    safe, rest, below = _division(write, a, b)
    quotient = write.let("quotient", ir.Intrin("quotient", (a, safe)))
    whole = write.let("whole", ir.select(below, quotient - 1, quotient))
    return ir.select(b.equal(0), ir.const(0, a.dtype), ir.select(b.equal(-1), -a, whole))


def _floormod(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Has the divisor's sign; 0 for a zero divisor."""
    safe, rest, below = _division(write, a, b)
    return ir.select(below, rest + safe, rest)


def _division(write: Writer, a: ir.Expr, b: ir.Expr) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
    """A divisor that never traps, the remainder, and whether the floor is one less.

    By 1 the remainder is 0, which is right for -1, whose quotient may overflow, and for 0.
    """
    safe = write.let("safe", ir.select(b.equal(0) | b.equal(-1), 1, b))
    rest = write.let("rest", ir.Intrin("remainder", (a, safe)))
    return safe, rest, _differs(rest, 0) & _differs(rest < 0, safe < 0)


def _unsigned_floordiv(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """0 for a zero divisor."""
    safe = write.let("safe", ir.select(b.equal(0), 1, b))
    return ir.select(b.equal(0), 0, ir.Intrin("quotient", (a, safe)))


def _unsigned_floormod(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """0 for a zero divisor."""
    return ir.Intrin("remainder", (a, write.let("safe", ir.select(b.equal(0), 1, b))))


def _float_floormod(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """numpy's remainder: has the divisor's sign."""
    rest = write.let("rest", ir.Intrin("fmod", (a, b)))
    moved = ir.select(_differs(rest < 0.0, b < 0.0), rest + b, rest)
    return ir.select(rest.equal(0.0), _zero_like(b), moved)


def _float_floordiv(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """numpy's floor_divide: the whole number that belongs to its remainder."""
    rest = write.let("rest", ir.Intrin("fmod", (a, b)))
    exact = write.let("exact", (a - rest) / b)
    below = _differs(rest, 0.0) & _differs(rest < 0.0, b < 0.0)
    whole = write.let("whole", ir.select(below, exact - 1.0, exact))
    down = write.let("down", ir.intrin("floor", whole))
    nearest = write.let("nearest", ir.select(whole - down > 0.5, down + 1.0, down))
    ratio = write.let("ratio", a / b)
    signed = ir.select(whole.equal(0.0), _zero_like(ratio), nearest)
    return ir.select(b.equal(0.0), ratio, signed)


def _shift_left(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """0 where the count is outside the type's bits."""
    return ir.select(_fits(b), ir.Intrin("shift_left", (a, b)), 0)


def _shift_right(write: Writer, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """What shifting one bit at a time would give where the count is outside the type's bits."""
    signed = DTYPES[a.dtype].kind == "int"
    rest = ir.select(a < 0, -1, ir.const(0, a.dtype)) if signed else 0
    return ir.select(_fits(b), ir.Intrin("shift_right", (a, b)), rest)


def _fits(count: ir.Expr) -> ir.Expr:
    below = count < DTYPES[count.dtype].bits
    return below if DTYPES[count.dtype].kind == "uint" else (count >= 0) & below


def _saturating(dtype: str) -> Define:
    low, high = (ir.const(end, dtype) for end in integer_range(dtype))

    def saturate(write: Writer, x: ir.Expr) -> ir.Expr:
        """Drops the fraction; the nearest value where x is out of range, 0 for NaN."""
        inside = ir.select(x >= float(high.value), high, ir.Intrin(f"truncate_{dtype}", (x,)))
        return ir.select(_is_nan(x), 0, ir.select(x <= float(low.value), low, inside))

    return saturate


def _odd_float32(write: Writer, x: ir.Expr) -> ir.Expr:
    """Between two numbers of float32 the one whose last bit is 1: rounded again, it is not halfway
    between others.
    """
    near = write.let("near", x.astype("float32"))
    back = write.let("back", near.astype(x.dtype))
    beyond = ir.select(x < ir.const(0, x.dtype), back < x, back > x)
    odd = write.let("odd", bits_of(near) - beyond.astype("int32") | 1)
    exact = back.equal(x) | _is_nan(x) if is_float(x.dtype) else back.equal(x)
    return ir.select(exact, near, number_of(odd))


def _absolute(write: Writer, a: ir.Expr) -> ir.Expr:
    """The least value stays as it is."""
    return ir.select(a < 0, -a, a)


def _rsqrt(write: Writer, x: ir.Expr) -> ir.Expr:
    return 1.0 / ir.intrin("sqrt", x)


def _sigmoid(write: Writer, x: ir.Expr) -> ir.Expr:
    """Of the exponential of -|x|, which does not overflow."""
    grown = write.let("grown", ir.intrin("exp", -ir.intrin("abs", x)))
    return ir.select(x < 0.0, grown, 1.0) / (1.0 + grown)


def _gelu(write: Writer, x: ir.Expr) -> ir.Expr:
    """Of erfc, which keeps its places where it is small."""
    kept = write.let("kept", at_least(x, GELU_END))
    return 0.5 * kept * ir.Intrin("erfc", (kept * GELU_SCALE,))


def _load_float16(write: Writer, bits: ir.Expr) -> ir.Expr:
    """float16 is stored as 16 bits and computed with as float32."""
    size = write.let("size", bits & 0x7FFF)
    placed = write.let("placed", size << 13)
    # Moves the exponent's zero; right for subnormals too.
    scaled = write.let("scaled", bits_of(number_of(placed) * 2.0**112))
    value = write.let("value", ir.select(size >= 0x7C00, placed | 0x7F800000, scaled))
    return number_of(value | (bits & 0x8000) << 16)


def _store_float16(write: Writer, x: ir.Expr) -> ir.Expr:
    """To the nearest float16, ties to even (after F. Giesen, float_to_half_fast3_rtne)."""
    bits = write.let("bits", bits_of(x))
    size = write.let("size", bits & 0x7FFFFFFF)
    # Adding 0.5 leaves a subnormal result in the last bits.
    subnormal = write.let("subnormal", bits_of(number_of(size) + 0.5) - 0x3F000000)
    odd = write.let("odd", size >> 13 & 1)
    normal = write.let("normal", size - (0x38000000 - 0xFFF) + odd >> 13)
    finite = write.let("finite", ir.select(size < 0x38800000, subnormal, normal))
    known = write.let("known", ir.select(size >= 0x47800000, 0x7C00, finite))
    return ir.select(size > 0x7F800000, 0x7E00, known) | bits >> 16 & 0x8000


def _load_bfloat16(write: Writer, bits: ir.Expr) -> ir.Expr:
    """bfloat16 is stored as the upper half of a float32, and computed with as float32."""
    return number_of(bits << 16)


def _store_bfloat16(write: Writer, x: ir.Expr) -> ir.Expr:
    """To the nearest bfloat16, ties to even."""
    bits = write.let("bits", bits_of(x))
    odd = write.let("odd", bits >> 16 & 1)
    value = write.let("value", ir.select(_is_nan(x), bits | 0x400000, bits + 0x7FFF + odd))
    return value >> 16 & 0xFFFF


def _differs(a: ir.Expr, b: ir.Expr | float) -> ir.Expr:
    return ir.binary("!=", a, b)


def _is_nan(x: ir.Expr) -> ir.Expr:
    return _differs(x, x)


def _zero_like(x: ir.Expr) -> ir.Expr:
    return ir.Intrin("copysign", (ir.const(0.0, x.dtype), x))


_EXTREMES: dict[str, Define] = {
    "min": lambda write, a, b: ir.select(a <= b, a, b),
    "max": lambda write, a, b: ir.select(a >= b, a, b),
}
_SHIFTS: dict[str, Define] = {"<<": _shift_left, ">>": _shift_right}
_BY_KIND: dict[str, dict[str, Define]] = {
    "float": {
        "//": _float_floordiv,
        "%": _float_floormod,
        "min": _minimum,
        "max": _maximum,
        "odd_float32": _odd_float32,
        "rsqrt": _rsqrt,
        "sigmoid": _sigmoid,
        "gelu": _gelu,
        "store_float16": _store_float16,
        "store_bfloat16": _store_bfloat16,
        **{f"to_{dtype}": _saturating(dtype) for dtype in DTYPES if is_integer(dtype)},
    },
    "int": {
        **_EXTREMES,
        **_SHIFTS,
        "//": _floordiv,
        "%": _floormod,
        "abs": _absolute,
        "odd_float32": _odd_float32,
        "load_float16": _load_float16,
        "load_bfloat16": _load_bfloat16,
    },
    "uint": {
        **_EXTREMES,
        **_SHIFTS,
        "//": _unsigned_floordiv,
        "%": _unsigned_floormod,
        "abs": lambda write, a: a,
        "odd_float32": _odd_float32,
    },
    "bool": _EXTREMES,
}
"""The operations with a definition, by the kind of their operands' dtype."""


def operation(item: ir.Expr) -> str:
    """The name of an expression's operation; a conversion's is `to_dtype`."""
    match item:
        case ir.Unary("-"):
            return "negate"
        case ir.Binary() | ir.Unary():
            return item.op
        case ir.Intrin():
            return item.name
        case ir.Cast():
            return f"to_{item.dtype}"
        case _:
            raise CompileError(f"{type(item).__name__} is not an operation")


def operands(item: ir.Expr) -> tuple[ir.Expr, ...]:
    """The operands of an operation."""
    match item:
        case ir.Unary(_, a) | ir.Cast(_, a):
            return (a,)
        case ir.Binary(_, a, b):
            return (a, b)
        case ir.Intrin(_, args):
            return args
        case _:
            raise CompileError(f"{type(item).__name__} is not an operation")


def definition(
    name: str, dtype: str, approximate: bool = True, scales: bool = False
) -> Program | None:
    """An operation on operands of `dtype` as a program; None where every machine has it.

    With `approximate`, functions in float32 are those in `minimlc.loops.math.functions`, which need
    no library; with `scales`, in their forms for machines that have `ldexp`.
    """
    if approximate and dtype == "float32" and name in PROGRAMS:
        note = f"Off by at most {ULP_BOUNDS[name]} units in the last place."
        return (scaling(name) if scales else PROGRAMS[name])._replace(note=note)
    record = INTRINSICS.get(name)
    if record is not None and record.formula is not None:
        write = Writer(inspect.signature(record.formula).parameters, dtype)
        with tracing():
            result = record.formula(*write.params)
        return write.program(result)
    return _definition(name, dtype)


@cache
def _definition(name: str, dtype: str) -> Program | None:
    define = _BY_KIND[DTYPES[dtype].kind].get(name)
    return None if define is None else written(define, dtype)


def written_out(program: Program, values: Sequence[ir.Expr]) -> ir.Expr:
    """A program on `values` as one expression, which evaluates each of them and each step once."""
    names: dict[Node, Node] = {}
    steps: list[tuple[ir.Var, ir.Expr]] = []
    pairs = (*zip(program.params, values, strict=True), *program.steps)
    for number, (var, value) in enumerate(pairs):
        given = number < len(values)
        if given and isinstance(value, ir.Var | ir.Const):
            names[var] = value
            continue
        names[var] = fresh = ir.Var(var.name, var.dtype)
        steps.append((fresh, value if given else ir.substitute(value, names)))
    result = ir.substitute(program.result, names)
    for var, value in reversed(steps):
        result = ir.Let(var, value, result)
    return result


def rounded(item: ir.Expr, wide: str, computed: Callable[[Any], ir.Expr]) -> ir.Expr:
    """An operation in a wider dtype than its operands', and its result back in theirs."""
    parts = [ir.Cast(wide, operand) for operand in operands(item)]
    if isinstance(item, ir.Intrin):
        result = computed(replace(item, args=tuple(parts)))
    else:
        result = computed(replace(item, **dict(zip("ab", parts, strict=False))))
    return ir.Cast(item.dtype, result) if result.dtype != item.dtype else result


def expanded(item: ir.Intrin) -> ir.Expr:
    """A function that was entered as a formula, written out."""
    dtype = item.args[0].dtype
    if dtype in HALF:
        return rounded(item, "float32", expanded)
    program = definition(item.name, dtype)
    assert program is not None
    return written_out(program, item.args)
