"""Pooling and depthwise convolutions: each element reduces a small window of its own channel."""

from math import ceil

from minimlc.loops.ir.nodes import Binary, Block, Load, Store
from minimlc.loops.proofs.arith import Atom, linear
from minimlc.loops.values.node import nodes_of, walk
from minimlc.loops.values.target import Target
from minimlc.recipes.elementwise import is_elementwise
from minimlc.recipes.general import attempt
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    choose,
    divisor,
    first,
    lanes_of,
    recipe,
    worth_threads,
)

MOST_IN_A_WINDOW = 64
"""Elements of a window that become straight code."""

VECTORS = 4
"""Vectors of a row of results that are kept in registers at a time."""

SUMS = 8
"""Vectors of results of several rows, whose windows share what they read."""


@recipe
def windows(sch: Draft, block: str | None, target: Target) -> Draft:
    """A fast out[n, c, i, j] += f(image[n, c, i*s + p, j*t + q]), with max, sums, or weights.

    A piece of a row of results stays in registers until its windows are read. `block` names the
    reduction, by default the first there is. Raises `ScheduleError` where there is none.
    """

    def question(item: Block) -> bool | None:
        return is_by_windows(sch, item.name) or None

    why = "windows: {} small windows along its rows"
    name, _ = first(sch, block, question, why, ("does not reduce", "reduces"))
    return in_pieces(sch, name, target)


def is_by_windows(sch: Draft, name: str) -> bool:
    """Whether a block reduces few elements to each result, by loops inside the ones over a row."""
    item = sch.block(name)
    spatial, sums = (sch.loops_of(name, kind) for kind in "SR")
    body = item.body
    if not isinstance(body, Store) or not isinstance(item.init, Store) or len(sums) < 2:
        return False
    if not spatial or sch.loops(name) != [*spatial, *sums]:
        return False
    if len(sch.loops_along(name, -1)) != 1 or not is_along(item, body):
        return False
    return sch.iterations(name, sums) <= MOST_IN_A_WINDOW


def is_along(item: Block, output: Store) -> bool:
    """Whether what a block reduces lies side by side as its results do."""
    summed = {it.var for it in item.iters if it.kind == "R"}
    loads = [load for load in nodes_of(output.value, Load) if summed & {*walk(load)}]
    return any(output.indices[-1] in walk(at) for load in loads for at in load.indices[-1:])


def in_pieces(sch: Draft, name: str, target: Target) -> Draft:
    """Pieces of a row in vectors, or of a few rows; the windows written out."""
    sums = sch.loops_of(name, "R")
    (along,) = sch.loops_along(name, -1)
    elements = sch.iterations(name)
    sch, near = in_strips(sch, name, target)
    sch = columns_apart(sch, name)
    lanes = lanes_of(target, sch.store(name).buffer.dtype)
    sch, vectors = choose(sch, f"vectors of {name}", (VECTORS, 1, 2, 6, 8, 12))
    piece = divisor(sch.extent(name, along), vectors * lanes)
    pieces: list[str] = []
    most, left = SUMS // ceil(piece / lanes), piece % lanes
    if piece < sch.extent(name, along) and left & (left - 1):
        most = 1  # a row's last vector would reach into the next row
    if piece >= lanes:
        sch, (*pieces, along) = sch.cut(name, along, piece)
    sch, row = rows_of(sch, name, most)
    if row and not any(is_elementwise(sch, after) for after in sch.consumers(name)):
        sch = sch.cache_write(name, sch.buffer(name))  # so that sums have separate storage
    sch = sch.reorder(*pieces, *sums, *row, along)
    sch, (init, update) = sch.making("decompose_reduction", name, at=sums[0])
    depth = len([*row, along])
    outer = sch.loops(init)[:-depth]
    sch = sch.unrolled(sums)
    for block in (init, update):
        sch = sch.in_registers(sch.loops(block)[-depth:])
    sch = with_neighbours(sch, update, outer, near)
    if row:  # each begins at a vector
        sch = attempt(sch, "storage_align", update, sch.buffer(update), -2, lanes)
    long = [loop for loop in outer if sch.extent(init, loop) > 1]
    return sch.parallel(long[0]) if long and worth_threads(elements, target) else sch


def columns_apart(sch: Draft, name: str) -> Draft:
    """Borders with even columns before odd ones, where windows are two columns apart: what a row of
    windows has first, or second, lies side by side then.
    """
    column = sch.store(name).indices[-1]
    for border in borders_of(sch, name):
        buffer = sch.buffer(border)
        loads = [
            load for load in nodes_of(sch.block(name).body, Load) if load.buffer.name == buffer
        ]
        steps = {linear(load.indices[-1]).terms.get(Atom.of(column)) for load in loads}
        alone = sch.consumers(border) == [name] and sch.store(border).buffer not in sch.func.params
        if alone and steps == {2} and sch.extent(border, sch.loops(border)[-1]) % 2 == 0:
            sizes = loads[0].buffer.shape
            if 0 in sizes:
                continue
            *rest, last = (f"d{at}" for at in range(len(sizes)))
            long = [dim for dim, size in zip(rest, sizes, strict=False) if size > 1]
            apart = ", ".join([*long, f"{last} % 2", f"{last} // 2"])
            layout = f"{', '.join([*rest, last])} -> {apart}"
            sch = sch.transform_layout(border, buffer, layout).transform_block_layout(
                border, layout
            )
    return sch


def rows_of(sch: Draft, name: str, most: int) -> tuple[Draft, list[str]]:
    """Rows of sums whose windows share what they read; none for a maximum, which takes registers of
    its own.
    """
    store = sch.store(name)
    if len(store.indices) < 4 or not isinstance(store.value, Binary) or store.value.op != "+":
        return sch, []
    *_, rows = sch.loops_along(name, -2)
    count = divisor(sch.extent(name, rows), max(most, 1))
    if count == 1:
        return sch, []
    sch, (_, row) = sch.cut(name, rows, count)
    return sch, [row]


def in_strips(sch: Draft, name: str, target: Target) -> tuple[Draft, str]:
    """Rows of a channel in strips whose windows, with a border, stay in the first level; and the
    loop over those: over channels where a whole one stays there, "" without channels.
    """
    _, channel, *rows = [*sch.loops_of(name, "S"), "", ""]
    if len(rows) < 4:
        return sch, channel if len(rows) > 2 else ""
    whole, held = sch.extent(name, rows[0]), 1
    for border in borders_of(sch, name):
        size = bytes_of(sch.store(border).buffer.dtype)
        held = max(held, size * sch.iterations(border, sch.loops(border)[2:]))
    strip = divisor(whole, max(whole * (target.l1 // 4) // held, 1))
    if strip == whole:
        return sch, channel
    sch, (strips, _) = sch.cut(name, rows[0], strip)
    return sch, strips


def borders_of(sch: Draft, name: str) -> list[str]:
    """The blocks that copy what windows read, with a border around it."""
    return [block for block in sch.producers(name) if is_elementwise(sch, block)]


def with_neighbours(sch: Draft, name: str, outer: list[str], near: str) -> Draft:
    """Borders are added in the loop `near`, element-wise consumers computed piece by piece."""
    for border in borders_of(sch, name):
        sch = attempt(sch, "compute_at", border, near) if near else sch
        sch = attempt(sch, "vectorize", sch.loops(border)[-1])
        inner = [item for item in sch.loops(border) if item not in sch.loops(name)]
        sch = sch.unrolled([item for item in inner[-2:-1] if sch.extent(border, item) == 2])
    for after in [item for item in sch.consumers(name) if is_elementwise(sch, item)]:
        sch = attempt(sch, "reverse_compute_at", after, outer[-1]) if outer else sch
        sch = attempt(sch, "vectorize", sch.loops(after)[-1])
        around, inner = sch.loops(after)[: len(outer)], sch.loops(after)[len(outer) : -1]
        few = around == outer and sch.iterations(after, inner) <= SUMS
        sch = sch.unrolled(inner if few else [])
    return sch
