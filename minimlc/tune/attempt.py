"""One candidate, from its text to its times, in a separate process."""

import contextlib
import functools
import gc
import hashlib
from collections.abc import Callable, Iterator
from math import inf, prod
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from minimlc.apart.copies import Tell
from minimlc.graphs.ir.registry import get_function
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.ir.walks import blocks_in
from minimlc.loops.schedule import Schedule, Trace
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.target import Target, cpu_model
from minimlc.recipes import CONSTANTS
from minimlc.script import parse
from minimlc.services.build import build
from minimlc.services.equivalence.compare import TOLERANCE, first_difference, inputs
from minimlc.services.passes.pack_constants import packed
from minimlc.services.runtime.executable import aligned_bytes
from minimlc.services.runtime.files import write_atomically
from minimlc.services.runtime.foreign import missing_features
from minimlc.services.threads.parallel import set_num_threads
from minimlc.tune.records import Candidate, Result, target_of

try:
    import fcntl
except ImportError:  # Windows: timings there do not wait for each other
    fcntl = None  # type: ignore[assignment]

Arrays = list[np.ndarray]
Known = tuple[Arrays, Arrays]
EXPECTED_TIMES = 20
"""The factor by which the unscheduled program may run longer than a candidate."""

STAGES = {2: 2.0, 4: 1.4, 6: 1.2}
"""Successive halving: a candidate whose fastest of so many samples takes longer than so many times
the best score so far gets no more.
"""
MOST_SAMPLES = 12
SAMPLE_SECONDS = 2e-3
"""The approximate length of a sample, which sets its number of calls."""
REFERENCE_CALLS = 8
"""The number of calls in a sample of the reference kernel: one to two milliseconds."""

FOREIGN = ("positive", "large")
"""Kinds of arguments, besides ordinary ones, on which a library's routine is compared: the steps
of a schedule are proven.
"""

PAGE = 4096
REFERENCE = """
@T.prim_func
def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    for step, i_0 in T.grid(2048, 16):
        for i_1 in T.vectorized(64):
            B[i_0 * 64 + i_1] = B[i_0 * 64 + i_1] * T.float32(0.5) + A[i_0 * 64 + i_1]
"""
"""The kernel timed between a candidate's samples: arithmetic on arrays that every cache holds."""


@functools.cache
def host() -> str:
    """This machine, as results name it: the CPU's model, and a hash of its features, its caches and
    how many cores this process may use.
    """
    here = Target.host()
    facts = f"{here.features} {here.l1} {here.l2} {here.l3} {here.cores} {cpu_model()}"
    return f"{here.cpu}-{hashlib.blake2b(facts.encode(), digest_size=4).hexdigest()}"


@functools.cache
def reference() -> Callable[[], None]:
    """A call of the reference kernel, compiled once in a process. Its arrays lie half a page apart:
    a load whose address ends like that of a store just before waits for it, and where the second
    began a little behind the first, modulo a page, a call took two to four times as long.
    """
    kernel = build(parse(REFERENCE))["main"]
    memory = aligned_bytes(4 * PAGE)
    memory.view(np.float32)[...] = 1
    start = -memory.ctypes.data % PAGE
    arrays = [memory[at : at + PAGE].view(np.float32) for at in (start, start + PAGE * 3 // 2)]
    return functools.partial(kernel, *arrays)


def _placed(array: np.ndarray) -> np.ndarray:
    """A copy on a cache line: a kernel whose vectors lie across two takes half as long again, and
    where numpy's memory begins differs from one process to the next.
    """
    copy = aligned_bytes(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def attempt(candidate: Candidate, folder: Path, seconds: float, best: float, tell: Tell) -> Result:
    """The result of a candidate. `folder` keeps the results of its unscheduled program; `seconds`
    is the limit of a run, `best` the best score so far (see `STAGES`). Parameters that are noted as
    constants are packed before, as `build` does it for a model.
    """
    gc.disable()
    answer = functools.partial(Result, host=host())
    try:
        mod = parse(candidate.mod)
        plain, library = Schedule(mod, candidate.func, check=False).func, candidate.library
        trace = Trace() if library else candidate.trace
        sch = Schedule.replay(mod, trace, candidate.func, check=False)
    except CompileError as error:
        return answer("illegal", message=str(error))
    try:
        target = target_of(candidate.target)
        if missing := missing_features(target):
            return answer("build", message=f"this CPU lacks {', '.join(missing)}")
        noted: Any = () if library else dict(plain.attrs).get(CONSTANTS, ())
        fixed = frozenset(n for n, param in enumerate(plain.params) if param.name in noted)
        func, copies = packed(sch.func, fixed, {})
        alone = _alone(func)
        call = get_function(library) if library else build(alone, target, cache=False)["main"]
    except CompileError as error:
        return answer("build", message=str(error))
    arguments, expected = _known(plain, "ordinary", folder, seconds, tell)
    for place, copy in copies:
        arguments[place] = copy.of(arguments[place])
    for kind in FOREIGN if library else ():  # the first call loads it, before others wait
        values, means = _known(plain, kind, folder, seconds, tell)
        call(*values)
        if wrong := _wrong(plain, fixed, means, values):
            return answer("wrong", message=wrong)
    with _turn(folder, seconds, tell):
        threads = min(target.cores, Target.host().cores)
        (threadpool_limits if library else set_num_threads)(threads)  # others' threads would spin
        clock = thread_time if threads == 1 else perf_counter
        results = [*map(_placed, arguments)]
        call(*results)
        if wrong := _wrong(plain, fixed, expected, results):
            return answer("wrong", message=wrong)
        again, start = functools.partial(call, *results), perf_counter()
        # A new process's threads start beside the busy one that made them, and wait there for 20 to
        # 40 ms until the system moves them.
        while threads > 1 and perf_counter() < start + 0.1:
            again()
        return answer("ok", *samples(again, best, start + seconds / 3, clock))


def _alone(func: PrimFunc) -> IRModule:
    return IRModule.of({"main": func})


def _wrong(func: PrimFunc, fixed: frozenset[int], expected: Arrays, got: Arrays) -> str:
    """The first element that is wrong, in words, of parameters that are not `fixed`."""
    checked = [n for n in range(len(got)) if n not in fixed]
    params = [func.params[n] for n in checked]
    means, values = ([arrays[n] for n in checked] for arrays in (expected, got))
    return first_difference(params, means, values, _tolerance(func))


def _tolerance(func: PrimFunc) -> dict[str, float]:
    """How far results may differ, relative to the largest element, as sums may be taken in another
    order. Rounding errors of n terms add like a random walk, to about sqrt(n) * eps, and stay
    below four times that for all of many elements (N. Higham, T. Mary, SIAM J. Sci. Comput. 41,
    2019, theorem 2.4). A schedule changes nothing else but products fused into sums.
    """
    sums = [[it.extent for it in block.iters if it.kind == "R"] for block in blocks_in(func.body)]
    terms = max(map(prod, sums), default=1)
    wide = {"float64": 2.0**-52, "float32": 2.0**-23}
    return {key: max(it, 4 * terms**0.5 * wide.get(key, 0)) for key, it in TOLERANCE.items()}


def _known(func: PrimFunc, kind: str, folder: Path, seconds: float, tell: Tell) -> Known:
    """Random arguments of a function and its results for them, computed once for a folder."""
    name = hashlib.blake2b(_alone(func).script().encode(), digest_size=16).hexdigest()
    path = folder / f"{name}.{kind}.arrays"
    arguments = inputs(func, kind)
    if not path.exists():
        tell("expected", EXPECTED_TIMES * seconds)
        results = [array.copy() for array in arguments]
        build(_alone(func), cache=False)["main"](*results)
        write_atomically(path, b"".join(array.tobytes() for array in results))
        tell("build", seconds)
    return arguments, list(_read(path, arguments))


def _read(path: Path, like: Arrays) -> Iterator[np.ndarray]:
    with path.open("rb") as file:
        for array in like:
            yield np.frombuffer(file.read(array.nbytes), array.dtype).reshape(array.shape)


@contextlib.contextmanager
def _turn(folder: Path, seconds: float, tell: Tell) -> Iterator[None]:
    """One candidate at a time is timed on a host. The system ends the turn of one that dies."""
    tell("wait", inf)
    with open(folder.parent / "timing.lock", "ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        tell("run", seconds)
        yield


def samples(
    call: Callable[[], Any], best: float, end: float, clock: Callable[[], float] = perf_counter
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds of one call, several times, and of the reference kernel after each. It stops early
    where it is far from the `best` score, and at the time `end`. On one thread, its own `clock`
    leaves out what other processes ran meanwhile.
    """

    def seconds(function: Callable[[], Any], count: int) -> float:
        start = clock()
        for _ in range(count):
            function()
        return (clock() - start) / count

    once = seconds(call, 1)
    batch = max(1, min(1 << 16, int(SAMPLE_SECONDS / max(once, 1e-8))))
    times, beside = [once if batch == 1 else seconds(call, batch)], list[float]()
    while True:
        beside.append(seconds(reference(), REFERENCE_CALLS))
        fastest = min(a / b for a, b in zip(times, beside, strict=True))
        behind = fastest > best * STAGES.get(len(times), inf)
        if behind or len(times) == MOST_SAMPLES or perf_counter() >= end:
            return tuple(times), tuple(beside)
        times.append(seconds(call, batch))
