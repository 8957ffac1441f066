"""Schedule primitives: as methods of an immutable `Schedule`, and as functions of a module.

A file that defines a primitive enters it in the table; methods and functions follow from that.
"""

from types import ModuleType
from typing import Any

from minimlc.loops.schedule import blocks, inline, kinds, loops, memory, reduction  # noqa: F401 (each enters itself in the table)
from minimlc.loops.schedule.nets import Net
from minimlc.loops.schedule.primitive import PRIMITIVES
from minimlc.loops.schedule.schedule import Schedule, method, on_module
from minimlc.loops.schedule.trace import Trace
from minimlc.loops.values.errors import did_you_mean
from minimlc.loops.values.parts import Hook

ROOMS = [*Hook[ModuleType]("primitives")]
"""Further primitives."""
FUNCTIONS = {name: on_module(name) for name in PRIMITIVES}
"""The primitives as functions of modules, by name."""

for _name in PRIMITIVES:
    setattr(Schedule, _name, method(_name))

__all__ = ["PRIMITIVES", "Net", "Schedule", "Trace"]
__all__ += [*FUNCTIONS, *(name for part in ROOMS for name in getattr(part, "__all__", ()))]


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    for part in ROOMS:
        if name in getattr(part, "__all__", ()):
            return getattr(part, name)
    raise AttributeError(f"mlc.schedule has no {name!r}: {did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
