"""The graph IR's grammar on one page.

    func    ::= Function(params, blocks, result, attrs)
    block   ::= BindingBlock(bindings, dataflow)
    binding ::= Binding(var, value)
    expr    ::= Var | Constant(data) | Tuple(fields) | TupleGetItem(tuple, index)
              | Call(op, args, attrs, type)
    type    ::= TensorType(shape, dtype) | TupleType(fields)

A call's `op` is the name of an operator's record, or a joint, which calls other functions:
"call_tir" calls the primitive function `callee` in destination-passing style, with fresh outputs
of the call's type; "call_dps_packed" does the same with a registered Python function; "call"
calls the graph function `callee`. What "cond", "while_loop" and "scan" do with graph functions is
in `services.control.control`. Calls are in normal form: their arguments are variables, constants or
tuples of those.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from minimlc.graphs.ir.dimensions import SIZES, size_of
from minimlc.loops.values.constants import Attributed, Attributes
from minimlc.loops.values.dtypes import (
    dtype_name,
    dtype_record,
    excess,
    is_float,
    is_size,
    to_numpy,
)
from minimlc.loops.values.errors import CompileError, TooLarge, not_compiled, shown
from minimlc.loops.values.literals import Symbol, names_in
from minimlc.loops.values.node import Node, node

Attrs = tuple[tuple[str, object], ...]
BOUNDS = "bounds"
"""The attribute of a function that holds the bounds of its sizes."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a tensor: its shape in elements and its dtype. Types compare by value.

    A size known at the call is a symbol, written as its text: `R.Tensor(("n", 784), "float32")`.
    """

    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        dtype_record(self.dtype)
        several = isinstance(self.shape, tuple | list)
        shape = tuple(map(size_of, self.shape if several else (self.shape,)))
        for size in shape:
            if not isinstance(size, Symbol) and not is_size(size):
                why = f"a tensor's sizes are integers >= 0, less than 2**63, got {shown(shape)}"
                raise CompileError(why, code="E205")
        shape = tuple([size if isinstance(size, Symbol) else int(size) for size in shape])
        why = excess(tuple([size for size in shape if not isinstance(size, Symbol)]), self.dtype)
        if why:
            raise CompileError(f"a tensor {why}", code="E135")
        object.__setattr__(self, "shape", shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f'R.Tensor({self.shape!r}, "{self.dtype}")'


@dataclass(frozen=True, slots=True)
class TupleType:
    """The type of a tuple of values."""

    fields: tuple["Type", ...]

    def __post_init__(self) -> None:
        _check_fields(self.fields)

    def __repr__(self) -> str:
        return f"R.Tuple({', '.join(map(repr, self.fields))})"


Type = TensorType | TupleType

MOST_FIELDS = 2**12
"""The most fields of a tuple, nested ones included."""
MOST_TUPLES = 100
"""The most levels of nested tuples."""


def _check_fields(fields: tuple[object, ...]) -> None:
    """Refuse a tuple that is too large to be walked over."""
    count, level, items = 0, 0, list(fields)
    while items:
        count, level = count + len(items), level + 1
        if count > MOST_FIELDS or level > MOST_TUPLES:
            why = f"a tuple has at most {MOST_FIELDS} fields in {MOST_TUPLES} levels"
            raise TooLarge(why, code="E134", hint="a field that is used twice counts twice")
        items = [f for item in items if isinstance(item, TupleType | Tuple) for f in item.fields]


class Expr(Node):
    """A value of the graph level; every expression has a `type`.

    `minimlc.graphs.operators` defines Python's operators on values. A value that is not bound yet
    has no limits: binding it gives each call in it a variable.
    """

    __slots__ = ()
    _most: ClassVar[int | None] = None
    _word: ClassVar[str] = "value"
    type: Type

    @property
    def shape(self) -> tuple[int, ...]:
        return _tensor_type(self).shape

    @property
    def ndim(self) -> int:
        return _tensor_type(self).ndim

    @property
    def dtype(self) -> str:
        return _tensor_type(self).dtype


def _tensor_type(value: Expr) -> TensorType:
    if not isinstance(value.type, TensorType):
        why = f"expected a tensor, got a tuple of type {value.type}"
        raise CompileError(why, code="E202")
    return value.type


@node
class Var(Expr):
    """A parameter, or the name of a binding's value."""

    _symbol: ClassVar[bool] = True
    name: str
    type: Type

    def __init__(self, name: str, type: Any, kind: Any = None):
        """`Var("x", type)`, or `Var("x", shape, kind)` with a dtype, or anything that has one."""
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "type", type if kind is None else shaped(f'"{name}"', type, kind))
        self.__post_init__()

    def __post_init__(self) -> None:
        Expr.__post_init__(self)
        if not isinstance(self.type, TensorType | TupleType):
            raise CompileError(
                f'the type of "{self.name}" must be a tensor type, got {self.type!r}',
                code="E205",
                hint=f'mlc.Var("{self.name}", R.Tensor((2, 3), "float32"))',
            )


def shaped(what: str, shape: Any, kind: Any) -> TensorType:
    """The type of a shape and a dtype. `kind` is a dtype, or anything that has one, such as a
    tensor's type; its axes, if it has any, must be the same.
    """
    plain = isinstance(kind, str | np.dtype | type)
    result = TensorType(shape, dtype_record(kind if plain else getattr(kind, "dtype", kind)).name)
    declared = getattr(kind, "shape", result.shape)
    fits = getattr(kind, "ndim", -1) in (-1, result.ndim)
    if not plain and not (fits and tuple(declared) == result.shape):
        axes = getattr(kind, "shape", f"{kind.ndim} axes")
        why = f"{what} has the shape {result.shape}, its type {axes}"
        raise CompileError(why, code="E205", hint=repr(result))
    return result


@node
class Constant(Expr):
    """A tensor known at compile time; `data` is a read-only, C-contiguous numpy array."""

    data: np.ndarray

    @property
    def type(self) -> TensorType:  # type: ignore[override]
        return TensorType(self.data.shape, dtype_name(self.data.dtype))


@node
class Tuple(Expr):
    """Several values as one."""

    fields: tuple[Expr, ...]

    def __post_init__(self) -> None:
        Expr.__post_init__(self)
        _check_fields(self.fields)

    @property
    def type(self) -> TupleType:  # type: ignore[override]
        return TupleType(tuple(f.type for f in self.fields))


@node
class TupleGetItem(Expr):
    """One field of a tuple."""

    tuple: Expr
    index: int

    @property
    def type(self) -> Type:  # type: ignore[override]
        fields = self.tuple.type
        assert isinstance(fields, TupleType)
        return fields.fields[self.index]


@node
class Call(Expr):
    """An operator applied to `args`. `attrs` are its options as (name, value) pairs."""

    op: str
    args: tuple[Expr, ...]
    attrs: Attrs
    type: Type

    @property
    def callee(self) -> str:
        """The function that "call_tir", "call_dps_packed" or "call" calls; '' for an operator."""
        return str(dict(self.attrs).get("callee", ""))

    def attr(self, name: str) -> object:
        """The option `name`; KeyError if the call has none."""
        return dict(self.attrs)[name]


@node
class Binding(Node):
    """`var = value`."""

    _binds: ClassVar[tuple[str, ...]] = ("var",)
    var: Var
    value: Expr


@node
class BindingBlock(Node):
    """Bindings in order. Inside a dataflow block nothing has a side effect."""

    bindings: tuple[Binding, ...]
    dataflow: bool


@node
class Function(Attributed):
    """A graph function: `result` may use the parameters and everything bound.

    The attribute `("primitive", True)` marks a group of operators that fusion made, to become one
    primitive function; `("bounds", (("n", 1, 512),))` repeats what the parameters' types declare.
    """

    _binds: ClassVar[tuple[str, ...]] = ("params",)
    params: tuple[Var, ...]
    blocks: tuple[BindingBlock, ...]
    result: Expr
    attrs: Attrs = ()

    def __post_init__(self) -> None:
        rest = tuple([pair for pair in Attributes(self.attrs) if pair[0] != BOUNDS])
        bounded = tuple([size.bounded for size in declared_sizes(self.params).values()])
        known = tuple([bounds for bounds in bounded if bounds])
        object.__setattr__(self, "attrs", (*rest, (BOUNDS, known)) if known else rest)
        Attributed.__post_init__(self)

    def __call__(self, *_: object) -> NoReturn:
        raise not_compiled()

    def bindings(self) -> Iterator[Binding]:
        """Every binding, in order."""
        for block in self.blocks:
            yield from block.bindings


CALLEES: Mapping[str, tuple[str, ...]] = {
    "call_tir": ("callee",),
    "call_dps_packed": ("callee",),
    "call": ("callee",),
    "cond": ("then", "otherwise"),
    "while_loop": ("condition", "body"),
    "scan": ("body",),
}
"""The attributes of each joint that name functions."""
JOINTS = tuple(CALLEES)
CONTROL = ("cond", "while_loop", "scan")
"""The joints that decide, when they run, which functions are called and how often."""
OF_GRAPHS = ("call", *CONTROL)
"""The joints that call graph functions."""


def called(call: Call) -> list[tuple[str, str]]:
    """The functions that a joint calls, as (attribute, name); none for operators."""
    named = dict(call.attrs)
    return [(key, str(named.get(key, ""))) for key in CALLEES.get(call.op, ())]


def callees(func: Function, *joints: str) -> list[str]:
    """The functions that `func` calls by one of `joints`, in order."""
    values = [binding.value for binding in func.bindings()]
    joined = [value for value in values if isinstance(value, Call) and value.op in joints]
    return [name for call in joined for _, name in called(call)]


def reached(functions: Mapping[str, Node], names: Iterable[str], *joints: str) -> set[str]:
    """The functions that calls by one of `joints` lead to from those in `names`, these included."""
    known: set[str] = set()
    queue = list(names)
    while queue:
        name = queue.pop()
        func = functions.get(name)
        if func is not None and name not in known:
            known.add(name)
            queue += callees(func, *joints) if isinstance(func, Function) else ()
    return known


def constant(value: object, dtype: Any = None) -> Constant:
    """A constant from anything numpy can make an array of (copied, made read-only).

    With `dtype`, which may be a tensor's type, `CompileError` for numbers that it does not have;
    floats are rounded to it.
    """
    if isinstance(value, Symbol):
        value.refuse("a constant")
    try:
        data = np.array(value, order="C")
    except ValueError as error:
        raise CompileError(f"no constant of these values: {error}", code="E123") from None
    if dtype is not None:
        data = _converted(data, shaped("the constant", data.shape, dtype).dtype)
    dtype_name(data.dtype)
    data.setflags(write=False)
    return Constant(data)


def _converted(data: np.ndarray, dtype: str) -> np.ndarray:
    """The same numbers in another dtype, floats rounded."""
    target = to_numpy(dtype)
    if data.dtype == target:
        return data
    try:
        with np.errstate(all="ignore"):
            converted = data.astype(target)
    except (TypeError, ValueError, OverflowError) as error:
        raise CompileError(f"no constant of these values: {error}", code="E123") from None
    if is_float(dtype):
        kept = np.isfinite(converted.astype(np.float64)) | ~np.isfinite(data.astype(np.float64))
    else:
        kept = np.asarray(converted == data)
    if not kept.all():
        first = data[np.unravel_index(int(np.argmin(kept)), data.shape)]
        why = f"no constant of these values: {first} is not a value of {dtype}"
        raise CompileError(why, code="E123")
    return converted


def call_tir(callee: str, args: tuple[Expr, ...], out: Type) -> Call:
    """Call the primitive function `callee` with `args` and fresh outputs of type `out`."""
    return Call("call_tir", args, (("callee", str(callee)),), out)


def call_dps_packed(callee: str, args: tuple[Expr, ...], out: Type) -> Call:
    """Call the registered function `callee` with `args` and fresh outputs of type `out`."""
    return Call("call_dps_packed", args, (("callee", str(callee)),), out)


def call_function(callee: str, args: tuple[Expr, ...], out: Type) -> Call:
    """Call the graph function `callee`; `out` is its result's type."""
    return Call("call", args, (("callee", str(callee)),), out)


def declared_sizes(params: Iterable[Var]) -> dict[str, Any]:
    """The sizes that stand in the types of parameters by name, with all bounds declared there."""
    shapes = [kind.shape for param in params for kind in tensor_types(param.type)]
    sizes = SIZES.first if names_in(tuple(shapes)) else None
    return sizes.declared(tuple(shapes)) if sizes else {}


def size_names(*types: Type) -> list[str]:
    """The names of the sizes in types, each once, in order."""
    return names_in(tuple([t.shape for value in types for t in tensor_types(value)]))


def tensor_types(value: Type) -> tuple[TensorType, ...]:
    """The tensors of a type: itself, or a tuple's fields in order, nested ones too."""
    if isinstance(value, TensorType):
        return (value,)
    return tuple(t for field in value.fields for t in tensor_types(field))
