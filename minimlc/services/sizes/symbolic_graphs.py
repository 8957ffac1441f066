"""Graph functions of symbolic sizes: a family, one function for each choice of them.

The shapes of a call's arrays give the sizes. What runs is an instance, in which they are
numbers, with instances of its callees; its types are derived anew and compared with those that
were declared. At a data-dependent size a function is cut in two: one up to there, and one that is
called with what was computed. So no pass and no target knows symbolic sizes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

from minimlc.graphs.ir.nodes import (
    JOINTS,
    Binding,
    BindingBlock,
    Call,
    Expr,
    Function,
    TensorType,
    Tuple,
    TupleType,
    Type,
    Var,
    called,
    reached,
    size_names,
    tensor_types,
)
from minimlc.graphs.ir.sized import data_tell, is_symbolic, sizes_in, told_by
from minimlc.loops.ir.nodes import PrimFunc, SymbolicFunc
from minimlc.loops.values.errors import CallError, CompileError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import Mutator, Node, replace, span_of, walk
from minimlc.services.control.control import passed
from minimlc.services.sizes.sizes import Size, bounds_of, names_in, size_at
from minimlc.services.sizes.symbolic_loops import MOST_INSTANCES, instance_of_call
from minimlc.services.sizes.symbolic_loops import instance as primitive_instance


def is_family(func: object) -> bool:
    """Whether a function of either level has sizes that depend on a call or its data."""
    return isinstance(func, SymbolicFunc) or is_symbolic(func)


# The sizes of a call


class Equation(NamedTuple):
    """Axis `axis` of the parameter `name` is declared as `size`, and has `value`."""

    name: str
    axis: int
    size: int | Size
    value: Any


def labelled(params: Iterable[Var]) -> Iterator[tuple[str, TensorType]]:
    """The tensors that parameters hold, each with its name: `x`, or `x[0]` of a tuple."""
    for param in params:
        yield from _labelled(param.name, param.type)


def _labelled(label: str, kind: Type) -> Iterator[tuple[str, TensorType]]:
    if isinstance(kind, TensorType):
        yield label, kind
        return
    for number, field in enumerate(kind.fields):
        yield from _labelled(f"{label}[{number}]", field)


def equations(params: Iterable[Var], shapes: Iterable[Sequence[Any]]) -> list[Equation]:
    """The equations of sizes for shapes, one shape for each tensor of the parameters.

    `CallError` for another number of axes.
    """
    known = []
    for (name, kind), shape in zip(labelled(params), shapes, strict=True):
        if len(shape) != kind.ndim:
            why = f"{name} must have {kind.ndim} dimension(s) {kind.shape}, got {len(shape)}: "
            raise CallError(f"{why}{tuple(shape)}", code="E604")
        sides = zip(kind.shape, shape, strict=True)
        known += [Equation(name, axis, size, value) for axis, (size, value) in enumerate(sides)]
    return known


def solved(known: Sequence[Equation]) -> dict[str, Any]:
    """The sizes that equations give, each from the first that has it alone; others are left out.

    `CallError` where two of them do not agree: it names the parameter, the axis and the equation.
    """
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for item in telling(known):
        name, factor, rest = item.size.linear()
        value, left_over = (item.value - rest) // factor, (item.value - rest) % factor
        if left_over != 0 or (isinstance(value, int) and value < 0):
            raise _refused(item, f"{item.size} is that for no {name}")
        values[name], places[name] = value, f"{item.name}'s axis {item.axis}"
    for item in known:
        if size_at(item.size, values) != item.value:
            names = names_in(item.size)
            origins = [f"{name} = {values[name]} from {places[name]}" for name in names]
            raise _refused(item, " and ".join(origins) or f"it must be {item.size}")
    for name, span in out_of_bounds(tuple([item.size for item in known]), values):
        why = f"the size {name} is {values[name]} from {places[name]}, declared {span}"
        raise CallError(why, code="E604")
    return values


def out_of_bounds(sizes: Any, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The names whose numbers are outside of the bounds that sizes declare, with these in words."""
    for name, (low, high) in bounds_of(sizes).items():
        value = values.get(name, low)
        if not isinstance(value, Size) and not low <= value <= high:
            yield name, f"at least {low}" if high == inf else f"from {low} to {high}"


def check_bounds(kind: Type, sizes: Mapping[str, Any]) -> None:
    """`CompileError` E136 where sizes are outside of the bounds in a type, as `match_cast` may
    declare them of a value.
    """
    shapes = tuple([tensor.shape for tensor in tensor_types(kind)])
    for name, span in out_of_bounds(shapes, sizes):
        raise CompileError(f"the size {name} is {sizes[name]}, declared {span}", code="E136")


def telling(known: Iterable[Equation]) -> list[Any]:
    """For each size the first equation that has it alone, as `n` or `n * 2 + 1`."""
    first: dict[str, Equation] = {}
    for item in known:
        form = item.size.linear() if isinstance(item.size, Size) else None
        if form is not None:
            first.setdefault(form[0], item)
    return list(first.values())


def _refused(item: Equation, why: str) -> CallError:
    declared = f"{item.name} is declared with the size {item.size} there"
    text = f"{item.name}: axis {item.axis} is {item.value}, and {why}"
    return CallError(text, code="E604", example=declared if isinstance(item.size, Size) else "")


def type_at(kind: Type, sizes: Mapping[str, Any]) -> Type:
    """A type where sizes have these values."""
    if isinstance(kind, TupleType):
        return TupleType(tuple([type_at(field, sizes) for field in kind.fields]))
    return TensorType(size_at(kind.shape, sizes), kind.dtype)


def sizes_told(params: Iterable[Var], types: Iterable[Type]) -> dict[str, Any]:
    """The sizes of a function that is called with values of these types."""
    shapes = [tensor.shape for kind in types for tensor in tensor_types(kind)]
    return solved(equations(params, shapes))


def result_for(func: Function, types: Iterable[Type]) -> Type:
    """The type of a graph function's result for values of these types."""
    sizes = sizes_told(func.params, types) if is_symbolic(func) else {}
    return type_at(func.result.type, sizes)


def untold(func: Function) -> list[str]:
    """The sizes in a function that nothing gives: neither a call nor an earlier binding."""
    given = equations(func.params, [kind.shape for _, kind in labelled(func.params)])
    known = {*names_in(tuple([item.size for item in telling(given)]))}
    missing = [name for name in size_names(*[p.type for p in func.params]) if name not in known]
    for binding in func.bindings():
        known.add(told_by(binding.value) or "")
        missing += [name for name in sizes_in(binding) if name not in known]
    return list(dict.fromkeys(missing))


# Data-dependent sizes


class Halves(NamedTuple):
    """A function up to a data-dependent size, and the rest of it.

    `head` takes the function's arguments; it gives a tuple: the values that the rest needs, an
    array, and the scalar that is the size. `tail`, of that symbolic size, takes the arguments of
    the numbers `passed`, the values, and as much of the array; `rest` is the module with the tail
    in the function's place.
    """

    head: Function
    passed: tuple[int, ...]
    tail: Function
    size: str
    rest: IRModule

    def arguments(self, name: str, arguments: Sequence[Any], values: Any) -> list[Any]:
        """The arguments of the tail, from the head's arguments and its results.

        `CallError` E604 for a size that is negative, or more than the array has.
        """
        *kept, array, count = values
        if not 0 <= int(count) <= len(array):
            why = f"{name}: {self.size} is {int(count)}, but the array has {len(array)} elements"
            raise CallError(why, code="E604")
        return [*[arguments[number] for number in self.passed], *kept, array[: int(count)]]


@lru_cache(maxsize=MOST_INSTANCES)
def halves(mod: IRModule, name: str) -> Halves | None:
    """The graph function `name`, which has no other symbolic sizes, in two; None where it
    has no data-dependent size.
    """
    func: Any = mod[name]
    for number, block in enumerate(func.blocks if data_tell(func) else ()):
        for at, binding in enumerate(block.bindings):
            if told_by(binding.value) is not None:
                before = replace(block, bindings=block.bindings[:at])
                after = replace(block, bindings=block.bindings[at + 1 :])
                blocks = (*func.blocks[:number], before), (after, *func.blocks[number + 1 :])
                return _halves(mod, name, *blocks, binding)
    return None


def _halves(
    mod: IRModule,
    name: str,
    before: tuple[BindingBlock, ...],
    after: tuple[BindingBlock, ...],
    cut: Binding,
) -> Halves:
    func: Any = mod[name]
    call: Any = cut.value
    rest = [*[part for block in after for part in walk(block)], *walk(func.result)]
    used = {part for part in rest if isinstance(part, Var)}
    passed = tuple([number for number, param in enumerate(func.params) if param in used])
    bound = [binding.var for block in before for binding in block.bindings if binding.var in used]
    head = replace(func, blocks=before, result=Tuple((*bound, *call.args)))
    params = (*[func.params[number] for number in passed], *bound, cut.var)
    tail = replace(func, params=params, blocks=after)
    size = str(told_by(call))
    return Halves(head, passed, tail, size, mod.with_function(name, tail))


# Instances


class _Instance(Mutator):
    """Puts numbers in the place of sizes. `callees` names the instances that calls call."""

    def __init__(self, sizes: Mapping[str, int], callees: "_Callees"):
        self.sizes, self.callees = sizes, callees
        self.variables: dict[Var, Var] = {}

    def visit_Var(self, var: Var) -> Var:
        if var not in self.variables:
            try:
                kind = type_at(var.type, self.sizes)
                check_bounds(var.type, self.sizes)
            except CompileError as error:
                why = f'"{var.name}" is {var.type}: {error.why}'
                raise CompileError(why, code="E136", span=span_of(var)) from None
            self.variables[var] = var if kind == var.type else Var(var.name, kind)
        return self.variables[var]

    def visit_Call(self, call: Call) -> Expr:
        args = self.visit(call.args)
        attrs = tuple([(key, size_at(value, self.sizes)) for key, value in call.attrs])
        kind = type_at(call.type, self.sizes)
        new = replace(call, args=args, attrs=attrs if attrs != call.attrs else call.attrs)
        new = new if kind == call.type else replace(new, type=kind)
        return self.callees.renamed(new)


class _Callees:
    """The functions of an instance, by name, found from calls."""

    def __init__(self, mod: IRModule):
        self.mod = mod
        self.names = UniqueNames(mod.functions)
        self.functions: dict[str, Node] = {}
        self.known: dict[tuple[str, tuple[Any, ...]], str] = {}

    def renamed(self, call: Call) -> Call:
        """`call`, which calls instances in the place of functions with symbolic sizes."""
        for key, name in called(call) if call.op != "call_dps_packed" else ():
            new = self.instance(name, call, key)
            if new != name:
                attrs = [(k, new if k == key else value) for k, value in call.attrs]
                call = replace(call, attrs=tuple(attrs))
        return call

    def instance(self, name: str, call: Call, key: str) -> str:
        """The name of the instance of the function `name` that a call needs."""
        func = self.mod.functions.get(name)
        if func is None or name in self.functions:
            return name
        if size_names(*types_in_order(call)):  # which are data-dependent
            for callee in reached(self.mod.functions, [name], *JOINTS):
                self.functions.setdefault(callee, self.mod[callee])
            return name
        if isinstance(func, SymbolicFunc):
            sizes, chosen = called_instance(func, call)
            return self.named(name, sizes, lambda: chosen)
        if not isinstance(func, Function):
            self.functions[name] = func
            return name
        values = sizes_told(func.params, passed(call, key)) if is_symbolic(func) else {}
        return self.named(name, tuple(values.items()), lambda: self.built(func, values))

    def named(self, name: str, sizes: tuple[Any, ...], function: Callable[[], Node]) -> str:
        if (name, sizes) not in self.known:
            self.known[name, sizes] = self.names.take(name) if sizes else name
            self.functions[self.known[name, sizes]] = function()
        return self.known[name, sizes]

    def built(self, func: Function, sizes: Mapping[str, int]) -> Function:
        return _Instance(sizes, self).visit(func)


def called_instance(func: SymbolicFunc, call: Call) -> tuple[tuple[int, ...], PrimFunc]:
    """The sizes of a call in a graph, and the primitive function for them."""
    sizes, _ = instance_of_call(func, call.callee, types_in_order(call))
    return sizes, primitive_instance(func, sizes)


def types_in_order(call: Call) -> list[TensorType]:
    """The tensors that a primitive function is called with: arguments, then outputs."""
    kinds = [*[arg.type for arg in call.args], call.type]
    return [tensor for kind in kinds for tensor in tensor_types(kind)]


@lru_cache(maxsize=MOST_INSTANCES)
def instance(mod: IRModule, name: str, sizes: tuple[tuple[str, int], ...]) -> IRModule:
    """The graph function `name` for these sizes, and the functions that it calls.

    Nothing is verified. A function without sizes has instances of the functions that it calls.
    """
    callees = _Callees(mod)
    func = mod[name]
    assert isinstance(func, Function)
    callees.functions[name] = func
    callees.functions[name] = callees.built(func, dict(sizes))
    return IRModule(callees.functions, mod.attrs)
