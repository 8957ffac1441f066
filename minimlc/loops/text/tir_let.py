"""Names for values: `x: T.float32 = A[i]`, `row = i * 4 + j`.

The expression stands wherever the name does, which is the same value as long as nothing that it
reads is written in between; that is checked.
"""

import ast
from collections.abc import Sequence
from typing import Any

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.nodes import Buffer, Expr, Load, Stmt, Store, as_expr
from minimlc.loops.ir.walks import inner_stmts, stored_in
from minimlc.loops.text.tir_expr import COUNTS, Item, Loops, Named
from minimlc.loops.values.constants import is_folded
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.errors import did_you_mean
from minimlc.loops.values.node import nodes_of


def name_value(reader: Loops, target: ast.expr, node: ast.expr, dtype: str = "") -> None:
    """From here on `target` stands for the expression `node`, of a dtype where one is given."""
    if not isinstance(target, ast.Name):
        raise reader.error(target, "a value has one name", "E125")
    if isinstance(reader.scope.get(target.id), Buffer):
        hint = f"{target.id}[i] = value stores one element"
        raise reader.error(target, f"the buffer {target.id} cannot be replaced", "E124", hint)
    value = reader.read(node)
    if not (is_folded(value) or isinstance(value, Expr)):
        hint = did_you_mean(target.id, reader.buffers())
        raise reader.error(node, "a name can stand for an index expression only", "E124", hint)
    declared = reader.declared.get(target.id)
    dtype = dtype or (declared.dtype if declared is not None else "")
    reader.scope[target.id] = value = _typed(reader, node, value, dtype) if dtype else value
    if isinstance(value, Expr) and (read := buffers_read(value)):
        reader.named.append(Named(target, read, value.dtype))


def buffers_read(value: Expr) -> set[Buffer]:
    """The buffers that an expression reads."""
    return {load.buffer for load in nodes_of(value, Load)}


def _typed(reader: Loops, node: ast.expr, value: Any, dtype: str) -> Expr:
    """A value of the given dtype; an index stays one where that is a dtype of sizes."""
    expr = reader.guard(node, as_expr, reader.operand(node, value), dtype)
    if expr.dtype == INDEX and dtype in COUNTS and not nodes_of(expr, Load):
        return expr
    if dtype == INDEX and expr.dtype == "int32":  # x = T.int32() may count, or be data
        return expr
    expr = ir.meeting(expr, dtype)
    if expr.dtype != dtype:
        hint = f'T.cast(value, "{dtype}")'
        raise reader.error(node, f"the value is {expr.dtype}, not {dtype}", "E108", hint)
    return expr


def check_named(reader: Loops, name: Named, after: Sequence[Item]) -> None:
    """Nothing that the name's value reads may be written by the statements after it; the very last
    may be a store, which reads before it writes.
    """
    rest = ir.Seq(tuple(part for part in after if isinstance(part, Stmt)))
    changed = sorted(buffer.name for buffer in name.read & _written_early(rest))
    if changed:
        word = name.target.id
        why = f'"{word}" would stand for a value read from memory, and {changed[0]} changes here'
        hint = f'store it: {word} = T.alloc_buffer((1,), "{name.dtype}") before the loops'
        raise reader.error(name.target, why, "E124", hint)


def _written_early(stmt: Stmt) -> set[Buffer]:
    """The buffers that a statement writes, but for the stores that it ends with."""
    match stmt:
        case Store():
            return set()
        case ir.Seq(stmts) if stmts:
            return _written_early(stmts[-1]).union(*map(stored_in, stmts[:-1]))
        case ir.IfThenElse():
            return set().union(*map(_written_early, inner_stmts(stmt)))
        case _:  # other nodes: they may read again after they have written
            return stored_in(stmt)
