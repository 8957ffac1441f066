"""Walks over the statements of the loop IR."""

from functools import lru_cache
from weakref import WeakKeyDictionary

from minimlc.loops.ir import nodes as ir
from minimlc.loops.values.node import Node, children

MOST_ITERATIONS = 2**62
"""The most iterations of a loop whose extent is data: more would take decades."""


def inner_stmts(item: Node) -> tuple[ir.Stmt, ...]:
    """The statements directly inside a node, in program order."""
    match item:
        case ir.For(body=body) | ir.While(body=body) | ir.Alloc(body=body):
            return (body,)
        case ir.Seq(stmts):
            return stmts
        case ir.Store():
            return ()
        case ir.Block(init=init, body=body):
            return (body,) if init is None else (init, body)
        case ir.IfThenElse(_, then_case, else_case):
            return (then_case,) if else_case is None else (then_case, else_case)
        case _:  # other nodes: a function has its body inside, an expression no statement
            return tuple(part for part in children(item) if isinstance(part, ir.Stmt))


def condition_of(item: ir.Stmt, part: ir.Stmt) -> ir.Expr | None:
    """The condition under which a statement runs one directly inside it; None if always."""
    if not isinstance(item, ir.IfThenElse):
        return None
    return item.condition if part is item.then_case else ir.Unary("not", item.condition)


@lru_cache(maxsize=128)
def statements_in(item: Node) -> tuple[ir.Stmt, ...]:
    """A statement and every statement inside it, outer before inner, in program order."""
    found, stack = [], [item]
    while stack:
        current = stack.pop()
        if isinstance(current, ir.Stmt):
            found.append(current)
        stack += inner_stmts(current)[::-1]
    return tuple(found)


def blocks_in(item: Node) -> list[ir.Block]:
    """Every block, outer before inner, in program order."""
    return [part for part in statements_in(item) if isinstance(part, ir.Block)]


def loops_in(item: Node) -> list[ir.For]:
    """Every loop, outer before inner, in program order."""
    return [part for part in statements_in(item) if isinstance(part, ir.For)]


def stored_in(item: Node) -> set[ir.Buffer]:
    """The buffers that a statement writes."""
    return {part.buffer for part in statements_in(item) if isinstance(part, ir.Store)}


def buffers_in(item: Node) -> list[ir.Buffer]:
    """Every buffer that an `Alloc` brings, outer before inner, in program order."""
    return [part.buffer for part in statements_in(item) if isinstance(part, ir.Alloc)]


_ROUNDS: WeakKeyDictionary[ir.While, ir.For] = WeakKeyDictionary()


def rounds(item: ir.For | ir.While) -> ir.For:
    """A loop as proofs see it; for a while loop, one that runs any number of times, or not at all.
    It is the same object at every call, as loops are compared by identity.
    """
    if isinstance(item, ir.For):
        return item
    if item not in _ROUNDS:
        extent = ir.Select(item.condition, ir.index(MOST_ITERATIONS), ir.index(0))
        _ROUNDS[item] = ir.For(ir.Var("round"), extent, "serial", item.body)
    return _ROUNDS[item]
