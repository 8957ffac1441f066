"""Tensors of `te`, and the primitive functions that they become."""

from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn

from minimlc.dtypes import INDEX
from minimlc.errors import CompileError, Span
from minimlc.names import UniqueNames
from minimlc.node import Node, Visitor, node, span_of, with_span
from minimlc.tir.nodes import (
    Block,
    BlockIter,
    Buffer,
    Const,
    Expr,
    For,
    IterKind,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Substitute,
    Var,
    binary,
    index,
    load,
    seq,
)
from minimlc.tir.operators import start_of


@node
class ReduceAxis(Expr):
    """The variable of a reduction: takes low ... high-1."""

    _symbol: ClassVar[bool] = True
    name: str
    low: int
    high: int
    dtype: str = INDEX


@node
class Reduction(Node):
    """All values of `value` over `axes`, combined by "+", "*", "max" or "min"."""

    op: str
    value: Expr
    axes: tuple[ReduceAxis, ...]

    @property
    def dtype(self) -> str:
        return self.value.dtype

    def __repr__(self) -> str:
        return f"a reduction over {', '.join(axis.name for axis in self.axes)}"


@node
class Tensor(Buffer):
    """A placeholder, or the result of a compute (`value` over the index variables `axes`)."""

    axes: tuple[Var, ...] = ()
    value: Expr | Reduction | None = None

    def __getitem__(self, indices: Any) -> Load:
        return load(self, indices if isinstance(indices, tuple) else (indices,))

    def __call__(self, *indices: Any) -> Load:
        return load(self, indices)

    def __repr__(self) -> str:
        origin = "placeholder" if self.value is None else "compute"
        return f'te.{origin}({self.shape}, "{self.dtype}", name="{self.name}")'


def refuse(why: str, hint: str = "", span: Span | None = None) -> NoReturn:
    """Raise the error of a tensor expression that is wrong."""
    raise CompileError(why, code="E130", span=span, hint=hint)


def refuse_as_number(item: Tensor | Reduction, *_: object) -> NoReturn:
    """What every operator of numbers does to a tensor, and to a reduction."""
    if isinstance(item, Tensor):
        element = f"{item.name}[{', '.join('ijklmn'[: item.ndim])}]"
        why = f'the tensor "{item.name}" is used as a number'
        refuse(why, f"name one of its elements: {element}")
    why = "a reduction must be the whole expression of its te.compute"
    refuse(why, "give the reduction a te.compute of its own, and read its result in the next one")


def _refuse_product(item: Tensor | Reduction, *_: object) -> NoReturn:
    try:
        refuse_as_number(item)
    except CompileError as error:
        error.hint = "te.sum(A[i, k] * B[k, j], axis=k)  # an element of A @ B, in a te.compute"
        raise


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    for _kind in (Tensor, Reduction):
        setattr(_kind, f"__{_operator}__", refuse_as_number)
        setattr(_kind, f"__r{_operator}__", refuse_as_number)
for _operator in ("__matmul__", "__rmatmul__"):
    for _kind in (Tensor, Reduction):
        setattr(_kind, _operator, _refuse_product)
for _operator in ("neg", "lt", "le", "gt", "ge", "float", "index"):
    for _kind in (Tensor, Reduction):
        setattr(_kind, f"__{_operator}__", refuse_as_number)


class Uses(Visitor):
    """The variables and tensors that an expression uses, in order of appearance."""

    def __init__(self) -> None:
        self.variables: dict[Var | ReduceAxis, None] = {}
        self.tensors: dict[Tensor, None] = {}

    def visit_Var(self, item: Var) -> None:
        self.variables[item] = None

    visit_ReduceAxis = visit_Var

    def visit_Buffer(self, item: Buffer) -> None:
        refuse(f'the buffer "{item.name}" is not a tensor', "te.placeholder(...)")

    def visit_Tensor(self, item: Tensor) -> None:
        self.tensors[item] = None


def uses_of(value: Expr | Reduction) -> Uses:
    uses = Uses()
    uses.visit(value.value if isinstance(value, Reduction) else value)
    return uses


def create_prim_func(tensors: Tensor | Iterable[Tensor], *more: Tensor) -> PrimFunc:
    """The function that computes `tensors`: they are its parameters, inputs and outputs, in order.

    Tensors in between are allocated inside. Every call makes new variables and buffers.
    """
    args = (*(tensors if isinstance(tensors, Iterable) else (tensors,)), *more)
    _check_arguments(args)
    stages = _stages(args)
    if not stages:
        refuse("nothing to compute: every tensor given is a placeholder")
    names = UniqueNames(reserved=(), spell=str)
    buffers: dict[Buffer, Buffer] = {}
    for tensor in dict.fromkeys((*args, *stages)):
        fresh = names.take(tensor.name)
        buffers[tensor] = Buffer(fresh, tensor.shape, tensor.dtype, tensor.scope)
    body = seq(_nest(tensor, buffers, names) for tensor in stages)
    params = tuple(buffers[tensor] for tensor in args)
    allocs = tuple(buffers[tensor] for tensor in stages if tensor not in args)
    return PrimFunc(params, allocs, body)


def _check_arguments(args: tuple[Any, ...]) -> None:
    for arg in args:
        if not isinstance(arg, Tensor):
            refuse(f"expected tensors, got {type(arg).__name__}: {arg!r}")
    for arg in args:
        if args.count(arg) > 1:
            refuse(f'the tensor "{arg.name}" is given twice')


def _stages(args: tuple[Tensor, ...]) -> list[Tensor]:
    """Every computed tensor that `args` need, producers before consumers."""
    done: dict[Tensor, None] = {}
    stack = [(tensor, False) for tensor in reversed(args)]
    while stack:
        tensor, ready = stack.pop()
        if ready:
            done[tensor] = None
        if ready or tensor in done or tensor.value is None:
            continue
        stack.append((tensor, True))
        for used in reversed(uses_of(tensor.value).tensors):
            if used.value is None and used not in args:
                why = (
                    f'"{tensor.name}" reads the placeholder "{used.name}", which is not an argument'
                )
                refuse(why, "give every input to te.create_prim_func, then the outputs")
            stack.append((used, False))
    return list(done)


class _Instantiate(Substitute):
    """New variables and buffers in place of a compute's own."""

    visit_ReduceAxis = Substitute.visit_Var
    visit_Tensor = Substitute.visit_Buffer


def _nest(tensor: Tensor, buffers: dict[Buffer, Buffer], names: UniqueNames) -> Stmt:
    """Loops over the tensor's indices, then over its reduce axes, around its block."""
    value = tensor.value
    reduction = value if isinstance(value, Reduction) else None
    axes: list[tuple[Var | ReduceAxis, int, int, IterKind]] = [
        (var, 0, size, "S") for var, size in zip(tensor.axes, tensor.shape, strict=True)
    ]
    if reduction is not None:
        axes += [(axis, axis.low, axis.high, "R") for axis in reduction.axes]
    loops = [Var(names.take(var.name)) for var, *_ in axes]
    iter_names = [f"v{v.name}" if len(v.name) == 1 else f"v_{v.name}" for v, *_ in axes]
    iters: list[BlockIter] = []
    variables: dict[Expr, Expr] = {}
    for (var, low, high, kind), loop, text in zip(axes, loops, iter_names, strict=True):
        mine = Var(names.take(text))
        iters.append(BlockIter(mine, high - low, kind, loop))
        variables[var] = mine + low if low else mine
    for it, text in zip(iters, iter_names, strict=True):
        names.release(it.var.name, text)
    buffer = buffers[tensor]
    instantiate = _Instantiate({**variables, **buffers})
    result = instantiate.visit(value if reduction is None else reduction.value)
    element = tuple(variables[axis] for axis in tensor.axes)
    span = span_of(tensor)
    init: Stmt | None = None
    if reduction is not None:
        result = binary(reduction.op, Load(buffer, element), result)
        start = Const(start_of(reduction.op, buffer.dtype), buffer.dtype)
        init = with_span(Store(buffer, element, start), span)
    update = with_span(Store(buffer, element, result), span)
    body: Stmt = Block(buffer.name, tuple(iters), None, init, update)
    for loop, (_, low, high, _) in reversed(list(zip(loops, axes, strict=True))):
        body = For(loop, index(high - low), "serial", body)
    return body
