"""The record of an operator, and the checks that all operators share."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, NamedTuple

import numpy as np

from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.ir.dimensions import generic, size_of
from minimlc.graphs.ops.checks import FLOATS, HALF, NO_DTYPE, fits, refuse
from minimlc.graphs.ops.values import Values
from minimlc.loops.ir.nodes import Expr as LoopExpr
from minimlc.loops.values.constants import too_big
from minimlc.loops.values.dtypes import dtype_name, dtype_record, to_numpy
from minimlc.loops.values.errors import CompileError, OpError, SizeError, did_you_mean, shown
from minimlc.loops.values.literals import Symbol


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

    The last `optional` tensors may be left out.

    - `formula(*tensors, **attrs)` gives the result as `Values`, from `Values`, after refusing what
      does not fit. Their shape and dtype are its type, the loops that store them its loops.
      With `rounds`, it takes more than one rounding step: 16-bit floats come widened to float32,
      and the result is rounded once.
    - `meaning(*arrays, **attrs)` gives the result in numpy. 16-bit floats always come widened to
      float32, and the result is rounded once: `evaluate` sees to both. A composite's meaning is its
      formula, evaluated on arrays.
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
    optional: int = 0

    def __call__(self, *tensors: Any, **attrs: Any) -> Any:
        """The operator inside the formula of another: on `Values`, on graph expressions, or on
        numpy arrays.
        """
        if _flat(tensors):
            return self._values(tensors, attrs)
        if any(isinstance(x, ir.Expr) for t in tensors for x in (t if self.variadic else (t,))):
            return self.call(tensors, attrs)
        return self.meaning(*tensors, **{**dict(self.attrs), **attrs})

    def lower(self, *tensors: Any, **attrs: Any) -> Any:
        """The result as tensor expressions (`minimlc.loops.te.te`), a list for a tuple."""
        result = self._values(tensors, attrs)
        if isinstance(result, tuple):
            return [part.stored(self.name) for part in result]
        return result.stored(self.name)

    def _values(self, tensors: Iterable[Any], attrs: Mapping[str, Any]) -> Any:
        """The result as `Values`: of tensor expressions, of types, or of `Values`."""
        inputs = Values.of(tuple(tensors))
        complete = {**dict(self.attrs), **attrs}
        half = next((x.dtype for x in _flat(inputs) if x.dtype in HALF), "")
        if not self.rounds or not half:
            return self.formula(*inputs, **complete)
        result = self.formula(*_mapped(_widened, inputs), **complete)
        return _mapped(lambda part: self._rounded(part, half), result)

    def _rounded(self, result: Values, half: str) -> Values:
        """A result computed in float32, rounded to `half`; results of other dtypes stay."""
        if result.dtype != "float32":
            return result
        return (result.named(f"{self.name}_float32") if result.name else result).astype(half)

    def call(self, args: tuple[object, ...], keywords: Mapping[str, object]) -> ir.Call:
        """A call of this operator, its arguments converted and its type inferred."""
        with self.refusing():
            values = self.bind(args, keywords)
            given = [values.pop(name) for name in self.params]
            while given and given[-1] is None and len(given) > self.required:
                given.pop()
            tensors = self._tensors(given)
        attrs = {name: _plain(values[name]) for name, _ in self.attrs}
        out = self.infer_type(tuple(t.type for t in tensors), attrs)
        return ir.Call(self.name, tensors, tuple(attrs.items()), out)

    def infer_type(self, types: tuple[ir.Type, ...], attrs: Mapping[str, object]) -> ir.Type:
        """The result's type; `OpError` naming the operator and its arguments' types."""
        lines = [f"{name}: {t}" for name, t in zip(self.params, types, strict=False)]
        changed = [(key, v) for key, v in attrs.items() if v != dict(self.attrs).get(key, REQUIRED)]
        lines += [f"{name}={shown(value)}" for name, value in changed]
        with self.refusing(lines):
            if not self.required <= len(types) <= len(self.params):
                refuse(f"takes {len(self.params)} tensor(s), got {len(types)}", "E201")
            complete = self._complete(attrs)
            self._check_dtypes(types)
            values = (
                *[t.shape for kind in types for t in ir.tensor_types(kind)],
                *complete.values(),
            )
            return generic(lambda: _type_of(self._values(types, complete)), values)

    @contextmanager
    def refusing(self, lines: Iterable[str] = ()) -> Iterator[None]:
        """A context whose errors name the operator, and show `lines`."""
        try:
            yield
        except (OpError, SizeError) as error:
            why, excerpt = f"{self.name}: {error.why}", "\n".join(line[:95] for line in lines)
            raise OpError(why, code=error.code, excerpt=excerpt, hint=error.hint) from None

    def evaluate(self, call: ir.Call, arrays: Iterable[Any]) -> Any:
        """The value of `call` for the values of its arguments (a tuple's value is a tuple)."""
        attrs = self._complete(dict(call.attrs))
        with np.errstate(all="ignore"):
            result = self.meaning(*[_widen(a) for a in arrays], **attrs)
        return _conform(result, call.type)

    @property
    def required(self) -> int:
        """How many tensors there must be."""
        return len(self.params) - self.optional

    @property
    def _defaults(self) -> dict[str, object]:
        """The tensors' defaults: None for one that may be left out."""
        filled = [REQUIRED] * self.required + [None] * self.optional
        return dict(zip(self.params, filled, strict=True))

    @property
    def signature(self) -> Signature:
        """The parameters of a call: `(x, axis=None, keepdims=False)`; required ones first."""
        defaults = {**self._defaults, **dict(self.attrs)}
        kind, none = Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty
        params = [
            Parameter(name, kind, default=none if default is REQUIRED else default)
            for name, default in defaults.items()
        ]
        return Signature(sorted(params, key=lambda p: p.default is not none))

    def bind(self, args: tuple[object, ...], keywords: Mapping[str, object]) -> dict[str, object]:
        """The arguments of a call by name, in order, defaults among them."""
        names = [*self.params, *dict(self.attrs)]
        form = f"{self.name}{self.signature}"
        if len(args) > len(names):
            refuse(f"takes {len(names)} argument(s), got {len(args)}", "E201", form)
        values = dict(zip(names, args, strict=False))
        for key in keywords:
            if key not in names:
                refuse(f'has no argument "{key}"', "E201", f"{did_you_mean(key, names)}\n{form}")
            if key in values:
                refuse(f'"{key}" is given twice', "E201", form)
        values = {**self._defaults, **dict(self.attrs), **values, **keywords}
        missing = [f'"{name}"' for name in names if values.get(name, REQUIRED) is REQUIRED]
        if missing:
            refuse(f"misses {', '.join(missing)}", "E201", form)
        return values

    def _tensors(self, values: list[object]) -> tuple[ir.Expr, ...]:
        if self.variadic and isinstance(values[0], list | tuple):
            return (ir.Tuple(self._elements(list(values[0]))),)
        return self._elements(values)

    def _elements(self, values: list[object]) -> tuple[ir.Expr, ...]:
        """Values as expressions; a Python number takes the dtype of the tensors beside it."""
        names: Iterable[str] = self.params[: len(values)]
        if self.variadic and len(self.params) != len(values):
            names = [f"{self.params[0]}[{position}]" for position in range(len(values))]
        pairs = list(zip(names, values, strict=True))
        special = dict(self.param_dtypes)
        typed: list[Any] = [v for name, v in pairs if name not in special and hasattr(v, "dtype")]
        beside = next(
            (v.dtype if isinstance(v, ir.Expr) else dtype_name(v.dtype) for v in typed), ""
        )
        kinds = {name: "int64" if "int64" in of else of[0] for name, of in special.items()}
        return tuple(
            [
                _expr(name, v, kinds.get(name, beside) if isinstance(v, Symbol) else beside)
                for name, v in pairs
            ]
        )

    def _complete(self, attrs: Mapping[str, object]) -> dict[str, Any]:
        """All attributes, defaults filled in, each of its default's kind."""
        known = dict(self.attrs)
        for key, value in attrs.items():
            if key not in known:
                refuse(f'has no attribute "{key}"', "E204", did_you_mean(key, known))
            if too_big(value):
                refuse(f"{key} has {too_big(value)}", "E204")
        complete = {**known, **attrs}
        for key, value in complete.items():
            if value is REQUIRED:
                refuse(f'misses the attribute "{key}"', "E204")
            if isinstance(known[key], bool) and not isinstance(value, bool):
                refuse(f"{key} is True or False, got {value!r}", "E204")
            if isinstance(known[key], float) and not isinstance(value, int | float | Symbol):
                refuse(f"{key} is a number, got {value!r}", "E204")
            may_be_missing = known[key] == "" and value in NO_DTYPE
            if key.endswith("dtype") and not may_be_missing:
                _check_dtype_name(value)
        return complete

    def _check_dtypes(self, types: tuple[ir.Type, ...]) -> None:
        special = dict(self.param_dtypes)
        group: list[tuple[str, str]] = []
        for name, t in zip(self.params, types, strict=False):
            if self.variadic:
                group += _field_dtypes(name, t)
            elif not isinstance(t, ir.TensorType):
                refuse(f"{name} must be a tensor, got a tuple", "E202", "take one field: t[0]")
            elif name in special:
                _check_one_of(name, t.dtype, special[name])
            else:
                group.append((name, t.dtype))
        for name, dtype in group:
            _check_one_of(name, dtype, self.dtypes)
            first, common = group[0]
            if dtype != common:
                why = f"{first} is {common}, {name} is {dtype}"
                refuse(why, "E202", f'op.cast({name}, "{common}")')


def _flat(values: Any) -> list[Values]:
    """The `Values` among operands, in tuples too."""
    if isinstance(values, tuple):
        return [x for value in values for x in _flat(value)]
    return [values] if isinstance(values, Values) else []


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """A value, or each field of a tuple, with `change` applied."""
    return tuple([_mapped(change, v) for v in value]) if isinstance(value, tuple) else change(value)


def _widened(x: Any) -> Any:
    return x.astype("float32") if isinstance(x, Values) and x.dtype in HALF else x


def _type_of(result: Any) -> ir.Type:
    if isinstance(result, tuple):
        return ir.TupleType(tuple(map(_type_of, result)))
    return ir.TensorType(result.shape, result.dtype)


def _expr(name: str, value: object, beside: str) -> ir.Expr:
    if isinstance(value, ir.Expr):
        return value
    if value is None:
        refuse(f"{name} is left out, and what comes after it is not", "E201", f"{name}: zeros, say")
    if isinstance(value, np.ndarray | np.generic):
        return ir.constant(value)
    if isinstance(value, Symbol) and beside:
        return TABLE["full"].call((), {"shape": (), "value": value, "dtype": beside})
    if not isinstance(value, bool | int | float) or not beside:
        got = f"{type(value).__name__} {value!r}"
        hint = "give a graph variable, a numpy array, or mlc.constant(value, dtype)"
        if isinstance(value, Symbol):
            hint = f"op.full(shape=(), value={value})  # the size as a tensor"
        refuse(f"{name} must be a tensor, got {got[:60]}", "E201", hint)
    if not fits(value, beside) or (beside == "bool" and not isinstance(value, bool)):
        dtype = dtype_name(np.asarray(value).dtype)
        hint = f'op.cast(..., "{dtype}") for the tensor beside it'
        refuse(f"{name}={value!r} is not a value of {beside}", "E202", hint)
    return ir.constant(value, beside)


def _plain(value: object) -> object:
    """An attribute as plain data: tuples, numbers, strings."""
    if isinstance(value, list | tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, LoopExpr):  # of sizes, which types have as symbols
        return size_of(value)
    if isinstance(value, ir.Constant) and not value.shape:
        return value.data.item()
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


def _field_dtypes(name: str, t: ir.Type) -> list[tuple[str, str]]:
    if not isinstance(t, ir.TupleType) or not t.fields:
        refuse(f"{name} must be a tuple of at least one tensor", "E201")
    dtypes = []
    for position, field in enumerate(t.fields):
        if not isinstance(field, ir.TensorType):
            refuse(f"{name}[{position}] must be a tensor, got a tuple", "E202")
        dtypes.append((f"{name}[{position}]", field.dtype))
    return dtypes


def _widen(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_widen(v) for v in value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name in HALF else array


def _conform(value: Any, t: ir.Type) -> Any:
    if isinstance(t, ir.TupleType):
        return tuple([_conform(part, field) for part, field in zip(value, t.fields, strict=True)])
    return np.array(value, dtype=to_numpy(t.dtype), order="C")


TABLE: dict[str, Op] = {}
"""Every operator by name; `primitive` and `composite` enter them."""


Enter = Callable[[Callable[..., Any]], Op]


def primitive(
    name: str,
    dtypes: tuple[str, ...],
    meaning: Callable[..., Any],
    doc: str = "",
    table: dict[str, Op] = TABLE,
    **more: Any,
) -> Enter:
    """Makes an operator of its formula over `Values`, with numpy's `meaning` beside it.

    The formula's parameters are the tensors, those after `*` the attributes; its docstring is the
    operator's, unless `doc` is given. `more` are fields of `Op`.
    """

    def enter(formula: Callable[..., Any]) -> Op:
        known = signature(formula).parameters
        parameters = known.values()
        params = tuple(p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD)
        options = [p for p in parameters if p.kind == p.KEYWORD_ONLY]
        attrs = tuple((p.name, REQUIRED if p.default is p.empty else p.default) for p in options)
        optional = sum(known[name].default is None for name in params)
        text = doc or cleandoc(formula.__doc__ or "")
        fields = {"attrs": attrs, "optional": optional, **more}
        table[name] = Op(name, params, text, formula, meaning, dtypes, **fields)
        return table[name]

    return enter


def composite(
    name: str,
    formula: Callable[..., Any],
    doc: str = "",
    dtypes: tuple[str, ...] = FLOATS,
    rounds: bool = True,
    table: dict[str, Op] = TABLE,
    **more: Any,
) -> Op:
    """An operator defined by others: `composite("silu", lambda x: x * sigmoid(x))`.

    The formula is evaluated on numpy arrays, on tensor expressions and on types; it uses Python's
    operators, numbers, and other records. One that uses nothing else works on graph expressions,
    too (`unroll_recurrent`). `rounds=False` if it rounds once at the most.
    `more` are fields of `Op`.
    """
    return primitive(name, dtypes, formula, doc, table, rounds=rounds, **more)(formula)
