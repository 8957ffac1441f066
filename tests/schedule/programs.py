"""The programs that the tests of the primitives start from."""

from minimlc.script import I, T


@I.ir_module
class MatmulRelu:
    @T.prim_func
    def main(
        A: T.Buffer((8, 6), "float32"),
        B: T.Buffer((6, 8), "float32"),
        C: T.Buffer((8, 8), "float32"),
    ):
        Y = T.alloc_buffer((8, 8), "float32")
        for i, j, k in T.grid(8, 8, 6):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


@I.ir_module
class Chain:
    @T.prim_func
    def main(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
        Y = T.alloc_buffer((10,), "float32")
        for i in range(10):
            with T.block("Y"):
                vi = T.axis.spatial(10, i)
                Y[vi] = A[vi] + T.float32(1)
        for i in range(10):
            with T.block("C"):
                vi = T.axis.spatial(10, i)
                C[vi] = Y[vi] * T.float32(2)


@I.ir_module
class Stencil:
    @T.prim_func
    def main(A: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
        Y = T.alloc_buffer((10,), "float32")
        for i in range(10):
            with T.block("Y"):
                vi = T.axis.spatial(10, i)
                Y[vi] = A[vi] * T.float32(3)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = Y[vi] + Y[vi + 1] + Y[vi + 2]


@I.ir_module
class Scan:
    @T.prim_func
    def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
        for i, t in T.grid(4, 6):
            with T.block("C"):
                vi, vt = T.axis.remap("SO", [i, t])
                C[vi, vt] = A[vi, vt] + T.if_then_else(vt > 0, C[vi, vt - 1], 0)
