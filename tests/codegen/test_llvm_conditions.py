"""Vectors of conditions have lanes for one register: LLVM keeps more of them bit by bit."""

import re

import numpy as np
import pytest

import minimlc as mlc
from benchmarks.programs import graph
from minimlc import op

WORK = {
    "any": lambda x: op.any(x),
    "all": lambda x: op.all(x),
    "any of rows": lambda x: op.any(op.reshape(x, shape=(7, 100)), axis=1),
    "all that do not": lambda x: op.all(op.logical_not(x)),
    "one by one": lambda x: op.logical_and(x, op.logical_not(x)),
}


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("name", WORK)
def test_lanes_of_conditions_fill_one_register(name, bits):
    x = np.zeros(700, bool)
    target = mlc.Target("llvm", "x86-64-v3", vector_bits=bits)
    text = mlc.build(graph(WORK[name], x), target, cache=False).source("llvm")
    lanes = {int(n) for n in re.findall(r"<(\d+) x i1>", text)}
    assert max(lanes, default=0) <= bits // 8


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("at", [None, 0, 31, 350, 699])
@pytest.mark.parametrize("kept", [False, True])
def test_each_lane_counts(name, at, kept):
    """One that differs from all others, wherever it is."""
    x = np.full(700, kept)
    if at is not None:
        x[at] = not kept
    mod = graph(WORK[name], x)
    np.testing.assert_array_equal(mlc.build(mod)["main"](x), mlc.interpret(mod, "main", x))


@pytest.mark.parametrize("name", WORK)
def test_every_byte_but_zero_holds(name):
    x = np.zeros(700, np.uint8)
    x[[5, 699]] = 2, 128
    x = x.view(bool)
    mod = graph(WORK[name], x)
    np.testing.assert_array_equal(mlc.build(mod)["main"](x), mlc.interpret(mod, "main", x != 0))
