"""A normalization with known statistics is part of the weights before it."""

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from minimlc.graphs.ir.nodes import Call, Constant, Expr, constant
from minimlc.graphs.ops import call_op
from minimlc.graphs.ops.checks import FLOATS
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.services.networks import window  # noqa: F401 (operators in patterns)
from minimlc.services.patterns.match import Match
from minimlc.services.patterns.pattern import operator, p
from minimlc.services.patterns.rewrite import Rule, to_rest


@module_pass
def fold_batch_norm(mod: IRModule) -> IRModule:
    """Multiply constant weights by the factors that follow for each channel.

        lv = R.conv2d(x, w)
        lv1 = R.subtract(lv, mean)             lv = R.conv2d(x, w')    # w / deviation * gamma
        lv2 = R.divide(lv1, deviation)  -->    lv1 = R.add(lv, b')
        lv3 = R.multiply(lv2, gamma)
        lv4 = R.add(lv3, beta)

    For `conv2d`, `conv1d`, `dense` and `matmul`, with any number of such steps by constants (as
    `bind_params` and `fold_constants` make them), where nothing else uses what is between. The
    method is that of Jacob et al. 2018, "Quantization and Training of Neural Networks for
    Efficient Integer-Arithmetic-Only Inference", section 3.2.

    It changes rounding: a sum of scaled products is not the scaled sum of products, and may
    overflow where that does not. So it is no part of the default pipeline. New weights and shifts
    are computed in float64 and rounded once. A factor or divisor that is 0 or not finite is left,
    and one that makes weights infinite: sums of those are NaN where a scaled sum is none.
    """
    return to_rest(mod, RULES)


def channel_axes(call: Call) -> tuple[int, int]:
    """The axis of the result and the axis of the weights that count the outputs."""
    match call.op:
        case "conv2d":
            data, kernel = str(call.attr("data_layout")), str(call.attr("kernel_layout"))
            kernel = kernel or ("HWIO" if data == "NHWC" else "OIHW")
            return str(call.attr("out_layout") or data).index("C"), kernel.index("O")
        case "conv1d":
            return 1, 0
        case "dense":
            return len(call.shape) - 1, 0
        case _:  # matmul
            return len(call.shape) - 1, len(call.args[1].shape) - 1


def _along_channels(data: np.ndarray, ndim: int, axis: int, count: int) -> np.ndarray | None:
    """A tensor's value for each channel; None where it is not the same all over a channel."""
    shape = (1,) * (ndim - data.ndim) + data.shape
    flat = len(shape) == ndim and data.size in (1, count) and shape[axis] == data.size
    return np.broadcast_to(data.reshape(-1), (count,)) if flat else None


def _wide(item: Any) -> np.ndarray:
    return item.data.astype(np.float64)


def _rounded(data: np.ndarray, like: Expr) -> Constant | None:
    """Numbers in the dtype of a constant; None where it has not all of them."""
    with np.errstate(all="ignore"):
        new = data.astype(like.data.dtype)  # type: ignore[attr-defined]
    return None if np.isinf(new).any() else constant(new)


Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _scaled(combine: Combine, shifts: bool) -> Callable[[Match], Expr | None]:
    """(linear [+ t]) * s, or / s, as linear' [+ t']."""

    def replacement(match: Match) -> Expr | None:
        call, weights = match.value(linear), match.value(w)
        axis, other = channel_axes(call)
        scale = _wide(match.value(s))
        channels = _along_channels(scale, len(call.shape), axis, call.shape[axis])
        plain = bool(np.all(np.isfinite(scale) & (scale != 0)))
        if channels is None or call.dtype != weights.dtype or not plain:
            return None
        spread = channels.reshape([-1 if a == other else 1 for a in range(weights.data.ndim)])
        new = _rounded(combine(_wide(weights), spread), weights)
        shift = _rounded(combine(_wide(match.value(t)), scale), weights) if shifts else new
        if new is None or shift is None:
            return None
        result = call_op(call.op, match[x], new, **dict(call.attrs))
        return call_op("add", result, shift) if shifts else result

    return replacement


def _shifted(combine: Combine) -> Callable[[Match], Expr | None]:
    """(linear + t) + s, or - s, as linear + t'."""

    def replacement(match: Match) -> Expr | None:
        shift = _rounded(combine(_wide(match.value(t)), _wide(match.value(s))), match.value(w))
        return None if shift is None else call_op("add", match[linear], shift)

    return replacement


def _with_bias(match: Match) -> Expr:
    """`bias_add` as an addition."""
    bias, axis = match.value(s).data, match.var.attr("axis")
    shape = [1] * len(match.var.shape)
    shape[axis] = -1
    return call_op("add", match[linear], constant(bias.reshape(shape)))


x, w = p.wildcard("x"), p.const("w")
s, t = p.const("s", dtype=FLOATS), p.const("t", dtype=FLOATS)
LINEAR = [operator(name, x, w) for name in ("conv2d", "conv1d", "dense", "matmul")]
linear = reduce(or_, LINEAR).has(used_once=True, where=lambda call: len(call.args[1].shape) > 1)
shifted = (linear + t).has(used_once=True)
RULES: tuple[Rule, ...] = (
    (linear * s, _scaled(np.multiply, shifts=False)),
    (linear / s, _scaled(np.divide, shifts=False)),
    (shifted * s, _scaled(np.multiply, shifts=True)),
    (shifted / s, _scaled(np.divide, shifts=True)),
    (shifted + s, _shifted(np.add)),
    (shifted - s, _shifted(np.subtract)),
    (linear - s, lambda match: call_op("add", match[linear], constant(-match.value(s).data))),
    (p.bias_add(linear, s), _with_bias),
)
