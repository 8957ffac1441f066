"""Tensor intrinsics as instructions: which one is written, when, and that it means the same."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.llvm.emit import emit_llvm
from minimlc.loops.llvm.machine import Machine, compile_assembly
from minimlc.loops.schedule import find_intrin
from minimlc.loops.values.target import Target
from minimlc.script import I, T
from tests.codegen.machines import X86

pytestmark = pytest.mark.many

only_x86 = pytest.mark.skipif(not X86, reason="assembles x86 code")


def product(left: str, right: str) -> mlc.IRModule:
    @I.ir_module
    class Product:
        @T.prim_func
        def main(
            A: T.Buffer((3, 8), left), B: T.Buffer((32, 8), right), C: T.Buffer((3, 32), "int32")
        ):
            for i, j, k in T.grid(3, 32, 8):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vj, vk], "int32")

    return Product


DOTS = {"dot_u8i8i32": 4, "dot_i8i8i32": 4, "dot_i16i16i32": 2}


def scheduled(intrin: str, packed: bool = True) -> mlc.Schedule:
    """B's rows side by side, as many elements of each as the instruction multiplies at a time."""
    a, b, _ = find_intrin(intrin).description.params
    depth = DOTS[intrin]
    sch = mlc.Schedule(product(a.dtype, b.dtype))
    sch = sch.split("j", [None, 16]).split("k", [None, depth])
    sch = sch.reorder("j_0", "k_0", "k_1", "j_1").decompose_reduction("C", at="k_0")
    sch = sch.tensorize("k_1", intrin)
    if not packed:
        return sch
    sch = sch.cache_read("C_update_o", "B")
    layout = f"i, k -> i // 16, k // {depth}, i % 16, k % {depth}"
    return sch.transform_layout("B_local", "B_local", layout)


def assembly(sch: mlc.Schedule, machine: Machine) -> str:
    return compile_assembly(emit_llvm(sch.mod.functions, machine).text, machine)


MACHINES = {
    "vnni": Machine("icelake-server", "+avx512f,+avx512bw,+avx512vl,+avx512vnni,+avx2", 512),
    "avx512": Machine("skylake-avx512", "+avx512f,+avx512bw,+avx512vl,+avx2", 512),
    "avxvnni": Machine("alderlake", "+avxvnni,+avx2,+fma", 256),
    "int8": Machine("sierraforest", "+avxvnniint8,+avxvnni,+avx2,+fma", 256),
    "avx2": Machine("haswell", "+avx2,+fma,+sse2", 256),
    "sse": Machine("x86-64", "+sse,+sse2", 128),
}

INSTRUCTIONS = [
    ("dot_u8i8i32", "vnni", "vpdpbusd", "%zmm"),
    ("dot_u8i8i32", "avxvnni", "vpdpbusd", "%ymm"),
    ("dot_i8i8i32", "int8", "vpdpbssd", "%ymm"),
    ("dot_i16i16i32", "vnni", "vpdpwssd", "%zmm"),
    ("dot_i16i16i32", "avx512", "vpmaddwd", "%zmm"),
    ("dot_i16i16i32", "avx2", "vpmaddwd", "%ymm"),
    ("dot_i16i16i32", "sse", "pmaddwd", "%xmm"),
]


@only_x86
@pytest.mark.parametrize(("intrin", "machine", "name", "register"), INSTRUCTIONS)
def test_the_machine_s_own_instruction_is_written(intrin, machine, name, register):
    lines = assembly(scheduled(intrin), MACHINES[machine]).splitlines()
    written = [line for line in lines if line.strip().removeprefix("{vex}").split()[:1] == [name]]
    assert written and all(register in line for line in written)


@only_x86
@pytest.mark.parametrize("intrin", DOTS)
def test_a_machine_without_it_gets_the_implementation(intrin):
    text = emit_llvm(scheduled(intrin).mod.functions, Machine("x86-64", "", 128)).text
    assert "llvm.x86" not in text


@only_x86
def test_operands_that_lie_otherwise_get_the_implementation():
    machine = MACHINES["avx2"]
    text = emit_llvm(scheduled("dot_i16i16i32", packed=False).mod.functions, machine).text
    assert "llvm.x86" not in text


@only_x86
def test_an_annotation_by_hand_reaches_no_instruction():
    """The nest is compared with the intrinsic; one that differs keeps its own meaning."""
    sch = scheduled("dot_i16i16i32")
    script = sch.mod.script()
    wrong = script.replace("B_local[vjo, vko, vl, vk1], ", "B_local[vjo, vko, vl, 1 - vk1], ")
    assert wrong != script
    text = emit_llvm(mlc.parse(wrong).functions, MACHINES["avx2"]).text
    assert "llvm.x86" not in text


def extremes(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Whole numbers of all sizes, the least and the greatest among them."""
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.max, info.min + 1, -1 if info.min else 1], dtype)
    some = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    return np.where(rng.integers(0, 2, shape) == 0, rng.choice(ends, shape), some).astype(dtype)


@pytest.mark.parametrize("intrin", DOTS)
def test_the_result_is_exact(intrin):
    """On this machine, with its own instruction if it has one, and without all of them."""
    sch = scheduled(intrin)
    left, right, _ = (buffer.dtype for buffer in sch.func.params)
    host = Target.host()
    plain = Target("llvm", host.cpu, "+sse,+sse2,-sse3,-avx" if X86 else host.features)
    rng = np.random.default_rng(0)
    for target in (host, plain):
        lib = mlc.build(sch.mod, target=target, cache=False)
        for _ in range(20):
            a, b = extremes(left, (3, 8), rng), extremes(right, (32, 8), rng)
            c = np.zeros((3, 32), np.int32)
            lib["main"](a, b, c)
            wide = a.astype(np.int64) @ b.T.astype(np.int64)
            np.testing.assert_array_equal(c, wide.astype(np.int32))
