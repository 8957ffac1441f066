"""The distribution of a call's time: each kernel of a function timed by itself, with its work.

A kernel's share of the roofline is the least time that the machine's peaks allow for its operations
and bytes, over its time (Williams, Waterman and Patterson, "Roofline: an insightful visual
performance model for multicore architectures", CACM 52(4), 2009).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from minimlc.deploy import table
from minimlc.deploy.work import flops
from minimlc.graphs.ir.nodes import Binding, BindingBlock, Call, Function, TensorType, Var
from minimlc.graphs.plan import PlannedCall, Slot, nbytes, plan
from minimlc.graphs.run import flatten, nest
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.values.display import display, mimebundle
from minimlc.loops.values.errors import BuildError, CompileError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import replace as with_fields
from minimlc.loops.values.parts import Hook
from minimlc.machine.peaks import Peaks, machine_peaks
from minimlc.services.runtime.executable import Kernel, NativeGraph, SteppedGraph, perform
from minimlc.services.runtime.library import Library
from minimlc.services.runtime.timing import machine_text, seconds_text
from minimlc.services.sizes.kernels import HalvedGraph, SymbolicGraph, SymbolicKernel
from minimlc.services.threads.parallel import num_threads

BUILDING = Hook[Any]("building")

SECONDS, FEWEST, MOST = 0.3, 3, 200
"""Seconds that a function is run for, and the least and the greatest number of runs."""

AFAR = ("cuda", "opencl")
"""Targets whose kernels would be timed together with copies to a device and back."""

HEAD = ("kernel", "time", "of all", "bytes", "flops", "roofline")


class KernelTime(NamedTuple):
    """A kernel of a function: the median `seconds` of one run, the `bytes` of its arrays, each
    moved once, its operations on floats (None: data decides), and the share of the roofline (None
    where the operations or the machine's peaks are not known).
    """

    name: str
    seconds: float
    bytes: int
    flops: int | None
    share: float | None


@dataclass(frozen=True)
class Profile:
    """The kernels of the function `name`, in the order in which they ran; `call` is the median of
    an ordinary call's seconds, and `result` what the kernels gave, one after the other.
    """

    name: str
    kernels: tuple[KernelTime, ...]
    call: float
    machine: str
    result: Any = field(repr=False, compare=False, default=None)

    @property
    def seconds(self) -> float:
        """The kernels' times together."""
        return sum(kernel.seconds for kernel in self.kernels)

    @property
    def bytes(self) -> int:
        """Bytes that all kernels read and write."""
        return sum(kernel.bytes for kernel in self.kernels)

    @property
    def flops(self) -> int | None:
        """The operations of all kernels; None where one kernel's are not known."""
        counts = [kernel.flops for kernel in self.kernels]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def share(self) -> float | None:
        """The share of the roofline, each kernel at its own limit."""
        shares = [(k.share, k.seconds) for k in self.kernels]
        if not self.seconds or any(share is None for share, _ in shares):
            return None
        return sum((share or 0.0) * seconds for share, seconds in shares) / self.seconds

    def _table(self) -> tuple[str, Sequence[str], list[Sequence[str]], Sequence[str]]:
        title = f"{self.name}: {seconds_text(self.call)} a call, on {self.machine}"
        total = KernelTime("total", self.seconds, self.bytes, self.flops, self.share)
        rows = [_row(kernel, self.seconds) for kernel in (*self.kernels, total)]
        return title, HEAD, rows, ("kernel",)

    def __repr__(self) -> str:
        return table.text(*self._table())

    def _repr_html_(self) -> str:
        return table.html(*self._table())

    show = display
    _repr_mimebundle_ = mimebundle


def _row(kernel: KernelTime, total: float) -> Sequence[str]:
    return (
        kernel.name,
        seconds_text(kernel.seconds),
        f"{kernel.seconds / total:.1%}" if total else "",
        f"{kernel.bytes:,}",
        "?" if kernel.flops is None else f"{kernel.flops:,}",
        "?" if kernel.share is None else f"{kernel.share:.1%}",
    )


def profile(library: Library, name: str, arguments: Sequence[Any]) -> Profile:
    """Run the function `name` of a library, kernel by kernel, and time each; see `Library.profile`.

    `CompileError` for a library whose kernels run on a device.
    """
    if library.target.name in AFAR:
        why = f'kernels of target "{library.target.name}" cannot be timed one by one from here'
        raise CompileError(why, hint='library.time(name, ...), or build(mod, "gpusim")')
    call: Any = library[name]
    if isinstance(call, SymbolicGraph | SymbolicKernel):
        instance, given = call.instance(arguments)
        return profile(instance, name, given)
    if isinstance(call, HalvedGraph):
        return _halved(call, name, arguments)
    steps, run = _runner(library, name, library.mod[name])
    runs: list[list[float]] = []
    result = _timed(run, arguments, [])  # the first run is slower
    while len(runs) < FEWEST or (len(runs) < MOST and sum(map(sum, runs)) < SECONDS):
        runs.append([])
        result = _timed(run, arguments, runs[-1])
    seconds = [median(column) for column in zip(*runs, strict=True)]
    whole = [_seconds(partial(call, *arguments)) for _ in runs]
    peaks = _peaks()
    kernels = map(partial(_kernel, library.mod, peaks), steps, seconds)
    return Profile(name, tuple(kernels), median(whole), machine_text(), result)


def _halved(call: HalvedGraph, name: str, arguments: Sequence[Any]) -> Profile:
    """The kernels before a data-dependent size is known, then the kernels for that size."""
    first = profile(call.head, name, arguments)
    rest = call.rest(arguments, first.result)
    if call.ends:
        return replace(first, result=call(*arguments))
    instance, given = call.tail.instance(rest)
    last = profile(instance, name, given)
    kernels = (*first.kernels, *last.kernels)
    return replace(last, kernels=kernels, call=first.call + last.call)


Runner = Callable[[Callable[..., None], Sequence[Any]], Any]
"""Runs a function on arguments, each of its steps by a function of step, inputs and outputs."""


def _runner(library: Library, name: str, func: object) -> tuple[Sequence[PlannedCall], Runner]:
    """The steps of a function, and the `Runner` that takes them."""
    kernels = {callee: library[callee] for callee in library.names()}
    step = partial(_prepared, kernels, {})
    if isinstance(func, Function):
        planned = plan(library.mod, name)
        if isinstance(library[name], NativeGraph):
            alone = {item.call: _alone(library, item.call) for item in planned.steps if item.call}
            step = partial(_prepared, kernels, alone)
        graph = SteppedGraph(name, func, planned, kernels)
        return planned.steps, lambda timed, given: graph.run(partial(timed, step), given)
    assert isinstance(func, PrimFunc)
    slots = tuple(Slot(TensorType(p.shape, p.dtype), "input") for p in func.params)
    single = PlannedCall("call_tir", name, slots, ())
    return [single], lambda timed, given: timed(step, single, list(given), [])


def _timed(run: Runner, arguments: Sequence[Any], seconds: list[float]) -> Any:
    """The result of a run; each step's seconds are added to `seconds`."""

    def timed(prepared: Callable[..., Any], *step: Any) -> None:
        seconds.append(_seconds(prepared(*step)))

    return run(timed, arguments)


def _alone(library: Library, call: Call) -> Callable[..., Any]:
    """A condition or loop as a function: native code, as within the one that is profiled."""
    params = tuple([Var(f"x{at}", arg.type) for at, arg in enumerate(call.args)])
    value, name = Var("value", call.type), UniqueNames(library.mod.functions).take("step")
    block = BindingBlock((Binding(value, with_fields(call, args=params)),), True)
    mod = library.mod.with_function(name, Function(params, (block,), value))
    building: Any = BUILDING.first
    built: Library = building.build(mod, library.target)
    return built[name]


def _prepared(
    kernels: Mapping[str, Any],
    alone: Mapping[Call, Callable[..., Any]],
    step: PlannedCall,
    inputs: list[Any],
    outputs: list[Any],
) -> Callable[[], Any]:
    """A step that is ready to run: arguments of compiled code are checked before the clock runs."""
    if step.call is not None and step.call in alone:
        leaves, function = iter(inputs), alone[step.call]
        values = [nest(arg.type, leaves) for arg in step.call.args]

        def run() -> None:
            for output, value in zip(outputs, flatten([function(*values)]), strict=True):
                output[...] = value

        return run
    if step.op != "call_tir":
        return partial(perform, kernels, step, inputs, outputs)
    kernel = kernels[step.callee]
    if isinstance(kernel, Kernel):
        return kernel.ready(*inputs, *outputs)
    return partial(kernel, *inputs, *outputs)


def _seconds(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _peaks() -> Peaks | None:
    """The machine's peaks, measured once; None where nothing can be compiled to measure them."""
    try:
        return machine_peaks()
    except BuildError:
        return None


def _kernel(mod: IRModule, peaks: Peaks | None, step: PlannedCall, seconds: float) -> KernelTime:
    """A step's row. A kernel with a parallel loop has the roofs of as many cores."""
    func = mod[step.callee] if step.op == "call_tir" else None
    count = flops(func) if isinstance(func, PrimFunc) else None
    moved = sum(nbytes(slot.type) for slot in step.slots)
    share = None
    if peaks is not None and count is not None and seconds:
        assert isinstance(func, PrimFunc)
        cores = num_threads() if any(loop.kind == "parallel" for loop in loops_in(func)) else 1
        share = max(count / peaks.operations, moved / peaks.bytes) / cores / seconds
    return KernelTime(step.callee, seconds, moved, count, share)
