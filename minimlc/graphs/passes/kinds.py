"""The kind of a primitive function, determined by its loops.

The kinds follow Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning"
(OSDI 2018), section 3.1, but are derived from the function instead of declared.
"""

from enum import IntEnum
from itertools import chain, pairwise

from minimlc.loops.ir.nodes import Block, Const, For, Load, PrimFunc, Seq, Stmt, Store, Var
from minimlc.loops.proofs.access import reduction_parts
from minimlc.loops.values.node import nodes_of


class Kind(IntEnum):
    """Kinds of functions, from the easiest to fuse to the ones that cannot be fused."""

    ELEMENTWISE = 0
    """Each element is computed from the elements at the same place."""
    BROADCAST = 1
    """The same, but some inputs lack axes or have size 1 along them."""
    INJECTIVE = 2
    """Each element is computed separately, from elements at any place."""
    REDUCTION = 3
    """One reduction that reads each element once, such as a sum along an axis."""
    ANCHOR = 4
    """Reductions that read elements several times, such as a matrix product or softmax."""
    OPAQUE = 5
    """Anything else."""


def kind_of(func: PrimFunc) -> Kind:
    """The kind of a function with one output, its last parameter; OPAQUE for any other."""
    blocks = _blocks(func.body)
    if not blocks:
        return Kind.OPAQUE
    kinds = [_block_kind(block) for block in blocks]
    written = {store.buffer for store in nodes_of(func.body, Store)}
    if Kind.OPAQUE in kinds or written != {func.params[-1], *func.allocs}:
        return Kind.OPAQUE
    if len(kinds) > 1 and max(kinds) >= Kind.REDUCTION:
        return Kind.ANCHOR
    return max(kinds)


def _blocks(stmt: Stmt) -> list[Block]:
    """The blocks of loops around blocks; none if anything else is there."""
    match stmt:
        case Block():
            return [stmt]
        case For(kind="serial"):
            return _blocks(stmt.body)
        case Seq(stmts):
            inner = [_blocks(part) for part in stmts]
            return list(chain(*inner)) if all(inner) else []
        case _:  # other nodes: not such a nest
            return []


def _block_kind(block: Block) -> Kind:
    store = block.body
    if block.predicate is not None or not isinstance(store, Store):
        return Kind.OPAQUE
    spatial = [it.var for it in block.iters if it.kind == "S"]
    reduce = [it.var for it in block.iters if it.kind == "R"]
    if len(spatial) + len(reduce) != len(block.iters) or list(store.indices) != spatial:
        return Kind.OPAQUE
    if not reduce:
        loads = nodes_of(store.value, Load)
        if block.init is not None or any(load.buffer is store.buffer for load in loads):
            return Kind.OPAQUE
        return max((_load_kind(load, spatial) for load in loads), default=Kind.BROADCAST)
    reduction = reduction_parts(block)
    if reduction is None or not isinstance(block.init, Store):
        return Kind.OPAQUE
    every = {*spatial, *reduce}
    once = all(every == set(load.indices) for load in nodes_of(reduction[2], Load))
    return Kind.REDUCTION if once else Kind.ANCHOR


def _load_kind(load: Load, spatial: list[Var]) -> Kind:
    if list(load.indices) == spatial:
        return Kind.ELEMENTWISE
    places = []
    for index, size in zip(load.indices, load.buffer.shape, strict=True):
        if isinstance(index, Var) and index in spatial:
            places.append(spatial.index(index))
        elif not (isinstance(index, Const) and size == 1):
            return Kind.INJECTIVE
    ascending = all(a < b for a, b in pairwise(places))
    return Kind.BROADCAST if ascending else Kind.INJECTIVE
