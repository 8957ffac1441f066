"""`T.reads` and `T.writes`: the regions that a block declares, compared with what it does."""

import ast

from minimlc.loops.ir.nodes import Block, Buffer, Expr
from minimlc.loops.text.reader import items_of
from minimlc.loops.text.tir_expr import LOOPS, Header, Loops
from minimlc.services.checks.declared import check_declared
from minimlc.services.spellings.tir_view import interval

Region = tuple[Buffer, tuple[tuple[Expr, Expr], ...]]


@LOOPS.reads("T.reads(*regions)", "T.writes(*regions)", role="action")
def _accesses(reader: Loops, call: ast.Call, regions: list[ast.expr]) -> tuple[Region, ...]:
    """`T.reads(A[i, 0:4], ...)`, also with one list of them."""
    if len(regions) == 1 and isinstance(regions[0], ast.List):
        regions = regions[0].elts
    return tuple([_region(reader, node) for node in regions])


def _region(reader: Loops, node: ast.expr) -> Region:
    owner = reader.buffer(node.value if isinstance(node, ast.Subscript) else node)
    buffer = owner if isinstance(owner, Buffer) else owner.buffer
    if owner is buffer and isinstance(node, ast.Subscript):
        sides = items_of(node.slice)
    else:  # of a view, all of its buffer: what is declared is only compared
        sides = [ast.Slice()] * buffer.ndim
    if len(sides) != buffer.ndim:
        why = f"{buffer.name} has {buffer.ndim} dimension(s), got {len(sides)} index(es)"
        raise reader.error(node, why, "E107", f"{buffer.name} has shape {buffer.shape}")
    pairs = zip(sides, buffer.shape, strict=True)
    return buffer, tuple([interval(reader, *pair) for pair in pairs])


def check_regions(reader: Loops, call: ast.Call, block: Block, header: Header) -> None:
    """Refuse a block that reads or writes more than its header declares."""
    declared = header.parts.get("T.reads"), header.parts.get("T.writes")
    if declared != (None, None) and not reader.declared:  # of sizes nothing is known here
        reader.guard(call, check_declared, block, *declared, reader.sizes)
