"""Forbidden parts of the library: an assignment names them, and submissions run without them.

A name is one of `TOOLS`, a schedule primitive ("tensorize"), or Python's name of a function or a
module ("numpy.matmul", "torch.*"). Functions are taken away while a submission runs; primitives,
and schedules written by a recipe, are found in its trace, which is all that grading sees.
"""

import ast
import gc
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pkgutil import resolve_name
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from minimlc.homework.closed import close
from minimlc.loops.schedule.trace import PRIMITIVES
from minimlc.loops.values.errors import CompileError, did_you_mean


class HomeworkError(CompileError):
    """An unknown or ill-defined assignment, or a call that an assignment does not allow."""


def invalid(why: str) -> HomeworkError:
    """The error of an ill-defined assignment."""
    return HomeworkError(why, code="E802")


def is_number(value: Any, kind: Any = int | float) -> bool:
    """Whether a value is a finite number of a kind; truth values are not numbers."""
    return isinstance(value, kind) and not isinstance(value, bool) and abs(value) < math.inf


class Tool(NamedTuple):
    """A part of the library that solves a task in one line: its modules, and what to do instead."""

    text: str
    modules: tuple[str, ...]
    instead: str


TOOLS = {
    "recipes": Tool("mlc.recipes", ("minimlc.recipes",), "write the schedule yourself"),
    "legalize": Tool(
        "mlc.passes and graph operators",
        (
            *("minimlc.graphs.passes", "minimlc.graphs.ops", "minimlc.services.passes"),
            *("minimlc.services.patterns", "minimlc.services.dispatch"),
            *("minimlc.services.arrays", "minimlc.services.networks"),
            "minimlc.services.control.unroll_recurrent",
        ),
        "write the program yourself",
    ),
}

USUAL = ("recipes", "legalize")
"""Tools that are taken away by default."""

ALIKE = 0.8
FEWEST = 12
"""A trace counts as a recipe's if it holds this share of the recipe's steps in their order,
whatever other steps are between them. A recipe of fewer steps may be written by anyone."""

HARMLESS = ("annotate", "unannotate", "add_unit_loop")
"""Steps that change no computation: they don't count."""

KIN = {
    "numpy.matmul": (
        *("numpy.matvec", "numpy.vecmat", "numpy.vecdot", "numpy.linalg.matmul"),
        *("numpy.linalg.vecdot", "operator.matmul", "operator.imatmul"),
    )
}
"""Names that go with a name: others for the same computation, or for parts of it."""

OPERATORS = ("__matmul__", "__rmatmul__", "__imatmul__")

Recorded = tuple[str, Mapping[str, Any]]


def wrong_names(names: Iterable[Any]) -> Iterator[str]:
    """Errors in the names that an assignment forbids."""
    for name in names:
        if not isinstance(name, str):
            yield f"what is allowed or forbidden is given by name, got {name!r:.60}"
            continue
        parts = name.removesuffix(".*").split(".")
        dotted = "." in name and all(part.isidentifier() for part in parts)
        if not dotted and name not in TOOLS and name not in PRIMITIVES:
            hint = did_you_mean(name, [*TOOLS, *PRIMITIVES])
            yield f'"{name}" can\'t be taken away: {hint}; a module is "name.*"'
        if dotted and (why := _unknown(parts)):
            yield f'forbid="{name}" would forbid nothing: {why}'


def _unknown(parts: Sequence[str]) -> str:
    """The part of a dotted name that does not exist, with near misses; "" if all exist, and for a
    package that is not installed: nobody can call it here.
    """
    packages = {name.partition(".")[0] for name in sys.modules}
    if parts[0] not in packages and find_spec(parts[0]) is None:
        close = get_close_matches(parts[0], packages, cutoff=0.8)
        return f"there is no {parts[0]}: {did_you_mean(parts[0], close)}" if close else ""
    for count in range(2, len(parts) + 1):
        start, last = ".".join(parts[: count - 1]), parts[count - 1]
        try:
            resolve_name(f"{start}.{last}")
        except (AttributeError, ModuleNotFoundError):
            known = [item for item in dir(resolve_name(start)) if not item.startswith("_")]
            return f"{start} has no {last}: {did_you_mean(last, known)}"
        except Exception:  # importing a module may raise anything
            return ""
    return ""


def sentences(assignment: str, forbidden: Sequence[str]) -> dict[str, str]:
    """The Python names that are taken away, each with the message for its callers."""
    texts = {}
    for name in forbidden:
        if name in TOOLS:
            tool = TOOLS[name]
            text = f"{assignment} does not allow {tool.text}: {tool.instead}"
            texts.update(dict.fromkeys(tool.modules, text))
        elif "." in name:
            text = f"{assignment} does not allow {name}: write it yourself"
            texts |= dict.fromkeys((name.removesuffix(".*"), *KIN.get(name, ())), text)
    return texts


# While a submission runs


def take_away(sentences: Mapping[str, str]) -> dict[str, tuple[Any, HomeworkError]]:
    """Make every call of the functions and modules named raise E803, however it is reached.

    Python functions get another body, so that every reference to them raises; other callables are
    replaced in all modules, and `closed.close` keeps their modules from being loaded or read again.
    Returns the single objects that are taken away, by name, each with the error for its callers.
    """
    if not sentences:
        return {}
    refusals = {name: HomeworkError(text, code="E803") for name, text in sentences.items()}
    items = {name: _resolved(name) for name in refusals}
    single = {name: item for name, item in items.items() if not isinstance(item, ModuleType | None)}
    for function in [item for item in gc.get_objects() if type(item) is FunctionType]:
        place = f"{function.__globals__.get('__name__')}.{function.__qualname__}"
        name = above(place, refusals) or _is_one_of(function, single)
        if name and function.__name__ != "__getattr__":  # modules can still name what they lack
            _refuse(function, refusals[name])
    for module in [item for item in sys.modules.values() if isinstance(item, ModuleType)]:
        for key, value in list(vars(module).items()):
            name = _is_one_of(value, single)
            if name and not isinstance(value, FunctionType):
                setattr(module, key, partial(_body, refusal=refusals[name]))
    close(refusals, lambda what: HomeworkError(f"a submission may not use {what}", code="E803"))
    return {name: (item, refusals[name]) for name, item in single.items()}


def _body(*args: Any, refusal: HomeworkError, **options: Any) -> Any:
    raise refusal.with_traceback(None)


def _refuse(function: FunctionType, refusal: HomeworkError) -> None:
    function.__code__ = _body.__code__.replace(co_freevars=function.__code__.co_freevars)
    function.__defaults__, function.__kwdefaults__ = None, {"refusal": refusal}


def _resolved(name: str) -> Any:
    """The module or object of a dotted name; None where there is none."""
    start, _, last = name.rpartition(".")
    try:
        return getattr(import_module(start), last) if start else import_module(name)
    except Exception:  # importing a module may raise anything
        return None


def above(place: str, names: Iterable[str]) -> str:
    """The name that a place equals or lies below; "" if there is none."""
    return next((name for name in names if f"{place}.".startswith(f"{name}.")), "")


def _is_one_of(value: Any, known: Mapping[str, Any]) -> str:
    return next((name for name, item in known.items() if item is value), "")


def spelled(source: str, sentences: Mapping[str, str]) -> str:
    """Why a source is refused that spells a forbidden function as a method or an operator:
    `a.dot(b)` for numpy.dot, `a @ b` for numpy.matmul; "" if it doesn't.
    """
    last = {
        name.rpartition(".")[2]: text
        for name, text in sentences.items()
        if not name.startswith("minimlc.")
    }
    last |= dict.fromkeys(OPERATORS, last["matmul"]) if "matmul" in last else {}
    for part in ast.walk(ast.parse(source)):
        if isinstance(part, ast.Attribute) and part.attr in last:
            return last[part.attr]
        if isinstance(part, ast.MatMult) and "matmul" in last:
            return f"{last['matmul']}, without @"
    return ""


# In the steps of a schedule


def in_trace(
    assignment: str,
    forbidden: Sequence[str],
    steps: Sequence[Recorded],
    recipes: Callable[[], Mapping[str, Sequence[Recorded]]],
) -> str:
    """Why an assignment does not allow a trace's steps; "" if it does. `recipes()` returns the
    steps of each recipe for the same program.
    """
    for name, _ in steps:
        if name in forbidden:
            return f"{assignment} does not allow {name}"
    given, tool = _forms(steps), TOOLS["recipes"]
    if "recipes" not in forbidden or len(given) < ALIKE * FEWEST:
        return ""
    for recipe, written in recipes().items():
        forms = _forms(written)
        if len(forms) >= FEWEST and _common(forms, given) >= ALIKE * len(forms):
            return (
                f"its {len(steps)} steps hold those of {tool.text}.{recipe}, which {assignment} "
                f"does not allow: {tool.instead}"
            )
    return ""


def _forms(steps: Iterable[Recorded]) -> list[tuple]:
    """Each step's primitive and the number of its loops or factors. Names are free to choose, and
    a recipe's numbers depend on the machine.
    """
    return [
        (name, *(len(value) for value in arguments.values() if isinstance(value, list | tuple)))
        for name, arguments in steps
        if name not in HARMLESS
    ]


def _common(first: Sequence[Any], second: Sequence[Any]) -> int:
    """The length of the longest common subsequence."""
    longest = [0] * (len(second) + 1)
    for item in first:
        above, longest = longest, [0]
        for place, other in enumerate(second):
            same = above[place] + 1 if item == other else 0
            longest.append(max(same, above[place + 1], longest[-1]))
    return longest[-1]
