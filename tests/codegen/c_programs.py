"""Many small functions in one compile: what a test of generated C needs to be quick."""

import warnings
from collections.abc import Sequence

import numpy as np

from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.arguments import Parameter, written
from minimlc.loops.ir.nodes import Buffer, Expr, For, LoopKind, PrimFunc, Var, index, store
from minimlc.loops.values.dtypes import is_float, to_numpy
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.target import Target
from minimlc.services.runtime.executable import Kernel
from minimlc.targets.c.entries import c_entries
from tests.codegen.test_llvm_ops import LENGTH, ULP, hard_values
from tests.helpers import assert_close, copies, random_args


def compiled(functions: dict[str, PrimFunc], target: Target | None = None) -> dict[str, Kernel]:
    """The kernels as the code generator makes them, also of programs that `verify` refuses."""
    chosen = target or Target.host("c")
    entries, keep = c_entries(functions, chosen, check=False, cache=False)
    return {
        name: Kernel(
            name,
            [Parameter(p.name, p.shape, p.dtype, p in written(func)) for p in func.params],
            entries[name],
            None,
            keep,
        )
        for name, func in functions.items()
    }


def agree(functions: Sequence[PrimFunc], exact: Sequence[bool] | bool = False) -> None:
    """Compiled C leaves the same in every argument as the interpreter does."""
    named = {f"f{number}": func for number, func in enumerate(functions)}
    kernels = compiled(named)
    for number, (name, func) in enumerate(named.items()):
        args = random_args(func, np.random.default_rng(number))
        again = copies(args)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interpret(IRModule.of({name: func}), name, *args)
            kernels[name](*again)
            same = exact if isinstance(exact, bool) else exact[number]
            assert_close(tuple(args), tuple(again), same)


class Batch:
    """Expressions over hard values, one function each; `run` compiles them all and compares."""

    def __init__(self) -> None:
        self.functions: dict[str, PrimFunc] = {}
        self.exact: dict[str, bool] = {}

    def add(self, kind: LoopKind, make, dtypes: list[str], exact: bool = True) -> None:
        """`make` gives an expression of one element of each of the inputs of `dtypes`."""
        i = Var("i")
        inputs = [Buffer(f"x{n}", (LENGTH,), d) for n, d in enumerate(dtypes)]
        value: Expr = make(*[b[i] for b in inputs])
        out = Buffer("out", (LENGTH,), value.dtype)
        name = f"f{len(self.functions)}"
        body = For(i, index(LENGTH), kind, store(out, (i,), value))
        self.functions[name] = PrimFunc((*inputs, out), (), body)
        self.exact[name] = exact

    def run(self, target: Target | None = None) -> None:
        for name, kernel in compiled(self.functions, target).items():
            self._compare(name, self.functions[name], kernel)

    def _compare(self, name: str, func: PrimFunc, kernel: Kernel) -> None:
        *inputs, out = func.params
        arrays = [hard_values(b.dtype, seed) for seed, b in enumerate(inputs)]
        expected, got = (np.zeros(LENGTH, to_numpy(out.dtype)) for _ in range(2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interpret(IRModule.of({name: func}), name, *arrays, expected)
        kernel(*arrays, got)
        if not is_float(out.dtype):
            np.testing.assert_array_equal(got, expected, err_msg=repr(func))
            return
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        limit = 0 if self.exact[name] else ULP[out.dtype]
        np.testing.assert_allclose(got, expected, rtol=limit, atol=limit, err_msg=repr(func))
        if self.exact[name]:
            signs = [np.signbit(np.where(np.isnan(x), 0, x)) for x in (got, expected)]
            np.testing.assert_array_equal(*signs, err_msg=repr(func))
