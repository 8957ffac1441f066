"""fuse_attention: two products and the softmax between them become one primitive function."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op, passes
from minimlc.graphs.ir.nodes import constant
from minimlc.graphs.passes import fuse_attention
from minimlc.loops.ir.walks import blocks_in
from tests.helpers import assert_same, random_array
from tests.passes.rewriting import module, operators, settled, tensor

ROWS, KEYS, SIZE = 5, 7, 4


def inputs(*batch, dtype="float32"):
    shapes = {"q": (ROWS, SIZE), "k": (KEYS, SIZE), "v": (KEYS, SIZE)}
    return [tensor(name, (*batch, *shape), dtype) for name, shape in shapes.items()]


def turned(x):
    """`x` with its last two axes exchanged."""
    first = range(len(x.type.shape) - 2)
    return op.permute_dims(x, axes=(*first, -1, -2))


def written_out(q, k, v, between=lambda scores: scores):
    return op.matmul(op.softmax(between(op.matmul(q, turned(k)))), v)


MASK = constant(np.triu(np.ones((ROWS, KEYS), bool)), "bool")
BETWEEN = {
    "nothing": lambda x: x,
    "a scale": lambda x: op.multiply(x, 0.5),
    "a divisor": lambda x: op.divide(x, 2.236),
    "a mask that is added": lambda x: op.add(
        op.multiply(x, 0.5), constant(np.ones((ROWS, KEYS)), "float32")
    ),
    "a mask that chooses": lambda x: op.where(MASK, op.divide(x, 3.0), -1e9),
    "no scale, a mask": lambda x: op.where(MASK, x, -np.inf),
}


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("name", BETWEEN)
def test_attention_that_is_written_out_is_one_function(batch, name):
    before = module(inputs(*batch), lambda q, k, v: written_out(q, k, v, BETWEEN[name]))
    after = settled(fuse_attention, before)
    assert operators(after) == ["call_tir"]
    assert_same(before, after)


def test_it_is_scheduled_as_the_operator_is():
    """The same blocks as of `op.attention`, in loops of the same kinds."""

    def heads_last(q, k, v):
        q, v = (op.permute_dims(x, (0, 2, 1, 3)) for x in (q, v))
        scores = op.multiply(op.matmul(q, op.permute_dims(k, (0, 2, 3, 1))), 0.5)
        return op.permute_dims(op.matmul(op.softmax(scores), v), (0, 2, 1, 3))

    shape = (2, 32, 4, 16)
    params = [tensor(name, shape) for name in "qkv"]
    both = [
        module(params, heads_last),
        module(params, lambda q, k, v: op.attention(q, k, v, scale=0.5)),
    ]
    built = [mlc.run_passes(mod, passes.default_pipeline) for mod in both]
    names = [[block.name for block in blocks_in(mod["attention"].body)] for mod in built]
    assert names[0] == names[1]
    arrays = [random_array(shape, "float32", np.random.default_rng(at)) for at in range(3)]
    results = [mlc.build(mod, cache=False)["main"](*arrays) for mod in both]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats(dtype):
    before = module(
        inputs(2, dtype=dtype), lambda q, k, v: written_out(q, k, v, BETWEEN["a scale"])
    )
    after = settled(fuse_attention, before)
    assert operators(after) == ["call_tir"]
    assert_same(before, after)


def test_constants_are_arguments():
    """Equal attention on other constants is one function."""
    weights = [
        constant(random_array((SIZE, KEYS), "float32", np.random.default_rng(n)), "float32")
        for n in range(2)
    ]

    def both(q, k, v):
        return tuple(op.matmul(op.softmax(op.matmul(q, one)), v) for one in weights)

    before = module(inputs(), both)
    after = settled(fuse_attention, before)
    assert sorted(after.functions) == ["attention", "main"] and operators(after) == ["call_tir"] * 2
    assert_same(before, after)


@pytest.mark.parametrize(
    "formula",
    [
        lambda q, k, v: op.matmul(op.softmax(op.matmul(q, turned(k)), axis=0), v),
        lambda q, k, v: op.matmul(op.sigmoid(op.matmul(q, turned(k))), v),
        lambda q, k, v: op.softmax(op.matmul(q, turned(k))),
        lambda q, k, v: op.matmul(op.softmax(op.add(q, 1.0)), turned(k)),
    ],
)
def test_what_is_none_stays(formula):
    before = module(inputs(), formula)
    assert fuse_attention(before) is before


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((2, 4), (2, 1), (2, 1)),  # heads that share keys and values
        ((2, 4), (2, 4), (2, 1)),
        ((), (3,), (3,)),
        ((), (), (3,)),
    ],
)
def test_operands_that_are_repeated_stay(q, k, v):
    """No recipe knows how to keep rows of such scores: each product alone is faster."""
    shapes = {"q": (*q, ROWS, SIZE), "k": (*k, KEYS, SIZE), "v": (*v, KEYS, SIZE)}
    params = [tensor(name, shape) for name, shape in shapes.items()]
    before = module(params, lambda q, k, v: written_out(q, k, v))
    assert fuse_attention(before) is before


def test_matrices_of_all_batches():
    params = [tensor("q", (3, ROWS, SIZE)), *inputs()[1:]]
    before = module(params, lambda q, k, v: written_out(q, k, v))
    after = settled(fuse_attention, before)
    assert operators(after) == ["call_tir"]
    assert_same(before, after)


def test_scores_that_others_use_stay():
    def both(q, k, v):
        scores = op.matmul(q, turned(k))
        return op.matmul(op.softmax(scores), v), op.exp(scores)

    before = passes.eliminate_common_subexpr(module(inputs(), both))
    assert operators(before).count("matmul") == 2
    assert fuse_attention(before) is before


def test_sizes_that_a_call_tells():
    params = [tensor(name, ("n", SIZE)) for name in "qkv"]
    before = module(params, lambda q, k, v: written_out(q, k, v))
    assert fuse_attention(before) is before
    main = mlc.build(before, cache=False)["main"]
    rng = np.random.default_rng(0)
    for size in (1, 6):
        q, k, v = (random_array((size, SIZE), "float32", rng) for _ in range(3))
        scores = np.exp(q @ k.T)
        expected = scores / scores.sum(-1, keepdims=True) @ v
        np.testing.assert_allclose(main(q, k, v), expected, rtol=1e-5)
