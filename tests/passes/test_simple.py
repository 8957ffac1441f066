"""bind_params, remove_unused, fold_constants, eliminate_common_subexpr."""

from functools import partial

import numpy as np
import pytest

from minimlc import passes
from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import (
    Call,
    Constant,
    TensorType,
    TupleGetItem,
    Var,
    call_dps_packed,
    call_function,
)
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.proofs.verify import verify
from minimlc.loops.te import te
from minimlc.loops.values.module import pass_name, run_passes
from tests.helpers import assert_same, refuses

TYPE = TensorType((3, 4), "float32")
X, Y = Var("x", TYPE), Var("y", TYPE)
ONES = np.ones((3, 4), np.float32)


def build(body, params=(X, Y), dataflow=True):
    """A module whose main returns `body(bb)`, in a dataflow block or outside."""
    bb = BlockBuilder()
    with bb.function("main", params):
        if dataflow:
            with bb.dataflow():
                out = bb.emit_output(body(bb))
        else:
            out = bb.emit(body(bb))
        bb.emit_func_output(out)
    return bb.get()


def operators(mod, func="main"):
    return [getattr(b.value, "op", type(b.value).__name__) for b in mod[func].bindings()]


def settled(transform, mod):
    """The result, well-formed, on which the pass has nothing left to do."""
    after = verify(transform(mod))
    assert transform(after) is after
    return after


# bind_params


def test_bind_params_makes_constants():
    before = build(lambda bb: op.subtract(bb.emit(op.exp(Y)), X))
    after = verify(passes.bind_params(before, {"y": ONES}))
    assert [p.name for p in after["main"].params] == ["x"]
    np.testing.assert_array_equal(
        interpret(after, "main", 2 * ONES), interpret(before, "main", 2 * ONES, ONES)
    )
    assert passes.bind_params(before, {}) is before


def test_bind_params_is_a_pass_in_a_pipeline():
    bind = partial(passes.bind_params, params={"y": ONES})
    assert pass_name(bind) == "bind_params"
    after = run_passes(build(lambda bb: op.add(X, Y)), [bind])
    assert len(after["main"].params) == 1


def test_bind_params_refuses_what_does_not_fit():
    mod = build(lambda bb: op.add(X, Y))
    refuses("E230", lambda: passes.bind_params(mod, {"yy": ONES}), 'no parameter "yy"', '"y"')
    shape = refuses("E230", lambda: passes.bind_params(mod, {"y": ONES.T}), "(3, 4)", "(4, 3)")
    assert not shape.hint
    wrong = {"y": ONES.astype(int)}
    refuses("E230", lambda: passes.bind_params(mod, wrong), "float32", "int64", "astype")


# remove_unused


def test_dead_bindings_go():
    def body(bb):
        lv = bb.emit(op.exp(X))
        bb.emit(op.add(lv, Y))
        return op.relu(lv)

    before = build(body)
    after = settled(passes.remove_unused, before)
    assert operators(after) == ["exp", "relu"]
    assert_same(before, after, exact=True)


def test_functions_that_nothing_calls_go():
    bb = BlockBuilder()
    with bb.function("main", [X]):
        bb.emit_te(lambda A: te.compute(A.shape, lambda i, j: A[i, j] + 1.0, "B"), X)
        used = bb.emit_te(lambda A: te.compute(A.shape, lambda i, j: A[i, j] * 2.0, "B"), X)
        bb.emit_func_output(used)
    before = bb.get()
    after = settled(passes.remove_unused, before)
    assert len(before.functions) == 3
    assert len(after.functions) == 2
    kernels = after.without("main")
    assert passes.remove_unused(kernels) is kernels
    refuses("E105", lambda: passes.remove_unused(before, entries=["mian"]), "main")


@pytest.mark.parametrize("dataflow", [True, False])
def test_registered_functions_stay_outside_dataflow(dataflow):
    def body(bb):
        bb.emit(call_dps_packed("env.log", (X,), TYPE))
        return op.relu(X)

    after = settled(passes.remove_unused, build(body, dataflow=dataflow))
    assert operators(after) == (["relu"] if dataflow else ["call_dps_packed", "relu"])


def test_a_graph_function_has_the_effects_of_its_calls():
    bb = BlockBuilder()
    with bb.function("log", [X]):
        bb.emit_func_output(bb.emit(call_dps_packed("env.log", (X,), TYPE)))
    with bb.function("pure", [X]):
        bb.emit_func_output(bb.emit(op.relu(X)))
    with bb.function("main", [X]):
        for name in ("log", "log", "pure"):
            bb.emit(call_function(name, (X,), TYPE))
        bb.emit_func_output(X)
    mod = bb.get()
    assert operators(passes.remove_unused(mod)) == ["call", "call"]
    assert operators(passes.eliminate_common_subexpr(mod)) == ["call"] * 3


# fold_constants


def test_calls_on_constants_become_constants():
    def body(bb):
        w = bb.emit(op.permute_dims(np.arange(12, dtype=np.float32).reshape(4, 3)))
        return op.add(X, bb.emit(op.multiply(w, 2.0)))

    before = build(body)
    after = settled(passes.fold_constants, before)
    assert operators(after) == ["add"]
    assert_same(before, after, exact=True)


def test_fields_of_constant_tuples_become_constants():
    def body(bb):
        parts = bb.emit(op.split(np.ones((6, 4), np.float32), 2))
        return op.add(X, bb.emit(TupleGetItem(parts, 1)))

    after = passes.remove_unused(passes.fold_constants(build(body)))
    assert operators(verify(after)) == ["add"]


def test_large_results_are_not_made():
    before = build(lambda bb: op.max(bb.emit(op.zeros((2000, 2000)))), params=())
    assert passes.fold_constants(before) is before


def test_primitive_functions_are_folded_when_short_and_registered_ones_never():
    def double(A):
        return te.compute(A.shape, lambda *i: A[i] + A[i], "B")

    short = build(lambda bb: op.add(X, bb.emit_te(double, ONES)))
    after = settled(passes.fold_constants, short)
    assert operators(after) == ["add"]
    assert_same(short, after, exact=True, func="main")
    long = build(lambda bb: op.max(bb.emit_te(double, np.zeros((200, 200), np.float32))))
    assert passes.fold_constants(long) is long
    packed = build(lambda bb: call_dps_packed("env.random", (Constant(ONES),), TYPE))
    assert passes.fold_constants(packed) is packed


# eliminate_common_subexpr


def test_equal_calls_are_computed_once():
    def body(bb):
        a, b = bb.emit(op.exp(X)), bb.emit(op.exp(X))
        c, d = bb.emit(op.sum(a, axis=1)), bb.emit(op.sum(b, axis=1))
        return op.add(c, d)

    before = build(body)
    after = settled(passes.eliminate_common_subexpr, before)
    assert operators(after) == ["exp", "sum", "add"]
    assert_same(before, after, exact=True)


def test_attributes_types_and_bits_tell_calls_apart():
    def body(bb):
        parts = [op.full((), 0.0), op.full((), -0.0), op.full((), 1.0), op.full((), 1.0, "float64")]
        parts += [op.sum(X, axis=0), op.sum(X, axis=1), op.subtract(X, Y), op.subtract(Y, X)]
        for part in parts:
            bb.emit(part)
        return op.relu(X)

    mod = build(body)
    assert passes.eliminate_common_subexpr(mod) is mod


def test_aliases_disappear():
    after = settled(passes.eliminate_common_subexpr, build(lambda bb: op.relu(bb.emit(bb.emit(X)))))
    assert operators(after) == ["relu"]
    (binding,) = after["main"].bindings()
    assert binding.value.args == (X,)


def test_registered_functions_are_called_as_often_as_written():
    def body(bb):
        one = bb.emit(call_dps_packed("env.random", (X,), TYPE))
        return op.add(one, bb.emit(call_dps_packed("env.random", (X,), TYPE)))

    mod = build(body)
    assert passes.eliminate_common_subexpr(mod) is mod
    assert isinstance(next(iter(mod["main"].bindings())).value, Call)
