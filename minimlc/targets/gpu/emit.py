"""Kernels as text in a language of GPUs: one emitter, and a record of spellings for each language.

Expressions, names and the definitions of operations are as in target "c", so a kernel reads as
the C function does: the user's names, one value for each axis of the launch, barriers with the
reason why they are there.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import NamedTuple

from minimlc.loops.ir.nodes import (
    SHARED,
    Alloc,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Select,
    Store,
    Var,
)
from minimlc.loops.ir.walks import stored_in
from minimlc.loops.lower.lower import MOST_COPIES
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import Node, nodes_of, walk
from minimlc.targets.c.expr import PLUS, UNARY, Expressions
from minimlc.targets.c.functions import C_DIALECT, function_texts
from minimlc.targets.c.names import comment, unique_names
from minimlc.targets.c.stmt import updates
from minimlc.targets.gpu.kernels import Axis, Barrier, Kernel, Launches, kernels
from minimlc.targets.gpu.lanes import Copy, Several, Wide, copy_of, several_of, wide_of
from minimlc.targets.gpu.launch import launch_text
from minimlc.targets.gpu.limits import Limits, check_limits
from minimlc.targets.gpu.narrow import narrow
from minimlc.targets.gpu.pipelines import AHEAD
from minimlc.targets.gpu.places import LEAST, places, step_of
from minimlc.targets.gpu.shuffles import Shuffle
from minimlc.targets.gpu.warps import FRAGMENT, Warp, is_group
from minimlc.targets.source.writer import Statements, Syntax, Text

IN_FLIGHT = 8
"""Elements that a thread may wait for at a time: each takes a register."""
ALONE = 4, 8, 16
"""Bytes of a copy that goes on alone."""


class Background(NamedTuple):
    """Copies of 4, 8 or 16 bytes that a thread does not wait for: `copy` is one, to and from;
    `sent` ends the copies of a statement; `wait` is for all but the last few such statements.
    """

    copy: str
    sent: str
    wait: str


class Language(NamedTuple):
    """The spellings of kernels in a language.

    `syntax` spells statements; its loop takes a type and a start, too. `array(type, name, shape)`
    declares an array; `own` and `shared` are templates for one of a thread and of a block. `axis`
    declares a thread's place, and `places` are its sources, by the axis's letter or number.
    `header` writes the lines before a kernel's body, `memory` the lines before the kernels of a
    function. `finish` completes the text of everything. `copy` moves several elements at once: to,
    from, their number and type; `background` is for copies that go on meanwhile. `shuffle` takes a
    value from a thread some lanes on. `tiles` declares the tiles of warps, and `warp` works on
    them. A language lacks what is empty.
    """

    name: str
    title: str
    syntax: Syntax
    expressions: Callable[[], Expressions]
    stored: Mapping[str, str]
    functions: Callable[[], Mapping[str, str]]
    reserved: frozenset[str]
    array: Callable[[str, str, tuple[int, ...]], str]
    axis: str
    barrier: str
    header: Callable[["KernelText", Kernel], list[str]]
    finish: Callable[[str], str]
    places: Mapping[str, str] = {"blockIdx": "blockIdx.{0}", "threadIdx": "threadIdx.{0}"}
    shared: str = ""
    pool: tuple[str, ...] = ()
    """Declares all memory that a block shares; takes an array from it, by its first byte."""
    own: str = "{};"
    unroll: str = ""
    fetch: str = ""
    """Before a loop of more than `IN_FLIGHT` elements into shared memory: all at once would take
    as many registers.
    """
    copy: str = ""
    zero: str = ""
    """A zero that the compiler takes for a number of the thread, where it goes wrong with loops
    that all threads run alike.
    """
    wide: tuple[str, ...] = ()
    """Aligned neighbours as one value: the first one's address space, their number, and it; a value
    for so many; and an array that begins at a multiple of so many bytes.
    """
    several: str = ""
    """The type of neighbours that are loaded and stored at once: their type and number."""
    memory: Callable[[Launches, dict[Node, Text], UniqueNames], Iterable[str]] | None = None
    shuffle: str = ""
    background: Background | None = None
    tiles: Callable[[Buffer, str], str] | None = None
    warp: Callable[[Warp, Expressions], str] | None = None
    limits: Limits | None = None
    """The limits of any device; None where the limits of each are looked up."""


class Launch(NamedTuple):
    """A kernel, and its name in the text."""

    symbol: str
    kernel: Kernel


class Emitted(NamedTuple):
    """The text, and for each function the memory that it needs and its launches in order."""

    text: str
    functions: dict[str, tuple[tuple[Buffer, ...], tuple[Launch, ...]]]


def emit(functions: Mapping[str, PrimFunc], language: Language) -> Emitted:
    """Functions as kernels. `BuildError` for one that cannot be launched, or that needs what the
    language lacks.
    """
    defined = language.functions()
    names = unique_names({*language.reserved, *defined})
    emitted: dict[str, tuple[tuple[Buffer, ...], tuple[Launch, ...]]] = {}
    parts: list[str] = []
    for name, func in functions.items():
        cuda = language.background is not None
        form = kernels(name, func, C_DIALECT, shuffles=bool(language.shuffle), cuda=cuda)
        known: dict[Node, Text] = {}
        narrowed = [narrow(kernel) for kernel in form.kernels]
        for kernel in narrowed:
            _check_dtypes(kernel, language)
            if language.limits is not None:
                check_limits(kernel, language.limits)
        if language.memory is not None:
            parts.append("\n".join(language.memory(form, known, names)))
        launches = []
        for kernel in narrowed:
            free = kernel.name not in names and kernel.name not in language.reserved
            symbol = names.take(kernel.name if free else f"{kernel.name}_kernel")
            written = KernelText(language, symbol, kernel, deepcopy(names), known)
            if not language.shared:
                names.reserve(written.exprs.names[buffer].code for buffer in kernel.shared)
            parts.append(written.text)
            launches.append(Launch(symbol, kernel))
        emitted[name] = form.workspace, tuple(launches)
    code = re.sub("//.*", "", "\n".join(parts))
    helpers = function_texts(code, defined)
    return Emitted(language.finish("\n\n".join([*helpers, *parts]) + "\n"), emitted)


class KernelText(Statements):
    """Writes one kernel; `known` names what stands outside of it."""

    exprs: Expressions

    def __init__(
        self,
        language: Language,
        symbol: str,
        kernel: Kernel,
        scope: UniqueNames,
        known: Mapping[Node, Text],
    ):
        super().__init__(language.syntax, language.expressions(), scope)
        self.language, self.symbol = language, symbol
        self.copies = 1
        places = (place for item in nodes_of(kernel.body, Warp) for place in item.places)
        self.groups = any(map(is_group, walk(kernel.body)))
        self.tiles = {it.buffer for it in places if it.buffer.scope.startswith(FRAGMENT)}
        notes = (note for item in nodes_of(kernel.body, Block) for note in item.annotations)
        self.beyond = [value for key, value in notes if key == AHEAD and isinstance(value, int)]
        self.background: Background | None = None
        self.aligned = {*kernel.params, *kernel.shared}
        loops = nodes_of(kernel.body, For) if language.wide else []
        self.wide = {loop: wide for loop in loops if (wide := wide_of(loop)) is not None}
        self.spaces = dict.fromkeys(kernel.params, "__global ")
        self.spaces |= dict.fromkeys(kernel.shared, "__local ")
        self.constant = set(kernel.params) - stored_in(kernel.body)
        self.exprs.names.update(known)
        launch = launch_text(kernel.grid, kernel.block)
        header = [comment(f"{kernel.name}: {launch}"), *language.header(self, kernel)]
        used = {part for part in walk(kernel.body) if isinstance(part, Var)}
        for axis in kernel.axes:
            self.exprs.bounds.ranges[axis.var] = 0, max(0, axis.extent - 1)
            if axis.var in used:
                self.line(self._place(axis))
        if language.shared:
            self._share(kernel)
        self.zero = "0"
        kinds = {type(part) for part in walk(kernel.body)}
        if language.zero and Barrier in kinds and {IfThenElse, Select} & kinds:
            self.zero = self.scope.take("zero")
            self.line(language.zero.format(self.zero))
        self.visit(kernel.body)
        self.text = "\n".join([*header, *self.lines, "}"])

    def _share(self, kernel: Kernel) -> None:
        """Arrays of a block; where they are too large, parts of one that has the launch's size."""
        at = places(kernel.body)
        pool = self.language.pool if at.apart > LEAST else ()
        for line in pool[:1]:
            self.line(line)
        for buffer, start in at.starts.items():
            if not pool:
                self.line(self.language.shared.format(self.declared(buffer), step_of(buffer)))
            else:
                name = self.declare(buffer)
                parts = self._array(buffer, f"(&{name})"), self._array(buffer, "(*)")
                self.line(pool[1].format(*parts, start))

    def declared(self, buffer: Buffer) -> str:
        """The declaration of an array under a unique name."""
        return self._array(buffer, self.declare(buffer))

    def _array(self, buffer: Buffer, name: str) -> str:
        shape = tuple(max(1, size) for size in buffer.shape) or (1,)
        array = self.language.array(self.language.stored[buffer.dtype], name, shape)
        lanes = [wide.lanes for wide in self.wide.values() if buffer in wide.buffers]
        return self.language.wide[2].format(array, 4 * max(lanes)) if lanes else array

    def _place(self, axis: Axis) -> str:
        kind, side = axis.name.split(".")
        place = self.language.places[kind].format(side, "xyz".index(side))
        place = place if axis.extent > 1 else "0"
        types = self.syntax.types
        return self.language.axis.format(types[axis.var.dtype], self.declare(axis.var), place)

    def visit_Barrier(self, item: Barrier) -> None:
        self.line(comment(item.why))
        if self.language.background is not None and self.beyond:
            self.line(self.language.background.wait.format(min(self.beyond)))
        if self.groups and self.language.warp is not None:
            self.line("mma_visible();")
        self.line(self.language.barrier)

    def visit_Block(self, item: Block) -> None:
        if AHEAD not in dict(item.annotations):
            self.line(comment(f"block {item.name}"))
            self.visit(item.body)
            return
        self.background = self.language.background
        self.visit(item.body)
        if self.background is not None:
            self.line(self.background.sent)
        self.background = None

    def visit_Warp(self, item: Warp) -> None:
        if self.language.warp is None:
            self.visit(item.body)
        else:
            self.line(self.language.warp(item, self.exprs))

    def visit_Shuffle(self, item: Shuffle) -> None:
        places = self.exprs.element(item.target), self.exprs.element(item.source)
        self.line(self.language.shuffle.format(*places, item.down))

    def visit_Store(self, item: Store) -> None:
        if self.background is not None and isinstance(item.value, Load):  # an element is copied
            self._copy(Copy(item, item.value, 1))
            return
        change = updates(item)
        if change is None:
            super().visit_Store(item)
            return
        place = self.exprs.element(item)
        self.line(f"{place} {change.op}= {self.exprs.visit(change.b).code};")

    def visit_For(self, item: For) -> None:
        copy = copy_of(item) if self.language.copy else None
        if copy is not None and copy.buffers <= self.aligned:
            self._copy(copy)
            return
        if item in self.wide:
            self._wide(self.wide[item])
            return
        several = several_of(item) if self.language.several else None
        if several is not None and several.buffers <= self.aligned:
            self._several(several)
            return
        extent, saved = self._extent(item), self.copies
        waits = isinstance(item.extent, Const) and nodes_of(item.body, Barrier)
        start = "0" if waits else self.zero
        if item.kind in ("unrolled", "vectorized") and isinstance(item.extent, Const):
            self.copies *= max(1, int(item.extent.value))
            if self.copies <= MOST_COPIES and self.language.unroll:
                self.line(self.language.unroll)
                start = "0"
        elif self.language.fetch and _fetches(item):
            self.line(self.language.fetch)
        name = self.declare_loop(item)
        kind = self.syntax.types[item.var.dtype]
        with self.block(self.syntax.loop.format(name, extent, kind, start)):
            self.visit(item.body)
        self.scope.release(name, item.var.name)
        self.copies = saved

    def _copy(self, copy: Copy) -> None:
        places = self.exprs.element(copy.target), self.exprs.element(copy.source)
        target, source = copy.target.buffer, copy.source.buffer
        fits = target.scope.startswith(SHARED) and source in self.constant
        template = self.language.copy if copy.lanes > 1 else "{} = {};"
        if self.background is not None and fits and copy.size in ALONE:
            template = self.background.copy
        self.line(template.format(*places, copy.lanes, self.language.stored[source.dtype]))

    def _several(self, item: Several) -> None:
        """Neighbours taken at once, calculated one by one, and stored at once."""
        for array, first in item.loads.items():
            kind, name = self._lanes(array)
            self.line(f"const {kind} {name} = *(const {kind} *)&{self.exprs.element(first)};")
        kind, name = self._lanes(item.result)
        self.line(f"{kind} {name};")
        self.visit(item.loop)
        self.line(f"*({kind} *)&{self.exprs.element(item.target)} = {name};")

    def _lanes(self, array: Buffer) -> tuple[str, str]:
        """The type and the name of neighbours that are taken at once, as an array's elements."""
        name = self.declare(array)
        self.exprs.names[array] = Text(f"{name}.lane")
        return self.language.several.format(self.language.stored[array.dtype], *array.shape), name

    def _wide(self, wide: Wide) -> None:
        """Neighbours calculated at once."""
        for lanes, first in wide.loads.items():
            self.exprs.names[lanes] = Text(self._neighbours(first, wide.lanes), UNARY)
        value = self.exprs.visit(wide.target.value).code
        several = self.language.wide[1].format(wide.lanes, value)
        self.line(f"{self._neighbours(wide.target, wide.lanes)} = {several};")

    def _neighbours(self, first: Load | Store, lanes: int) -> str:
        space = self.spaces.get(first.buffer, "")
        return self.language.wide[0].format(space, lanes, self.exprs.element(first))

    def _extent(self, item: For) -> str:
        """The loop's extent; one of data is read before the loop, whose body might change it."""
        text = self.exprs.visit(item.extent).inside(PLUS)
        if not any(isinstance(part, Load) for part in walk(item.extent)):
            return text
        name = self.scope.take(f"{item.var.name}_extent")
        self.line(self.syntax.let.format(self.syntax.types[item.extent.dtype], name, text))
        return name

    def visit_Alloc(self, item: Alloc) -> None:
        if self.language.tiles is not None and item.buffer in self.tiles:
            self.line(self.language.tiles(item.buffer, self.declare(item.buffer)))
        elif item.buffer not in self.exprs.names:
            self.line(self.language.own.format(self.declared(item.buffer)))
        self.visit(item.body)


def _fetches(item: For) -> bool:
    """Whether a thread fetches more elements than it should wait for at a time."""
    many = isinstance(item.extent, Const) and item.extent.value > IN_FLIGHT
    stores = nodes_of(item.body, Store) if many and not nodes_of(item.body, For) else ()
    return any(s.buffer.scope.startswith(SHARED) and nodes_of(s.value, Load) for s in stores)


def _check_dtypes(kernel: Kernel, language: Language) -> None:
    for buffer in (*kernel.params, *kernel.shared):
        if buffer.dtype not in language.stored:
            raise lacking(language.title, f"{buffer.dtype} in memory, as {buffer.name} is")
    for part in walk(kernel.body):
        if isinstance(part, Expr) and part.dtype not in language.syntax.types:
            raise lacking(language.title, f"{part.dtype}, as in {part.script()}")


def lacking(title: str, what: str) -> BuildError:
    """The error for a feature that a language lacks."""
    return BuildError(
        f"{title} has no {what}",
        code="E511",
        hint='lib.source("cuda") and lib.source("opencl") have it',
    )


def written_in(kernel: Kernel) -> Iterable[Buffer]:
    """The parameters that a kernel writes."""
    stored = stored_in(kernel.body)
    return [buffer for buffer in kernel.params if buffer in stored]
