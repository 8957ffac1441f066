"""Errors that say why, where, and what next, in the reader's own names.

Every error derives from `CompileError`. A notebook shows only the error's own lines, never the
compiler's stack.
"""

import ast
import difflib
import linecache
import re
import sys
from collections.abc import Callable, Iterable
from math import prod
from operator import ge
from typing import Any, NamedTuple

import numpy as np

MAX_LINES = 15
MAX_WIDTH = 240


class Span(NamedTuple):
    """A place in the user's source: `line` counts from 1, columns from 0."""

    filename: str
    line: int
    column: int
    end_column: int
    text: str

    def where(self) -> str:
        """The place in words: a notebook cell or a file, and the line."""
        return f"{describe_file(self.filename)}, line {self.line}"


def describe_file(filename: str) -> str:
    """A file in words: which notebook cell it is, or its name."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    if filename in cells:
        # Where no history is kept, IPython takes every cell for In[1]: count them as they came.
        counted = getattr(shell, "execution_count", 1) > 1
        return f"cell In[{cells[filename] if counted else [*cells].index(filename) + 1}]"
    return filename.rsplit("/", 1)[-1] if filename else "script"


def source_line(filename: str, line: int) -> str:
    """One line of a file or a notebook cell, without its newline; '' where it is unknown."""
    return linecache.getline(filename, line).rstrip("\n")


class CompileError(Exception):
    """An error: its cause (`why`), place (`span` or an IR `excerpt`), an `example`, and a `hint`.

    `code` (such as "E104") names the kind of error. `example` is the concrete counter-example:
    the two iterations or the element that show the problem.
    """

    def __init__(
        self,
        why: str,
        *,
        code: str = "",
        span: Span | None = None,
        excerpt: str = "",
        example: str = "",
        hint: str = "",
    ):
        self.why = why
        self.code = code
        self.span = span
        self.excerpt = excerpt
        self.example = example
        self.hint = hint
        self.remedy: Callable[[], str] | None = None
        super().__init__(why)

    def advice(self) -> str:
        """The line to try. Where the error knows how to look for one that works (`remedy`), that
        call, with the hint behind it as a comment.
        """
        if self.remedy is not None:
            line, self.remedy = self.remedy(), None
            if line and not is_runnable(self.hint):
                self.hint = f"{line}  # {self.hint}" if self.hint else line
        return self.hint

    def __reduce__(self) -> Any:
        state = {**self.__dict__, "hint": self.advice(), "remedy": None}
        return _restored, (type(self), self.why, state)

    def __str__(self) -> str:
        head = f"{self.code}: {self.why}" if self.code else self.why
        lines = head.split("\n")
        if self.span is not None:
            text = self.span.text
            shown = text.lstrip()
            indent = len(text) - len(shown)
            width = max(1, min(self.span.end_column, len(text)) - self.span.column)
            lines.append(f"  at {self.span.where()}")
            lines.append(f"  | {shown}")
            lines.append("  | " + " " * (self.span.column - indent) + "^" * width)
        if self.excerpt:
            lines += [f"  | {line}" for line in self.excerpt.rstrip("\n").split("\n")[:6]]
        if self.example:
            lines += self.example.split("\n")
        lines = [line if len(line) <= MAX_WIDTH else f"{line[:MAX_WIDTH]}…" for line in lines]
        if self.advice():
            lines += f"try: {self.hint}".split("\n")
        text = "\n".join(lines[:MAX_LINES])
        return text.encode(errors="backslashreplace").decode()  # half a character cannot be shown

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython prints instead of a stack trace."""
        return f"{type(self).__name__} {self}".split("\n")


def _restored(kind: type[CompileError], why: str, state: dict[str, Any]) -> CompileError:
    error = kind.__new__(kind, why)
    error.__dict__.update(state)
    return error


class TooLarge(CompileError):
    """A program that is nested too deeply, or that has too many parts, to be worked on."""


class ScriptError(CompileError):
    """A script that the parser cannot read."""


class VerifyError(CompileError):
    """A module that is not well-formed."""


class ScheduleError(CompileError):
    """A schedule primitive that would change the program's meaning, or cannot be proven not to."""


class DroppedResult(UserWarning):
    """The result of a schedule's step is not kept: the schedule that was there is as before."""


class ManySizes(UserWarning):
    """A function is called with many sizes, each of which is compiled."""


class OpError(CompileError):
    """A graph operator applied to values of the wrong shape, dtype or attribute."""


class BuildError(CompileError):
    """A module that a target cannot compile."""


class CallError(CompileError):
    """A compiled function called with the wrong arguments; native code was not entered."""


class SizeError(CompileError, TypeError):
    """A size known only at the call, used as a number before."""


class BoundsError(CompileError, IndexError):
    """An access outside a buffer, while a program ran with its bounds checked."""


class RaceError(CompileError):
    """Threads that touch one element, one of them to write it, in no order that is certain."""


class RaceWarning(UserWarning):
    """Programs of a grid that race: here they may run in order, elsewhere they do not."""


def shown(value: object) -> str:
    """A value as it is shown in an error: the first characters, where there are many."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # digits, levels: more than Python writes
        return f"a large {type(value).__name__}"


def is_runnable(hint: str) -> bool:
    """Whether a hint is an expression (a comment may follow) on things that the reader has."""
    try:
        tree = ast.parse(hint, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    names = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
    return bool(names) and names <= {"sch", "mlc", "error", "help", "print"}


def check_flags(error: type[CompileError], code: str, call: str, **flags: object) -> None:
    """Refuse options of `call` that are neither true nor false: Python takes any text for true."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            why = f"{name} is True or False, got {value!r:.60}"
            raise error(why, code=code, hint=f"{call}, {name}=False)")


def not_compiled() -> CallError:
    """The error for calling a function of the IR as if it were compiled."""
    why = "a function of the IR is a value, not yet compiled"
    return CallError(why, code="E612", hint='lib = mlc.build(mod), then lib["main"](...)')


def fitting_array(name: str, shape: tuple[int, ...], got: tuple[int, ...], dtype: str) -> str:
    """The line that makes an array of that shape out of the one called `name`."""
    if len(got) == 2 and got[::-1] == shape:
        return f"{name}.T.copy()"
    if prod(got) == prod(shape):
        return f"{name}.reshape({shape})"
    if len(got) == len(shape) and all(map(ge, got, shape)):
        return f"{name}[{', '.join(f':{size}' for size in shape)}].copy()"
    return f'np.zeros({shape}, "{dtype}")'


def near_misses(name: str, known: Iterable[str]) -> list[str]:
    """The known names most like `name`, best first."""
    name, known = str(name), list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    close = close or [item for item in known if item.lower() == name.lower()]
    return sorted(close, key=lambda item: not (name.startswith(item) or item.startswith(name)))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a mistyped name: its near misses, else the first few known names."""
    known = list(dict.fromkeys(known))
    close = near_misses(name, known)
    if close:
        return "did you mean " + " or ".join(f'"{c}"' for c in close) + "?"
    if not known:
        return ""
    listed = ", ".join(f'"{k}"' for k in known[:8])
    return f"known names: {listed}" + (", ..." if len(known) > 8 else "")


def identifier(text: str) -> str:
    """`text` as a Python identifier."""
    name = re.sub(r"\W", "_", text) or "_"
    return f"_{name}" if name[0].isdigit() else name
