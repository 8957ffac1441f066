"""Prefetches: a loop annotated `prefetch: "C"` asks for what its iteration touches of C.

With `("C", "i")`, it asks for what it touches of C in the next iteration of the loop `i` around it,
which is later: that comes into the second level of the caches only.
"""

from collections.abc import Sequence
from itertools import islice, product

from minimlc.loops.ir.nodes import Alloc, Buffer, For, PrimFunc, substitute
from minimlc.loops.llvm.expr import Expressions
from minimlc.loops.llvm.value import MEMORY, element_size
from minimlc.loops.proofs.access import Access, accesses
from minimlc.loops.proofs.arith import Atom, linear
from minimlc.loops.proofs.regions import enclosing_box
from minimlc.loops.values.node import Node, walk

LINE = 64
"""Bytes of a cache line."""

MOST = 64
"""At most so many prefetches per iteration: the machine drops what it cannot keep track of."""


def prefetch(writer: Expressions, program: PrimFunc, loop: For) -> None:
    """Prefetch elements of the buffers that the annotations of a program's loop name.

    They are asked for when an iteration begins. A prefetch cannot fail or change a result,
    so the box of elements may reach beyond what guards let the iteration touch, and beyond
    the last iteration.
    """
    notes = [value for key, value in loop.annotations if key == "prefetch"]
    if not notes or not writer.plain:
        return
    # What has its storage inside of the loop is not there when an iteration begins.
    inner = {part.buffer for part in walk(loop.body) if isinstance(part, Alloc)}
    items = [item for item in accesses(program) if loop in item.loops]
    for note in notes:
        name, ahead = note if isinstance(note, tuple) and len(note) == 2 else (note, None)
        touched: dict[Buffer, list[Access]] = {}
        for item in items:
            if item.buffer.name == name and item.buffer not in inner:
                touched.setdefault(item.buffer, []).append(item)
        for buffer, uses in touched.items():
            _ask_for(writer, buffer, uses, loop, ahead)


def _ask_for(
    writer: Expressions, buffer: Buffer, items: list[Access], loop: For, ahead: object
) -> None:
    around = items[0].loops
    outer = [part.var for part in around[: around.index(loop) + 1]]
    box = enclosing_box(buffer, items, outer)
    later: dict[Node, Node] = {var: var + 1 for var in outer if var.name == ahead}
    starts = [writer.expr(substitute(side.start, later)) for side in box]
    columns: list[Sequence[int]] = [range(min(side.extent, MOST)) for side in box]
    if box:
        extent = box[-1].extent
        step = linear(box[-1].start).terms.get(Atom.of(loop.var))
        # Of what is for later, the next iteration may ask for the line that it begins in.
        ends = [] if later and step == extent else [extent - 1]
        lines = range(0, extent, LINE // element_size(buffer))[:MOST]
        columns[-1] = [*lines, *(end for end in ends if end not in lines)]
    write = int(any(item.is_write for item in items))
    memory, code, plus = writer.memory, writer.values.code, writer.values.binary
    pointer = f"{MEMORY[buffer.dtype]}, ptr {memory.pointers[buffer]}"
    for place in islice(product(*columns), MOST):
        pairs = zip(starts, place, strict=True)
        flat = memory.flat(buffer, (plus("+", start, offset) for start, offset in pairs))
        at = code.value(f"getelementptr {pointer}, i64 {flat.text}")
        hints = (("i32", str(write)), ("i32", "2" if later else "3"), ("i32", "1"))
        code.call("void", "llvm.prefetch.p0", ("ptr", at), *hints)
