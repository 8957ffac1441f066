"""The immutable Schedule: every primitive gives a new one, with its trace and history."""

import inspect
import json
import time
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any

import numpy as np

from minimlc.dtypes import is_float, to_numpy
from minimlc.errors import ScheduleError, did_you_mean
from minimlc.module import History, IRModule, Step, not_a_module
from minimlc.node import display, mimebundle
from minimlc.run import interpret
from minimlc.schedule import blocks, inline, loops, memory, reduction
from minimlc.schedule.tree import find_block
from minimlc.tir.access import accesses, loop_extents
from minimlc.tir.nodes import Block, PrimFunc
from minimlc.tir.wellformed import blocks_in, check_prim_func

Primitive = Callable[..., PrimFunc]

PRIMITIVES: dict[str, Primitive] = {
    rule.__name__: rule
    for rule in (
        loops.split,
        loops.fuse,
        loops.reorder,
        loops.parallel,
        loops.vectorize,
        loops.unroll,
        blocks.compute_at,
        blocks.reverse_compute_at,
        inline.compute_inline,
        inline.reverse_compute_inline,
        reduction.decompose_reduction,
        memory.cache_read,
        memory.cache_write,
        loops.annotate,
    )
}
"""Each primitive's rule: PrimFunc -> PrimFunc, by name."""


class Trace(tuple):
    """What was done, as data: (primitive, arguments) pairs. Prints as Python that replays it."""

    def to_json(self) -> str:
        """The trace as JSON text."""
        return json.dumps([[name, arguments] for name, arguments in self])

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """A trace from JSON text; nothing in it is evaluated."""
        try:
            steps = json.loads(text)
            return cls((str(name), _frozen(dict(arguments))) for name, arguments in steps)
        except (ValueError, TypeError) as error:
            raise ScheduleError(f"no trace: {error}", hint="Trace.to_json() writes one") from None

    def __repr__(self) -> str:
        calls = "".join(f"\n       .{_call_text(name, args)}" for name, args in self)
        return f"(sch{calls})" if self else "sch"


def _frozen(value: Any) -> Any:
    """Lists as tuples and numpy's integers as Python's, all the way down; a dict keeps its kind."""
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, dict):
        return {name: _frozen(part) for name, part in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _call_text(name: str, arguments: dict[str, Any]) -> str:
    """A call as one would write it: required arguments by position, options by name."""
    known = _parameters(name)
    parts: list[str] = []
    for key, value in arguments.items():
        if known[key].kind is inspect.Parameter.VAR_POSITIONAL:
            parts += map(_literal, value)
        elif known[key].default is inspect.Parameter.empty:
            parts.append(_literal(value))
        else:
            parts.append(f"{key}={_literal(value)}")
    return f"{name}({', '.join(parts)})"


def _literal(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


@cache
def _parameters(name: str) -> dict[str, inspect.Parameter]:
    """A primitive's own parameters: those after the function."""
    return dict(list(inspect.signature(PRIMITIVES[name]).parameters.items())[1:])


def _method(name: str) -> "Callable[..., Schedule]":
    """A primitive as a method of `Schedule`, with the primitive's documentation."""
    rule = PRIMITIVES[name]

    @wraps(rule)
    def method(self: "Schedule", *args: Any, **options: Any) -> "Schedule":
        return self.apply(name, *args, **options)

    own = list(inspect.signature(rule).parameters.values())[1:]
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = inspect.Signature([first, *own])  # type: ignore[attr-defined]
    return method


class NoSuchPrimitive(ScheduleError, AttributeError):
    """A method that no schedule has."""


class Immutable(ScheduleError, AttributeError):
    """An attempt to change a schedule."""


FIELDS = ("mod", "func_name", "check", "trace", "_steps")
NOT_YET = (
    *("bind", "rfactor", "set_scope", "transform_layout", "transform_block_layout", "blockize"),
    *("tensorize", "reindex", "pad_einsum", "loop_partition", "merge", "rolling_buffer"),
)
"""Primitives of TVM that minimlc will have, but has not yet."""


class Schedule:
    """A module under transformation. Primitives are methods that return a new Schedule.

    `func` names the primitive function to work on; it may be left out where there is only one.
    `check=True` verifies the module after each step and, where that is quick, runs old and new on
    random inputs: a net under the primitives, whose own checks must already be right.
    """

    __slots__ = ("__weakref__", "_steps", "check", "func_name", "mod", "trace")
    mod: IRModule
    func_name: str
    check: bool
    trace: Trace
    _steps: tuple[Step, ...]

    def __init__(self, mod: IRModule | PrimFunc, func: str | None = None, *, check: bool = True):
        whole = IRModule.of({_own_name(mod): mod}) if isinstance(mod, PrimFunc) else mod
        name = _choose(whole, func)
        self._fill(whole, name, check, Trace(), (Step("start", whole, 0.0),))
        check_prim_func(name, self.func)

    def _fill(self, *values: Any) -> "Schedule":
        for name, value in zip(FIELDS, values, strict=True):
            object.__setattr__(self, name, value)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        raise Immutable(
            f'a schedule never changes: "{name}" cannot be set',
            code="E133",
            hint='sch = sch.split("i", [None, 4]) gives a new one',
        )

    @classmethod
    def trusting(cls, mod: IRModule, func: str) -> "Schedule":
        """An unchecked schedule of a function that passes made, and that is verified after them."""
        start = (Step("start", mod, 0.0),)
        return object.__new__(cls)._fill(mod, func, False, Trace(), start)

    @property
    def func(self) -> PrimFunc:
        """The function as it is now."""
        found = self.mod[self.func_name]
        assert isinstance(found, PrimFunc)
        return found

    @property
    def history(self) -> History:
        """Every version of the module on the way here."""
        return History(self._steps)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        hint = did_you_mean(name, [*PRIMITIVES, "blocks", "loops", "producers", "consumers"])
        raise NoSuchPrimitive(f'a schedule has no "{name}"', code="E105", hint=_later(name) or hint)

    def apply(self, name: str, /, *args: Any, **options: Any) -> "Schedule":
        """Apply the primitive called `name`."""
        rule = _primitive(name)
        try:
            plain = _frozen(args), _frozen(options)
            bound = inspect.signature(rule).bind(self.func, *plain[0], **plain[1])
        except TypeError as error:
            raise _wrong_call(name, options, error) from None
        arguments = dict(list(bound.arguments.items())[1:])
        start = time.perf_counter()
        after = rule(*bound.args, **bound.kwargs)
        seconds = time.perf_counter() - start
        mod = self.mod.with_function(self.func_name, after)
        label = _call_text(name, arguments)
        trace = Trace((*self.trace, (name, _frozen(arguments))))
        steps = (*self._steps, Step(label, mod, seconds))
        result = object.__new__(Schedule)._fill(mod, self.func_name, self.check, trace, steps)
        if self.check:
            _check_step(self._steps[0].mod, result, label)
        return result

    split = _method("split")
    fuse = _method("fuse")
    reorder = _method("reorder")
    parallel = _method("parallel")
    vectorize = _method("vectorize")
    unroll = _method("unroll")
    compute_at = _method("compute_at")
    reverse_compute_at = _method("reverse_compute_at")
    compute_inline = _method("compute_inline")
    reverse_compute_inline = _method("reverse_compute_inline")
    decompose_reduction = _method("decompose_reduction")
    cache_read = _method("cache_read")
    cache_write = _method("cache_write")
    annotate = _method("annotate")

    def blocks(self) -> list[str]:
        """The names of the blocks, outer before inner, in program order."""
        return [block.name for block in blocks_in(self.func.body)]

    def loops(self, block: str) -> list[str]:
        """The names of the loops around a block, outer to inner."""
        return [loop.var.name for loop in find_block(self.func, block).loops]

    def producers(self, block: str) -> list[str]:
        """The blocks that write what `block` reads."""
        return self._neighbours(block, reads=True)

    def consumers(self, block: str) -> list[str]:
        """The blocks that read what `block` writes."""
        return self._neighbours(block, reads=False)

    def _neighbours(self, name: str, reads: bool) -> list[str]:
        block = find_block(self.func, name).stmt
        items = accesses(self.func)
        mine = {i.buffer for i in items if i.block is block and i.is_write is not reads}
        found = dict.fromkeys(
            i.block.name
            for i in items
            if isinstance(i.block, Block)
            and i.block is not block
            and i.is_write is reads
            and i.buffer in mine
        )
        return list(found)

    @classmethod
    def replay(
        cls,
        mod: IRModule | PrimFunc,
        trace: Iterable,
        func: str | None = None,
        *,
        check: bool = True,
    ) -> "Schedule":
        """Do a trace's steps on `mod`. The trace may also be its JSON text."""
        steps = Trace.from_json(trace) if isinstance(trace, str) else trace
        schedule = cls(mod, func, check=check)
        for name, arguments in steps:
            schedule = schedule._replay_step(name, dict(arguments))
        return schedule

    def _replay_step(self, name: str, arguments: dict[str, Any]) -> "Schedule":
        _primitive(name)
        positional: list[Any] = []
        for key, parameter in _parameters(name).items():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional = list(arguments.pop(key, ()))
        return self.apply(name, *positional, **arguments)

    def show(self) -> None:
        """Display every step, before and after, in a notebook; print the module elsewhere."""
        display(self)

    def __repr__(self) -> str:
        return self.mod.script()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        return mimebundle(self)


def _own_name(func: PrimFunc) -> str:
    return str(dict(func.attrs).get("global_symbol", "main"))


def _choose(mod: IRModule, name: str | None) -> str:
    if not isinstance(mod, IRModule):
        raise not_a_module(mod, "Schedule")
    names = [key for key, func in mod.entries if isinstance(func, PrimFunc)]
    if name is not None:
        mod[name]
        if name not in names:
            raise ScheduleError(
                f'"{name}" is no primitive function', hint=did_you_mean(name, names)
            )
        return name
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        raise ScheduleError(f"say which primitive function to schedule: func=...; found: {listed}")
    return names[0]


def _later(name: str) -> str:
    built = ", ".join(PRIMITIVES)
    return f'"{name}" is not built yet; there are {built}' if name in NOT_YET else ""


def _primitive(name: str) -> Primitive:
    if name not in PRIMITIVES:
        hint = _later(name) or did_you_mean(str(name), PRIMITIVES)
        raise ScheduleError(f'no primitive "{name}"', code="E105", hint=hint)
    return PRIMITIVES[name]


def _wrong_call(name: str, options: dict[str, Any], error: TypeError) -> ScheduleError:
    known = _parameters(name)
    unknown = [key for key in options if key not in known]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in known.values()]
    takes = str(inspect.Signature(bare))
    why = f"{name}: {error}"
    hint = f"{name}{takes}"
    if unknown:
        why = f'{name} takes no "{unknown[0]}"'
        hint = f"{did_you_mean(unknown[0], known)} {hint}"
    return ScheduleError(why, code="E105", hint=hint)


QUICK = 20_000
"""Old and new are run and compared where each makes at most so many accesses."""


def _check_step(original: IRModule, schedule: Schedule, label: str) -> None:
    """The net: a primitive that lets something wrong through is our bug, and is reported as one."""
    name = schedule.func_name
    try:
        check_prim_func(name, schedule.func)
    except Exception as error:
        raise _our_bug(schedule, label, str(error)) from error
    before = original[name]
    assert isinstance(before, PrimFunc)
    if max(_work(before), _work(schedule.func)) > QUICK:
        return
    expected, got = (_outputs(mod, name) for mod in (original, schedule.mod))
    for buffer, a, b in zip(before.params, expected, got, strict=True):
        if not _alike(a, b):
            raise _our_bug(schedule, label, f"{buffer.name} comes out different")


def _our_bug(schedule: Schedule, label: str, why: str) -> ScheduleError:
    return ScheduleError(
        f"{label} broke the program: {why}",
        code="E199",
        hint=f"this is a bug in minimlc; please report this trace:\n{schedule.trace.to_json()}",
    )


def _work(func: PrimFunc) -> int:
    total = 0
    for item in accesses(func):
        runs = 1
        for extent in loop_extents(item.loops).values():
            runs *= extent
        total += runs
    return total


def _outputs(mod: IRModule, name: str) -> list[np.ndarray]:
    func = mod[name]
    assert isinstance(func, PrimFunc)
    random = np.random.default_rng(0)
    arrays = [_random(random, b.shape, b.dtype) for b in func.params]
    interpret(mod, name, *arrays)
    return arrays


def _random(random: "np.random.Generator", shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if is_float(dtype):
        return random.standard_normal(shape).astype(to_numpy(dtype))
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(0, 7, shape).astype(to_numpy(dtype))


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal; floating point up to the rounding of sums in another order."""
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    near = 1e-4 if a.dtype.itemsize >= 4 else 3e-2
    first, second = a.astype(np.float64), b.astype(np.float64)
    return bool(np.allclose(first, second, rtol=near, atol=near, equal_nan=True))


def on_module(name: str) -> Callable[..., IRModule]:
    """A primitive as a function of a module: `primitive(mod, ..., func="mm") -> IRModule`."""
    rule = PRIMITIVES[name]

    @wraps(rule)
    def primitive(mod: IRModule, *args: Any, func: str | None = None, **options: Any) -> IRModule:
        return Schedule(mod, func, check=False).apply(name, *args, **options).mod

    own = list(inspect.signature(rule).parameters.values())[1:]
    first = inspect.Parameter("mod", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=IRModule)
    last = inspect.Parameter("func", inspect.Parameter.KEYWORD_ONLY, default=None)
    primitive.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [first, *own, last], return_annotation=IRModule
    )
    return primitive
