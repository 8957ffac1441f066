"""Recurrent layers as operators, step after step."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.graphs.passes import unroll_recurrent
from tests.passes.rewriting import module, operators, settled, tensor

GATES = {"rnn": 1, "lstm": 4, "gru": 3}


def layer(name: str, steps: int, hidden: int = 4, dtype: str = "float32", **attrs) -> mlc.IRModule:
    rows = GATES[name] * hidden
    shapes = ((steps, 2, 3), (rows, 3), (rows, hidden), (rows,))
    params = [tensor(f"p{n}", shape, dtype) for n, shape in enumerate(shapes)]
    return module(params, lambda *args: getattr(op, name)(*args, **attrs))


def arrays_for(mod: mlc.IRModule) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    types = [param.type for param in mod["main"].params]
    return [random.standard_normal(t.shape).astype(t.dtype) / 2 for t in types]


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_a_layer_becomes_its_steps(name, reverse, dtype):
    before = layer(name, 3, dtype=dtype, reverse=reverse)
    after = settled(unroll_recurrent, before)
    assert name not in operators(after) and operators(after).count("dense") == 4
    arrays = arrays_for(before)
    ways = [mlc.interpret(after, "main", *arrays), mlc.build(before)["main"](*arrays)]
    limit = {"float32": 1e-5, "float64": 1e-12}.get(dtype, 2e-2)
    for way in ways:
        for result, wanted in zip(way, mlc.interpret(before, "main", *arrays), strict=True):
            assert result.dtype == wanted.dtype and result.shape == wanted.shape
            np.testing.assert_allclose(result.astype(float), wanted.astype(float), limit, limit)


def test_the_steps_share_their_kernels():
    few, many = (
        mlc.run_passes(layer("lstm", steps), mlc.passes.default_pipeline) for steps in (9, 40)
    )
    assert len(many.functions) == len(few.functions) < 12


def test_without_such_a_layer_nothing_changes():
    mod = module([tensor("x", (2, 3))], op.tanh)
    assert unroll_recurrent(mod) is mod
