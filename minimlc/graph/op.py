"""The operators as functions: `op.add(x, y)` gives the graph call that `bb.emit` takes.

Each is made from its record in `minimlc.graph.ops`, signature and documentation included.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from minimlc.errors import did_you_mean
from minimlc.graph.nodes import Call, Expr, Tuple, TupleGetItem
from minimlc.graph.ops import ALIASES, OPS, call_op
from minimlc.graph.ops.checks import ALL, FLOATS, INTEGERS, NUMBERS
from minimlc.graph.ops.record import Op
from minimlc.sizes import size_of

_DTYPE_SETS = {
    ALL: "all",
    NUMBERS: "floats and integers",
    FLOATS: "floats",
    INTEGERS: "integers",
    ("bool",): "bool",
}


@cache
def _function(record: Op) -> Callable[..., Call]:
    def apply(*args: object, **attrs: object) -> Call:
        return record.call(args, attrs)

    apply.__name__ = apply.__qualname__ = record.name
    apply.__doc__ = documentation(record)
    signature = record.signature.replace(return_annotation=Call)
    apply.__signature__ = signature  # type: ignore[attr-defined]
    return apply


def documentation(record: Op) -> str:
    """An operator's docstring: its record's, and the dtypes that it takes."""
    dtypes = _DTYPE_SETS.get(record.dtypes, ", ".join(record.dtypes))
    lines = [record.doc, "", f"Dtypes: {dtypes}."]
    lines += [f"dtypes of {name}: {', '.join(of)}." for name, of in record.param_dtypes]
    lines.append("Raises OpError when shapes, dtypes or attributes do not fit.")
    return "\n".join(lines)


def first(x: Any, count: Any = None, *, size: Any) -> Call:
    """The first `size` elements of x along axis 0: a number, or the name of a size that the scalar
    `count` (int64) tells when the function runs. Any dtype. Raises OpError.
    """
    return call_op("first", x, count, size=size_of(size))


def nonzero(x: Any, *, size: str = "k") -> Call:
    """The indices of the elements of x that are not 0 or False, in order: int64 of shape
    (`size`, axes of x), a size that the data tell. `padded_nonzero` has them without that.
    """
    indices, count = _fields(call_op("padded_nonzero", x))
    return first(indices, count, size=size)


def unique(x: Any, *, size: str = "k") -> Expr:
    """The different values of x in order, NaN once and last, as many as the data tell: `size`; for
    each, the first place in the flat x and how often it is there; for each element, the number of
    its value. A tuple: values, indices, inverse, counts. `padded_unique` has them without that.
    """
    values, indices, inverse, counts, number = _fields(call_op("padded_unique", x))
    values, indices, counts = (first(v, number, size=size) for v in (values, indices, counts))
    return Tuple((values, indices, inverse, counts))


def _fields(call: Call) -> list[Any]:
    return [TupleGetItem(call, number) for number in range(len(call.type.fields))]  # type: ignore[union-attr]


OVER = {function.__name__: function for function in (first, nonzero, unique)}
"""Functions of operators that tell a size."""


class _Functions(Mapping[str, Callable[..., Any]]):
    """The operators' functions by name or alias: those of operators that are added later, too."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return OVER[name] if name in OVER else _function(OPS[ALIASES.get(name, name)])

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*OPS, *ALIASES, *OVER)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


FUNCTIONS = _Functions()
RANDOM = {
    name.removeprefix("random_"): FUNCTIONS[name] for name in OPS if name.startswith("random_")
}
"""What is called `op.random.uniform`, or `R.random.uniform`."""
__all__ = sorted(FUNCTIONS)


def __getattr__(name: str) -> Any:
    """The operator of a name; `AttributeError` with near misses for any other."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name == "nn":  # the operators of networks are not apart from the others
        return sys.modules[__name__]
    if name == "random":
        return SimpleNamespace(**RANDOM)
    raise AttributeError(f'there is no operator "{name}"; {did_you_mean(name, FUNCTIONS)}')


def __dir__() -> list[str]:
    """What completion offers: the operators."""
    return sorted([*FUNCTIONS, "nn", "random"])
