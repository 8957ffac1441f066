"""Conditions and loops in graph functions' scripts, and in plain Python."""

import ast
from typing import Any

import numpy as np

from minimlc.graphs.ir.nodes import CALLEES, Call, Expr, Tuple, TupleType, constant
from minimlc.graphs.text.graph_calls import callee_of, result_type_of
from minimlc.graphs.text.graph_types import as_type, out_type
from minimlc.graphs.text.graph_value import GRAPHS, Values
from minimlc.loops.values.node import replace
from minimlc.services.control.control import passed, result_type, whole


@GRAPHS.reads(
    "R.cond(condition, then, otherwise, args, out=None)",
    "R.while_loop(condition, body, state, rest=(), out=None)",
    "R.scan(body, state, rows, rest=(), out=None)",
    role="value",
)
def _control(reader: Values, node: ast.Call, out: ast.expr | None, **bound: Any) -> Call:
    """A condition or loop of other functions; their result types determine its type."""
    op = reader.called(node)[2:]
    names = {key: callee_of(reader, bound[key]) for key in CALLEES[op]}
    args: list[Expr] = []
    if op == "cond":
        args = [reader.atom(reader.expr(bound["condition"]), bound["condition"])]
        values = reader.expr(bound["args"])
        alone = [reader.atom(values, bound["args"])]
        args += values.fields if isinstance(values, Tuple) else alone
    else:
        for key in ("state", "rows", "rest")[:: 1 if op == "scan" else 2]:
            value = bound[key] or ast.Tuple([], ast.Load())
            args.append(reader.atom(reader.expr(value), value))
    call = Call(op, tuple(args), tuple(names.items()), TupleType(()))
    if out is not None:
        kind = reader.guard(out, out_type, reader.read(out))
    else:
        results = {
            key: result_type_of(reader, name, node, reader.guard(node, passed, call, key))
            for key, name in names.items()
        }
        kind = reader.guard(node, result_type, call, results)
    return reader.placed(replace(call, type=kind), node)


# In plain Python


def _values(values: Any) -> tuple[Expr, ...]:
    several = (values,) if isinstance(values, Expr | np.ndarray) else values
    return tuple([value if isinstance(value, Expr) else constant(value) for value in several])


def _cond(condition: Any, then: str, otherwise: str, args: Any, out: Any) -> Call:
    """`R.cond(p, "f", "g", (x,), out)`: f(x) or g(x)."""
    names = (("then", str(then)), ("otherwise", str(otherwise)))
    return Call("cond", (*_values([condition]), *_values(args)), names, as_type(out))


def _while_loop(condition: str, body: str, state: Any, rest: Any = (), out: Any = None) -> Call:
    """`R.while_loop("condition", "body", (i, x), (w,), out)`: the state after the loop."""
    args = tuple([Tuple(_values(part)) for part in (state, rest)])
    names = (("condition", str(condition)), ("body", str(body)))
    kind = whole([value.type for value in args[0].fields], TupleType) if out is None else out
    return Call("while_loop", args, names, as_type(kind))


def _scan(body: str, state: Any, rows: Any, rest: Any = (), *, out: Any) -> Call:
    """`R.scan("body", (h,), (x,), (w,), out=...)`: the state, and the steps' results."""
    args = tuple([Tuple(_values(part)) for part in (state, rows, rest)])
    return Call("scan", args, (("body", str(body)),), as_type(out))


CONTROLS = {"cond": _cond, "while_loop": _while_loop, "scan": _scan}
"""Conditions and loops of `R` in plain Python."""
