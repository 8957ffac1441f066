"""Operators against numpy and PyTorch, which know nothing of our formulas: a row each."""

import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import minimlc as mlc
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import TensorType, Var
from minimlc.graphs.ops import OPS, call_op
from tests.graph.op_cases import Case, cases

try:
    import torch
except ImportError:  # then all of these tests are skipped, but the tables are read
    torch = MagicMock()
pytestmark = [pytest.mark.requires("torch"), pytest.mark.many]
F = torch.nn.functional
Oracle = Callable[..., Any]


def of_torch(function: Callable[..., Any]) -> Oracle:
    """A function of tensors as one of arrays."""

    def apply(*arrays: Any, **attrs: Any) -> Any:
        return np.asarray(function(*[torch.tensor(np.asarray(a)) for a in arrays], **attrs))

    return apply


def scan(function: Callable[..., Any], start: Any) -> Oracle:
    """A scan of numpy's along any axis, from either end, with or without the element itself."""

    def apply(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
        x = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
        first = start(x.dtype) if callable(start) else start
        x = np.concatenate([np.full_like(x[:1], first), x[:-1]]) if exclusive else x
        result = function(x, axis=0)[:: -1 if reverse else 1]
        return np.moveaxis(result, 0, axis)

    return apply


def loss(function: Callable[..., Any], **names: str) -> Oracle:
    def apply(x: Any, target: Any, *more: Any, **attrs: Any) -> Any:
        return function(x, target, *more, **{names.get(k, k): v for k, v in attrs.items()})

    return of_torch(apply)


def classes(function: Callable[..., Any]) -> Oracle:
    def apply(x: Any, target: Any, weight: Any = None, **attrs: Any) -> Any:
        return function(x, target.long(), weight, **attrs)

    return of_torch(apply)


def norm(x: Any, p: float, axis: Any, keepdims: bool) -> Any:
    axis = tuple(range(x.ndim)) if axis is None else axis
    return torch.linalg.vector_norm(torch.tensor(x), p, axis, keepdims).numpy()


def logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    axis = tuple(range(x.ndim)) if axis is None else axis
    return torch.logsumexp(torch.tensor(x), axis, keepdims).numpy()


def truncated(x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return np.trunc(x / y)
    safe = np.where(y == 0, 1, y)
    return np.where(y == 0, 0, (x - np.fmod(x, safe)) // safe).astype(x.dtype)


def swish(x: Any, beta: float) -> Any:
    return x / (1 + np.exp(-beta * x))


def hardmax(x: Any, axis: int) -> Any:
    first = np.expand_dims(x.argmax(axis), axis)
    return (
        first
        == np.expand_dims(
            np.arange(x.shape[axis]), [a for a in range(x.ndim) if a != axis % x.ndim]
        )
    ).astype(x.dtype)


def lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


NUMPY = {
    **{name: getattr(np, name) for name in ("tan", "sinh", "cosh", "expm1", "log1p", "exp2")},
    **{name: getattr(np, name) for name in ("log2", "log10", "trunc", "signbit", "reciprocal")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("atan", "asin", "acos", "atan2")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asinh", "acosh", "atanh")},
    **{name: getattr(np, name) for name in ("copysign", "fmod", "floor_divide", "logaddexp")},
    **{name: getattr(np, name) for name in ("left_shift", "right_shift")},
    "mod": np.remainder,
    "trunc_divide": truncated,
    "bitwise_not": np.invert,
    "identity": np.array,
    "masked_fill": lambda x, mask, value: np.where(mask, x.dtype.type(value), x),
    "any": lambda x, axis, keepdims: np.any(x, axis, keepdims=keepdims),
    "all": lambda x, axis, keepdims: np.all(x, axis, keepdims=keepdims),
    "cumsum": scan(lambda x, axis: np.cumsum(x, axis, x.dtype), 0),
    "cumprod": scan(lambda x, axis: np.cumprod(x, axis, x.dtype), 1),
    "cummax": scan(np.maximum.accumulate, lowest),
    "cummin": scan(np.minimum.accumulate, highest),
    "norm": norm,
    "logsumexp": logsumexp,
    "hardmax": hardmax,
    "swish": swish,
    "sign": np.sign,
}
TORCH = {
    "mish": of_torch(F.mish),
    "softplus": of_torch(F.softplus),
    "selu": of_torch(F.selu),
    "log_sigmoid": of_torch(F.logsigmoid),
    "softsign": of_torch(F.softsign),
    "tanh_shrink": of_torch(F.tanhshrink),
    "hard_swish": of_torch(F.hardswish),
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "elu": of_torch(F.elu),
    "celu": of_torch(F.celu),
    "thresholded_relu": of_torch(lambda x, alpha: F.threshold(x, alpha, 0.0)),
    "hard_shrink": of_torch(lambda x, lambd: F.hardshrink(x, lambd)),
    "soft_shrink": of_torch(lambda x, lambd: F.softshrink(x, lambd)),
    "mse_loss": loss(F.mse_loss),
    "l1_loss": loss(F.l1_loss),
    "huber_loss": loss(F.huber_loss),
    "binary_cross_entropy": loss(F.binary_cross_entropy),
    "binary_cross_entropy_with_logits": loss(F.binary_cross_entropy_with_logits),
    "kl_div": loss(F.kl_div),
    "nll_loss": classes(F.nll_loss),
    "cross_entropy": classes(F.cross_entropy),
}


def inside(indices: Any, size: int) -> Any:
    """Negative indices from the end, the others in range."""
    places = np.asarray(indices).astype(int)
    return np.clip(np.where(places < 0, places + size, places), 0, size - 1)


def gather_nd(x: Any, indices: Any, batch_dims: int) -> Any:
    result = []
    for at in np.ndindex(indices.shape[:-1]):
        own = tuple(inside(i, x.shape[batch_dims + k]) for k, i in enumerate(indices[at]))
        result.append(x[(*at[:batch_dims], *own)])
    return np.stack(result).reshape(*indices.shape[:-1], *result[0].shape)


STEP = {"none": lambda old, new: new, "add": np.add, "mul": np.multiply}
STEP |= {"max": np.maximum, "min": np.minimum}


def scatter_elements(x: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    result = x.copy()
    for at in np.ndindex(indices.shape):
        place = list(at)
        place[axis] = inside(indices[at], x.shape[axis])
        result[tuple(place)] = STEP[reduction](result[tuple(place)], updates[at])
    return result


def scatter_nd(x: Any, indices: Any, updates: Any, reduction: str) -> Any:
    result = x.copy()
    for at in np.ndindex(indices.shape[:-1]):
        place = tuple(inside(i, x.shape[k]) for k, i in enumerate(indices[at]))
        result[place] = STEP[reduction](result[place], updates[at])
    return result


def argsort(x: Any, axis: int, descending: bool) -> Any:
    return torch.argsort(torch.tensor(x), dim=axis, descending=descending, stable=True).numpy()


def sort(x: Any, axis: int, descending: bool) -> Any:
    return np.take_along_axis(x, argsort(x, axis, descending), axis)


def topk(x: Any, k: int, axis: int, largest: bool) -> Any:
    order = np.take(argsort(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, order, axis), order


def padded_nonzero(x: Any) -> Any:
    rows = np.argwhere(x)
    return np.concatenate([rows, np.zeros((x.size - len(rows), x.ndim), int)]), len(rows)


def padded_unique(x: Any) -> Any:
    """numpy's; the value is the first of equal ones."""
    _, *parts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    first, inverse, counts = parts
    number = len(first)
    padded = [np.pad(a, (0, x.size - number)) for a in (x.ravel()[first], first, counts)]
    return padded[0], padded[1], inverse.reshape(x.shape), padded[2], number


def one_hot(indices: Any, depth: int, axis: int, on_value: Any, off_value: Any, dtype: str) -> Any:
    places = np.where(indices < 0, indices.astype(int) + depth, indices)
    hit = np.stack([places == k for k in range(depth)], axis)
    return np.where(hit, on_value, off_value).astype(dtype)


def padded(x: Any, pad_width: Any, value: Any, mode: str) -> Any:
    widths = np.reshape(pad_width, (x.ndim, 2))
    options = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, widths, mode, **options) if x.ndim else x


def normalized(function: Callable[..., Any]) -> Oracle:
    """A normalization of channels that are axis 1, for channels anywhere."""

    def apply(x: Any, *weights: Any, channel_axis: int = 1, **attrs: Any) -> Any:
        result = function(np.moveaxis(x, channel_axis, 1), *weights, **attrs)
        return np.moveaxis(np.asarray(result), 1, channel_axis)

    return apply


def batch_norm(
    x: Any, gamma: Any, beta: Any, mean: Any, var: Any, axis: int, epsilon: float
) -> Any:
    x = torch.tensor(np.moveaxis(x, axis, 1).copy())
    rest = [torch.tensor(a) for a in (mean, var, gamma, beta)]
    return np.moveaxis(F.batch_norm(x, *rest, eps=epsilon).numpy(), 1, axis)


def group_norm(x: Any, gamma: Any, beta: Any, num_groups: int, epsilon: float) -> Any:
    x, gamma, beta = (torch.tensor(a.copy()) for a in (x, gamma, beta))
    return F.group_norm(x, num_groups, gamma, beta, epsilon)


def instance_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    x, gamma, beta = (torch.tensor(a.copy()) for a in (x, gamma, beta))
    return F.instance_norm(x, weight=gamma, bias=beta, eps=epsilon)


def local_response_norm(x: Any, size: int, alpha: float, beta: float, bias: float) -> Any:
    shape = (*x.shape, *(1,) * (3 - x.ndim))
    result = F.local_response_norm(torch.tensor(x.reshape(shape)), size, alpha, beta, bias)
    return result.numpy().reshape(x.shape)


def resize(x: Any, size: Any, axes: Any, **said: Any) -> Any:
    """As the formulas of ONNX say it, an element after the other."""
    for a, new in zip(np.atleast_1d(axes), np.atleast_1d(size), strict=True):
        x = np.stack([resized(x, int(a), i, int(new), **said) for i in range(new)], a)
    return x


def resized(
    x: Any, axis: int, i: int, new: int, method: str, coordinates: str, rounding: str
) -> Any:
    size = x.shape[axis]
    place = {
        "half_pixel": (i + 0.5) * size / new - 0.5,
        "pytorch_half_pixel": (i + 0.5) * size / new - 0.5 if new > 1 else 0,
        "asymmetric": i * size / new,
        "align_corners": i * (size - 1) / (new - 1) if new > 1 else 0,
    }[coordinates]
    nearest = {
        "floor": np.floor(place),
        "ceil": np.ceil(place),
        "round_prefer_floor": np.ceil(place - 0.5),
        "round_prefer_ceil": np.floor(place + 0.5),
    }[rounding]
    return x.take(int(np.clip(nearest, 0, size - 1)), axis)


def einsum(tensors: Any, subscripts: str) -> Any:
    return np.asarray(torch.einsum(subscripts, *map(torch.tensor, tensors)))


def convolution(function: Callable[..., Any]) -> Oracle:
    def apply(x: Any, w: Any, strides: Any, **attrs: Any) -> Any:
        return function(x.double(), w.double(), stride=strides, **attrs)

    def rounded(x: Any, w: Any, **attrs: Any) -> Any:
        result = of_torch(apply)(x, w, **attrs)
        return result.astype(x.dtype) if x.dtype.kind == "f" else result.astype(int).astype(x.dtype)

    return rounded


def gemm(a: Any, b: Any, c: Any = 0, *, alpha: Any, beta: Any, trans_a: bool, trans_b: bool) -> Any:
    return alpha * ((a.T if trans_a else a) @ (b.T if trans_b else b)) + beta * c


def rotary(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    """Products of complex numbers."""
    half = x.shape[-1] // 2
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = (first + 1j * second) * (cos + 1j * sin)
    pair = [turned.real, turned.imag]
    if interleaved:
        return np.stack(pair, -1).reshape(x.shape).astype(x.dtype)
    return np.concatenate(pair, -1).astype(x.dtype)


def pool(name: str, count: int) -> Oracle:
    function = getattr(F, f"{name}_pool{count}d")

    def apply(x: Any, pool_size: Any, strides: Any, padding: Any, **attrs: Any) -> Any:
        x = torch.tensor(x).double()
        if isinstance(padding, tuple):  # zeros count, and where they do not, that is another mean
            x, padding = F.pad(x, padding, value=-np.inf if name == "max" else np.nan), 0
        own = "dilation" if name == "max" else "count_include_pad"
        options = {key: attrs[key] for key in (own, "ceil_mode")}
        result = function(x, pool_size, strides, padding, **options)
        if np.isnan(result.numpy()).any():
            windows = x.unfold(2, pool_size, strides)
            result = torch.nanmean(windows, -1)
        return result.numpy()

    return apply


def adaptive(name: str) -> Oracle:
    function = getattr(F, name)

    def apply(x: Any, output_size: Any, layout: str = "NCHW") -> Any:
        last = layout == "NHWC"
        x = np.moveaxis(x, -1, 1) if last else x
        result = function(torch.tensor(x.copy()).double(), output_size).numpy()
        return np.moveaxis(result, 1, -1) if last else result

    return apply


def attention(
    q: Any, k: Any, v: Any, bias: Any = None, *, scale: Any, causal_mask: Any, masked: str
) -> Any:
    q, k, v = (torch.tensor(a).double().transpose(1, 2) for a in (q, k, v))
    rows, columns = q.shape[2], k.shape[2]
    seen = np.tri(rows, columns, columns - rows if causal_mask == "BottomRight" else 0)
    mask = np.where(seen if causal_mask else 1, 0.0, -np.inf) + (0 if bias is None else bias)
    mask = torch.tensor(np.broadcast_to(mask, (rows, columns)).copy())
    options = {"attn_mask": mask, "scale": scale, "enable_gqa": True}
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).numpy()


def quantize(x: Any, scale: Any, zero: Any = 0, *, axis: int, dtype: str) -> Any:
    """With fractions as x's dtype divides them."""
    shape = [-1 if a == axis % max(x.ndim, 1) else 1 for a in range(x.ndim)]
    parts = [a.reshape(shape if np.size(a) > 1 else ()) for a in map(np.asarray, (scale, zero))]
    limits = np.iinfo(dtype)
    whole = np.rint(x / parts[0]) + parts[1].astype(x.dtype)
    return np.clip(whole, limits.min, limits.max).astype(dtype)


def dequantize(x: Any, scale: Any, zero: Any = 0, *, axis: int) -> Any:
    shape = [-1 if a == axis % x.ndim else 1 for a in range(x.ndim)]
    scale, zero = (
        a.reshape(shape if np.size(a) > 1 else ()) for a in map(np.asarray, (scale, zero))
    )
    return (x.astype(int) - zero.astype(int)) * scale


def dynamic_quantize(x: Any) -> Any:
    """The definition of ONNX."""
    scale = (max(x.max(), 0) - min(x.min(), 0)) / x.dtype.type(255)
    zero = np.uint8(np.rint(-min(x.min(), 0) / scale))
    return np.uint8(np.clip(np.rint(x / scale) + zero, 0, 255)), scale, zero


def fake_quantize(x: Any, scale: float, zero_point: int, low: int, high: int) -> Any:
    return (np.clip(np.rint(x / scale) + zero_point, low, high) - zero_point) * scale


def matmul_integer(a: Any, b: Any, a_zero: Any = 0, b_zero: Any = 0) -> Any:
    return (a.astype(int) - np.asarray(a_zero, int)) @ (b.astype(int) - np.asarray(b_zero, int))


def recurrent(layer: Any, bias: int, states: int) -> Oracle:
    """PyTorch's layer with these weights, forwards or backwards."""

    def apply(x: Any, weight: Any, hidden: Any, *more: Any, reverse: bool) -> Any:
        x, weight, hidden, *rest = (torch.tensor(a).double() for a in (x, weight, hidden, *more))
        module = layer(x.shape[2], hidden.shape[1]).double()
        biases = [*rest[:bias], *[torch.zeros(len(hidden)).double()] * 2][:2]
        for parameter, value in zip(module.parameters(), (weight, hidden, *biases), strict=True):
            parameter.data = value
        first = [a[None] for a in rest[bias:]]
        start = (tuple(first) if states == 2 else first[0],) if first else ()
        y, last = module(x.flip(0) if reverse else x, *start)
        last = last if states == 2 else (last,)
        y = y.flip(0) if reverse else y
        return [a.detach().numpy() for a in (y, *(state[0] for state in last))]

    return apply


def slice_scatter(x: Any, update: Any, begin: int, end: int, stride: int, axis: int) -> Any:
    result = np.moveaxis(x.copy(), axis, 0)
    result[begin:end:stride] = np.moveaxis(update, axis, 0)
    return np.moveaxis(result, 0, axis)


def spread_of(function: Callable[..., Any]) -> Oracle:
    def apply(x: Any, axis: Any, keepdims: bool, correction: int) -> Any:
        return function(x, axis, ddof=correction, keepdims=keepdims)

    return apply


MORE = {
    "variance": spread_of(np.var),
    "std": spread_of(np.std),
    "slice_scatter": slice_scatter,
    "glu": of_torch(lambda x, axis: F.glu(x, axis)),
    "eye_like": lambda x, k: np.broadcast_to(np.eye(*x.shape[-2:], k, x.dtype), x.shape),
    "attention": attention,
    "quantize": quantize,
    "dequantize": dequantize,
    "dynamic_quantize": dynamic_quantize,
    "fake_quantize": fake_quantize,
    "matmul_integer": matmul_integer,
    "rnn": recurrent(torch.nn.RNN, 1, 1),
    "lstm": recurrent(torch.nn.LSTM, 1, 2),
    "gru": recurrent(torch.nn.GRU, 2, 1),
    "batch_norm": batch_norm,
    "group_norm": normalized(group_norm),
    "instance_norm": normalized(instance_norm),
    "lp_normalize": of_torch(lambda x, p, axis, epsilon: F.normalize(x, p, axis, epsilon)),
    "local_response_norm": local_response_norm,
    "one_hot": one_hot,
    "take_along_axis": lambda x, i, axis: np.take_along_axis(x, inside(i, x.shape[axis]), axis),
    "gather_nd": gather_nd,
    "scatter_elements": scatter_elements,
    "scatter_nd": scatter_nd,
    "argsort": argsort,
    "sort": sort,
    "topk": topk,
    "first": lambda x, count=None, size=0: x[:size],
    "searchsorted": lambda x, v, right: np.searchsorted(x, v, "right" if right else "left"),
    "padded_nonzero": padded_nonzero,
    "padded_unique": padded_unique,
    "pad": padded,
    "roll": np.roll,
    "resize": resize,
    "diagonal": lambda x: np.diagonal(x, axis1=-2, axis2=-1),
    "einsum": einsum,
    "conv3d": convolution(F.conv3d),
    "conv2d_transpose": convolution(F.conv_transpose2d),
    "conv3d_transpose": convolution(F.conv_transpose3d),
    "conv1d_transpose": convolution(F.conv_transpose1d),
    "gemm": gemm,
    "rotary_embedding": rotary,
    **{f"{k}_pool{n}d": pool(k, n) for k in ("max", "avg") for n in (1, 3)},
    **{
        f"adaptive_{k}_pool{n}d": adaptive(f"adaptive_{k}_pool{n}d")
        for k in ("max", "avg")
        for n in (1, 2, 3)
    },
}


def depth_to_space(x: Any, block_size: int, mode: str) -> Any:
    """Pixel by pixel."""
    (n, c, h, w), b = x.shape, block_size
    result = np.zeros((n, c // b**2, h * b, w * b), x.dtype)
    for k, i, j, p, q in np.ndindex(c // b**2, h, w, b, b):
        channel = (p * b + q) * (c // b**2) + k if mode == "DCR" else (k * b + p) * b + q
        result[:, k, i * b + p, j * b + q] = x[:, channel, i, j]
    return result


def space_to_depth(x: Any, block_size: int) -> Any:
    """Pixel by pixel."""
    (n, c, h, w), b = x.shape, block_size
    result = np.zeros((n, c * b**2, h // b, w // b), x.dtype)
    for k, i, j, p, q in np.ndindex(c, h // b, w // b, b, b):
        result[:, (p * b + q) * c + k, i, j] = x[:, k, i * b + p, j * b + q]
    return result


MORE |= {"depth_to_space": depth_to_space, "space_to_depth": space_to_depth}
ORACLES = {**NUMPY, **TORCH, **MORE}
EXACT = ("float64", "float32", "int8", "uint8", "int64", "bool")
LIMITS = {"float64": (1e-13, 1e-14), "float32": (4e-6, 2e-6)}


def sampled(name: str) -> list[Case]:
    return [case for case in cases(every=True) if case.op == name and case.dtype in EXACT]


@pytest.mark.requires("torch")
@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.filterwarnings("ignore")
def test_an_operator_means_what_others_say(name: str):
    samples = sampled(name)
    assert samples
    for case in samples:
        assert_meant(case, ORACLES[name])


def assert_meant(case: Case, oracle: Oracle) -> None:
    arrays, grouped = iter(case.arrays), []
    for shape in case.shapes:
        several = isinstance(shape, list)
        grouped.append([next(arrays) for _ in shape] if several else next(arrays))
    with np.errstate(all="ignore"):
        wanted = oracle(*grouped, **dict(case.call.attrs))
    wanted = wanted if isinstance(wanted, list | tuple) else [wanted]
    for ours, theirs in zip(case.expected(), wanted, strict=True):
        assert ours.shape == np.shape(theirs), case.name
        if ours.dtype.name not in LIMITS:
            np.testing.assert_array_equal(ours, theirs, case.name)
            continue
        np.testing.assert_allclose(ours, theirs, *LIMITS[ours.dtype.name], err_msg=case.name)


# Values at which formulas break

HARD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-8, -1e-8, 2e-3, 0.99]
HARD += [-0.9, 1.5, -1.5, 3.3, -3.3, 88.9, 100.0, -100.0, 1e-30, 1e20, -1e20]
HARD_OPS = [
    *("tan", "atan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh", "expm1", "log1p"),
    *("exp2", "log2", "log10", "reciprocal", "identity", "trunc", "signbit", "softplus", "selu"),
    *("mish", "log_sigmoid", "softsign", "hard_swish", "hard_sigmoid", "elu", "celu"),
    *("thresholded_relu", "hard_shrink", "soft_shrink"),
]
REMAINDERS = ["fmod", "mod", "floor_divide", "trunc_divide"]
HARD_PAIRS = ["atan2", "copysign", "logaddexp", *REMAINDERS]


def graph_of(name: str, types: list[TensorType], attrs: dict[str, Any]) -> mlc.IRModule:
    bb = BlockBuilder()
    variables = [Var(f"x{n}", kind) for n, kind in enumerate(types)]
    with bb.function("main", variables):
        bb.emit_func_output(bb.emit(call_op(name, *variables, **attrs)))
    return bb.get()


@pytest.mark.requires("torch")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*HARD_OPS, *HARD_PAIRS])
def test_hard_values(name: str, dtype: str):
    x = np.array(HARD, dtype)
    args = [a.ravel() for a in np.meshgrid(x, x)] if name in HARD_PAIRS else [x]
    attrs = dict(OPS[name].attrs)
    wide = args if name in REMAINDERS else [a.astype(np.float64) for a in args]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = np.asarray(ORACLES[name](*wide, **attrs))
        theirs = theirs.astype(dtype) if theirs.dtype.kind == "f" else theirs
        mod = graph_of(name, [TensorType(a.shape, dtype) for a in args], attrs)
        ours = mlc.interpret(mod, "main", *args)
        native = mlc.build(mod, cache=False)["main"](*args)
    rtol = 1e-6 if dtype == "float32" else 4e-15
    for result in (ours, native):
        assert result.dtype == theirs.dtype
        np.testing.assert_allclose(result, theirs, rtol, 1e-37)
        if theirs.dtype.kind == "f":
            zeros = (result == 0) & (theirs == 0)
            np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(theirs[zeros]))
