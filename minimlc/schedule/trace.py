"""The trace of what was done, as data; and how a primitive is called by name."""

import inspect
import json
import math
import types
import typing
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from minimlc.constants import too_big
from minimlc.errors import ScheduleError, did_you_mean, near_misses
from minimlc.literals import Notes
from minimlc.names import UniqueNames
from minimlc.schedule.primitive import PRIMITIVES, RULES, SAMPLES, Decided, Rule, is_put_off
from minimlc.tir.analysis.index_map import IndexMap
from minimlc.tir.nodes import PrimFunc

K = TypeVar("K")
V = TypeVar("V")
VERSION = 1
MOST_TEXT, MOST_STEPS = 4_000_000, 10_000
WIDEST = 2**63


class Trace(tuple):
    """What was done, as data: (primitive, arguments) pairs. Prints as Python that replays it."""

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
        """What was decided by chance, by the decision's name, in order: `Schedule(mod,
        decisions=...)` decides so again.
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
        return {key: _data(each) for key, each in value}
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


def plain(value: Any) -> bool:
    """Whether a value survives JSON: None, truth values, finite numbers, text, lists of those and
    dictionaries of text.
    """
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    if isinstance(value, int):
        return -WIDEST <= value < WIDEST
    return (
        value is None
        or isinstance(value, str)
        or (isinstance(value, float) and math.isfinite(value))
    )


_OWN: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
}


def frozen(value: Any) -> Any:
    """Lists as tuples, dictionaries as notes, and numbers and texts of other kinds, such as numpy's
    or those of an enumeration, as Python's own, all the way down; index maps as text.
    """
    if isinstance(value, dict):
        return Notes((key, frozen(each)) for key, each in value.items())
    if callable(value):
        return str(IndexMap.of(value))
    if isinstance(value, np.generic) and isinstance(value.item(), bool | int | float | str):
        return value.item()
    for kind, own in _OWN.items():
        if isinstance(value, kind) and not isinstance(value, bool):
            return own(value)
    if isinstance(value, Notes):
        return value
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


class BoundCall(NamedTuple):
    """A call of a primitive: its arguments by name, its text, and whether a trace may hold it."""

    arguments: dict[str, Any]
    text: str
    is_plain: bool


_CALLS: OrderedDict[tuple[str, Rule, str], BoundCall] = OrderedDict()
"""Calls that were bound, by the very text of what they were given."""
MOST_CALLS, LONGEST_CALL = 2048, 1024
"""How many of them are remembered, the last ones, and the characters of a text at the most."""


def bound_call(name: str, args: Sequence[Any], options: dict[str, Any]) -> BoundCall:
    """A call of a primitive, bound once for arguments of Python's own types that are the same."""
    text = repr((args, options)) if _is_builtin((*args, options)) else ""
    given = (name, RULES[name], text) if 0 < len(text) < LONGEST_CALL else None
    bound = _CALLS.pop(given, None) if given else None
    if bound is None:
        arguments = bound_arguments(name, args, options)
        is_plain = plain(tuple(arguments.values()))
        bound = BoundCall(arguments, call_text(name, arguments), is_plain)
    if given:
        _keep(_CALLS, given, bound, MOST_CALLS)
    return bound._replace(arguments=dict(bound.arguments))


def _is_builtin(value: Any) -> bool:
    """Whether two values are the same if they read the same: they are of Python's own types."""
    kind = type(value)
    if kind is list or kind is tuple:
        return all(map(_is_builtin, value))
    if kind is dict:
        return _is_builtin((*value, *value.values()))
    if kind is int:
        return -WIDEST <= value < WIDEST  # Python writes no decimals of much wider ones
    return value is None or kind in (str, bool, float)


def bound_arguments(name: str, args: Sequence[Any], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, frozen and of the right types; those left out stay out."""
    try:
        bound = _signature(RULES[name]).bind(
            *frozen(args), **{k: frozen(v) for k, v in options.items()}
        )
    except TypeError as error:
        raise _wrong_call(name, args, options, error) from None
    arguments = dict(bound.arguments)
    check_types(name, arguments)
    return arguments


_DONE: OrderedDict[tuple[PrimFunc, Rule, str, bool], PrimFunc] = OrderedDict()
"""What steps made of functions, proven or not, the last ones: programs of one space begin alike."""
MOST_DONE = 2048


def run(
    func: PrimFunc, name: str, arguments: dict[str, Any], text: str = ""
) -> tuple[PrimFunc, dict[str, Any]]:
    """Apply a primitive to a function: the new function, and the arguments as the trace holds
    them, with what a sampling primitive decided. The same step of the same function gives the
    very same one. `text` is the call's, where it is known.
    """
    rule = RULES[name]
    step = func, rule, text or call_text(name, arguments), is_put_off()
    done = _DONE.pop(step, None)
    if done is None:
        positional, named = split_arguments(name, arguments)
        result = rule(func, *positional, **named)
        if isinstance(result, Decided):
            return result.func, {**arguments, "decision": frozen(result.decision)}
        if not plain(tuple(arguments.values())):
            return result, arguments
        done = result
    _keep(_DONE, step, done, MOST_DONE)
    return done, arguments


def _keep(table: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Enter a value as the last one, and forget the first where there are too many. Other threads
    may do so meanwhile.
    """
    table[key] = value
    if len(table) > most:
        table.popitem(last=False)


def split_arguments(name: str, arguments: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Arguments by name as a call takes them: those of a `*loops` by position."""
    named, positional = dict(arguments), ()
    for key, parameter in parameters(name).items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional = tuple(named.pop(key, ()))
    return positional, named


def check_types(name: str, arguments: dict[str, Any]) -> None:
    """Refuse an argument that is not what its annotation says."""
    for key, value in arguments.items():
        if too_big(value).endswith("bits"):  # long texts and deep lists are refused further on
            raise ScheduleError(f'{name}: "{key}" has {too_big(value)}', code="E118")
        parameter = parameters(name)[key]
        several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        if several and not isinstance(value, tuple):
            raise ScheduleError(f'{name}: "{key}" must be a list, got {value!r}', code="E118")
        for part in value if several else (value,):
            if not _fits(part, parameter.annotation):
                expected = _KINDS.get(parameter.annotation, _annotation_text(parameter.annotation))
                why = f'{name}: "{key}" must be {expected}, got {part!r}'
                form = signature_text(name)
                raise ScheduleError(why, code="E118", example=form, hint=f"help(sch.{name})")


_KINDS = {str: "a name", int: "an integer", bool: "True or False"}


def _annotation_text(annotation: Any) -> str:
    if typing.get_origin(annotation) is Sequence:
        inner = inspect.formatannotation(typing.get_args(annotation)[0]).replace(" | ", " or ")
        return f"a list of {inner}"
    return inspect.formatannotation(annotation).replace("collections.abc.", "")


def _fits(value: Any, annotation: Any) -> bool:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, part) for part in parts)
    if origin is Sequence:
        return isinstance(value, tuple) and all(_fits(part, parts[0]) for part in value)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(annotation, type) or isinstance(value, annotation)


def _wrong_call(
    name: str, args: Sequence[Any], options: dict[str, Any], error: TypeError
) -> ScheduleError:
    known = parameters(name)
    why, hint = f"{name}: {error}", f"help(sch.{name})"
    unknown = [key for key in options if key not in known]
    if unknown:
        why = f'{name} takes no "{unknown[0]}"'
        close = near_misses(unknown[0], known)
        if close:
            why += f'; did you mean "{close[0]}"?'
            fixed = {close[0] if k == unknown[0] else k: v for k, v in options.items()}
            if _is_call(name, args, fixed):
                hint = f"sch.{_typed(name, args, fixed)}"
    return ScheduleError(why, code="E105", example=signature_text(name), hint=hint)


def _is_call(name: str, args: Sequence[Any], options: dict[str, Any]) -> bool:
    try:
        bound_arguments(name, args, options)
    except ScheduleError:
        return False
    return True


def _typed(name: str, args: Sequence[Any], options: dict[str, Any]) -> str:
    parts = [*map(literal, args), *(f"{key}={literal(value)}" for key, value in options.items())]
    return f"{name}({', '.join(parts)})"


def signature_text(name: str) -> str:
    """A primitive's name with its parameters, without types."""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters(name).values()]
    return f"{name}{inspect.Signature(bare)}"


def is_required(parameter: inspect.Parameter) -> bool:
    """Whether a call must give this parameter."""
    several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    return parameter.default is inspect.Parameter.empty and not several


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """A call as one would write it: required arguments by position, options by name."""
    known = parameters(name)
    parts: list[str] = []
    for key, value in arguments.items():
        if known[key].kind is inspect.Parameter.VAR_POSITIONAL:
            parts += map(literal, value)
        elif is_required(known[key]) and known[key].kind is not inspect.Parameter.KEYWORD_ONLY:
            parts.append(literal(value))
        else:
            parts.append(f"{key}={literal(value)}")
    return f"{name}({', '.join(parts)})"


def literal(value: Any) -> str:
    """A plain value as Python text; text in double quotes."""
    if isinstance(value, Notes):
        pairs = ", ".join(f"{literal(key)}: {literal(each)}" for key, each in value)
        return f"{{{pairs}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """A primitive's own parameters: those after the function."""
    return _parameters(RULES[name])


@cache
def _signature(rule: Rule) -> inspect.Signature:
    return inspect.Signature(list(_parameters(rule).values()))


@cache
def _parameters(rule: Rule) -> dict[str, inspect.Parameter]:
    return dict(list(inspect.signature(rule).parameters.items())[1:])
