"""Checks of attributes and shapes in type rules, and their errors."""

from typing import Any, NoReturn

from minimlc.loops.values.dtypes import whole_range
from minimlc.loops.values.errors import OpError
from minimlc.loops.values.literals import Symbol

FLOATS = ("float16", "bfloat16", "float32", "float64")
INDICES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
INTEGERS = (*INDICES, "uint64")
NUMBERS = FLOATS + INTEGERS
BOOL = ("bool",)
ALL = NUMBERS + BOOL
HALF = ("float16", "bfloat16")
NO_DTYPE = ("", "void", None)
"""Values of a dtype attribute that stand for the dtype of the tensors."""

Axes = int | tuple[int, ...] | None


def refuse(why: str, code: str = "E203", hint: str = "") -> NoReturn:
    """Raise the `OpError` that a type rule reports; the operator's name is added on its way."""
    raise OpError(why, code=code, hint=hint)


def fits(value: float, dtype: str) -> bool:
    """Whether a dtype has a number: floats round; the others neither round nor wrap. A symbolic
    size passes: it is a number only at the call.
    """
    limits = whole_range(dtype)
    if isinstance(value, Symbol):
        return True
    return limits is None or (not isinstance(value, float) and limits[0] <= value <= limits[1])


def axis_of(axis: object, ndim: int, name: str = "axis") -> int:
    """One axis, counted from the front; refuses what is not an axis of an `ndim`-D tensor."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        refuse(f"{name} is an integer, got {axis!r}", "E204")
    if not -ndim <= axis < ndim:
        span = f"-{ndim} ... {ndim - 1}" if ndim else "none: the tensor has no axes"
        refuse(f"{name}={axis} is out of range for {ndim} dimension(s)", "E204", f"axes: {span}")
    return axis % ndim


def axes_of(axis: object, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """Axes counted from the front, in order; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    items = axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(axis_of(a, ndim, name) for a in items)
    if len(set(axes)) != len(axes):
        refuse(f"{name}={axis} names an axis twice", "E204")
    return tuple(sorted(axes))


def sizes_of(value: object, name: str) -> tuple[int, ...]:
    """A tuple of integers; one integer stands for a 1-tuple."""
    items = value if isinstance(value, tuple) else (value,)
    for item in items:
        if not isinstance(item, int | Symbol) or isinstance(item, bool):
            refuse(f"{name} is a tuple of integers, got {value!r}", "E204")
    return items


def may_equal(a: Any, b: Any) -> bool:
    """Whether two sizes are equal for some values of their names, as far as that is known."""
    return isinstance(a - b, Symbol) or a == b


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all of `shapes` broadcast to, as numpy's; ValueError if there is none.

    Of sizes that are equal, the one with the shortest text.
    """
    ndim = max(map(len, shapes), default=0)
    result = []
    for axis in range(-ndim, 0):
        sizes = [s[axis] for s in shapes if len(s) >= -axis and s[axis] != 1]
        if any(size != sizes[0] for size in sizes):
            raise ValueError(axis)
        result.append(min(sizes, key=lambda size: len(str(size)), default=1))
    return tuple(result)


def resized(shape: tuple[Any, ...], axis: int, *sizes: Any) -> tuple[Any, ...]:
    """A shape, or indices, with others in the place of one axis."""
    return (*shape[:axis], *sizes, *shape[axis + 1 :])
