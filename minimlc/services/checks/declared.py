"""The declared reads and writes of a block, compared with its accesses."""

from collections.abc import Iterable, Mapping

from minimlc.loops.ir.nodes import Binary, Block, Buffer, Expr, Var, substitute
from minimlc.loops.proofs.access import Alone, accesses_alone, loop_extents
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.values.errors import VerifyError
from minimlc.loops.values.node import Node, span_of

Declared = tuple[tuple[Buffer, tuple[tuple[Expr, Expr], ...]], ...]
_Bounds = tuple[tuple[Expr, ...], ...]


def check_declared(
    block: Block,
    reads: Declared | None,
    writes: Declared | None,
    around: Mapping[Var, int] = {},
) -> None:
    """Compare what an author declared with what the block does; `VerifyError` where it is less.

    Both may use the variables `around` the block, given with their extents. A region may be
    declared over the loops or over the block's own iters.
    """
    ranges = Ranges({**around, **{it.var: it.extent for it in block.iters}})
    values: dict[Node, Node] = {it.var: it.value for it in block.iters}

    def over_loops(exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        return tuple(substitute(expr, values) for expr in exprs)

    for item in accesses_alone(Alone.of(block)):
        declared = writes if item.is_write else reads
        if declared is None or (item.role == "update" and not item.is_write):
            continue
        inside = ranges.extended(loop_extents(item.loops)).assume(*item.guards)
        boxes: list[_Bounds] = [box for buffer, box in declared if buffer is item.buffer]
        forms = [(item.indices, box) for box in boxes]
        forms += [(over_loops(item.indices), tuple(map(over_loops, box))) for box in boxes]
        if not any(_holds(box, indices, inside) for indices, box in forms):
            verb = "writes" if item.is_write else "reads"
            touched = f"{item.buffer.name}[{', '.join(i.script() for i in item.indices)}]"
            raise VerifyError(
                f'block "{block.name}" {verb} {touched}, which T.{verb} does not declare',
                code="E110",
                span=span_of(item.node) or span_of(block),
                hint=f"leave T.{verb} out: it is derived from the block's body",
            )


def _holds(box: _Bounds, indices: tuple[Expr, ...], ranges: Ranges) -> bool:
    return len(box) == len(indices) and all(
        ranges.prove(Binary(">=", i, start)) and ranges.prove(Binary("<", i - start, extent))
        for (start, extent), i in zip(box, indices, strict=True)
    )
