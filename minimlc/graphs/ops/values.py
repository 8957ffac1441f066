"""Tensors as formulas of their elements: what the lowering of an operator computes with.

Nothing is computed, and no loop is written, until an element is asked for. So the same code that
gives the loops of an operator gives its type: `shape` and `dtype` are known at once.
"""

import operator
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from typing import Any

import numpy as np

from minimlc.graphs.ops.checks import HALF, axis_of, broadcast_shapes, may_equal, refuse
from minimlc.loops.ir.nodes import Expr, as_expr, const, select
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.literals import Symbol

Element = Callable[..., Any]


class Values:
    """A tensor whose element at i, j, ... is `element(i, j, ...)`, an expression or a reduction.

    With a `name`, the elements are stored by a loop nest of that name, and read from there;
    otherwise their expression is written wherever they are read. `narrow` are the same numbers in
    the 16-bit floats that they come from.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: str,
        element: Element,
        name: str = "",
        narrow: "Values | None" = None,
    ):
        self.shape, self.dtype, self.element = tuple(shape), dtype, element
        self.name, self.narrow = name, narrow

    @classmethod
    def of(cls, x: Any) -> Any:
        """`Values` of a tensor, a tensor's type, or a tuple of them; a number is itself."""
        if hasattr(x, "fields"):
            return tuple(map(cls.of, x.fields))
        if isinstance(x, list | tuple):
            return tuple(map(cls.of, x))
        if isinstance(x, Values | bool | int | float | Symbol):
            return x
        return cls(x.shape, x.dtype, lambda *i: x[i])

    @property
    def native(self) -> "Values":
        """The same numbers in the dtype that they come in."""
        return self if self.narrow is None else self.narrow

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def stored(self, name: str) -> te.Tensor:
        """A new tensor expression `name` of all elements."""
        tensor = te.compute(self.shape, self.element, name)
        if tensor.dtype != self.dtype:
            refuse(f"the formula of {name} gives {tensor.dtype}, not {self.dtype}", "E202")
        return tensor

    @cached_property
    def _tensor(self) -> te.Tensor:
        return self.stored(self.name)

    def __getitem__(self, indices: tuple[Any, ...]) -> Any:
        return self._tensor[indices] if self.name else self.element(*indices)

    def __bool__(self) -> bool:
        refuse("values have no truth while the loops are written", "E112", "where(condition, x, y)")

    def named(self, name: str) -> "Values":
        """The same, stored as `name`; what was widened is stored as narrow as it came."""
        if self.narrow is not None:
            return self.narrow.named(name).astype(self.dtype)
        return Values(self.shape, self.dtype, self.element, name)

    def astype(self, dtype: str) -> "Values":
        """The values converted to `dtype` where they are read."""
        if dtype == self.dtype:
            return self
        if self.narrow is not None and self.narrow.dtype == dtype:
            return self.narrow

        def element(*i: Expr) -> Expr:
            return self[i].astype(dtype)

        if not self.name:
            element = wraps(self.element)(element)  # with the same names of loops
        widens = self.dtype in HALF and dtype == "float32"
        return Values(self.shape, dtype, element, narrow=self if widens else None)


def wide(dtype: str) -> str:
    """The dtype that a formula on `dtype` is computed in: float32 for the 16-bit floats."""
    return "float32" if dtype in HALF else dtype


def read(x: Values, indices: Sequence[Any], shape: Sequence[int]) -> Expr:
    """The element of `x` that broadcasting to `shape` puts at `indices`."""
    skipped = len(shape) - x.ndim
    axes = zip(x.shape, shape[skipped:], indices[skipped:], strict=True)
    return x[tuple(0 if size == 1 and out != 1 else i for size, out, i in axes)]


def pointwise(formula: Element, *inputs: Any, gives: str = "") -> Values:
    """`formula` of elements that broadcasting puts together; numbers are given as they are.

    The result has the dtype of the last tensor, or that of `gives`. `OpError` E203 for shapes that
    do not broadcast.
    """
    tensors = [x for x in inputs if isinstance(x, Values)]
    shape = _common_shape([x.shape for x in tensors])

    def element(*i: Expr) -> Expr:
        return formula(*[read(x, i, shape) if isinstance(x, Values) else x for x in inputs])

    return Values(shape, gives or tensors[-1].dtype, element)


def _common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return broadcast_shapes(*shapes)
    except ValueError as error:
        axis = error.args[0]
        sizes = [s[axis] for s in shapes if len(s) >= -axis and s[axis] != 1]
        hint = "along each axis, counted from the last, sizes must be equal or 1"
        if all(may_equal(size, sizes[0]) for size in sizes):
            hint = f"op.match_cast(y, ...) where a call must have equal sizes; or {hint}"
        refuse(
            f"the shapes {', '.join(map(str, shapes))} do not broadcast: "
            f"axis {axis} has sizes {' and '.join(map(str, sizes))}",
            hint=hint,
        )


def named(x: Any, name: str) -> Any:
    """`x`, which loops store as `name`; over arrays and graph expressions `x` itself."""
    return x.named(name) if isinstance(x, Values) else x


def spread(x: Any, axes: Sequence[int], ndim: int) -> Any:
    """`x`, whose axes are `axes` of `ndim`, with the others, of size 1, between them.

    Over arrays, too.
    """
    sizes = dict(zip(axes, x.shape, strict=True))
    shape = [sizes.get(a, 1) for a in range(ndim)]
    if not isinstance(x, Values):
        return x.reshape(shape)
    return Values(shape, x.dtype, lambda *i: x[tuple([i[a] for a in axes])])


def iota(size: int, like: Any) -> Any:
    """The vector 0, 1, ... size - 1, int64, of `Values` or an array as `like` is."""
    if isinstance(like, Values):
        return Values((size,), INDEX, lambda i: as_expr(i, INDEX))
    return np.arange(size)


def nothing(shape: Sequence[int], dtype: str) -> "Values":
    """A tensor of that shape, in which there is no element."""
    return Values(shape, dtype, lambda *i: const(0, dtype))


def along(x: Any, axis: object, other: Any) -> Any:
    """`x`, a vector, along one axis of `other`; over arrays, too."""
    place = axis_of(axis, other.ndim)
    if x.shape != (other.shape[place],):
        refuse(f"a vector of shape {x.shape} along axis {place}, which has {other.shape[place]}")
    return spread(x, (place,), other.ndim)


def choose(cases: Sequence[tuple[Expr, Expr]], otherwise: Expr) -> Expr:
    """The value of the first case whose condition holds."""
    for condition, value in reversed(cases):
        otherwise = select(condition, value, otherwise)
    return otherwise


def _method(name: str, gives: str = "", swapped: bool = False) -> Callable[..., Values]:
    apply = getattr(operator, name)

    def method(*values: Any) -> Values:
        return pointwise(apply, *(reversed(values) if swapped else values), gives=gives)

    return method


setattr(Values, "__neg__", _method("neg"))  # noqa: B010  as the others
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    setattr(Values, f"__{_name}__", _method(_name))
    setattr(Values, f"__r{_name}__", _method(_name, swapped=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Values, f"__{_name}__", _method(_name, gives="bool"))
