"""The operators as functions: `op.add(x, y)` gives the graph call that `bb.emit` takes.

Each is made from its record in `minimlc.graphs.ops`, signature and documentation included.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from minimlc.graphs.ir.nodes import Call
from minimlc.graphs.ops import ALIASES, OPS
from minimlc.graphs.ops.checks import ALL, FLOATS, INTEGERS, NUMBERS
from minimlc.graphs.ops.record import Op
from minimlc.loops.values.errors import did_you_mean
from minimlc.loops.values.parts import Hook

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
    apply.__signature__ = record.signature.replace(return_annotation=Call)  # type: ignore[attr-defined]
    return apply


def documentation(record: Op) -> str:
    """An operator's docstring: its record's, and the dtypes that it takes."""
    dtypes = _DTYPE_SETS.get(record.dtypes, ", ".join(record.dtypes))
    lines = [record.doc, "", f"Dtypes: {dtypes}."]
    lines += [f"dtypes of {name}: {', '.join(of)}." for name, of in record.param_dtypes]
    lines.append("Raises OpError when shapes, dtypes or attributes do not fit.")
    return "\n".join(lines)


OVER: Mapping[str, Callable[..., Any]] = {
    function.__name__: function for function in Hook[Callable[..., Any]]("functions of operators")
}
"""Functions that call operators, and do more than that."""


class _Functions(Mapping[str, Callable[..., Any]]):
    """The operators' functions by name or alias, operators that are added later included."""

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
"""The functions of `op.random` and of `R.random`, such as `op.random.uniform`."""
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
    """The names for completion: the operators."""
    return sorted([*FUNCTIONS, "nn", "random"])
