"""Whether a graph function is well-formed: names, scopes, types, callees, normal form."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.ir.dimensions import CONTROL_FLOW, FAMILIES
from minimlc.graphs.ir.sized import data_tell, is_symbolic, told_by, type_at
from minimlc.graphs.ops import OPS, infer_call
from minimlc.loops.ir.nodes import Buffer, PrimFunc, Store, SymbolicFunc
from minimlc.loops.values.constants import unwritable
from minimlc.loops.values.errors import CompileError, VerifyError, did_you_mean
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.names import misnamed
from minimlc.loops.values.node import nodes_of, span_of, structural_equal


def check_function(mod: IRModule, name: str, func: ir.Function) -> None:
    """Raise `VerifyError` unless the graph function `name` of `mod` is well-formed.

    Every variable is bound once, under a unique name, before it is used; every value has its
    variable's type; calls are in normal form and fit what they call.
    """
    _Check(mod, name, func).check()


class _Check:
    """The checks of one function. `where` is being checked: a binding, or the function itself."""

    def __init__(self, mod: IRModule, name: str, func: ir.Function):
        self.functions = mod.functions
        self.name = name
        self.func = func
        self.where: ir.Binding | ir.Function = func
        self.defined: set[ir.Var] = set()
        self.names: set[str] = set()
        self.sized: set[str] = set()
        self.data_sizes: dict[str, ir.Expr] = {}
        self._stored: dict[str, set[Buffer]] = {}

    def check(self) -> None:
        func = self.func
        plain = [(k, v) for k, v in func.attrs if not isinstance(v, ir.TensorType | ir.TupleType)]
        if unwritable(plain):
            self.refuse(unwritable(plain), "E222")
        self.sized |= {*ir.size_names(*[param.type for param in func.params])}
        self.names |= self.sized
        for param in func.params:
            self.define(param)
        self.sizes(func)
        for binding in func.bindings():
            self.where, var = binding, binding.var
            self.value(binding.value)
            if binding.value.type != var.type:
                why = f'"{var.name}" is declared {var.type}, its value is {binding.value.type}'
                self.refuse(why, "E222")
            self.define(var)
        self.where = func
        self.atom(func.result, "the result")
        # Memory is planned for one run of each function: loops are `while_loop` and `scan`.
        if self.name in ir.reached(self.functions, ir.callees(func, *ir.OF_GRAPHS), *ir.OF_GRAPHS):
            self.refuse("it calls itself, and would never end", "E227")

    def sizes(self, func: ir.Function) -> None:
        """Refuse sizes that neither a call nor earlier data determine."""
        for name in [name for families in FAMILIES for name in families.untold(func)]:
            why = f"no argument determines {name}, and no data before it is used: "
            why += f"no parameter has the size {name}, or {name} * 2 + 1"
            self.refuse(why, "E136", f'mlc.Var("x", R.Tensor(("{name}", 4), "float32"))')

    def define(self, var: ir.Var) -> None:
        if var in self.defined:
            self.refuse(f'"{var.name}" is bound twice', "E221")
        if misnamed("variable", var.name):
            self.refuse(misnamed("variable", var.name), "E221")
        if var.name in self.names:
            what = "a size and a variable" if var.name in self.sized else "two variables"
            self.refuse(f'{what} are called "{var.name}"', "E221")
        self.defined.add(var)
        self.names.add(var.name)

    def value(self, value: ir.Expr) -> None:
        match value:
            case ir.Call():
                self.call(value)
            case ir.TupleGetItem():
                self.atom(value.tuple, "the tuple")
                if not isinstance(value.tuple.type, ir.TupleType):
                    self.refuse(f"field {value.index} of a tensor", "E222")
                count = len(value.tuple.type.fields)
                if not 0 <= value.index < count:
                    self.refuse(f"field {value.index} of a tuple of {count}", "E222")
            case _:  # other nodes: atoms, or refused as such
                self.atom(value, "the value")

    def atom(self, value: ir.Expr, what: str) -> None:
        match value:
            case ir.Var():
                if value not in self.defined:
                    hint = did_you_mean(value.name, sorted(self.names))
                    if value.name in self.names:
                        hint = "another variable has this name: use that one"
                    self.refuse(
                        f'{what} uses "{value.name}", which is not bound before', "E220", hint
                    )
            case ir.Constant():
                if value.data.flags.writeable or not value.data.flags.c_contiguous:
                    why = f"{what} is a constant whose array can change or is not contiguous"
                    self.refuse(why, "E222", "mlc.constant(array) copies it")
            case ir.Tuple():
                for field in value.fields:
                    self.atom(field, what)
            case _:  # other nodes: refused
                self.refuse(
                    f"{what} is a nested {type(value).__name__}; only variables, constants and "
                    "tuples of them may stand there",
                    "E223",
                    "bind it first: bb.emit(...) does so",
                )

    def call(self, call: ir.Call) -> None:
        for number, arg in enumerate(call.args):
            self.atom(arg, f"argument {number} of {call.op}")
        if call.op not in ir.JOINTS:
            self.operator(call)
        elif not all(name for _, name in ir.called(call)):
            self.refuse(f"{call.op} names no function to call", "E224")
        elif call.op == "call_tir":
            self.call_tir(call)
        elif call.op in ir.OF_GRAPHS:
            self.call_function(call)

    def operator(self, call: ir.Call) -> None:
        if call.op not in OPS:
            hint = did_you_mean(call.op, OPS)
            self.refuse(f'there is no operator "{call.op}"', "E224", hint)
        try:
            out = infer_call(call)
        except CompileError as error:
            self.refuse(error.why, error.code, error.hint, error.excerpt)
        if call.type != out:
            self.refuse(f"{call.op} gives {out}, the call has type {call.type}", "E222")
        if told_by(call) is not None:
            self.define_size(str(told_by(call)), call.args[1])

    def define_size(self, size: str, count: ir.Expr) -> None:
        """Enter a data-dependent size: its name is new, or that of the same `count`."""
        known = self.data_sizes.get(size)
        both = isinstance(known, ir.Constant) and isinstance(count, ir.Constant)
        same = structural_equal(known, count) if both else known is count
        if size in self.names and not same:
            why = f"there is another {size}: a data-dependent size needs its own name"
            self.refuse(why, "E136", 'op.nonzero(x, size="m")')
        self.names.add(size)
        self.sized.add(size)
        self.data_sizes[size] = count

    def callee(self, call: ir.Call, name: str, *kinds: type) -> Any:
        func = self.functions.get(name)
        if func is None:
            why = f'{call.op} calls "{name}": no such function'
            self.refuse(why, "E224", did_you_mean(name, self.functions))
        if not isinstance(func, kinds):
            why = f'{call.op} cannot call "{name}", a {type(func).__name__}'
            other = "call" if call.op == "call_tir" else "call_tir"
            self.refuse(why, "E224", f'use "{other}"')
        return func

    def call_tir(self, call: ir.Call) -> None:
        family, count = self.callee(call, call.callee, PrimFunc, SymbolicFunc), len(call.args)
        func: PrimFunc = family.func if isinstance(family, SymbolicFunc) else family
        if family is not func and family.scalars:
            why = f'"{call.callee}" takes sizes as numbers, which a call in the graph has not'
            self.refuse(why, "E224", f'mlc.specialize(mod, "{call.callee}", ...)')
        outputs = ir.tensor_types(call.type)
        types = [*(arg.type for arg in call.args), *outputs]
        if len(types) != len(func.params):
            why = f'"{call.callee}" has {len(func.params)} parameters, the call gives '
            self.refuse(f"{why}{count} argument(s) and {len(outputs)} output(s)", "E225")
        params = [
            ir.Var(param.name, ir.TensorType(param.shape, param.dtype)) for param in func.params
        ]
        sizes = self.sizes_told(params, types) if family is not func else {}
        for number, (param, got) in enumerate(zip(params, types, strict=True)):
            declared = type_at(param.type, sizes)
            if got != declared:
                what = f"argument {number}" if number < count else f"output {number - count}"
                why = f'{what} of "{call.callee}" ({param.name}) is {declared}, got {got}'
                self.refuse(why, "E225")
        for buffer in func.params[:count]:
            if buffer in self.stored(call.callee, func):
                why = f'"{call.callee}" writes its argument {buffer.name}; '
                why += "a call in the graph may only write its outputs"
                self.refuse(why, "E226", "outputs are the last parameters")

    def stored(self, name: str, func: PrimFunc) -> set[Buffer]:
        """The buffers that a primitive function writes."""
        if name not in self._stored:
            self._stored[name] = {store.buffer for store in nodes_of(func.body, Store)}
        return self._stored[name]

    def call_function(self, call: ir.Call) -> None:
        """Check a joint of graph functions: the arguments and the result of each."""
        results = {key: self.result_of(call, key, name) for key, name in ir.called(call)}
        if call.op == "call":
            kind = results["callee"]
        else:
            kind = self.tried(lambda: _control().result_type(call, results))
        if call.type != kind:
            what = f'"{call.callee}"' if call.op == "call" else call.op
            self.refuse(f"{what} gives {kind}, the call has type {call.type}", "E222")

    def result_of(self, call: ir.Call, key: str, name: str) -> ir.Type:
        """The type of a function's result for the arguments that a call passes."""
        func: ir.Function = self.callee(call, name, ir.Function)
        if data_tell(func):
            why = f'{call.op} cannot call "{name}": it has data-dependent sizes'
            self.refuse(why, "E136", "call it from Python, or put its operators here")
        types = [arg.type for arg in call.args]
        if call.op != "call":
            types = self.tried(lambda: _control().passed(call, key))
        if len(types) != len(func.params):
            why = f'"{name}" takes {len(func.params)} argument(s), got {len(types)}'
            self.refuse(why, "E225")
        sizes = self.sizes_told(func.params, types) if is_symbolic(func) else {}
        for param, kind in zip(func.params, types, strict=True):
            declared = type_at(param.type, sizes)
            if kind != declared:
                why = f'"{name}" takes {param.name}: {declared}, got {kind}'
                self.refuse(why, "E225", f"op.match_cast(value, {declared})" if sizes else "")
        return type_at(func.result.type, sizes)

    def sizes_told(self, params: Sequence[ir.Var], types: Sequence[ir.Type]) -> dict[str, Any]:
        """The sizes that a call of a family determines."""
        families = FAMILIES.first
        return self.tried(families.sizes_told, params, types) if families else {}

    def tried(self, check: Callable[..., Any], *values: Any) -> Any:
        """The result of `check`; its error is raised as one of this function."""
        try:
            return check(*values)
        except CompileError as error:
            self.refuse(error.why, error.code, error.hint, error.excerpt)

    def refuse(self, why: str, code: str, hint: str = "", excerpt: str = "") -> NoReturn:
        where, span = self.where, span_of(self.where)
        if not excerpt and span is None and isinstance(where, ir.Binding):
            excerpt = _shown(where)
        why = f'function "{self.name}": {why}'
        raise VerifyError(why, code=code, span=span, excerpt=excerpt, hint=hint) from None


def _control() -> Any:
    """The part that implements conditions and loops."""
    control = CONTROL_FLOW.first
    if control is None:
        raise CompileError("there are no conditions and loops here", code="E222")
    return control


def _shown(binding: ir.Binding) -> str:
    """A binding of a call in a line."""
    call = binding.value
    if not isinstance(call, ir.Call):
        return ""
    return f"{binding.var.name} = {call.op} {call.callee}".rstrip()
