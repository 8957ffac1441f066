"""Kernels whose counts are known: written with threads, or scheduled."""

import minimlc as mlc

COPY = """
@T.prim_func
def main(A: T.Buffer(({size},), "float32"), B: T.Buffer((1024,), "float32")):
    for b in T.thread_binding(8, thread="blockIdx.x"):
        for t in T.thread_binding(128, thread="threadIdx.x"):
            B[b * 128 + t] = A[{index}]
"""
NAIVE = """
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "{dtype}"), B: T.Buffer(({n}, {n}), "{dtype}")):
    for by in T.thread_binding({tiles}, thread="blockIdx.y"):
        for bx in T.thread_binding({tiles}, thread="blockIdx.x"):
            for ty in T.thread_binding(8, thread="threadIdx.y"):
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    for u in range(4):
                        B[bx * 32 + tx, by * 32 + u * 8 + ty] = A[
                            by * 32 + u * 8 + ty, bx * 32 + tx
                        ]
"""
TILED = """
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "{dtype}"), B: T.Buffer(({n}, {n}), "{dtype}")):
    tile = T.alloc_buffer((32, {row}), "{dtype}", scope="shared")
    for by in T.thread_binding({tiles}, thread="blockIdx.y"):
        for bx in T.thread_binding({tiles}, thread="blockIdx.x"):
            for ty in T.thread_binding(8, thread="threadIdx.y"):
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    for u in range(4):
                        tile[{write}] = A[by * 32 + u * 8 + ty, bx * 32 + tx]
            for sy in T.thread_binding(8, thread="threadIdx.y"):
                for sx in T.thread_binding(32, thread="threadIdx.x"):
                    for v in range(4):
                        B[bx * 32 + v * 8 + sy, by * 32 + sx] = tile[{read}]
"""


def copy(index, size=1024):
    """A copy by 8 blocks of 128 threads, which read at an index over b and t."""
    return mlc.parse(COPY.format(size=size, index=index))


def transpose(n=64, dtype="float32", row=0, by_column=False):
    """A transpose by tiles of 32; through shared memory whose rows have `row` elements, which are
    read along columns, or written along them.
    """
    text = TILED if row else NAIVE
    along, across = "u * 8 + ty, tx", "sx, v * 8 + sy"
    if by_column:
        along, across = "tx, u * 8 + ty", "v * 8 + sy, sx"
    return mlc.parse(
        text.format(n=n, tiles=n // 32, dtype=dtype, row=row, write=along, read=across)
    )


TREE = """
@T.prim_func
def main(A: T.Buffer((4, 256), "float32"), C: T.Buffer((4,), "float32")):
    part = T.alloc_buffer((256,), "float32", scope="shared")
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(256, thread="threadIdx.x"):
            part[t] = A[b, t]
        for s in range(8):
            for u in T.thread_binding(256, thread="threadIdx.x"):
                if u < 128 >> s:
                    part[u] = part[u] + part[u + (128 >> s)]
        for w in T.thread_binding(256, thread="threadIdx.x"):
            if w == 0:
                C[b] = part[0]
"""
PRODUCT = """
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "float32"), B: T.Buffer(({n}, {n}), "float32"),
         C: T.Buffer(({n}, {n}), "float32")):
    As = T.alloc_buffer((16, 16), "float32", scope="shared")
    Bs = T.alloc_buffer((16, 16), "float32", scope="shared")
    S = T.alloc_buffer((1,), "float32", scope="local")
    for by in T.thread_binding({tiles}, thread="blockIdx.y"):
        for bx in T.thread_binding({tiles}, thread="blockIdx.x"):
            for ty in T.thread_binding(16, thread="threadIdx.y"):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    S[0] = 0.0
                    for q in range({tiles}):
                        for fy in T.thread_binding(16, thread="threadIdx.y"):
                            for fx in T.thread_binding(16, thread="threadIdx.x"):
                                As[fy, fx] = A[by * 16 + fy, q * 16 + fx]
                                Bs[fy, fx] = B[q * 16 + fy, bx * 16 + fx]
                        for k in range(16):
                            S[0] = S[0] + As[ty, k] * Bs[k, tx]
                    C[by * 16 + ty, bx * 16 + tx] = S[0]
"""
VECTORS = """
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), C: T.Buffer((32, 4), "float32")):
    tile = T.alloc_buffer((4096,), "float32", scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for r in range(128):
                tile[r * 32 + t] = A[r * 32 + t]
        for u in T.thread_binding(32, thread="threadIdx.x"):
            for v in T.vectorized(4):
                C[u, v] = tile[{index}]
"""


def tree():
    """The sums of four rows: in each step, half of the threads add what the others have."""
    return mlc.parse(TREE)


def product(n):
    """A product by blocks of 16 by 16 threads, which fetch tiles of both operands together."""
    return mlc.parse(PRODUCT.format(n=n, tiles=n // 16))


def vectors(index):
    """Four neighbouring words of shared memory for each thread, from an index over u and v on."""
    return mlc.parse(VECTORS.format(index=index))
