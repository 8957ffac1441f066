"""Values of the graph language: types, constants, operators, calls."""

import ast
from collections.abc import Mapping
from functools import partialmethod
from typing import Any, NamedTuple, NoReturn

import numpy as np

from minimlc.constants import is_folded
from minimlc.errors import CompileError, Span, did_you_mean
from minimlc.graph.nodes import (
    Binding,
    Call,
    Constant,
    Expr,
    Function,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    constant,
)
from minimlc.graph.operators import ARITHMETIC, COMPARISONS
from minimlc.graph.ops import ALIASES, OPS, call_op
from minimlc.names import UniqueNames
from minimlc.node import with_span
from minimlc.script.graph_forms import FORMS, as_type, const_data, make_const, out_type
from minimlc.script.reader import Reader
from minimlc.script.source import Names, Source, unquoted

_OPERATORS = {
    **{sign: name for sign, (_, name) in (ARITHMETIC | COMPARISONS).items()},
    "==": "equal",
    "!=": "not_equal",
}


class Module(NamedTuple):
    """The functions around the one that is read: by name, and those that are done."""

    owners: frozenset[str] = frozenset()
    names: Mapping[str, ast.FunctionDef] = {}
    done: Mapping[str, Any] = {}


class ValueReader(Reader):
    """Reads values; what is nested gets bindings of its own, so that calls are in normal form."""

    forms = FORMS

    def __init__(self, source: Source, names: Names, module: Module):
        Reader.__init__(self, source, names)
        self.module = module
        self.unique = UniqueNames()
        self.bindings: list[Binding] = []
        self.fresh = "gv"

    # Types

    def type(self, node: ast.expr) -> Type:
        """The type that an annotation means."""
        value = self.read(unquoted(self.source, node))
        return self.source.guard(node, as_type, value)

    def check_type(self, node: ast.expr | None, value: Expr, what: str) -> None:
        """Compare a value with the type that the script gives it."""
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return
        declared = self.type(node)
        if declared != value.type:
            hint = f"write {value.type!r}, or leave it out"
            raise self.error(node, f"{what} has the type {value.type!r}", "E126", hint)

    def emit(self, name: str, value: Expr, place: ast.expr) -> Var:
        var = Var(self.unique.take(name), value.type)
        self.bindings.append(with_span(Binding(var, value), self.source.span(place)))
        return var

    # Values

    def expr(self, node: ast.expr) -> Expr:
        """A graph expression; the arguments inside it are in normal form."""
        return self.as_expr(self.read(node), node)

    def as_expr(self, value: Any, node: ast.expr) -> Expr:
        if isinstance(value, Expr):
            return value
        if isinstance(value, np.ndarray):
            return self.source.guard(node, constant, value)
        if isinstance(value, tuple):
            pairs = _with_places(value, node)
            return Tuple(tuple(self.atom(self.as_expr(v, n), n) for v, n in pairs))
        if isinstance(value, bool | int | float):
            hint = f'R.const({value!r}, "float32")'
            raise self.error(node, f"{value!r} has no dtype here", "E123", hint)
        why = f"{ast.unparse(node)[:40]} is no tensor but a {type(value).__name__}"
        raise self.error(node, why, "E123")

    def atom(self, value: Any, place: ast.expr) -> Any:
        """`value` as an argument: what is computed gets a variable first, also within a tuple."""
        if isinstance(value, Call | TupleGetItem):
            return self.emit(self.fresh, value, place)
        if isinstance(value, tuple):
            return tuple(self.atom(v, n) for v, n in _with_places(value, place))
        return value

    def argument(self, node: ast.expr) -> Any:
        """An operator's argument: an atom, a constant for it to convert, or a tuple of these."""
        return self.atom(self.read(node), node)

    def attribute(self, node: ast.expr, what: str) -> Any:
        value = self.read(node)
        if not (is_folded(value) or isinstance(value, TensorType | TupleType)):
            raise self.error(node, f"a value of {what} must be a constant", "E123")
        return value

    def read_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.read(node.value)
        if not isinstance(owner, Expr):
            return Reader.read_Subscript(self, node)
        if not isinstance(owner.type, TupleType):
            hint = "R.take(x, indices, axis=0), R.strided_slice(x, ...)"
            raise self.error(node, "only a tuple has fields; this is a tensor", "E129", hint)
        index = self.integer(node.slice, "a field's number")
        count = len(owner.type.fields)
        if not 0 <= index < count:
            raise self.error(node.slice, f"field {index} of a tuple of {count}", "E129")
        return TupleGetItem(self.atom(owner, node.value), index)

    def symbolic(self, node: ast.expr, op: str, operands: list[Any]) -> Any:
        for value in operands:
            if not isinstance(value, Expr | np.ndarray | bool | int | float):
                raise self.error(node, f'"{op}" needs tensors', "E124")
        if op == "-" and len(operands) == 1:
            return self.operator(node, "negative", operands, {})
        if op not in _OPERATORS or len(operands) != 2:
            hint = f"R.{did_you_mean(op, OPS)}" if op.isalpha() else ""
            raise self.error(node, f"a graph function cannot hold {op} of tensors", "E124", hint)
        return self.operator(node, _OPERATORS[op], operands, {})

    def operator(
        self, node: ast.expr, name: str, values: list[Any], options: Mapping[str, Any]
    ) -> Call:
        atoms = [self.atom(value, node) for value in values]
        try:
            call = call_op(name, *atoms, **options)
        except CompileError as error:
            place = _keyword_of(node, error.why)
            raise self.source.located(error, place or node) from None
        return with_span(call, self.source.span(node))

    # Calls

    def read_Call(self, node: ast.Call) -> Any:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id in self.module.owners:
            return self.sibling_call(node)
        return Reader.read_Call(self, node)

    def callable_(self, called: str) -> str:
        name = called.rsplit(".", 1)[-1]
        if name in OPS:
            return f"R.{name}{OPS[name].signature}"
        return "graph functions call R's operators, for example R.add(x, y), and R.call_tir"

    def construct(self, node: ast.Call, name: str) -> Any:
        if name in self.forms["value"]:
            return self.apply("value", node)
        base = name.rsplit(".", 1)[-1]
        if not name.startswith("R.") or (base not in OPS and base not in ALIASES):
            raise self.error(node.func, f"{name} is no graph expression", "E124")
        values, options = [self.argument(a) for a in node.args], {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.error(keyword, f"{name} takes no **options", "E121")
            options[keyword.arg] = self.argument(keyword.value)
        return self.operator(node, base, values, options)

    def value_Tensor(self, node: ast.Call, shape: tuple[int, ...], dtype: str) -> TensorType:
        return self.source.guard(node, TensorType, shape, dtype)

    def value_Tuple(self, node: ast.Call, fields: list[ast.expr]) -> TupleType:
        alone = len(fields) == 1 and isinstance(fields[0], ast.List | ast.Tuple)
        items: list[ast.expr] = fields[0].elts if alone else fields  # type: ignore[attr-defined]
        return TupleType(tuple(map(self.type, items)))

    def value_const(self, node: ast.Call, value: ast.expr, dtype: str | None) -> Constant:
        return self.source.guard(value, make_const, self.read(value), dtype)

    def value_const_data(
        self, node: ast.Call, content: ast.expr, shape: tuple[int, ...], dtype: str
    ) -> Constant:
        return self.source.guard(content, const_data, self.read(content), shape, dtype)

    def joint(
        self,
        node: ast.Call,
        op: str,
        callee: ast.expr,
        args: ast.expr,
        out: ast.expr | None,
        attrs: tuple[tuple[str, Any], ...] | None,
        out_sinfo: ast.expr | None = None,
        dtype: str | None = None,
    ) -> Call:
        """A call of another function, by its name."""
        name = self.callee(callee)
        values = self.expr(args)
        atoms = values.fields if isinstance(values, Tuple) else (self.atom(values, args),)
        out = out or out_sinfo
        if out is not None:
            kind = self.source.guard(out, out_type, self.read(out), dtype)
        elif op == "call":
            kind = self.result_type(name, node)
        else:
            hint = f'R.{op}("{name}", (x,), out=R.Tensor((1, 784), "float32"))'
            raise self.error(node, f"R.{op} misses out, its result's type", "E121", hint)
        call = Call(op, atoms, (("callee", name), *(attrs or ())), kind)
        return with_span(call, self.source.span(node))

    value_call_tir = partialmethod(joint, op="call_tir")
    value_call_dps_packed = partialmethod(joint, op="call_dps_packed")
    value_call = partialmethod(joint, op="call")

    def callee(self, node: ast.expr) -> str:
        """`"mm"`, `cls.mm`, `Module.mm`, or the name of a function beside this one."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in self.module.owners:
                self.check_sibling(node, node.attr)
                return node.attr
        elif isinstance(node, ast.Name):
            if node.id in self.module.names:
                return node.id
            if node.id not in self.scope.values and node.id not in self.names:
                self.no_sibling(node, node.id)
        return self.string(node, "the function to call")

    def check_sibling(self, node: ast.Attribute, name: str) -> None:
        if name not in self.module.names:
            place = self.source.word(node, f".{name}")
            self.no_sibling(place._replace(column=place.column + 1), name)

    def no_sibling(self, place: ast.expr | Span, name: str) -> NoReturn:
        hint = did_you_mean(name, self.module.names)
        raise self.source.error(place, f'the module has no function "{name}"', "E122", hint)

    def sibling_call(self, node: ast.Call) -> Call:
        """`cls.fused(x, y)`: a call of a graph function of this module."""
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        self.check_sibling(node.func, name)
        if node.keywords:
            raise self.error(node.keywords[0], f"{name} takes no keywords", "E121")
        args = tuple(self.as_expr(self.argument(a), a) for a in node.args)
        call = Call("call", args, (("callee", name),), self.result_type(name, node))
        return with_span(call, self.source.span(node))

    def result_type(self, name: str, node: ast.Call) -> Type:
        """The type that a graph function of this module returns."""
        func, syntax = self.module.done.get(name), self.module.names.get(name)
        if isinstance(func, Function):
            return func.result.type
        if func is not None:
            hint = f'R.call_tir("{name}", (x,), out=R.Tensor((1, 784), "float32"))'
            raise self.error(node.func, f"{name} is a primitive function", "E129", hint)
        if syntax is None or syntax.returns is None:
            hint = f"def {name}(...) -> R.Tensor(...):, or R.call(..., out=R.Tensor(...))"
            raise self.error(node, f"the type that {name} returns is not known", "E126", hint)
        return self.type(syntax.returns)


def _with_places(value: tuple, node: ast.expr) -> list[tuple[Any, ast.expr]]:
    """The fields of a tuple, each with the syntax that it was read from."""
    places = node.elts if isinstance(node, ast.Tuple | ast.List) else [node] * len(value)
    return list(zip(value, places, strict=True))


def _keyword_of(node: ast.expr, why: str) -> ast.keyword | None:
    """The option that an operator's error is about."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    for keyword in keywords:
        if f'"{keyword.arg}"' in why or f"{keyword.arg}=" in why:
            return keyword
    return None
