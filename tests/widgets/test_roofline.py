"""Roofline: its points and shares, its text without times, and what it refuses."""

import re

import pytest
from minimlc_widgets import Roofline

from minimlc.loops.values.errors import CompileError
from minimlc.machine.peaks import Peaks
from tests.widgets.values import Timing

MACHINE = Peaks(100e9, 20e9, "a machine")


def test_shares_of_the_roof_above():
    view = Roofline({"product": (2e9, 10e6, 0.04), "sum": (1e6, 4e6, 0.0004)}, MACHINE)
    product, total = view.points
    assert (product["intensity"], product["rate"], product["share"]) == (200, 50e9, 0.5)
    assert (total["intensity"], total["share"]) == (0.25, pytest.approx(0.5))
    assert view.roof == {"operations": 100e9, "bytes": 20e9, "ridge": 5.0, "machine": "a machine"}


def test_times_of_every_form():
    rows = [
        ("timing", 100, 10, Timing()),
        ("samples", 100, 10, [0.002, 0.0021, 0.0023]),
        ("seconds", 100, 10, 0.0021),
    ]
    rates = {point["rate"] for point in Roofline(rows, MACHINE).points}
    assert rates == {100 / 0.0021}


def test_neither_text_nor_html_has_what_was_measured():
    first, second = (
        Roofline({"a <b>": (2e9, 10e6, seconds)}, Peaks(operations, 20e9))
        for seconds, operations in ((0.0371, 100e9), (0.0493, 120e9))
    )
    assert first.text() == second.text() and first.static_html() == second.static_html()
    assert first.text() == (
        "Roofline of a <b>: 200 operations a byte (2e+09 operations on 1e+07 bytes)"
    )
    assert "a &lt;b&gt;" in first.static_html()
    assert not re.search("371|53.9|GFLOP", first.text() + first.static_html())


def test_a_page_has_the_rates_as_a_table():
    view = Roofline({"a <b>": (2e9, 10e6, 0.04), "sum": (1e6, 4e6, 0.0004)}, MACHINE)
    assert "<th>a &lt;b&gt;</th><td>200</td><td>50</td><td>50.0 %</td>" in view.page
    assert "<th>sum</th><td>0.25</td><td>2.5</td><td>50.0 %</td><td>memory</td>" in view.page
    assert "100 GFLOP/s" in view.page and "20 GB/s" in view.page and "a machine" in view.page
    assert view.above == [] and "*" not in view.page


def test_what_exceeds_a_roof_is_explained():
    kernels = {
        "cached": (1e6, 4e6, 1e-5),
        "calm": (1e6, 4e6, 1.0),
        "threads": (2e9, 10e6, 0.01),
        "clock": (2e9, 10e6, 0.0195),
    }
    view = Roofline(kernels, MACHINE)
    memory, arithmetic = view.above
    assert memory.startswith("cached: above the roof of memory") and "still in a cache" in memory
    assert arithmetic.startswith("threads, clock: above the roof of multiply-adds")
    assert "<td>2000.0 %*</td>" in view.page and "* cached: above" in view.page
    assert "2000" not in view.text() + view.static_html()


def test_the_machine_at_hand_is_measured():
    assert Roofline([("a", 1, 1, 1)]).roof["operations"] > 1e8


def test_wrong_input_is_refused():
    for points, words in (
        ({}, "no kernel"),
        (3, "a kernel is"),
        ("text", "a kernel is"),
        ([("a", 1, 1)], "a kernel is"),
        ({"a": 3}, "a kernel is"),
        ({"a": (1, 1, 0)}, "a: time must be a number > 0"),
        ({"a": (1, 1, [])}, "a: time must be a number > 0"),
        ({"a": (1, 0, 1)}, "a: bytes must be"),
        ({"a": (float("nan"), 1, 1)}, "a: operations must be"),
        ({"a": ("many", 1, 1)}, "a: operations must be"),
    ):
        with pytest.raises(CompileError, match=words):
            Roofline(points, MACHINE)
    with pytest.raises(CompileError, match="takes Peaks, got int"):
        Roofline({"a": (1, 1, 1)}, 100)
    with pytest.raises(CompileError, match="bytes a second must be"):
        Roofline({"a": (1, 1, 1)}, Peaks(1e9, 0.0))
