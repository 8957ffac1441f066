"""The program of a worker process: `python -m minimlc.homework.serve`.

Requests come from stdin, answers go to the former stdout; a submission's output goes elsewhere.
`collect` runs a submission and returns data. The other requests take data and run no submitted
Python.
"""

import ast
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from minimlc.apart.limits import Limits, apply
from minimlc.apart.message import NUMBERS, Arrays, Failed, Message, numbered, receive, send
from minimlc.apart.processes import apart, go_on_guarded, own_streams
from minimlc.homework.allowed import HomeworkError, above, spelled, take_away
from minimlc.homework.answer import program_text, scheduled
from minimlc.homework.evaluate import ratio, replay, run, simulate, touched, written
from minimlc.homework.space import KEYS
from minimlc.homework.watched import watched
from minimlc.loops.llvm.kernel import surroundings
from minimlc.loops.schedule import Schedule
from minimlc.loops.te import te
from minimlc.loops.values.errors import BuildError, CompileError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import structural_equal
from minimlc.script import I, R, T, parse

_whole = sys.modules["minimlc"]
_whole.build  # noqa: B018 (loads the compiler before the first request)
with suppress(BuildError):
    surroundings()  # and LLVM: a submission may load no libraries
FILENAME = "<submission>"


def main() -> None:
    """Answer requests until there are none. On Linux a guard kills what a submission started, even
    if the submission kills the process that answers.
    """
    if sys.platform == "linux":
        go_on_guarded()
    requests, answers = own_streams()
    send(answers, {"ready": os.getpid()}, {})
    while (request := receive(requests)) is not None:
        body, arrays = request
        if body["op"] == "collect" and sys.platform == "linux":
            answer = apart(partial(_answer, body, arrays), body["token"], (requests, answers))
        else:
            answer = _answer(body, arrays)
        send(answers, *answer)
    os._exit(0)


def _answer(body: dict[str, Any], arrays: Arrays) -> Message:
    token, limits = body.pop("token"), Limits(**body.pop("limits"))
    operation = OPERATIONS[body.pop("op")]
    apply(limits, final=operation is collect)
    try:
        answer, results = operation(arrays, **body)
    except BaseException as error:  # whatever a submission raises, sys.exit included
        answer, results = {"error": explain(error)}, {}
    return {**answer, "token": token}, results


def explain(error: BaseException) -> str:
    """An exception in words, with the submission's line that raised it."""
    if isinstance(error, HomeworkError) and error.code == "E803":
        return error.why
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int | None) else "..."
        return f"it called sys.exit({code}) instead of returning a result"
    if isinstance(error, MemoryError):
        return "it used more memory than it may"
    if isinstance(error, RecursionError):
        return "it nests too deeply (RecursionError)"
    try:
        if isinstance(error, Failed):
            return str(error)
        text = f"{type(error).__name__}: {error}"[:1500]
    except BaseException as other:  # from the submission's own __str__
        text = f"an exception that can't be shown ({type(other).__name__})"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == FILENAME]
    if frames and not (isinstance(error, CompileError) and error.span):
        text += f"\n  raised in {frames[-1].name}: {frames[-1].line}"
    return text


# Running a submission


def collect(
    arrays: Arrays,
    source: str,
    entry: str,
    kind: str,
    cases: list,
    reference: str = "",
    taken: Mapping[str, str] = MappingProxyType({}),
) -> Message:
    """Run a submission's source text: the results of its function `entry`, as data. Calls of
    what is `taken` away raise, each with its message.
    """
    if why := spelled(source, taken):
        raise Failed(why)
    _load_imports(source, taken)
    objects = take_away(taken)
    names = {"mlc": _whole, "np": np, "te": te, "I": I, "R": R, "T": T, "__name__": "__main__"}
    linecache.cache[FILENAME] = (len(source), None, source.splitlines(True), FILENAME)
    exec(compile(source, FILENAME, "exec"), names)
    function: Any = names[entry]
    if kind == "program":
        twice = [[program_text(function(*case)) for case in cases] for _ in range(2)]
        same = all(_same(*pair) for pair in zip(*twice, strict=True))
        return {"programs": twice[0], "same": same}, {}
    if kind == "schedule":
        results = [scheduled(function(Schedule(parse(reference), check=False))) for _ in range(2)]
        return {**results[0], "same": results[0] == results[1]}, {}
    if kind == "space":
        spaces = [_points(function, parse(reference)) for _ in range(2)]
        return {"points": spaces[0], "same": spaces[0] == spaces[1]}, {}
    return _results(function, arrays, cases, watched(objects))


def _load_imports(source: str, taken: Mapping[str, str]) -> None:
    """Load the modules that a source imports while they may still load libraries."""
    for part in ast.walk(ast.parse(source)):
        names = [alias.name for alias in part.names] if isinstance(part, ast.Import) else []
        names += [part.module] if isinstance(part, ast.ImportFrom) and part.module else []
        for name in names:
            if not above(name, taken):
                with suppress(Exception):  # the submission's import raises it again
                    import_module(name)


def _points(function: Callable[..., Any], mod: IRModule) -> list[dict[str, Any]]:
    """The schedule that a space makes of each key, as data."""
    return [scheduled(function(Schedule(mod, key=key, check=False))) for key in KEYS]


def _same(first: str, second: str) -> bool:
    return first == second or structural_equal(parse(first), parse(second))


def _results(
    function: Callable[..., Any], arrays: Arrays, cases: list, kind: type[np.ndarray]
) -> Message:
    """A function's results on each case's inputs, called twice with arrays of a kind, and the
    inputs afterwards.
    """
    results: Arrays = {}
    for number, count in enumerate(cases):
        inputs = [arrays[f"{number}.{place}"] for place in range(count)]
        for call in ("first", "second"):
            result = function(*[array.view(kind) for array in inputs])
            results[f"{number}.{call}"] = _numbers(result)
        results |= numbered(inputs, f"{number}.")
    return {}, results


def _numbers(value: Any) -> np.ndarray:
    """The result of a function of arrays, as a new array."""
    if isinstance(value, np.ma.MaskedArray):
        raise Failed("an array is wanted, not a masked one: say what is in the gaps")
    result = np.asarray(value)
    if result.dtype.kind not in NUMBERS:
        raise Failed(f"an array of numbers is wanted, not one of {result.dtype}")
    return result.copy()


OPERATIONS: dict[str, Callable[..., Message]] = {
    operation.__name__: operation
    for operation in (collect, run, replay, ratio, simulate, written, touched)
}

if __name__ == "__main__":
    main()
