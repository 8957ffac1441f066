"""A directed graph in layers: where its nodes go, from above and from the left.

The four steps are from Sugiyama, Tagawa and Toda ("Methods for visual understanding of
hierarchical system structures", IEEE SMC 11(2), 1981): layers by the longest path, points on edges
that pass a layer, an order within each layer by barycentres, and coordinates. The last one is the
page's (graph.js), because it depends on which groups are open.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LONGEST = 24
"""An edge over more layers than this is drawn straight, without a point in each."""
SWEEPS = 6
Edge = tuple[int, int]


class Layered(NamedTuple):
    """Nodes by layer, from the left, and pieces of edges between them. Numbers that are no node's
    are points where an edge passes a layer; each has one piece that leads to it.
    """

    layers: list[list[int]]
    pieces: list[Edge]


def layered(count: int, edges: Iterable[Edge]) -> Layered:
    """Layers of the nodes 0 … `count` - 1; each edge leads to a higher number."""
    unique = sorted(set(edges))
    ranks = _ranks(count, unique)
    layers: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for number, rank in enumerate(ranks):
        layers[rank].append(number)
    pieces = _pieces(count, unique, ranks, layers)
    return Layered(_ordered(layers, pieces), pieces)


def _ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """The layer of each node: one below the lowest that leads to it. A node that nothing leads to
    is just above its first use.
    """
    ranks = [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        ranks[target] = max(ranks[target], ranks[source] + 1)
    inner = {target for _, target in edges}
    first: dict[int, int] = {}
    for source, target in edges:
        first[source] = min(first.get(source, ranks[target]), ranks[target])
    return [
        first[number] - 1 if number in first and number not in inner else rank
        for number, rank in enumerate(ranks)
    ]


def _pieces(
    count: int, edges: Sequence[Edge], ranks: Sequence[int], layers: list[list[int]]
) -> list[Edge]:
    """The edges, cut where they pass a layer; edges of one source share their points."""
    pieces: list[Edge] = []
    points: dict[Edge, int] = {}  # by source and layer
    for source, target in edges:
        if ranks[target] - ranks[source] > LONGEST:
            pieces.append((source, target))
            continue
        before = source
        for rank in range(ranks[source] + 1, ranks[target]):
            point = points.get((source, rank))
            if point is None:
                point = points[source, rank] = count + len(points)
                layers[rank].append(point)
                pieces.append((before, point))
            before = point
        pieces.append((before, target))
    return pieces


def _ordered(layers: list[list[int]], pieces: Sequence[Edge]) -> list[list[int]]:
    """The layers, reordered downwards and upwards in turn; the order with the fewest crossings."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for source, target in pieces:
        above.setdefault(target, []).append(source)
        below.setdefault(source, []).append(target)
    best, fewest = layers, crossings(layers, pieces)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        upwards = sweep % 2
        layers = _swept(layers[::-1], below)[::-1] if upwards else _swept(layers, above)
        count = crossings(layers, pieces)
        if count < fewest:
            best, fewest = layers, count
    return best


def _swept(layers: Sequence[list[int]], near: dict[int, list[int]]) -> list[list[int]]:
    """Each layer by the mean place of its nodes' neighbours in those before."""
    places: dict[int, float] = {}
    result = []
    for layer in layers:
        wishes = {}
        for at, number in enumerate(layer):
            known = [places[n] for n in near.get(number, ()) if n in places]
            wishes[number] = sum(known) / len(known) if known else (at + 0.5) / len(layer)
        order = sorted(layer, key=wishes.__getitem__)
        places |= {number: (at + 0.5) / len(order) for at, number in enumerate(order)}
        result.append(order)
    return result


def crossings(layers: Sequence[Sequence[int]], pieces: Iterable[Edge]) -> int:
    """How many pairs of pieces between the same two layers cross."""
    places = {
        number: (rank, at) for rank, layer in enumerate(layers) for at, number in enumerate(layer)
    }
    between: dict[int, list[Edge]] = {}
    for source, target in pieces:
        (rank, start), (end, stop) = places[source], places[target]
        if end == rank + 1:
            between.setdefault(rank, []).append((start, stop))
    total = 0
    for ends in between.values():
        seen: list[int] = []
        for _, stop in sorted(ends):
            total += len(seen) - bisect_right(seen, stop)
            insort(seen, stop)
    return total
