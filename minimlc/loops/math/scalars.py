"""What a scalar operation means, in the operations that every machine has.

Each definition is a straight-line program, as those of `functions` are. A target
that lacks an operation writes its definition out (`loops.lower.dialect`), or makes a function
of it.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from minimlc.loops.ir.intrinsics import GELU_END, GELU_SCALE, INTRINSICS
from minimlc.loops.ir.nodes import (
    Binary,
    Cast,
    Const,
    Expr,
    Intrin,
    Let,
    Unary,
    Var,
    binary,
    const,
    intrin,
    select,
    substitute,
)
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


def _minimum(write: Writer, a: Expr, b: Expr) -> Expr:
    """The lesser one; NaN where one is NaN."""
    return select((a <= b) | _is_nan(a), a, b)


def _maximum(write: Writer, a: Expr, b: Expr) -> Expr:
    """The greater one; NaN where one is NaN."""
    return select((a >= b) | _is_nan(a), a, b)


def _floordiv(write: Writer, a: Expr, b: Expr) -> Expr:
    """Rounds towards minus infinity; 0 for a zero divisor."""
    safe, rest, below = _division(write, a, b)
    quotient = write.let("quotient", Intrin("quotient", (a, safe)))
    whole = write.let("whole", select(below, quotient - 1, quotient))
    return select(b.equal(0), const(0, a.dtype), select(b.equal(-1), -a, whole))


def _floormod(write: Writer, a: Expr, b: Expr) -> Expr:
    """Has the divisor's sign; 0 for a zero divisor."""
    safe, rest, below = _division(write, a, b)
    return select(below, rest + safe, rest)


def _division(write: Writer, a: Expr, b: Expr) -> tuple[Expr, Expr, Expr]:
    """A divisor that never traps, what it leaves over, and whether the floor is one less.

    By 1 nothing is left over, which is right for -1, whose quotient may overflow, and for 0.
    """
    safe = write.let("safe", select(b.equal(0) | b.equal(-1), 1, b))
    rest = write.let("rest", Intrin("remainder", (a, safe)))
    return safe, rest, _differs(rest, 0) & _differs(rest < 0, safe < 0)


def _unsigned_floordiv(write: Writer, a: Expr, b: Expr) -> Expr:
    """0 for a zero divisor."""
    safe = write.let("safe", select(b.equal(0), 1, b))
    return select(b.equal(0), 0, Intrin("quotient", (a, safe)))


def _unsigned_floormod(write: Writer, a: Expr, b: Expr) -> Expr:
    """0 for a zero divisor."""
    return Intrin("remainder", (a, write.let("safe", select(b.equal(0), 1, b))))


def _float_floormod(write: Writer, a: Expr, b: Expr) -> Expr:
    """numpy's remainder: has the divisor's sign."""
    rest = write.let("rest", Intrin("fmod", (a, b)))
    moved = select(_differs(rest < 0.0, b < 0.0), rest + b, rest)
    return select(rest.equal(0.0), _zero_like(b), moved)


def _float_floordiv(write: Writer, a: Expr, b: Expr) -> Expr:
    """numpy's floor_divide: the whole number that belongs to its remainder."""
    rest = write.let("rest", Intrin("fmod", (a, b)))
    exact = write.let("exact", (a - rest) / b)
    below = _differs(rest, 0.0) & _differs(rest < 0.0, b < 0.0)
    whole = write.let("whole", select(below, exact - 1.0, exact))
    down = write.let("down", intrin("floor", whole))
    nearest = write.let("nearest", select(whole - down > 0.5, down + 1.0, down))
    ratio = write.let("ratio", a / b)
    signed = select(whole.equal(0.0), _zero_like(ratio), nearest)
    return select(b.equal(0.0), ratio, signed)


def _shift_left(write: Writer, a: Expr, b: Expr) -> Expr:
    """0 where the count is outside the type's bits."""
    return select(_fits(b), Intrin("shift_left", (a, b)), 0)


def _shift_right(write: Writer, a: Expr, b: Expr) -> Expr:
    """What shifting one bit at a time would give where the count is outside the type's bits."""
    signed = DTYPES[a.dtype].kind == "int"
    rest = select(a < 0, -1, const(0, a.dtype)) if signed else 0
    return select(_fits(b), Intrin("shift_right", (a, b)), rest)


def _fits(count: Expr) -> Expr:
    below = count < DTYPES[count.dtype].bits
    return below if DTYPES[count.dtype].kind == "uint" else (count >= 0) & below


def _saturating(dtype: str) -> Define:
    low, high = (const(end, dtype) for end in integer_range(dtype))

    def saturate(write: Writer, x: Expr) -> Expr:
        """Drops the fraction; the nearest value where x is out of range, 0 for NaN."""
        inside = select(x >= float(high.value), high, Intrin(f"truncate_{dtype}", (x,)))
        return select(_is_nan(x), 0, select(x <= float(low.value), low, inside))

    return saturate


def _odd_float32(write: Writer, x: Expr) -> Expr:
    """Between two numbers of float32 the one whose last bit is 1: rounded again, it is not halfway
    between others.
    """
    near = write.let("near", x.astype("float32"))
    back = write.let("back", near.astype(x.dtype))
    beyond = select(x < const(0, x.dtype), back < x, back > x)
    odd = write.let("odd", bits_of(near) - beyond.astype("int32") | 1)
    exact = back.equal(x) | _is_nan(x) if is_float(x.dtype) else back.equal(x)
    return select(exact, near, number_of(odd))


def _absolute(write: Writer, a: Expr) -> Expr:
    """The least value stays as it is."""
    return select(a < 0, -a, a)


def _rsqrt(write: Writer, x: Expr) -> Expr:
    return 1.0 / intrin("sqrt", x)


def _sigmoid(write: Writer, x: Expr) -> Expr:
    """Of the exponential of -|x|, which does not overflow."""
    grown = write.let("grown", intrin("exp", -intrin("abs", x)))
    return select(x < 0.0, grown, 1.0) / (1.0 + grown)


def _gelu(write: Writer, x: Expr) -> Expr:
    """Of erfc, which keeps its places where it is small."""
    kept = write.let("kept", at_least(x, GELU_END))
    return 0.5 * kept * Intrin("erfc", (kept * GELU_SCALE,))


def _load_float16(write: Writer, bits: Expr) -> Expr:
    """float16 is stored as 16 bits and computed with as float32."""
    size = write.let("size", bits & 0x7FFF)
    placed = write.let("placed", size << 13)
    # Moves the exponent's zero; right for subnormals too.
    scaled = write.let("scaled", bits_of(number_of(placed) * 2.0**112))
    value = write.let("value", select(size >= 0x7C00, placed | 0x7F800000, scaled))
    return number_of(value | (bits & 0x8000) << 16)


def _store_float16(write: Writer, x: Expr) -> Expr:
    """To the nearest float16, ties to even (after F. Giesen, float_to_half_fast3_rtne)."""
    bits = write.let("bits", bits_of(x))
    size = write.let("size", bits & 0x7FFFFFFF)
    # Adding 0.5 leaves a subnormal result in the last bits.
    subnormal = write.let("subnormal", bits_of(number_of(size) + 0.5) - 0x3F000000)
    odd = write.let("odd", size >> 13 & 1)
    normal = write.let("normal", size - (0x38000000 - 0xFFF) + odd >> 13)
    finite = write.let("finite", select(size < 0x38800000, subnormal, normal))
    known = write.let("known", select(size >= 0x47800000, 0x7C00, finite))
    return select(size > 0x7F800000, 0x7E00, known) | bits >> 16 & 0x8000


def _load_bfloat16(write: Writer, bits: Expr) -> Expr:
    """bfloat16 is stored as the upper half of a float32, and computed with as float32."""
    return number_of(bits << 16)


def _store_bfloat16(write: Writer, x: Expr) -> Expr:
    """To the nearest bfloat16, ties to even."""
    bits = write.let("bits", bits_of(x))
    odd = write.let("odd", bits >> 16 & 1)
    value = write.let("value", select(_is_nan(x), bits | 0x400000, bits + 0x7FFF + odd))
    return value >> 16 & 0xFFFF


def _differs(a: Expr, b: Expr | float) -> Expr:
    return binary("!=", a, b)


def _is_nan(x: Expr) -> Expr:
    return _differs(x, x)


def _zero_like(x: Expr) -> Expr:
    return Intrin("copysign", (const(0.0, x.dtype), x))


_EXTREMES: dict[str, Define] = {
    "min": lambda write, a, b: select(a <= b, a, b),
    "max": lambda write, a, b: select(a >= b, a, b),
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
"""What has a definition, by the kind of its operands' dtype."""


def operation(item: Expr) -> str:
    """The name of what an expression does to its operands; a conversion's is `to_dtype`."""
    match item:
        case Unary("-"):
            return "negate"
        case Binary() | Unary():
            return item.op
        case Intrin():
            return item.name
        case Cast():
            return f"to_{item.dtype}"
        case _:
            raise CompileError(f"{type(item).__name__} is not an operation")


def operands(item: Expr) -> tuple[Expr, ...]:
    """What an operation takes."""
    match item:
        case Unary(_, a) | Cast(_, a):
            return (a,)
        case Binary(_, a, b):
            return (a, b)
        case Intrin(_, args):
            return args
        case _:
            raise CompileError(f"{type(item).__name__} is not an operation")


def definition(
    name: str, dtype: str, approximate: bool = True, scales: bool = False
) -> Program | None:
    """An operation on operands of `dtype` as a program; None where every machine has it.

    With `approximate`, functions in float32 are those of `minimlc.loops.math.functions`, which need
    nothing of a library, for a machine that `scales` those that use `ldexp`.
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


def written_out(program: Program, values: Sequence[Expr]) -> Expr:
    """A program on `values` as one expression, which evaluates each of them and each step once."""
    names: dict[Node, Node] = {}
    steps: list[tuple[Var, Expr]] = []
    pairs = (*zip(program.params, values, strict=True), *program.steps)
    for number, (var, value) in enumerate(pairs):
        own = number < len(values)
        if own and isinstance(value, Var | Const):
            names[var] = value
            continue
        names[var] = fresh = Var(var.name, var.dtype)
        steps.append((fresh, value if own else substitute(value, names)))
    result = substitute(program.result, names)
    for var, value in reversed(steps):
        result = Let(var, value, result)
    return result


def rounded(item: Expr, wide: str, computed: Callable[[Any], Expr]) -> Expr:
    """An operation in a wider dtype than its operands', and its result back in theirs."""
    parts = [Cast(wide, operand) for operand in operands(item)]
    if isinstance(item, Intrin):
        result = computed(replace(item, args=tuple(parts)))
    else:
        result = computed(replace(item, **dict(zip("ab", parts, strict=False))))
    return Cast(item.dtype, result) if result.dtype != item.dtype else result


def expanded(item: Intrin) -> Expr:
    """A function that was entered as a formula, written out."""
    dtype = item.args[0].dtype
    if dtype in HALF:
        return rounded(item, "float32", expanded)
    program = definition(item.name, dtype)
    assert program is not None
    return written_out(program, item.args)
