"""Advice on a step that was refused: the first related step that is accepted; and the fate of a
name that an earlier step replaced.

Found only when the error is shown, so that a search with many refusals does not pay for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, pairwise, permutations
from typing import Any, NamedTuple

from minimlc.loops.ir.nodes import For, PrimFunc
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.schedule.calls import call_text, literal
from minimlc.loops.schedule.primitive import PRIMITIVES
from minimlc.loops.schedule.trace import run
from minimlc.loops.schedule.tree import NoSuchName, find_block, find_loop, names_of
from minimlc.loops.values.errors import CompileError, ScheduleError, near_misses
from minimlc.loops.values.module import Step
from minimlc.services.tensor.intrin import find_intrin, intrins

TRIES = 16
Call = tuple[str, dict[str, Any]]


def remedy(func: PrimFunc, name: str, arguments: dict[str, Any]) -> str:
    """A call that works where `name(arguments)` was refused; '' if none was found.

    A candidate that fails is skipped, whatever the reason: an error is about to be shown.
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


def _chains(func: PrimFunc, name: str, arguments: dict[str, Any]) -> Iterator[tuple[Call, ...]]:
    for call in _candidates(func, name, arguments):
        yield (call,)
    if name in ("parallel", "vectorize", "bind"):
        yield ("rfactor", {"loop": arguments["loop"]}), (name, arguments)
    if name == "tensorize":
        yield from _tilings(arguments)


def _tilings(arguments: dict[str, Any]) -> Iterator[tuple[Call, ...]]:
    """The loop cut to the length that the intrinsic has, or another intrinsic."""
    target = arguments["target"]
    for loop in loops_in(find_intrin(arguments["intrin"]).description.body):
        cut = ("split", {"loop": target, "factors": (None, constant_value(loop.extent))})
        yield cut, ("tensorize", {**arguments, "target": f"{target}_1"})
    for other in intrins():
        yield (("tensorize", {**arguments, "intrin": other}),)


def _candidates(func: PrimFunc, name: str, arguments: dict[str, Any]) -> Iterator[Call]:
    match name:
        case "parallel" | "vectorize" | "unroll" | "bind":
            yield from _other_loops(func, name, arguments)
        case "reorder":
            yield from _other_orders(func, arguments)
        case "fuse":
            names = names_of(func, "loop")
            yield name, {**arguments, "loops": tuple(sorted(arguments["loops"], key=names.index))}
            yield name, {k: v for k, v in arguments.items() if k != "name"}
        case "split":
            loop, factors = arguments["loop"], arguments["factors"]
            yield name, {"loop": loop, "factors": (None, *factors[1:])}
            yield name, {"loop": loop, "factors": factors}
        case "compute_at" | "compute_inline":
            yield from _moves(func, arguments["block"], "compute_at", "reverse_compute_at")
        case "reverse_compute_at" | "reverse_compute_inline":
            yield from _moves(func, arguments["block"], "reverse_compute_at", "compute_at")
        case "fuse_reduction_epilogue":
            yield from _moves(func, arguments["epilogue_block"], "reverse_compute_at")
        case "decompose_padding" | "decompose_reduction":
            place = "at" if name == "decompose_reduction" else "loop"
            for around in find_block(func, arguments["block"]).loops:
                yield name, {**arguments, place: around.var.name}
        case "pad_einsum":
            yield from _less_padding(arguments)
        case "cache_read" | "cache_write":
            yield from _other_buffers(func, arguments)
        case _ if "loop" in arguments:
            yield from _other_loops(func, name, arguments)


def _less_padding(arguments: dict[str, Any]) -> Iterator[Call]:
    """One iter less padded, then one alone."""
    padding = tuple(arguments["padding"])
    padded = [number for number, by in enumerate(padding) if by > 1]
    fewer = [tuple(1 if n == at else by for n, by in enumerate(padding)) for at in padded]
    alone = [tuple(by if n == at else 1 for n, by in enumerate(padding)) for at in padded]
    for choice in (*fewer, *alone):
        if choice != padding and max(choice) > 1:
            yield "pad_einsum", {**arguments, "padding": choice}


def _other_loops(func: PrimFunc, name: str, arguments: dict[str, Any]) -> Iterator[Call]:
    """The same for the other loops of the nest: lanes want the innermost, threads the outermost.

    Where only lanes are in the way (they share what threads have copies of): threads.
    """
    around = [loop.var.name for loop in dict.fromkeys(chain(*_nests(func, arguments["loop"])))]
    for other in reversed(around) if name in ("vectorize", "unroll") else around:
        if other != arguments["loop"]:
            yield name, {**arguments, "loop": other}
    if name == "vectorize":
        yield "parallel", {"loop": arguments["loop"]}


def _nests(func: PrimFunc, loop: str) -> list[tuple[For, ...]]:
    """The loops around each access in a loop, itself among them."""
    stmt = find_loop(func, loop).stmt
    return [item.loops for item in accesses(func) if stmt in item.loops]


def _other_orders(func: PrimFunc, arguments: dict[str, Any]) -> Iterator[Call]:
    """Other orders of these loops, then of all loops around them."""
    names = names_of(func, "loop")
    loops = tuple(sorted(arguments["loops"], key=names.index))
    whole = tuple(loop.var.name for loop in max(_nests(func, loops[0]), key=len, default=()))
    for some in (loops, whole):
        for order in permutations(some):
            if order != some:
                yield "reorder", {"loops": order}


def _moves(func: PrimFunc, block: str, *verbs: str) -> Iterator[Call]:
    """The block into each loop, innermost first, of the blocks it reads from (to reverse_compute_at
    them) or that read it (to compute_at them).
    """
    target = find_block(func, block).stmt
    items = accesses(func)
    for verb in verbs:
        writes = verb == "reverse_compute_at"
        mine = {i.buffer for i in items if i.block is target and i.is_write is not writes}
        theirs = (i for i in items if i.block is not target and i.is_write is writes)
        loops = [loop.var.name for i in theirs if i.buffer in mine for loop in i.loops]
        for loop in reversed(dict.fromkeys(loops)):
            yield verb, {"block": block, "loop": loop}


def _other_buffers(func: PrimFunc, arguments: dict[str, Any]) -> Iterator[Call]:
    """The buffers that the block reads or writes, in the usual scope."""
    block = find_block(func, arguments["block"]).stmt
    kept = {k: v for k, v in arguments.items() if k != "scope"}
    for item in sorted(accesses(func), key=lambda i: i.buffer.name != arguments["buffer"]):
        if item.block is block:
            verb = "cache_write" if item.is_write else "cache_read"
            yield verb, {**kept, "buffer": item.buffer.name}


def explained(
    error: NoSuchName, steps: Sequence[Step], func: str, name: str, arguments: dict[str, Any]
) -> ScheduleError:
    """The error for a step (or a question) `name(arguments)` with an unknown name.

    `steps` is the schedule's history. The hint is the same step with a name that there is, tried
    out; so all this is worked out only when there is an error to explain.
    """
    versions = [step.mod[func] for step in steps]
    fates = _fates(error.kind, error.name, versions, steps)
    now = versions[-1]
    assert isinstance(now, PrimFunc)
    heirs = [heir for fate in fates for heir in fate.heirs if heir in names_of(now, error.kind)]
    close = heirs or near_misses(str(error.name), error.known)
    why = error.why
    if not heirs and close and not fates:
        why += f'; did you mean "{close[0]}"?'
    example = "\n".join(fate.text for fate in fates[:4])
    hint = _meant(now, name, arguments, error.name, close) or _overview(error, now)
    return ScheduleError(why, code=error.code, example=example, hint=hint)


class Fate(NamedTuple):
    """The fate of a name in one step: as text, and the names that replaced it."""

    text: str
    heirs: list[str]


def _fates(kind: str, name: str, versions: Sequence[Any], steps: Sequence[Step]) -> list[Fate]:
    """The steps that replaced a name, and the steps that replaced its heirs."""
    known = [names_of(version, kind) for version in versions]
    fates = []
    sought = [name]
    for number, (before, after) in enumerate(pairwise(known), 1):
        step = f"in step {number} ({steps[number].name.split('(')[0]})"
        for gone in [n for n in sought if n in before and n not in after]:
            heirs = [n for n in after if n not in before]
            became = f"became {', '.join(heirs)}" if heirs else "went away"
            fates.append(Fate(f"{kind} {gone} {became} {step}", heirs))
            sought += heirs
    return fates


def _meant(
    func: PrimFunc, name: str, arguments: dict[str, Any], wrong: str, candidates: Sequence[str]
) -> str:
    """The first call with one of `candidates` instead of a wrong name that works.

    A question, such as `loops(block)`, works with each of them.
    """
    if name not in PRIMITIVES:
        return f"sch.{name}({literal(candidates[0])})" if candidates else ""
    for candidate in candidates:
        fixed = {k: _exchanged(v, wrong, candidate) for k, v in arguments.items()}
        try:
            run(func, name, fixed)
        except CompileError:
            continue
        return f"sch.{call_text(name, fixed)}"
    return ""


def _exchanged(value: Any, wrong: str, right: str) -> Any:
    if isinstance(value, tuple):
        return tuple(_exchanged(part, wrong, right) for part in value)
    return right if isinstance(value, str) and value == wrong else value


def _overview(error: NoSuchName, func: PrimFunc) -> str:
    """The call that lists the known names."""
    if error.kind == "loop":
        blocks = names_of(func, "block")
        around = error.name if error.name in blocks else (blocks or [""])[0]
        return f'sch.loops("{around}")'
    return "sch.blocks()" if error.kind == "block" else "sch.func.params, sch.func.allocs"
