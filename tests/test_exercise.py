"""Exercises: a right answer, wrong ones, and answers that misbehave: a line, never a traceback."""

import itertools
import sys

import numpy as np
import pytest

import minimlc as mlc
from minimlc.exercise import (
    Exercise,
    at_least,
    at_most,
    computes,
    faster,
    gives,
    guess,
    refusals,
    schedules,
)
from minimlc.homework import structure as st
from minimlc.script import I, R, T


@I.ir_module
class Double:
    @T.prim_func
    def double(A: T.Buffer((100,), "float32"), C: T.Buffer((100,), "float32")):
        for i in range(100):
            with T.block("C"):
                vi = T.axis.spatial(100, i)
                C[vi] = A[vi] * T.float32(2)


@I.ir_module
class Triple:
    @T.prim_func
    def triple(A: T.Buffer((100,), "float32"), C: T.Buffer((100,), "float32")):
        for i in range(100):
            with T.block("C"):
                vi = T.axis.spatial(100, i)
                C[vi] = A[vi] * T.float32(3)


@I.ir_module
class Relu:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        return R.relu(x)


SCH = mlc.Schedule(Double)
HALVES = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)

program = Exercise(computes(lambda a: 2 * a, (100,)))
graph = Exercise(gives(np.maximum(HALVES, 0), HALVES), kind=mlc.IRModule)
split = Exercise(schedules(Double, st.cut("i", 4, 10), st.no_guard()), takes=(SCH,))
number = Exercise(guess(lambda: 7, "Count the loops."))
word = Exercise(guess(lambda: "read", "When is it known?"))
steps = Exercise(
    refusals({"split": lambda: SCH.split("i", [2, 50]), "fuse": lambda: SCH.fuse("j", "k")})
)
few = Exercise(at_most(2, "loops", lambda sch: len(sch.loops("C"))), kind=mlc.Schedule)
many = Exercise(at_least(0.5, "of it", lambda share: 0 if share > 1 else share))
both = Exercise(at_least(1, "loops", lambda sch: 1), *few.claims, kind=mlc.Schedule)
EVERY = [program, graph, split, number, word, steps, few, many, both]


class Hostile:
    """Nothing that is asked of it is answered."""

    def __getattribute__(self, name):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")

    __hash__ = None


class Silent(AssertionError):
    def __str__(self):
        raise RuntimeError("no")


def raises(error):
    def answer(*taken):
        raise error

    return answer


def forever(*taken):
    return forever(*taken)


RIGHT = [
    (program, Double, "right"),
    (program, lambda: Double["double"], "right"),
    (graph, Relu, "right"),
    (split, lambda sch: sch.split("i", [None, 5]), "right"),
    (split, lambda sch: sch.split("i", [10, None], names=["a", "b"]).parallel("a"), "right"),
    (number, 7, "right"),
    (number, 7.0, "right"),
    (word, "read", "right"),
    (steps, ["fuse"], "right: fuse is refused"),
    (few, SCH, "right: at most 2 loops"),
    (many, np.float64(0.5), "right: at least 0.5 of it"),
    (both, SCH, "right: at least 1 loops; at most 2 loops"),
]

WRONG = [
    (program, Triple, "not yet: for whole numbers, interpreted: element [0] is 12.0; expected 8.0"),
    (program, 3, "not yet: a module is wanted, not int"),
    (program, Relu, "not yet: the module must hold one @T.prim_func"),
    (program, lambda: mlc.parse("x ="), "not yet: ScriptError: E127"),
    (graph, Double, "not yet: "),
    (graph, Double["double"], "not yet: it is a value of type PrimFunc, not IRModule"),
    (split, lambda sch: sch, "not yet: i has 1 loop(s), of 100"),
    (split, lambda sch: sch.split("i", [None, 8]), "not yet: the hot loop asks whether"),
    (split, lambda sch: mlc.Schedule(Triple).split("i", [None, 5]), "not yet: this schedules an"),
    (split, lambda sch: mlc.Schedule(sch.split("i", [None, 5]).mod), "not yet: this schedules an"),
    (split, lambda sch: sch.split("i", [None, 5]).mod, "not yet: a schedule is wanted"),
    (split, lambda sch: sch.split("q", [None, 5]), "not yet: ScheduleError: E1"),
    (split, lambda: SCH, "not yet: TypeError: "),
    (number, 6, "not yet: 6 is too small. Count the loops."),
    (number, 8, "not yet: 8 is too large. Count the loops."),
    (number, "7", "not yet: a number is wanted, not '7'"),
    (number, float("nan"), "not yet: a number is wanted, not nan"),
    (number, float("inf"), "not yet: a number is wanted, not inf"),
    (word, "called", "not yet: not 'called'. When is it known?"),
    (steps, {"split"}, "not yet: 0 of 2 are judged right"),
    (steps, {"fuse", "split"}, "not yet: 1 of 2 are judged right"),
    (steps, {"fold"}, "not yet: there is no 'fold': the names are split, fuse"),
    (steps, "fuse", "not yet: a set of names is wanted, not 'fuse'"),
    (few, SCH.split("i", [2, 5, 10]), "not yet: 3 loops; at most 2 wanted"),
    (many, 0.25, "not yet: 0.25 of it; at least 0.5 wanted"),
    (many, float("nan"), "not yet: nan of it; at least 0.5 wanted"),
]


@pytest.mark.parametrize("exercise, answer, said", RIGHT)
def test_a_right_answer_is_right(exercise, answer, said):
    verdict = exercise.check(answer)
    assert verdict.right and repr(verdict) == said


@pytest.mark.parametrize("exercise, answer, said", WRONG)
def test_a_wrong_answer_is_told_what_is_wrong(exercise, answer, said):
    verdict = exercise.check(answer)
    assert not verdict.right and repr(verdict).startswith(said), verdict


MISCHIEF = {
    "object": object,
    "hostile": Hostile,
    "class": lambda: Hostile,
    "builtin": lambda: print,
    "empty": list,
    "unhashable": lambda: [[]],
    "long": lambda: "x" * 10**6,
    "half a character": lambda: "\ud800",
    "large": lambda: 10**400,
    "infinite": lambda: np.full(3, np.inf),
    "endless": itertools.count,
    "generator": lambda: (n for n in ()),
    "mapping": lambda: {"split": 1},
    "raises": lambda: raises(ZeroDivisionError("by zero")),
    "raises in silence": lambda: raises(Silent()),
    "raises long": lambda: raises(ValueError("x" * 10**6)),
    "exits": lambda: raises(SystemExit(3)),
    "recursion": lambda: forever,
    "returns hostile": lambda: lambda *taken: Hostile(),
    "yields": lambda: lambda *taken: (yield),
    "takes nothing": lambda: lambda **taken: "nothing",
    "returns lines": lambda: lambda *taken: "\n".join(map(str, range(10**5))),
}


@pytest.mark.parametrize("name", MISCHIEF)
def test_no_answer_raises(name):
    """One line, which can be shown."""
    for exercise in EVERY:
        verdict = exercise.check(MISCHIEF[name]())
        assert not verdict.right
        assert repr(verdict).startswith("not yet: ") and "\n" not in repr(verdict)
        assert len(repr(verdict).encode()) < 1000
        assert verdict._repr_mimebundle_()["text/plain"] == repr(verdict)


def test_an_interrupt_is_not_an_answer():
    with pytest.raises(KeyboardInterrupt):
        number.check(raises(KeyboardInterrupt()))


@pytest.mark.parametrize("exercise", EVERY)
def test_an_untouched_exercise_is_not_right(exercise):
    assert repr(exercise.check(None)) == "not yet: it is None: your turn"
    assert repr(exercise.check(lambda *taken: None)) == "not yet: <lambda> returns None: your turn"


def test_a_solution_does_not_look_like_an_answer():
    assert repr(number.solution(7)) == "one solution"
    assert repr(few.solution(SCH)) == "one solution: at most 2 loops"
    assert repr(number.solution(6)) == "one solution, but: 6 is too small. Count the loops."


def test_an_error_says_in_which_line_of_the_answer():
    def answer():
        numbers = {}
        return numbers["seven"]

    line = answer.__code__.co_firstlineno + 2
    assert repr(number.check(answer)) == f"not yet: KeyError in line {line}: 'seven'"


def test_what_is_passed_is_the_exercise_s_own():
    kept = np.zeros(3)
    exercise = Exercise(takes=(kept,))

    def answer(array):
        array[:] = 1
        return array

    assert exercise.check(answer).right and not kept.any()


@pytest.mark.parametrize("given", [[3, [1], 2], {"a": [1]}, {1, 2}, ([1], {2: [3]}), bytearray(3)])
def test_containers_are_the_exercise_s_own_too(given):
    exercise, before = Exercise(takes=(given,)), repr(given)

    def answer(value):
        for part in value if isinstance(value, list | tuple) else [value]:
            if hasattr(part, "clear"):
                part.clear()
        getattr(value, "clear", list)()
        return 1

    assert exercise.check(answer).right and repr(given) == before


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32, np.float64, int, float])
def test_numbers_of_numpy_are_numbers(kind):
    exercise, other = Exercise(guess(lambda: 72)), Exercise(guess(lambda: kind(72)))
    assert exercise.check(kind(72)).right and other.check(72).right
    assert "too small" in repr(exercise.check(kind(71))) and "too large" in repr(other.check(73))
    assert "a number is wanted" in repr(exercise.check(np.bool_(True)))


def test_inputs_may_not_change():
    @T.prim_func
    def halve(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi]
        for i in range(4):
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = T.float32(0)

    verdict = Exercise(computes(lambda a: a, (4,))).check(halve)
    assert repr(verdict) == "not yet: input 0 was changed, for whole numbers, interpreted"


def test_what_is_never_written_is_not_right():
    @T.prim_func
    def half(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(2):
            with T.block("C"):
                vi = T.axis.spatial(2, i)
                C[vi] = A[vi]

    verdict = Exercise(computes(lambda a: a, (4,))).check(half)
    assert "element [2] is nan" in repr(verdict)


def test_more_is_folded():
    """A notebook shows the line, and below it what else there is, to unfold."""
    bundle = split.check(lambda sch: sch.split("<q>", [None, 5]))._repr_mimebundle_()
    assert bundle["text/plain"].count("\n") == 0
    assert "<details>" in bundle["text/html"] and "<q>" not in bundle["text/html"]
    assert "text/html" not in number.check(8)._repr_mimebundle_()


@pytest.mark.alone
def test_faster_measures_both_in_turns():
    threads = mlc.num_threads()
    exercise = Exercise(faster(Double, 1000))
    said = repr(exercise.check(SCH))
    assert said.endswith("times as fast as the plain loops; at least 1,000 wanted")
    assert Exercise(faster(Double, 0.001)).check(SCH.vectorize("i")).right
    assert mlc.num_threads() == threads


def test_endless_recursion_ends_under_any_limit():
    """Other libraries raise Python's limit for good; a process has no stack for so many calls."""
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(10**6)
        assert "RecursionError" in repr(number.check(forever))
        assert sys.getrecursionlimit() == 10**6
    finally:
        sys.setrecursionlimit(limit)
