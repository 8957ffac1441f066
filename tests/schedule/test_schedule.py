"""The Schedule as a value: immutability, trace, history, navigation, the safety net."""

import inspect

import pytest

import minimlc as mlc
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


def test_primitives_are_functions_of_a_module_too():
    sch = mlc.Schedule(MatmulRelu).split("i", [None, 4])
    mod = mlc.schedule.split(MatmulRelu, "i", [None, 4], func="main")
    assert mlc.structural_equal(mod, sch.mod)
    assert sch.trace == (("split", {"loop": "i", "factors": (None, 4)}),)


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


def test_primitives_as_functions_say_what_they_take():
    for name in mlc.schedule.PRIMITIVES:
        names = list(inspect.signature(getattr(mlc.schedule, name)).parameters)
        assert (names[0], names[-1]) == ("mod", "func")
