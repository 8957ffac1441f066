"""The script language of the loop IR: `T` and `@T.prim_func`; its blocks and functions.

The body of a script never runs: its syntax tree is read, with the constants around it folded in.
"""

import ast
from collections import ChainMap
from collections.abc import Callable
from types import ModuleType
from typing import Any

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.functions import FUNCTIONS
from minimlc.loops.proofs.arith import constant_value, key
from minimlc.loops.text.constructs import Marker, Namespace
from minimlc.loops.text.definition import decorator
from minimlc.loops.text.reader import HELPERS, items_of
from minimlc.loops.text.source import Names, Source
from minimlc.loops.text.tir_buffer import declare_parameters
from minimlc.loops.text.tir_expr import LOOPS, Header, Item, Loop, Loops, between
from minimlc.loops.text.tir_stmt import integral, items, moved, note, suite
from minimlc.loops.values.dtypes import INDEX, is_size
from minimlc.loops.values.errors import shown
from minimlc.loops.values.node import replace, span_of, walk, with_span
from minimlc.loops.values.parts import Hook

_LETTERS_HINT = '"S" spatial, "R" reduction, "O" opaque'
_AXIS_KIND_OF: dict[str, ir.IterKind] = {
    **{f"T.axis.{kind}": kind for kind in ir.ITER_KINDS},
    **{spelling: kind for kind, spelling in ir.ITER_KINDS.items()},
}
BLOCK_CHECKS = Hook[Callable[[Loops, ast.Call, ir.Block, Header], None]]("checks of blocks")
"""The checks of a block against the declarations in its header."""


@LOOPS.reads("T.block(name=None)", role="with")
def _block(reader: Loops, call: ast.Call, node: ast.With, name: ast.expr | None) -> list[Item]:
    if _is_root(reader, call, node.body):
        with reader.own_names():
            return items(reader, [item for item in node.body if not _is_access(reader, item)])
    if node.items[0].optional_vars is not None:
        hint = "its axes are written inside: vi = T.axis.spatial(128, i)"
        raise reader.error(node.items[0].optional_vars, "a block has no as", "E124", hint)
    said = "" if name is None else reader.string(name, "a block's name")
    unique = reader.block_names.take(said or "block")
    header = Header("block")
    body = suite(reader, node.body, header)
    part, iters = header.parts.get, tuple(header.iters)
    attrs = part("T.block_attr", ())
    block = ir.Block(unique, iters, part("T.where"), part("T.init"), body, attrs)
    for check in BLOCK_CHECKS:
        check(reader, call, block, header)
    return [reader.placed(block, call)]


def _is_root(reader: Loops, call: ast.Call, body: list[ast.stmt]) -> bool:
    """Whether a block is the root block, without axes and with blocks inside, that TVM prints
    around a whole body.
    """
    if not reader.inside("function") or [ast.unparse(a) for a in call.args] != ["'root'"]:
        return False
    values = [item.value for item in body if isinstance(item, ast.Assign)]
    if any(reader.called(value).startswith("T.axis.") for value in values):
        return False
    inner = [part for item in body for part in ast.walk(item) if isinstance(part, ast.With)]
    return bool(inner) or any(_is_access(reader, item) for item in body)


def _is_access(reader: Loops, item: ast.stmt) -> bool:
    """Whether a statement declares what the root block reads or writes: the whole function does."""
    call: Any = item.value if isinstance(item, ast.Expr) else None
    return reader.called(call) in ("T.reads", "T.writes")


def _header(reader: Loops, node: ast.expr, name: str) -> Header:
    """The header of the block around."""
    header = reader.inside("block")
    if header is None:
        hint = 'with T.block("C"):'
        raise reader.error(node, f"{name} belongs directly inside a block", "E125", hint)
    return header


@LOOPS.reads("T.init()", role="with")
def _init(reader: Loops, call: ast.Call, node: ast.With) -> None:
    body = suite(reader, node.body)
    note(reader, call, _header(reader, call, "T.init"), "T.init", body)


@LOOPS.reads("T.where(condition)", role="action")
def _where(reader: Loops, call: ast.Call, condition: ast.expr) -> ir.Expr:
    return reader.is_bool(condition, reader.expr(condition), "T.where(i * 4 + j < n)")


# Axes


@LOOPS.reads(*(f"{name}(extent, value)" for name in _AXIS_KIND_OF), role="axis")
def _axis(
    reader: Loops, call: ast.Call, target: ast.expr, extent: ast.expr, value: ast.expr
) -> None:
    """`vi = T.axis.spatial(128, i)`."""
    name = reader.called(call)
    header = _header(reader, call, name)
    low, size = _axis_range(reader, extent)
    begin = integral(reader, value, f"an axis takes an {INDEX} value")
    loop = reader.loops.get(begin)
    start = loop.start if loop is not None and loop.step == 1 else None
    if loop is not None and start is not None and key(start) == key(low):
        begin = loop.var
    elif constant_value(low) != 0:
        begin = ir.binary("-", begin, low)
    _add_iter(reader, header, target, size, _AXIS_KIND_OF[name], begin, low)


def _axis_range(reader: Loops, node: ast.expr) -> tuple[ir.Expr, Any]:
    """The first of an axis's values, and how many there are: of `n` or `(low, high)`."""
    value = reader.read(node)
    ends = value if isinstance(value, tuple) and len(value) == 2 else (0, value)
    low, high = (_end(reader, end) for end in ends)
    if not all(is_size(end) or reader.symbolic_size(end) is not None for end in (low, high)):
        value = reader.constant(node, "an axis's extent")
        why = f"an axis's extent is an integer or (integer, integer), got {shown(value)}"
        raise reader.error(node, why, "E125")
    start, size = ir.as_expr(low), between(ir.as_expr(low), ir.as_expr(high))
    if not isinstance(size, ir.Const):
        return start, size
    if size.value < 0:
        why = f"an axis's extent is (integer, integer) from low to high, got ({low}, {high})"
        raise reader.error(node, why, "E125")
    return start, int(size.value)


def _end(reader: Loops, value: Any) -> Any:
    """The start or the end of an axis: a number, or an expression over the function's sizes."""
    size = reader.symbolic_size(value)
    return reader.folded(value) if size is None else size


def _add_iter(
    reader: Loops,
    header: Header,
    target: ast.expr,
    extent: Any,
    kind: Any,
    value: ir.Expr,
    start: ir.Expr | None,
    step: int = 1,
) -> None:
    """An axis of the block. Iters of the tree begin at 0, as loops do."""
    if not isinstance(target, ast.Name):
        raise reader.error(target, "an axis has one name", "E125")
    var = ir.Var(target.id)
    if not isinstance(extent, ir.Expr):
        reader.sizes[var] = extent
    header.iters.append(reader.placed(ir.BlockIter(var, extent, kind, value), target))
    reader.scope[target.id] = moved(var, start, step)


@LOOPS.reads("T.axis.remap(kinds, loops)", role="axis")
def _remap(
    reader: Loops, call: ast.Call, target: ast.expr, kinds: ast.expr, loops: ast.expr
) -> None:
    """`vi, vj = T.axis.remap("SR", [i, j])`."""
    header = _header(reader, call, "T.axis.remap")
    letters = reader.string(kinds, "the axis kinds")
    for position, letter in enumerate(letters):
        if letter not in ir.ITER_KINDS:
            span = reader.source.span(kinds)
            start = min(span.column + 1 + position, span.end_column - 1)
            place = span._replace(column=start, end_column=start + 1)
            raise reader.error(place, f'unknown axis kind "{letter}"', "E125", _LETTERS_HINT)
    if not isinstance(loops, ast.List | ast.Tuple):
        raise reader.error(loops, "the loops are a list, [i, j]", "E125")
    targets = items_of(target)
    if not len(letters) == len(loops.elts) == len(targets):
        why = f"{len(targets)} name(s), {len(letters)} kind(s) and {len(loops.elts)} loop(s)"
        odd = kinds if len(loops.elts) == len(targets) else target
        hint = 'vi, vj = T.axis.remap("SR", [i, j])'
        raise reader.error(odd, f"{why} do not match", "E125", hint)
    values = [_loop_of(reader, node) for node in loops.elts]
    for name, letter, loop in zip(targets, letters, values, strict=True):
        extent = reader.sizes.get(loop.var, loop.extent)
        _add_iter(reader, header, name, extent, letter, loop.var, loop.start, loop.step)


def _loop_of(reader: Loops, node: ast.expr) -> Loop:
    """The loop that a variable belongs to."""
    value, text = reader.read(node), ast.unparse(node)
    loop = reader.loops.get(value) if isinstance(value, ir.Expr) else None
    if loop and (loop.var in reader.sizes or reader.symbolic_size(loop.extent) is not None):
        return loop
    why = f"{text} is not the variable of a loop"
    if loop is not None:
        why = f"the extent of {text} is not a constant"
    raise reader.error(node, why, "E125", f"vi = T.axis.spatial(extent, {text})")


# Functions


def parse_prim_func(
    source: Source, node: ast.FunctionDef, names: Names, module: object = None
) -> ir.PrimFunc | ir.SymbolicFunc:
    """The primitive function that a `def` describes."""
    reader, header = Loops(source, names), Header("function")
    declare_parameters(reader, node)
    body = suite(reader, node.body, header)
    for name, buffer in reader.params.items():
        if buffer is None:
            hint = f'A = T.match_buffer({name}, (128,), "float32")'
            why = f"the handle {name} is never matched to a buffer"
            raise reader.error(source.word(node, name), why, "E126", hint)
    params = tuple(param for param in reader.params.values() if isinstance(param, ir.Buffer))
    func = ir.PrimFunc(params, tuple(header.allocs), body)
    attrs, span = header.parts.get("T.func_attr", ()), source.word(node, node.name)
    sizes = _sizes(reader, node, func)
    if not sizes:
        return with_span(replace(func, attrs=attrs), span)
    passed = [(at, p) for at, p in enumerate(reader.params.values()) if isinstance(p, ir.Var)]
    return with_span(ir.SymbolicFunc(sizes, tuple(passed), with_span(func, span), attrs), span)


def _sizes(reader: Loops, node: ast.FunctionDef, func: ir.PrimFunc) -> tuple[ir.Var, ...]:
    """The sizes of a function: scalar parameters, and variables in the shapes of parameters."""
    passed = [param for param in reader.params.values() if isinstance(param, ir.Var)]
    found = {size for param in func.params for size in param.shape if isinstance(size, ir.Var)}
    used = {part for part in walk(func) if isinstance(part, ir.Var)}
    for var in reader.declared.values():
        if var in used and var not in found and var not in passed:
            why = f"nothing determines {var.name}: it is not a size of a parameter"
            hint = f"{var.name}: T.int64  # as a parameter, or in the shape of one"
            raise reader.error(span_of(var) or node, why, "E136", hint)
    rest = (var for var in reader.declared.values() if var in found and var not in passed)
    return (*passed, *rest)


MORE = [*Hook[ModuleType]("constructs of T")]
"""Further constructs: a file enters its own."""

_MARKERS = {
    **LOOPS.markers("action", "alone", "loop", "assign", "with", "value"),
    "seq": Marker("T.seq"),
    **{name: Marker(f"T.{name}", annotates=True) for name in ("Buffer", "handle")},
    "axis": Namespace("T.axis", LOOPS.markers("axis")),
    "prim_func": decorator(parse_prim_func),
    **{name: value for helpers in HELPERS for name, value in helpers.NAMES.items()},
}

T: Any = Namespace("T", ChainMap(_MARKERS, FUNCTIONS))
"""The loop language. In plain Python, `T.exp`, `T.max`, `T.float32` ... build expressions."""
