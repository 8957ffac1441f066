"""Programs of the schedule fuzz: what neural networks are made of, in small uneven sizes."""

from minimlc.loops.values.module import IRModule
from minimlc.script import I, T


@I.ir_module
class Conv2d:
    @T.prim_func
    def main(
        A: T.Buffer((2, 5, 6), "float32"),
        W: T.Buffer((3, 2, 3, 3), "float32"),
        C: T.Buffer((3, 5, 6), "float32"),
    ):
        P = T.alloc_buffer((2, 7, 8), "float32")
        for c, y, x in T.grid(2, 7, 8):
            with T.block("P"):
                vc, vy, vx = T.axis.remap("SSS", [c, y, x])
                P[vc, vy, vx] = T.if_then_else(
                    vy >= 1 and vy < 6 and vx >= 1 and vx < 7, A[vc, vy - 1, vx - 1], T.float32(0)
                )
        for o, y, x, c, r, s in T.grid(3, 5, 6, 2, 3, 3):
            with T.block("C"):
                vo, vy, vx, vc, vr, vs = T.axis.remap("SSSRRR", [o, y, x, c, r, s])
                with T.init():
                    C[vo, vy, vx] = T.float32(0)
                C[vo, vy, vx] = C[vo, vy, vx] + P[vc, vy + vr, vx + vs] * W[vo, vc, vr, vs]


@I.ir_module
class Depthwise:
    @T.prim_func
    def main(
        A: T.Buffer((3, 11), "float32"),
        W: T.Buffer((3, 3), "float32"),
        C: T.Buffer((3, 5), "float32"),
    ):
        for c, x, r in T.grid(3, 5, 3):
            with T.block("C"):
                vc, vx, vr = T.axis.remap("SSR", [c, x, r])
                with T.init():
                    C[vc, vx] = T.float32(0)
                C[vc, vx] = C[vc, vx] + A[vc, vx * 2 + vr] * W[vc, vr]


@I.ir_module
class MaxPool:
    @T.prim_func
    def main(
        A: T.Buffer((2, 6, 7), "float32"),
        C: T.Buffer((2, 3, 3), "float32"),
        M: T.Buffer((2, 3), "float32"),
    ):
        for c, y, x, r, s in T.grid(2, 3, 3, 2, 3):
            with T.block("C"):
                vc, vy, vx, vr, vs = T.axis.remap("SSSRR", [c, y, x, r, s])
                with T.init():
                    C[vc, vy, vx] = T.float32("-inf")
                C[vc, vy, vx] = T.max(C[vc, vy, vx], A[vc, vy * 2 + vr, vx * 2 + vs])
        for c, y, x in T.grid(2, 3, 3):
            with T.block("M"):
                vc, vy, vx = T.axis.remap("SSR", [c, y, x])
                with T.init():
                    M[vc, vy] = T.float32("inf")
                M[vc, vy] = T.min(M[vc, vy], C[vc, vy, vx])


@I.ir_module
class LayerNorm:
    @T.prim_func
    def main(
        A: T.Buffer((4, 6), "float32"),
        G: T.Buffer((6,), "float32"),
        B: T.Buffer((6,), "float32"),
        C: T.Buffer((4, 6), "float32"),
    ):
        S = T.alloc_buffer((4,), "float32")
        Q = T.alloc_buffer((4,), "float32")
        for i, k in T.grid(4, 6):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + A[vi, vk]
        for i, k in T.grid(4, 6):
            with T.block("Q"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Q[vi] = T.float32(0)
                Q[vi] = Q[vi] + (A[vi, vk] - S[vi] / T.float32(6)) * (
                    A[vi, vk] - S[vi] / T.float32(6)
                )
        for i, j in T.grid(4, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = (A[vi, vj] - S[vi] / T.float32(6)) / T.sqrt(
                    Q[vi] / T.float32(6) + T.float32(1e-3)
                ) * G[vj] + B[vj]


@I.ir_module
class BatchMatmul:
    @T.prim_func
    def main(
        A: T.Buffer((3, 4, 5), "float32"),
        B: T.Buffer((3, 6, 5), "float32"),
        C: T.Buffer((3, 4, 6), "float32"),
    ):
        Bt = T.alloc_buffer((3, 5, 6), "float32")
        for b, i, j in T.grid(3, 5, 6):
            with T.block("Bt"):
                vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                Bt[vb, vi, vj] = B[vb, vj, vi]
        for b, i, j, k in T.grid(3, 4, 6, 5):
            with T.block("C"):
                vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
                with T.init():
                    C[vb, vi, vj] = T.float32(0)
                C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vi, vk] * Bt[vb, vk, vj]


@I.ir_module
class Int8Matmul:
    @T.prim_func
    def main(A: T.Buffer((6, 8), "int8"), B: T.Buffer((8, 4), "int8"), C: T.Buffer((6, 4), "int8")):
        Y = T.alloc_buffer((6, 4), "int32")
        for i, j, k in T.grid(6, 4, 8):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = 0
                Y[vi, vj] = Y[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vk, vj], "int32")
        for i, j in T.grid(6, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.cast(T.max(T.min(Y[vi, vj] // 4, 127), -128), "int8")


@I.ir_module
class PrimeMatmul:
    @T.prim_func
    def main(
        A: T.Buffer((7, 11), "float32"),
        B: T.Buffer((11, 13), "float32"),
        D: T.Buffer((13,), "float32"),
        C: T.Buffer((7, 13), "float32"),
    ):
        Y = T.alloc_buffer((7, 13), "float32")
        for i, j, k in T.grid(7, 13, 11):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = D[vj]
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(7, 13):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.tanh(Y[vi, vj]) * T.float32(0.5)


@I.ir_module
class Attention:
    @T.prim_func
    def main(
        Q: T.Buffer((4, 3), "float32"),
        K: T.Buffer((4, 3), "float32"),
        V: T.Buffer((4, 3), "float32"),
        C: T.Buffer((4, 3), "float32"),
    ):
        L = T.alloc_buffer((4, 4), "float32")
        E = T.alloc_buffer((4, 4), "float32")
        S = T.alloc_buffer((4,), "float32")
        for i, j, k in T.grid(4, 4, 3):
            with T.block("L"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    L[vi, vj] = T.float32(0)
                L[vi, vj] = L[vi, vj] + Q[vi, vk] * K[vj, vk]
        for i, j in T.grid(4, 4):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = T.if_then_else(vj <= vi, T.exp(L[vi, vj]), T.float32(0))
        for i, j in T.grid(4, 4):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + E[vi, vj]
        for i, k, j in T.grid(4, 3, 4):
            with T.block("C"):
                vi, vk, vj = T.axis.remap("SSR", [i, k, j])
                with T.init():
                    C[vi, vk] = T.float32(0)
                C[vi, vk] = C[vi, vk] + E[vi, vj] / S[vi] * V[vj, vk]


@I.ir_module
class AveragePool:
    @T.prim_func
    def main(A: T.Buffer((8, 6), "float64"), C: T.Buffer((4, 3), "float64")):
        Y = T.alloc_buffer((4, 3), "float64")
        for i, j, r, s in T.grid(4, 3, 2, 2):
            with T.block("Y"):
                vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
                with T.init():
                    Y[vi, vj] = T.float64(0)
                Y[vi, vj] = Y[vi, vj] + A[vi * 2 + vr, vj * 2 + vs]
        for i, j in T.grid(4, 3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = Y[vi, vj] / T.float64(4)


@I.ir_module
class ConvBias:
    @T.prim_func
    def main(
        A: T.Buffer((2, 6), "float32"),
        W: T.Buffer((3, 2, 3), "float32"),
        b: T.Buffer((3,), "float32"),
        C: T.Buffer((3, 6), "float32"),
    ):
        P = T.alloc_buffer((2, 8), "float32")
        Y = T.alloc_buffer((3, 6), "float32")
        for c, x in T.grid(2, 8):
            with T.block("P"):
                vc, vx = T.axis.remap("SS", [c, x])
                P[vc, vx] = T.if_then_else(vx < 1 or vx >= 7, T.float32(0), A[vc, vx - 1])
        for o, x, c, r in T.grid(3, 6, 2, 3):
            with T.block("Y"):
                vo, vx, vc, vr = T.axis.remap("SSRR", [o, x, c, r])
                with T.init():
                    Y[vo, vx] = T.float32(0)
                Y[vo, vx] = Y[vo, vx] + P[vc, vx + vr] * W[vo, vc, vr]
        for o, x in T.grid(3, 6):
            with T.block("C"):
                vo, vx = T.axis.remap("SS", [o, x])
                C[vo, vx] = Y[vo, vx] + b[vo]


@I.ir_module
class MatmulBias:
    @T.prim_func
    def main(
        A: T.Buffer((5, 6), "int32"),
        B: T.Buffer((6, 7), "int32"),
        b: T.Buffer((7,), "int32"),
        C: T.Buffer((7, 5), "int32"),
    ):
        Y = T.alloc_buffer((5, 7), "int32")
        for i, j, k in T.grid(5, 7, 6):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = 0
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for j, i in T.grid(7, 5):
            with T.block("C"):
                vj, vi = T.axis.remap("SS", [j, i])
                C[vj, vi] = b[vj] + Y[vi, vj]


NETWORKS: dict[str, IRModule] = {
    "conv2d": Conv2d,
    "depthwise": Depthwise,
    "max_pool": MaxPool,
    "average_pool": AveragePool,
    "layer_norm": LayerNorm,
    "batch_matmul": BatchMatmul,
    "int8_matmul": Int8Matmul,
    "prime_matmul": PrimeMatmul,
    "attention": Attention,
    "conv_bias": ConvBias,
    "matmul_bias": MatmulBias,
}
