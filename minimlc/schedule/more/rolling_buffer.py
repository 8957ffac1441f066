"""rolling_buffer: a window that slides keeps what it has, and computes only what is new."""

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from minimlc.node import Mutator, replace
from minimlc.schedule.finish import finish
from minimlc.schedule.primitive import primitive
from minimlc.schedule.shape import (
    Producer,
    check_clipping_only,
    check_intermediate,
    check_only_writer,
    check_plain_path,
    exclusive,
    producer,
)
from minimlc.schedule.tree import refuse, replaced
from minimlc.tir.analysis.access import loop_extents
from minimlc.tir.analysis.affine import Digit, Digits, Sum, contiguous, to_expr
from minimlc.tir.analysis.arith import conjuncts, constant_value
from minimlc.tir.analysis.regions import is_private
from minimlc.tir.nodes import (
    Binary,
    Block,
    BlockIter,
    Buffer,
    Expr,
    For,
    Load,
    PrimFunc,
    Store,
    conjunction,
    index,
)

VERB = "rolling_buffer"


class _Window(NamedTuple):
    """In each iteration of `loop` the block makes `size` elements along dimension `dim`, from
    `step` further on than in the one before; `inner` counts them.
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
    by a constant that is less than its size, the other dimensions stand still, and what the block
    reads does not change in the loop. The iterations then depend on each other: the iter along
    the window becomes opaque.
    """
    made = producer(func, block, VERB)
    if made.buffer.name != buffer:
        refuse("E117", f'{VERB}: block "{block}" does not write {buffer}', at=made.block)
    check_intermediate(func, made, VERB)
    check_only_writer(made, VERB)
    check_plain_path(made.place.around, VERB)
    _, own, shared = exclusive(func, made.place)
    if not shared:
        refuse(
            "E148",
            f'{VERB}: block "{block}" is in no loop of its readers',
            hint=_first_move(made),
        )
    loop = next((lp for lp in reversed(shared) if constant_value(lp.extent) != 1), shared[-1])
    _check_loop(made, loop)
    window = _window(made, own, loop)
    check_clipping_only(made.block, made.place.loops, VERB)
    size = tuple(window.size if d == window.dim else n for d, n in enumerate(made.buffer.shape))
    rolled = _rolled(made.block, made.dims[window.dim], window)
    small = replace(made.buffer, shape=size)
    changed = replaced(func, {made.block: rolled})
    allocs = tuple(small if b is made.buffer else b for b in func.allocs)
    body = _Wrap(made.buffer, small, window).visit(changed.body)
    return finish(replace(func, allocs=allocs, body=body))


def _first_move(made: Producer) -> str:
    """The step that puts a block into a loop of its readers."""
    read = [i for i in made.others() if not i.is_write and i.buffer is made.buffer and i.loops]
    if not read:
        return ""
    return f'sch.compute_at("{made.block.name}", "{read[0].loops[0].var.name}") first'


def _check_loop(made: Producer, loop: For) -> None:
    """The loop is serial, makes all it reads anew so far, and leaves the block's inputs alone."""
    name = loop.var.name
    if loop.kind not in ("serial", "unrolled"):
        refuse("E119", f'{VERB}: loop "{name}" is {loop.kind} already', at=loop)
    inputs = {item.buffer for item in made.own() if not item.is_write} - {made.buffer}
    for item in made.items:
        if item.is_write and item.buffer in inputs and loop in item.loops:
            _no_window(made, f"{item.buffer.name}, which it reads, changes with {name}")
    if not is_private(made.buffer, loop, made.items):
        _no_window(
            made, f"not every iteration of {name} surely makes all it reads of {made.buffer.name}"
        )


def _no_window(made: Producer, why: str) -> NoReturn:
    refuse("E148", f'{VERB}: block "{made.block.name}" has no sliding window: {why}', at=made.block)


def _window(made: Producer, own: Sequence[For], loop: For) -> _Window:
    extents = loop_extents(made.place.loops)
    digits = Digits(extents)
    iters = [*made.dims, *(it for it in made.block.iters if it.kind == "R")]
    sums = digits.sums([it.value for it in iters])
    moving = {lp.var for lp in own}
    used: set[Digit] = set()
    found: _Window | None = None
    for dim, (it, total) in enumerate(zip(iters, sums, strict=True)):
        if total is None:
            _no_window(made, f"{it.var.name} is no sum of loops")
        inner = total.part(moving)
        reach = contiguous(inner)
        if reach is None or used & set(inner.terms):
            _no_window(made, f"its loops do not run {it.var.name} through a range")
        used |= set(inner.terms)
        if not all(digits.is_exact(d.var) for d in inner.terms):
            _no_window(made, f"a loop of {it.var.name} is cut unevenly")
        step = _step(total, digits, loop)
        if step == 0:
            continue
        if found is not None or step is None or dim >= len(made.dims):
            _no_window(made, f"{loop.var.name} moves it along {it.var.name} in another way")
        found = _Window(loop, dim, step, reach, to_expr(inner, extents))
    _check_constant(made, own)
    if found is None:
        _no_window(made, f"it stands still while {loop.var.name} runs")
    if not 0 < found.step < found.size:
        _no_window(
            made,
            f"{loop.var.name} moves it by {found.step}, and it is {found.size} long: nothing stays",
        )
    return found


def _check_constant(made: Producer, own: Sequence[For]) -> None:
    for lp in own:
        extent = constant_value(lp.extent)
        if extent is None or extent < 1:
            _no_window(made, f"the extent of {lp.var.name} is not constant")


def _step(total: Sum, digits: Digits, loop: For) -> int | None:
    """By how much a sum grows with each iteration of `loop`; None where that differs."""
    values = set()
    for digit in digits.of(loop.var):
        coefficient = total.terms.get(digit, 0)
        if digit.extent > 1:
            step, rest = divmod(coefficient, digit.divisor)
            values.add(None if rest else step)
    if len(values) > 1:
        return None
    return values.pop() if values else 0


def _rolled(block: Block, along: BlockIter, window: _Window) -> Block:
    """The block run only for the elements that the iteration before has not made."""
    first = Binary("<", window.loop.var, index(1))
    new = Binary(">=", window.inner, index(window.size - window.step))
    parts = (*conjuncts(block.predicate), Binary("or", first, new))
    iters = tuple(replace(it, kind="O") if it is along else it for it in block.iters)
    return replace(block, predicate=conjunction(parts), iters=iters)


class _Wrap(Mutator):
    """Sends the accesses of a buffer to the circular one."""

    def __init__(self, old: Buffer, new: Buffer, window: _Window):
        self.old, self.new, self.window = old, new, window

    def visit_Load(self, item: Load) -> Any:
        return self._wrapped(self.visit_children(item))

    def visit_Store(self, item: Store) -> Any:
        return self._wrapped(self.visit_children(item))

    def _wrapped(self, item: Any) -> Any:
        if item.buffer is not self.old:
            return item
        indices = list(item.indices)
        indices[self.window.dim] = indices[self.window.dim] % self.window.size
        return replace(item, buffer=self.new, indices=tuple(indices))
