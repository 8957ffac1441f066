"""`topi`: each operator over tensor expressions is the operator of the graph."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import te, topi
from minimlc.graph.nodes import TensorType, Var
from minimlc.graph.ops import OPS
from minimlc.node import nodes_of
from minimlc.tir.nodes import Load
from tests.graph.op_cases import cases
from tests.helpers import refuses
from tests.te_runs import run

FIRST = [case for case in cases() if case.dtype in ("float32", "bool") and case.number < 2]
FIRST = [case for case in FIRST if case.op != "full"]  # whose arguments have another order


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.name)
def test_every_operator_is_there_with_the_loops_that_legalize_gives(case):
    inputs = iter([te.placeholder(v.shape, v.dtype, name=v.name) for v in case.variables])
    args = [
        [next(inputs) for _ in shape] if isinstance(shape, list) else next(inputs)
        for shape in case.shapes
    ]
    result = getattr(topi, case.op)(*args, **case._attributes())
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


def test_names_are_those_of_the_operators():
    assert set(OPS) <= set(dir(topi)) and set(OPS) <= set(dir(topi.nn))
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
