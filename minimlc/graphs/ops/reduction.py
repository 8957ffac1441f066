"""Operators that combine the values along axes, and those built on them."""

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from ml_dtypes import finfo

from minimlc.graphs.ops.broadcast import maximum, power, where
from minimlc.graphs.ops.checks import ALL, BOOL, NUMBERS, Axes, axes_of, axis_of, refuse
from minimlc.graphs.ops.create import full_like, ones_like
from minimlc.graphs.ops.elementwise import absolute, exp, isfinite, log, sqrt
from minimlc.graphs.ops.record import Op, composite, primitive
from minimlc.graphs.ops.shape import reshape
from minimlc.graphs.ops.values import Values, iota, named, spread
from minimlc.loops.ir.nodes import Binary, Expr, binary, const, index, intrin, select
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import is_float, to_numpy


def _axes(axis: object, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction; as numpy has it, a scalar is reduced along axis 0 or -1, too."""
    return () if not ndim and axis in (0, -1) else axes_of(axis, ndim)


def _reduce(
    x: Values,
    axes: Sequence[int],
    keepdims: bool,
    combine: Callable[..., te.Reduction],
    name: str,
    value: Callable[..., Expr] | None = None,
    empty: int | None = None,
) -> Values:
    """`combine` over `axes` of x, or of `value(x's index, output's index)`; `empty` is the result
    for no values.
    """
    if not axes:
        return x
    for axis in axes if empty is None else ():
        if x.shape[axis] == 0:
            refuse(f"cannot reduce axis {axis}: it has size 0")
    sizes = [1 if a in axes else size for a, size in enumerate(x.shape)]
    shape = sizes if keepdims else [size for a, size in enumerate(x.shape) if a not in axes]
    if empty is not None and not all(x.shape[a] for a in axes):
        return Values(shape, x.dtype, lambda *i: const(empty, x.dtype), name)

    def element(*i: Expr) -> te.Reduction:
        inner = {a: te.reduce_axis((0, x.shape[a]), f"k{n}") for n, a in enumerate(axes)}
        outer = iter([e for a, e in enumerate(i) if a not in inner] if keepdims else i)
        full = tuple(inner[a] if a in inner else next(outer) for a in range(x.ndim))
        return combine(value(full, i) if value else x[full], axis=list(inner.values()))

    return Values(shape, x.dtype, element, name)


def _reduction(
    name: str,
    doc: str,
    meaning: Callable[..., Any],
    combine: Callable[..., Any],
    rounds: bool,
    dtypes: tuple[str, ...] = NUMBERS,
    empty: int | None = None,
) -> Op:
    def formula(x: Values, *, axis: Axes = None, keepdims: bool = False) -> Values:
        source = x if rounds else x.native  # an extreme is an element: it need not be wide
        total = _reduce(source, _axes(axis, x.ndim), keepdims, combine, name, None, empty)
        return total.astype(x.dtype)

    text = f"{doc} along `axis` (an integer, a tuple, or None for all axes)."
    return primitive(name, dtypes, meaning, text, rounds=rounds)(formula)


def _arg(
    name: str, doc: str, meaning: Callable[..., Any], combine: Callable[..., te.Reduction]
) -> Op:
    """The first index of the extreme value, which is the first NaN where there is one."""

    def formula(x: Values, *, axis: int | None = -1, keepdims: bool = False) -> Values:
        if axis is None or not _axes(axis, x.ndim):
            kept = (1,) * (x.ndim if keepdims else 0)
            return reshape(formula(reshape(x, shape=(-1,))), shape=kept)
        along = axis_of(axis, x.ndim)
        best = _reduce(x, (along,), keepdims, combine, f"{name}_value")

        def place(full: tuple, i: tuple) -> Expr:
            hit: Expr = binary("==", x[full], best[i])
            if is_float(x.dtype):
                hit = Binary("or", hit, intrin("isnan", x[full]))
            return select(hit, full[along], index(x.shape[along]))

        places = _reduce(x, (along,), keepdims, te.min, name, place)
        return Values(places.shape, "int64", places.element, name)

    text = f"The index of the first {doc} value along `axis` (of all in order if it is None), as "
    text += "int64; of the first NaN if any."
    return primitive(name, NUMBERS, meaning, text)(formula)


def _same_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    def meaning(x: np.ndarray, axis: Axes, keepdims: bool) -> np.ndarray:
        return function(x, axis=axis, keepdims=keepdims, dtype=x.dtype)

    return meaning


total = _reduction("sum", "The sum", _same_dtype(np.sum), te.sum, True, NUMBERS, 0)
product = _reduction("prod", "The product", _same_dtype(np.prod), te.prod, True, NUMBERS, 1)
greatest = _reduction("max", "The greatest value (NaN if any is)", np.max, te.max, False, ALL)
least = _reduction("min", "The least value (NaN if any is)", np.min, te.min, False, ALL)
whether_any = _reduction("any", "Whether any holds", np.any, te.max, False, BOOL, 0)
whether_all = _reduction("all", "Whether all hold", np.all, te.min, False, BOOL, 1)
argmax = _arg("argmax", "greatest", np.argmax, te.max)
argmin = _arg("argmin", "least", np.argmin, te.min)


# What follows is evaluated on arrays, too.


def _kept(x: Any, axes: Sequence[int], ndim: int) -> Any:
    """`x`, a reduction over `axes` of `ndim` axes, with axes of size 1 in their place."""
    return spread(x, [a for a in range(ndim) if a not in axes], ndim)


def _mean(x: Any, axis: Axes, keepdims: bool, name: str) -> Any:
    """The mean along `axis`; loops store the sum as `name`."""
    count = prod(x.shape[a] for a in _axes(axis, x.ndim))
    return named(total(x, axis=axis, keepdims=keepdims), name) / float(count)


def _along(reduce: Op, x: Any, axis: int, name: str) -> Any:
    return _kept(named(reduce(x, axis=axis), name), (axis,), x.ndim)


def _softmax(x: Any, *, axis: int = -1) -> Any:
    """exp(x - m) / sum(exp(x - m)) along `axis`, with m the greatest x there."""
    return of_rows(weights_of, x, axis)


def of_rows(formula: Callable[..., Any], x: Any, axis: int) -> Any:
    """`formula` along an axis: a scalar counts as a vector of one; without elements, `x` itself."""
    if not x.ndim:
        axis_of(axis, 1)
        return reshape(formula(reshape(x, shape=(1,)), 0), shape=())
    along = axis_of(axis, x.ndim)
    return x if 0 in x.shape else formula(x, along)


def weights_of(x: Any, along: int, masked: bool = False) -> Any:
    """The softmax; a row of nothing but -inf gives NaN, or zeros if it is `masked`."""
    most = _along(greatest, x, along, "softmax_max")
    if masked:
        most = maximum(most, float(finfo(to_numpy(str(x.dtype))).min))
    powers = named(exp(x - most), "softmax_exp")
    sums = named(total(powers, axis=along), "softmax_sum")
    sums = maximum(sums, 1.0) if masked else sums  # other rows have no less: exp(0) is in them
    if isinstance(x, Values):  # loops multiply by the inverse: a division for each row
        return powers * _kept(named(1.0 / sums, "softmax_scale"), (along,), x.ndim)
    return powers / _kept(sums, (along,), x.ndim)


def _log_softmax(x: Any, *, axis: int = -1) -> Any:
    """x - m - log(sum(exp(x - m))) along `axis`, with m the greatest x there."""

    def formula(x: Any, along: int) -> Any:
        shifted = x - _along(greatest, x, along, "log_softmax_max")
        return shifted - log(_along(total, exp(shifted), along, "log_softmax_sum"))

    return of_rows(formula, x, axis)


def _layer_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    *,
    axes: Axes = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over `axes` (Ba et al. 2016); beta only
    with `center`, gamma only with `scale`.
    """
    normal = axes_of(axes, x.ndim, "axes")
    sizes = tuple(x.shape[a] for a in normal)
    for name, weight in (("gamma", gamma), ("beta", beta)):
        if weight.shape != sizes:
            refuse(f"{name} has shape {weight.shape}, the normalized axes are {sizes}")
    average = _mean(x, normal, False, "layer_norm_sum")
    centred = x - _kept(average, normal, x.ndim)
    variance = _mean(centred * centred, normal, False, "layer_norm_squares")
    deviation = sqrt(variance + epsilon)
    if isinstance(x, Values):  # loops multiply by the inverse: a division for each row
        inverse = named(1.0 / deviation, "layer_norm_scale")
        result = centred * _kept(inverse, normal, x.ndim)
    else:
        result = centred / _kept(deviation, normal, x.ndim)
    result = result * spread(gamma, normal, x.ndim) if scale else result
    return result + spread(beta, normal, x.ndim) if center else result


def _rms_norm(x: Any, weight: Any, *, axes: Axes = -1, epsilon: float = 1e-5) -> Any:
    """x / sqrt(mean(x * x) + epsilon) * weight over `axes` (Zhang and Sennrich 2019)."""
    normal = axes_of(axes, x.ndim, "axes")
    if weight.shape != tuple(x.shape[a] for a in normal):
        refuse(f"weight has shape {weight.shape}, which is not that of the axes {normal}")
    squares = _mean(x * x, normal, False, "rms_norm_squares")
    return x / _kept(sqrt(squares + epsilon), normal, x.ndim) * spread(weight, normal, x.ndim)


def _variance(x: Any, *, axis: Axes = None, keepdims: bool = False, correction: int = 0) -> Any:
    """The sum of the squared distances from the mean along `axis`, over their number less
    `correction` (1: the unbiased estimate).
    """
    axes = _axes(axis, x.ndim)
    count = prod(x.shape[a] for a in axes)
    if not isinstance(correction, int) or not 0 <= correction < max(count, 1):
        refuse(f"correction={correction!r} is an integer from 0 to {count - 1}", "E204")
    centred = x - _kept(_mean(x, axes, False, "variance_mean"), axes, x.ndim)
    variance = _mean(centred * centred, axes, keepdims, "variance_sum")
    return variance * (count / (count - correction)) if correction else variance


def _std(x: Any, **options: Any) -> Any:
    """The square root of the variance along `axis`."""
    return sqrt(variance(x, **options))


mean = composite(
    "mean",
    lambda x, *, axis=None, keepdims=False: _mean(x, axis, keepdims, "mean_sum"),
    "The mean along `axis` (an integer, a tuple, or None for all axes).",
)
softmax = composite("softmax", _softmax)
log_softmax = composite("log_softmax", _log_softmax)
layer_norm = composite("layer_norm", _layer_norm)
rms_norm = composite("rms_norm", _rms_norm)
variance = composite("variance", _variance)
std = composite("std", _std, attrs=variance.attrs)


def _norm(x: Any, *, p: float = 2, axis: Axes = None, keepdims: bool = False) -> Any:
    """The p-norm along `axis`: the sum of |x| ** p, to the power of 1 / p; of p = inf and -inf the
    greatest and the least |x|.
    """
    size, options = absolute(x), {"axis": axis, "keepdims": keepdims}
    if not p or math.isnan(p):
        refuse(f"p={p} is no exponent of a norm", "E204")
    if math.isinf(p):
        return (greatest if p > 0 else least)(size, **options)
    if p == 1:
        return total(size, **options)
    if p == 2:
        return sqrt(total(size * size, **options))
    powers = total(power(size, full_like(size, value=float(p))), **options)
    return power(powers, full_like(powers, value=1 / p))


def _logsumexp(x: Any, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) along `axis`, without an overflow."""
    axes = _axes(axis, x.ndim)
    if 0 in (x.shape[a] for a in axes):
        return log(total(x, axis=axes, keepdims=keepdims))
    most = named(greatest(x, axis=axes, keepdims=True), "logsumexp_max")
    finite = where(isfinite(most), most, 0.0)
    powers = total(exp(x - finite), axis=axes, keepdims=True)
    result = log(named(powers, "logsumexp_sum")) + finite
    return result if keepdims else reshape(result, shape=_without(x.shape, axes))


def _without(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for a, size in enumerate(shape) if a not in axes)


def _hardmax(x: Any, *, axis: int = -1) -> Any:
    """1 at the first greatest value along `axis`, else 0."""

    def formula(x: Any, along: int) -> Any:
        first = named(argmax(x, axis=along, keepdims=True), "hardmax_index")
        hit = first == spread(iota(x.shape[along], x), (along,), x.ndim)
        return where(hit, ones_like(x), 0)

    return of_rows(formula, x, axis)


norm = composite("norm", _norm)
logsumexp = composite("logsumexp", _logsumexp)
hardmax = composite("hardmax", _hardmax, dtypes=NUMBERS, rounds=False)
