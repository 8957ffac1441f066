"""Pieces of an array as slices."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.graphs.passes import split_to_slices
from minimlc.services.passes.split_to_slices import MOST
from tests.helpers import assert_same
from tests.passes.rewriting import keeps_bits, module, operators, settled, tensor


@pytest.mark.parametrize(("sections", "axis"), [(4, 1), ([3, 3, 7], -1), (2, 0)])
def test_pieces_become_slices(sections, axis):
    def body(x):
        parts = op.split(x, indices_or_sections=sections, axis=axis)
        return op.tanh(parts[0]), parts[1]

    before = module([tensor("x", (2, 8))], body)
    after = settled(split_to_slices, before)
    assert operators(after).count("strided_slice") == 2 and "split" not in operators(after)
    keeps_bits(before, after)


def test_a_piece_is_read_where_it_is_used():
    def body(x):
        a, b = (op.split(x, indices_or_sections=2, axis=1)[at] for at in range(2))
        return op.multiply(op.sigmoid(a), op.tanh(b))

    lib = mlc.build(module([tensor("x", (3, 8))], body), cache=False)
    functions = [name for name in lib.mod.functions if name != "main"]
    assert len(functions) == 1
    x = np.linspace(-2, 2, 24, dtype="float32").reshape(3, 8)
    means = np.tanh(x[:, 4:]) / (1 + np.exp(-x[:, :4]))
    np.testing.assert_allclose(lib["main"](x), means, rtol=1e-6)


def test_splits_into_many_pieces_stay():
    def body(x):
        return op.tanh(op.split(x, indices_or_sections=2 * MOST, axis=0)[3])

    mod = module([tensor("x", (2 * MOST, 2))], body)
    assert split_to_slices(mod) is mod


def test_a_split_that_is_returned_whole_stays_beside_a_slice():
    bb, x = mlc.BlockBuilder(), tensor("x", (4, 2))
    with bb.function("main", [x]):
        parts = bb.emit(op.split(x, indices_or_sections=2))
        first = bb.emit(op.negative(parts[0]))
        bb.emit_func_output((parts, first))
    before = bb.get()
    after = settled(split_to_slices, before)
    assert {"split", "strided_slice"} <= set(operators(after))
    assert_same(before, after)
