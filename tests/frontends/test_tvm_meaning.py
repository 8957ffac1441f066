"""Under TVM's names a call means what it means in TVM, or it is refused."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import minimlc as mlc
import minimlc.frontends.tvm as tvm
from minimlc.frontends.tvm import relax, te, topi
from minimlc.frontends.tvm.script import relax as R
from minimlc.frontends.tvm.script import tir as T

RNG = np.random.default_rng(5)
IMAGE = RNG.standard_normal((1, 2, 5, 6)).astype("float32")
MATRIX = RNG.standard_normal((3, 4)).astype("float32")
WINDOWS = sliding_window_view(IMAGE, (2, 2), axis=(2, 3))


def compute(function, *arrays):
    """The result of a graph function of one call."""
    types = [relax.TensorStructInfo(a.shape, str(a.dtype)) for a in arrays]
    params = [relax.Var(f"x{n}", t) for n, t in enumerate(types)]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(function(*params)))
    return mlc.build(bb.get(), target="python")["main"](*arrays)


CASES = {
    "max_pool2d steps by 1": (
        lambda x: relax.op.nn.max_pool2d(x, (2, 2)),
        [IMAGE],
        WINDOWS.max((4, 5)),
    ),
    "avg_pool2d steps by 1": (
        lambda x: relax.op.nn.avg_pool2d(x, pool_size=2),
        [IMAGE],
        WINDOWS.mean((4, 5)),
    ),
    "a window of 1": (
        lambda x: relax.op.nn.max_pool2d(x, strides=2),
        [IMAGE],
        IMAGE[..., ::2, ::2],
    ),
    "strides said": (
        lambda x: R.nn.max_pool2d(x, (2, 2), (2, 2)),
        [IMAGE],
        WINDOWS[:, :, ::2, ::2].max((4, 5)),
    ),
    "axes come first": (
        lambda x: relax.op.strided_slice(x, (1,), (0,), (2,)),
        [MATRIX],
        MATRIX[:, 0:2],
    ),
    "strides come last": (
        lambda x: R.strided_slice(x, [0, 1], [0, 0], [3, 4], [2, 3]),
        [MATRIX],
        MATRIX[0:3:2, 0:4:3],
    ),
    "argmax of all": (lambda x: relax.op.argmax(x), [MATRIX], np.argmax(MATRIX)),
    "argmin of all": (lambda x: R.argmin(x, keepdims=True), [MATRIX], [[np.argmin(MATRIX)]]),
    "a call by hand": (
        lambda x: relax.Call(tvm.ir.Op.get("relax.argmax"), [x]),
        [MATRIX],
        np.argmax(MATRIX),
    ),
    "argmax along": (lambda x: relax.op.argmax(x, -1), [MATRIX], MATRIX.argmax(-1)),
    "full of a constant": (
        lambda: relax.op.full((2, 3), relax.const(7, "int32")),
        [],
        np.full((2, 3), 7, "int32"),
    ),
    "full_like": (lambda x: relax.op.full_like(x, fill_value=2), [MATRIX], MATRIX * 0 + 2),
    "arange of integers": (lambda: relax.op.arange(1, end=9, step=3), [], np.arange(1, 9, 3)),
    "arange of floats": (
        lambda: relax.op.arange(0.0, 3.0, 1.0),
        [],
        np.arange(3, dtype="float32"),
    ),
    "pad_value": (
        lambda x: relax.op.nn.pad(x, (0, 1, 2, 0), pad_value=3.0),
        [MATRIX],
        np.pad(MATRIX, ((0, 1), (2, 0)), constant_values=3),
    ),
    "take of a vector": (
        lambda x: relax.op.take(x, relax.const([2, 0])),
        [MATRIX[0]],
        MATRIX[0, [2, 0]],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators(name):
    function, arrays, expected = CASES[name]
    result, expected = compute(function, *arrays), np.asarray(expected)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@R.function
def scripted(x: R.Tensor((1, 2, 5, 6), "float32")):
    with R.dataflow():
        y = R.nn.max_pool2d(x, (2, 2))
        z = relax.op.strided_slice(y, (3,), (1,), (4,))
        place = R.argmax(z)
        R.output(z, place)
    return (z, place)


TEXT = """
from tvm.script import relax as R

@R.function
def main(x: R.Tensor((1, 2, 5, 6), "float32")):
    y = R.nn.max_pool2d(x, (2, 2))
    z = relax.op.strided_slice(y, (3,), (1,), (4,))
    place = R.argmax(z)
    return (z, place)
"""


SPELLED_OUT = """
@tvm.script.ir_module
class Module:
    @tir.prim_func
    def main(A: tir.Buffer[8, "float32"], C: tir.Buffer[8, "float32"]) -> None:
        for i_0, i_1 in tir.grid(2, 4):
            with tir.block("C"):
                vi = tir.axis.spatial(8, i_0 * 4 + i_1)
                tir.reads(A[vi])
                tir.writes(C[vi])
                C[vi] = A[vi] + tir.float32(1)
"""


def test_a_text_may_call_the_language_tir():
    mod = tvm.script.from_source(SPELLED_OUT)
    same = SPELLED_OUT.replace("tir.", "T.").replace("tvm.script.ir_module", "I.ir_module")
    assert mlc.structural_equal(mod, mlc.parse(same))


@pytest.mark.parametrize("source", ["def", "text", "printed"])
def test_scripts(source):
    mod = tvm.script.from_source(TEXT) if source == "text" else mlc.IRModule({"main": scripted})
    if source == "printed":
        mod = tvm.script.from_source(mod.script())
    pooled = WINDOWS.max((4, 5))[..., 1:4]
    part, place = mlc.build(mod, target="python")["main"](IMAGE)
    np.testing.assert_array_equal(part, pooled)
    np.testing.assert_array_equal(place, np.argmax(pooled))


def test_own_names_keep_their_meaning():
    x = mlc.Var("x", R.Tensor((1, 2, 4, 6), "float32"))
    assert mlc.op.max_pool2d(x, (2, 2)).shape == (1, 2, 2, 3)
    assert mlc.op.argmax(x).shape == (1, 2, 4)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda x: relax.op.strided_slice(x, (0,), (1,)), 'strided_slice: misses "end"'),
        (lambda x: relax.op.strided_slice(x, begin=(0,), end=(1,)), 'misses "axes"'),
        (lambda x: relax.op.repeat(x, 2), 'misses "axis"'),
        (lambda x: relax.op.arange(0, stop=3), 'has no argument "stop"'),
        (lambda x: relax.op.take(x, relax.const([0]), 0, "wrap", 1), "takes 4 argument"),
        (lambda x: relax.op.round(x), "tvm.relax.op.round has no counterpart here"),
        (lambda x: R.unique(x), "tvm.relax.op.unique has no counterpart here; instead: mlc.op"),
        (
            lambda x: relax.op.nn.max_pool1d(x, layout="NWC"),
            "layout is 'NCW' here, and no other",
        ),
        (lambda x: relax.op.mod(x, x), "tvm.relax.op.mod has no"),
        (lambda x: R.round(x), "tvm.relax.op.round has no counterpart here"),
        (lambda x: topi.round(te.placeholder((4,), name="A")), "tvm.topi.round has no"),
        (lambda x: te.round(x), "tvm.te.round has no"),
        (lambda x: tvm.tir.round(x), "tvm.tir.round has no"),
        (lambda x: T.round, "T has no name 'round'"),
    ],
)
def test_what_has_another_meaning_is_refused(wrong, text):
    with pytest.raises(mlc.CompileError, match=text.replace("(", r"\(")):
        wrong(relax.Var("x", relax.TensorStructInfo((3, 4), "float32")))


def test_a_script_is_refused_too():
    text = TEXT.replace("R.argmax(z)", "R.round(z)")
    with pytest.raises(mlc.CompileError, match="floor"):
        tvm.script.from_source(text)


def formula(function, *arrays):
    """The result of a function of tensor expressions."""
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"A{n}") for n, a in enumerate(arrays)]
    result = function(*tensors)
    func = te.create_prim_func([*tensors, result]).with_attr("global_symbol", "main")
    out = np.empty(result.shape, result.dtype)
    mlc.build(mlc.IRModule({"main": func}), target="python")["main"](*arrays, out)
    return out


FORMULAS = {
    "flip": (lambda x: topi.flip(x), [MATRIX], MATRIX[::-1]),
    "argmax": (lambda x: topi.argmax(x), [MATRIX], np.argmax(MATRIX)),
    "full": (lambda x: topi.add(x, topi.full((3, 4), "float32", 2)), [MATRIX], MATRIX + 2),
    "batch_matmul": (
        topi.nn.batch_matmul,
        [MATRIX[None], MATRIX[None]],
        (MATRIX @ MATRIX.T)[None],
    ),
    "strided_slice": (
        lambda x: topi.strided_slice(x, (0, 1), (2, 3)),
        [MATRIX],
        MATRIX[0:2, 1:3],
    ),
    "pool2d": (
        lambda x: topi.nn.pool2d(x, (2, 2), (1, 2), (1, 1), (0, 0, 0, 0), "avg"),
        [IMAGE],
        WINDOWS[:, :, :, ::2].mean((4, 5)),
    ),
    "global_pool": (
        lambda x: topi.nn.global_pool(x, "max"),
        [IMAGE],
        IMAGE.max((2, 3), keepdims=True),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    function, arrays, expected = FORMULAS[name]
    np.testing.assert_allclose(formula(function, *arrays), expected, rtol=1e-6)


def test_the_convolutions_of_topi_are_here():
    for name in ("conv2d_nchw", "conv2d_nhwc", "depthwise_conv2d_nchw", "pool2d", "global_pool"):
        assert callable(getattr(topi.nn, name))
        assert f"tvm.topi.nn.{name}" not in tvm.absent.INSTEAD
