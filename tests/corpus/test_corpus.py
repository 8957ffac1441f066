"""Every case of the corpus ends as stated in it, on every back-end."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

import minimlc as mlc
from minimlc.loops.values.module import IRModule
from tests.corpus import arithmetic, limits, loops, memory, moves, nests, reductions
from tests.corpus.case import Case, options
from tests.fuzz.batch import differences
from tests.fuzz.one import is_refusal
from tests.fuzz.subject import difference, subject
from tests.helpers import refuses

CASES: tuple[Case, ...] = (
    *memory.CASES,
    *moves.CASES,
    *reductions.CASES,
    *loops.CASES,
    *arithmetic.CASES,
    *limits.CASES,
    *nests.CASES,
)
TOPICS = {
    "private buffer",
    "init at a recompute loop",
    "reverse_compute_at",
    "rfactor",
    "reducer that does not commute",
    "concurrent reduction",
    "dependent extent",
    "inlining",
    "cache",
    "split tail",
    "cross-thread",
    "index arithmetic",
    "mutation",
    "declared",
    "nested parallel",
    "last writer",
    "never written",
    "large index",
    "wrapping condition",
    "empty loop",
    "large number",
    "huge buffer",
    "condition by lane",
    "concurrent elsewhere",
    "modular store",
    "blocks of blocks",
    "allocating block",
    "masked load",
}
"""The classes of miscompilation; planned memory and graph fusion are in test_planned_memory.py."""

TARGETS = ("llvm", "python")


def test_every_class_has_three_programs():
    counts = Counter(case.topic for case in CASES)
    assert set(counts) == TOPICS
    assert min(counts.values()) >= 3


def test_names_are_unique():
    assert len({(case.topic, case.name) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.topic}: {case.name}")
def test_case(case: Case):
    after = scheduled(case)
    if after is not None:
        assert_right(case.module(), after)


def test_all_of_them_in_c():
    """Compiled at once, and between pages out of bounds; steps that fail are tested above."""
    programs = []
    for case in CASES:
        with suppress(mlc.CompileError, pytest.fail.Exception):
            made = scheduled(case)
            if made is not None:
                programs.append((case, made, subject(case.module())))
    whys = differences([(made, known) for _, made, known in programs], "c")
    named = [f"{case.topic}, {case.name}" for case, _, _ in programs]
    failed = [(name, why.split("\n")[0]) for name, why in zip(named, whys, strict=True) if why]
    assert "\n".join(f"{name}: {why}" for name, why in failed) == ""


def scheduled(case: Case) -> IRModule | None:
    """The module after the steps; None where one refuses, as it is to or may ("either")."""
    if case.refused and not case.steps:
        assert_refuses(case.refused, lambda: mlc.Schedule(case.module()))
        return None
    sch = mlc.Schedule(case.module(), check=False)
    for step in case.steps[:-1]:
        name, args, named = options(step)
        sch = sch.apply(name, *args, **named)
    name, args, named = options(case.steps[-1])
    if case.refused not in ("", "either"):
        assert_refuses(case.refused, lambda: sch.apply(name, *args, **named))
        return None
    try:
        return sch.apply(name, *args, **named).mod
    except mlc.ScheduleError as error:
        if case.refused and is_refusal(error):
            return None
        raise


def assert_refuses(code: str, call: Callable[[], object]) -> None:
    if code != "any":
        refuses(code, call)
        return
    with pytest.raises((mlc.VerifyError, mlc.ScheduleError)):
        call()


def assert_right(before: IRModule, after: IRModule) -> None:
    """`after` computes what `before` does, whichever back-end runs it, and in whatever order."""
    assert difference(before, after, "interpreter", "backwards", *TARGETS) == ""
