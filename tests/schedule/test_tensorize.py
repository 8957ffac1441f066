"""tensorize, and the registry of intrinsics."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import I, T
from minimlc.services.tensor.intrin import checked
from tests.helpers import assert_same, refuses


def matmul(n: int, dtype: str = "float32") -> mlc.IRModule:
    @I.ir_module
    class Matmul:
        @T.prim_func
        def main(
            A: T.Buffer((n, n), dtype), B: T.Buffer((n, n), dtype), C: T.Buffer((n, n), dtype)
        ):
            for i, j, k in T.grid(n, n, n):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.cast(0, dtype)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return Matmul


@I.ir_module
class Matmul32:
    @T.prim_func
    def main(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        for i, j, k in T.grid(32, 32, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@I.ir_module
class Bytes:
    @T.prim_func
    def main(
        A: T.Buffer((3, 8), "uint8"), B: T.Buffer((32, 8), "int8"), C: T.Buffer((3, 32), "int32")
    ):
        for i, j, k in T.grid(3, 32, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.cast(B[vj, vk], "int32") * T.cast(A[vi, vk], "int32")


@I.ir_module
class Gram:
    @T.prim_func
    def main(A: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")):
        for i, j, k in T.grid(32, 32, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vj, vk]


def tiled(mod: mlc.IRModule, i: int, j: int, k: int, **options: bool) -> mlc.Schedule:
    sch = mlc.Schedule(mod, **options).split("i", [None, i]).split("j", [None, j])
    return sch.split("k", [None, k]).reorder("i_0", "j_0", "k_0", "i_1", "j_1", "k_1")


@pytest.mark.parametrize("name", mlc.schedule.intrins())
def test_the_built_in_ones_are_what_they_say(name: str):
    item = mlc.schedule.find_intrin(name)
    assert checked(item) is item


def test_matmul():
    mod = Matmul32
    sch = tiled(mod, 16, 16, 16).tensorize("i_1", "mma_16x16x16")
    sch = sch.tensorize("i_1_init", "zero_16x16").parallel("i_0")
    text = sch.mod.script()
    assert 'T.block_attr({"tensor_intrin": "mma_16x16x16"})' in text
    assert "B[vko * 16 + vk1, vjo * 16 + vj2]" in text
    assert_same(mod, sch.mod)
    again = mlc.Schedule.replay(mod, sch.trace.to_json())
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_matmul_of_64_compiled(target: str):
    sch = tiled(matmul(64), 16, 16, 16, check=False).tensorize("i_1", "mma_16x16x16")
    sch = sch.reorder("j_0", "k_0", "i_0").parallel("j_0")
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((64, 64)).astype("float32") for _ in "ab")
    c = np.full((64, 64), np.nan, "float32")
    mlc.build(sch.mod, target=target, cache=False)["main"](a, b, c)
    np.testing.assert_allclose(c, a.astype(float) @ b, rtol=1e-4, atol=1e-4)


def test_loops_and_operands_in_another_order():
    sch = mlc.Schedule(Bytes).split("j", [None, 16]).split("k", [None, 4])
    sch = sch.reorder("j_0", "k_0", "k_1", "j_1").tensorize("k_1", "dot_u8i8i32")
    assert_same(Bytes, sch.mod)
    assert_same(Bytes, sch.parallel("i").split("j_0", [2, 1]).mod)


def test_a_blockized_or_decomposed_nest():
    mod = matmul(8)
    sch = mlc.Schedule(mod).split("k", [None, 4])
    assert_same(mod, sch.blockize("k_1").tensorize("C_o", "dot4").mod)
    assert_same(mod, sch.blockize("k_1").tensorize("k_1", "dot4").mod)
    assert_same(mod, sch.decompose_reduction("C", at="i").tensorize("k_1", "dot4").mod)


def test_one_buffer_as_two_operands_that_are_read():
    sch = mlc.Schedule(Gram).split("k", [None, 4]).tensorize("k_1", "dot4")
    assert_same(Gram, sch.mod)


def test_a_mismatch_is_shown_side_by_side():
    error = refuses(
        "E156", lambda: tiled(Gram, 16, 16, 16).tensorize("i_1", "mma_16x16x16"), "described"
    )
    marked = [line for line in str(error).split("\n") if line.startswith(">")]
    assert len(marked) == 1 and "A[vi, vk] * A[vj, vk]" in marked[0]
    error = refuses("E156", lambda: tiled(matmul(32), 8, 16, 16).tensorize("i_1", "mma_16x16x16"))
    marked = [line for line in str(error).split("\n") if line.startswith(">")]
    assert len(marked) == 1 and "range(8)" in marked[0]


@pytest.mark.parametrize("op", ["max", "min"])
def test_operands_of_max_keep_their_order_and_it_is_said(op):
    def described(value, dtype):
        text = f"""
@T.prim_func
def d(a: T.Buffer((8,), "{dtype}"), c: T.Buffer((8,), "{dtype}")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            c[v] = T.{op}({value})
"""
        return mlc.parse(text)["d"]

    def largest(dtype):
        text = f"""
@T.prim_func
def main(A: T.Buffer((32, 64), "{dtype}"), C: T.Buffer((64,), "{dtype}")):
    for i, j in T.grid(32, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("RS", [i, j])
            with T.init():
                C[vj] = T.cast(0, "{dtype}")
            C[vj] = T.{op}(C[vj], A[vi, vj])
"""
        sch = mlc.Schedule(mlc.parse(text)).split("j", [None, 8]).reorder("j_0", "i", "j_1")
        return sch.decompose_reduction("C", at="i")

    def works(name, dtype):
        sch = largest(dtype)
        assert_same(sch.mod, sch.tensorize("j_1", name).mod)

    for dtype in ("float32", "int32"):
        for name, value in (("same", "c[v], a[v]"), ("swapped", "a[v], c[v]")):
            each = described(value, dtype)
            mlc.register_intrin(f"test_{op}_{dtype}_{name}", each, each)
        same, swapped = (f"test_{op}_{dtype}_{name}" for name in ("same", "swapped"))
        works(same, dtype)
        if dtype == "int32":
            works(swapped, dtype)
    words = "have their operands swapped", "write them in one order"
    refuses("E156", lambda: works(f"test_{op}_float32_swapped", "float32"), *words)


def test_other_dtypes_guards_and_names_are_refused():
    wide = tiled(matmul(32, "float64"), 16, 16, 16)
    refuses("E156", lambda: wide.tensorize("i_1", "mma_16x16x16"), "float64")
    guarded = tiled(matmul(24), 16, 16, 16)
    refuses("E155", lambda: guarded.tensorize("i_1", "mma_16x16x16"), "runs only where")
    refuses("E157", lambda: wide.tensorize("i_1", "mma_16x16"), "mma_16x16x16")
    refuses(
        "E157",
        lambda: mlc.Schedule.replay(matmul(8), [("tensorize", {"target": "k", "intrin": "no"})]),
    )
    refuses("E156", lambda: wide.tensorize("C", "dot4"), "holds no nest")


@I.ir_module
class InPlace:
    @T.prim_func
    def main(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("Y"):
                vi = T.axis.spatial(8, i)
                Y[vi] = X[vi] * T.float32(2)
        for i1 in range(8):
            with T.block("X"):
                vi1 = T.axis.spatial(8, i1)
                X[vi1] = X[vi1] * T.float32(2)


def test_operands_that_overlap_are_refused():
    mlc.register_intrin("double4", double("float32", 2), double("float32", 2))
    sch = mlc.Schedule(InPlace).split("i", [None, 4]).split("i1", [None, 4])
    assert_same(InPlace, sch.tensorize("i_1", "double4").mod)
    refuses("E156", lambda: sch.tensorize("i1_1", "double4"), "X would be both", "is written")


def double(dtype: str, factor: float) -> mlc.PrimFunc:
    @T.prim_func
    def func(a: T.Buffer((4,), dtype), c: T.Buffer((4,), dtype)):
        for i in range(4):
            with T.block("double"):
                vi = T.axis.spatial(4, i)
                c[vi] = a[vi] * factor

    return func


def test_registering():
    good = double("float32", 2)
    refuses("E158", lambda: mlc.register_intrin("x2", good, double("float32", 3)), "c[0]")
    refuses("E159", lambda: mlc.register_intrin("x2", good, double("float64", 2)), "float64")
    refuses("E159", lambda: mlc.register_intrin("x2", good, 3))
    refuses("E159", lambda: mlc.register_intrin("x2", matmul(4), matmul(4)), "init")
    refuses("E157", lambda: mlc.register_intrin("dot4", good, good), "already")
    refuses("E157", lambda: mlc.register_intrin("", good, good), "identifier")


def test_an_intrinsic_says_how_its_instruction_differs():
    for name in mlc.schedule.intrins():
        differs = mlc.schedule.find_intrin(name).differs
        sums_halves = "dot" in name and "bf16" in name
        assert ("2**-126" in differs) is sums_halves
