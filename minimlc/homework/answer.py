"""A submission as data, which travels from where it runs to where it is judged."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minimlc.apart.message import Arrays, Failed, Malformed
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.schedule import Schedule
from minimlc.loops.values.module import IRModule

LONGEST_TEXT = 200_000
"""The most characters that a program's script may have."""


@dataclass(frozen=True)
class Answer:
    """A submission as data: programs as text, or a trace, or arrays; or why there is none."""

    body: dict[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    failed: str = ""
    printed: str = ""

    def part(self, name: str, kind: type) -> Any:
        """A part of the data; `Malformed` where it is missing or of another kind."""
        value = self.body.get(name)
        if not isinstance(value, kind):
            raise Malformed(f"the answer has no {name}")
        return value

    def array(self, name: str) -> np.ndarray:
        """One of its arrays; `Malformed` where it is missing."""
        if name not in self.arrays:
            raise Malformed(f"the answer has no array {name}")
        return self.arrays[name]


def program_text(value: Any) -> str:
    """A module or a function of the IR as text; `Failed` for anything else."""
    if isinstance(value, Schedule):
        value = value.mod
    if isinstance(value, PrimFunc):
        value = IRModule.of({"main": value})
    if not isinstance(value, IRModule):
        raise Failed(f"a module is wanted, not {_kind(value)}: return the class after @I.ir_module")
    return limited(value.script(constants="inline"))


def scheduled(value: Any) -> dict[str, Any]:
    """A schedule's trace, and the program that it claims to be; `Failed` for anything else."""
    if type(value) is not Schedule:
        raise Failed(f"a schedule is wanted, not {_kind(value)}: return what the last step gives")
    return {"trace": value.trace.to_json(), "text": program_text(value)}


def only_function(mod: IRModule) -> PrimFunc:
    """A module's only function, a primitive one; `Failed` for any other module."""
    functions = list(mod.functions.values())
    if len(functions) != 1 or not isinstance(functions[0], PrimFunc):
        raise Failed("the module must hold one @T.prim_func and nothing else")
    return functions[0]


def limited(text: str) -> str:
    """A program's text, if it is not too long."""
    if type(text) is not str:
        raise Failed(f"a program's text is wanted, not {type(text).__name__}")
    if len(text) > LONGEST_TEXT:
        raise Failed(f"the program has {len(text):,} characters; {LONGEST_TEXT:,} are allowed")
    return text


def _kind(value: Any) -> str:
    return "None (is there a return?)" if value is None else type(value).__name__
