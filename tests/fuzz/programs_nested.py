"""Programs of the schedule fuzz with blocks inside of blocks, and for blocks to be made of."""

from minimlc.loops.values.module import IRModule
from minimlc.script import I, T


@I.ir_module
class Tiles:
    @T.prim_func
    def main(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")):
        Y = T.alloc_buffer((6, 8), "int32")
        for i, j in T.grid(6, 8):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = A[vi, vj] * 2
        for io, jo in T.grid(3, 2):
            with T.block("C_tile"):
                vio, vjo = T.axis.remap("SS", [io, jo])
                for ii, ji in T.grid(2, 4):
                    with T.block("C"):
                        vi = T.axis.spatial(6, vio * 2 + ii)
                        vj = T.axis.spatial(8, vjo * 4 + ji)
                        C[vi, vj] = Y[vi, vj] + 1


@I.ir_module
class TiledMatmul:
    @T.prim_func
    def main(
        A: T.Buffer((4, 6), "int32"), B: T.Buffer((6, 4), "int32"), C: T.Buffer((4, 4), "int32")
    ):
        for io, jo, ko in T.grid(2, 2, 3):
            with T.block("C_tile"):
                vio, vjo, vko = T.axis.remap("SSR", [io, jo, ko])
                with T.init():
                    for ii, ji in T.grid(2, 2):
                        with T.block("C_start"):
                            wi, wj = T.axis.remap("SS", [ii, ji])
                            C[vio * 2 + wi, vjo * 2 + wj] = 0
                for ii, ji, ki in T.grid(2, 2, 2):
                    with T.block("C"):
                        ui, uj, uk = T.axis.remap("SSR", [ii, ji, ki])
                        C[vio * 2 + ui, vjo * 2 + uj] = (
                            C[vio * 2 + ui, vjo * 2 + uj]
                            + A[vio * 2 + ui, vko * 2 + uk] * B[vko * 2 + uk, vjo * 2 + uj]
                        )


@I.ir_module
class Dots:
    @T.prim_func
    def main(
        A: T.Buffer((3, 8), "float32"),
        B: T.Buffer((8, 4), "float32"),
        C: T.Buffer((3, 4), "float32"),
    ):
        for i, j in T.grid(3, 4):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.float32(0)
        for i, j, ko, ki in T.grid(3, 4, 2, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                vk = T.axis.reduce(8, ko * 4 + ki)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@I.ir_module
class ByteDots:
    @T.prim_func
    def main(
        A: T.Buffer((2, 8), "uint8"), B: T.Buffer((2, 16, 8), "int8"), C: T.Buffer((2, 16), "int32")
    ):
        for i, ko, j, ki in T.grid(2, 2, 16, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                vk = T.axis.reduce(8, ko * 4 + ki)
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vi, vj, vk], "int32")


NESTED: dict[str, IRModule] = {
    "tiles": Tiles,
    "tiled_matmul": TiledMatmul,
    "dots": Dots,
    "byte_dots": ByteDots,
}
