"""Algebraic simplification by identities that hold bit for bit."""

from collections.abc import Callable, Iterable
from functools import reduce
from math import prod
from operator import or_

import ml_dtypes
import numpy as np

from minimlc.graphs.ir.nodes import Call, Expr, constant
from minimlc.graphs.ops import call_op, evaluate
from minimlc.graphs.ops.checks import INTEGERS, NUMBERS, axes_of, sizes_of
from minimlc.loops.values.dtypes import DTYPES, holds, is_float
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.services.networks import normalize  # noqa: F401 (operators in patterns)
from minimlc.services.patterns.match import Match
from minimlc.services.patterns.pattern import Pattern, operator, p
from minimlc.services.patterns.rewrite import Rule, to_rest


@module_pass
def simplify(mod: IRModule) -> IRModule:
    """Apply algebraic identities until none is left to apply.

        lv = R.multiply(x, R.const(1.0))
        lv1 = R.permute_dims(lv)               ...
        lv2 = R.permute_dims(lv1)      -->
        lv3 = R.add(lv2, R.negative(y))        lv3 = R.subtract(x, y)

    Legal because each is exact in its dtypes: results have the same bits, but for a NaN's sign and
    payload. So for floats `x - x`, `x * 0` and `x + 0.0` stay (NaN, infinities, -0.0), as does
    every sum and product that would be rounded in another order. `RULES` has all of them. Each
    takes an operator away, or puts cheaper ones there, so they come to rest.
    """
    return to_rest(mod, RULES)


def _folded(op: str) -> Callable[[Match], Expr | None]:
    """(i op c) op d is i op (c op d) for integers, which wrap; unless that constant is larger."""

    def replacement(match: Match) -> Expr | None:
        constants = [match.value(part) for part in (c, d)]
        both = call_op(op, *constants)
        if prod(both.shape) > max(prod(item.shape) for item in constants):
            return None
        return call_op(op, match[i], constant(evaluate(both, [item.data for item in constants])))

    return replacement


def _times_inverse(match: Match) -> Expr | None:
    """x * (1 / c) for x / c, where all of c are powers of two with normal inverses."""
    divisor = match.value(c).data
    data, limits = divisor.astype(np.float64), ml_dtypes.finfo(divisor.dtype)
    with np.errstate(all="ignore"):
        inverse = 1 / data
    normal = (abs(inverse) >= float(limits.tiny)) & (abs(inverse) <= float(limits.max))
    exact = normal & (abs(np.frexp(data)[0]) == 0.5)
    if not exact.all():
        return None
    return call_op("multiply", match[x], constant(inverse.astype(divisor.dtype)))


def _if_same_type(match: Match) -> Expr | None:
    """x, for an operator that changes no element, where it has the result's type already."""
    return match[x] if match[x].type == match.var.type else None


def _uncut(match: Match) -> Expr | None:
    return _if_same_type(match) if match.var.attr("strides") is None else None


def axes_order(call: Call) -> tuple[int, ...]:
    """The axes of a `permute_dims`, counted from the front."""
    axes, ndim = call.attr("axes"), len(call.shape)
    if axes is None:
        return tuple(reversed(range(ndim)))
    return tuple(axis % ndim for axis in sizes_of(axes, "axes"))


def _unmoved(match: Match) -> Expr | None:
    order = axes_order(match.var)
    return match[x] if order == tuple(range(len(order))) else None


def _permuted_once(match: Match) -> Expr:
    before = axes_order(match.value(turned))
    return call_op("permute_dims", match[x], axes=[before[a] for a in axes_order(match.var)])


def _reshaped_once(match: Match) -> Expr:
    return call_op("reshape", match[x], shape=match.var.shape)


def _broadcast_once(match: Match) -> Expr:
    return call_op("broadcast_to", match[x], shape=match.var.shape)


def _cast_once(match: Match) -> Expr | None:
    """A conversion by way of a dtype that has all values: of floats or of integers all the way,
    or back to where it came from.
    """
    start, middle, end = match[x].dtype, match.value(converted).dtype, match.var.dtype
    same_kind = is_float(start) == is_float(end) and "bool" not in (start, middle, end)
    lossless = start == "bool" or holds(middle, start)
    if not (lossless and (start == end or same_kind)):
        return None
    return call_op("cast", match[x], dtype=end)


def _flipped_back(match: Match) -> Expr | None:
    outer, inner = match.var, match.value(flipped)
    axes = [axes_of(call.attr("axis"), len(call.shape)) for call in (outer, inner)]
    return match[x] if axes[0] == axes[1] else None


def _normalized(match: Match) -> Expr:
    """Batch norm with known statistics, in separate steps: its factors are constants then."""
    x, call = match[image], match.var
    shape = [1] * len(call.shape)
    shape[call.attr("axis")] = -1
    gamma, beta, mean, variance = (match.value(part).data.reshape(shape) for part in STATISTICS)
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + variance.dtype.type(call.attr("epsilon")))
        shift = beta - mean * scale
    return call_op("add", call_op("multiply", x, constant(scale)), constant(shift))


def _any_of(names: Iterable[str], part: Pattern) -> Pattern:
    return reduce(or_, [operator(name, part) for name in names])


x, y, z = p.wildcard("x"), p.wildcard("y"), p.wildcard("z")
n = p.wildcard("n", dtype=[dtype for dtype in NUMBERS if DTYPES[dtype].kind != "uint"])
c, d = p.const("c"), p.const("d")
i, j = p.wildcard("i", dtype=INTEGERS), p.wildcard("j", dtype=INTEGERS)

ARITHMETIC: tuple[Rule, ...] = (
    (x * 1, x),
    (x / 1, x),
    (x - 0.0, x),
    (x + -0.0, x),
    (x * -1, -x),
    (x / -1, -x),
    (p.negative(-x), x),
    (x + -y, x - y),
    (x - -y, x + y),
    (-x * -y, x * y),
    (-x / -y, x / y),
    (x / c, _times_inverse),
    (p.maximum(x, x), x),
    (p.minimum(x, x), x),
)
"""For all numbers. Of x + 0.0, the zero has to be negative: 0.0 + -0.0 is 0.0."""

INTEGER: tuple[Rule, ...] = (
    (i + 0, i),
    (i - 0, i),
    (i * 0, 0),
    (i - i, 0),
    (i + j - j, i),
    (i - j + j, i),
    (-(i - j), j - i),
    (i + c + d, _folded("add")),
    (i * c * d, _folded("multiply")),
    (p.bitwise_and(i, i), i),
    (p.bitwise_and(i, 0), 0),
    (p.bitwise_and(i, -1), i),
    (p.bitwise_or(i, i), i),
    (p.bitwise_or(i, 0), i),
    (p.bitwise_xor(i, i), 0),
    (p.bitwise_xor(i, 0), i),
    (p.logical_not(i < j), i >= j),
    (p.logical_not(i <= j), i > j),
    (p.logical_not(i > j), i <= j),
    (p.logical_not(i >= j), i < j),
)
"""For integers, which wrap around."""

LOGIC: tuple[Rule, ...] = (
    (p.logical_not(p.logical_not(x)), x),
    (p.logical_not(p.equal(x, y)), p.not_equal(x, y)),
    (p.logical_not(p.not_equal(x, y)), p.equal(x, y)),
    (p.logical_and(x, x), x),
    (p.logical_and(x, True), x),
    (p.logical_and(x, False), False),
    (p.logical_or(x, x), x),
    (p.logical_or(x, False), x),
    (p.logical_or(x, True), True),
    (p.logical_xor(x, False), x),
    (p.logical_xor(x, True), p.logical_not(x)),
    (p.where(True, x, y), x),
    (p.where(False, x, y), y),
    (p.where(z, x, x), x),
    (p.where(p.logical_not(z), x, y), p.where(z, y, x)),
)

STEPS = ("floor", "ceil", "round")
TWICE: tuple[Rule, ...] = (
    *((operator(f, operator(f, x)), operator(f, x)) for f in ("relu", "relu6", "abs")),
    *((operator(f, operator(g, x)), operator(g, x)) for f in STEPS for g in STEPS),
    (abs(-n), abs(n)),
    (p.square(-x), p.square(x)),
    (p.square(abs(x)), p.square(x)),
)
"""Idempotent functions, and even functions, which need no sign."""

SAME_WHERE_TYPES_ARE = ("broadcast_to", "cast", "match_cast", "repeat", "tile", "pad")
RESHAPES = ("reshape", "flatten", "expand_dims", "squeeze", "batch_flatten")
turned, converted, flipped, spread = p.permute_dims(x), p.cast(x), p.flip(x), p.broadcast_to(x)
MOVES: tuple[Rule, ...] = (
    (_any_of((*RESHAPES, *SAME_WHERE_TYPES_ARE), x), _if_same_type),
    (p.strided_slice(x), _uncut),
    (turned, _unmoved),
    (p.permute_dims(turned), _permuted_once),
    (_any_of(RESHAPES, _any_of(RESHAPES, x)), _reshaped_once),
    (p.broadcast_to(spread), _broadcast_once),
    (p.cast(converted), _cast_once),
    (p.flip(flipped), _flipped_back),
    (p.concat((x,)), x),
)
"""Elements that only move, or change their dtype."""

image = p.wildcard("image", dtype=("float32", "float64"))
STATISTICS = [p.const(name) for name in ("gamma", "beta", "mean", "variance")]
NETWORKS: tuple[Rule, ...] = ((p.batch_norm(image, *STATISTICS), _normalized),)
"""Not for 16-bit floats, which would be rounded after each step."""

RULES = (*ARITHMETIC, *INTEGER, *LOGIC, *TWICE, *MOVES, *NETWORKS)
