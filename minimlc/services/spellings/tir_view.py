"""Other names for parts of buffers: `T.match_buffer(A[i : i + 4], (4,))`, `data=Y.data`.

A view exists in the text only: its elements are read as the buffer's.
"""

import ast
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.nodes import Binary, Buffer, Expr, Var, as_expr, index
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.simplify import Simplifier
from minimlc.loops.text.reader import items_of
from minimlc.loops.text.tir_expr import Loops, Named, View, between
from minimlc.loops.text.tir_let import buffers_read
from minimlc.loops.values.dtypes import INDEX, is_size
from minimlc.loops.values.errors import shown

Indexing = Callable[[Sequence[Expr]], list[Expr]]
_DENSE = "a buffer has memory of its own, all of it, row by row"


def interval(reader: Loops, node: ast.expr, size: Any) -> tuple[Expr, Expr]:
    """The first index and the extent of `i`, `lo:hi` or `:`."""
    if not isinstance(node, ast.Slice):
        return reader.index(node).astype(INDEX), index(1)
    low = index(0) if node.lower is None else reader.index(node.lower)
    high = as_expr(size) if node.upper is None else reader.index(node.upper)
    return low.astype(INDEX), between(low.astype(INDEX), high.astype(INDEX))


def region_view(reader: Loops, target: ast.Name, node: ast.Subscript, shape: Sequence[int]) -> View:
    """`B = T.match_buffer(A[i : i + 4, j], (4,))`: B counts from the region's first element."""
    owner, sides, name = reader.buffer(node.value), items_of(node.slice), target.id
    if len(sides) != len(owner.shape):
        why = f"{owner.name} has {len(owner.shape)} dimension(s), got {len(sides)} index(es)"
        raise reader.error(node, why, "E107", f"{owner.name} has shape {owner.shape}")
    box = [interval(reader, *side) for side in zip(sides, owner.shape, strict=True)]
    extents = [constant_value(extent) for _, extent in box]
    dropped = len(box) - len(shape)
    sizes = [*[1] * dropped, *shape]
    pairs = zip(box, sizes, strict=False)
    alike = all(constant_value(Binary("-", side[1], as_expr(size))) == 0 for side, size in pairs)
    if dropped < 0 or not alike:
        why = f"the region's extents are {extents}, {name} has the shape {tuple(shape)}"
        hint = "the last extents are those of the shape, the others 1"
        raise reader.error(node, why, "E126", hint)
    starts = [start for start, _ in box]
    read = set().union(*map(buffers_read, starts))
    reader.named += [Named(target, read, INDEX)] if read else []

    def at(indices: Sequence[Expr]) -> list[Expr]:
        inside = zip(indices, starts[dropped:], strict=True)
        return [*starts[:dropped], *(_beyond(start, i) for i, start in inside)]

    return _through(owner, name, shape, at)


def _beyond(start: Expr, i: Expr) -> Expr:
    if constant_value(start) == 0:
        return i
    return start if constant_value(i) == 0 else tir.binary("+", start, i)


def data_view(
    reader: Loops, name: str, node: ast.Attribute, shape: Sequence[int], layout: dict[str, Any]
) -> View:
    """`B = T.decl_buffer((4, 4), data=Y.data)`: the elements of Y, row by row, in another shape."""
    owner, start = reader.buffer(node.value), check_layout(reader, name, shape, layout)
    if any(isinstance(size, Expr) for size in (*owner.shape, *shape)):
        why = f"{name} shows {owner.name} in another shape, which takes sizes that are numbers"
        raise reader.error(node, why, "E123")
    if prod(shape) + start > prod(owner.shape):
        why = f"{owner.name} has {prod(owner.shape)} elements, {name} would end at"
        raise reader.error(node, f"{why} {prod(shape) + start}", "E126")
    simplify = Simplifier(Ranges(reader.sizes)).visit
    steps = [prod(owner.shape[axis + 1 :]) for axis in range(len(owner.shape))]

    def at(indices: Sequence[Expr]) -> list[Expr]:
        flat: Expr = index(start)
        for place, i in enumerate(indices):
            flat = flat + i * prod(shape[place + 1 :])
        rows = [flat // step for step in steps]
        # The first is not taken modulo its size: what leaves the view leaves the buffer.
        inner = [row % size for row, size in zip(rows[1:], owner.shape[1:], strict=True)]
        return [simplify(part) for part in (*rows[:1], *inner)]

    return _through(owner, name, shape, at)


def _through(owner: Buffer | View, name: str, shape: Sequence[int], at: Indexing) -> View:
    """A view of a buffer, or of the buffer of another view."""
    if isinstance(owner, Buffer):
        return View(name, owner, tuple(shape), at)
    return View(name, owner.buffer, tuple(shape), lambda indices: owner.at(at(indices)))


def check_offset(reader: Loops, name: str, shape: Any, layout: dict[str, Any]) -> None:
    """Refuse options by which a buffer has no memory of its own."""
    for option in ("data", "elem_offset"):
        node = layout.get(option, ast.Constant(None))
        value = reader.folded(reader.read(node))
        if value is not None and value != 0 and not isinstance(value, Var):
            why = f"a buffer has memory of its own, all of it: {name} takes no {option}"
            raise reader.error(node, why, "E124", f"leave {option} out")
    check_layout(reader, name, shape, layout)


def check_layout(reader: Loops, name: str, shape: Sequence[Any], layout: dict[str, Any]) -> int:
    """The offset of the first element; options that no dense, row-major array has are refused.

    A variable takes whatever stride or offset there is. An alignment is read and forgotten: what
    is not promised cannot be relied on.
    """
    options = {option: node for option, node in layout.items() if option != "data"}
    values = {option: reader.folded(reader.read(node)) for option, node in options.items()}
    offset, strides = values.get("elem_offset"), values.get("strides")
    dense = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape))) if strides else ()
    pairs = zip(strides or (), dense, strict=False)
    if len(strides or ()) != len(dense) or not all(isinstance(s, Var) or s == d for s, d in pairs):
        why = f"{_DENSE}: the strides of {name} are {shown(dense)}"
        raise reader.error(layout["strides"], why, "E124", "leave strides out")
    if values.get("axis_separators"):
        why = f"{_DENSE}: {name} takes no axis_separators"
        raise reader.error(layout["axis_separators"], why, "E124", "leave axis_separators out")
    if offset is None or isinstance(offset, Var):
        return 0
    if not is_size(offset):
        why = f"the elem_offset of {name} is an integer >= 0, got {shown(offset)}"
        raise reader.error(layout["elem_offset"], why, "E126")
    return offset
