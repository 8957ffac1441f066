"""The primitive rolling_buffer: a sliding window keeps what it has, and computes what is new."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    BlockIter,
    Expr,
    For,
    PrimFunc,
    Var,
    conjunction,
    index,
    substitute,
)
from minimlc.loops.proofs.access import loop_extents
from minimlc.loops.proofs.affine import Coverage, Digits, terms_of, to_expr
from minimlc.loops.proofs.arith import Interval, conjuncts, constant_value, split_by
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.regions import is_private
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import with_storage
from minimlc.loops.schedule.shape import (
    Producer,
    check_clipping_only,
    check_own_result,
    check_plain_path,
    producer,
)
from minimlc.loops.schedule.tree import replaced, runs
from minimlc.loops.values.node import replace


class _Window(NamedTuple):
    """In each iteration of `loop` the block makes `size` elements along dimension `dim`, from
    at most `step` further on than in the one before; `inner` counts them.
    """

    loop: For
    dim: int
    step: int
    size: int
    inner: Expr


@primitive(keeps_order=True)
def rolling_buffer(func: PrimFunc, block: str, buffer: str) -> PrimFunc:
    """Keep the elements of a sliding window from one iteration to the next.

        for i in range(n):                  for i in range(n):
            for w in range(3):                  for w in range(3):
                Y[i + w] = f(i + w)    -->          if i < 1 or w >= 2:
            S(Y[i], Y[i + 1], Y[i + 2])                 Y[(i + w) % 3] = f(i + w)
                                                S(Y[i % 3], Y[(i + 1) % 3], Y[(i + 2) % 3])

    The buffer becomes circular along one dimension, as long as the window is. Legal when each
    iteration of the loop around the block makes all that it reads of the buffer, its window moves
    on by less than its size (at `i * 5 // 2`, by two or three), the other dimensions stand still,
    and what the block reads does not change in the loop. The iterations then depend on each other:
    the iter along the window becomes opaque.
    """
    subject = producer(func, block)
    if subject.buffer.name != buffer:
        refuse("E117", f'block "{block}" does not write {buffer}', at=subject.block)
    check_own_result(func, subject)
    check_plain_path(subject.place.around)
    _, loops, shared = subject.place.nest()
    if not shared:
        refuse("E148", f'block "{block}" is in no loop of its readers', hint=_first_move(subject))
    loop = next((lp for lp in reversed(shared) if constant_value(lp.extent) != 1), shared[-1])
    _check_loop(subject, loop)
    window = _window(subject, loops, loop)
    check_clipping_only(subject.block, subject.place.loops)
    dim, size = window.dim, window.size
    shape = (*subject.buffer.shape[:dim], size, *subject.buffer.shape[dim + 1 :])
    rolled = replaced(func, {subject.block: _rolled(subject.block, subject.dims[dim], window)})

    def wrapped(at: Sequence[Expr]) -> Sequence[Expr]:
        return (*at[:dim], at[dim] % size, *at[dim + 1 :])

    return finish(
        with_storage(rolled, {subject.buffer: replace(subject.buffer, shape=shape)}, wrapped)
    )


def _first_move(subject: Producer) -> str:
    """The step that puts a block into a loop of its readers."""
    read = [item for item in subject.readers() if item.loops]
    if not read:
        return ""
    return f'sch.compute_at("{subject.block.name}", "{read[0].loops[0].var.name}") first'


def _check_loop(subject: Producer, loop: For) -> None:
    """Refuse a loop that is not serial, does not make all it reads anew, or changes the inputs."""
    name = loop.var.name
    if loop.kind not in ("serial", "unrolled"):
        refuse("E119", f'loop "{name}" is {loop.kind} already', at=loop)
    inputs = subject.inputs() - {subject.buffer}
    for item in subject.items:
        if item.is_write and item.buffer in inputs and loop in item.loops:
            _no_window(subject, f"{item.buffer.name}, which it reads, changes with {name}")
    if not is_private(subject.buffer, loop, subject.items):
        _no_window(
            subject,
            f"not every iteration of {name} surely makes all it reads of {subject.buffer.name}",
        )


def _no_window(subject: Producer, why: str) -> NoReturn:
    refuse("E148", f"has no sliding window: {why}", of=subject.block)


def _window(subject: Producer, loops: Sequence[For], loop: For) -> _Window:
    extents = loop_extents(subject.place.loops)
    digits = Digits(extents)
    iters = [*subject.dims, *(it for it in subject.block.iters if it.kind == "R")]
    moving = {lp.var for lp in loops}
    parts = [_parts(subject, it, extents, moving) for it in iters]
    coverage = Coverage(digits)
    window: _Window | None = None
    for dim, (it, inner) in enumerate(zip(iters, digits.sums(p[1] for p in parts), strict=True)):
        values = coverage.take(inner)
        if inner is None or values is None or values.start:
            _no_window(subject, f"its loops do not run {it.var.name} through a range")
        if not coverage.is_exact():
            _no_window(subject, f"a loop of {it.var.name} is cut unevenly")
        least, most = _steps(parts[dim][0], extents, loop)
        if least == most == 0:
            continue
        if window is not None or least < 0 < most or dim >= len(subject.dims):
            _no_window(subject, f"{loop.var.name} moves it along {it.var.name} in another way")
        window = _Window(loop, dim, most, len(values), to_expr(inner, extents))
    for lp in loops:
        if not runs(lp):
            _no_window(subject, f"the extent of {lp.var.name} is not constant")
    if window is None:
        _no_window(subject, f"it stands still while {loop.var.name} runs")
    if not 0 < window.step < window.size:
        by = f"moves it by {window.step}, and it is {window.size} long: nothing stays"
        _no_window(subject, f"{loop.var.name} {by}")
    return window


def _parts(
    subject: Producer, it: BlockIter, extents: Mapping[Var, int], moving: set[Var]
) -> tuple[Expr, Expr]:
    """An iter's window: its start, over the loops around, and the part of the block's own loops."""
    (total,) = Digits(extents).sums([it.value])
    if total is not None:
        inner = terms_of(total, moving)
        return to_expr(total.minus(inner), extents), to_expr(inner, extents)
    parts = split_by(it.value, extents.keys() - moving)
    if parts is None:
        _no_window(subject, f"{it.var.name} is not a sum of loops")
    return parts


def _steps(start: Expr, extents: Mapping[Var, int], loop: For) -> Interval:
    """By how much, at least and at most, a value grows from one iteration of `loop` to the next."""
    ranges = Ranges({**extents, loop.var: max(1, extents[loop.var] - 1)})
    following: Expr = substitute(start, {loop.var: loop.var + 1})
    return ranges.difference(following, start)


def _rolled(block: Block, along: BlockIter, window: _Window) -> Block:
    """The block run only for the elements that the iteration before has not made."""
    first = Binary("<", window.loop.var, index(1))
    new = Binary(">=", window.inner, index(window.size - window.step))
    parts = (*conjuncts(block.predicate), Binary("or", first, new))
    iters = tuple(replace(it, kind="O") if it is along else it for it in block.iters)
    return replace(block, predicate=conjunction(parts), iters=iters)
