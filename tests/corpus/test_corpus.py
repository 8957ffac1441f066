"""Every case of the corpus ends as it says, on every back-end."""

from collections import Counter

import numpy as np
import pytest

import minimlc as mlc
from minimlc.module import IRModule
from minimlc.tir.nodes import PrimFunc
from tests.corpus import arithmetic, loops, memory, moves, reductions
from tests.corpus.case import Case, options
from tests.fuzz.subject import backwards
from tests.helpers import assert_close, copies, random_args, refuses

CASES: tuple[Case, ...] = (
    *memory.CASES,
    *moves.CASES,
    *reductions.CASES,
    *loops.CASES,
    *arithmetic.CASES,
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
    if case.refused and not case.steps:
        refuses(case.refused, lambda: mlc.Schedule(case.module()))
        return
    sch = mlc.Schedule(case.module(), check=False)
    *first, last = case.steps
    for step in first:
        name, args, named = options(step)
        sch = sch.apply(name, *args, **named)
    name, args, named = options(last)
    if case.refused:
        refuses(case.refused, lambda: sch.apply(name, *args, **named))
    else:
        sch = sch.apply(name, *args, **named)
    assert_right(case.module(), sch.mod)


def assert_right(before: IRModule, after: IRModule) -> None:
    """`after` computes what `before` does, whichever back-end runs it, and in whatever order."""
    mlc.verify(after)
    main = before["main"]
    assert isinstance(main, PrimFunc)
    args = random_args(main, np.random.default_rng(0))
    expected = copies(args)
    mlc.interpret(before, "main", *expected)
    for version in (after, backwards(after)):
        got = copies(args)
        mlc.interpret(version, "main", *got)
        assert_close(tuple(got), tuple(expected))
    for target in TARGETS:
        got = copies(args)
        mlc.build(after, target=target, cache=False)["main"](*got)
        assert_close(tuple(got), tuple(expected))
