"""Patterns: what fits, what a part stands for, what is refused; `rewrite`."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.graphs.ir.nodes import TupleGetItem, constant
from minimlc.graphs.passes import eliminate_common_subexpr, remove_unused, rewrite
from minimlc.loops.values.node import replace
from minimlc.services.patterns.pattern import p
from tests.helpers import assert_same, refuses
from tests.passes.rewriting import module, operators, settled, tensor

X, Y = tensor("x", (3, 4)), tensor("y", (3, 4))
W = np.arange(20, dtype=np.float32).reshape(4, 5)


def fits(pattern, value, *params):
    """Whether the last value of a function looks like the pattern."""
    mod = module(params or (X, Y), lambda *_: value)
    return any(m.var is mod["main"].result for m in pattern.match(mod))


def test_a_pattern_fits_what_it_says():
    x, y = p.wildcard("x"), p.wildcard("y")
    assert fits(p.add(x, y), op.add(X, Y))
    assert fits(x + y, op.add(X, X))
    assert not fits(x + x, op.add(X, Y)) and fits(x + x, op.add(X, X))
    assert not fits(p.subtract(x, y), op.add(X, Y))
    assert fits(p.relu(x - y), op.relu(op.subtract(X, Y)))
    assert fits(x * 2 - y, op.subtract(op.multiply(X, 2.0), Y))
    assert not fits(x * 3 - y, op.subtract(op.multiply(X, 2.0), Y))
    assert fits(p.exp(x), op.exp(op.exp(X)))
    assert fits(abs(-x) <= y, op.less_equal(op.abs(op.negative(X)), Y))


def test_python_writes_the_same_patterns():
    x = p.wildcard("x")
    assert repr(2 * x @ x - 1) == "subtract(matmul(multiply(2, x), x), 1)"
    assert repr(1 / x > -x) == "greater(divide(1, x), negative(x))"
    assert repr(p.concat((x, p.const()), axis=1)[0]) == "concat((x, const), axis=1)[0]"
    assert repr(p.relu(x).optional(p.exp)) == "(exp(relu(x)) | relu(x))"
    assert "conv2d" in dir(p) and "wildcard" in dir(p)
    with pytest.raises(AttributeError, match="matmul"):
        _ = p.matmull
    with pytest.raises(TypeError):
        _, _ = x


def test_operators_that_commute_fit_in_both_orders():
    x, c = p.wildcard(), p.const()
    one = constant(np.float32(1.0))
    assert fits(c + x, op.add(X, one)) and fits(x + c, op.add(one, X))
    assert fits(p.relu(x) * x, op.multiply(X, op.relu(X)))
    assert not fits(c - x, op.subtract(X, one))
    assert not fits(p.maximum(c, x), op.maximum(X, one))


def test_the_other_order_is_tried_where_the_first_leads_nowhere():
    x, y = p.wildcard("x"), p.wildcard("y")
    pattern = (x + y) * p.exp(y)
    for total in (op.add(X, Y), op.add(Y, X)):
        assert fits(pattern, op.multiply(total, op.exp(X)))
        assert fits(pattern, op.multiply(op.exp(Y), total))


@pytest.mark.parametrize(
    ("number", "value", "dtype", "fit"),
    [
        (0, 0.0, "float32", True),
        (0.0, 0.0, "float32", True),
        (0.0, -0.0, "float32", False),
        (-0.0, -0.0, "float32", True),
        (-0.0, 0.0, "float64", False),
        (0.1, 0.1, "float32", True),
        (0.1, 0.1, "bfloat16", True),
        (1, 1, "int8", True),
        (1.0, 1, "int8", False),
        (True, True, "bool", True),
        (1, True, "bool", False),
        (300, 44, "uint8", False),
        (float("nan"), float("nan"), "float32", True),
    ],
)
@pytest.mark.parametrize("kind", ["constant", "full"])
def test_numbers_are_compared_by_their_bits(number, value, dtype, fit, kind):
    x = tensor("x", (2, 3), dtype)
    filled = {
        "constant": lambda: constant(np.full((3,), value), dtype),
        "full": lambda: op.full((3,), value, dtype),
    }
    assert fits(p.equal(p.wildcard(), number), op.equal(x, filled[kind]()), x) == fit


def test_a_number_is_everywhere():
    some = np.array([1, 1, 1, 2], np.float32)
    assert not fits(p.wildcard() * 1, op.multiply(X, some))
    assert fits(p.wildcard() * 1, op.multiply(X, op.ones((4,))))
    assert fits(p.wildcard() + 0, op.add(X, op.zeros((4,))))


def test_attributes_are_values_or_questions():
    x = p.wildcard()
    total = op.sum(X, axis=(0,), keepdims=True)
    assert fits(p.sum(x), total) and fits(p.sum(x, axis=[0]), total) and fits(p.sum(x, (0,)), total)
    assert not fits(p.sum(x, axis=1), total) and not fits(p.sum(x, keepdims=False), total)
    assert fits(p.sum(x, axis=lambda axes: 0 in axes), total)
    assert not fits(p.sum(x, axis=lambda axes: 1 in axes), total)


def test_shapes_dtypes_and_conditions_limit():
    value = op.matmul(X, W)
    for limits, fit in [
        ({"shape": (3, 5)}, True),
        ({"shape": (None, 5)}, True),
        ({"shape": (None, 4)}, False),
        ({"shape": (3, 5, 1)}, False),
        ({"ndim": 2, "dtype": "float32"}, True),
        ({"ndim": 3}, False),
        ({"dtype": ("int8", "float32")}, True),
        ({"dtype": "float16"}, False),
        ({"where": lambda call: call.attr("out_dtype") == ""}, True),
        ({"where": lambda call: call.op == "dense"}, False),
    ]:
        assert fits(p.matmul(p.wildcard(), p.const()).has(**limits), value) == fit, limits
        asks = {**limits, "where": None}
        assert fits(p.relu(p.wildcard(**asks)), op.relu(value)) == (fit or "where" in limits)
    assert fits(p.wildcard() @ p.const(where=lambda c: c.data[0, 0] == 0), value)
    refuses("E108", lambda: p.wildcard(dtype="float23"))


def test_tuples_have_no_shape():
    pair = op.split(X, 2, axis=1)
    assert fits(p.split(p.wildcard())[1], TupleGetItem(pair, 1))
    assert not fits(p.split(p.wildcard())[0], TupleGetItem(pair, 1))
    assert not fits(p.wildcard(ndim=2)[1], TupleGetItem(pair, 1))
    assert fits(p.concat((p.wildcard(), p.relu(p.wildcard()))), op.concat([X, op.relu(Y)]))
    assert not fits(p.concat((p.wildcard(),)), op.concat([X, op.relu(Y)]))


def test_a_match_says_what_each_part_stands_for():
    x, c = p.wildcard("x"), p.const("c")
    product = x @ c
    mod = module((X,), lambda x: op.relu(op.matmul(op.exp(x), W)))
    (match,) = p.relu(product).match(mod)
    power, matmul, relu = mod["main"].bindings()
    assert match.var is relu.var and match.function == "main"
    assert match[x] is power.var and match.value(x) is power.value
    assert match[product] is matmul.var
    np.testing.assert_array_equal(match.value(c).data, W)
    assert "relu" in repr(match) and product in match and p.wildcard() not in match
    refuses("E233", lambda: match[p.wildcard("other")], "other")


def test_optional_parts_are_taken_where_they_are():
    x, b = p.wildcard("x"), p.const("b")
    pattern = (x @ p.const()).optional(lambda y: y + b)
    bare, biased = op.matmul(X, W), op.add(op.matmul(X, W), W[0])
    (plain,) = pattern.match(module((X,), lambda _: bare))
    assert b not in plain
    matches = pattern.match(module((X,), lambda _: biased))
    assert [b in m for m in matches] == [False, True]


def test_a_single_use_can_be_asked_for():
    once = p.relu(p.exp(p.wildcard()).has(used_once=True))
    assert fits(once, op.relu(op.exp(X)))
    twice = module((X,), lambda x: (op.relu(op.exp(x)), op.tanh(op.exp(x))))
    twice = eliminate_common_subexpr(twice)
    assert operators(twice) == ["exp", "relu", "tanh"] and not once.match(twice)
    result = twice["main"].result.fields[0]
    unused = twice.with_function("main", replace(twice["main"], result=result))
    assert len(once.match(unused)) == 1, "what nothing uses does not count"


def test_patterns_refuse_what_they_cannot_mean():
    x = p.wildcard()
    refuses("E201", lambda: p.sum(x, axes=1), "sum", 'no argument "axes"', "axis")
    refuses("E201", lambda: p.relu(x, 1, 2), "takes 1 argument")
    refuses("E233", lambda: p.relu("x"), "'x'", "wildcard")
    mod = module((X,), lambda x: op.relu(x))
    refuses("E132", lambda: rewrite(None, x, x))
    refuses("E132", lambda: x.match(mod["main"]), "match takes a module, got Function")
    refuses("E233", lambda: rewrite(mod, p.relu(x), p.wildcard("z")), "z")
    bad = p.sum(x, axis=callable)
    refuses("E233", lambda: rewrite(mod, p.relu(x), bad), "axis")
    refuses(
        "E231", lambda: rewrite(mod, p.relu(x), p.sum(x, axis=0)), "(4,)", "(3, 4)", "broadcast"
    )
    refuses("E231", lambda: rewrite(mod, p.relu(x), lambda m: "text"), "str")
    refuses("E231", lambda: rewrite(mod, p.relu(x), lambda m: op.cast(m[x], "int8")), "int8")


# rewrite


def fma(mod):
    x, y, z = p.wildcard("x"), p.wildcard("y"), p.wildcard("z")
    return rewrite(mod, x * y + z, p.ewise_fma(x, y, z))


def test_rewrite_puts_one_for_the_other():
    before = module((X, Y), lambda x, y: op.relu(op.add(y, op.multiply(x, y))))
    after = settled(fma, before)
    assert operators(after) == ["ewise_fma", "relu"]
    assert_same(before, after)


def test_rewrite_of_nothing_is_the_same_module():
    mod = module((X, Y), lambda x, y: op.subtract(x, y))
    assert fma(mod) is mod
    assert rewrite(mod, p.subtract(p.wildcard(), p.wildcard()), lambda m: None) is mod
    assert rewrite(mod, p.wildcard(), lambda m: m.var) is mod


def test_operands_are_rewritten_first_and_each_value_once():
    x = p.wildcard("x")
    before = module((X,), lambda x: op.exp(op.exp(op.exp(x))))
    after = rewrite(before, p.exp(x), p.tanh(p.exp(x)))
    assert operators(after) == ["exp", "tanh"] * 3


def test_a_smaller_replacement_is_broadcast():
    x = p.wildcard("x")
    before = module((tensor("x", (4,)),), lambda x: op.multiply(x, op.ones((3, 4))))
    refuses("E231", lambda: rewrite(before, x * 1, x), "broadcast=True")
    after = remove_unused(rewrite(before, x * 1, x, broadcast=True))
    assert operators(after) == ["broadcast_to"]
    assert_same(before, after, exact=True)


def test_a_number_replaces_a_tensor():
    x = p.wildcard("x")
    before = module((tensor("x", (3, 4), "int8"),), lambda x: op.subtract(x, x))
    after = settled(lambda mod: rewrite(mod, x - x, 0), before)
    assert operators(after) == ["full"]
    assert_same(before, after, exact=True)


def test_fields_and_tuples_are_rewritten():
    x = p.wildcard("x")
    before = module((X,), lambda x: TupleGetItem(op.split(x, 1, axis=1), 0))
    after = settled(lambda mod: rewrite(mod, p.split(x)[0], x), before)
    assert operators(after) == []
    assert_same(before, after, exact=True)


def test_several_calls_may_take_the_place_of_one():
    x = p.wildcard("x")
    before = module((X,), lambda x: op.silu(x))
    after = settled(lambda mod: rewrite(mod, p.silu(x), x * p.sigmoid(x)), before)
    assert operators(after) == ["sigmoid", "multiply"]
    assert_same(before, after)


def test_groups_of_fusion_stay():
    x = p.wildcard("x")
    mod = mlc.BlockBuilder()
    with mod.function("group", [X], {"primitive": True}):
        mod.emit_func_output(mod.emit(op.exp(X)))
    before = mod.get()
    assert rewrite(before, p.exp(x), x) is before
    assert p.exp(x).match(before) == []
