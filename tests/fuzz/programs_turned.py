"""Programs of the schedule fuzz whose indices run backwards, in other layouts, at other steps."""

from minimlc.loops.values.module import IRModule
from minimlc.script import I, T


@I.ir_module
class Backwards:
    @T.prim_func
    def main(A: T.Buffer((4, 12), "int32"), C: T.Buffer((4, 12), "int32")):
        B = T.alloc_buffer((4, 12), "int32")
        for i, j in T.grid(4, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[3 - vi, 11 - vj] = A[vi, vj] * 2
        for i, j in T.grid(4, 12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, 11 - vj] + B[3 - vi, vj] * 3


@I.ir_module
class Shifted:
    @T.prim_func
    def main(A: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((14,), "float32")
        for i in range(9, -1, -1):
            with T.block("B"):
                vi = T.axis.spatial(10, i)
                B[vi + 2] = A[vi] * T.float32(2)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi + 2] + B[11 - vi]


@I.ir_module
class Rows:
    @T.prim_func
    def main(X: T.Buffer((4, 6), "int32"), Y: T.Buffer((24,), "int32")):
        B = T.alloc_buffer((4, 6), "int32")
        for i, j in T.grid(4, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = X[vi, vj] + 1
        for i in range(24):
            with T.block("Y"):
                vi = T.axis.spatial(24, i)
                Y[vi] = B[vi // 6, vi % 6] * 5


@I.ir_module
class Tiles:
    @T.prim_func
    def main(X: T.Buffer((32,), "int32"), Y: T.Buffer((4, 8), "int32")):
        B = T.alloc_buffer((8, 4), "int32")
        for i in range(32):
            with T.block("B"):
                vi = T.axis.opaque(32, i)
                B[vi // 4, vi % 4] = X[vi] + 1
        D = T.alloc_buffer((32,), "int32")
        for i in range(32):
            with T.block("D"):
                vi = T.axis.spatial(32, i)
                D[vi] = B[vi // 4, 3 - vi % 4] - X[31 - vi]
        for i, j in T.grid(4, 8):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = D[vi * 8 + vj] * 5


@I.ir_module
class Upscale:
    @T.prim_func
    def main(A: T.Buffer((16,), "int32"), C: T.Buffer((24,), "int32")):
        B = T.alloc_buffer((14,), "int32")
        for i in range(14):
            with T.block("B"):
                vi = T.axis.spatial(14, i)
                B[vi] = A[vi] * 3 + A[vi + 2]
        for i, r in T.grid(24, 3):
            with T.block("C"):
                vi, vr = T.axis.remap("SR", [i, r])
                with T.init():
                    C[vi] = -128
                C[vi] = T.max(C[vi], B[vi // 2 + vr])


@I.ir_module
class Resize:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((15,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)
        for i in range(15):
            with T.block("C"):
                vi = T.axis.spatial(15, i)
                C[vi] = B[
                    T.max(
                        T.min(T.cast(T.floor(T.cast(vi, "float32") * T.float32(0.6)), "int32"), 7),
                        0,
                    )
                ]


@I.ir_module
class Padded:
    @T.prim_func
    def main(x: T.Buffer((24,), "int32"), y: T.Buffer((24,), "int32")):
        p = T.alloc_buffer((26,), "int32")
        for o in range(3):
            for ax in range(10):
                with T.block("p"):
                    v = T.axis.spatial(26, o * 8 + ax)
                    p[v] = T.if_then_else(v >= 1 and v < 25, x[v - 1], 0)
            for i, r in T.grid(8, 3):
                with T.block("y"):
                    v = T.axis.spatial(24, o * 8 + i)
                    vr = T.axis.reduce(3, r)
                    with T.init():
                        y[v] = 0
                    y[v] = y[v] + p[v + vr]


@I.ir_module
class Inside:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
        B = T.alloc_buffer((8, 8), "int32")
        for i0, j0 in T.grid(2, 4):
            with T.block("scope"):
                i, j = T.axis.remap("SS", [i0, j0])
                for x, y in T.grid(4, 2):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i * 4 + x)
                        vj = T.axis.spatial(8, j * 2 + y)
                        B[vi, vj] = A[vi, vj] * 2
                for x, y in T.grid(4, 2):
                    with T.block("C"):
                        vi = T.axis.spatial(8, i * 4 + x)
                        vj = T.axis.spatial(8, j * 2 + y)
                        C[vi, vj] = B[vi, vj] + 1


@I.ir_module
class Twins:
    @T.prim_func
    def main(
        A: T.Buffer((6, 4), "int32"), C: T.Buffer((6, 4), "int32"), D: T.Buffer((6, 4), "int32")
    ):
        B = T.alloc_buffer((7, 4), "int32")
        for i, j in T.grid(7, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i < 6)
                B[vi, vj] = A[vi, vj] * 2
        for i, j in T.grid(6, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + A[vi, 3 - vj]
        for i, j in T.grid(6, 4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] - A[vi, vj]


@I.ir_module
class Ragged:
    @T.prim_func
    def main(A: T.Buffer((15, 4), "int32"), B: T.Buffer((15, 4), "int32")):
        Y = T.alloc_buffer((15, 4), "int32")
        for i in range(4):
            for j in range(T.min(4, 15 - i * 4)):
                for k in range(4):
                    with T.block("Y"):
                        vi = T.axis.spatial(15, i * 4 + j)
                        vk = T.axis.spatial(4, k)
                        Y[vi, vk] = A[vi, vk] + 3
                for k in range(4):
                    with T.block("B"):
                        vi = T.axis.spatial(15, i * 4 + j)
                        vk = T.axis.spatial(4, k)
                        B[vi, vk] = Y[vi, 3 - vk] * 2


TURNED: dict[str, IRModule] = {
    "backwards": Backwards,
    "shifted": Shifted,
    "rows": Rows,
    "tiles": Tiles,
    "upscale": Upscale,
    "resize": Resize,
    "padded": Padded,
    "inside": Inside,
    "twins": Twins,
    "ragged": Ragged,
}
