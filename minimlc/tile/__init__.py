"""Tile programs: the work of one program on blocks of elements, for each program of a grid.

    from minimlc.script import T, tile

    @tile.kernel(grid=(tile.cdiv(1000, 256),))
    def add(A: T.Buffer((1000,)), B: T.Buffer((1000,)), C: T.Buffer((1000,))):
        at = tile.program_id(0) * 256 + tile.arange(0, 256)
        inside = at < 1000
        tile.store(C[at], tile.load(A[at], inside) + tile.load(B[at], inside), inside)

The result is a primitive function: it can be scheduled, and runs on every target. Names and meaning
follow Triton's language (Tillet et al., MAPL 2019); buffers have shapes, so an address is an
element, `A[rows[:, None], columns[None, :]]`, and what is not proved inside is refused.
"""

from minimlc.tile.kernel import tile

__all__ = ["tile"]
