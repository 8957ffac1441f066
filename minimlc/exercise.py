"""Exercises: an answer is checked where it stands, and one line has the reason if it is wrong.

    double = Exercise(computes(lambda x: 2 * x, (4,)))
    double.check(answer)     # right, or: not yet: element [0] is 0.0; expected 2.0

Nothing that an answer does raises. `homework` is for points: it runs a submission apart. See
`docs/exercises.md`.
"""

import html
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Real
from traceback import extract_tb
from types import FunctionType
from typing import Any

import numpy as np

from minimlc.apart.message import Failed, in_order, numbered
from minimlc.homework import evaluate
from minimlc.homework.allowed import is_number
from minimlc.homework.answer import only_function, program_text, scheduled
from minimlc.homework.compare import Outcome, changed, wrong
from minimlc.homework.judge import ROUNDS, poisoned
from minimlc.homework.nest import Nest
from minimlc.homework.questions import USUAL, filled
from minimlc.homework.report import shown
from minimlc.homework.structure import Requirement
from minimlc.loops.values.errors import MAX_WIDTH, CompileError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import structural_equal
from minimlc.services.threads.parallel import num_threads, set_num_threads

Claim = Callable[[Any], str | None]
"""A condition on an answer: a function of the answer that asserts it, and may return a remark for
when it holds. The student sees the text of a failed assertion (`assert test, text`)."""

TOLERANCE = 1e-4
FRAMES = 5000
"""How deeply an answer may recurse."""


@dataclass(frozen=True, repr=False)
class Verdict:
    """Whether an answer is right. `text` has the details: its first line is shown, the others
    unfold in a notebook.
    """

    right: bool
    text: str = ""
    head: str = ""

    def __repr__(self) -> str:
        head = self.head or ("right" if self.right else "not yet")
        first = shown(self.text).strip().partition("\n")[0]
        return f"{head}: {first}"[:MAX_WIDTH] if first else head

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        line, rest = repr(self), shown(self.text).strip().partition("\n")[2]
        if not rest:
            return {"text/plain": line}
        head, more = f"<code>{html.escape(line)}</code>", f"<pre>{html.escape(rest)}</pre>"
        return {
            "text/plain": line,
            "text/html": f"<details><summary>{head}</summary>{more}</details>",
        }


class Exercise:
    """Claims on an answer, tried in order; the first that fails is reported.

    An answer is a value, or a plain function, which is called with what the exercise `takes`
    (arrays and containers are copied). `kind` is the type, or the types, that the value may have.
    """

    def __init__(
        self,
        *claims: Claim,
        takes: tuple[Any, ...] = (),
        kind: type | tuple[type, ...] = object,
    ):
        self.claims, self.takes, self.kind = claims, takes, kind

    def check(self, answer: Any) -> Verdict:
        """Judge an answer. An error that it raises becomes a verdict; only an interrupt raises."""
        try:
            with np.errstate(all="ignore"), _shallow():
                return self._judged(answer)
        except (AssertionError, Failed) as error:
            return Verdict(False, _message(error) or _report(error, answer))
        except (Exception, SystemExit) as error:  # an answer may raise anything
            return Verdict(False, _report(error, answer))

    def solution(self, answer: Any) -> Verdict:
        """Judge a solution that comes with the exercise: it reads "one solution", never "right"."""
        verdict = self.check(answer)
        return Verdict(verdict.right, verdict.text, f"one solution{', but' * (not verdict.right)}")

    def _judged(self, answer: Any) -> Verdict:
        value, subject = answer, "it is"
        if type(answer) is FunctionType:
            value, subject = answer(*_copied(self.takes)), f"{answer.__name__} returns"
        if value is None:
            raise Failed(f"{subject} None: your turn")
        if not isinstance(value, self.kind):
            kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
            names = " or ".join(kind.__name__ for kind in kinds)
            raise Failed(f"{subject} a value of type {type(value).__name__}, not {names}")
        return Verdict(True, "; ".join(filter(None, [claim(value) for claim in self.claims])))


def _copied(item: Any) -> Any:
    """Copies of arrays and containers, which an answer may change."""
    match item:
        case np.ndarray() | set() | bytearray():
            return item.copy()
        case list():
            return [*map(_copied, item)]
        case dict():
            return {key: _copied(value) for key, value in item.items()}
        case _ if type(item) is tuple:
            return tuple(map(_copied, item))
    return item


@contextmanager
def _shallow() -> Iterator[None]:
    """A context where recursion ends well before the process's stack, whoever raised the limit."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(min(limit, FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(max(limit, sys.getrecursionlimit()))


def _report(error: BaseException, answer: Any) -> str:
    """An error in words, with the line of the answer that raised it."""
    kind, text, where = type(error).__name__, _message(error), ""
    file = answer.__code__.co_filename if type(answer) is FunctionType else ""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    if lines and not isinstance(error, CompileError):  # its text has the place
        where = f" in line {lines[-1]}"
    return f"{kind}{where}: {text}" if text else f"{kind}{where}"


def _message(error: BaseException) -> str:
    """The text of an error; "" where asking for it raises."""
    with suppress(Exception):
        return str(error)
    return ""


# Claims


def computes(reference: Callable[..., Any], *inputs: Any, tolerance: float = TOLERANCE) -> Claim:
    """A program gives the reference's results in its last parameter, interpreted and compiled.

    `inputs` are shapes of float32 arrays, or arrays that stand for their shape and dtype.
    """

    def claim(program: Any) -> None:
        script, random = program_text(program), np.random.default_rng(0)
        for kind in USUAL:
            arrays = [filled(_like(item), random, kind) for item in inputs]
            expected = np.asarray(reference(*(array.copy() for array in arrays)))
            for compiled, way in enumerate(("interpreted", "compiled")):
                copies = [array.copy() for array in (*arrays, poisoned(expected, compiled))]
                after = in_order(evaluate.run(numbered(copies), script, bool(compiled))[1])
                text = f"{kind} numbers, {way}"
                outcome = Outcome(text, arrays, after[:-1], expected, after[-1])
                _refute(wrong(outcome, tolerance) or changed(outcome))

    return claim


def gives(expected: np.ndarray, *inputs: np.ndarray, tolerance: float = TOLERANCE) -> Claim:
    """`main` of a module, compiled, returns the expected array for these inputs."""

    def claim(mod: IRModule) -> None:
        copies = [array.copy() for array in inputs]
        result = evaluate.build(mod)["main"](*copies)
        if not isinstance(result, np.ndarray):
            raise Failed(f"main gives a value of type {type(result).__name__}, not an array")
        outcome = Outcome("these inputs", inputs, copies, expected, result)
        _refute(wrong(outcome, tolerance) or changed(outcome))

    return claim


def schedules(original: IRModule, *requirements: Requirement, block: str = "") -> Claim:
    """The answer schedules the only function of `original`, has the structure that is required (see
    `homework.structure`), and computes the same from random inputs.
    """
    func, random = only_function(original), np.random.default_rng(0)
    arrays = [filled(np.empty(p.shape, p.dtype), random, "normal") for p in func.params]

    def claim(sch: Any) -> None:
        scheduled(sch)
        if not structural_equal(sch.history[0].mod, original):
            raise Failed("this schedules another program: begin with the one that is passed")
        for requirement in requirements:
            _refute(requirement.explain(Nest(func, sch.func, block)))
        runs = [[array.copy() for array in arrays] for _ in range(2)]
        for mod, run in zip((original, sch.mod), runs, strict=True):
            evaluate.build(mod)[sch.func_name](*run)
        outcome = Outcome("random inputs", arrays[:-1], runs[1][:-1], runs[0][-1], runs[1][-1])
        _refute(wrong(outcome, TOLERANCE))

    return claim


def guess(truth: Callable[[], Any], hint: str = "") -> Claim:
    """The answer equals `truth()`; a wrong number is reported as too small or too large."""

    def claim(answer: Any) -> None:
        right = truth()
        if not is_number(right, Real):
            _refute("" if answer == right else f"not {answer!r:.60}. {hint}")
            return
        if not is_number(answer, Real):
            raise Failed(f"a number is wanted, not {answer!r:.60}")
        side = "too small" if answer < right else "too large"
        _refute("" if answer == right else f"{answer} is {side}. {hint}")

    return claim


def refusals(steps: Mapping[str, Callable[[], Any]]) -> Claim:
    """The answer is the set of the names of the steps that are refused; then it has the reasons."""

    def claim(names: Any) -> str:
        if not isinstance(names, set | frozenset | list | tuple):
            raise Failed(f"a set of names is wanted, not {names!r:.60}")
        unknown = [name for name in names if name not in steps]
        if unknown:
            raise Failed(f"there is no {unknown[0]!r:.60}: the names are {', '.join(steps)}")
        reasons = {name: why for name, step in steps.items() if (why := _refusal(step))}
        judged = sum((name in names) == (name in reasons) for name in steps)
        if judged < len(steps):
            raise Failed(f"{judged} of {len(steps)} are judged right")
        why = "\n".join(f"{name}: {reason}" for name, reason in reasons.items())
        return (
            f"{', '.join(reasons) or 'none'} {'are' if len(reasons) > 1 else 'is'} refused\n{why}"
        )

    return claim


def _refusal(step: Callable[[], Any]) -> str:
    """Why a step is refused; "" if it is not."""
    try:
        step()
    except CompileError as error:
        return "\n  ".join([error.why, *filter(None, error.example.split("\n"))])
    return ""


def at_least(bound: float, unit: str, measure: Callable[[Any], float]) -> Claim:
    """`measure(answer)` is at least `bound`."""
    return _bounded(bound, unit, measure, "at least")


def at_most(bound: float, unit: str, measure: Callable[[Any], float]) -> Claim:
    """`measure(answer)` is at most `bound`."""
    return _bounded(bound, unit, measure, "at most")


def _bounded(bound: float, unit: str, measure: Callable[[Any], float], words: str) -> Claim:
    def claim(answer: Any) -> str:
        value = measure(answer)
        if not (value <= bound if words == "at most" else value >= bound):  # a NaN neither
            number = f"{value:,.0f}" if float(value).is_integer() else f"{value:.2g}"
            raise Failed(f"{number} {unit}; {words} {bound:,} wanted")
        return f"{words} {bound:,} {unit}"

    return claim


def faster(original: IRModule, ratio: float) -> Claim:
    """A schedule is at least `ratio` times as fast as `original`: the median of several rounds in
    which both run in turns, on one thread.
    """
    func, random = only_function(original), np.random.default_rng(0)
    arrays = [filled(np.empty(p.shape, p.dtype), random, "normal") for p in func.params]

    def measure(sch: Any) -> float:
        threads = num_threads()
        texts = {"text": program_text(sch), "base": original.script()}
        try:
            return float(evaluate.ratio(numbered(arrays), **texts, rounds=ROUNDS)[0]["ratio"])
        finally:
            set_num_threads(threads)

    return at_least(ratio, "times as fast as the plain loops", measure)


def _like(item: Any) -> np.ndarray:
    return item if isinstance(item, np.ndarray) else np.empty(item, "float32")


def _refute(why: str) -> None:
    if why:
        raise Failed(why)
