"""How tile programs are read: a named tile gets a buffer, and one nest of loops that fills it."""

import ast
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from minimlc.constants import is_folded
from minimlc.names import UniqueNames
from minimlc.node import nodes_of
from minimlc.script.constructs import Language
from minimlc.script.reader import PYTHON, Reader
from minimlc.script.source import Names, Source
from minimlc.tile import values as tiles
from minimlc.tile.values import Elements, Place, Shape, Tile, of_buffer, shape_of, spread
from minimlc.tir import nodes as tir
from minimlc.tir.functions import FUNCTIONS, ceildiv
from minimlc.tir.nodes import Buffer, Expr, Load, Stmt, Var
from minimlc.tir.operators import identity

TILE = Language(
    "tile program",
    PYTHON,
    {
        ast.Return: "it writes its results to the buffers it is given: tile.store(C[at], value)",
        ast.While: "for k in range(0, n, step):",
    },
)

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **{name: function for name, function in FUNCTIONS.items() if name not in ("max", "min")},
    "maximum": partial(tir.binary, "max"),
    "minimum": partial(tir.binary, "min"),
    "where": tir.select,
    "cdiv": ceildiv,
}
"""Functions of numbers, that tile programs apply to each element."""

WIDER = {"int8": "int32", "uint8": "int32", "float16": "float32", "bfloat16": "float32"}
"""The dtypes in which products of narrow numbers are added up."""

Body = Callable[[Place], Stmt]
_KINDS: dict[str, tir.IterKind] = {"S": "S", "R": "R", "O": "O"}


class Tiles(Reader):
    """Reads one tile program. `programs` are the variables of the `grid`; `allocs` the buffers of
    named tiles, `changing` those of names that inner suites give new values, each with the depth of
    the suite that has it; `stmts` are those of the suite that is read, at `depth`; `here` is the
    statement; `written` are the parameters that the program stores to.
    """

    language = TILE

    def __init__(self, source: Source, names: Names, grid: Shape, programs: Sequence[Var]):
        Reader.__init__(self, source, names)
        self.grid, self.programs = grid, programs
        self.allocs: list[Buffer] = []
        self.changing: dict[str, tuple[Buffer, int]] = {}
        self.depth = 0
        self.stmts: list[Stmt] = []
        self.here: ast.stmt = ast.Pass()
        self.written: set[Buffer] = set()
        self.unique, self.loops = UniqueNames(), UniqueNames()
        self.blocks = UniqueNames(reserved=(), spell=str)

    def stmt(self, node: ast.stmt) -> None:
        self.here = node
        Reader.stmt(self, node)

    # Values

    def symbolic(self, node: ast.expr, op: str, operands: list[Any]) -> Any:
        for value in operands:
            if not isinstance(value, Tile | Expr | bool | int | float):
                raise self.error(node, f"{op} of {_kind(value)}", "E108", _LOAD_HINT)
        match op, operands:
            case "+", [a]:
                return a
            case (("-" | "not" | "~"), [a]):
                return self.each(node, lambda a: tir.unary(op, a), a)
            case "if", [test, a, b]:
                return self.each(node, tir.select, test, a, b)
            case "@", [a, b]:
                return dot(self, node, a, b)
            case _, [a, b]:
                return self.each(node, lambda a, b: tir.binary(op, a, b), a, b)
        raise self.error(node, f"a tile program cannot call {op}", "E124")

    def each(self, node: ast.expr, function: Callable[..., Expr], *values: Any) -> Any:
        """A function of numbers on each element; of numbers alone it is a number."""
        if not any(isinstance(value, Tile) for value in values):
            return self.guard(node, function, *values)
        return self.guard(node, tiles.each, function, *values)

    def construct(self, node: ast.Call, name: str) -> Any:
        form = self.language.forms["value"].get(name)
        if form is not None:
            return self.apply(form, node)
        function = ELEMENTWISE.get(name.removeprefix("tile."))
        if function is None or node.keywords:
            raise self.error(node.func, f"{name} gives no value", "E124")
        return self.each(node, function, *map(self.read, node.args))

    def tile(self, node: ast.expr) -> Tile:
        """A tile; a number is one of shape ()."""
        value = self.read(node)
        if isinstance(value, Tile):
            return value
        if isinstance(value, Expr | bool | int | float):
            return tiles.filled((), value)
        raise self.error(node, f"expected a tile, got {_kind(value)}", "E108", _LOAD_HINT)

    def elements(self, node: ast.expr) -> Elements:
        """`A[rows, columns]`: where to load or store."""
        value = self.read(node)
        if isinstance(value, Elements):
            return value
        raise self.error(node, f"expected A[at], got {_kind(value)}", "E108", _AT)

    # Statements

    def emit(
        self, shape: Shape, name: str, body: Body, kinds: str = "", init: Body | None = None
    ) -> None:
        """A nest of loops over a shape around one block; what it does is given its iters."""
        loops = [Var(self.loops.take(letter)) for letter in _letters(len(shape))]
        iters = tuple(
            tir.BlockIter(Var(f"v{var.name}"), side, _KINDS[kind], var)
            for var, side, kind in zip(loops, shape, kinds or "S" * len(shape), strict=True)
        )
        place = [it.var for it in iters]
        start = None if init is None else init(place)
        stmt: Stmt = tir.Block(self.blocks.take(name), iters, None, start, body(place))
        for part in [*nodes_of(stmt, tir.Block), *nodes_of(stmt, tir.Store)]:
            self.placed(part, self.here)
        for var, side in zip(reversed(loops), reversed(shape), strict=True):
            stmt = tir.For(var, tir.index(side), "serial", stmt)
        self.stmts.append(stmt)

    def fresh(self, name: str, shape: Shape, dtype: str) -> Buffer:
        """A buffer of the program's own."""
        buffer = Buffer(self.unique.take(name), shape, dtype)
        self.allocs.append(buffer)
        return buffer

    def kept(self, value: Tile, name: str) -> Buffer:
        """A buffer that holds a tile from here on."""
        buffer = self.fresh(name, value.shape, value.dtype)
        self.fill(buffer, value)
        return buffer

    def fill(self, buffer: Buffer, value: Tile) -> None:
        def body(place: Place) -> Stmt:
            return tir.Store(buffer, tuple(place), spread(value, place))

        self.emit(buffer.shape, buffer.name, body)

    def assign(self, node: ast.stmt, name: str, value: Any) -> None:
        """`name = value`."""
        if isinstance(self.scope.get(name), Buffer):
            raise self.error(node, f"{name} is a parameter", "E124", "tile.store(C[at], x)")
        if name in self.changing and self.depth > self.changing[name][1]:
            renew(self, node, name, value)
            return
        self.changing.pop(name, None)
        if isinstance(value, Tile) and value.is_read:
            self.scope[name] = of_buffer(self.kept(value, name))
        elif isinstance(value, Buffer | Elements):
            raise self.error(node, f"{name} would be {_kind(value)}", "E124", _LOAD_HINT)
        else:
            self.scope[name] = value

    # Suites

    @contextmanager
    def suite(self) -> Iterator[list[Stmt]]:
        """The statements of an indented suite. Names that it binds end with it."""
        outer, changing = self.stmts, dict(self.changing)
        self.stmts, self.depth = [], self.depth + 1
        with self.own_names():
            yield self.stmts
        self.stmts, self.depth, self.changing = outer, self.depth - 1, changing


def operand(reader: Tiles, value: Tile, name: str) -> Tile:
    """A tile that is read many times: computed once, unless it is in memory as it is."""
    plain = isinstance(value.element, Load) or not value.is_read
    return value if plain else of_buffer(reader.kept(value, name))


def renew(reader: Tiles, node: ast.stmt, name: str, value: Any) -> None:
    """A new value for a name that has one of a loop before."""
    buffer = reader.changing[name][0]
    new = value if isinstance(value, Tile) else tiles.filled((), value, buffer.dtype)
    if (new.shape, new.dtype) != (buffer.shape, buffer.dtype):
        why = f"{name} is {buffer.dtype}{list(buffer.shape)} before the loop"
        why += f", {new.dtype}{list(new.shape)} in it"
        raise reader.error(node, why, "E108", f"{name} = tile.full({new.shape}, 0, ...)")
    probe = [Var(f"i{axis}") for axis in range(len(buffer.shape))]
    own = [part for part in nodes_of(spread(new, probe), Load) if part.buffer is buffer]
    if not all(part.indices == tuple(probe) for part in own):
        new = of_buffer(reader.kept(new, name))
    reader.fill(buffer, new)


def dot(reader: Tiles, node: ast.expr, a: Tile, b: Tile, into: Buffer | None = None) -> Tile:
    """The product of two matrices, added to what `into` holds."""
    if len(shape_of(a)) != 2 or len(shape_of(b)) != 2 or a.shape[1] != b.shape[0]:
        why = f"no product of tiles of shapes {shape_of(a)} and {shape_of(b)}"
        raise reader.error(node, why, "E109", "tile.dot takes (m, k) and (k, n)")
    a, b = operand(reader, a, "a"), operand(reader, b, "b")
    dtype = WIDER.get(a.dtype, a.dtype)

    def element(place: Place) -> Expr:
        i, j, k = place
        return spread(a, (i, k)).astype(dtype) * spread(b, (k, j)).astype(dtype)

    shape = (a.shape[0], b.shape[1], a.shape[1])
    return reduce(reader, "dot", "+", Tile(shape, element), (2,), into)


def reduce(
    reader: Tiles, name: str, op: str, value: Tile, axes: Container[int], into: Buffer | None = None
) -> Tile:
    """The elements of a tile combined along some axes, and with what `into` holds."""
    kinds = "".join("R" if n in axes else "S" for n in range(len(value.shape)))
    kept = [n for n, kind in enumerate(kinds) if kind == "S"]
    out = into or reader.fresh(name, tuple(value.shape[n] for n in kept), value.dtype)

    def update(place: Place) -> Stmt:
        at = [place[n] for n in kept]
        return tir.Store(out, tuple(at), tir.binary(op, Load(out, tuple(at)), value.at(place)))

    def start(place: Place) -> Stmt:
        first = tir.as_expr(identity(op, out.dtype), out.dtype)
        return tir.Store(out, tuple(place[n] for n in kept), first)

    reader.emit(value.shape, out.name, update, kinds, None if into else start)
    return of_buffer(out)


def make_changing(reader: Tiles, node: ast.stmt, body: Iterable[ast.stmt]) -> None:
    """Names with a value that a suite gives new ones get a buffer before it."""
    for name in sorted(_assigned(body) & reader.scope.keys() - reader.changing.keys()):
        value = reader.scope[name]
        if isinstance(value, Buffer):
            continue  # an error where it is assigned
        if is_folded(value):
            hint = f'{name} = tile.full((), {value!r}, "float32")'
            raise reader.error(node, f"{name} changes here: it needs a dtype", "E123", hint)
        tile = value if isinstance(value, Tile) else tiles.filled((), value)
        buffer = reader.kept(tile, name)
        reader.changing[name] = buffer, reader.depth
        reader.scope[name] = of_buffer(buffer)


_AT = "tile.load(A[at]), with at = tile.program_id(0) * 128 + tile.arange(0, 128)"
_LOAD_HINT = "x = tile.load(A[at])"


def _kind(value: Any) -> str:
    if isinstance(value, Buffer | Elements):
        buffer = value if isinstance(value, Buffer) else value.buffer
        return f"elements of {buffer.name}: load them"
    return f"a {type(value).__name__}"


def _letters(count: int) -> list[str]:
    return list("ijklmn"[:count]) if count <= 6 else [f"i{n}" for n in range(count)]


def _assigned(body: Iterable[ast.stmt]) -> set[str]:
    parts = (part for stmt in body for part in ast.walk(stmt))
    return {p.id for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)}
