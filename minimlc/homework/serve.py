"""What a worker process runs: `python -m minimlc.homework.serve`.

Requests come from stdin and answers go to stdout's place; what a submission prints goes elsewhere.
`collect` runs a submission and gives back data. The other requests take data and run no Python of
anybody's.
"""

import contextlib
import io
import linecache
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import permutations
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from minimlc import recipes
from minimlc.codegen.c.compiler import compiler
from minimlc.dtypes import to_numpy
from minimlc.errors import BuildError, CompileError
from minimlc.homework.allowed import HomeworkError, spelled, take_away
from minimlc.homework.limits import (
    STARTED,
    Limits,
    adopt,
    apply,
    die_with_parent,
    end_children,
    guard,
    how_it_ended,
)
from minimlc.homework.message import Arrays, Malformed, receive, send
from minimlc.machine.record import Record, Step, record
from minimlc.module import IRModule
from minimlc.node import structural_equal
from minimlc.run import interpret
from minimlc.runtime import build as builder
from minimlc.runtime.library import Library
from minimlc.runtime.parallel import set_num_threads
from minimlc.schedule import Schedule, Trace
from minimlc.script import I, R, T, parse
from minimlc.tir import te
from minimlc.tir.analysis.access import accesses
from minimlc.tir.nodes import Buffer, PrimFunc
from minimlc.verify import verify

Answer = tuple[dict[str, Any], Arrays]
_whole = import_module("minimlc")
_whole.build  # noqa: B018 (loads the compiler before the first request)
FILENAME = "<submission>"
LONGEST_TEXT = 200_000
"""Characters of script that a program may have."""

LONGEST_TRACE = 500
"""Steps that a schedule may have."""


MOST_SWAPPED = 6
"""Parameters whose orders are tried, where theirs does not fit."""


class Unfit(Exception):
    """A submission that is not what was asked for."""


def main() -> None:
    """Answer requests until there are none.

    On Linux a guard stands above: what a submission started comes to it, also when the submission
    ends the process that answers, and ends with it.
    """
    adopt()
    if sys.platform == "linux":
        worker = os.fork()
        if worker:
            guard(worker)
        die_with_parent()
        os.setsid()  # who kills a group or a session does not reach the guard
        adopt()  # what a submission left is found here at once, not only when this one ends
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    assert isinstance(sys.stdout, io.TextIOWrapper)
    # A crash loses no line; half a character of two (a lone surrogate) can be shown.
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    send(answers, {"ready": os.getpid()}, {})
    while (request := receive(requests)) is not None:
        body, arrays = request
        if body["op"] == "collect" and sys.platform == "linux":
            answer, found = _apart(body, arrays, (requests, answers))
        else:
            answer, found = _answer(body, arrays)
        send(answers, answer, found)
    os._exit(0)


def _answer(body: dict[str, Any], arrays: Arrays) -> Answer:
    token, limits = body.pop("token"), Limits(**body.pop("limits"))
    operation = OPERATIONS[body.pop("op")]
    apply(limits, final=operation is collect)
    try:
        answer, found = operation(arrays, **body)
    except BaseException as error:  # whatever a submission raises, sys.exit included
        answer, found = {"error": explain(error)}, {}
    return {**answer, "token": token}, found


def _apart(body: dict[str, Any], arrays: Arrays, private: tuple[BinaryIO, ...]) -> Answer:
    """The answer of a copy of this process, which dies with the submission; this one stays clean,
    and ready. Only where copying a process that has no threads is safe and cheap.
    """
    token, folder = body["token"], tempfile.mkdtemp(dir=".")
    os.lseek(2, 0, os.SEEK_SET)
    os.ftruncate(2, 0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        die_with_parent()
        for stream in private:
            os.close(stream.fileno())
        os.close(reading)
        os.chdir(folder)
        os.setpgid(0, 0)
        try:
            send(os.fdopen(writing, "wb"), *_answer(body, arrays))
        finally:  # whatever its answer holds: this copy goes no further
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            message = receive(stream)
    except (Malformed, MemoryError) as error:
        message = {"error": f"what came back cannot be read: {error}"}, {}
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = end_children()
    shutil.rmtree(folder, ignore_errors=True)
    if left:
        message = {"error": STARTED}, {}
    elif message is None:
        message = {"error": how_it_ended(status)}, {}
    elif "error" not in message[0] and message[0].get("token") != token:
        why = "what came back is not the worker's answer: something else wrote to it"
        message = {"error": why}, {}
    return {**message[0], "token": token}, message[1]


def explain(error: BaseException) -> str:
    """An exception in words, with the submission's line where it came from."""
    if isinstance(error, Unfit):
        return str(error)
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
        text = f"{type(error).__name__}: {error}"[:1500]
    except BaseException as other:  # a __str__ of somebody's
        text = f"an exception that can't be shown ({type(other).__name__})"
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == FILENAME]
    if own and not (isinstance(error, CompileError) and error.span):
        text += f"\n  raised in {own[-1].name}: {own[-1].line}"
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
) -> Answer:
    """Run a submission's source text; what its function `entry` gives, as data. What is `taken`
    away refuses, each with a sentence of its own.
    """
    if said := spelled(source, taken):
        raise Unfit(said)
    take_away(taken)
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
    return _results(function, arrays, cases)


def _same(first: str, second: str) -> bool:
    return first == second or structural_equal(parse(first), parse(second))


def program_text(value: Any) -> str:
    """A module or a function of the IR as text; `Unfit` for anything else."""
    if isinstance(value, Schedule):
        value = value.mod
    if isinstance(value, PrimFunc):
        value = IRModule.of({"main": value})
    if not isinstance(value, IRModule):
        raise Unfit(f"a module is wanted, not {_kind(value)}: return the class after @I.ir_module")
    return limited(value.script())


def limited(text: str) -> str:
    """A program's text, if it is not too long."""
    if type(text) is not str:
        raise Unfit(f"a program's text is wanted, not {type(text).__name__}")
    if len(text) > LONGEST_TEXT:
        raise Unfit(f"the program has {len(text):,} characters; {LONGEST_TEXT:,} are allowed")
    return text


def _kind(value: Any) -> str:
    return "None (is there a return?)" if value is None else type(value).__name__


def scheduled(value: Any) -> dict[str, Any]:
    """A schedule as data: its trace, and the program it claims to be."""
    if type(value) is not Schedule:
        raise Unfit(f"a schedule is wanted, not {_kind(value)}: return what the last step gives")
    return {"trace": value.trace.to_json(), "text": limited(value.mod.script())}


def _results(function: Callable[..., Any], arrays: Arrays, cases: list) -> Answer:
    """A function's results on the inputs of each case, called twice; and the inputs after."""
    found: Arrays = {}
    for number, count in enumerate(cases):
        inputs = [arrays[f"{number}.{place}"] for place in range(count)]
        for call in ("first", "second"):
            given = function(*inputs)
            if isinstance(given, np.ma.MaskedArray):
                raise Unfit("an array is wanted, not a masked one: say what is in the gaps")
            result = np.asarray(given)
            if result.dtype.kind not in "biuf":
                raise Unfit(f"an array of numbers is wanted, not one of {result.dtype}")
            found[f"{number}.{call}"] = result.copy()
        found.update({f"{number}.{place}": value for place, value in enumerate(inputs)})
    return {}, found


# Working on data


def run(arrays: Arrays, text: str, compiled: bool = False) -> Answer:
    """Run a program (its only function) on arrays; what they are afterwards."""
    mod = program(text)
    name = next(iter(mod.functions))
    given = [arrays[str(number)] for number in range(len(arrays))]
    if compiled:
        build(mod, bounds="check")[name](*given)
    else:
        func = mod[name]
        assert isinstance(func, PrimFunc)
        if said := _misdeclared(func, given):
            raise Unfit(said)
        interpret(mod, name, *given)
    return {}, {str(number): array for number, array in enumerate(given)}


def _misdeclared(func: PrimFunc, given: list[np.ndarray]) -> str:
    """Which parameters a program should have for arrays, of which the last is the result; "" where
    they fit, or are of another number.
    """
    params, found = func.params, accesses(func)
    stored = {item.buffer for item in found if item.is_write}
    an_input = params[-1] in {item.buffer for item in found} - stored
    fitting = all(map(_fits, params, given))
    if len(params) != len(given) or (fitting and not an_input):
        return ""
    for order in permutations(params) if len(params) <= MOST_SWAPPED else ():
        if all(map(_fits, order, given)) and stored & set(params) == {order[-1]}:
            names = ", ".join(param.name for param in order)
            return f"declare the parameters in the order {names}"
    if fitting:
        return ""
    param, array = next(pair for pair in zip(params, given, strict=True) if not _fits(*pair))
    return (
        f"{param.name} is {param.dtype} {param.shape}, not {array.dtype} {array.shape}: "
        f'declare {param.name} as T.Buffer({array.shape}, "{array.dtype}")'
    )


def _fits(param: Buffer, array: np.ndarray) -> bool:
    return param.shape == array.shape and to_numpy(param.dtype) == array.dtype


def touched(arrays: Arrays, text: str) -> Answer:
    """What a program does to its last parameter, which holds nothing at first: "early" says which
    element it reads before it writes it, `written` are those that it writes.
    """
    func = next(iter(program(text).functions.values()))
    assert isinstance(func, PrimFunc)
    found, out = record(func, limit=1 << 18), func.params[-1]
    mask = np.zeros(out.shape, bool)
    early = ""
    for step in found.steps:
        touches = [touch for touch in step.touches if found.buffers[touch.buffer] is out]
        unread = [t.element for t in touches if not t.write and not mask.flat[t.element]]
        early = early or (_early(found, step, out, unread[0]) if unread else "")
        mask.flat[[touch.element for touch in touches if touch.write]] = True
    return {"early": early}, {"written": mask} if found.complete else {}


def _early(found: Record, step: Step, out: Buffer, element: int) -> str:
    at = ", ".join(map(str, np.unravel_index(element, out.shape)))
    pairs = zip(found.loops[step.store], step.values, strict=False)
    values = ", ".join(f"{loop.var.name}={value}" for loop, value in pairs)
    return f"{out.name}[{at}] is read before it is written{f', at {values}' if values else ''}"


def program(text: str) -> IRModule:
    """The well-formed module that a text describes; it holds one primitive function."""
    mod = parse(limited(text))
    verify(mod)
    functions = list(mod.functions.values())
    if len(functions) != 1 or not isinstance(functions[0], PrimFunc):
        raise Unfit("the module must hold one @T.prim_func and nothing else")
    return mod


def build(mod: IRModule, bounds: str | None = None) -> Library:
    """Native code, by LLVM or else by a C compiler; Python code where there is neither."""
    try:
        return builder.build(mod, bounds=bounds, cache=False)
    except BuildError as error:
        if error.code != "E502":
            raise
    target = "python" if compiler() is None else "c"
    return builder.build(mod, target, bounds=bounds, cache=False)


def replay(arrays: Arrays, text: str, trace: str, claimed: str = "") -> Answer:
    """Replay a trace on a program; the text of what it gives, and whether that is `claimed`."""
    steps = Trace.from_json(trace)
    if len(steps) > LONGEST_TRACE:
        raise Unfit(f"the schedule has {len(steps)} steps; {LONGEST_TRACE} are allowed")
    done = Schedule.replay(parse(text), steps, check=False).mod
    verify(done)
    same = not claimed or structural_equal(done, parse(limited(claimed)))
    return {"text": limited(done.script()), "same": same}, {}


def written(arrays: Arrays, text: str) -> Answer:
    """The steps of each recipe's schedule for a program, by the recipe's name."""
    start, found = Schedule(parse(text), check=False), {}
    for name in recipes.__all__:
        with contextlib.suppress(CompileError, TypeError):  # not for it, or for whole modules
            found[name] = list(getattr(recipes, name)(start).trace)
    return {"recipes": found}, {}


def ratio(arrays: Arrays, text: str, base: str, rounds: int, threads: int = 1) -> Answer:
    """How many times as fast as `base` a program is: in turns, the median of the rounds."""
    set_num_threads(threads)
    calls = []
    for part in (base, text):
        mod = program(part)
        name = next(iter(mod.functions))
        given = [arrays[str(number)].copy() for number in range(len(arrays))]
        calls.append((build(mod)[name], given))
    for function, given in calls:
        function(*given)
    ratios = [_seconds(*calls[0]) / _seconds(*calls[1]) for _ in range(rounds)]
    return {"ratio": statistics.median(ratios)}, {}


def _seconds(function: Callable[..., None], given: list[np.ndarray]) -> float:
    """Seconds per call, over at least five milliseconds of calls."""
    calls, took = 0, 0.0
    start = time.perf_counter()
    while took < 5e-3:
        function(*given)
        calls += 1
        took = time.perf_counter() - start
    return took / calls


OPERATIONS: dict[str, Callable[..., Answer]] = {
    "collect": collect,
    "run": run,
    "replay": replay,
    "ratio": ratio,
    "written": written,
    "touched": touched,
}

if __name__ == "__main__":
    main()
