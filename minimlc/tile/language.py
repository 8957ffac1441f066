"""How tile programs are read: a named tile gets a buffer, and one nest of loops that fills it."""

import ast
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.nodes import Buffer, Expr, Load, Stmt, Store, Var, as_expr
from minimlc.loops.ir.operators import identity
from minimlc.loops.text.constructs import Form, Language
from minimlc.loops.text.reader import PYTHON, Reader, is_none
from minimlc.loops.text.source import Names, Source
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import nodes_of, structural_equal
from minimlc.services.checks.programs import ATOMIC
from minimlc.tile.values import Elements, Place, Shape, Tile, each, spread, tile_of

_RETURN = "it writes its results to the buffers it is given: tile.store(C[at], value)"
_WHILE = "for k in range(0, n, step):"
TILE = Language("tile program", PYTHON, {ast.Return: _RETURN, ast.While: _WHILE})
WIDER = {"int8": "int32", "uint8": "int32", "float16": "float32", "bfloat16": "float32"}
"""The dtypes in which products of narrow numbers are added up."""
SUMS = dict.fromkeys(("int8", "int16"), "int32")
SUMS |= dict.fromkeys(("bool", "uint8", "uint16"), "uint32")
"""The dtypes in which narrow integers are added up, as in Triton."""

_UNARY = {"-": tir.unary, "not": tir.unary, "~": tir.unary, "+": lambda _, value: value}
_HINT = "x = tile.load(A[at]), with at = tile.program_id(0) * 128 + tile.arange(0, 128)"
At = Callable[[Place], Sequence[Expr]]


class Tiles(Reader):
    """Reads one tile program. `programs` are the variables of the `grid`; `allocs` the buffers of
    tiles, `changing` the buffers of names that suites around assign anew; `stmts` has the
    statements of the suite that is read, `here` is the current one.
    """

    language = TILE

    def __init__(self, source: Source, names: Names, grid: Shape):
        Reader.__init__(self, source, names)
        self.unique, self.loops = UniqueNames(), UniqueNames()
        self.blocks = UniqueNames(reserved=(), spell=str)
        axes = ["program"] if len(grid) == 1 else [f"program_{axis}" for axis in range(len(grid))]
        self.grid, self.programs = grid, [Var(self.loops.take(name)) for name in axes]
        self.allocs: list[Buffer] = []
        self.changing: dict[str, Buffer] = {}
        self.stmts: list[Stmt] = []
        self.here: ast.stmt = ast.Pass()

    def stmt(self, node: ast.stmt) -> None:
        self.here = node
        Reader.stmt(self, node)

    # Values

    def loaded(self, node: ast.expr, value: Any) -> Any:
        """A value that is not in memory."""
        if not isinstance(value, Buffer | Elements):
            return value
        name = value.name if isinstance(value, Buffer) else value.element.buffer.name
        raise self.error(node, f"elements of {name}: load them", "E108", _HINT)

    def symbolic(self, node: ast.expr, op: str, operands: list[Any]) -> Any:
        if op == "@":
            return dot(self, node, *operands)
        function = tir.binary if len(operands) == 2 else _UNARY.get(op)
        if function is None:
            raise self.error(node, f"a tile program cannot call {op}", "E124")
        return self.each(node, partial(function, op), *operands)

    def each(self, node: ast.expr, function: Callable[..., Any], *values: Any) -> Any:
        """A function of numbers on each element; of numbers alone it is a number."""
        return self.guard(node, each, function, *(self.loaded(node, value) for value in values))

    def construct(self, node: ast.Call, name: str) -> Any:
        form = self.language.forms["value"].get(name)
        return self.apply(form, node) if form else Reader.construct(self, node, name)

    def path(self, node: ast.expr) -> str:
        """A construct's name. `x.to` is one, of any tile."""
        name = Reader.path(self, node)
        return name or ("tile.to" if isinstance(node, ast.Attribute) and node.attr == "to" else "")

    def argument(self, form: Form, name: str, node: Any) -> Any:
        match name:
            case _ if is_none(node):
                return None
            case "dtype" | "shape":
                return Reader.argument(self, form, name, node)
            case "axis" | "start" | "stop" | "step" | "bins":
                return self.integer(node, name)
            case "elements":
                if isinstance(value := self.read(node), Elements):
                    return value
                raise self.error(node, "expected elements of a buffer, A[at]", "E108", _HINT)
            case _:
                return self.loaded(node, self.read(node))

    # Statements

    def emit(
        self,
        out: Buffer,
        value: Tile,
        at: At,
        kinds: str = "",
        op: str = "",
        mask: Any = None,
        atomic: bool = False,
    ) -> None:
        """A nest of loops over a shape around one block, `out[at(place)] = value.at(place)`; with
        `op` combined with what is there, and with its identity before axes that are reduced ("R").
        """
        loops = [Var(self.loops.take(letter)) for letter in ("ijklmn" * 6)[: len(value.shape)]]
        axes = zip(loops, value.shape, kinds or "S" * len(loops), strict=True)
        iters = tuple(tir.BlockIter(Var(f"v{v.name}"), n, kind, v) for v, n, kind in axes)  # type: ignore[arg-type]
        place = [it.var for it in iters]
        indices, new = tuple(at(place)), value.at(place).astype(out.dtype)
        new = tir.binary(op, Load(out, indices), new) if op else new
        body: Stmt = self.placed(Store(out, indices, new), self.here)
        body = body if mask is None else tir.IfThenElse(condition(spread(mask, place)), body)
        start = as_expr(identity(op, out.dtype), out.dtype) if "R" in kinds else None
        init = None if start is None else self.placed(Store(out, indices, start), self.here)
        notes = ((ATOMIC, True),) if atomic else ()
        block = tir.Block(self.blocks.take(out.name), iters, None, init, body, notes)
        self.stmts.append(nest(loops, value.shape, self.placed(block, self.here)))

    def fresh(self, name: str, shape: Shape, dtype: str) -> Buffer:
        """A new buffer of the program."""
        buffer = Buffer(self.unique.take(name), shape, dtype)
        self.allocs.append(buffer)
        return buffer

    def kept(self, value: Tile, name: str) -> Tile:
        """A tile in a buffer, which holds it from here on."""
        buffer = self.fresh(name, value.shape, value.element.dtype)
        self.emit(buffer, value, tuple)
        return tile_of(buffer)

    def store(self, to: Tile, value: Any, mask: Any = None, kind: str = "S", op: str = "") -> None:
        """Write elements; other elements of the buffer that their values need are read before."""
        place = [Var(f"i{axis}") for axis in range(len(to.shape))]
        cell = to.at(place)

        def apart(part: Any) -> Any:
            loads = nodes_of(as_expr(spread(part, place)), Load)
            others = [load for load in loads if load.buffer is cell.buffer]
            same = all(structural_equal(load, cell) for load in others)
            return part if same and not (others and op) else self.kept(part, cell.buffer.name)

        new, mask = apart(value), None if mask is None else apart(mask)
        whole = Tile(to.shape, lambda at: as_expr(spread(new, at)))
        indirect = any(nodes_of(index, Load) for index in cell.indices)
        kinds = ("O" if indirect else kind) * len(place)  # lanes may meet at indices from data
        self.emit(cell.buffer, whole, lambda at: to.at(at).indices, kinds, op, mask, bool(op))

    def assign(self, node: ast.stmt, target: ast.expr, value: Any) -> None:
        """`target = value`. A name has a buffer to itself."""
        name = target.id if isinstance(target, ast.Name) else ""
        if not name or isinstance(self.scope.get(name), Buffer):
            raise self.error(target, "a tile's name on the left", "E124", "tile.store(C[at], x)")
        shared = {None, *(item.buffer for item in self.scope.values() if isinstance(item, Tile))}
        if name in self.changing:
            value = self.renew(node, name, self.changing[name], value)
        elif isinstance(value, Tile) and value.is_read and value.buffer in shared:
            value = self.kept(value, name)
        self.scope[name] = value

    def renew(self, node: ast.stmt, name: str, old: Buffer, value: Any) -> Tile:
        """A new value for a name that has one from before the suite."""
        new = value if isinstance(value, Tile) else Tile((), lambda _: as_expr(value, old.dtype))
        dtype = new.element.dtype
        if (new.shape, dtype) != (old.shape, old.dtype):
            why = f"{name} is {old.dtype}{list(old.shape)} before, {dtype}{list(new.shape)} here"
            raise self.error(node, why, "E108", f"{name} = tile.full({new.shape}, 0, {dtype!r})")
        self.store(tile_of(old), new)
        return tile_of(old)

    def suites(self, node: ast.stmt, *bodies: list[ast.stmt], **bound: Any) -> list[Stmt]:
        """Indented suites. Names that they bind end with them; those from before that get new
        values keep them in buffers.
        """
        local = {name for name, value in self.scope.items() if not isinstance(value, Buffer)}
        names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
        stored = {part.id for part in names if isinstance(part.ctx, ast.Store)}
        known = sorted((stored & local) - bound.keys())
        for name in known:
            tile = tile_of(self.scope[name])
            self.scope[name] = tile if tile.buffer else self.kept(tile, name)
        outer, changing, done = self.stmts, self.changing, []
        self.changing = {name: self.scope[name].buffer for name in known}
        for body in bodies:
            self.stmts = []
            with self.own_names():
                self.scope |= bound
                for item in body:
                    self.stmt(item)
            done.append(tir.seq(self.stmts))
        self.stmts, self.changing = outer, changing
        return done


def condition(value: Any) -> Expr:
    """A value as a condition."""
    return tir.select(value, True, False).condition  # type: ignore[attr-defined]


def nest(loops: Sequence[Var], sizes: Sequence[int], body: Stmt, note: str = "") -> Stmt:
    """Loops over a shape, outer to inner; with a `note`, that of their axes."""
    for axis in reversed(range(len(loops))):
        notes = ((note, axis),) if note else ()
        body = tir.For(loops[axis], tir.index(sizes[axis]), "serial", body, annotations=notes)
    return body


def dot(reader: Tiles, node: ast.expr, left: Any, right: Any) -> Tile:
    """The product of two matrices. An operand that is not in memory is computed once."""
    a, b = tile_of(left), tile_of(right)
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        why = f"no product of {a.shape} and {b.shape}"
        raise reader.error(node, why, "E109", "(m, k) and (k, n)")
    a, b = (x if isinstance(x.element, Load) else reader.kept(x, "side") for x in (a, b))

    def product(a: Expr, b: Expr) -> Expr:
        return tir.binary("*", *(x.astype(WIDER.get(x.dtype, x.dtype)) for x in (a, b)))

    row, column = a.reshaped(False, True, False), b.T.reshaped(True, False, False)
    return reduce(reader, "dot", "+", reader.each(node, product, row, column), {2})


def reduce(reader: Tiles, name: str, op: str, value: Tile, axes: Collection[int]) -> Tile:
    """The elements of a tile combined along some axes."""
    kinds = "".join("R" if n in axes else "S" for n in range(len(value.shape)))
    kept = [n for n, kind in enumerate(kinds) if kind == "S"]
    out = reader.fresh(name, tuple(value.shape[n] for n in kept), value.element.dtype)
    reader.emit(out, value, lambda place: [place[n] for n in kept], kinds, op)
    return tile_of(out)
