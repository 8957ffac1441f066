"""Random graphs with a symbolic batch: `python -m tests.fuzz.batches --count N`.

The first input's first axis has the size `n`, and so has what is computed from it. One library must
compute for each n what the interpreter does, and for sizes that an operator cannot have refuse as
it does.
"""

import argparse
import random
from collections.abc import Sequence

import numpy as np

import minimlc as mlc
from minimlc.graphs.ir.nodes import Expr, TensorType, Var
from minimlc.loops.values.dtypes import to_numpy
from minimlc.services.sizes.polynomials import sampled
from minimlc.services.sizes.sizes import Size, names_in, size_at, size_of
from tests.fuzz import graphs
from tests.fuzz.detours import agree

SIZES = (2, 7, 1)
MOST = 5
"""Elements along the first input's other axes: shapes to choose from are tried one by one."""


class _Batched(graphs._Writer):
    """Writes graphs whose first input has a symbolic first axis."""

    def param(self, shape: Sequence[int], dtype: str) -> Var:
        first = (size_of("n"), *[min(size, MOST) for size in shape[1:]])
        known = tuple(shape) if self.params else first
        self.params.append(Var(f"x{len(self.params)}", TensorType(known, dtype)))
        return self.params[-1]

    def elements(self, x: Expr) -> graphs.Draw:
        """None that hides, in a wider dtype, how little exact a value is."""
        op, args, attrs = super().elements(x)
        if op == "cast" and x in self.rounded:
            raise mlc.CompileError("it was rounded", code="E000")
        return op, args, attrs

    def axis(self, x: Expr) -> int:
        """One of known size, where there is one: where to cut depends on it."""
        known = [axis for axis, size in enumerate(x.shape) if not isinstance(size, Size)]
        if not known:
            raise mlc.CompileError("no axis of known size", code="E000")
        return self.rng.choice(known)


def batched_graph(seed: int) -> mlc.IRModule:
    with sampled({"n": 101}):  # the writer asks what fits
        return _Batched(random.Random(f"batch {seed}")).graph().mod


def inputs(mod: mlc.IRModule, n: int, seed: int) -> list[np.ndarray]:
    """Whole numbers of the parameters' types where n has this value."""
    rng, arrays = np.random.default_rng([seed, n]), []
    for param in mod["main"].params:
        low, high = {"b": (0, 2), "u": (0, 4)}.get(param.dtype[0], (-3, 4))
        shape = size_at(param.shape, {"n": n})
        arrays.append(np.asarray(rng.integers(low, high, shape)).astype(to_numpy(param.dtype)))
    return arrays


def check(seed: int, sizes: Sequence[int] = SIZES) -> int:
    """How many sizes graph number `seed` was run for; the others are refused by all."""
    mod, count = batched_graph(seed), 0
    assert mlc.structural_equal(mlc.parse(mlc.verify(mod).script()), mod)
    main = mlc.build(mod, cache=False)["main"]
    for n in sizes:
        args = inputs(mod, n, seed)
        try:
            expected = mlc.interpret(mod, "main", *args)
        except mlc.CompileError as error:
            assert error.code == "E136", error
            _refuses(main, args)
            continue
        agree(expected, main(*args), f"n = {n}")
        for kind, array in zip(mod["main"].result.type.fields, expected, strict=True):
            assert size_at(kind.shape, {"n": n}) == array.shape
        count += 1
    return count


def check_instances(seed: int) -> int:
    """How many sizes graph number `seed` was run for: in random order, in one library, each gives
    the bits of a library for that size alone.
    """
    mod, count = batched_graph(seed), 0
    main = mlc.build(mod, cache=False)["main"]
    for n in random.Random(seed).sample(range(1, 20), 4):
        args = inputs(mod, n, seed)
        try:
            alone = mlc.build(mlc.specialize(mod, n=n), cache=False)["main"]
        except mlc.CompileError as error:
            assert error.code == "E136", error
            continue
        for found, expected in zip(main(*args), alone(*args), strict=True):
            assert found.tobytes() == expected.tobytes(), f"n = {n}"
        count += 1
    return count


def _refuses(main, args) -> None:
    try:
        main(*args)
    except mlc.CompileError as error:
        assert error.code == "E136", error
    else:
        raise AssertionError("it computes what the interpreter refuses")


def is_batched(mod: mlc.IRModule) -> bool:
    """Whether the results depend on n."""
    return bool(names_in(tuple(kind.shape for kind in mod["main"].result.type.fields)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.batches")
    parser.add_argument("--count", type=int, default=100, help="graphs in all (100)")
    parser.add_argument("--seed", type=int, default=0, help="the first graph's number (0)")
    parser.add_argument("--alone", action="store_true", help="beside libraries for one size each")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of n (2 7 1)")
    options = parser.parse_args()
    bad = runs = batches = 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            runs += check_instances(seed) if options.alone else check(seed, options.sizes)
            batches += is_batched(batched_graph(seed))
        except Exception as error:
            bad += 1
            print(f"graph {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{options.count} graphs, {batches} with n in their results, {runs} runs: {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
