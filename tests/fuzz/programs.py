"""Small programs for the schedule fuzz: uneven sizes, reducers that commute and that don't."""

from minimlc.loops.values.module import IRModule
from minimlc.script import I, T
from tests.fuzz.programs_irregular import IRREGULAR
from tests.fuzz.programs_nested import NESTED
from tests.fuzz.programs_nn import NETWORKS
from tests.fuzz.programs_odd import ODD
from tests.fuzz.programs_turned import TURNED


@I.ir_module
class Elementwise:
    @T.prim_func
    def main(
        A: T.Buffer((7, 6), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((7, 6), "float32")
    ):
        X = T.alloc_buffer((7, 6), "float32")
        Y = T.alloc_buffer((7, 6), "float32")
        for i, j in T.grid(7, 6):
            with T.block("X"):
                vi, vj = T.axis.remap("SS", [i, j])
                X[vi, vj] = A[vi, vj] + B[vj]
        for i, j in T.grid(7, 6):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)
        for i, j in T.grid(7, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


@I.ir_module
class MatmulRelu:
    @T.prim_func
    def main(
        A: T.Buffer((6, 5), "float32"),
        B: T.Buffer((5, 8), "float32"),
        C: T.Buffer((6, 8), "float32"),
    ):
        Y = T.alloc_buffer((6, 8), "float32")
        for i, j, k in T.grid(6, 8, 5):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(6, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


@I.ir_module
class Conv:
    @T.prim_func
    def main(
        A: T.Buffer((9,), "float32"), W: T.Buffer((3,), "float32"), C: T.Buffer((7,), "float32")
    ):
        P = T.alloc_buffer((9,), "float32")
        for i in range(9):
            with T.block("P"):
                vi = T.axis.spatial(9, i)
                P[vi] = A[vi] + T.float32(1)
        for i, r in T.grid(7, 3):
            with T.block("C"):
                vi, vr = T.axis.remap("SR", [i, r])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + P[vi + vr] * W[vr]


@I.ir_module
class Softmax:
    @T.prim_func
    def main(A: T.Buffer((5, 7), "float32"), C: T.Buffer((5, 7), "float32")):
        M = T.alloc_buffer((5,), "float32")
        E = T.alloc_buffer((5, 7), "float32")
        S = T.alloc_buffer((5,), "float32")
        for i, k in T.grid(5, 7):
            with T.block("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.float32(-1e30)
                M[vi] = T.max(M[vi], A[vi, vk])
        for i, j in T.grid(5, 7):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = T.exp(A[vi, vj] - M[vi])
        for i, k in T.grid(5, 7):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + E[vi, vk]
        for i, j in T.grid(5, 7):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = E[vi, vj] / S[vi]


@I.ir_module
class ZeroPoints:
    @T.prim_func
    def main(
        A: T.Buffer((5, 6), "int8"), B: T.Buffer((6, 7), "uint8"), C: T.Buffer((5, 7), "int32")
    ):
        for i, j, k in T.grid(5, 7, 6):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + (
                    (T.cast(A[vi, vk], "int32") - 3) * (T.cast(B[vk, vj], "int32") - 130)
                )


@I.ir_module
class Scan:
    @T.prim_func
    def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
        for i, t in T.grid(4, 6):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                vt = T.axis.opaque(6, t)
                C[vi, vt] = A[vi, vt] + T.if_then_else(vt > 0, C[vi, vt - 1], 0)


@I.ir_module
class Transpose:
    @T.prim_func
    def main(
        A: T.Buffer((4, 6), "int32"), C: T.Buffer((6, 4), "int32"), D: T.Buffer((24,), "int32")
    ):
        B = T.alloc_buffer((6, 4), "int32")
        for i, j in T.grid(6, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi] * 3
        for i, j in T.grid(6, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] - 1
        for f in range(24):
            with T.block("D"):
                vf = T.axis.spatial(24, f)
                D[vf] = B[vf // 4, vf % 4]


@I.ir_module
class Inplace:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), S: T.Buffer((1,), "int32")):
        for i in range(8):
            with T.block("A1"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] + 1
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[7 - vi]
        for i in range(8):
            with T.block("A2"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] * 2
        for k in range(8):
            with T.block("S"):
                vs = T.axis.spatial(1, 0)
                vk = T.axis.reduce(8, k)
                with T.init():
                    S[vs] = 0
                S[vs] = S[vs] + C[vk] * A[vk]


@I.ir_module
class Ordered:
    @T.prim_func
    def main(A: T.Buffer((5, 4), "int32"), C: T.Buffer((5,), "int32"), D: T.Buffer((5,), "int32")):
        for i in range(5):
            with T.block("Z"):
                vi = T.axis.spatial(5, i)
                C[vi] = 0
        for i, k in T.grid(5, 4):
            with T.block("C"):
                vi = T.axis.spatial(5, i)
                vk = T.axis.opaque(4, k)
                C[vi] = A[vi, vk] - C[vi]
        for i, k in T.grid(5, 4):
            with T.block("D"):
                vi, vk = T.axis.remap("SO", [i, k])
                D[vi] = A[vi, vk]


@I.ir_module
class Window:
    @T.prim_func
    def main(
        A: T.Buffer((9, 4), "float32"), W: T.Buffer((3,), "float32"), C: T.Buffer((7, 4), "float32")
    ):
        P = T.alloc_buffer((9, 4), "float32")
        for i in range(7):
            for w, j in T.grid(3, 4):
                with T.block("P"):
                    vi = T.axis.spatial(9, i + w)
                    vj = T.axis.spatial(4, j)
                    P[vi, vj] = A[vi, vj] * A[vi, vj]
            for j, r in T.grid(4, 3):
                with T.block("C"):
                    vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + P[vi + vr, vj] * W[vr]


PROGRAMS: dict[str, IRModule] = {
    "elementwise": Elementwise,
    "matmul_relu": MatmulRelu,
    "conv": Conv,
    "window": Window,
    "softmax": Softmax,
    "zero_points": ZeroPoints,
    "scan": Scan,
    "transpose": Transpose,
    "inplace": Inplace,
    "ordered": Ordered,
    **NETWORKS,
    **ODD,
    **NESTED,
    **IRREGULAR,
    **TURNED,
}
