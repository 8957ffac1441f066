"""Many tensors joined: each element is found in few steps, and the build is soon done."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.loops.ir.nodes import Binary, PrimFunc, Select
from minimlc.loops.values.node import nodes_of
from minimlc.script import R
from minimlc.services.native.in_place import joined


def module(name: str, shapes, **options) -> mlc.IRModule:
    bb = mlc.BlockBuilder()
    tensors = [mlc.Var(f"x{at}", R.Tensor(shape, "float32")) for at, shape in enumerate(shapes)]
    with bb.function("main", tensors):
        bb.emit_func_output(bb.emit(getattr(op, name)(tuple(tensors), **options)))
    return bb.get()


def lowered(mod: mlc.IRModule) -> PrimFunc:
    functions = mlc.passes.legalize(mod).functions.values()
    return next(func for func in functions if isinstance(func, PrimFunc))


def depth(value) -> int:
    """How many conditions are asked for an element, at the most."""
    if not isinstance(value, Select):
        return 0
    return 1 + max(depth(value.a), depth(value.b))


@pytest.mark.parametrize(
    "target",
    ["interpreter", "llvm", pytest.param("c", marks=pytest.mark.requires("cc")), "python"],
)
@pytest.mark.parametrize("count", [8, 9, 100])
def test_all_of_many_are_there(count, target):
    shapes = [(at % 4, 3) for at in range(count)]
    arrays = [np.random.default_rng(at).random(shape, "float32") for at, shape in enumerate(shapes)]
    mod = module("concat", shapes, axis=0)
    if target == "interpreter":
        found = mlc.interpret(mod, "main", *arrays)
    else:
        found = mlc.build(mod, target)["main"](*arrays)
    np.testing.assert_array_equal(found, np.concatenate(arrays))


@pytest.mark.parametrize("name", ["concat", "stack"])
def test_an_element_is_found_by_halves(name):
    few, many = (lowered(module(name, [(2, 3)] * count, axis=1)) for count in (8, 128))
    chain, tree = (max(map(depth, nodes_of(func, Select))) for func in (few, many))
    assert chain == 7 and tree == 11  # four halves, and eight that are asked for in turn
    size = len(nodes_of(many, Binary))
    assert size < 20 * len(nodes_of(few, Binary)), "as many conditions as there are tensors"


def test_rows_of_many_are_still_parts_of_the_result():
    func = lowered(module("concat", [(2, 3)] * 100, axis=0))
    assert joined(func) == tuple(range(0, 600, 6))
