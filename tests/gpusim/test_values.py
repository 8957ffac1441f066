"""Threads compute what the interpreter computes, to the bit."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import Cast, Select, intrin, unary
from minimlc.loops.values.dtypes import DTYPES, is_float, to_numpy
from minimlc.loops.values.node import replace
from tests.codegen.c_programs import Batch
from tests.codegen.test_c_ops import all_casts, all_operators, integer_corners
from tests.codegen.test_llvm_ops import LENGTH, allowed, hard_values


def by_threads(batch):
    """Each function of a batch, its loop bound to threads, against the interpreter."""
    for name, func in batch.functions.items():
        loop = replace(func.body, kind="thread_binding", thread="threadIdx.x")
        func = replace(func, body=loop)
        *inputs, out = func.params
        arrays = [hard_values(b.dtype, seed) for seed, b in enumerate(inputs)]
        expected, got = (np.zeros(LENGTH, to_numpy(out.dtype)) for _ in range(2))
        mod = mlc.IRModule.of({name: func})
        interpret(mod, name, *arrays, expected)
        mlc.build(mod, "gpusim")[name](*arrays, got)
        if is_float(out.dtype):
            got, expected = got.astype(np.float64), expected.astype(np.float64)
            signs = [np.signbit(np.where(np.isnan(x), 0, x)) for x in (got, expected)]
            np.testing.assert_array_equal(*signs, err_msg=repr(func))
        np.testing.assert_array_equal(got, expected, err_msg=repr(func))


def test_binary_operators():
    by_threads(all_operators(kinds=["serial"]))


def test_integers_and_their_corners():
    by_threads(integer_corners())


def test_casts():
    by_threads(all_casts())


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary_operators_select_and_functions(dtype):
    batch = Batch()
    for op in ("-", "not", "~"):
        if allowed(lambda a, b, op=op: unary(op, a), dtype):
            batch.add("serial", lambda a, op=op: unary(op, a), [dtype])
    batch.add("serial", lambda a, b: Select(a < b, a, b), [dtype, dtype])
    for function in INTRINSICS.values():
        if DTYPES[dtype].kind in function.kinds:
            inputs = [dtype] * function.arity
            batch.add("serial", lambda *xs, f=function: intrin(f.name, *xs), inputs)
            if dtype == "float32":
                batch.add(
                    "serial", lambda *xs, f=function: intrin(f.name, *xs[:1] * f.arity), inputs
                )
    batch.add("serial", lambda a: Cast("bool", a), [dtype])
    by_threads(batch)
