"""Names for values in expressions, and for the statements under `with`: `T.Let`, `T.LetStmt`."""

import ast
from itertools import chain
from typing import Any

from minimlc.loops.text.tir_expr import LOOPS, Item, Loops
from minimlc.loops.text.tir_let import name_value
from minimlc.loops.text.tir_stmt import nested


@LOOPS.reads("T.Let(body, where)", role="value")
def _let_expr(reader: Loops, call: ast.Call, body: ast.expr, where: ast.expr) -> Any:
    """`T.Let(x + x, where={x: value})`."""
    if not isinstance(where, ast.Dict) or not all(isinstance(key, ast.Name) for key in where.keys):
        raise reader.error(where, "where= names the values: {x: value}", "E121")
    outer, reader.named = reader.named, []  # an expression writes nothing
    with reader.own_names():
        for target, value in zip(where.keys, where.values, strict=True):
            name_value(reader, target, value)  # type: ignore[arg-type]
        result = reader.read(body)
    reader.named = outer
    return result


@LOOPS.reads("T.LetStmt(value, var=None)", "T.let(var, value)", role="with")
def _let(
    reader: Loops, call: ast.Call, node: ast.With, value: ast.expr, var: ast.expr | None
) -> list[Item]:
    """`with T.let(x, value):`, and `with T.LetStmt(value) as x:`: a name for the suite."""
    target = node.items[0].optional_vars if var is None else var
    if target is None:
        raise reader.error(call, "this value needs a name", "E125", "with T.LetStmt(value) as x:")
    assign = ast.copy_location(ast.Assign([target], value), node)
    return [*nested(reader, chain([assign], node.body))]
