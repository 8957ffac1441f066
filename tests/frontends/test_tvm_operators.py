"""Operators of Relax by their calls in TVM, each in three ways, beside numpy."""

import numpy as np
import pytest

import minimlc as mlc
import minimlc.frontends.tvm as tvm
from minimlc.frontends.tvm import relax
from minimlc.frontends.tvm.script import relax as R
from tests.frontends.test_tvm_meaning import compute

RNG = np.random.default_rng(11)
ROWS = RNG.permutation(12).reshape(3, 4).astype("float32")
SIGNED = ROWS - 6
WHOLE = RNG.integers(-9, 10, (3, 4)).astype("int32")
PLACES = np.array([[2, 0, 1, 1], [0, 0, 2, 1]], "int32")
IMAGE = RNG.standard_normal((2, 4, 5, 6)).astype("float32")
LINE = RNG.standard_normal((2, 3, 8)).astype("float32")
CUBE = RNG.standard_normal((1, 2, 4, 4, 4)).astype("float32")
FOUR = [RNG.uniform(0.5, 2, 4).astype("float32") for _ in range(4)]


def along(values):
    """Numbers of channels, beside an image."""
    return values[:, None, None]


def normalized(x, axes, shape=None):
    grouped = x.reshape(shape or x.shape)
    mean, variance = grouped.mean(axes, keepdims=True), grouped.var(axes, keepdims=True)
    return ((grouped - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)


def batch(x, gamma, beta, mean, variance):
    return (x - along(mean)) / np.sqrt(along(variance) + 1e-5) * along(gamma) + along(beta)


def put(x, indices, updates, axis, combine=lambda old, new: new):
    result = x.copy()
    for at in np.ndindex(*indices.shape):
        to = (*at[:axis], indices[at], *at[axis + 1 :])
        result[to] = combine(result[to], updates[at])
    return result


def spread(x, w, stride=1, padding=0):
    """A transposed convolution of one group along one axis."""
    n, _, length = x.shape
    kernel = w.shape[2]
    full = np.zeros((n, w.shape[1], (length - 1) * stride + kernel), x.dtype)
    for i in range(length):
        full[:, :, i * stride : i * stride + kernel] += np.einsum("nc,cok->nok", x[:, :, i], w)
    return full[:, :, padding : full.shape[2] - padding]


WEIGHT = RNG.standard_normal((3, 2, 3)).astype("float32")
PLANE = RNG.standard_normal((4, 2, 2, 1)).astype("float32")
SOLID = RNG.standard_normal((3, 2, 1, 2, 1)).astype("float32")
UPDATES = RNG.standard_normal((2, 4)).astype("float32")
TOP = -np.sort(-ROWS)


def windows(x, size, axis):
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=axis)


CASES = {
    "argsort": (lambda x: R.argsort(x), [ROWS], ROWS.argsort().astype("int32")),
    "argsort of columns": (
        lambda x: R.argsort(x, 0, True, "int64"),
        [ROWS],
        (-ROWS).argsort(0),
    ),
    "argsort by names": (
        lambda x: relax.op.argsort(x, descending=True),
        [ROWS],
        (-ROWS).argsort().astype("int32"),
    ),
    "sort": (lambda x: R.sort(x), [ROWS], np.sort(ROWS)),
    "sort of columns": (lambda x: R.sort(x, 0), [ROWS], np.sort(ROWS, 0)),
    "sort downwards": (lambda x: R.sort(x, -1, descending=True), [ROWS], TOP),
    "topk": (
        lambda x: R.topk(x, 2),
        [ROWS],
        (TOP[:, :2], (-ROWS).argsort()[:, :2].astype("int32")),
    ),
    "topk of one": (lambda x: R.topk(x, axis=0, ret_type="values"), [ROWS], ROWS.max(0)[None]),
    "topk of places": (
        lambda x: R.topk(x, 3, ret_type="indices", largest=False, dtype="int64"),
        [ROWS],
        ROWS.argsort()[:, :3],
    ),
    "cumsum of all": (lambda x: R.cumsum(x), [ROWS], ROWS.cumsum()),
    "cumsum of rows": (lambda x: R.cumsum(x, 1, "float64"), [ROWS], ROWS.cumsum(1, "float64")),
    "cumsum before": (
        lambda x: R.cumsum(x, axis=0, exclusive=True),
        [ROWS],
        ROWS.cumsum(0) - ROWS,
    ),
    "cumprod of all": (lambda x: R.cumprod(x), [SIGNED[0]], SIGNED[0].cumprod()),
    "cumprod of columns": (lambda x: R.cumprod(x, 0), [SIGNED], SIGNED.cumprod(0)),
    "cumprod of another dtype": (
        lambda x: R.cumprod(x, -1, dtype="int64"),
        [WHOLE],
        WHOLE.cumprod(1, "int64"),
    ),
    "einsum of a product": (
        lambda x, y: R.einsum((x, y), "ij,kj->ik"),
        [ROWS, ROWS],
        ROWS @ ROWS.T,
    ),
    "einsum of a sum": (lambda x: R.einsum((x,), subscripts="ij->j"), [ROWS], ROWS.sum(0)),
    "einsum of rows": (
        lambda x, y: R.einsum([x, y], "ij,ij->i"),
        [ROWS, SIGNED],
        (ROWS * SIGNED).sum(1),
    ),
    "floor_divide of integers": (
        lambda x: R.floor_divide(x, relax.const(4, "int32")),
        [WHOLE],
        WHOLE // 4,
    ),
    "floor_divide of floats": (
        lambda x: R.floor_divide(x, relax.const(2.0, "float32")),
        [SIGNED],
        SIGNED // 2,
    ),
    "floor_divide divides first": (
        lambda x, y: R.floor_divide(x, y),
        [np.float32([1]), np.float32([0.1])],
        np.float32([10]),
    ),
    "floor_mod of integers": (
        lambda x: R.floor_mod(x, relax.const(4, "int32")),
        [WHOLE],
        WHOLE % 4,
    ),
    "floor_mod of negatives": (
        lambda x: R.floor_mod(x, relax.const(-3, "int32")),
        [WHOLE],
        WHOLE % -3,
    ),
    "floor_mod of floats": (
        lambda x: R.floor_mod(x, relax.const(2.0, "float32")),
        [SIGNED],
        SIGNED % 2,
    ),
    "scatter_elements": (
        lambda x, i, u: R.scatter_elements(x, i, u),
        [ROWS, PLACES, UPDATES],
        put(ROWS, PLACES, UPDATES, 0),
    ),
    "scatter_elements added": (
        lambda x, i, u: R.scatter_elements(x, i, u, axis=0, reduction="add"),
        [ROWS, PLACES, UPDATES],
        put(ROWS, PLACES, UPDATES, 0, lambda old, new: old + new),
    ),
    "scatter_elements along": (
        lambda x, i, u: R.scatter_elements(x, i, u, 1, "update"),
        [ROWS[:2], PLACES, UPDATES],
        put(ROWS[:2], PLACES, UPDATES, 1),
    ),
    "scatter_nd": (
        lambda x, i, u: R.scatter_nd(x, i, u),
        [ROWS, np.array([[2], [0]]), UPDATES],
        np.stack([UPDATES[1], ROWS[1], UPDATES[0]]),
    ),
    "scatter_nd of elements": (
        lambda x, i, u: R.scatter_nd(x, i, u, "update"),
        [ROWS, np.array([[2, 1]]), UPDATES[0, :1]],
        np.where(np.arange(12).reshape(3, 4) == 9, UPDATES[0, 0], ROWS),
    ),
    "scatter_nd added": (
        lambda x, i, u: R.scatter_nd(x, i, u, reduction="add"),
        [ROWS, np.array([[1], [1]]), UPDATES],
        np.stack([ROWS[0], ROWS[1] + UPDATES[0] + UPDATES[1], ROWS[2]]),
    ),
    "gather_elements": (
        lambda x, i: R.gather_elements(x, i),
        [ROWS, PLACES],
        np.take_along_axis(ROWS, PLACES.astype("int64"), 0),
    ),
    "gather_elements along": (
        lambda x, i: R.gather_elements(x, i, 1),
        [ROWS[:2], PLACES],
        np.take_along_axis(ROWS[:2], PLACES.astype("int64"), 1),
    ),
    "gather_elements by name": (
        lambda x, i: R.gather_elements(x, i, axis=-1),
        [ROWS[:2], PLACES[:, :2]],
        np.take_along_axis(ROWS[:2], PLACES[:, :2].astype("int64"), 1),
    ),
    "take": (lambda x, i: R.take(x, i, axis=0), [ROWS, PLACES[0]], ROWS[PLACES[0]]),
    "take, clipped": (
        lambda x, i: R.take(x, i, 1, "clip"),
        [ROWS, np.array([-1, 9])],
        ROWS[:, [0, 3]],
    ),
    "take around": (
        lambda x, i: R.take(x, i, axis=0, mode="wrap"),
        [ROWS, np.array([-1, 3])],
        ROWS[[2, 0]],
    ),
    "pad by reflection": (
        lambda x: R.nn.pad(x, ((0, 0), (2, 1)), pad_mode="reflect"),
        [ROWS],
        np.pad(ROWS, ((0, 0), (2, 1)), "reflect"),
    ),
    "gather_nd": (
        lambda x, i: R.gather_nd(x, i),
        [ROWS, np.array([[2, 3], [0, 1]])],
        ROWS[[2, 0], [3, 1]],
    ),
    "gather_nd of rows": (lambda x, i: R.gather_nd(x, i), [ROWS, np.array([[1]])], ROWS[[1]]),
    "gather_nd of batches": (
        lambda x, i: R.gather_nd(x, i, batch_dims=1),
        [ROWS, np.array([[3], [0], [1]])],
        ROWS[[0, 1, 2], [3, 0, 1]],
    ),
    "one_hot": (
        lambda i: R.one_hot(i, relax.const(1, "int32"), relax.const(0, "int32"), 3),
        [PLACES],
        np.eye(3, dtype="int32")[PLACES],
    ),
    "one_hot of floats": (
        lambda i: R.one_hot(i, 2.0, 0.5, depth=4, axis=0),
        [PLACES[0]],
        (np.eye(4, dtype="float32")[PLACES[0]] * 1.5 + 0.5).T,
    ),
    "one_hot of numbers": (
        lambda i: R.one_hot(i, 7, -1, 3, -1),
        [PLACES[1]],
        np.eye(3, dtype="int64")[PLACES[1]] * 8 - 1,
    ),
    "masked_fill": (
        lambda x: R.masked_fill(x, R.greater(x, relax.const(5.0)), 0.0),
        [ROWS],
        np.where(ROWS > 5, 0, ROWS),
    ),
    "masked_fill of integers": (
        lambda x: R.masked_fill(x, R.less(x, relax.const(0, "int32")), 9),
        [WHOLE],
        np.where(WHOLE < 0, np.int32(9), WHOLE),
    ),
    "masked_fill by name": (
        lambda x: R.masked_fill(x, R.equal(x, x), value=1.0),
        [ROWS],
        np.ones_like(ROWS),
    ),
    "batch_norm": (
        lambda *x: R.nn.batch_norm(*x, axis=1, training=False),
        [IMAGE, *FOUR],
        (batch(IMAGE, *FOUR), FOUR[2], FOUR[3]),
    ),
    "batch_norm in training": (
        lambda *x: relax.op.nn.batch_norm(*x, axis=1, momentum=0.25),
        [IMAGE, *FOUR],
        (
            batch(IMAGE, *FOUR[:2], IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))),
            0.75 * FOUR[2] + 0.25 * IMAGE.mean((0, 2, 3)),
            0.75 * FOUR[3] + 0.25 * IMAGE.var((0, 2, 3)),
        ),
    ),
    "batch_norm without a shift": (
        lambda *x: R.nn.batch_norm(*x, 1, 1e-5, False, True, 0.1, False),
        [IMAGE, *FOUR],
        (batch(IMAGE, FOUR[0], 0 * FOUR[1], *FOUR[2:]), FOUR[2], FOUR[3]),
    ),
    "group_norm": (
        lambda x, g, b: R.nn.group_norm(x, g, b, num_groups=2, channel_axis=1, axes=[2, 3]),
        [IMAGE, *FOUR[:2]],
        normalized(IMAGE, (2, 3, 4), (2, 2, 2, 5, 6)) * along(FOUR[0]) + along(FOUR[1]),
    ),
    "group_norm of one": (
        lambda x, g, b: R.nn.group_norm(x, g, b, 1, 1, (-2, -1), scale=False),
        [IMAGE, *FOUR[:2]],
        normalized(IMAGE, (1, 2, 3)) + along(FOUR[1]),
    ),
    "group_norm of each": (
        lambda x, g, b: R.nn.group_norm(x, g, b, 4, 1, [2, 3], center=False),
        [IMAGE, *FOUR[:2]],
        normalized(IMAGE, (2, 3)) * along(FOUR[0]),
    ),
    "instance_norm": (
        lambda x, g, b: R.nn.instance_norm(x, g, b, channel_axis=1, axes=[2, 3]),
        [IMAGE, *FOUR[:2]],
        normalized(IMAGE, (2, 3)) * along(FOUR[0]) + along(FOUR[1]),
    ),
    "instance_norm alone": (
        lambda x, g, b: R.nn.instance_norm(x, g, b, 1, [2, 3], center=False, scale=False),
        [IMAGE, *FOUR[:2]],
        normalized(IMAGE, (2, 3)),
    ),
    "instance_norm of a line": (
        lambda x, g, b: R.nn.instance_norm(x, g, b, 1, [2]),
        [LINE, FOUR[0][:3], FOUR[1][:3]],
        normalized(LINE, (2,)) * FOUR[0][:3, None] + FOUR[1][:3, None],
    ),
    "conv1d_transpose": (
        lambda x, w: R.nn.conv1d_transpose(x, w),
        [LINE, WEIGHT],
        spread(LINE, WEIGHT),
    ),
    "conv1d_transpose by steps": (
        lambda x, w: R.nn.conv1d_transpose(x, w, 2, 1),
        [LINE, WEIGHT],
        spread(LINE, WEIGHT, 2, 1),
    ),
    "conv1d_transpose and its layouts": (
        lambda x, w: R.nn.conv1d_transpose(x, w, data_layout="NCW", kernel_layout="IOW"),
        [LINE, WEIGHT],
        spread(LINE, WEIGHT),
    ),
    "conv2d_transpose": (
        lambda x, w: R.nn.conv2d_transpose(x, w),
        [IMAGE, PLANE],
        sum(
            np.pad(
                np.einsum("nchw,co->nohw", IMAGE, PLANE[:, :, i, 0]),
                ((0, 0), (0, 0), (i, 1 - i), (0, 0)),
            )
            for i in (0, 1)
        ),
    ),
    "conv2d_transpose by steps": (
        lambda x, w: R.nn.conv2d_transpose(x, w, strides=(1, 2), data_layout="NCHW"),
        [IMAGE, PLANE[:, :, :1]],
        np.stack(
            [
                np.einsum("nchw,co->nohw", IMAGE, PLANE[:, :, 0, 0]),
                np.zeros((2, 2, 5, 6), "float32"),
            ],
            -1,
        ).reshape(2, 2, 5, 12)[..., :11],
    ),
    "conv2d_transpose with padding": (
        lambda x, w: R.nn.conv2d_transpose(x, w, (1, 1), (0, 1), kernel_layout="IOHW"),
        [IMAGE, PLANE[:, :, :1]],
        np.einsum("nchw,co->nohw", IMAGE, PLANE[:, :, 0, 0])[..., 1:-1],
    ),
    "conv3d": (
        lambda x, w: R.nn.conv3d(x, w),
        [CUBE, SOLID],
        np.einsum("ncdhwk,ock->nodhw", windows(CUBE, 2, 3), SOLID[:, :, 0, :, 0]),
    ),
    "conv3d by steps": (
        lambda x, w: R.nn.conv3d(x, w, strides=(2, 1, 2), data_layout="NCDHW"),
        [CUBE, SOLID],
        np.einsum("ncdhwk,ock->nodhw", windows(CUBE, 2, 3), SOLID[:, :, 0, :, 0])[
            :, :, ::2, :, ::2
        ],
    ),
    "conv3d of 32-bit sums": (
        lambda x, w: R.nn.conv3d(x, w, kernel_layout="OIDHW", out_dtype=None),
        [CUBE, SOLID[:, :, :, :1]],
        np.einsum("ncdhw,oc->nodhw", CUBE, SOLID[:, :, 0, 0, 0]),
    ),
    "max_pool1d": (lambda x: R.nn.max_pool1d(x, 3), [LINE], windows(LINE, 3, 2).max(-1)),
    "max_pool1d by steps": (
        lambda x: R.nn.max_pool1d(x, (2,), strides=2),
        [LINE],
        windows(LINE, 2, 2).max(-1)[..., ::2],
    ),
    "max_pool1d of one": (lambda x: R.nn.max_pool1d(x), [LINE], LINE),
    "avg_pool1d": (lambda x: R.nn.avg_pool1d(x, 2), [LINE], windows(LINE, 2, 2).mean(-1)),
    "avg_pool1d by steps": (
        lambda x: R.nn.avg_pool1d(x, pool_size=4, strides=4),
        [LINE],
        windows(LINE, 4, 2).mean(-1)[..., ::4],
    ),
    "avg_pool1d with padding": (
        lambda x: R.nn.avg_pool1d(x, 2, 1, 1, count_include_pad=True),
        [LINE],
        windows(np.pad(LINE, ((0, 0), (0, 0), (1, 1))), 2, 2).mean(-1),
    ),
    "max_pool3d": (
        lambda x: R.nn.max_pool3d(x, 2),
        [CUBE],
        windows(CUBE, (2, 2, 2), (2, 3, 4)).max((5, 6, 7)),
    ),
    "max_pool3d by steps": (
        lambda x: R.nn.max_pool3d(x, (2, 2, 2), (2, 2, 2)),
        [CUBE],
        CUBE.reshape(1, 2, 2, 2, 2, 2, 2, 2).max((3, 5, 7)),
    ),
    "max_pool3d of slabs": (
        lambda x: R.nn.max_pool3d(x, (1, 1, 4)),
        [CUBE],
        CUBE.max(4, keepdims=True),
    ),
    "avg_pool3d": (
        lambda x: R.nn.avg_pool3d(x, 4),
        [CUBE],
        CUBE.mean((2, 3, 4), keepdims=True),
    ),
    "avg_pool3d by steps": (
        lambda x: R.nn.avg_pool3d(x, (2, 2, 2), 2),
        [CUBE],
        CUBE.reshape(1, 2, 2, 2, 2, 2, 2, 2).mean((3, 5, 7)),
    ),
    "avg_pool3d of slabs": (
        lambda x: R.nn.avg_pool3d(x, (4, 1, 1)),
        [CUBE],
        CUBE.mean(2, keepdims=True),
    ),
    "adaptive_avg_pool1d": (
        lambda x: R.nn.adaptive_avg_pool1d(x, 4),
        [LINE],
        LINE.reshape(2, 3, 4, 2).mean(-1),
    ),
    "adaptive_avg_pool1d to one": (
        lambda x: R.nn.adaptive_avg_pool1d(x, output_size=1),
        [LINE],
        LINE.mean(-1, keepdims=True),
    ),
    "adaptive_avg_pool1d of all": (lambda x: R.nn.adaptive_avg_pool1d(x, 8), [LINE], LINE),
    "adaptive_avg_pool3d": (
        lambda x: R.nn.adaptive_avg_pool3d(x, (2, 2, 2)),
        [CUBE],
        CUBE.reshape(1, 2, 2, 2, 2, 2, 2, 2).mean((3, 5, 7)),
    ),
    "adaptive_avg_pool3d to one": (
        lambda x: R.nn.adaptive_avg_pool3d(x, 1),
        [CUBE],
        CUBE.mean((2, 3, 4), keepdims=True),
    ),
    "adaptive_avg_pool3d of slabs": (
        lambda x: R.nn.adaptive_avg_pool3d(x, (4, 4, 2)),
        [CUBE],
        CUBE.reshape(1, 2, 4, 4, 2, 2).mean(-1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators(name):
    function, arrays, expected = CASES[name]
    results = compute(function, *arrays)
    several = isinstance(expected, tuple)
    for result, wanted in zip(
        results if several else [results], expected if several else [expected], strict=True
    ):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda x: R.topk(x, 2, ret_type="all"), "ret_type is one of both, values, indices"),
        (lambda x: R.argsort(x, direction=1), 'has no argument "direction"'),
        (lambda x: R.cumsum(x, 0, "float64", True, 1), "takes 4 argument"),
        (lambda x: R.one_hot(x, 1, 0), 'misses "depth"'),
        (lambda x: R.nn.avg_pool1d(x, 2, layout="NWC"), "layout is 'NCW' here, and no other"),
        (lambda x: R.nn.conv3d(x, x, data_layout="NDHWC"), "data_layout is 'NCDHW' here"),
        (lambda x: R.nn.group_norm(x, x, x, 1, 1, [0]), "axes are all but the batch's and"),
        (lambda x: R.nn.batch_norm(x, x, x, x, x), 'misses "axis"'),
        (lambda x: R.mod(x, x), r"tvm\.relax\.op\.mod has no counterpart"),
    ],
)
def test_what_is_refused(wrong, text):
    with pytest.raises(mlc.CompileError, match=text):
        wrong(relax.Var("x", relax.TensorStructInfo((3, 4), "float32")))


TEXT = """
@R.function
def main(x: R.Tensor((3, 4), "float32")):
    with R.dataflow():
        values, places = R.topk(x, 2)
        sums = R.cumsum(values, axis=1)
        kept = R.nn.batch_norm(x, R.sum(x, axis=0), R.sum(x, axis=0), R.mean(x, axis=0),
            R.mean(x, axis=0), axis=1, training=False)
        y = kept[0]
        R.output(sums, places, y)
    return (sums, places, y)
"""


def test_in_scripts():
    mod = tvm.script.from_source(TEXT)
    x = np.abs(ROWS) + 1
    sums, places, y = mlc.build(mod, target="python")["main"](x)
    assert np.array_equal(sums, (-np.sort(-x)[:, :2]).cumsum(1))
    assert np.array_equal(places, (-x).argsort()[:, :2])
    mean, total = x.mean(0), x.sum(0)
    expected = (x - mean) / np.sqrt(mean + 1e-5) * total + total
    np.testing.assert_allclose(y, expected, rtol=1e-4)
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
