"""What is printed parses back: the check, for tests of any part."""

from minimlc import IRModule, named_constants, parse, structural_equal
from minimlc.graph.nodes import Function
from minimlc.node import Node
from minimlc.tir.nodes import PrimFunc


def reparsed(item: Node) -> Node:
    """The module or function that `item`'s own script describes, with the constants it names."""
    return _alike(item, parse(item.script(), named_constants(item)))


def _alike(item: Node, mod: IRModule) -> Node:
    return mod if isinstance(item, IRModule) else mod.entries[0][1]


def assert_round_trips(item: IRModule | PrimFunc | Function) -> None:
    """`item.script()` parses back to a structurally equal value, which prints the same; so does
    the text that has the constants in it.
    """
    text = item.script()
    again = reparsed(item)
    assert again.script() == text
    assert structural_equal(again, item), text
    inline = item.script(constants="inline")
    assert structural_equal(_alike(item, parse(inline)), item), inline
