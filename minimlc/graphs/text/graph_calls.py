"""Calls of other functions in the graph language: by `R.call_tir` and its like, and by name."""

import ast
from typing import Any, NoReturn

from minimlc.graphs.ir import nodes as graph
from minimlc.graphs.ir.dimensions import FAMILIES
from minimlc.graphs.ir.nodes import Call, Tuple, Type
from minimlc.graphs.op import FUNCTIONS
from minimlc.graphs.text.graph_types import out_type
from minimlc.graphs.text.graph_value import GRAPHS, Values, options_of
from minimlc.loops.text.reader import call
from minimlc.loops.values.errors import Span, did_you_mean

_OUT = "out=None, out_sinfo=None, dtype=None, attrs=None, out_ty=None"


@GRAPHS.reads(
    f"R.call_tir(callee, args, {_OUT})",
    f"R.call_dps_packed(callee, args, {_OUT})",
    "R.call(callee, args, out=None, attrs=None)",
    role="value",
)
def _joint(
    reader: Values,
    node: ast.Call,
    callee: ast.expr,
    args: ast.expr,
    out: ast.expr | None,
    attrs: tuple[tuple[str, Any], ...] | None,
    out_sinfo: ast.expr | None = None,
    dtype: str | None = None,
    out_ty: ast.expr | None = None,
) -> Call:
    """A call of another function, by its name."""
    name, op = callee_of(reader, callee), reader.called(node)[2:]
    values = reader.expr(args)
    atoms = values.fields if isinstance(values, Tuple) else (reader.atom(values, args),)
    out = out or out_sinfo or out_ty
    if out is not None:
        kind = reader.guard(out, out_type, reader.read(out), dtype)
    elif op == "call":
        kind = result_type_of(reader, name, node, [atom.type for atom in atoms])
    else:
        hint = f'R.{op}("{name}", (x,), out=R.Tensor((1, 784), "float32"))'
        raise reader.error(node, f"R.{op} misses out, its result's type", "E121", hint)
    return reader.placed(Call(op, atoms, (("callee", name), *(attrs or ())), kind), node)


def callee_of(reader: Values, node: ast.expr) -> str:
    """`"mm"`, `cls.mm`, `Module.mm`, or the name of a function beside this one."""
    match node:
        case ast.Attribute(ast.Name(owner)) if owner in reader.siblings.owners:
            return _sibling(reader, node)
        case ast.Name(name) if name in reader.siblings.names:
            return name
        case ast.Name(name) if name not in reader.scope and name not in reader.names:
            _no_sibling(reader, node, name)
    return reader.string(node, "the function to call")


def _sibling(reader: Values, node: ast.Attribute) -> str:
    """The name of the function that `cls.name` means."""
    if node.attr not in reader.siblings.names:
        _no_sibling(reader, reader.source.attribute(node), node.attr)
    return node.attr


def _no_sibling(reader: Values, place: ast.expr | Span, name: str) -> NoReturn:
    hint = did_you_mean(name, reader.siblings.names)
    raise reader.error(place, f'the module has no function "{name}"', "E122", hint)


@GRAPHS.reads(ast.Call)
def _call(reader: Values, node: ast.Call) -> Any:
    """Also `cls.fused(x, y)`, a call of a graph function of this module, and `x.astype(dtype)`."""
    func = node.func
    if isinstance(func, ast.Attribute) and func.attr == "astype" and not reader.path(func):
        values = [reader.operand(item) for item in (func.value, *node.args)]
        return reader.operator(node, FUNCTIONS["cast"], values, options_of(reader, node, "astype"))
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
        return call(reader, node)
    if func.value.id not in reader.siblings.owners:
        return call(reader, node)
    name = _sibling(reader, func)
    if node.keywords:
        raise reader.error(node.keywords[0], f"{name} takes no keywords", "E121")
    args = tuple([reader.as_expr(reader.operand(a), a) for a in node.args])
    kind = result_type_of(reader, name, node, [arg.type for arg in args])
    return reader.placed(Call("call", args, (("callee", name),), kind), node)


def result_type_of(reader: Values, name: str, node: ast.Call, types: list[Type]) -> Type:
    """The type that a graph function of this module returns for values of these types."""
    func, syntax = reader.siblings.done.get(name), reader.siblings.names.get(name)
    if isinstance(func, graph.Function):
        families, result = FAMILIES.first, func.result.type
        return reader.guard(node, families.result_for, func, types) if families else result
    if func is not None:
        hint = f'R.call_tir("{name}", (x,), out=R.Tensor((1, 784), "float32"))'
        raise reader.error(node.func, f"{name} is a primitive function", "E129", hint)
    if syntax is None or syntax.returns is None:
        hint = f"def {name}(...) -> R.Tensor(...):, or R.call(..., out=R.Tensor(...))"
        raise reader.error(node, f"the type that {name} returns is not known", "E126", hint)
    return reader.type(syntax.returns)
