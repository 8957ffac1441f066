"""Values of the graph language: types, constants, operators, calls."""

import ast
import re
from collections import ChainMap
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from minimlc.graphs.ir import nodes as graph
from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.ir.dimensions import SIZES, size_of
from minimlc.graphs.ir.normal import Normal
from minimlc.graphs.ir.sized import type_at
from minimlc.graphs.op import FUNCTIONS, RANDOM
from minimlc.graphs.operators import ARITHMETIC, COMPARISONS
from minimlc.graphs.ops import OPS
from minimlc.graphs.text.graph_types import AnyShape, as_type, const, const_data, fits, tensor_type
from minimlc.loops.text.constructs import Language, Namespace
from minimlc.loops.text.definition import Siblings
from minimlc.loops.text.folding import FOLDABLE
from minimlc.loops.text.reader import PYTHON, Reader, element, is_none, items_of
from minimlc.loops.text.source import Names, Source, unquoted
from minimlc.loops.values.constants import is_folded
from minimlc.loops.values.errors import CompileError, ScriptError
from minimlc.loops.values.literals import Symbol, names_in
from minimlc.loops.values.names import UniqueNames

Operator = Callable[..., ir.Expr]
_INSTEAD = {
    "max": "maximum",
    "min": "minimum",
    "//": "floor_divide",
    "%": "mod",
    "and": "logical_and",
    "or": "logical_or",
    "not": "logical_not",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "~": "bitwise_not",
    "<<": "left_shift",
    ">>": "right_shift",
}
"""Operators in place of Python's operations that are for numbers alone."""
_OPERATORS = {
    **{sign: name for sign, (_, name) in (ARITHMETIC | COMPARISONS).items()},
    "==": "equal",
    "!=": "not_equal",
}


CONSTANT = re.compile(r"const_*\d+")
"""The names of large constants in a script."""
PARTS = {"nn": Namespace("R.nn", FUNCTIONS), "random": Namespace("R.random", RANDOM)}
_OF_R: list[Any] = [PARTS, FUNCTIONS]
OPERATORS = Namespace("R", ChainMap(*_OF_R))
"""The meaning of `mlc.op` in a script, under whatever name."""

GRAPHS = Language(
    "graph function",
    PYTHON,
    {
        ast.If: "R.where(condition, a, b), element by element, or R.cond(p, then, otherwise, (x,))",
        ast.While: "R.while_loop(condition, body, (x,)), or a loop in a @T.prim_func",
        ast.For: "R.scan(body, (state,), (rows,)), or a loop in a @T.prim_func",
        ast.AugAssign: "values do not change: y = R.add(x, b)",
    },
    spellings={f"R.random.{name}": f"R.random_{name}" for name in RANDOM},
    modules={"minimlc.graphs.op": OPERATORS},
)
"""The graph language."""


class Values(Reader):
    """Reads values of a graph function, and keeps what its statements have bound so far.

    A nested call gets its own binding, so that calls are in normal form: `bindings` are in the
    open block, after the finished `blocks`. `in_block` names the construct that is read,
    `outputs` the names that it keeps; names that ended with their block are `hidden`, and
    sizes that have a name but no meaning yet are `unmeant`.
    """

    language = GRAPHS

    def __init__(self, source: Source, names: Names, siblings: Siblings):
        Reader.__init__(self, source, names)
        self.siblings = siblings
        self.unique = UniqueNames()
        self.blocks: list[graph.BindingBlock] = []
        self.bindings: list[graph.Binding] = []
        self.in_block = ""
        self.outputs: set[str] | None = None
        self.hidden: set[str] = set()
        self.unmeant: set[str] = set()
        self.attrs: tuple[tuple[str, Any], ...] = ()
        self.result: ir.Expr | None = None

    # Types

    def type(self, node: ast.expr) -> ir.Type:
        """The type that an annotation means."""
        return self.guard(node, as_type, self.declared_type(node))

    def declared_type(self, node: ast.expr) -> Any:
        """The type of an annotation, maybe without a shape."""
        node = unquoted(self.source, node)
        return AnyShape() if self.path(node) == "R.Tensor" else self.read(node)

    def size(self, node: ast.expr) -> Any:
        """A size of a shape; a name that means nothing else is a size known at the call."""
        used = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
        known = self.scope, self.names, FOLDABLE
        unknown = [name for name in used if not any(name in names for names in known)]
        with self.own_names() if unknown else nullcontext():
            self.scope.update({name: size_of(name) for name in unknown if name not in self.hidden})
            value = self.read(node)
            if not isinstance(value, tuple) or isinstance(node, ast.Tuple):  # one with bounds
                value = self.guard(node, size_of, value)
        return value if isinstance(value, Symbol) else Reader.size(self, node)

    def check_type(self, node: ast.expr | None, value: ir.Expr, what: str) -> None:
        """Compare a value with the type that the script gives it."""
        if node is None or is_none(node):
            return
        if not self.guard(node, fits, self.declared_type(node), value.type):
            hint = f"write {value.type!r}, or leave it out"
            raise self.error(node, f"{what} has the type {value.type!r}", "E126", hint)

    # Values

    def emit(self, name: str, value: ir.Expr, place: ast.expr) -> graph.Var:
        """A variable bound to `value`."""
        var = graph.Var(self.unique.take(name), value.type)
        self.bindings.append(self.placed(graph.Binding(var, value), place))
        return var

    def expr(self, node: ast.expr) -> ir.Expr:
        """A graph expression; the arguments inside it are in normal form."""
        return self.as_expr(self.read(node), node)

    def as_expr(self, value: Any, node: ast.expr) -> ir.Expr:
        if isinstance(value, ir.Expr):
            return value
        if isinstance(value, np.ndarray):
            return self.guard(node, ir.constant, value)
        if isinstance(value, tuple):
            pairs = _with_places(value, node)
            return ir.Tuple(tuple([self.atom(self.as_expr(v, n), n) for v, n in pairs]))
        if isinstance(value, bool | int | float):
            hint = f'R.const({value!r}, "float32")'
            raise self.error(node, f"{value!r} has no dtype here", "E123", hint)
        why = f"{ast.unparse(node)[:40]} is not a tensor but a {type(value).__name__}"
        raise self.error(node, why, "E123")

    def atom(self, value: Any, place: ast.expr) -> Any:
        """`value` as an argument: what is computed gets a variable first, also within a tuple."""
        if isinstance(value, ir.Call | graph.TupleGetItem):
            return self.emit("lv" if self.in_block == "R.dataflow" else "gv", value, place)
        if isinstance(value, tuple):
            return tuple([self.atom(v, n) for v, n in _with_places(value, place)])
        return value

    def operand(self, node: ast.expr) -> Any:
        """An operator's argument: an atom, a constant for it to convert, or a tuple of these."""
        return self.atom(self.read(node), node)

    def operator(
        self, node: Any, op: Operator, values: list[Any], options: dict[str, Any]
    ) -> ir.Expr:
        """The call of an operator; an error about an option points at that."""
        atoms = [self.atom(value, node) for value in values]
        try:
            normal = Normal(lambda inner: self.atom(inner, node), lambda leaf: leaf)
            value = op(*atoms, **options)
            value = normal.atom(value) if isinstance(value, ir.Tuple) else normal.value(value)
            for name in ir.size_names(value.type):  # some may depend on data
                self.scope.setdefault(name, size_of(name))
                self.unmeant.discard(name)
                self.unique.reserve((name,))
            return self.placed(value, node)
        except CompileError as error:
            words = [item for item in getattr(node, "keywords", ()) if _is_about(error, item.arg)]
            raise self.source.located(error, [*words, node][0]) from None

    # What the language adds

    def undefined(self, node: ast.Name) -> ScriptError:
        if node.id not in self.hidden:
            if CONSTANT.fullmatch(node.id):
                hint = 'mod.script(constants="inline"); mlc.parse(text, mlc.named_constants(mod))'
                return self.error(node, f"the constant {node.id} is not there", "E122", hint)
            return Reader.undefined(self, node)
        why = f'"{node.id}" ends with its dataflow block'
        return self.error(node, why, "E122", f"R.output(..., {node.id}) keeps it")

    def attribute(self, node: ast.expr, what: str) -> Any:
        value = self.read(node)
        if not (is_folded(value) or isinstance(value, ir.TensorType | ir.TupleType)):
            raise self.error(node, f"a value of {what} must be a constant", "E123")
        return value

    def symbolic(self, node: ast.expr, op: str, operands: list[Any]) -> Any:
        if all(isinstance(value, bool | int | float | Symbol) for value in operands):
            sizes: Any = SIZES.first  # without it, no operand is a symbol
            return self.guard(node, sizes.applied, op, *operands)
        for value in operands:
            if not isinstance(value, ir.Expr | np.ndarray | bool | int | float | Symbol):
                raise self.error(node, f'"{op}" needs tensors', "E124")
        if op == "-" and len(operands) == 1:
            return self.operator(node, FUNCTIONS["negative"], operands, {})
        if op not in _OPERATORS or len(operands) != 2:
            why = f"a graph function cannot hold {op} of tensors"
            raise self.error(node, why, "E124", _operator_for(op, node))
        return self.operator(node, FUNCTIONS[_OPERATORS[op]], operands, {})

    def instead_of(self, called: str) -> str:
        name = called.rsplit(".", 1)[-1]
        if name in OPS:
            return f"R.{name}{OPS[name].signature}"
        return "graph functions call R's operators, for example R.add(x, y), and R.call_tir"

    def construct(self, node: ast.Call, name: str) -> Any:
        if name in GRAPHS.forms["value"]:
            return self.apply(GRAPHS.forms["value"][name], node)
        base = name.rsplit(".", 1)[-1]
        if not name.startswith("R.") or base not in FUNCTIONS:
            raise self.error(node.func, f"{name} is not a graph expression", "E124")
        values = [self.operand(a) for a in node.args]
        if base == "match_cast":
            values[1:] = [self.guard(node, named_sizes, self, values[0], k) for k in values[1:]]
        function = self.meant(node.func)  # another namespace may call the operator in another way
        return self.operator(node, function, values, options_of(self, node, name))


def named_sizes(reader: Values, x: Any, kind: Any) -> Any:
    """The type that `x` is matched with: names that are new there mean the sizes of x."""
    if not isinstance(kind, ir.TensorType) or not isinstance(x, ir.Expr) or x.ndim != kind.ndim:
        return kind
    pairs = zip(kind.shape, x.shape, strict=True)
    new = {str(size): _bounded(of, size) for size, of in pairs if isinstance(size, Symbol)}
    known = reader.scope.keys() - reader.unmeant
    new = {n: of for n, of in new.items() if n.isidentifier() and n not in known}
    reader.scope.update(new)
    reader.unmeant.difference_update(new)
    return type_at(kind, new)


def _bounded(size: Any, declared: Any) -> Any:
    """A size of a value, with the bounds under which it gets a new name."""
    return size_of((str(size), *declared.bounded[1:])) if declared.bounded else size


def options_of(reader: Values, node: ast.Call, name: str) -> dict[str, Any]:
    """The keywords of an operator's call."""
    for keyword in node.keywords:
        if keyword.arg is None:
            raise reader.error(keyword, f"{name} takes no **options", "E121")
    return {str(keyword.arg): reader.operand(keyword.value) for keyword in node.keywords}


def _with_places(value: tuple, node: ast.expr) -> list[tuple[Any, ast.expr]]:
    """The fields of a tuple, each with the syntax that it was read from."""
    places = node.elts if isinstance(node, ast.Tuple | ast.List) else [node] * len(value)
    return list(zip(value, places, strict=True))


def _is_about(error: CompileError, option: str | None) -> bool:
    return f'"{option}"' in error.why or f"{option}=" in error.why


def _operator_for(op: str, node: ast.expr) -> str:
    """A hint: the call of the operator that does what Python's `op` does with numbers."""
    parts = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    texts = [ast.unparse(part) for part in parts if isinstance(part, ast.expr)]
    name = _INSTEAD.get(op, op)
    return f"R.{name}({', '.join(texts)})" if name in OPS and len(texts) <= 2 else ""


def _part_of(node: ast.Subscript, axes: int) -> str:
    """A hint: the operator that takes a part of a tensor."""
    x, at = ast.unparse(node.value), node.slice
    places = at.elts if isinstance(at, ast.Tuple) else [at]
    cuts = [part for part in places if isinstance(part, ast.Slice) and part.upper]
    if len(cuts) != len(places) or len(cuts) > axes or any(cut.step for cut in cuts):
        at = ast.Constant(0) if isinstance(at, ast.Slice | ast.Tuple) else at
        text = ast.unparse(at)
        place = text if isinstance(at, ast.Name) else f"R.const({text})"
        return f"R.take({x}, {place}, axis=0), R.strided_slice({x}, (0,), (1,))"
    begin = ast.unparse(ast.Tuple([cut.lower or ast.Constant(0) for cut in cuts]))
    end = ast.unparse(ast.Tuple([cut.upper for cut in cuts if cut.upper]))
    return f"R.strided_slice({x}, {begin}, {end})"


@GRAPHS.reads(ast.Subscript)
def _subscript(reader: Values, node: ast.Subscript) -> Any:
    owner = reader.read(node.value)
    if not isinstance(owner, ir.Expr):
        return element(reader, node, owner)
    if not isinstance(owner.type, ir.TupleType):
        why, axes = "only a tuple has fields; this is a tensor", len(owner.type.shape)
        raise reader.error(node, why, "E129", _part_of(node, axes))
    index = reader.integer(node.slice, "a field's number")
    count = len(owner.type.fields)
    if not 0 <= index < count:
        raise reader.error(node.slice, f"field {index} of a tuple of {count}", "E129")
    whole = reader.atom(owner, node.value)
    return whole.fields[index] if isinstance(whole, ir.Tuple) else graph.TupleGetItem(whole, index)


PLAIN = ("shape", "prim_value", "str", "dtype")
"""Wrappers of plain attribute values in scripts that TVM prints."""


# Constructs


@GRAPHS.reads("R.Tensor(shape=None, dtype=None, ndim=-1)", role="value")
def _tensor(reader: Values, node: ast.Call, shape: Any, dtype: str | None, ndim: Any) -> Any:
    axes = ndim if isinstance(ndim, int) else reader.integer(ndim, "ndim")
    return reader.guard(node, tensor_type, shape, dtype, axes)


@GRAPHS.reads("R.Tuple(*fields)", role="value")
def _tuple(reader: Values, node: ast.Call, fields: list[ast.expr]) -> ir.TupleType:
    items = items_of(fields[0], lists=True) if len(fields) == 1 else fields
    return ir.TupleType(tuple([reader.type(item) for item in items]))


@GRAPHS.reads("R.const(value, kind=None, dtype=None)", role="value")
def _const(reader: Values, node: ast.Call, value: ast.expr, kind: Any, dtype: Any) -> ir.Constant:
    of = dtype if kind is None else reader.read(kind)
    return reader.guard(value, const, reader.read(value), of)


@GRAPHS.reads(*(f"R.{name}(value)" for name in PLAIN), role="value")
def _plain(reader: Values, node: ast.Call, value: ast.expr) -> Any:
    """A shape, a number or a text as TVM wraps it."""
    sizes = reader.read(value)
    return sizes if names_in(sizes) else reader.constant(value, reader.called(node))


@GRAPHS.reads("R.const_data(content, shape, dtype)", role="value")
def _const_data(
    reader: Values, node: ast.Call, content: ast.expr, shape: tuple[int, ...], dtype: str
) -> ir.Constant:
    return reader.guard(content, const_data, reader.read(content), shape, dtype)
