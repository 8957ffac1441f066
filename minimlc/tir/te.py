"""Tensor expressions: what each element is, without saying how to loop.

    A = te.placeholder((128, 64), "float32", name="A")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((128,), lambda i: te.sum(A[i, k], axis=k), name="C")
    func = te.create_prim_func([A, C])

A compute becomes one loop nest around one block of the tensor's name. The function given to it is
called once, with index expressions: what it returns is the program, not a number.

All of `T`'s functions of expressions are here too: `te.exp`, `te.log`, `te.sqrt`, `te.tanh`,
`te.sigmoid`, `te.abs`, `te.pow` (or `te.power`), `te.if_then_else`, `te.cast`, ... `te.max` and
`te.min` are reductions, too: `te.max(x, axis=k)` over an axis, `te.max(x, y)` of two values.
Conditions (`i == j`, `i < 3`) are joined by `te.all(a, b)` and `te.any(a, b)`, or `&` and `|`.
"""

import inspect
import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any, NoReturn

import numpy as np

from minimlc.dtypes import dtype_record, integer_range, is_size
from minimlc.errors import CompileError, Span, did_you_mean, identifier, shown, source_line
from minimlc.names import UniqueNames
from minimlc.node import Mutator, Node, Visitor, node, span_of, with_span
from minimlc.tir.functions import FUNCTIONS
from minimlc.tir.nodes import (
    INDEX,
    Block,
    BlockIter,
    Buffer,
    Const,
    Expr,
    ExprLike,
    For,
    IterKind,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
    as_expr,
    binary,
    index,
    load,
    seq,
    tracing,
)


@node
class ReduceAxis(Var):
    """The variable of a reduction: takes low ... high-1."""

    low: int = 0
    high: int = 0


@node
class Reduction(Node):
    """All values of `value` over `axes`, combined by "+", "*", "max" or "min"."""

    op: str
    value: Expr
    axes: tuple[ReduceAxis, ...]

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
        made = "placeholder" if self.value is None else "compute"
        return f'te.{made}({self.shape}, "{self.dtype}", name="{self.name}")'


def _refuse(item: Tensor | Reduction, *_: object) -> NoReturn:
    if isinstance(item, Tensor):
        indices = ", ".join("ijklmn"[: item.ndim])
        raise CompileError(
            f'the tensor "{item.name}" is used as a number',
            code="E130",
            hint=f"name one of its elements: {item.name}[{indices}]",
        )
    raise CompileError(
        "a reduction must be the whole expression of its te.compute",
        code="E130",
        hint="give the reduction a te.compute of its own, and read its result in the next one",
    )


def _refuse_product(item: Tensor | Reduction, *_: object) -> NoReturn:
    try:
        _refuse(item)
    except CompileError as error:
        error.hint = "te.sum(A[i, k] * B[k, j], axis=k)  # an element of A @ B, in a te.compute"
        raise


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    for _kind in (Tensor, Reduction):
        setattr(_kind, f"__{_operator}__", _refuse)
        setattr(_kind, f"__r{_operator}__", _refuse)
for _operator in ("__matmul__", "__rmatmul__"):
    for _kind in (Tensor, Reduction):
        setattr(_kind, _operator, _refuse_product)
for _operator in ("neg", "lt", "le", "gt", "ge", "float", "index"):
    for _kind in (Tensor, Reduction):
        setattr(_kind, f"__{_operator}__", _refuse)


def placeholder(shape: Sequence[int], dtype: str = "float32", name: str = "A") -> Tensor:
    """An input tensor."""
    return Tensor(_name(name), _shape(shape), dtype_record(dtype).name)


def reduce_axis(dom: tuple[int, int], name: str = "k") -> ReduceAxis:
    """A variable over dom[0] ... dom[1]-1, for `te.sum` and its like to combine over."""
    pair = tuple(dom) if isinstance(dom, Sequence) else ()
    if len(pair) != 2 or {hasattr(bound, "__index__") for bound in pair} != {True}:
        raise CompileError(
            f"a reduce axis needs its bounds, got {shown(dom)}",
            code="E130",
            hint='te.reduce_axis((0, n), name="k")',
        )
    low, high = int(pair[0]), int(pair[1])
    if high <= low:
        raise CompileError(f'the reduce axis "{name}" is empty: {low} ... {high}', code="E130")
    if low < -(2**63) or not is_size(high) or not is_size(high - low):
        raise CompileError(f'the reduce axis "{name}" leaves {INDEX}', code="E130")
    return ReduceAxis(_name(name), INDEX, low, high)


Axes = ReduceAxis | Sequence[ReduceAxis] | None


def sum(expr: Expr, axis: Axes = None) -> Reduction:  # noqa: A001
    """The sum of `expr` over `axis`, in order, in `expr`'s dtype."""
    return _reduction("+", "sum", expr, axis)


def prod(expr: Expr, axis: Axes = None) -> Reduction:
    """The product of `expr` over `axis`."""
    return _reduction("*", "prod", expr, axis)


def max(expr: ExprLike, axis: Axes | ExprLike = None) -> Any:  # noqa: A001
    """The greatest value of `expr` over `axis`; NaN if any is NaN. Of two values the greater."""
    return _extreme("max", expr, axis)


def min(expr: ExprLike, axis: Axes | ExprLike = None) -> Any:  # noqa: A001
    """The least value of `expr` over `axis`; NaN if any is NaN. Of two values the lesser."""
    return _extreme("min", expr, axis)


def all(*conditions: ExprLike | Sequence[ExprLike]) -> Expr:  # noqa: A001
    """Whether all conditions hold; the later ones are asked only where the earlier ones do."""
    return _joined("and", conditions)


def any(*conditions: ExprLike | Sequence[ExprLike]) -> Expr:  # noqa: A001
    """Whether any condition holds; the later ones are asked only where the earlier ones do not."""
    return _joined("or", conditions)


def _joined(op: str, conditions: tuple[Any, ...]) -> Expr:
    if len(conditions) == 1 and isinstance(conditions[0], list | tuple):
        conditions = tuple(conditions[0])
    if not conditions:
        raise CompileError("te.all and te.any need at least one condition", code="E130")
    return reduce(partial(binary, op), map(as_expr, conditions))


def _extreme(op: str, expr: Any, axis: Any) -> Any:
    two = isinstance(axis, Expr | int | float | np.generic) and not isinstance(axis, ReduceAxis)
    return binary(op, expr, axis) if two else _reduction(op, op, expr, axis)


def _reduction(op: str, name: str, expr: Any, axis: Any) -> Reduction:
    if axis is None:
        used = _uses(expr).variables if isinstance(expr, Expr) else ()
        found = [item.name for item in used if isinstance(item, ReduceAxis)] or ["k"]
        wanted = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
        why = f"te.{name} needs the reduce axes that it combines over"
        raise CompileError(why, code="E130", hint=f"te.{name}(..., axis={wanted})")
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    for item in axes:
        if not isinstance(item, ReduceAxis):
            why = f"te.{name} combines over reduce axes, got {shown(item)}"
            hint = 'k = te.reduce_axis((0, n), name="k")'
            raise CompileError(why, code="E130", hint=hint)
    if not axes:
        raise CompileError(f"te.{name} needs at least one reduce axis", code="E130")
    if isinstance(expr, (Tensor, Reduction)):
        _refuse(expr)
    value = as_expr(expr)
    binary(op, value, value)
    return Reduction(op, value, axes)


def compute(shape: Sequence[int], fcompute: Callable[..., Any], name: str = "C") -> Tensor:
    """A tensor whose element at i, j, ... is `fcompute(i, j, ...)`, called once with expressions.

    Its parameters' names become the loops' names. `CompileError` when it takes another number of
    indices than `shape` has, or returns no expression.
    """
    sizes = _shape(shape)
    if not callable(fcompute):
        raise CompileError(
            f"te.compute needs a function of the indices, got {fcompute!r}",
            code="E130",
            hint="te.compute(shape, lambda i, j: A[i, j] + 1)",
        )
    span = _span_of_function(fcompute)
    axes = tuple(Var(_name(text)) for text in _axis_names(fcompute, sizes, span))
    value = _trace(fcompute, axes, span)
    if not isinstance(value, Reduction):
        value = as_expr(value)
    _check_variables(value, axes, name, span)
    dtype = value.value.dtype if isinstance(value, Reduction) else value.dtype
    return with_span(Tensor(_name(name), sizes, dtype, "global", axes, value), span)


def _trace(fcompute: Callable[..., Any], axes: tuple[Var, ...], span: Span | None) -> Any:
    try:
        with tracing():
            value = fcompute(*axes)
        if isinstance(value, Tensor):
            _refuse(value)
        return value if isinstance(value, Reduction) else as_expr(value)
    except CompileError as error:
        error.span = error.span or span
        called = _BUILTIN.search(span.text) if span is not None else None
        if error.code == "E112" and called is not None:
            error.hint = f"T.{called[1]}(a, b)  # {_IMPORT}; the {called[1]} of traced values"
        elif error.code == "E112" and span is not None:
            hints = (hint for words, hint in _OF_TRUTH.items() if re.search(words, span.text))
            error.hint = next(hints, error.hint)
        raise
    except TypeError as error:
        hint = next((hint for words, hint in _OF_NUMBERS.items() if words in str(error)), "")
        if not hint:
            raise
        why = "a function of Python or numpy was applied to a traced value"
        if hint is _OWN and span is not None:
            hint = _same_call(span.text) or hint
        raise CompileError(why, code="E130", span=span, hint=hint) from error


def _same_call(text: str) -> str:
    """The first call of numpy or math in a line of source, as one of ours."""
    found = _FOREIGN.search(text)
    if found is None or found[2] not in _elementwise():
        return ""
    return f"te.{found[2]}({found[3]})  # in place of {found[1]}.{found[2]}"


_FOREIGN = re.compile(r"\b(np|numpy|math)\.(\w+)\(([^()]*)\)")
_BUILTIN = re.compile(r"(?<![.\w])(max|min)\(")
_OF_TRUTH = {
    r"\band\b": "te.all(a, b)  # in place of `a and b`",
    r"\bor\b": "te.any(a, b)  # in place of `a or b`",
    r"\bnot\b": "~(a > b)  # in place of `not a > b`",
    r"[<>]=?[^<>,:()]+[<>]": "te.all(a < b, b < c)  # in place of `a < b < c`",
}
"""What Python asks the truth of a traced value for, and what to write."""
_IMPORT = "from minimlc.script import T"
_OWN = "use te's own: te.exp, te.sqrt, te.if_then_else, ..."
_OF_NUMBERS = {
    "is not iterable": "te.sum(x, axis=k)  # with k = te.reduce_axis((0, n))",
    "ufunc": _OWN,
    "must be real number": _OWN,
    "must be a string or a real number": 'te.cast(x, "float32")',
    "must be a string, a bytes-like object or a real number": 'te.cast(x, "int32")',
    "abs()": "te.abs(x)",
    "__round__": "te.round(x)",
    "** or pow()": "te.pow(a, b)",
}
"""What Python says when its functions of numbers get an expression, and what to write."""


def _axis_names(fcompute: Callable, sizes: tuple[int, ...], span: Span | None) -> list[str]:
    """The names of the function's parameters; those of `*i` are i0, i1, ..."""
    names: list[str] = []
    for item in inspect.signature(fcompute).parameters.values():
        if item.kind == item.VAR_POSITIONAL:
            more = range(len(sizes) - len(names))
            names += [f"{item.name}{number}" for number in more]
        elif item.default is item.empty and item.kind != item.VAR_KEYWORD:
            names.append(item.name)
    if len(names) != len(sizes):
        raise CompileError(
            f"the function takes {len(names)} index(es) ({', '.join(names)}), "
            f"the shape {sizes} has {len(sizes)} axes",
            code="E130",
            span=span,
        )
    return names


class _Uses(Visitor):
    """The variables and the tensors an expression speaks of, in order of appearance."""

    def __init__(self) -> None:
        self.variables: dict[Var, None] = {}
        self.tensors: dict[Tensor, None] = {}

    def visit_Var(self, item: Var) -> None:
        self.variables[item] = None

    def visit_ReduceAxis(self, item: ReduceAxis) -> None:
        self.variables[item] = None

    def visit_Buffer(self, item: Buffer) -> None:
        raise CompileError(
            f'the buffer "{item.name}" is no tensor', code="E130", hint="te.placeholder(...)"
        )

    def visit_Tensor(self, item: Tensor) -> None:
        self.tensors[item] = None


def _uses(value: Expr | Reduction) -> _Uses:
    uses = _Uses()
    uses.visit(value.value if isinstance(value, Reduction) else value)
    return uses


def _check_variables(
    value: Expr | Reduction, axes: tuple[Var, ...], name: str, span: Span | None
) -> None:
    known = (*axes, *value.axes) if isinstance(value, Reduction) else axes
    for item in _uses(value).variables:
        if item in known:
            continue
        reduce = isinstance(item, ReduceAxis)
        raise CompileError(
            f'"{name}" uses {item.name}, which is none of its indices',
            code="E130",
            span=span,
            hint=f"te.sum(..., axis={item.name})" if reduce else "",
        )


def create_prim_func(tensors: Tensor | Iterable[Tensor], *more: Tensor) -> PrimFunc:
    """The function that computes `tensors`: they are its parameters, inputs and outputs, in order.

    Tensors in between are allocated inside. Every call makes new variables and buffers.
    """
    args = (*(tensors if isinstance(tensors, Iterable) else (tensors,)), *more)
    _check_arguments(args)
    stages = _stages(args)
    if not stages:
        raise CompileError("nothing to compute: every tensor given is a placeholder", code="E130")
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
            raise CompileError(f"expected tensors, got {type(arg).__name__}: {arg!r}", code="E130")
    for arg in args:
        if args.count(arg) > 1:
            raise CompileError(f'the tensor "{arg.name}" is given twice', code="E130")


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
        for used in reversed(_uses(tensor.value).tensors):
            if used.value is None and used not in args:
                raise CompileError(
                    f'"{tensor.name}" reads the placeholder "{used.name}", which is no argument',
                    code="E130",
                    hint="give every input to te.create_prim_func, then the outputs",
                )
            stack.append((used, False))
    return list(done)


class _Instantiate(Mutator):
    """New variables and buffers in place of a compute's own."""

    def __init__(self, variables: dict[Var, Expr], buffers: dict[Buffer, Buffer]):
        self.variables = variables
        self.buffers = buffers

    def visit_Var(self, item: Var) -> Expr:
        return self.variables[item]

    def visit_ReduceAxis(self, item: ReduceAxis) -> Expr:
        return self.variables[item]

    def visit_Tensor(self, item: Tensor) -> Buffer:
        return self.buffers[item]


def _nest(tensor: Tensor, buffers: dict[Buffer, Buffer], names: UniqueNames) -> Stmt:
    """Loops over the tensor's indices, then over its reduce axes, around its block."""
    value = tensor.value
    reduction = value if isinstance(value, Reduction) else None
    axes: list[tuple[Var, int, int, IterKind]] = [
        (var, 0, size, "S") for var, size in zip(tensor.axes, tensor.shape, strict=True)
    ]
    if reduction is not None:
        axes += [(axis, axis.low, axis.high, "R") for axis in reduction.axes]
    loops = [Var(names.take(var.name)) for var, *_ in axes]
    wanted = [f"v{v.name}" if len(v.name) == 1 else f"v_{v.name}" for v, *_ in axes]
    iters: list[BlockIter] = []
    variables: dict[Var, Expr] = {}
    for (var, low, high, kind), loop, text in zip(axes, loops, wanted, strict=True):
        mine = Var(names.take(text))
        iters.append(BlockIter(mine, high - low, kind, loop))
        variables[var] = mine + low if low else mine
    for it, text in zip(iters, wanted, strict=True):
        names.release(it.var.name, text)
    buffer = buffers[tensor]
    result = _Instantiate(variables, buffers).visit(value if reduction is None else reduction.value)
    element = tuple(variables[axis] for axis in tensor.axes)
    span = span_of(tensor)
    init: Stmt | None = None
    if reduction is not None:
        result = binary(reduction.op, Load(buffer, element), result)
        init = with_span(Store(buffer, element, _identity(reduction.op, buffer.dtype)), span)
    update = with_span(Store(buffer, element, result), span)
    body: Stmt = Block(buffer.name, tuple(iters), None, init, update)
    for loop, (_, low, high, _) in reversed(list(zip(loops, axes, strict=True))):
        body = For(loop, index(high - low), "serial", body)
    return body


def _identity(op: str, dtype: str) -> Const:
    """What leaves the other operand as it is.

    NB: in TVM, the identity of a float max is the least finite number, which is wrong for -inf.
    """
    kind = dtype_record(dtype).kind
    if op in ("+", "*"):
        one = op == "*"
        return Const(float(one) if kind == "float" else int(one), dtype)
    if kind == "bool":
        return Const(op == "min", dtype)
    if kind == "float":
        return Const(float("-inf" if op == "max" else "inf"), dtype)
    low, high = integer_range(dtype)
    return Const(low if op == "max" else high, dtype)


def _shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for size in sizes:
        if not is_size(size):
            why = f"a tensor's sizes are integers >= 0, less than 2**63, got {shown(shape)}"
            raise CompileError(why, code="E130")
    return tuple(int(size) for size in sizes)


def _name(text: str) -> str:
    name = identifier(str(text))
    return f"{name}_" if keyword.iskeyword(name) else name


def _span_of_function(function: Callable) -> Span | None:
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    text = source_line(code.co_filename, code.co_firstlineno)
    start = text.find("lambda")
    column = start if start >= 0 else len(text) - len(text.lstrip())
    return Span(code.co_filename, code.co_firstlineno, column, len(text), text)


PUBLIC = (
    *("Reduction", "ReduceAxis", "Tensor", "compute", "create_prim_func", "placeholder"),
    *("all", "any", "max", "min", "prod", "reduce_axis", "sum"),
)


def _elementwise() -> dict[str, Callable[..., Any]]:
    """`T`'s functions, but for those that are reductions here."""
    own = {**FUNCTIONS, "power": FUNCTIONS["pow"]}
    return {name: function for name, function in own.items() if name not in PUBLIC}


def __getattr__(name: str) -> Callable[..., Any]:
    """Reached for what is not defined above: a function of elements, or no name of `te`."""
    # Looked up, not defined: as globals, `abs` and `bool` would hide Python's own in this file.
    if name.startswith("__"):
        raise AttributeError(name)
    elementwise = _elementwise()
    if name in elementwise:
        return elementwise[name]
    hint = did_you_mean(name, [*PUBLIC, *elementwise])
    raise AttributeError(f'te has no "{name}"; {hint}')


def __dir__() -> list[str]:
    """What completion offers."""
    return sorted({*PUBLIC, *_elementwise()})
