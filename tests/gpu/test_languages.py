"""Kernels as text: CUDA C++, OpenCL C and WGSL, from any library."""

import pytest

import minimlc as mlc
from tests.gpu.programs import ADD, PROGRAMS, program
from tests.helpers import refuses

LANGUAGES = ("cuda", "opencl", "wgsl")

CUDA = """\
// main: 8 blocks of 128 threads
extern "C" __global__ void __launch_bounds__(128) main_kernel(
    const float *__restrict__ A,
    const float *__restrict__ B,
    float *__restrict__ C
) {
    const int i_0 = blockIdx.x;
    const int i_1 = threadIdx.x;
    // block C
    if (i_0 * 128 + i_1 < 1000) {
        C[i_0 * 128 + i_1] = A[i_0 * 128 + i_1] + B[i_0 * 128 + i_1];
    }
}
"""
OPENCL = """\
// main: 8 blocks of 128 threads
__kernel void main_kernel(
    __global const float *restrict A,
    __global const float *restrict B,
    __global float *restrict C
) {
    const int i_0 = get_group_id(0);
    const int i_1 = get_local_id(0);
    // block C
    if (i_0 * 128 + i_1 < 1000) {
        C[i_0 * 128 + i_1] = A[i_0 * 128 + i_1] + B[i_0 * 128 + i_1];
    }
}
"""
WGSL = """\
@group(0) @binding(0) var<storage, read> A: array<f32, 1000>;
@group(0) @binding(1) var<storage, read> B: array<f32, 1000>;
@group(0) @binding(2) var<storage, read_write> C: array<f32, 1000>;

// main: 8 blocks of 128 threads
@compute @workgroup_size(128, 1, 1)
fn main_kernel(
    @builtin(workgroup_id) blockIdx: vec3<u32>,
    @builtin(local_invocation_id) threadIdx: vec3<u32>
) {
    let i_0 = i32(blockIdx.x);
    let i_1 = i32(threadIdx.x);
    // block C
    if (i_0 * 128 + i_1 < 1000) {
        C[i_0 * 128 + i_1] = A[i_0 * 128 + i_1] + B[i_0 * 128 + i_1];
    }
}
"""


@pytest.mark.parametrize(("language", "text"), zip(LANGUAGES, (CUDA, OPENCL, WGSL), strict=True))
def test_a_kernel_reads_as_it_was_written(language, text):
    for target in ("llvm", "c", "python", "opencl"):
        assert mlc.build(program("add").mod, target=target).source(language) == text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.__name__)
def test_every_program_has_a_text(case, language):
    text = mlc.build(program(case.__name__).mod, target="python").source(language)
    assert "// main" in text and "int64" not in text and "long" not in text


def test_barriers_say_why():
    text = mlc.build(program("product_shared").mod, target="python").source("cuda")
    why = "        // B_shared is read when all have written it\n        __syncthreads();\n"
    assert text.count(why) == 1 and text.count("__syncthreads();") == 2


NAMES = """
@T.prim_func
def main(half: T.Buffer((8,), "float32"), threadIdx: T.Buffer((8,), "float32")):
    for var in range(8):
        threadIdx[var] = half[var] * 2.0
"""


def test_names_that_mean_something_are_others():
    library = mlc.build(mlc.Schedule(mlc.parse(NAMES)).bind("var", "threadIdx.x").mod, "python")
    assert "threadIdx1[var] = half[var]" in library.source("cuda")
    assert "threadIdx[var] = half1[var]" in library.source("opencl")
    assert "threadIdx1[var1] = half[var1]" in library.source("wgsl")


@pytest.mark.parametrize("dtype", ["float64", "int64", "int8", "bfloat16"])
def test_what_wgsl_lacks_is_said(dtype):
    library = mlc.build(mlc.parse(ADD.replace("float32", dtype)), "python")
    refuses("E511", lambda: library.source("wgsl"), f"WGSL has no {dtype} in memory, as A is")
    for language in ("cuda", "opencl"):
        assert "main_kernel" in library.source(language)


def test_halves_are_enabled_in_wgsl():
    text = mlc.build(mlc.parse(ADD.replace("float32", "float16")), "python").source("wgsl")
    assert text.startswith("enable f16;\n") and "C[i] = f16(f32(A[i]) + f32(B[i]));" in text


def test_what_wgsl_cannot_compute_is_said():
    mod = mlc.parse(ADD.replace("A[vi] + B[vi]", "T.sin(A[vi])"))
    refuses("E511", lambda: mlc.build(mod, "python").source("wgsl"), "WGSL has no sin of float32")


LARGE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "int64")):
    for i in range(8):
        C[i] = T.cast(i, "int64") * 3000000000
"""


def test_what_may_not_fit_stays_wide():
    text = mlc.build(mlc.parse(LARGE), "python").source("cuda")
    assert "C[i] = (long long)i * " in text


def test_neighbours_are_copied_at_once():
    library = mlc.build(program("fetch_vectors").mod, target="python")
    assert library.source("cuda").count("] = *(const Lanes<float, 4> *)&A[i_0 * 8 + i_1][") == 1
    assert library.source("opencl").count("vstore4(vload4(0, &A[i_0 * 8 + i_1][") == 1


COPY = """
@T.prim_func
def main(A: T.Buffer((6, {row}), "float32"), C: T.Buffer((6, {row}), "float32")):
    for i, j in T.grid(6, {count}):
        for k in T.vectorized(4):
            C[{to}] = A[{of}]
"""
AT = {"row": 16, "count": 4, "to": "i, j * 4 + k", "of": "i, j * 4 + k"}


@pytest.mark.parametrize(
    ("change", "lanes"),
    [
        ({}, True),
        ({"of": "5 - i, 12 - j * 4 + k"}, True),
        ({"of": "i, 4 - j + k + j * 3", "count": 1}, False),
        ({"row": 18}, False),
        ({"of": "i, j * 4 + 1 + k", "row": 16, "count": 3}, False),
        ({"of": "i, j * 4 + 3 - k"}, False),
        ({"of": "k, j * 4 + k"}, False),
        ({"to": "k, j * 4 + k"}, False),
    ],
)
def test_only_aligned_neighbours_are_copied_at_once(change, lanes):
    library = mlc.build(mlc.parse(COPY.format(**{**AT, **change})), "python")
    assert ("Lanes<float, 4> *" in library.source("cuda")) == lanes
    assert ("vload4" in library.source("opencl")) == lanes
