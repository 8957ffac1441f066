"""Statements of the loop IR as LLVM instructions."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod
from typing import NamedTuple

from minimlc.loops.ir import nodes as ir
from minimlc.loops.llvm.expr import Expressions, Lanes, is_plain
from minimlc.loops.llvm.memory import Memory
from minimlc.loops.llvm.operators import Values
from minimlc.loops.llvm.value import MEMORY, Code, Value, constant, element_size, having
from minimlc.loops.lower.bounds import Site
from minimlc.loops.lower.lower import MOST_COPIES
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.legality import carried_dependence
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.node import nodes_of, span_of, walk
from minimlc.loops.values.parts import Hook

WIDEST = 64
"""The most lanes of one vector; LLVM cuts it into registers, but conditions bit by bit: those have
lanes for one register.
"""

STRAIGHT = 128
"""A vectorized loop up to this long becomes straight vector code, a longer one a loop of it."""

STACK_BYTES = 32 * 1024
"""Buffers up to this size live in the function's frame, larger ones on the heap."""

FRAME_BYTES = 256 * 1024
"""The most bytes of a function's frame for all its buffers: each copy of an unrolled loop has
other ones, and threads can have small stacks."""


class Job(NamedTuple):
    """A lowered function, its name in machine code, and what the machine has for it."""

    program: ir.PrimFunc
    symbol: str
    features: frozenset[str]
    vector_bits: int


Parallel = Callable[["Statements", ir.For, Value], None]  # what writes a loop of an extent


class Loops:
    """Tensorized blocks, written as the loops that they hold where the room for instructions is
    missing.
    """

    tiles: Mapping[ir.Buffer, int] = {}

    def __init__(self, writer: Expressions, program: ir.PrimFunc, features: frozenset[str]) -> None:
        pass

    def write(self, block: ir.Block) -> bool:
        """Whether the block was written as an instruction."""
        return False

    def leave(self) -> None:
        """Write what comes before each of the function's returns."""


INSTRUCTIONS = Hook[type[Loops]]("instructions")
NOTES = Hook[Callable[[Expressions, ir.PrimFunc, ir.For], None]]("notes of loops")
"""Writers of code at the start of an iteration by the loop's notes, such as to prefetch."""


class Statements:
    """Writes statements into `code`: their expressions by `writer`, tensorized blocks by `tensors`.

    `copies` is how often unrolled loops around repeat the code. Buffers on the heap have their
    pointers in the slots `heap`; those in the function's frame take `frame` bytes of it.
    """

    def __init__(
        self, code: Code, job: Job, parallel: Parallel, sites: list[Site] | None = None
    ) -> None:
        self.code, self.job, self.parallel = code, job, parallel
        self.masks = "+avx512vl" in job.features
        half = "+f16c" in job.features
        self.values = Values(code, half_conversions=half, scales=self.masks)
        self.memory = Memory(self.values)
        self.writer = Expressions(self.memory, sites)
        tensors = INSTRUCTIONS.first or Loops
        self.tensors = tensors(self.writer, job.program, job.features)
        self.copies = 1
        self.heap: list[str] = []
        self.frame = 0
        self.can_fail = False

    def stmt(self, item: ir.Stmt) -> None:
        """Write a statement; code that notes its lines notes the statement's."""
        code, span = self.code, span_of(item)
        with having(code, line=span.line if span and code.module.lined else code.line):
            match item:
                case ir.Seq():
                    for part in item.stmts:
                        self.stmt(part)
                case ir.For():
                    self._for(item)
                case ir.Store():
                    self.writer.store(item)
                case ir.IfThenElse():
                    self._if(item)
                case ir.Alloc():
                    self._alloc(item)
                case ir.While():
                    self._while(item)
                case ir.Block():
                    if not self.tensors.write(item):
                        self.stmt(item.body)
                case _:
                    raise BuildError(f"LLVM code has no statement {type(item).__name__}")

    def _for(self, item: ir.For) -> None:
        name = dict(item.annotations).get("nontemporal")
        if name is None or item.kind == "parallel":
            self._any_loop(item)
            return
        with having(self.memory, nontemporal=name):
            self._any_loop(item)
        # Such stores are not ordered with others: whoever learns that the loop is done sees them.
        self.code.do("fence seq_cst")

    def _any_loop(self, item: ir.For) -> None:
        extent = self.writer.expr(item.extent)
        if extent.lanes:
            self._lane_by_lane(item)
        elif item.kind == "unrolled" and self._unrollable(extent):
            self._unrolled(item, int(extent.const or 0))
        elif item.kind == "vectorized" and self._side_by_side(item):
            self._vectorized(item, extent)
        elif item.kind == "parallel" and self._side_by_side(item):
            self.can_fail = True
            self.parallel(self, item, extent)
        else:
            self.loop(extent, lambda number: self.iteration(item, number))

    def iteration(self, item: ir.For, number: Value) -> None:
        """Write the loop's body for one value of its variable."""
        self.writer.variables[item.var] = self.values.cast(number, item.var.dtype)
        for note in NOTES:
            note(self.writer, self.job.program, item)
        self.stmt(item.body)

    def loop(self, extent: Value, body: Callable[[Value], None]) -> None:
        """Write `body` once, to run for each number in 0 ... extent-1."""
        if extent.const is not None and extent.const <= 1:
            if extent.const == 1:
                body(constant(0, INDEX))
            return
        code = self.code
        head, latch, done, number, following = code.names("loop", "next", "done", "i", "i")
        if extent.const is None:
            code.branch(self.values.apply("icmp sgt", extent, 0).text, head, done)
        else:
            code.jump(head)
        before = code.label
        code.block(head)
        code.do(f"%{number} = phi i64 [0, %{before}], [%{following}, %{latch}]")
        body(Value(f"%{number}", INDEX))
        code.jump(latch)
        code.block(latch)
        code.do(f"%{following} = add nuw nsw i64 %{number}, 1")
        more = code.value(f"icmp slt i64 %{following}, {extent.text}")
        code.branch(more, head, done)
        code.block(done)

    def _unrollable(self, extent: Value) -> bool:
        return extent.const is not None and self.copies * extent.const <= MOST_COPIES

    def _unrolled(self, item: ir.For, extent: int) -> None:
        with having(self, copies=self.copies * max(extent, 1)):
            for number in range(extent):
                self.iteration(item, constant(number, INDEX))

    def _side_by_side(self, item: ir.For) -> bool:
        """Whether to run iterations together; checked code runs in order, as do inner lanes.

        `verify` proved it for the program, this proves it for the code that lowering made: a
        mistake between the two costs speed and not the result.
        """
        return self.writer.plain and _is_independent(item, self.job.program)

    def _vectorized(self, item: ir.For, extent: Value) -> None:
        """Pieces of a power of two lanes: straight code for a short loop, else a loop and a tail.

        `extent` need not be a multiple of anything: what is left over becomes smaller pieces.
        """
        start, step, binary = 0, self._natural_lanes(item), self.values.binary
        if extent.const is None:
            extent = binary("max", extent, 0)
            wide = binary("//", extent, step)
            self._chunks(item, wide, step)
            done = binary("*", wide, step)
            rest = binary("-", extent, done)
            self.loop(rest, lambda number: self.iteration(item, binary("+", done, number)))
            return
        if extent.const > STRAIGHT:
            count = int(extent.const) // step
            self._chunks(item, constant(count, INDEX), step)
            start = count * step
        while start < extent.const:
            left = int(extent.const) - start
            width = min(self._most_lanes(item), 1 << (left.bit_length() - 1))
            first = constant(start, INDEX)
            if width < left and self._fills(item, first, 2 * width, left):
                self._piece(item, first, 2 * width, filled=left)
                return
            self._piece(item, first, width)
            start += width

    def _chunks(self, item: ir.For, count: Value, step: int) -> None:
        self.loop(count, lambda n: self._piece(item, self.values.binary("*", n, step), step))

    def _piece(self, item: ir.For, first: Value, width: int, filled: int = 0) -> None:
        """The next `width` iterations side by side, or only the `filled` first ones of them."""
        if width == 1:
            self.iteration(item, first)
            return
        number = Value("0", INDEX, width, 0, 1)
        lanes = having(self.writer, lanes=Lanes(item.var, first, number))
        with lanes, having(self.memory, filled=filled):
            self.iteration(item, self.values.binary("+", first, number))

    def _fills(self, item: ir.For, first: Value, width: int, filled: int) -> bool:
        """Whether one vector with only its first lanes filled does for a loop's last iterations: on
        machines with masks, where the other lanes may have any numbers.
        """
        fits = filled < width and 8 * width * _widest(item) <= self.job.vector_bits
        if not (fits and self.masks and self.memory.mask is None and is_plain(item.body)):
            return False
        parts = [*walk(item.body)]
        stores = [part for part in parts if isinstance(part, ir.Store)]
        loads = [part for part in parts if isinstance(part, ir.Load)]
        read = {load.buffer for load in loads}
        masked = {store.buffer for store in stores} - self.memory.roomy
        if masked and (not read or masked & read):
            return False  # sums there: LLVM keeps masked ones in memory, all through a loop
        number = Value("0", INDEX, width, 0, 1)
        with having(self.writer, lanes=Lanes(item.var, first, number)):
            ramp = self.values.binary("+", first, number)
            self.writer.variables[item.var] = self.values.cast(ramp, item.var.dtype)
            strides = self.writer.strides
            return strides(stores) == {1} and strides(loads) <= {0, 1, 2}

    def _natural_lanes(self, item: ir.For) -> int:
        """Two registers' worth of the widest element that the loop touches."""
        return min(self._most_lanes(item), max(4, 2 * self.job.vector_bits // (8 * _widest(item))))

    def _most_lanes(self, item: ir.For) -> int:
        bits = "bool" in {store.buffer.dtype for store in nodes_of(item.body, ir.Store)}
        return min(WIDEST, self.job.vector_bits // 8) if bits else WIDEST

    def _lane_by_lane(self, item: ir.Stmt) -> None:
        """Run a statement lane after lane, where the lanes go different ways."""

        def one(number: Value) -> None:
            self.writer.in_lane(number, lambda: self.stmt(item))

        self.loop(constant(self.writer.width, INDEX), one)

    def _if(self, item: ir.IfThenElse) -> None:
        condition = self.writer.expr(item.condition)
        if condition.const is not None:
            chosen = item.then_case if condition.const else item.else_case
            if chosen is not None:
                self.stmt(chosen)
            return
        if not condition.lanes:
            self._branch(condition.text, item.then_case, item.else_case)
            return
        code = self.code
        mixed, join, together = code.names("mixed", "join", "together")
        code.branch(self.values.reduce("and", condition), together, mixed)
        with code.part(together, join):
            self.stmt(item.then_case)
        with code.part(mixed, join):
            stores = item.else_case is None and _is_stores(item.then_case)
            if stores and self.writer.maskable(item.then_case):
                self.writer.under(condition, lambda: self.stmt(item.then_case))
            else:
                self._lane_by_lane(item)
        code.block(join)

    def _while(self, item: ir.While) -> None:
        if self.writer.width:
            self._lane_by_lane(item)
            return
        code = self.code
        again, body, done = code.names("again", "while", "done")
        code.jump(again)
        code.block(again)
        code.branch(self.writer.expr(item.condition).text, body, done)
        with code.part(body, again):
            self.stmt(item.body)
        code.block(done)

    def _branch(self, condition: str, then_case: ir.Stmt, else_case: ir.Stmt | None) -> None:
        code = self.code
        then, join = code.names("then", "join")
        other = code.name("else") if else_case is not None else join
        code.branch(condition, then, other)
        with code.part(then, join):
            self.stmt(then_case)
        if else_case is not None:
            with code.part(other, join):
                self.stmt(else_case)
        code.block(join)

    def _alloc(self, item: ir.Alloc) -> None:
        buffer, width = item.buffer, self.writer.width
        if buffer in self.tensors.tiles:
            self.stmt(item.body)
            return
        count = max(width, 1) * prod(buffer.shape)
        self.writer.private[buffer] = width
        size = count * element_size(buffer)
        room = self.job.vector_bits // 8 if self.masks else 0
        if size <= STACK_BYTES and self.frame + size + room <= FRAME_BYTES:
            self.frame += size + room
            count += room // element_size(buffer)
            self.memory.pointers[buffer] = self.code.on_stack(MEMORY[buffer.dtype], count)
            roomy = self.memory.roomy | {buffer} if room else self.memory.roomy
            with having(self.memory, roomy=roomy):  # a later copy may be on the heap
                self.stmt(item.body)
        else:
            self._on_heap(item, size)

    def _on_heap(self, item: ir.Alloc, size: int) -> None:
        """Storage from malloc, aligned to a cache line; the slot in `heap` is for the way out."""
        code = self.code
        slot = f"%{code.name('heap')}"
        code.entry.append(f"  {slot} = alloca ptr, align 8")
        code.entry.append(f"  store ptr null, ptr {slot}, align 8")
        self.heap.append(slot)
        self.can_fail = True
        raw = code.call("noalias ptr", "malloc", ("i64", str(size + 64)))
        code.module.declare("free", "void", "ptr")
        code.fail_where(f"icmp eq ptr {raw}, null", 2, "nomemory", "got")
        code.do(f"store ptr {raw}, ptr {slot}, align 8")
        number = code.value(f"ptrtoint ptr {raw} to i64")
        offset = code.value(f"sub i64 0, {number}")
        offset = code.value(f"and i64 {offset}, 63")
        self.memory.pointers[item.buffer] = code.place("i8", raw, offset)
        self.stmt(item.body)
        code.call("void", "free", ("ptr", raw))
        code.do(f"store ptr null, ptr {slot}, align 8")

    def finish(self) -> None:
        """Write the function's ends: success, and the way out of a failure."""
        code = self.code
        code.entry += ["  %status = alloca i32, align 4", "  store i32 0, ptr %status, align 4"]
        self.tensors.leave()
        code.do("ret i32 0")
        if not (self.can_fail or self.writer.sites):
            return
        code.block("fail")
        for slot in self.heap:
            pointer = code.value(f"load ptr, ptr {slot}, align 8")
            code.call("void", "free", ("ptr", pointer))
        self.tensors.leave()
        code.do(f"ret i32 {code.value('load i32, ptr %status, align 4')}")


# Unrolled loops ask the following of a loop inside of them once an iteration.
@lru_cache(maxsize=256)
def _is_independent(loop: ir.For, program: ir.PrimFunc) -> bool:
    """Whether it is proved that no iteration of a program's loop meets another."""
    allocated = [part.buffer for part in walk(loop.body) if isinstance(part, ir.Alloc)]
    return carried_dependence(loop, accesses(program), allocated) is None


@lru_cache(maxsize=256)
def _widest(loop: ir.For) -> int:
    """The bytes of the widest element that a loop touches."""
    touched = [part.buffer for part in walk(loop.body) if isinstance(part, ir.Load | ir.Store)]
    return max(map(element_size, touched), default=4)


def _is_stores(item: ir.Stmt) -> bool:
    parts = item.stmts if isinstance(item, ir.Seq) else (item,)
    return all(isinstance(part, ir.Store) for part in parts)
