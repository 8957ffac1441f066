"""`simplify`: every identity keeps every bit, and those that would not are left."""

import warnings

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.graphs.ir.nodes import TensorType, constant
from minimlc.graphs.passes import simplify
from minimlc.services.passes.simplify import RULES
from tests.passes.rewriting import keeps_bits, module, operators, same_bits, settled, tensor

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int8", "uint8", "int64", "int16")
NUMBERS = (*FLOATS, *INTEGERS)


def number(value, like):
    return constant(value, like.dtype)


CASES = [
    ("x * 1", NUMBERS, lambda x, y: op.multiply(x, number(1, x)), ""),
    ("1 * x", NUMBERS, lambda x, y: op.multiply(number(1, x), x), ""),
    ("x / 1", FLOATS, lambda x, y: op.divide(x, number(1, x)), ""),
    ("x - 0", NUMBERS, lambda x, y: op.subtract(x, number(0, x)), ""),
    ("x + -0.0", FLOATS, lambda x, y: op.add(x, number(-0.0, x)), ""),
    ("x + 0", INTEGERS, lambda x, y: op.add(number(0, x), x), ""),
    ("x * -1", (*FLOATS, "int32", "int8"), lambda x, y: op.multiply(x, number(-1, x)), "negative"),
    ("x / -1", FLOATS, lambda x, y: op.divide(x, number(-1, x)), "negative"),
    ("--x", NUMBERS, lambda x, y: op.negative(op.negative(x)), ""),
    ("x + -y", NUMBERS, lambda x, y: op.add(x, op.negative(y)), "subtract"),
    ("-x + y", NUMBERS, lambda x, y: op.add(op.negative(x), y), "subtract"),
    ("x - -y", NUMBERS, lambda x, y: op.subtract(x, op.negative(y)), "add"),
    ("-x * -y", NUMBERS, lambda x, y: op.multiply(op.negative(x), op.negative(y)), "multiply"),
    ("-x / -y", FLOATS, lambda x, y: op.divide(op.negative(x), op.negative(y)), "divide"),
    ("x / 4", FLOATS, lambda x, y: op.divide(x, number(4, x)), "multiply"),
    ("x / -0.25", FLOATS, lambda x, y: op.divide(x, number(-0.25, x)), "multiply"),
    ("max(x, x)", NUMBERS, lambda x, y: op.maximum(x, x), ""),
    ("x * 0", INTEGERS, lambda x, y: op.multiply(x, number(0, x)), "full"),
    ("x - x", INTEGERS, lambda x, y: op.subtract(x, x), "full"),
    ("x + y - y", INTEGERS, lambda x, y: op.subtract(op.add(y, x), y), ""),
    ("x - y + y", INTEGERS, lambda x, y: op.add(y, op.subtract(x, y)), ""),
    ("-(x - y)", INTEGERS, lambda x, y: op.negative(op.subtract(x, y)), "subtract"),
    ("x + 3 + 5", INTEGERS, lambda x, y: op.add(op.add(x, number(3, x)), number(5, x)), "add"),
    (
        "x * 50 * 3",
        INTEGERS,
        lambda x, y: op.multiply(number(3, x), op.multiply(x, number(50, x))),
        "multiply",
    ),
    ("x & x", INTEGERS, lambda x, y: op.bitwise_and(x, x), ""),
    ("x & -1", ("int8", "int64"), lambda x, y: op.bitwise_and(x, number(-1, x)), ""),
    ("x & 0", INTEGERS, lambda x, y: op.bitwise_and(x, number(0, x)), "full"),
    ("x | 0", INTEGERS, lambda x, y: op.bitwise_or(number(0, x), x), ""),
    ("x ^ x", INTEGERS, lambda x, y: op.bitwise_xor(x, x), "full"),
    ("not x < y", INTEGERS, lambda x, y: op.logical_not(op.less(x, y)), "greater_equal"),
    ("not x >= y", INTEGERS, lambda x, y: op.logical_not(op.greater_equal(x, y)), "less"),
    ("not x == y", NUMBERS, lambda x, y: op.logical_not(op.equal(x, y)), "not_equal"),
    ("not x != y", NUMBERS, lambda x, y: op.logical_not(op.not_equal(x, y)), "equal"),
    ("relu(relu)", NUMBERS, lambda x, y: op.relu(op.relu(x)), "relu"),
    ("round(floor)", FLOATS, lambda x, y: op.round(op.floor(x)), "floor"),
    ("floor(ceil)", FLOATS, lambda x, y: op.floor(op.ceil(x)), "ceil"),
    ("abs(-x)", (*FLOATS, "int8", "int64"), lambda x, y: op.abs(op.negative(x)), "abs"),
    ("abs(abs)", NUMBERS, lambda x, y: op.abs(op.abs(x)), "abs"),
    (
        "square(abs(-x))",
        (*FLOATS, "int8"),
        lambda x, y: op.square(op.abs(op.negative(x))),
        "square",
    ),
    ("square(-x)", NUMBERS, lambda x, y: op.square(op.negative(x)), "square"),
    ("not not", ("bool",), lambda x, y: op.logical_not(op.logical_not(x)), ""),
    ("x and True", ("bool",), lambda x, y: op.logical_and(x, np.array(True)), ""),
    ("x and False", ("bool",), lambda x, y: op.logical_and(x, np.array(False)), "full"),
    ("x or x", ("bool",), lambda x, y: op.logical_or(x, x), ""),
    ("x or True", ("bool",), lambda x, y: op.logical_or(np.array(True), x), "full"),
    ("x xor True", ("bool",), lambda x, y: op.logical_xor(x, np.array(True)), "logical_not"),
    ("True ? x : y", NUMBERS, lambda x, y: op.where(np.array(True), x, y), ""),
    ("False ? x : y", NUMBERS, lambda x, y: op.where(np.array(False), x, y), ""),
    ("x ? y : y", ("bool",), lambda x, y: op.where(x, y, y), ""),
    ("not x ? x : y", ("bool",), lambda x, y: op.where(op.logical_not(x), x, y), "where"),
    ("transposed twice", NUMBERS, lambda x, y: op.permute_dims(op.permute_dims(x)), ""),
    ("reshaped twice", NUMBERS, lambda x, y: op.reshape(op.flatten(x), (4, 3)), "reshape"),
    ("reshaped back", NUMBERS, lambda x, y: op.squeeze(op.expand_dims(x, 1)), ""),
    ("flipped twice", NUMBERS, lambda x, y: op.flip(op.flip(x, (0, -1)), (1, 0)), ""),
    ("one part", NUMBERS, lambda x, y: op.concat([x], axis=1), ""),
    ("same shape", NUMBERS, lambda x, y: op.reshape(op.broadcast_to(x, (3, 4)), (3, -1)), ""),
    ("uncut", NUMBERS, lambda x, y: op.strided_slice(x, (0, -9), (3, 9)), ""),
    ("same dtype", NUMBERS, lambda x, y: op.cast(x, x.dtype), ""),
    ("no frame", NUMBERS, lambda x, y: op.pad(op.tile(op.repeat(x, 1, 0), 1), (0,) * 4), ""),
]


@pytest.mark.parametrize(
    ("dtype", "formula", "left"),
    [(dtype, c[2], c[3]) for c in CASES for dtype in c[1]],
    ids=[f"{c[0]} {dtype}" for c in CASES for dtype in c[1]],
)
def test_identities(dtype, formula, left):
    params = tensor("x", (3, 4), dtype), tensor("y", (3, 4), dtype)
    before = module(params, formula)
    after = settled(simplify, before)
    assert operators(after) == left.split()
    keeps_bits(before, after)


STAY = [
    ("x + 0.0", FLOATS, lambda x, y: op.add(x, number(0.0, x))),
    ("x - -0.0", FLOATS, lambda x, y: op.subtract(x, number(-0.0, x))),
    ("x * 0", FLOATS, lambda x, y: op.multiply(x, number(0.0, x))),
    ("x - x", FLOATS, lambda x, y: op.subtract(x, x)),
    ("x / x", FLOATS, lambda x, y: op.divide(x, x)),
    ("x + y - y", FLOATS, lambda x, y: op.subtract(op.add(x, y), y)),
    ("-(x - y)", FLOATS, lambda x, y: op.negative(op.subtract(x, y))),
    ("x + 1 + 2", FLOATS, lambda x, y: op.add(op.add(x, number(1, x)), number(2, x))),
    ("x * 2 * 3", FLOATS, lambda x, y: op.multiply(op.multiply(x, number(2, x)), number(3, x))),
    ("not x < y", FLOATS, lambda x, y: op.logical_not(op.less(x, y))),
    ("x / 3", FLOATS, lambda x, y: op.divide(x, number(3, x))),
    ("x / 0", FLOATS, lambda x, y: op.divide(x, number(0.0, x))),
    ("x / 1e-40", ("float32",), lambda x, y: op.divide(x, number(1e-40, x))),
    ("x / 2**-24", ("float16",), lambda x, y: op.divide(x, number(2**-24, x))),
    ("x / inf", FLOATS, lambda x, y: op.divide(x, number(np.inf, x))),
    ("relu(negative)", NUMBERS, lambda x, y: op.relu(op.negative(x))),
    ("x - y", NUMBERS, lambda x, y: op.subtract(x, y)),
    ("abs(-x)", ("uint8",), lambda x, y: op.abs(op.negative(x))),
    ("transposed", NUMBERS, lambda x, y: op.permute_dims(x)),
    ("flipped otherwise", NUMBERS, lambda x, y: op.flip(op.flip(x, 0), 1)),
    ("reversed", NUMBERS, lambda x, y: op.strided_slice(x, -1, -5, -1, axes=1)),
    ("narrowed", ("float32",), lambda x, y: op.cast(op.cast(x, "float16"), "float32")),
    ("whole", ("float32",), lambda x, y: op.cast(op.cast(x, "int32"), "float32")),
    ("wrapped", ("int32",), lambda x, y: op.cast(op.cast(x, "int8"), "int32")),
    ("rounded", ("int32",), lambda x, y: op.cast(op.cast(x, "float32"), "int32")),
    ("truth", ("int32",), lambda x, y: op.cast(op.cast(x, "bool"), "int32")),
]


@pytest.mark.parametrize(
    ("dtype", "formula"),
    [(dtype, c[2]) for c in STAY for dtype in c[1]],
    ids=[f"{c[0]} {dtype}" for c in STAY for dtype in c[1]],
)
def test_what_is_not_exact_stays(dtype, formula):
    params = tensor("x", (3, 4), dtype), tensor("y", (3, 4), dtype)
    mod = module(params, formula)
    with warnings.catch_warnings(action="error"):
        assert simplify(mod) is mod


@pytest.mark.parametrize(
    ("dtypes", "left"),
    [
        (("float32", "float64", "float32"), []),
        (("float16", "float32", "bfloat16"), ["cast"]),
        (("float16", "float32", "float64"), ["cast"]),
        (("bfloat16", "float32", "bfloat16"), []),
        (("int8", "int32", "uint8"), ["cast"]),
        (("uint8", "int16", "uint8"), []),
        (("bool", "int8", "bool"), []),
        (("bool", "float32", "int32"), ["cast", "cast"]),
        (("float16", "float32", "int8"), ["cast", "cast"]),
        (("int8", "int32", "float32"), ["cast", "cast"]),
        (("uint8", "int8", "uint8"), ["cast", "cast"]),
    ],
)
def test_conversions_by_way_of_a_wider_dtype(dtypes, left):
    start, middle, end = dtypes
    x = tensor("x", (5, 7), start)
    before = module((x,), lambda x: op.cast(op.cast(x, middle), end))
    after = settled(simplify, before)
    assert operators(after) == left
    keeps_bits(before, after)


@pytest.mark.parametrize("seed", range(6))
def test_permutations_are_composed(seed):
    rng = np.random.default_rng(seed)
    first, second = (tuple(int(a) for a in rng.permutation(4)) for _ in range(2))
    x = tensor("x", (2, 3, 4, 5))
    before = module(
        (x,), lambda x: op.permute_dims(op.permute_dims(x, first), [a - 4 for a in second])
    )
    after = settled(simplify, before)
    assert len(operators(after)) <= 1
    keeps_bits(before, after, rounds=1)


def test_constants_that_spread_are_not_multiplied_out():
    x = tensor("x", (8, 9), "int32")
    column, row = np.ones((8, 1), np.int32) * 2, np.arange(9, dtype=np.int32)
    mod = module((x,), lambda x: op.add(op.add(x, column), row))
    assert simplify(mod) is mod


def test_a_smaller_value_is_broadcast():
    x, many = tensor("x", (4,)), np.ones((3, 4), np.float32)
    before = module((x,), lambda x: op.multiply(op.multiply(x, many), many))
    after = settled(simplify, before)
    assert operators(after) == ["broadcast_to"]
    keeps_bits(before, after)


@pytest.mark.parametrize("axis", [1, -1])
def test_normalizations_with_known_statistics_are_taken_apart(axis):
    statistics = np.random.default_rng(0).random((4, 3), np.float32) + 1

    def body(x):
        return op.batch_norm(x, *map(constant, statistics), axis=axis, epsilon=0.1)

    before = module((tensor("x", (2, 3, 4, 3)),), body)
    after = settled(simplify, before)
    assert operators(after) == ["multiply", "add"]
    keeps_bits(before, after)


def test_normalizations_of_halves_and_of_computed_statistics_stay():
    def body(x, *statistics):
        return op.batch_norm(x, *statistics)

    known = [constant(np.ones(3, np.float16)) for _ in range(4)]
    half = module((tensor("x", (2, 3, 4), "float16"),), lambda x: body(x, *known))
    given = module((tensor("x", (2, 3, 4)), *(tensor(n, (3,)) for n in "abcd")), body)
    assert simplify(half) is half and simplify(given) is given


def test_what_is_built_gives_arrays_of_its_own():
    """Also where nothing is left but the parameter, twice."""
    x = tensor("x", (3, 4))
    mod = module((x,), lambda x: (op.negative(op.negative(x)), op.multiply(x, number(1, x))))
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    first, second = mlc.build(mod, cache=False)["main"](a)
    same_bits((first, second), (a, a))
    assert not any(np.shares_memory(u, v) for u, v in ((first, a), (second, a), (first, second)))


def test_tensors_without_elements_and_without_axes():
    for shape in ((), (0,), (3, 0)):
        x = tensor("x", shape)
        before = module((x,), lambda x: op.negative(op.negative(op.multiply(x, number(1, x)))))
        after = settled(simplify, before)
        assert operators(after) == []
        keeps_bits(before, after, rounds=1)


def test_chains_come_to_rest_in_few_rounds():
    x = tensor("x", (3, 4), "int32")

    def body(x):
        for n in range(30):
            x = op.negative(op.add(op.permute_dims(op.permute_dims(x)), number(n, x)))
            x = op.negative(x)
        return x

    before = module((x,), body)
    after = settled(simplify, before)
    assert operators(after) == ["add"]
    keeps_bits(before, after)


def test_each_rule_is_tried():
    """Every rule is for one operator at least, and is found by that."""
    assert all(pattern.heads() for pattern, _ in RULES)
    assert TensorType((), "float32") == module((), lambda: op.zeros(()))["main"].result.type


def test_bits_are_compared():
    with pytest.raises(AssertionError):
        same_bits(np.float32([0.0]), np.float32([-0.0]))
    with pytest.raises(AssertionError):
        same_bits(np.float32([1.0]), np.float64([1.0]))
    same_bits(np.float32([np.nan]), np.float32([-np.nan]))
