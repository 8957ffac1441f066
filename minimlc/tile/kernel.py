"""`tile`: its names and statements, and `@tile.kernel`, which makes a function of a program."""

import ast
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.functions import FUNCTIONS, ceildiv
from minimlc.loops.ir.nodes import Buffer, Expr, PrimFunc, Var, as_expr, load
from minimlc.loops.text.constructs import Namespace
from minimlc.loops.text.definition import read
from minimlc.loops.text.reader import combine, element, is_none, items_of
from minimlc.loops.text.source import Names, Source
from minimlc.loops.text.tir_buffer import declare_parameters
from minimlc.loops.text.tir_expr import Loops, form_of
from minimlc.loops.text.tir_stmt import moved
from minimlc.loops.values.constants import is_folded
from minimlc.loops.values.dtypes import INDEX, is_size
from minimlc.loops.values.errors import CompileError
from minimlc.services.checks.programs import PROGRAMS
from minimlc.tile.language import SUMS, TILE, Tiles, condition, dot, nest, reduce
from minimlc.tile.values import Elements, Place, Shape, Tile, broadcast, spread, tile_of


def kernel(grid: int | Sequence[int]) -> Callable[..., PrimFunc]:
    """A decorator: the function runs once for each program of a grid of up to three axes.

    Raises `CompileError`, at the line that it is about.
    """
    sizes = tuple(grid) if isinstance(grid, list | tuple) else (grid,)
    if not 1 <= len(sizes) <= 3 or not all(map(is_size, sizes)):
        why = f"a grid has one to three sizes, got {grid!r}"
        raise CompileError(why, code="E126", hint="@tile.kernel(grid=(tile.cdiv(n, 128),))")
    frame = sys._getframe(1)

    def reading(source: Source, node: ast.FunctionDef, names: Names) -> PrimFunc:
        return source.guard(node, _function, Tiles(source, names, sizes), node)

    return lambda func: read(ast.FunctionDef, func, frame, reading)


def _function(reader: Tiles, node: ast.FunctionDef) -> PrimFunc:
    header = Loops(reader.source, reader.names)
    declare_parameters(header, node)
    params = {name: p for name, p in header.params.items() if isinstance(p, Buffer)}
    if params != header.params:
        raise reader.error(node, "the parameters of a tile program are buffers", "E126")
    reader.scope |= params
    reader.unique.reserve(params)
    for item in node.body:
        reader.stmt(item)
    body = nest(reader.programs, reader.grid, tir.seq(reader.stmts), PROGRAMS)
    return PrimFunc((*params.values(),), (*reader.allocs,), body, (("global_symbol", node.name),))


# Statements


@TILE.reads(ast.Assign)
def _assign(reader: Tiles, node: ast.Assign) -> None:
    """`x = value`; `x, y = y, x` takes both values before it gives them names."""
    targets = items_of(node.targets[0])
    values = items_of(node.value) if len(targets) > 1 else [node.value]
    if len(targets) != len(values):
        raise reader.error(node, f"{len(targets)} names for {len(values)} value(s)", "E124")
    read = [reader.loaded(value, reader.read(value)) for value in values]
    if len(targets) > 1:
        read = [reader.kept(x, "value") if isinstance(x, Tile) and x.is_read else x for x in read]
    for target, value in zip(targets, read, strict=True):
        reader.assign(node, target, value)


@TILE.reads(ast.AugAssign)
def _update(reader: Tiles, node: ast.AugAssign) -> None:
    old, value = reader.read(node.target), reader.read(node.value)
    reader.assign(node, node.target, combine(reader, node.value, node.op, old, value))


@TILE.reads(ast.Expr)
def _alone(reader: Tiles, node: ast.Expr) -> None:
    form = TILE.forms["action"].get(reader.called(node.value))
    if form is None:
        raise reader.error(node, "this does nothing here", "E124", "tile.store(C[at], x)")
    reader.apply(form, node.value)


@TILE.reads(ast.For)
def _for(reader: Tiles, node: ast.For) -> None:
    """`for k in range(start, stop, step)`."""
    name = reader.called(node.iter) or ast.unparse(node.iter).split("(")[0]
    form = TILE.forms["loop"].get(name)
    if form is None or not isinstance(node.target, ast.Name) or node.orelse:
        raise reader.error(node, "a loop is over a range", "E125", "for k in range(0, n, step):")
    start, step, count = reader.apply(form, node.iter)
    var = Var(reader.loops.take(node.target.id))
    value = moved(var * step if step > 1 else var, as_expr(start))
    (body,) = reader.suites(node, node.body, **{node.target.id: value})
    kind: tir.LoopKind = "serial" if name == "range" else "unrolled"
    reader.stmts.append(tir.For(var, as_expr(count, INDEX), kind, body))


@TILE.reads("range(a, b=None, step=1)", "tile.static_range(a, b=None, step=1)", role="loop")
def _range(reader: Tiles, call: ast.Call, a: Any, step: int, b: Any) -> tuple[Any, int, Any]:
    """The start and the step of a range, and how many steps it has."""
    start, stop = (0, a) if b is None else (a, b)
    if step < 1 or isinstance(start, Tile) or isinstance(stop, Tile):
        raise reader.error(call, "a range is known before, its step above 0", "E123", "mask")
    whole = stop if is_folded(start) and not start else stop - start
    return start, step, ceildiv(max(whole, 0) if isinstance(whole, int) else whole, step)


@TILE.reads(ast.If)
def _if(reader: Tiles, node: ast.If) -> None:
    test = reader.loaded(node.test, reader.read(node.test))
    if is_folded(test):
        for item in node.body if test else node.orelse:
            reader.stmt(item)
        return
    if broadcast(test) != ():
        raise reader.error(node.test, "one value decides for all", "E108", "tile.where(test, a, b)")
    cases = reader.suites(node, *filter(None, (node.body, node.orelse)))
    reader.stmts.append(tir.IfThenElse(condition(spread(test, ())), *cases))


@TILE.reads(ast.Subscript)
def _subscript(reader: Tiles, node: ast.Subscript) -> Any:
    """`A[rows, columns]`, elements of a buffer; or `x[:, None]`."""
    owner, parts = reader.read(node.value), items_of(node.slice)
    if isinstance(owner, Buffer):
        places = [tile_of(reader.loaded(part, reader.read(part))) for part in parts]
        read = [reader.kept(x, "at") if x.is_read and not x.buffer else x for x in places]
        return Elements(broadcast(*read), lambda at: load(owner, [spread(x, at) for x in read]))
    if not isinstance(owner, Tile):
        return element(reader, node, owner)
    whole = [ast.unparse(part) == ":" for part in parts]
    added = list(map(is_none, parts))
    if not all(map(max, added, whole)) or sum(whole) != len(owner.shape):
        raise reader.error(node, "a tile is indexed by : and None only", "E107", "x[:, None]")
    return owner.reshaped(*added)


@TILE.reads("tile.to(dtype)", role="value")
def _to(reader: Tiles, call: Any, dtype: str) -> Any:
    """`x.to("float32")`."""
    return reader.each(call, lambda x: as_expr(x).astype(dtype), reader.read(call.func.value))


# Memory


@TILE.reads("tile.program_id(axis)", role="value")
def _program_id(reader: Tiles, call: ast.Call, axis: int) -> Expr:
    if not 0 <= axis < len(reader.programs):
        raise reader.error(call, f"the grid has {len(reader.programs)} axes", "E126")
    return reader.programs[axis]


@TILE.reads("tile.num_programs(axis)", role="value")
def _num_programs(reader: Tiles, call: ast.Call, axis: int) -> int:
    return dict(enumerate(reader.grid)).get(axis, 1)


@TILE.reads("tile.load(elements, mask=None, other=0)", role="value")
def _load(reader: Tiles, call: ast.Call, elements: Elements, mask: Any, other: Any) -> Tile:
    value = Tile(elements.shape, elements.at)
    return value if mask is None else reader.each(call, tir.select, mask, value, other)


def _write(op: str, reader: Tiles, node: ast.Call, elements: Tile, value: Any, mask: Any) -> None:
    """A store of a value, or of its sum with what is there; then elements may meet ("O")."""
    if broadcast(elements, value, mask) != elements.shape:
        why = f"a value of shape {broadcast(value)} is stored to elements of {elements.shape}"
        raise reader.error(node, why, "E109")
    reader.store(elements, value, mask, "O" if op else "S", op)


for _name, _op in (("store", ""), ("atomic_add", "+")):
    _usage = f"tile.{_name}(elements, value, mask=None)"
    TILE.reads(_usage, role="action")(partial(_write, _op))


# Tiles


def _elementwise(function: Any, reader: Tiles, call: ast.Call, **values: Any) -> Any:
    """A function of numbers, applied to each element."""
    return reader.each(call, function, *values.values())


_NAMED = {"maximum": FUNCTIONS["max"], "minimum": FUNCTIONS["min"], "where": tir.select}
for _name, _function_of in {**FUNCTIONS, **_NAMED, "cdiv": ceildiv}.items():
    _usage = form_of(_name, _function_of).usage.replace("T.", "tile.", 1)
    TILE.reads(_usage, role="value")(partial(_elementwise, _function_of))


@TILE.reads("tile.arange(start, stop)", role="value")
def _arange(reader: Tiles, call: ast.Call, start: int, stop: int) -> Tile:
    if stop <= start:
        raise reader.error(call, f"{start} ... {stop} is empty", "E123")
    return Tile((stop - start,), lambda place: place[0] + start if start else place[0])


@TILE.reads('tile.full(shape, value, dtype="float32")', role="value")
@TILE.reads('tile.zeros(shape, dtype="float32")', role="value")
def _full(reader: Tiles, call: ast.Call, shape: Shape, dtype: str, value: Any = 0) -> Tile:
    number = as_expr(value, dtype).astype(dtype)
    return Tile(shape, lambda _: number)


TILE.reads("tile.trans(x)", role="value")(lambda reader, call, x: tile_of(x).T)


@TILE.reads("tile.dot(a, b, acc=None)", role="value")
def _dot(reader: Tiles, call: ast.Call, a: Any, b: Any, acc: Any) -> Any:
    product = dot(reader, call, a, b)
    return product if acc is None else reader.each(call, partial(tir.binary, "+"), acc, product)


# Along an axis


def _reduced(name: str, op: str, reader: Tiles, call: ast.Call, x: Any, axis: int | None) -> Tile:
    value = _summed(tile_of(x)) if op == "+" else tile_of(x)
    return reduce(reader, name, op, value, _axes(reader, call, x, axis))


def _summed(x: Tile) -> Tile:
    """A tile whose elements are wide enough to be added up."""
    wide = SUMS.get(x.element.dtype)
    return x if wide is None else Tile(x.shape, lambda at: as_expr(x.at(at)).astype(wide))


def _axes(reader: Tiles, call: ast.Call, x: Any, axis: int | None) -> set[int]:
    """The axes of a tile that an `axis` means: that one, or all."""
    count = len(tile_of(x).shape)
    if axis is None:
        return set(range(count))
    if not -count <= axis < count:
        raise reader.error(call, f"a tile of shape {broadcast(x)} has no axis {axis}", "E109")
    return {axis % count}


for _name, _op in (("sum", "+"), ("max", "max"), ("min", "min")):
    TILE.reads(f"tile.{_name}(x, axis=None)", role="value")(partial(_reduced, _name, _op))


@TILE.reads("tile.cumsum(x, axis=0)", role="value")
def _cumsum(reader: Tiles, call: ast.Call, x: Any, axis: int) -> Tile:
    value, (along,) = _summed(tile_of(x)), _axes(reader, call, x, axis)
    held = reader.kept(value, "cumsum")

    def body(place: Place) -> Expr:
        before = tuple(var - 1 if n == along else var for n, var in enumerate(place))
        sum_ = tir.select(place[along] > 0, held.at(before), as_expr(0, held.element.dtype))
        return tir.binary("+", sum_, held.at(place))

    kinds = "".join("O" if n == along else "S" for n in range(len(value.shape)))
    reader.emit(held.element.buffer, Tile(value.shape, body), tuple, kinds)
    return held


@TILE.reads("tile.histogram(x, bins)", role="value")
def _histogram(reader: Tiles, call: ast.Call, x: Any, bins: int) -> Tile:
    """How often each of 0 ... bins-1 is among the elements; others are not counted."""
    value = tile_of(x)

    def is_it(place: Place) -> Expr:
        number = value.at(place[:-1]).astype(INDEX)
        return tir.binary("==", number, place[-1]).astype("int32")

    hits = Tile((*value.shape, bins), is_it)
    return reduce(reader, "histogram", "+", hits, _axes(reader, call, x, None))


tile = Namespace("tile", {**TILE.markers(*TILE.forms), "cdiv": ceildiv, "kernel": kernel})
"""The names of tile programs."""
