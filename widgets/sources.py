"""Contents of the views of a value: scripts, the steps of a history, the samples of a timing."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median, quantiles
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from minimlc_widgets.lexer import Tokens, script_tokens

from minimlc.graphs.ir.nodes import Call, Function
from minimlc.loops import printer
from minimlc.loops.values.errors import CompileError, shown
from minimlc.loops.values.module import History, IRModule
from minimlc.loops.values.node import Node, walk


class Shown(NamedTuple):
    """One step of a history: what was done, the script after it, the seconds it took, and how
    often the module's graph functions call each operator, in the order of their names.
    """

    name: str
    script: str
    seconds: float
    operators: Mapping[str, int] = MappingProxyType({})


class Samples(NamedTuple):
    """Measured times in seconds; `machine` describes the machine."""

    name: str
    samples: tuple[float, ...]
    machine: str = ""

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def spread(self) -> float:
        """The middle half's width over the median."""
        if len(self.samples) < 2 or not self.median:
            return 0.0
        low, _, high = quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / self.median


@runtime_checkable
class Scheduled(Protocol):
    """A schedule, or anything else that keeps the versions on its way."""

    history: History


@runtime_checkable
class Timed(Protocol):
    """A timing: `samples` are seconds."""

    name: str
    samples: Sequence[float]
    machine: str


@runtime_checkable
class Profiled(Protocol):
    """A profile of an executable: its kernels with their seconds and bytes, in order; `call` are
    the seconds of a whole call.
    """

    kernels: Sequence[Any]
    call: float
    machine: str


@runtime_checkable
class Planned(Protocol):
    """A memory plan: values with their steps and offsets, the size of all, and what is alive."""

    name: str
    values: Sequence[Any]
    planned: int
    live: Sequence[int]


@runtime_checkable
class Tried(Protocol):
    """A trial of a search: its program, the score expected of it and its result, in times of a
    reference; infinite for a failure.
    """

    number: int
    program: Any
    candidate: Any
    result: Any
    expected: float

    @property
    def score(self) -> float: ...


@runtime_checkable
class Searched(Protocol):
    """The outcome of a search: its trials, the default first, why it stopped, results measured
    `again` at its end, libraries' routines by name, and the trial that it chose, so many times as
    fast as the default.
    """

    records: Sequence[Tried]
    stopped: str
    again: Mapping[Any, Sequence[Any]]

    @property
    def winner(self) -> Tried: ...

    @property
    def speedup(self) -> float: ...

    def score(self, trial: Any) -> float: ...


def script_of(value: Any) -> str:
    """The text of a value: its script, large constants without their bytes.

    Text stands for itself; so does a node that describes itself in words of its own.
    """
    if isinstance(value, str):
        text = value
    elif not isinstance(value, Node):
        text = value.script()
    elif type(value).__repr__ is Node.__repr__:
        text = printer.script(value, full=False)
    else:
        text = repr(value)
    return text.rstrip("\n")


def steps_of(value: Any) -> tuple[Shown, ...]:
    """The steps of a history, of a schedule, or of (name, module) or (name, module, seconds)."""
    if isinstance(value, Scheduled):
        value = value.history
    steps = value.steps if isinstance(value, History) else value
    if not isinstance(steps, Iterable) or isinstance(steps, str | IRModule):
        why = f"steps are a history, a schedule, or (name, module) pairs, got {shown(steps)}"
        raise CompileError(
            why, hint="history = mlc.History(); mlc.run_passes(mod, passes, observe=history)"
        )
    return tuple(
        Shown(s[0], script_of(s[1]), s[2] if len(s) > 2 else 0.0, operators_of(s[1])) for s in steps
    )


def operators_of(value: Any) -> Mapping[str, int]:
    """How often each operator is called in a module's graph functions; kernels are "call_tir"."""
    functions = [func for _, func in value.entries] if isinstance(value, IRModule) else [value]
    calls = (node for func in functions if isinstance(func, Function) for node in walk(func))
    counts = Counter(node.op for node in calls if isinstance(node, Call))
    return dict(sorted(counts.items()))


def timings_of(value: Any) -> tuple[Samples, ...]:
    """Timings in order: one, several, a mapping by name, or (name, samples) pairs."""
    if isinstance(value, Timed):
        return (_samples(value.name, value),)
    if isinstance(value, Mapping):
        return tuple(_samples(str(name), item) for name, item in value.items())
    items: Iterable[Any] = value
    return tuple(
        _samples(item.name, item) if isinstance(item, Timed) else _samples(*item) for item in items
    )


def _samples(name: str, item: Any) -> Samples:
    seconds = item.samples if isinstance(item, Timed) else item
    if not len(seconds):
        raise CompileError(f'the timing "{name}" has no samples')
    machine = item.machine if isinstance(item, Timed) else ""
    return Samples(name, tuple(float(s) for s in seconds), str(machine))


class Lines:
    """Lines by number, each kept once, so that thirty versions of a module stay small."""

    def __init__(self) -> None:
        self.tokens: list[Tokens] = []
        self.numbers: dict[Tokens, int] = {}

    def add(self, script: str) -> list[int]:
        """The numbers of a script's lines."""
        return [self.number(line) for line in script_tokens(script)]

    def number(self, line: Tokens) -> int:
        if line not in self.numbers:
            self.numbers[line] = len(self.tokens)
            self.tokens.append(line)
        return self.numbers[line]
