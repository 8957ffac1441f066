"""Random programs whose decisions read memory: `python -m tests.fuzz.decisions --count N --seed S`.

Conditions, extents, predicates and indices read shared, local and global memory that one thread,
all threads or a tree of them have written, and that changes after the decision. A third are tile
programs. What is accepted must compute what the interpreter does by the simulator, who must not
find a race, and by OpenCL where it is installed. With `--planted`, a barrier is left out of each
program, and the simulator must report what a comparison of all pairs of accesses finds.
"""

import argparse
import linecache
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import minimlc as mlc
from minimlc.gpusim.launch import launch
from minimlc.loops.ir.nodes import For, IfThenElse, Load, Seq, Stmt
from minimlc.loops.ir.walks import buffers_in
from minimlc.loops.schedule.tree import replaced_in
from minimlc.loops.values.errors import RaceError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import nodes_of
from minimlc.script import T, tile
from minimlc.targets.gpu.kernels import Barrier, Launches, kernels
from tests.fuzz.one import Failure
from tests.fuzz.subject import DIFFERENT, Subject, main_of, subject
from tests.fuzz.thread_steps import Growing
from tests.fuzz.threads import (
    BATCH,
    NO_TRACE,
    SECONDS,
    Outcome,
    Say,
    summary,
    targets_here,
    traits,
    watched,
    wrong,
)
from tests.helpers import copies

PLACES = 8
"""Elements of the shared memory that decisions read."""
DEEPEST = 2
"""Statements in each other."""


class Text:
    """Draws the text of one program on bound threads: `n` of them, or two rows of them."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.n = rng.choice((3, 8, 16, 32, 33, 64))
        self.blocks = rng.choice((1, 1, 2, 3))
        self.rows = rng.choice((1, 1, 1, 1, 2))
        self.lines: list[str] = []
        self.count = 0

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def add(self, depth: int, text: str) -> None:
        self.lines.append(f"{'    ' * depth}{text}")

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    @property
    def place(self) -> str:
        return str(self.rng.randrange(PLACES))

    # Values: `t` is the thread's number, "" where all threads or the first one are meant

    def value(self, t: str = "", without: str = "", depth: int = 0) -> str:
        """A number that a thread computes, from memory that its nest does not write."""
        if depth < 2 and self.rng.random() < 0.35:
            a, b = (self.value(t, without, depth + 1) for _ in range(2))
            forms = f"{a} + {b}", f"T.max({a}, {b})", f"T.if_then_else({a} > {b}, {b}, {a} - {b})"
            return f"({self.pick(*forms)})"
        place = f"({self.pick('S[', 'G[b, ')}{self.place}] % {PLACES})"
        shared = [f"S[{self.place}]", f"S[{place}]", f"G[b, {self.place}]", f"A[b, {self.row(t)}]"]
        if without != "S":
            shared += [f"{x}[{self.row(t)}]" for x in "MN" if x != without]
        if t:
            shared.append(f"L[{t}]" if without != "L" else f"A[b, {t}]")
        return self.pick(*shared, str(self.rng.randint(-2, 3)))

    def row(self, t: str) -> str:
        """A place in a row of as many elements as there are threads."""
        if t and self.rng.random() < 0.7:
            return self.pick(t, f"({t} + 1) % {self.n}", f"{self.n - 1} - {t}")
        return str(self.rng.randrange(self.n))

    def decision(self, t: str = "", without: str = "") -> str:
        """A condition."""
        one, other = self.value(t, without, 1), self.value(t, without, 1)
        text = self.pick(f"{one} > {self.rng.randint(0, 4)}", f"{one} > {other}", f"{one} % 2 == 0")
        if self.rng.random() < 0.2:
            return f"{text} {self.pick('and', 'or')} {other} < 4"
        return text

    def extent(self, t: str = "", without: str = "") -> str:
        return f"T.min(T.max({self.value(t, without, 1)}, 0), {self.rng.randint(1, 3)})"

    # Statements of a block

    def stmts(self, depth: int, level: int) -> None:
        for _ in range(self.rng.randint(*((2, 5), (1, 3), (1, 2))[level])):
            self.stmt(depth, level)

    def stmt(self, depth: int, level: int) -> None:
        kinds: list[Callable[[int, int], None]] = [self.one, self.one, self.all, self.all]
        kinds += [self.tree, self.some]
        if level < DEEPEST:
            kinds += [self.condition, self.condition, self.condition, self.loop, self.loop]
        self.rng.choice(kinds)(depth, level)

    def one(self, depth: int, level: int) -> None:
        """One thread's."""
        target = self.pick("S", "S", "G")
        at = f"S[{self.place}]" if target == "S" else f"G[b, {self.place}]"
        self.add(depth, f"{at} = {self.value()} % 16")

    def threads(self, depth: int) -> tuple[int, str]:
        """Loops of all threads of a block, and the number of one."""
        t = self.fresh("t")
        if self.rows == 1:
            self.add(depth, f'for {t} in T.thread_binding({self.n}, thread="threadIdx.x"):')
            return depth + 1, t
        self.add(depth, f'for y{t} in T.thread_binding(2, thread="threadIdx.y"):')
        self.add(depth + 1, f'for {t} in T.thread_binding({self.n}, thread="threadIdx.x"):')
        self.add(depth + 2, f"if y{t} == {self.rng.randrange(2)}:")
        return depth + 3, t

    def all(self, depth: int, level: int) -> None:
        """Each thread's own: it may decide for itself."""
        depth, t = self.threads(depth)
        target = self.pick("M", "N", "L", "C")
        at = f"C[b, {t}]" if target == "C" else f"{target}[{t}]"
        form = self.rng.randrange(5)
        if form == 0:
            self.add(depth, f"if {self.decision(t, target)}:")
            depth += 1
        if form == 1:
            k = self.fresh("k")
            self.add(depth, f"for {k} in range({self.extent(t, target)}):")
            self.add(depth + 1, f"{at} = ({at} + {self.value(t, target)} + {k}) % 16")
        elif form == 2:
            self.add(depth, f'with T.block("{self.fresh("block")}"):')
            self.add(depth + 1, f"v{t} = T.axis.spatial({self.n}, {t})")
            self.add(depth + 1, f"T.where({self.decision(t, target)})")
            self.add(depth + 1, f"{at.replace(t, f'v{t}')} = {self.value(f'v{t}', target)} % 16")
        else:
            self.add(depth, f"{at} = {self.value(t, target)} % 16")

    def some(self, depth: int, level: int) -> None:
        """A row of threads has something for itself, decides by it, and goes on."""
        if self.rows == 1:
            return self.all(depth, level)
        y, t = self.fresh("y"), self.fresh("t")
        self.add(depth, f'for {y} in T.thread_binding(2, thread="threadIdx.y"):')
        self.add(depth + 1, f"Y[{y}] = ({self.value()} + {y}) % 16")
        decided = self.pick(f"if Y[{y}] > 3:", f"for k{t} in range(T.min(Y[{y}], 3)):")
        self.add(depth + 1, decided)
        self.add(depth + 2, f'for {t} in T.thread_binding({self.n}, thread="threadIdx.x"):')
        self.add(depth + 3, f"D[b, {y}, {t}] = D[b, {y}, {t}] % 16 + {self.value()}")
        return None

    def tree(self, depth: int, level: int) -> None:
        """All threads combine what they have."""
        if self.rows > 1 or self.blocks > 1:
            return self.one(depth, level)
        t, at = self.fresh("t"), f"S[{self.place}]"
        self.add(depth, f'for {t} in T.thread_binding({self.n}, thread="threadIdx.x"):')
        self.add(depth + 1, f'with T.block("{self.fresh("tree")}"):')
        self.add(depth + 2, f"v{t} = T.axis.reduce({self.n}, {t})")
        self.add(depth + 2, "with T.init():")
        self.add(depth + 3, f"{at} = 0")
        value = f"{self.pick('M', 'N')}[v{t}]"
        self.add(depth + 2, f"{at} = {self.pick(f'{at} + {value}', f'T.max({at}, {value})')}")
        return None

    def condition(self, depth: int, level: int) -> None:
        self.add(depth, f"if {self.decision()}:")
        self.stmts(depth + 1, level + 1)
        if self.rng.random() < 0.4:
            self.add(depth, "else:")
            self.stmts(depth + 1, level + 1)

    def loop(self, depth: int, level: int) -> None:
        extent = self.extent() if self.rng.random() < 0.7 else str(self.rng.randint(1, 3))
        self.add(depth, f"for {self.fresh('k')} in range({extent}):")
        self.stmts(depth + 1, level + 1)

    def text(self) -> str:
        n, blocks = self.n, self.blocks
        params = {"A": (blocks, n), "G": (blocks, PLACES), "C": (blocks, n), "D": (blocks, 2, n)}
        own = {"S": (PLACES, "shared"), "M": (n, "shared"), "N": (n, "shared"), "Y": (2, "shared")}
        own["L"] = (n, "local")
        self.add(1, f'for b in T.thread_binding({blocks}, thread="blockIdx.x"):')
        first, self.lines = self.lines, []
        for name in "MNL":
            depth, t = self.threads(2)
            self.add(depth, f"{name}[{t}] = A[b, {t}] + {self.rng.randrange(4)}")
        self.add(2, f"for s in range({PLACES}):")
        self.add(3, f"S[s] = A[b, (s * {self.rng.randrange(1, 5)} + 1) % {n}]")
        self.stmts(2, 0)
        depth, t = self.threads(2)
        self.add(depth, f"C[b, {t}] = C[b, {t}] + M[{t}] + N[{n - 1} - {t}] * 16 + L[{t}] * 256")
        self.add(2, f"for s1 in range({PLACES}):")
        self.add(3, "G[b, s1] = G[b, s1] + S[s1] * 16")
        listed = ", ".join(f'{name}: T.Buffer({size}, "int64")' for name, size in params.items())
        allocs = (
            f'    {name} = T.alloc_buffer(({size},), "int64", scope="{scope}")'
            for name, (size, scope) in own.items()
        )
        head = ["@T.prim_func", f"def main({listed}):", *allocs]
        if blocks == 1:
            self.lines = [line.replace("[b, ", "[0, ") for line in self.lines]
            first = ["    for r in range(1):"]
        return "\n".join([*head, *first, *self.lines, ""])


class TileText:
    """Draws the text of one tile program, whose suites are decided by what tiles combine to."""

    def __init__(self, rng: random.Random, deepest: int):
        self.rng, self.deepest = rng, deepest
        self.n = rng.choice((8, 16, 33, 40) if deepest > 1 else (16, 33, 70))
        self.count = 0
        self.lines: list[str] = []
        self.tiles = ["x", "y"]
        self.numbers: list[str] = []

    def add(self, depth: int, text: str) -> None:
        self.lines.append(f"{'    ' * depth}{text}")

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def number(self) -> str:
        form = self.pick("sum", "max", "min")
        new = f"tile.{form}({self.pick(*self.tiles)}, axis=0)"
        return self.pick(new, new, *self.numbers)

    def value(self) -> str:
        a, b = self.pick(*self.tiles), self.pick(*self.tiles)
        forms = (
            *(f"{a} + {b}", f"tile.maximum({a}, {b})", f"{a} - {self.number()}"),
            f"tile.where({self.decision()}, {a}, {b})",
            f"tile.where({a} > {self.number()}, {a}, {b})",
        )
        return f"({self.pick(*forms)}) % 16"

    def decision(self) -> str:
        one, other = self.number(), self.number()
        return self.pick(f"{one} > {self.rng.randint(0, 6)}", f"{one} > {other}", f"{one} % 2 == 0")

    def stmts(self, depth: int, level: int) -> None:
        for _ in range(self.rng.randint(*((2, 4), (1, 3), (1, 2))[level])):
            self.stmt(depth, level)

    def stmt(self, depth: int, level: int) -> None:
        form = self.rng.randrange(9 if level < self.deepest else 4)
        if form == 0:
            mask = (
                f", {self.pick(*self.tiles)} > {self.number()}" if self.rng.random() < 0.5 else ""
            )
            self.add(depth, f"tile.store(C[p, at], {self.value()}{mask})")
        elif form == 1:
            self.add(depth, f"tile.store(G[p, {self.rng.randrange(4)}], {self.number()} % 64)")
        elif form in (2, 3) or (form == 4 and level):
            self.add(depth, f"{self.pick(*self.tiles)} = {self.value()}")
        elif form == 4:
            name = self.fresh("m")
            self.add(depth, f"{name} = {self.number()}")
            self.numbers.append(name)
        elif form < 8:
            self.add(depth, f"if {self.decision()}:")
            self.stmts(depth + 1, level + 1)
            if self.rng.random() < 0.4:
                self.add(depth, "else:")
                self.stmts(depth + 1, level + 1)
        else:
            self.add(depth, f"for {self.fresh('k')} in range({self.rng.randint(1, 3)}):")
            self.stmts(depth + 1, level + 1)

    def text(self) -> str:
        grid = self.rng.choice((1, 1, 2, 3))
        self.add(1, f"p, at = tile.program_id(0), tile.arange(0, {self.n})")
        self.add(1, "x, y = tile.load(A[p, at]), tile.load(C[p, at])")
        self.stmts(1, 0)
        self.add(1, "tile.store(C[p, at], x + y * 16)")
        sizes = {"A": (grid, self.n), "G": (grid, 4), "C": (grid, self.n)}
        listed = ", ".join(f'{name}: T.Buffer({size}, "int64")' for name, size in sizes.items())
        return "\n".join([f"@tile.kernel(grid={grid})", f"def main({listed}):", *self.lines, ""])


def tile_program(text: str, name: str) -> IRModule:
    """The module of a tile program's text."""
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names: dict[str, Any] = {"tile": tile, "T": T}
    exec(compile(text, name, "exec"), names)
    return IRModule.of({"main": names["main"]})


def kind_of(number: int) -> str:
    return ("threads", "threads", "recipe", "threads", "threads", "steps")[number % 6]


def drawn(number: int) -> tuple[Subject, IRModule]:
    """A program of a number with its results, and as threads run it."""
    rng, kind = random.Random(f"decisions {number}"), kind_of(number)
    text = program_text(number)
    if kind == "threads":
        known = subject(mlc.parse(text), number)
        return known, known.mod
    known = subject(tile_program(text, f"<decisions {number}>"), number)
    if kind == "recipe":
        return known, mlc.recipes.apply(known.mod, "cuda")
    return known, bound(known.mod, rng)


def bound(mod: IRModule, rng: random.Random) -> IRModule:
    """A tile program, some of its blocks by threads, its tiles in shared or global memory."""
    sch = Growing(mlc.Schedule(mod, check=False), rng)
    sch.step("bind", sch.sch.loops(sch.sch.blocks()[0])[0], "blockIdx.x")
    threads = rng.choice((3, 8, 16, 32, 64))
    for name in sch.sch.blocks():
        (buffer,) = sch.site.writes(name)
        if buffer in {item.name for item in sch.sch.func.allocs} and sch.chance(0.95):
            sch.step("set_scope", name, buffer, "shared")
    for name in sch.sch.blocks():
        loops = sch.loops(name)
        if loops and sch.chance(0.8):
            sch.step("bind", sch.split(loops[-1], None, threads)[-1], "threadIdx.x")
    return sch.sch.mod


def run(number: int, targets: Sequence[str], say: Say = str) -> Outcome:
    """The program of a number, looked at by all targets."""
    known, mod = drawn(number)
    kind = kind_of(number)
    try:
        launched = kernels("main", main_of(mod))
        whys = {target: wrong(known, mod, target) for target in targets if say(target) != ""}
    except mlc.BuildError as error:
        return Outcome(number, kind, refused=f"{error.code} {error.why[:90]}")
    outcome = Outcome(number, kind, traits=(*traits(mod, launched), *decided(launched)))
    for target, why in whys.items():
        if why:
            failure = Failure(kind, number, target, DIFFERENT in why, why, NO_TRACE)
            return outcome._replace(failure=failure)
    return outcome


def decided(launched: Launches) -> Iterator[str]:
    """Whether there is a barrier in a suite that memory decides."""
    own = {buffer.name for kernel in launched.kernels for buffer in buffers_in(kernel.body)}
    if "decided" in own:
        yield "decisions held"
    conditions = [c for k in launched.kernels for c in nodes_of(k.body, IfThenElse)]
    if any(nodes_of(c, Barrier) and nodes_of(c.condition, Load) for c in conditions):
        yield "barriers under decisions"
    loops = [loop for kernel in launched.kernels for loop in nodes_of(kernel.body, For)]
    if any(nodes_of(loop, Barrier) and nodes_of(loop.extent, Load) for loop in loops):
        yield "barriers as often as memory decides"


def caught(number: int, targets: Sequence[str], say: Say = str) -> Outcome:
    """One program. An error that none may raise is a failure, too."""
    try:
        return run(number, targets or targets_here()[1:], say)
    except Exception:
        why = traceback.format_exc(limit=-3)
        failure = Failure(kind_of(number), number, "steps", False, why, NO_TRACE)
        return Outcome(number, kind_of(number), failure=failure)


def without_each_barrier(whole: Launches) -> Iterator[Launches]:
    """Kernels less a barrier, for each of them."""
    for at, kernel in enumerate(whole.kernels):
        for barrier in nodes_of(kernel.body, Barrier):
            gone: dict[Stmt, Stmt | None] = {barrier: Seq(())}
            parts = list(whole.kernels)
            parts[at] = kernel._replace(body=replaced_in(kernel.body, gone))
            yield whole._replace(kernels=tuple(parts))


def reported(whole: Launches, arrays: Sequence[Any]) -> bool:
    """Whether the simulator finds a race."""
    try:
        launch(whole, copies(arrays))
    except RaceError:
        return True
    return False


def program_text(number: int) -> str:
    """The text of the program of a number."""
    rng, kind = random.Random(f"decisions {number}"), kind_of(number)
    deepest = DEEPEST - (kind == "steps")
    return (Text(rng) if kind == "threads" else TileText(rng, deepest)).text()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.decisions", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="programs in all (100)")
    parser.add_argument("--seed", type=int, default=0, help="the first program's number (0)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a target may take")
    parser.add_argument("--targets", nargs="*", default=[], help="what runs them (all there are)")
    options = parser.parse_args()
    numbers = range(options.seed, options.seed + options.count)
    outcomes: list[Outcome] = []
    for outcome in watched(numbers, options.targets, options.seconds, caught):
        outcomes.append(outcome)
        if outcome.failure:
            print(outcome.failure, program_text(outcome.number), sep="\n", flush=True)
        if len(outcomes) % (4 * BATCH) == 0:
            print(f"{len(outcomes)} of {len(numbers)}", file=sys.stderr, flush=True)
    print(summary(outcomes), Counter(item.program for item in outcomes if item.right), sep="\n")
    return 1 if any(item.failure for item in outcomes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
