"""Values at the edges, by the interpreter and each target of a CPU: masked rows, places counted from
the end, tensors without axes and without elements.
"""

import shutil
from functools import partial

import numpy as np
import pytest

import minimlc as mlc
from minimlc.graph import op
from minimlc.graph.builder import BlockBuilder
from minimlc.graph.nodes import TensorType, Var
from minimlc.run import interpret
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
    """What a function of variables gives for arrays, interpreted and on each target of a CPU."""
    params = [Var(f"x{n}", kind) for n, kind in enumerate(types or map(type_of, arrays))]
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(function(*params)))
    mod = bb.get()
    yield interpret(mod, "main", *arrays)
    for target in TARGETS:
        yield mlc.build(mod, target=target)["main"](*arrays)


def gives(function, arrays, wanted, types=None):
    """The function's values are those of numpy, in dtype and shape too."""
    for result in results(function, arrays, types):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("masked", ["zero", "nan"])
def test_queries_that_see_no_key(masked, dtype):
    """Hidden by the mask, or by a bias: zeros, or NaN where that is asked for."""
    none = np.nan if masked == "nan" else 0
    bias = np.array([[-np.inf], [-np.inf], [0]], dtype)
    ones, key = np.ones((1, 3, 1, 1), dtype), np.ones((1, 1, 1, 1), dtype)
    wanted = np.array([none, none, 1], dtype).reshape(ones.shape)
    for options in ({"causal_mask": "BottomRight"}, {"bias": bias}):
        gives(lambda q, k: op.attention(q, k, k, masked=masked, **options), [ones, key], wanted)
    refuses("E204", lambda: op.attention(X, X, X, masked="no"), 'masked is "zero" or "nan"')


def test_places_of_take():
    x, places = np.arange(3, dtype="int32"), np.array([-4, -3, -1, 0, 2, 3, 7])
    for mode, wanted in (("end", [0, 0, 2, 0, 2, 2, 2]), ("clip", [0, 0, 0, 0, 2, 2, 2])):
        gives(lambda x, i: op.take(x, i, mode=mode), [x, places], np.int32(wanted))
    wrapped = np.take(x, places, mode="wrap")
    gives(lambda x, i: op.take(x, i, mode="wrap"), [x, places], wrapped)
    i = Var("i", TensorType((2,), "int64"))
    refuses("E204", lambda: op.take(X, i, mode="raise"), "mode is one of", 'mode="end" clips')


class Shared:
    """What offers its memory through DLPack, and nothing else."""

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
