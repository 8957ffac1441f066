"""Whether a graph function is well-formed: names, scopes, types, callees, normal form."""

from typing import NoReturn, TypeVar

from minimlc.constants import unwritable
from minimlc.errors import CompileError, VerifyError, did_you_mean
from minimlc.graph.nodes import (
    JOINTS,
    Binding,
    Call,
    Constant,
    Expr,
    Function,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    callees,
    reached,
    tensor_types,
)
from minimlc.graph.ops import OPS, infer_call
from minimlc.module import IRModule
from minimlc.names import misnamed
from minimlc.node import nodes_of, span_of
from minimlc.tir.nodes import Buffer, PrimFunc, Store, SymbolicFunc

F = TypeVar("F", Function, PrimFunc)


def check_function(mod: IRModule, name: str, func: Function) -> None:
    """Raise `VerifyError` unless the graph function `name` of `mod` is well-formed.

    Every variable is bound once, under a name of its own, before it is used; every value has its
    variable's type; calls are in normal form and fit what they call.
    """
    _Check(mod, name, func).check()


class _Check:
    """`where` is what is being checked: a binding, or the function itself."""

    def __init__(self, mod: IRModule, name: str, func: Function):
        self.functions = mod.functions
        self.name = name
        self.func = func
        self.where: Binding | Function = func
        self.defined: set[Var] = set()
        self.names: set[str] = set()
        self._stored: dict[str, set[Buffer]] = {}

    def check(self) -> None:
        func = self.func
        plain = [(k, v) for k, v in func.attrs if not isinstance(v, TensorType | TupleType)]
        if unwritable(plain):
            self.refuse(unwritable(plain), "E222")
        for param in func.params:
            self.define(param)
        for binding in func.bindings():
            self.where, var = binding, binding.var
            self.value(binding.value)
            if binding.value.type != var.type:
                why = f'"{var.name}" is declared {var.type}, its value is {binding.value.type}'
                self.refuse(why, "E222")
            self.define(var)
        self.where = func
        self.atom(func.result, "the result")
        # There are no conditions, so a function that reaches itself would never return.
        if self.name in reached(self.functions, callees(func, "call"), "call"):
            self.refuse("it calls itself, and would never end", "E227")

    def define(self, var: Var) -> None:
        if var in self.defined:
            self.refuse(f'"{var.name}" is bound twice', "E221")
        if misnamed("variable", var.name):
            self.refuse(misnamed("variable", var.name), "E221")
        if var.name in self.names:
            self.refuse(f'two variables are called "{var.name}"', "E221")
        self.defined.add(var)
        self.names.add(var.name)

    def value(self, value: Expr) -> None:
        match value:
            case Call():
                self.call(value)
            case TupleGetItem():
                self.atom(value.tuple, "the tuple")
                if not isinstance(value.tuple.type, TupleType):
                    self.refuse(f"field {value.index} of a tensor", "E222")
                count = len(value.tuple.type.fields)
                if not 0 <= value.index < count:
                    self.refuse(f"field {value.index} of a tuple of {count}", "E222")
            case _:  # other nodes: atoms, or refused as such
                self.atom(value, "the value")

    def atom(self, value: Expr, what: str) -> None:
        match value:
            case Var():
                if value not in self.defined:
                    hint = did_you_mean(value.name, sorted(self.names))
                    if value.name in self.names:
                        hint = "another variable has this name: use that one"
                    self.refuse(
                        f'{what} uses "{value.name}", which is not bound before', "E220", hint
                    )
            case Constant():
                if value.data.flags.writeable or not value.data.flags.c_contiguous:
                    why = f"{what} is a constant whose array can change or is not contiguous"
                    self.refuse(why, "E222", "mlc.constant(array) copies it")
            case Tuple():
                for field in value.fields:
                    self.atom(field, what)
            case _:  # other nodes: refused
                self.refuse(
                    f"{what} is a nested {type(value).__name__}; only variables, constants and "
                    "tuples of them may stand there",
                    "E223",
                    "bind it first: bb.emit(...) does so",
                )

    def call(self, call: Call) -> None:
        for number, arg in enumerate(call.args):
            self.atom(arg, f"argument {number} of {call.op}")
        if call.op not in JOINTS:
            self.operator(call)
        elif not call.callee:
            self.refuse(f"{call.op} names no function to call", "E224")
        elif call.op == "call_tir":
            self.call_tir(call)
        elif call.op == "call":
            self.call_function(call)

    def operator(self, call: Call) -> None:
        if call.op not in OPS:
            hint = did_you_mean(call.op, OPS)
            self.refuse(f'there is no operator "{call.op}"', "E224", hint)
        try:
            out = infer_call(call)
        except CompileError as error:
            self.refuse(error.why, error.code, error.hint, error.excerpt)
        if call.type != out:
            self.refuse(f"{call.op} gives {out}, the call says {call.type}", "E222")

    def callee(self, call: Call, kind: type[F]) -> F:
        func = self.functions.get(call.callee)
        if func is None:
            why = f'{call.op} calls "{call.callee}": no such function'
            self.refuse(why, "E224", did_you_mean(call.callee, self.functions))
        if not isinstance(func, kind):
            why = f'{call.op} cannot call "{call.callee}", a {type(func).__name__}'
            other = f'use "{"call" if call.op == "call_tir" else "call_tir"}"'
            sizes = 'mlc.specialize(mod, "{}", ...)  # with its sizes as numbers'
            symbolic = isinstance(func, SymbolicFunc)
            self.refuse(why, "E224", sizes.format(call.callee) if symbolic else other)
        return func

    def call_tir(self, call: Call) -> None:
        func, count = self.callee(call, PrimFunc), len(call.args)
        outputs = tensor_types(call.type)
        types = [*(arg.type for arg in call.args), *outputs]
        if len(types) != len(func.params):
            why = f'"{call.callee}" has {len(func.params)} parameters, the call gives '
            self.refuse(f"{why}{count} argument(s) and {len(outputs)} output(s)", "E225")
        for number, (param, got) in enumerate(zip(func.params, types, strict=True)):
            declared = TensorType(param.shape, param.dtype)
            if got != declared:
                what = f"argument {number}" if number < count else f"output {number - count}"
                why = f'{what} of "{call.callee}" ({param.name}) is {declared}, got {got}'
                self.refuse(why, "E225")
        for param in func.params[:count]:
            if param in self.stored(call.callee, func):
                why = f'"{call.callee}" writes its argument {param.name}; '
                why += "a call in the graph may only write its outputs"
                self.refuse(why, "E226", "outputs are the last parameters")

    def stored(self, name: str, func: PrimFunc) -> set[Buffer]:
        """The buffers that a primitive function writes."""
        if name not in self._stored:
            self._stored[name] = {store.buffer for store in nodes_of(func.body, Store)}
        return self._stored[name]

    def call_function(self, call: Call) -> None:
        func, name = self.callee(call, Function), call.callee
        if len(call.args) != len(func.params):
            why = f'"{name}" takes {len(func.params)} argument(s), got {len(call.args)}'
            self.refuse(why, "E225")
        for param, arg in zip(func.params, call.args, strict=True):
            if arg.type != param.type:
                self.refuse(f'"{name}" takes {param.name}: {param.type}, got {arg.type}', "E225")
        if call.type != func.result.type:
            why = f'"{name}" gives {func.result.type}, the call says {call.type}'
            self.refuse(why, "E222")

    def refuse(self, why: str, code: str, hint: str = "", excerpt: str = "") -> NoReturn:
        where, span = self.where, span_of(self.where)
        if not excerpt and span is None and isinstance(where, Binding):
            excerpt = _shown(where)
        why = f'function "{self.name}": {why}'
        raise VerifyError(why, code=code, span=span, excerpt=excerpt, hint=hint) from None


def _shown(binding: Binding) -> str:
    """A binding of a call in a line."""
    call = binding.value
    if not isinstance(call, Call):
        return ""
    return f"{binding.var.name} = {call.op} {call.callee}".rstrip()
