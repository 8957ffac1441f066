"""The catalogue of errors: the text of each mistake, and that the suggested line works."""

import re

import pytest

import minimlc as mlc
from minimlc.loops.values.errors import MAX_LINES, is_runnable
from minimlc.loops.values.node import walk
from tests.schedule.catalogue import CATALOGUE, OUTSIDE, X, message, snapshots

NAMES = sorted(CATALOGUE)


def hint_of(text: str) -> str:
    """The line to try, less its comment."""
    (line,) = [line for line in text.split("\n") if line.startswith("try: ")]
    return line.removeprefix("try: ").partition("  # ")[0]


def test_the_catalogue_and_its_snapshots_name_the_same_mistakes():
    assert sorted(snapshots()) == NAMES and len(NAMES) >= 12


@pytest.mark.parametrize("name", NAMES)
def test_a_mistake_prints_its_snapshot(name):
    """After a change of texts: `python -m tests.schedule.catalogue`, and read the difference."""
    text = message(name)
    assert text == snapshots()[name]
    assert CATALOGUE[name].code in text.split("\n")[0]
    assert len(text.split("\n")) <= MAX_LINES
    assert mlc.explain(CATALOGUE[name].code).title


@pytest.mark.parametrize("name", [n for n in NAMES if "sch" in CATALOGUE[n].names])
def test_the_line_to_try_works_on_a_schedule(name):
    hint, names = hint_of(message(name)), CATALOGUE[name].names
    assert is_runnable(hint)
    result = eval(hint, {**names, "mlc": mlc})
    if isinstance(result, mlc.Schedule):
        assert result.checked == "compared" and result.trace != names["sch"].trace


@pytest.mark.parametrize(
    "name", ["the dtype of a call", "the shape of a call", "the shape of a compiled call"]
)
def test_the_line_to_try_makes_the_array_that_fits(name):
    hint, names = hint_of(message(name)), CATALOGUE[name].names
    array = eval(hint, dict(names))
    (param,) = [
        p for p in CATALOGUE["parallel on a reduction"].names["sch"].func.params if p.name in names
    ]
    assert (array.shape, array.dtype) == (param.shape, param.dtype)


@pytest.mark.parametrize("name", ["if on a traced value", "numpy on a traced value"])
def test_the_line_to_try_is_traced(name):
    body = eval(f"lambda i: {hint_of(message(name))}", dict(CATALOGUE[name].names))
    value = mlc.te.compute((8,), body, name="C").value
    assert any(getattr(part, "buffer", None) is X for part in walk(value))


def test_the_line_to_try_keeps_the_index_inside():
    hint = hint_of(message("an index out of range"))
    fixed = OUTSIDE.replace("            C[vi] =", f"            {hint}\n            C[vi] =")
    assert mlc.verify(mlc.parse(fixed))


def test_examples_of_the_catalogue_show_iterations():
    """Where two iterations meet, or one is outside, the message names them."""
    for name in (
        "parallel on a reduction",
        "vectorize over a guard",
        "reordering a scan",
        "vectorizing over a private buffer",
        "decomposing at a recompute loop",
        "an index out of range",
    ):
        assert re.search(r"\b\w+=\d", message(name)), name
