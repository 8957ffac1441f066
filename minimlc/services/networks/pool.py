"""Pools of one and three axes, by pools of two, and pools into a number of parts."""

from collections.abc import Callable
from typing import Any

import numpy as np

from minimlc.graphs.ops.checks import NUMBERS, refuse, resized
from minimlc.graphs.ops.elementwise import cast
from minimlc.graphs.ops.record import Op, composite, primitive
from minimlc.graphs.ops.shape import expand_dims, reshape, squeeze
from minimlc.graphs.ops.values import Values, iota, named, spread
from minimlc.loops.ir.nodes import Expr, binary
from minimlc.loops.te import te
from minimlc.services.networks.window import around_of, avg_pool2d, max_pool2d, sizes_along


def _pool(count: int, pool: Op, name: str, doc: str) -> Op:
    def formula(
        x: Any,
        *,
        pool_size: Any,
        strides: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> Any:
        if x.ndim != count + 2:
            refuse(f"x has {x.ndim} dimension(s), it must be (batch, channels, and {count} more)")
        size = sizes_along(pool_size, count, "pool_size")
        apart = sizes_along(dilation, count, "dilation")
        steps = size if strides is None else sizes_along(strides, count, "strides")
        modes = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
        around = around_of(padding, count)

        def of_two(image: Any, first: int | None, second: int | None) -> Any:
            """The pool of an image whose axes are these (None: one that is left as it is)."""
            axes = (first, second)
            (t, b), (left, right) = ((0, 0) if a is None else around[a] for a in axes)
            sizes, moves, gaps = (
                tuple(1 if a is None else values[a] for a in axes)
                for values in (size, steps, apart)
            )
            options = {"strides": moves, "dilation": gaps, "padding": (t, left, b, right)}
            return pool(image, pool_size=sizes, **options, **modes)

        if count == 1:
            return squeeze(of_two(expand_dims(x, axis=2), None, 0), axis=2)
        n, c, d, h, w = x.shape
        rows = named(of_two(reshape(x, shape=(n, c * d, h, w)), 1, 2), f"{name}_image")
        h, w = rows.shape[2:]
        result = of_two(reshape(rows, shape=(n, c, d, h * w)), 0, None)
        return reshape(result, shape=(*result.shape[:3], h, w))

    return composite(name, formula, doc, pool.dtypes)


max_pool1d = _pool(1, max_pool2d, "max_pool1d", "The greatest of each window of x: (n, c, l).")
avg_pool1d = _pool(1, avg_pool2d, "avg_pool1d", "The mean of each window of x: (n, c, l).")
max_pool3d = _pool(
    3, max_pool2d, "max_pool3d", "The greatest of each window of x: (n, c, d, h, w)."
)
avg_pool3d = _pool(3, avg_pool2d, "avg_pool3d", "The mean of each window of x: (n, c, d, h, w).")


# Pools into a number of parts: the part i of n elements goes from i * n / parts, rounded down, to
# (i + 1) * n / parts, rounded up; so parts may share elements.


def _bounds(i: Any, size: int, parts: int) -> tuple[Any, Any]:
    return i * size // parts, ((i + 1) * size + (parts - 1)) // parts


def _parts(name: str, combine: Callable[..., Any], of_arrays: Callable[..., Any]) -> Op:
    def meaning(x: np.ndarray, axis: int, parts: int) -> np.ndarray:
        spans = [range(*_bounds(i, x.shape[axis], parts)) for i in range(parts)]
        return np.stack([of_arrays(x.take(span, axis), axis) for span in spans], axis)

    def formula(x: Values, *, axis: int, parts: int) -> Values:
        size = x.shape[axis]
        if not size or parts < 1:
            refuse(f"axis {axis} of size {size} is not cut into {parts} parts", "E204")
        spans = [_bounds(i, size, parts) for i in range(parts)]
        longest = max(end - start for start, end in spans)

        def element(*i: Expr) -> te.Reduction:
            k = te.reduce_axis((0, longest), "k")
            start, end = _bounds(i[axis], size, parts)
            place = binary("min", start + k, size - 1)
            return combine(x[resized(i, axis, place)], axis=k, where=start + k < end)

        return Values(resized(x.shape, axis, parts), x.dtype, element, f"{name}_{axis}")

    return primitive(name, NUMBERS, meaning, table={})(formula)


_greatest = _parts("adaptive_max", te.max, lambda x, axis: x.max(axis))
_sums = _parts("adaptive_sum", te.sum, lambda x, axis: x.sum(axis, dtype=x.dtype))


def _means(x: Any, *, axis: int, parts: int) -> Any:
    start, end = _bounds(iota(parts, x), x.shape[axis], parts)
    counts = cast(end - start, dtype=str(x.dtype))
    return _sums(x, axis=axis, parts=parts) / spread(counts, (axis,), x.ndim)


def _adaptive(name: str, doc: str, count: int, part: Any, **more: Any) -> Op:
    def formula(x: Any, output_size: Any, axes: tuple[int, ...]) -> Any:
        if x.ndim != count + 2 or min(axes) < 0:
            refuse(f"x has {x.ndim} dimension(s), it must be (batch, channels, and {count} more)")
        for axis, parts in zip(axes, sizes_along(output_size, count, "output_size"), strict=True):
            x = named(part(x, axis=axis, parts=parts), f"{name}_{axis}")
        return x

    def of_layout(x: Any, *, output_size: Any, layout: str = "NCHW") -> Any:
        return formula(x, output_size, tuple(layout.find(axis) for axis in "HW"))

    def of_rest(x: Any, *, output_size: Any) -> Any:
        return formula(x, output_size, tuple(range(2, count + 2)))

    text = f"{doc} of each of the `output_size` parts of x: (batch, channels, and {count} more)."
    return composite(name, of_layout if count == 2 else of_rest, text, **more)


def _means_of_images(x: Any, *, output_size: Any, layout: str = "NCHW") -> Any:
    """The mean of each of the `output_size` parts of x: (n, c, h, w), or in another layout."""
    rows, columns = sizes_along(output_size, 2, "output_size")
    sizes = [(*x.shape, 0)[layout.find(axis)] for axis in "HW"] if x.ndim == 4 else []
    if min(rows, columns) < 1 or not sizes or sizes[0] % rows or sizes[1] % columns:
        return _uneven(x, output_size=output_size, layout=layout)
    return avg_pool2d(x, pool_size=(sizes[0] // rows, sizes[1] // columns), layout=layout)


for _count in (1, 2, 3):
    _adaptive(f"adaptive_max_pool{_count}d", "The greatest", _count, _greatest, dtypes=NUMBERS)
for _count in (1, 3):
    _adaptive(f"adaptive_avg_pool{_count}d", "The mean", _count, _means)
_uneven = _adaptive("adaptive_avg_pool2d", "The mean", 2, _means, table={})
adaptive_avg_pool2d = composite("adaptive_avg_pool2d", _means_of_images)
