"""`topi`: each operator over tensor expressions is the operator of the graph."""

from inspect import signature

import numpy as np
import pytest

import minimlc as mlc
from minimlc import te, topi
from minimlc.graphs.ir.nodes import TensorType, TupleType, Var
from minimlc.graphs.ops import OPS, evaluate
from minimlc.loops.ir.nodes import Load
from minimlc.loops.values.node import nodes_of
from tests.graph.op_cases import cases
from tests.helpers import refuses
from tests.te_runs import run

APART = ("full",)
"""Their arguments have another order."""
FIRST = [
    case
    for case in cases(every=True)
    if case.dtype in ("float32", "bool") and case.number < 2 and case.op not in APART
]


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.name)
def test_every_operator_is_there_with_the_loops_that_legalize_gives(case):
    inputs = iter([te.placeholder(v.shape, v.dtype, name=v.name) for v in case.variables])
    args = [
        [next(inputs) for _ in shape] if isinstance(shape, list) else next(inputs)
        for shape in case.shapes
    ]
    function = getattr(topi, case.op)
    known = signature(function).parameters
    result = function(*args, **{key: v for key, v in case.call.attrs if key in known})
    outputs = result if isinstance(result, list) else [result]
    flat = [t for arg in args for t in (arg if isinstance(arg, list) else [arg])]
    mod, callee = case.module()
    assert mlc.structural_equal(te.create_prim_func([*flat, *outputs]), mod[callee])


A = te.placeholder((3, 4), name="A")
B = te.placeholder((4, 5), name="B")


def test_operators_go_on_from_each_other():
    W, b = te.placeholder((5, 4), name="W"), te.placeholder((5,), name="b")
    out = topi.nn.relu(topi.add(topi.nn.dense(A, W), b))
    assert out.name == "relu"
    a, w, bias, result = run(A, W, b, out)
    wanted = np.maximum(a.astype(float) @ w.T + bias, 0)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_products_with_axes_exchanged():
    products = {
        topi.matmul(A, B): lambda a, b: a @ b,
        topi.matmul(B, A, True, True): lambda b, a: b.T @ a.T,
        topi.matmul(A, te.placeholder((5, 4), name="C"), transp_b=True): lambda a, c: a @ c.T,
    }
    for product, wanted in products.items():
        inputs = list(dict.fromkeys(load.buffer for load in nodes_of(product.value, Load)))
        *arrays, result = run(*inputs, product)
        np.testing.assert_allclose(result, wanted(*map(np.float64, arrays)), rtol=1e-5, atol=1e-6)


def test_batches_of_matrices_are_transposed_as_tvm_does():
    X, Y = te.placeholder((2, 3, 4), name="X"), te.placeholder((2, 5, 4), name="Y")
    x, y, result = run(X, Y, topi.nn.batch_matmul(X, Y))
    np.testing.assert_allclose(result, x @ y.transpose(0, 2, 1), rtol=1e-5, atol=1e-6)
    Z = te.placeholder((2, 4, 5), name="Z")
    x, z, result = run(X, Z, topi.nn.batch_matmul(X, Z, transpose_b=False))
    np.testing.assert_allclose(result, x @ z, rtol=1e-5, atol=1e-6)
    z, x, result = run(Z, X, topi.nn.batch_matmul(Z, X, transpose_a=True, transpose_b=True))
    np.testing.assert_allclose(
        result, z.transpose(0, 2, 1) @ x.transpose(0, 2, 1), rtol=1e-5, atol=1e-6
    )


def test_flatten_and_full_have_the_order_of_topi():
    X = te.placeholder((2, 3, 4), name="X")
    assert topi.nn.flatten(X).shape == (2, 12) and topi.flatten(X).shape == (24,)
    (full,) = run(topi.full((2, 3), "int32", 7))
    assert full.dtype == "int32" and (full == 7).all()
    (full,) = run(topi.full((2,), dtype="float32", fill_value=0.5))
    assert full.tolist() == [0.5, 0.5]


def test_numbers_take_the_dtype_of_the_tensor_beside_them():
    I8 = te.placeholder((7,), "int8", name="I8")
    half = te.placeholder((7,), "float16", name="half")
    a, most = run(A, topi.maximum(A, 0.5))
    np.testing.assert_array_equal(most, np.maximum(a, np.float32(0.5)))
    i, more = run(I8, topi.add(3, I8))
    assert more.dtype == np.int8 and (more == i + 3).all()
    h, scaled = run(half, topi.multiply(half, 0.3))
    np.testing.assert_array_equal(scaled, h * np.float16(0.3))


def test_options_by_place_and_by_name():
    _, soft = run(A, topi.nn.softmax(A, 0), exact=False)
    np.testing.assert_allclose(soft.sum(0), 1, rtol=1e-5)
    a, total = run(A, topi.sum(A, axis=1, keepdims=True))
    np.testing.assert_allclose(total, a.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    a, turned = run(A, topi.transpose(A))
    np.testing.assert_array_equal(turned, a.T)


@pytest.mark.parametrize("name", ["nn.relu", "exp", "transpose"])
def test_emit_te_and_call_te(name):
    function = getattr(topi.nn, name[3:]) if name.startswith("nn.") else getattr(topi, name)
    x = Var("x", TensorType((3, 4), "float32"))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit_te(function, x)
        bb.emit_func_output(bb.emit(bb.call_te(topi.add, y, y)))
    mod = mlc.verify(bb.get())
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    array = np.linspace(-2, 3, 12, dtype="float32").reshape(3, 4)
    first, second = mlc.interpret(mod, "main", array), mlc.build(mod)["main"](array)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    assert name == "exp" or first.tobytes() == second.tobytes()
    plain = {"nn.relu": lambda x: np.maximum(x, 0), "exp": np.exp, "transpose": np.transpose}
    np.testing.assert_allclose(first, 2 * plain[name](array), rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "options", "meaning"),
    [
        (lambda x: topi.nn.relu(topi.add(x, 1.0)), {}, lambda x: np.maximum(x + 1, 0)),
        (topi.maximum, {"y": 0.5}, lambda x: np.maximum(x, 0.5)),
        (topi.reshape, {"shape": (4, 3)}, lambda x: x.reshape(4, 3)),
        (topi.sum, {"axis": 1, "primfunc_name_hint": "rows"}, lambda x: x.sum(1)),
        (topi.split, {"indices_or_sections": 2, "axis": 1}, lambda x: x[:, :2]),
        (topi.cast, {"dtype": "int32"}, lambda x: x.astype("int32")),
    ],
)
def test_emit_te_with_options(function, options, meaning):
    x = Var("x", TensorType((3, 4), "float32"))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit_te(function, x, **options)
        bb.emit_func_output(bb.emit(y[0]) if isinstance(y.type, TupleType) else y)
    mod = mlc.verify(bb.get())
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    array = np.arange(12, dtype="float32").reshape(3, 4) - 5
    first, second = mlc.interpret(mod, "main", array), mlc.build(mod)["main"](array)
    assert first.tobytes() == second.tobytes()
    np.testing.assert_array_equal(first, meaning(array))


def test_names_are_those_of_the_operators():
    assert {*OPS, "nn"} <= set(dir(topi)) and set(OPS) <= set(dir(topi.nn))
    assert topi.nn.relu.__name__ == "relu" and "NaN" in topi.relu.__doc__
    with pytest.raises(AttributeError, match=r'topi has no "matmull"; did you mean "matmul'):
        topi.matmull
    with pytest.raises(AttributeError, match=r'topi.nn has no "rel"; did you mean "relu"'):
        topi.nn.rel


def test_refusals_are_those_of_the_operators():
    x = Var("x", TensorType((3, 4), "float32"))
    refuses("E203", lambda: topi.matmul(A, A), "matmul")
    refuses("E201", lambda: topi.add(A), 'misses "y"')
    refuses("E201", lambda: topi.nn.relu(3.0), "te.placeholder")
    refuses("E201", lambda: topi.add(A, np.zeros((3, 4), "float32")), "array")
    refuses("E201", lambda: topi.add(x, x), "bb.emit_te(topi.add, ...)")
    refuses("E202", lambda: topi.add(A, te.placeholder((4,), "int8")), "int8")
    refuses("E204", lambda: topi.sum(A, 2), "axis=2")


# What topi calls in another way


def conv2d(x, w, **options):
    """The graph operator's meaning."""
    args = [Var(name, TensorType(a.shape, a.dtype.name)) for name, a in (("x", x), ("w", w))]
    return evaluate(mlc.op.conv2d(*args, **options), [x, w])


IMAGE, KERNEL = te.placeholder((2, 3, 6, 5), name="IMAGE"), te.placeholder((4, 3, 3, 2), name="K")


@pytest.mark.parametrize("options", [(1, 0, 1), (2, 1, 1), ((1, 2), (0, 1, 2, 1), (2, 1))])
def test_convolutions_in_layouts(options):
    strides, padding, dilation = options
    named = {"strides": strides, "padding": padding, "dilation": dilation}
    x, w, y = run(IMAGE, KERNEL, topi.nn.conv2d(IMAGE, KERNEL, *options))
    np.testing.assert_array_equal(y, conv2d(x, w, **named))
    x, w, y = run(IMAGE, KERNEL, topi.nn.conv2d_nchw(IMAGE, KERNEL, *options))
    np.testing.assert_array_equal(y, conv2d(x, w, **named))
    nhwc, hwio = te.placeholder((2, 6, 5, 3), name="X"), te.placeholder((3, 2, 3, 4), name="W")
    for result in (
        topi.nn.conv2d_nhwc(nhwc, hwio, *options),
        topi.nn.conv2d(nhwc, hwio, *options, "NHWC"),
        topi.nn.conv2d(nhwc, hwio, **named, data_layout="NHWC", kernel_layout="HWIO"),
    ):
        x, w, y = run(nhwc, hwio, result)
        wanted = conv2d(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), **named)
        np.testing.assert_array_equal(y, wanted.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("several", [1, 2])
def test_each_channel_with_its_own_kernels(several):
    W = te.placeholder((3, several, 3, 3), name="W")
    x, w, y = run(IMAGE, W, topi.nn.depthwise_conv2d_nchw(IMAGE, W, 1, 1, 1))
    parts = [
        conv2d(x[:, c : c + 1], w[c : c + 1].reshape(several, 1, 3, 3), padding=1) for c in range(3)
    ]
    np.testing.assert_array_equal(y, np.concatenate(parts, axis=1))


def test_bytes_are_summed_in_integers():
    I8, W8 = te.placeholder((3, 64), "int8", name="I8"), te.placeholder((5, 64), "int8", name="W8")
    x, w, y = run(I8, W8, topi.nn.dense(I8, W8, None, "int32"))
    np.testing.assert_array_equal(y, x.astype("int32") @ w.T.astype("int32"))
    T8 = te.placeholder((64, 5), "int8", name="T8")
    x, w, y = run(I8, T8, topi.nn.matmul(I8, T8, out_dtype="int32"))
    np.testing.assert_array_equal(y, x.astype("int32") @ w.astype("int32"))
    K8 = te.placeholder((4, 3, 3, 2), "uint8", name="K8")
    X8 = te.placeholder((2, 3, 6, 5), "uint8", name="X8")
    x, w, y = run(X8, K8, topi.nn.conv2d(X8, K8, out_dtype="int32"))
    np.testing.assert_array_equal(y, conv2d(x.astype("int32"), w.astype("int32")))
    assert y.dtype == np.int32


def test_products_with_a_bias():
    W, b = te.placeholder((5, 4), name="W"), te.placeholder((5,), name="b")
    a, w, bias, y = run(A, W, b, topi.nn.dense(A, W, b))
    np.testing.assert_array_equal(y, a @ w.T + bias)
    a, w, bias, y = run(A, W, b, topi.nn.matmul(A, W, b, transpose_b=True))
    np.testing.assert_array_equal(y, a @ w.T + bias)
    a, w, y = run(A, W, topi.nn.dense(A, W))
    np.testing.assert_array_equal(y, a @ w.T)


def test_windows_and_whole_images():
    x, y = run(IMAGE, topi.nn.pool2d(IMAGE, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max"))
    np.testing.assert_array_equal(y, x[:, :, :, :4].reshape(2, 3, 3, 2, 2, 2).max((3, 5)))
    x, y = run(IMAGE, topi.nn.pool2d(IMAGE, 2, 1, pool_type="avg"))
    corners = x[:, :, :-1, :-1] + x[:, :, 1:, :-1] + x[:, :, :-1, 1:] + x[:, :, 1:, 1:]
    np.testing.assert_array_equal(y, corners / 4)
    x, y = run(IMAGE, topi.nn.global_pool(IMAGE, "max"))
    np.testing.assert_array_equal(y, x.max((2, 3), keepdims=True))
    x, y = run(IMAGE, topi.nn.global_pool(IMAGE), exact=False)
    np.testing.assert_allclose(y, x.mean((2, 3), keepdims=True), rtol=1e-6)


def test_padding_before_and_after():
    a, y = run(A, topi.nn.pad(A, (1, 0), (0, 2), pad_value=7.0))
    np.testing.assert_array_equal(y, np.pad(a, ((1, 0), (0, 2)), constant_values=7))
    a, y = run(A, topi.nn.pad(A, (1, 2)))
    np.testing.assert_array_equal(y, np.pad(a, ((1, 1), (2, 2))))
    a, y = run(A, topi.nn.pad(A, pad_before=[0, 0]))
    np.testing.assert_array_equal(y, a)


def test_indices_along_all_axes():
    a, p = run(A, topi.argmax(A))
    assert p == a.argmax() and p.shape == ()
    a, p = run(A, topi.argmin(A, keepdims=True))
    np.testing.assert_array_equal(p, [[a.argmin()]])
    a, p = run(A, topi.argmax(A, axis=1))
    np.testing.assert_array_equal(p, a.argmax(1))
    places = te.placeholder((4,), "int32", name="places")
    a, i, y = run(A, places, topi.take(A, places))
    np.testing.assert_array_equal(y, a.ravel()[np.clip(i, 0, 11)])
    a, i, y = run(A, places, topi.take(A, places, axis=1))
    np.testing.assert_array_equal(y, a[:, np.clip(i, 0, 3)])


def test_ranges_are_floats_unless_they_say_otherwise():
    (y,) = run(topi.arange(5))
    assert y.dtype == np.float32 and y.tolist() == [0, 1, 2, 3, 4]
    (y,) = run(topi.arange(2, 8, 3, "int32"))
    assert y.dtype == np.int32 and y.tolist() == [2, 5]
    (y,) = run(topi.arange(0, 1, 0.25))
    assert y.tolist() == [0, 0.25, 0.5, 0.75]


def test_what_these_refuse():
    refuses("E204", lambda: topi.nn.pool2d(IMAGE, 2, 2, pool_type="sum"), '"max" or "avg"')
    refuses("E204", lambda: topi.nn.conv2d(IMAGE, KERNEL, data_layout="NCWX"), "data_layout")
    refuses("E204", lambda: topi.nn.dense(A, te.placeholder((5, 4)), None, "float16"), "hold")
    refuses("E203", lambda: topi.nn.depthwise_conv2d_nchw(IMAGE, A), "w has 2 dimension(s)")
    refuses("E204", lambda: topi.nn.pad(A, (1, 0), (1,)), "pad_before")
