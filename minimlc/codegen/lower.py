"""Blocks become flat loops: the form that every target starts from."""

from minimlc.node import Mutator, replace
from minimlc.tir.nodes import (
    Alloc,
    Binary,
    Block,
    IfThenElse,
    PrimFunc,
    Stmt,
    conjunction,
    index,
    seq,
    substitute,
)


def lower(func: PrimFunc) -> PrimFunc:
    """`func` without blocks: loops, conditions and stores, with storage placed by `Alloc`."""
    body = _Flatten().visit(func.body)
    for buffer in reversed(func.allocs):
        body = Alloc(buffer, body)
    return replace(func, allocs=(), body=body)


class _Flatten(Mutator):
    """Iters become their values, predicates and inits become conditions."""

    def visit_Block(self, block: Block) -> Stmt:
        values = {it.var: it.value for it in block.iters}
        body = self.visit(substitute(block.body, values))
        if block.init is not None:
            first = conjunction(
                Binary("==", it.value, index(0)) for it in block.iters if it.kind == "R"
            )
            init = self.visit(substitute(block.init, values))
            body = seq((init if first is None else IfThenElse(first, init), body))
        return body if block.predicate is None else IfThenElse(block.predicate, body)
