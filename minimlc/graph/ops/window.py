"""Convolution and pooling over images: (batch, channels, height, width)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from minimlc.dtypes import integer_range, is_float
from minimlc.graph.ops.checks import FLOATS, NUMBERS, refuse, sizes_of
from minimlc.graph.ops.record import primitive
from minimlc.graph.ops.slicing import padded
from minimlc.graph.ops.values import Values
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


def _check_image(x: Values) -> None:
    if x.ndim != 4:
        refuse(f"x has {x.ndim} dimension(s), it must be (batch, channels, height, width)")


def _image_shape(x: Values, channels: int, window: Window) -> tuple[int, ...]:
    sizes = []
    for name, size, k, s, p in zip(("height", "width"), x.shape[2:], *window, strict=True):
        if size + 2 * p < k:
            refuse(
                f"the {name} {size} with padding {p} on each side is less than the window's {k}",
                hint="a greater padding, or a smaller window",
            )
        sizes.append((size + 2 * p - k) // s + 1)
    return (x.shape[0], channels, *sizes)


def _around(x: Values, around: Pair, value: float, name: str) -> Values:
    """`x` with rows and columns of `value` around it, stored as `name`."""
    (p, q) = around
    if not p and not q:
        return x
    widths = ((0, 0), (0, 0), (p, p), (q, q))
    return padded(x.native, widths, value).named(name).astype(x.dtype)


def _windows(x: np.ndarray, window: Window, fill: Any) -> np.ndarray:
    """All windows of `x`: (batch, channels, rows, columns, window height, window width)."""
    kernel, steps, (p, q) = window
    around = np.pad(x, ((0, 0), (0, 0), (p, p), (q, q)), constant_values=fill)
    return sliding_window_view(around, kernel, axis=(2, 3))[:, :, :: steps[0], :: steps[1]]


def _conv(x: np.ndarray, w: np.ndarray, strides: object, padding: object) -> np.ndarray:
    windows = _windows(x, _window(w.shape[2:], strides, padding), x.dtype.type(0))
    sums = np.tensordot(windows, w, axes=((1, 4, 5), (1, 2, 3)))
    return np.moveaxis(sums, 3, 1)


@primitive("conv2d", NUMBERS, _conv, rounds=True)
def conv2d(x: Values, w: Values, *, strides: Any = 1, padding: Any = 0) -> Values:
    """Cross-correlation of x: (n, c, h, w) with w: (o, c, p, q); `padding` zeros around x."""
    _check_image(x)
    if w.ndim != 4:
        refuse(f"w has {w.ndim} dimension(s), it must be (outputs, inputs, height, width)")
    if x.shape[1] != w.shape[1]:
        refuse(f"x has {x.shape[1]} channels, w takes {w.shape[1]}")
    if 0 in w.shape:
        refuse("w has an axis of size 0: there is nothing to sum")
    window = _window(w.shape[2:], strides, padding)
    kernel, (s, t), around = window
    source = _around(x, around, 0, "conv2d_pad")

    def element(n: Expr, o: Expr, i: Expr, j: Expr) -> te.Reduction:
        c = te.reduce_axis((0, x.shape[1]), "c")
        p = te.reduce_axis((0, kernel[0]), "p")
        q = te.reduce_axis((0, kernel[1]), "q")
        return te.sum(source[n, c, i * s + p, j * t + q] * w[o, c, p, q], axis=[c, p, q])

    return Values(_image_shape(x, w.shape[0], window), x.dtype, element, "conv2d")


def _least(dtype: str) -> float:
    return float("-inf") if is_float(dtype) else integer_range(dtype)[0]


def _pool(
    x: Values, window: Window, fill: float, combine: Callable[..., te.Reduction], name: str
) -> Values:
    """`combine` over each window of x, with `fill` around it."""
    kernel, (s, t), around = window
    for k, p in zip(kernel, around, strict=True):
        if p >= k:
            refuse(f"padding {p} leaves windows of size {k} without any element", "E204")
    source = _around(x, around, fill, f"{name}_pad")

    def element(n: Expr, c: Expr, i: Expr, j: Expr) -> te.Reduction:
        p = te.reduce_axis((0, kernel[0]), "p")
        q = te.reduce_axis((0, kernel[1]), "q")
        return combine(source[n, c, i * s + p, j * t + q], axis=[p, q])

    return Values(_image_shape(x, x.shape[1], window), x.dtype, element, name)


def _max_pool(x: np.ndarray, pool_size: Any, strides: Any, padding: Any) -> np.ndarray:
    return _windows(x, _window(pool_size, strides, padding), _least(x.dtype.name)).max((4, 5))


@primitive("max_pool2d", NUMBERS, _max_pool)
def max_pool2d(x: Values, *, pool_size: Any, strides: Any = None, padding: Any = 0) -> Values:
    """The greatest value of each window of x: (n, c, h, w); `strides` default to its size."""
    _check_image(x)
    window = _window(pool_size, strides, padding)
    return _pool(x, window, _least(x.dtype), te.max, "max_pool2d")


def _avg_pool(
    x: np.ndarray, pool_size: Any, strides: Any, padding: Any, count_include_pad: bool
) -> np.ndarray:
    window = _window(pool_size, strides, padding)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    sums = _windows(x, window, zero).sum((4, 5))
    return sums / _windows(np.ones_like(x), window, one if count_include_pad else zero).sum((4, 5))


def _covered(i: Expr, size: int, kernel: int, step: int, around: int) -> Expr | int:
    """How many elements of an axis the window number `i` covers."""
    if not around:
        return kernel
    end = binary("min", i * step + (kernel - around), size)
    return end - binary("max", i * step - around, 0)


@primitive("avg_pool2d", FLOATS, _avg_pool, rounds=True)
def avg_pool2d(
    x: Values,
    *,
    pool_size: Any,
    strides: Any = None,
    padding: Any = 0,
    count_include_pad: bool = False,
) -> Values:
    """The mean of each window of x: (n, c, h, w), over its elements inside x by default."""
    _check_image(x)
    window = kernel, steps, around = _window(pool_size, strides, padding)
    total = _pool(x, window, 0.0, te.sum, "avg_pool2d_sum")
    whole = count_include_pad or not any(around)

    def element(n: Expr, c: Expr, i: Expr, j: Expr) -> Expr:
        count: Expr = const(float(kernel[0] * kernel[1]), total.dtype)
        if not whole:
            rows = _covered(i, x.shape[2], kernel[0], steps[0], around[0])
            columns = _covered(j, x.shape[3], kernel[1], steps[1], around[1])
            count = as_expr(rows * columns).astype(total.dtype)
        return total[n, c, i, j] / count

    return Values(total.shape, total.dtype, element)
