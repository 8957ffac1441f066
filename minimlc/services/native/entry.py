"""The entry point of a graph function: one native function that calls its kernels in order."""

from collections.abc import Sequence
from typing import NamedTuple

from minimlc.loops.llvm.value import plain_name
from minimlc.services.control.llvm import Control, Writer


class Pointer(NamedTuple):
    """A tensor that an entry passes on.

    `kind` is "input" or "output" (from byte `start` of the `number`-th pointer given), "constant"
    (the `number`-th pointer of the table) or "arena" (at byte `number` of the arena).
    """

    kind: str
    number: int
    start: int = 0


UNOPTIMIZED = "nounwind noinline optnone"
"""Attributes of a row of calls, which LLVM would optimize slowly and to no gain."""

KernelCall = tuple[str, tuple[Pointer, ...]]
ControlCall = tuple[Control, tuple[Pointer, ...], tuple[Pointer, ...], tuple[Pointer, ...]]
"""A condition or loop, its inputs, outputs and scratch memory."""


def entry_symbol(name: str) -> str:
    """The name of a graph function's entry point."""
    return f"mlc.graph.{plain_name(name)}"


def emit_entry(
    symbol: str,
    inputs: int,
    outputs: int,
    calls: Sequence[KernelCall | ControlCall],
    check: bool,
) -> str:
    """LLVM's text of `i32 symbol(inputs..., outputs..., table, arena[, error])`.

    It stops at the first kernel that does not return 0, and returns what that one did.
    """
    parameters = [f"ptr %input{n}" for n in range(inputs)]
    parameters += [f"ptr %output{n}" for n in range(outputs)]
    parameters += ["ptr %table", "ptr %arena"] + (["ptr %error"] if check else [])
    lines: list[str] = []
    for step, call in enumerate(calls):
        if isinstance(call[0], Control):
            _control(lines, step, check, *call)  # type: ignore[arg-type]
            continue
        kernel, pointers = call  # type: ignore[misc]
        arguments = [_pointer(lines, f"{step}.{n}", p) for n, p in enumerate(pointers)]
        listed = ", ".join(f"ptr {a}" for a in [*arguments, *(["%error"] if check else [])])
        lines.append(f"  %status{step} = call i32 @{kernel}({listed})")
        lines.append(f"  %failed{step} = icmp ne i32 %status{step}, 0")
        lines.append(f"  br i1 %failed{step}, label %stop{step}, label %step{step + 1}")
        lines.append(f"stop{step}:")
        lines.append(f"  ret i32 %status{step}")
        lines.append(f"step{step + 1}:")
    body = "\n".join([*lines, "  ret i32 0"])
    loops = any(isinstance(call[0], Control) for call in calls)
    how = "#0" if loops else UNOPTIMIZED
    return f"define i32 @{symbol}({', '.join(parameters)}) {how} {{\n{body}\n}}"


def _control(
    lines: list[str], step: int, check: bool, item: Control, *pointers: tuple[Pointer, ...]
) -> None:
    """Append the lines of a condition or loop, which end at the next step's label."""
    groups = [
        [_pointer(lines, f"{step}.{n}.{m}", pointer) for m, pointer in enumerate(group)]
        for n, group in enumerate(pointers)
    ]
    writer = Writer(lines, step, check)
    writer.write(item, *groups)
    writer.label(f"step{step + 1}")


def _pointer(lines: list[str], name: str, pointer: Pointer) -> str:
    if pointer.kind in ("input", "output"):
        given = f"%{pointer.kind}{pointer.number}"
        if not pointer.start:
            return given
        lines.append(f"  %p{name} = getelementptr inbounds i8, ptr {given}, i64 {pointer.start}")
        return f"%p{name}"
    if pointer.kind == "arena":
        lines.append(f"  %a{name} = getelementptr inbounds i8, ptr %arena, i64 {pointer.number}")
        return f"%a{name}"
    lines.append(f"  %t{name} = getelementptr inbounds ptr, ptr %table, i64 {pointer.number}")
    lines.append(f"  %c{name} = load ptr, ptr %t{name}, align 8")
    return f"%c{name}"
