"""Requests of a warp to memory: sectors of global memory, banks of shared memory."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from minimlc_widgets.base import View, source
from minimlc_widgets.static import table
from traitlets import Dict, Int, List, Unicode

from minimlc.gpusim.active import WARP
from minimlc.gpusim.profile import Access, KernelProfile, Profile, Statement
from minimlc.gpusim.transactions import BANKS, SECTOR, WORD, together
from minimlc.loops.values.errors import CompileError

TITLE = 64  # characters of a statement


class Place(NamedTuple):
    """An access of a statement of a kernel."""

    kernel: KernelProfile
    statement: Statement
    access: Access

    @property
    def name(self) -> str:
        return f"{self.access.action} {self.access.buffer}"

    @property
    def where(self) -> str:
        """The line of the script; 0 is one that a schedule wrote."""
        return f"line {self.statement.line}" if self.statement.line else ""


class Served(NamedTuple):
    """A word of shared memory that a lane gets: from a bank, in a wavefront, which is one too many
    if `late`: no lane of its group would have to wait if the words were in different banks.
    """

    lane: int
    bank: int
    wavefront: int
    word: int
    late: bool


def kernels_of(profile: Any) -> tuple[KernelProfile, ...]:
    """The kernels of a profile; `CompileError` for anything else."""
    if isinstance(profile, KernelProfile):
        return (profile,)
    if not isinstance(profile, Profile):
        why = f"expected a profile, got {type(profile).__name__}"
        hint = 'mlc.build(mod, "gpusim").profile("main", a, b)'
        raise CompileError(why, code="E132", hint=hint)
    return profile.kernels


class _Requests(View):
    """The accesses of a profile in one memory; the first request of each is drawn."""

    _css = source("base.css", "grid.css", "gpu.css")
    space: str
    heads: tuple[str, ...]
    title = Unicode().tag(sync=True)
    heading = List(Unicode()).tag(sync=True)
    accesses = List(Dict()).tag(sync=True)
    chosen = Int().tag(sync=True)

    def __init__(self, profile: Any, chosen: int = 0) -> None:
        kernels = kernels_of(profile)
        self.places = tuple(_places(kernels, self.space))
        if not self.places:
            raise CompileError(f"no thread accesses {self.space} memory: there is nothing to show")
        super().__init__(
            title="; ".join(kernel.title() for kernel in kernels),
            heading=list(self.heads),
            accesses=[self.state(place) for place in self.places],
            chosen=max(0, min(chosen, len(self.places) - 1)),
        )

    def state(self, place: Place) -> dict[str, Any]:
        """An access as the page needs it."""
        access, statement = place.access, place.statement
        text = statement.text
        return {
            "name": place.name,
            "buffer": access.buffer,
            "where": place.where,
            "text": text if len(text) <= TITLE else f"{text[:TITLE]}…",
            "size": access.size,
            "sample": list(access.sample),
            "row": self.row(place),
        }

    def row(self, place: Place) -> list[str]:
        """The numbers of an access, under `heads`."""
        raise NotImplementedError

    def static_html(self) -> str:
        rows = [[place.name, place.where, *self.row(place)] for place in self.places]
        heads = ["", "", *self.heads]
        return f"<p>{escape(self.title)}</p>{table(heads, rows)}"

    def text(self) -> str:
        rows = [["", "", *self.heads]]
        rows += [[place.name, place.where, *self.row(place)] for place in self.places]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join([self.title, *(_line(row, widths) for row in rows)])


class Transactions(_Requests):
    """Requests of warps to global memory: the bytes that each lane gets, by 32-byte sectors.

    `Transactions(lib.profile("main", a, b))`. For each load and store, how many sectors a request
    takes, over the whole run, and the first request in full: a row is a line of 128 bytes, coloured
    what lanes want, grey what is moved with it. `CompileError` where global memory is not accessed.
    """

    _esm = source("prelude.js", "grid.js", "gpu.js", "requests.js", "transactions.js")
    space = "global"
    heads = ("requests", "sectors a request", "bytes used, first request")

    def row(self, place: Place) -> list[str]:
        access, (used, moved) = place.access, bytes_of(place.access)
        share = f"{used / moved:.0%} of {moved}"
        return [f"{access.requests:,}", f"{access.sectors_per_request:.4g}", share]


class Banks(_Requests):
    """Requests of warps to shared memory: 32 banks, each with one word for a wavefront.

    `Banks(lib.profile("main", a, b))`. For each load and store, how many wavefronts a request
    takes, over the whole run, and the first request in full: a column is a bank, a row a wavefront,
    red those that bank conflicts add. `CompileError` where shared memory is not accessed.
    """

    _esm = source("prelude.js", "grid.js", "gpu.js", "requests.js", "banks.js")
    space = "shared"
    heads = ("requests", "wavefronts a request", "by conflicts")

    def state(self, place: Place) -> dict[str, Any]:
        words = served(place.access.sample, place.access.size, place.access.action)
        return {**super().state(place), "served": [list(map(int, word)) for word in words]}

    def row(self, place: Place) -> list[str]:
        access = place.access
        more = access.conflicts / access.requests
        return [f"{access.requests:,}", f"{access.wavefronts_per_request:.4g}", f"{more:.4g}"]


def bytes_of(access: Access) -> tuple[int, int]:
    """How many different bytes the sample asks for, and how many the sectors have."""
    starts = {at for at in access.sample if at >= 0}
    used = {at + n for at in starts for n in range(access.size)}
    return len(used), SECTOR * len({at // SECTOR for at in starts})


def served(sample: Sequence[int], size: int, action: str = "load") -> list[Served]:
    """The words of a request of `size` bytes a lane: half-warps where these are 8, quarters at 16,
    or twice as many lanes of a load where neighbours have the same address. Lanes that want the
    same word get it at once; a bank gives its words in the order of lanes.
    """
    group = int(together(np.array([sample]), size, loads=action == "load")[0])
    found: list[Served] = []
    for start in range(0, WARP, group):
        first = 1 + max((item.wavefront for item in found), default=-1)
        queues: dict[int, list[int]] = {}
        for lane in range(start, start + group):
            for word in _words(sample[lane], size):
                queue = queues.setdefault(word % BANKS, [])
                queue += [] if word in queue else [word]
                turn = queue.index(word)
                found.append(Served(lane, word % BANKS, first + turn, word, turn > 0))
    return found


def _words(address: int, size: int) -> range:
    first = address // WORD
    return range(first, first + (max(1, size // WORD) if address >= 0 else 0))


def _places(kernels: Sequence[KernelProfile], space: str) -> Iterator[Place]:
    for kernel in kernels:
        for statement in kernel.statements:
            for access in sorted(statement.accesses, key=lambda access: access.action):
                if access.space == space and access.requests:
                    yield Place(kernel, statement, access)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first = row[0].ljust(widths[0]), row[1].ljust(widths[1])
    rest = (cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True))
    return "  ".join([*first, *rest]).rstrip()
