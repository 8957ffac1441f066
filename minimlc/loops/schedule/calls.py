"""Calls of primitives by name: their arguments, frozen and checked, and the call as text."""

import inspect
import json
import math
import types
import typing
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from minimlc.loops.ir.nodes import Const
from minimlc.loops.schedule.primitive import RULES, Rule
from minimlc.loops.values.constants import too_big
from minimlc.loops.values.errors import ScheduleError, near_misses
from minimlc.loops.values.literals import Notes
from minimlc.loops.values.parts import Hook

K = TypeVar("K")
V = TypeVar("V")
WIDEST = 2**63


def plain(value: Any) -> bool:
    """Whether a value survives JSON: None, truth values, finite numbers, text, lists of those and
    dictionaries of text.
    """
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(part) for key, part in value.items())
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


MAPS = Hook[Any]("index maps")
"""The reader of a function of indices as a map."""


def frozen(value: Any) -> Any:
    """A value with lists as tuples, dictionaries as notes, numbers and texts of other kinds (as
    numpy's, constants of programs or of an enumeration) as Python's, all the way down; index maps
    as text.
    """
    if isinstance(value, dict):
        return Notes((key, frozen(part)) for key, part in value.items())
    if callable(value) and (index_map := MAPS.first):
        return str(index_map.of(value))
    if isinstance(value, np.generic) and isinstance(value.item(), bool | int | float | str):
        return value.item()
    if isinstance(value, Const):
        return value.value
    for kind, builtin in _OWN.items():
        if isinstance(value, kind) and not isinstance(value, bool):
            return builtin(value)
    if isinstance(value, Notes):
        return value
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


class BoundCall(NamedTuple):
    """A call of a primitive: its arguments by name, its text, and whether a trace may hold it."""

    arguments: dict[str, Any]
    text: str
    is_plain: bool


_CALLS: OrderedDict[tuple[str, Rule, str], BoundCall] = OrderedDict()
"""Calls that were bound, by the text of their arguments."""
MOST_CALLS, LONGEST_CALL = 2048, 1024
"""The most calls that are remembered, the last ones, and the most characters of a text."""


def bound_call(name: str, args: Sequence[Any], options: dict[str, Any]) -> BoundCall:
    """A call of a primitive, bound once for equal arguments of Python's built-in types."""
    text = repr((args, options)) if _is_builtin((*args, options)) else ""
    given = (name, RULES[name], text) if 0 < len(text) < LONGEST_CALL else None
    bound = _CALLS.pop(given, None) if given else None
    if bound is None:
        arguments = bound_arguments(name, args, options)
        is_plain = plain(tuple(arguments.values()))
        bound = BoundCall(arguments, call_text(name, arguments), is_plain)
    if given:
        keep(_CALLS, given, bound, MOST_CALLS)
    return bound._replace(arguments=dict(bound.arguments))


def _is_builtin(value: Any) -> bool:
    """Whether values with the same text are equal: they are of Python's built-in types."""
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


def keep(table: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Enter a value as the last one, and forget the first where there are too many. Other threads
    may do so meanwhile.
    """
    table[key] = value
    if len(table) > most:
        table.popitem(last=False)


def split_arguments(name: str, arguments: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Arguments by name as a call takes them: a `*loops` by position."""
    named, positional = dict(arguments), ()
    for key, parameter in parameters(name).items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional = tuple(named.pop(key, ()))
    return positional, named


def check_types(name: str, arguments: dict[str, Any]) -> None:
    """Refuse an argument that does not fit its annotation."""
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
        pairs = ", ".join(f"{literal(key)}: {literal(part)}" for key, part in value)
        return f"{{{pairs}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """A primitive's parameters after the function."""
    return _parameters(RULES[name])


@cache
def _signature(rule: Rule) -> inspect.Signature:
    return inspect.Signature(list(_parameters(rule).values()))


@cache
def _parameters(rule: Rule) -> dict[str, inspect.Parameter]:
    return dict(list(inspect.signature(rule).parameters.items())[1:])
