"""What to try instead of a step that was refused: the first related step that is accepted.

Looked for only when the error is shown, so that a search that meets many refusals does not pay.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice, permutations
from typing import Any

from minimlc.schedule.tensor.intrin import find_intrin, intrins
from minimlc.schedule.trace import call_text, literal, run
from minimlc.schedule.tree import find_block, find_loop, names_of
from minimlc.tir.analysis.access import accesses
from minimlc.tir.analysis.arith import constant_value
from minimlc.tir.analysis.wellformed import loops_in
from minimlc.tir.nodes import PrimFunc

TRIES = 16
Call = tuple[str, dict[str, Any]]


def remedy(func: PrimFunc, name: str, arguments: dict[str, Any]) -> str:
    """A call that works where `name(arguments)` was refused; '' if none was found.

    What fails is no remedy, whatever the reason: an error is about to be shown.
    """
    with suppress(Exception):
        for calls in islice(_chains(func, name, arguments), TRIES):
            if calls != ((name, arguments),) and _work(func, calls):
                return "sch." + ".".join(call_text(*call) for call in calls)
        if name == "tensorize" and arguments["intrin"] in intrins():
            return f"mlc.schedule.find_intrin({literal(arguments['intrin'])}).description"
    return ""


def _work(func: PrimFunc, calls: Iterable[Call]) -> bool:
    with suppress(Exception):
        for name, arguments in calls:
            func, _ = run(func, name, arguments)
        return True
    return False


def _chains(func: PrimFunc, name: str, given: dict[str, Any]) -> Iterator[tuple[Call, ...]]:
    for call in _candidates(func, name, given):
        yield (call,)
    if name in ("parallel", "vectorize", "bind"):
        yield ("rfactor", {"loop": given["loop"]}), (name, given)
    if name == "tensorize":
        yield from _tilings(given)


def _tilings(given: dict[str, Any]) -> Iterator[tuple[Call, ...]]:
    """The loop cut to the length that the intrinsic has, or another intrinsic."""
    target = given["target"]
    for loop in loops_in(find_intrin(given["intrin"]).description.body):
        cut = ("split", {"loop": target, "factors": (None, constant_value(loop.extent))})
        yield cut, ("tensorize", {**given, "target": f"{target}_1"})
    for other in intrins():
        yield (("tensorize", {**given, "intrin": other}),)


def _candidates(func: PrimFunc, name: str, given: dict[str, Any]) -> Iterator[Call]:
    match name:
        case "parallel" | "vectorize" | "unroll" | "bind":
            yield from _other_loops(func, name, given)
        case "reorder":
            yield from _other_orders(func, given)
        case "fuse":
            names = names_of(func, "loop")
            yield name, {**given, "loops": tuple(sorted(given["loops"], key=names.index))}
            yield name, {k: v for k, v in given.items() if k != "name"}
        case "split":
            yield name, {"loop": given["loop"], "factors": (None, *given["factors"][1:])}
            yield name, {"loop": given["loop"], "factors": given["factors"]}
        case "compute_at" | "compute_inline":
            yield from _moves(func, given["block"], "compute_at", reads=False)
            yield from _moves(func, given["block"], "reverse_compute_at", reads=True)
        case "reverse_compute_at" | "reverse_compute_inline":
            yield from _moves(func, given["block"], "reverse_compute_at", reads=True)
            yield from _moves(func, given["block"], "compute_at", reads=False)
        case "fuse_reduction_epilogue":
            yield from _moves(func, given["epilogue_block"], "reverse_compute_at", reads=True)
        case "decompose_padding":
            for loop in find_block(func, given["block"]).loops:
                yield name, {**given, "loop": loop.var.name}
        case "pad_einsum":
            yield from _less_padding(given)
        case "decompose_reduction":
            for loop in find_block(func, given["block"]).loops:
                yield name, {**given, "at": loop.var.name}
        case "cache_read" | "cache_write":
            yield from _other_buffers(func, given)
        case _ if "loop" in given:
            yield from _other_loops(func, name, given)


def _less_padding(given: dict[str, Any]) -> Iterator[Call]:
    """One iter less padded, then one alone."""
    padding = given["padding"]
    for number, by in enumerate(padding):
        if by > 1:
            fewer = (*padding[:number], 1, *padding[number + 1 :])
            if any(size > 1 for size in fewer):
                yield "pad_einsum", {**given, "padding": fewer}
    for number, by in enumerate(padding):
        alone = [1] * len(padding)
        alone[number] = by
        if by > 1 and tuple(alone) != tuple(padding):
            yield "pad_einsum", {**given, "padding": tuple(alone)}


def _other_loops(func: PrimFunc, name: str, given: dict[str, Any]) -> Iterator[Call]:
    """The same for the other loops of the nest: lanes want the innermost, threads the outermost.

    Where only lanes are in the way (they share what threads have copies of): threads.
    """
    target = find_loop(func, given["loop"])
    nests = [item.loops for item in accesses(func) if target.stmt in item.loops]
    around = dict.fromkeys(loop.var.name for nest in nests for loop in nest)
    inner_first = name in ("vectorize", "unroll")
    for other in reversed(around) if inner_first else around:
        if other != given["loop"]:
            yield name, {**given, "loop": other}
    if name == "vectorize":
        yield "parallel", {"loop": given["loop"]}


def _other_orders(func: PrimFunc, given: dict[str, Any]) -> Iterator[Call]:
    """Other orders of these loops, then of all loops around them."""
    names = names_of(func, "loop")
    first = find_loop(func, min(given["loops"], key=names.index))
    nests = [item.loops for item in accesses(func) if first.stmt in item.loops]
    whole = tuple(loop.var.name for loop in max(nests, key=len, default=()))
    for some in (tuple(sorted(given["loops"], key=names.index)), whole):
        for order in permutations(some):
            if order != some:
                yield "reorder", {"loops": order}


def _moves(func: PrimFunc, block: str, verb: str, reads: bool) -> Iterator[Call]:
    """The block into each loop, innermost first, of the blocks it reads from or that read it."""
    target = find_block(func, block).stmt
    items = accesses(func)
    mine = {i.buffer for i in items if i.block is target and i.is_write is not reads}
    loops = {
        loop.var.name: None
        for item in items
        if item.buffer in mine and item.block is not target and item.is_write is reads
        for loop in item.loops
    }
    for loop in reversed(loops):
        yield verb, {"block": block, "loop": loop}


def _other_buffers(func: PrimFunc, given: dict[str, Any]) -> Iterator[Call]:
    """The buffers that the block reads or writes, in the usual scope."""
    block = find_block(func, given["block"]).stmt
    kept = {k: v for k, v in given.items() if k != "scope"}
    for item in sorted(accesses(func), key=lambda i: i.buffer.name != given["buffer"]):
        if item.block is block:
            verb = "cache_write" if item.is_write else "cache_read"
            yield verb, {**kept, "buffer": item.buffer.name}
