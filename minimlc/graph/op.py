"""The operators as functions: `op.add(x, y)` gives the graph call that `bb.emit` takes.

Each is made from its record in `minimlc.graph.ops`, signature and documentation included.
"""

import inspect
from collections.abc import Callable

from minimlc.errors import did_you_mean
from minimlc.graph.nodes import Call
from minimlc.graph.ops import ALIASES, OPS
from minimlc.graph.ops.checks import ALL, FLOATS, INTEGERS, NUMBERS
from minimlc.graph.ops.record import REQUIRED, Op

_DTYPE_SETS = {
    ALL: "all",
    NUMBERS: "floats and integers",
    FLOATS: "floats",
    INTEGERS: "integers",
    ("bool",): "bool",
}


def _function(record: Op) -> Callable[..., Call]:
    def apply(*args: object, **attrs: object) -> Call:
        return record.call(args, attrs)

    apply.__name__ = apply.__qualname__ = record.name
    apply.__doc__ = _documentation(record)
    apply.__signature__ = _signature(record)  # type: ignore[attr-defined]
    return apply


def _signature(record: Op) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    params = [inspect.Parameter(name, kind) for name in record.params]
    for name, default in record.attrs:
        shown = inspect.Parameter.empty if default is REQUIRED else default
        params.append(inspect.Parameter(name, kind, default=shown))
    required = [p for p in params if p.default is inspect.Parameter.empty]
    optional = [p for p in params if p.default is not inspect.Parameter.empty]
    return inspect.Signature(required + optional, return_annotation=Call)


def _documentation(record: Op) -> str:
    lines = [record.doc, "", f"Dtypes: {_DTYPE_SETS[record.dtypes]}."]
    lines += [f"dtypes of {name}: {', '.join(of)}." for name, of in record.param_dtypes]
    lines.append("Raises OpError when shapes, dtypes or attributes do not fit.")
    return "\n".join(lines)


_functions = {name: _function(record) for name, record in OPS.items()}
_functions.update({alias: _functions[name] for alias, name in ALIASES.items()})
globals().update(_functions)

__all__ = sorted(_functions)


def __getattr__(name: str) -> Callable[..., Call]:
    """Reached for a name that is no operator."""
    raise AttributeError(f'there is no operator "{name}"; {did_you_mean(name, _functions)}')


def __dir__() -> list[str]:
    """What completion offers: the operators."""
    return list(__all__)
