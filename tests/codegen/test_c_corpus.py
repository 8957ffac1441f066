"""The corpus of programs on which compilers have lied, as generated C, in one compile."""

import pytest

import minimlc as mlc
from tests.codegen.c_programs import agree
from tests.corpus.case import options
from tests.corpus.test_corpus import CASES

pytestmark = pytest.mark.requires("cc")


def test_every_schedule_that_is_accepted():
    functions = []
    for case in CASES:
        if case.refused:
            continue
        sch = mlc.Schedule(case.module(), check=False)
        for step in case.steps:
            name, args, named = options(step)
            sch = sch.apply(name, *args, **named)
        functions.append(sch.mod["main"])
    assert len(functions) > 30
    agree(functions)
