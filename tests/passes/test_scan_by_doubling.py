"""Running sums in log n steps, for GPUs."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.graphs.passes import scan_by_doubling
from minimlc.script import R
from minimlc.services.arrays.scan import PARALLEL
from tests.passes.rewriting import module, odd_inputs, operators, same_bits, settled, tensor


def doubled(mod):
    after = settled(lambda mod: scan_by_doubling(mod, target="cuda"), mod)
    assert not set(operators(after)) & set(PARALLEL)
    return after


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
@pytest.mark.parametrize("name", PARALLEL)
def test_the_steps_give_what_the_operator_does(name, dtype, reverse):
    """Of numbers that do not round: to the bit."""
    scan = getattr(op, name)
    body = lambda x: scan(x, axis=1, exclusive=reverse, reverse=reverse)  # noqa: E731
    before = module([tensor("x", (2, 77, 3), dtype)], body)
    after, arrays = doubled(before), odd_inputs(before)
    wanted = mlc.interpret(before, "main", *arrays)
    same_bits(wanted, mlc.interpret(after, "main", *arrays))
    same_bits(wanted, mlc.build(before, "gpusim")["main"](*arrays))


@pytest.mark.parametrize("name", PARALLEL)
def test_sums_of_floats_round_otherwise(name):
    before = module([tensor("x", (100,))], lambda x: getattr(op, name)(x, axis=0))
    x = np.random.default_rng(0).uniform(0.5, 1.5, 100).astype("float32")
    wanted = mlc.interpret(before, "main", x)
    np.testing.assert_allclose(mlc.interpret(doubled(before), "main", x), wanted, rtol=1e-5)


def test_each_step_is_for_all_elements():
    mod = doubled(module([tensor("x", (100,))], lambda x: op.cumsum(x, axis=0)))
    (func,) = (f for _, f in mod.entries if isinstance(f, mlc.PrimFunc))
    names = mlc.Schedule(mlc.IRModule.of({"main": func}), check=False).blocks()
    assert names == [*(f"cumsum_{2**step}" for step in range(6)), "cumsum"]


@pytest.mark.parametrize("shape", [(32,), (1 << 15, 40)])
def test_short_axes_and_many_rows_stay(shape):
    mod = module([tensor("x", shape)], lambda x: op.cumsum(x, axis=-1))
    assert scan_by_doubling(mod, target="cuda") is mod


@pytest.mark.parametrize("target", ["llvm", "c", "python"])
def test_cpus_take_one_after_the_other(target):
    mod = module([tensor("x", (100,))], lambda x: op.cumsum(x, axis=0))
    assert scan_by_doubling(mod, target=target) is mod


def test_sizes_that_calls_tell_stay():
    x = mlc.Var("x", R.Tensor(("n",), "float32"))
    mod = module([x], lambda x: op.cumsum(x, axis=0))
    assert scan_by_doubling(mod, target="cuda") is mod
