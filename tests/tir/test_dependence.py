"""The dependence test against all pairs of iterations: what it excludes never happens."""

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from minimlc.loops.ir.nodes import Binary, Buffer, Expr, For, Seq, Var, index
from minimlc.loops.proofs.access import Access
from minimlc.loops.proofs.dependence import Conflict
from minimlc.loops.proofs.points import evaluate

OFFSETS = {"0": 0, "+": 1, "-": -1}


class Pair:
    """Two accesses in up to two common loops, one of their own each, and common conditions."""

    def __init__(self, seed: int):
        rng = random.Random(seed)
        self.sizes: dict[Var, int] = {}
        self.common = [self.var(f"i{n}", rng) for n in range(rng.choice([1, 2, 2]))]
        alone = [[self.var(name, rng)] if rng.random() < 0.4 else [] for name in "pq"]
        one = [*self.common, *alone[0]]
        other = one if rng.random() < 0.5 else [*self.common, *alone[1]]
        nests = {var: For(var, index(size), "serial", Seq(())) for var, size in self.sizes.items()}
        guards = tuple(
            Binary(rng.choice(["<", "<=", ">", ">="]), some(rng, self.common, 1), index(bound))
            for bound in rng.sample([0, 1, 2, 3, 5, 8], rng.choice([0, 0, 1, 2]))
        )
        first = tuple(some(rng, one) for _ in range(rng.choice([1, 2])))
        second = tuple(some(rng, other) for _ in first)
        if rng.random() < 0.6 and set(other) == set(one):
            second = first
        where = Buffer("X", (1,) * len(first), "int32")
        self.sides = [
            Access(where, at, True, tuple(nests[v] for v in loops), guards, None, "", 0, where)
            for at, loops in ((first, one), (second, other))
        ]

    def var(self, name: str, rng: random.Random) -> Var:
        var = Var(name)
        self.sizes[var] = rng.choice([1, 2, 3, 4, 5, 6, 8])
        return var

    def instances(self, side: Access) -> tuple[np.ndarray, np.ndarray]:
        """The common loops' values in each iteration, and the elements touched."""
        loops = [loop.var for loop in side.loops]
        grid = np.indices([self.sizes[var] for var in loops]).reshape(len(loops), -1)
        values: dict[Var, Any] = dict(zip(loops, grid, strict=True))
        held = [np.broadcast_to(evaluate(g, values), grid.shape[1]) for g in side.guards]
        keep = np.logical_and.reduce([np.ones(grid.shape[1], bool), *held])
        elements = [np.broadcast_to(evaluate(i, values), grid.shape[1]) for i in side.indices]
        return grid.T[keep][:, : len(self.common)], np.stack(elements, axis=1)[keep]

    def directions(self) -> set[tuple[int, ...]]:
        """Of all pairs that meet, in which direction they lie."""
        (p, a), (q, b) = map(self.instances, self.sides)
        meet = (a[:, None, :] == b[None, :, :]).all(axis=2)
        one, other = np.nonzero(meet)
        return set(map(tuple, np.sign(q[other] - p[one]).tolist()))


def some(rng: random.Random, variables: Sequence[Var], depth: int = 2) -> Expr:
    """A sum of multiples, quotients and rests of them."""
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        return rng.choice(variables) * rng.choice([1, 1, 2, 3, 4, -1]) + rng.choice(
            [0, 0, 1, 3, -2]
        )
    if kind < 0.55:
        return some(rng, variables, depth - 1) + some(rng, variables, depth - 1)
    by = rng.choice([2, 3, 4, 5, 6, 7, 8])
    inner = some(rng, variables, depth - 1)
    return inner % by if kind < 0.8 else inner // by


@pytest.mark.parametrize("seed", range(8))
def test_what_is_excluded_never_happens(seed: int):
    absent = excluded = 0
    for number in range(60):
        pair = Pair(1000 * seed + number)
        met, question = pair.directions(), Conflict(*pair.sides)
        for signs in product("0+-*", repeat=len(pair.common)):
            wanted = [set(OFFSETS.values()) if s == "*" else {OFFSETS[s]} for s in signs]
            real = any(all(x in w for x, w in zip(d, wanted, strict=True)) for d in met)
            possible = question.possible(dict(zip(pair.common, signs, strict=True)))
            assert possible or not real, (signs, pair.sides)
            absent += not real
            excluded += not possible
    assert excluded > absent / 2


def access(at: Expr | tuple[Expr, ...], loops: Sequence[For], *guards: Expr) -> Access:
    indices = at if isinstance(at, tuple) else (at,)
    where = Buffer("X", (1,) * len(indices), "int32")
    return Access(where, indices, True, tuple(loops), tuple(guards), None, "", 0, where)


def loop(name: str, size: int) -> For:
    return For(Var(name), index(size), "serial", Seq(()))


def test_a_ring_keeps_iterations_apart_as_long_as_it_is_not_round():
    around = loop("i", 10**6)
    ring = access((around.var + 7) % 10**6, [around])
    assert not Conflict(ring, ring).possible({around.var: "+"})
    short = access((around.var + 7) % (10**6 - 1), [around])
    assert Conflict(short, short).possible({around.var: "+"})
    twice = access((around.var * 3 + 1) % 10**6, [around])
    assert not Conflict(twice, twice).possible({around.var: "-"})


def test_a_common_condition_keeps_parts_of_a_sum_together():
    tile, row, column = loop("t", 64), loop("a", 2), loop("b", 10)
    inside = row.var * 10 + column.var
    at, nest = tile.var * 16 + inside, (tile, row, column)
    free, held = access(at, nest), access(at, nest, Binary("<", inside, index(16)))
    assert Conflict(free, free).possible({tile.var: "+"})
    assert not Conflict(held, held).possible({tile.var: "+"})
    assert Conflict(held, free).possible({tile.var: "+"})
    wide = access(at, nest, Binary("<", inside, index(17)))
    assert Conflict(wide, wide).possible({tile.var: "+"})


def test_what_a_loop_was_fused_from_and_cut_into_again():
    block, thread = loop("b", 1536), loop("t", 1024)
    whole, nest = block.var * 1024 + thread.var, (block, thread)
    for by in ((768,), (5000, 50), (50, 5000)):
        at = tuple(part for size in by for part in (whole // size, whole % size))
        apart = access(at, nest)
        assert not Conflict(apart, apart).possible({block.var: "+"})
        assert not Conflict(apart, apart).possible({block.var: "0", thread.var: "+"})
    part = access((whole // 768, whole % 767), nest)
    assert Conflict(part, part).possible({block.var: "+"})
    lapping = block.var * 1023 + thread.var
    again = access((lapping // 768, lapping % 768), nest)
    assert Conflict(again, again).possible({block.var: "+"})


def test_a_condition_that_holds_for_both_keeps_halves_apart():
    row, thread = loop("r", 10**6), loop("t", 256)
    nest, lower = (row, thread), Binary("<", thread.var, index(128))
    written, read = access(thread.var, nest, lower), access(thread.var + 128, nest, lower)
    near = access(thread.var + 127, nest, lower)
    for sign in "+-":
        assert not Conflict(written, read).possible({thread.var: sign})
    assert Conflict(written, near).possible({thread.var: "-"})
    assert Conflict(written, access(thread.var + 128, nest)).possible({thread.var: "-"})
