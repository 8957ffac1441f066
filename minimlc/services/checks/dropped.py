"""Steps whose result nobody keeps: a schedule never changes, so they do nothing.

`sch.split("i", [None, 4])` on a line of its own is how schedules that change are written. CPython
compiles such a line to a call and an instruction that throws the result away; so the caller's code
shows whether the result is kept, passed on, returned, displayed or measured instead.
"""

import dis
import sys
import warnings
from types import CodeType, FrameType

from minimlc.loops.values.errors import DroppedResult, describe_file

EXACT = sys.implementation.name == "cpython"
POP = dis.opmap["POP_TOP"]
CACHE = dis.opmap.get("CACHE")
WIDTH = 2
"""Bytes of an instruction, and of an entry of the caches that may follow it."""

TIMED = ("<timeit-src>", "<magic-timeit>")
"""Where `timeit` runs a line for its time alone."""


def warn_if_dropped(method: str, call: str, caller: FrameType) -> None:
    """Warn where the current line of `caller` drops the result of `method`, just called there.

    `call` is the call as text.
    """
    code = caller.f_code
    if not EXACT or code.co_filename in TIMED:
        return
    call_at, after = _around(code.co_code, caller.f_lasti)
    if code.co_code[after] != POP:
        return
    if _is_call_of(method, code, call_at):
        where = f"{describe_file(code.co_filename)}, line {caller.f_lineno}"
        why = f"the result of sch.{call} ({where}) was dropped: a schedule never changes"
        warnings.warn(f"{why}; write sch = sch.{call}", DroppedResult, stacklevel=3)


def _around(instructions: bytes, at: int) -> tuple[int, int]:
    """The starts of the instruction at this place, maybe in its cache, and of the next one."""
    after = at + WIDTH
    while instructions[after] == CACHE:
        after += WIDTH
    while instructions[at] == CACHE:
        at -= WIDTH
    return at, after


def _is_call_of(method: str, code: CodeType, at: int) -> bool:
    """Whether the call there is `....method(...)` itself: `map` calls it from C code as well."""
    starts = {}
    for op in dis.get_instructions(code):
        place = op.positions and (op.positions.lineno, op.positions.col_offset)
        starts[op.offset] = (place, op.argval)
    return at in starts and (starts[at][0], method) in starts.values()
