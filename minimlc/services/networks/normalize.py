"""Normalizations of networks, composed of other operators."""

from collections.abc import Sequence
from typing import Any

from minimlc.graphs.ops.broadcast import maximum, power
from minimlc.graphs.ops.checks import axis_of, refuse, resized
from minimlc.graphs.ops.create import full_like
from minimlc.graphs.ops.elementwise import sqrt
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.reduction import mean, norm
from minimlc.graphs.ops.shape import reshape
from minimlc.graphs.ops.values import along, named
from minimlc.services.arrays.slicing import pad, strided_slice


def _batch_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    mean: Any,
    variance: Any,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, with values for every place along
    `axis` (Ioffe and Szegedy 2015), as a trained network computes it.

    As a product and a sum, x * scale + shift, with the error of half a unit in the last place of x
    and of the shift. A shift of 16 bits might overflow, so these are taken as written.
    """
    scale = named(gamma / sqrt(variance + epsilon), "batch_norm_scale")
    if x.dtype in ("float16", "bfloat16"):
        return (x - along(mean, axis, x)) * along(scale, axis, x) + along(beta, axis, x)
    shift = named(beta - mean * scale, "batch_norm_shift")
    return x * along(scale, axis, x) + along(shift, axis, x)


def _standardized(x: Any, axes: Sequence[int], epsilon: float, name: str) -> Any:
    """(x - mean) / sqrt(variance + epsilon) over `axes`."""
    centred = x - named(mean(x, axis=tuple(axes), keepdims=True), f"{name}_mean")
    variance = mean(centred * centred, axis=tuple(axes), keepdims=True)
    return centred * named(1.0 / sqrt(variance + epsilon), f"{name}_scale")


def _group_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    *,
    num_groups: int,
    channel_axis: int = 1,
    epsilon: float = 1e-5,
) -> Any:
    """Each group of channels of each batch element (axis 0), less its mean, over its deviation,
    times gamma, plus beta, which have a value per channel (Wu and He 2018).
    """
    axis = axis_of(channel_axis, x.ndim, "channel_axis")
    channels = x.shape[axis]
    if axis == 0 or not isinstance(num_groups, int) or num_groups < 1 or channels % num_groups:
        refuse(f"{channels} channels of axis {axis} are not cut into {num_groups!r} groups", "E204")
    groups = reshape(x, shape=resized(x.shape, axis, num_groups, channels // num_groups))
    axes = [a for a in range(groups.ndim) if a not in (0, axis)]
    result = reshape(_standardized(groups, axes, epsilon, "group_norm"), shape=x.shape)
    return result * along(gamma, axis, x) + along(beta, axis, x)


def _instance_norm(
    x: Any, gamma: Any, beta: Any, *, channel_axis: int = 1, epsilon: float = 1e-5
) -> Any:
    """The group_norm whose groups are the channels (Ulyanov et al. 2016)."""
    channels = x.shape[axis_of(channel_axis, x.ndim, "channel_axis")]
    options: dict[str, Any] = {"channel_axis": channel_axis, "epsilon": epsilon}
    return group_norm(x, gamma, beta, num_groups=channels, **options)


def _lp_normalize(x: Any, *, p: float = 2, axis: int = -1, epsilon: float = 1e-12) -> Any:
    """x over its p-norm along `axis`, or over `epsilon` where that is greater."""
    size = maximum(norm(x, p=p, axis=axis, keepdims=True), epsilon)
    return x / named(size, "lp_normalize_norm")


def _local_response_norm(
    x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Any:
    """x / (bias + alpha / size * s) ** beta, with s the sum of the squares of `size` channels
    (axis 1) around each (Krizhevsky et al. 2012).
    """
    if not isinstance(size, int) or size < 1 or size % 2 == 0 or x.ndim < 2:
        refuse(f"size={size!r} is an odd number of channels, which are axis 1", "E204")
    beside = [(size // 2, size // 2) if a == 1 else (0, 0) for a in range(x.ndim)]
    squares = named(pad(x * x, pad_width=tuple(beside)), "local_response_norm_pad")
    parts = [strided_slice(squares, begin=k, end=k + x.shape[1], axes=1) for k in range(size)]
    scale = sum(parts[1:], parts[0]) * (alpha / size) + bias
    return x / power(scale, full_like(x, value=float(beta)))


batch_norm = composite("batch_norm", _batch_norm)
group_norm = composite("group_norm", _group_norm)
instance_norm = composite("instance_norm", _instance_norm)
lp_normalize = composite("lp_normalize", _lp_normalize)
local_response_norm = composite("local_response_norm", _local_response_norm)
