"""Traces: JSON and Python text out and in, decisions, and what is refused."""

import inspect
import json
import random
from enum import StrEnum

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.schedule import PRIMITIVES
from minimlc.loops.schedule import loops as loop_rules
from minimlc.loops.schedule.calls import frozen
from minimlc.loops.schedule.trace import MOST_STEPS, MOST_TEXT, Decided
from tests.helpers import assert_same, refuses
from tests.schedule.programs import Chain, MatmulRelu


def tiled() -> mlc.Schedule:
    return (
        mlc.Schedule(MatmulRelu)
        .split("j", factors=[None, 4], names=["jo", "ji"])
        .reorder("i", "jo", "k", "ji")
        .fuse("i", "jo", name="outer")
        .annotate("ji", "note", ("a", 1, 2.5, True))
    )


def test_trace_replays_to_the_same_hash():
    sch = tiled()
    text = sch.trace.to_json()
    for trace in (sch.trace, text, mlc.Trace.from_json(text), json.loads(text)["steps"]):
        again = mlc.Schedule.replay(MatmulRelu, trace)
        assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)
        assert again.trace == sch.trace
    assert json.loads(text)["version"] == 1


def test_trace_prints_as_the_python_that_made_it():
    sch = tiled()
    assert '.reorder("i", "jo", "k", "ji")' in repr(sch.trace)
    again = eval(repr(sch.trace), {"sch": mlc.Schedule(MatmulRelu)})
    assert again.trace == sch.trace
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)
    assert repr(mlc.Schedule(Chain).trace) == "sch"


def test_texts_print_as_python_texts():
    odd = 'a "b" \\ \n é \u2028'
    sch = mlc.Schedule(Chain).annotate("i", "note", odd)
    again = eval(repr(sch.trace), {"sch": mlc.Schedule(Chain)})
    assert again.trace == sch.trace == mlc.Trace.from_json(sch.trace.to_json())


SPLIT = '["split", {"loop": "i", "factors": [null, 2]}]'


def steps(*texts: str, version: str = "1") -> str:
    return f'{{"version": {version}, "steps": [{", ".join(texts)}]}}'


def test_the_least_trace_is_read():
    assert mlc.Schedule.replay(Chain, steps()).trace == ()
    assert mlc.Schedule.replay(Chain, steps(SPLIT)).loops("Y") == ["i_0", "i_1"]


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("{", "E160", "no trace"),
        ("", "E160", "no trace"),
        ("null", "E160", "version"),
        ("[1]", "E160", "version"),
        (f"[{SPLIT}]", "E160", "version"),
        (steps(SPLIT, version="2"), "E160", "version 2"),
        (steps(SPLIT, version="true"), "E160", "version"),
        ('{"version": 1, "steps": 3}', "E160", "list"),
        ('{"version": 1, "steps": [], "more": 1}', "E160", "version"),
        ('{"version": 1, "version": 1, "steps": []}', "E160", "twice"),
        (steps('["split", 3]'), "E160", "step 1"),
        (steps('["split"]'), "E160", "step 1"),
        (steps(SPLIT, '["eval", {"x": "1"}]'), "E105", "step 2"),
        (steps('["__init__", {}]'), "E105", "step 1"),
        (steps('[["split"], {}]'), "E105", "step 1"),
        (steps('["splt", {"loop": "i"}]'), "E105", "split"),
        (steps('["split", {"loop": "i"}]'), "E105", '"factors"'),
        (steps('["split", {"loop": "i", "factors": [2], "check": 1}]'), "E105", "check"),
        (steps('["split", {"loop": 3, "factors": [null, 2]}]'), "E118", "must be a name"),
        (steps('["split", {"loop": "i", "factors": "ab"}]'), "E118", "a list"),
        (steps('["split", {"loop": "i", "factors": [null, 2.5]}]'), "E118", "a list"),
        (steps('["split", {"loop": "i", "factors": [null, true]}]'), "E118", "a list"),
        (steps('["split", {"loop": "i", "factors": {"a": 1}}]'), "E118", "a list"),
        (steps('["reorder", {"loops": "ij"}]'), "E118", "loops"),
        (steps('["annotate", {"name": "i", "key": "k", "value": NaN}]'), "E160", "NaN"),
        (steps('["annotate", {"name": "i", "key": "k", "value": 1e999}]'), "E160", "plain"),
        (
            steps('["annotate", {"name": "i", "key": "k", "value": 9223372036854775808}]'),
            "E160",
            "",
        ),
        (steps(f'["unroll", {{"loop": {"9" * 5000}}}]'), "E160", "no trace"),
        ("[" * 200_000, "E160", "no trace"),
        (steps('["annotate", {"name": "i", "key": "k", "value": ' + "[" * 5000), "E160", ""),
        ("x" * (MOST_TEXT + 1), "E160", "at most"),
        (steps(*[SPLIT] * (MOST_STEPS + 1)), "E160", "at most"),
    ],
    ids=range(32),
)
def test_what_is_no_trace_is_refused(text, code, word):
    refuses(code, lambda: mlc.Trace.from_json(text), word)


def test_steps_that_are_not_text_are_checked_too():
    refuses("E160", lambda: mlc.Schedule.replay(Chain, [("split", [1, 2])]), "step 1")
    refuses("E160", lambda: mlc.Trace.from_json(b"{}"), "text")


def test_what_a_trace_cannot_hold_is_no_argument():
    sch = mlc.Schedule(Chain)
    refuses("E118", lambda: sch.annotate("i", "note", float("nan")), "finite")
    refuses("E118", lambda: sch.annotate("i", "note", 2**70), "plain")
    note = sch.annotate("i", "note", (np.float64(0.5), np.bool_(True), np.int32(3)))
    assert note.trace[0][1]["value"] == (0.5, True, 3)
    assert mlc.Trace.from_json(note.trace.to_json()) == note.trace


def sample_split(func, loop: str, *, seed: int = 0, decision: int | None = None):
    """Split by a random factor: a sampling primitive as they will be."""
    choice = random.Random(seed).choice([2, 5]) if decision is None else decision
    return Decided(loop_rules.split(func, loop, (None, choice)), choice)


def test_a_trace_carries_decisions(monkeypatch):
    monkeypatch.setitem(PRIMITIVES, "sample_split", sample_split)
    sch = mlc.Schedule(Chain).apply("sample_split", "i", seed=3)
    name, arguments = sch.trace[0]
    assert (name, arguments["seed"]) == ("sample_split", 3) and arguments["decision"] in (2, 5)
    assert_same(Chain, sch.mod)

    other = 7 - arguments["decision"]
    changed = mlc.Trace([(name, {**arguments, "decision": other})])
    replayed = mlc.Schedule.replay(Chain, changed.to_json())
    assert replayed.trace == changed
    assert replayed.mod.script() == mlc.Schedule(Chain).split("i", [None, other]).mod.script()
    again = mlc.Schedule.replay(Chain, sch.trace.to_json())
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)


def test_every_primitive_has_named_typed_arguments():
    """So that a trace can hold them, and `from_json` can check them."""
    for name, rule in PRIMITIVES.items():
        for parameter in list(inspect.signature(rule).parameters.values())[1:]:
            assert parameter.annotation is not inspect.Parameter.empty, name
            assert parameter.kind is not inspect.Parameter.VAR_KEYWORD, name


def test_calls_that_are_alike_are_told_apart():
    values = (1, True, 1.0, "1", (1,), [1.0], (True,), ("1",), 0.0, -0.0, {"a": 1}, {"a": True})
    for _ in range(2):  # the second time they are remembered
        for value in values:
            sch = mlc.Schedule(Chain).annotate("i", "note", value)
            kept = sch.trace[-1][1]["value"]
            assert repr(kept) == repr(frozen(value))
    assert tiled_by([None, 2]).trace == tiled_by((None, 2)).trace
    refuses("E118", lambda: tiled_by([None, True]), "factors")
    refuses("E118", lambda: tiled_by([None, 10**6000]), "bits")


def tiled_by(factors) -> mlc.Schedule:
    return mlc.Schedule(Chain).split("i", factors)


def test_a_changed_trace_changes_no_later_call():
    sch = mlc.Schedule(Chain).split("i", [None, 2])
    sch.trace[0][1]["factors"] = (None, 4)
    assert tiled_by([None, 2]).trace[0][1]["factors"] == (None, 2)


def test_numbers_and_texts_of_other_kinds_are_pythons_own():
    class Two(int):
        def __repr__(self) -> str:
            return "4"

    class Name(StrEnum):
        LOOP = "i"

    assert tiled_by([None, 4]).trace[0][1]["factors"] == (None, 4)
    sch = mlc.Schedule(Chain).split(Name.LOOP, [None, Two(2)])
    assert sch.trace[0][1] == {"loop": "i", "factors": (None, 2)}
    assert [type(value) for value in sch.trace[0][1].values()] == [str, tuple]
    for other in (tiled_by([None, 2]), mlc.Schedule.replay(Chain, sch.trace.to_json())):
        assert mlc.structural_equal(sch.mod, other.mod)
