"""Helpers of the tests of graph passes: small modules, odd inputs, "keeps every bit"."""

import numpy as np

import minimlc as mlc
from minimlc.graphs.ir.nodes import Call, TensorType, Var
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.dtypes import is_float, to_numpy
from tests.helpers import random_array

ODD = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -1.5, 2.5, 3.0, 1e-40, 6e4)
"""Floats at which identities fail; the one before the last is subnormal."""


def tensor(name, shape, dtype="float32"):
    return Var(name, TensorType(shape, dtype))


def module(params, body):
    """A module whose main returns `body(*params)` in a dataflow block."""
    bb = mlc.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            result = body(*params)
            out = [bb.emit_output(part) for part in result] if isinstance(result, tuple) else None
            out = bb.emit_output(result) if out is None else tuple(out)
        bb.emit_func_output(out)
    return verify(bb.get())


def operators(mod, func="main"):
    """The operators of a function, or the joints, in order."""
    values = [binding.value for binding in mod[func].bindings()]
    return [v.op if isinstance(v, Call) else type(v).__name__ for v in values]


def settled(transform, mod):
    """The result without what is unused, well-formed, on which the pass has nothing left to do;
    the module that was given is as it was.
    """
    text = mod.script()
    after = verify(mlc.passes.remove_unused(verify(transform(mod))))
    assert transform(after) is after
    assert mod.script() == text
    return after


def odd_array(shape, dtype, rng):
    """Odd floats in any order; truth values; integers that wrap."""
    if is_float(dtype):
        with np.errstate(all="ignore"):
            return rng.choice(ODD, shape).astype(to_numpy(dtype))
    if dtype == "bool":
        return random_array(shape, dtype, rng)
    limits = np.iinfo(to_numpy(dtype))
    edges = (limits.min, limits.min + 1, 0, 1, 2, 7, limits.max)
    return np.array(rng.choice(edges, shape), to_numpy(dtype))


def odd_inputs(mod, seed=0, func="main"):
    rng = np.random.default_rng(seed)
    return [odd_array(p.shape, p.dtype, rng) for p in mod[func].params]


def same_bits(a, b):
    """Arrays, or tuples of them, that are equal in type and value, the signs of zeros included."""
    if isinstance(a, tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same_bits(one, other)
        return
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if is_float(a.dtype.name):  # in float64, which has all numbers, bfloat16's too
        a, b = a.astype(float), b.astype(float)
        known = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a)[known], np.signbit(b)[known])
    np.testing.assert_array_equal(a, b)


def keeps_bits(before, after, rounds=4):
    """Both modules give the same bits on odd inputs."""
    for seed in range(rounds):
        inputs = odd_inputs(before, seed)
        wanted = mlc.interpret(before, "main", *inputs)
        same_bits(wanted, mlc.interpret(after, "main", *inputs))
