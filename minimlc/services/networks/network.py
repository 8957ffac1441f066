"""Products and convolutions of networks: gemm, conv3d, and transposed convolutions."""

from typing import Any

from minimlc.graphs.ops.checks import NUMBERS, refuse
from minimlc.graphs.ops.linear import matmul
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.shape import expand_dims, flip, permute_dims, reshape, squeeze
from minimlc.graphs.ops.values import named
from minimlc.services.arrays.einsum import einsum
from minimlc.services.arrays.slicing import pad, strided_slice
from minimlc.services.networks.window import around_of, conv2d, sizes_along
from minimlc.services.sizes.sizes import least


def _gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    trans_a: bool = False,
    trans_b: bool = False,
) -> Any:
    """alpha * a @ b + beta * c, of matrices that are transposed first if so wanted."""
    if a.ndim != 2 or b.ndim != 2:
        refuse(f"a and b have {a.ndim} and {b.ndim} dimension(s), they must be matrices")
    left, right = (permute_dims(x) if turn else x for x, turn in ((a, trans_a), (b, trans_b)))
    product = matmul(left, right)
    product = product * alpha if alpha != 1 else product
    return product if c is None else product + (c * beta if beta != 1 else c)


gemm = composite("gemm", _gemm)


# Diagonals


def _diagonal(x: Any) -> Any:
    """The elements of each matrix (the last two axes) whose row is their column."""
    if x.ndim < 2:
        refuse(f"x has {x.ndim} dimension(s), a diagonal needs at least 2")
    size, rest = least(*x.shape[-2:]), "abcdefghijklmnopqrstuvw"[: x.ndim - 2]
    square = strided_slice(x, begin=(0, 0), end=(size, size), axes=(-2, -1))
    return einsum((square,), subscripts=f"{rest}xx->{rest}x")


diagonal = composite("diagonal", _diagonal, dtypes=NUMBERS, rounds=False)


# Convolutions


def _conv3d(
    x: Any, w: Any, *, strides: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Cross-correlation of x: (n, c, d, h, w) with w: (o, c / groups, p, q, r): the sum of
    `conv2d` over the kernel's slices.
    """
    if x.ndim != 5 or w.ndim != 5:
        refuse(f"x and w have {x.ndim} and {w.ndim} dimension(s), they must have 5")
    step, *steps = sizes_along(strides, 3, "strides")
    apart, *gaps = sizes_along(dilation, 3, "dilation")
    deep, (top, bottom), (left, right) = around_of(padding, 3)
    x = pad(x, pad_width=((0, 0), (0, 0), deep, (0, 0), (0, 0))) if any(deep) else x
    count = (x.shape[2] - (w.shape[2] - 1) * apart - 1) // max(step, 1) + 1
    if step < 1 or apart < 1 or count < 1 or 0 in w.shape:
        refuse(f"the depth {x.shape[2]} is less than the window's, or a step is not >= 1")
    total: Any = None
    options: dict[str, Any] = {"strides": tuple(steps), "dilation": tuple(gaps), "groups": groups}
    options["padding"] = (top, left, bottom, right)
    for p in range(w.shape[2]):
        ends = {"begin": p * apart, "end": p * apart + (count - 1) * step + 1}
        part = permute_dims(strided_slice(x, **ends, strides=step, axes=2), axes=(0, 2, 1, 3, 4))
        images = reshape(part, shape=(x.shape[0] * count, *part.shape[2:]))
        kernel = squeeze(strided_slice(w, begin=p, end=p + 1, axes=2), axis=2)
        products = named(conv2d(images, kernel, **options), f"conv3d_{p}")
        total = products if total is None else total + products
    result = reshape(total, shape=(x.shape[0], count, *total.shape[1:]))
    return permute_dims(result, axes=(0, 2, 1, 3, 4))


def _fitted(x: Any, axis: int, before: int, after: int) -> Any:
    """`x` with zeros at the ends of an axis, or without as many elements where that is negative."""
    size = x.shape[axis]
    x = strided_slice(x, begin=max(-before, 0), end=size - max(-after, 0), axes=axis)
    widths = [(max(before, 0), max(after, 0)) if a == axis else (0, 0) for a in range(x.ndim)]
    return pad(x, pad_width=tuple(widths)) if any(map(any, widths)) else x


def _spaced(x: Any, axis: int, step: int) -> Any:
    """`x` with zeros between the elements of an axis."""
    if step == 1 or not x.shape[axis]:
        return x
    apart = _fitted(expand_dims(x, axis=axis + 1), axis + 1, 0, step - 1)
    whole = reshape(apart, shape=(*x.shape[:axis], x.shape[axis] * step, *x.shape[axis + 1 :]))
    return _fitted(whole, axis, 0, 1 - step)


def _conv2d_transpose(
    x: Any,
    w: Any,
    *,
    strides: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The transpose of conv2d, which spreads x out: x: (n, c, h, w), w: (c, o / groups, p, q); a
    conv2d of x with zeros between its elements and the kernel turned around.
    """
    if x.ndim != 4 or w.ndim != 4 or x.shape[1] != w.shape[0]:
        refuse(f"x and w have shapes {x.shape} and {w.shape}; x is (n, c, h, w), w (c, o, p, q)")
    return _spread(conv2d, x, w, strides, padding, output_padding, dilation, groups)


def _conv3d_transpose(x: Any, w: Any, **options: Any) -> Any:
    """The transpose of conv3d: x: (n, c, d, h, w), w: (c, o / groups, p, q, r)."""
    if x.ndim != 5 or w.ndim != 5 or x.shape[1] != w.shape[0]:
        shapes = f"{x.shape} and {w.shape}"
        refuse(f"x and w have shapes {shapes}; x is (n, c, d, h, w), w (c, o, p, q, r)")
    return _spread(conv3d, x, w, **options)


def _spread(
    conv: Any,
    x: Any,
    w: Any,
    strides: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """A convolution of x with zeros between its elements by kernels that are turned around."""
    if not isinstance(groups, int) or groups < 1 or w.shape[0] % groups:
        refuse(f"groups={groups!r} does not divide the {w.shape[0]} inputs", "E204")
    ndim = x.ndim - 2
    steps, gaps = sizes_along(strides, ndim, "strides"), sizes_along(dilation, ndim, "dilation")
    more, around = sizes_along(output_padding, ndim, "output_padding"), padding
    if min(*steps, *gaps) < 1 or any(
        not 0 <= m < max(s, g) for m, s, g in zip(more, steps, gaps, strict=True)
    ):
        refuse(
            f"output_padding={output_padding!r} is less than the strides, which are >= 1", "E204"
        )
    for a, (before, after) in enumerate(around_of(around, ndim)):
        reach = (w.shape[a + 2] - 1) * gaps[a]
        x = _fitted(_spaced(x, a + 2, steps[a]), a + 2, reach - before, reach - after + more[a])
    inputs, outputs, *window = w.shape
    axes = tuple(range(2, w.ndim))
    kernel = reshape(flip(w, axis=axes), shape=(groups, inputs // groups, outputs, *window))
    turned = permute_dims(kernel, axes=(0, 2, 1, *(axis + 1 for axis in axes)))
    kernel = reshape(turned, shape=(-1, inputs // groups, *window))
    x = named(x, f"conv{ndim}d_transpose_pad")
    return conv(x, kernel, dilation=tuple(gaps), groups=groups)


def _conv1d_transpose(x: Any, w: Any, **options: Any) -> Any:
    """The transpose of conv1d: x: (n, c, l), w: (c, o / groups, k)."""
    if x.ndim != 3 or w.ndim != 3:
        refuse(f"x and w have {x.ndim} and {w.ndim} dimension(s), they must have 3")
    groups = options.pop("groups")
    around = around_of(options.pop("padding"), 1)
    both = {
        key: (0 if key == "output_padding" else 1, *sizes_along(v, 1, key))
        for key, v in options.items()
    }
    both["padding"] = (0, around[0][0], 0, around[0][1])
    wide = conv2d_transpose(expand_dims(x, axis=2), expand_dims(w, axis=2), groups=groups, **both)
    return squeeze(wide, axis=2)


conv3d = composite("conv3d", _conv3d, dtypes=NUMBERS)
conv2d_transpose = composite("conv2d_transpose", _conv2d_transpose, dtypes=NUMBERS, rounds=False)
conv3d_transpose = composite(
    "conv3d_transpose",
    _conv3d_transpose,
    dtypes=NUMBERS,
    rounds=False,
    attrs=conv2d_transpose.attrs,
)
conv1d_transpose = composite(
    "conv1d_transpose",
    _conv1d_transpose,
    dtypes=NUMBERS,
    rounds=False,
    attrs=conv2d_transpose.attrs,
)
