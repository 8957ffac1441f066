"""Work on data: programs are run, timed and examined, traces are replayed.

Nothing here runs a submission's Python. Each operation takes arrays and texts and returns a
message, or raises `Failed`.
"""

import contextlib
import statistics
import time
from collections.abc import Callable
from itertools import permutations
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np

from minimlc import recipes
from minimlc.apart.message import Arrays, Failed, Message, in_order, numbered
from minimlc.homework.answer import limited, only_function
from minimlc.homework.counters import WARP, Counted
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import Buffer, PrimFunc
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.verify import verify
from minimlc.loops.schedule import Schedule, Trace
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import BuildError, CompileError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import structural_equal
from minimlc.machine.record import Execution, Record, record
from minimlc.script import parse
from minimlc.services import build as builder
from minimlc.services.runtime.library import Library
from minimlc.services.threads.parallel import set_num_threads
from minimlc.targets.c.compiler import compiler
from minimlc.targets.gpu.kernels import kernels

LONGEST_TRACE = 500
"""The most steps that a schedule may have."""

MOST_SWAPPED = 6
"""The most parameters whose orders are all tried if the declared one does not fit."""


def run(arrays: Arrays, text: str, compiled: bool = False) -> Message:
    """Run a program (its only function) on arrays: the arrays afterwards."""
    mod, name, func = program(text)
    arguments = in_order(arrays)
    if compiled:
        build(mod, bounds="check")[name](*arguments)
    else:
        _check_declared(func, arguments)
        interpret(mod, name, *arguments)
    return {}, numbered(arguments)


def _check_declared(func: PrimFunc, arrays: list[np.ndarray]) -> None:
    """Raise `Failed`, with a declaration that fits, unless the parameters fit the arrays, the last
    of which is the result. A wrong number of parameters is left to the call.
    """
    params = func.params
    stored = {item.buffer for item in accesses(func) if item.is_write}
    read = {item.buffer for item in accesses(func) if not item.is_write}
    fitting = all(map(_fits, params, arrays))
    if len(params) != len(arrays) or (fitting and params[-1] not in read - stored):
        return
    for order in permutations(params) if len(params) <= MOST_SWAPPED else ():
        if all(map(_fits, order, arrays)) and stored & set(params) == {order[-1]}:
            names = ", ".join(param.name for param in order)
            raise Failed(f"declare the parameters in the order {names}")
    for param, array in zip(params, arrays, strict=True):
        if not _fits(param, array):
            raise Failed(
                f"{param.name} is {param.dtype} {param.shape}, not {array.dtype} {array.shape}: "
                f'declare {param.name} as T.Buffer({array.shape}, "{array.dtype}")'
            )


def _fits(param: Buffer, array: np.ndarray) -> bool:
    return param.shape == array.shape and to_numpy(param.dtype) == array.dtype


def touched(arrays: Arrays, text: str) -> Message:
    """Accesses of a program to its last parameter, which is undefined at first: "early" names the
    element that it reads before writing it, `written` marks the elements that it writes.
    """
    _, _, func = program(text)
    history, out = record(func, limit=1 << 18), func.params[-1]
    written = np.zeros(out.shape, bool)
    early = ""
    for step in history.steps:
        touches = [touch for touch in step.touches if history.buffers[touch.buffer] is out]
        unread = [t.element for t in touches if not t.write and not written.flat[t.element]]
        early = early or (_early(history, step, out, unread[0]) if unread else "")
        written.flat[[touch.element for touch in touches if touch.write]] = True
    return {"early": early}, {"written": written} if history.complete else {}


def _early(history: Record, step: Execution, out: Buffer, element: int) -> str:
    at = ", ".join(map(str, np.unravel_index(element, out.shape)))
    pairs = zip(history.loops[step.store], step.values, strict=False)
    values = ", ".join(f"{loop.var.name}={value}" for loop, value in pairs)
    return f"{out.name}[{at}] is read before it is written{f', at {values}' if values else ''}"


def program(text: str) -> tuple[IRModule, str, PrimFunc]:
    """The well-formed module that a text describes, its only function's name, and that function."""
    mod = parse(limited(text))
    verify(mod)
    return mod, next(iter(mod.functions), ""), only_function(mod)


def build(mod: IRModule, bounds: str | None = None) -> Library:
    """Native code, by LLVM or else by a C compiler; Python code where there is neither."""
    try:
        return builder.build(mod, bounds=bounds, cache=False)
    except BuildError as error:
        if error.code != "E502":
            raise
    target = "python" if compiler() is None else "c"
    return builder.build(mod, target, bounds=bounds, cache=False)


def replay(arrays: Arrays, text: str, trace: str, claimed: str = "") -> Message:
    """Replay a trace on a program: the resulting text, and whether it is the one `claimed`."""
    steps = Trace.from_json(trace)
    if len(steps) > LONGEST_TRACE:
        raise Failed(f"the schedule has {len(steps)} steps; {LONGEST_TRACE} are allowed")
    done = Schedule.replay(parse(text), steps, check=False).mod
    verify(done)
    same = not claimed or structural_equal(done, parse(limited(claimed)))
    return {"text": limited(done.script(constants="inline")), "same": same}, {}


def written(arrays: Arrays, text: str) -> Message:
    """The steps of each recipe's schedule for a program, by the recipe's name."""
    start, steps = Schedule(parse(text), check=False), {}
    for name in sorted(recipes.__all__, key=lambda name: name == "fitting"):  # it applies others
        with contextlib.suppress(CompileError, TypeError):  # not for it, or for whole modules
            steps[name] = list(getattr(recipes, name)(start).trace)
    return {"recipes": steps}, {}


def simulate(arrays: Arrays, text: str) -> Message:
    """The counts of a program's kernels on a simulated GPU: see `homework.counters.Counts`."""
    mod, name, func = program(text)
    for kernel in kernels(name, func).kernels:
        threads = prod(kernel.block)
        if threads < WARP:
            why = f"{kernel.name} runs by blocks of {threads} threads: bind loops to threadIdx"
            raise Failed(why.replace(" 1 threads", " 1 thread"))
    library: Any = builder.build(mod, "gpusim")
    profile = library.profile(name, *in_order(arrays)).kernels
    rows = [row for kernel in profile for row in kernel.statements]
    fields = attrgetter(*Counted._fields)
    return {
        "kernels": len(profile),
        "active": sum(row.threads for row in rows) / sum(WARP * row.warps for row in rows),
        "accesses": [list(fields(access)) for kernel in profile for access in kernel.accesses],
    }, {}


def ratio(arrays: Arrays, text: str, base: str, rounds: int) -> Message:
    """How many times as fast as `base` a program is, on one thread: the median of the rounds, in
    which both run in turns.
    """
    set_num_threads(1)
    calls = []
    for part in (base, text):
        mod, name, _ = program(part)
        calls.append((build(mod)[name], [array.copy() for array in in_order(arrays)]))
    for function, arguments in calls:
        function(*arguments)
    ratios = [_seconds(*calls[0]) / _seconds(*calls[1]) for _ in range(rounds)]
    return {"ratio": statistics.median(ratios)}, {}


def _seconds(function: Callable[..., None], arguments: list[np.ndarray]) -> float:
    """Seconds per call, over at least five milliseconds of calls."""
    calls, took = 0, 0.0
    start = time.perf_counter()
    while took < 5e-3:
        function(*arguments)
        calls += 1
        took = time.perf_counter() - start
    return took / calls
