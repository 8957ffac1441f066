"""How deeply programs may nest, and the room that Python's recursion needs for it."""

import ast
import sys
from typing import Any

MOST_LEVELS = 1000
"""How deeply nodes may nest; loops and blocks count four times."""
_FRAMES = 12
"""Python's frames that a walk over a tree takes for a level, at the most."""
PLAIN_LEVELS = 40
"""Levels that Python's own limit has room for."""


def make_room(levels: int) -> None:
    """Let functions recurse over this many levels: Python's limit of 1000 frames is raised, for
    good, where someone has such a tree.
    """
    if levels > PLAIN_LEVELS:
        frames = 1000 + _FRAMES * levels
        if sys.getrecursionlimit() < frames:
            sys.setrecursionlimit(frames)


def too_deep(tree: ast.AST) -> Any:
    """What in a syntax tree nests too deeply to be read; None, and room for it, where nothing does.

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
    make_room(deepest)
    return None
