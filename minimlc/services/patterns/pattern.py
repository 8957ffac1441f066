"""Patterns of the values of graph functions.

    p = mlc.pattern
    x, w, b = p.wildcard("x"), p.wildcard("w"), p.const("b", ndim=1)
    linear = (p.matmul(x, w) + b).optional(p.relu)
    for match in linear.match(mod):
        print(match.var.name, match[x], match[b].shape)

Every operator is a function of patterns under its own name, and Python's operators are as for
graph values. A number fits a tensor that holds nothing else, the sign of a zero included. What a
pattern leaves out (attributes, for example) may be anything; a part that stands there twice must
be the same value twice. Arguments of operators that commute fit in both orders.
`rewrite` and `partition` use patterns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from minimlc.graphs.ir.nodes import (
    Call,
    Constant,
    Expr,
    Function,
    TensorType,
    Tuple,
    TupleGetItem,
    Var,
)
from minimlc.graphs.mutator import is_primitive
from minimlc.graphs.op import FUNCTIONS
from minimlc.graphs.ops import call_op, find_op
from minimlc.graphs.ops.checks import refuse
from minimlc.loops.values.dtypes import dtype_record
from minimlc.loops.values.errors import did_you_mean
from minimlc.loops.values.module import IRModule, not_a_module
from minimlc.services.patterns.match import (
    Match,
    Parts,
    Surroundings,
    elements,
    is_filled,
    live_uses,
    same,
)

COMMUTATIVE = {
    *("add", "multiply", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
}
"""Operators that give the same bits in both orders; `maximum` may choose another zero."""

Method = Callable[["Pattern", Any], "Pattern"]


def _written(name: str) -> tuple[Method, Method]:
    """The methods of Python's operator for `name`, as it is and with the operands exchanged."""
    return lambda a, b: operator(name, a, b), lambda a, b: operator(name, b, a)


@dataclass(frozen=True, eq=False, repr=False)
class Pattern:
    """The form of a value. Patterns never change; each is equal to itself alone."""

    def ways(self, item: Expr, around: Surroundings, parts: Parts) -> Iterator[Parts]:
        """Every way in which a value fits, beside the values that parts have already."""
        if self not in parts:
            for more in self.inside(item, around, parts):
                yield {**more, self: item}
        elif same(parts[self], item):
            yield parts

    def inside(self, item: Expr, around: Surroundings, parts: Parts) -> Iterator[Parts]:
        """The ways in which the parts of this pattern fit."""
        raise NotImplementedError

    def heads(self) -> frozenset[str] | None:
        """The operators whose calls may fit; None if other values may fit, too."""
        return None

    def build(self, match: Match) -> Any:
        """The value of this pattern as a replacement, with the parts of `match` in their places; a
        number for a number.
        """
        if self not in match:
            why = f"the replacement has the part {self}, which the pattern has not"
            refuse(why, "E233", f"the pattern: {match.pattern}")
        return match[self]

    def match(self, mod: IRModule) -> list[Match]:
        """Where the pattern fits the values bound in graph functions, in order; groups of fused
        operators are left out.
        """
        if not isinstance(mod, IRModule):
            raise not_a_module(mod, "match", "a module")
        return [
            match
            for name, func in mod.entries
            if isinstance(func, Function) and not is_primitive(func)
            for match in self.match_function(name, func)
        ]

    def match_function(self, name: str, func: Function) -> Iterator[Match]:
        """Where the pattern fits in one function."""
        bound: dict[Expr, Expr] = {binding.var: binding.value for binding in func.bindings()}
        around = Surroundings(bound.get, live_uses(func))
        for var in list(bound):
            for parts in self.ways(var, around, {}):
                yield Match(self, parts, around, name)
                break

    def has(
        self,
        *,
        shape: Sequence[int | None] | None = None,
        ndim: int | None = None,
        dtype: str | Iterable[str] | None = None,
        used_once: bool = False,
        where: Callable[[Any], bool] | None = None,
    ) -> "Pattern":
        """The same for tensors of that shape (None for any size), number of axes and dtype (or
        one of several), whose value one call alone uses, and for which `where(value)` holds:
        of the call or the constant itself, or of a parameter's variable.
        """
        names = (dtype,) if isinstance(dtype, str) else dtype
        dtypes = None if names is None else tuple(dtype_record(name).name for name in names)
        sizes = None if shape is None else tuple(shape)
        return Limited(self, sizes, ndim, dtypes, used_once, where)

    def optional(self, more: Callable[["Pattern"], "Pattern"]) -> "Pattern":
        """This with `more` around it, where that is there, or else this alone:
        `(p.matmul(x, w) + b).optional(p.relu)`.
        """
        return more(self) | self

    def __or__(self, other: "Pattern") -> "Pattern":
        """A pattern that fits what one of both fits; the first is tried first."""
        return Either(self, as_pattern(other))

    def __getitem__(self, index: int) -> "Pattern":
        """A field of a tuple that looks like this."""
        if isinstance(index, int):
            return Field(self, index)
        raise TypeError(f"a field of a tuple has a number, got {index!r}")

    __iter__ = None  # else Python would ask for one field after the other
    __add__, __radd__ = _written("add")
    __sub__, __rsub__ = _written("subtract")
    __mul__, __rmul__ = _written("multiply")
    __truediv__, __rtruediv__ = _written("divide")
    __matmul__, __rmatmul__ = _written("matmul")
    __pow__, __rpow__ = _written("power")
    __lt__ = _written("less")[0]
    __le__ = _written("less_equal")[0]
    __gt__ = _written("greater")[0]
    __ge__ = _written("greater_equal")[0]

    def __neg__(self) -> "Pattern":
        return operator("negative", self)

    def __abs__(self) -> "Pattern":
        return operator("abs", self)


@dataclass(frozen=True, eq=False, repr=False)
class Wildcard(Pattern):
    """Any value, or any constant."""

    name: str
    known: bool = False

    def inside(self, item: Expr, around: Surroundings, parts: Parts) -> Iterator[Parts]:
        if not self.known or isinstance(around.value(item), Constant):
            yield parts

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class Number(Pattern):
    """A tensor of this number everywhere, rounded to its dtype."""

    number: int | float | bool

    def inside(self, item: Expr, around: Surroundings, parts: Parts) -> Iterator[Parts]:
        data = elements(around.value(item))
        if data is not None and is_filled(data, self.number):
            yield parts

    def build(self, match: Match) -> Any:
        return self.number

    def __repr__(self) -> str:
        return repr(self.number)


@dataclass(frozen=True, eq=False, repr=False)
class Operator(Pattern):
    """A call of one operator. An attribute is a value, or a function that tests it."""

    op: str
    args: tuple[Pattern, ...]
    attrs: tuple[tuple[str, Any], ...]

    def inside(self, item: Expr, around: Surroundings, parts: Parts) -> Iterator[Parts]:
        call = around.value(item)
        if not isinstance(call, Call) or call.op != self.op or len(call.args) != len(self.args):
            return
        attrs = dict(call.attrs)
        for name, wanted in self.attrs:
            if not (wanted(attrs[name]) if callable(wanted) else wanted == attrs[name]):
                return
        yield from _all(self.args, call.args, around, parts)
        if self.op in COMMUTATIVE:
            yield from _all(self.args, call.args[::-1], around, parts)

    def heads(self) -> frozenset[str]:
        return frozenset([self.op])

    def build(self, match: Match) -> Any:
        if self in match:
            return match[self]
        for name, value in self.attrs:
            if callable(value):
                refuse(f"the replacement {self} does not say what {name} is", "E233")
        return call_op(self.op, *[arg.build(match) for arg in self.args], **dict(self.attrs))

    def __repr__(self) -> str:
        return f"{self.op}({', '.join([*map(repr, self.args), *map(_keyword, self.attrs)])})"


def _keyword(attr: tuple[str, Any]) -> str:
    name, value = attr
    return f"{name}={getattr(value, '__name__', '...') if callable(value) else repr(value)}"


def _all(
    patterns: Sequence[Pattern], items: Sequence[Expr], around: Surroundings, parts: Parts
) -> Iterator[Parts]:
    """The ways in which all patterns fit, one value per pattern."""
    if not patterns:
        yield parts
        return
    for first in patterns[0].ways(items[0], around, parts):
        yield from _all(patterns[1:], items[1:], around, first)


@dataclass(frozen=True, eq=False, repr=False)
class Fields(Pattern):
    """A tuple, field by field."""

    fields: tuple[Pattern, ...]

    def inside(self, item: Expr, around: Surroundings, parts: Parts) -> Iterator[Parts]:
        value = around.value(item)
        if isinstance(value, Tuple) and len(value.fields) == len(self.fields):
            yield from _all(self.fields, value.fields, around, parts)

    def build(self, match: Match) -> Any:
        return tuple(field.build(match) for field in self.fields)

    def __repr__(self) -> str:
        return repr(self.fields)


@dataclass(frozen=True, eq=False, repr=False)
class Field(Pattern):
    """One field of a tuple."""

    tuple: Pattern
    index: int

    def inside(self, item: Expr, around: Surroundings, parts: Parts) -> Iterator[Parts]:
        value = around.value(item)
        if isinstance(value, TupleGetItem) and value.index == self.index:
            yield from self.tuple.ways(value.tuple, around, parts)

    def build(self, match: Match) -> Any:
        return self.tuple.build(match)[self.index]

    def __repr__(self) -> str:
        return f"{self.tuple}[{self.index}]"


@dataclass(frozen=True, eq=False, repr=False)
class Either(Pattern):
    """One of two patterns."""

    first: Pattern
    second: Pattern

    def inside(self, item: Expr, around: Surroundings, parts: Parts) -> Iterator[Parts]:
        yield from self.first.ways(item, around, parts)
        yield from self.second.ways(item, around, parts)

    def heads(self) -> frozenset[str] | None:
        first, second = self.first.heads(), self.second.heads()
        return None if first is None or second is None else first | second

    def __repr__(self) -> str:
        return f"({self.first} | {self.second})"


@dataclass(frozen=True, eq=False, repr=False)
class Limited(Pattern):
    """A pattern limited to a shape, a number of axes, dtypes, a single use, or by a function."""

    pattern: Pattern
    shape: tuple[int | None, ...] | None
    ndim: int | None
    dtypes: tuple[str, ...] | None
    used_once: bool
    where: Callable[[Any], bool] | None

    def inside(self, item: Expr, around: Surroundings, parts: Parts) -> Iterator[Parts]:
        once = not (self.used_once and isinstance(item, Var)) or around.uses.get(item) == 1
        if once and self._admits(item.type):
            for more in self.pattern.ways(item, around, parts):
                if self.where is None or self.where(around.value(item)):
                    yield more

    def _admits(self, kind: object) -> bool:
        if (self.shape, self.ndim, self.dtypes) == (None, None, None):
            return True
        if not isinstance(kind, TensorType):
            return False
        sizes = kind.shape if self.shape is None else self.shape
        alike = len(sizes) == kind.ndim and self.ndim in (None, kind.ndim)
        alike = alike and all(a in (None, b) for a, b in zip(sizes, kind.shape, strict=True))
        return alike and (self.dtypes is None or kind.dtype in self.dtypes)

    def heads(self) -> frozenset[str] | None:
        return self.pattern.heads()

    def __repr__(self) -> str:
        return repr(self.pattern)


def as_pattern(value: Any) -> Pattern:
    """A pattern as it is; for a number or a tuple, the pattern that fits it."""
    if isinstance(value, Pattern):
        return value
    if isinstance(value, tuple | list):
        return Fields(tuple(map(as_pattern, value)))
    if not isinstance(value, bool | int | float):
        why = f"a part of a pattern is a pattern, a number or a tuple of those, got {value!r:.60}"
        refuse(why, "E233", "p.wildcard() stands for any value, p.const() for any constant")
    return Number(value)


def wildcard(name: str = "_", **limits: Any) -> Pattern:
    """Any value, called `name` where the pattern is shown; `limits` are as for `has`."""
    return Wildcard(name).has(**limits) if limits else Wildcard(name)


def const(name: str = "const", **limits: Any) -> Pattern:
    """Any constant, called `name` where the pattern is shown; `limits` are as for `has`."""
    known = Wildcard(name, known=True)
    return known.has(**limits) if limits else known


def operator(name: str, *args: Any, **attrs: Any) -> Pattern:
    """A call of the operator `name`, arguments and attributes as `mlc.op` takes them; what is left
    out may be anything. `OpError` E201 for a name that it does not have.
    """
    record = find_op(name)
    known = [*record.params, *dict(record.attrs)]
    values = {**dict(zip(known, args, strict=False)), **attrs}
    with record.refusing():
        for wrong in (key for key in values if key not in known):
            refuse(f'has no argument "{wrong}"', "E201", did_you_mean(wrong, known))
        if len(args) > len(known):
            refuse(f"takes {len(known)} argument(s), got {len(args)}", "E201")
    tensors = [as_pattern(values.pop(key)) for key in record.params if key in values]
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return Operator(record.name, tuple(tensors), tuple(options.items()))


class Language:
    """The language of patterns: `wildcard`, `const`, and each operator under its name."""

    wildcard = staticmethod(wildcard)
    const = staticmethod(const)

    def __getattr__(self, name: str) -> Callable[..., Pattern]:
        if name not in FUNCTIONS:
            why = f'there is no operator "{name}"; {did_you_mean(name, FUNCTIONS)}'
            raise AttributeError(why)
        return partial(operator, name)

    def __dir__(self) -> list[str]:
        """The names for completion: the language's own words, and the operators."""
        return sorted(["const", "wildcard", *FUNCTIONS])


p = Language()
"""The language itself, which is `mlc.pattern`."""
