"""The kernels compile for every device from sm_75 on, and keep their values in registers."""

import re

import pytest

import minimlc as mlc
from tests.gpu.nvrtc import ARCHITECTURES, assembly, compiled, spills
from tests.gpu.programs import PROGRAMS, program
from tests.gpu.test_opencl import DTYPES

pytestmark = [pytest.mark.requires("nvrtc"), pytest.mark.many]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.__name__)
def test_programs(case, architecture):
    text = mlc.build(program(case.__name__).mod, target="python").source("cuda")
    log = compiled(text, architecture)
    assert "bytes spill" in log and spills(log) == 0
    assert set(re.findall(r"(\d+) bytes stack frame", log)) == {"0"}, "an array is in memory"


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "bfloat16", "int8", "uint8", "int32", "uint32", "int64"]
)
def test_dtypes(dtype):
    mod = mlc.parse(DTYPES.format(dtype=dtype))
    log = compiled(mlc.build(mod, target="python").source("cuda"), "sm_75")
    assert spills(log) == 0


def test_neighbours_are_moved_by_one_instruction():
    text = mlc.build(program("fetch_vectors").mod, target="python").source("cuda")
    code = assembly(text, "compute_80")
    for instruction in ("ld.global.nc.v4", "st.shared.v4"):
        assert instruction in code


FUNCTIONS = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.block("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = {value}
"""


@pytest.mark.parametrize(
    "value",
    [
        *(f"T.{name}(A[vi])" for name in ("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "gelu")),
        *(f"T.{name}(A[vi])" for name in ("sin", "cos", "floor", "round", "trunc", "sigmoid")),
        'T.pow(A[vi], 2.5)',
        'T.if_then_else(A[vi] > T.float32("inf"), T.float32("nan"), A[vi] % 3.0)',
        'T.cast(T.cast(A[vi], "int32") // 3 - 2147483647 - 1, "float32")',
        'T.cast(T.cast(A[vi], "int64") * 3000000000, "float32")',
    ],
)  # fmt: skip
def test_functions(value):
    mod = mlc.parse(FUNCTIONS.format(value=value))
    compiled(mlc.build(mod, target="python").source("cuda"), "sm_80")
