"""Graph functions, run: by the interpreter, and by LLVM after the default passes."""

from typing import Any

import numpy as np

import minimlc as mlc
from minimlc.graphs.ir.nodes import tensor_types
from tests.te_runs import whole_numbers

LEGALIZED = (mlc.passes.legalize,)


def run_graph(mod: Any, exact: bool = True, seed: int = 0) -> list[Any]:
    """The arguments and the result of "main": script, interpreter and LLVM agree.

    The numpy meaning of the operators, their loops interpreted, and native code give the same
    bits on whole numbers; `exact=False` where an operator rounds.
    """
    mod = mlc.verify(mod if isinstance(mod, mlc.IRModule) else mlc.parse(mod))
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    rng = np.random.default_rng(seed)
    types = [kind for param in mod["main"].params for kind in tensor_types(param.type)]
    args = [whole_numbers(kind.shape, kind.dtype, rng) for kind in types]
    meant = mlc.interpret(mod, "main", *args)
    loops = mlc.interpret(mlc.run_passes(mod, LEGALIZED), "main", *args)
    native = mlc.build(mod)["main"](*args)
    for other in (loops, native):
        assert other.dtype == meant.dtype and other.shape == meant.shape
        if exact:
            assert other.tobytes() == meant.tobytes()
        limit = 1e-2 if meant.dtype.itemsize == 2 else 1e-5
        np.testing.assert_allclose(other.astype(float), meant.astype(float), limit, 1e-6)
    return [*args, native]


def main(params: str, *lines: str) -> str:
    """A module's text: "main" with these parameters, the last line its result."""
    *body, last = lines
    text = "".join(f"    {line}\n" for line in [*body, f"return {last}"])
    return f"@R.function\ndef main({params}):\n{text}"
