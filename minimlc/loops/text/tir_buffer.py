"""Buffers and numbers of the loop language: parameters, allocations, variables."""

import ast
from typing import Any

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.nodes import SCALAR, Buffer, Var
from minimlc.loops.text.constructs import Form
from minimlc.loops.text.source import PythonNode, parameters, unquoted
from minimlc.loops.text.tir_expr import COUNTS, LOOPS, Item, Loops, View
from minimlc.loops.values.dtypes import DTYPES
from minimlc.loops.values.parts import Hook

VIEWS = Hook[Any]("views of buffers")
_PARAMETER_HINT = '{}: T.Buffer((128, 128), "float32")'


def declare_variable(reader: Loops, name: str, place: PythonNode, kind: str) -> Var:
    """`n = T.int32()`: the name stands for a variable; one that counts is of the indices' dtype."""
    dtype = kind.removeprefix("T.")
    var = reader.placed(Var(reader.loop_names.take(name), COUNTS.get(dtype, dtype)), place)
    reader.declared[name] = reader.scope[name] = var
    return var


def declare(
    reader: Loops, name: str, place: PythonNode, shape: Any, dtype: str, scope: str = "global"
) -> Buffer:
    """Bind a new buffer; its name is kept from the loops."""
    buffer = reader.placed(Buffer(name, shape, dtype, scope), place)
    reader.loop_names.take(name)
    reader.scope[name] = buffer
    return buffer


@LOOPS.reads(
    'T.match_buffer(handle, shape, dtype="float32", scope="global", **layout)', role="assign"
)
def _match(
    reader: Loops,
    call: ast.Call,
    target: ast.Name,
    handle: str | ast.Subscript,
    layout: dict[str, Any],
    **kind: Any,
) -> None:
    """`A = T.match_buffer(a, (n,), "float32")`: the parameter `a` is the buffer A. Of a region of
    another buffer, A is that region.
    """
    if isinstance(handle, ast.Subscript):
        view = _views(reader, call).region_view(reader, target, handle, kind["shape"])
        _name_view(reader, call, view, kind["dtype"])
        return
    check_memory(reader, target.id, kind["shape"], layout, call)
    reader.params[handle] = declare(reader, target.id, call, **kind)


def check_memory(
    reader: Loops, name: str, shape: Any, layout: dict[str, Any], place: PythonNode
) -> None:
    """Refuse a layout that is not that of a separate array."""
    if layout:
        _views(reader, place).check_offset(reader, name, shape, layout)


def _views(reader: Loops, place: PythonNode) -> Any:
    """The reader of other names for parts of buffers, and of options for their memory."""
    views = VIEWS.first
    if views is None:
        raise reader.error(place, "a buffer has memory of its own here", "E124")
    return views


def _name_view(reader: Loops, call: ast.Call, view: View, dtype: str) -> None:
    """A name for part of a buffer; its elements are the buffer's."""
    if dtype != view.buffer.dtype:
        why = f"{view.buffer.name} holds {view.buffer.dtype}, and {view.name} would hold {dtype}"
        raise reader.error(call, why, "E108", f'dtype="{view.buffer.dtype}"')
    reader.scope[view.name] = view


@LOOPS.reads(
    'T.alloc_buffer(shape, dtype="float32", scope="global", **layout)',
    'T.decl_buffer(shape, dtype="float32", data=None, strides=None, elem_offset=None, '
    'scope="global", **layout)',
    role="assign",
)
def _alloc(
    reader: Loops, call: ast.Call, target: ast.Name, layout: dict[str, Any], **bound: Any
) -> list[Item] | None:
    """An allocation of the function: for all of it, or for the statements that follow."""
    kind = {key: bound.pop(key) for key in ("shape", "dtype", "scope")}
    layout |= {option: node for option, node in bound.items() if node is not None}
    data = layout.get("data")
    if isinstance(data, ast.Attribute) and data.attr == "data":
        view = _views(reader, call).data_view(reader, target.id, data, kind["shape"], layout)
        _name_view(reader, call, view, kind["dtype"])
        return None
    check_memory(reader, target.id, kind["shape"], layout, call)
    buffer, header = declare(reader, target.id, call, **kind), reader.inside("function")
    if header is None:
        return [buffer]
    header.allocs.append(buffer)
    return None


@LOOPS.reads("T.var(dtype)", "T.Var(name, dtype)", role="assign")
def _var(
    reader: Loops, call: ast.Call, target: ast.Name, dtype: str, name: ast.expr | None = None
) -> None:
    """`n = T.var("int32")`, as `n = T.int32()`."""
    declare_variable(reader, target.id, target, dtype)


_BUFFER = Form('T.Buffer(shape, dtype="float32", scope="global", **layout)', declare)


def declare_parameters(reader: Loops, node: ast.FunctionDef) -> None:
    """`A: T.Buffer((n,), "float32")`, or `a: T.handle`, whose buffer is still to come. Numbers are
    read first: shapes may name them.
    """
    kinds = {
        item: unquoted(reader.source, written)
        for item, written in parameters(reader.source, node, _PARAMETER_HINT)
    }
    paths = {item: reader.called(kind) or reader.path(kind) for item, kind in kinds.items()}
    for item, path in paths.items():
        is_number = path.removeprefix("T.") in DTYPES
        reader.params[item.arg] = _scalar(reader, item, path) if is_number else None
    for item, kind in kinds.items():
        if paths[item] == "T.handle" or reader.params[item.arg] is not None:
            continue
        call = _as_call(kind)
        if call is None or reader.path(call.func) != _BUFFER.name:
            why, hint = f"the parameter {item.arg} must be a buffer", _PARAMETER_HINT
            raise reader.error(kind, why, "E126", hint.format(item.arg))
        bound = reader.arguments(_BUFFER, call)
        check_memory(reader, item.arg, bound["shape"], bound.pop("layout"), item)
        reader.params[item.arg] = declare(reader, item.arg, item, **bound)


def _scalar(reader: Loops, item: ast.arg, kind: str) -> Buffer | Var:
    """`n: T.int32` is a size, that each call has; a number of another dtype is data, only read."""
    if kind.removeprefix("T.") in COUNTS:
        return declare_variable(reader, item.arg, item, kind)
    buffer = declare(reader, item.arg, item, (), kind.removeprefix("T."), SCALAR)
    reader.scope[item.arg] = ir.Load(buffer, ())
    return buffer


def _as_call(node: ast.expr) -> ast.Call | None:
    """`T.Buffer(...)`; also `T.Buffer[(n,), "float32"]`, as older scripts spell it."""
    if isinstance(node, ast.Subscript):
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        flat = not any(isinstance(a, ast.Tuple | ast.List | ast.Constant) for a in arguments[:1])
        call = ast.Call(node.value, [node.slice] if flat else list(arguments), [])
        return ast.copy_location(call, node)
    return node if isinstance(node, ast.Call) else None
