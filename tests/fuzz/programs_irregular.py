"""Programs of the schedule fuzz: shared buffers, loops that are no boxes, order that counts."""

from minimlc.loops.values.module import IRModule
from minimlc.script import I, T


@I.ir_module
class Scalar:
    @T.prim_func
    def main(A: T.Buffer((7,), "int32"), C: T.Buffer((), "int32"), D: T.Buffer((3,), "int32")):
        S = T.alloc_buffer((), "int32")
        for i in range(7):
            with T.block("S"):
                vi = T.axis.reduce(7, i)
                with T.init():
                    S[()] = T.int32(1)
                S[()] = S[()] * A[vi]
        for j in range(3):
            with T.block("D"):
                vj = T.axis.spatial(3, j)
                D[vj] = S[()] + T.cast(vj, "int32")
        with T.block("C"):
            C[()] = S[()] - A[0]


@I.ir_module
class Halves:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        X = T.alloc_buffer((8,), "int32")
        for i in range(4):
            with T.block("L"):
                vi = T.axis.spatial(4, i)
                X[vi] = A[vi] + 1
        for i1 in range(4):
            with T.block("H"):
                vi = T.axis.spatial(4, i1)
                X[vi + 4] = A[vi + 4] * 2
        for j in range(8):
            with T.block("C"):
                vj = T.axis.spatial(8, j)
                C[vj] = X[7 - vj] + X[vj]


@I.ir_module
class Interleaved:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        X = T.alloc_buffer((8,), "int32")
        for i in range(4):
            with T.block("E"):
                vi = T.axis.spatial(4, i)
                X[vi * 2] = A[vi] + 1
            with T.block("O"):
                wi = T.axis.spatial(4, i)
                X[wi * 2 + 1] = A[wi + 4] * 2
        for j in range(7):
            with T.block("C"):
                vj = T.axis.spatial(7, j)
                C[vj] = X[vj + 1] - X[vj]
        with T.block("last"):
            C[7] = X[0]


@I.ir_module
class Triangle:
    @T.prim_func
    def main(
        A: T.Buffer((6, 6), "int32"), C: T.Buffer((6,), "int32"), D: T.Buffer((6, 6), "int32")
    ):
        for i in range(6):
            with T.block("z"):
                vi = T.axis.spatial(6, i)
                C[vi] = 0
            for j in range(i + 1):
                with T.block("C"):
                    vi = T.axis.spatial(6, i)
                    vj = T.axis.reduce(6, j)
                    C[vi] = C[vi] + A[vi, vj]
        for i1 in range(6):
            for j1 in range(6 - i1):
                with T.block("D"):
                    vi = T.axis.spatial(6, i1)
                    vj = T.axis.spatial(6, j1)
                    D[vi, vj + vi] = A[vj + vi, vi] + C[vj]


@I.ir_module
class Ragged:
    @T.prim_func
    def main(N: T.Buffer((4,), "int64"), A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("C0"):
                vi = T.axis.spatial(4, i)
                C[vi] = 0
        for i1 in range(4):
            for j in range(N[i1] % 9):
                with T.block("C"):
                    vi = T.axis.spatial(4, i1)
                    vj = T.axis.reduce(8, j)
                    T.where(j < 8)
                    C[vi] = C[vi] + A[vi, vj]


@I.ir_module
class Subtract:
    @T.prim_func
    def main(A: T.Buffer((3, 6), "int32"), C: T.Buffer((3,), "int32")):
        for i, k in T.grid(3, 6):
            with T.block("C"):
                vi = T.axis.spatial(3, i)
                vk = T.axis.opaque(6, k)
                with T.init():
                    C[vi] = 100
                C[vi] = A[vi, vk] - C[vi]


@I.ir_module
class ChangingCondition:
    @T.prim_func
    def main(F: T.Buffer((5,), "int32"), C: T.Buffer((5,), "int32")):
        for i in range(5):
            if F[0] < 6:
                with T.block("F"):
                    vi = T.axis.opaque(5, i)
                    F[0] = F[0] + F[vi] + 1
            with T.block("C"):
                wi = T.axis.opaque(5, i)
                C[wi] = F[0]


@I.ir_module
class Swap:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        X = T.alloc_buffer((1,), "int32")
        for i in range(4):
            with T.block("X"):
                vi = T.axis.opaque(4, i)
                X[0] = A[vi]
            with T.block("Y"):
                wi = T.axis.opaque(4, i)
                A[wi] = A[7 - wi]
            with T.block("Z"):
                zi = T.axis.opaque(4, i)
                A[7 - zi] = X[0]
        for j in range(8):
            with T.block("C"):
                vj = T.axis.spatial(8, j)
                C[vj] = A[vj] * 2


@I.ir_module
class Extreme:
    @T.prim_func
    def main(
        A: T.Buffer((4, 5), "float32"), C: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")
    ):
        M = T.alloc_buffer((4,), "float32")
        for i, k in T.grid(4, 5):
            with T.block("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.float32("-inf")
                M[vi] = T.max(M[vi], A[vi, vk])
        for i1, k1 in T.grid(4, 5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i1, k1])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + (A[vi, vk] - M[vi])
        for i2 in range(4):
            with T.block("D"):
                vi = T.axis.spatial(4, i2)
                D[vi] = C[vi] * M[vi] + T.float32(0)


@I.ir_module
class Scatter:
    @T.prim_func
    def main(
        I: T.Buffer((9,), "int64"),
        A: T.Buffer((9,), "int32"),
        C: T.Buffer((4,), "int32"),
        H: T.Buffer((4,), "int32"),
    ):
        for j in range(4):
            with T.block("z"):
                vj = T.axis.spatial(4, j)
                C[vj] = 0
                H[vj] = 0
        for i in range(9):
            with T.block("C"):
                vi = T.axis.opaque(9, i)
                C[I[vi] % 4] = A[vi]
        for i1 in range(9):
            with T.block("H"):
                vi = T.axis.opaque(9, i1)
                H[I[vi] % 4] = H[I[vi] % 4] + A[vi]


@I.ir_module
class OverlapWhere:
    @T.prim_func
    def main(A: T.Buffer((10,), "int32"), C: T.Buffer((10,), "int32"), D: T.Buffer((10,), "int32")):
        X = T.alloc_buffer((10,), "int32")
        for i in range(10):
            with T.block("X"):
                vi = T.axis.spatial(10, i)
                T.where(i >= 2)
                X[vi] = A[vi] * 5
        for i0 in range(10):
            with T.block("Xb"):
                vi = T.axis.spatial(10, i0)
                T.where(i0 < 4)
                X[vi] = A[vi] + 9
        for i1 in range(10):
            with T.block("C"):
                vi = T.axis.spatial(10, i1)
                T.where(i1 != 3)
                C[vi] = X[vi] + 1
        for i2 in range(10):
            with T.block("D"):
                vi = T.axis.spatial(10, i2)
                D[vi] = X[9 - vi] + A[vi]


@I.ir_module
class Diagonal:
    @T.prim_func
    def main(
        A: T.Buffer((6, 6), "int32"), C: T.Buffer((6, 6), "int32"), D: T.Buffer((6,), "int32")
    ):
        for i, j in T.grid(6, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj, vi] + A[vi, vi]
        for i1 in range(6):
            with T.block("Cd"):
                vi = T.axis.spatial(6, i1)
                C[vi, vi] = A[vi, 5 - vi]
        for i2, k in T.grid(6, 6):
            with T.block("D"):
                vi, vk = T.axis.remap("SR", [i2, k])
                with T.init():
                    D[vi] = C[vi, vi]
                D[vi] = D[vi] + C[(vi + vk) % 6, vk]


@I.ir_module
class Wavefront:
    @T.prim_func
    def main(A: T.Buffer((5, 6), "int32"), C: T.Buffer((5, 6), "int32")):
        for i, j in T.grid(5, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("OO", [i, j])
                C[vi, vj] = A[vi, vj] + T.if_then_else(
                    vi >= 1, T.if_then_else(vj + 1 < 6, C[vi - 1, vj + 1], T.int32(1)), T.int32(2)
                )


@I.ir_module
class Carry:
    @T.prim_func
    def main(A: T.Buffer((5, 6), "int32"), C: T.Buffer((5, 6), "int32")):
        X = T.alloc_buffer((6,), "int32")
        for j0 in range(6):
            with T.block("X0"):
                vj = T.axis.spatial(6, j0)
                X[vj] = 1
        for t in range(5):
            for j in range(6):
                with T.block("X"):
                    vt, vj = T.axis.remap("OS", [t, j])
                    X[vj] = X[vj] + A[vt, vj]
            for j1 in range(6):
                with T.block("C"):
                    vt, vj = T.axis.remap("OS", [t, j1])
                    C[vt, vj] = X[5 - vj]


IRREGULAR: dict[str, IRModule] = {
    "scalar": Scalar,
    "halves": Halves,
    "interleaved": Interleaved,
    "triangle": Triangle,
    "ragged": Ragged,
    "subtract": Subtract,
    "changing_condition": ChangingCondition,
    "swap": Swap,
    "extreme": Extreme,
    "scatter": Scatter,
    "overlap_where": OverlapWhere,
    "diagonal": Diagonal,
    "wavefront": Wavefront,
    "carry": Carry,
}
