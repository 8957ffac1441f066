"""Timing: the contents of a record."""

import gc

import numpy as np
import pytest

from minimlc.loops.ir.nodes import Buffer, PrimFunc, store
from minimlc.loops.values.errors import CompileError
from minimlc.services.build import build
from minimlc.services.runtime.timing import Timing, seconds_text, time
from tests.helpers import refuses


def test_the_record():
    timing = Timing("mm", (4e-6, 1e-6, 2e-6, 3e-6, 2e-6), 10, "cpu")
    assert timing.median == 2e-6 and timing.min == 1e-6
    assert timing.spread == pytest.approx(0.5)
    assert repr(timing) == "mm: median 2 µs, min 1 µs, spread 50.0%, 5 samples of 10 call(s), cpu"
    assert Timing("one", (1.0,), 1, "cpu").spread == 0


def test_short_functions_are_batched_and_the_collector_rests():
    states = []
    timing = time(lambda: states.append(gc.isenabled()), repeat=3, warmup=1, name="short")
    assert timing.name == "short" and len(timing.samples) == 3 and timing.batch > 10
    assert states[0] and not states[-1] and gc.isenabled()


def test_any_callable_and_a_library():
    x = np.ones(8, np.float32)
    assert time(np.sum, x, repeat=2).name == "sum"
    buffer = Buffer("x", (8,), "float32")
    lib = build(PrimFunc((buffer,), (), store(buffer, (0,), 1.0)))
    timing = lib.time("main", x, repeat=4)
    assert timing.name == "main" and len(timing.samples) == 4 and timing.median > 0


def test_a_forgotten_name_is_told_of():
    x, buffer = np.ones(8, np.float32), Buffer("x", (8,), "float32")
    lib = build(PrimFunc((buffer,), (), store(buffer, (0,), 1.0)))
    refuses("E616", lambda: lib.time(x), "first argument is the function's name", 'time("main",')
    refuses("E616", lambda: lib[x], 'library["main"]')


def test_wrong_counts():
    with pytest.raises(CompileError, match="repeat"):
        time(print, repeat=0)


@pytest.mark.parametrize("counts", [{"repeat": "3"}, {"warmup": 1.5}, {"repeat": True}], ids=str)
def test_counts_are_whole_numbers(counts):
    refuses("", lambda: time(print, **counts), "is a whole number")


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (5e-6, "5 µs"), (3.21e-8, "32.1 ns")]
)
def test_units(seconds, text):
    assert seconds_text(seconds) == text
