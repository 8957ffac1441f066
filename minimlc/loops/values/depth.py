"""How deeply programs may nest."""

import ast
from typing import Any

from minimlc.loops.values.process import raise_recursion_limit

MOST_LEVELS = 1000
"""How deeply nodes may nest; loops and blocks count four times."""


def too_deep(tree: ast.AST) -> Any:
    """The part of a syntax tree that nests too deeply to be read; None, and room for it, if none.

    An index has a level of its own in Python's syntax, but none in the program's.
    """
    deepest = 0
    stack: list[tuple[Any, Any, int]] = [(tree, None, 1)]
    while stack:
        part, place, level = stack.pop()
        place = part if hasattr(part, "lineno") else place
        if level > 2 * MOST_LEVELS:
            return place
        deepest = max(level, deepest)
        stack += [(inner, place, level + 1) for inner in ast.iter_child_nodes(part)]
    raise_recursion_limit(deepest)
    return None
