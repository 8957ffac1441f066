"""Whether a graph function is well-formed: names, scopes, types, callees, normal form."""

from typing import NoReturn

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
    Type,
    Var,
    tensor_types,
)
from minimlc.graph.ops import OPS, infer_call
from minimlc.module import IRModule
from minimlc.names import misnamed
from minimlc.node import span_of, walk
from minimlc.tir.nodes import Buffer, PrimFunc, Store


def check_function(mod: IRModule, name: str, func: Function) -> None:
    """Raise `VerifyError` unless the graph function `name` of `mod` is well-formed.

    Every variable is bound once, under a name of its own, before it is used; every value has its
    variable's type; calls are in normal form and fit what they call.
    """
    _Check(mod, name).function(func)


class _Check:
    def __init__(self, mod: IRModule, name: str):
        self.functions = mod.functions
        self.name = name
        self.defined: set[Var] = set()
        self.names: set[str] = set()
        self._stored: dict[str, set[Buffer]] = {}

    def function(self, func: Function) -> None:
        plain = [(k, v) for k, v in func.attrs if not isinstance(v, TensorType | TupleType)]
        if unwritable(plain):
            self.refuse(unwritable(plain), func, "E222")
        for param in func.params:
            self.define(param, func)
        for binding in func.bindings():
            self.value(binding)
            if binding.value.type != binding.var.type:
                self.refuse(
                    f'"{binding.var.name}" is declared {binding.var.type}, '
                    f"its value is {binding.value.type}",
                    binding,
                    "E222",
                )
            self.define(binding.var, binding)
        self.atom(func.result, func, "the result")
        self.ends(func)

    def ends(self, func: Function) -> None:
        """No function reaches itself: there are no conditions, so it would never return."""
        reached: set[str] = set()
        queue = _called(func)
        while queue:
            name = queue.pop()
            if name == self.name:
                self.refuse("it calls itself, and would never end", func, "E227")
            callee = self.functions.get(name)
            if name not in reached and isinstance(callee, Function):
                reached.add(name)
                queue += _called(callee)

    def define(self, var: Var, where: Binding | Function) -> None:
        if var in self.defined:
            self.refuse(f'"{var.name}" is bound twice', where, "E221")
        if misnamed("variable", var.name):
            self.refuse(misnamed("variable", var.name), where, "E221")
        if var.name in self.names:
            self.refuse(f'two variables are called "{var.name}"', where, "E221")
        self.defined.add(var)
        self.names.add(var.name)

    def value(self, binding: Binding) -> None:
        match binding.value:
            case Call() as call:
                self.call(call, binding)
            case TupleGetItem() as item:
                self.atom(item.tuple, binding, "the tuple")
                fields = item.tuple.type
                if not isinstance(fields, TupleType):
                    self.refuse(f"field {item.index} of a tensor", binding, "E222")
                if not 0 <= item.index < len(fields.fields):
                    self.refuse(
                        f"field {item.index} of a tuple of {len(fields.fields)}", binding, "E222"
                    )
            case other:
                self.atom(other, binding, "the value")

    def atom(self, value: Expr, where: Binding | Function, what: str) -> None:
        match value:
            case Var():
                if value not in self.defined:
                    shown = sorted(self.names)
                    hint = did_you_mean(value.name, shown)
                    if value.name in self.names:
                        hint = "another variable has this name: use that one"
                    why = f'{what} uses "{value.name}", which is not bound before'
                    self.refuse(why, where, "E220", hint)
            case Constant():
                if value.data.flags.writeable or not value.data.flags.c_contiguous:
                    self.refuse(
                        f"{what} is a constant whose array can change or is not contiguous",
                        where,
                        "E222",
                        "mlc.constant(array) copies it",
                    )
            case Tuple():
                for field in value.fields:
                    self.atom(field, where, what)
            case _:
                self.refuse(
                    f"{what} is a nested {type(value).__name__}; only variables, constants and "
                    "tuples of them may stand there",
                    where,
                    "E223",
                    "bind it first: bb.emit(...) does so",
                )

    def call(self, call: Call, binding: Binding) -> None:
        for number, arg in enumerate(call.args):
            self.atom(arg, binding, f"argument {number} of {call.op}")
        if call.op not in JOINTS:
            self.operator(call, binding)
        elif not call.callee:
            self.refuse(f"{call.op} names no function to call", binding, "E224")
        elif call.op == "call_tir":
            self.call_tir(call, binding)
        elif call.op == "call":
            self.call_function(call, binding)

    def operator(self, call: Call, binding: Binding) -> None:
        if call.op not in OPS:
            self.refuse(
                f'there is no operator "{call.op}"', binding, "E224", did_you_mean(call.op, OPS)
            )
        try:
            wanted = infer_call(call)
        except CompileError as error:
            raise VerifyError(
                f'function "{self.name}": {error.why}',
                code=error.code,
                span=span_of(binding),
                excerpt=error.excerpt,
                hint=error.hint,
            ) from None
        if call.type != wanted:
            self.refuse(f"{call.op} gives {wanted}, the call says {call.type}", binding, "E222")

    def callee(self, call: Call, kind: type, binding: Binding) -> object:
        func = self.functions.get(call.callee)
        if func is None:
            hint = did_you_mean(call.callee, self.functions)
            self.refuse(f'{call.op} calls "{call.callee}": no such function', binding, "E224", hint)
        if not isinstance(func, kind):
            other = "call" if call.op == "call_tir" else "call_tir"
            self.refuse(
                f'{call.op} cannot call "{call.callee}", a {type(func).__name__}',
                binding,
                "E224",
                f'use "{other}"',
            )
        return func

    def call_tir(self, call: Call, binding: Binding) -> None:
        func = self.callee(call, PrimFunc, binding)
        assert isinstance(func, PrimFunc)
        outputs = tensor_types(call.type)
        given: list[tuple[str, Type]] = [("argument", a.type) for a in call.args]
        given += [("output", out) for out in outputs]
        if len(given) != len(func.params):
            self.refuse(
                f'"{call.callee}" has {len(func.params)} parameters, the call gives '
                f"{len(call.args)} argument(s) and {len(outputs)} output(s)",
                binding,
                "E225",
            )
        for number, (param, (what, found)) in enumerate(zip(func.params, given, strict=True)):
            wanted = TensorType(param.shape, param.dtype)
            if found != wanted:
                place = number if what == "argument" else number - len(call.args)
                self.refuse(
                    f'{what} {place} of "{call.callee}" ({param.name}) is {wanted}, got {found}',
                    binding,
                    "E225",
                )
        for param in func.params[: len(call.args)]:
            if param in self.stored(call.callee, func):
                self.refuse(
                    f'"{call.callee}" writes its argument {param.name}; '
                    "a call in the graph may only write its outputs",
                    binding,
                    "E226",
                    "outputs are the last parameters",
                )

    def stored(self, name: str, func: PrimFunc) -> set[Buffer]:
        """The buffers that a primitive function writes."""
        if name not in self._stored:
            self._stored[name] = {n.buffer for n in walk(func.body) if isinstance(n, Store)}
        return self._stored[name]

    def call_function(self, call: Call, binding: Binding) -> None:
        func = self.callee(call, Function, binding)
        assert isinstance(func, Function)
        if len(call.args) != len(func.params):
            self.refuse(
                f'"{call.callee}" takes {len(func.params)} argument(s), got {len(call.args)}',
                binding,
                "E225",
            )
        for param, arg in zip(func.params, call.args, strict=True):
            if arg.type != param.type:
                self.refuse(
                    f'"{call.callee}" takes {param.name}: {param.type}, got {arg.type}',
                    binding,
                    "E225",
                )
        if call.type != func.result.type:
            self.refuse(
                f'"{call.callee}" gives {func.result.type}, the call says {call.type}',
                binding,
                "E222",
            )

    def refuse(self, why: str, where: Binding | Function, code: str, hint: str = "") -> NoReturn:
        span = span_of(where)
        excerpt = ""
        if span is None and isinstance(where, Binding) and isinstance(where.value, Call):
            call = where.value
            excerpt = f"{where.var.name} = {call.op}{' ' + call.callee if call.callee else ''}"
        raise VerifyError(
            f'function "{self.name}": {why}', code=code, span=span, excerpt=excerpt, hint=hint
        )


def _called(func: Function) -> list[str]:
    """The graph functions that `func` calls."""
    values = [binding.value for binding in func.bindings()]
    return [value.callee for value in values if isinstance(value, Call) and value.op == "call"]
