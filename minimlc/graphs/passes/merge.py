"""Put the bodies of primitive functions one after the other in a new one."""

from collections.abc import Sequence
from typing import Any

from minimlc.loops.ir.nodes import Alloc, Block, Buffer, Expr, For, PrimFunc, Stmt, Var, seq
from minimlc.loops.te import te
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import Mutator, Node, replace, span_of, with_span


class Merger:
    """Collects statements and allocations under unique names."""

    def __init__(self) -> None:
        self.names = UniqueNames()
        self.block_names = UniqueNames()
        self.allocs: list[Buffer] = []
        self.stmts: list[Stmt] = []

    def buffer(self, name: str, like: Any) -> Buffer:
        """A new buffer of the shape and the dtype of `like`, with a unique name."""
        return Buffer(self.names.take(name), like.shape, like.dtype)

    def alloc(self, name: str, like: Any) -> Buffer:
        """A new buffer as by `buffer`, allocated."""
        self.allocs.append(self.buffer(name, like))
        return self.allocs[-1]

    def append(self, func: PrimFunc, args: Sequence[Buffer]) -> None:
        """Add what `func` does on `args`."""
        buffers: dict[Buffer, Buffer] = dict(zip(func.params, args, strict=True))
        for old in func.allocs:
            buffers[old] = self.renamed(old)
            self.allocs.append(buffers[old])
        self.stmts.append(_Rename(self, buffers).visit(func.body))

    def renamed(self, old: Buffer) -> Buffer:
        """A new buffer like `old`, its scope included, with a unique name."""
        new = Buffer(self.names.take(old.name), old.shape, old.dtype, old.scope)
        return with_span(new, span_of(old))

    def function(self, params: Sequence[Buffer]) -> PrimFunc:
        """Everything added, as a function of `params`."""
        return PrimFunc(tuple(params), tuple(self.allocs), seq(self.stmts))


class _Rename(Mutator):
    """New symbols for all that a body binds."""

    def __init__(self, merger: Merger, buffers: dict[Buffer, Buffer]):
        self.merger = merger
        self.buffers = buffers
        self.variables: dict[Var, Var] = {}

    def visit_For(self, item: For) -> Stmt:
        self.variables[item.var] = Var(self.merger.names.take(item.var.name), item.var.dtype)
        return self.visit_children(item)

    def visit_Block(self, item: Block) -> Stmt:
        for it in item.iters:
            self.variables[it.var] = Var(it.var.name, it.var.dtype)
        return replace(self.visit_children(item), name=self.merger.block_names.take(item.name))

    def visit_Alloc(self, item: Alloc) -> Stmt:
        self.buffers[item.buffer] = self.merger.renamed(item.buffer)
        return self.visit_children(item)

    def visit_Var(self, item: Var) -> Expr:
        return self.variables.get(item, item)

    def visit_Buffer(self, item: Buffer) -> Node:
        return self.buffers.get(item, item)


def copy_of(buffer: Buffer) -> PrimFunc:
    """A function that copies an array of the shape of `buffer`."""
    source = te.placeholder(buffer.shape, buffer.dtype, name="A")
    return te.create_prim_func([source, te.compute(buffer.shape, lambda *i: source[i], "copy")])
