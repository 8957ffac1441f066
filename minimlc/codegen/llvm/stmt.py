"""Statements of the loop IR as LLVM instructions."""

from collections.abc import Callable
from dataclasses import dataclass, field

from minimlc.codegen.llvm.memory import Lanes
from minimlc.codegen.llvm.tensor import MOST_COPIES, Tensors
from minimlc.codegen.llvm.value import MEMORY, SIZE, Value, constant
from minimlc.dtypes import INDEX
from minimlc.errors import BuildError
from minimlc.node import walk
from minimlc.tir.analysis.access import accesses
from minimlc.tir.analysis.legality import carried_dependence
from minimlc.tir.nodes import Alloc, Block, For, IfThenElse, Load, Seq, Stmt, Store

WIDEST = 64
"""The most lanes of one vector; LLVM cuts it into registers."""

STRAIGHT = 128
"""A vectorized loop up to this long becomes straight vector code, a longer one a loop of it."""

STACK_BYTES = 32 * 1024
"""Buffers up to this size live in the function's frame, larger ones on the heap."""

FRAME_BYTES = 256 * 1024
"""What a function's buffers may take of its frame together: the copies of an unrolled loop each
have their own, and threads can have small stacks."""


@dataclass
class Statements(Tensors):
    """Writes statements into `code`."""

    vector_bits: int = 128
    copies: int = 1
    heap: list[str] = field(default_factory=list)
    frame: int = 0
    can_fail: bool = False

    def stmt(self, item: Stmt) -> None:
        """Write a statement."""
        match item:
            case Seq():
                for part in item.stmts:
                    self.stmt(part)
            case For():
                self._for(item)
            case Store():
                self.store(item)
            case IfThenElse():
                self._if(item)
            case Alloc():
                self._alloc(item)
            case Block():
                self.tensor(item)
            case _:
                raise BuildError(f"LLVM code has no statement {type(item).__name__}")

    def _for(self, item: For) -> None:
        name = dict(item.annotations).get("nontemporal")
        if name is None or item.kind == "parallel":
            self._any_loop(item)
            return
        saved, self.nontemporal = self.nontemporal, name
        self._any_loop(item)
        self.nontemporal = saved
        # Such stores are not ordered with others: whoever is told that the loop is done sees them.
        self.code.do("fence seq_cst")

    def _any_loop(self, item: For) -> None:
        extent = self.expr(item.extent)
        if extent.lanes:
            self._each_lane(item)
        elif item.kind == "unrolled" and self._unrollable(extent):
            self._unrolled(item, int(extent.const or 0))
        elif item.kind == "vectorized" and self._side_by_side(item):
            self._vectorized(item, extent)
        elif item.kind == "parallel" and self._side_by_side(item):
            self.parallel(item, extent)
        else:
            self.loop(extent, lambda number: self.iteration(item, number))

    def iteration(self, item: For, number: Value) -> None:
        """Write the loop's body for one value of its variable."""
        self.variables[item.var] = self.cast(number, item.var.dtype)
        if item.annotations:
            self.prefetch(item)
        self.stmt(item.body)

    def loop(self, extent: Value, body: Callable[[Value], None]) -> None:
        """Write `body` once, to run for each number in 0 ... extent-1."""
        if extent.const is not None and extent.const <= 1:
            if extent.const == 1:
                body(constant(0, INDEX))
            return
        code = self.code
        head, latch, done = code.name("loop"), code.name("next"), code.name("done")
        number, following = f"%{code.name('i')}", f"%{code.name('i')}"
        if extent.const is None:
            some = self.apply("icmp sgt", "bool", extent, constant(0, INDEX))
            code.branch(some.text, head, done)
        else:
            code.jump(head)
        before = code.label
        code.block(head)
        code.do(f"{number} = phi i64 [0, %{before}], [{following}, %{latch}]")
        body(Value(number, INDEX))
        code.jump(latch)
        code.block(latch)
        code.do(f"{following} = add nuw nsw i64 {number}, 1")
        more = code.value(f"icmp slt i64 {following}, {extent.text}")
        code.branch(more, head, done)
        code.block(done)

    def _unrollable(self, extent: Value) -> bool:
        return extent.const is not None and self.copies * extent.const <= MOST_COPIES

    def _unrolled(self, item: For, extent: int) -> None:
        saved, self.copies = self.copies, self.copies * max(extent, 1)
        for number in range(extent):
            self.iteration(item, constant(number, INDEX))
        self.copies = saved

    def _side_by_side(self, item: For) -> bool:
        """Whether to run iterations together; checked code runs in order, as do inner lanes.

        `verify` proved it for the program, this proves it of the code that lowering made: a
        mistake between the two costs speed and not the result.
        """
        if self.lanes is not None or self.sites is not None:
            return False
        own = [part.buffer for part in walk(item.body) if isinstance(part, Alloc)]
        return carried_dependence(item, accesses(self.program), own) is None

    def _vectorized(self, item: For, extent: Value) -> None:
        """Pieces of a power of two lanes: straight code for a short loop, else a loop and a tail.

        `extent` need not be a multiple of anything: what is left over becomes smaller pieces.
        """
        start = 0
        step = self._natural_lanes(item)
        if extent.const is None:
            extent = self.binary("max", extent, constant(0, INDEX))
            wide = self.binary("//", extent, constant(step, INDEX))
            self._chunks(item, wide, step)
            done = self.binary("*", wide, constant(step, INDEX))
            rest = self.binary("-", extent, done)
            self.loop(rest, lambda n: self.iteration(item, self.binary("+", done, n)))
            return
        if extent.const > STRAIGHT:
            count = int(extent.const) // step
            self._chunks(item, constant(count, INDEX), step)
            start = count * step
        while start < extent.const:
            left = int(extent.const) - start
            width = min(WIDEST, 1 << (left.bit_length() - 1))
            self._piece(item, constant(start, INDEX), width)
            start += width

    def _chunks(self, item: For, count: Value, step: int) -> None:
        def chunk(number: Value) -> None:
            self._piece(item, self.binary("*", number, constant(step, INDEX)), step)

        self.loop(count, chunk)

    def _piece(self, item: For, first: Value, width: int) -> None:
        if width == 1:
            self.iteration(item, first)
            return
        number = Value("0", INDEX, width, 0, 1)
        self.lanes = Lanes(item.var, first, number)
        self.iteration(item, self.binary("+", first, number))
        self.lanes = None

    def _natural_lanes(self, item: For) -> int:
        """Two registers' worth of the widest element that the loop touches."""
        touched = [part.buffer for part in walk(item.body) if isinstance(part, Load | Store)]
        size = max((SIZE[MEMORY[buffer.dtype]] for buffer in touched), default=4)
        return min(WIDEST, max(4, 2 * self.vector_bits // (8 * size)))

    def _each_lane(self, item: Stmt) -> None:
        """Run a statement lane after lane, where the lanes go different ways."""

        def one(number: Value) -> None:
            self.in_lane(number, lambda: self.stmt(item))

        self.loop(constant(self.width, INDEX), one)

    def _if(self, item: IfThenElse) -> None:
        condition = self.expr(item.condition)
        if condition.const is not None:
            chosen = item.then_case if condition.const else item.else_case
            if chosen is not None:
                self.stmt(chosen)
            return
        if not condition.lanes:
            self._branch(condition.text, item.then_case, item.else_case)
            return
        code = self.code
        mixed, join = code.name("mixed"), code.name("join")
        together = code.name("together")
        code.branch(self.reduce("and", condition), together, mixed)
        code.block(together)
        self.stmt(item.then_case)
        code.jump(join)
        code.block(mixed)
        stores = item.else_case is None and _is_stores(item.then_case)
        if stores and self.maskable(item.then_case):
            self.under(condition, lambda: self.stmt(item.then_case))
        else:
            self._each_lane(item)
        code.jump(join)
        code.block(join)

    def _branch(self, condition: str, then_case: Stmt, else_case: Stmt | None) -> None:
        code = self.code
        then, join = code.name("then"), code.name("join")
        other = code.name("else") if else_case is not None else join
        code.branch(condition, then, other)
        code.block(then)
        self.stmt(then_case)
        code.jump(join)
        if else_case is not None:
            code.block(other)
            self.stmt(else_case)
            code.jump(join)
        code.block(join)

    def _alloc(self, item: Alloc) -> None:
        buffer = item.buffer
        if buffer in self.tiles:
            self.stmt(item.body)
            return
        count = max(self.width, 1)
        for size in buffer.shape:
            count *= size
        self.private[buffer] = self.width
        element = MEMORY[buffer.dtype]
        size = count * SIZE[element]
        if size <= STACK_BYTES and self.frame + size <= FRAME_BYTES:
            self.frame += size
            self.pointers[buffer] = self.code.on_stack(element, count)
            self.stmt(item.body)
        else:
            self._on_heap(item, size)

    def _on_heap(self, item: Alloc, size: int) -> None:
        """Storage from malloc, aligned to a cache line; the slot in `heap` is for the way out."""
        code = self.code
        malloc = code.module.declare("malloc", "noalias ptr", "i64")
        free = code.module.declare("free", "void", "ptr")
        slot = f"%{code.name('heap')}"
        code.entry.append(f"  {slot} = alloca ptr, align 8")
        code.entry.append(f"  store ptr null, ptr {slot}, align 8")
        self.heap.append(slot)
        self.can_fail = True
        raw = code.value(f"call noalias ptr {malloc}(i64 {size + 64})")
        failed, got = code.name("nomemory"), code.name("got")
        code.branch(code.value(f"icmp eq ptr {raw}, null"), failed, got)
        code.block(failed)
        code.do("store i32 2, ptr %status, align 4")
        code.jump("fail")
        code.block(got)
        code.do(f"store ptr {raw}, ptr {slot}, align 8")
        number = code.value(f"ptrtoint ptr {raw} to i64")
        offset = code.value(f"sub i64 0, {number}")
        offset = code.value(f"and i64 {offset}, 63")
        self.pointers[item.buffer] = code.value(
            f"getelementptr inbounds i8, ptr {raw}, i64 {offset}"
        )
        self.stmt(item.body)
        code.do(f"call void {free}(ptr {raw})")
        code.do(f"store ptr null, ptr {slot}, align 8")

    def finish(self) -> None:
        """Write the function's ends: success, and the way out of a failure."""
        code = self.code
        code.entry.append("  %status = alloca i32, align 4")
        code.entry.append("  store i32 0, ptr %status, align 4")
        self.leave()
        code.do("ret i32 0")
        if not (self.can_fail or self.sites):
            return
        code.block("fail")
        for slot in self.heap:
            pointer = code.value(f"load ptr, ptr {slot}, align 8")
            free = code.module.declare("free", "void", "ptr")
            code.do(f"call void {free}(ptr {pointer})")
        self.leave()
        code.do(f"ret i32 {code.value('load i32, ptr %status, align 4')}")

    def parallel(self, item: For, extent: Value) -> None:
        raise NotImplementedError


def _is_stores(item: Stmt) -> bool:
    parts = item.stmts if isinstance(item, Seq) else (item,)
    return all(isinstance(part, Store) for part in parts)
