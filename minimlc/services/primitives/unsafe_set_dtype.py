"""The primitive unsafe_set_dtype: a buffer of another dtype that loses nothing."""

from minimlc.loops.ir.nodes import Block, Buffer, Cast, Expr, Load, PrimFunc, Store
from minimlc.loops.proofs.access import accesses
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import Move, Redirect
from minimlc.loops.values.dtypes import dtype_record, holds
from minimlc.loops.values.node import replace
from minimlc.services.layouts.layout import own_buffer


@primitive(keeps_order=True)
def unsafe_set_dtype(func: PrimFunc, block: str, buffer: str, dtype: str) -> PrimFunc:
    """Store a buffer's elements in another dtype, converted where they are written and read.

        B = alloc(n, "float32")              B = alloc(n, "float16")
        B[i] = float32(A[i])          -->    B[i] = A[i]
        C[i] = B[i] * 2                      C[i] = float32(B[i]) * 2

    Here for a float16 A. Legal for the function's own buffers, when `dtype` has every value of the
    old one, or of the dtypes from which all stored values were converted.
    """
    # NB: in TVM, any dtype will do, and what it lacks is lost: hence the name.
    old, name = own_buffer(func, block, buffer), dtype_record(dtype).name
    if name == old.dtype:
        return func
    for item in accesses(func):
        if item.is_write and item.buffer is old and isinstance(item.node, Store):
            _check_kept(item.block, old, name, _source(item.node.value, old))
    new = replace(old, dtype=name)
    moves: dict[Buffer, Move] = {old: lambda item: _converted(item, old, new)}
    body = Redirect(moves).visit(func.body)
    allocs = tuple(new if buf is old else buf for buf in func.allocs)
    return finish(replace(func, allocs=allocs, body=body))


def _source(value: Expr, old: Buffer) -> Expr:
    """The value from which a stored one was converted, if no conversion can lose anything."""
    if isinstance(value, Cast) and holds(old.dtype, value.a.dtype):
        return value.a
    return value


def _check_kept(block: Block | None, old: Buffer, dtype: str, value: Expr) -> None:
    if not holds(dtype, value.dtype):
        who = f'block "{block.name}"' if block is not None else "a statement"
        why = f"{who} stores {value.dtype} in {old.name}, and {dtype} has not every value of that"
        hint = "a script with that dtype: it would be another program"
        refuse("E117", why, at=block, hint=hint)


def _converted(item: Load | Store, old: Buffer, new: Buffer) -> Expr | Store:
    moved = replace(item, buffer=new)
    if isinstance(moved, Load):
        return moved if new.dtype == old.dtype else Cast(old.dtype, moved)
    value = moved.value if holds(new.dtype, old.dtype) else _source(moved.value, old)
    return replace(moved, value=value if value.dtype == new.dtype else Cast(new.dtype, value))
