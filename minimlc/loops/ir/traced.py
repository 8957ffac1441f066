"""Calls of the user's functions with expressions; what is written for numbers gets a hint."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from minimlc.loops.ir.functions import FUNCTIONS
from minimlc.loops.ir.tracing import tracing
from minimlc.loops.values.errors import CompileError, Span, source_line


def called(function: Callable[..., Any], args: Sequence[Any], span: Span | None) -> Any:
    """`function(*args)`, a function of the user's; errors say where it stands and what to write."""
    try:
        with tracing():
            return function(*args)
    except CompileError as error:
        error.span = error.span or span
        builtin = _BUILTIN.search(span.text) if span is not None else None
        if error.code == "E112" and builtin is not None:
            error.hint = f"T.{builtin[1]}(a, b)  # {_IMPORT}; the {builtin[1]} of traced values"
        elif error.code == "E112" and span is not None:
            hints = (hint for words, hint in _OF_TRUTH.items() if re.search(words, span.text))
            error.hint = next(hints, error.hint)
        raise
    except TypeError as error:
        hint = next((hint for words, hint in _OF_NUMBERS.items() if words in str(error)), "")
        if not hint:
            raise
        why = "a function of Python or numpy was applied to a traced value"
        if hint is _OWN and span is not None:
            hint = _same_call(span.text) or hint
        raise CompileError(why, code="E130", span=span, hint=hint) from error


def _same_call(text: str) -> str:
    """The first call of numpy or math in a line of source, as a call of `te`; empty if none."""
    call = _FOREIGN.search(text)
    if call is None or call[2] not in FUNCTIONS or call[2] in ("max", "min"):
        return ""
    return f"te.{call[2]}({call[3]})  # in place of {call[1]}.{call[2]}"


_FOREIGN = re.compile(r"\b(np|numpy|math)\.(\w+)\(([^()]*)\)")
_BUILTIN = re.compile(r"(?<![.\w])(max|min)\(")
_OF_TRUTH = {
    r"\band\b": "te.all(a, b)  # in place of `a and b`",
    r"\bor\b": "te.any(a, b)  # in place of `a or b`",
    r"\bnot\b": "~(a > b)  # in place of `not a > b`",
    r"[<>]=?[^<>,:()]+[<>]": "te.all(a < b, b < c)  # in place of `a < b < c`",
}
"""Sources that ask for the truth of a traced value, and what to write instead."""
_IMPORT = "from minimlc.script import T"
_OWN = "use te's own: te.exp, te.sqrt, te.if_then_else, ..."
_OF_NUMBERS = {
    "is not iterable": "te.sum(x, axis=k)  # with k = te.reduce_axis((0, n))",
    "ufunc": _OWN,
    "must be real number": _OWN,
    "must be a string or a real number": 'te.cast(x, "float32")',
    "must be a string, a bytes-like object or a real number": 'te.cast(x, "int32")',
    "abs()": "te.abs(x)",
    "__round__": "te.round(x)",
    "** or pow()": "te.pow(a, b)",
}
"""Errors of Python's functions of numbers on an expression, and what to write instead."""


def span_of_function(function: Callable[..., Any]) -> Span | None:
    """The source location of a user's function, if Python kept it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    text = source_line(code.co_filename, code.co_firstlineno)
    start = text.find("lambda")
    column = start if start >= 0 else len(text) - len(text.lstrip())
    return Span(code.co_filename, code.co_firstlineno, column, len(text), text)
