"""Every access outside its buffer is caught, by every target, with its index, shape and line."""

import re

import numpy as np
import pytest

from minimlc import parse
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.schedule.schedule import Schedule
from minimlc.loops.values.errors import BoundsError
from minimlc.loops.values.module import IRModule
from minimlc.services.build import build
from tests.codegen.out_of_range import (
    INSIDE,
    PARAMS,
    SHAPES,
    STATIC,
    UNPROVED,
    WRONG,
    Wrong,
    arguments,
)
from tests.helpers import refuses

TARGETS = ["llvm", "python"]


def program(body: str, steps: tuple[tuple[object, ...], ...] = ()) -> IRModule:
    lines = [f"    {line}" for line in body.split("\n")]
    mod = parse("\n".join(["@T.prim_func", f"def main({PARAMS}):", *lines]) + "\n")
    if not steps:
        return mod
    sch = Schedule(mod, check=False)
    for name, *args in steps:
        sch = getattr(sch, name)(*args)
    return sch.mod


def wrong_line(case: Wrong) -> int:
    """The line of the script, counted from 1, that leaves the buffer."""
    lines = case.body.split("\n")
    return 3 + next(number for number, line in enumerate(lines) if "# here" in line)


def run(mod: IRModule, target: str, given: list[np.ndarray]) -> None:
    if target == "interpreter":
        interpret(mod, "main", *given)
    else:
        build(mod, target, bounds="check", cache=False)["main"](*given)


def test_there_are_enough_of_them():
    assert len(WRONG) >= 50 and len({case.name for case in WRONG}) == len(WRONG)


@pytest.mark.parametrize("target", [*TARGETS, "interpreter"])
@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_wrong_programs_are_caught(case, target):
    mod = program(case.body, case.steps)
    with pytest.raises(IndexError) as caught:
        run(mod, target, arguments())
    error = caught.value
    assert isinstance(error, BoundsError) and error.code == "E609"
    reached = f"{case.buffer}[{', '.join(map(str, case.index))}]"
    assert reached in error.why and str(SHAPES[case.buffer]) in error.why, error.why
    assert error.span is not None and error.span.line == wrong_line(case), str(error)
    assert f"line {wrong_line(case)}" in str(error)
    if target != "interpreter":
        assert error.why.startswith(f"{case.action} of ")


@pytest.mark.parametrize("target", [*TARGETS, "interpreter"])
@pytest.mark.parametrize("case", INSIDE, ids=lambda case: case.name)
def test_right_programs_are_not(case, target):
    mod = program(case.body, case.steps)
    meant, given = arguments(), arguments()
    interpret(program(case.body), "main", *meant)
    run(mod, target, given)
    for a, b in zip(meant, given, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", STATIC, ids=lambda case: case.name)
def test_what_needs_no_run_is_refused_when_built(case):
    mod = program(case.body)
    reached = f"{case.buffer}[{', '.join(map(str, case.index))}]"
    for target in TARGETS:
        error = refuses("E107", lambda t=target: build(mod, t, bounds="check"), reached)
        assert error.span is not None and error.span.line == wrong_line(case)
        axis = next(a for a, i in enumerate(case.index) if not 0 <= i < SHAPES[case.buffer][a])
        assert re.search(rf"dimension {axis} \(size {SHAPES[case.buffer][axis]}\)", error.why)


@pytest.mark.parametrize("case", UNPROVED, ids=lambda case: case.name)
def test_what_data_alone_would_keep_inside_is_refused_when_built(case):
    mod = program(case.body)
    axis = next(a for a, i in enumerate(case.index) if not 0 <= i < SHAPES[case.buffer][a])
    for target in TARGETS:
        error = refuses("E107", lambda t=target: build(mod, t), "not known to stay inside")
        assert error.span is not None and error.span.line == wrong_line(case)
        assert f"dimension {axis}" in error.why
