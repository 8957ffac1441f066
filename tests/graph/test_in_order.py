"""Scatters and scans: one element after the other, at the cost of elements and updates."""

from math import prod

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.deploy.work import runs
from minimlc.graphs.ir.nodes import tensor_types
from minimlc.graphs.ops import OPS
from minimlc.loops.proofs.access import accesses
from minimlc.loops.values.dtypes import to_numpy
from minimlc.script import R
from tests.graph.op_cases import Case, samples
from tests.helpers import random_array, refuses
from tests.passes.rewriting import module, same_bits, tensor

TARGETS = ("llvm", "c", "python")
AT = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
DTYPES = ("float64", "float32", "int64", "int32", "int8", "uint8")


def agree(mod, wanted, *arrays, targets=TARGETS):
    """The interpreter and every target give these bits."""
    same_bits(wanted, mlc.interpret(mod, "main", *arrays))
    for target in targets:
        lib = mlc.build(mod, target)
        same_bits(wanted, lib["main"](*arrays))


def updated(x, places, new, reduction):
    x = x.copy()
    if reduction == "none":
        for at in np.ndindex(new.shape):
            x[tuple(place[at] for place in places)] = new[at]
    else:
        AT[reduction].at(x, places, new)
    return x


@pytest.mark.requires("cc")
@pytest.mark.parametrize("reduction", ["none", *AT])
@pytest.mark.parametrize(
    ("shape", "own", "axis"),
    [
        ((9,), (30,), 0),
        ((4, 3), (11, 3), 0),
        ((3, 4), (3, 9), 1),
        ((2, 3, 4), (1, 3, 1), 0),  # fewer along the other axes
        ((4, 5), (3, 8), -1),
        ((5, 1, 3), (2, 1, 2), 2),
    ],
)
def test_updates_are_made_in_order(shape, own, axis, reduction):
    """Several to an element, negative places and such out of range; to the bit."""
    dtype = DTYPES[(len(shape) + len(reduction) + own[0]) % len(DTYPES)]
    rng = np.random.default_rng(0)
    x, new = random_array(shape, dtype, rng), random_array(own, dtype, rng)
    size = shape[axis]
    indices = rng.integers(-size - 2, size + 2, own)
    places = list(np.indices(own))
    places[axis] = np.clip(np.where(indices < 0, indices + size, indices), 0, size - 1)
    params = [tensor("x", shape, dtype), tensor("i", own, "int64"), tensor("u", own, dtype)]
    mod = module(
        params, lambda x, i, u: op.scatter_elements(x, i, u, axis=axis, reduction=reduction)
    )
    agree(mod, updated(x, tuple(places), new, reduction), x, indices, new)


@pytest.mark.parametrize("reduction", ["none", *AT])
@pytest.mark.parametrize(("shape", "own"), [((5, 3), (8, 1)), ((4, 3), (2, 5, 2)), ((6,), (9, 1))])
def test_updates_of_parts_are_made_in_order(shape, own, reduction):
    rng = np.random.default_rng(1)
    inner = shape[own[-1] :]
    x, new = (random_array(s, "float32", rng) for s in (shape, (*own[:-1], *inner)))
    indices = np.stack([rng.integers(-n, n, own[:-1]) for n in shape[: own[-1]]], -1)
    columns = np.moveaxis(indices, -1, 0) % np.reshape(
        shape[: own[-1]], (-1, *[1] * (len(own) - 1))
    )
    wanted = x.copy()
    for at in np.ndindex(own[:-1]):
        place = tuple(columns[(slice(None), *at)])
        wanted[place] = new[at] if reduction == "none" else AT[reduction](wanted[place], new[at])
    params = [tensor("x", shape), tensor("i", own, "int64"), tensor("u", new.shape)]
    mod = module(params, lambda x, i, u: op.scatter_nd(x, i, u, reduction=reduction))
    agree(mod, wanted, x, indices, new, targets=("llvm", "python"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_sixteen_bits_are_added_up_in_float32(dtype, reduction):
    rng = np.random.default_rng(2)
    x, new = (random_array((n,), dtype, rng) for n in (4, 50))
    places = rng.integers(0, 4, 50)
    wide = updated(x.astype("float32"), (places,), new.astype("float32"), reduction)
    params = [tensor("x", (4,), dtype), tensor("i", (50,), "int64"), tensor("u", (50,), dtype)]
    mod = module(params, lambda x, i, u: op.scatter_elements(x, i, u, reduction=reduction))
    agree(mod, wide.astype(to_numpy(dtype)), x, places, new, targets=("llvm",))


def test_gathers_may_have_fewer_indices_along_other_axes():
    x, indices = np.arange(12, dtype="float32").reshape(3, 4), np.array([[2, -3], [9, 1]])
    mod = module(
        [tensor("x", (3, 4)), tensor("i", (2, 2), "int64")],
        lambda x, i: op.take_along_axis(x, i, axis=0),
    )
    agree(mod, x[[[2, 0], [2, 1]], [[0, 1], [0, 1]]], x, indices)


def test_and_not_more_of_them():
    x, i = tensor("x", (3, 4)), tensor("i", (2, 5), "int64")
    words = ("indices has shape (2, 5)", "only axis 0 may be longer")
    refuses("E203", lambda: op.take_along_axis(x, i, axis=0), *words)
    refuses("E203", lambda: op.scatter_elements(x, i, tensor("u", (2, 5))), *words)


SCANS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}
START = {"cumsum": 0, "cumprod": 1, "cummax": -np.inf, "cummin": np.inf}


@pytest.mark.requires("cc")
@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize(
    ("shape", "axis"), [((70,), 0), ((40, 3), 0), ((3, 40), 1), ((2, 9, 4), -2), ((1, 3), 0)]
)
def test_scans_combine_one_after_the_other(name, shape, axis):
    """So their sums round as numpy's: from the first to the last, each once."""
    x = random_array(shape, "float32", np.random.default_rng(0))
    mod = module([tensor("x", shape)], lambda x: getattr(op, name)(x, axis=axis))
    agree(mod, SCANS[name].accumulate(x, axis), x)


@pytest.mark.parametrize("name", SCANS)
def test_scans_backwards_and_without_themselves(name):
    x = random_array((3, 7), "float32", np.random.default_rng(0))
    backwards = SCANS[name].accumulate(x[:, ::-1], 1)
    start = np.full((3, 1), START[name], "float32")
    wanted = np.concatenate([start, backwards[:, :-1]], 1)[:, ::-1]
    scan = getattr(op, name)
    mod = module([tensor("x", (3, 7))], lambda x: scan(x, axis=1, exclusive=True, reverse=True))
    agree(mod, np.ascontiguousarray(wanted), x, targets=("llvm", "python"))


def test_sizes_that_calls_tell():
    x, u = mlc.Var("x", R.Tensor(("n",), "float32")), mlc.Var("u", R.Tensor(("m",), "float32"))
    i = mlc.Var("i", R.Tensor(("m",), "int64"))
    added = module([x, i, u], lambda x, i, u: op.scatter_elements(x, i, u, reduction="add"))
    summed = module([x], lambda x: op.cumsum(x, axis=0))
    scatter, scan = mlc.build(added)["main"], mlc.build(summed)["main"]
    rng = np.random.default_rng(0)
    for n, m in ((3, 9), (50, 1), (4, 0)):
        a, b = rng.standard_normal(n, np.float32), rng.standard_normal(m, np.float32)
        at = rng.integers(0, n, m)
        same_bits(updated(a, (at,), b, "add"), scatter(a, at, b))
        same_bits(np.cumsum(a), scan(a))


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_threads_of_a_gpu_agree_with_numpy(reduction):
    rng = np.random.default_rng(0)
    x, new = rng.standard_normal((20, 30), np.float32), rng.standard_normal((25, 30), np.float32)
    at = rng.integers(0, 20, (25, 30))
    params = [tensor("x", x.shape), tensor("i", at.shape, "int64"), tensor("u", new.shape)]
    mod = module(params, lambda x, i, u: op.scatter_elements(x, i, u, reduction=reduction))
    wanted = updated(x, (at, np.indices(at.shape)[1]), new, reduction)
    same_bits(wanted, mlc.build(mod, "gpusim")["main"](x, at, new))
    text = mlc.build(mod, "cuda").source("cuda")
    assert "atomic" not in text and "threadIdx.x" in text


# Their cost


def cost(mod, outputs):
    """Elements that its loops write, and elements of its inputs and outputs."""
    steps = [p for p in mlc.passes.default_pipeline if p is not mlc.recipes.apply]
    lowered = mlc.run_passes(mod, steps)
    funcs = [f for _, f in lowered.entries if isinstance(f, mlc.PrimFunc)]
    counts = [runs(access) for func in funcs for access in accesses(func) if access.is_write]
    types = [*(v.type for v in mod["main"].params), *outputs]
    return sum(counts), sum(prod(t.shape) for t in types)


LINEAR = (
    *("scatter_elements", "scatter_nd", "take_along_axis", "gather_nd", "take", "one_hot", "first"),
    *("cumsum", "cumprod", "cummax", "cummin", "any", "all", "argmax", "sum", "prod", "hardmax"),
    *("roll", "flip", "tile", "repeat", "pad", "split", "slice_scatter", "diagonal", "nll_loss"),
    *("depth_to_space", "space_to_depth", "concat", "stack", "masked_fill", "where", "tril"),
)


@pytest.mark.parametrize("name", LINEAR)
def test_operators_whose_work_grows_as_their_elements(name):
    """Any size of a sample four times as large: the work per element stays the same."""

    def wider(shape, size, times):
        if isinstance(shape, list):
            return [wider(part, size, times) for part in shape]
        return tuple(times * n if n == size else n for n in shape)

    tried = 0
    for number, (shapes, attrs) in enumerate(samples(name)):
        flat = [part for s in shapes for part in (s if isinstance(s, list) else [s])]
        for size in {n for shape in flat for n in shape if n > 1}:
            found = []
            for times in (16, 64):
                case = Case(
                    name, OPS[name].dtypes[0], number, wider(list(shapes), size, times), attrs
                )
                try:
                    found.append(cost(case.graph(), tensor_types(case.call.type)))
                except mlc.CompileError:  # not a sample any more
                    break
            if len(found) == 2 and min(found)[1]:
                (small, before), (large, after) = found
                assert large * before <= 1.3 * small * after, (shapes, attrs, size)
                tried += 1
    assert tried
