"""Random graphs, written in a longer way: `python -m tests.fuzz.detours --count N`.

`graphs.random_graph` writes a graph; here some of its values take a detour that changes no bit (a
product by 1, two transposes, a dtype that holds all values ...). What every graph pass makes of it
must compute what the interpreter computes of the graph as it was, and come to rest.
"""

import argparse
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

import minimlc as mlc
from minimlc import op, passes
from minimlc.graphs.ir.nodes import Call, Expr, TensorType, constant
from minimlc.loops.values.dtypes import is_float, is_integer
from minimlc.loops.values.module import IRModule
from minimlc.services.passes.inline import inline
from minimlc.services.patterns.pattern import p
from minimlc.services.sizes.sizes import names_in
from tests.fuzz.graphs import Graph, random_graph
from tests.fuzz.subject import NEAR
from tests.passes.rewriting import keeps_bits

Detour = Callable[[Expr, random.Random], Expr]
WIDER = {"float32": "float64", "int8": "int32", "uint8": "int64", "int32": "int64", "bool": "int8"}


def _ones(x: Expr, rng: random.Random) -> Expr:
    """The number 1, a row of it, or as many as x has, where that is a number."""
    shape = rng.choice([(), x.shape[-1:], x.shape])
    return constant(np.ones(() if names_in(shape) else shape), x.dtype)


def _any(x: Expr, rng: random.Random) -> list[Detour]:
    """Detours for every dtype."""
    order = rng.sample(range(len(x.shape)), len(x.shape))
    back = tuple(order.index(axis) for axis in range(len(order)))
    return [
        lambda x, _: op.permute_dims(op.permute_dims(x, tuple(order)), back),
        lambda x, _: op.reshape(op.flatten(x), x.shape),
        lambda x, _: op.squeeze(op.expand_dims(x, 0), 0),
        lambda x, _: op.flip(op.flip(x, 0), 0) if x.shape else op.reshape(x, ()),
        lambda x, _: op.concat([x], axis=0) if x.shape else x,
        lambda x, _: op.broadcast_to(x, x.shape),
        lambda x, _: op.cast(op.cast(x, WIDER[x.dtype]), x.dtype) if x.dtype in WIDER else x,
        lambda x, _: op.where(constant(np.array(True)), x, op.zeros_like(x)),
    ]


def _numbers(x: Expr) -> list[Detour]:
    return [
        lambda x, rng: op.multiply(_ones(x, rng), x),
        lambda x, _: op.negative(op.negative(x)),
        lambda x, _: op.subtract(x, constant(0, x.dtype)),
        lambda x, _: op.maximum(x, x),
        lambda x, _: op.subtract(op.zeros_like(x), op.negative(x)) if is_integer(x.dtype) else x,
    ]


def _floats() -> list[Detour]:
    return [
        lambda x, rng: op.divide(x, _ones(x, rng)),
        lambda x, _: op.add(x, constant(-0.0, x.dtype)),
        lambda x, _: op.multiply(op.divide(x, constant(4.0, x.dtype)), constant(4.0, x.dtype)),
    ]


def _minus(x: Expr) -> Expr:
    """The number whose square is 1: -1, which uint8 calls 255."""
    return constant(255 if x.dtype == "uint8" else -1, x.dtype)


def _integers() -> list[Detour]:
    return [
        lambda x, _: op.add(op.subtract(x, x), x),
        lambda x, _: op.subtract(op.add(x, op.ones_like(x)), op.ones_like(x)),
        lambda x, _: op.multiply(op.multiply(x, _minus(x)), _minus(x)),
        lambda x, _: op.bitwise_or(op.bitwise_and(x, x), constant(0, x.dtype)),
    ]


def _truths() -> list[Detour]:
    return [
        lambda x, _: op.logical_not(op.logical_not(x)),
        lambda x, _: op.logical_and(x, constant(np.array(True))),
    ]


def detours(x: Expr, rng: random.Random) -> list[Detour]:
    """Ways of writing x that change no bit."""
    if not isinstance(x.type, TensorType) or x.dtype == "bool":
        return _any(x, rng) + _truths() if isinstance(x.type, TensorType) else []
    own = _floats() if is_float(x.dtype) else _integers()
    return _any(x, rng) + _numbers(x) + own


class _Detours(mlc.Mutator):
    """About every other value takes one or two."""

    def __init__(self, rng: random.Random):
        self.rng = rng

    def visit_Call(self, call: Call) -> Expr:
        if call.op == "divide" or self.rng.random() < 0.4:
            return call
        value: Expr = self.builder.emit(call)
        for _ in range(self.rng.choice((1, 2))):
            ways = detours(value, self.rng)
            if ways:
                value = self.rng.choice(ways)(value, self.rng)
        if self.rng.random() < 0.3 and isinstance(value, Call):
            value = self.builder.emit(value)
        return value


def with_detours(graph: Graph, seed: int) -> IRModule:
    """The graph's module, written in a longer way."""
    return mlc.verify(_Detours(random.Random(f"detours {seed}"))(graph.mod))


x, y = p.wildcard("x"), p.wildcard("y")
STEPS: dict[str, Sequence[Callable[[IRModule], IRModule]]] = {
    "simplify": (passes.simplify,),
    "fold_transposes": (passes.simplify, passes.fold_transposes),
    "split_to_slices": (passes.split_to_slices, passes.remove_unused),
    "sort_long_axes": (passes.sort_long_axes,),
    "scan_by_doubling": (partial(passes.scan_by_doubling, target="cuda"),),
    "combine": (passes.combine_parallel_matmul, passes.fold_constants),
    "partition": (partial(passes.partition, pattern=(x + y).optional(p.relu), name="sums"),),
    "inline": (partial(passes.partition, pattern=-x | p.relu(x), name="some"), inline),
    "interfaces": (
        partial(passes.partition, pattern=x * y, name="products"),
        passes.remove_unused_parameters,
        passes.remove_unused_outputs,
    ),
    "before loops": passes.default_pipeline[: passes.default_pipeline.index(passes.legalize)],
}
"""The passes that are tried on each graph, one after the other."""
AT_REST = ("simplify", "sort_long_axes", "scan_by_doubling", "fold_transposes", "before loops")


def check(seed: int) -> None:
    """Every pass keeps what graph number `seed` computes, up to rounding where it rounds."""
    graph = random_graph(seed)
    wanted = mlc.interpret(graph.mod, "main", *graph.inputs)
    longer = with_detours(graph, seed)
    agree(wanted, mlc.interpret(longer, "main", *graph.inputs), "detours")
    for name, steps in STEPS.items():
        after = mlc.verify(mlc.run_passes(longer, steps))
        agree(wanted, mlc.interpret(after, "main", *graph.inputs), name)
        if name in AT_REST:
            again = steps[-1](after)
            assert again is after, f"{name} does not come to rest"


def check_bits(seed: int) -> None:
    """On odd floats (NaN, infinities, -0.0, subnormals) and integers that wrap, `simplify` keeps
    every bit of the results of graph number `seed`.

    Left out are graphs that convert floats to integers: what NaN becomes depends on its place.
    """
    mod = with_detours(random_graph(seed), seed)
    calls = [b.value for b in mod["main"].bindings() if isinstance(b.value, Call)]
    casts = [call for call in calls if call.op == "cast" and is_float(call.args[0].dtype)]
    if all(is_float(call.dtype) for call in casts):
        keeps_bits(mod, passes.simplify(mod), rounds=2)


def agree(wanted: Iterable[np.ndarray], got: Iterable[np.ndarray], step: str) -> None:
    for a, b in zip(wanted, got, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), step
        near = NEAR.get(a.dtype.name, 0)
        with np.errstate(all="ignore"):
            scale = np.nanmax(np.abs(np.where(np.isfinite(a), a, 0)), initial=1)
        np.testing.assert_allclose(b, a, rtol=near, atol=near * float(scale), err_msg=step)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.detours")
    parser.add_argument("--count", type=int, default=100, help="graphs in all (100)")
    parser.add_argument("--seed", type=int, default=0, help="the first graph's number (0)")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            check(seed)
            check_bits(seed)
        except Exception as error:
            bad += 1
            print(f"graph {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{options.count} graphs: {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
