"""The trace of a schedule's steps, as data; and each step's result, remembered."""

import json
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.schedule.calls import (
    call_text,
    check_types,
    frozen,
    is_required,
    keep,
    parameters,
    plain,
    signature_text,
    split_arguments,
)
from minimlc.loops.schedule.primitive import (
    PRIMITIVES,
    RULES,
    SAMPLES,
    Decided,
    Rule,
    settled,
    unproven,
)
from minimlc.loops.values.errors import ScheduleError, did_you_mean
from minimlc.loops.values.literals import Notes
from minimlc.loops.values.names import UniqueNames

VERSION = 1
MOST_TEXT, MOST_STEPS = 4_000_000, 10_000


class Trace(tuple):
    """The steps done, as data: (primitive, arguments) pairs. Prints as Python that replays it."""

    def to_json(self) -> str:
        """The trace as JSON text: `{"version": 1, "steps": [[primitive, {argument: value}]]}`."""
        steps = [[name, _data(Notes(arguments.items()))] for name, arguments in self]
        return json.dumps({"version": VERSION, "steps": steps}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """A trace from JSON text, every step checked; nothing in it is evaluated."""
        if not isinstance(text, str):
            raise no_trace(f"expected JSON text, got {type(text).__name__}")
        if len(text) > MOST_TEXT:
            raise no_trace(f"expected text of at most {MOST_TEXT} characters, got {len(text)}")
        try:
            data = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
        except RecursionError:
            raise no_trace("it nests too deeply") from None
        except ValueError as error:
            raise no_trace(str(error)) from None
        if not isinstance(data, dict) or set(data) != {"version", "steps"}:
            raise no_trace('expected {"version": ..., "steps": [...]}')
        if data["version"] != VERSION or type(data["version"]) is not int:
            raise no_trace(f"version {data['version']!r}, this minimlc reads {VERSION}")
        return cls.of(data["steps"])

    @classmethod
    def of(cls, steps: Any) -> "Trace":
        """A trace from (primitive, arguments) pairs, every step checked."""
        if not isinstance(steps, list | tuple):
            raise no_trace(f"the steps are a list, got {type(steps).__name__}")
        if len(steps) > MOST_STEPS:
            raise no_trace(f"at most {MOST_STEPS} steps, got {len(steps)}")
        try:
            return cls(_step(number, step) for number, step in enumerate(steps, 1))
        except RecursionError:
            raise no_trace("an argument nests too deeply") from None

    @property
    def decisions(self) -> dict[str, Any]:
        """The choices made by chance, by the decision's name, in order: `Schedule(mod,
        decisions=...)` makes them again.
        """
        named: dict[str, Any] = {}
        for name, arguments in self:
            if "decision" in arguments:
                named[decision_name(named, name, arguments)] = arguments["decision"]
        return named

    def __repr__(self) -> str:
        calls = "".join(f"\n       .{_as_method(name, args)}" for name, args in self)
        return f"(sch{calls})" if self else "sch"


def decision_name(before: Collection[str], name: str, arguments: dict[str, Any]) -> str:
    """A decision's name: the one it got, else its loop's or block's, else its primitive's; with a
    number where one `before` has it.
    """
    words = (str(arguments[key]) for key in ("name", "loop", "block") if arguments.get(key))
    return UniqueNames(before, reserved=(), spell=str).take(next(words, name))


def _data(value: Any) -> Any:
    """A step's value as JSON has it."""
    if isinstance(value, Notes):
        return {key: _data(part) for key, part in value}
    return [*map(_data, value)] if isinstance(value, tuple) else value


def no_trace(why: str) -> ScheduleError:
    """The error for something that is not a trace."""
    return ScheduleError(f"no trace: {why}", code="E160", hint="sch.trace.to_json()")


def no_replay(trace: Any) -> ScheduleError:
    """The error for a replay that got something else than a module and a trace."""
    got = "no trace" if trace is None else type(trace).__name__
    why = f"replay takes a module and a trace, got {got}"
    return ScheduleError(why, code="E160", hint="mlc.Schedule.replay(sch.mod, trace)")


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number here")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name is given twice")
    return dict(pairs)


def _step(number: int, step: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(step, list | tuple) or len(step) != 2 or not isinstance(step[1], dict):
        raise no_trace(f"step {number} is no [primitive, {{argument: value}}] pair")
    name, arguments = step
    if not isinstance(name, str) or name not in RULES:
        hint = did_you_mean(str(name), PRIMITIVES)
        raise ScheduleError(f"step {number}: no primitive {name!r}", code="E105", hint=hint)
    known = parameters(name)
    for key, value in arguments.items():
        if key not in known:
            hint = did_you_mean(str(key), known)
            why = f"step {number}: {name} takes no argument {key!r}"
            raise ScheduleError(why, code="E105", hint=hint)
        if not plain(value):
            raise no_trace(f'step {number}: the "{key}" of {name} is not a plain value')
    for key, parameter in known.items():
        if is_required(parameter) and key not in arguments:
            why = f'step {number}: {name} needs "{key}"'
            raise ScheduleError(why, code="E105", example=signature_text(name))
    values = {key: frozen(value) for key, value in arguments.items()}
    check_types(name, values)
    return name, values


def _as_method(name: str, arguments: dict[str, Any]) -> str:
    """A step as a call that gives a schedule: a sampling method gives its decision, too."""
    text = call_text(name, arguments)
    return f'apply("{name}", {text.removeprefix(name + "(")}' if name in SAMPLES else text


_DONE: OrderedDict[tuple[PrimFunc, Rule, str, bool], PrimFunc] = OrderedDict()
"""Results of the last steps, proven or not: programs of one space begin alike."""
MOST_DONE = 2048


def run(
    func: PrimFunc, name: str, arguments: dict[str, Any], text: str = "", proves: bool = True
) -> tuple[PrimFunc, dict[str, Any]]:
    """Apply a primitive to a function: the new function, and the arguments as the trace holds
    them, with the decision of a sampling primitive. The same step of the same function gives the
    very same one. `text` is the call's, where it is known; unless it `proves`, proving the claims
    is left to the caller.
    """
    rule = unproven(RULES[name])
    step = func, rule, text or call_text(name, arguments), proves
    done = _DONE.pop(step, None)
    if done is None:
        positional, named = split_arguments(name, arguments)
        result = rule(func, *positional, **named)
        result = settled(result) if proves else result
        if isinstance(result, Decided):
            return result.func, {**arguments, "decision": frozen(result.decision)}
        if not plain(tuple(arguments.values())):
            return result, arguments
        done = result
    keep(_DONE, step, done, MOST_DONE)
    return done, arguments
