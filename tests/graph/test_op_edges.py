"""Operators at their edges: what they refuse, orders with NaN, sizes that divide nothing."""

from itertools import product

import numpy as np
import pytest

import minimlc as mlc
from minimlc.graphs import op
from minimlc.graphs.ir.nodes import TensorType, Var
from minimlc.graphs.ops import evaluate
from minimlc.loops.values.dtypes import to_numpy
from tests.graph.graph_runs import main
from tests.helpers import refuses

X = Var("x", TensorType((3, 4), "float32"))
I = Var("i", TensorType((3,), "int64"))
J = Var("j", TensorType((3, 4), "int64"))
V, I3, S, W = (Var("v", TensorType((size,), "float32")) for size in (4, 3, 1, 5))
IMAGE = Var("image", TensorType((1, 2, 5, 4), "float32"))
K = Var("k", TensorType((2, 3, 3, 4), "float32"))
B = Var("b", TensorType((3, 5), "float32"))
K2 = Var("k", TensorType((3, 3), "float32"))
SEQUENCE = Var("x", TensorType((2, 1, 5), "float32"))


@pytest.mark.parametrize(
    ("code", "call", "words"),
    [
        ("E204", lambda: op.celu(X, alpha=0), ("alpha is 0",)),
        ("E204", lambda: op.soft_shrink(X, lambd=-1.0), ("lambd=-1.0 is not >= 0",)),
        ("E204", lambda: op.norm(X, p=0), ("p=0 is no exponent",)),
        ("E204", lambda: op.mse_loss(X, X, reduction="avg"), ('"mean", "sum" or "none"',)),
        ("E204", lambda: op.huber_loss(X, X, delta=0.0), ("delta=0.0 is not > 0",)),
        ("E204", lambda: op.cumsum(X, axis=2), ("axis=2",)),
        ("E202", lambda: op.nll_loss(X, W), ("target cannot be float32",)),
        ("E203", lambda: op.nll_loss(X, I, W), ("weight has shape (5,), there are 4 classes",)),
        ("E203", lambda: op.cross_entropy(W, I), ("x is (n, classes, ...)",)),
        (
            "E204",
            lambda: op.group_norm(X, V, V, num_groups=3),
            ("4 channels", "3 groups"),
        ),
        ("E203", lambda: op.batch_norm(X, I3, I3, I3, I3), ("a vector of shape (3,)",)),
        ("E204", lambda: op.local_response_norm(X, size=4), ("size=4 is an odd number",)),
        ("E203", lambda: op.take_along_axis(X, I), ("indices has shape (3,), x has (3, 4)",)),
        ("E203", lambda: op.gather_nd(X, I), ("(3,) do not fit x of shape (3, 4)",)),
        ("E203", lambda: op.scatter_elements(X, J, V), ("updates have shape (4,)",)),
        ("E204", lambda: op.scatter_elements(X, J, X, reduction="sub"), ("got 'sub'",)),
        ("E203", lambda: op.scatter_nd(X, J, X), ("do not fit",)),
        ("E204", lambda: op.topk(X, k=5), ("k=5 is not between 0 and the 4 elements",)),
        ("E204", lambda: op.one_hot(I, depth=-1), ("depth is an integer >= 0",)),
        ("E204", lambda: op.pad(X, ((3, 0), (0, 0)), mode="reflect"), ("axis 0 has size 3",)),
        ("E204", lambda: op.pad(X, ((0, 0), (0, 0)), mode="mirror"), ("got 'mirror'",)),
        ("E204", lambda: op.roll(X, shift=(1, 2), axis=0), ("2 and 1 entries",)),
        ("E203", lambda: op.space_to_depth(IMAGE, block_size=2), ("(5, 4) is not cut",)),
        ("E204", lambda: op.depth_to_space(IMAGE, block_size=2), ("divides the 2 channels",)),
        ("E204", lambda: op.resize(IMAGE, size=3), ("a size for each",)),
        ("E204", lambda: op.resize(IMAGE, size=(3, 3), method="cubical"), ("got 'cubical'",)),
        ("E202", lambda: op.resize(op.cast(IMAGE, "int8"), size=(3, 3)), ('method="nearest"',)),
        ("E204", lambda: op.adaptive_max_pool2d(IMAGE, output_size=0), ("cut into 0 parts",)),
        ("E203", lambda: op.max_pool1d(X, pool_size=2), ("x has 2 dimension(s)",)),
        ("E204", lambda: op.einsum([X, X], subscripts="ij,j?->i"), ('"ij,jk->ik"',)),
        ("E204", lambda: op.einsum([X, X], subscripts="ji,j...->i"), ('must have "..."',)),
        ("E204", lambda: op.einsum([X], subscripts="i.j->ij"), ("subscripts are letters",)),
        ("E204", lambda: op.einsum([X], subscripts="...i...->i"), ("subscripts are letters",)),
        ("E203", lambda: op.einsum([X], subscripts="ii->i"), ("have sizes 3 and 4",)),
        ("E203", lambda: op.einsum([X, X], subscripts="ij,jk->ik"), ("have sizes 4 and 3",)),
        ("E203", lambda: op.einsum([X], subscripts="ijk"), ("does not name the axes",)),
        ("E204", lambda: op.einsum([X], subscripts="ij->ijj"), ("each letter once",)),
        ("E203", lambda: op.gemm(X, X), ("3",)),
        ("E203", lambda: op.conv3d(X, X), ("they must have 5",)),
        ("E203", lambda: op.conv2d_transpose(IMAGE, X), ("(3, 4)",)),
        ("E204", lambda: op.conv2d_transpose(IMAGE, K, output_padding=1), ("is less than",)),
        ("E203", lambda: op.rotary_embedding(W, W, W), ("not cut into pairs",)),
        ("E204", lambda: op.attention(IMAGE, IMAGE, IMAGE, causal_mask="Left"), ("TopLeft",)),
        ("E203", lambda: op.attention(IMAGE, K, K), ("5 heads", "3 heads do not divide")),
        ("E204", lambda: op.quantize(X, S, dtype="int32"), ("dtype cannot be int32", "uint8")),
        ("E204", lambda: op.fake_quantize(X, scale=0.0), ("scale=0.0 is > 0",)),
        ("E203", lambda: op.lstm(IMAGE, X, X), ("(steps, batch, inputs)",)),
        ("E204", lambda: op.variance(X, axis=0, correction=3), ("from 0 to 2",)),
        ("E203", lambda: op.slice_scatter(X, X, begin=0, end=2), ("the slice (2, 4)",)),
        ("E204", lambda: op.slice_scatter(X, X, begin=0, end=2, stride=-1), (">= 1",)),
        ("E203", lambda: op.eye_like(W), ("at least 2",)),
        ("E204", lambda: op.glu(W), ("5 elements do not split",)),
        ("E203", lambda: op.rnn(SEQUENCE, B, K2, W), ("a bias has shape (5,)",)),
        ("E203", lambda: op.rnn(SEQUENCE, X, K2), ("the weights have shapes",)),
        ("E202", lambda: op.bitwise_not(X), ("x cannot be float32",)),
        ("E202", lambda: op.any(X), ("x cannot be float32", "bool")),
    ],
)
def test_what_operators_refuse(code, call, words):
    refuses(code, call, *words)


def test_what_is_no_class_has_no_loss():
    x, target = np.zeros((3, 4), "float32"), np.array([0, 4, -1])
    losses = evaluate(op.nll_loss(X, I, reduction="none"), [x, target])
    assert np.isnan(losses).tolist() == [False, True, True]


# Sizes

NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def runs(call: str, x: np.ndarray) -> np.ndarray:
    """The result of a call on `x`: the interpreter's and LLVM's are the same, up to rounding."""
    mod = mlc.parse(main(f'x: R.Tensor({x.shape}, "{x.dtype}")', call))
    meant, native = mlc.interpret(mod, "main", x), mlc.build(mod, cache=False)["main"](x)
    np.testing.assert_allclose(native, meant, 1e-5, 1e-6)
    return native


@pytest.mark.requires("torch")
@pytest.mark.parametrize("size", [(7, 3), (2, 8), (1, 1)])
@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("corners", [False, True])
def test_other_sizes_are_those_of_pytorch(method, size, corners):
    import torch

    x = np.random.default_rng(0).standard_normal((1, 2, 4, 5)).astype("float32")
    said = f"bi{method}"
    wanted = torch.nn.functional.interpolate(
        torch.tensor(x), size, mode=said, align_corners=corners
    )
    coordinates = "align_corners" if corners else "half_pixel"
    call = f'R.resize(x, size={size}, method="{method}", coordinates="{coordinates}")'
    np.testing.assert_allclose(runs(call, x), wanted.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("rounding", NEAREST)
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
def test_the_nearest_is_that_of_exact_fractions(rounding, coordinates):
    from fractions import Fraction
    from math import ceil, floor

    half = Fraction(1, 2)
    nearest = {
        "floor": floor,
        "ceil": ceil,
        "round_prefer_floor": lambda place: ceil(place - half),
        "round_prefer_ceil": lambda place: floor(place + half),
    }[rounding]
    for size, new in product((1, 3, 10), (1, 4, 6, 15)):
        place = {
            "half_pixel": lambda i, n=size, m=new: (i + half) * Fraction(n, m) - half,
            "asymmetric": lambda i, n=size, m=new: i * Fraction(n, m),
            "align_corners": lambda i, n=size, m=new: i * Fraction(n - 1, max(m - 1, 1)),
        }[coordinates]
        wanted = [min(max(nearest(place(i)), 0), size - 1) for i in range(new)]
        said = f'method="nearest", coordinates="{coordinates}", rounding="{rounding}"'
        x = np.arange(size, dtype="int32")
        mod = mlc.parse(main(f'x: R.Tensor(({size},), "int32")', f"R.resize(x, {new}, 0, {said})"))
        assert mlc.interpret(mod, "main", x).tolist() == wanted


@pytest.mark.requires("torch")
@pytest.mark.parametrize("options", list(product((2, 3), (1, 2, 3), (0, 1))), ids=str)
def test_windows_beyond_the_end_are_those_of_pytorch(options):
    import torch

    size, step, pad = options
    x = np.arange(1 * 2 * 6 * 7, dtype="float32").reshape(1, 2, 6, 7)
    said = f"pool_size={size}, strides={step}, padding={pad}, ceil_mode=True"
    wanted = torch.nn.functional.max_pool2d(torch.tensor(x), size, step, pad, ceil_mode=True)
    np.testing.assert_array_equal(runs(f"R.nn.max_pool2d(x, {said})", x), wanted.numpy())
    wanted = torch.nn.functional.avg_pool2d(torch.tensor(x), size, step, pad, True, False)
    np.testing.assert_allclose(runs(f"R.nn.avg_pool2d(x, {said})", x), wanted.numpy(), 1e-6)


# Values at the ends


def ways(call: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of a call of x and y: of the interpreter, of loops, of LLVM, and of constants."""
    listed = ", ".join(
        f'{name}: R.Tensor({array.shape}, "{array.dtype}")'
        for name, array in zip("xy", arrays, strict=False)
    )
    mod = mlc.parse(main(listed, call))
    named = dict(zip("xy", arrays, strict=False))
    fixed = mlc.passes.bind_params(mod, named)
    loops = mlc.interpret(mlc.passes.legalize(mod), "main", *arrays)
    meant = mlc.interpret(mod, "main", *arrays)
    return [meant, loops, mlc.build(mod)["main"](*arrays), mlc.build(fixed)["main"]()]


def assert_same_bits(call: str, *arrays: np.ndarray) -> np.ndarray:
    meant, *others = ways(call, *arrays)
    for other in others:
        assert other.dtype == meant.dtype and other.shape == meant.shape
        assert other.tobytes() == meant.tobytes(), (call, meant, other)
    return meant


FAR = (300, -300, -1.5, 127.9, -128.5, 255.5, 0.99, -0.0, 1e10, 2**31, 2**63, -(2**63))
INFINITE = (np.nan, np.inf, -np.inf, 3e38, -3e38)


@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "float16"])
def test_a_float_out_of_range_is_the_nearest_integer(source, dtype):
    with np.errstate(over="ignore"):
        x = np.array([*FAR, *INFINITE]).astype(to_numpy(source))
    values = assert_same_bits(f'R.astype(x, "{dtype}")', x)
    if dtype == "uint8":
        assert values[:8].tolist() == [
            255,
            0,
            0,
            127 if source != "bfloat16" else 128,
            0,
            255,
            0,
            0,
        ]
        assert values[-5:].tolist() == [0, 255, 0, 255, 0]


@pytest.mark.parametrize("call", ["maximum(x, y)", "minimum(x, y)", "nn.relu(x)", "clip(x, 0, 1)"])
def test_which_of_two_zeros_it_is(call):
    x = np.array([0, -0.0, 0, -0.0, np.nan, 1, -1], "float32")
    y = np.array([-0.0, 0, 0, -0.0, 1, np.nan, 2], "float32")
    assert_same_bits(f"R.{call}", *((x, y) if "y" in call else (x,)))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("R.sum(x, axis=1)", np.zeros(3, "float32")),
        ("R.sum(x, axis=0)", np.zeros(0, "float32")),
        ("R.sum(x)", np.zeros((), "float32")),
        ("R.prod(x, axis=1, keepdims=True)", np.ones((3, 1), "float32")),
        ("R.mean(x, axis=1)", np.full(3, np.nan, "float32")),
        ("R.any(R.isnan(x), axis=1)", np.zeros(3, bool)),
        ("R.all(R.isnan(x), axis=1)", np.ones(3, bool)),
        ("R.matmul(x, R.permute_dims(x))", np.zeros((3, 3), "float32")),
        ("R.nn.relu(R.matmul(x, R.permute_dims(x)) + R.sum(x))", np.zeros((3, 3), "float32")),
    ],
)
def test_what_there_is_of_no_values(call, wanted):
    meant = ways(call, np.zeros((3, 0), "float32"))
    for value in meant:
        assert value.dtype == wanted.dtype
        np.testing.assert_array_equal(value, wanted)


# Orders


@pytest.mark.parametrize("descending", [False, True])
def test_orders_keep_equal_ones_and_put_nan_last(descending):
    x = np.array([2, np.nan, -0.0, 0.0, np.inf, 2, -np.inf, np.nan], "float32")
    order = runs(f"R.argsort(x, descending={descending})", x)
    wanted = [6, 2, 3, 0, 5, 4, 1, 7]
    assert order.tolist() == ([1, 7, 4, 0, 5, 2, 3, 6] if descending else wanted)


def test_the_last_of_several_updates_stays():
    x, updates = np.zeros(3, "float32"), np.array([1, 2, 3, 4], "float32")
    y = Var("y", TensorType((3,), "float32"))
    places, u = Var("i", TensorType((4,), "int64")), Var("u", TensorType((4,), "float32"))
    call = op.scatter_elements(y, places, u)
    assert evaluate(call, [x, np.array([0, -1, 0, 9]), updates]).tolist() == [3, 0, 4]
