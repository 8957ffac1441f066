"""Random programs: stages of blocks and loops over few buffers, each drawn from small productions.

A stage writes one buffer. It may be a map, a reduction, a scan, a scatter, loops in a block or
without one, a block of blocks with a buffer of its own; its loops may be cut, joined, turned,
shifted, of one iteration, of none, or as long as data say; its stores and loads may go anywhere.
"""

import math
import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import minimlc as mlc
from tests.fuzz.expressions import Axes, Axis, Expressions, Source, Value
from tests.fuzz.subject import WHOLE, Subject, subject
from tests.fuzz.undefined import reads_undefined

Lines = list[str]

DTYPES = ("int32", "int32", "float32", "float32", "float64", "float16", "bfloat16")
DTYPES = (*DTYPES, "int8", "int16", "uint8", "bool")


class Drawn(NamedTuple):
    """A program, and why those drawn before it were no programs: codes of errors."""

    known: Subject
    discarded: tuple[str, ...]


def random_program(seed: int) -> Subject:
    """A program that is well-formed, runs, and reads nothing undefined."""
    return drawn_program(seed).known


def drawn_program(seed: int) -> Drawn:
    """The same, with what was discarded on the way."""
    rng = random.Random(f"program {seed}")
    discarded: list[str] = []
    while True:
        try:
            mod = mlc.parse(Writer(rng).program())
            mlc.verify(mod)
            known = subject(mod, seed)
        except mlc.CompileError as error:
            discarded.append(error.code)
            continue
        if not reads_undefined(known):
            return Drawn(known, tuple(discarded))
        discarded.append("undefined")


def indented(lines: Sequence[str], levels: int = 1) -> Lines:
    return [f"{'    ' * levels}{line}" for line in lines]


class Nest:
    """Loops and conditions, each around the next, and the iters of a block in them."""

    def __init__(self, around: Axes = ()):
        self.heads: Lines = []
        self.loops = list(around)
        self.axes: list[Axis] = []
        self.iters: Lines = []
        self.tests: Lines = []
        self.full = True

    def loop(self, name: str, size: int, extent: str = "") -> str:
        """Another loop; its variable stays below `size`."""
        self.heads.append(f"for {name} in range({extent or size}):")
        self.loops.append(Axis(name, size))
        return name

    def around(self, body: Lines) -> Lines:
        lines = [f"{'    ' * depth}{head}" for depth, head in enumerate(self.heads)]
        return lines + indented(body, len(self.heads))

    def block(self, name: str, body: Lines, init: Sequence[str] = ()) -> Lines:
        tests = " and ".join(f"({test})" for test in self.tests)
        where = [f"T.where({tests})"] if tests else []
        start = ["with T.init():", *indented(init)] if init else []
        inside = [*self.iters, *where, *start, *body]
        return self.around([f"with T.block('{name}'):", *indented(inside)])


class Writer:
    """One program's text. `A`, `B`, `V`, `C` and `D` are parameters to read and to write, `N` holds
    integers, `X1` ... are the function's own and lie between.
    """

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.dtype = rng.choice(DTYPES)
        self.draw = Expressions(rng, self.dtype)
        self.chance = self.draw.chance
        rows, columns = rng.choice([2, 3, 4, 6, 7, 8, 9]), rng.choice([1, 2, 3, 4, 5, 8])
        self.shape = rows, columns
        shapes = {"A": (rows, columns), "B": (rows, columns), "V": (rows,), "C": (rows, columns)}
        shapes["D"] = (rows * columns,)
        self.params = [Source(name, shape) for name, shape in shapes.items()]
        self.own: list[Source] = []
        self.fills: Lines = []
        self.certain = True
        self.row: Axis | None = None
        self.count = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def sources(self, *without: str) -> list[Source]:
        """The buffers that may be read, the function's own more often."""
        known = [*self.params, *self.own, *self.own, *self.own[-1:]]
        return [source for source in known if source.name not in without]

    def program(self) -> str:
        body = [line for _ in range(self.rng.randint(1, 3)) for line in self.group()]
        body += self.result()
        heads = [f"{s.name}: T.Buffer({s.shape}, '{self.dtype}')" for s in self.params]
        own = [f"{s.name} = T.alloc_buffer({s.shape}, '{self.dtype}')" for s in self.own]
        head = f"def main(N: T.Buffer((4,), 'int64'), {', '.join(heads)}):"
        data = f'T.func_attr({{"data": "{WHOLE}"}})'
        return "\n".join(["@T.prim_func", head, *indented([data, *own, *body]), ""])

    # Groups of stages

    def group(self) -> Lines:
        """A stage, or some again and again, under a condition, or in one loop over the rows."""
        kind = self.rng.choices(("one", "again", "rows", "condition"), (70, 10, 12, 8))[0]
        self.certain = kind in ("one", "again")
        count = 1 if kind in ("one", "condition") else 2
        if kind == "rows":
            self.row = Axis(self.name("i"), self.shape[0])
        stages = [line for _ in range(count) for line in self.stage()]
        heads = {
            "again": f"for {self.name('t')} in range({self.rng.choice((1, 1, 2, 3))}):",
            "rows": f"for {self.row.name if self.row else ''} in range({self.shape[0]}):",
            "condition": f"if {self.draw.condition([])}:",
        }
        fills, self.fills, self.row, self.certain = self.fills, [], None, True
        return [*fills, *([heads[kind], *indented(stages)] if kind in heads else stages)]

    def stage(self) -> Lines:
        kinds: dict[Callable[[], Lines], int] = {
            self.map: 30,
            self.reduction: 26,
            self.scan: 7,
            self.scatter: 5,
            self.loops: 8,
            self.loops_in_a_block: 8,
            self.padded: 6,
            self.nested: 7,
            self.tiles: 5,
        }
        return self.rng.choices(list(kinds), list(kinds.values()))[0]()

    def result(self) -> Lines:
        """The last buffer goes to C, by itself or with others."""
        last = self.own[-1:] or [self.params[-1]]
        nest = self.nest(self.shape)
        value = self.draw.load(last[0], nest.axes)
        if self.chance(0.7):
            value = self.draw.combined(value, self.draw.value(self.sources("C"), nest.axes, 1))
        (store,) = self.stored(self.params[3], nest.axes, value)
        return nest.block(self.name("b"), [store])

    # Targets

    def target(
        self, shape: tuple[int, ...], most: float, full: bool, fresh: bool = False
    ) -> Source:
        """A buffer to write to, mostly a new one; filled first, if not all of it is written."""
        known = [s for s in (*self.params, *self.own) if s.shape == shape]
        if known and not fresh and self.chance(0.35):
            return self.rng.choice(known)
        made = Source(self.name("X"), shape, most)
        if not full or not self.certain or self.chance(0.1):
            self.fill(made)
        self.own.append(made)
        return made

    def fill(self, target: Source) -> None:
        loops = [Axis(self.name("z"), size) for size in target.shape]
        nest = Nest()
        for axis in loops:
            nest.loop(*axis)
            nest.iters.append(f"{axis.name}_ = T.axis.spatial({axis.size}, {axis.name})")
        index = ", ".join(f"{axis.name}_" for axis in loops) or "()"
        start = self.draw.fit(self.draw.constant(), target.most).text
        self.fills += nest.block(self.name("fill"), [f"{target.name}[{index}] = {start}"])

    def stored(self, target: Source, axes: Axes, value: Value) -> Lines:
        """The value stored at the axes, in their order or along them in another."""
        index = ", ".join(self.at(axis) for axis in axes) or "()"
        return [f"{target.name}[{index}] = {self.draw.fit(value, target.most).text}"]

    def at(self, axis: Axis) -> str:
        """Another element for each value of an axis."""
        name, size = axis
        if self.chance(0.75):
            return name
        forms = [f"{size - 1} - {name}", f"({name} + {self.rng.randint(1, 9)}) % {size}"]
        forms += [f"({name} * 5) % {size}"] if math.gcd(size, 5) == 1 else []
        return self.rng.choice(forms)

    # Nests

    def nest(self, sizes: Sequence[int], kinds: str = "", partly: bool = False) -> Nest:
        """Loops for axes of these sizes, bound in any order; `partly`, some iterations may lack."""
        nest = Nest([self.row] if self.row else [])
        kinds = kinds or "S" * len(sizes)
        order = list(range(len(sizes)))
        if self.chance(0.25):
            self.rng.shuffle(order)
        axes: dict[int, Axis] = {}
        if self.row and sizes and sizes[0] == self.row.size and kinds[0] != "R":
            axes[0] = self.iter(nest, sizes[0], kinds[0], self.row.name)
            order.remove(0)
        if len(order) == 2 and self.chance(0.1):
            (a, b), f = order, self.name("i")
            nest.loop(f, sizes[a] * sizes[b])
            axes[a] = self.iter(nest, sizes[a], kinds[a], f"{f} // {sizes[b]}")
            axes[b] = self.iter(nest, sizes[b], kinds[b], f"{f} % {sizes[b]}")
            order = []
        for at in order:
            if partly and self.chance(0.08):
                nest.heads.append(f"if {self.draw.condition(nest.loops)}:")
                nest.full = False
            axes[at] = self.bound(nest, sizes[at], kinds[at], partly)
        nest.axes = [axes[at] for at in range(len(sizes))]
        if partly and self.chance(0.12):
            nest.tests.append(self.draw.condition(nest.loops))
            nest.full = False
        return nest

    def iter(self, nest: Nest, size: int, kind: str, value: str) -> Axis:
        axis = Axis(self.name("v"), size)
        word = {"S": "spatial", "R": "reduce", "O": "opaque"}[kind]
        nest.iters.append(f"{axis.name} = T.axis.{word}({size}, {value})")
        return axis

    def bound(self, nest: Nest, size: int, kind: str, partly: bool) -> Axis:
        """An axis over a loop: as it is, turned, cut, shifted, with others that do nothing."""
        i = self.name("i")
        weights = {"straight": 60, "turned": 6, "cut": 8, "shifted": 5, "unit": 6}
        if partly:
            weights |= {"ragged": 5, "triangle": 5, "short": 3, "empty": 2}
        match self.rng.choices(list(weights), list(weights.values()))[0]:
            case "turned" if kind == "S":
                nest.loop(i, size)
                return self.iter(nest, size, kind, f"{size - 1} - {i}")
            case "cut":
                by, j = self.rng.choice((2, 3)), self.name("i")
                nest.loop(i, -(-size // by))
                nest.loop(j, by)
                if size % by:
                    nest.tests.append(f"{i} * {by} + {j} < {size}")
                return self.iter(nest, size, kind, f"{i} * {by} + {j}")
            case "shifted":
                nest.loop(i, size + 1)
                nest.tests.append(f"{i} >= 1")
                return self.iter(nest, size, kind, f"{i} - 1")
            case "unit":
                nest.loop(self.name("u"), 1)
            case "ragged" | "triangle" | "short" | "empty" as style:
                nest.full = False
                outer = self.rng.choice([axis.name for axis in nest.loops] or ["2"])
                extents = {
                    "ragged": f"N[{outer} % 4] % {size + 1}",
                    "triangle": f"{outer} % {size} + 1",
                    "short": f"T.min(T.max({outer} - {self.rng.randint(0, 3)}, 0), {size})",
                    "empty": "0",
                }
                nest.loop(i, size, extents[style])
                return self.iter(nest, size, kind, i)
        nest.loop(i, size)
        return self.iter(nest, size, kind, i)

    # Stages

    def sizes(self) -> tuple[int, ...]:
        rows, columns = self.shape
        shapes = [(rows, columns)] * 4 + [(rows,), (rows,), (rows, columns, 2), (rows * columns,)]
        shapes += [(columns, rows), (rows + 2, columns + 2)]
        return self.rng.choice(shapes)

    def map(self) -> Lines:
        """Each element by itself, now and then in two branches or beside another."""
        shape = self.sizes()
        nest = self.nest(shape, partly=True)
        value = self.draw.value(self.sources(), nest.axes)
        branch, full = self.rng.choices(("", "if", "else"), (84, 8, 8))[0], nest.full
        target = self.target(shape, value.most, full and branch != "if")
        if f"{target.name}[" in value.text:
            nest.iters = [line.replace("spatial", "opaque") for line in nest.iters]
        stores = self.stored(target, nest.axes, value)
        others = self.sources(target.name)
        if branch:
            stores = [f"if {self.draw.condition(nest.axes, others)}:", *indented(stores)]
        if branch == "else":
            left, other = stores[1].split(" = ")[0], self.draw.leaf(others, nest.axes)
            stores += ["else:", f"{left} = {self.draw.fit(other, target.most).text}"]
        elif not branch and self.chance(0.12):
            beside = self.draw.leaf(others, nest.axes)
            second = self.target(shape, beside.most, full, fresh=True)
            stores += self.stored(second, nest.axes, beside)
        return nest.block(self.name("b"), stores)

    def reduction(self) -> Lines:
        """A sum, a product or the like along axes of any size, from a start in the block or not."""
        shape = self.rng.choice([self.shape, self.shape, self.shape[:1], self.shape[:1], ()])
        most = self.rng.choice(((1, 2, 3, 5, 7), (1, 2, 3)))
        sizes = [self.rng.choice(most) for _ in range(2 if len(most) == 3 else 1)]
        started, kinds = self.chance(0.75), "S" * len(shape) + "R" * len(sizes)
        nest = self.nest((*shape, *sizes), kinds, partly=True)
        kept, sources = nest.axes[: len(shape)], self.sources()
        start = self.draw.value(sources, kept, 0)
        terms = [self.draw.value(sources, nest.axes) for _ in range(self.rng.choice((1, 1, 1, 2)))]
        times = math.prod(sizes) * (1 if started else 3)
        update = self.draw.update("?", terms, times, max(3, start.most))
        whole = nest.full and started
        target = self.target(shape, update.most, whole, fresh=self.draw.floats)
        if f"{target.name}[" in update.text + start.text:
            nest.iters = [re.sub("spatial|reduce", "opaque", line) for line in nest.iters]
        element = f"{target.name}[{', '.join(axis.name for axis in kept) or '()'}]"
        body = [f"{element} = {update.text.replace('?', element)}"]
        return nest.block(self.name("b"), body, [f"{element} = {start.text}"] if started else [])

    def scan(self) -> Lines:
        """Each element from the one before or behind it."""
        shape = self.rng.choice([self.shape, self.shape[:1]])
        nest = self.nest(shape, "S" * (len(shape) - 1) + "O")
        value = self.draw.value(self.sources(), nest.axes, 1)
        target = self.target(shape, min(value.most, 3), full=True, fresh=True)
        name, size = nest.axes[-1]
        back = self.chance(0.7)
        test = f"{name} >= 1" if back else f"{name} < {size - 1}"
        parts = [axis.name for axis in nest.axes[:-1]]
        beside = ", ".join([*parts, f"{name} {'-' if back else '+'} 1"])
        if not back:
            self.fill(target)
        next_to = Value(f"{target.name}[{beside}]", target.most)
        taken = self.draw.fit(self.draw.combined(next_to, value), target.most)
        other = self.draw.fit(value, target.most)
        element = f"{target.name}[{', '.join([*parts, name])}]"
        chosen = f"{element} = T.if_then_else({test}, {taken.text}, {other.text})"
        return nest.block(self.name("b"), [chosen])

    def scatter(self) -> Lines:
        """Stores where the data say, or at every second element."""
        size = self.rng.choice([3, 5, 8])
        nest = self.nest((size,), "O")
        name = nest.axes[0].name
        value = self.draw.value(self.sources(), nest.axes, 1)
        index = f"{name} * 2 + {self.rng.choice((0, 1))}"
        shape = (2 * size,)
        if self.chance(0.5):
            shape = self.rng.choice([self.shape[:1], (math.prod(self.shape),)])
            index = f"(N[{name} % 4] + {self.rng.choice((name, 1))}) % {shape[0]}"
        target = self.target(shape, value.most, full=False)
        text = self.draw.fit(value, target.most).text
        return nest.block(self.name("b"), [f"{target.name}[{index}] = {text}"])

    def inside(self, around: Axes, target: Source, row: str, sources: list[Source]) -> Lines:
        """Plain loops over all axes of a target but the first, under conditions."""
        nest = Nest(around)
        own = [Axis(self.name("q"), size) for size in target.shape[1:]]
        for axis in own:
            if self.chance(0.4):
                nest.heads.append(f"if {self.draw.condition(nest.loops, sources)}:")
            nest.loop(*axis)
        if self.chance(0.4):
            nest.heads.append(f"if {self.draw.condition(nest.loops, sources)}:")
        value = self.draw.fit(self.draw.value(sources, nest.loops, 1), target.most)
        index = ", ".join([row, *(axis.name for axis in own)])
        return nest.around([f"{target.name}[{index}] = {value.text}"])

    def loops(self) -> Lines:
        """Loops without a block."""
        target = self.target(self.shape, 3, full=False)
        axis = Axis(self.name("i"), self.shape[0])
        body = self.inside([axis], target, axis.name, self.sources(target.name))
        return [f"for {axis.name} in range({axis.size}):", *indented(body)]

    def loops_in_a_block(self) -> Lines:
        """A block for each row, which goes over the columns itself."""
        target = self.target(self.shape, 3, full=False)
        nest = self.nest(self.shape[:1], partly=True)
        body = self.inside(nest.axes, target, nest.axes[0].name, self.sources(target.name))
        return nest.block(self.name("b"), body)

    def padded(self) -> Lines:
        """A copy with a border, whose windows may be added up."""
        source = self.rng.choice([s for s in self.sources() if len(s.shape) == 2])
        low, high = self.rng.choice((0, 1, 1)), self.rng.choice((0, 1, 2))
        shape = tuple(size + low + high for size in source.shape)
        nest = self.nest(shape)
        tests = [f"{v} >= {low} and {v} < {n - high}" for v, n in nest.axes]
        index = ", ".join(f"{v} - {low}" for v, _ in nest.axes)
        border = self.draw.constant()
        choose = self.rng.choice(("T.Select", "T.if_then_else"))
        text = f"{choose}({' and '.join(tests)}, {source.name}[{index}], {border.text})"
        target = self.target(shape, max(source.most, border.most), full=True, fresh=True)
        return nest.block(self.name("b"), self.stored(target, nest.axes, Value(text)))

    def nested(self) -> Lines:
        """A block for each row, in it a block for each column, and a buffer of the row's own."""
        nest = self.nest(self.shape[:1])
        row, sources = nest.axes[0], self.sources()
        body: Lines = []
        if self.chance(0.6):
            local = Source(self.name("L"), self.shape[1:])
            value, first = self.draw.value(sources, [row], 1), Nest([row])
            first.axes = [self.bound(first, self.shape[1], "S", partly=False)]
            value = self.draw.fit(self.draw.value(sources, [row, *first.axes], 1), 3)
            body += [f"{local.name} = T.alloc_buffer({local.shape}, '{self.dtype}')"]
            body += first.block(self.name("b"), self.stored(local, first.axes, value))
            sources = [local, local]
        second = Nest([row])
        axes = [
            self.iter(second, row.size, "S", row.name),
            self.bound(second, self.shape[1], "S", partly=False),
        ]
        value = self.draw.value(sources, axes, 1)
        target = self.target(self.shape, value.most, full=True, fresh=True)
        body += second.block(self.name("b"), self.stored(target, axes, value))
        return nest.block(self.name("b"), body)

    def tiles(self) -> Lines:
        """Blocks of tiles."""
        shape = self.rng.choice([self.shape, (8, 4), (6, 6)])
        tile = [self.rng.choice([n for n in (1, 2, 3, 4) if size % n == 0]) for size in shape]
        counts = [size // n for size, n in zip(shape, tile, strict=True)]
        outer, inner = self.nest(counts), Nest()
        axes = []
        for (at, _), size, n in zip(outer.axes, shape, tile, strict=True):
            i = inner.loop(self.name("i"), n)
            axes.append(self.iter(inner, size, "S", f"{at} * {n} + {i}"))
        value = self.draw.value(self.sources(), axes, 1)
        target = self.target(shape, value.most, full=True, fresh=True)
        body = inner.block(self.name("b"), self.stored(target, axes, value))
        return outer.block(self.name("b"), body)
