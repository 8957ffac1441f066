"""Every operator: numpy's meaning equals the interpreted lowering, in every dtype it takes."""

import inspect

import numpy as np
import pytest

import minimlc as mlc
from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import TensorType, Var, constant, tensor_types
from minimlc.graphs.ops import OPS, call_op, evaluate
from minimlc.graphs.ops.elementwise import tanh
from minimlc.graphs.ops.record import TABLE, composite
from minimlc.graphs.ops.values import Values
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.proofs.verify import verify
from minimlc.script import R
from tests.graph.op_cases import Case, cases
from tests.helpers import refuses

X = Var("x", TensorType((3, 4), "float32"))
V = Var("v", TensorType((3,), "float32"))
I = Var("i", TensorType((3, 4), "int32"))
LISHT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            gv = R.lisht(x)
            R.output(gv)
        return gv
"""


@pytest.mark.many
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_lowering_means_what_numpy_says(case: Case):
    mod, name = case.module()
    results = case.outputs()
    interpret(verify(mod), name, *case.arrays, *results)
    case.check(results)


@pytest.mark.parametrize("name", OPS)
def test_the_type_is_that_of_the_loops(name: str):
    for case in (case for case in cases() if case.op == name):
        mod, callee = case.module()
        outputs = mod[callee].params[len(case.variables) :]
        stored = [TensorType(buffer.shape, buffer.dtype) for buffer in outputs]
        assert list(tensor_types(case.call.type)) == stored


@pytest.fixture
def lisht():
    yield composite("lisht", lambda x: x * tanh(x), "x * tanh(x).")
    del TABLE["lisht"]


def test_an_operator_is_added_by_its_formula(lisht):
    mod = mlc.parse(LISHT)
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    expected = interpret(mod, "main", x)
    np.testing.assert_allclose(expected, x * np.tanh(x), rtol=2e-6, atol=2e-6)
    for target in ("llvm", "python"):
        built = mlc.build(mod, target=target)["main"](x)
        np.testing.assert_allclose(built, expected, rtol=2e-6, atol=2e-6)
    assert mlc.structural_equal(mod, mlc.parse(mod.script()))
    assert R.lisht(X).type == op.lisht(X).type == X.type
    assert op.lisht.__doc__.startswith(lisht.doc) and "lisht" in dir(op)
    refuses("E202", lambda: R.lisht(I), "lisht: x cannot be int32")


def test_a_formula_of_16_bit_floats_is_rounded_once(lisht):
    x = np.linspace(-3, 3, 12).astype(np.float16)
    wide = x.astype(np.float32)
    once = lisht.meaning(wide).astype(np.float16)
    bb = BlockBuilder()
    callee = bb.call_te(lambda a: lisht.lower(a), constant(x), primfunc_name_hint="lisht").callee
    result = np.zeros_like(x)
    interpret(bb.get(), callee, x, result)
    assert result.tobytes() == once.tobytes()
    assert evaluate(op.lisht(constant(x)), [x]).tobytes() == once.tobytes()
    assert bb.get().script().count('"float16")') == 3  # two parameters, one rounding


def test_values_compare_by_element_and_have_no_truth():
    x = Values.of(X.type)
    assert (x == x).dtype == (x != 1.0).dtype == "bool"
    refuses("E112", lambda: 1.0 if x > 0.0 else x, "where(condition, x, y)")


def test_every_operator_has_samples():
    assert {case.op for case in cases()} == set(OPS)


def test_sixteen_bit_sums_are_rounded_once():
    ones = np.ones(4096, np.float16)
    total = evaluate(op.sum(constant(ones)), [ones])
    assert total == np.float16(4096)


def test_signatures_and_documentation_come_from_the_record():
    assert str(inspect.signature(op.sum)).startswith("(x, axis=None, keepdims=False)")
    assert "floats and integers" in op.sum.__doc__
    assert op.multiply_add(X, X, X).op == "ewise_fma"
    assert set(OPS) < set(dir(op))
    assert "Callable" not in dir(op)
    with pytest.raises(AttributeError, match='did you mean "softmax"'):
        op.sofmax


def test_numbers_take_the_dtype_beside_them():
    call = op.multiply(2, X)
    assert call.args[0].type == TensorType((), "float32")
    refuses("E202", lambda: op.add(I, 1.5), "y=1.5 is not a value of int32")
    refuses("E202", lambda: op.add(op.cast(I, "int8"), 300), "y=300 is not a value of int8")


def test_attributes_become_plain_data():
    call = op.reshape(X, [np.int64(4), 3])
    assert call.attrs == (("shape", (4, 3)),)
    assert op.cast(X, np.float16).attr("dtype") == "float16"


@pytest.mark.parametrize(
    ("code", "call", "words"),
    [
        ("E201", lambda: op.sum(X, axes=1), ('no argument "axes"', 'did you mean "axis"')),
        ("E201", lambda: op.add(X), ('add: misses "y"', "add(x, y)")),
        ("E201", lambda: op.relu(X, X), ("relu: takes 1 argument(s), got 2",)),
        ("E201", lambda: op.relu("x"), ("x must be a tensor, got str",)),
        ("E201", lambda: call_op("mutmul", X, X), ("matmul",)),
        ("E201", lambda: op.concat([]), ("at least one tensor",)),
        ("E202", lambda: op.add(X, I), ("x is float32, y is int32", 'op.cast(y, "float32")')),
        ("E202", lambda: op.mean(I), ("x cannot be int32", "float32")),
        ("E202", lambda: op.where(X, X, X), ("condition cannot be float32",)),
        ("E203", lambda: op.matmul(X, X), ("4", "3", "(3, 4)")),
        ("E203", lambda: op.add(X, V), ("axis -1 has sizes 4 and 3", "(3, 4)", "(3,)")),
        ("E203", lambda: op.reshape(X, (5, -1)), ("12 elements", "(5, -1)")),
        ("E203", lambda: op.conv2d(X, X), ("(batch, channels, height, width)",)),
        ("E204", lambda: op.softmax(X, axis=2), ("axis=2", "2 dimension(s)", "-2 ... 1")),
        ("E204", lambda: op.sum(X, keepdims=1), ("keepdims is True or False",)),
        ("E204", lambda: op.leaky_relu(X, alpha="a"), ("alpha is a number, got 'a'",)),
        ("E204", lambda: op.cast(X, "float23"), ("float23", "float32")),
        ("E204", lambda: op.clip(X, float("nan"), 1), ("min=nan",)),
        ("E204", lambda: op.permute_dims(X, (0, 0)), ("each of 2 axes once",)),
        ("E204", lambda: op.full((2,), 1.5, "int32"), ("value=1.5 is not a value of int32",)),
    ],
)
def test_refusals_say_what_where_and_what_next(code, call, words):
    refuses(code, call, *words)
