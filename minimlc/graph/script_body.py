"""Reading a graph function: bindings, dataflow blocks, operators, calls."""

import ast
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from minimlc.constructs import forms
from minimlc.errors import CompileError, ScriptError, did_you_mean
from minimlc.graph.nodes import (
    Binding,
    BindingBlock,
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
from minimlc.graph.ops import ALIASES, OPS, call_op
from minimlc.literals import decode
from minimlc.names import UniqueNames
from minimlc.node import with_span
from minimlc.scripting import Reader, is_folded
from minimlc.source import Names, Source, parameters, unquoted

FORMS = forms(
    'R.Tensor(shape, dtype="float32")',
    "R.Tuple(*fields)",
    "R.const(value, dtype=None)",
    "R.const_data(content, shape, dtype)",
    "R.call_tir(callee, args, out=None, out_sinfo=None, dtype=None, attrs=None)",
    "R.call_dps_packed(callee, args, out=None, out_sinfo=None, dtype=None, attrs=None)",
    "R.call(callee, args, out=None, attrs=None)",
    "R.dataflow()",
    "R.block()",
    "R.output(*values)",
    "R.func_attr(attributes)",
)
_OPERATORS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "@": "matmul",
    "**": "power",
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_TENSOR_HINT = 'x: R.Tensor((1, 784), "float32")'


class Module(NamedTuple):
    """The functions around the one that is read: by name, and those that are done."""

    owners: frozenset[str] = frozenset()
    names: Mapping[str, ast.FunctionDef] = {}
    done: Mapping[str, Any] = {}


def as_type(value: Any) -> Type:
    """A type, or several as a tuple's."""
    if isinstance(value, TensorType | TupleType):
        return value
    if isinstance(value, list | tuple):
        return TupleType(tuple(map(as_type, value)))
    raise CompileError(
        f"expected a type, got {value!r:.60}", code="E126", hint='R.Tensor((1, 784), "float32")'
    )


def out_type(out: Any, dtype: str | None = None) -> Type:
    """A call's result: a type, several of them, or (as older scripts say) a shape and a dtype."""
    if dtype is None:
        return as_type(out)
    shape = (out,) if isinstance(out, int) else tuple(out)
    return TensorType(shape, dtype)


def const_data(content: str, shape: tuple[int, ...], dtype: str) -> Constant:
    """A constant from the base64 text of its bytes."""
    if not isinstance(content, str):
        raise CompileError(
            "this constant's content was left out for display",
            code="E123",
            hint="mod.script() has everything",
        )
    try:
        return constant(decode(content, shape, dtype))
    except ValueError as error:
        raise CompileError(f"this is no {dtype} array of shape {shape}: {error}") from None


def make_const(value: Any, dtype: str | None = None) -> Constant:
    """A constant tensor: the numbers of `value`; Python's floats are float32."""
    try:
        if dtype is None and not hasattr(value, "dtype") and np.array(value).dtype == np.float64:
            dtype = "float32"
        return constant(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise CompileError(f"no constant of these values: {error}", code="E123") from None


class GraphReader(Reader):
    """Reads one graph function; what is nested gets bindings of its own."""

    language = "graph function"
    refused: ClassVar[dict[type, str]] = {
        ast.If: "choose per element: R.where(condition, a, b)",
        ast.For: "loops belong in a @T.prim_func",
        ast.While: "loops belong in a @T.prim_func",
        ast.AugAssign: "values do not change: y = R.add(x, b)",
    }

    def __init__(self, source: Source, names: Names, module: Module):
        Reader.__init__(self, source, names)
        self.module = module
        self.unique = UniqueNames()
        self.blocks: list[BindingBlock] = []
        self.bindings: list[Binding] = []
        self.outputs: dict[str, Var] | None = None
        self.in_block = ""
        self.hidden: set[str] = set()
        self.attrs: tuple[tuple[str, Any], ...] = ()
        self.result: Expr | None = None

    def function(self, node: ast.FunctionDef) -> Function:
        params = tuple(self.parameter(item) for item in parameters(self.source, node))
        for item in node.body:
            if self.result is not None:
                raise self.error(item, "nothing follows return", "E129")
            self.stmt(item)
        if self.result is None:
            place = self.source.word(node, node.name)
            raise self.source.error(place, f"{node.name} returns nothing", "E129", "return x")
        self.check_type(node.returns, self.result, "the result")
        func = Function(params, tuple(self.blocks), self.result, self.attrs)
        return with_span(func, self.source.word(node, node.name))

    def parameter(self, node: ast.arg) -> Var:
        if node.annotation is None:
            why = f"the parameter {node.arg} has no type"
            raise self.error(node, why, "E126", _TENSOR_HINT.replace("x:", f"{node.arg}:"))
        var = Var(self.unique.take(node.arg), self.type(node.annotation))
        self.scope.bind(node.arg, var)
        return with_span(var, self.source.span(node))

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

    # Statements

    def stmt_Pass(self, node: ast.Pass) -> None:
        pass

    def stmt_Expr(self, node: ast.Expr) -> None:
        call = node.value
        if isinstance(call, ast.Constant) and isinstance(call.value, str):
            return
        name = self.path(call.func) if isinstance(call, ast.Call) else ""
        if name == "R.output":
            self.output(node, FORMS[name].bind(self.source, call)["values"])  # type: ignore[arg-type]
        elif name == "R.func_attr":
            arguments = FORMS[name].bind(self.source, call)  # type: ignore[arg-type]
            self.attrs += self.dictionary(arguments["attributes"], name)
        else:
            hint = "give the value a name: lv = R.add(x, y)"
            raise self.error(node, "a value alone is no statement", "E124", hint)

    def stmt_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) > 1:
            raise self.error(node, "one target for each =", "E124")
        self.assign(node.targets[0], node.value)

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise self.error(node, "this name has no value", "E124", "lv: ... = R.add(x, y)")
        value = self.expr(node.value)
        shown = ast.unparse(node.target)
        self.check_type(node.annotation, value, shown)
        self.bind(node.target, value)

    def assign(self, target: ast.expr, node: ast.expr) -> None:
        value = self.expr(node)
        if not isinstance(target, ast.Tuple | ast.List):
            self.bind(target, value)
            return
        fields = value.type.fields if isinstance(value.type, TupleType) else ()
        if len(fields) != len(target.elts):
            got = f"{len(fields)} field(s)" if fields else "a tensor"
            why = f"{len(target.elts)} names for {got}"
            raise self.error(target, why, "E129", "one name for each field of the tuple")
        whole = self.atom(value, node)
        for index, part in enumerate(target.elts):
            self.bind(part, TupleGetItem(whole, index))

    def bind(self, target: ast.expr, value: Expr) -> Var:
        if not isinstance(target, ast.Name):
            raise self.error(target, "a value's name is a plain name", "E124", "lv = R.add(x, y)")
        var = self.emit(target.id, value, target)
        self.scope.bind(target.id, var)
        self.hidden.discard(target.id)
        return var

    def emit(self, name: str, value: Expr, place: ast.expr) -> Var:
        var = Var(self.unique.take(name), value.type)
        self.bindings.append(with_span(Binding(var, value), self.source.span(place)))
        return var

    def stmt_Return(self, node: ast.Return) -> None:
        if self.in_block:
            hint = "end the block with R.output(...), and return after it"
            raise self.error(node, "return inside a block", "E129", hint)
        if node.value is None:
            raise self.error(node, "a graph function returns a value", "E129", "return x")
        self.result = self.atom(self.expr(node.value), node.value)
        self.close(dataflow=False)

    def close(self, dataflow: bool, always: bool = False) -> None:
        """End the open binding block."""
        if self.bindings or always:
            self.blocks.append(BindingBlock(tuple(self.bindings), dataflow))
            self.bindings = []

    def stmt_With(self, node: ast.With) -> None:
        call = node.items[0].context_expr
        name = self.path(call.func) if isinstance(call, ast.Call) else ""
        if name not in ("R.dataflow", "R.block") or len(node.items) > 1:
            raise self.error(call, "with opens a block here", "E124", "with R.dataflow():")
        FORMS[name].bind(self.source, call)  # type: ignore[arg-type]
        if self.in_block:
            raise self.error(call, f"{name} inside {self.in_block}", "E129", "end that block first")
        self.close(dataflow=False)
        with self.block(name):
            for item in node.body:
                if self.outputs is not None:
                    raise self.error(item, "nothing follows R.output", "E129")
                self.stmt(item)
            if name == "R.dataflow" and self.outputs is None:
                hint = "R.output(lv) names the values used after it"
                raise self.error(call, "a dataflow block ends with R.output", "E129", hint)
        self.close(dataflow=name == "R.dataflow", always=True)

    @contextmanager
    def block(self, name: str) -> Any:
        """The names bound inside; those of a dataflow block end with it, but for its outputs."""
        self.in_block, self.outputs = name, None
        before = dict(self.scope.values) if name == "R.dataflow" else {}
        yield
        if name == "R.dataflow":
            bound = {n for n, v in self.scope.values.items() if before.get(n) is not v}
            kept = self.outputs or {}
            for hidden in bound - set(kept):
                self.scope.unbind(hidden)
                self.hidden.add(hidden)
        self.in_block, self.outputs = "", None

    def output(self, node: ast.Expr, values: list[ast.expr]) -> None:
        if self.in_block != "R.dataflow":
            raise self.error(node, "R.output belongs in a dataflow block", "E129", "return x")
        inside = {binding.var for binding in self.bindings}
        self.outputs = {}
        for item in values:
            value = self.read(item)
            if not isinstance(item, ast.Name) or value not in inside:
                why = f"{ast.unparse(item)} is not bound in this block"
                raise self.error(item, why, "E129", "R.output takes names bound in its block")
            self.outputs[item.id] = value

    def undefined(self, node: ast.Name) -> ScriptError:
        if node.id not in self.hidden:
            return Reader.undefined(self, node)
        why = f'"{node.id}" ends with its dataflow block'
        return self.error(node, why, "E122", f"R.output(..., {node.id}) keeps it")

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
            parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node] * len(value)
            pairs = zip(value, parts, strict=True)
            return Tuple(tuple(self.atom(self.as_expr(v, n), n) for v, n in pairs))
        if isinstance(value, bool | int | float):
            hint = f'R.const({value!r}, "float32")'
            raise self.error(node, f"{value!r} has no dtype here", "E123", hint)
        why = f"{ast.unparse(node)[:40]} is no tensor but a {type(value).__name__}"
        raise self.error(node, why, "E123")

    def atom(self, value: Expr, place: ast.expr) -> Expr:
        """`value` as an argument: what is computed gets a variable first."""
        if isinstance(value, Call | TupleGetItem):
            return self.emit("lv" if self.in_block == "R.dataflow" else "gv", value, place)
        return value

    def argument(self, node: ast.expr) -> Any:
        """An operator's argument: an atom, a constant for it to convert, or a tuple of these."""
        return self._atoms(self.read(node), node)

    def _atoms(self, value: Any, node: ast.expr) -> Any:
        if isinstance(value, tuple):
            parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node] * len(value)
            return tuple(self._atoms(v, n) for v, n in zip(value, parts, strict=True))
        return self.atom(value, node) if isinstance(value, Expr) else value

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
        atoms = [self._atoms(value, node) for value in values]
        call = self.source.guard(node, call_op, name, *atoms, **options)
        return with_span(call, self.source.span(node))

    # Calls

    def read_Call(self, node: ast.Call) -> Any:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id in self.module.owners:
            return self.sibling_call(node)
        return Reader.read_Call(self, node)

    def callable_(self) -> str:
        return "graph functions call R's operators, for example R.add(x, y), and R.call_tir"

    def construct(self, node: ast.Call, name: str) -> Any:
        method: Callable[[ast.Call, Any], Any] | None
        method = getattr(self, f"call_{name.removeprefix('R.').lower()}", None)
        if name in FORMS and method is not None:
            return method(node, FORMS[name].bind(self.source, node))
        base = name.rsplit(".", 1)[-1]
        if not name.startswith("R.") or (base not in OPS and base not in ALIASES):
            raise self.error(node.func, f"{name} is no graph expression", "E124")
        values, options = [self.argument(a) for a in node.args], {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.error(keyword, f"{name} takes no **options", "E121")
            options[keyword.arg] = self.argument(keyword.value)
        return self.operator(node, base, values, options)

    def call_tensor(self, node: ast.Call, bound: dict[str, Any]) -> TensorType:
        dtype = self.dtype(bound["dtype"]) if "dtype" in bound else "float32"
        return self.source.guard(node, TensorType, self.shape(bound["shape"]), dtype)

    def call_tuple(self, node: ast.Call, bound: dict[str, Any]) -> TupleType:
        items = bound["fields"]
        if len(items) == 1 and isinstance(items[0], ast.List | ast.Tuple):
            items = items[0].elts
        return TupleType(tuple(self.type(item) for item in items))

    def call_const(self, node: ast.Call, bound: dict[str, Any]) -> Constant:
        value = self.read(bound["value"])
        dtype = self.optional_dtype(bound)
        return self.source.guard(bound["value"], make_const, value, dtype)

    def call_const_data(self, node: ast.Call, bound: dict[str, Any]) -> Constant:
        content = self.read(bound["content"])
        shape, dtype = self.shape(bound["shape"]), self.dtype(bound["dtype"])
        return self.source.guard(bound["content"], const_data, content, shape, dtype)

    def optional_dtype(self, bound: dict[str, Any]) -> str | None:
        node = bound.get("dtype")
        absent = node is None or (isinstance(node, ast.Constant) and node.value is None)
        return None if absent else self.dtype(node)

    def call_call_tir(self, node: ast.Call, bound: dict[str, Any]) -> Call:
        return self.joint("call_tir", node, bound)

    def call_call_dps_packed(self, node: ast.Call, bound: dict[str, Any]) -> Call:
        return self.joint("call_dps_packed", node, bound)

    def call_call(self, node: ast.Call, bound: dict[str, Any]) -> Call:
        return self.joint("call", node, bound)

    def joint(self, op: str, node: ast.Call, bound: dict[str, Any]) -> Call:
        """A call of another function, by its name."""
        callee = self.callee(bound["callee"])
        values = self.expr(bound["args"])
        args = values.fields if isinstance(values, Tuple) else (self.atom(values, bound["args"]),)
        out = bound.get("out") or bound.get("out_sinfo")
        if out is not None:
            dtype = self.optional_dtype(bound)
            kind = self.source.guard(out, out_type, self.read(out), dtype)
        elif op == "call":
            kind = self.result_type(callee, node)
        else:
            hint = f'R.{op}("{callee}", (x,), out=R.Tensor((1, 784), "float32"))'
            raise self.error(node, f"R.{op} misses out, its result's type", "E121", hint)
        extra = bound.get("attrs")
        attrs = () if extra is None else self.dictionary(extra, "attrs")
        call = Call(op, args, (("callee", callee), *attrs), kind)
        return with_span(call, self.source.span(node))

    def callee(self, node: ast.expr) -> str:
        """`"mm"`, `cls.mm`, `Module.mm`, or the name of a function beside this one."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in self.module.owners:
                self.check_sibling(node, node.attr)
                return node.attr
        elif isinstance(node, ast.Name) and node.id in self.module.names:
            return node.id
        return self.string(node, "the function to call")

    def check_sibling(self, node: ast.Attribute, name: str) -> None:
        if name not in self.module.names:
            place = self.source.word(node, f".{name}")
            place = place._replace(column=place.column + 1)
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
            self.no_graph_function(name, node)
        if syntax is None or syntax.returns is None:
            hint = f"def {name}(...) -> R.Tensor(...):, or R.call(..., out=R.Tensor(...))"
            raise self.error(node, f"the type that {name} returns is not known", "E126", hint)
        return self.type(syntax.returns)

    def no_graph_function(self, name: str, node: ast.Call) -> NoReturn:
        hint = f'R.call_tir("{name}", (x,), out=R.Tensor((1, 784), "float32"))'
        raise self.error(node.func, f"{name} is a primitive function", "E129", hint)


def known_operators() -> Iterable[str]:
    """The operators' names and aliases."""
    return (*OPS, *ALIASES)
