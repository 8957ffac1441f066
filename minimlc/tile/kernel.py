"""`tile`: its names, and `@tile.kernel`, which makes a primitive function of a tile program."""

import ast
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from minimlc.dtypes import is_size
from minimlc.errors import CompileError
from minimlc.script.constructs import Namespace
from minimlc.script.definition import read
from minimlc.script.source import Names, Source
from minimlc.script.tir_buffer import declare_parameters
from minimlc.script.tir_expr import Loops
from minimlc.tile import syntax as _syntax  # noqa: F401 (enters how statements are read)
from minimlc.tile import values as tiles
from minimlc.tile.language import ELEMENTWISE, TILE, Tiles, dot, operand, reduce
from minimlc.tile.values import Place, Shape, Tile, broadcast, of_buffer, shape_of, spread
from minimlc.tir import nodes as tir
from minimlc.tir.nodes import Buffer, Expr, Load, PrimFunc, Stmt, Store, Var


def kernel(grid: int | Sequence[int]) -> Callable[[FunctionType], PrimFunc]:
    """A decorator: the function runs once for each program of a grid of up to three axes.

    Raises `CompileError`, at the line that it is about.
    """
    sizes = tuple(grid) if isinstance(grid, list | tuple) else (grid,)
    if not 1 <= len(sizes) <= 3 or not all(map(is_size, sizes)):
        why = f"a grid has one to three sizes, got {grid!r}"
        raise CompileError(why, code="E126", hint="@tile.kernel(grid=(tile.cdiv(n, 128),))")
    frame = sys._getframe(1)

    def decorate(func: FunctionType) -> PrimFunc:
        return read(ast.FunctionDef, func, frame, partial(_read, sizes))

    return decorate


def _read(sizes: Shape, source: Source, node: ast.FunctionDef, names: Names) -> PrimFunc:
    return source.guard(node, _function, sizes, source, node, names)


def _function(sizes: Shape, source: Source, node: ast.FunctionDef, names: Names) -> PrimFunc:
    header = Loops(source, names)
    declare_parameters(header, node)
    params = tuple(p for p in header.params.values() if isinstance(p, Buffer))
    one = len(sizes) == 1
    programs = [Var("program" if one else f"program_{axis}") for axis in range(len(sizes))]
    reader = Tiles(source, names, sizes, programs)
    for var in programs:
        reader.loops.take(var.name)
    for param in params:
        reader.scope[param.name] = param
        reader.unique.take(param.name)
    reader.written = {param for param in params if _is_stored(node, param.name)}
    for item in node.body:
        reader.stmt(item)
    body: Stmt = tir.seq(reader.stmts)
    for var, size in zip(reversed(programs), reversed(sizes), strict=True):
        body = tir.For(var, tir.index(size), "serial", body)
    attrs = (("global_symbol", node.name),)
    return PrimFunc(params, tuple(reader.allocs), body, attrs)


def _is_stored(node: ast.FunctionDef, name: str) -> bool:
    """Whether a program stores to a buffer."""
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    stores = [c for c in calls if ast.unparse(c.func).rsplit(".")[-1] in ("store", "atomic_add")]
    named = [item.value for call in stores for item in call.keywords if item.arg == "elements"]
    first = [*named, *(call.args[0] for call in stores if call.args)]
    return any(ast.unparse(getattr(part, "value", part)) == name for part in first)


# Memory


@TILE.reads("tile.program_id(axis)", role="value")
def _program_id(reader: Tiles, call: ast.Call, axis: ast.expr) -> Expr:
    number = reader.integer(axis, "an axis")
    if not 0 <= number < len(reader.programs):
        raise reader.error(axis, f"the grid has {len(reader.programs)} axes", "E126")
    return reader.programs[number]


@TILE.reads("tile.num_programs(axis)", role="value")
def _num_programs(reader: Tiles, call: ast.Call, axis: ast.expr) -> int:
    number = reader.integer(axis, "an axis")
    return reader.grid[number] if 0 <= number < len(reader.grid) else 1


@TILE.reads("tile.load(elements, mask=None, other=0)", role="value")
def _load(reader: Tiles, call: ast.Call, elements: ast.expr, mask: Any, other: Any) -> Tile:
    place = reader.elements(elements)
    dtype = place.buffer.dtype
    masked = None if mask is None else reader.tile(mask)
    rest = tir.as_expr(other if isinstance(other, int) else reader.read(other), dtype)

    def at(indices: Place) -> Expr:
        value = Load(place.buffer, tuple(place.at(indices)))
        return value if masked is None else tir.select(spread(masked, indices), value, rest)

    shape = place.shape if masked is None else broadcast(place.shape, masked.shape)
    value = Tile(shape, at)
    # What is written later is read now.
    return (
        of_buffer(reader.kept(value, place.buffer.name))
        if place.buffer in reader.written
        else value
    )


def _write(
    kind: str, reader: Tiles, call: ast.Call, elements: ast.expr, value: ast.expr, mask: Any
) -> None:
    """A store of a value, or of its sum with what is there; then elements may meet ("O")."""
    place, stored = reader.elements(elements), reader.tile(value)
    masked = None if mask is None else reader.tile(mask)
    buffer, shape = place.buffer, place.shape
    if broadcast(shape, stored.shape, shape_of(masked)) != shape:
        why = f"a value of shape {stored.shape} is stored to elements of shape {shape}"
        raise reader.error(call, why, "E109")

    def body(at: Place) -> Stmt:
        indices, new = tuple(place.at(at)), spread(stored, at).astype(buffer.dtype)
        whole = tir.binary("+", Load(buffer, indices), new) if kind == "O" else new
        done = Store(buffer, indices, whole)
        return done if masked is None else tir.IfThenElse(spread(masked, at), done)

    reader.emit(shape, buffer.name, body, kind * len(shape))


for _name, _kind in (("store", "S"), ("atomic_add", "O")):
    _usage = f"tile.{_name}(elements, value, mask=None)"
    TILE.reads(_usage, role="action")(partial(_write, _kind))


# Tiles


@TILE.reads("tile.arange(start, stop)", role="value")
def _arange(reader: Tiles, call: ast.Call, start: ast.expr, stop: ast.expr) -> Tile:
    first, last = reader.integer(start, "the start"), reader.integer(stop, "the stop")
    if last <= first:
        raise reader.error(call, f"{first} ... {last} is empty", "E123")
    return tiles.counted(first, last)


@TILE.reads(
    'tile.full(shape, value, dtype="float32")', 'tile.zeros(shape, dtype="float32")', role="value"
)
def _full(reader: Tiles, call: ast.Call, shape: Shape, dtype: str, value: Any = None) -> Tile:
    number = 0 if value is None else reader.constant(value, "the value")
    return tiles.filled(shape, number, dtype)


@TILE.reads("tile.trans(x)", role="value")
def _trans(reader: Tiles, call: ast.Call, x: ast.expr) -> Tile:
    return reader.tile(x).T


@TILE.reads("tile.dot(a, b, acc=None)", role="value")
def _dot(reader: Tiles, call: ast.Call, a: ast.expr, b: ast.expr, acc: Any) -> Any:
    product = dot(reader, call, reader.tile(a), reader.tile(b))
    if acc is None:
        return product
    return reader.each(call, partial(tir.binary, "+"), reader.tile(acc), product)


# Along an axis


def _reduced(name: str, op: str, reader: Tiles, call: ast.Call, x: ast.expr, axis: Any) -> Tile:
    value = reader.tile(x)
    return reduce(reader, name, op, value, _axes(reader, value, axis))


def _axes(reader: Tiles, value: Tile, axis: Any) -> set[int]:
    if axis is None:
        return set(range(len(value.shape)))
    number = reader.integer(axis, "an axis")
    if not -len(value.shape) <= number < len(value.shape):
        raise reader.error(axis, f"a tile of shape {value.shape} has no axis {number}", "E109")
    return {number % len(value.shape)}


for _name, _op in (("sum", "+"), ("max", "max"), ("min", "min")):
    TILE.reads(f"tile.{_name}(x, axis=None)", role="value")(partial(_reduced, _name, _op))


@TILE.reads("tile.cumsum(x, axis=0)", role="value")
def _cumsum(reader: Tiles, call: ast.Call, x: ast.expr, axis: Any) -> Tile:
    value = reader.tile(x)
    (along,) = _axes(reader, value, axis) if isinstance(axis, ast.expr) else {0}
    out = reader.fresh("cumsum", value.shape, value.dtype)

    def body(place: Place) -> Stmt:
        before = [var - 1 if n == along else var for n, var in enumerate(place)]
        zero = tir.as_expr(0, value.dtype)
        sum_ = tir.select(place[along] > 0, Load(out, tuple(before)), zero)
        return Store(out, tuple(place), tir.binary("+", sum_, value.at(place)))

    kinds = "".join("O" if n == along else "S" for n in range(len(value.shape)))
    reader.emit(value.shape, out.name, body, kinds)
    return of_buffer(out)


@TILE.reads("tile.histogram(x, bins)", role="value")
def _histogram(reader: Tiles, call: ast.Call, x: ast.expr, bins: ast.expr) -> Tile:
    """How often each of 0 ... bins-1 is among the elements; others are not counted."""
    value = operand(reader, reader.tile(x), "x")
    count = reader.integer(bins, "the number of bins")
    out = reader.kept(tiles.filled((count,), 0, "int32"), "histogram")

    def body(place: Place) -> Stmt:
        at = value.at(place).astype("int64")
        new = tir.binary("+", Load(out, (at,)), tir.as_expr(1, "int32"))
        inside = tir.binary("and", at >= 0, at < count)
        return tir.IfThenElse(inside, Store(out, (at,), new))

    reader.emit(value.shape, out.name, body, "O" * len(value.shape))
    return of_buffer(out)


tile = Namespace("tile", {**ELEMENTWISE, **TILE.markers("value", "action"), "kernel": kernel})
"""The names of tile programs."""
