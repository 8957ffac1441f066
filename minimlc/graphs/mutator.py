"""Mutator: rewrite the graph functions of a module."""

from collections.abc import Mapping
from typing import Any

from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import Binding, BindingBlock, Constant, Expr, Function, Var, size_names
from minimlc.graphs.ir.scope import Scope
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values import node
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import replace


class Mutator(node.Mutator):
    """Override `visit_<Node>(self, node)`, apply with `MyRewriter()(mod)`.

        class MultiplyAdd(mlc.Mutator):
            def visit_Call(self, call):
                product = self.lookup_binding(call.args[0]) if call.op == "add" else None
                if isinstance(product, mlc.Call) and product.op == "multiply":
                    return mlc.op.ewise_fma(*product.args, call.args[1])
                return call

    The bindings of a function are visited in order, operands rewritten before the values that use
    them. What a method returns may be nested: its parts get their own bindings. Functions
    marked primitive and primitive functions stay as they are. A rewrite that changes nothing
    returns the same module. Methods of your own may be called `visit_pattern` or the like; what
    looks like a misspelt node is a `TypeError` when the class is defined.
    """

    _builder: BlockBuilder | None = None
    _function_name: str = "this function"

    @property
    def builder(self) -> BlockBuilder:
        """Where to add functions (`add_func`, `call_te`) and bindings before this one (`emit`)."""
        if self._builder is None:
            self._builder = BlockBuilder()
        return self._builder

    def __call__(self, mod: IRModule) -> IRModule:
        return self.rewrite(mod)

    def rewrite(self, mod: IRModule) -> IRModule:
        """`mod` with every function rewritten, and the functions added on the way."""
        self._builder = BlockBuilder(mod)
        for name, func in mod.entries:
            self._function_name = name
            new = self.visit(func)
            if new is not func:
                self.builder.update_func(name, new)
        result = mod.with_functions(self.builder.get().functions)
        self._builder = None
        return result

    def lookup_binding(self, var: Expr) -> Expr | None:
        """The rewritten value bound to `var`; None for a parameter or a constant."""
        return self.builder.lookup_binding(var)

    def visit_PrimFunc(self, func: PrimFunc) -> PrimFunc:
        return func

    def visit_Function(self, func: Function) -> Function:
        return func if is_primitive(func) else self.rewrite_function(func)

    def rewrite_function(self, func: Function) -> Function:
        """`func` with its bindings rewritten in order."""
        scope = Scope(self._function_name, func.params, func.attrs)
        variables = [binding.var for binding in func.bindings()]
        scope.names.reserve([var.name for var in variables])
        scope.names.reserve(size_names(*[var.type for var in variables]))
        renamed: dict[Var, Expr] = {}
        with self.builder.in_scope(scope):
            for block in func.blocks:
                self._rewrite_block(block, scope, renamed)
            result = scope.atom(self.visit(substitute(func.result, renamed)))
        scope.end_block()
        return replace(func, blocks=scope.blocks, result=result)

    def _rewrite_block(self, block: BindingBlock, scope: Scope, renamed: dict[Var, Expr]) -> None:
        scope.start_block(block.dataflow)
        for binding in block.bindings:
            value = self.visit(substitute(binding.value, renamed))
            self.rebind(binding, value, scope, renamed)
        scope.make_all_outputs()
        scope.end_block(block)

    def rebind(self, binding: Binding, value: Expr, scope: Scope, renamed: dict[Var, Expr]) -> None:
        """Bind a rewritten value, to the old variable if the type is the same."""
        if value is binding.value:
            scope.append(binding)
            return
        normal = scope.normalize(value)
        if isinstance(normal, Var | Constant):
            renamed[binding.var] = normal
            return
        var = binding.var
        if normal.type != var.type:
            var = Var(var.name, normal.type)
            renamed[binding.var] = var
        scope.append(Binding(var, normal))


def is_primitive(func: object) -> bool:
    """Whether `func` is a group of operators that fusion made."""
    return isinstance(func, Function) and bool(dict(func.attrs).get("primitive", False))


class _Substitute(node.Mutator):
    def __init__(self, renamed: Mapping[Any, Expr]):
        self.renamed = renamed

    def visit_Var(self, item: Var) -> Expr:
        return self.renamed.get(item, item)

    def visit_Constant(self, item: Constant) -> Expr:
        return self.renamed.get(item, item)


def substitute(value: Expr, renamed: Mapping[Any, Expr]) -> Expr:
    """A normal expression with some of its variables and constants replaced."""
    return _Substitute(renamed).visit(value) if renamed else value
