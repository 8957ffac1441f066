"""Values at the edges, interpreted and on each target of a CPU: masked rows, places from the end,
tensors without axes and without elements.
"""

import shutil
from functools import partial

import numpy as np
import pytest

import minimlc as mlc
from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import TensorType, Var
from minimlc.loops.interpreter.run import interpret
from tests.helpers import refuses

TARGETS = ("python", "llvm", *(["c"] if shutil.which("cc") else []))
X = Var("x", TensorType((3, 4), "float32"))
ADD_ONE = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = {size}
    x = T.match_buffer(a, (n,), "float32")
    y = T.match_buffer(b, (n,), "float32")
    for i in T.grid(n):
        with T.block("y"):
            vi = T.axis.remap("S", [i])
            y[vi] = x[vi] + 1.0
"""
COPY = """
@T.prim_func
def main(x: T.Buffer((), "float32"), y: T.Buffer((), "float32")):
    with T.block("y"):
        y[()] = x[()]
"""


def type_of(array):
    return TensorType(array.shape, array.dtype.name)


def results(function, arrays, types=None):
    """Results of a function of variables for arrays, interpreted and on each target of a CPU."""
    params = [Var(f"x{n}", kind) for n, kind in enumerate(types or map(type_of, arrays))]
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(function(*params)))
    mod = bb.get()
    yield interpret(mod, "main", *arrays)
    for target in TARGETS:
        yield mlc.build(mod, target=target)["main"](*arrays)


def gives(function, arrays, wanted, types=None):
    """The function's values are numpy's, in dtype and shape too."""
    for result in results(function, arrays, types):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("masked", ["zero", "nan"])
@pytest.mark.parametrize("by", ["mask", "bias"])
def test_queries_that_see_no_key(by, masked, dtype):
    """Hidden by the mask, or by a bias: zeros, or NaN where that is asked for."""
    bias = np.array([[-np.inf], [-np.inf], [0]], dtype)
    hidden = {"bias": bias} if by == "bias" else {"causal_mask": "BottomRight"}
    ones, key = np.ones((1, 3, 1, 1), dtype), np.ones((1, 1, 1, 1), dtype)
    none = np.nan if masked == "nan" else 0
    wanted = np.array([none, none, 1], dtype).reshape(ones.shape)
    gives(lambda q, k: op.attention(q, k, k, masked=masked, **hidden), [ones, key], wanted)


def test_attention_without_keys_gives_zeros():
    q, k = np.ones((1, 3, 2, 2), "float32"), np.ones((1, 0, 2, 2), "float32")
    gives(lambda q, k: op.attention(q, k, k), [q, k], np.zeros_like(q))
    refuses("E204", lambda: op.attention(X, X, X, masked="no"), 'masked is "zero" or "nan"')


PLACES = np.array([-4, -3, -1, 0, 2, 3, 7])


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("end", [0, 0, 2, 0, 2, 2, 2]),
        ("clip", np.take(range(3), PLACES, mode="clip")),
        ("wrap", np.take(range(3), PLACES, mode="wrap")),
    ],
)
def test_places_of_take(mode, wanted):
    x = np.arange(3, dtype="int32")
    gives(lambda x, i: op.take(x, i, mode=mode), [x, PLACES], np.int32(wanted))
    i = Var("i", TensorType((2,), "int64"))
    refuses("E204", lambda: op.take(X, i, mode="raise"), "mode is one of", 'mode="end" clips')


class Shared:
    """An object that offers its memory through DLPack, and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("size", [5, "n"])
def test_arguments_that_dlpack_alone_shares(size):
    x = np.arange(5, dtype="float32")
    gives(lambda x: op.multiply(x, 2.0), [Shared(x)], x * 2, [TensorType((size,), "float32")])
    mod = mlc.parse(ADD_ONE.format(size="T.int64()" if size == "n" else size))
    for call in (partial(interpret, mod, "main"), *(mlc.build(mod, t)["main"] for t in TARGETS)):
        y = np.zeros(5, "float32")
        call(Shared(x), Shared(y))
        np.testing.assert_array_equal(y, x + 1)


def test_numpy_scalars_are_arrays_without_axes():
    x = np.arange(3, dtype="float32")
    for two in (np.float32(2), np.array(2, "float32")):
        gives(op.multiply, [x, two], x * 2)
        gives(op.negative, [two], np.array(-2, "float32"))
    mod = mlc.parse(COPY)
    scalar = np.float32(1)
    refuses("E602", lambda: interpret(mod, "main", scalar, scalar), "argument 2")


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, dtype)


S, M, V = np.float32(3), np.arange(6, dtype="float32").reshape(2, 3), np.float32([1, 2, 3])
NOTHING = {
    "the sum of a scalar": (op.sum, [S], S),
    "the sum of a scalar along its axis 0": (lambda x: op.sum(x, axis=0), [S], S),
    "the mean of a scalar": (lambda x: op.mean(x, axis=-1), [S], S),
    "the greatest of a scalar": (lambda x: op.max(x, axis=-1), [S], S),
    "where a scalar is greatest": (op.argmax, [S], np.int64(0)),
    "softmax of a scalar": (op.softmax, [S], np.float32(1)),
    "log_softmax of a scalar": (lambda x: op.log_softmax(x, axis=0), [S], np.float32(0)),
    "cumsum of a scalar": (lambda x: op.cumsum(x, axis=0), [S], np.cumsum(S)),
    "sum along no axis": (lambda x: op.sum(x, axis=()), [M], M),
    "mean along no axis": (lambda x: op.mean(x, axis=(), keepdims=True), [M], M),
    "max along no axis": (lambda x: op.max(x, axis=()), [M], M),
    "variance along no axis": (lambda x: op.variance(x, axis=()), [M], zeros(2, 3)),
    "softmax of no columns": (op.softmax, [zeros(3, 0)], zeros(3, 0)),
    "softmax of no rows": (op.softmax, [zeros(0, 3)], zeros(0, 3)),
    "hardmax of no columns": (op.hardmax, [zeros(3, 0)], zeros(3, 0)),
    "logsumexp": (lambda x: op.logsumexp(x, axis=1), [zeros(2, 0)], np.float32([-np.inf] * 2)),
    "the mean of nothing": (lambda x: op.mean(x, axis=1), [zeros(2, 0)], np.float32([np.nan] * 2)),
    "the greatest of no rows": (lambda x: op.max(x, axis=1), [zeros(0, 3)], zeros(0)),
    "cumsum of nothing": (lambda x: op.cumsum(x, axis=1), [zeros(2, 0)], zeros(2, 0)),
    "layer_norm": (op.layer_norm, [zeros(0, 3), V, V], zeros(0, 3)),
    "tile": (lambda x: op.tile(x, (0, 2)), [M], zeros(0, 6)),
    "repeat": (lambda x: op.repeat(x, 0, axis=1), [M], zeros(2, 0)),
    "products over nothing": (op.matmul, [zeros(2, 0), zeros(0, 3)], zeros(2, 3)),
    "a matrix by a vector": (op.matmul, [M, V], M @ V),
    "a vector by a matrix": (op.matmul, [V, M.T.copy()], V @ M.T),
    "a vector by a vector": (op.matmul, [V, V], V @ V),
    "a vector by matrices": (
        op.matmul,
        [V, np.ascontiguousarray([M.T] * 2)],
        np.stack([V @ M.T] * 2),
    ),
    "a vector by a layer": (op.dense, [V, M], V @ M.T),
    "no channels": (op.conv2d, [zeros(1, 0, 4, 4), zeros(3, 0, 3, 3)], zeros(1, 3, 2, 2)),
    "min above max": (lambda x: op.clip(x, 2.0, -1.0), [V], np.clip(V, 2, -1)),
}
"""Results of numpy or torch where there is no axis, no element, or one of both."""


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_and_scalars(name):
    function, arrays, wanted = NOTHING[name]
    gives(function, arrays, np.asarray(wanted))


def test_the_first_none():
    for result in results(lambda x: op.topk(x, k=0), [V]):
        assert [(part.shape, part.dtype.name) for part in result] == [
            ((0,), "float32"),
            ((0,), "int64"),
        ]


def test_what_is_nothing_of_is_refused():
    none = Var("x", TensorType((0, 3), "float32"))
    for extreme in (op.max, op.min, op.argmax, op.argmin):
        refuses("E203", lambda extreme=extreme: extreme(none, axis=0), "axis 0: it has size 0")
    refuses("E201", lambda: op.concat([]), "at least one tensor")
    scalar = Var("s", TensorType((), "float32"))
    refuses("E203", lambda: op.matmul(scalar, X), "x has no axes", "op.multiply(x, w)")
    refuses("E204", lambda: op.sum(scalar, axis=1), "axis=1 is out of range")
