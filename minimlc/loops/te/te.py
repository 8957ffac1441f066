"""Tensor expressions: the value of each element, without loops.

    A = te.placeholder((128, 64), "float32", name="A")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((128,), lambda i: te.sum(A[i, k], axis=k), name="C")
    func = te.create_prim_func([A, C])

A compute becomes one nest around one block of the tensor's name. Its function is called once, with
index expressions, and returns the program, not a number.

All of `T`'s functions of expressions are here too: `te.exp`, `te.log`, `te.sqrt`, `te.tanh`,
`te.sigmoid`, `te.abs`, `te.pow` (or `te.power`), `te.if_then_else`, `te.cast`, ... `te.max` and
`te.min` reduce, too: `te.max(x, axis=k)` over an axis, `te.max(x, y)` of two values. Further
reductions are made by `te.comm_reducer`, scatters and running sums by `te.in_steps`. Conditions
(`i == j`) are joined by `te.all(a, b)` and `te.any(a, b)`, or `&` and `|`.
"""

import inspect
import keyword
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.functions import FUNCTIONS, of_dtype
from minimlc.loops.ir.operators import identity, start_of
from minimlc.loops.ir.traced import called, span_of_function
from minimlc.loops.te.tensors import (
    ReduceAxis,
    Reduction,
    Size,
    Steps,
    Tensor,
    is_symbolic,
    parts_of,
    refuse,
    refuse_as_number,
    uses_of,
)
from minimlc.loops.te.tensors import create_prim_func as create_prim_func
from minimlc.loops.values.dtypes import INDEX, dtype_record, is_integer, is_size
from minimlc.loops.values.errors import CompileError, Span, did_you_mean, identifier, shown
from minimlc.loops.values.node import replace, with_span


def placeholder(shape: Sequence[int], dtype: str = "float32", name: str = "A") -> Tensor:
    """An input tensor."""
    return Tensor(_name(name), _shape(shape), dtype_record(dtype).name)


def var(name: str = "n", dtype: str = "int64") -> Size:
    """A size that is known only at the call: an index, whichever integer `dtype` is."""
    if not is_integer(dtype_record(dtype).name):
        refuse(f"te.var({name!r}) is a size, an integer; {dtype} is none")
    return Size(_name(name))


size_var = var


def reduce_axis(dom: tuple[int, int], name: str = "k") -> ReduceAxis:
    """A variable over dom[0] ... dom[1]-1, for `te.sum` and its like to combine over."""
    pair: tuple[Any, ...] = tuple(map(_size, dom)) if isinstance(dom, Sequence) else ()
    numbers = [bound for bound in pair if not is_symbolic(bound)]
    if len(pair) == 2 and len(numbers) < 2 and {*map(is_size, numbers)} <= {True}:
        return ReduceAxis(_name(name), *pair)
    if len(pair) != 2 or {hasattr(bound, "__index__") for bound in pair} != {True}:
        why = f"a reduce axis needs its bounds, got {shown(dom)}"
        refuse(why, 'te.reduce_axis((0, n), name="k")')
    low, high = int(pair[0]), int(pair[1])
    if high <= low:
        refuse(f'the reduce axis "{name}" is empty: {low} ... {high}')
    if low < -(2**63) or not is_size(high) or not is_size(high - low):
        refuse(f'the reduce axis "{name}" leaves {INDEX}')
    return ReduceAxis(_name(name), low, high)


Axes = ReduceAxis | Sequence[ReduceAxis] | None
Perhaps = ir.ExprLike | None


def sum(  # noqa: A001
    expr: ir.Expr, axis: Axes = None, where: Perhaps = None, init: Perhaps = None
) -> Reduction:
    """The sum of `expr` over `axis`, in order, in `expr`'s dtype: where a condition holds, and
    from `init` on, if they are given.
    """
    return _reduction("+", "sum", expr, axis, where, init)


def prod(
    expr: ir.Expr, axis: Axes = None, where: Perhaps = None, init: Perhaps = None
) -> Reduction:
    """The product of `expr` over `axis`."""
    return _reduction("*", "prod", expr, axis, where, init)


def max(  # noqa: A001
    expr: ir.ExprLike, axis: Axes | ir.ExprLike = None, where: Perhaps = None, init: Perhaps = None
) -> Any:
    """The greatest value of `expr` over `axis`; NaN if any is NaN. Of two values the greater."""
    return _extreme("max", expr, axis, where, init)


def min(  # noqa: A001
    expr: ir.ExprLike, axis: Axes | ir.ExprLike = None, where: Perhaps = None, init: Perhaps = None
) -> Any:
    """The least value of `expr` over `axis`; NaN if any is NaN. Of two values the lesser."""
    return _extreme("min", expr, axis, where, init)


def all(*conditions: ir.ExprLike | Sequence[ir.ExprLike]) -> ir.Expr:  # noqa: A001
    """Whether all conditions hold; the later ones are asked only where the earlier ones do."""
    return _joined("and", conditions)


def any(*conditions: ir.ExprLike | Sequence[ir.ExprLike]) -> ir.Expr:  # noqa: A001
    """Whether any condition holds; the later ones are asked only where the earlier ones do not."""
    return _joined("or", conditions)


def _joined(op: str, conditions: tuple[Any, ...]) -> ir.Expr:
    if len(conditions) == 1 and isinstance(conditions[0], list | tuple):
        conditions = tuple(conditions[0])
    if not conditions:
        refuse("te.all and te.any need at least one condition")
    return reduce(partial(ir.binary, op), map(ir.as_expr, conditions))


def _extreme(op: str, expr: Any, axis: Any, where: Any, init: Any) -> Any:
    two = isinstance(axis, ir.Expr | int | float | np.generic) and not isinstance(axis, ReduceAxis)
    return ir.binary(op, expr, axis) if two else _reduction(op, op, expr, axis, where, init)


def _reduction(op: str, name: str, expr: Any, axis: Any, where: Any, init: Any) -> Reduction:
    """`expr` over `axis`, combined by an operator; its identity where `where` does not hold."""
    axes = _reduce_axes(name, [expr], axis)
    value = _number(expr)
    x, y = ir.Var("x", value.dtype), ir.Var("y", value.dtype)
    combined = ir.binary(op, x, y)
    if where is not None:
        value = ir.select(where, value, const(identity(op, value.dtype), value.dtype))
    start = const(start_of(op, value.dtype), value.dtype) if init is None else init
    return Reduction((value,), (ir.as_expr(start, value.dtype),), axes, (x,), (y,), (combined,))


def _number(expr: Any, dtype: str | None = None) -> ir.Expr:
    """An expression of one element, not a tensor or a reduction; Python's numbers as `dtype`."""
    if isinstance(expr, (Tensor, Reduction, Steps)):
        refuse_as_number(expr)
    return ir.as_expr(expr, dtype)


def _reduce_axes(name: str, exprs: Sequence[Any], axis: Any) -> tuple[ReduceAxis, ...]:
    """The reduce axes that `te.sum(..., axis=...)` combines over."""
    if axis is None:
        used = [v for expr in exprs if isinstance(expr, ir.Expr) for v in uses_of(expr).variables]
        names = [item.name for item in used if isinstance(item, ReduceAxis)] or ["k"]
        listed = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
        why = f"te.{name} needs the reduce axes that it combines over"
        refuse(why, f"te.{name}(..., axis={listed})")
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    for item in axes:
        if not isinstance(item, ReduceAxis):
            why = f"te.{name} combines over reduce axes, got {shown(item)}"
            refuse(why, 'k = te.reduce_axis((0, n), name="k")')
    if not axes:
        refuse(f"te.{name} needs at least one reduce axis")
    return axes


Reducing = Callable[..., Reduction]


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Reducing:
    """A custom reduction: `fcombine(x, y)` is the next value of `x`, the result so far, with `y`,
    and `fidentity(dtype)` its start. For several values at once, x and y are tuples.

        argmax = te.comm_reducer(
            lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
            lambda of_index, of_value: (te.const(-1, of_index), te.min_value(of_value)),
            name="argmax",
        )
        I, V = te.compute((n,), lambda i: argmax((index[i, k], A[i, k]), axis=k), name="best")

    A reduction not known to be associative combines in the order of the axes. Parts that read each
    other's old values are refused.
    """

    def reduce(expr: Any, axis: Axes = None, where: Any = None, init: Any = None) -> Reduction:
        exprs = tuple(expr) if isinstance(expr, list | tuple) else (expr,)
        axes = _reduce_axes(name, exprs, axis)
        values = tuple(map(_number, exprs))
        dtypes = [value.dtype for value in values]
        kept, new = (tuple([ir.Var(letter, dtype) for dtype in dtypes]) for letter in "xy")
        sides = (kept, new) if len(values) > 1 else (*kept, *new)
        combined = _parts(name, "fcombine", _given(name, "fcombine", fcombine, sides), dtypes)
        start = _given(name, "fidentity", fidentity, dtypes) if init is None else init
        if where is not None:
            combined = tuple(map(partial(ir.select, where), combined, kept))
        starts = _parts(name, "fidentity", start, dtypes)
        return Reduction(values, starts, axes, kept, new, combined, _name(name))

    reduce.__name__ = _name(name)
    return reduce


def _given(name: str, giver: str, function: Any, args: Sequence[Any]) -> Any:
    """The result of a function of `comm_reducer` for these arguments."""
    try:
        inspect.signature(function).bind(*args)
    except (TypeError, ValueError) as error:
        why = f"{giver} of {name} does not take {len(args)} argument(s): {error}"
        refuse(why, "te.comm_reducer(lambda x, y: x + y, lambda dtype: te.const(0, dtype))")
    return called(function, args, span_of_function(function))


def _parts(name: str, giver: str, given: Any, dtypes: Sequence[str]) -> tuple[ir.Expr, ...]:
    """The values that a function of `comm_reducer` gives, one of each dtype."""
    items = given if isinstance(given, list | tuple) else (given,)
    if len(items) != len(dtypes):
        refuse(f"{giver} of {name} gives {len(items)} value(s), {len(dtypes)} are combined")
    parts = tuple(map(ir.as_expr, items, dtypes))
    for number, (part, dtype) in enumerate(zip(parts, dtypes, strict=True)):
        if part.dtype != dtype:
            why = f"{giver} of {name} gives {part.dtype} for value {number}, which is {dtype}"
            refuse(why, f'te.const(0, "{dtype}"), or x.astype("{dtype}")')
    return parts


def in_steps(
    start: ir.Expr,
    shape: Sequence[int],
    axis: Axes,
    step: Callable[[Tensor], tuple[Sequence[ir.ExprLike], ir.Expr]],
) -> Steps:
    """The value of a compute of `shape` whose elements are `start`, and then change, one for each
    value of `axis` in order: `step`, given the tensor so far, gives the indices of the element, and
    its new value.

        te.compute(x.shape, lambda i: te.in_steps(x[i], x.shape, k, lambda y: ((at[k],), new[k])))
    """
    start = _number(start)
    so_far = Tensor("so_far", _shape(shape), start.dtype)
    place, given = step(so_far)
    value = ir.meeting(_number(given, start.dtype), start.dtype)
    if value.dtype != start.dtype:
        refuse(f"te.in_steps: a step gives {value.dtype}, the start is {start.dtype}")
    at = ir.load(so_far, place).indices
    return Steps(start, _reduce_axes("in_steps", [value], axis), so_far, at, value)


def const(value: int | float | bool, dtype: str | None = None) -> Any:
    """A number of a dtype; without one it takes the dtype of the other operand, as Python's do."""
    return value if dtype is None else of_dtype(dtype_record(dtype).name, value)


def compute(
    shape: Sequence[int],
    fcompute: Callable[..., Any],
    name: str = "C",
    tag: str = "",
    attrs: object = None,
) -> Any:
    """A tensor whose element at i, j, ... is `fcompute(i, j, ...)`, called once with expressions.

    Its parameters' names become the loops' names. A function that gives several values makes as
    many tensors, in a list. `tag` and `attrs`, which other compilers' programs give, mean nothing
    here. `CompileError` when the function takes another number of indices than `shape` has, or
    returns no expression.
    """
    sizes = _shape(shape)
    if not callable(fcompute):
        why = f"te.compute needs a function of the indices, got {fcompute!r}"
        refuse(why, "te.compute(shape, lambda i, j: A[i, j] + 1)")
    span = span_of_function(fcompute)
    axes = tuple(ir.Var(_name(text)) for text in _axis_names(fcompute, sizes, span))
    value = called(fcompute, axes, span)
    several = isinstance(value, list | tuple)
    values = [_element(item, span) for item in (value if several else [value])]
    if not values:
        refuse(f'the function of "{name}" gives nothing', "lambda i: A[i] + 1", span)
    for item in values:
        _check_variables(item, axes, name, span)
    if len(values) == 1 and isinstance(values[0], Reduction) and len(values[0].values) > 1:
        reduction = replace(values[0], name=_name(name))
        first = Tensor("", sizes, reduction.dtype, "global", axes)
        return [with_span(part, span) for part in parts_of(first, reduction)]
    names = [f"{name}_v{number}" for number in range(len(values))] if several else [name]
    tensors = [
        with_span(Tensor(_name(text), sizes, item.dtype, "global", axes, item), span)
        for text, item in zip(names, values, strict=True)
    ]
    return tensors if several else tensors[0]


def _element(value: Any, span: Span | None) -> ir.Expr | Reduction | Steps:
    """The result of a function of the indices, as an element of a tensor."""
    try:
        return value if isinstance(value, Reduction | Steps) else _number(value)
    except CompileError as error:
        error.span = error.span or span
        raise


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
        why = f"the function takes {len(names)} index(es) ({', '.join(names)}), "
        refuse(f"{why}the shape {sizes} has {len(sizes)} axes", span=span)
    return names


def _check_variables(
    value: ir.Expr | Reduction | Steps,
    axes: tuple[ir.Var | ReduceAxis, ...],
    name: str,
    span: Span | None,
) -> None:
    if isinstance(value, Steps):
        _check_variables(value.start, axes, name, span)
        for part in (*value.place, value.value):
            _check_variables(part, value.axes, name, span)
        return
    known = {*map(id, axes), *(map(id, value.axes) if isinstance(value, Reduction) else ())}
    for item in uses_of(value).variables:
        if id(item) in known:  # while another compute is traced, `==` is an expression
            continue
        hint = f"te.sum(..., axis={item.name})" if isinstance(item, ReduceAxis) else ""
        refuse(f'"{name}" uses {item.name}, which is none of its indices', hint, span)


def _shape(shape: Any) -> tuple[Any, ...]:
    sizes = tuple(map(_size, shape if isinstance(shape, Sequence) else (shape,)))
    for size in sizes:
        if not is_size(size) and not is_symbolic(size):
            why = f"a tensor's sizes are integers >= 0, less than 2**63, got {shown(shape)}"
            refuse(why, "te.var(name) for a size that is known at the call")
    return tuple(size if isinstance(size, ir.Expr) else int(size) for size in sizes)


def _size(size: Any) -> Any:
    """A size as an integer, if it is a constant or a float without a fraction; else as it is."""
    if isinstance(size, ir.Const) and is_integer(size.dtype):
        return size.value
    return int(size) if isinstance(size, float) and size.is_integer() else size


def _name(text: str) -> str:
    name = identifier(str(text))
    return f"{name}_" if keyword.iskeyword(name) else name


PUBLIC = (
    *("Reduction", "ReduceAxis", "Tensor", "comm_reducer", "compute", "const", "create_prim_func"),
    *("in_steps", "placeholder", "all", "any", "max", "min", "prod", "reduce_axis", "sum"),
    *("size_var", "var"),
)


def _elementwise() -> dict[str, Callable[..., Any]]:
    """`T`'s functions, but for those that are reductions here."""
    functions = {**FUNCTIONS, "power": FUNCTIONS["pow"]}
    return {name: function for name, function in functions.items() if name not in PUBLIC}


def __getattr__(name: str) -> Callable[..., Any]:
    """A name not defined above: a function of elements, or else an `AttributeError`."""
    # Looked up, not defined: as globals, `abs` and `bool` would hide Python's own in this file.
    if name.startswith("__"):
        raise AttributeError(name)
    elementwise = _elementwise()
    if name in elementwise:
        return elementwise[name]
    hint = did_you_mean(name, [*PUBLIC, *elementwise])
    raise AttributeError(f'te has no "{name}"; {hint}')


def __dir__() -> list[str]:
    """The names that completion offers."""
    return sorted({*PUBLIC, *_elementwise()})
