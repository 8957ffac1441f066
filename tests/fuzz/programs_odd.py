"""Programs of the schedule fuzz on which rules like to trip: order, conditions, odd indices."""

from minimlc.loops.values.module import IRModule
from minimlc.script import I, T


@I.ir_module
class Stencil:
    @T.prim_func
    def main(A: T.Buffer((5, 6), "int32"), C: T.Buffer((5, 6), "int32")):
        for i, j in T.grid(5, 6):
            with T.block("C0"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj]
        for i, j in T.grid(4, 5):
            with T.block("C"):
                vi, vj = T.axis.remap("OO", [i, j])
                C[vi + 1, vj + 1] = C[vi, vj + 1] * 3 - C[vi + 1, vj] + C[vi, vj]


@I.ir_module
class Skewed:
    @T.prim_func
    def main(A: T.Buffer((6, 6), "int32"), C: T.Buffer((6, 6), "int32")):
        for i, j in T.grid(6, 6):
            with T.block("C0"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * 2
        for t, j in T.grid(5, 5):
            with T.block("C"):
                vt = T.axis.opaque(5, t)
                vj = T.axis.opaque(5, j)
                C[vt + 1, vj] = C[vt, vj + 1] + A[vt, vj]


@I.ir_module
class Gather:
    @T.prim_func
    def main(
        A: T.Buffer((7, 4), "float32"),
        N: T.Buffer((6,), "int64"),
        C: T.Buffer((6, 4), "float32"),
        D: T.Buffer((3, 4), "float32"),
    ):
        for i, j in T.grid(6, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[N[vi], vj]
        for i, j in T.grid(3, 4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[6 - vi * 2, 3 - vj] + C[vi * 2, vj]


@I.ir_module
class Scatter:
    @T.prim_func
    def main(
        A: T.Buffer((6, 3), "int32"), N: T.Buffer((6,), "int64"), C: T.Buffer((7, 3), "int32")
    ):
        for i, j in T.grid(7, 3):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = 0
        for i, j in T.grid(6, 3):
            with T.block("C"):
                vi = T.axis.opaque(6, i)
                vj = T.axis.spatial(3, j)
                C[N[vi], vj] = C[N[vi], vj] + A[vi, vj]


@I.ir_module
class Imperfect:
    @T.prim_func
    def main(
        A: T.Buffer((5, 6), "float32"),
        C: T.Buffer((5, 6), "float32"),
        S: T.Buffer((5,), "float32"),
    ):
        Y = T.alloc_buffer((5, 6), "float32")
        for i in range(5):
            for j in range(6):
                with T.block("Y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = A[vi, vj] * A[vi, vj]
            for k in range(6):
                with T.block("S"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        S[vi] = T.float32(0)
                    S[vi] = S[vi] + Y[vi, vk]
            for j in range(6):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = Y[vi, vj] - S[vi]


@I.ir_module
class Outputs:
    @T.prim_func
    def main(
        A: T.Buffer((4, 6), "int32"),
        S: T.Buffer((4,), "int32"),
        M: T.Buffer((6,), "int32"),
        C: T.Buffer((6, 4), "int32"),
    ):
        for i, k in T.grid(4, 6):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = 0
                S[vi] = S[vi] + A[vi, vk]
        for j, k in T.grid(6, 4):
            with T.block("M"):
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    M[vj] = -1000
                M[vj] = T.max(M[vj], A[vk, vj] - S[vk])
        for j, i in T.grid(6, 4):
            with T.block("C"):
                vj, vi = T.axis.remap("SS", [j, i])
                C[vj, vi] = A[vi, vj] * S[vi] + M[vj]


@I.ir_module
class Reducers:
    @T.prim_func
    def main(
        A: T.Buffer((4, 5), "int32"),
        P: T.Buffer((4,), "int32"),
        X: T.Buffer((5,), "int32"),
        O: T.Buffer((1,), "int32"),
        B: T.Buffer((4,), "bool"),
    ):
        for i, k in T.grid(4, 5):
            with T.block("P"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    P[vi] = 1
                P[vi] = P[vi] * A[vi, vk]
        for j, k in T.grid(5, 4):
            with T.block("X"):
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    X[vj] = 7
                X[vj] = X[vj] ^ A[vk, vj]
        for i, j in T.grid(4, 5):
            with T.block("O"):
                vo = T.axis.spatial(1, 0)
                vi, vj = T.axis.remap("RR", [i, j])
                with T.init():
                    O[vo] = 0
                O[vo] = O[vo] | A[vi, vj] & 12
        for i, k in T.grid(4, 5):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.bool(True)
                B[vi] = B[vi] and A[vi, vk] != 3


@I.ir_module
class Alternating:
    @T.prim_func
    def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
        X = T.alloc_buffer((4,), "float32")
        for i in range(4):
            with T.block("X0"):
                vi = T.axis.spatial(4, i)
                X[vi] = T.float32(1)
        for i, k in T.grid(4, 6):
            with T.block("X"):
                vi, vk = T.axis.remap("SO", [i, k])
                X[vi] = A[vi, vk] - X[vi] * T.float32(0.5)
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = X[vi] * X[vi]


@I.ir_module
class Guarded:
    @T.prim_func
    def main(
        A: T.Buffer((5, 7), "int32"), C: T.Buffer((5, 7), "int32"), S: T.Buffer((5,), "int32")
    ):
        for i, j in T.grid(5, 7):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i + j < 9)
                C[vi, vj] = A[vi, vj] + 1
        for i, k in T.grid(5, 8):
            with T.block("S"):
                vi = T.axis.spatial(5, i)
                vk = T.axis.reduce(7, k)
                T.where(k < 7)
                with T.init():
                    S[vi] = 0
                S[vi] = S[vi] + C[vi, vk]


@I.ir_module
class Branches:
    @T.prim_func
    def main(A: T.Buffer((6, 4), "int32"), C: T.Buffer((6, 4), "int32")):
        Y = T.alloc_buffer((6, 4), "int32")
        for i, j in T.grid(6, 4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                if A[vi, vj] > 0:
                    Y[vi, vj] = A[vi, vj] * 2
                else:
                    Y[vi, vj] = 1 - A[vi, vj]
        for i in range(6):
            if i % 2 == 0:
                for j in range(4):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = Y[vi, vj] + Y[vi, 3 - vj]


@I.ir_module
class Triangular:
    @T.prim_func
    def main(
        A: T.Buffer((6, 6), "int32"), C: T.Buffer((6,), "int32"), D: T.Buffer((6, 6), "int32")
    ):
        for i in range(6):
            with T.block("Z"):
                vi = T.axis.spatial(6, i)
                C[vi] = 0
        for i in range(6):
            for k in range(i + 1):
                with T.block("C"):
                    vi = T.axis.spatial(6, i)
                    vk = T.axis.reduce(6, k)
                    C[vi] = C[vi] + A[vi, vk]
        for i in range(6):
            for j in range(6 - i):
                with T.block("D"):
                    vi = T.axis.spatial(6, i)
                    vj = T.axis.spatial(6, i + j)
                    D[vi, vj] = A[vj, vi] - C[vi]


@I.ir_module
class Again:
    @T.prim_func
    def main(A: T.Buffer((4, 5), "int32"), C: T.Buffer((4, 5), "int32")):
        Y = T.alloc_buffer((4, 5), "int32")
        for _t in range(3):
            for i, j in T.grid(4, 5):
                with T.block("Y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = A[vi, vj] + A[3 - vi, vj]
            for i, j in T.grid(4, 5):
                with T.block("A"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = Y[vi, vj] - 1
        for i, j in T.grid(4, 5):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, (vj + 1) % 5]


@I.ir_module
class Reshape:
    @T.prim_func
    def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((2, 12), "float32")):
        F = T.alloc_buffer((24,), "float32")
        for f in range(24):
            with T.block("F"):
                vf = T.axis.spatial(24, f)
                F[vf] = A[vf // 6, vf % 6]
        for i, j in T.grid(2, 12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = F[vi * 12 + vj] - F[23 - (vi * 12 + vj)]


@I.ir_module
class InplaceFloat:
    @T.prim_func
    def main(A: T.Buffer((6, 4), "float32"), S: T.Buffer((6,), "float32")):
        for i, j in T.grid(6, 4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.max(A[vi, vj], T.float32(0))
        for i, k in T.grid(6, 4):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = A[vi, 0]
                S[vi] = S[vi] + A[vi, vk]
        for i, j in T.grid(3, 4):
            with T.block("A2"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi + 3, vj] + S[vi]


@I.ir_module
class ArgMax:
    @T.prim_func
    def main(A: T.Buffer((3, 7), "int32"), V: T.Buffer((3,), "int32"), P: T.Buffer((3,), "int64")):
        for i, k in T.grid(3, 7):
            with T.block("V"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    V[vi] = T.int32(-2)
                    P[vi] = T.int64(0)
                P[vi] = T.Select(
                    A[vi, vk] > V[vi] or (A[vi, vk] == V[vi] and vk < P[vi]), vk, P[vi]
                )
                V[vi] = T.max(V[vi], A[vi, vk])


@I.ir_module
class Rounds:
    @T.prim_func
    def main(
        A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32"), D: T.Buffer((4,), "int32")
    ):
        Y = T.alloc_buffer((4, 6), "int32")
        for i, j in T.grid(4, 6):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = A[vi, vj] % 8
        for i, j in T.grid(4, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = vi
                while C[vi, vj] < Y[vi, vj]:
                    C[vi, vj] = C[vi, vj] + 3
        for i in range(4):
            with T.block("D"):
                vi = T.axis.spatial(4, i)
                D[vi] = 0
                while D[vi] < C[vi, 2] + C[3 - vi, 3] and D[vi] < 20:
                    if C[vi, 0] > D[vi]:
                        D[vi] = D[vi] + 2
                    else:
                        D[vi] = D[vi] + 1


ODD: dict[str, IRModule] = {
    "stencil": Stencil,
    "skewed": Skewed,
    "gather": Gather,
    "scatter": Scatter,
    "imperfect": Imperfect,
    "outputs": Outputs,
    "reducers": Reducers,
    "alternating": Alternating,
    "guarded": Guarded,
    "branches": Branches,
    "triangular": Triangular,
    "again": Again,
    "reshape": Reshape,
    "inplace_float": InplaceFloat,
    "argmax": ArgMax,
    "rounds": Rounds,
}
