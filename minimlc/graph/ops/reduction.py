"""Operators that combine the values along axes, and those built on them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minimlc.dtypes import is_float
from minimlc.graph.nodes import TensorType
from minimlc.graph.ops.loops import narrow, stage
from minimlc.graph.ops.record import FLOATS, NUMBERS, Op, axes_of, axis_of, refuse, wide
from minimlc.tir import te
from minimlc.tir.nodes import Binary, Expr, binary, const, index, intrin, select

Axis = int | tuple[int, ...] | None
AXIS_ATTRS = (("axis", None), ("keepdims", False))


def _reduced(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if a in axes else size for a, size in enumerate(shape))
    return tuple(size for a, size in enumerate(shape) if a not in axes)


def _check_axes(x: TensorType, axes: Sequence[int]) -> None:
    if not axes:
        refuse("there is no axis to reduce", "E204", "the tensor needs at least one dimension")
    for axis in axes:
        if x.shape[axis] == 0:
            refuse(f"cannot reduce axis {axis}: it has size 0")


def _reduce_type(x: TensorType, axis: Axis, keepdims: bool) -> TensorType:
    axes = axes_of(axis, x.ndim)
    _check_axes(x, axes)
    return TensorType(_reduced(x.shape, axes, keepdims), x.dtype)


def _arg_type(x: TensorType, axis: int, keepdims: bool) -> TensorType:
    return TensorType(_reduce_type(x, axis_of(axis, x.ndim), keepdims).shape, "int64")


def _full_index(i: Sequence[Expr], inner: dict[int, Any], ndim: int, keepdims: bool) -> tuple:
    """Indices into the input: `inner` along the reduced axes, the output's elsewhere."""
    outer = iter([e for a, e in enumerate(i) if a not in inner] if keepdims else i)
    return tuple(inner[a] if a in inner else next(outer) for a in range(ndim))


def _reduce(
    x: te.Tensor,
    axes: Sequence[int],
    keepdims: bool,
    combine: Callable[..., te.Reduction],
    value: Callable[..., Expr],
    name: str,
) -> te.Tensor:
    """`combine` over `axes` of `value(x's index, output's index)`."""
    inner = {a: te.reduce_axis((0, x.shape[a]), f"k{n}") for n, a in enumerate(axes)}

    def element(*i: Expr) -> te.Reduction:
        full = _full_index(i, inner, x.ndim, keepdims)
        return combine(value(full, i), axis=list(inner.values()))

    return te.compute(_reduced(x.shape, axes, keepdims), element, name=name)


def _lower_reduction(name: str, combine: Callable[..., te.Reduction], sums: bool) -> Callable:
    """The lowering of a plain reduction; `sums` says that it rounds at every step."""

    def lower(x: te.Tensor, axis: Axis, keepdims: bool) -> te.Tensor:
        inside = wide(x.dtype) if sums else x.dtype
        total = _reduce(
            x,
            axes_of(axis, x.ndim),
            keepdims,
            combine,
            lambda full, i: x[full].astype(inside),
            name if inside == x.dtype else stage(name, x.dtype),
        )
        return narrow(total, x.dtype, name)

    return lower


def _lower_mean(x: te.Tensor, axis: Axis, keepdims: bool) -> te.Tensor:
    axes = axes_of(axis, x.ndim)
    count = float(np.prod([x.shape[a] for a in axes]))
    total = _reduce(
        x, axes, keepdims, te.sum, lambda full, i: x[full].astype(wide(x.dtype)), "mean_sum"
    )
    return te.compute(
        total.shape, lambda *i: (total[i] / const(count, total.dtype)).astype(x.dtype), name="mean"
    )


def _lower_arg(name: str, combine: Callable[..., te.Reduction]) -> Callable:
    """The first index of the extreme value, which is the first NaN where there is one."""

    def lower(x: te.Tensor, axis: int, keepdims: bool) -> te.Tensor:
        along = axis_of(axis, x.ndim)
        best = _reduce(x, (along,), keepdims, combine, lambda full, i: x[full], f"{name}_value")

        def place(full: tuple, i: tuple) -> Expr:
            found: Expr = binary("==", x[full], best[i])
            if is_float(x.dtype):
                found = Binary("or", found, intrin("isnan", x[full]))
            return select(found, full[along], index(x.shape[along]))

        return _reduce(x, (along,), keepdims, te.min, place, name)

    return lower


def _meaning_of_sum(function: Callable) -> Callable:
    def meaning(x: np.ndarray, axis: Axis, keepdims: bool) -> np.ndarray:
        return function(x, axis=axis, keepdims=keepdims, dtype=x.dtype)

    return meaning


def _mean(x: np.ndarray, axis: Axis, keepdims: bool) -> np.ndarray:
    return np.mean(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def _softmax_type(x: TensorType, axis: int) -> TensorType:
    _check_axes(x, (axis_of(axis, x.ndim),))
    return x


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _others(i: Sequence[Expr], axis: int) -> tuple[Expr, ...]:
    return (*i[:axis], *i[axis + 1 :])


def _lower_softmax(x: te.Tensor, axis: int) -> te.Tensor:
    along = axis_of(axis, x.ndim)
    inside = wide(x.dtype)
    top = _reduce(x, (along,), False, te.max, lambda full, i: x[full], "softmax_max")
    powers = te.compute(
        x.shape,
        lambda *i: intrin("exp", x[i].astype(inside) - top[_others(i, along)].astype(inside)),
        name="softmax_exp",
    )
    total = _reduce(powers, (along,), False, te.sum, lambda full, i: powers[full], "softmax_sum")
    return te.compute(
        x.shape,
        lambda *i: (powers[i] / total[_others(i, along)]).astype(x.dtype),
        name="softmax",
    )


def _lower_log_softmax(x: te.Tensor, axis: int) -> te.Tensor:
    along = axis_of(axis, x.ndim)
    inside = wide(x.dtype)
    top = _reduce(x, (along,), False, te.max, lambda full, i: x[full], "log_softmax_max")

    def shifted(full: Sequence[Expr]) -> Expr:
        return x[tuple(full)].astype(inside) - top[_others(full, along)].astype(inside)

    total = _reduce(
        x, (along,), False, te.sum, lambda full, i: intrin("exp", shifted(full)), "log_softmax_sum"
    )
    return te.compute(
        x.shape,
        lambda *i: (shifted(i) - intrin("log", total[_others(i, along)])).astype(x.dtype),
        name="log_softmax",
    )


def _layer_norm_type(
    x: TensorType, gamma: TensorType, beta: TensorType, axes: Axis, epsilon: float
) -> TensorType:
    normal = axes_of(axes, x.ndim, "axes")
    _check_axes(x, normal)
    wanted = tuple(x.shape[a] for a in normal)
    for name, given in (("gamma", gamma), ("beta", beta)):
        if given.shape != wanted:
            refuse(f"{name} has shape {given.shape}, the normalized axes are {wanted}")
    return x


def _along(value: np.ndarray, axes: Sequence[int], ndim: int) -> np.ndarray:
    sizes = dict(zip(axes, value.shape, strict=True))
    return value.reshape([sizes.get(a, 1) for a in range(ndim)])


def _layer_norm(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, axes: Axis, epsilon: float
) -> np.ndarray:
    normal = axes_of(axes, x.ndim)
    centred = x - x.mean(axis=normal, keepdims=True)
    variance = np.mean(centred * centred, axis=normal, keepdims=True)
    scaled = centred / np.sqrt(variance + x.dtype.type(epsilon))
    return scaled * _along(gamma, normal, x.ndim) + _along(beta, normal, x.ndim)


def _lower_layer_norm(
    x: te.Tensor, gamma: te.Tensor, beta: te.Tensor, axes: Axis, epsilon: float
) -> te.Tensor:
    normal = axes_of(axes, x.ndim)
    inside = wide(x.dtype)
    count = const(float(np.prod([x.shape[a] for a in normal])), inside)

    def outer(i: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(e for a, e in enumerate(i) if a not in normal)

    def at(value: te.Tensor, i: Sequence[Expr]) -> Expr:
        return value[tuple(i[a] for a in normal)].astype(inside)

    def sums(name: str, of: Callable[[Sequence[Expr]], Expr]) -> te.Tensor:
        return _reduce(x, normal, False, te.sum, lambda full, i: of(full), f"layer_norm_{name}")

    total = sums("sum", lambda full: x[tuple(full)].astype(inside))

    def centred(full: Sequence[Expr]) -> Expr:
        return x[tuple(full)].astype(inside) - total[outer(full)] / count

    squares = sums("squares", lambda full: centred(full) * centred(full))

    def inverse(*i: Expr) -> Expr:
        return const(1.0, inside) / intrin("sqrt", squares[i] / count + epsilon)

    scale = te.compute(squares.shape, inverse, name="layer_norm_scale")

    def element(*i: Expr) -> Expr:
        normed = centred(i) * scale[outer(i)]
        return (normed * at(gamma, i) + at(beta, i)).astype(x.dtype)

    return te.compute(x.shape, element, name="layer_norm")


def _reduction(
    name: str, doc: str, meaning: Callable, combine: Callable[..., te.Reduction], sums: bool
) -> Op:
    return Op(
        name,
        ("x",),
        f"{doc} along `axis` (an integer, a tuple, or None for all axes).",
        infer=_reduce_type,
        meaning=meaning,
        lower=_lower_reduction(name, combine, sums),
        dtypes=NUMBERS,
        attrs=AXIS_ATTRS,
    )


def _arg(name: str, doc: str, meaning: Callable, combine: Callable[..., te.Reduction]) -> Op:
    return Op(
        name,
        ("x",),
        f"The index of the first {doc} value along `axis`, as int64; of the first NaN if any.",
        infer=_arg_type,
        meaning=meaning,
        lower=_lower_arg(name, combine),
        dtypes=NUMBERS,
        attrs=(("axis", -1), ("keepdims", False)),
    )


OPS = (
    _reduction("sum", "The sum", _meaning_of_sum(np.sum), te.sum, sums=True),
    _reduction("prod", "The product", _meaning_of_sum(np.prod), te.prod, sums=True),
    _reduction("max", "The greatest value (NaN if any is)", np.max, te.max, sums=False),
    _reduction("min", "The least value (NaN if any is)", np.min, te.min, sums=False),
    Op(
        "mean",
        ("x",),
        "The mean along `axis` (an integer, a tuple, or None for all axes).",
        infer=_reduce_type,
        meaning=_mean,
        lower=_lower_mean,
        dtypes=FLOATS,
        attrs=AXIS_ATTRS,
    ),
    _arg("argmax", "greatest", np.argmax, te.max),
    _arg("argmin", "least", np.argmin, te.min),
    Op(
        "softmax",
        ("x",),
        "exp(x - m) / sum(exp(x - m)) along `axis`, with m the greatest x there.",
        infer=_softmax_type,
        meaning=_softmax,
        lower=_lower_softmax,
        dtypes=FLOATS,
        attrs=(("axis", -1),),
    ),
    Op(
        "log_softmax",
        ("x",),
        "x - m - log(sum(exp(x - m))) along `axis`, with m the greatest x there.",
        infer=_softmax_type,
        meaning=_log_softmax,
        lower=_lower_log_softmax,
        dtypes=FLOATS,
        attrs=(("axis", -1),),
    ),
    Op(
        "layer_norm",
        ("x", "gamma", "beta"),
        "(x - mean) / sqrt(variance + epsilon) * gamma + beta over `axes` (Ba et al. 2016).",
        infer=_layer_norm_type,
        meaning=_layer_norm,
        lower=_lower_layer_norm,
        dtypes=FLOATS,
        attrs=(("axes", -1), ("epsilon", 1e-5)),
    ),
)
