"""A schedule as the next random step finds it: its loops, blocks and buffers to choose from."""

import math
import random
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from typing import Any

import minimlc as mlc
from minimlc.loops.ir.nodes import Alloc, Block, Buffer, Expr, For, IfThenElse, Seq, Store, Var
from minimlc.loops.ir.walks import blocks_in, loops_in, statements_in
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.arith import constant_value, linear, variables


class Nothing(Exception):
    """There is nothing here that the step could sensibly be applied to."""


class Site:
    """Names to draw arguments from. A `wild` site mostly offers everything, fitting or not.

    What fits is read off the tree and is no more than a guess: legality is for the primitive.
    """

    def __init__(self, sch: mlc.Schedule, rng: random.Random, wild: bool):
        func = sch.func
        self.func, self.rng, self.wild = func, rng, wild
        self.loops: dict[str, For] = {loop.var.name: loop for loop in loops_in(func.body)}
        self.blocks: dict[str, Block] = {block.name: block for block in blocks_in(func.body)}
        inside = [part.buffer for part in statements_in(func.body) if isinstance(part, Alloc)]
        self.buffers: dict[str, Buffer] = {b.name: b for b in (*func.params, *func.allocs, *inside)}
        self.own = [buffer.name for buffer in func.allocs]
        self.around = {name: sch.loops(name) for name in self.blocks}
        self.conditional = {
            part.var.name if isinstance(part, For) else part.name
            for branch in statements_in(func.body)
            if isinstance(branch, IfThenElse)
            for part in statements_in(branch)
            if isinstance(part, For | Block)
        }
        self.inner = {
            part.var.name if isinstance(part, For) else part.name
            for block in self.blocks.values()
            for part in statements_in(block)
            if isinstance(part, For | Block) and part is not block
        }
        self.items = list(accesses(func))
        self.uses = [
            (i.block.name if i.block else "", i.buffer.name, i.is_write) for i in self.items
        ]

    # Choices

    def among(self, fitting: Iterable[str], everything: Iterable[str]) -> str:
        """One of the names that fit, or on a wild site of all."""
        names = list(everything if self.wild and self.chance(0.6) else fitting)
        if not names:
            raise Nothing
        return self.rng.choice(names)

    def loop(self, fitting: Iterable[str]) -> str:
        return self.among(fitting, self.loops)

    def block(self, fitting: Iterable[str]) -> str:
        return self.among(fitting, self.blocks)

    def buffer(self, fitting: Iterable[str]) -> str:
        return self.among(fitting, self.buffers)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def several(self, chain: Sequence[str], least: int = 2) -> list[str]:
        """Neighbours of a chain of loops, on a wild site any loops, in their order."""
        if self.wild:
            names = list(self.loops)
            count = min(len(names), self.rng.randint(least, 3))
            return self.rng.sample(names, count)
        count = self.rng.randint(least, len(chain))
        start = self.rng.randint(0, len(chain) - count)
        return list(chain[start : start + count])

    # What fits

    def serial(self, least: int = 2) -> list[str]:
        """Serial loops of constant extent, at least so many iterations."""
        return [
            name
            for name, loop in self.loops.items()
            if loop.kind == "serial" and (constant_value(loop.extent) or 0) >= least
        ]

    def varying(self) -> list[str]:
        """Serial loops whose extent is not constant."""
        loops = self.loops.items()
        return [n for n, lp in loops if lp.kind == "serial" and constant_value(lp.extent) is None]

    def touches_own_only(self, loop: str) -> bool:
        """Whether the blocks in a loop write no parameter."""
        inside = [name for name, around in self.around.items() if loop in around]
        return bool(inside) and all(b in self.own for name in inside for b in self.writes(name))

    def extent(self, loop: str) -> int:
        """A loop's extent, 4 where it is not constant."""
        return constant_value(self.loops[loop].extent) or 4

    def kinds(self, loop: str) -> set[str]:
        """The kinds of the iters that a loop feeds; "" for a block in it that it does not feed."""
        found: set[str] = set()
        for name, block in self.blocks.items():
            if loop in self.around[name]:
                var = self.loops[loop].var
                own = {it.kind for it in block.iters if var in variables(it.value)}
                found |= own or {""}
        return found

    def guards(self, loop: str) -> bool:
        """Whether a block in the loop has a predicate that uses it."""
        var = self.loops[loop].var
        inside = blocks_in(self.loops[loop].body)
        return any(b.predicate is not None and var in variables(b.predicate) for b in inside)

    def neighbours(self) -> list[tuple[str, str]]:
        """Pairs of serial loops; the second stands directly behind the first."""
        able = set(self.serial(least=1))
        found = []
        for stmt in statements_in(self.func.body):
            parts = stmt.stmts if isinstance(stmt, Seq) else ()
            for a, b in pairwise(parts):
                if isinstance(a, For) and isinstance(b, For) and {a.var.name, b.var.name} <= able:
                    found.append((a.var.name, b.var.name))
        return found

    def siblings(self) -> list[list[str]]:
        """The blocks of neighbouring statements, all of them, in serial loops."""
        found = []
        for stmt in statements_in(self.func.body):
            parts = stmt.stmts if isinstance(stmt, Seq) else ()
            for start, stop in combinations(range(len(parts) + 1), 2):
                blocks = [block.name for part in parts[start:stop] for block in blocks_in(part)]
                kinds = {loop.kind for part in parts[start:stop] for loop in loops_in(part)}
                if blocks and kinds <= {"serial", "unrolled", "vectorized"}:
                    found.append(blocks)
        return found

    def innermost(self) -> list[str]:
        return [name for name, loop in self.loops.items() if not loops_in(loop.body)]

    def chains(self, least: int = 2, serial: bool = False) -> list[list[str]]:
        """Runs of loops each directly in the one before, as long as they get."""
        starts: list[list[str]] = []
        inner: set[str] = set()
        for name, loop in self.loops.items():
            if name in inner:
                continue
            chain = [name]
            stmt = loop
            while isinstance(stmt.body, For):
                stmt = stmt.body
                chain.append(stmt.var.name)
                inner.add(stmt.var.name)
            starts += self._serial_runs(chain) if serial else [chain]
        return [chain for chain in starts if len(chain) >= least]

    def _serial_runs(self, chain: Sequence[str]) -> list[list[str]]:
        runs: list[list[str]] = [[]]
        able = set(self.serial(least=1))
        for name in chain:
            if name in able:
                runs[-1].append(name)
            elif runs[-1]:
                runs.append([])
        return runs

    def chain(self, serial: bool = False) -> list[str]:
        found = self.chains(serial=serial)
        if not found and not self.wild:
            raise Nothing
        return self.rng.choice(found) if found else []

    def reads(self, block: str) -> list[str]:
        return list(dict.fromkeys(b for name, b, write in self.uses if name == block and not write))

    def writes(self, block: str) -> list[str]:
        return list(dict.fromkeys(b for name, b, write in self.uses if name == block and write))

    def readers(self, buffer: str) -> list[str]:
        return list(dict.fromkeys(n for n, b, write in self.uses if b == buffer and not write))

    def writers(self, buffer: str) -> list[str]:
        return list(dict.fromkeys(n for n, b, write in self.uses if b == buffer and write))

    def slides(self, buffer: str) -> bool:
        """Whether a buffer is read at the sum of two loops' variables."""
        return any(
            len(variables(index)) > 1
            for item in self.items
            if item.buffer.name == buffer and not item.is_write
            for index in item.indices
        )

    def whole(self, block: str) -> bool:
        """Whether a block surely runs for all that its iters may be, once each."""
        item, around = self.blocks[block], self.around[block]
        return (
            item.predicate is None
            and block not in self.conditional
            and all(constant_value(self.loops[name].extent) for name in around)
            and math.prod(map(self.extent, around)) == math.prod(it.extent for it in item.iters)
        )

    def starts_anew(self, block: str) -> bool:
        """Whether what a block writes does not depend on what was there."""
        apart = not set(self.reads(block)) & set(self.writes(block))
        return apart or self.blocks[block].init is not None

    def ordered(self, block: str) -> bool:
        """Whether a block's instances must be taken in order."""
        return any(it.kind == "O" for it in self.blocks[block].iters)

    def undisturbed(self, block: str, others: Iterable[str]) -> bool:
        """Whether a block could as well stand before (or behind) those others."""
        reads, writes = {*self.reads(block)}, {*self.writes(block)}
        return not any(
            writes & {*self.reads(name), *self.writes(name)} or reads & {*self.writes(name)}
            for name in others
        )

    def between(self, first: str, last: str) -> list[str]:
        """The blocks behind one and before another, and loops' own statements, wherever."""
        names = list(self.blocks)
        return [*names[names.index(first) + 1 : names.index(last)], ""]

    def is_reduction(self, block: str) -> bool:
        return any(it.kind == "R" for it in self.blocks[block].iters)

    def reads_factors(self, block: str) -> bool:
        """Whether a block reads two buffers besides the one it writes."""
        return len({*self.reads(block)} - {*self.writes(block)}) == 2

    def spatial(self) -> list[str]:
        """Blocks with spatial iters only."""
        return [n for n, b in self.blocks.items() if all(it.kind == "S" for it in b.iters)]

    def plain(self, block: str) -> bool:
        """Whether a block's body is a single unconditional statement."""
        body = self.blocks[block].body
        return not isinstance(body, IfThenElse) and not blocks_in(body)

    def movable(self, block: str) -> bool:
        """Whether a block writes the elements that its spatial iters name, in serial loops and
        under no condition.
        """
        item = self.blocks[block]
        spatial = {it.var for it in item.iters if it.kind == "S"}
        stores = [part for part in statements_in(item) if isinstance(part, Store)]
        named = [[_iter_of(part) for part in store.indices] for store in stores]
        return (
            all(len(set(each)) == len(each) and set(each) == spatial for each in named)
            and all(self.loops[name].kind == "serial" for name in self.around[block])
            and block not in self.conditional
            and not (set(self.reads(block)) & set(self.writes(block)) and item.init is None)
        )

    def consumers(self, block: str) -> list[str]:
        """The blocks besides it that read what it writes."""
        found = (name for buffer in self.writes(block) for name in self.readers(buffer))
        return [name for name in dict.fromkeys(found) if name and name != block]

    def producers(self, block: str) -> list[str]:
        found = (name for buffer in self.reads(block) for name in self.writers(buffer))
        return [name for name in dict.fromkeys(found) if name and name != block]

    def intermediate(self, block: str) -> bool:
        """Whether a block alone writes one buffer of the function's own, read by others."""
        written = self.writes(block)
        return (
            len(written) == 1
            and written[0] in self.own
            and self.writers(written[0]) == [block]
            and bool(self.consumers(block))
        )

    def shared_loops(self, blocks: Sequence[str]) -> list[str]:
        """The loops around all of `blocks`."""
        if not blocks:
            return []
        first, *others = (self.around[name] for name in blocks)
        return [name for name in first if all(name in other for other in others)]


def _iter_of(part: Expr) -> Var | None:
    """The variable that an index is, with an offset or backwards."""
    terms = list(linear(part).terms.items())
    var = terms[0][0].expr if len(terms) == 1 and abs(terms[0][1]) == 1 else None
    return var if isinstance(var, Var) else None


Arguments = tuple[Sequence[Any], dict[str, Any]]
