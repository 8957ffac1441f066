"""A graph function in the making: what is bound, in normal form, under fresh names."""

from collections.abc import Iterable

from minimlc.errors import CompileError
from minimlc.graph.nodes import (
    Attrs,
    Binding,
    BindingBlock,
    Call,
    Constant,
    Expr,
    Function,
    Tuple,
    TupleGetItem,
    Var,
)
from minimlc.names import UniqueNames
from minimlc.node import replace


class Scope:
    """Bindings in order, gathered into blocks.

    `params` is None while the parameters are not known yet: variables bound nowhere are then
    taken for parameters to come.
    """

    def __init__(self, name: str, params: Iterable[Var] | None, attrs: Attrs = ()):
        self.name = name
        self.attrs = attrs
        self.params: tuple[Var, ...] | None = None
        self.names = UniqueNames()
        self.values: dict[Var, Expr] = {}
        self.blocks: list[BindingBlock] = []
        self.result: Expr | None = None
        self.dataflow = False
        self._open: list[Binding] = []
        self._local: set[Var] = set()
        self._hidden: set[Var] = set()
        self._declared: set[Var] = set()
        self._awaited: dict[Var, None] = {}
        if params is not None:
            self.set_params(params)

    def set_params(self, params: Iterable[Var]) -> None:
        """Declare the parameters; every variable taken for one must be among them."""
        if self.params is not None:
            raise CompileError(
                f'the parameters of "{self.name}" are given twice',
                code="E211",
                hint="give them to bb.function, or to bb.emit_func_output, not to both",
            )
        if isinstance(params, Expr) or not isinstance(params, Iterable):
            shown = params.name if isinstance(params, Var) else "x"
            raise CompileError(
                f'the parameters of "{self.name}" are a list of variables, got {params!r}',
                code="E211",
                hint=f'bb.function("{self.name}", [{shown}])',
            )
        params = tuple(params)
        for param in params:
            if not isinstance(param, Var):
                raise CompileError(
                    f'a parameter of "{self.name}" is a variable, got {param!r}',
                    code="E211",
                    hint='mlc.Var("x", R.Tensor((n, m), "float32"))',
                )
            if param in self.values:
                why = f'"{param.name}" is bound in "{self.name}"; it cannot be a parameter too'
                raise CompileError(why, code="E211")
        self._check_param_names(params)
        missing = [f'"{var.name}"' for var in self._awaited if var not in set(params)]
        if missing:
            raise CompileError(
                f'"{self.name}" uses {", ".join(missing)}, neither bound nor a parameter',
                code="E212",
                hint="list it in params=[...], or emit it first",
            )
        self.params = params
        self._declared = set(params)

    def _check_param_names(self, params: tuple[Var, ...]) -> None:
        seen: set[str] = set()
        for param in params:
            taken = param.name in self.names and param not in self._awaited
            if param.name in seen or taken:
                raise CompileError(
                    f'the name "{param.name}" is taken in "{self.name}"',
                    code="E211",
                    hint="give every parameter a name of its own",
                )
            seen.add(param.name)
        self.names.reserve(seen)

    def bind(self, value: Expr, name_hint: str) -> Var:
        """A new variable for `value`, which is made normal first."""
        normal = self.normalize(value)
        var = Var(self.names.take(name_hint), normal.type)
        self.append(Binding(var, normal))
        return var

    def append(self, binding: Binding) -> None:
        """Add a binding whose value is normal and whose variable's name is free."""
        self._open.append(binding)
        self.values[binding.var] = binding.value
        if self.dataflow:
            self._local.add(binding.var)

    def normalize(self, value: Expr) -> Expr:
        """`value` with variables or constants as operands; calls inside it get bindings."""
        done = self._bind_all(_calls_in_operands(value))
        return self._with_atoms(value, done)

    def atom(self, value: Expr) -> Expr:
        """A variable, constant or tuple of those that stands for `value`."""
        return self._atom(value, self._bind_all(_calls_in(value)))

    def _bind_all(self, calls: list[Expr]) -> dict[Expr, Var]:
        """Bind calls and the calls inside them, inner ones first, each node once."""
        done: dict[Expr, Var] = {}
        stack = calls[::-1]
        while stack:
            item = stack.pop()
            if item in done:
                continue
            waiting = [c for c in _calls_in_operands(item) if c not in done]
            if waiting:
                stack += [item, *waiting[::-1]]
            else:
                normal = self._with_atoms(item, done)
                done[item] = Var(self.names.take("lv"), normal.type)
                self.append(Binding(done[item], normal))
        return done

    def _with_atoms(self, value: Expr, done: dict[Expr, Var]) -> Expr:
        match value:
            case Call():
                args = tuple([self._atom(a, done) for a in value.args])
                return replace(value, args=_same(value.args, args))
            case TupleGetItem():
                return replace(value, tuple=self._atom(value.tuple, done))
            case _:
                return self._atom(value, done)

    def _atom(self, value: Expr, done: dict[Expr, Var]) -> Expr:
        match value:
            case Var():
                self.check_visible(value)
                return value
            case Constant():
                return value
            case Tuple():
                fields = tuple([self._atom(f, done) for f in value.fields])
                return replace(value, fields=_same(value.fields, fields))
            case Call() | TupleGetItem():
                return done[value]
            case _:
                raise CompileError(
                    f"expected a graph expression, got {type(value).__name__}: {value!r}",
                    code="E213",
                    hint="mlc.op.* and bb.call_te make expressions; mlc.constant(array) a constant",
                )

    def check_visible(self, var: Var) -> None:
        """Refuse a variable that cannot be used at this point."""
        if var in self._hidden:
            raise CompileError(
                f'"{var.name}" was bound in a dataflow block and is not visible outside it',
                code="E214",
                hint=f"make it an output: bb.emit_output({var.name})",
            )
        if var in self.values or var in self._awaited:
            return
        if self.params is None:
            self.names.reserve((var.name,))
            self._awaited[var] = None
        elif var not in self._declared:
            raise CompileError(
                f'"{var.name}" is neither a parameter of "{self.name}" nor bound in it',
                code="E212",
                hint=f"parameters: {', '.join(p.name for p in self.params) or 'none'}",
            )

    def make_output(self, var: Var) -> None:
        """Let `var` be used after the dataflow block that is open."""
        self._local.discard(var)

    def start_block(self, dataflow: bool) -> None:
        """End the open block and begin another."""
        self.end_block()
        self.dataflow = dataflow

    def make_all_outputs(self) -> None:
        """Let everything in the open block be used after it."""
        self._local.clear()

    def end_block(self, unchanged: BindingBlock | None = None) -> None:
        """Close the open block; what it did not output is hidden from now on.

        `unchanged` is taken in its place if it has the very same bindings.
        """
        block = BindingBlock(tuple(self._open), self.dataflow)
        if unchanged is not None and len(unchanged.bindings) == len(self._open):
            pairs = zip(unchanged.bindings, self._open, strict=True)
            block = unchanged if all(a is b for a, b in pairs) else block
        if self._open or block is unchanged:
            self.blocks.append(block)
        self._hidden |= self._local
        self._open, self._local, self.dataflow = [], set(), False

    def function(self) -> Function:
        """The finished function."""
        self.end_block()
        assert self.result is not None
        return Function(self.params or (), tuple(self.blocks), self.result, self.attrs)


def _same(old: tuple[Expr, ...], new: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """`old` itself if `new` holds the very same."""
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new


def _calls_in(value: Expr) -> list[Expr]:
    """The outermost calls in a value."""
    match value:
        case Call() | TupleGetItem():
            return [value]
        case Tuple(fields):
            return [call for field in fields for call in _calls_in(field)]
        case _:
            return []


def _calls_in_operands(value: Expr) -> list[Expr]:
    """The outermost calls among a value's operands."""
    match value:
        case Call():
            return [call for arg in value.args for call in _calls_in(arg)]
        case TupleGetItem():
            return _calls_in(value.tuple)
        case _:
            return _calls_in(value)
