"""Products by the tensor cores of a warp, and by the same program where there are none."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.walks import statements_in
from minimlc.targets.gpu.kernels import Barrier, kernels
from minimlc.targets.gpu.warps import Warp, kind_of
from tests.gpu.nvrtc import compiled, sass, spills
from tests.gpu.on_cpu import run_on_cpu
from tests.gpu.programs import UNITS, warps
from tests.helpers import random_array, refuses

pytestmark = pytest.mark.many

CASES = [(kind, turned) for kind in UNITS for turned in (False, True)]
LIMIT = 1e-4


def arguments(func):
    rng = np.random.default_rng(0)
    return [random_array(p.shape, p.dtype, rng) for p in func.params]


def product(args, turned):
    a, b = (array.astype("float64") for array in args[:2])
    return a @ (b.T if turned else b)


def agrees(sch, turned, run):
    rng = np.random.default_rng(0)
    args = [random_array(p.shape, p.dtype, rng) for p in sch.func.params]
    a, b = (array.astype("float64") for array in args[:2])
    run(*args)
    np.testing.assert_allclose(args[2], a @ (b.T if turned else b), atol=1e-4)
    return args


@pytest.mark.parametrize(("kind", "turned"), CASES)
@pytest.mark.parametrize(
    "target", ["gpusim", pytest.param("opencl", marks=pytest.mark.requires("opencl"))]
)
def test_without_tensor_cores(kind, turned, target):
    sch = warps(kind, turned, check=False)
    agrees(sch, turned, mlc.build(sch.mod, target=target)["main"])


@pytest.mark.requires("c++")
@pytest.mark.parametrize(
    ("kind", "turned", "device"),
    [(*case, 800) for case in CASES] + [("f16", False, 750), ("i8", True, 750)],
)
def test_tiles_lie_as_documented(kind, turned, device, tmp_path):
    """The CUDA text, by functions that implement its instructions as in the PTX ISA."""
    sch = warps(kind, turned, check=False)
    agrees(sch, turned, lambda *args: run_on_cpu(sch.func, tmp_path, args, device))


@pytest.mark.requires("nvrtc")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("kind", UNITS)
def test_instructions(kind, architecture):
    text = mlc.build(warps(kind, check=False).mod, target="python").source("cuda")
    if (kind, architecture) == ("bf16", "sm_75"):
        with pytest.raises(AssertionError, match="bf16 is for sm_80 and newer"):
            compiled(text, architecture)
        return
    assert spills(compiled(text, architecture)) == 0
    code = sass(text, architecture)
    assert ("IMMA" if kind == "i8" else "HMMA") in code and "LDSM" in code


def test_each_step_is_checked():
    assert warps().checked == "verified only"


def test_one_call_for_each_tile():
    text = mlc.build(warps(check=False).mod, target="python").source("cuda")
    assert "float C_accumulator[2][4];" in text and "unsigned A_shared_matrix_a[1][4];" in text
    assert "mma_f16(A_shared_matrix_a[0], B_shared_matrix_b[j_1], C_accumulator[j_1]);" in text
    assert "mma_load_b_rows(&B_shared[k_1 * 16][B_shared_matrix_b_j * 8], 16, 1," in text


STORED = """
@T.prim_func
def main(D: T.Buffer((64, 8), "float32")):
    Z = T.alloc_buffer((64, 8), "float32", scope="wmma.accumulator")
    S = T.alloc_buffer((64, 8), "float32", scope="shared")
    for g in T.thread_binding(1, thread="blockIdx.x"):
        for w in T.thread_binding(2, thread="threadIdx.y"):
            for n in range(2):
                for i, j in T.grid(16, 8):
                    with T.block("Z"):
                        vi = T.axis.spatial(64, w * 32 + n * 16 + i)
                        vj = T.axis.spatial(8, j)
                        Z[vi, vj] = 0.0
                for i1, j1 in T.grid(16, 8):
                    with T.block("S"):
                        vi = T.axis.spatial(64, w * 32 + n * 16 + i1)
                        vj = T.axis.spatial(8, j1)
                        S[vi, vj] = Z[vi, vj]
        for w1 in T.thread_binding(2, thread="threadIdx.y"):
            for f in range(256 // {threads}):
                for t in T.thread_binding({threads}, thread="threadIdx.x"):
                    with T.block("D"):
                        vi = T.axis.spatial(64, 63 - w1 * 32 - (f * {threads} + t) // 8)
                        vj = T.axis.spatial(8, t % 8)
                        D[vi, vj] = {read}[vi, vj] + 1.0
"""


def stored(threads=32, read="S"):
    sch = mlc.Schedule(mlc.parse(STORED.format(threads=threads, read=read)), check=False)
    return sch.tensorize("i", "mma_zero_f32").tensorize("i1", "mma_store_f32")


def test_threads_wait_for_what_a_warp_stores():
    (kernel,) = kernels("main", stored().func).kernels
    why = [part.why for part in statements_in(kernel.body) if isinstance(part, Barrier)]
    assert why == ["S is read when all have written it"]
    assert sum(isinstance(part, Warp) for part in statements_in(kernel.body)) == 2
    result = np.full((64, 8), np.nan, "float32")
    mlc.build(stored().mod, target="gpusim")["main"](result)
    np.testing.assert_array_equal(result, np.ones((64, 8)))


def test_single_threads_read_no_tile():
    refuses("E510", lambda: kernels("main", stored(read="Z").func), "wmma.accumulator", "Z")


def test_more_threads_than_a_warp_has_work_by_themselves():
    text = mlc.build(stored(64).mod, target="python").source("cuda")
    assert "float Z[16][8];" in text and "mma" not in text.replace("wmma", "")
    result = np.full((64, 8), np.nan, "float32")
    mlc.build(stored(64).mod, target="gpusim")["main"](result)
    np.testing.assert_array_equal(result, np.ones((64, 8)))


ZEROS = """
@T.prim_func
def main(D: T.Buffer((16, 2, 8), "float32"), E: T.Buffer((32,), "float32")):
    Z = T.alloc_buffer((16, 32, 8), "float32", scope="wmma.accumulator")
    for g in T.thread_binding(1, thread="blockIdx.x"):
        for n in range(2):
            for i, j in T.grid(16, 8):
                with T.block("Z"):
                    vn, vi, vj = T.axis.remap("SSS", [n, i, j])
                    Z[vi, vn * 16, vj] = 0.0
        for n1 in range(2):
            for i1, j1 in T.grid(16, 8):
                with T.block("S"):
                    vn, vi, vj = T.axis.remap("SSS", [n1, i1, j1])
                    D[vi, vn, vj] = Z[vi, vn * 16, vj]
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("E"):
                vt = T.axis.spatial(32, t)
                E[vt] = 1.0
"""


def test_a_tile_is_whole():
    """One whose rows lie apart in a buffer is none."""
    sch = mlc.Schedule(mlc.parse(ZEROS), check=False).tensorize("i", "mma_zero_f32")
    sch = sch.tensorize("i1", "mma_store_f32")
    refuses("E510", lambda: kernels("main", sch.func), "wmma.accumulator", "Z")


def test_another_intrinsic_of_such_a_name_is_no_unit():
    name = "mma_zero_x9"
    if name not in mlc.schedule.intrins():
        part = mlc.schedule.find_intrin("mma_store_f32").description
        mlc.register_intrin(name, part, part)
    assert kind_of("mma_store_f32") == "store" and kind_of(name) == ""


def test_tiles_of_a_buffer_have_one_shape():
    """Pieces of 16 by 8 are not what a unit of pieces of 8 by 16 finds in registers."""
    sch = warps("f16", True, check=False, loads="mma_load_b_f16")
    refuses("E510", lambda: kernels("main", sch.func), "wmma")
