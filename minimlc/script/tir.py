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
from minimlc.node import replace, with_span
from minimlc.script.constructs import Marker, Namespace
from minimlc.script.reader import Language
from minimlc.script.source import (
    Names,
    Source,
    closure_names,
    find_definition,
    in_class_body,
    names_around,
    parameters,
    unquoted,
)
from minimlc.script.tir_block import ACTIONS, AXES, CONTEXTS
from minimlc.script.tir_expr import LOOP_EXPRESSIONS, Header, Loops
from minimlc.script.tir_stmt import (
    ALLOCS,
    BUFFER,
    FUNC_ATTR,
    LOOPS,
    MATCH,
    STATEMENTS,
    declare,
    suite,
)
from minimlc.tir.functions import FUNCTIONS
from minimlc.tir.nodes import PrimFunc

_PARAMETER_HINT = '{}: T.Buffer((128, 128), "float32")'


LANGUAGE = Language(
    "prim_func",
    LOOP_EXPRESSIONS,
    STATEMENTS,
    {
        ast.While: "loops are counted: for i in range(n)",
        ast.Return: "it writes its results to the buffers it is given",
        **dict.fromkeys((ast.Break, ast.Continue), "guard the rest with: if condition:"),
    },
    {"action": ACTIONS | FUNC_ATTR, "assign": ALLOCS | MATCH | AXES, "with": CONTEXTS},
)


def parse_prim_func(
    source: Source, node: ast.FunctionDef, names: Names, module: object = None
) -> PrimFunc:
    """The primitive function that a `def` describes."""
    reader, header = Loops(source, names, LANGUAGE), Header("function")
    for item, kind in parameters(source, node, _PARAMETER_HINT):
        _parameter(reader, item, unquoted(source, kind))
    body = suite(reader, node.body, header)
    for name, buffer in reader.params.items():
        if buffer is None:
            hint = f'A = T.match_buffer({name}, (128,), "float32")'
            why = f"the handle {name} is never matched to a buffer"
            raise reader.error(source.word(node, name), why, "E126", hint)
    params = tuple(buffer for buffer in reader.params.values() if buffer is not None)
    func = PrimFunc(params, tuple(header.allocs), body, tuple(header.attrs))
    return with_span(func, source.word(node, node.name))


def _parameter(reader: Loops, node: ast.arg, kind: ast.expr) -> None:
    if reader.path(kind) == "T.handle":
        reader.params[node.arg] = None
        return
    call = _as_call(kind)
    if call is None or reader.path(call.func) != BUFFER.name:
        why, hint = f"the parameter {node.arg} must be a buffer", _PARAMETER_HINT.format(node.arg)
        raise reader.error(kind, why, "E126", hint)
    reader.params[node.arg] = declare(reader, node.arg, node, **reader.arguments(BUFFER, call))


def _as_call(node: ast.expr) -> ast.Call | None:
    """`T.Buffer(...)`; also `T.Buffer[(n,), "float32"]`, as older scripts spell it."""
    if isinstance(node, ast.Subscript):
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        flat = not any(isinstance(a, ast.Tuple | ast.List | ast.Constant) for a in arguments[:1])
        call = ast.Call(node.value, [node.slice] if flat else list(arguments), [])
        return ast.copy_location(call, node)
    return node if isinstance(node, ast.Call) else None


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

_ALONE = ("T.seq", "T.evaluate", *CONTEXTS, *ACTIONS, *FUNC_ATTR, *LOOPS, *ALLOCS, *MATCH)
_MARKERS = {
    **{name[2:]: Marker(name, False) for name in _ALONE if name.startswith("T.")},
    **{name[2:]: Marker(name, True) for name in ("T.Buffer", "T.handle")},
    "axis": Namespace("T.axis", {name[7:]: Marker(name, False) for name in sorted(AXES)}),
    "prim_func": prim_func,
}

T: Any = Namespace("T", ChainMap(_MARKERS, FUNCTIONS))
"""The loop language. In plain Python, `T.exp`, `T.max`, `T.float32` ... build expressions."""
