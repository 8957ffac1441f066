"""Printed text parses back: the check, for tests of any part."""

from minimlc import IRModule, named_constants, parse, structural_equal
from minimlc.graphs.ir.nodes import Function
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.node import Node


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
