"""Orders of many elements by programs of n log n steps."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.graphs.ir.nodes import Call
from minimlc.graphs.passes import sort_long_axes
from minimlc.loops.values.dtypes import is_float
from minimlc.script import R
from minimlc.services.passes.sort_long_axes import FEW, OPERATORS
from tests.passes.rewriting import (
    module,
    odd_array,
    odd_inputs,
    operators,
    same_bits,
    settled,
    tensor,
)

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "int16", "uint8")
SORTED = {
    "argsort": lambda x: op.argsort(x, axis=1),
    "argsort down": lambda x: op.argsort(x, axis=1, descending=True),
    "sort": lambda x: op.sort(x, axis=1),
    "sort down": lambda x: op.sort(x, axis=1, descending=True),
    "topk": lambda x: op.topk(x, k=5, axis=1),
    "least": lambda x: op.topk(x, k=64, axis=1, largest=False),
    "unique": op.padded_unique,
    "nonzero": op.padded_nonzero,
}


def written(mod: mlc.IRModule) -> mlc.IRModule:
    """The module with programs, none of the operators left."""
    after = settled(sort_long_axes, mod)
    assert not set(operators(after)) & set(OPERATORS)
    return after


def parts(both):
    return both[0], both[1]


def agree(before: mlc.IRModule, after: mlc.IRModule, arrays: list[np.ndarray]) -> None:
    wanted = mlc.interpret(before, "main", *arrays)
    same_bits(wanted, mlc.interpret(after, "main", *arrays))
    same_bits(wanted, mlc.build(before)["main"](*arrays))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SORTED)
def test_programs_give_what_the_operators_do(name, dtype):
    """In the middle of three axes, with many that are equal, both zeros, NaN and infinities."""
    before = module([tensor("x", (2, 77, 2), dtype)], SORTED[name])
    agree(before, written(before), odd_inputs(before))


@pytest.mark.parametrize("target", ["c", "python"])
@pytest.mark.parametrize("name", SORTED)
def test_they_do_so_on_other_targets(name, target):
    mod = module([tensor("x", (1, 65))], SORTED[name])
    arrays = odd_inputs(mod)
    wanted = mlc.interpret(mod, "main", *arrays)
    same_bits(wanted, mlc.build(mod, target)["main"](*arrays))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_places_are_found_by_a_program(dtype, right):
    params = [tensor("x", (100,), dtype), tensor("values", (7, 9), dtype)]
    before = module(params, lambda x, values: op.searchsorted(x, values, right=right))
    rng = np.random.default_rng(0)
    x, values = odd_array((100,), dtype, rng), odd_array((7, 9), dtype, rng)
    order = np.argsort(x.astype(float) if is_float(dtype) else x, kind="stable")
    agree(before, written(before), [x[order], values])


@pytest.mark.parametrize("size", [65, 127, 128, 129, 1000, 4096, 4097])
def test_any_number_of_elements(size):
    mod = module([tensor("x", (3, size))], lambda x: (op.argsort(x), *parts(op.topk(x, k=50))))
    rng = np.random.default_rng(size)
    x = rng.integers(0, size // 2, (3, size)).astype("float32")
    x[1].sort()
    x[2] = -np.sort(-x[2])
    order, values, first = mlc.build(mod)["main"](x)
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(first, np.argsort(-x, kind="stable")[:, :50])
    np.testing.assert_array_equal(values, np.take_along_axis(x, first, 1))


@pytest.mark.parametrize("size", [65, 66, 100, 127, 128, 129, 1000])
def test_places_in_any_number_of_elements(size):
    params = [tensor("x", (size,), "int32"), tensor("values", (2 * size + 3,), "int32")]
    mod = module(params, lambda x, v: tuple(op.searchsorted(x, v, right=r) for r in (False, True)))
    x, values = np.arange(size, dtype="int32") * 2, np.arange(-2, 2 * size + 1, dtype="int32")
    for got, side in zip(mlc.build(mod)["main"](x, values), ("left", "right"), strict=True):
        np.testing.assert_array_equal(got, np.searchsorted(x, values, side))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [1, FEW, FEW + 1, 200])
def test_any_number_of_first_ones(k, largest):
    before = module([tensor("x", (2, 200))], lambda x: op.topk(x, k=k, largest=largest))
    agree(before, written(before), odd_inputs(before))


@pytest.mark.parametrize("name", ["argsort", "searchsorted", "sort", "padded_unique"])
def test_options_may_be_left_out_of_a_call(name):
    x = np.arange(80, dtype="float32").reshape(2, 40)
    x = x.ravel() if name == "searchsorted" else x
    args = (tensor("x", x.shape), tensor("v", x.shape))[: 1 + (name == "searchsorted")]
    whole = getattr(op, name)(*args)
    mod = module(args, lambda *args: Call(name, args, (), whole.type))
    assert (sort_long_axes(mod) is mod) == (name in ("argsort", "sort"))  # 40 are few
    arrays = [x] * len(args)
    same_bits(mlc.interpret(mod, "main", *arrays), mlc.build(mod)["main"](*arrays))


def test_places_in_what_is_in_no_order_are_the_same_everywhere():
    params = [tensor("x", (100,)), tensor("values", (50,))]
    before = module(params, op.searchsorted)
    rng = np.random.default_rng(0)
    agree(before, written(before), [rng.standard_normal(p.shape).astype("f4") for p in params])


def test_many_rows_run_on_threads():
    mod = module([tensor("x", (64, 100))], op.argsort)
    (program,) = (f for _, f in written(mod).entries if isinstance(f, mlc.PrimFunc))
    assert "T.parallel(64)" in program.script()
    x = np.random.default_rng(0).standard_normal((64, 100)).astype("float32")
    np.testing.assert_array_equal(mlc.build(mod)["main"](x), np.argsort(x))


def test_an_index_outside_would_be_noticed():
    """The elements that are read depend on data: no check of them finds one outside."""
    mod = module([tensor("x", (2, 99))], lambda x: op.topk(x, k=99))
    x = odd_inputs(mod)
    same_bits(mlc.interpret(mod, "main", *x), mlc.build(mod, bounds="check")["main"](*x))


@pytest.mark.parametrize("size", [0, 1, 64])
def test_few_elements_are_compared_each_with_each(size):
    mod = module([tensor("x", (3, size))], op.argsort)
    assert sort_long_axes(mod) is mod


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SORTED)
def test_threads_of_a_block_merge_rows(name, dtype):
    before = module([tensor("x", (2, 77, 2), dtype)], SORTED[name])
    after = sort_long_axes(before, target="gpusim")
    assert "argsort" not in operators(after)
    arrays = odd_inputs(before)
    wanted = mlc.interpret(before, "main", *arrays)
    same_bits(wanted, mlc.interpret(after, "main", *arrays))
    same_bits(wanted, mlc.build(before, "gpusim")["main"](*arrays))


@pytest.mark.parametrize("size", [65, 96, 257, 700])
def test_rows_of_any_length_on_threads(size):
    mod = module([tensor("x", (2, size), "int32")], op.argsort)
    lib = mlc.build(mod, "gpusim")
    x = np.random.default_rng(size).integers(0, 20, (2, size), "int32")
    np.testing.assert_array_equal(lib["main"](x), np.argsort(x, kind="stable"))
    assert "argsort: 2 blocks of" in lib.source("cuda")


def test_rows_that_no_block_holds_are_compared_by_all_threads():
    """Ranks are a launch of their own: none is computed again."""
    mod = module([tensor("x", (1, 4000), "float64")], op.argsort)
    assert sort_long_axes(mod, target="gpusim") is mod
    mod = module([tensor("x", (5, 50))], op.argsort)
    assert mlc.build(mod, "gpusim").source("cuda").count("__global__") == 2


@pytest.mark.parametrize("target", ["cuda", "opencl", "gpusim"])
def test_gpus_have_programs_of_threads(target):
    mod = module([tensor("x", (3, 100))], op.argsort)
    assert "threadIdx" in sort_long_axes(mod, target=target).script()
    steps = mlc.passes.for_target(target)
    assert sum(getattr(step, "func", None) is sort_long_axes for step in steps) == 1


def test_sizes_that_calls_tell():
    mod = module([mlc.Var("x", R.Tensor(("n",), "float32"))], op.argsort)
    assert sort_long_axes(mod) is mod
    function = mlc.build(mod)["main"]
    for size in (3, 64, 65, 500):
        x = np.random.default_rng(size).standard_normal(size).astype("float32")
        np.testing.assert_array_equal(function(x), np.argsort(x))


def test_one_program_serves_equal_orders():
    x = tensor("x", (80,))
    mod = written(module([x], lambda x: (op.sort(x), op.argsort(x), op.sort(x, descending=True))))
    assert sum(isinstance(func, mlc.PrimFunc) for _, func in mod.entries) == 2


def test_a_vocabulary_is_sorted_in_n_log_n_steps():
    """50 257 elements, each compared with each, are 2.5 thousand million steps: over a second."""
    mod = module([tensor("x", (50257,))], lambda x: (op.argsort(x), *parts(op.topk(x, k=50))))
    x = np.random.default_rng(0).standard_normal(50257).astype("float32")
    order, values, first = mlc.build(mod)["main"](x)
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(first, np.argsort(-x, kind="stable")[:50])
    np.testing.assert_array_equal(values, x[first])
