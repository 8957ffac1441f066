"""The fuzz itself: its rules are complete, it finds what is wrong, and it finds nothing here."""

import random
import re
import runpy

import pytest

import minimlc as mlc
from minimlc.loops.ir.nodes import Binary, PrimFunc, Store
from minimlc.loops.schedule import PRIMITIVES
from minimlc.loops.schedule.tree import find_loop
from minimlc.loops.values.node import Mutator, replace
from tests.fuzz import draw
from tests.fuzz.batch import native_failures
from tests.fuzz.generate import Writer, drawn_program, random_program
from tests.fuzz.one import run
from tests.fuzz.programs import PROGRAMS
from tests.fuzz.schedules import Counts, explain, fuzz, program_of, subject_of
from tests.fuzz.subject import difference, native_targets, subject
from tests.fuzz.undefined import reads_undefined
from tests.helpers import some_and_more


def test_every_primitive_has_a_rule():
    assert set(PRIMITIVES) - set(draw.RULES) == set()


def test_there_are_many_programs_and_all_are_right():
    assert len(PROGRAMS) >= 20
    for mod in PROGRAMS.values():
        assert difference(mod, mod) == ""
        assert not reads_undefined(subject(mod))


@pytest.mark.parametrize("numbers", some_and_more(range(19), range(76)), ids=len)
def test_fixed_schedules_keep_the_meaning(numbers):
    counts = fuzz(numbers, native_targets())
    assert counts.failures == ()
    assert counts.mutated == 0
    assert counts.schedules == counts.round_trips == len(numbers)
    assert {program_of(n).split("-")[0] for n in numbers} == set(counts.programs)


def test_schedules_that_went_wrong_once():
    """A C compiler's fault with elements that are read backward: a crash, and wrong numbers."""
    counts = fuzz((20273609, 20278771), native_targets())
    assert counts.failures == ()


def test_each_program_is_scheduled():
    numbers = range(3 * len(PROGRAMS))
    assert set(PROGRAMS) < {program_of(number) for number in numbers}


@pytest.mark.requires("thorough")
def test_what_is_drawn_sensibly_is_mostly_accepted():
    counts = fuzz(range(100), ())
    sensible = [attempt.accepted for attempt in counts.attempts if not attempt.wild]
    assert len(sensible) > 500
    assert sum(sensible) >= 0.85 * len(sensible)


INGREDIENTS = (
    r"\* 6364136223846793005\) *<|\* 6364136223846793005 <",
    r"<< 62\) >",
    r"range\(0\)",
    r"range\(T.min\(T.max\(\w+ - \d, 0\), \d+\)\)",
    r"range\(N\[\w+ % 4\] % \d\)",
    r"range\(1\)",
    r"T.axis.opaque",
    r"T.axis.reduce",
    r"T.where",
    r"T.Select\(not \(v",
    r"T.if_then_else\(v\d+ >= \d",
    r"\[\(\w+ \* 5\) % \d+\] =",
    r"\[\d+ - v\d+, \w+\] =",
    r"\[\w+ \* 2 \+ 1\] =",
    r"\[\(N\[\w+ % 4\] \+ \w+\) % \d+\] =",
    r"with T.block\('b\d+'\):\n +v\d+ = .*\n +L\d+ = T.alloc_buffer",
    r"if .*:\n +for .*:\n +if .*:\n +X",
    r"(X\d+\[.*\]) = \1 \+ .* \+ \w",
    r'"nan"|"inf"|-0.0',
    r"else:",
)


def test_random_programs_have_everything():
    texts = [Writer(random.Random(seed)).program() for seed in range(600)]
    missing = [form for form in INGREDIENTS if not any(re.search(form, text) for text in texts)]
    assert missing == []


def test_most_random_programs_are_programs():
    discarded = [code for seed in range(100) for code in drawn_program(seed).discarded]
    assert len(discarded) < 25


def test_random_programs_are_the_same_each_time():
    assert random_program(3).text == random_program(3).text
    assert random_program(3).text != random_program(4).text


class _Off(Mutator):
    """Adds 1 to what the last block stores."""

    def visit_Store(self, item: Store) -> Store:
        if item.buffer.name != "C":
            return item
        one = mlc.parse(
            f'@T.prim_func\ndef main(A: T.Buffer((1,), "{item.buffer.dtype}")):\n    A[0] = 1\n'
        )["main"].body.value
        return replace(item, value=Binary("+", item.value, one))


@pytest.fixture
def only(monkeypatch):
    """Leaves the fuzz `harmless` primitives and one that is made for the test."""

    def register(broken, rule=lambda site: ([site.loop(site.loops)], {})):
        def method(sch, *args, **options):
            return sch.apply(broken.__name__, *args, **options)

        kept = ("split", "reorder", "unroll", "annotate")
        for name in set(PRIMITIVES) - set(kept):
            monkeypatch.delitem(PRIMITIVES, name)
        monkeypatch.setitem(PRIMITIVES, broken.__name__, broken)
        monkeypatch.setitem(draw.RULES, broken.__name__, rule)
        monkeypatch.setattr(mlc.Schedule, broken.__name__, method, raising=False)

    return register


def first_failure(program="matmul_relu"):
    for seed in range(100):
        done = run(program, subject_of(program), seed)
        if done.failure:
            return done.failure
    raise AssertionError("the fuzz found nothing")


def test_a_wrong_result_is_found_and_made_small(only, tmp_path):
    def off_by_one(func: PrimFunc, loop: str, far: int = 3) -> PrimFunc:
        find_loop(func, loop)
        return replace(func, body=_Off().visit(func.body))

    only(off_by_one, lambda site: ([site.around["C"][0]], {"far": 7}))
    failure = first_failure("inplace")
    assert failure.wrong
    assert "C comes out different for plain inputs" in failure.why
    text = explain(failure)
    assert re.findall(r"\n +\.(\w+)\(", text) == ["off_by_one"]
    assert "far=" not in text
    assert text.count("with T.block") == 1
    assert "T.Buffer((2,)" in text
    assert_fails(text, tmp_path)


def assert_fails(text, folder):
    """The printed test is one: it runs, and its last assertion fails."""
    file = folder / "printed.py"
    file.write_text(text[text.index("def test_") :])
    printed = runpy.run_path(str(file), {"mlc": mlc, "difference": difference})
    (test,) = (value for name, value in printed.items() if name.startswith("test_"))
    with pytest.raises(AssertionError):
        test()


def test_steps_that_are_needed_are_kept(only, tmp_path):
    def off_after_split(func: PrimFunc, loop: str) -> PrimFunc:
        find_loop(func, loop)
        return replace(func, body=_Off().visit(func.body)) if loop.endswith("_0") else func

    only(off_after_split)
    text = explain(first_failure())
    assert re.findall(r"\n +\.(\w+)\(", text) == ["split", "off_after_split"]
    assert_fails(text, tmp_path)


def test_an_error_that_is_no_refusal_is_found(only):
    def crashes(func: PrimFunc, loop: str) -> PrimFunc:
        raise ValueError("at the wrong time")

    only(crashes)
    failure = first_failure()
    assert not failure.wrong
    assert failure.why.startswith("crashes did not refuse but raised")
    assert "ValueError: at the wrong time" in failure.why
    assert re.findall(r"\n +\.(\w+)\(", explain(failure)) == ["crashes"]


def test_an_ill_formed_program_is_found(only):
    def forgets(func: PrimFunc, loop: str) -> PrimFunc:
        return replace(func, allocs=())

    only(forgets)
    failure = first_failure()
    assert "forgets was accepted: VerifyError" in failure.why


def test_a_changed_input_is_found(only):
    def mutates(func: PrimFunc, loop: str) -> PrimFunc:
        object.__setattr__(func.params[0], "name", f"{func.params[0].name}_")
        return func

    only(mutates)
    mod = mlc.parse(PROGRAMS["conv"].script())
    known = subject(mod)
    assert any(run("conv", known, seed).mutated for seed in range(3))


def test_what_only_native_code_shows_is_found():
    done = run("elementwise", subject_of("elementwise"), 0)
    func = done.after["main"]
    other = done._replace(
        after=done.after.with_function("main", replace(func, body=_Off().visit(func.body)))
    )
    known = subject_of("elementwise")
    for target in native_targets():
        assert native_failures([(done, known), (done, known)], target) == []
        (failure,) = native_failures([(done, known), (other, known)], target)
        assert failure.why == f"{target}: C comes out different for plain inputs"


def test_counts_are_one_line():
    line = fuzz(range(3), ()).plus(Counts(schedules=1)).line()
    assert "\n" not in line
    for words in ("4 schedules of", " right, ", " refused, ", "0 wrong, 0 failed later", "p95"):
        assert words in line
