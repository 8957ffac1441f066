"""A graph function under construction: bindings in normal form, under fresh names."""

from collections.abc import Iterable
from typing import NoReturn

from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.ir.normal import Normal
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import replace


class Scope:
    """Bindings in order, gathered into blocks.

    `params` is None while the parameters are not known yet: variables bound nowhere are then
    taken for parameters to come.
    """

    def __init__(self, name: str, params: Iterable[ir.Var] | None, attrs: ir.Attrs = ()):
        self.name = name
        self.attrs = attrs
        self.params: tuple[ir.Var, ...] | None = None
        self.names = UniqueNames()
        self.values: dict[ir.Var, ir.Expr] = {}
        self.blocks: list[ir.BindingBlock] = []
        self.result: ir.Expr | None = None
        self.dataflow = False
        self._open: list[ir.Binding] = []
        self._local: set[ir.Var] = set()
        self._hidden: set[ir.Var] = set()
        self._declared: set[ir.Var] = set()
        self._awaited: dict[ir.Var, None] = {}
        self._normal = Normal(self._bind_inner, self._leaf)
        if params is not None:
            self.set_params(params)

    def set_params(self, params: Iterable[ir.Var]) -> None:
        """Declare the parameters; every variable taken for one must be among them."""
        if self.params is not None:
            why = f'the parameters of "{self.name}" are given twice'
            refuse(why, "E211", "give them to bb.function, or to bb.emit_func_output, not to both")
        if isinstance(params, ir.Expr) or not isinstance(params, Iterable):
            shown = params.name if isinstance(params, ir.Var) else "x"
            why = f'the parameters of "{self.name}" are a list of variables, got {params!r}'
            refuse(why, "E211", f'bb.function("{self.name}", [{shown}])')
        params = tuple(params)
        for param in params:
            if not isinstance(param, ir.Var):
                why = f'a parameter of "{self.name}" is a variable, got {param!r}'
                refuse(why, "E211", 'mlc.Var("x", R.Tensor((n, m), "float32"))')
            if param in self.values:
                why = f'"{param.name}" is bound in "{self.name}"; it cannot be a parameter too'
                refuse(why, "E211")
        self._check_param_names(params)
        missing = [f'"{var.name}"' for var in self._awaited if var not in set(params)]
        if missing:
            why = f'"{self.name}" uses {", ".join(missing)}, neither bound nor a parameter'
            refuse(why, "E212", "list it in params=[...], or emit it first")
        self.params = params
        self._declared = set(params)

    def _check_param_names(self, params: tuple[ir.Var, ...]) -> None:
        seen: set[str] = set()
        for param in params:
            taken = param.name in self.names and param not in self._awaited
            if param.name in seen or taken:
                why = f'the name "{param.name}" is taken in "{self.name}"'
                refuse(why, "E211", "give every parameter a name of its own")
            seen.add(param.name)
        self.names.reserve((*seen, *ir.size_names(*[param.type for param in params])))

    def bind(self, value: ir.Expr, name_hint: str) -> ir.Var:
        """A new variable for `value`, which is made normal first."""
        normal = self.normalize(value)
        var = ir.Var(self.names.take(name_hint), normal.type)
        self.append(ir.Binding(var, normal))
        return var

    def append(self, binding: ir.Binding) -> None:
        """Add a binding whose value is normal and whose variable's name is free."""
        self._open.append(binding)
        self.names.reserve(ir.size_names(binding.var.type))
        self.values[binding.var] = binding.value
        if self.dataflow:
            self._local.add(binding.var)

    def normalize(self, value: ir.Expr) -> ir.Expr:
        """`value` with variables or constants as operands; calls inside it get bindings."""
        return self._normal.value(value)

    def atom(self, value: ir.Expr) -> ir.Expr:
        """A variable, a constant, or a tuple of them, that stands for `value`."""
        return self._normal.atom(value)

    def _bind_inner(self, normal: ir.Expr) -> ir.Var:
        var = ir.Var(self.names.take("lv"), normal.type)
        self.append(ir.Binding(var, normal))
        return var

    def _leaf(self, value: ir.Expr) -> ir.Expr:
        if isinstance(value, ir.Var):
            self.check_visible(value)
        elif not isinstance(value, ir.Constant):
            why = f"expected a graph expression, got {type(value).__name__}: {value!r}"
            hint = "mlc.op.* and bb.call_te make expressions; mlc.constant(array) a constant"
            raise CompileError(why, code="E213", hint=hint)
        return value

    def check_visible(self, var: ir.Var) -> None:
        """Refuse a variable that cannot be used at this point."""
        if var in self._hidden:
            why = f'"{var.name}" was bound in a dataflow block and is not visible outside it'
            refuse(why, "E214", f"make it an output: bb.emit_output({var.name})")
        if var in self.values or var in self._awaited:
            return
        if self.params is None:
            self.names.reserve((var.name,))
            self._awaited[var] = None
        elif var not in self._declared:
            why = f'"{var.name}" is neither a parameter of "{self.name}" nor bound in it'
            known = ", ".join(param.name for param in self.params) or "none"
            refuse(why, "E212", f"parameters: {known}")

    def make_output(self, var: ir.Var) -> None:
        """Let `var` be used after the dataflow block that is open."""
        self._local.discard(var)

    def start_block(self, dataflow: bool) -> None:
        """End the open block and begin another."""
        self.end_block()
        self.dataflow = dataflow

    def make_all_outputs(self) -> None:
        """Let everything in the open block be used after it."""
        self._local.clear()

    def end_block(self, old: ir.BindingBlock | None = None) -> None:
        """Close the open block; variables that it does not output are hidden from now on.

        `old` is taken in its place if it has the very same bindings.
        """
        block = ir.BindingBlock(tuple(self._open), self.dataflow)
        if old is not None:
            block = replace(old, bindings=self._open)
        if self._open or block is old:
            self.blocks.append(block)
        self._hidden |= self._local
        self._open, self._local, self.dataflow = [], set(), False

    def function(self) -> ir.Function:
        """The finished function."""
        self.end_block()
        assert self.result is not None
        return ir.Function(self.params or (), tuple(self.blocks), self.result, self.attrs)


def refuse(why: str, code: str, hint: str = "") -> NoReturn:
    raise CompileError(why, code=code, hint=hint)
