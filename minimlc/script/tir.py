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
from minimlc.script import tir_block as script_block
from minimlc.script import tir_stmt as script_stmt
from minimlc.script.constructs import Marker, Namespace, forms
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
from minimlc.script.tir_stmt import ALLOCS, Item, sequence
from minimlc.tir.functions import FUNCTIONS
from minimlc.tir.nodes import Annotations, Buffer, PrimFunc

BUFFER = forms('T.Buffer(shape, dtype="float32", scope="global")')["T.Buffer"]
MATCH = forms('T.match_buffer(handle, shape, dtype="float32", scope="global")')["T.match_buffer"]
FUNC_ATTR = forms("T.func_attr(attributes)")["T.func_attr"]
_PARAMETER_HINT = '{name}: T.Buffer((128, 128), "float32")'


class FunctionReader(script_block.BlockReader):
    """Reads one primitive function."""

    def __init__(self, source: Source, names: Names):
        script_block.BlockReader.__init__(self, source, names)
        self.params: dict[str, Buffer | None] = {}
        self.allocs: list[Buffer] = []
        self.attrs: Annotations = ()
        self.top: set[int] = set()

    def function(self, node: ast.FunctionDef) -> PrimFunc:
        for parameter in parameters(self.source, node):
            self.parameter(parameter)
        self.top = {id(item) for item in node.body}
        body = sequence(self.items(node.body))
        for name, buffer in self.params.items():
            if buffer is None:
                hint = f'A = T.match_buffer({name}, (128,), "float32")'
                why = f"the handle {name} is never matched to a buffer"
                raise self.source.error(self.source.word(node, name), why, "E126", hint)
        params = tuple(buffer for buffer in self.params.values() if buffer is not None)
        func = PrimFunc(params, tuple(self.allocs), body, self.attrs)
        return with_span(func, self.source.word(node, node.name))

    def parameter(self, node: ast.arg) -> None:
        hint = _PARAMETER_HINT.format(name=node.arg)
        kind = annotation(self.source, node, hint)
        name = self.path(kind)
        if name == "T.handle":
            self.params[node.arg] = None
            return
        call = _as_call(kind)
        if call is None or self.path(call.func) != "T.Buffer":
            why = f"the parameter {node.arg} must be a buffer"
            raise self.error(kind, why, "E126", hint)
        self.check_sizes(BUFFER.name, call)
        found = self.buffer_type(BUFFER.bind(self.source, call))
        self.params[node.arg] = self.declare(node.arg, found, node)

    def stmt_Assign(self, node: ast.Assign) -> list[Item]:
        call, target = node.value, node.targets[0]
        name = self.path(call.func) if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or not isinstance(target, ast.Name):
            return script_block.BlockReader.stmt_Assign(self, node)
        if name == "T.match_buffer":
            self.match_buffer(target.id, call)
            return []
        if name in ALLOCS and id(node) in self.top:
            self.allocs.append(self.alloc(target.id, call))
            return []
        return script_block.BlockReader.stmt_Assign(self, node)

    def with_block(self, node: ast.With, name: str) -> list[Item]:
        call: Any = node.items[0].context_expr
        root = name == "T.block" and [ast.unparse(a) for a in call.args] == ["'root'"]
        if not root or id(node) not in self.top or not self.is_transparent(node.body):
            return script_block.BlockReader.with_block(self, node, name)
        body = [item for item in node.body if not self.is_empty_access(item)]
        self.top |= {id(item) for item in body}
        return self.items(body)

    def is_transparent(self, body: list[ast.stmt]) -> bool:
        """Whether a root block has no axes and holds blocks, as TVM prints around a whole body."""
        values = [item.value for item in body if isinstance(item, ast.Assign)]
        calls = [value for value in values if isinstance(value, ast.Call)]
        if any(self.path(call.func).startswith("T.axis.") for call in calls):
            return False
        inner = [part for item in body for part in ast.walk(item) if isinstance(part, ast.With)]
        return bool(inner) or any(map(self.is_empty_access, body))

    def is_empty_access(self, item: ast.stmt) -> bool:
        call = item.value if isinstance(item, ast.Expr) else None
        return (
            isinstance(call, ast.Call)
            and not call.args
            and not call.keywords
            and self.path(call.func) in ("T.reads", "T.writes")
        )

    def match_buffer(self, name: str, call: ast.Call) -> None:
        """`A = T.match_buffer(a, (n,), "float32")`: the parameter `a` is the buffer A."""
        bound = MATCH.bind(self.source, call)
        handle = ast.unparse(bound["handle"])
        if self.params.get(handle, call) is not None:
            why = f"{handle} is no parameter of type T.handle"
            raise self.error(bound["handle"], why, "E126", "def f(a: T.handle): ...")
        self.params[handle] = self.declare(name, self.buffer_type(bound), call)

    def action(self, node: ast.Expr, name: str) -> list[Item]:
        if name != FUNC_ATTR.name or id(node) not in self.top:
            return script_block.BlockReader.action(self, node, name)
        call: Any = node.value
        attributes = FUNC_ATTR.bind(self.source, call)["attributes"]
        self.attrs += self.dictionary(attributes, FUNC_ATTR.name)
        return []


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
            return lambda given: _parse(parse, given, frame, name, private)
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
    try:
        made = source.guard(node, parse, source, node, names_around(frame, closure_names([func])))
    except ScriptError as error:
        raise error.with_traceback(None) from None
    return made if private else named(made, name or func.__name__)


prim_func = decorator(parse_prim_func)

_AXES = {name.split(".")[2] for name in script_block.FORMS if name.startswith("T.axis.")}
_CONSTRUCTS = (*script_block.FORMS, *script_stmt.LOOPS, "T.grid", *script_stmt.ALLOCS, "T.seq")
_MARKERS = {
    **{name: False for name in _CONSTRUCTS if not name.startswith("T.axis.")},
    "T.match_buffer": False,
    "T.func_attr": False,
    "T.evaluate": False,
    "T.Buffer": True,
    "T.handle": True,
}

T: Any = Namespace(
    "T",
    ChainMap(
        {
            **{name[2:]: Marker(name, annotates) for name, annotates in _MARKERS.items()},
            "axis": Namespace("T.axis", {n: Marker(f"T.axis.{n}", False) for n in sorted(_AXES)}),
            "prim_func": prim_func,
        },
        FUNCTIONS,
    ),
)
"""The loop language. In plain Python, `T.exp`, `T.max`, `T.float32` ... build expressions."""
