"""Statements and functions of the loop IR as C text: loops, indices, names as written by hand."""

from collections.abc import Iterable
from functools import cached_property
from math import prod

from minimlc.loops.ir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Const,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Select,
    Store,
    Unary,
    While,
)
from minimlc.loops.lower.lower import MOST_COPIES
from minimlc.loops.proofs.access import Access, accesses
from minimlc.loops.proofs.arith import has_loads
from minimlc.loops.proofs.legality import carried_dependence
from minimlc.loops.values.dtypes import DTYPES, INDEX
from minimlc.loops.values.node import Node, structural_equal, walk
from minimlc.targets.c.expr import PLUS, STORED, VALUE, Expressions, converted
from minimlc.targets.c.names import LOCAL, comment, unique_names
from minimlc.targets.source.writer import Statements, Syntax, Text

STACK_BYTES = 32 * 1024
"""Buffers up to this size are arrays in the function's frame, larger ones come from malloc."""

FRAME_BYTES = 256 * 1024
"""Bytes that a function's arrays may take together: threads can have small stacks."""

NO_MEMORY = 2
"""The status that a function returns when malloc fails."""

SYNTAX = Syntax(
    loop="for (int64_t {0} = 0; {0} < {1}; ++{0}) {{",
    let="const {} {} = {};",
    store="{} = {};",
    condition="if ({}) {{",
    otherwise="} else {",
    result="return {};",
    end="}",
    types=VALUE,
    repeat="while ({}) {{",
)
LINE = 100
_INDENT = "    "


class Function(Statements):
    """Writes one C function, and has what its callers and its compiler must know of it."""

    exprs: Expressions

    def __init__(self, symbol: str, program: PrimFunc, defined: Iterable[str] = ()):
        super().__init__(SYNTAX, Expressions(), unique_names({*LOCAL, *defined, symbol}))
        self.symbol = symbol
        self.program = program
        self.copies = 1
        self.together: set[str] = set()

    @cached_property
    def accesses(self) -> list[Access]:
        return list(accesses(self.program))

    @cached_property
    def on_heap(self) -> set[Buffer]:
        """The buffers that come from malloc."""
        heap, frame = set(), 0
        for part in walk(self.program.body):
            if isinstance(part, Alloc):
                size = prod(part.buffer.shape) * DTYPES[part.buffer.dtype].bits // 8
                if size > STACK_BYTES or frame + size > FRAME_BYTES:
                    heap.add(part.buffer)
                else:
                    frame += size
        return heap

    @property
    def guarded(self) -> bool:
        """Whether some access to memory is under a condition."""
        return any(map(_guards, walk(self.program.body)))

    @property
    def backward(self) -> bool:
        """Whether some index may decrease as a loop advances."""
        touched = (part for part in walk(self.program.body) if isinstance(part, Load | Store))
        indices = (at for part in touched for at in part.indices)
        return any(_falls(part) for at in indices for part in walk(at))

    @property
    def can_fail(self) -> bool:
        """Whether the function returns a status."""
        return bool(self.on_heap)

    def text(self) -> str:
        """The whole definition."""
        header = self._header()
        if self.can_fail:
            self.line("int status = 0;")
        self.visit(self.program.body)
        if self.can_fail:
            self.line("return status;")
        return "\n".join([header, *self.lines, "}"])

    def visit_Block(self, item: Block) -> None:
        self.line(comment(f"block {item.name}"))
        self.visit(item.body)

    def _header(self) -> str:
        result = "int" if self.can_fail else "void"
        written = {part.buffer for part in walk(self.program.body) if isinstance(part, Store)}
        listed = [self._parameter(p, p in written) for p in self.program.params]
        one = f"{result} {self.symbol}({', '.join(listed) or 'void'}) {{"
        if len(one) <= LINE:
            return one
        return f"{result} {self.symbol}(\n{_INDENT}" + f",\n{_INDENT}".join(listed) + "\n) {"

    def _parameter(self, buffer: Buffer, written: bool) -> str:
        name = self.declare(buffer)
        first, inner = dimensions(buffer)
        start = "" if written else "const "
        return f"{start}{STORED[buffer.dtype]} {name}[restrict {first}]{inner}"

    def visit_Store(self, item: Store) -> None:
        update = updates(item)
        if update is None:
            super().visit_Store(item)
        else:
            place, change = self.exprs.element(item), self.exprs.visit(update.b)
            self.line(f"{place} {update.op}= {change.code};")

    def visit_For(self, item: For) -> None:
        extent, name = self._extent(item), self.declare_loop(item)
        saved = self.copies, self.together
        self._pragma(item)
        if item.var.dtype != INDEX:
            self.exprs.names[item.var] = converted(Text(name), VALUE[item.var.dtype])
        with self.block(SYNTAX.loop.format(name, extent)):
            self.visit(item.body)
        self.scope.release(name, item.var.name)
        self.copies, self.together = saved

    def _extent(self, item: For) -> str:
        """The loop's extent. It is read once, before the loop: its body might change it."""
        text = self.exprs.visit(item.extent).inside(PLUS)
        if not has_loads(item.extent):
            return text
        name = self.scope.take(f"{item.var.name}_extent")
        self.line(f"const int64_t {name} = {text};")
        return name

    def _pragma(self, item: For) -> None:
        """Write a pragma for a loop: it states only what is proven of the loop."""
        if item.kind == "unrolled" and isinstance(item.extent, Const):
            extent = int(item.extent.value)
            if extent > 1 and extent * self.copies <= MOST_COPIES:
                self.copies *= extent
                self.line(f"#pragma GCC unroll {extent}")
        elif self._may_run_together(item):
            self.together = {*self.together, item.kind}
            fails = " reduction(|: status)" if self._allocates(item) else ""
            what = "simd" if item.kind == "vectorized" else f"parallel for{fails}"
            self.line(f"#pragma omp {what}")

    def _may_run_together(self, item: For) -> bool:
        """Whether the iterations are independent, proven of the code as lowering left it."""
        free = item.kind == "parallel" and not self.together
        if item.kind == "vectorized":
            free = "vectorized" not in self.together and not self._allocates(item)
        if not free:
            return False
        private = [part.buffer for part in walk(item.body) if isinstance(part, Alloc)]
        return carried_dependence(item, self.accesses, private) is None

    def _allocates(self, item: For) -> bool:
        return any(isinstance(p, Alloc) and p.buffer in self.on_heap for p in walk(item.body))

    def visit_Alloc(self, item: Alloc) -> None:
        buffer = item.buffer
        name, kind = self.declare(buffer), STORED[buffer.dtype]
        first, inner = dimensions(buffer)
        if buffer not in self.on_heap:
            self.line(f"{kind} {name}[{first}]{inner};")
            self.visit(item.body)
            return
        pointer = f"(*{name}){inner}" if inner else f"*{name}"
        self.line(f"{kind} {pointer} = malloc(sizeof({kind}[{first}]{inner}));")
        with self.block(f"if ({name} == NULL) {{"):
            self.line(f"status = {NO_MEMORY};")
            self.otherwise()
            self.visit(item.body)
            self.line(f"free({name});")


def _falls(part: Node) -> bool:
    """Whether part of an index decreases as its operands increase."""
    match part:
        case Binary("-", _, b):
            return not isinstance(b, Const)
        case Binary("*", a, b):
            return any(isinstance(side, Const) and side.value < 0 for side in (a, b))
        case _:  # other nodes: they increase with their operands, or have none
            return isinstance(part, Unary)


def _guards(item: Node) -> bool:
    match item:
        case Select(_, a, b):
            return has_loads(a) or has_loads(b)
        case Binary(_, _, b) if item.op in ("and", "or"):
            return has_loads(b)
        case _:  # other nodes: all their parts are evaluated
            return isinstance(item, IfThenElse | While)


def dimensions(buffer: Buffer) -> tuple[int, str]:
    """The first dimension, and the others as C writes them: at least one, and none is 0."""
    first, *rest = [max(1, size) for size in buffer.shape] or [1]
    return first, "".join(f"[{size}]" for size in rest)


def updates(item: Store) -> Binary | None:
    """The update that C's `+=` or its like stores: in floats, as integers may wrap."""
    value = item.value
    if not isinstance(value, Binary) or value.dtype not in ("float64", "float32"):
        return None
    fits = value.op in ("+", "-", "*", "/")
    return value if fits and structural_equal(value.a, Load(item.buffer, item.indices)) else None
