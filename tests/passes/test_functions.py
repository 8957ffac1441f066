"""Graph functions: outline, partition, inline, and what they take and give."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op, passes
from minimlc.graphs.ir.nodes import (
    TupleGetItem,
    TupleType,
    call_dps_packed,
    call_function,
    constant,
)
from minimlc.graphs.passes import inline, outline, partition, remove_unused_outputs
from minimlc.graphs.passes import remove_unused_parameters as without_parameters
from minimlc.loops.proofs.verify import verify
from minimlc.services.patterns.pattern import p
from tests.helpers import assert_same, refuses
from tests.passes.rewriting import module, operators, settled, tensor

X, W = tensor("x", (3, 4)), tensor("w", (4, 4))
WEIGHTS = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
linear = (p.wildcard("x") @ p.wildcard("w") + p.wildcard("b")).optional(p.relu)


def layers(x, *matrices):
    for w in matrices:
        x = op.relu(op.add(op.matmul(x, w), WEIGHTS[0]))
    return x


# outline


def test_bindings_become_a_function():
    before = module((X, W), lambda x, w: op.exp(layers(x, w)))
    after = verify(outline(before, ["lv", "lv1"], "step"))
    assert operators(after) == ["call", "relu", "exp"]
    assert operators(after, "step") == ["matmul", "add"]
    assert [v.name for v in after["step"].params] == ["x", "w", "const"]
    assert_same(before, after, func="main", exact=True)
    assert outline(before, [], "step") is before


def test_several_results_are_a_tuple():
    before = module((X,), lambda x: op.add(op.exp(x), op.tanh(op.exp(x))))
    before = passes.eliminate_common_subexpr(before)
    after = verify(outline(before, ["lv", "lv2"], "both"))
    assert operators(after) == ["call", "TupleGetItem", "TupleGetItem", "add"]
    assert_same(before, after, func="main", exact=True)
    x = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(
        mlc.build(after, cache=False)["main"](x), mlc.interpret(before, "main", x), rtol=1e-6
    )


def test_what_stands_between_may_not_use_what_is_moved():
    mod = module((X,), lambda x: op.add(op.exp(x), op.tanh(op.relu(op.exp(x)))))
    mod = passes.eliminate_common_subexpr(mod)
    names = [b.var.name for b in mod["main"].bindings()]
    assert operators(mod) == ["exp", "relu", "tanh", "add"]
    refuses("E234", lambda: outline(mod, [names[0], names[2]], "f"), names[1], names[0])
    refuses("E234", lambda: outline(mod, ["lv7"], "f"), '"lv7"')
    refuses("E230", lambda: outline(mod, "lv", "f"), "list")
    refuses("E105", lambda: outline(mod, ["lv"], "f", func="mian"), "main")


def test_effects_stay_in_their_place():
    bb = mlc.BlockBuilder()
    with bb.function("main", [X]):
        lv = bb.emit(call_dps_packed("env.log", (X,), X.type))
        bb.emit_func_output(bb.emit(op.relu(lv)))
    refuses("E234", lambda: outline(bb.get(), ["lv"], "f"), "effect")


# partition


def partitioned(mod, pattern=linear, name="linear", **options):
    text = mod.script()
    after = verify(partition(mod, pattern, name, **options))
    assert mod.script() == text
    return after


def test_each_group_is_called_and_equal_ones_are_one():
    before = module((X, W), lambda x, w: op.exp(layers(x, w, w, w)))
    after = partitioned(before)
    assert operators(after) == ["call", "call", "call", "exp"]
    assert list(after.functions) == ["main", "linear"]
    assert operators(after, "linear") == ["matmul", "add", "relu"]
    assert_same(before, after, func="main", exact=True)
    arrays = [np.ones((3, 4), np.float32), WEIGHTS]
    got = mlc.build(after, cache=False)["main"](*arrays)
    np.testing.assert_allclose(got, mlc.interpret(before, "main", *arrays), rtol=1e-5)


def test_groups_of_other_shapes_are_other_functions():
    wide = np.ones((4, 6), np.float32)
    before = module((X, W), lambda x, w: op.add(op.matmul(layers(x, w), wide), np.ones(6, "f")))
    after = partitioned(before)
    assert list(after.functions) == ["main", "linear", "linear1"]
    assert_same(before, after, func="main", exact=True)


def test_what_others_use_is_not_moved():
    def body(x, w):
        sums = op.add(op.matmul(x, w), WEIGHTS[0])
        return op.relu(sums), op.tanh(op.add(op.matmul(x, w), WEIGHTS[0]))

    before = passes.eliminate_common_subexpr(module((X, W), body))
    after = partitioned(before)
    assert operators(after) == ["call", "relu", "tanh"]
    assert operators(after, "linear") == ["matmul", "add"], "the relu has to stay outside"
    assert_same(before, after, func="main", exact=True)

    def leaks(x, w):
        return op.relu(op.matmul(x, w)), op.add(op.matmul(x, w), WEIGHTS[0])

    shared = passes.eliminate_common_subexpr(module((X, W), leaks))
    assert partition(shared, linear, "linear") is shared


def test_no_call_is_in_two_groups():
    x = p.wildcard()
    before = module((X,), lambda x: op.exp(op.exp(op.exp(x))))
    after = partitioned(before, p.exp(p.exp(x)), "twice")
    assert operators(after) == ["exp", "call"]
    assert_same(before, after, func="main", exact=True)


def test_tuples_and_fields_are_moved():
    halves = p.split(p.wildcard("x"))
    before = module((X,), lambda x: op.exp(TupleGetItem(op.split(x, 2, axis=1), 1)))
    after = partitioned(before, p.exp(halves[1]), "second")
    assert operators(after) == ["call"]
    assert_same(before, after, func="main", exact=True)


def test_a_group_can_be_fused():
    before = module((X, W), lambda x, w: op.exp(layers(x, w)))
    steps = (passes.legalize, passes.fuse_tir, passes.remove_unused)
    marked = partitioned(before, attrs={"primitive": True})
    after = verify(mlc.run_passes(marked, steps))
    assert operators(after) == ["call_tir", "call_tir"]
    assert_same(before, after, func="main")


def test_partition_of_nothing_is_the_same_module():
    mod = module((X,), lambda x: op.exp(x))
    assert partition(mod, linear, "linear") is mod
    assert partition(mod, p.wildcard(), "all") is mod, "a variable is no group"
    refuses("E211", lambda: partition(mod, linear, "not a name"), "not a name")


def test_a_function_that_is_a_group_as_a_whole_does_not_call_itself():
    mod = module((X,), lambda x: op.exp(x))
    twice = mod.with_function("other", mod["main"])
    for after in (partitioned(twice, p.exp(p.wildcard()), "power"), outline(mod, ["gv"], "power")):
        assert operators(verify(after)) == ["call"]
        assert_same(mod, after, func="main", exact=True)


# inline


def test_calls_become_what_they_compute():
    before = module((X, W), lambda x, w: op.exp(layers(x, w, w)))
    apart = partition(before, linear, "linear")
    after = settled(inline, apart)
    assert operators(after) == operators(before)
    assert_same(before, after, func="main", exact=True)
    assert inline(before) is before
    assert inline(apart, []) is apart


def nested():
    """inner: exp; outer: (tanh(inner), x); main: outer's fields added."""
    bb = mlc.BlockBuilder()
    with bb.function("inner", [X]):
        bb.emit_func_output(bb.emit(op.exp(X)))
    with bb.function("outer", [X, W]):
        lv = bb.emit(call_function("inner", (X,), X.type))
        bb.emit_func_output((bb.emit(op.tanh(lv)), X))
    return bb


def with_main(fields):
    """A main that adds some fields of `outer`, which takes a matrix that it does not use."""
    bb = nested()
    with bb.function("main", [X, W]):
        both = bb.emit(call_function("outer", (X, W), TupleType((X.type, X.type))))
        parts = [bb.emit(TupleGetItem(both, n)) for n in fields]
        bb.emit_func_output(bb.emit(op.add(parts[0], parts[-1])))
    return verify(bb.get())


def test_functions_that_call_functions():
    before = with_main((0, 1))
    after = verify(inline(before))
    assert "call" not in operators(after)
    assert_same(before, after, func="main", exact=True)
    only = verify(inline(before, ["outer"]))
    assert operators(only).count("call") == 1
    refuses("E230", lambda: inline(before, ["oter"]), '"oter"', "outer")
    refuses("E230", lambda: inline(before, "outer"), "list")


# what functions take and give


def test_parameters_that_nobody_uses_go():
    before = with_main((0, 1))
    after = verify(without_parameters(before))
    assert [v.name for v in after["outer"].params] == ["x"]
    assert [v.name for v in after["main"].params] == ["x", "w"], "called from outside"
    assert without_parameters(after) is after
    assert_same(before, after, func="main", exact=True)
    assert without_parameters(before, entries=["outer"]) is before
    refuses("E230", lambda: without_parameters(before, "outer"), "['outer']")
    refuses("E105", lambda: without_parameters(before, ["outr"]), "outer")


def test_parameters_of_loops_go():
    te = mlc.te
    bb = mlc.BlockBuilder()
    with bb.function("main", [X, W]):
        out = bb.emit_te(lambda A, B: te.compute(A.shape, lambda *i: A[i] + 1.0, "f"), X, W)
        bb.emit_func_output(out)
    before = verify(bb.get())
    after = verify(without_parameters(before))
    (call,) = (b.value for b in after["main"].bindings())
    assert call.args == (X,) and len(after[call.callee].params) == 2
    assert_same(before, after, func="main", exact=True)
    alone = before.without("main")
    assert without_parameters(alone) is alone


def test_outputs_that_nobody_uses_go():
    before = with_main((0, 0))
    after = verify(remove_unused_outputs(before))
    assert len(after["outer"].result.fields) == 1
    assert remove_unused_outputs(after) is after
    assert_same(before, after, func="main", exact=True)
    second = verify(remove_unused_outputs(with_main((1, 1))))
    lighter = verify(passes.remove_unused(second, ["main"]))
    assert operators(lighter, "outer") == []
    assert_same(with_main((1, 1)), lighter, func="main", exact=True)


@pytest.mark.parametrize("entries", [(), ["outer"]])
def test_outputs_that_are_used_stay(entries):
    mod = with_main((0, 0) if entries else (0, 1))
    assert remove_unused_outputs(mod, entries) is mod


def test_a_result_that_is_used_as_a_whole_stays():
    bb = nested()
    with bb.function("main", [X, W]):
        both = bb.emit(call_function("outer", (X, W), TupleType((X.type, X.type))))
        bb.emit(TupleGetItem(both, 0))
        bb.emit_func_output(both)
    mod = verify(bb.get())
    assert remove_unused_outputs(mod) is mod


# to_mixed_precision


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_take_16_bits_and_sum_in_32(dtype):
    before = module((X, W), lambda x, w: op.dense(layers(x, w), constant(WEIGHTS)))
    half = settled(lambda mod: passes.to_mixed_precision(mod, dtype), before)
    assert operators(half).count("cast") == 4
    assert half["main"].result.dtype == "float32"
    products = [b.value for b in half["main"].bindings() if b.value.op in ("matmul", "dense")]
    assert all(call.args[0].dtype == dtype and call.dtype == "float32" for call in products)
    rng = np.random.default_rng(0)
    x, w = rng.uniform(-1, 1, (3, 4)).astype("f"), rng.uniform(-1, 1, (4, 4)).astype("f")
    expected = layers_in_numpy(x.astype(float), w.astype(float)) @ WEIGHTS.T.astype(float)
    # Each operand changes by u of itself; sums of four products of numbers below 5, twice.
    u = 2.0**-11 if dtype == "float16" else 2.0**-8
    limit = 4 * u * 4 * 5 * 4
    np.testing.assert_allclose(mlc.interpret(half, "main", x, w), expected, atol=limit)
    got = mlc.build(half, cache=False)["main"](x, w)
    np.testing.assert_allclose(got, mlc.interpret(half, "main", x, w), rtol=1e-5, atol=u)


def layers_in_numpy(x, w):
    return np.maximum(x @ w + WEIGHTS[0], 0)


def test_exact_products_stay_exact_in_16_bits():
    rng = np.random.default_rng(1)
    before = module((X, W), lambda x, w: op.matmul(x, w))
    half = passes.to_mixed_precision(before)
    x, w = (rng.integers(-9, 9, shape).astype("f") for shape in ((3, 4), (4, 4)))
    np.testing.assert_array_equal(mlc.interpret(half, "main", x, w), x @ w)


def test_convolutions_and_constants():
    kernel = constant(np.ones((2, 3, 3, 3), np.float32))
    before = module((tensor("x", (1, 3, 5, 5)),), lambda x: op.conv2d(x, kernel, padding=1))
    after = passes.fold_constants(settled(passes.to_mixed_precision, before))
    assert operators(after) == ["cast", "conv2d"]
    (conv,) = (b.value for b in after["main"].bindings() if b.value.op == "conv2d")
    assert conv.args[1].dtype == "float16" and conv.attr("padding") == 1


def test_other_dtypes_stay():
    for dtype in ("float64", "int8", "float16"):
        params = tensor("x", (3, 4), dtype), tensor("w", (4, 4), dtype)
        mod = module(params, lambda x, w: op.matmul(x, w))
        assert passes.to_mixed_precision(mod) is mod
    wide = module((X, W), lambda x, w: op.matmul(x, w, out_dtype="float64"))
    assert passes.to_mixed_precision(wide) is wide
    refuses("E230", lambda: passes.to_mixed_precision(wide, "int8"), "float16")
