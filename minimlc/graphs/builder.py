"""BlockBuilder: graph functions written down step by step.

bb = BlockBuilder()
with bb.function("main", [x, w]):
    with bb.dataflow():
        lv = bb.emit(op.matmul(x, w))
        gv = bb.emit_output(op.relu(lv))
    bb.emit_func_output(gv)
mod = bb.get()
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from keyword import iskeyword
from typing import Any

import numpy as np

from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.ir.dimensions import SIZES
from minimlc.graphs.ir.scope import Scope, refuse
from minimlc.graphs.op import FUNCTIONS
from minimlc.loops.ir.nodes import PrimFunc, binary
from minimlc.loops.te import te
from minimlc.loops.values.literals import names_in
from minimlc.loops.values.module import IRModule, not_a_module, reserved_names
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import Node, structural_equal, structural_hash


class BlockBuilder:
    """Builds graph functions and the primitive functions they call, in addition to `mod`'s;
    without `reuse`, none of these stands for an equal function that is added.
    """

    def __init__(self, mod: IRModule | None = None, *, reuse: bool = True):
        if mod is not None and not isinstance(mod, IRModule):
            raise not_a_module(mod, "mlc.BlockBuilder", "a module")
        mod = mod or IRModule()
        self._functions: dict[str, Node] = dict(mod.entries)
        self._attrs = mod.attrs
        self._names = UniqueNames((*self._functions, *reserved_names(mod)))
        self._scopes: list[Scope] = []
        self._alike: dict[Any, list[str]] | None = None if reuse else {}

    @contextmanager
    def function(
        self,
        name: str,
        params: Sequence[ir.Var] | None = None,
        attrs: Mapping[str, object] | None = None,
    ) -> Iterator[None]:
        """The graph function `name`. Its parameters come here or with `emit_func_output`.

        `attrs={"primitive": True}` marks a group of operators for `fuse_tir`.
        """
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
            why = f"a function's name is an identifier, got {name!r}"
            refuse(why, "E211", 'bb.function("main", [x])')
        if name in self._names:
            why = f'the module already has a function "{name}"'
            refuse(why, "E211", f'for example "{name}1"')
        scope = Scope(name, params, tuple((attrs or {}).items()))
        self._names.reserve((name,))
        self._scopes.append(scope)
        try:
            yield
            if scope.result is None:
                why = f'the function "{name}" ended without a result'
                hint = "bb.emit_func_output(value) as the last line of the function"
                refuse(why, "E215", hint)
            self._functions[name] = scope.function()
        except BaseException:
            self._names.release(name, name)
            raise
        finally:
            self._scopes.remove(scope)

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """A block without side effects. What is used after it must be an output of it."""
        scope = self._scope("bb.dataflow()")
        if scope.dataflow:
            refuse("a dataflow block cannot hold another one", "E216")
        scope.start_block(dataflow=True)
        yield
        scope.end_block()

    def emit(self, expr: ir.Expr, name_hint: str = "lv") -> ir.Var:
        """Bind `expr` to a new variable and return that. Calls inside it are bound first."""
        return self._scope("bb.emit(...)").bind(expr, name_hint)

    def match_cast(self, value: ir.Expr, shape: Any, name_hint: str = "lv") -> ir.Var:
        """Bind `value`, which has `shape`, a shape or a tensor's type: the call checks it."""
        return self.emit(FUNCTIONS["match_cast"](value, shape), name_hint)

    def emit_te(self, function: Callable[..., Any], *args: Any, **attrs: Any) -> ir.Var:
        """Bind a call of the primitive function that `function` computes; see `call_te`."""
        return self._scope("bb.emit_te(...)").bind(self.call_te(function, *args, **attrs), "lv")

    def call_te(self, function: Callable[..., Any], *args: Any, **attrs: Any) -> ir.Call:
        """A call of a new primitive function, not bound yet.

        `function` is given a `te.placeholder` for every tensor among `args` (also inside lists
        and tuples), everything else as it is, and returns one tensor expression or several.
        The primitive function takes `primfunc_name_hint`, else `function`'s own name. Structurally
        equal ones are added once.
        """
        if not callable(function):
            why = f"expected a function that returns tensor expressions, got {function!r:.60}"
            hint = "bb.emit_te(lambda A: te.compute(A.shape, lambda *i: A[i] * 2), x)"
            refuse(why, "E213", hint)
        hint = attrs.pop("primfunc_name_hint", None) or _name_of(function)
        inputs = _Inputs(self)
        values = [inputs.convert(arg, _letter(n)) for n, arg in enumerate(args)]
        options = {name: inputs.convert(value, name) for name, value in attrs.items()}
        result = function(*values, **options)
        several = isinstance(result, list | tuple)
        outputs = _outputs(hint, result if several else [result], inputs.placeholders)
        func = te.create_prim_func([*inputs.placeholders, *outputs])
        types = tuple(ir.TensorType(out.shape, out.dtype) for out in outputs)
        out: ir.Type = ir.TupleType(types) if several else types[0]
        return ir.call_tir(self.add_func(func, hint), tuple(inputs.args), out)

    def emit_output(self, expr: ir.Expr, name_hint: str = "gv") -> ir.Var:
        """Bind `expr` for use after the dataflow block; a bound variable just becomes visible."""
        scope = self._scope("bb.emit_output(...)")
        if not scope.dataflow:
            hint = "with bb.dataflow(): ..., or bb.emit(...) outside one"
            refuse("bb.emit_output belongs inside a dataflow block", "E216", hint)
        if isinstance(expr, ir.Var) and expr in scope.values:
            scope.check_visible(expr)
            var = expr
        else:
            var = scope.bind(expr, name_hint)
        scope.make_output(var)
        return var

    def emit_func_output(self, output: Any, params: Sequence[ir.Var] | None = None) -> None:
        """End the function: its result, a value or a tuple of values, and maybe its parameters."""
        scope = self._scope("bb.emit_func_output(...)")
        if scope.dataflow:
            why = "bb.emit_func_output comes after the dataflow block, not inside it"
            refuse(why, "E216", "move it out of the `with bb.dataflow()`")
        if params is not None:
            scope.set_params(params)
        result = scope.atom(_as_expr(output))
        if scope.params is None:
            scope.set_params(())
        scope.result = result

    def add_func(self, func: ir.Function | PrimFunc, name_hint: str) -> str:
        """Add a function, or reuse a structurally equal one of the same level; returns its name."""
        if self._alike is None:
            self._alike = {}
            for name, known in self._functions.items():
                self._alike_to(known, self._alike).append(name)
        same = self._alike_to(func, self._alike)
        for name in same:
            if name in self._functions and structural_equal(self._functions[name], func):
                return name
        name = self._names.take(name_hint)
        self._functions[name] = func
        same.append(name)
        return name

    def _alike_to(self, func: Node, alike: dict[Any, list[str]]) -> list[str]:
        """Functions that may equal `func`: by hash, or by outline while only one has it."""
        first = alike.setdefault(_outline(func), [])
        if not first:
            return first
        if first[0] in self._functions:
            alike.setdefault(structural_hash(self._functions[first[0]]), [first[0]])
        return alike.setdefault(structural_hash(func), [])

    def update_func(self, name: str, func: ir.Function | PrimFunc) -> None:
        """Put `func` in the place of the function `name`."""
        if name not in self._functions:
            refuse(f'the module has no function "{name}"', "E105")
        self._functions[name] = func

    def lookup_binding(self, var: ir.Expr) -> ir.Expr | None:
        """The value bound to `var` in the function that is open; None for a parameter."""
        return (
            self._scopes[-1].values.get(var) if self._scopes and isinstance(var, ir.Var) else None
        )

    def get(self) -> IRModule:
        """The module built so far."""
        if self._scopes:
            why = f'the function "{self._scopes[-1].name}" is not finished'
            refuse(why, "E215", "call bb.get() after its `with` block")
        return IRModule(self._functions, self._attrs)

    @contextmanager
    def in_scope(self, scope: Scope) -> Iterator[None]:
        """Emit into `scope`, which the caller made and will finish."""
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.remove(scope)

    def atom(self, expr: ir.Expr) -> ir.Expr:
        """A variable, a constant, or a tuple of them, that stands for `expr`."""
        if self._scopes:
            return self._scopes[-1].atom(expr)
        if not isinstance(expr, ir.Var | ir.Constant):
            why = "a nested expression must be bound first, and no function is open"
            refuse(why, "E216", "with bb.function(name, params): ...")
        return expr

    def _scope(self, what: str) -> Scope:
        if not self._scopes:
            hint = 'with bb.function("main", [x]): ...'
            refuse(f"{what} belongs inside a function", "E216", hint)
        scope = self._scopes[-1]
        if scope.result is not None:
            why = f'{what} comes after the result of "{scope.name}"'
            refuse(why, "E215", "bb.emit_func_output is the last line")
        return scope


def _outline(func: Node) -> Hashable:
    """A key that equal functions share, and others of a model seldom do: cheaper than a hash."""
    params = getattr(func, "params", ())
    types = [p.type if isinstance(p, ir.Var) else (p.shape, p.dtype) for p in params]
    return type(func), func._facts[1:], tuple(types)


class _Inputs:
    """Placeholders for the tensors among a te function's arguments."""

    def __init__(self, builder: BlockBuilder):
        self.builder = builder
        self.args: list[ir.Expr] = []
        self.placeholders: list[te.Tensor] = []
        self.sizes: dict[str, Any] = {}

    def convert(self, value: Any, name: str) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([self.convert(v, f"{name}{n}") for n, v in enumerate(value)])
        if isinstance(value, np.ndarray):
            value = ir.constant(value)
        if not isinstance(value, ir.Expr):
            return self.size(value)
        if isinstance(value.type, ir.TupleType):
            count = len(value.type.fields)
            items = [ir.TupleGetItem(value, position) for position in range(count)]
            return self.convert(list(value.fields if isinstance(value, ir.Tuple) else items), name)
        self.args.append(self.builder.atom(value))
        shape = [self.size(size) for size in value.type.shape]
        self.placeholders.append(te.placeholder(shape, value.type.dtype, name=name))
        return self.placeholders[-1]

    def size(self, size: Any) -> Any:
        """A size of a placeholder: a formula of variables if it is known only at the call."""
        for name in names_in(size):
            self.sizes.setdefault(name, te.var(name))
        sizes = SIZES.first if names_in(size) else None
        return sizes.size_at(size, self.sizes, partial(binary, "min")) if sizes else size


def _outputs(hint: str, results: Iterable[Any], inputs: Sequence[te.Tensor]) -> list[te.Tensor]:
    """The results, each a separate computed tensor: an input, or a repeated result, is copied."""
    outputs: list[te.Tensor] = []
    for result in results:
        if not isinstance(result, te.Tensor):
            got = f"{type(result).__name__}: {result!r}"
            why = f"{hint} must return tensor expressions, got {got}"
            refuse(why, "E213", "return te.compute(...)")
        if result in outputs or result in inputs or result.value is None:
            result = _copy(result)
        outputs.append(result)
    if not outputs:
        refuse(f"{hint} returns no tensor", "E213")
    return outputs


def _copy(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x[i], name=f"{x.name}_copy")


def _as_expr(value: Any) -> ir.Expr:
    if isinstance(value, list | tuple):
        return ir.Tuple(tuple(_as_expr(v) for v in value))
    return value


def _name_of(function: Callable) -> str:
    name = getattr(function, "__name__", "")
    return "te_func" if name in ("", "<lambda>") else name


def _letter(position: int) -> str:
    """The name of a te function's input: A, B, ... and then A26, A27, ..."""
    return chr(ord("A") + position) if position < 26 else f"A{position}"
