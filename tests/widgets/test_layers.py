"""Graphs in layers: edges lead down, points fill the layers between, and few lines cross."""

import random
from itertools import combinations, pairwise

import pytest
from minimlc_widgets.layers import LONGEST, crossings, layered


def drawn(count, edges):
    """The layout, checked: every node once, every piece down by one layer, every edge a path."""
    layers, pieces = layered(count, edges)
    ranks = {number: rank for rank, layer in enumerate(layers) for number in layer}
    assert len(ranks) == sum(map(len, layers)) and set(range(count)) <= set(ranks)
    assert len(set(pieces)) == len(pieces)
    below = {}
    for source, target in pieces:
        long = ranks[target] - ranks[source] > LONGEST and max(source, target) < count
        assert ranks[target] == ranks[source] + 1 or long
        below.setdefault(source, []).append(target)
    ends = {number: ends_of(number, below, count) for number in range(count)}
    assert {(a, b) for a in ends for b in ends[a]} == set(edges)
    return layers, pieces, ranks


def ends_of(number, below, count):
    """The nodes that pieces lead to, past points."""
    ends = []
    for target in below.get(number, ()):
        ends += [target] if target < count else ends_of(target, below, count)
    assert len(set(ends)) == len(ends)
    return ends


def test_a_diamond():
    layers, pieces, _ = drawn(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert layers == [[0], [1, 2], [3]] and len(pieces) == 4


def test_an_edge_past_layers_has_points_that_others_of_its_source_share():
    layers, pieces, _ = drawn(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 3), (0, 4)])
    assert [len(layer) for layer in layers] == [1, 2, 2, 2, 1]
    assert len(pieces) == 4 + 2 + 1 + 2  # two points are shared; one more on the way to 4


def test_what_is_read_late_is_above_its_reader():
    _, _, ranks = drawn(5, [(0, 1), (1, 2), (2, 4), (3, 4)])
    assert ranks == {0: 0, 1: 1, 2: 2, 3: 2, 4: 3}


def test_nothing_and_nodes_without_edges():
    assert layered(0, []) == ([], [])
    assert drawn(3, [])[0] == [[0, 1, 2]]


def test_an_edge_over_very_many_layers_is_one_piece():
    chain = list(pairwise(range(LONGEST + 3)))
    _, pieces, ranks = drawn(LONGEST + 3, [*chain, (0, LONGEST + 2)])
    assert (0, LONGEST + 2) in pieces and len(ranks) == LONGEST + 3


def test_crossings_are_those_counted_pair_by_pair():
    rng = random.Random(1)
    edges = [(a, b) for a in range(9) for b in range(9, 18) if rng.random() < 0.4]
    layers = [rng.sample(range(9), 9), rng.sample(range(9, 18), 9)]
    at = {number: place for layer in layers for place, number in enumerate(layer)}
    crossed = [(at[a] - at[c]) * (at[b] - at[d]) < 0 for (a, b), (c, d) in combinations(edges, 2)]
    assert crossings(layers, edges) == sum(crossed) > 0


def test_a_twisted_ladder_is_untangled():
    edges = [(0, 3), (1, 2), (2, 5), (3, 4), (4, 7), (5, 6)]
    layers, pieces, _ = drawn(8, edges)
    assert crossings([sorted(layer) for layer in layers], pieces) > 0
    assert crossings(layers, pieces) == 0


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs(seed):
    rng = random.Random(seed)
    count = rng.randrange(2, 60)
    pairs = list(combinations(range(count), 2))
    edges = set(rng.sample(pairs, min(len(pairs), 2 * count)))
    layers, pieces, ranks = drawn(count, edges)
    assert crossings(layers, pieces) <= crossings([sorted(layer) for layer in layers], pieces)
    for number in range(count):  # the longest path from above, but for what starts one
        before = [ranks[a] for a, b in edges if b == number]
        assert not before or ranks[number] > max(before)
