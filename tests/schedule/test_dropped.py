"""A step whose result nobody keeps is no longer silent; what is kept, shown or timed is."""

import sys
import timeit
import warnings
import weakref
from functools import partial

import pytest

import minimlc as mlc
from tests.helpers import calls, refuses
from tests.schedule.programs import MatmulRelu

PROGRAM = mlc.Schedule(MatmulRelu)
CALL = 'sch.split("i", [None, 4])'


def warned(text: str, mode: str = "exec", traced: bool = False) -> list[str]:
    """The warnings that a script about the schedule `sch` gives."""
    script = compile(text, "<text>", mode)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = sys.gettrace()
        sys.settrace((lambda *_: lambda *_: None) if traced else before)
        try:
            exec(script, {"sch": PROGRAM, "partial": partial, "timeit": timeit})
        finally:
            sys.settrace(before)
    return [str(warning.message) for warning in caught]


DROPPED = [
    CALL,
    'sch.apply("split", "i", [None, 4])',
    'sch.split(*("i", [None, 4]))',
    'sch.split(**{"loop": "i", "factors": [None, 4]})',
    'sch.unroll("j").split("i", [None, 4])',
    '(sch.unroll("j")\n    .split("i", [None, 4]))',
    f"for _ in range(1):\n    {CALL}",
    f"try:\n    {CALL}\nexcept ValueError:\n    pass",
    f"def course(sch):\n    {CALL}\n    return sch\n\nlater = course(sch)",
]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("text", DROPPED)
def test_a_line_that_throws_its_result_away(text, traced):
    (message,) = warned(text, traced=traced)
    line = 1 + text[: text.find("split")].count("\n")
    assert message == (
        f"the result of {CALL} (<text>, line {line}) was dropped: "
        f"a schedule never changes; write sch = {CALL}"
    )


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        f"sch = {CALL}",
        f"_ = {CALL}",
        f"(kept := {CALL})",
        f"forks = [{CALL}, sch.unroll('i')]",
        f"forks = []\nforks.append({CALL})",
        "forks = []\nforks.extend(map(sch.parallel, ['i', 'j']))",
        "list(map(sch.parallel, ['i', 'j']))",
        "step = partial(sch.split, 'i')\nstep([None, 4])",
        f"str({CALL})",
        f"{CALL}.mod",
        f"assert {CALL}",
        f"def step():\n    return {CALL}\n\nstep()",
        f"def step():\n    yield {CALL}\n\nlist(step())",
        f"timeit.timeit(lambda: {CALL}, number=1)",
        f"timeit.timeit({CALL!r}, globals=globals(), number=1)",
        "try:\n    sch.parallel('k')\nexcept Exception:\n    pass",
    ],
)
def test_a_result_that_is_kept_passed_on_or_timed(text, traced):
    assert warned(text, traced=traced) == []


def test_a_result_that_is_displayed():
    assert warned(CALL, mode="single") == []


@pytest.fixture
def shell():
    shells = pytest.importorskip("IPython.core.interactiveshell")
    yield shells.InteractiveShell.instance(user_ns={"sch": PROGRAM})
    shells.InteractiveShell.clear_instance()


def test_a_notebook_shows_its_last_line_and_drops_those_before(shell):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert shell.run_cell(f'{CALL}\nsch.unroll("j")').success
        assert shell.run_cell(f"{CALL};").success
    (warning,) = caught
    assert warning.category is mlc.DroppedResult
    assert str(warning.message).startswith(f"the result of {CALL} (cell In[")


def test_the_old_schedule_names_the_step_that_has_what_it_lacks():
    sch = mlc.Schedule(MatmulRelu)
    _ = sch.split("j", [None, 4])
    _ = sch.unroll("i")
    error = refuses("E105", lambda: sch.reorder("j_0", "k", "j_1"), "whose result is another")
    assert error.hint == 'sch = sch.split("j", [None, 4])'
    refuses("E105", lambda: sch.cache_read("Y", "A").loops("Q"))
    assert mlc.Schedule(MatmulRelu).reorder("k", "j")


def test_a_step_is_no_tuple_of_loops():
    sch = mlc.Schedule(MatmulRelu)
    error = refuses("E133", lambda: (lambda i0, i1: i0)(*sch.split("i", [None, 4])), "i_0, i_1")
    assert error.hint.startswith('sch = sch.split("i", [None, 4])')
    assert isinstance(error, TypeError)
    refuses("E133", lambda: list(sch))
    refuses("E160", lambda: mlc.Schedule.replay(MatmulRelu, sch))


def test_no_step_keeps_another_alive():
    sch = mlc.Schedule(MatmulRelu)
    later = sch.split("i", [None, 4])
    end = weakref.ref(later)
    del later
    assert end() is None


def test_to_look_at_the_caller_costs_next_to_nothing():
    sch = mlc.Schedule(mlc.parse(MatmulRelu.script()), check=False)
    sch.unroll("i").mod
    anew, again = (calls(sch._stepped, "unroll", ("j",), {}) for _ in range(2))
    assert again < anew
    assert calls(lambda: sch.unroll("j")) - again < 0.02 * anew
