"""Reading a graph function: bindings, dataflow blocks, the result."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from minimlc.errors import ScriptError
from minimlc.graph.nodes import BindingBlock, Expr, Function, TupleGetItem, TupleType, Var
from minimlc.node import with_span
from minimlc.script.graph_value import Module, ValueReader
from minimlc.script.reader import Reader
from minimlc.script.source import Names, Source, parameters

_TENSOR_HINT = 'x: R.Tensor((1, 784), "float32")'


class GraphReader(ValueReader):
    """Reads one graph function."""

    language = "graph function"
    refused: ClassVar[dict[type, str]] = {
        ast.If: "choose per element: R.where(condition, a, b)",
        ast.For: "loops belong in a @T.prim_func",
        ast.While: "loops belong in a @T.prim_func",
        ast.AugAssign: "values do not change: y = R.add(x, b)",
    }

    def __init__(self, source: Source, names: Names, module: Module):
        ValueReader.__init__(self, source, names, module)
        self.blocks: list[BindingBlock] = []
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
        var = Var(self.unique.take(node.arg), self.source.guard(node, self.type, node.annotation))
        self.scope.bind(node.arg, var)
        return with_span(var, self.source.span(node))

    # Statements

    def action(self, node: ast.Expr, name: str) -> None:
        hint = "give the value a name: lv = R.add(x, y)"
        raise self.error(node, "a value alone is no statement", "E124", hint)

    def action_func_attr(self, call: ast.Call, attributes: Any) -> None:
        self.attrs += attributes

    def action_output(self, call: ast.Call, values: list[ast.expr]) -> None:
        if self.in_block != "R.dataflow":
            raise self.error(call, "R.output belongs in a dataflow block", "E129", "return x")
        inside = {binding.var for binding in self.bindings}
        self.outputs = {}
        for item in values:
            value = self.read(item)
            if not isinstance(item, ast.Name) or value not in inside:
                why = f"{ast.unparse(item)} is not bound in this block"
                raise self.error(item, why, "E129", "R.output takes names bound in its block")
            self.outputs[item.id] = value

    def is_module(self, target: str, value: ast.expr) -> bool:
        """Whether `target = value` is `cls = Module`, which TVM prints before calls of `cls.f`."""
        if not isinstance(value, ast.Name) or value.id in self.scope.values:
            return False
        owners = self.module.owners
        return value.id in owners or (target in owners and value.id not in self.names)

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise self.error(node, "this name has no value", "E124", "lv: ... = R.add(x, y)")
        value = self.expr(node.value)
        self.check_type(node.annotation, value, ast.unparse(node.target))
        self.bind(node.target, value)

    def assign(self, node: ast.Assign, target: ast.expr, source: ast.expr) -> None:
        if isinstance(target, ast.Name) and self.is_module(target.id, source):
            self.module = self.module._replace(owners=self.module.owners | {target.id})
            return
        value = self.expr(source)
        if not isinstance(target, ast.Tuple | ast.List):
            self.bind(target, value)
            return
        fields = value.type.fields if isinstance(value.type, TupleType) else ()
        if len(fields) != len(target.elts):
            got = f"{len(fields)} field(s)" if fields else "a tensor"
            why = f"{len(target.elts)} names for {got}"
            raise self.error(target, why, "E129", "one name for each field of the tuple")
        whole = self.atom(value, source)
        for index, part in enumerate(target.elts):
            self.bind(part, TupleGetItem(whole, index))

    def bind(self, target: ast.expr, value: Expr) -> Var:
        if not isinstance(target, ast.Name):
            raise self.error(target, "a value's name is a plain name", "E124", "lv = R.add(x, y)")
        var = self.emit(target.id, value, target)
        self.scope.bind(target.id, var)
        self.hidden.discard(target.id)
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
        call: Any = node.items[0].context_expr
        name = self.called(call)
        if name not in self.forms["with"] or len(node.items) > 1:
            raise self.error(call, "with opens a block here", "E124", "with R.dataflow():")
        self.arguments(self.forms["with"][name], call)
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
    def block(self, name: str) -> Iterator[None]:
        """The names bound inside; those of a dataflow block end with it, except its outputs."""
        self.in_block, self.outputs = name, None
        self.fresh = "lv" if name == "R.dataflow" else "gv"
        before = dict(self.scope.values)
        yield
        if name == "R.dataflow":
            bound = {n for n, v in self.scope.values.items() if before.get(n) is not v}
            kept: dict[str, Var] = self.outputs or {}
            for hidden in bound - set(kept):
                self.scope.unbind(hidden)
                self.hidden.add(hidden)
        self.in_block, self.outputs, self.fresh = "", None, "gv"

    def undefined(self, node: ast.Name) -> ScriptError:
        if node.id not in self.hidden:
            return Reader.undefined(self, node)
        why = f'"{node.id}" ends with its dataflow block'
        return self.error(node, why, "E122", f"R.output(..., {node.id}) keeps it")
