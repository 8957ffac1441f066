"""Blocks of the loop language: axes, predicate, declared accesses, init, body."""

import ast
from collections.abc import Iterable
from typing import Any, NamedTuple

from minimlc.dtypes import INDEX, is_size
from minimlc.errors import Span, shown
from minimlc.names import UniqueNames
from minimlc.node import with_span
from minimlc.script.source import Names, Source
from minimlc.script.tir_forms import AXIS_KIND_OF, FUNC_ATTR
from minimlc.script.tir_stmt import Item, StmtReader, sequence, statements
from minimlc.tir.analysis.regions import check_declared
from minimlc.tir.nodes import (
    ITER_KINDS,
    Block,
    BlockIter,
    Buffer,
    Const,
    Expr,
    IterKind,
    Stmt,
    Var,
    index,
)

_LETTERS_HINT = '"S" spatial, "R" reduction, "O" opaque'
Region = tuple[Buffer, tuple[tuple[Expr, Expr], ...]]


class Header(NamedTuple):
    """What a block, or the function itself, says of itself as far as it has been read."""

    of: str
    iters: list[BlockIter]
    parts: dict[str, Any]


class BlockReader(StmtReader):
    """Reads statements, blocks among them."""

    def __init__(self, source: Source, names: Names):
        StmtReader.__init__(self, source, names)
        self.block_names = UniqueNames(reserved=(), spell=str)
        self.header: Header | None = None

    def nested(self, nodes: Iterable[ast.stmt]) -> list[Stmt]:
        outer, self.header = self.header, None
        body = StmtReader.nested(self, nodes)
        self.header = outer
        return body

    def within(self, of: str, nodes: list[ast.stmt]) -> tuple[Header, Stmt]:
        """What stands directly in a block, or in the function: its header, and the statement."""
        outer, self.header = self.header, Header(of, [], {})
        body = sequence(statements(self.items(nodes)))
        header, self.header = self.header, outer
        return header, body

    def is_in(self, of: str) -> bool:
        """Whether what is read stands directly in a "block", or in the "function"."""
        return self.header is not None and self.header.of == of

    def with_init(self, call: ast.Call, node: ast.With) -> None:
        self.once(call, "init", self.suite(node.body))

    def with_block(self, call: ast.Call, node: ast.With, name: ast.expr) -> list[Item]:
        if node.items[0].optional_vars is not None:
            hint = "its axes are written inside: vi = T.axis.spatial(128, i)"
            raise self.error(node.items[0].optional_vars, "a block has no as", "E124", hint)
        unique = self.block_names.take(self.string(name, "a block's name"))
        with self.scope.suite():
            (_, iters, parts), body = self.within("block", node.body)
        where, init = parts.get("where"), parts.get("init")
        block = Block(unique, tuple(iters), where, init, body, parts.get("block_attr", ()))
        if "reads" in parts or "writes" in parts:
            reads, writes = parts.get("reads"), parts.get("writes")
            self.source.guard(call, check_declared, block, reads, writes, self.sizes)
        return [with_span(block, self.source.span(call))]

    def once(self, node: ast.expr, key: str, value: Any) -> None:
        """Note a part of the block that is being read."""
        self.check_in_block(node, f"T.{key}")
        assert self.header is not None
        if key in self.header.parts:
            raise self.error(node, f"this block has a T.{key} already", "E125")
        self.header.parts[key] = value

    def check_in_block(self, node: ast.expr, name: str) -> None:
        if not self.is_in("block"):
            hint = 'with T.block("C"):'
            raise self.error(node, f"{name} belongs directly inside a block", "E125", hint)

    # Calls that stand as statements

    def may_stand(self, name: str) -> bool:
        return self.is_in("function" if name in FUNC_ATTR else "block")

    def action_where(self, call: ast.Call, condition: ast.expr) -> None:
        value = self.is_bool(condition, self.expr(condition), "T.where(i * 4 + j < n)")
        self.once(call, "where", value)

    def action_block_attr(self, call: ast.Call, attributes: Any) -> None:
        self.once(call, "block_attr", attributes)

    def action_reads(self, call: ast.Call, regions: list[ast.expr]) -> None:
        """`T.reads(A[i, 0:4], ...)`, also with one list of them."""
        alone = len(regions) == 1 and isinstance(regions[0], ast.List)
        items: list[ast.expr] = regions[0].elts if alone else regions  # type: ignore[attr-defined]
        self.once(call, self.called(call)[2:], tuple(map(self.region, items)))

    action_writes = action_reads

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
        if isinstance(low, Const) and low.value == 0 and not isinstance(high, Const):
            return low, high
        return low, self.between(low, high)

    # Axes

    def assign_axis(
        self, call: ast.Call, target: ast.expr, extent: ast.expr, value: ast.expr
    ) -> None:
        """`vi = T.axis.spatial(128, i)`."""
        name = self.called(call)
        self.check_in_block(call, name)
        size = self.axis_extent(extent)
        start = self.integral(value, f"an axis takes an {INDEX} value")
        self.add_iter(target, size, AXIS_KIND_OF[name], start)

    assign_axis_spatial = assign_axis_reduce = assign_axis_opaque = assign_axis
    assign_axis_S = assign_axis_R = assign_axis_O = assign_axis

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
        axis = with_span(BlockIter(var, extent, kind, value), self.source.span(target))
        self.header.iters.append(axis)
        self.scope.bind(target.id, var)

    def assign_axis_remap(
        self, call: ast.Call, target: ast.expr, kinds: ast.expr, loops: ast.expr
    ) -> None:
        """`vi, vj = T.axis.remap("SR", [i, j])`."""
        self.check_in_block(call, "T.axis.remap")
        letters: Any = self.string(kinds, "the axis kinds")
        for position, letter in enumerate(letters):
            if letter not in ITER_KINDS:
                place = _inside_string(self.source.span(kinds), position)
                why = f'unknown axis kind "{letter}"'
                raise self.source.error(place, why, "E125", _LETTERS_HINT)
        if not isinstance(loops, ast.List | ast.Tuple):
            raise self.error(loops, "the loops are a list, [i, j]", "E125")
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        if not len(letters) == len(loops.elts) == len(targets):
            why = f"{len(targets)} name(s), {len(letters)} kind(s) and {len(loops.elts)} loop(s)"
            odd = kinds if len(loops.elts) == len(targets) else target
            hint = 'vi, vj = T.axis.remap("SR", [i, j])'
            raise self.error(odd, f"{why} do not match", "E125", hint)
        values = [self.loop(node) for node in loops.elts]
        for name, letter, (var, extent) in zip(targets, letters, values, strict=True):
            self.add_iter(name, extent, letter, var)

    def loop(self, node: ast.expr) -> tuple[Var, int]:
        """A loop variable and the extent of its loop."""
        value, text = self.read(node), ast.unparse(node)
        extent = self.extents.get(value) if isinstance(value, Var) else None
        if isinstance(value, Var) and isinstance(extent, Const):
            return value, int(extent.value)
        why = f"{text} is not the variable of a loop that starts at 0"
        if extent is not None:
            why = f"the extent of {value.name} is no constant"
        raise self.error(node, why, "E125", f"vi = T.axis.spatial(extent, {text})")


def _inside_string(span: Span, position: int) -> Span:
    """One character of a string literal."""
    start = min(span.column + 1 + position, span.end_column - 1)
    return span._replace(column=start, end_column=start + 1)
