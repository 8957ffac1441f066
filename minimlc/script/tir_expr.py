"""Expressions of the loop language: what `T.max`, `A[i, j]` and `a + b` mean in a script."""

import ast
from typing import Any, ClassVar

from minimlc.dtypes import DTYPES, INDEX, is_integer
from minimlc.errors import did_you_mean
from minimlc.node import with_span
from minimlc.script.constructs import forms
from minimlc.script.reader import Reader
from minimlc.tir.functions import FUNCTIONS
from minimlc.tir.intrinsics import INTRINSICS
from minimlc.tir.nodes import (
    Buffer,
    Const,
    Expr,
    Unary,
    as_expr,
    binary,
    load,
    select,
    unary,
)

FORMS = forms(
    "T.max(a, b)",
    "T.min(a, b)",
    "T.floordiv(a, b)",
    "T.floormod(a, b)",
    "T.if_then_else(condition, a, b)",
    "T.Select(condition, a, b)",
    "T.cast(value, dtype)",
    "T.infinity(dtype)",
    "T.min_value(dtype)",
    "T.max_value(dtype)",
    *(record.usage for record in INTRINSICS.values()),
    *(f"T.{name}(value)" for name in DTYPES),
)
_PYTHON_TO_SCRIPT = {
    "max": "T.max(a, b)",
    "min": "T.min(a, b)",
    "abs": "T.abs(x)",
    "round": "T.round(x)",
    "float": 'T.cast(x, "float32")',
    "int": 'T.cast(x, "int64")',
    "bool": "x != 0",
    "**": "T.pow(a, b)",
}


class ExprReader(Reader):
    """Reads expressions of the loop language."""

    language = "prim_func"
    refused: ClassVar[dict[type, str]] = {
        ast.While: "loops are counted: for i in range(n)",
        ast.Return: "it writes its results to the buffers it is given",
        ast.Break: "guard the rest with: if condition:",
        ast.Continue: "guard the rest with: if condition:",
    }

    def expr(self, node: ast.expr, dtype: str | None = None) -> Expr:
        """An expression; a Python number takes `dtype`."""
        value = self.operand(node, self.read(node))
        return self.source.guard(node, as_expr, value, dtype)

    def operand(self, node: ast.expr, value: Any) -> Any:
        """`value` if it is a scalar; the error for a buffer or a captured object."""
        if isinstance(value, Buffer):
            indices = ", ".join("ijklmn"[: value.ndim]) or "()"
            hint = f"index it: {value.name}[{indices}]"
            raise self.error(node, f"{value.name} is a buffer, not a number", "E108", hint)
        if not isinstance(value, Expr | bool | int | float):
            kind = "None" if value is None else f"a {type(value).__name__}"
            raise self.error(node, f"expected a number, got {kind}", "E108")
        return value

    def symbolic(self, node: ast.expr, op: str, operands: list[Any]) -> Any:
        for value in operands:
            self.operand(node, value)
        match op, operands:
            case "-", [a]:
                negated = self.source.guard(node, unary, op, a)
                return Unary("-", a) if isinstance(a, Const) else negated
            case "+", [a]:
                return a
            case (("not" | "~"), [a]):
                return self.source.guard(node, unary, op, a)
            case "if", [test, a, b]:
                if isinstance(a, int | float) and isinstance(b, float):
                    a = float(a)
                return self.source.guard(node, select, test, a, b)
            case _ if op in _PYTHON_TO_SCRIPT:
                why = f"{op} is Python's own, for constants"
                raise self.error(node, why, "E124", f"in a script: {_PYTHON_TO_SCRIPT[op]}")
            case _, [a, b]:
                return self.source.guard(node, binary, op, a, b)
            case _:
                raise self.error(node, f"a script cannot call {op} of an expression", "E124")

    def callable_(self, called: str) -> str:
        name = called.rsplit(".", 1)[-1]
        if f"T.{name}" in FORMS:
            return FORMS[f"T.{name}"].usage
        return "scripts call T's own functions, for example T.exp(x) or T.max(a, b)"

    def construct(self, node: ast.Call, name: str) -> Any:
        function = FUNCTIONS.get(name.removeprefix("T."))
        if function is None:
            raise self.error(node.func, f"{name} is no expression", "E124")
        if name not in FORMS:
            FORMS.update(forms(INTRINSICS[name.removeprefix("T.")].usage))
        form = FORMS[name]
        arguments = form.bind(self.source, node)
        values = [self.argument(name, key, arguments[key]) for key in form.required]
        made = self.source.guard(node, function, *values)
        given = any(made is value for value in values)
        return made if given else with_span(made, self.source.span(node))

    def argument(self, function: str, name: str, node: ast.expr) -> Any:
        if name == "dtype":
            return self.dtype(node)
        value = self.read(node)
        if isinstance(value, str) and name == "value" and function != "T.cast":
            return value
        return self.operand(node, value)

    def check_element(self, node: ast.Subscript) -> None:
        """Refuse `B[i][j]`."""
        owner: ast.expr = node.value
        indices = [node.slice]
        while isinstance(owner, ast.Subscript):
            indices.insert(0, owner.slice)
            owner = owner.value
        found = self.scope.values.get(owner.id) if isinstance(owner, ast.Name) else None
        if len(indices) > 1 and isinstance(found, Buffer):
            hint = f"write {found.name}[{', '.join(map(ast.unparse, indices))}]"
            raise self.error(node, "one pair of brackets holds all the indices", "E107", hint)

    def read_Subscript(self, node: ast.Subscript) -> Any:
        self.check_element(node)
        owner = self.read(node.value)
        if not isinstance(owner, Buffer):
            return Reader.read_Subscript(self, node)
        element = self.source.guard(node, load, owner, self.indices(node.slice))
        return with_span(element, self.source.span(node))

    def indices(self, node: ast.expr) -> list[Expr]:
        """The indices between the brackets; a wrong one is pointed at by itself."""
        items = node.elts if isinstance(node, ast.Tuple) else [node]
        return [self.index(item) for item in items]

    def index(self, node: ast.expr) -> Expr:
        if isinstance(node, ast.Slice):
            why = "an index must be one element, got a slice"
            raise self.error(node, why, "E107", "loop over the elements: for i in range(n)")
        given = self.read(node)
        if isinstance(given, float):
            raise self.error(node, f"an index must be an integer, got {given}", "E107")
        value = self.source.guard(node, as_expr, self.operand(node, given), INDEX)
        if not is_integer(value.dtype):
            raise self.error(node, f"an index must be an integer, got {value.dtype}", "E107")
        return value

    def buffer(self, node: ast.expr) -> Buffer:
        """The buffer that a name stands for."""
        if isinstance(node, ast.Name):
            found = self.scope.values.get(node.id)
            if isinstance(found, Buffer):
                return found
            known = [name for name, value in self.scope.values.items() if isinstance(value, Buffer)]
            bound = node.id in self.scope.values
            why = f'"{node.id}" is no buffer' if bound else f'the buffer "{node.id}" is not defined'
            raise self.error(node, why, "E122", did_you_mean(node.id, known))
        raise self.error(node, "expected a buffer's name", "E122")
