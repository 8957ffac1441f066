"""legalize, fuse_ops, fuse_tir: each alone, and what they must not do."""

from functools import partial

import numpy as np
import pytest

from minimlc import passes
from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import (
    Call,
    Function,
    TensorType,
    Tuple,
    TupleGetItem,
    Var,
    call_dps_packed,
    call_function,
)
from minimlc.graphs.mutator import is_primitive
from minimlc.graphs.passes.kinds import Kind, kind_of
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.ir.walks import blocks_in
from minimlc.loops.proofs.verify import verify
from minimlc.loops.te import te
from minimlc.loops.values.module import IRModule, run_passes
from tests.graph.op_cases import Case, samples
from tests.helpers import assert_same, refuses

X = Var("x", TensorType((4, 6), "float32"))
W = Var("w", TensorType((6, 5), "float32"))
B = Var("b", TensorType((5,), "float32"))


def build(body, params=(X, W, B)):
    bb = BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = body(bb)
            outs = out if isinstance(out, tuple) else (out,)
            outs = tuple(bb.emit_output(o) for o in outs)
        bb.emit_func_output(outs if isinstance(out, tuple) else outs[0])
    return bb.get()


def callees(mod):
    values = [binding.value for binding in mod["main"].bindings()]
    return [v.callee for v in values if isinstance(v, Call)]


def fused(mod):
    """The module after every step, each checked against the one before."""
    for step in (passes.legalize, passes.fuse_ops, passes.fuse_tir, passes.remove_unused):
        after = verify(step(mod))
        assert step(after) is after
        assert_same(mod, after, func="main")
        mod = after
    return mod


# legalize


def test_operators_become_calls_of_primitive_functions():
    before = build(lambda bb: op.add(op.matmul(X, W), B))
    after = verify(passes.legalize(before))
    assert callees(after) == ["matmul", "add"]
    assert_same(before, after, func="main")
    assert passes.legalize(after) is after


def test_equal_operators_share_a_function():
    mod = passes.legalize(build(lambda bb: op.relu(op.relu(op.relu(op.matmul(X, W))))))
    assert callees(mod) == ["matmul", "relu", "relu", "relu"]


def test_overrides_replace_lowerings():
    def halves(A):
        return te.compute(A.shape, lambda i, j: A[i, j] / 2.0, "halves")

    before = build(lambda bb: op.exp(op.relu(X)))
    given = {"relu": lambda bb, call: bb.call_te(halves, *call.args), "exp": lambda bb, call: call}
    after = verify(partial(passes.legalize, overrides=given)(before))
    assert [b.value.op for b in after["main"].bindings()] == ["call_tir", "exp"]
    assert "halves" in after
    refuses("E201", lambda: passes.legalize(before, {"rleu": halves}), '"rleu"', "relu")
    wrong = {"relu": lambda bb, call: op.sum(call.args[0])}
    refuses("E231", lambda: passes.legalize(before, wrong), "(4, 6)", "()")


def test_operators_on_tuples():
    def body(bb):
        parts = bb.emit(op.split(X, 2))
        return op.concat([TupleGetItem(parts, 1), TupleGetItem(parts, 0)])

    before = build(body)
    after = verify(passes.legalize(before))
    assert callees(after) == ["split", "concat"]
    assert_same(before, after, func="main", exact=True)
    whole = build(lambda bb: Call("concat", (bb.emit(op.split(X, 2)),), (("axis", 1),), Y_TYPE))
    assert_same(whole, verify(passes.legalize(whole)), func="main", exact=True)


Y_TYPE = TensorType((2, 12), "float32")


# kinds


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("relu", Kind.ELEMENTWISE),
        ("add", Kind.BROADCAST),
        ("zeros", Kind.BROADCAST),
        ("permute_dims", Kind.INJECTIVE),
        ("take", Kind.INJECTIVE),
        ("sum", Kind.REDUCTION),
        ("matmul", Kind.ANCHOR),
        ("conv2d", Kind.ANCHOR),
        ("softmax", Kind.ANCHOR),
        ("split", Kind.OPAQUE),
    ],
)
def test_kinds_are_seen_from_the_loops(name, kind):
    shapes, attrs = samples(name)[1]
    mod, func = Case(name, "float32", 1, shapes, attrs).module()
    assert kind_of(mod[func]) == kind


def test_a_wider_read_is_not_taken_for_a_broadcast():
    A = te.placeholder((4, 6), name="A")
    row = te.create_prim_func([A, te.compute((4, 6), lambda i, j: A[0, j], "C")])
    assert kind_of(row) == Kind.INJECTIVE


# fuse_ops and fuse_tir


def test_an_anchor_takes_its_epilogue():
    mod = fused(build(lambda bb: op.relu(op.add(op.matmul(X, W), B))))
    assert list(mod.functions) == ["main", "fused_matmul_add_relu"]
    func = mod["fused_matmul_add_relu"]
    assert [block.name for block in blocks_in(func.body)] == ["matmul", "relu"]
    assert [buffer.name for buffer in func.allocs] == ["matmul"]


def test_equal_groups_on_other_constants_share_a_function():
    def body(bb):
        h = X
        for n in range(3):
            h = bb.emit(op.relu(op.matmul(h, np.full((6, 6), n, np.float32))))
        return h

    mod = fused(build(body, params=(X,)))
    assert callees(mod) == ["fused_matmul_relu"] * 3


def test_two_anchors_are_two_groups():
    mod = fused(build(lambda bb: op.matmul(op.relu(op.matmul(X, W)), op.permute_dims(W))))
    assert callees(mod) == ["fused_matmul_relu", "permute_dims", "matmul1"]


def test_a_value_used_twice_outside_stays():
    def body(bb):
        lv = bb.emit(op.exp(X))
        return op.relu(lv), op.negative(lv), lv

    mod = fused(build(body))
    assert callees(mod) == ["exp", "relu", "negative"]


def test_a_diamond_is_one_group():
    def body(bb):
        lv = bb.emit(op.matmul(X, W))
        return op.multiply(op.sigmoid(lv), op.add(lv, B))

    mod = fused(build(body))
    assert len(callees(mod)) == 1


def test_a_path_through_another_call_is_not_swallowed():
    """exp -> softmax -> add and exp -> add: no group may hold exp and add without softmax."""

    def body(bb):
        lv = bb.emit(op.exp(X))
        return op.add(bb.emit(op.softmax(lv)), lv)

    mod = fused(build(body))
    assert callees(mod) == ["exp", "fused_softmax_add"]


def test_squaring_chains_do_not_explode():
    def body(bb):
        h = op.multiply(X, np.float32(0.1))
        for _ in range(40):
            h = bb.emit(op.multiply(h, h))
        return h

    mod = fused(build(body))
    assert len(mod.script()) < 60_000


def test_costly_values_are_not_computed_again():
    mod = fused(build(lambda bb: op.add(op.exp(B), op.matmul(X, W))))
    (name,) = callees(mod)
    assert [block.name for block in blocks_in(mod[name].body)] == ["exp", "matmul", "add"]


def test_a_reduction_takes_the_elements_it_reads():
    mod = fused(build(lambda bb: op.sqrt(op.sum(op.multiply(X, X), axis=1))))
    (name,) = callees(mod)
    assert [block.name for block in blocks_in(mod[name].body)] == ["sum", "sqrt"]


def test_an_anchor_that_is_read_elsewhere_is_not_followed_by_movement():
    mod = fused(build(lambda bb: op.permute_dims(op.matmul(X, W))))
    assert callees(mod) == ["matmul", "permute_dims"]


def test_a_sum_of_a_sum_of_int64_stays_a_reduction():
    """Like indices, int64 is put in order where it is simplified; an update must stay one."""
    whole = TensorType((16,), "int64")
    x, y = Var("x", whole), Var("y", whole)
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.dataflow():
            total = bb.emit_output(op.sum(bb.emit(op.add(x, y)), axis=[0]))
        bb.emit_func_output(total)
    after = verify(run_passes(bb.get(), passes.default_pipeline))
    arrays = [np.arange(16) - 5, np.arange(16) ** 2]
    assert interpret(after, "main", *arrays) == np.sum(arrays)


def test_registered_functions_are_left_alone():
    def body(bb):
        lv = bb.emit(op.exp(X))
        return op.relu(bb.emit(call_dps_packed("env.f", (lv,), X.type)))

    mod = passes.fuse_ops(passes.legalize(build(body)))
    assert callees(mod) == ["exp", "env.f", "relu"]


def test_groups_are_bounded():
    def body(bb):
        h = X
        for _ in range(70):
            h = bb.emit(op.relu(h))
        return h

    mod = passes.fuse_ops(passes.legalize(build(body)))
    assert len(callees(mod)) == 3


def primitive(result, *bindings, params=(X,)):
    """A module whose main calls a hand-made group of operators."""
    bb = BlockBuilder()
    with bb.function("group", params):
        with bb.dataflow():
            for expr in bindings:
                bb.emit_output(expr)
            out = result(bb)
        bb.emit_func_output(out)
    group = bb.get()["group"]
    made = Function(group.params, group.blocks, group.result, (("primitive", True),))
    bb = BlockBuilder(IRModule.of({"group": made}))
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(call_function("group", params, group.result.type)))
    return bb.get()


def test_groups_with_several_results_inputs_and_constants_among_them():
    def result(bb):
        parts = bb.emit_output(op.split(X, 2))
        first = bb.emit_output(TupleGetItem(parts, 0))
        total = bb.emit_output(op.add(first, np.full((2, 6), 2, np.float32)))
        return Tuple((total, X, Tuple((first, first)), parts))

    before = primitive(result)
    legal = verify(passes.legalize(before))
    after = verify(passes.fuse_tir(legal))
    assert isinstance(after["group"], PrimFunc)
    assert_same(before, after, func="main", exact=True)


def test_a_group_that_is_no_primitive_function_is_refused():
    before = primitive(lambda bb: bb.emit_output(op.relu(X)))
    assert is_primitive(before["group"])
    refuses("E232", lambda: passes.fuse_tir(before), "relu", "legalize first")


def test_bodies_are_copied_under_new_names():
    mod = fused(build(lambda bb: op.add(op.softmax(X), op.softmax(op.exp(X)))))
    for func in mod.functions.values():
        if isinstance(func, PrimFunc):
            names = [block.name for block in blocks_in(func.body)]
            assert len(set(names)) == len(names)
