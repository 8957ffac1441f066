"""Kernels: a lowered function as what one thread of a GPU runs, and how many threads there are.

Each top-level statement is a kernel. A loop bound to an axis becomes one value of that axis; where
only some axes are bound, the first thread of the others does the work. Barriers stand where threads
of a block meet in memory: a program that `bind` accepts has such places only between nests that
threads run one after the other, and around what they fetch together (`checks.threads`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, takewhile

from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.nodes import SHARED, THREAD
from minimlc.loops.ir.walks import buffers_in, inner_stmts, loops_in, statements_in
from minimlc.loops.lower.dialect import PLAIN, Dialect
from minimlc.loops.lower.lower import lower
from minimlc.loops.proofs.access import Access, accesses
from minimlc.loops.proofs.arith import constant_value, variables
from minimlc.loops.proofs.dependence import Conflict
from minimlc.loops.proofs.legality import conflicting_pairs
from minimlc.loops.schedule.redirect import Redirect, to
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.node import Node, nodes_of, replace, walk
from minimlc.targets.gpu.grid import with_grid
from minimlc.targets.gpu.launch import BLOCK, VIRTUAL, Axis, Barrier, Kernel, Launches, touches
from minimlc.targets.gpu.meetings import Part, Place, Use, apart, guarded, meeting, uses, waits
from minimlc.targets.gpu.pipelines import AHEAD, with_pipelines
from minimlc.targets.gpu.places import with_places
from minimlc.targets.gpu.refusal import refused
from minimlc.targets.gpu.sharing import check_axes, check_shared
from minimlc.targets.gpu.shuffles import Shuffle, fits, is_tree, shuffled
from minimlc.targets.gpu.trees import with_trees
from minimlc.targets.gpu.warps import FRAGMENT, Warp, X, check_group, is_group, tiles_in, warp_of


def kernels(
    name: str,
    func: tir.PrimFunc,
    dialect: Dialect = PLAIN,
    *,
    check: bool = True,
    shuffles: bool = False,
    cuda: bool = True,
) -> Launches:
    """The kernels of a function, named after it. Raises `BuildError` where the loops bound to
    threads cannot be launched. Without `check`, threads may race in shared memory: for tools that
    report it. With `shuffles`, threads of a warp combine values without memory. Without `cuda`,
    loops do not copy ahead in the background, and arrays do not share memory.
    """
    func = with_grid(func)
    func = with_trees(check_axes(func) if check else func)
    if check:
        check_shared(func)
    flat = lower(func, dialect=dialect, named=True, tensors=True, threads=True)
    flat = with_pipelines(flat, background=cuda)
    workspace, parts = _regions(flat.body)
    memory = (*flat.params, *workspace)
    names = [name] if len(parts) == 1 else [f"{name}_{number}" for number in range(len(parts))]
    pairs = zip(names, parts, strict=True)
    launched = [_kernel(*pair, memory, shuffles) for pair in pairs]
    if cuda:
        launched = [kernel._replace(body=with_places(kernel.body)) for kernel in launched]
    return Launches(flat, tuple(workspace), tuple(launched))


def _regions(stmt: tir.Stmt) -> tuple[list[tir.Buffer], list[tir.Stmt]]:
    """The global memory that a function needs, and the statements that are launched."""
    match stmt:
        case tir.Seq(stmts):
            found = [_regions(part) for part in stmts]
            return [b for one, _ in found for b in one], [s for _, some in found for s in some]
        case tir.Alloc(buffer, body) if _is_bound(body) or len(_regions(body)[1]) > 1:
            workspace, parts = _regions(body)
            if buffer.scope.startswith((SHARED, "local", FRAGMENT)):
                if not _is_bound(body):
                    return [], [stmt]
                if len(parts) > 1 or any(lp.thread.startswith(BLOCK) for lp in loops_in(body)):
                    raise _used_by_blocks(buffer)
                return workspace, [replace(stmt, body=parts[0])]
            return [buffer, *workspace], parts
        case _:  # other nodes: launched as they are
            return [], [stmt]


def _is_bound(stmt: tir.Stmt) -> bool:
    return any(loop.thread for loop in loops_in(stmt))


def _is_ahead(item: Node) -> bool:
    return isinstance(item, tir.Block) and AHEAD in dict(item.annotations)


def _kernel(name: str, stmt: tir.Stmt, memory: Sequence[tir.Buffer], shuffles: bool) -> Kernel:
    axes = tuple(_axes(stmt))
    threads = _Threads({axis.name: axis for axis in axes}, accesses(stmt))
    threads.tiles = tiles_in(stmt, threads.items, {axis.name: axis.extent for axis in axes})
    threads.shuffles = shuffles
    body = threads.stmt(stmt, Place()).stmt
    used = {part.buffer for part in touches(body)}
    return Kernel(name, tuple(buffer for buffer in memory if buffer in used), axes, body)


def _axes(stmt: tir.Stmt) -> Iterator[Axis]:
    found = set()
    for loop in loops_in(stmt):
        if loop.thread.startswith((BLOCK, THREAD)) and loop.thread not in found:
            found.add(loop.thread)
            extent = constant_value(loop.extent)
            if extent is None:
                raise refused(f"{loop.thread} has {loop.extent.script()} threads, not a constant")
            yield Axis(loop.thread, tir.Var(loop.var.name), int(extent))


class _Threads:
    """Rewrites statements as the work of one thread."""

    def __init__(self, axes: Mapping[str, Axis], items: Sequence[Access]):
        self.axes = axes
        self.items = items
        self.own = {axis.var for axis in axes.values() if axis.name.startswith(THREAD)}
        self.tiles: frozenset[tir.Buffer] = frozenset()
        self.shuffles = False

    def stmt(self, item: tir.Stmt, at: Place) -> Part:
        if not self._is_spread(item):
            return self._leaf(item, at)
        match item:
            case tir.Seq(stmts):
                return self._seq(stmts, at)
            case tir.For(thread=axis) if axis in self.axes:
                return self._bound(item, at)
            case tir.For():
                return self._loop(item, at)
            case tir.Alloc():
                return self._alloc(item, at)
            case tir.Block() if _is_ahead(item):
                return self._ahead(item, at)
            case tir.Block() if self.shuffles and is_tree(item) and fits(item, self.axes, at.bound):
                return self._tree(item, at)
            case tir.Block() if self.tiles and (warp := warp_of(item, self.axes[X].var)):
                return self._warp(warp, at)
            case tir.Block():
                part = self.stmt(item.body, at)
                return part._replace(stmt=replace(item, body=part.stmt))
            case tir.IfThenElse():
                return self._condition(item, at)
            case _:
                raise refused(f"loops are bound to threads inside {type(item).__name__}")

    def _is_spread(self, item: tir.Stmt) -> bool:
        """Whether a statement has parts for several threads, not for one alone."""
        return _is_bound(item) or self._is_of_warps(item) or any(map(_is_ahead, walk(item)))

    def _is_of_warps(self, item: tir.Stmt) -> bool:
        return bool(self.tiles) and any(part.buffer in self.tiles for part in touches(item))

    def _warp(self, item: Warp, at: Place) -> Part:
        """The work of all threads of a warp. Each has its own elements, so others wait for it, and
        it for them, as if it were a nest bound to them.
        """
        check_group(item, self.axes)
        used = apart(uses(item.body, at), item.body)
        return self._first(item, used, at._replace(bound=at.bound | {X}))

    def _tree(self, item: tir.Block, at: Place) -> Part:
        """Threads of a warp combine values: the first one stores them, as if it were alone."""
        stmt, loops = shuffled(item, self.axes), tuple(loops_in(item))
        used = uses(
            stmt, at._replace(nest=(*at.nest, *loops), private=at.private.union(buffers_in(stmt)))
        )
        if all(loop.thread in ("", X) for loop in loops):
            used = tuple(use._replace(nest=at.nest) if use.writes else use for use in used)
        return Part(stmt, used, used)

    def _ahead(self, item: tir.Block, at: Place) -> Part:
        """Copies that a thread does not wait for, so that it meets others even for its own."""
        part = self.stmt(item.body, at)
        head, tail = (apart(uses, item.body) for uses in (part.head, part.tail))
        return part._replace(stmt=replace(item, body=part.stmt), head=head, tail=tail)

    def _leaf(self, item: tir.Stmt, at: Place) -> Part:
        """A statement without bound loops: one thread runs it alone."""
        local = buffers_in(item)
        for buffer in local:
            _check_alone(buffer, at)
        used = uses(item, at._replace(private=at.private.union(local)))
        return self._first(item, used, at)

    def _first(self, item: tir.Stmt, used: tuple[Use, ...], at: Place) -> Part:
        """A statement that the first thread runs, along each axis that is not bound."""
        first = tir.conjunction(
            tir.Binary("==", axis.var, tir.index(0))
            for axis in self.axes.values()
            if axis.name not in at.bound and axis.extent > 1
        )
        return Part(item if first is None else tir.IfThenElse(first, item), used, used)

    def _alloc(self, item: tir.Alloc, at: Place) -> Part:
        buffer = item.buffer
        inside = {loop.thread for loop in loops_in(item.body)}
        inside |= {X} if self._is_of_warps(item.body) else set()
        open_axes = inside & set(self.axes) - at.bound
        if any(axis.startswith(BLOCK) for axis in open_axes):
            raise _used_by_blocks(buffer)
        _check_alone(buffer, at)
        if not buffer.scope.startswith(SHARED):
            item = self._per_thread(item, open_axes - ({X} if buffer in self.tiles else set()))
            buffer = item.buffer
            at = at._replace(private=at.private | {buffer})
        part = self.stmt(item.body, at)
        return part._replace(stmt=replace(item, body=part.stmt))

    def _per_thread(self, item: tir.Alloc, axes: set[str]) -> tir.Alloc:
        """An allocation whose elements each thread along these axes uses at its own place in some
        dimension: as a buffer for each thread, with size 1 there.
        """
        buffer, dims = item.buffer, set[int]()
        mine = [access for access in accesses(item.body) if access.buffer is buffer]
        for axis in axes:
            places = {
                dim for dim in range(buffer.ndim) if all(_is_place(i, dim, axis) for i in mine)
            }
            if not places or buffer in self.tiles:
                raise refused(
                    f"threads of a block share the {buffer.scope} buffer {buffer.name}",
                    f'sch.set_scope("...", "{buffer.name}", "shared"), or compute_at their loop',
                )
            dims |= places
        if not dims:
            return item
        shape = tuple(1 if dim in dims else size for dim, size in enumerate(buffer.shape))
        small = replace(buffer, shape=shape)

        def at(indices: Sequence[tir.Expr]) -> list[tir.Expr]:
            return [tir.index(0) if dim in dims else index for dim, index in enumerate(indices)]

        return tir.Alloc(small, Redirect({buffer: to(small, at)}).visit(item.body))

    def _seq(self, stmts: Iterable[tir.Stmt], at: Place) -> Part:
        """Statements in order; those without bound loops that follow each other are one."""
        whole = Part(tir.Seq(()), (), ())
        for bound, items in groupby(stmts, self._is_spread):
            for item in items if bound else [tir.seq(items)]:
                whole = self._then(whole, self.stmt(item, at), at)
        return whole

    def _then(self, one: Part, other: Part, at: Place) -> Part:
        """Two parts in order, with a barrier between them where threads meet in memory."""
        why = self._meeting(one.tail, other.head, at)
        between = [Barrier(why)] if why else []
        head = one.head if one.meets or why else (*one.head, *other.head)
        tail = other.tail if other.meets or why else (*one.tail, *other.tail)
        stmt = tir.seq((one.stmt, *between, other.stmt))
        return Part(stmt, head, tail, one.meets or other.meets or bool(why))

    def _meeting(
        self,
        before: Iterable[Use],
        after: Sequence[Use],
        at: Place,
        outside: tuple[tir.For, ...] | None = None,
    ) -> str:
        """Why threads have to wait here; "" where they need not. No barrier stops other blocks."""
        why, buffer = meeting(before, after, outside)
        several = [axis for axis in self.axes.values() if axis.extent > 1]
        if why and any(a.name.startswith(BLOCK) and a.name not in at.bound for a in several):
            raise refused(
                f"{buffer} is used by more than one block, which cannot wait for each other here",
                "bind the outermost loops to blockIdx; what is to follow takes a nest of its own",
            )
        return why

    def _bound(self, item: tir.For, at: Place) -> Part:
        """A loop over threads becomes the place of one thread. Where its axis is bound around it
        already, threads run it together, and their loops around it do not count.
        """
        axis, bound, nest = item.thread, at.bound, at.nest
        if axis in bound:
            bound = frozenset(name for name in bound if not name.startswith(THREAD))
            nest = tuple(loop for loop in nest if not loop.thread.startswith(THREAD))
        body = tir.substitute(item.body, {item.var: self.axes[axis].var})
        return self.stmt(body, at._replace(bound=bound | {axis}, nest=(*nest, item)))

    def _loop(self, item: tir.For, at: Place) -> Part:
        if item.thread.startswith(VIRTUAL):
            item = replace(item, kind="unrolled", thread="")
        part = self.stmt(item.body, at)
        # Copies that go on are waited for at each barrier, so none is left out.
        goes_on = constant_value(item.extent) != 1 and any(map(_is_ahead, statements_in(item.body)))
        tail = [use for use in part.tail if goes_on or self._is_carried(use.buffer, item.var)]
        why = self._meeting(tail, part.head, at, at.nest)
        if why:
            part = part._replace(stmt=tir.seq((part.stmt, Barrier(why))), tail=(), meets=True)
        meets = part.meets and (constant_value(item.extent) or 0) > 0

        def whole(extent: tir.Expr) -> Part:
            return part._replace(stmt=replace(item, extent=extent, body=part.stmt), meets=meets)

        return self._decided(item.extent, [part], at, whole)

    def _is_carried(self, buffer: tir.Buffer, var: tir.Var) -> bool:
        """Whether iterations of the loop over `var` may meet in a buffer, run by whatever threads
        of a block.
        """
        mine = [item for item in self.items if item.buffer is buffer]
        mine = [item for item in mine if var in [loop.var for loop in item.loops]]
        for first, second in conflicting_pairs(mine):
            outside = takewhile(lambda loop: loop.var is not var, first.loops)
            same = {lp.var: "0" for lp in outside if not lp.thread.startswith(THREAD)}
            question = Conflict(first, second)
            if any(question.possible({**same, var: sign}) for sign in "+-"):
                return True
        return False

    def _condition(self, item: tir.IfThenElse, at: Place) -> Part:
        """A condition whose cases have their barriers outside of it where it does not change; if it
        reads memory, its value is kept for that.
        """
        parts = [self.stmt(case, at) for case in inner_stmts(item)]
        keeps = bool(nodes_of(item.condition, tir.Load)) and any(waits(part.stmt) for part in parts)
        return self._decided(item.condition, parts, at, partial(_cases, item, parts), keeps)

    def _decided(
        self,
        expr: tir.Expr,
        parts: Sequence[Part],
        at: Place,
        whole: Callable[[tir.Expr], Part],
        keeps: bool = False,
    ) -> Part:
        """The whole of parts that run as often as the value of an expression. All threads read it,
        and wait before any of them changes what it reads; barriers in the parts are for all.
        """
        private = {load.buffer for load in walk(expr) if isinstance(load, tir.Load)} & at.private
        inside = (item for part in parts for item in walk(part.stmt))
        together = any(isinstance(item, Barrier | Shuffle) or is_group(item) for item in inside)
        if together and (private or variables(expr) & self.own):
            why = f"how often a thread meets the others depends on {expr.script()}"
            raise refused(why, "bind the loop outside, or split it so that it is the same for all")
        used = self._of_all(uses(expr, at), parts[0].stmt, at)
        why = self._meeting(used, [use for part in parts for use in part.head], at)
        if not why and not keeps:
            part = whole(expr)
            return part._replace(head=(*used, *part.head), tail=(*used, *part.tail))
        stored = expr.astype("int32") if expr.dtype == "bool" else expr
        kept = tir.Load(tir.Buffer("decided", (1,), stored.dtype, "local"), (tir.index(0),))
        part = whole(kept if stored is expr else tir.Binary("!=", kept, tir.as_expr(0, "int32")))
        first = Part(tir.Store(kept.buffer, kept.indices, stored), used, used)
        part = self._then(first, part, at)
        return part._replace(stmt=tir.Alloc(kept.buffer, part.stmt))

    def _of_all(self, used: tuple[Use, ...], body: tir.Stmt, at: Place) -> tuple[Use, ...]:
        """Uses by all threads, also along axes that are not bound, where a statement here is for
        the first thread only.
        """
        alone = all(axis.name in at.bound for axis in self.axes.values() if axis.extent > 1)
        return used if alone else apart(used, body)


def _cases(item: tir.IfThenElse, parts: Sequence[Part], condition: tir.Expr) -> Part:
    """A condition with its cases as parts, whose barriers are outside where it does not change."""
    head = tuple(use for part in parts for use in part.head)
    tail = tuple(use for part in parts for use in part.tail)
    meets = item.else_case is not None and all(part.meets for part in parts)
    if not any(waits(part.stmt) for part in parts):
        new = dict(zip(("then_case", "else_case"), (part.stmt for part in parts), strict=False))
        return Part(replace(item, condition=condition, **new), head, tail, meets)
    cases = zip((condition, ~condition), parts, strict=False)
    stmt = tir.seq(guarded(holds, part.stmt) for holds, part in cases)
    conditions = (inner for inner in statements_in(stmt) if isinstance(inner, tir.IfThenElse))
    meets = meets or (not any(map(waits, conditions)) and any(part.meets for part in parts))
    return Part(stmt, head, tail, meets)


def _is_place(item: Access, dim: int, axis: str) -> bool:
    """Whether an access has a thread's place along an axis as its index in a dimension."""
    return any(loop.thread == axis and item.indices[dim] is loop.var for loop in item.loops)


def _check_alone(buffer: tir.Buffer, at: Place) -> None:
    """Refuse memory that a block shares where each thread would have it for itself."""
    if buffer.scope.startswith(SHARED) and any(axis.startswith(THREAD) for axis in at.bound):
        why = f"each thread has {buffer.name} for itself, in memory that a block shares"
        raise refused(why, f'T.alloc_buffer({buffer.shape}, ..., scope="local")')


def _used_by_blocks(buffer: tir.Buffer) -> BuildError:
    return refused(
        f"the {buffer.scope} buffer {buffer.name} is used by more than one block",
        f'sch.set_scope("...", "{buffer.name}", "global"), or compute_at below blockIdx',
    )
