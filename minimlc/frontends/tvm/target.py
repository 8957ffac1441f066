"""`tvm.target`: what code is made for."""

from dataclasses import replace
from typing import Any

from minimlc.frontends.tvm.alias import Alias
from minimlc.loops.values import target as own
from minimlc.loops.values.errors import BuildError

FIELDS = {"mcpu": "cpu", "mattr": "features", "num-cores": "cores"}
"""The fields of a target, by TVM's names."""


class Target(metaclass=Alias):
    """`Target("llvm -num-cores 4")`: a target by its kind, with options."""

    kind = own.Target

    def __new__(cls, target: Any, host: Any = None) -> own.Target:  # type: ignore[misc]
        if isinstance(target, own.Target):
            return target
        name, *words = str(target).replace("=", " ").split() or [""]
        options = zip((word.lstrip("-") for word in words[::2]), words[1::2], strict=False)
        return replace(own.Target.of(name), **dict(map(_field, options)))


def _field(option: tuple[str, str]) -> tuple[str, Any]:
    """An option of TVM's as a field."""
    name, value = option
    if name not in FIELDS:
        known = ", ".join(f"-{known}" for known in FIELDS)
        raise BuildError(f'unknown option "{name}" of a target; known: {known}', code="E501")
    return FIELDS[name], int(value) if name == "num-cores" else value
