"""Convolution and pooling over images: (batch, channels, height, width)."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from minimlc.dtypes import integer_range, is_float
from minimlc.graph.nodes import TensorType
from minimlc.graph.ops.loops import narrow, stage
from minimlc.graph.ops.record import FLOATS, NUMBERS, REQUIRED, Op, refuse, sizes_of, wide
from minimlc.graph.ops.slicing import padded
from minimlc.tir import te
from minimlc.tir.nodes import Expr, as_expr, binary, const

Pair = tuple[int, int]
Window = tuple[Pair, Pair, Pair]


def _pair(value: object, name: str, least: int) -> Pair:
    """(height, width); one number stands for both."""
    sizes = sizes_of(value, name)
    both = sizes * 2 if len(sizes) == 1 else sizes
    if len(both) != 2 or min(both) < least:
        refuse(f"{name} is one or two integers >= {least}, got {value!r}", "E204")
    return both[0], both[1]


def _window(size: object, strides: object, padding: object) -> Window:
    """The window's size, strides and padding, each as (height, width)."""
    kernel = _pair(size, "pool_size", 1)
    steps = kernel if strides is None else _pair(strides, "strides", 1)
    return kernel, steps, _pair(padding, "padding", 0)


def _image_type(x: TensorType, channels: int, window: Window) -> TensorType:
    sizes = []
    for name, size, k, s, p in zip(("height", "width"), x.shape[2:], *window, strict=True):
        if size + 2 * p < k:
            refuse(
                f"the {name} {size} with padding {p} on each side is less than the window's {k}",
                hint="a greater padding, or a smaller window",
            )
        sizes.append((size + 2 * p - k) // s + 1)
    return TensorType((x.shape[0], channels, *sizes), x.dtype)


def _check_image(x: TensorType) -> None:
    if x.ndim != 4:
        refuse(f"x has {x.ndim} dimension(s), it must be (batch, channels, height, width)")


def _conv_type(x: TensorType, w: TensorType, strides: object, padding: object) -> TensorType:
    _check_image(x)
    if w.ndim != 4:
        refuse(f"w has {w.ndim} dimension(s), it must be (outputs, inputs, height, width)")
    if x.shape[1] != w.shape[1]:
        refuse(f"x has {x.shape[1]} channels, w takes {w.shape[1]}")
    if 0 in w.shape:
        refuse("w has an axis of size 0: there is nothing to sum")
    return _image_type(x, w.shape[0], _window(w.shape[2:], strides, padding))


def _windows(x: np.ndarray, window: Window, fill: Any) -> np.ndarray:
    """All windows of `x`: (batch, channels, rows, columns, window height, window width)."""
    kernel, steps, (p, q) = window
    around = np.pad(x, ((0, 0), (0, 0), (p, p), (q, q)), constant_values=fill)
    return sliding_window_view(around, kernel, axis=(2, 3))[:, :, :: steps[0], :: steps[1]]


def _conv(x: np.ndarray, w: np.ndarray, strides: object, padding: object) -> np.ndarray:
    windows = _windows(x, _window(w.shape[2:], strides, padding), x.dtype.type(0))
    sums = np.tensordot(windows, w, axes=((1, 4, 5), (1, 2, 3)))
    return np.moveaxis(sums, 3, 1)


def _widths(around: Pair) -> tuple[Pair, ...]:
    return (0, 0), (0, 0), (around[0], around[0]), (around[1], around[1])


def _surround(x: te.Tensor, around: Pair, value: float, name: str) -> te.Tensor:
    return padded(x, _widths(around), value, name) if any(around) else x


def _lower_conv(x: te.Tensor, w: te.Tensor, strides: object, padding: object) -> te.Tensor:
    window = _window(w.shape[2:], strides, padding)
    (kernel, (s, t), around) = window
    source = _surround(x, around, 0, "conv2d_pad")
    inside = wide(x.dtype)
    c = te.reduce_axis((0, x.shape[1]), "c")
    p = te.reduce_axis((0, kernel[0]), "p")
    q = te.reduce_axis((0, kernel[1]), "q")

    def element(n: Expr, o: Expr, i: Expr, j: Expr) -> te.Reduction:
        value = source[n, c, i * s + p, j * t + q].astype(inside)
        return te.sum(value * w[o, c, p, q].astype(inside), axis=[c, p, q])

    shape = _image_type(TensorType(x.shape, x.dtype), w.shape[0], window).shape
    return narrow(te.compute(shape, element, stage("conv2d", x.dtype)), x.dtype, "conv2d")


def _pool_type(
    x: TensorType, pool_size: object, strides: object, padding: object, **_: object
) -> TensorType:
    _check_image(x)
    window = _window(pool_size, strides, padding)
    for k, p in zip(window[0], window[2], strict=True):
        if p >= k:
            refuse(f"padding {p} leaves windows of size {k} without any element", "E204")
    return _image_type(x, x.shape[1], window)


def _least(dtype: str) -> float:
    return float("-inf") if is_float(dtype) else integer_range(dtype)[0]


def _max_pool(x: np.ndarray, pool_size: object, strides: object, padding: object) -> np.ndarray:
    return _windows(x, _window(pool_size, strides, padding), _least(x.dtype.name)).max((4, 5))


def _avg_pool(
    x: np.ndarray, pool_size: object, strides: object, padding: object, count_include_pad: bool
) -> np.ndarray:
    window = _window(pool_size, strides, padding)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    sums = _windows(x, window, zero).sum((4, 5))
    return sums / _windows(np.ones_like(x), window, one if count_include_pad else zero).sum((4, 5))


def _lower_pool(x: te.Tensor, window: Window, maximum: bool, name: str) -> te.Tensor:
    kernel, (s, t), around = window
    source = _surround(x, around, _least(x.dtype) if maximum else 0.0, f"{name}_pad")
    inside = x.dtype if maximum else wide(x.dtype)
    p = te.reduce_axis((0, kernel[0]), "p")
    q = te.reduce_axis((0, kernel[1]), "q")

    def element(n: Expr, c: Expr, i: Expr, j: Expr) -> te.Reduction:
        value = source[n, c, i * s + p, j * t + q].astype(inside)
        return (te.max if maximum else te.sum)(value, axis=[p, q])

    shape = _image_type(TensorType(x.shape, x.dtype), x.shape[1], window).shape
    return te.compute(shape, element, name=name)


def _lower_max_pool(x: te.Tensor, pool_size: object, strides: object, padding: object) -> te.Tensor:
    return _lower_pool(x, _window(pool_size, strides, padding), True, "max_pool2d")


def _covered(i: Expr, size: int, kernel: int, step: int, around: int) -> Expr | int:
    """How many elements of an axis the window number `i` covers."""
    if not around:
        return kernel
    end = binary("min", i * step + (kernel - around), size)
    return end - binary("max", i * step - around, 0)


def _lower_avg_pool(
    x: te.Tensor, pool_size: object, strides: object, padding: object, count_include_pad: bool
) -> te.Tensor:
    window = _window(pool_size, strides, padding)
    kernel, steps, around = window
    total = _lower_pool(x, window, False, "avg_pool2d_sum")
    plain = count_include_pad or not any(around)

    def element(n: Expr, c: Expr, i: Expr, j: Expr) -> Expr:
        count: Expr = const(float(kernel[0] * kernel[1]), total.dtype)
        if not plain:
            rows = _covered(i, x.shape[2], kernel[0], steps[0], around[0])
            columns = _covered(j, x.shape[3], kernel[1], steps[1], around[1])
            count = as_expr(rows * columns).astype(total.dtype)
        return (total[n, c, i, j] / count).astype(x.dtype)

    return te.compute(total.shape, element, name="avg_pool2d")


POOL_ATTRS = (("pool_size", REQUIRED), ("strides", None), ("padding", 0))

OPS = (
    Op(
        "conv2d",
        ("x", "w"),
        "Cross-correlation of x: (n, c, h, w) with w: (o, c, p, q); `padding` zeros around x.",
        infer=_conv_type,
        meaning=_conv,
        lower=_lower_conv,
        dtypes=NUMBERS,
        attrs=(("strides", 1), ("padding", 0)),
    ),
    Op(
        "max_pool2d",
        ("x",),
        "The greatest value of each window of x: (n, c, h, w); `strides` default to its size.",
        infer=_pool_type,
        meaning=_max_pool,
        lower=_lower_max_pool,
        dtypes=NUMBERS,
        attrs=POOL_ATTRS,
    ),
    Op(
        "avg_pool2d",
        ("x",),
        "The mean of each window of x: (n, c, h, w), over its elements inside x by default.",
        infer=_pool_type,
        meaning=_avg_pool,
        lower=_lower_avg_pool,
        dtypes=FLOATS,
        attrs=(*POOL_ATTRS, ("count_include_pad", False)),
    ),
)
