"""The immutable Schedule: every primitive gives a new one, with its trace and history."""

import inspect
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from types import FrameType
from typing import Any, ClassVar, NoReturn, Self
from weakref import WeakKeyDictionary

from minimlc.loops.ir.nodes import Block, PrimFunc, SymbolicFunc
from minimlc.loops.ir.walks import blocks_in
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.wellformed import check_prim_func
from minimlc.loops.schedule.calls import bound_call, call_text, parameters, plain, split_arguments
from minimlc.loops.schedule.nets import UNCHECKED, VERIFIED, Net, Verdict
from minimlc.loops.schedule.primitive import PRIMITIVES, RULES, Chance
from minimlc.loops.schedule.trace import Trace, no_replay, run
from minimlc.loops.schedule.tree import (
    NoSuchName,
    Place,
    find_block,
    find_stmt,
    inner_stmts,
    names_of,
)
from minimlc.loops.values.display import display, mimebundle
from minimlc.loops.values.errors import (
    CompileError,
    ScheduleError,
    TooLarge,
    check_flags,
    did_you_mean,
    near_misses,
)
from minimlc.loops.values.module import History, IRModule, Step, not_a_module
from minimlc.loops.values.parts import Hook


class NoSuchPrimitive(ScheduleError, AttributeError):
    """A method that no schedule has."""


class Immutable(ScheduleError, AttributeError):
    """An attempt to change a schedule."""


class NotSeveral(ScheduleError, TypeError):
    """An attempt to take a schedule apart."""


NOTICES = Hook[Callable[[str, str, FrameType], None]]("notices")
"""Observers of a step: its method, the call as text, and the frame of the call."""

FIELDS = ("mod", "func_name", "check", "trace", "_steps", "_verdict", "_net", "chance", "proves")


class Schedule:
    """A module under transformation. Primitives are methods that return a new Schedule.

    `func` names the primitive function to work on; it may be left out where there is only one.
    `check=True` verifies the module after each step and runs old and new on random inputs, at
    smaller sizes where the program is large: a net under the primitives, whose own checks must
    already be right. `checked` is how the last step was checked.

    `key` (0 <= key < 2**64) is what sampling draws by, except for the `decisions` given by name,
    such as another trace's; without both, each decision is its first choice.
    """

    __slots__ = ("__weakref__", *FIELDS)
    usual_net: ClassVar[Net] = Net()
    mod: IRModule
    func_name: str
    check: bool
    trace: Trace
    _steps: tuple[Step, ...]
    _verdict: Verdict
    _net: Net
    chance: Chance | None
    proves: bool
    """Whether each step proves its claims; else the caller does, by `finish.proven`."""

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        func: str | None = None,
        *,
        check: bool = True,
        net: Net | None = None,
        key: int | None = None,
        decisions: Mapping[str, Any] | None = None,
    ):
        if isinstance(mod, PrimFunc | SymbolicFunc):
            mod = IRModule.from_expr(mod)
        name = _choose(mod, func)
        check_flags(ScheduleError, "E118", "mlc.Schedule(mod", check=check)
        steps = (Step("start", mod, 0.0),)
        verdict = VERIFIED if check else UNCHECKED
        chance = None if key is None is decisions else _chance(key, decisions or {})
        self._fill(mod, name, check, Trace(), steps, verdict, net or self.usual_net, chance, True)
        check_prim_func(name, self.func)

    def _fill(self, *values: Any) -> Self:
        for name, value in zip(FIELDS, values, strict=True):
            object.__setattr__(self, name, value)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        raise Immutable(
            f'a schedule never changes: "{name}" cannot be set',
            code="E133",
            hint='sch = sch.split("i", [None, 4]) gives a new one',
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, known: Any) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), *[getattr(self, name) for name in FIELDS])

    @classmethod
    def trusting(cls, mod: IRModule, func: str, chance: Chance | None = None) -> Self:
        """An unchecked schedule of a function that passes made, and that is verified after them."""
        start = (Step("start", mod, 0.0),)
        values = (mod, func, False, Trace(), start, UNCHECKED, cls.usual_net, chance, True)
        return object.__new__(cls)._fill(*values)

    @property
    def func(self) -> PrimFunc:
        """The function as it is now."""
        func = self.mod[self.func_name]
        assert isinstance(func, PrimFunc)
        return func

    @property
    def history(self) -> History:
        """Every version of the module on the way here."""
        return History(self._steps)

    @property
    def checked(self) -> str:
        """How the last step was checked: "compared", "compared at" smaller sizes, "verified only"
        or "not checked".
        """
        return self._verdict.checked

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        known = [*RULES, "blocks", "loops", "producers", "consumers"]
        why, hint = _near(f'a schedule has no "{name}"', name, known)
        raise NoSuchPrimitive(why, code="E105", hint=hint)

    def __iter__(self) -> NoReturn:
        done = call_text(*self.trace[-1]) if self.trace else 'split("i", [None, 4])'
        before = self._steps[-2].mod if self.trace else self.mod
        new = _new_names(before[self.func_name], self.func)
        raise NotSeveral(
            f"a step gives one schedule, not its new loops{f': {new}' if new else ''}",
            code="E133",
            hint=f"sch = sch.{done}  # then refer to loops and blocks by name",
        )

    def apply(self, name: str, /, *args: Any, **options: Any) -> Self:
        """Apply the primitive called `name`."""
        new = self._stepped(name, args, options)
        for notice in NOTICES:
            notice("apply", new._steps[-1].name, sys._getframe(1))
        return new

    def _stepped(self, name: str, args: Sequence[Any], options: dict[str, Any]) -> Self:
        if name not in RULES:
            why, hint = _near(f'no primitive "{name}"', str(name), PRIMITIVES)
            raise ScheduleError(why, code="E105", hint=hint)
        arguments, label, is_plain = bound_call(name, args, options)
        start = time.perf_counter()
        try:
            after, arguments = run(self.func, name, arguments, label, self.proves)
            trace = Trace((*self.trace, (name, arguments)))
            if not (plain(tuple(arguments.values())) if "decision" in arguments else is_plain):
                text = call_text(name, arguments)
                raise ScheduleError(f"{text}: a trace holds plain, finite values", code="E118")
        except NoSuchName as error:
            raise _explained(self, error, name, arguments) from None
        except TooLarge as error:
            why, hint = f"{name}: {error.why}", "fewer loops in one another, shorter expressions"
            raise ScheduleError(why, code="E118", hint=hint) from None
        except CompileError as error:
            error.remedy = partial(self._net.remedy, self.func, name, arguments)
            raise
        except Exception as error:
            why = f"failed by itself: {type(error).__name__}: {error}"
            tried = Trace((*self.trace, (name, arguments)))
            raise self._net.fault(self._steps[0].mod, self.func_name, tried, label, why) from error
        seconds = time.perf_counter() - start
        mod = self.mod.with_function(self.func_name, after)
        steps = (*self._steps, Step(label, mod, seconds))
        verdict = self._verdict
        if self.check:
            first = self._steps[0].mod
            verdict = self._net.check(first, after, self.func_name, label, trace, verdict)
        _TAKEN.setdefault(self, deque(maxlen=MOST_TAKEN)).append((name, arguments))
        kept = (self._net, self.chance, self.proves)
        new = object.__new__(type(self))
        return new._fill(mod, self.func_name, self.check, trace, steps, verdict, *kept)

    def blocks(self) -> list[str]:
        """The names of the blocks, outer before inner, in program order."""
        return [block.name for block in blocks_in(self.func.body)]

    def loops(self, block: str) -> list[str]:
        """The names of the loops around a block, outer to inner."""
        return [loop.var.name for loop in self._block("loops", block).loops]

    def _block(self, question: str, name: str) -> Place[Block]:
        try:
            return find_block(self.func, name)
        except NoSuchName as error:
            raise _explained(self, error, question, {"block": name}) from None

    def producers(self, block: str) -> list[str]:
        """The blocks that write what `block` reads."""
        return _neighbours(self, block, reads=True)

    def consumers(self, block: str) -> list[str]:
        """The blocks that read what `block` writes."""
        return _neighbours(self, block, reads=False)

    def output_blocks(self) -> list[str]:
        """The blocks that write a parameter of the function."""
        outside = set(self.func.params)
        written = (i.block for i in accesses(self.func) if i.is_write and i.buffer in outside)
        return list(dict.fromkeys(block.name for block in written if block is not None))

    def child_blocks(self, name: str) -> list[str]:
        """The blocks directly inside a loop or a block: not those inside another block there."""
        parts = inner_stmts(find_stmt(self.func, name))
        inside = [block for part in parts for block in blocks_in(part)]
        deeper = {inner.name for block in inside for inner in blocks_in(block)[1:]}
        return [block.name for block in inside if block.name not in deeper]

    @classmethod
    def replay(
        cls,
        mod: IRModule | PrimFunc,
        trace: Iterable | None = None,
        func: str | None = None,
        *,
        check: bool = True,
    ) -> "Schedule":
        """Do a trace's steps on `mod`. The trace may also be its JSON text."""
        if not isinstance(trace, Iterable) or isinstance(trace, Schedule):
            raise no_replay(trace)
        steps = Trace.from_json(trace) if isinstance(trace, str) else Trace.of(tuple(trace))
        schedule = cls(mod, func, check=check)
        for name, arguments in steps:
            positional, named = split_arguments(name, arguments)
            schedule = schedule.apply(name, *positional, **named)
        return schedule

    def show(self) -> None:
        """Display every step, before and after, in a notebook; print the module elsewhere."""
        display(self)

    def __repr__(self) -> str:
        return self.mod.script()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        return mimebundle(self)


def _chance(key: int | None, decisions: Mapping[str, Any]) -> Chance:
    """A key and decisions as a user gives them."""
    if key is not None and (type(key) is not int or not 0 <= key < 2**64):
        raise ScheduleError(f"a key is an integer of 64 bits, got {key!r}", code="E118")
    if not isinstance(decisions, Mapping):
        raise ScheduleError(f"decisions are values by name, got {decisions!r}", code="E118")
    return Chance(key, decisions)


def _symbolic(name: str, func: Any) -> ScheduleError:
    """The error for a function without numbers to reason about."""
    sizes = [size.name for size in func.sizes]
    why = f'"{name}" has sizes that are known only at the call: {", ".join(sizes)}'
    values = ", ".join(f"{size}=128" for size in sizes)
    hint = f'mlc.Schedule(mlc.specialize(mod, "{name}", {values}))'
    return ScheduleError(why, code="E136", hint=hint)


MOST_TAKEN = 8
_TAKEN: WeakKeyDictionary[Schedule, deque[tuple[str, dict[str, Any]]]] = WeakKeyDictionary()
"""The last steps from each schedule: users who go on with an old one may use their names."""


def _explained(
    schedule: Schedule, error: NoSuchName, question: str, arguments: dict[str, Any]
) -> ScheduleError:
    """The error for a name that is not there; it may be in the result of a step taken before."""
    for name, values in reversed(_TAKEN.get(schedule, ())):
        after, _ = run(schedule.func, name, values, proves=schedule.proves)
        if error.name in names_of(after, error.kind):
            call = call_text(name, values)
            why = f"{error.why} before sch.{call}, whose result is another schedule"
            return ScheduleError(why, code=error.code, hint=f"sch = sch.{call}")
    steps, name = schedule._steps, schedule.func_name
    return schedule._net.explained(error, steps, name, question, arguments)


def _neighbours(schedule: Schedule, name: str, reads: bool) -> list[str]:
    block = schedule._block("producers" if reads else "consumers", name).stmt
    items = accesses(schedule.func)
    mine = {i.buffer for i in items if i.block is block and i.is_write is not reads}
    others = (i for i in items if i.buffer in mine and i.is_write is reads)
    blocks = (item.block for item in others if item.block is not block)
    return list(dict.fromkeys(item.name for item in blocks if item is not None))


def _new_names(before: Any, after: PrimFunc) -> str:
    """The loops that a step made, in a sentence."""
    old = names_of(before, "loop")
    return ", ".join(name for name in names_of(after, "loop") if name not in old)


def _restored(kind: type[Schedule], *values: Any) -> Schedule:
    """A schedule from its fields, as `pickle` keeps it."""
    return object.__new__(kind)._fill(*values)


def _choose(mod: IRModule, name: str | None) -> str:
    if not isinstance(mod, IRModule):
        raise not_a_module(mod, "Schedule")
    names = [key for key, func in mod.entries if isinstance(func, PrimFunc)]
    if name is not None:
        if isinstance(mod[name], SymbolicFunc):
            raise _symbolic(name, mod[name])
        if name not in names:
            raise ScheduleError(
                f'"{name}" is not a primitive function', code="E105", hint=did_you_mean(name, names)
            )
        return name
    symbolic = [key for key, func in mod.entries if isinstance(func, SymbolicFunc)]
    if not names and len(symbolic) == 1:
        raise _symbolic(symbolic[0], mod[symbolic[0]])
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        why = f"say which primitive function to schedule: func=...; found: {listed}"
        raise ScheduleError(why, code="E105")
    return names[0]


def _near(why: str, name: str, known: Iterable[str]) -> tuple[str, str]:
    """Why there is nothing of that name, with a name that was meant; and what to try."""
    close = near_misses(name, known)
    if not close:
        return why, "help(sch)"
    return f'{why}; did you mean "{close[0]}"?', f"sch.{close[0]}"


def method(name: str) -> "Callable[..., Schedule]":
    """A primitive as a method of `Schedule`, with the primitive's documentation."""

    notices = tuple(NOTICES)  # once: this is on the way of every step

    @wraps(PRIMITIVES[name])
    def method(self: "Schedule", *args: Any, **options: Any) -> "Schedule":
        new = self._stepped(name, args, options)
        for notice in notices:
            notice(name, new._steps[-1].name, sys._getframe(1))
        return new

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [first, *parameters(name).values()]
    )
    return method


def on_module(name: str) -> Callable[..., IRModule]:
    """A primitive as a function of a module: `primitive(mod, ..., func="mm") -> IRModule`."""

    @wraps(PRIMITIVES[name])
    def primitive(mod: IRModule, *args: Any, func: str | None = None, **options: Any) -> IRModule:
        return Schedule(mod, func, check=False).apply(name, *args, **options).mod

    first = inspect.Parameter("mod", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=IRModule)
    last = inspect.Parameter("func", inspect.Parameter.KEYWORD_ONLY, default=None)
    primitive.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [first, *parameters(name).values(), last], return_annotation=IRModule
    )
    return primitive
