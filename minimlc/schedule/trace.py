"""The primitives by name, and the trace of what was done with them, as data."""

import inspect
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from minimlc.errors import ScheduleError
from minimlc.schedule import blocks, inline, loops, memory, reduction
from minimlc.tir.nodes import PrimFunc

Primitive = Callable[..., PrimFunc]

PRIMITIVES: dict[str, Primitive] = {
    rule.__name__: rule
    for rule in (
        loops.split,
        loops.fuse,
        loops.reorder,
        loops.parallel,
        loops.vectorize,
        loops.unroll,
        blocks.compute_at,
        blocks.reverse_compute_at,
        inline.compute_inline,
        inline.reverse_compute_inline,
        reduction.decompose_reduction,
        memory.cache_read,
        memory.cache_write,
        loops.annotate,
    )
}
"""Each primitive's rule: PrimFunc -> PrimFunc, by name."""


class Trace(tuple):
    """What was done, as data: (primitive, arguments) pairs. Prints as Python that replays it."""

    def to_json(self) -> str:
        """The trace as JSON text."""
        return json.dumps([[name, arguments] for name, arguments in self])

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """A trace from JSON text; nothing in it is evaluated."""
        try:
            steps = json.loads(text)
            return cls((str(name), frozen(dict(arguments))) for name, arguments in steps)
        except (ValueError, TypeError) as error:
            raise ScheduleError(f"no trace: {error}", hint="Trace.to_json() writes one") from None

    def __repr__(self) -> str:
        calls = "".join(f"\n       .{call_text(name, args)}" for name, args in self)
        return f"(sch{calls})" if self else "sch"


def frozen(value: Any) -> Any:
    """Lists as tuples and numpy's integers as Python's, all the way down; a dict keeps its kind."""
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, dict):
        return {name: frozen(part) for name, part in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """A call as one would write it: required arguments by position, options by name."""
    known = parameters(name)
    parts: list[str] = []
    for key, value in arguments.items():
        if known[key].kind is inspect.Parameter.VAR_POSITIONAL:
            parts += map(_literal, value)
        elif known[key].default is inspect.Parameter.empty:
            parts.append(_literal(value))
        else:
            parts.append(f"{key}={_literal(value)}")
    return f"{name}({', '.join(parts)})"


def _literal(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


@cache
def parameters(name: str) -> dict[str, inspect.Parameter]:
    """A primitive's own parameters: those after the function."""
    return dict(list(inspect.signature(PRIMITIVES[name]).parameters.items())[1:])
