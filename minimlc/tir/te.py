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
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from minimlc.dtypes import INDEX, dtype_record, is_size
from minimlc.errors import CompileError, Span, did_you_mean, identifier, shown, source_line
from minimlc.node import with_span
from minimlc.tir.functions import FUNCTIONS
from minimlc.tir.nodes import Expr, ExprLike, Var, as_expr, binary, tracing
from minimlc.tir.tensors import ReduceAxis, Reduction, Tensor, refuse, refuse_as_number, uses_of
from minimlc.tir.tensors import create_prim_func as create_prim_func


def placeholder(shape: Sequence[int], dtype: str = "float32", name: str = "A") -> Tensor:
    """An input tensor."""
    return Tensor(_name(name), _shape(shape), dtype_record(dtype).name)


def reduce_axis(dom: tuple[int, int], name: str = "k") -> ReduceAxis:
    """A variable over dom[0] ... dom[1]-1, for `te.sum` and its like to combine over."""
    pair = tuple(dom) if isinstance(dom, Sequence) else ()
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
        refuse("te.all and te.any need at least one condition")
    return reduce(partial(binary, op), map(as_expr, conditions))


def _extreme(op: str, expr: Any, axis: Any) -> Any:
    two = isinstance(axis, Expr | int | float | np.generic) and not isinstance(axis, ReduceAxis)
    return binary(op, expr, axis) if two else _reduction(op, op, expr, axis)


def _reduction(op: str, name: str, expr: Any, axis: Any) -> Reduction:
    if axis is None:
        used = uses_of(expr).variables if isinstance(expr, Expr) else ()
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
    if isinstance(expr, (Tensor, Reduction)):
        refuse_as_number(expr)
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
        why = f"te.compute needs a function of the indices, got {fcompute!r}"
        refuse(why, "te.compute(shape, lambda i, j: A[i, j] + 1)")
    span = _span_of_function(fcompute)
    axes = tuple(Var(_name(text)) for text in _axis_names(fcompute, sizes, span))
    value = _trace(fcompute, axes, span)
    _check_variables(value, axes, name, span)
    return with_span(Tensor(_name(name), sizes, value.dtype, "global", axes, value), span)


def _trace(
    fcompute: Callable[..., Any], axes: tuple[Var, ...], span: Span | None
) -> Expr | Reduction:
    try:
        with tracing():
            value = fcompute(*axes)
        if isinstance(value, Tensor):
            refuse_as_number(value)
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
    call = _FOREIGN.search(text)
    if call is None or call[2] not in _elementwise():
        return ""
    return f"te.{call[2]}({call[3]})  # in place of {call[1]}.{call[2]}"


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
        why = f"the function takes {len(names)} index(es) ({', '.join(names)}), "
        refuse(f"{why}the shape {sizes} has {len(sizes)} axes", span=span)
    return names


def _check_variables(
    value: Expr | Reduction, axes: tuple[Var, ...], name: str, span: Span | None
) -> None:
    known = {*map(id, axes), *(map(id, value.axes) if isinstance(value, Reduction) else ())}
    for item in uses_of(value).variables:
        if id(item) in known:  # while another compute is traced, `==` is an expression
            continue
        hint = f"te.sum(..., axis={item.name})" if isinstance(item, ReduceAxis) else ""
        refuse(f'"{name}" uses {item.name}, which is none of its indices', hint, span)


def _shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for size in sizes:
        if not is_size(size):
            why = f"a tensor's sizes are integers >= 0, less than 2**63, got {shown(shape)}"
            refuse(why)
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
