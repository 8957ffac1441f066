"""Prefetches: what is asked for, and that nothing else changes."""

import re

import numpy as np
import pytest

from minimlc.loops.ir.walks import loops_in
from minimlc.loops.schedule import Schedule
from minimlc.loops.schedule.tree import replaced
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import replace
from minimlc.script import parse
from minimlc.services.build import build
from tests.helpers import assert_close, copies, random_args

TWO_STEPS = """@T.prim_func
def main(A: T.Buffer((6, 40), "float32"), C: T.Buffer((6, 40), "float32")):
    B = T.alloc_buffer((6, 40), "float32")
    for i in range(6):
        for j in range(40):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for k in range(40):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, k])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""


def noted(note: object, loop: str = "i") -> IRModule:
    return Schedule(parse(TWO_STEPS), check=False).annotate(loop, "prefetch", note).mod


def asked(mod: IRModule) -> int:
    """How many prefetches stand in the code; it computes what the program without them does."""
    args = random_args(mod["main"], np.random.default_rng(0))
    again = copies(args)
    build(parse(TWO_STEPS), cache=False)["main"](*args)
    lib = build(mod, cache=False)
    lib["main"](*again)
    assert_close(tuple(args), tuple(again), exact=True)
    return lib.source("llvm").count("call void @llvm.prefetch")


@pytest.mark.parametrize("buffer", ["A", "C"])
def test_a_row_is_asked_for_by_lines_of_memory(buffer):
    """40 floats are 160 bytes: three lines from an aligned start, four from any other."""
    assert asked(noted(buffer)) == 4


@pytest.mark.parametrize(("note", "loop", "level"), [("A", "j", "3"), (("A", "i"), "j", "2")])
def test_what_is_for_later_does_not_fill_the_first_level(note, loop, level):
    text = build(noted(note, loop), cache=False).source("llvm")
    assert set(re.findall(r"@llvm\.prefetch\.p0\(ptr %\w+, i32 0, i32 (\d)", text)) == {level}


@pytest.mark.parametrize(("width", "count"), [(1, 1), (8, 1), (20, 2), (40, 4)])
def test_the_next_iteration_asks_for_the_line_in_which_this_one_ends(width, count):
    """Of 20 floats that begin anywhere, the last may be in a third line: the next 20 begin there.
    A whole row has no next one.
    """
    sch = Schedule(parse(TWO_STEPS), check=False).split("j", [None, width])
    assert asked(sch.annotate("j_0", "prefetch", ("A", "i")).mod) == count


def test_storage_inside_of_the_loop_is_not_there_to_ask_for():
    assert asked(noted("B")) == 0


def test_a_parallel_loop_asks_too():
    sch = Schedule(noted("A"), check=False)
    assert asked(sch.parallel("i").mod) == 4


@pytest.mark.parametrize("note", [("A", "i"), ("A", "j"), "A"])
def test_an_inner_loop_asks_for_its_part_of_another_iteration(note):
    """The next row's element, the next element, this one: one line each, in each of 40 columns."""
    assert asked(noted(note, "j")) == 1


def test_the_next_iteration_is_a_row_further():
    """With a note that names the loop, the address is 40 floats on, and nothing else differs."""
    here, ahead = (build(noted(n, "j"), cache=False).source("llvm") for n in ("A", ("A", "i")))
    assert here != ahead
    assert len(here.splitlines()) < len(ahead.splitlines())


def by_hand(*notes: object) -> IRModule:
    """The loop i with notes that no primitive has looked at."""
    mod = parse(TWO_STEPS)
    (loop,) = [lp for lp in loops_in(mod["main"].body) if lp.var.name == "i"]
    made = replace(loop, annotations=tuple(("prefetch", note) for note in notes))
    return mod.with_function("main", replaced(mod["main"], {loop: made}))


@pytest.mark.parametrize("note", [("A", "elsewhere"), ("nothing", "i"), 3, ("A", "i", "j")])
def test_a_note_that_means_nothing_is_left(note):
    """An unknown loop is no next one; what is not a buffer is not asked for."""
    assert asked(by_hand(note)) == (4 if note == ("A", "elsewhere") else 0)


@pytest.mark.parametrize(
    ("loop", "key", "note", "code", "says"),
    [
        ("i", "prefetch", "D", "E105", 'there is no buffer "D"'),
        ("i", "prefetch", ("A", "k"), "E105", 'there is no loop "k"; around "i" there is none'),
        ("j", "prefetch", ("A", "k"), "E105", 'there is no loop "k"; around "j" there is none'),
        ("i", "prefetch", 3, "E118", 'a prefetch is "X" or ("X", "i"), got 3'),
        ("i", "nontemporal", ("C", "i"), "E118", 'a nontemporal is "X", got'),
        ("i", "nontemporal", "c", "E105", 'there is no buffer "c"'),
    ],
)
def test_annotate_refuses_notes_that_mean_nothing(loop, key, note, code, says):
    with pytest.raises(ScheduleError, match=re.escape(says)) as caught:
        Schedule(parse(TWO_STEPS), check=False).annotate(loop, key, note)
    assert caught.value.code == code


def test_other_notes_hold_anything():
    Schedule(parse(TWO_STEPS), check=False).annotate("i", "mine", ("D", 3)).annotate(
        "C", "prefetch", 3
    )


def test_a_loop_made_by_hand_may_have_two_notes():
    assert asked(by_hand("A", "C")) == 8


def test_a_buffer_without_axes_is_one_line_and_a_large_box_is_asked_for_in_part():
    scalar = """@T.prim_func
def main(A: T.Buffer((), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        C[i] = A[()]
"""
    lib = build(Schedule(parse(scalar)).annotate("i", "prefetch", "A").mod, cache=False)
    out = np.zeros(8, np.float32)
    lib["main"](np.array(3, np.float32), out)
    assert out.tolist() == [3.0] * 8
    assert lib.source("llvm").count("call void @llvm.prefetch") == 1
    large = """@T.prim_func
def main(A: T.Buffer((4, 1073741824, 1024), "int8"), C: T.Buffer((4,), "int8")):
    for i in range(4):
        for j, k in T.grid(1073741824, 1024):
            C[i] = A[i, j, k]
"""
    lib = build(Schedule(parse(large), check=False).annotate("i", "prefetch", "A").mod, cache=False)
    assert lib.source("llvm").count("call void @llvm.prefetch") == 64
