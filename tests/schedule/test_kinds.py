"""bind, notes, unit loops, and a schedule's queries of its blocks."""

import gc
import weakref

import pytest

import minimlc as mlc
from minimlc.loops.schedule import PRIMITIVES, finish
from minimlc.loops.schedule.finish import proven
from minimlc.loops.schedule.primitive import settled
from minimlc.recipes.views import Draft, proving
from tests.corpus.test_corpus import assert_right
from tests.helpers import refuses
from tests.schedule.programs import MatmulRelu

SCH = mlc.Schedule(MatmulRelu, check=False)
BOUND = SCH.bind("i", "blockIdx.x").bind("j", "threadIdx.x")


def test_bind_prints_and_reads_back():
    text = BOUND.mod.script()
    assert "for i in T.thread_binding(" in text and 'thread="threadIdx.x"' in text
    assert mlc.structural_equal(mlc.parse(text), BOUND.mod)
    assert mlc.Schedule.replay(MatmulRelu, BOUND.trace.to_json()).trace == BOUND.trace


def test_bound_loops_run_on_a_cpu():
    assert_right(SCH.mod, BOUND.mod)
    assert_right(SCH.mod, BOUND.split("k", [None, 2]).mod)


def test_bind_refuses_what_threads_cannot_share():
    refuses("E104", lambda: SCH.bind("k", "blockIdx.x"), "bound to threads", "k=0 and k=1")
    refuses("E104", lambda: BOUND.bind("k", "blockIdx.y"), "k=0 and k=1")
    refuses("E141", lambda: SCH.bind("i", "threadIdx.w"), "threadIdx.x")
    refuses("E118", lambda: SCH.bind("i", 3))
    refuses("E119", lambda: BOUND.parallel("i"))


def test_an_axis_is_not_nested_in_itself_and_has_one_size():
    refuses("E141", lambda: BOUND.add_unit_loop("k").bind("unit", "threadIdx.x"), "are both")
    wide = SCH.split("j", [None, 2])
    apart = wide.bind("j_0", "threadIdx.x")
    refuses("E141", lambda: apart.bind("i", "threadIdx.x"), "are both")
    script = """@T.prim_func
def main(C: T.Buffer((4, 6), "int32")):
    for i in range(4):
        for j in range(6):
            C[i, j] = 1
        for k in range(3):
            C[i, k] = 2
"""
    two = mlc.Schedule(mlc.parse(script), check=False).bind("j", "threadIdx.x")
    refuses("E141", lambda: two.bind("k", "threadIdx.x"), "6 threads", "3 iterations")


def test_a_move_does_not_nest_an_axis_in_itself():
    script = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    Y = T.alloc_buffer((8, 4), "int32")
    for i, j in T.grid(8, 4):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = A[vi] * vj.astype("int32")
    for x, y in T.grid(8, 4):
        with T.block("C"):
            vx, vy = T.axis.remap("SR", [x, y])
            with T.init():
                C[vx] = 0
            C[vx] = C[vx] + Y[vx, vy]
"""
    sch = mlc.Schedule(mlc.parse(script.replace('vj.astype("int32")', 'T.cast(vj, "int32")')))
    moved = sch.bind("x", "threadIdx.x").compute_at("Y", "x")
    inner = moved.loops("Y")[-1]
    refuses("E141", lambda: moved.bind(inner, "threadIdx.x"), "are both")
    assert_right(sch.mod, moved.bind(inner, "threadIdx.y").mod)


def test_a_reduction_is_offered_partial_results():
    error = refuses("E104", lambda: mlc.Schedule(SUM).vectorize("k"))
    assert 'sch.rfactor("k").vectorize("k")' in str(error)


SUM = mlc.parse(
    """@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((1,), "int32")):
    for k in range(8):
        with T.block("C"):
            v = T.axis.reduce(8, k)
            with T.init():
                C[0] = 0
            C[0] = C[0] + A[v]
"""
)


def test_notes_come_and_go():
    noted = SCH.annotate("Y", "tile", (4, 16)).annotate("i", "a", 1).annotate("i", "b", 2)
    bare = noted.unannotate("Y", "tile").unannotate("i", "a").unannotate("i", "b")
    assert mlc.structural_equal(bare.mod, SCH.mod)
    refuses("E105", lambda: bare.unannotate("i", "b"), "no note")
    refuses("E105", lambda: noted.unannotate("i", "bb"), '"b"')
    refuses("E105", lambda: noted.unannotate("z", "b"))


NOTE = {"stages": [0, 1], "sizes": {"i": 4, "fast": True, "name": "a 'b' \"c\""}, "none": {}}


@pytest.mark.parametrize("name", ["Y", "i"])
def test_a_note_may_be_a_dictionary(name):
    noted = SCH.annotate(name, "pipeline", NOTE)
    assert '{"stages": (0, 1), "sizes": {"i": 4' in noted.mod.script()
    assert mlc.structural_equal(mlc.parse(noted.mod.script()), noted.mod)
    again = mlc.Schedule.replay(MatmulRelu, noted.trace.to_json())
    assert mlc.structural_equal(again.mod, noted.mod) and again.trace == noted.trace
    assert eval(repr(noted.trace), {"sch": SCH}).trace == noted.trace
    pairs = SCH.annotate(name, "pipeline", [("a", 1)])
    assert not mlc.structural_equal(pairs.mod, SCH.annotate(name, "pipeline", {"a": 1}).mod)
    assert mlc.structural_equal(noted.unannotate(name, "pipeline").mod, SCH.mod)
    NOTE["later"] = 1
    assert "later" not in noted.mod.script()
    del NOTE["later"]


@pytest.mark.parametrize("value", [{1: 2}, {"a": None}, {"a": [{"b": 1}]}, {"a": object()}])
def test_a_note_is_made_of_names_and_constants(value):
    refuses("E118", lambda: SCH.annotate("Y", "pipeline", value), "a dictionary of those")


def test_a_unit_loop_is_a_place():
    new = SCH.add_unit_loop("C").add_unit_loop("i")
    assert new.loops("C")[-1] == "unit" and new.loops("Y")[0] == "unit1"
    assert_right(SCH.mod, new.mod)
    assert_right(SCH.mod, SCH.add_unit_loop("Y").bind("unit", "threadIdx.x").mod)
    refuses("E105", lambda: SCH.add_unit_loop("D"))


def test_what_a_schedule_says_of_its_blocks():
    assert SCH.output_blocks() == ["C"]
    assert SCH.child_blocks("i") == ["Y"]
    assert SCH.child_blocks("Y") == []
    nested = SCH.split("k", [None, 2]).blockize("k_1")
    assert nested.child_blocks("k_0") == ["Y_o"] and nested.child_blocks("Y_o") != []
    refuses("E105", lambda: SCH.child_blocks("D"))


def test_what_is_noted_is_proven_as_it_was_without_the_note(monkeypatch):
    draft = proving(Draft(SCH.mod, check=False), False)
    right = draft.parallel("i")
    noted = right.annotate("j", "note", 1).annotate("j", "more", 2)
    wrong = draft.parallel("k").annotate("j", "note", 1).annotate("j", "more", 2)
    for _ in range(2):
        refuses("E104", lambda: proven(wrong.func), "k=0 and k=1")
    assert proven(right.func) is right.func
    monkeypatch.setattr(finish, "check_blocks", None)
    assert proven(noted.func) is proven(noted.func) is noted.func


def test_only_what_is_asked_to_leaves_its_claims_open():
    """A space of the user's is given a draft: its steps are refused like any other's."""
    refuses("E104", lambda: Draft(SCH.mod, check=False).vectorize("k"), "k=0 and k=1")
    draft = Draft.trusting(SCH.mod, SCH.func_name)
    refuses("E104", lambda: draft.split("i", [2, None]).parallel("k"), "k=0 and k=1")
    left_open = proving(draft, False).vectorize("k")
    refuses("E104", lambda: proven(left_open.func), "k=0 and k=1")
    refuses("E104", lambda: proving(left_open, True).split("i", [2, None]), "k")


def test_a_claim_that_was_refused_is_refused_again():
    """Also by a step that returns what it was given."""
    left_open = proving(Draft(SCH.mod, check=False), False).vectorize("k")
    for _ in range(2):
        refuses("E104", lambda: settled(left_open.func), "k=0 and k=1")


def test_any_number_of_notes_is_proven():
    func, first = SCH.func, None
    for value in range(2000):
        func = PRIMITIVES["annotate"](func, "i", "note", value)
        first = first or weakref.ref(func)
    gc.collect()
    assert proven(func) is func and first() is None
