"""Software pipelines: what an iteration of a loop uses is fetched while earlier ones run.

Of a loop that is annotated `software_pipeline_stage`, a number for each statement inside, the
statements of stage 0 fetch, and the others, of the last stage s, use what was fetched s iterations
earlier. So there are s + 1 copies of each buffer that is fetched, and as many iterations in a
round. For (0, 1):

    for k in range(n):                  fetch 0 into T
        fetch k into T            -->   for k in range(n // 2):
        use T                               fetch 2 k + 1 into T_1
                                            use T
                                            fetch 2 k + 2 into T
                                            use T_1

With `software_pipeline_async_stages` (0,) no thread waits for a copy before it goes on, where a
device has such copies.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.walks import buffers_in, loops_in, stored_in
from minimlc.loops.proofs.access import Access, accesses
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.proofs.dependence import Conflict
from minimlc.loops.proofs.regions import is_private
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.node import Mutator, Node, nodes_of, replace
from minimlc.targets.gpu.refusal import refused

STAGES = "software_pipeline_stage"
ASYNC = "software_pipeline_async_stages"


AHEAD = "ahead"
"""The annotation of a block of copies that may go on until threads wait at a barrier: its value is
how many newer such blocks are not waited for there.
"""


def with_pipelines(func: tir.PrimFunc, *, background: bool = True) -> tir.PrimFunc:
    """A lowered function, the loops with stages in it as pipelines; where nothing is copied in the
    background, loops that ask for that stay as they are. `BuildError` E510 where what is fetched
    depends on an earlier iteration.
    """
    for loop in loops_in(func.body):
        notes = dict(loop.annotations)
        if STAGES in notes and (background or ASYNC not in notes):
            pipeline = _pipeline(loop, accesses(func))
            new = _Placed(pipeline).visit(func.body)
            return with_pipelines(replace(func, body=new), background=background)
    return func


class _Pipeline(NamedTuple):
    """A loop of so many iterations: the statements that `fetch` and `use`, and the copies of the
    buffers between them. `ahead` is how many iterations are fetched early.
    """

    loop: tir.For
    iterations: int
    fetch: tir.Stmt
    use: tir.Stmt
    copies: dict[tir.Buffer, list[tir.Buffer]]
    ahead: int
    is_async: bool

    def stmt(self) -> tir.Stmt:
        """The statement that replaces the loop."""
        first = (self._fetched(tir.index(number), number) for number in range(self.ahead))
        size = self.ahead + 1
        var, parts = tir.Var(self.loop.var.name), []
        for number in range(size):
            parts.append(self._fetched(var * size + (number + self.ahead), number + self.ahead))
            parts.append(self._if_any(var * size + number, number, self.use))
        rounds = tir.index(-(-self.iterations // size))
        body = tir.seq(parts)
        return tir.seq(
            (*first, replace(self.loop, var=var, extent=rounds, body=body, annotations=()))
        )

    def _fetched(self, place: tir.Expr, number: int) -> tir.Stmt:
        fetched = self._if_any(place, number, self.fetch)
        if not self.is_async:
            return fetched
        return tir.Block("ahead", (), None, None, fetched, ((AHEAD, self.ahead - 1),))

    def _if_any(self, place: tir.Expr, number: int, stmt: tir.Stmt) -> tir.Stmt:
        """A statement in iteration `place`, if there is one; it is `number` in the first round."""
        size = self.ahead + 1
        new: dict[Node, Node] = {tile: ring[number % size] for tile, ring in self.copies.items()}
        moved = tir.substitute(_renewed(stmt), new | {self.loop.var: place})
        most = (
            number
            if isinstance(place, tir.Const)
            else number + (self.iterations - 1) // size * size
        )
        return moved if most < self.iterations else tir.IfThenElse(place < self.iterations, moved)


def _pipeline(loop: tir.For, items: Sequence[Access]) -> _Pipeline:
    notes: dict[str, Any] = dict(loop.annotations)
    count, body = constant_value(loop.extent), loop.body
    while isinstance(body, tir.Alloc):
        body = body.body
    stmts = body.stmts if isinstance(body, tir.Seq) else (body,)
    stages = notes[STAGES]
    _check_stages(loop, stages, len(stmts))
    if count is None or loop.kind not in ("serial", "unrolled"):
        raise _wrong(loop, "its iterations are no constant number, one after the other")
    if any(STAGES in dict(inner.annotations) for inner in loops_in(loop.body)):
        raise _wrong(loop, "there is another one inside")
    cut = stages.count(0)
    fetch, use = tir.seq(stmts[:cut]), tir.seq(stmts[cut:])
    copies = {tile: _copies(tile, max(stages)) for tile in stored_in(fetch)}
    is_async = notes.get(ASYNC) == (0,)
    _check_fetch(loop, fetch, use, items)
    if is_async:
        _check_copies(loop, fetch, items)
    return _Pipeline(loop, int(count), fetch, use, copies, max(stages), is_async)


def _check_stages(loop: tir.For, stages: Any, count: int) -> None:
    """Stages are one for each statement: some zeros, then one number for all others."""
    last = stages[-1] if isinstance(stages, tuple) and stages else 0
    fetches = stages.count(0) if last else 0
    wanted = (0,) * fetches + (last,) * (count - fetches)
    if not fetches or stages != wanted or not isinstance(last, int) or last < 1:
        why = f"{stages!r} is not a number for each of {count} statements: 0 for those that fetch,"
        hint = f"({'0, ' * (count - 1)}1)" if count > 1 else "a statement that fetches, before it"
        raise _wrong(loop, f"{why} then one for the others", hint)


def _check_fetch(loop: tir.For, fetch: tir.Stmt, use: tir.Stmt, items: Sequence[Access]) -> None:
    """Check that what is fetched is for its iteration alone, and its source does not change."""
    tiles = stored_in(fetch)
    for tile in tiles:
        if not is_private(tile, loop, items):
            raise _wrong(loop, f"iterations do not have {tile.name} for themselves")
    read = {part.buffer for part in nodes_of(fetch, tir.Load)} - tiles
    for buffer in read & stored_in(use):
        raise _wrong(loop, f"it changes {buffer.name}, which a later iteration fetches from")


def _check_copies(loop: tir.For, fetch: tir.Stmt, items: Sequence[Access]) -> None:
    """Check that what is copied meanwhile is not used before threads wait, nor copied twice."""
    stores = nodes_of(fetch, tir.Store)
    used = {part.buffer for part in nodes_of(fetch, tir.Load)}
    mine = (item for item in items if item.is_write and item.node in stores)
    used |= {item.buffer for item in mine if _is_repeated(item, loop)}
    for tile, count in Counter(part.buffer for part in stores).items():
        if tile in used or count > 1:
            raise _wrong(loop, f"it goes on with {tile.name} while that is copied", f"no {ASYNC}")


def _is_repeated(item: Access, loop: tir.For) -> bool:
    """Whether a thread may store an element again in an iteration of `loop`."""
    inner = [other for other in item.below(loop) if not other.thread]
    same = {other.var: "0" for other in item.loops if other not in inner}
    question = Conflict(item, item)
    return any(question.possible({**same, other.var: "+"}) for other in inner)


def _copies(tile: tir.Buffer, ahead: int) -> list[tir.Buffer]:
    names = (f"{tile.name}_{number}" for number in range(1, ahead + 1))
    return [tile, *(replace(tile, name=name) for name in names)]


def _renewed(stmt: tir.Stmt) -> tir.Stmt:
    """A statement with new variables of loops and new buffers."""
    new: dict[Node, Node] = {loop.var: tir.Var(loop.var.name) for loop in loops_in(stmt)}
    new |= {b: tir.Buffer(b.name, b.shape, b.dtype, b.scope) for b in buffers_in(stmt)}
    return tir.substitute(stmt, new)


def _wrong(loop: tir.For, why: str, hint: str = "") -> BuildError:
    return refused(f"{STAGES} of {loop.var.name}: {why}", hint)


class _Placed(Mutator):
    """Puts a pipeline in the place of its loop, and the copies of its buffers beside them."""

    def __init__(self, pipeline: _Pipeline):
        self.pipeline = pipeline

    def visit_For(self, item: tir.For) -> tir.Stmt:
        if item is not self.pipeline.loop:
            return self.visit_children(item)
        new, body = self.pipeline.stmt(), item.body
        while isinstance(body, tir.Alloc):
            new, body = tir.Alloc(body.buffer, new), body.body
        return self.visit(new)

    def visit_Alloc(self, item: tir.Alloc) -> tir.Stmt:
        body = self.visit(item.body)
        for copy in self.pipeline.copies.get(item.buffer, [])[1:]:
            body = tir.Alloc(copy, body)
        return replace(item, body=body)
