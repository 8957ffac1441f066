"""Values at the edges, by the interpreter and each target of a CPU: masked rows, places counted from
the end, tensors without axes and without elements.
"""

import shutil

import numpy as np
import pytest

import minimlc as mlc
from minimlc.graph import op
from minimlc.graph.builder import BlockBuilder
from minimlc.graph.nodes import TensorType, Var
from minimlc.run import interpret
from tests.helpers import refuses

X = Var("x", TensorType((3, 4), "float32"))


def results(function, *arrays):
    """What a function of variables gives for arrays, interpreted and on each target of a CPU."""
    types = [TensorType(array.shape, array.dtype.name) for array in map(np.asarray, arrays)]
    params = [Var(f"x{n}", kind) for n, kind in enumerate(types)]
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(function(*params)))
    mod = bb.get()
    yield interpret(mod, "main", *arrays)
    for target in ("python", "llvm", *(["c"] if shutil.which("cc") else [])):
        yield mlc.build(mod, target=target)["main"](*arrays)


def gives(function, arrays, wanted):
    """The function's values are those of numpy, in dtype and shape too."""
    for result in results(function, *arrays):
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
