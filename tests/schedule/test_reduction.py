"""decompose_reduction."""

import pytest

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, refuses
from tests.schedule.programs import MatmulRelu


def test_decompose_makes_init_a_block():
    sch = mlc.Schedule(MatmulRelu).decompose_reduction("Y", at="k")
    assert sch.blocks() == ["Y_init", "Y_update", "C"]
    assert "T.init" not in sch.mod.script()
    assert_same(MatmulRelu, sch.mod)
    outer = mlc.Schedule(MatmulRelu).decompose_reduction("Y", at="i")
    assert outer.loops("Y_init") == ["i_init", "j_init"]
    assert_same(MatmulRelu, outer.mod)


def test_decompose_keeps_guards():
    sch = mlc.Schedule(MatmulRelu).split("i", [None, 3]).split("k", [None, 4])
    assert_same(MatmulRelu, sch.decompose_reduction("Y", at="i_1").mod)


def test_decompose_refuses_a_reduction_loop_outside():
    sch = mlc.Schedule(MatmulRelu).reorder("k", "i", "j")
    refuses("E114", lambda: sch.decompose_reduction("Y", at="i"), "outside")
    refuses("E114", lambda: sch.decompose_reduction("C", at="i1"), "no init")


def test_decompose_inside_of_a_reduction_loop_that_runs_once():
    sch = mlc.Schedule(MatmulRelu).split("k", [1, None]).reorder("k_0", "i", "j", "k_1")
    assert_same(MatmulRelu, sch.decompose_reduction("Y", at="k_1").mod)


def test_a_condition_may_speak_of_a_loop_that_runs_once():
    """The init's condition has 0 for it, as it has for the sum's loops."""
    sch = mlc.Schedule(MatmulRelu).add_unit_loop("k").split("unit", [2, None])
    assert_same(MatmulRelu, sch.decompose_reduction("Y", at="unit_1").mod)


def test_decompose_refuses_a_loop_that_runs_the_sum_anew():
    @I.ir_module
    class Again:
        @T.prim_func
        def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4,), "int32")):
            for i, again, k in T.grid(4, 2, 3):  # noqa: B007
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi, vk]

    sch = mlc.Schedule(Again)
    refuses("E114", lambda: sch.decompose_reduction("C", at="again"), "anew")
    refuses("E109", lambda: sch.reorder("k", "again"))
    assert_same(Again, sch.decompose_reduction("C", at="k").mod)


def test_decompose_refuses_a_sum_that_decides_which_of_its_instances_run():
    stops = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(C[0] < 5)
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")
    sch = mlc.Schedule(stops)
    refuses("E114", lambda: sch.decompose_reduction("C", at="i"), "does not surely run first")
    refuses("E114", lambda: sch.decompose_reduction("C", at="k"), "does not surely run first")


SUMS = """
@T.prim_func
def main(
    A: T.Buffer((8, 6), "{dtype}"), B: T.Buffer((8,), "{dtype}"), C: T.Buffer((8,), "{dtype}")
):
    for i, k in T.grid(8, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {zero}
            C[vi] = {value}
"""


def sums(value: str, dtype: str = "int64") -> mlc.Schedule:
    zero = f"T.{dtype}(0)"
    return mlc.Schedule(mlc.parse(SUMS.format(value=value, dtype=dtype, zero=zero)), check=False)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(
    "value", ["C[vi] + A[vi, vk] + B[vi]", "A[vi, vk] + C[vi] + B[vi]", "C[vi] * A[vi, vk] * B[vi]"]
)
def test_a_sum_of_several_terms_is_a_reduction(value: str, dtype: str):
    sch = sums(value, dtype)
    order = sch.split("i", [None, 4]).reorder("i_0", "k", "i_1").vectorize("i_1").parallel("i_0")
    for after in (sch.decompose_reduction("C", "k"), order, sch.cache_write("C", "C")):
        mlc.verify(after.mod)
        assert_same(sch.mod, after.mod)
    kept = value.replace("vk]", "k]")
    assert value in order.mod.script() or kept in order.mod.script()
    refuses("E104", lambda: sch.parallel("k"))
    assert_same(sch.mod, sch.rfactor("k").parallel("k").mod)


@pytest.mark.parametrize(
    "value", ["C[vi] + A[vi, vk] + C[vi]", "C[vi] + A[vi, vk] * B[vi] - B[vi]", "B[vi] - C[vi]"]
)
def test_what_only_looks_like_a_sum_is_none(value: str):
    refuses("E103", lambda: sums(value), "vk is declared a reduction")


def test_the_terms_of_a_sum_may_start_it():
    text = SUMS.format(value="Y[vi] + A[vi, vk] + B[vi]", dtype="int32", zero="0")
    text = text.replace("C[vi] =", "Y[vi] =").replace('block("C")', 'block("Y")') + (
        "    for i in range(8):\n"
        '        with T.block("C"):\n'
        "            vi = T.axis.spatial(8, i)\n"
        "            C[vi] = Y[vi] + B[vi]\n"
    )
    text = text.replace("    for i, k", '    Y = T.alloc_buffer((8,), "int32")\n    for i, k', 1)
    sch = mlc.Schedule(mlc.parse(text))
    assert_same(sch.mod, sch.fuse_reduction_epilogue("Y", "C").mod)
