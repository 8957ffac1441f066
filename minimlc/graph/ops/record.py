"""What an operator is: one record, and the checks that all operators share."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

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
from minimlc.graph.ops.checks import FLOATS, HALF, refuse
from minimlc.graph.ops.values import Values


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

    - `formula(*tensors, **attrs)` gives the result as `Values` of such, after refusing what does
      not fit. The type of the result is the shape and the dtype of that, its loops what stores it.
      With `rounds`, it takes more than one rounding step: 16-bit floats come widened to float32,
      and the result is rounded once.
    - `meaning(*arrays, **attrs)` gives the result in numpy. 16-bit floats always come widened to
      float32, and the result is rounded once: `evaluate` sees to both. A composite's meaning is its
      formula, read over arrays.
    """

    name: str
    params: tuple[str, ...]
    doc: str
    formula: Callable[..., Any]
    meaning: Callable[..., Any]
    dtypes: tuple[str, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    param_dtypes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    variadic: bool = False
    rounds: bool = False

    def __call__(self, *tensors: Any, **attrs: Any) -> Any:
        """The operator inside the formula of another: of `Values`, or of numpy arrays."""
        if any(isinstance(x, Values) for x in tensors):
            return self._values(tensors, attrs)
        return self.meaning(*tensors, **{**dict(self.attrs), **attrs})

    def lower(self, *tensors: Any, **attrs: Any) -> Any:
        """The result as tensor expressions (`minimlc.tir.te`), a list for a tuple."""
        result = self._values(tensors, attrs)
        if isinstance(result, tuple):
            return [part.stored(self.name) for part in result]
        return result.stored(self.name)

    def _values(self, tensors: Iterable[Any], attrs: Mapping[str, Any]) -> Any:
        """The result as `Values`: of tensor expressions, of types, or of `Values`."""
        inputs = Values.of(tuple(tensors))
        complete = {**dict(self.attrs), **attrs}
        dtypes = [x.dtype for x in inputs if isinstance(x, Values)]
        if not self.rounds or not set(dtypes) & set(HALF):
            return self.formula(*inputs, **complete)
        widened = [x.astype("float32") if isinstance(x, Values) else x for x in inputs]
        result = self.formula(*widened, **complete)
        if result.name:
            result = result.named(f"{self.name}_float32")
        return result.astype(dtypes[0])

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
            return _type_of(self._values(types, complete))
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


def _type_of(result: Any) -> Type:
    if isinstance(result, tuple):
        return TupleType(tuple(map(_type_of, result)))
    return TensorType(result.shape, result.dtype)


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


TABLE: dict[str, Op] = {}
"""Every operator by name; `primitive` and `composite` enter them."""


def primitive(
    name: str,
    dtypes: tuple[str, ...],
    meaning: Callable[..., Any],
    doc: str = "",
    **more: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """Makes an operator of its formula over `Values`, with numpy's `meaning` beside it.

    The formula's parameters are the tensors, those after `*` the attributes; its docstring is the
    operator's, unless `doc` is given. `more` are fields of `Op`.
    """

    def enter(formula: Callable[..., Any]) -> Op:
        signature = inspect.signature(formula).parameters.values()
        params = tuple(p.name for p in signature if p.kind == p.POSITIONAL_OR_KEYWORD)
        attrs = tuple(
            (p.name, REQUIRED if p.default is p.empty else p.default)
            for p in signature
            if p.kind == p.KEYWORD_ONLY
        )
        text = doc or inspect.cleandoc(formula.__doc__ or "")
        TABLE[name] = Op(name, params, text, formula, meaning, dtypes, attrs, **more)
        return TABLE[name]

    return enter


def composite(
    name: str,
    formula: Callable[..., Any],
    doc: str = "",
    dtypes: tuple[str, ...] = FLOATS,
    rounds: bool = True,
) -> Op:
    """An operator said by others: `composite("silu", lambda x: x * sigmoid(x))`.

    The formula is read over numpy arrays, over tensor expressions and over types; it uses Python's
    operators, numbers, and other records. `rounds=False` if it rounds once at the most.
    """
    return primitive(name, dtypes, formula, doc, rounds=rounds)(formula)
