"""A function's source text and all that it uses, so that a worker can define it anew."""

import dis
import inspect
import json
import textwrap
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from minimlc.apart.message import Failed
from minimlc.loops.text.constructs import Namespace
from minimlc.loops.values.module import IRModule

READY = ("mlc", "np", "te", "I", "R", "T")
"""Names that a worker has already."""

_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")


def source_text(function: Callable[..., Any], programs: bool = True) -> tuple[str, str]:
    """The text that defines `function`, and its name there.

    Includes the imports, functions, classes, programs and plain constants of the notebook that it
    uses. `Failed` names what cannot be sent. Without `programs`, the notebook's programs cannot be
    sent either, as it is unknown what they were built with.
    """
    if not isinstance(function, FunctionType):
        raise Failed(f"a function is wanted, not {type(function).__name__}")
    if function.__name__ == "<lambda>":
        raise Failed("a lambda cannot be sent: write it as def ...")
    if function.__closure__:
        names = ", ".join(function.__code__.co_freevars)
        raise Failed(f"it uses {names} of the function around it: give it as an argument")
    parts: dict[str, str] = {}
    _add_definition(function.__name__, function, parts, programs)
    return "\n".join(filter(None, parts.values())) + "\n", function.__name__


def _add(name: str, value: Any, parts: dict[str, str], programs: bool) -> None:
    """Define `name` in `parts`, after what it needs."""
    if name in parts or (name in READY and isinstance(value, ModuleType | Namespace)):
        return
    if not programs and _holds_program(value):
        raise Failed(f"it uses {name} of the notebook, a program: write it inside the function")
    match value:
        case ModuleType():
            parts[name] = f"import {value.__name__} as {name}"
        case IRModule():
            text = json.dumps(value.script(constants="inline"))
            parts[name] = f"{name} = mlc.parse({text})"
        case _ if _is_plain(value):
            parts[name] = f"{name} = {value!r}"
        case FunctionType() | type() if value.__module__ == "__main__":
            _add_definition(name, value, parts, programs)
        case FunctionType() | BuiltinFunctionType() | type() if value.__module__:
            parts[name] = f"from {value.__module__} import {value.__name__} as {name}"
        case _:
            raise Failed(
                f"it uses {name} of the notebook, which is not a module, function or plain "
                f"constant (it is {type(value).__name__}): define it inside the function"
            )


def _holds_program(value: Any) -> bool:
    return isinstance(value, IRModule) or (_is_plain(value) and "prim_func" in repr(value))


def _add_definition(name: str, value: Any, parts: dict[str, str], programs: bool) -> None:
    try:
        text = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        raise Failed(f"Python kept no source text of {name}") from None
    parts[name] = ""  # it may use itself
    for used, item in _globals(value).items():
        _add(used, item, parts, programs)
    del parts[name]  # to stand after what it needs
    parts[name] = text if value.__name__ == name else f"{text}\n{name} = {value.__name__}"


def _globals(value: Any) -> dict[str, Any]:
    """The notebook's names that a function or a class's methods use."""
    functions = vars(value).values() if isinstance(value, type) else [value]
    return {
        used: function.__globals__[used]
        for function in functions
        if isinstance(function, FunctionType)
        for used in sorted(_names(function.__code__))
        if used in function.__globals__
    }


def _names(code: CodeType) -> set[str]:
    used = {step.argval for step in dis.get_instructions(code) if step.opname in _LOADS}
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return used.union(*map(_names, inner))


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    if isinstance(value, tuple | list | set):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
