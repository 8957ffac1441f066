"""The Schedule as a value: immutability, trace, history, navigation, the safety net."""

import copy
import inspect
import pickle

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


def test_a_schedule_is_its_own_copy_and_pickles():
    sch = tiled()
    assert copy.copy(sch) is sch and copy.deepcopy({"sch": sch})["sch"] is sch
    again = pickle.loads(pickle.dumps(sch))
    assert type(again) is mlc.Schedule and again.trace == sch.trace
    assert mlc.structural_equal(again.mod, sch.mod) and len(again.history) == len(sch.history)
    more = again.split("outer", [None, 2])
    assert mlc.structural_equal(more.mod, sch.split("outer", [None, 2]).mod)
    assert pickle.loads(pickle.dumps(mlc.Schedule(MatmulRelu, key=3))).chance is not None


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


def test_questions_say_what_became_of_a_name():
    sch = mlc.Schedule(MatmulRelu).decompose_reduction("Y", at="k")
    for ask in (sch.loops, sch.producers, sch.consumers):
        error = refuses("E105", lambda ask=ask: ask("Y"), "Y became Y_init, Y_update in step 1")
        assert eval(error.hint, {"sch": sch}) is not None
    refuses("E105", lambda: sch.loops("c"), 'did you mean "C"', 'sch.loops("C")')


def test_names_that_were_replaced_again_are_followed():
    sch = mlc.Schedule(MatmulRelu).split("i", [None, 4]).fuse("i_0", "i_1", name="both")
    error = refuses("E105", lambda: sch.parallel("i"), "i became i_0, i_1 in step 1 (split)")
    assert "loop i_0 became both in step 2 (fuse)" in error.example
    assert error.hint == 'sch.parallel("both")'


def test_refusals_survive_pickling_with_their_advice():
    with pytest.raises(mlc.ScheduleError) as caught:
        mlc.Schedule(MatmulRelu).fuse("j", "i")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and 'sch.fuse("i", "j")' in str(again)
    with pytest.raises(mlc.ScheduleError) as caught:
        mlc.Schedule(MatmulRelu).parallel("x")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_advice_is_looked_for_when_an_error_is_shown_only():
    asked = []

    class Listening(mlc.schedule.Net):
        def remedy(self, *args):
            asked.append(args)
            return ""

    with pytest.raises(mlc.ScheduleError) as caught:
        mlc.Schedule(MatmulRelu, net=Listening()).fuse("j", "i")
    assert asked == []
    assert str(caught.value) == str(caught.value) and len(asked) == 1
