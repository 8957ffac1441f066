"""Arguments and traces that are nothing of the kind: each one clear, typed error."""

import pytest

import minimlc as mlc
from minimlc import te
from minimlc.loops.schedule import Trace
from tests.helpers import refuses

TEXT = """@T.prim_func
def main(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for i in range(64):
        with T.block("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = A[vi]
"""


def schedule() -> mlc.Schedule:
    return mlc.Schedule(mlc.parse(TEXT))


def test_two_loops_of_one_name():
    refuses("E118", lambda: schedule().split("i", [None, 4], names=["a", "a"]), "a name of its own")


@pytest.mark.parametrize("depth", [200, 900, 100_000])
def test_a_trace_that_nests_without_end(depth):
    value = "[" * depth + "]" * depth
    step = f'["annotate", {{"name": "i", "key": "x", "value": {value}}}]'
    text = f'{{"version": 1, "steps": [{step}]}}'
    try:
        Trace.from_json(text)
    except mlc.ScheduleError as error:
        assert error.code in ("E118", "E160")
        assert depth > 200 and "deep" in str(error)


@pytest.mark.parametrize(
    ("trace", "words"),
    [(None, "no trace"), (7, "int"), (b"{}", "step 1"), ('{"steps": {}}', "expected")],
)
def test_what_is_no_trace(trace, words):
    refuses("E160", lambda: mlc.Schedule.replay(schedule().mod, trace), words)


def test_replay_needs_its_module():
    sch = schedule()
    refuses("E160", lambda: sch.replay(sch.trace), "a module and a trace", "replay(sch.mod, trace)")


def test_steps_are_a_list():
    refuses("E160", lambda: Trace.from_json('{"version": 1, "steps": {}}'), "list, got dict")
    refuses("E160", lambda: Trace.from_json(None), "JSON text, got NoneType")


def test_split_has_limits():
    sch = schedule()
    refuses("E118", lambda: sch.split("i", [1] * 150 + [64]), "at most 32 factors, got 151")
    refuses("E118", lambda: sch.split("i", [2**40, 2**40]), "int64")
    refuses("E118", lambda: sch.split("i", [8, 8], names=["x;system()", "y"]), "identifier")
    refuses("E118", lambda: sch.split("i", [8, 8]).fuse("i_0", "i_1", name="a b"), "identifier")
    refuses("E105", lambda: sch.split("i", factor=4), '"factors"', "help(sch.split)")
    refuses("E105", lambda: sch.split("i", factor=[8, 8]), 'sch.split("i", factors=[8, 8])')


def test_a_nest_deeper_than_python_goes():
    sch = mlc.Schedule(mlc.parse(TEXT), check=False)
    name = "i"
    with pytest.raises(mlc.ScheduleError, match="nests too deeply") as caught:
        for _ in range(40):
            sch = sch.split(name, [*[1] * 31, 64])
            name = sch.loops("C")[-1]
    assert caught.value.code == "E118"


def test_lines_have_a_length():
    refused = refuses("E105", lambda: schedule().split("i" * 100_000, [8, 8]))
    assert max(map(len, str(refused).splitlines())) < 300


def test_tensor_expressions_of_nothing():
    A = te.placeholder((4,), name="A")
    for call, words in (
        (lambda: te.compute((3,), None), "a function of the indices, got None"),
        (lambda: te.create_prim_func(None), "expected tensors, got NoneType"),
        (lambda: te.compute((4,), lambda i: sum(A[i])), "applied to a traced value"),
    ):
        with pytest.raises(mlc.CompileError, match=words) as caught:
            call()
        assert caught.value.code == "E130"


@pytest.mark.parametrize("name", ["a\nb", "x" * 1001])
def test_a_name_can_be_written(name):
    sch = schedule()
    refuses("E118", lambda: sch.blockize("i", name), "the name of this block")
    refuses("E118", lambda: sch.annotate("i", name, 1), "the name of this attribute")
    refuses("E118", lambda: sch.annotate("i", "note", name * 2**16), "more than 65536")
    refuses("E118", lambda: sch.split("i", [8, 8], names=["a", "x" * 1001]), "more than 1000")
