"""Random schedules for the threads of a GPU: what people do to a nest, with random numbers.

Each step is tried and may be refused; the next one goes on with what is there.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import minimlc as mlc
from minimlc.loops.ir.nodes import For, Seq
from minimlc.loops.ir.walks import blocks_in, loops_in
from minimlc.loops.proofs.arith import constant_value
from minimlc.targets.gpu.kernels import kernels
from minimlc.targets.gpu.pipelines import ASYNC, STAGES
from tests.fuzz.draw import random_step
from tests.fuzz.one import is_refusal
from tests.fuzz.site import Site

BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
VIRTUAL = ("vthread.x", "vthread.y")
SIZES = (2, 3, 4, 4, 8, 8, 16, 16, 32, 33)
"""Threads of an axis."""


class Growing:
    """A schedule to which random steps are added; how many of each were `refused`."""

    def __init__(self, sch: mlc.Schedule, rng: random.Random):
        self.sch, self.rng = sch, rng
        self.refused: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()

    def step(self, name: str, *positional: Any, **named: Any) -> bool:
        """Try a step."""
        try:
            self.sch = self.sch.apply(name, *positional, **named)
        except mlc.CompileError as error:
            if not is_refusal(error):
                raise
            self.refused[name] += 1
            return False
        self.accepted[name] += 1
        return True

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def any_step(self) -> None:
        """One of all primitives there are."""
        step = random_step(self.sch, self.rng)
        if step.name != "bind":
            self.step(step.name, *step.positional, **step.named)

    @property
    def site(self) -> Site:
        return Site(self.sch, self.rng, wild=False)

    def loops(self, block: str) -> list[str]:
        """The serial loops around a block; none where it is gone."""
        names = {b.name for b in blocks_in(self.sch.func.body)}
        around = self.sch.loops(block) if block in names else []
        loops = {loop.var.name: loop for loop in loops_in(self.sch.func.body)}
        return [name for name in around if loops[name].kind == "serial"]

    def kinds(self, loops: Sequence[str]) -> tuple[list[str], list[str]]:
        """Those of spatial iters alone, and the others."""
        site = self.site
        spatial = [name for name in loops if site.kinds(name) <= {"S"}]
        return spatial, [name for name in loops if name not in spatial]

    def split(self, loop: str, *factors: int | None) -> list[str]:
        """The parts of a loop, or the loop where that is refused."""
        before = {item.var.name for item in loops_in(self.sch.func.body)}
        if not self.step("split", loop, list(factors)):
            return [loop]
        return [x.var.name for x in loops_in(self.sch.func.body) if x.var.name not in before]

    def bind(self, loops: Sequence[str], axes: Sequence[str]) -> None:
        """Loops to axes, the last loop to the first axis; not always all."""
        for loop, axis in zip(reversed(loops), axes, strict=False):
            if not self.chance(0.05):
                self.step("bind", loop, axis)

    def axes(self, kind: Sequence[str]) -> Sequence[str]:
        return kind if self.chance(0.8) else self.rng.sample(kind, len(kind))


class Nest(NamedTuple):
    """The loops of a nest by what they are for, outermost first."""

    outer: list[str]
    virtual: list[str]
    threads: list[str]
    steps: list[str]
    inner: list[str]


def grid(self: Growing, block: str, keep: float = 0.5) -> None:
    """Blocks, virtual threads and threads for the spatial loops; what they read is fetched into
    shared memory, what they compute is kept in registers, or neither.
    """
    before, buffer = self.sch, self.site.writes(block)[:1]
    kept = self.chance(keep) and bool(buffer) and self.step("cache_write", block, *buffer)
    nest = _cut(self, block)
    order = [name for part in nest for name in part]
    if len(order) > 1:
        self.step("reorder", *order)
    places = [*nest.outer[-1:], *nest.threads[-1:]]
    if kept and not (places and self.step("reverse_compute_at", f"{buffer[0]}_local", places[-1])):
        self.sch = before
        return grid(self, block, keep=0)
    self.bind(nest.outer, self.axes(BLOCKS if nest.threads or self.chance(0.5) else THREADS))
    self.bind(nest.virtual, VIRTUAL)
    if self.chance(0.9):
        self.bind(nest.threads, self.axes(THREADS))
    if nest.inner and not nest.steps and self.chance(0.5):
        self.step("vectorize", nest.inner[-1])
    if self.chance(0.7):
        by_step = nest.steps[:1] if self.chance(0.4) else []
        fetch(self, block, by_step or [*places, *nest.steps[:1]])
    if nest.steps and self.chance(0.6):
        self.step("decompose_reduction", block, nest.steps[0])
        pipeline(self, nest.steps[0])
    return None


def _cut(self: Growing, block: str) -> Nest:
    """The loops of a block split: the spatial ones for blocks and threads."""
    spatial, others = self.kinds(self.loops(block))
    nest = Nest([], [], [], [], [])
    for loop in spatial:
        size, few = self.rng.choice(SIZES), self.rng.choice((2, 4))
        forms: Sequence[tuple[tuple[int, ...], list[list[str]]]] = (
            ((size,), [nest.outer, nest.threads]),
            ((size, few), [nest.outer, nest.threads, nest.inner]),
            ((few, size), [nest.outer, nest.virtual, nest.threads]),
        )
        factors, places = self.rng.choices(forms, (50, 25, 25))[0]
        parts = self.split(loop, None, *factors) if self.chance(0.9) else [loop]
        for part, place in zip(parts, places, strict=False):
            place.append(part)
    reduced = [self.split(name, None, self.rng.choice((2, 4, 8))) for name in others]
    nest.steps.extend([*(cut[0] for cut in reduced), *(x for cut in reduced for x in cut[1:])])
    return nest


def fetch(self: Growing, block: str, places: Sequence[str]) -> None:
    """Copies of the buffers that a block reads, made together by its threads."""
    site = self.site
    if block not in site.blocks or not places:
        return
    for buffer in dict.fromkeys(b for b in site.reads(block) if b not in site.writes(block)):
        before, names = self.sch, {item.name for item in blocks_in(self.sch.func.body)}
        scope = self.rng.choice(("shared", "shared", "shared", "shared", "local"))
        if self.chance(0.15) or not self.step("cache_read", block, buffer, scope):
            continue
        copy = next(b.name for b in blocks_in(self.sch.func.body) if b.name not in names)
        if self.step("compute_at", copy, self.rng.choice(places)):
            together(self, copy)
        elif self.chance(0.9):
            self.sch = before


def pipeline(self: Growing, name: str) -> None:
    """A loop that fetches some iterations ahead, if it fetches anything."""
    loops = {loop.var.name: loop for loop in loops_in(self.sch.func.body)}
    loop = loops.get(name)
    if loop is None or not isinstance(loop.body, Seq) or self.chance(0.3):
        return
    count = len(loop.body.stmts)
    fetches = self.rng.randint(1, count - 1)
    stages = (*[0] * fetches, *[self.rng.randint(1, 3)] * (count - fetches))
    before = self.sch
    self.step("annotate", name, STAGES, stages)
    if self.chance(0.3):
        self.step("annotate", name, ASYNC, (0,))
    try:
        kernels("main", self.sch.func)
    except mlc.BuildError:
        self.sch = before


def together(self: Growing, block: str) -> None:
    """The loops of a copy run by the threads of the block, as their own number is."""
    loops, sizes = self.loops(block)[-2:], sizes_of(self)
    if not loops or not sizes:
        return
    if len(loops) == 2 and self.chance(0.7) and self.step("fuse", *loops):
        loops = self.loops(block)[-1:]
    lanes = [self.rng.choice((2, 4))] if self.chance(0.25) else []
    chosen = [axis for axis in sizes if self.chance(0.95)]
    if len(loops) == 1:
        parts = self.split(loops[0], None, *(sizes[axis] for axis in chosen), *lanes)[1:]
    else:
        axis = self.rng.choice(list(sizes))
        chosen, parts = [axis], self.split(loops[-1], None, sizes[axis])[1:]
    for loop, axis in zip(parts, chosen, strict=False):
        self.step("bind", loop, axis)
    if lanes and len(parts) > len(chosen):
        self.step("vectorize", parts[-1])


def sizes_of(self: Growing) -> dict[str, int]:
    """The axes of threads that loops are bound to, the slowest first, and their sizes."""
    sizes = {}
    for axis in reversed(THREADS):
        for loop in loops_in(self.sch.func.body):
            if loop.thread == axis:
                sizes[axis] = constant_value(loop.extent) or 1
    return sizes


def combine(self: Growing, block: str) -> None:
    """Blocks, and rows of threads, for the spatial loops; the threads combine values."""
    spatial, reduced = self.kinds(self.loops(block))
    threads = list(self.axes(THREADS))
    rows: list[str] = []
    if spatial and self.chance(0.4):
        *_, last = self.split(spatial[-1], None, self.rng.choice((2, 4)))
        rows = [last] if last not in spatial else []
    outer = [name for name in self.loops(block) if name not in (*rows, *reduced)]
    self.bind(outer, self.axes(BLOCKS))
    combining = []
    for loop in reduced:
        parts = self.split(loop, None, self.rng.choice(SIZES)) if self.chance(0.8) else [loop]
        combining.append(self.rng.choice(parts))
    if self.chance(0.3):
        self.step("rfactor", combining[0]) if combining else None
    if self.chance(0.5):
        self.rng.shuffle(combining)
    self.bind([*rows, *combining] if self.chance(0.8) else [*combining, *rows], threads)
    if self.chance(0.3):
        fetch(self, block, [*outer[-1:], *rows])


def shared_row(self: Growing, block: str) -> None:
    """An outermost loop of several nests is a block of threads, who run the nests one by one."""
    around = self.loops(block)
    if not around:
        return
    inside = [n for n, loops in self.site.around.items() if loops and loops[0] == around[0]]
    count = self.rng.choice(SIZES)
    if not self.step("bind", around[0], "blockIdx.x"):
        return
    for name in inside:
        loops = self.loops(name)
        if loops and self.chance(0.9):
            size = count if self.chance(0.9) else self.rng.choice(SIZES)
            self.step("bind", self.split(loops[-1], None, size)[-1], "threadIdx.x")


def nearer(self: Growing, block: str) -> None:
    """Compute the inputs of a block in its blocks, by their threads, into shared memory."""
    grid(self, block)
    site = self.site
    loops = {x.var.name: x for x in loops_in(self.sch.func.body) if x.thread in BLOCKS}
    for name in site.producers(block) if block in site.blocks else ():
        around = [loop for loop in self.sch.loops(block) if loop in loops]
        if name in site.blocks and around and site.intermediate(name):
            (buffer,) = site.writes(name)
            self.step("set_scope", name, buffer, self.rng.choice(("shared", "shared", "local")))
            self.step("compute_at", name, around[-1])
            together(self, name)


def anything(self: Growing, block: str) -> None:
    """Loops bound at random."""
    loops = self.loops(block)
    for loop in loops:
        if self.chance(0.6):
            self.step("bind", loop, self.rng.choice((*BLOCKS, *THREADS, *THREADS, *VIRTUAL)))


STYLES: dict[Callable[[Growing, str], None], int] = {
    grid: 40,
    combine: 30,
    shared_row: 15,
    nearer: 20,
    anything: 5,
}


def grown(sch: mlc.Schedule, rng: random.Random) -> Growing:
    """A random schedule of a program: each nest in one style, its last block first."""
    new = Growing(sch, rng)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        new.any_step()
    for block in reversed([item.name for item in blocks_in(sch.func.body)]):
        if block in new.site.blocks and not _is_bound(new, block) and not new.chance(0.05):
            style = _style(new, block)
            style(new, block)
    for _ in range(rng.choice((0, 0, 0, 0, 1, 2))):
        new.any_step()
    return new


def _style(self: Growing, block: str) -> Callable[[Growing, str], None]:
    """A reduction is more often combined, several nests in a loop more often run one by one."""
    site, around = self.site, self.loops(block)
    several = around and sum(around[0] in loops for loops in site.around.values()) > 1
    weights = dict(STYLES)
    weights[shared_row] *= 8 if several else 0
    weights[combine] *= 2 if site.is_reduction(block) else 0
    weights[nearer] *= 2 if any(map(site.intermediate, site.producers(block))) else 0
    return self.rng.choices(list(weights), list(weights.values()))[0]


def _is_bound(self: Growing, block: str) -> bool:
    loops: dict[str, For] = {loop.var.name: loop for loop in loops_in(self.sch.func.body)}
    return any(loops[name].thread for name in self.sch.loops(block))
