"""What an operator is: one record, and the checks that all operators share."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from minimlc.constants import too_big
from minimlc.dtypes import DTYPES, dtype_name, dtype_record, is_float, is_integer
from minimlc.errors import CompileError, OpError, did_you_mean, shown
from minimlc.graph.nodes import (
    Call,
    Constant,
    Expr,
    TensorType,
    Tuple,
    TupleType,
    Type,
    constant,
)

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
NUMBERS = FLOATS + INTEGERS
ALL = (*NUMBERS, "bool")
HALF = ("float16", "bfloat16")


class _Required:
    def __repr__(self) -> str:
        return "..."


REQUIRED = _Required()
"""Stands for the default of an attribute that has none."""


class Op(NamedTuple):
    """One operator.

    `params` name its tensors; `attrs` its options with their defaults. All tensors have one dtype
    out of `dtypes`, except those in `param_dtypes`. With `variadic`, the one parameter is a tuple
    of tensors.

    - `infer(*types, **attrs)` gives the result's type or refuses.
    - `meaning(*arrays, **attrs)` gives the result in numpy. 16-bit floats come widened to
      float32, and the result is rounded once: `evaluate` sees to both.
    - `lower(*tensors, **attrs)` gives the result as tensor expressions (`minimlc.tir.te`).
    """

    name: str
    params: tuple[str, ...]
    doc: str
    infer: Callable[..., Type]
    meaning: Callable[..., Any]
    lower: Callable[..., Any]
    dtypes: tuple[str, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    param_dtypes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    variadic: bool = False

    def call(self, args: tuple[object, ...], keywords: Mapping[str, object]) -> Call:
        """A call of this operator, its arguments converted and its type inferred."""
        values = self._bind(args, keywords)
        tensors = self._tensors([values.pop(name) for name in self.params])
        attrs = {name: _plain(values[name]) for name, _ in self.attrs}
        out = self.infer_type(tuple(t.type for t in tensors), attrs)
        return Call(self.name, tensors, tuple(attrs.items()), out)

    def infer_type(self, types: tuple[Type, ...], attrs: Mapping[str, object]) -> Type:
        """The result's type; `OpError` naming the operator and its arguments' types."""
        try:
            if len(types) != len(self.params):
                refuse(f"takes {len(self.params)} tensor(s), got {len(types)}", "E201")
            complete = self._complete(attrs)
            self._check_dtypes(types)
            return self.infer(*types, **complete)
        except OpError as error:
            given = [f"{name}: {t}" for name, t in zip(self.params, types, strict=False)]
            given += [f"{name}={shown(value)}" for name, value in attrs.items()]
            raise OpError(
                f"{self.name}: {error.why}",
                code=error.code,
                excerpt="\n".join(line[:95] for line in given),
                hint=error.hint,
            ) from None

    def evaluate(self, call: Call, arrays: Iterable[Any]) -> Any:
        """The value of `call` for the values of its arguments (a tuple's value is a tuple)."""
        attrs = self._complete(dict(call.attrs))
        with np.errstate(all="ignore"):
            result = self.meaning(*[_widen(a) for a in arrays], **attrs)
        return _conform(result, call.type)

    def signature(self) -> str:
        """The parameters as written in a call: `x, axis=None, keepdims=False`."""
        options = [name if d is REQUIRED else f"{name}={d!r}" for name, d in self.attrs]
        return ", ".join([*self.params, *options])

    def _bind(self, args: tuple[object, ...], keywords: Mapping[str, object]) -> dict[str, object]:
        names = [*self.params, *(name for name, _ in self.attrs)]
        form = f"{self.name}({self.signature()})"
        if len(args) > len(names):
            why = f"{self.name}: takes {len(names)} argument(s), got {len(args)}"
            raise OpError(why, code="E201", hint=form)
        values = dict(zip(names, args, strict=False))
        for key, value in keywords.items():
            if key not in names:
                hint = f"{did_you_mean(key, names)}\n{form}"
                why = f'{self.name}: has no argument "{key}"'
                raise OpError(why, code="E201", hint=hint)
            if key in values:
                raise OpError(f'{self.name}: "{key}" is given twice', code="E201", hint=form)
            values[key] = value
        for name, default in self.attrs:
            values.setdefault(name, default)
        missing = [n for n in names if n not in values or values[n] is REQUIRED]
        if missing:
            listed = ", ".join(f'"{name}"' for name in missing)
            raise OpError(f"{self.name}: misses {listed}", code="E201", hint=form)
        return values

    def _tensors(self, values: list[object]) -> tuple[Expr, ...]:
        if self.variadic and isinstance(values[0], list | tuple):
            return (Tuple(self._elements(list(values[0]))),)
        return self._elements(values)

    def _elements(self, values: list[object]) -> tuple[Expr, ...]:
        """Values as expressions; a Python number takes the dtype of the tensors beside it."""
        names = self.params if len(self.params) == len(values) else ()
        free = [i for i, n in enumerate(names) if n in dict(self.param_dtypes)]
        typed = [v for i, v in enumerate(values) if i not in free and hasattr(v, "dtype")]
        beside = None
        if typed:
            first: Any = typed[0]
            beside = first.dtype if isinstance(first, Expr) else dtype_name(first.dtype)
        label = names or tuple(f"{self.params[0]}[{i}]" for i in range(len(values)))
        return tuple(self._expr(n, v, beside) for n, v in zip(label, values, strict=True))

    def _expr(self, name: str, value: object, beside: str | None) -> Expr:
        if isinstance(value, Expr):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return constant(value)
        if isinstance(value, bool | int | float) and beside is not None:
            return _number(self.name, name, value, beside)
        got = f"{type(value).__name__} {value!r}"
        raise OpError(
            f"{self.name}: {name} must be a tensor, got {got[:60]}",
            code="E201",
            hint="give a graph variable, a numpy array, or mlc.constant(value, dtype)",
        )

    def _complete(self, attrs: Mapping[str, object]) -> dict[str, Any]:
        """All attributes, defaults filled in, each of its default's kind."""
        known = dict(self.attrs)
        for key, given in attrs.items():
            if key not in known:
                refuse(f'has no attribute "{key}"', "E204", did_you_mean(key, known))
            if too_big(given):
                refuse(f"{key} has {too_big(given)}", "E204")
        complete = {**known, **attrs}
        for key, value in complete.items():
            if value is REQUIRED:
                refuse(f'misses the attribute "{key}"', "E204")
            if isinstance(known[key], bool) and not isinstance(value, bool):
                refuse(f"{key} is True or False, got {value!r}", "E204")
            if isinstance(known[key], float) and not isinstance(value, int | float):
                refuse(f"{key} is a number, got {value!r}", "E204")
            if key == "dtype":
                _check_dtype_name(value)
        return complete

    def _check_dtypes(self, types: tuple[Type, ...]) -> None:
        own = dict(self.param_dtypes)
        group = []
        for name, found in zip(self.params, types, strict=True):
            if self.variadic:
                group += _tuple_fields(name, found)
            elif not isinstance(found, TensorType):
                refuse(f"{name} must be a tensor, got a tuple", "E202", "take one field: t[0]")
            elif name in own:
                _check_one_of(name, found.dtype, own[name])
            else:
                group.append((name, found))
        for name, found in group:
            _check_one_of(name, found.dtype, self.dtypes)
            if found.dtype != group[0][1].dtype:
                refuse(
                    f"{group[0][0]} is {group[0][1].dtype}, {name} is {found.dtype}",
                    "E202",
                    f'op.cast({name}, "{group[0][1].dtype}")',
                )


def refuse(why: str, code: str = "E203", hint: str = "") -> NoReturn:
    """Raise the `OpError` that a type rule reports; the operator's name is added on its way."""
    raise OpError(why, code=code, hint=hint)


def wide(dtype: str) -> str:
    """The dtype that a formula on `dtype` is computed in: float32 for the 16-bit floats."""
    return "float32" if dtype in HALF else dtype


def axis_of(axis: object, ndim: int, name: str = "axis") -> int:
    """One axis, counted from the front; refuses what is no axis of an `ndim`-D tensor."""
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
        if not isinstance(item, int) or isinstance(item, bool):
            refuse(f"{name} is a tuple of integers, got {value!r}", "E204")
    return items


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all of `shapes` broadcast to, as numpy's; ValueError if there is none."""
    ndim = max(map(len, shapes), default=0)
    result = []
    for axis in range(-ndim, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            raise ValueError(axis)
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def tensor(shape: Iterable[int], dtype: str) -> TensorType:
    return TensorType(tuple(shape), dtype)


def _number(op: str, name: str, value: bool | int | float, dtype: str) -> Constant:
    fits = is_float(dtype) or (
        isinstance(value, bool) if dtype == "bool" else isinstance(value, int)
    )
    if fits and is_integer(dtype):
        info = np.iinfo(DTYPES[dtype].numpy)
        fits = info.min <= value <= info.max
    if not fits:
        raise OpError(
            f"{op}: {name}={value!r} is no {dtype}",
            code="E202",
            hint=f'op.cast(..., "{dtype_name(np.asarray(value).dtype)}") for the tensor beside it',
        )
    return constant(value, dtype)


def _plain(value: object) -> object:
    """An attribute as plain data: tuples, numbers, strings."""
    if isinstance(value, list | tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return dtype_name(value)
    return value


def _check_dtype_name(value: object) -> None:
    try:
        dtype_record(str(value))
    except CompileError as error:
        refuse(error.why, "E204", error.hint)


def _check_one_of(name: str, dtype: str, allowed: tuple[str, ...]) -> None:
    if dtype not in allowed:
        listed = ", ".join(allowed)
        refuse(f"{name} cannot be {dtype}", "E202", f"op.cast({name}, ...) to one of: {listed}")


def _tuple_fields(name: str, found: Type) -> list[tuple[str, TensorType]]:
    if not isinstance(found, TupleType) or not found.fields:
        refuse(f"{name} must be a tuple of at least one tensor", "E201")
    fields = []
    for position, field in enumerate(found.fields):
        if not isinstance(field, TensorType):
            refuse(f"{name}[{position}] must be a tensor, got a tuple", "E202")
        fields.append((f"{name}[{position}]", field))
    return fields


def _widen(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_widen(v) for v in value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name in HALF else array


def _conform(value: Any, wanted: Type) -> Any:
    if isinstance(wanted, TupleType):
        return tuple(_conform(v, t) for v, t in zip(value, wanted.fields, strict=True))
    return np.array(value, dtype=dtype_record(wanted.dtype).numpy, order="C")
