"""SearchProgress: a search's trials as they come and when it has ended; nothing measured in what is
compared."""

import re
from dataclasses import replace

import pytest
from minimlc_widgets import SearchProgress, mimebundle

from minimlc.loops.values.errors import CompileError
from minimlc.tune import Result
from tests.widgets.values import RESULTS, Timing, ok, tuned

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def search():
    return tuned()


def test_trials_are_drawn_as_they_come():
    progress, counts = SearchProgress(trials=4, library={"numpy": 0.001}), []

    def observe(trial):
        progress(trial)
        counts.append(len(progress.trials))

    search = tuned(observe=observe)
    assert counts == [1, 2, 3, 4] and progress.most == 4
    assert [trial["score"] for trial in progress.trials] == [4, None, 2, 8]
    assert progress.trials[0]["expected"] is None and progress.trials[2]["expected"] > 0
    assert progress.trials[1]["kind"] == "wrong" and "not 4.0" in progress.trials[1]["message"]
    assert progress.best is search.winner and progress.speed(progress.best) == 2
    assert progress.library == [{"name": "numpy", "speed": 4.0}]


def test_libraries_that_the_search_measured_have_lines(search):
    again = {
        0: (ok(0.002),),  # twice as fast as when it was tried
        "numpy.matmul": (ok(0.001), ok(0.003)),
        "torch.matmul": (Result("crash"),),
    }
    beside = replace(search, again=again)
    assert SearchProgress(beside).library == [{"name": "numpy.matmul", "speed": 1.0}]
    lines = SearchProgress(beside, library={"torch": 0.002}).library
    assert [line["name"] for line in lines] == ["numpy.matmul", "torch"]


def test_what_the_best_does_differently(search):
    view = SearchProgress(search)
    ((name, default, best),) = view.decisions
    assert (default, best) == tuple(
        str(sch.trace.decisions[name]) for sch in (search.records[0].program.schedule, search.best)
    )
    assert [sign for sign, _ in view.steps if sign in "+-"] == ["-", "+"]
    assert SearchProgress(tuned(ok(0.001), *RESULTS[1:])).decisions == []


def test_an_interrupted_search_shows_what_it_has():
    progress = SearchProgress(trials=64)
    search = tuned(observe=progress, trials=64)
    assert search.stopped == "interrupt" and len(progress.trials) == 4
    assert SearchProgress(search).stopped == "it was interrupted"


def test_neither_text_nor_html_has_what_was_measured(search):
    data = mimebundle(search)
    assert set(data) == {VIEW, "text/html", "text/plain"}
    assert data["text/plain"] == "Search for a fast main"
    assert "Search for a fast main;" in data["text/html"]
    assert not re.search(r"\d", data["text/plain"] + data["text/html"])
    assert repr(search) == (
        "main: 4 trials, stopped by trials; 1 × wrong; trial 2 is 2 times as fast as the first "
        "program of this space"
    )


def test_a_page_has_it_all(search):
    page = SearchProgress(search, library={"a <b>": Timing()}).page
    assert "<th>the best</th><td>2 × the default&#x27;s speed (trial 2)</td>" in page
    assert "<th>a &lt;b&gt;</th>" in page and "<th>failed: wrong</th><td>1</td>" in page
    assert "all trials were made" in page and ".split(" in page


def test_a_failing_default_and_no_success():
    view = SearchProgress(tuned(Result("timeout"), ok(0.002), trials=2))
    assert view.best.number == 1 and "the best" not in view.page
    none = SearchProgress(trials=1)
    with pytest.raises(CompileError, match="none of 1 programs ran"):
        tuned(Result("timeout"), trials=1, observe=none)
    assert len(none.trials) == 1
    assert none.best is None and none.decisions == none.steps == []
    assert SearchProgress().text() == "Search for a fast program"


def test_wrong_input_is_refused():
    with pytest.raises(CompileError, match="takes what a search gives, got int"):
        SearchProgress(3)
    for time in (0, "long", [], float("nan")):
        with pytest.raises(CompileError, match="numpy: a time is seconds > 0"):
            SearchProgress(library={"numpy": time})
