"""rfactor."""

import pytest

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, refuses
from tests.schedule.programs import MatmulRelu


@I.ir_module
class RowSum:
    @T.prim_func
    def main(A: T.Buffer((3, 10), "int32"), C: T.Buffer((3,), "int32")):
        for i, k in T.grid(3, 10):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.int32(0)
                C[vi] = C[vi] + A[vi, vk]


def test_rfactor_makes_partial_results_and_combines_them():
    sch = mlc.Schedule(RowSum).split("k", [None, 5]).rfactor("k_1")
    assert sch.blocks() == ["C_rf", "C"]
    assert 'C_rf = T.alloc_buffer((5, 3), "int32")' in sch.mod.script()
    assert_same(RowSum, sch.mod)


def test_the_factored_loop_may_be_parallel_or_vectorized():
    sch = mlc.Schedule(RowSum).split("k", [None, 5])
    refuses("E104", lambda: sch.parallel("k_0"))
    assert_same(RowSum, sch.rfactor("k_0").parallel("k_0").mod)
    assert_same(RowSum, sch.rfactor("k_1", axis=1).vectorize("k_1").mod)
    assert mlc.structural_equal(sch.rfactor("k_1", axis=-1).mod, sch.rfactor("k_1", axis=1).mod)


def test_partial_results_of_left_out_iterations_are_the_identity():
    sch = mlc.Schedule(RowSum).split("k", [None, 4]).split("i", [None, 2])
    assert_same(RowSum, sch.rfactor("k_1").mod)
    assert_same(RowSum, sch.rfactor("k_0", axis=1).mod)


def test_rfactor_of_one_of_two_blocks_keeps_the_other():
    sch = mlc.Schedule(MatmulRelu).split("k", [2, None]).reorder("k_0", "i", "j")
    assert_same(MatmulRelu, sch.rfactor("k_0").mod)


def test_rfactor_refuses_spatial_loops():
    sch = mlc.Schedule(RowSum)
    refuses("E150", lambda: sch.rfactor("i"), "not a reduction loop")
    refuses("E118", lambda: sch.rfactor("k", axis=2), "-2 to 1")
    refuses("E118", lambda: sch.rfactor("k", axis=-3), "-2 to 1")
    refuses("E150", lambda: sch.fuse("i", "k").rfactor("i_k_fused"), "i_k_fused")


def test_the_own_start_counts_once():
    @I.ir_module
    class FromSeven:
        @T.prim_func
        def main(
            A: T.Buffer((3, 7), "int32"), B: T.Buffer((3,), "int32"), C: T.Buffer((3,), "int32")
        ):
            for i, k in T.grid(3, 7):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.where(i + k < 6)
                    with T.init():
                        C[vi] = B[vi] + T.int32(7)
                    if A[vi, vk] > 0:
                        C[vi] = C[vi] + A[vi, vk] * T.int32(1000000)

    sch = mlc.Schedule(FromSeven)
    assert_same(FromSeven, sch.rfactor("k").mod)
    assert_same(FromSeven, sch.split("k", [None, 3]).rfactor("k_1").parallel("k_1").mod)


def test_without_a_start_the_target_goes_on():
    @I.ir_module
    class More:
        @T.prim_func
        def main(A: T.Buffer((3, 7), "float32"), C: T.Buffer((3,), "float32")):
            for i, k in T.grid(3, 7):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.where(A[i, k] > T.float32(0))
                    C[vi] = C[vi] + A[vi, vk]

    sch = mlc.Schedule(More).rfactor("k")
    assert "-0.0" in sch.mod.script()
    assert_same(More, sch.mod)


@I.ir_module
class ArgMax:
    @T.prim_func
    def main(A: T.Buffer((3, 10), "int32"), V: T.Buffer((3,), "int32"), P: T.Buffer((3,), "int64")):
        for i, k in T.grid(3, 10):
            with T.block("V"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    V[vi] = T.int32(0)
                    P[vi] = T.int64(3)
                P[vi] = T.Select(
                    A[vi, vk] > V[vi] or (A[vi, vk] == V[vi] and vk < P[vi]), vk, P[vi]
                )
                V[vi] = T.max(V[vi], A[vi, vk])


def test_an_argmax_has_partial_results_in_two_buffers():
    sch = mlc.Schedule(ArgMax).split("k", [None, 4])
    inner = sch.rfactor("k_1")
    assert inner.blocks() == ["V_rf", "V"]
    assert 'P_rf = T.alloc_buffer((4, 3), "int64")' in inner.mod.script()
    assert "T.int32(-2147483648)" in inner.mod.script()
    assert_same(ArgMax, inner.vectorize("k_1").mod)
    assert_same(ArgMax, sch.rfactor("k_0", axis=1).parallel("k_0").mod)
    assert_same(ArgMax, mlc.Schedule(ArgMax).rfactor("k").mod)


def test_an_argmax_decomposes_and_keeps_its_order():
    sch = mlc.Schedule(ArgMax)
    made = sch.decompose_reduction("V", at="k")
    assert made.blocks() == ["V_init", "V_update"]
    assert_same(ArgMax, made.mod)
    assert_same(ArgMax, sch.decompose_reduction("V", at="i").mod)
    refuses("E104", lambda: sch.parallel("k"))
    refuses("E109", lambda: sch.split("k", [2, None]).reorder("k_1", "k_0"))


def test_the_first_of_ties_is_no_matter_of_any_order():
    @I.ir_module
    class First:
        @T.prim_func
        def main(
            A: T.Buffer((3, 6), "int32"), V: T.Buffer((3,), "int32"), P: T.Buffer((3,), "int64")
        ):
            for i, k in T.grid(3, 6):
                with T.block("V"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    P[vi] = T.Select(A[vi, vk] > V[vi], vk, P[vi])
                    V[vi] = T.max(V[vi], A[vi, vk])

    refuses("E150", lambda: mlc.Schedule(First).rfactor("k"), "exchanged", "(0, 0) and (1, 0)")


def argmax_of_floats(axes: str, better: str) -> str:
    return f"""
@T.prim_func
def main(
    A: T.Buffer((3, 7), "float32"), V: T.Buffer((3,), "float32"), P: T.Buffer((3,), "int64")
):
    for i, k in T.grid(3, 7):
        with T.block("V"):
            vi, vk = T.axis.remap("{axes}", [i, k])
            P[vi] = T.Select({better}, vk, P[vi])
            V[vi] = T.max(V[vi], A[vi, vk])
"""


GREATER = "A[vi, vk] > V[vi] or (A[vi, vk] == V[vi] and vk < P[vi])"
NAN_IS_GREATEST = (
    "A[vi, vk] > V[vi] or (A[vi, vk] != A[vi, vk] and V[vi] == V[vi]) or "
    "((A[vi, vk] == V[vi] or (A[vi, vk] != A[vi, vk] and V[vi] != V[vi])) and vk < P[vi])"
)


def test_nan_has_a_place_in_the_order_or_there_is_no_order():
    wrong = mlc.parse(argmax_of_floats("SR", GREATER))
    refuses("E103", lambda: mlc.Schedule(wrong).split("k", [1, None]), "nan", "grouped")
    ordered = mlc.Schedule(mlc.parse(argmax_of_floats("SO", GREATER)))
    refuses("E150", lambda: ordered.rfactor("k"))
    whole = mlc.parse(argmax_of_floats("SR", NAN_IS_GREATEST))
    sch = mlc.Schedule(whole).split("k", [None, 3]).rfactor("k_1")
    assert_same(whole, sch.mod)


def test_a_start_of_max_counts_once_however_often():
    @I.ir_module
    class Top:
        @T.prim_func
        def main(A: T.Buffer((3, 7), "float32"), C: T.Buffer((3,), "float32")):
            for i, k in T.grid(3, 7):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.float32(-1)
                    C[vi] = T.max(C[vi], A[vi, vk])

    sch = mlc.Schedule(Top).split("k", [None, 3])
    assert_same(Top, sch.rfactor("k_0").mod)
    assert_same(Top, sch.rfactor("k_1").mod)


TERMS = """
@T.prim_func
def main(
    A: T.Buffer((4, 12), "{dtype}"), B: T.Buffer((4, 12), "{dtype}"), C: T.Buffer((4,), "{dtype}")
):
    for i, k in T.grid(4, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("S{kind}", [i, k])
            with T.init():
                C[vi] = T.{dtype}(1)
            C[vi] = {value}
"""
X, Y, Z = "A[vi, vk]", "C[vi]", "B[vi, vk]"


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize(
    "value",
    [
        f"{Y} + {X} + {Z}",
        f"{X} + {Y} + {Z}",
        f"{X} + {Z} + {Y}",
        f"{X} + ({Y} + {Z})",
        f"({X} + {Z}) + ({Z} + ({Y} + {X}))",
        f"T.max({X}, T.max({Y}, {Z}))",
        f"{Y} + {X} * {Z} + {X}",
    ],
)
def test_a_sum_of_several_terms_has_partial_results(value, dtype):
    mod = mlc.parse(TERMS.format(value=value, kind="R", dtype=dtype))
    new = mlc.Schedule(mod).split("k", [None, 5]).rfactor("k_1").vectorize("k_1")
    assert_same(mod, new.mod)
    assert_same(mod, mlc.Schedule(mod).reorder("k", "i").mod)
    assert_same(mod, mlc.Schedule(mod).decompose_reduction("C", "k").mod)


@pytest.mark.parametrize(
    "value",
    [
        f"{X} - ({Y} + {Z})",
        f"{X} + ({Z} - {Y})",
        f"{X} + {Y} * {Z}",
        f"{Y} + {X} + {Y}",
        f"{X} + (2 + C[3 - vi])",
        f"{X} + T.max({Y}, {Z})",
    ],
)
def test_what_several_terms_make_is_no_sum(value):
    with pytest.raises(mlc.CompileError) as caught:
        mlc.Schedule(mlc.parse(TERMS.format(value=value, kind="R", dtype="int32")))
    assert caught.value.code == "E103"


def anew(start: str) -> mlc.IRModule:
    """Sums in a loop that they share with another statement."""
    return mlc.parse(f"""
@T.prim_func
def main(A: T.Buffer((3, 8), "int32"), C: T.Buffer((3,), "int32"), S: T.Buffer((1,), "int32")):
    for p in range(3):
        for k in range(8):
            with T.block("S"):
                vk = T.axis.reduce(8, k)
                {start}
                S[0] = S[0] + A[p, vk]
        C[p] = S[0]
""")


@pytest.mark.parametrize("start", ["with T.init(): S[0] = 0", "pass"])
def test_sums_that_run_anew_in_a_loop_they_share(start):
    sch = mlc.Schedule(anew(start)).split("k", [None, 4])
    assert_same(sch.mod, sch.rfactor("k_1").mod)
    assert_same(sch.mod, sch.rfactor("k_0").mod)


def test_sums_that_run_anew_in_a_loop_of_their_own():
    mod = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((3, 8), "int32"), S: T.Buffer((1,), "int32")):
    for p in range(3):
        for k in range(8):
            with T.block("S"):
                vk = T.axis.reduce(8, k)
                S[0] = S[0] + A[p, vk]
""")
    refuses("E150", lambda: mlc.Schedule(mod).rfactor("k"), 'anew in each iteration of "p"')
