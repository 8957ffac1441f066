"""The script language of the loop IR: `T` and `@T.prim_func`.

The body of a script never runs: its syntax tree is read, with the constants around it folded in.
"""

import ast
import sys
from collections import ChainMap
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

from minimlc.errors import ScriptError
from minimlc.node import replace
from minimlc.script.constructs import Marker, Namespace
from minimlc.script.source import (
    Names,
    Source,
    closure_names,
    find_definition,
    in_class_body,
    names_around,
)
from minimlc.script.tir_block import parse_prim_func
from minimlc.script.tir_expr import LOOPS
from minimlc.tir.functions import FUNCTIONS


def named(func: Any, name: str) -> Any:
    """A function that stands alone carries its name itself."""
    if any(key == "global_symbol" for key, _ in func.attrs):
        return func
    return replace(func, attrs=(("global_symbol", name), *func.attrs))


Parser = Callable[[Source, ast.FunctionDef, Names], Any]


def decorator(parse: Parser) -> Callable[..., Any]:
    """A function decorator for one of the languages.

    In a class body it leaves the function as it is: `I.ir_module` reads the class as a whole.
    `check_well_formed` and `pure`, which other compilers' scripts say, mean nothing here.
    """

    def decorate(
        func: FunctionType | None = None,
        *,
        name: str = "",
        private: bool = False,
        check_well_formed: bool = True,
        pure: bool = True,
    ) -> Any:
        frame = sys._getframe(1)
        if func is None:
            return lambda definition: _parse(parse, definition, frame, name, private)
        return _parse(parse, func, frame, name, private)

    return decorate


def _parse(parse: Parser, func: FunctionType, frame: FrameType, name: str, private: bool) -> Any:
    if in_class_body(frame):
        return func
    code = func.__code__
    source, node = find_definition(
        ast.FunctionDef, func.__name__, code.co_filename, code.co_firstlineno, func.__globals__
    )
    assert isinstance(node, ast.FunctionDef)
    names = names_around(frame, closure_names([func]))
    try:
        function = source.guard(node, parse, source, node, names)
    except ScriptError as error:
        raise error.with_traceback(None) from None
    return function if private else named(function, name or func.__name__)


prim_func = decorator(parse_prim_func)

_MARKERS = {
    **LOOPS.markers("action", "loop", "assign", "with"),
    **{
        name: Marker(f"T.{name}", name in ("Buffer", "handle"))
        for name in ("seq", "evaluate", "Buffer", "handle")
    },
    "axis": Namespace("T.axis", LOOPS.markers("axis")),
    "prim_func": prim_func,
}

T: Any = Namespace("T", ChainMap(_MARKERS, FUNCTIONS))
"""The loop language. In plain Python, `T.exp`, `T.max`, `T.float32` ... build expressions."""
