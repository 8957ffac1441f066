"""One primitive function from a module, a schedule, a library or itself."""

import textwrap
from typing import Any

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.errors import CompileError, did_you_mean
from minimlc.loops.values.module import IRModule
from minimlc.script import parse


def function_of(value: Any, name: str | None = None) -> tuple[str, PrimFunc]:
    """The primitive function called `name`, or the only one: (name, function).

    Takes the function itself, a module, or anything that has one as `mod`: a schedule, a library.
    `CompileError` where there is none, or a choice.
    """
    if isinstance(value, PrimFunc):
        return str(dict(value.attrs).get("global_symbol", "main")), value
    module = value if isinstance(value, IRModule) else getattr(value, "mod", None)
    if not isinstance(module, IRModule):
        raise CompileError(
            f"expected a module, a function, a schedule or a library, got {type(value).__name__}",
            code="E132",
        )
    known = {n: func for n, func in module.entries if isinstance(func, PrimFunc)}
    if name is None and len(known) == 1:
        return next(iter(known.items()))
    if name not in known:
        what = "which function to show?" if name is None else f'no function is called "{name}"'
        hint = did_you_mean(str(name or ""), known)
        why = what if known else "there is no primitive function to show"
        raise CompileError(why, code="E105", hint=hint)
    return name, known[name]


def read_back(name: str, func: PrimFunc) -> tuple[str, PrimFunc]:
    """The script of a function by itself, and the function as read from it: its nodes know their
    lines there."""
    lines = IRModule.of({name: func}).script().split("\n")
    script = textwrap.dedent("\n".join(lines[2:]))  # without the module's class around it
    read = parse(script)[name]
    assert isinstance(read, PrimFunc)
    return script, read


def start_of(value: Any) -> IRModule | None:
    """The module that a schedule started from; None for anything else."""
    history = getattr(value, "history", None)
    return history[0].mod if history is not None and len(history) else None
