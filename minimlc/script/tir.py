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
from minimlc.script.constructs import Form, Marker, Namespace
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
from minimlc.script.tir_block import BlockReader
from minimlc.script.tir_forms import (
    ACTIONS,
    ALLOCS,
    AXES,
    BUFFER,
    CONTEXTS,
    FUNC_ATTR,
    LOOPS,
    MATCH,
)
from minimlc.script.tir_stmt import Item
from minimlc.tir.functions import FUNCTIONS
from minimlc.tir.nodes import Buffer, PrimFunc

_PARAMETER_HINT = '{name}: T.Buffer((128, 128), "float32")'


class FunctionReader(BlockReader):
    """Reads one primitive function."""

    def __init__(self, source: Source, names: Names):
        BlockReader.__init__(self, source, names)
        self.params: dict[str, Buffer | None] = {}

    def function(self, node: ast.FunctionDef) -> PrimFunc:
        for parameter in parameters(self.source, node):
            self.parameter(parameter)
        header, body = self.within("function", node.body)
        for name, buffer in self.params.items():
            if buffer is None:
                hint = f'A = T.match_buffer({name}, (128,), "float32")'
                why = f"the handle {name} is never matched to a buffer"
                raise self.source.error(self.source.word(node, name), why, "E126", hint)
        params = tuple(buffer for buffer in self.params.values() if buffer is not None)
        allocs, attrs = (tuple(header.parts.get(key, ())) for key in ("allocs", "attrs"))
        func = PrimFunc(params, allocs, body, attrs)
        return with_span(func, self.source.word(node, node.name))

    def parameter(self, node: ast.arg) -> None:
        hint = _PARAMETER_HINT.format(name=node.arg)
        kind = annotation(self.source, node, hint)
        if self.path(kind) == "T.handle":
            self.params[node.arg] = None
            return
        call = _as_call(kind)
        if call is None or self.path(call.func) != "T.Buffer":
            why = f"the parameter {node.arg} must be a buffer"
            raise self.error(kind, why, "E126", hint)
        self.params[node.arg] = self.declare(node.arg, node, **self.arguments(BUFFER, call))

    def note(self, key: str, items: Any) -> None:
        """Add to what the function says of itself."""
        assert self.header is not None
        self.header.parts.setdefault(key, []).extend(items)

    def assign_alloc_buffer(self, call: ast.Call, target: ast.Name, **bound: Any) -> list[Item]:
        buffer = self.alloc(call, target, **bound)
        if not self.is_in("function"):
            return [buffer]
        self.note("allocs", [buffer])
        return []

    assign_decl_buffer = assign_alloc_buffer

    def named(self, form: Form, name: str, node: Any) -> Any:
        if name != "handle":
            return BlockReader.named(self, form, name, node)
        parameter = ast.unparse(node)
        if self.params.get(parameter, node) is not None:
            why = f"{parameter} is no parameter of type T.handle"
            raise self.error(node, why, "E126", "def f(a: T.handle): ...")
        return parameter

    def assign_match_buffer(
        self, call: ast.Call, target: ast.Name, handle: str, **kind: Any
    ) -> None:
        """`A = T.match_buffer(a, (n,), "float32")`: the parameter `a` is the buffer A."""
        self.params[handle] = self.declare(target.id, call, **kind)

    def action_func_attr(self, call: ast.Call, attributes: Any) -> None:
        self.note("attrs", attributes)

    def with_block(self, call: ast.Call, node: ast.With, name: ast.expr) -> list[Item]:
        root = [ast.unparse(a) for a in call.args] == ["'root'"] and self.is_in("function")
        if not root or not self.is_transparent(node.body):
            return BlockReader.with_block(self, call, node, name)
        return self.items(item for item in node.body if not self.is_empty_access(item))

    def is_transparent(self, body: list[ast.stmt]) -> bool:
        """Whether a root block has no axes and holds blocks, as TVM prints around a whole body."""
        values = [item.value for item in body if isinstance(item, ast.Assign)]
        if any(self.called(value).startswith("T.axis.") for value in values):
            return False
        inner = [part for item in body for part in ast.walk(item) if isinstance(part, ast.With)]
        return bool(inner) or any(map(self.is_empty_access, body))

    def is_empty_access(self, item: ast.stmt) -> bool:
        call: Any = item.value if isinstance(item, ast.Expr) else None
        return self.called(call) in ("T.reads", "T.writes") and not (call.args or call.keywords)


def _as_call(node: ast.expr) -> ast.Call | None:
    """`T.Buffer(...)`; also `T.Buffer[(n,), "float32"]`, as older scripts spell it."""
    if isinstance(node, ast.Subscript):
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        flat = not any(isinstance(a, ast.Tuple | ast.List | ast.Constant) for a in arguments[:1])
        call = ast.Call(node.value, [node.slice] if flat else list(arguments), [])
        return ast.copy_location(call, node)
    return node if isinstance(node, ast.Call) else None


def annotation(source: Source, node: ast.arg, hint: str) -> ast.expr:
    """A parameter's annotation, also when it is written as a string."""
    if node.annotation is None:
        raise source.error(node, f"the parameter {node.arg} has no type", "E126", hint)
    return unquoted(source, node.annotation)


def parse_prim_func(source: Source, node: ast.FunctionDef, names: Names) -> PrimFunc:
    """The primitive function that a `def` describes."""
    return FunctionReader(source, names).function(node)


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
    **dict.fromkeys((*CONTEXTS, *ACTIONS), False),
    **{name: False for name in LOOPS if name != "range"},
    **dict.fromkeys((*ALLOCS, "T.seq", *MATCH, *FUNC_ATTR, "T.evaluate"), False),
    "T.Buffer": True,
    "T.handle": True,
}

T: Any = Namespace(
    "T",
    ChainMap(
        {
            **{name[2:]: Marker(name, annotates) for name, annotates in _MARKERS.items()},
            "axis": Namespace("T.axis", {n[7:]: Marker(n, False) for n in sorted(AXES)}),
            "prim_func": prim_func,
        },
        FUNCTIONS,
    ),
)
"""The loop language. In plain Python, `T.exp`, `T.max`, `T.float32` ... build expressions."""
