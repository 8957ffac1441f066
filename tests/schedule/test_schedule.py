"""The Schedule as a value: immutability, trace, history, navigation, the safety net."""

import inspect
import json

import pytest

import minimlc as mlc
from minimlc.schedule import PRIMITIVES
from tests.fuzz.programs import PROGRAMS
from tests.fuzz.schedules import run_one
from tests.helpers import refuses
from tests.schedule.programs import Chain, MatmulRelu


def tiled() -> mlc.Schedule:
    return (
        mlc.Schedule(MatmulRelu)
        .split("j", factors=[None, 4], names=["jo", "ji"])
        .reorder("i", "jo", "k", "ji")
        .fuse("i", "jo", name="outer")
        .annotate("ji", "note", ("a", 1, 2.5, True))
    )


def test_steps_leave_what_they_start_from_alone():
    start = mlc.Schedule(MatmulRelu)
    before = start.mod.script()
    step = start.split("i", [None, 4])
    assert start.mod is MatmulRelu and start.mod.script() == before
    assert step.mod is not start.mod
    with pytest.raises(AttributeError):
        MatmulRelu.entries = ()


def test_trace_replays_to_the_same_hash():
    sch = tiled()
    text = sch.trace.to_json()
    for trace in (sch.trace, text, mlc.Trace.from_json(text)):
        again = mlc.Schedule.replay(MatmulRelu, trace)
        assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)
        assert again.trace == sch.trace
    assert sch.trace[0][0] == "split"
    assert '.reorder("i", "jo", "k", "ji")' in repr(sch.trace)
    assert '.split("j", [None, 4], names=["jo", "ji"])' in repr(sch.trace)


@pytest.mark.parametrize("text", ["{", "[1]", '[["split", 3]]', '[["eval", {"x": "1"}]]', "null"])
def test_a_trace_that_is_none_is_refused(text):
    with pytest.raises(mlc.ScheduleError):
        mlc.Schedule.replay(MatmulRelu, text)


def test_primitives_are_functions_of_a_module_too():
    sch = mlc.Schedule(MatmulRelu).split("i", [None, 4])
    mod = mlc.schedule.split(MatmulRelu, "i", [None, 4], func="main")
    assert mlc.structural_equal(mod, sch.mod)
    assert json.loads(sch.trace.to_json()) == [["split", {"loop": "i", "factors": [None, 4]}]]


def test_history_holds_every_version():
    history = tiled().history
    assert [step.name.split("(")[0] for step in history.steps] == [
        "start", "split", "reorder", "fuse", "annotate",
    ]  # fmt: skip
    assert history[0].mod is MatmulRelu


def test_navigation():
    sch = mlc.Schedule(MatmulRelu)
    assert sch.blocks() == ["Y", "C"]
    assert sch.loops("Y") == ["i", "j", "k"]
    assert sch.consumers("Y") == ["C"] and sch.producers("C") == ["Y"]
    assert sch.producers("Y") == []
    refuses("E105", lambda: sch.loops("Z"))


def test_typos_get_near_misses():
    sch = mlc.Schedule(MatmulRelu)
    refuses("E105", lambda: sch.split("ii", [None, 2]), '"i"')
    refuses("E105", lambda: sch.parallel("Y"), "block")
    refuses("E105", lambda: sch.apply("reodrer", "i", "j"), "reorder")
    refuses("E105", lambda: sch.vectorise("j"), "vectorize")
    assert not hasattr(sch, "vectorise")
    refuses("E105", lambda: mlc.Schedule(Chain, func="mian"), "main")


def test_the_net_catches_a_primitive_that_lies(monkeypatch):
    def broken(func):
        """Drops the last statement."""
        return mlc.Schedule(Chain).func.__class__(
            func.params, func.allocs, func.body.stmts[0], func.attrs
        )

    monkeypatch.setitem(PRIMITIVES, "broken", broken)
    refuses("E199", lambda: mlc.Schedule(Chain).apply("broken"), "broke the program")
    assert mlc.Schedule(Chain, check=False).apply("broken").blocks() == ["Y"]


def test_the_net_lets_a_program_that_fails_by_itself_pass():
    failing = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] // (A[vi] - A[vi])
""")
    assert mlc.Schedule(failing).split("i", [None, 2]).loops("C") == ["i_0", "i_1"]


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_random_schedules_keep_the_meaning(program):
    counts = [run_one(program, seed, native=seed < 2) for seed in range(12)]
    assert [f for c in counts for f in c.failures] == []
    assert sum(c.right for c in counts) > 12


def test_primitives_as_functions_say_what_they_take():
    for name in mlc.schedule.PRIMITIVES:
        names = list(inspect.signature(getattr(mlc.schedule, name)).parameters)
        assert (names[0], names[-1]) == ("mod", "func")
