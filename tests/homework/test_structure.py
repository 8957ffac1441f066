"""Structure is found by what loops and buffers do, whatever they are called."""

import inspect
import sys

import pytest

import minimlc as mlc
from minimlc import homework
from minimlc.homework import structure as st
from minimlc.homework.nest import Nest
from minimlc.script import I, T

N = 64


@I.ir_module
class Dense:
    @T.prim_func
    def dense(
        A: T.Buffer((N, N), "float32"),
        B: T.Buffer((N, N), "float32"),
        bias: T.Buffer((N,), "float32"),
        C: T.Buffer((N, N), "float32"),
    ):
        Y = T.alloc_buffer((N, N), "float32")
        for i, j, k in T.grid(N, N, N):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i2, j2 in T.grid(N, N):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i2, j2])
                C[vi, vj] = T.max(Y[vi, vj] + bias[vj], T.float32(0))


PLAIN = mlc.Schedule(Dense, check=False)


def ladder(i="i", j="j", k="k") -> dict[str, mlc.Schedule]:
    """The steps to a fast version; the letters are what the student calls the loops' parts."""
    steps = {"plain": PLAIN}
    sch = PLAIN.split("i", [None, 4], names=[f"{i}a", f"{i}b"])
    sch = sch.split("j", [None, 16], names=[f"{j}a", f"{j}b"])
    steps["split"] = sch = sch.split("k", [None, 8], names=[f"{k}a", f"{k}b"])
    sch = sch.reorder(f"{j}a", f"{i}a", f"{k}a", f"{k}b", f"{i}b", f"{j}b")
    steps["tiled"] = sch
    steps["fused"] = sch = sch.reverse_compute_at("C", f"{i}a")
    steps["decomposed"] = sch = sch.decompose_reduction("Y", at=f"{k}a")
    rows, columns = sch.loops("C")[-2:]
    for loop in (f"{j}b_init", f"{j}b", columns):
        sch = sch.vectorize(loop)
    steps["vectors"] = sch
    for loop in (f"{i}b_init", f"{i}b", rows):
        sch = sch.unroll(loop)
    steps["registers"] = sch
    steps["staged"] = sch.cache_read("Y_update", "B").compute_at("B_local", f"{k}a")
    steps["packed"] = sch.cache_read("Y_update", "B").compute_at("B_local", f"{j}a")
    steps["parallel"] = steps["packed"].parallel(f"{j}a")
    return steps


STEPS = ladder()
# Requirement: the first step at which it is met, and what is said at the step before.
FIRST = {
    st.cut("k", 4, 32): ("split", "k has 1 loop(s), of 64"),
    st.tiled("i", 2, 16): ("tiled", "no loop of another axis stands between ia, ib"),
    st.tiled("j", 8, 64): ("tiled", "no loop of another axis stands between ja, jb"),
    st.fused_epilogue(): ("fused", "C is a pass of its own over i and j"),
    st.no_guard(): ("decomposed", "asks whether the sum begins"),
    st.vectorized("j"): ("vectors", "no loop of j is vectorized"),
    st.unrolled("i"): ("registers", "no loop of i is unrolled"),
    st.register_tile(16, 512): ("registers", "Y is indexed by ib, a serial loop"),
    st.staged("B", inside="k_0"): ("staged", "the computation reads B itself"),
    st.parallel("i", "j"): ("parallel", "no loop of i or j is parallel"),
}


@pytest.mark.parametrize("requirement", FIRST, ids=lambda requirement: requirement.text)
def test_it_is_met_from_a_step_on(requirement):
    first, before = FIRST[requirement]
    names = list(STEPS)
    at = names.index(first)
    last = STEPS[names[at - 1]]
    assert before in requirement.explain(Nest(PLAIN.func, last.func))
    assert requirement.explain(Nest(PLAIN.func, STEPS[first].func)) == ""


@pytest.mark.parametrize("names", [("i", "j", "k"), ("k", "i", "j"), ("x", "C", "B")])
def test_the_students_names_do_not_matter(names):
    nest = Nest(PLAIN.func, ladder(*(f"{name}_" for name in names))["parallel"].func)
    for requirement in FIRST:
        if "staged" not in requirement.text:
            assert requirement.explain(nest) == "", requirement.text


def test_staged_counts_the_loops_of_an_axis_from_the_outermost():
    inside_k, inside_j = (Nest(PLAIN.func, STEPS[name].func) for name in ("staged", "packed"))
    assert st.staged("B", "j_0").explain(inside_j) == ""
    assert st.staged("B", "j").explain(inside_j) == ""
    assert st.staged("B", "k").explain(inside_k) == ""
    assert "outside of the loops of k" in st.staged("B", "k_0").explain(inside_j)
    assert "outside of the loops of k" in st.staged("B", "k_1").explain(inside_k)
    assert st.staged("A", "i").explain(inside_j) == "the computation reads A itself"


def test_packed_means_in_the_order_of_use():
    assert st.packed("B").explain(Nest(PLAIN.func, STEPS["packed"].func)) == ""
    assert "reads B itself" in st.packed("B").explain(Nest(PLAIN.func, STEPS["registers"].func))
    copied = STEPS["registers"].cache_read("Y_update", "B")
    why = st.packed("B").explain(Nest(PLAIN.func, copied.func))
    assert why == "in B_local, kb steps by 64 elements, not by 16"
    rows = STEPS["registers"].cache_read("Y_update", "A").compute_at("A_local", "ia")
    assert "A_local" in st.packed("A").explain(Nest(PLAIN.func, rows.func))


def test_another_layout_packs_as_well():
    copied = STEPS["registers"].cache_read("Y_update", "B")
    tiles = copied.transform_layout("B_local", "B_local", lambda k, j: (j // 16, k, j % 16))
    assert st.packed("B").explain(Nest(PLAIN.func, tiles.func)) == ""
    wider = copied.transform_layout("B_local", "B_local", lambda k, j: (j // 32, k, j % 32))
    assert "steps by 32 elements" in st.packed("B").explain(Nest(PLAIN.func, wider.func))


def test_guards_of_a_tail_are_found():
    odd = PLAIN.split("j", [None, 15]).reorder("i", "j_0", "k", "j_1")
    odd = odd.decompose_reduction("Y", at="k")
    assert "the hot loop asks whether" in st.no_guard().explain(Nest(PLAIN.func, odd.func))


def test_fused_loops_keep_their_axes():
    both = PLAIN.fuse("i", "j").parallel("i_j_fused")
    nest = Nest(PLAIN.func, both.func)
    assert st.parallel("i").explain(nest) == st.parallel("j").explain(nest) == ""
    cut = PLAIN.fuse("i", "j").split("i_j_fused", [None, 16])
    assert st.cut("j", 16, 16).explain(Nest(PLAIN.func, cut.func)) == ""


def test_a_cached_write_back_counts_as_fused():
    sch = STEPS["tiled"].cache_write("Y", "Y").reverse_compute_at("Y_local", "ia")
    assert "C is a pass of its own" in st.fused_epilogue().explain(Nest(PLAIN.func, sch.func))
    sch = sch.reverse_compute_at("C", "ia")
    assert st.fused_epilogue().explain(Nest(PLAIN.func, sch.func)) == ""


def test_sums_in_the_callers_memory_are_not_a_register_tile():
    @I.ir_module
    class Product:
        @T.prim_func
        def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
            for i, k in T.grid(8, 8):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vi, vk]

    func = mlc.Schedule(Product).func
    nest = Nest(func, func)
    assert "in the caller's memory" in st.register_tile().explain(nest)
    assert "written by the reduction itself" in st.fused_epilogue().explain(nest)


def test_the_loops_stand_in_an_order():
    requirement = st.ordered("j", "i", "k", ("i", "j"))
    assert requirement.text == "from outside in, the loops are those of j, i, k, i and j"
    for step in ("plain", "split"):
        assert requirement.explain(Nest(PLAIN.func, STEPS[step].func)).startswith("from outside in")
    assert requirement.explain(Nest(PLAIN.func, STEPS["parallel"].func)) == ""
    tiled = PLAIN.split("i", [None, 4]).split("j", [None, 16])
    for loops, met in {
        ("j_0", "i_0", "k", "j_1", "i_1"): True,
        ("i_0", "j_0", "k", "i_1", "j_1"): False,
        ("j_0", "i_0", "j_1", "k", "i_1"): False,
        ("j_0", "i_0", "i_1", "k", "j_1"): False,
    }.items():
        sch = tiled.reorder(*loops)
        assert (requirement.explain(Nest(PLAIN.func, sch.func)) == "") == met, loops
        fused = sch.fuse(*loops[:2])
        assert (requirement.explain(Nest(PLAIN.func, fused.func)) == "") == met, loops
    unit = tiled.reorder("j_0", "i_0", "k", "i_1", "j_1").split("k", [64, 1])
    assert requirement.explain(Nest(PLAIN.func, unit.func)) == ""


def test_a_copy_may_be_made_once_for_an_axis():
    copied = STEPS["registers"].cache_read("Y_update", "B")
    for at, met in {"ja": True, "ia": False, "ka": False}.items():
        nest = Nest(PLAIN.func, copied.compute_at("B_local", at).func)
        assert (st.copied_outside("B", "i").explain(nest) == "") == met, at
        assert met or "is filled anew in each iteration of ia" in st.copied_outside(
            "B", "i"
        ).explain(nest)
    assert st.copied_outside("B", "j").explain(Nest(PLAIN.func, copied.func)) == ""
    assert "reads A itself" in st.copied_outside("A", "i").explain(Nest(PLAIN.func, copied.func))


def test_requirements_combine():
    nest = Nest(PLAIN.func, STEPS["tiled"].func)
    yes, no = st.tiled("i", 2, 16), st.vectorized("j")
    assert (yes & no).explain(nest) == "no loop of j is vectorized"
    assert (yes | no).explain(nest) == "" == (no | yes).explain(nest)
    assert (yes & no).text == f"{yes.text}, and {no.text}"
    own = st.Requirement("at most 6 loops", lambda n: "" if len(n.main.loops) <= 6 else "too many")
    assert own.explain(nest) == ""


def test_a_requirement_on_an_axis_that_is_not_there_is_the_instructors_mistake():
    with pytest.raises(ValueError, match=r'no axis "z"'):
        st.tiled("z", 1, 2).explain(Nest(PLAIN.func, PLAIN.func))


@pytest.mark.parametrize(
    "test", [lambda nest: nest.nothing, lambda nest: None, lambda: "", lambda nest: sys.exit(0)]
)
def test_a_requirement_whose_test_is_wrong_is_the_instructors_mistake(test):
    failing = st.Requirement("it is fast", test)
    for requirement in (failing, failing & failing, failing | failing):
        with pytest.raises(homework.HomeworkError, match=r'the test of "it is fast"') as caught:
            requirement.explain(Nest(PLAIN.func, PLAIN.func))
        assert caught.value.code == "E802"


def test_requirements_take_their_arguments_and_no_nest():
    assert list(inspect.signature(st.tiled).parameters) == ["axis", "low", "high"]
    assert st.register_tile().text == "the sums stay in a register tile of 2–1024 elements"
    assert st.parallel("i", "j").text == "a loop of i or j is parallel"
    assert st.staged("B", inside="k_0").text == "B is staged in a cache inside k_0"
    with pytest.raises(TypeError, match="high"):
        st.tiled("i", 2)


def test_a_requirement_without_a_test_is_refused():
    with pytest.raises(homework.HomeworkError, match=r'the test of "it is fast"'):
        st.Requirement("it is fast", "fast")


def test_the_last_step_earns_all_structure_points_of_hw2():
    items = homework.find("hw2.dense").items
    nest = Nest(PLAIN.func, STEPS["parallel"].func)
    for item in items:
        if item.requirement is not None:
            assert item.requirement.explain(nest) == "", item.text
