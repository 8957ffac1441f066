"""The host's side of kernels, for any driver: arguments are checked, a device's memory is filled,
kernels are launched in order, and what they wrote into copies comes back.

A `Driver` opens a `Device` for one call; each driver defines both by a few functions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from minimlc.graphs.ir.nodes import Function
from minimlc.graphs.plan import Plan
from minimlc.loops.ir.arguments import Arguments, parameters_of
from minimlc.loops.ir.nodes import Buffer, For, PrimFunc
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import BuildError, CallError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import nodes_of
from minimlc.loops.values.target import Target
from minimlc.services.runtime.executable import functions_of, library
from minimlc.services.runtime.library import Library
from minimlc.targets.gpu.emit import Emitted, Language, Launch, emit
from minimlc.targets.gpu.lanes import copy_of, several_of
from minimlc.targets.gpu.limits import Limits, check_limits


class Argument(NamedTuple):
    """An argument: the array to check, its memory on the device, and whether that is a copy."""

    array: Any
    memory: Any = None
    copied: bool = False


Opened = tuple[Any, list[Argument]]
"""The device for a call, and its arguments there."""


class Device(Protocol):
    """The operations of a driver on one device, `number`, while it is open."""

    @property
    def number(self) -> int: ...
    @property
    def limits(self) -> Limits: ...
    def compiled(self, emitted: Emitted) -> Any:
        """A program of kernels; `BuildError` E507."""

    def kernel(self, program: Any, launch: Launch) -> Callable[[Sequence[Any]], None]:
        """A launcher of a kernel on the memory of its parameters; `BuildError` E510."""

    def filled(self, array: np.ndarray) -> Any:
        """Memory that holds the elements of an array."""

    def empty(self, kind: Any) -> Any:
        """Memory for a buffer, or a tensor's type, whose elements are not set yet."""

    def fetch(self, memory: Any, array: np.ndarray) -> None:
        """Copy the elements of memory into an array once all earlier kernels are done."""


class Driver(NamedTuple):
    """`opened` is the device for a call, and its arguments there; `BuildError` E502 where there is
    none, `CallError` for memory that it cannot reach. `at_once` makes, of an entry, a function that
    finds the device which holds all arguments as they have to be; None where there is more to do,
    or an error to raise.
    """

    opened: Callable[[Arguments, Sequence[Any]], AbstractContextManager[Any]]
    at_once: Callable[["Entry"], Callable[[Sequence[Any]], Any]] = lambda entry: lambda values: None


class Entry(NamedTuple):
    """The calling convention of a function: the arguments that it takes, and the alignment of each,
    in bytes.
    """

    driver: Driver
    arguments: Arguments
    starts: Sequence[int]

    @contextmanager
    def opened(self, values: Sequence[Any], named: Iterable[str] = ()) -> Iterator[Opened]:
        """The device for a call, and its arguments there. `CallError` for one that does not fit."""
        if named or len(values) != len(self.starts):
            raise self.arguments.miscounted(len(values), len(self.starts), named)
        with self.driver.opened(self.arguments, values) as (device, ready):
            arrays, addresses = self.arguments.check([item.array for item in ready])
            for number, (item, address) in enumerate(zip(ready, addresses, strict=True)):
                if item.memory is not None and item.array.size and address % self.starts[number]:
                    raise self._misplaced(number)
            arguments = [
                Argument(array, device.filled(array), True) if item.memory is None else item
                for item, array in zip(ready, arrays, strict=True)
            ]
            yield device, arguments

    def _misplaced(self, number: int) -> CallError:
        size = self.starts[number]
        why = f"{self.arguments.which(number)} does not begin at a multiple of {size} bytes"
        example = f"the kernel moves {size} bytes of it at once"
        hint = f"{self.arguments.parameters[number].name}.copy()"
        return CallError(why, code="E606", example=example, hint=hint)


class Program:
    """The kernels of a library; they are compiled for a device at its first call."""

    def __init__(self, emitted: Emitted, several: bool):
        self.emitted = emitted
        self.several = several
        self._compiled: dict[int, Any] = {}

    def kernel(self, device: Device, launch: Launch) -> Callable[[Sequence[Any]], None]:
        """A launcher of a kernel; `BuildError` E510 for one that the device cannot launch."""
        check_limits(launch.kernel, device.limits)
        if device.number not in self._compiled:
            self._compiled[device.number] = device.compiled(self.emitted)
        return device.kernel(self._compiled[device.number], launch)


class Kernel:
    """A primitive function on a device: call it with arrays; it writes its results there."""

    def __init__(self, name: str, func: PrimFunc, program: Program, driver: Driver):
        self.__name__ = name
        self._program = program
        self.workspace, launches = program.emitted.functions[name]
        self.launches = [
            item for item in launches if 0 not in (*item.kernel.grid, *item.kernel.block)
        ]
        numbers = {buffer: at for at, buffer in enumerate((*func.params, *self.workspace))}
        self._takers = [_taker([numbers[b] for b in item.kernel.params]) for item in self.launches]
        self._ready: dict[int, list[tuple[Callable[..., None], Callable[..., Any]]]] = {}
        starts = _starts(func.params, launches, program.several)
        self.entry = Entry(driver, Arguments(name, parameters_of(func)), starts)
        self._at_once = driver.at_once(self.entry)

    def __call__(self, *arrays: Any, **named: Any) -> None:
        device = None if named or self.workspace else self._at_once(arrays)
        if device is not None:
            self.launch(device, arrays)
            return
        with self.entry.opened(arrays, named) as (device, arguments):
            workspace = map(device.empty, self.workspace)
            self.launch(device, (*(item.memory for item in arguments), *workspace))
            for item, parameter in zip(arguments, self.entry.arguments.parameters, strict=True):
                if parameter.written and item.copied and item.array.size:
                    device.fetch(item.memory, item.array)

    def launch(self, device: Device, memory: Sequence[Any]) -> None:
        """Launch the kernels on the memory of the parameters, then of the workspace."""
        if device.number not in self._ready:
            ready = (self._program.kernel(device, launch) for launch in self.launches)
            self._ready[device.number] = list(zip(ready, self._takers, strict=True))
        for run, taken in self._ready[device.number]:
            run(taken(memory))

    def __repr__(self) -> str:
        return f"<compiled {self.entry.arguments.signature}>"


def _taker(places: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    """A function that takes the memory at these places, as a tuple: the fastest that does."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda memory: tuple([memory[place] for place in places])


def _starts(params: Sequence[Buffer], launches: Iterable[Launch], several: bool) -> list[int]:
    """The alignment of parameters, in bytes: some elements are moved several at once, or calculated
    with where a language has `several`.
    """
    sizes = {param: to_numpy(param.dtype).itemsize for param in params}
    loops = ((part.kernel, item) for part in launches for item in nodes_of(part.kernel.body, For))
    for kernel, loop in loops:
        item = copy_of(loop) or (several_of(loop) if several else None)
        if item is None or not item.buffers <= {*kernel.params, *kernel.shared}:
            continue
        for buffer in item.buffers & set(sizes):
            size = item.lanes * to_numpy(buffer.dtype).itemsize
            sizes[buffer] = max(size, sizes[buffer])
    return list(sizes.values())


def build_library(
    language: Language,
    driver: Driver,
    graph: Callable[[str, Function, Plan, Mapping[str, Any]], Callable[..., Any]],
    kind: type[Library],
    module: IRModule,
    target: Target,
    check: bool,
    cache: bool,
) -> Library:
    """The library of a module, whose device is looked for at the first call. `graph` makes the
    callable of a graph function. Nothing is cached.
    """
    if check:
        why = f'target "{target.name}" has no checked accesses'
        hint = 'build(mod, bounds="check") for target "llvm", or target="python"'
        raise BuildError(why, code="E508", hint=hint)
    primitive = functions_of(module)
    program = Program(emit(primitive, language), bool(language.several))
    kernels = {name: Kernel(name, func, program, driver) for name, func in primitive.items()}
    texts = {language.name: lambda: program.emitted.text}
    return library(module, target, kernels, graph, texts, kind)


def missing(target: str, why: str, hint: str) -> BuildError:
    """The error for a target whose kernels cannot run here."""
    why = f'target "{target}" cannot run its kernels: {why}; the text is library.source("{target}")'
    return BuildError(why, code="E502", hint=hint)


def not_compiled(compiler: str, target: str, error: Exception) -> BuildError:
    """The error for kernels that the driver's compiler does not take."""
    lines = [line[:160] for line in str(error).splitlines() if "error" in line.lower()]
    hint = f'compare library.source("{target}")'
    return BuildError(f"{compiler} failed", code="E507", excerpt="\n".join(lines[:6]), hint=hint)
