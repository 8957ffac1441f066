import numpy as np
import pytest

from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import Call, Constant, TensorType, Tuple, TupleGetItem, Var, constant
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import binary
from minimlc.loops.proofs.verify import verify
from minimlc.loops.te import te
from tests.helpers import refuses

X = Var("x", TensorType((3, 4), "float32"))
W = Var("w", TensorType((4, 5), "float32"))


def te_matmul(A, B):
    k = te.reduce_axis((0, A.shape[1]), "k")
    return te.compute((A.shape[0], B.shape[1]), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k))


def te_relu(A):
    return te.compute(A.shape, lambda *i: binary("max", A[i], 0.0), name="relu")


def te_divmod(A, by):
    low = te.compute(A.shape, lambda *i: A[i] - by, name="low")
    return low, te.compute(A.shape, lambda *i: low[i] + 2.0 * by, name="high")


def test_parameters_given_first_or_last():
    first, last = BlockBuilder(), BlockBuilder()
    with first.function("main", [X, W]):
        with first.dataflow():
            out = first.emit_output(op.relu(op.matmul(X, W)))
        first.emit_func_output(out)
    with last.function("main"):
        with last.dataflow():
            out = last.emit_output(op.relu(op.matmul(X, W)))
        last.emit_func_output(out, params=[X, W])
    assert first.get().script() == last.get().script()
    x, w = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    np.testing.assert_array_equal(interpret(verify(first.get()), "main", x, w), x @ w)


def test_nested_calls_are_bound_once_each():
    total = X
    for _ in range(2000):
        total = op.add(total, total)
    bb = BlockBuilder()
    with bb.function("main", [X]):
        bb.emit_func_output((total, TupleGetItem(Tuple((total, X)), 1)))
    mod = verify(bb.get())
    names = [binding.var.name for binding in mod["main"].bindings()]
    assert len(names) == 2001
    assert names[:3] == ["lv", "lv1", "lv2"]


def test_emit_te_makes_equal_functions_once():
    bb = BlockBuilder()
    with bb.function("main", [X, W]):
        with bb.dataflow():
            lv = bb.emit_te(te_matmul, X, W)
            lv1 = bb.emit_te(te_relu, lv)
            gv = bb.emit_output(bb.call_te(te_relu, lv1))
        bb.emit_func_output(gv)
    mod = verify(bb.get())
    assert sorted(mod.functions) == ["main", "te_matmul", "te_relu"]
    assert [binding.value.callee for binding in mod["main"].bindings()][1:] == ["te_relu"] * 2


def test_emit_te_with_several_results_numbers_and_constants():
    bb = BlockBuilder()
    with bb.function("main", [X]):
        both = bb.emit_te(te_divmod, X, 3.0, primfunc_name_hint="low_high")
        low = bb.emit(TupleGetItem(both, 0))
        total = bb.emit_te(lambda parts: te_sum(*parts), [low, np.ones((3, 4), np.float32)])
        bb.emit_func_output((total, both))
    mod = verify(bb.get())
    x = np.zeros((3, 4), np.float32)
    total, (low, high) = interpret(mod, "main", x)
    assert (total[0, 0], low[0, 0], high[0, 0]) == (-2, -3, 3)
    assert "low_high" in mod


def te_sum(A, B):
    return te.compute(A.shape, lambda *i: A[i] + B[i], name="total")


def test_a_te_function_may_return_its_input():
    bb = BlockBuilder()
    with bb.function("main", [X]):
        bb.emit_func_output(bb.emit_te(lambda A: (A, A), X))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for result in interpret(verify(bb.get()), "main", x):
        np.testing.assert_array_equal(result, x)


def test_a_function_of_the_module_can_be_called():
    bb = BlockBuilder()
    with bb.function("double", [X]):
        bb.emit_func_output(bb.emit(op.add(X, X)))
    with bb.function("main", [X]):
        bb.emit_func_output(bb.emit(Call("call", (X,), (("callee", "double"),), X.type)))
    x = np.ones((3, 4), np.float32)
    assert interpret(verify(bb.get()), "main", x)[0, 0] == 2


def test_constants_are_copied_and_read_only():
    data = np.ones(3, np.float32)
    value = constant(data)
    data[:] = 2
    assert isinstance(value, Constant)
    assert value.data[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        value.data[:] = 2


def building(*steps):
    """Run the steps, each a function of the builder, inside a function of X."""

    def run():
        bb = BlockBuilder()
        with bb.function("main", [X]):
            for step in steps:
                step(bb)

    return run


def _hidden(bb):
    with bb.dataflow():
        lv = bb.emit(op.relu(X))
    bb.emit_func_output(lv)


def _result_inside(bb):
    with bb.dataflow():
        bb.emit_func_output(bb.emit(op.relu(X)))


def _twice(bb):
    bb.emit_func_output(X)
    bb.emit_func_output(X)


def _of_another_function(bb):
    with bb.function("other", [W]):
        bb.emit_func_output(op.add(X, X))


@pytest.mark.parametrize(
    ("code", "run", "words"),
    [
        ("E216", lambda: BlockBuilder().emit(op.relu(X)), ("inside a function",)),
        ("E215", building(), ("without a result", "emit_func_output")),
        ("E215", building(_twice), ('after the result of "main"',)),
        ("E216", building(_result_inside), ("after the dataflow block",)),
        ("E216", building(lambda bb: bb.emit_output(X)), ("inside a dataflow block",)),
        ("E214", building(_hidden), ('"lv"', "bb.emit_output(lv)")),
        ("E212", building(lambda bb: bb.emit(op.relu(W))), ('"w" is neither', "parameters: x")),
        ("E212", building(_of_another_function), ('"x" is neither a parameter of "other"',)),
        ("E213", building(lambda bb: bb.emit(3)), ("expected a graph expression, got int",)),
        ("E213", building(lambda bb: bb.emit_te(lambda A: 3, X)), ("must return tensor",)),
        ("E211", building(lambda bb: bb.emit_func_output(X, [X])), ("given twice",)),
    ],
)
def test_misuse_is_explained(code, run, words):
    refuses(code, run, *words)


def test_forgotten_parameters_are_named():
    def run():
        bb = BlockBuilder()
        with bb.function("main"):
            lv = bb.emit(op.matmul(X, W))
            bb.emit_func_output(lv, params=[X])

    refuses("E212", run, '"w"', "params=[...]")


def test_an_unfinished_function_is_not_in_the_module():
    bb = BlockBuilder()
    with pytest.raises(ZeroDivisionError), bb.function("main", [X]):
        1 / 0
    assert not bb.get().functions
    with bb.function("main", [X]):
        refuses("E215", bb.get, "not finished")
        bb.emit_func_output(X)
    assert "main" in bb.get()
