"""Primitives that set how a loop runs, and notes for later passes."""

from minimlc.loops.ir.nodes import Annotations, Block, For, LoopKind, PrimFunc
from minimlc.loops.schedule.finish import as_proven, check_concurrent_loops, check_independent
from minimlc.loops.schedule.primitive import claim, primitive, refuse
from minimlc.loops.schedule.tree import (
    NoSuchName,
    constant_extent,
    find_buffer,
    find_loop,
    find_stmt,
    names_of,
    replaced,
    serial_loop,
)
from minimlc.loops.values.constants import unwritable
from minimlc.loops.values.errors import did_you_mean
from minimlc.loops.values.literals import Notes
from minimlc.loops.values.node import replace

THREADS = tuple(f"{axis}.{dim}" for axis in ("blockIdx", "threadIdx", "vthread") for dim in "xyz")
"""The axes of a GPU's grid that a loop can be bound to."""


@primitive(keeps_order=True)
def parallel(func: PrimFunc, loop: str) -> PrimFunc:
    """Run a loop's iterations on several threads.

        for i in range(n):            for i in T.parallel(n):
            S(i)               -->        S(i)

    Legal when no iteration touches an element that another one writes; buffers that every
    iteration writes before it reads become private to it.
    """
    return _with_kind(func, loop, "parallel")


@primitive(keeps_order=True)
def vectorize(func: PrimFunc, loop: str) -> PrimFunc:
    """Run a loop's iterations as the lanes of vector instructions.

        for j in range(16):           for j in T.vectorized(16):
            S(j)               -->        S(j)

    Legal when the extent is constant and no iteration touches an element that another one writes.
    """
    constant_extent(find_loop(func, loop).stmt)
    return _with_kind(func, loop, "vectorized")


@primitive(keeps_order=True)
def unroll(func: PrimFunc, loop: str) -> PrimFunc:
    """Write a loop's iterations out one after the other.

        for j in range(4):            for j in T.unroll(4):
            S(j)               -->        S(j)

    Legal when the extent is constant.
    """
    constant_extent(find_loop(func, loop).stmt)
    return _with_kind(func, loop, "unrolled")


@primitive(keeps_order=True)
def bind(func: PrimFunc, loop: str, thread: str) -> PrimFunc:
    """Run a loop's iterations on the threads of a GPU.

        for i in range(n):            for i in T.thread_binding(n, thread="threadIdx.x"):
            S(i)               -->        S(i)

    `thread` is blockIdx, threadIdx or vthread with .x, .y or .z. Legal where `parallel` is, when
    the extent is constant, no loop around or inside is bound to the same axis, and all loops of the
    nest that are have one extent. The threads of a block, `threadIdx`, may also combine values: the
    loop may be one of a commutative reduction. And they may do together what each of them would do
    (cooperative fetching): a loop may be bound inside one of the same axis if what it runs is the
    same for all threads around, who all come to it, and goes to shared memory. Targets without such
    threads run the loop as a serial one.
    """
    if thread not in THREADS:
        hint = did_you_mean(thread, THREADS) or f"one of {', '.join(THREADS)}"
        refuse("E141", f'there is no thread axis "{thread}"', hint=hint)
    constant_extent(find_loop(func, loop).stmt)
    return _with_kind(func, loop, "thread_binding", thread)


def _with_kind(func: PrimFunc, name: str, kind: LoopKind, thread: str = "") -> PrimFunc:
    loop = serial_loop(func, name)

    def proof(new: PrimFunc) -> None:
        if kind != "unrolled":
            check_independent(func, loop, kind, thread)
        check_concurrent_loops(new)

    return claim(replaced(func, {loop: replace(loop, kind=kind, thread=thread)}), proof)


HEEDED = ("prefetch", "nontemporal")
"""The notes on loops that code generation looks for."""


@primitive(keeps_order=True)
def annotate(func: PrimFunc, name: str, key: str, value: object) -> PrimFunc:
    """Note `key: value` on the loop or the block called `name`, for a later pass to read.

    `value` is a number, a string, a truth value, a tuple of those, or a dictionary of such values
    by names. A note has no meaning of its own, so it is always legal, but for two that LLVM code
    heeds on loops: with `"prefetch": "X"`
    an iteration first asks memory for what it touches of X (64 lines of it at most; lanes of a
    vectorized loop do not ask), with `("X", "i")` for what it touches in the next iteration of
    the loop i around it; with `"nontemporal": "X"`, vectors stored to X go past the caches. These
    two are refused where there is no buffer X or no loop i at that time. Kernels for GPUs heed
    `"software_pipeline_stage"`, a number for each statement in the loop: those of stage 0 fetch,
    those of the last stage use that so many iterations later; and with
    `"software_pipeline_async_stages": (0,)`, threads do not wait for copies of 16 bytes.
    """
    if not _is_plain(value):
        why = "a value is a number, a string, a tuple or a dictionary of those"
        refuse("E118", f"{why}, got {value!r:.60}")
    if unwritable([(key, value)]):
        refuse("E118", unwritable([(key, value)]))
    item, kept = _without_note(func, name, key)
    if key in HEEDED and isinstance(item, For):
        _check_heeded(func, key, value, item)
    new = replaced(func, {item: replace(item, annotations=(*kept, (key, value)))})
    return as_proven(new, func)


def _check_heeded(func: PrimFunc, key: str, value: object, loop: For) -> None:
    """Refuse a note that code generation would look for and could not use."""
    match value:
        case str(buffer):
            outer = None
        case (str(buffer), str(outer)) if key == "prefetch":
            pass
        case _:
            form = '"X" or ("X", "i")' if key == "prefetch" else '"X"'
            refuse("E118", f"a {key} is {form}, got {value!r}", at=loop)
    find_buffer(func, buffer)
    around = [lp.var.name for lp in find_loop(func, loop.var.name).loops]
    if outer is not None and outer not in [*around, loop.var.name]:
        remark = f'around "{loop.var.name}" there is none of that name'
        raise NoSuchName("loop", outer, around, remark)


@primitive(keeps_order=True)
def unannotate(func: PrimFunc, name: str, key: str) -> PrimFunc:
    """Take the note `key` from the loop or the block called `name`.

    Legal where there is such a note.
    """
    item, kept = _without_note(func, name, key)
    if len(kept) == len(item.annotations):
        hint = did_you_mean(key, [known for known, _ in item.annotations])
        refuse("E105", f'"{name}" has no note "{key}"', at=item, hint=hint)
    return replaced(func, {item: replace(item, annotations=kept)})


def _without_note(func: PrimFunc, name: str, key: str) -> tuple[For | Block, Annotations]:
    """The loop or the block of that name, and its notes less the one called `key`."""
    if name in names_of(func, "loop") and name in names_of(func, "block"):
        refuse("E105", f'"{name}" is the name of a loop and of a block')
    item = find_stmt(func, name)
    return item, tuple(pair for pair in item.annotations if pair[0] != key)


def _is_plain(value: object) -> bool:
    if isinstance(value, Notes):
        return all(isinstance(key, str) and _is_plain(part) for key, part in value)
    if isinstance(value, tuple):
        return all(_is_plain(part) and not isinstance(part, Notes) for part in value)
    return isinstance(value, int | float | str | bool)
