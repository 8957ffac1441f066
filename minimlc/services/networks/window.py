"""Convolution and pooling over images: (batch, channels, height, width), or in another layout."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from minimlc.graphs.ops.checks import FLOATS, NUMBERS, refuse, sizes_of
from minimlc.graphs.ops.linear import promoted
from minimlc.graphs.ops.record import Op, composite, primitive
from minimlc.graphs.ops.shape import expand_dims, permute_dims, squeeze
from minimlc.graphs.ops.values import Values
from minimlc.loops.ir.nodes import Expr, as_expr, binary, const
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import integer_range, is_float
from minimlc.services.arrays.slicing import padded
from minimlc.services.sizes.sizes import least, most

Sizes = tuple[int, ...]
Around = tuple[tuple[int, int], ...]
NONE: Around = ((0, 0), (0, 0))
IMAGE, KERNEL = "NCHW", "OIHW"


class Window(NamedTuple):
    """How windows lie on the axes of an image: their `size` and `steps`, `around` the padding
    before and after, `apart` the distance of a window's elements.
    """

    size: Sizes
    steps: Sizes
    around: Around
    apart: Sizes

    @property
    def reach(self) -> Sizes:
        """The extent of a window on the image."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.size, self.apart, strict=True))


def _sizes(value: object, counts: set[int], name: str, least: int | None) -> Sizes:
    """As many integers as one of `counts`, none of them below `least`."""
    sizes = sizes_of(value, name)
    if len(sizes) not in counts or (least is not None and min(sizes) < least):
        number = " or ".join(map(str, sorted(counts)))
        bound = "" if least is None else f" >= {least}"
        what = "an integer" if counts == {1} else f"{number} integers"
        refuse(f"{name} is {what}{bound}, got {value!r}", "E204")
    return sizes


def sizes_along(value: object, count: int, name: str, least: int | None = None) -> Sizes:
    """A size for each of `count` axes; one number stands for all."""
    sizes = _sizes(value, {1, count}, name, least)
    return sizes * count if len(sizes) == 1 else sizes


def around_of(padding: object, count: int, least: int | None = None) -> Around:
    """(before, after) of each of `count` axes, from one size, one per axis, or all befores and then
    all afters.
    """
    sizes = _sizes(padding, {1, count, 2 * count}, "padding", least)
    sizes = sizes * count if len(sizes) == 1 else sizes
    return tuple(zip(sizes[:count], sizes[-count:], strict=True))


def _window(size: object, strides: object, padding: object, dilation: object) -> Window:
    kernel = sizes_along(size, 2, "pool_size", 1)
    steps = kernel if strides is None else sizes_along(strides, 2, "strides", 1)
    return Window(kernel, steps, around_of(padding, 2, 0), sizes_along(dilation, 2, "dilation", 1))


def _check_image(x: Values) -> None:
    if x.ndim != 4:
        refuse(f"x has {x.ndim} dimension(s), it must be (batch, channels, height, width)")


def _image_shape(x: Values, channels: int, window: Window) -> tuple[int, ...]:
    sizes = []
    axes = zip(x.shape[2:], window.reach, window.steps, window.around, strict=True)
    for name, (size, reach, step, (before, after)) in zip(("height", "width"), axes, strict=True):
        left = size + before + after - reach
        if left < 0:
            refuse(
                f"the {name} {size} with padding {before} before it and {after} after it is less "
                f"than the window's {reach}",
                hint="a greater padding, or a smaller window",
            )
        sizes.append(left // step + 1)
    return (x.shape[0], channels, *sizes)


def _framed(x: Values, window: Window, value: float, name: str) -> Values:
    """`x` with rows and columns of `value` around it, stored as `name`."""
    if not any(map(any, window.around)):
        return x
    widths = ((0, 0), (0, 0), *window.around)
    return padded(x.native, widths, value).named(name).astype(x.dtype)


def _windows(x: np.ndarray, window: Window, fill: Any) -> np.ndarray:
    """All windows of `x`: (batch, channels, rows, columns, window height, window width)."""
    (s, t), (d, e) = window.steps, window.apart
    around = np.pad(x, ((0, 0), (0, 0), *window.around), constant_values=fill)
    return sliding_window_view(around, window.reach, axis=(2, 3))[:, :, ::s, ::t, ::d, ::e]


def _place(i: Expr, p: Expr, step: int, apart: int) -> Expr:
    """Where along an axis the element `p` of the window number `i` is."""
    return i * step + (p if apart == 1 else p * apart)


def arranged(x: Any, layout: str, wanted: str, name: str) -> Any:
    """`x`, whose axes are called as in `layout`, in the order of `wanted`; arrays, too."""
    if layout == wanted:
        return x
    if not isinstance(layout, str) or sorted(layout) != sorted(wanted):
        refuse(f"{name} is an order of {wanted}, got {layout!r}", "E204")
    if x.ndim != len(layout):
        refuse(f"x has {x.ndim} dimension(s), its layout is {layout}")
    return permute_dims(x, axes=tuple(layout.index(axis) for axis in wanted))


# Convolution


def _sums_of_arrays(
    x: np.ndarray, w: np.ndarray, strides: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray:
    windows = _windows(x, _window(w.shape[2:], strides, padding, dilation), x.dtype.type(0))
    parts = zip(np.split(windows, groups, axis=1), np.split(w, groups), strict=True)
    sums = [np.tensordot(a, b, axes=((1, 4, 5), (1, 2, 3))) for a, b in parts]
    return np.moveaxis(np.concatenate(sums, 3), 3, 1)


@primitive("conv2d", NUMBERS, _sums_of_arrays, rounds=True, table={})
def _sums(
    x: Values, w: Values, *, strides: Any, padding: Any, dilation: Any, groups: int
) -> Values:
    """Sums of products over windows, in layouts NCHW and OIHW."""
    _check_image(x)
    if w.ndim != 4:
        refuse(f"w has {w.ndim} dimension(s), it must be (outputs, inputs, height, width)")
    if not isinstance(groups, int) or groups < 1 or w.shape[0] % groups:
        refuse(f"groups={groups!r} does not divide the {w.shape[0]} outputs", "E204")
    if x.shape[1] != w.shape[1] * groups:
        where = f" in each of {groups} groups" if groups > 1 else ""
        refuse(f"x has {x.shape[1]} channels, w takes {w.shape[1]}{where}")
    if 0 in w.shape[2:]:
        refuse("w has windows of size 0: they are nowhere")
    window = _window(w.shape[2:], strides, padding, dilation)
    source = _framed(x, window, 0, "conv2d_pad")
    outputs, inputs, height, width = w.shape
    (s, t), (d, e) = window.steps, window.apart

    def element(n: Expr, o: Expr, i: Expr, j: Expr) -> Expr | te.Reduction:
        if inputs == 0:
            return const(0, x.dtype)
        c = te.reduce_axis((0, inputs), "c")
        p, q = te.reduce_axis((0, height), "p"), te.reduce_axis((0, width), "q")
        channel = c if groups == 1 else o // (outputs // groups) * inputs + c
        pixel = source[n, channel, _place(i, p, s, d), _place(j, q, t, e)]
        return te.sum(pixel * w[o, c, p, q], axis=[c, p, q])

    return Values(_image_shape(x, outputs, window), x.dtype, element, "conv2d")


def _conv2d(
    x: Any,
    w: Any,
    *,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_layout: str = IMAGE,
    kernel_layout: str = KERNEL,
    out_layout: str = "",
    out_dtype: str = "",
) -> Any:
    """Cross-correlation of x: (n, c, h, w) with w: (o, c / groups, p, q), in any layout; `padding`
    is zeros around x (one size, two, or top, left, bottom, right), `out_dtype` that of the sums.
    A `kernel_layout` "" is the usual one beside `data_layout`.
    """
    image = promoted(arranged(x, data_layout, IMAGE, "data_layout"), out_dtype)
    weights = kernel_layout or ("HWIO" if data_layout == "NHWC" else KERNEL)
    kernel = promoted(arranged(w, weights, KERNEL, "kernel_layout"), out_dtype)
    options = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    sums = _sums(image, kernel, **options)
    return _back(sums, out_layout or data_layout, "out_layout")


def _back(x: Any, layout: str, name: str) -> Any:
    """A (batch, channels, height, width) tensor in another layout."""
    if not isinstance(layout, str) or sorted(layout) != sorted(IMAGE):
        refuse(f"{name} is an order of {IMAGE}, got {layout!r}", "E204")
    return arranged(x, IMAGE, layout, name)


def _conv1d(
    x: Any,
    w: Any,
    *,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: str = "",
) -> Any:
    """Cross-correlation of x: (n, c, l) with w: (o, c / groups, k), as `conv2d` of one row."""
    if x.ndim != 3 or w.ndim != 3:
        why = f"x and w have {x.ndim} and {w.ndim} dimension(s), they must have 3"
        refuse(f"{why}: (batch, channels, length) and (outputs, inputs, length)")
    ((left, right),) = around_of(padding, 1, 0)
    result = conv2d(
        expand_dims(x, axis=2),
        expand_dims(w, axis=2),
        strides=(1, *sizes_of(strides, "strides")),
        padding=(0, left, 0, right),
        dilation=(1, *sizes_of(dilation, "dilation")),
        groups=groups,
        out_dtype=out_dtype,
    )
    return squeeze(result, axis=2)


conv2d = composite("conv2d", _conv2d, dtypes=NUMBERS, rounds=False)
conv1d = composite("conv1d", _conv1d, dtypes=NUMBERS, rounds=False)


# Pooling


def _least(dtype: str) -> float:
    return float("-inf") if is_float(dtype) else integer_range(dtype)[0]


def _check_filled(x: Values, window: Window) -> None:
    """Refuse a window that lies in the padding alone: it has no greatest element, and no mean."""
    _check_image(x)
    sizes = zip(x.shape[2:], _image_shape(x, 1, window)[2:], *window, strict=True)
    for size, number, kernel, step, (before, _), apart in sizes:
        starts: Iterable[Any] = (-before, (number - 1) * step - before)
        if isinstance(number, int) and isinstance(step, int):
            starts = range(-before, number * step - before, step)
        for start in starts:
            inside = max(start, start % apart)  # its first place that is not before x
            if inside >= min(size, start + kernel * apart):
                places = f"{kernel} from {start} on, {apart} apart, where x has 0 to {size - 1}"
                why = f"the padding leaves a window without any element of x: {places}"
                refuse(why, "E204", "a smaller padding or dilation")


def _pool(
    x: Values, window: Window, fill: float, combine: Callable[..., te.Reduction], name: str
) -> Values:
    """`combine` over each window of x, with `fill` around it."""
    _check_image(x)
    source = _framed(x, window, fill, f"{name}_pad")
    (s, t), (d, e) = window.steps, window.apart

    def element(n: Expr, c: Expr, i: Expr, j: Expr) -> te.Reduction:
        p = te.reduce_axis((0, window.size[0]), "p")
        q = te.reduce_axis((0, window.size[1]), "q")
        return combine(source[n, c, _place(i, p, s, d), _place(j, q, t, e)], axis=[p, q])

    return Values(_image_shape(x, x.shape[1], window), x.dtype, element, name)


def _greatest_of_arrays(x: np.ndarray, window: Window, counted: Around) -> np.ndarray:
    return _windows(x, window, _least(x.dtype.name)).max((4, 5))


@primitive("max_pool2d", NUMBERS, _greatest_of_arrays, table={})
def _greatest(x: Values, *, window: Window, counted: Around) -> Values:
    _check_filled(x, window)
    return _pool(x, window, _least(x.dtype), te.max, "max_pool2d")


def _means_of_arrays(x: np.ndarray, window: Window, counted: Around) -> np.ndarray:
    rest = [(a - c, b - d) for (a, b), (c, d) in zip(window.around, counted, strict=True)]
    ones = np.pad(np.ones_like(x), ((0, 0), (0, 0), *counted), constant_values=1)
    counts = _windows(ones, window._replace(around=(rest[0], rest[1])), x.dtype.type(0))
    return _windows(x, window, x.dtype.type(0)).sum((4, 5)) / counts.sum((4, 5))


def _covered(i: Expr, axis: int, size: int, window: Window, counted: Around) -> Expr | int:
    """The number of counted places that the window number `i` covers along an axis."""
    kernel, step, apart = window.size[axis], window.steps[axis], window.apart[axis]
    (before, after), (low, high) = window.around[axis], counted[axis]
    if (before, after) == (low, high):
        return kernel
    if apart == 1:
        end = binary("min", i * step + (kernel - before), size + high)
        return end - binary("max", i * step - before, -low)
    start = i * step - before
    first = binary("max", -((start + low) // apart), 0)
    return binary("min", -((start - (size + high)) // apart), kernel) - first


@primitive("avg_pool2d", FLOATS, _means_of_arrays, rounds=True, table={})
def _means(x: Values, *, window: Window, counted: Around) -> Values:
    if counted == NONE:
        _check_filled(x, window)
    total = _pool(x, window, 0.0, te.sum, "avg_pool2d_sum")

    def element(n: Expr, c: Expr, i: Expr, j: Expr) -> Expr:
        rows = _covered(i, 0, x.shape[2], window, counted)
        columns = _covered(j, 1, x.shape[3], window, counted)
        if isinstance(rows, int) and isinstance(columns, int):
            return total[n, c, i, j] / const(float(rows * columns), total.dtype)
        return total[n, c, i, j] / as_expr(rows * columns).astype(total.dtype)

    return Values(total.shape, total.dtype, element)


def _rounded_up(x: Any, window: Window) -> Window:
    """The windows, and one more along an axis where they leave elements and it starts in x or in
    the padding before it.
    """
    _check_image(x)
    around = []
    axes = zip(x.shape[2:], window.reach, window.steps, window.around, strict=True)
    for size, reach, step, (before, after) in axes:
        count = -(-(size + before + after - reach) // step) + 1
        inside = -(-(size + before) // step)  # start in x or before it
        count = most(least(count, inside), count - 1)
        more = most(0, (count - 1) * step + reach - size - before - after)
        around.append((before, after + more))
    return window._replace(around=(around[0], around[1]))


def _pooling(core: Op, doc: str) -> Op:
    """The operator of `core` in any layout."""

    def formula(
        x: Any,
        *,
        pool_size: Any,
        strides: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = IMAGE,
        out_layout: str = "",
    ) -> Any:
        window, image = (
            _window(pool_size, strides, padding, dilation),
            arranged(x, layout, IMAGE, "layout"),
        )
        counted = window.around if count_include_pad else NONE
        window = _rounded_up(image, window) if ceil_mode else window
        result = core(image, window=window, counted=counted)
        return _back(result, out_layout or layout, "out_layout")

    return composite(core.name, formula, doc, core.dtypes, rounds=False)


max_pool2d = _pooling(
    _greatest,
    "The greatest element of x: (n, c, h, w) in each window; `strides` are its size if None. With "
    "`ceil_mode` the last windows may reach beyond the padding.",
)
avg_pool2d = _pooling(
    _means,
    "The mean of each window of x: (n, c, h, w), over its elements inside x, or with "
    "`count_include_pad` those in the padding, too; not over what `ceil_mode` adds behind it.",
)
