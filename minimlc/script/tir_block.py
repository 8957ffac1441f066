"""Blocks of the loop language: axes, predicate, declared accesses, init, body."""

import ast
from collections.abc import Iterable
from typing import Any, NamedTuple

from minimlc.dtypes import INDEX, is_size
from minimlc.errors import Span, shown
from minimlc.names import UniqueNames
from minimlc.node import with_span
from minimlc.script.constructs import forms
from minimlc.script.source import Names, Source
from minimlc.script.tir_stmt import Item, StmtReader, sequence
from minimlc.tir.analysis.regions import check_declared
from minimlc.tir.nodes import (
    Annotations,
    Block,
    BlockIter,
    Buffer,
    Const,
    Expr,
    IterKind,
    Stmt,
    Var,
    binary,
    index,
)

FORMS = forms(
    "T.block(name)",
    "T.init()",
    "T.where(condition)",
    "T.block_attr(attributes)",
    "T.reads(*regions)",
    "T.writes(*regions)",
    "T.axis.spatial(extent, value)",
    "T.axis.reduce(extent, value)",
    "T.axis.opaque(extent, value)",
    "T.axis.S(extent, value)",
    "T.axis.R(extent, value)",
    "T.axis.O(extent, value)",
    "T.axis.remap(kinds, loops)",
)
_KIND_OF: dict[str, IterKind] = {
    "T.axis.spatial": "S",
    "T.axis.reduce": "R",
    "T.axis.opaque": "O",
    "T.axis.S": "S",
    "T.axis.R": "R",
    "T.axis.O": "O",
}
_LETTERS: dict[str, IterKind] = {"S": "S", "R": "R", "O": "O"}
_LETTERS_HINT = '"S" spatial, "R" reduction, "O" opaque'
Region = tuple[Buffer, tuple[tuple[Expr, Expr], ...]]


class _Header(NamedTuple):
    """What a block says before its body, as far as it has been read."""

    iters: list[BlockIter]
    parts: dict[str, Any]


class BlockReader(StmtReader):
    """Reads statements, blocks among them."""

    def __init__(self, source: Source, names: Names):
        StmtReader.__init__(self, source, names)
        self.block_names = UniqueNames(reserved=(), spell=str)
        self.header: _Header | None = None

    def suite(self, nodes: Iterable[ast.stmt]) -> Stmt:
        outer, self.header = self.header, None
        body = StmtReader.suite(self, nodes)
        self.header = outer
        return body

    def with_block(self, node: ast.With, name: str) -> list[Item]:
        call: Any = node.items[0].context_expr
        if name == "T.init":
            FORMS[name].bind(self.source, call)
            self.once(call, "init", self.suite(node.body))
            return []
        if name != "T.block":
            return StmtReader.with_block(self, node, name)
        if node.items[0].optional_vars is not None:
            hint = "its axes are written inside: vi = T.axis.spatial(128, i)"
            raise self.error(node.items[0].optional_vars, "a block has no as", "E124", hint)
        given = self.string(FORMS[name].bind(self.source, call)["name"], "a block's name")
        return [self.block(self.block_names.take(given), node.body, call)]

    def block(self, name: str, nodes: list[ast.stmt], place: ast.expr) -> Block:
        outer, self.header = self.header, _Header([], {})
        with self.scope.suite():
            body = sequence(self.items(nodes))
        (iters, parts), self.header = self.header, outer
        where, init = parts.get("where"), parts.get("init")
        block = Block(name, tuple(iters), where, init, body, parts.get("block_attr", ()))
        if "reads" in parts or "writes" in parts:
            reads, writes = parts.get("reads"), parts.get("writes")
            self.source.guard(place, check_declared, block, reads, writes, self.sizes)
        return with_span(block, self.source.span(place))

    def once(self, node: ast.expr, key: str, value: Any) -> None:
        """Note a part of the block that is being read."""
        if self.header is None:
            hint = 'with T.block("C"):'
            raise self.error(node, f"T.{key} belongs directly inside a block", "E125", hint)
        if key in self.header.parts:
            raise self.error(node, f"this block has a T.{key} already", "E125")
        self.header.parts[key] = value

    # Calls that stand as statements

    def action(self, node: ast.Expr, name: str) -> list[Item]:
        if self.header is None or name not in FORMS:
            return StmtReader.action(self, node, name)
        call: Any = node.value
        bound = FORMS[name].bind(self.source, call)
        match name:
            case "T.where":
                self.once(call, "where", self.condition(bound["condition"]))
            case "T.block_attr":
                self.once(call, "block_attr", self.block_attr(bound["attributes"]))
            case "T.reads" | "T.writes":
                self.once(call, name[2:], self.regions(bound["regions"]))
            case _:
                return StmtReader.action(self, node, name)
        return []

    def condition(self, node: ast.expr) -> Expr:
        value = self.expr(node)
        if value.dtype != "bool":
            why = f"a condition must be bool, got {value.dtype}"
            raise self.error(node, why, "E108", "T.where(i * 4 + j < n)")
        return value

    def block_attr(self, node: ast.expr) -> Annotations:
        return self.dictionary(node, "T.block_attr")

    def regions(self, nodes: list[ast.expr]) -> tuple[Region, ...]:
        """`A[i, 0:4]`, ..., also as one list of them."""
        items = nodes[0].elts if len(nodes) == 1 and isinstance(nodes[0], ast.List) else nodes
        return tuple(self.region(item) for item in items)

    def region(self, node: ast.expr) -> Region:
        if not isinstance(node, ast.Subscript):
            buffer = self.buffer(node)
            return buffer, tuple((index(0), index(size)) for size in buffer.shape)
        buffer = self.buffer(node.value)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) != buffer.ndim:
            why = f"{buffer.name} has {buffer.ndim} dimension(s), got {len(items)} index(es)"
            raise self.error(node, why, "E107", f"{buffer.name} has shape {buffer.shape}")
        sizes = zip(items, buffer.shape, strict=True)
        return buffer, tuple(self.interval(item, size) for item, size in sizes)

    def interval(self, node: ast.expr, size: int) -> tuple[Expr, Expr]:
        """The first index and the extent of `i`, `lo:hi` or `:`."""
        if not isinstance(node, ast.Slice):
            return self.index(node), index(1)
        low = index(0) if node.lower is None else self.index(node.lower)
        high = index(size) if node.upper is None else self.index(node.upper)
        if isinstance(low, Const) and isinstance(high, Const):
            return low, index(int(high.value) - int(low.value))
        if isinstance(low, Const) and low.value == 0:
            return low, high
        return low, binary("-", high, low)

    # Axes

    def stmt_Assign(self, node: ast.Assign) -> list[Item]:
        name = self.path(node.value.func) if isinstance(node.value, ast.Call) else ""
        if not name.startswith("T.axis."):
            return StmtReader.stmt_Assign(self, node)
        call: Any = node.value
        if self.header is None:
            hint = 'with T.block("C"):'
            raise self.error(call, f"{name} belongs directly inside a block", "E125", hint)
        target = node.targets[0]
        if name == "T.axis.remap":
            self.remap(target, FORMS[name].bind(self.source, call))
        else:
            self.axis(target, name, FORMS[name].bind(self.source, call))
        return []

    def axis(self, target: ast.expr, name: str, bound: dict[str, ast.expr]) -> None:
        """`vi = T.axis.spatial(128, i)`."""
        extent = self.axis_extent(bound["extent"])
        value = self.expr(bound["value"], INDEX)
        if value.dtype != INDEX:
            why = f"an axis takes an {INDEX} value, got {value.dtype}"
            raise self.error(bound["value"], why, "E125")
        self.add_iter(target, extent, _KIND_OF[name], value)

    def axis_extent(self, node: ast.expr) -> int:
        """`n`, or `(0, n)`."""
        value = self.constant(node, "an axis's extent")
        low, high = value if isinstance(value, tuple) and len(value) == 2 else (0, value)
        if not is_size(high) or low != 0:
            why = f"an axis's extent is an integer or (0, integer), got {shown(value)}"
            raise self.error(node, why, "E125")
        return high

    def add_iter(self, target: ast.expr, extent: int, kind: IterKind, value: Expr) -> None:
        if not isinstance(target, ast.Name):
            raise self.error(target, "an axis has one name", "E125")
        assert self.header is not None
        var = Var(target.id)
        self.sizes[var] = extent
        self.header.iters.append(
            with_span(BlockIter(var, extent, kind, value), self.source.span(target))
        )
        self.scope.bind(target.id, var)

    def remap(self, target: ast.expr, bound: dict[str, ast.expr]) -> None:
        """`vi, vj = T.axis.remap("SR", [i, j])`."""
        kinds = self.string(bound["kinds"], "the axis kinds")
        for position, letter in enumerate(kinds):
            if letter not in _LETTERS:
                place = _inside_string(self.source.span(bound["kinds"]), position)
                why = f'unknown axis kind "{letter}"'
                raise self.source.error(place, why, "E125", _LETTERS_HINT)
        loops = self.elements(bound["loops"])
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        if not len(kinds) == len(loops) == len(targets):
            why = f"{len(targets)} name(s), {len(kinds)} kind(s) and {len(loops)} loop(s)"
            odd = bound["kinds"] if len(loops) == len(targets) else target
            hint = 'vi, vj = T.axis.remap("SR", [i, j])'
            raise self.error(odd, f"{why} do not match", "E125", hint)
        values = [self.loop(node) for node in loops]
        for name, letter, (var, extent) in zip(targets, kinds, values, strict=True):
            self.add_iter(name, extent, _LETTERS[letter], var)

    def elements(self, node: ast.expr) -> list[ast.expr]:
        if not isinstance(node, ast.List | ast.Tuple):
            raise self.error(node, "the loops are a list, [i, j]", "E125")
        return node.elts

    def loop(self, node: ast.expr) -> tuple[Var, int]:
        """A loop variable and the extent of its loop."""
        value = self.read(node)
        if not isinstance(value, Var) or value not in self.extents:
            hint = f"vi = T.axis.spatial(extent, {ast.unparse(node)})"
            why = f"{ast.unparse(node)} is not the variable of a loop that starts at 0"
            raise self.error(node, why, "E125", hint)
        extent = self.extents[value]
        if not isinstance(extent, Const):
            hint = f"vi = T.axis.spatial(extent, {ast.unparse(node)})"
            why = f"the extent of {value.name} is no constant"
            raise self.error(node, why, "E125", hint)
        return value, int(extent.value)


def _inside_string(span: Span, position: int) -> Span:
    """One character of a string literal."""
    start = min(span.column + 1 + position, span.end_column - 1)
    return span._replace(column=start, end_column=start + 1)
