"""What is printed parses back: the check, for tests of any part."""

from minimlc import IRModule, parse, structural_equal
from minimlc.graph.nodes import Function
from minimlc.node import Node
from minimlc.tir.nodes import PrimFunc


def reparsed(item: Node) -> Node:
    """The module or function that `item`'s own script describes."""
    mod = parse(item.script())
    return mod if isinstance(item, IRModule) else mod.entries[0][1]


def assert_round_trips(item: IRModule | PrimFunc | Function) -> None:
    """`item.script()` parses back to a structurally equal value, which prints the same."""
    text = item.script()
    again = reparsed(item)
    assert again.script() == text
    assert structural_equal(again, item), text
