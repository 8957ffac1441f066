"""Prefetches: a loop annotated `prefetch: "C"` asks for what its iteration touches of C.

With `("C", "i")`, it asks for what it touches of C in the next iteration of the loop `i` around it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from minimlc.codegen.llvm.expr import Expressions
from minimlc.codegen.llvm.value import MEMORY, SIZE, Value, constant
from minimlc.dtypes import INDEX
from minimlc.node import Node, walk
from minimlc.tir.analysis.access import Access, accesses
from minimlc.tir.analysis.regions import enclosing_box
from minimlc.tir.nodes import Alloc, Buffer, For, PrimFunc, Seq, substitute

LINE = 64
"""Bytes of a cache line."""

MOST = 64
"""At most so many prefetches per iteration: the machine drops what it cannot keep track of."""


@dataclass
class Prefetches(Expressions):
    """Writes prefetches into `code`; `program` is the lowered function."""

    program: PrimFunc = field(default_factory=lambda: PrimFunc((), (), Seq(())))

    def prefetch(self, loop: For) -> None:
        """Ask for the elements of the buffers that the loop's note names.

        They are asked for when an iteration begins. A prefetch cannot fail or change a result,
        so the box of elements may reach beyond what guards let the iteration touch, and beyond
        the last iteration.
        """
        notes = [value for key, value in loop.annotations if key == "prefetch"]
        if not notes or self.lanes is not None or self.sites is not None:
            return
        # What has its storage inside of the loop is not there when an iteration begins.
        own = {part.buffer for part in walk(loop.body) if isinstance(part, Alloc)}
        items = [item for item in accesses(self.program) if loop in item.loops]
        for note in notes:
            name, ahead = note if isinstance(note, tuple) and len(note) == 2 else (note, None)
            touched: dict[Buffer, list[Access]] = {}
            for item in items:
                if item.buffer.name == name and item.buffer not in own:
                    touched.setdefault(item.buffer, []).append(item)
            for buffer, found in touched.items():
                self._ask_for(buffer, found, loop, ahead)

    def _ask_for(self, buffer: Buffer, items: list[Access], loop: For, ahead: object) -> None:
        around = items[0].loops
        outer = [part.var for part in around[: around.index(loop) + 1]]
        box = enclosing_box(buffer, items, outer)
        later: dict[Node, Node] = {var: var + 1 for var in outer if var.name == ahead}
        starts = [self.expr(substitute(side.start, later)) for side in box]
        size = SIZE[MEMORY[buffer.dtype]]
        columns: list[Sequence[int]] = [range(min(side.extent, MOST)) for side in box]
        if box:
            last = box[-1].extent - 1
            columns[-1] = [*range(0, last, LINE // size)[:MOST], last]
        write = int(any(item.is_write for item in items))
        for place in islice(product(*columns), MOST):
            flat = constant(0, INDEX)
            for start, offset, extent in zip(starts, place, buffer.shape, strict=True):
                flat = self.binary("*", flat, constant(extent, INDEX))
                here = self.binary("+", start, constant(offset, INDEX))
                flat = self.binary("+", flat, here)
            self._ask(buffer, flat, write)

    def _ask(self, buffer: Buffer, flat: Value, write: int) -> None:
        element = MEMORY[buffer.dtype]
        pointer = f"getelementptr {element}, ptr {self.pointers[buffer]}, i64 {flat.text}"
        target = self.code.module.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
        at = self.code.value(pointer)
        self.code.do(f"call void {target}(ptr {at}, i32 {write}, i32 3, i32 1)")
