"""Scatters and running sums: their rows and columns on threads, in vectors."""

import numpy as np
import pytest

import minimlc as mlc
from benchmarks.programs import graph
from minimlc import op
from minimlc.loops.ir.walks import loops_in
from tests.recipes.programs import target


def kinds(mod: mlc.IRModule) -> list[tuple[str, int]]:
    """The loops around steps, behind the loops of their start."""
    every = [(loop.kind, loop.extent.value) for loop in loops_in(mod["main"].body)]
    return every[len(mod["main"].params[-1].shape) :]


def applied(mod: mlc.IRModule) -> mlc.IRModule:
    """The graph's one function by recipes."""
    steps = mlc.passes.for_target(target(256, cores=4))
    made = mlc.run_passes(mod, steps)
    (func,) = [f for _, f in made.entries if isinstance(f, mlc.PrimFunc)]
    return mlc.IRModule.of({"main": func})


@pytest.mark.parametrize(
    ("shape", "axis", "loops"),
    [
        ((300, 1000), 1, [("parallel", 20), ("vectorized", 15), ("serial", 999)]),
        ((300, 1000), 0, [("parallel", 4), ("serial", 299), ("vectorized", 250)]),
        ((8, 4096, 16), 1, [("parallel", 8), ("serial", 4095), ("vectorized", 16)]),
        ((4000, 64), 0, [("serial", 3999), ("vectorized", 64)]),  # too narrow to be cut
        ((500, 521), 0, [("serial", 499), ("vectorized", 521)]),  # a prime
        ((10**6,), 0, [("serial", 10**6 - 1)]),
        ((20, 30), 1, [("vectorized", 20), ("serial", 29)]),  # little work
    ],
    ids=str,
)
def test_a_running_sum(shape, axis, loops):
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    mod = applied(graph(lambda x: op.cumsum(x, axis=axis), x))
    assert kinds(mod) == loops
    out = np.empty_like(x)
    mlc.build(mod, cache=False)["main"](x, out)
    np.testing.assert_array_equal(out, np.cumsum(x, axis))


def test_rows_that_are_added_go_in_vectors():
    rng = np.random.default_rng(0)
    x, new = (rng.standard_normal((rows, 1024), np.float32) for rows in (50, 90))
    at = rng.integers(0, 50, (90, 1))
    mod = applied(graph(lambda *a: op.scatter_nd(*a, reduction="add"), x, at, new))
    assert kinds(mod) == [("parallel", 4), ("serial", 90), ("vectorized", 256)]
    out = np.empty_like(x)
    mlc.build(mod, cache=False)["main"](x, at, new, out)
    np.add.at(x, at[:, 0], new)
    np.testing.assert_array_equal(out, x)
