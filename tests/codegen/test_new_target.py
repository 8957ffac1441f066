"""A target of one's own, in one file: pseudo-code to read."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import minimlc as mlc
from minimlc import te
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import (
    Binary,
    Buffer,
    Cast,
    For,
    Intrin,
    PrimFunc,
    Unary,
    Var,
    index,
    intrin,
    store,
)
from minimlc.loops.lower.lower import lower
from minimlc.loops.math.scalars import operands, operation
from minimlc.loops.values.dtypes import DTYPES, is_float, to_numpy
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import walk
from minimlc.loops.values.target import TARGETS
from minimlc.script import I, T
from minimlc.services import build as runtime_build
from minimlc.services.build import register_target
from tests.code_lines import code_lines
from tests.codegen import kernels, pseudo
from tests.codegen.test_llvm_ops import LENGTH, hard_values
from tests.codegen.test_python import operators, same_bits
from tests.helpers import refuses


@I.ir_module
class Matmul:
    @T.prim_func
    def mm(
        A: T.Buffer((64, 32), "float32"),
        B: T.Buffer((32, 64), "float32"),
        C: T.Buffer((64, 64), "float32"),
    ):
        for i, j, k in T.grid(64, 64, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


SCHEDULED = """\
procedure mm(float32 A[64, 32], float32 B[32, 64], float32 C[64, 64])
    forall i below 64
        for j_0 below 4
            for j_1_init below 16
                C[i, ((j_0 * 16) + j_1_init)] <- 0.0
            for k below 32
                for vectorized j_1 below 16
                    C[i, ((j_0 * 16) + j_1)] <- \
(C[i, ((j_0 * 16) + j_1)] + (A[i, k] * B[k, ((j_0 * 16) + j_1)]))"""


@pytest.fixture
def pseudo_target():
    register_target("pseudo", pseudo.build)
    yield
    TARGETS.remove("pseudo")
    del runtime_build._ENTERED["pseudo"]


def test_it_prints_a_scheduled_matmul(pseudo_target):
    sch = mlc.Schedule(Matmul, func="mm").split("j", factors=[None, 16])
    sch = sch.reorder("i", "j_0", "k", "j_1").decompose_reduction("C", at="k")
    sch = sch.vectorize("j_1").parallel("i")
    assert mlc.build(sch.mod, target="pseudo").source() == SCHEDULED


def test_it_is_one_short_file():
    assert code_lines(Path(pseudo.__file__)) <= 150


KERNEL = """\
// The greater one; NaN where one is NaN.
__device__ static inline float max_f32(float a, float b) {
    return a >= b || a != a ? a : b;
}

extern "C" __global__ void relu(float (*__restrict__ A)[40], float (*__restrict__ B)[40]) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 64) {
        for (int64_t j = 0; j < 40; ++j) {
            B[i][j] = max_f32(A[i][j] * 2.0f, 0.0f);
        }
    }
}"""


def test_a_language_like_c_stands_on_target_c():
    A = te.placeholder((64, 40), name="A")
    B = te.compute((64, 40), lambda i, j: te.max(A[i, j] * 2.0, 0.0), name="B")
    sch = mlc.Schedule(IRModule.of({"relu": te.create_prim_func([A, B])})).parallel("i")
    assert kernels.kernels(dict(sch.mod.functions)) == KERNEL
    assert code_lines(Path(kernels.__file__)) <= 60


def test_a_name_is_taken_once(pseudo_target):
    refuses("E501", lambda: register_target("pseudo", pseudo.build))
    refuses("E501", lambda: register_target("llvm", pseudo.build))


def function(make, dtype):
    i, a, b = Var("i"), *(Buffer(name, (LENGTH,), dtype) for name in "ab")
    value = make(a[i], b[i])
    out = Buffer("out", (LENGTH,), value.dtype)
    return PrimFunc((a, b, out), (), For(i, index(LENGTH), "serial", store(out, (i,), value)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_definitions_written_out_mean_what_the_operators_do(dtype):
    """The lowered code holds the machine's operations alone, and computes the same numbers."""
    makers = {op: partial(Binary, op) for op in operators(dtype)}
    makers |= {f"to_{to}": lambda a, b, to=to: Cast(to, a) for to in DTYPES}
    if is_float(dtype):
        makers["rsqrt"] = lambda a, b: intrin("rsqrt", a)
    for op, make in makers.items():
        func = function(make, dtype)
        flat = lower(func, dialect=pseudo.PSEUDO)
        for part in walk(flat.body):
            if isinstance(part, Unary | Binary | Cast | Intrin):
                computed = operands(part)[0].dtype
                assert pseudo.computed_in(operation(part), computed) == computed
        a, b = (hard_values(dtype, seed) for seed in (1, 2))
        if op in ("//", "%") and dtype in pseudo.INTEGERS:
            b[b == 0] = 3
        outputs = [np.zeros(LENGTH, to_numpy(func.params[2].dtype)) for _ in range(2)]
        for program, out in zip((func, flat), outputs, strict=True):
            interpret(IRModule.of({"f": program}), "f", a, b, out)
        assert same_bits(*outputs), (op, dtype)
