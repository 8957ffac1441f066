"""Uses of elements that were never written.

The elements of a function's own buffer are undefined until they are written. A value read before
that is unwritten, and so is whatever is computed from it; the error is to decide by it, or to store
it in a parameter. The interpreter reports it where it happens. Here it is reported where it surely
happens: in an iteration that runs whatever the data, and that no write can precede.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from minimlc.loops.ir.nodes import Buffer, Load, PrimFunc, Var
from minimlc.loops.ir.walks import buffers_in, loops_in
from minimlc.loops.proofs.access import Access, accesses, loop_extents, shared_loops
from minimlc.loops.proofs.coverage import covers
from minimlc.loops.proofs.dependence import A_FEW
from minimlc.loops.proofs.regions import init_comes_first
from minimlc.loops.proofs.unwritten import Unwritten, is_update
from minimlc.loops.proofs.witness import Element, Values, element_at, points
from minimlc.loops.values.errors import VerifyError
from minimlc.services.checks.instances import are_at, narrowed, reaching, written_before

MOST_TRIED = 8
"""The most iterations of one read that are examined because they may find nothing written."""

MOST_STEPS = 128
"""The most reads examined, in all, to see what becomes of unwritten values."""


def check_written(func: PrimFunc) -> None:
    """Raise a `VerifyError` where `func` surely uses an element that was never written."""
    scopes = _scopes(func)
    if scopes:
        _Search(func, scopes).check()


def _scopes(func: PrimFunc) -> dict[Buffer, int]:
    """The function's own buffers, and the number of loops in which each starts afresh."""
    scopes = dict.fromkeys((*func.allocs, *buffers_in(func.body)), 0)
    for loop in loops_in(func.body):
        for buffer in buffers_in(loop.body):
            scopes[buffer] += 1
    return scopes


class _Search:
    """Looks for an iteration of a read that surely finds nothing written, and for a use of it.

    Trying a few iterations finds it; that no write can have come before, and that no other
    write can have replaced the values computed from it, is proven of all writes.
    """

    def __init__(self, func: PrimFunc, scopes: Mapping[Buffer, int]):
        self.scopes = scopes
        self.reads: dict[Buffer, list[Access]] = {buffer: [] for buffer in scopes}
        self.writes: dict[Buffer, list[Access]] = {buffer: [] for buffer in scopes}
        self.stores: dict[int, Access] = {}
        self.updates: set[int] = set()
        self.steps = MOST_STEPS
        pending: list[Access] = []
        for item in accesses(func):
            if item.is_write:
                self._group(item, pending)
                pending = []
            elif item.buffer in scopes:
                self.reads[item.buffer].append(item)
                pending.append(item)

    def _group(self, write: Access, reads: list[Access]) -> None:
        """Note a write, the reads of its value, and whether its own element is among them in each
        instance: then an unwritten element stays unwritten.
        """
        if write.buffer in self.scopes:
            self.writes[write.buffer].append(write)
        for read in reads:
            if read.into is write.node:
                self.stores[read.order] = write
                assert isinstance(read.node, Load)
                if is_update(read.node, read.into) and len(read.guards) == len(write.guards):
                    self.updates |= {write.order, read.order}

    def check(self) -> None:
        """Raise a `VerifyError` for the first use that is found."""
        for buffer, reads in self.reads.items():
            for read in reads:
                if any(_is_before(write, read) for write in self.writes[buffer]):
                    continue
                for at in self._candidates(read):
                    self._check_at(read, at)

    def _check_at(self, read: Access, at: Values) -> None:
        element = element_at(read, at)
        if element is None or self._may_be_written(read, at, element):
            return
        use = self._use(read, at)
        if use is None:
            return
        assert isinstance(read.node, Load)
        values = {loop.var.name: at[loop.var] for loop in read.loops}
        fault = Unwritten(read.node, element, values, read.block, read.into)
        store = self.stores.get(use[0].order)
        if store is None:
            raise fault.error(kind=VerifyError)
        raise fault.error(store.buffer, element_at(store, use[1]), VerifyError)

    def _candidates(self, read: Access) -> Iterator[Values]:
        """Iterations of a read that may find nothing written: some found among the first
        iterations of all accesses, then those where its loops begin and end.
        """
        tried = points(read, A_FEW)
        if tried is None:
            return
        late = np.ones(len(tried.elements), bool)
        for write in self.writes[read.buffer]:
            late &= ~written_before(write, read, self.scopes[read.buffer], tried)
        rows = np.flatnonzero(late)
        chosen = np.linspace(0, len(rows) - 1, MOST_TRIED).astype(int) if len(rows) else ()
        for row in dict.fromkeys(chosen):
            yield tried.at(int(rows[row]))
        if tried.complete:
            return
        lasts = {var: extent - 1 for var, extent in loop_extents(read.loops).items()}
        first = dict.fromkeys(lasts, 0)
        yield from (first, *({**first, var: last} for var, last in lasts.items()), lasts)

    def _may_be_written(self, read: Access, at: Values, element: Element) -> bool:
        """Whether a write of the element may come before the read in iteration `at`."""
        return any(
            instances is None or instances
            for write in self.writes[read.buffer]
            for instances in self._earlier(write, read, at, element)
        )

    def _earlier(
        self, write: Access, read: Access, at: Values, element: Element
    ) -> Iterator[list[Values] | None]:
        """The instances of a write that may touch an element before a read in iteration `at` does:
        in earlier iterations of each shared loop, then in the same iteration. None where they are
        too many, or depend on data.
        """
        fixed: dict[Var, int] = {}
        for depth, loop in enumerate(shared_loops(write, read)):
            if at[loop.var] > 0 and depth >= self.scopes[read.buffer]:
                yield reaching(write, {**fixed}, (loop.var, at[loop.var]), element)
            fixed[loop.var] = at[loop.var]
        if write.order < read.order:
            yield reaching(write, fixed, None, element)

    def _use(self, read: Access, at: Values) -> tuple[Access, Values] | None:
        """Where an unwritten value is used: the read itself, or the read of a dependent value."""
        store = self.stores.get(read.order)
        if store is None or store.buffer not in self.scopes:
            return read, at
        element = element_at(store, at)
        if element is None:
            return None
        for later in self.reads[store.buffer]:
            if later.order in self.updates or self.steps == 0:
                continue
            self.steps -= 1
            for when in self._finding(later, store, at, element):
                use = self._use(later, when)
                if use is not None:
                    return use
        return None

    def _finding(
        self, read: Access, store: Access, at: Values, element: Element
    ) -> Iterator[Values]:
        """Iterations of a read that surely find what a store left in iteration `at`."""
        narrow = narrowed(read, element)
        instances = points(narrow[0], A_FEW) if narrow is not None else None
        if narrow is None or instances is None:
            return
        rows = np.flatnonzero(are_at(instances.elements, element))
        for row in (*rows[:MOST_TRIED], *rows[-1:]):
            when = {**narrow[1], **instances.at(int(row))}
            if not self._is_after(read, when, store, at) or element_at(read, when) != element:
                continue
            others = (w for w in self.writes[read.buffer] if w.order not in self.updates)
            between = (
                earlier is None or any(self._is_after(write, q, store, at) for q in earlier)
                for write in others
                for earlier in self._earlier(write, read, when, element)
            )
            if not any(between):
                yield when

    def _is_after(self, item: Access, when: Values, store: Access, at: Values) -> bool:
        """Whether an access in iteration `when` comes after a store in `at`, to the same buffer."""
        shared = [loop.var for loop in shared_loops(store, item)]
        new, old = [when[var] for var in shared], [at[var] for var in shared]
        scope = self.scopes[store.buffer]
        return new[:scope] == old[:scope] and (new, item.order) > (old, store.order)


def _is_before(write: Access, read: Access) -> bool:
    """Whether a write, or the init of the block that reads, surely comes before a read."""
    if read.role == "update" and read.block is not None and read.block.init is not None:
        return init_comes_first(read.block, read.loops, read.runs_where)
    if write.order > read.order:
        return False
    return covers(write, read, [loop.var for loop in shared_loops(write, read)])
