"""Spellings of graphs that the field uses: at least three programs of each, run by the interpreter
and by LLVM.
"""

import types

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.script import I, R
from tests.graph.graph_runs import main, run_graph
from tests.helpers import refuses

X = 'x: R.Tensor((3, 4), "float32")'
Y = 'y: R.Tensor((3, 4), "float32")'
relax = types.ModuleType("relax")
relax.op = R


# Other names of the operators' namespace


@I.ir_module
class Relax:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            lv0 = relax.op.multiply(x, y)
            lv1 = relax.op.nn.relu(lv0)
            gv0 = relax.op.add(lv1, y)
            R.output(gv0)
        return gv0


@I.ir_module
class Ours:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            lv0 = mlc.op.multiply(x, y)
            lv1 = mlc.op.nn.relu(lv0)
            gv0 = op.add(lv1, y)
            R.output(gv0)
        return gv0


@R.function(private=True)
def alone(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
    lv0 = op.multiply(x, y)
    lv1 = op.nn.relu(lv0)
    return relax.op.add(lv1, y)


def test_operators_under_other_names():
    x, y, result = run_graph(Relax)
    np.testing.assert_array_equal(result, np.maximum(x * y, 0) + y)
    assert mlc.structural_equal(Ours, Relax)
    x, y, result = run_graph(mlc.IRModule.from_expr(alone))
    np.testing.assert_array_equal(result, np.maximum(x * y, 0) + y)
    text = main(f"{X}, {Y}", "relax.op.nn.relu(relax.op.multiply(x, y))")
    assert mlc.structural_equal(
        mlc.parse(text), mlc.parse(main(f"{X}, {Y}", "R.nn.relu(R.multiply(x, y))"))
    )


def test_an_unknown_operator_under_another_name():
    def wrong():
        @R.function
        def f(x: R.Tensor((3, 4), "float32")):
            return mlc.op.reluu(x)

    refuses("E120", wrong, '"relu"')
    refuses("E120", lambda: mlc.parse(main(X, "relax.op.nn.sofmax(x)")), '"softmax"')
    assert op.nn.relu is op.relu and "nn" in dir(op)
    with pytest.raises(AttributeError, match="did you mean"):
        op.nn.reluu


# mlc.Var(name, shape, type)


class DynTensorType:
    def __init__(self, ndim, dtype):
        self.ndim, self.dtype = ndim, dtype


@pytest.mark.parametrize(
    "kind", ["int8", np.float32, R.Tensor((3, 4), "float16"), DynTensorType(2, "float64")]
)
def test_a_variable_of_a_shape_and_a_type(kind):
    x = mlc.Var("x", (3, 4), kind)
    dtype = {"int8": "int8", np.float32: "float32"}.get(kind) or kind.dtype
    assert x.type == R.Tensor((3, 4), dtype)
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.add(x, x)))
    x, y = run_graph(bb.get())
    np.testing.assert_array_equal(y, x + x)


def test_a_variable_whose_shape_and_type_differ():
    refuses("E205", lambda: mlc.Var("x", (3, 4), DynTensorType(3, "int8")), '"x"', "(3, 4)")
    refuses("E205", lambda: mlc.Var("x", (3,), R.Tensor((3, 4), "int8")), "its type (3, 4)")
    refuses("E108", lambda: mlc.Var("x", (3,), "flot32"), '"float32"')
    refuses("E205", lambda: mlc.Var("x", (3, 4)), "mlc.Var")
    assert mlc.Var("x", (), DynTensorType(-1, "bool")).type == R.Tensor((), "bool")


# Constants


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('R.const([[1], [2], [3]], "float32")', [[1], [2], [3]]),
        ('R.const(0.5, R.Tensor((), "float32"))', 0.5),
        ('R.const([1, 2, 3, 4], dtype="float32")', [1, 2, 3, 4]),
        ("R.const(2.5)", 2.5),
    ],
)
def test_constants(text, value):
    text = text.replace(", dtype=", ", ")
    x, y = run_graph(main(X, f"R.add(x, {text})"))
    np.testing.assert_array_equal(y, x + np.float32(value))


def test_constants_of_a_type_in_plain_python():
    array = np.arange(6, dtype="float64").reshape(2, 3)
    for kind in (R.Tensor((2, 3), "float32"), DynTensorType(2, "float32"), "float32"):
        value = R.const(array, kind)
        assert value.type == R.Tensor((2, 3), "float32")
        np.testing.assert_array_equal(value.data, array)
    refuses("E205", lambda: R.const(array, DynTensorType(1, "float32")), "(2, 3)")
    refuses("E205", lambda: mlc.constant(array, R.Tensor((3, 2), "float32")), "(2, 3)")
    refuses("E205", lambda: mlc.parse(main(X, 'R.const([1], R.Tensor((2,), "int8"))')), "(1,)")


# astype


@pytest.mark.parametrize("dtype", ["float16", "int32", "int8", "float64", "bool"])
@pytest.mark.parametrize(
    "form",
    ['R.astype(x, "{}")', 'R.astype(x, dtype="{}")', 'x.astype("{}")', 'x.astype(dtype="{}")'],
)
def test_conversions(form, dtype):
    x, y = run_graph(main(X, form.format(dtype)))
    np.testing.assert_array_equal(y, x.astype(dtype))
    x = mlc.Var("x", (3, 4), "float32")
    assert mlc.parse(main(X, form.format(dtype)))["main"].result.type == x.astype(dtype).type


def test_conversions_that_are_not():
    refuses("E204", lambda: mlc.parse(main(X, 'x.astype("flot32")')), '"float32"')
    refuses("E201", lambda: mlc.parse(main(X, "x.astype()")), "dtype")
    refuses("E122", lambda: mlc.parse(main(X, 'z.astype("int8")')), '"z"')
    refuses("E204", lambda: mlc.Var("x", (3,), "int8").astype("in8"), '"int8"')


# R.shape and what else TVM wraps plain values in


@pytest.mark.parametrize(
    "call",
    [
        "R.reshape(x, R.shape([2, 6]))",
        "R.reshape(x, shape=R.shape((R.prim_value(2), 6)))",
        'R.add(R.reshape(x, (2, 6)), R.zeros(R.shape([2, 6]), R.dtype("float32")))',
        "R.reshape(R.broadcast_to(x, R.shape([1, 3, 4])), R.shape([2, 6]))",
    ],
)
def test_shapes_and_wrapped_values(call):
    x, y = run_graph(main(X, call))
    np.testing.assert_array_equal(y, x.reshape(2, 6))


def test_wrapped_values_in_plain_python():
    assert R.shape([1, 2]) == (1, 2) and R.prim_value(3) == 3 and R.dtype("int8") == "int8"
    x = mlc.Var("x", (3, 4), "float32")
    assert op.reshape(x, R.shape([4, 3])).shape == (4, 3)
    refuses("E123", lambda: mlc.parse(main(X, "R.reshape(x, R.shape(x))")), "constant")
    refuses("E122", lambda: mlc.parse(main(X, "R.reshape(x, R.shape([n, 4]))")), '"n"')
