"""The script language of the graph IR: `R` and `@R.function`.

A function's statements are read here: bindings, dataflow blocks, the result. In plain Python, R's
names build types, constants and calls for a `BlockBuilder`.
"""

import ast
from collections import ChainMap
from functools import partial
from typing import Any

import numpy as np

from minimlc.graphs.ir import nodes as graph
from minimlc.graphs.ir.dimensions import size_of
from minimlc.graphs.ir.nodes import Call, Expr, TupleType, constant
from minimlc.graphs.op import FUNCTIONS
from minimlc.graphs.text import graph_calls  # noqa: F401 (enters its constructs)
from minimlc.graphs.text.graph_types import (
    as_type,
    const,
    const_data,
    out_type,
    param_type,
    tensor_type,
)
from minimlc.graphs.text.graph_value import GRAPHS, PARTS, PLAIN, Values
from minimlc.loops.text.constructs import Namespace, in_annotation
from minimlc.loops.text.definition import Level, Siblings, decorator
from minimlc.loops.text.source import Names, Source, parameters
from minimlc.loops.values.constants import plain
from minimlc.loops.values.dtypes import dtype_name
from minimlc.loops.values.literals import Symbol
from minimlc.loops.values.node import with_span
from minimlc.loops.values.parts import Hook

_HINT = '{}: R.Tensor((1, 784), "float32")'


def parse_function(
    source: Source, node: ast.FunctionDef, names: Names, siblings: Siblings | None = None
) -> graph.Function:
    """The graph function that a `def` describes."""
    reader = Values(source, names, siblings or Siblings())
    params = []
    for item, kind in parameters(source, node, _HINT):
        declared = reader.declared_type(kind)
        type_ = reader.guard(item, param_type, declared, item.arg, names)
        var = graph.Var(reader.unique.take(item.arg), type_)
        reader.scope[item.arg] = var
        params.append(reader.placed(var, item))
    for name, size in graph.declared_sizes(params).items():
        reader.scope.setdefault(name, size)
    for statement in node.body:
        if reader.result is not None:
            raise reader.error(statement, "nothing follows return", "E129")
        reader.stmt(statement)
    place = source.word(node, node.name)
    if reader.result is None:
        raise reader.error(place, f"{node.name} returns nothing", "E129", "return x")
    reader.check_type(node.returns, reader.result, "the result")
    func = graph.Function(tuple(params), tuple(reader.blocks), reader.result, reader.attrs)
    return with_span(func, place)


# Statements


@GRAPHS.reads(ast.Expr)
def _expression(reader: Values, node: ast.Expr) -> None:
    form = GRAPHS.forms["action"].get(reader.called(node.value))
    if form is None:
        hint = "give the value a name: lv = R.add(x, y)"
        raise reader.error(node, "a value alone is not a statement", "E124", hint)
    reader.apply(form, node.value)


@GRAPHS.reads("R.func_attr(attributes)", role="action")
def _func_attr(reader: Values, call: ast.Call, attributes: Any) -> None:
    reader.attrs += attributes


@GRAPHS.reads("R.output(*values)", role="action")
def _output(reader: Values, call: ast.Call, values: list[ast.expr]) -> None:
    if reader.in_block != "R.dataflow":
        raise reader.error(call, "R.output belongs in a dataflow block", "E129", "return x")
    inside = {binding.var for binding in reader.bindings}
    reader.outputs = set()
    for item in values:
        value = reader.read(item)
        if not isinstance(item, ast.Name) or value not in inside:
            why = f"{ast.unparse(item)} is not bound in this block"
            raise reader.error(item, why, "E129", "R.output takes names bound in its block")
        reader.outputs.add(item.id)


@GRAPHS.reads(ast.AnnAssign)
def _ann_assign(reader: Values, node: ast.AnnAssign) -> None:
    if node.value is None:
        raise reader.error(node, "this name has no value", "E124", "lv: ... = R.add(x, y)")
    value = reader.expr(node.value)
    reader.check_type(node.annotation, value, ast.unparse(node.target))
    _bind(reader, node.target, value)


@GRAPHS.reads(ast.Assign)
def _assign(reader: Values, node: ast.Assign) -> None:
    target, siblings = node.targets[0], reader.siblings
    if isinstance(target, ast.Name) and _is_module(reader, target.id, node.value):
        reader.siblings = siblings._replace(owners=siblings.owners | {target.id})
        return
    if isinstance(target, ast.Name) and reader.called(node.value) in ("T.int64", "T.int32"):
        if target.id not in reader.scope:
            reader.unmeant.add(target.id)
        reader.scope[target.id] = size_of(target.id)
        return
    known = reader.read(node.value)
    if isinstance(target, ast.Name) and isinstance(known, Symbol):
        reader.scope[target.id] = known
        return
    value = reader.as_expr(known, node.value)
    if not isinstance(target, ast.Tuple | ast.List):
        _bind(reader, target, value)
        return
    fields = value.type.fields if isinstance(value.type, TupleType) else ()
    if len(fields) != len(target.elts):
        source = f"{len(fields)} field(s)" if fields else "a tensor"
        why = f"{len(target.elts)} names for {source}"
        raise reader.error(target, why, "E129", "one name for each field of the tuple")
    whole = reader.atom(value, node.value)
    for index, part in enumerate(target.elts):
        alone = whole.fields[index] if isinstance(whole, graph.Tuple) else None
        _bind(reader, part, alone or graph.TupleGetItem(whole, index))


def _is_module(reader: Values, target: str, value: ast.expr) -> bool:
    """Whether `target = value` is `cls = Module`, which TVM prints before calls of `cls.f`."""
    if not isinstance(value, ast.Name) or value.id in reader.scope:
        return False
    owners = reader.siblings.owners
    return value.id in owners or (target in owners and value.id not in reader.names)


def _bind(reader: Values, target: ast.expr, value: Expr) -> None:
    if not isinstance(target, ast.Name):
        raise reader.error(target, "a value's name is a plain name", "E124", "lv = R.add(x, y)")
    reader.scope[target.id] = reader.emit(target.id, value, target)
    reader.hidden.discard(target.id)


@GRAPHS.reads(ast.Return)
def _return(reader: Values, node: ast.Return) -> None:
    if reader.in_block:
        hint = "end the block with R.output(...), and return after it"
        raise reader.error(node, "return inside a block", "E129", hint)
    if node.value is None:
        raise reader.error(node, "a graph function returns a value", "E129", "return x")
    reader.result = reader.atom(reader.expr(node.value), node.value)
    _close(reader)


def _close(reader: Values, block: str = "") -> None:
    """End the open binding block: that of a construct, or the bindings outside any."""
    if reader.bindings or block:
        reader.blocks.append(graph.BindingBlock(tuple(reader.bindings), block == "R.dataflow"))
        reader.bindings = []


@GRAPHS.reads(ast.With)
def _with(reader: Values, node: ast.With) -> None:
    call = node.items[0].context_expr
    form = GRAPHS.forms["with"].get(reader.called(call))
    if form is None or len(node.items) > 1:
        raise reader.error(call, "with opens a block here", "E124", "with R.dataflow():")
    reader.apply(form, call, node)


@GRAPHS.reads("R.dataflow()", "R.block()", role="with")
def _block(reader: Values, call: ast.Call, node: ast.With) -> None:
    """A block of bindings; the names of a dataflow block end with it, except its outputs."""
    name = reader.called(call)
    if reader.in_block:
        raise reader.error(call, f"{name} inside {reader.in_block}", "E129", "end that block first")
    _close(reader)
    reader.in_block, before = name, dict(reader.scope)
    for item in node.body:
        if reader.outputs is not None:
            raise reader.error(item, "nothing follows R.output", "E129")
        reader.stmt(item)
    if name == "R.dataflow":
        if reader.outputs is None:
            hint = "R.output(lv) names the values used after it"
            raise reader.error(call, "a dataflow block ends with R.output", "E129", hint)
        bound = {n for n, v in reader.scope.items() if before.get(n) is not v}
        for ended in bound - reader.outputs:
            del reader.scope[ended]
            reader.hidden.add(ended)
    reader.in_block, reader.outputs = "", None
    _close(reader, name)


# In plain Python


@in_annotation
def _tensor(shape: Any = None, dtype: Any = None, ndim: int = -1) -> Any:
    """`R.Tensor(shape, dtype)`: the type of a tensor."""
    known = dtype is None or isinstance(dtype, str)
    return tensor_type(shape, dtype if known else dtype_name(dtype), ndim)


@in_annotation
def tuple_type(*fields: Any) -> TupleType:
    """`R.Tuple(type, ...)`: the type of a tuple."""
    items = fields[0] if len(fields) == 1 and isinstance(fields[0], list | tuple) else fields
    return TupleType(tuple(map(as_type, items)))


def _joint(
    op: str,
    callee: str,
    args: Any,
    out: Any = None,
    *,
    out_sinfo: Any = None,
    out_ty: Any = None,
    dtype: str | None = None,
    attrs: dict[str, object] | None = None,
) -> Call:
    several = (args,) if isinstance(args, Expr | np.ndarray) else args
    values = tuple(a if isinstance(a, Expr) else constant(a) for a in several)
    kind = out_type(next((o for o in (out, out_sinfo, out_ty) if o is not None), None), dtype)
    return Call(op, values, (("callee", str(callee)), *(attrs or {}).items()), kind)


MORE = [*Hook[Any]("constructs of R")]
"""Further constructs: a file enters its own."""

_VALUES = {
    **PARTS,
    "function": decorator(parse_function),
    "Tensor": _tensor,
    "Tuple": tuple_type,
    "const": const,
    "const_data": const_data,
    **{op: partial(_joint, op) for op in ("call_tir", "call_dps_packed", "call")},
    **{name: of for part in MORE for name, of in part.CONTROLS.items()},
    **dict.fromkeys(PLAIN, plain),
    **GRAPHS.markers("with", "action"),
}

_NAMES: list[Any] = [_VALUES, FUNCTIONS]
R: Any = Namespace("R", ChainMap(*_NAMES))
"""The graph language. In plain Python, `R.add(x, y)` is the call that `bb.emit` takes."""

GRAPH_LEVEL = Level("R.function", parse_function, {"R": R, "relax": Namespace("relax", {"op": R})})
