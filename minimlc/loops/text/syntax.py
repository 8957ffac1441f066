"""Pieces of Python's syntax in words, for the errors about those that a script cannot hold; and
declarations, which every language has.
"""

import ast
from collections.abc import Callable

from minimlc.loops.values.dtypes import DTYPES

_KEYWORDS = (
    *(ast.Return, ast.Try, ast.Raise, ast.Assert, ast.Break, ast.Continue),
    *(ast.Global, ast.Nonlocal, ast.Match, ast.Await),
)
_WORDS: dict[type, str] = {
    **{kind: kind.__name__.lower() for kind in _KEYWORDS},
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), "a function inside it"),
    **dict.fromkeys((ast.Import, ast.ImportFrom), "an import"),
    ast.While: "a while loop",
    ast.For: "a loop",
    ast.If: "an if",
    ast.ClassDef: "a class",
    ast.Delete: "del",
    ast.Lambda: "a lambda",
    ast.ListComp: "a list comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.JoinedStr: "an f-string",
    ast.NamedExpr: "the operator :=",
    ast.Starred: "a *",
    ast.Slice: "a slice here",
    ast.Constant: "such a literal",
}


def in_words(node: ast.AST) -> str:
    """A statement or an expression in words, by its kind."""
    more = " statement" if isinstance(node, ast.stmt) else ""
    return _WORDS.get(type(node), f"a {type(node).__name__}{more}")


def declares(value: ast.expr, name: str) -> bool:
    """Whether a call of the construct `name` is `T.int64()`: a variable of that dtype."""
    plain = isinstance(value, ast.Call) and not value.args
    return plain and name.removeprefix("T.") in DTYPES


def declarations(node: ast.stmt, called: Callable[[ast.expr], str]) -> list[ast.stmt]:
    """`m, n = T.int64(), T.int64()` as an assignment for each name; none of anything else."""
    match node:
        # other nodes: no declarations
        case ast.Assign([ast.Tuple(names)], ast.Tuple(values)) if len(names) == len(values):
            if all(declares(value, called(value)) for value in values):
                pairs = zip(names, values, strict=True)
                return [ast.copy_location(ast.Assign([n], v), node) for n, v in pairs]
    return []
