"""Einstein's sums: numpy's, and by pairs in the order that takes the fewest products."""

import random

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.ir.walks import blocks_in
from minimlc.script import R
from tests.helpers import some_and_more


def module(shapes, subscripts: str) -> mlc.IRModule:
    bb = mlc.BlockBuilder()
    tensors = [mlc.Var(f"x{at}", R.Tensor(shape, "float32")) for at, shape in enumerate(shapes)]
    with bb.function("main", tensors):
        bb.emit_func_output(bb.emit(op.einsum(tensors, subscripts=subscripts)))
    return bb.get()


def drawn(seed: int) -> tuple[str, list[tuple[int, ...]]]:
    """Subscripts with up to five factors, and shapes: some axes of size 1 or 0."""
    rng = random.Random(seed)
    sizes = {letter: rng.choice((0, 1, 2, 3, 3, 4)) for letter in "abcdef"}
    around = [rng.choice((1, 2, 3)) for _ in range(rng.choice((0, 0, 1, 2)))]
    terms, shapes = [], []
    for _ in range(rng.randint(1, 5)):
        letters = rng.choices("abcdef", k=rng.randint(0, 3))
        own = [sizes[c] for c in letters]
        if len({*letters}) == len(letters):
            own = [rng.choice((size, size, size, 1)) for size in own]
        dots = [rng.choice((size, 1)) for size in around[rng.randint(0, len(around)) :]]
        terms.append(f"...{''.join(letters)}" if around else "".join(letters))
        shapes.append((*dots, *own) if around else tuple(own))
    used = sorted({*"".join(terms)} - {"."})
    out = "".join(rng.sample(used, rng.randint(0, len(used))))
    arrow = f"->{'...' if around else ''}{out}" if rng.random() < 0.8 else ""
    return f"{','.join(terms)}{arrow}", shapes


@pytest.mark.parametrize("seeds", some_and_more(range(12), range(300)), ids=len)
def test_it_is_numpys(seeds):
    for seed in seeds:
        subscripts, shapes = drawn(seed)
        rng = np.random.default_rng(seed)
        arrays = [rng.integers(-2, 3, shape).astype("float32") for shape in shapes]
        expected = np.einsum(subscripts, *arrays)
        mod = module(shapes, subscripts)
        assert mod["main"].result.type.shape == expected.shape
        np.testing.assert_array_equal(mlc.interpret(mod, "main", *arrays), expected)
        np.testing.assert_array_equal(mlc.build(mod, "python")["main"](*arrays), expected)


def nests(shapes, subscripts: str) -> list[tuple[int, ...]]:
    """The extents of the loops that each product takes."""
    lowered = mlc.passes.legalize(module(shapes, subscripts))
    (func,) = (func for _, func in lowered.entries if isinstance(func, PrimFunc))
    return [tuple(sorted(it.extent for it in block.iters)) for block in blocks_in(func.body)]


def test_pairs_come_in_the_order_that_takes_the_fewest_products():
    chain = [(7, 5), (5, 6), (6, 2)]
    assert nests(chain, "ij,jk,kl->il") == [(2, 5, 6), (2, 5, 7)]
    assert nests([*chain, (2, 30)], "ij,jk,kl,lm->im")[-1] == (2, 7, 30)
    many = [(3, 3)] * 10
    assert nests(many, "ab,bc,cd,de,ef,fg,gh,hi,ij,jk->ak") == [(3, 3, 3)] * 9


def test_a_letter_of_one_factor_is_summed_before():
    assert nests([(5, 6), (7,)], "ij,k->i") == [(5, 6), (7,), (5,)]


def test_one_nest_stays_where_pairs_save_nothing():
    assert nests([(5, 6)] * 3, "ij,ij,ij->i") == [(5, 6)]
    assert nests([(2,), (3,), (4,)], "i,j,k->ijk") == [(2, 3, 4)]
    assert nests([(5, 6), (6, 7)], "ij,jk->ik") == [(5, 6, 7)]
