"""Counts of kernels that ran, by statement and line of the script."""

from collections.abc import Iterator
from html import escape
from math import prod
from typing import NamedTuple

from minimlc.deploy import table
from minimlc.gpusim.active import WARP
from minimlc.gpusim.devices import Occupancy, Roofline, device, occupancy, roofline
from minimlc.targets.gpu.launch import Sizes, launch_text

OF_STATEMENTS = "line", "instructions", "active", "statement"
HEAD = (*OF_STATEMENTS, "requests", "sectors/request", "wavefronts/request")
MOST_TEXT = 56
STATEMENT = (
    "text-align: left; white-space: pre; max-width: 19em; overflow: hidden; text-overflow: ellipsis"
)


class Access(NamedTuple):
    """The loads, or the stores, of one place in a program. `space` is "global" or "shared".

    A request is one instruction of one warp. `conflicts` are the wavefronts beyond those that were
    needed if no bank had two words to serve. `sample` is the first request: the bytes' place in the
    buffer where each lane begins, -1 for one that does not run; each accesses `size` of them.
    """

    buffer: str
    action: str
    space: str
    requests: int
    sectors: int
    wavefronts: int
    conflicts: int
    size: int
    sample: tuple[int, ...]

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def wavefronts_per_request(self) -> float:
        return self.wavefronts / self.requests if self.requests else 0.0


class Statement(NamedTuple):
    """A statement: its `line` in the script (0 where a schedule wrote it), how many warps ran it
    and threads in them, the instructions of these warps, and operations on floats.
    """

    line: int
    text: str
    warps: int
    threads: int
    instructions: int
    flops: int
    accesses: tuple[Access, ...]

    @property
    def active(self) -> float:
        """The share of a warp's threads that ran it; the others waited."""
        return self.threads / (self.warps * WARP) if self.warps else 0.0


class KernelProfile(NamedTuple):
    """A kernel: its launch, the bytes of shared memory of a block, the bytes of global memory that
    were touched, in whole sectors, and its statements.
    """

    name: str
    grid: Sizes
    block: Sizes
    shared_bytes: int
    global_bytes: int
    statements: tuple[Statement, ...]

    @property
    def accesses(self) -> tuple[Access, ...]:
        return tuple(access for statement in self.statements for access in statement.accesses)

    def total(self, counter: str, space: str = "", action: str = "") -> int:
        """The sum of a counter of `Access`; of one space, of loads or stores alone."""
        chosen = (a for a in self.accesses if space in ("", a.space) and action in ("", a.action))
        return sum(getattr(access, counter) for access in chosen)

    def occupancy(self, name: str, registers: int = 0) -> Occupancy:
        """The occupancy of an SM of a device by this kernel, whose threads have as many registers
        as in the compiler's log; `CompileError` for an unknown device.
        """
        return occupancy(device(name), -(-prod(self.block) // WARP), self.shared_bytes, registers)

    def roofline(self, name: str) -> Roofline:
        """The roofline on a device, its least time; `CompileError` for an unknown device."""
        flops = sum(statement.flops for statement in self.statements)
        return roofline(device(name), flops, self.global_bytes, self.total("wavefronts"))

    def title(self) -> str:
        """The launch in words."""
        shared = f", {self.shared_bytes} bytes of shared memory each" if self.shared_bytes else ""
        return f"{self.name}: {launch_text(self.grid, self.block)}{shared}"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The table's rows under `HEAD`: each statement, and below it what it accesses."""
        for item in self.statements:
            text = item.text if len(item.text) <= MOST_TEXT else f"{item.text[:MOST_TEXT]}…"
            line = str(item.line or "")
            yield line, f"{item.instructions:,}", f"{item.active:.0%}", text, "", "", ""
            for access in item.accesses:
                yield "", "", "", f"  {access.action} {access.buffer}", *_numbers(access)


class Profile(NamedTuple):
    """A run of a function: its kernels in order."""

    name: str
    kernels: tuple[KernelProfile, ...]

    def __repr__(self) -> str:
        return "\n\n".join(map(_text, self.kernels))

    def _repr_html_(self) -> str:
        return "".join(map(_html, self.kernels))


def _numbers(access: Access) -> tuple[str, str, str]:
    """An access in the table: requests, and how much each of them takes."""
    rates = f"{access.sectors_per_request:.4g}", f"{access.wavefronts_per_request:.4g}"
    shared = access.space == "shared"
    return f"{access.requests:,}", "" if shared else rates[0], rates[1] if shared else ""


def _text(kernel: KernelProfile) -> str:
    """A kernel's table, in columns."""
    return table.text(kernel.title(), HEAD, [*kernel.rows()], ("statement",))


def _html(kernel: KernelProfile) -> str:
    """A kernel's table."""
    head = "".join(f"<th>{name.replace('/', '/<wbr>')}</th>" for name in HEAD)
    body = "".join(f"<tr>{''.join(map(_cell, row, HEAD))}</tr>" for row in kernel.rows())
    caption = f"<caption>{escape(kernel.title())}</caption>"
    whole = f'<table style="font-size: .85em">{caption}<tr>{head}</tr>{body}</table>'
    return f'<div style="overflow-x: auto">{whole}</div>'


def _cell(text: str, name: str) -> str:
    if name != "statement":
        return f"<td>{escape(text)}</td>"
    return f'<td style="{STATEMENT}"><code>{escape(text)}</code></td>'
