"""The form of the corpus: small programs on which compilers have lied, and what is asked of them.

A case is a program, the steps to take, and how that must end: every step is accepted and the
program computes the same on every back-end, or the last step is refused with a code.
"""

import re
from typing import Any, NamedTuple

from minimlc import parse
from minimlc.loops.values.module import IRModule

DTYPES = {
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "bool": "bool",
}
BUFFER = re.compile(r"(\w+): (\w+)\[([\d, ]+)\]")

Step = tuple[Any, ...]


class Case(NamedTuple):
    """`params` and `allocs` are written "A: f32[8, 4], C: i32[8]"; `body` is the script.

    A step is (primitive, arguments ..., and options in a dict as the last one). `refused` is the
    code with which the last step is refused, or the program itself where there is no step; "any"
    leaves the code open, "either" whether the step is refused or taken, and then right.
    """

    topic: str
    name: str
    params: str
    body: str
    steps: tuple[Step, ...] = ()
    refused: str = ""
    allocs: str = ""

    def module(self) -> IRModule:
        """The program, as written."""
        params = BUFFER.sub(_parameter, self.params)
        lines = ["@T.prim_func", f"def main({params}):"]
        lines += [BUFFER.sub(_allocation, part) for part in _parts(self.allocs)]
        body = self.body.strip("\n").split("\n")
        return parse("\n".join([*lines, *body]))


def _parts(buffers: str) -> list[str]:
    return [found.group(0) for found in BUFFER.finditer(buffers)]


def _type(found: re.Match) -> str:
    sizes = ", ".join(size.strip() for size in found.group(3).split(","))
    return f'(({sizes},), "{DTYPES[found.group(2)]}")'


def _parameter(found: re.Match) -> str:
    return f"{found.group(1)}: T.Buffer{_type(found)}"


def _allocation(found: re.Match) -> str:
    return f"    {found.group(1)} = T.alloc_buffer{_type(found)}"


def options(step: Step) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """A step's primitive, its arguments by position and by name."""
    name, *args = step
    named = args.pop() if args and isinstance(args[-1], dict) else {}
    return name, tuple(args), named
