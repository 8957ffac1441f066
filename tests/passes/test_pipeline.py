"""The default pipeline on random graphs, and its work on large ones."""

import numpy as np
import pytest

from minimlc import passes
from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import TensorType, TupleGetItem, Var, call_dps_packed, constant
from minimlc.graphs.ir.registry import register_func
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.module import IRModule, run_passes
from minimlc.loops.values.node import structural_equal
from minimlc.loops.values.target import Target
from minimlc.script import parse
from minimlc.services.build import build
from tests.helpers import assert_same, calls

pytestmark = pytest.mark.many

SQUARE = TensorType((4, 4), "float32")
UNARY = (op.relu, op.tanh, op.sigmoid, op.negative, op.softmax, op.permute_dims, op.gelu)
BINARY = (op.add, op.multiply, op.subtract, op.maximum, op.matmul)


@register_func("tests.passes.halve")
def halve(x, out):
    np.from_dlpack(out)[...] = np.from_dlpack(x) / 2


def random_module(seed, count=24):
    """Squares, rows and columns: shared, dead and constant values, tuples, several results.

    A dataflow block first, then a block that may have effects; registered functions in both.
    """
    rng = np.random.default_rng(seed)
    x, y = Var("x", SQUARE), Var("y", SQUARE)
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        pool = [x, y, constant(rng.uniform(-1, 1, (4, 4)).astype(np.float32))]
        with bb.dataflow():
            for _ in range(count // 2):
                pool.append(bb.emit_output(_random_call(rng, bb, pool)))
        for _ in range(count // 2):
            pool.append(bb.emit(_random_call(rng, bb, pool)))
        bb.emit_func_output((pool[-1], pool[-5]))
    return bb.get()


def _random_call(rng, bb, pool):
    a, b = (pool[rng.integers(max(0, len(pool) - 8), len(pool))] for _ in range(2))
    match int(rng.integers(0, 10)):
        case 0:
            return op.add(a, bb.emit(op.mean(b, axis=int(rng.integers(0, 2)), keepdims=True)))
        case 1:
            halves = bb.emit(op.split(a, 2, axis=1))
            return op.concat([TupleGetItem(halves, 1), TupleGetItem(halves, 0)], axis=1)
        case 2:
            return op.tanh(bb.emit(op.dense(a, b)))
        case 3:
            return call_dps_packed("tests.passes.halve", (a,), SQUARE)
        case 4 | 5:
            return UNARY[rng.integers(0, len(UNARY))](a)
        case _:
            return op.tanh(bb.emit(BINARY[rng.integers(0, len(BINARY))](a, b)))


@pytest.mark.parametrize("seed", range(25))
def test_every_pass_keeps_the_meaning(seed):
    mod = verify(random_module(seed))
    text = mod.script()
    start = mod
    for step in passes.default_pipeline:
        after = verify(step(mod))
        assert_same(mod, after, func="main", seed=seed)
        assert step(after) is after
        mod = after
    assert start.script() == text


def _layer(n, h, before, x, w):
    match n % 8:
        case 0:
            return op.matmul(h, w)
        case 1:
            return op.add(h, before)
        case 2:
            return op.relu(h)
        case 3:
            return op.multiply(h, np.float32(n))
        case 4:
            return op.permute_dims(h)
        case 5:
            return op.softmax(h)
        case 6:
            return op.subtract(h, x)
        case _:
            return op.exp(h)


def large_module(count):
    x, w = Var("x", TensorType((8, 8), "float32")), Var("w", TensorType((8, 8), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x, w]):
        with bb.dataflow():
            h, before = x, x
            for n in range(count):
                h, before = bb.emit(_layer(n, h, before, x, w)), h
            bb.emit_output(h)
        bb.emit_func_output(h)
    return bb.get()


def calls_per_step(count):
    """The work of building, printing, parsing, verifying and each pass, as function calls."""
    steps = [("build", lambda _: large_module(count)), ("print", IRModule.script)]
    steps += [("parse", parse), ("verify", verify)]
    steps += [(f"{n} {step.__name__}", step) for n, step in enumerate(passes.default_pipeline)]
    made = {}
    values = [None]
    for name, step in steps:
        made[name] = calls(lambda step=step: values.append(step(values[-1])))
    return made


def test_work_grows_linearly_with_the_graph():
    calls_per_step(20)
    small, large = calls_per_step(200), calls_per_step(2000)
    assert {n: large[n] / small[n] for n in small if large[n] > 10.5 * small[n] + 1000} == {}


def test_a_large_graph_still_runs():
    mod = large_module(40)
    after = verify(mod)
    for step in passes.default_pipeline:
        after = verify(step(after))
    x = np.eye(8, dtype=np.float32)
    w = np.full((8, 8), 0.1, np.float32)
    np.testing.assert_allclose(
        interpret(after, "main", x, w), interpret(mod, "main", x, w), rtol=1e-4, atol=1e-5
    )


PRODUCT = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((64, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y
""")


def test_a_pipelines_recipes_are_for_a_target():
    narrow = Target("llvm", "x86-64", "+sse2", vector_bits=128)
    made = [run_passes(PRODUCT, passes.for_target(each)) for each in (narrow, "gpusim", None)]
    assert not structural_equal(made[0], made[1])
    assert "threadIdx.x" in made[1].script() and "threadIdx.x" not in made[0].script()
    assert structural_equal(made[2], run_passes(PRODUCT, passes.default_pipeline))
    assert passes.for_target(narrow, [passes.legalize]) == (passes.legalize,)
    library = build(PRODUCT, "gpusim", pipeline=[passes.simplify, *passes.default_pipeline])
    assert "threadIdx.x" in library.source("cuda")
