"""Decorated classes and functions: their syntax, and the names around them.

A definition is located by the line its decorator runs on, in the syntax tree of the whole file or
cell. That works where `inspect.getsource` gives up or picks the wrong one: notebook cells,
several classes of one name, classes inside functions.
"""

import ast
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from minimlc.loops.text.source import Names, Source, source_of
from minimlc.loops.values.errors import ScriptError, Span
from minimlc.loops.values.node import replace

Definition = ast.ClassDef | ast.FunctionDef
Reading = Callable[[Source, Any, Names], Any]


class Siblings(NamedTuple):
    """The functions around the one that is read: by name, and those that are done."""

    owners: frozenset[str] = frozenset()
    names: Mapping[str, ast.FunctionDef] = {}
    done: Mapping[str, Any] = {}


class Level(NamedTuple):
    """A language of functions: the decorator of one, its reader, and the names for a text, which
    has no Python around it.
    """

    decorator: str
    read: Callable[..., Any]
    names: Mapping[str, Any]


def _first_line(item: Definition) -> int:
    """The line where a definition begins: its first decorator's."""
    return min([item.lineno, *(d.lineno for d in item.decorator_list)])


def locate(
    kind: type, name: str, filename: str, line: int, module_globals: dict[str, Any]
) -> tuple[Source, Definition]:
    """The source and syntax tree of the class or function `name` that surrounds a line."""
    source = source_of(filename, module_globals)
    tree = ast.walk(source.tree) if source else ()
    known: Any = [d for d in tree if isinstance(d, kind) and getattr(d, "name", "") == name]
    before = [d for d in known if _first_line(d) <= line]
    around = [d for d in before if line <= (d.end_lineno or d.lineno)]
    for candidates in (around, before, known):
        if source and candidates:
            chosen = max(candidates, key=_first_line)
            source.limited(chosen)
            return source, chosen
    span, why = Span(filename, line, 0, 0, ""), f"Python kept no source text for {name}"
    hint = "put the script in a file, or a notebook cell without %%time, or use mlc.parse(text)"
    # Every `exec` of a string shares one name; since 3.13 that of `python -c` is kept under it.
    if source is not None and filename != "<string>":
        span, why = source.at(line), f"the source text no longer holds {name}"
        hint = "the file has changed since it was imported: import it again"
    raise ScriptError(why, code="E128", span=span, hint=hint)


def closure_names(functions: list[FunctionType]) -> dict[str, Any]:
    """The variables of enclosing functions that these functions use."""
    names: dict[str, Any] = {}
    for function in functions:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        for name, cell in cells:
            with suppress(ValueError):  # not assigned yet
                names[name] = cell.cell_contents
    return names


def read(kind: type, definition: Any, frame: FrameType, reading: Reading) -> Any:
    """The meaning of a class or a function (`kind`) that a frame decorates: `reading` of its
    source, its syntax and the names around it: its own, then the frame's variables and globals.
    """
    if kind is ast.FunctionDef:
        code, members, functions = definition.__code__, {}, [definition]
        filename, line, around = code.co_filename, code.co_firstlineno, definition.__globals__
    else:
        filename, line, around = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
        members = dict(vars(definition))
        functions = [f for f in members.values() if isinstance(f, FunctionType)]
    source, node = locate(kind, definition.__name__, filename, line, around)
    inside = (members, closure_names(functions), dict(frame.f_locals))
    try:
        return reading(source, node, ChainMap(*inside, frame.f_globals))
    except ScriptError as error:
        raise error.with_traceback(None) from None


def _in_class_body(frame: FrameType) -> bool:
    """Whether a frame is executing the body of a class statement."""
    names = frame.f_locals
    return frame.f_globals is not names and "__qualname__" in names and "__module__" in names


def decorator(parse: Reading) -> Callable[..., Any]:
    """A function decorator for one of the languages.

    In a class body it leaves the function as it is: `I.ir_module` reads the class as a whole.
    `check_well_formed`, `pure` and `s_tir`, which other compilers' scripts have, mean nothing here.
    """

    def decorate(
        func: FunctionType | None = None,
        *,
        name: str = "",
        private: bool = False,
        check_well_formed: bool = True,
        pure: bool = True,
        s_tir: bool = True,
    ) -> Any:
        described = partial(_function, parse, sys._getframe(1), name, private)
        return described if func is None else described(func)

    return decorate


def _function(
    parse: Reading, frame: FrameType, name: str, private: bool, func: FunctionType
) -> Any:
    """The function that a script describes; where it stands alone, it carries its name itself."""
    if _in_class_body(frame):
        return func

    def guarded(source: Source, node: Any, names: Names) -> Any:
        return source.guard(node, parse, source, node, names)

    function = read(ast.FunctionDef, func, frame, guarded)
    if private or any(key == "global_symbol" for key, _ in function.attrs):
        return function
    return replace(function, attrs=(("global_symbol", name or func.__name__), *function.attrs))
