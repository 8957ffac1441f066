"""Programs whose loops are bound to the threads of a GPU: what is computed, and the schedule."""

from functools import cache

import minimlc as mlc

ADD = """
@T.prim_func
def main(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32"),
         C: T.Buffer((1000,), "float32")):
    for i in range(1000):
        with T.block("C"):
            vi = T.axis.spatial(1000, i)
            C[vi] = A[vi] + B[vi]
"""
WINDOW = """
@T.prim_func
def main(A: T.Buffer((130,), "float32"), B: T.Buffer((128,), "float32")):
    for i in range(128):
        with T.block("B"):
            vi = T.axis.spatial(128, i)
            B[vi] = A[vi] + A[vi + 1] + A[vi + 2]
"""
PRODUCT = """
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "{dtype}"), B: T.Buffer(({n}, {n}), "{dtype}"),
         C: T.Buffer(({n}, {n}), "{dtype}")):
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{dtype}(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
SOFTMAX = """
@T.prim_func
def main(A: T.Buffer((6, 50), "float32"), D: T.Buffer((6, 50), "float32")):
    M = T.alloc_buffer((6,), "float32", scope="shared")
    S = T.alloc_buffer((6,), "float32", scope="shared")
    for i in range(6):
        for k in range(50):
            with T.block("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.float32("-inf")
                M[vi] = T.max(M[vi], A[vi, vk])
        for k1 in range(50):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k1])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + T.exp(A[vi, vk] - M[vi])
        for j in range(50):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.exp(A[vi, vj] - M[vi]) / S[vi]
"""
TWICE = """
@T.prim_func
def main(A: T.Buffer((64, 32), "float32"), C: T.Buffer((64,), "float32")):
    R = T.alloc_buffer((64, 32), "float32")
    for i, j in T.grid(64, 32):
        with T.block("R"):
            vi, vj = T.axis.remap("SS", [i, j])
            R[vi, vj] = A[vi, vj] * T.float32(2)
    for i1, k in T.grid(64, 32):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i1, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + R[63 - vi, vk]
"""


def bound(sch, **threads):
    for loop, axis in threads.items():
        sch = sch.bind(loop, axis.replace("b", "blockIdx.").replace("t", "threadIdx."))
    return sch


def add():
    """A vector in blocks of 128; the last one has threads to spare."""
    sch = mlc.Schedule(mlc.parse(ADD)).split("i", [None, 128])
    return bound(sch, i_0="bx", i_1="tx")


def add_vectors():
    """Four elements by a thread."""
    text = ADD.replace("1000", "1024")
    sch = mlc.Schedule(mlc.parse(text)).split("i", [None, 64, 4]).vectorize("i_2")
    return bound(sch, i_0="bx", i_1="tx")


def window():
    """A window, read from shared memory that the block fetches together."""
    sch = mlc.Schedule(mlc.parse(WINDOW)).split("i", [None, 32])
    sch = bound(sch, i_0="bx", i_1="tx").cache_read("B", "A", "shared")
    sch = sch.compute_at("A_shared", "i_0").split("ax0", [None, 32])
    return sch.bind("ax0_1", "threadIdx.x")


def product_local(n=32):
    """A 4 x 4 tile of the product by each thread, in registers."""
    sch = mlc.Schedule(mlc.parse(PRODUCT.format(n=n, dtype="float32"))).cache_write("C", "C")
    sch = sch.split("i", [None, 4, 4]).split("j", [None, 4, 4]).split("k", [None, 4])
    sch = sch.reorder("i_0", "j_0", "i_1", "j_1", "k_0", "k_1", "i_2", "j_2")
    sch = sch.reverse_compute_at("C_local", "j_1")
    sch = bound(sch, i_0="by", j_0="bx", i_1="ty", j_1="tx")
    return sch.decompose_reduction("C", "k_0")


def product_shared(n=32):
    """The same, with tiles of both factors in shared memory, fetched together."""
    sch = mlc.Schedule(mlc.parse(PRODUCT.format(n=n, dtype="float32"))).cache_write("C", "C")
    sch = sch.split("i", [None, 4, 4]).split("j", [None, 4, 4]).split("k", [None, 8])
    sch = sch.reorder("i_0", "j_0", "i_1", "j_1", "k_0", "k_1", "i_2", "j_2")
    sch = sch.reverse_compute_at("C_local", "j_1")
    sch = sch.cache_read("C", "A", "shared").cache_read("C", "B", "shared")
    sch = bound(sch, i_0="by", j_0="bx", i_1="ty", j_1="tx")
    for name in ("A_shared", "B_shared"):
        sch = sch.compute_at(name, "k_0")
        sch = sch.fuse(*sch.loops(name)[-2:], name=f"{name}_f")
        sch = sch.split(f"{name}_f", [None, 4, 4])
        sch = sch.bind(f"{name}_f_1", "threadIdx.y").bind(f"{name}_f_2", "threadIdx.x")
    return sch.decompose_reduction("C", "k_0")


def fetch_vectors(n=32):
    """Tiles that are fetched four elements at a time."""
    sch = mlc.Schedule(mlc.parse(PRODUCT.format(n=n, dtype="float32"))).cache_write("C", "C")
    sch = sch.split("i", [None, 8]).split("j", [None, 8]).split("k", [None, 8])
    sch = sch.reorder("i_0", "j_0", "i_1", "j_1", "k_0", "k_1")
    sch = sch.reverse_compute_at("C_local", "j_1")
    sch = sch.cache_read("C", "A", "shared").cache_read("C", "B", "shared")
    sch = bound(sch, i_0="by", j_0="bx", i_1="ty", j_1="tx")
    for name in ("A_shared", "B_shared"):
        rows, columns = sch.compute_at(name, "k_0").loops(name)[-2:]
        sch = sch.compute_at(name, "k_0").split(
            columns, [None, 4], names=[f"{name}_c", f"{name}_v"]
        )
        sch = sch.bind(rows, "threadIdx.y").vectorize(f"{name}_v")
    return sch.decompose_reduction("C", "k_0")


def softmax():
    """A row by each block: its greatest element and its sum by all threads."""
    sch = mlc.Schedule(mlc.parse(SOFTMAX)).bind("i", "blockIdx.x")
    for loop in ("k", "k1", "j"):
        sch = sch.split(loop, [None, 16]).bind(f"{loop}_1", "threadIdx.x")
    return sch


def twice():
    """Two kernels, with memory between them."""
    sch = mlc.Schedule(mlc.parse(TWICE)).fuse("i", "j", name="f").split("f", [None, 64])
    sch = bound(sch, f_0="bx", f_1="tx").split("i1", [None, 16])
    return bound(sch, i1_0="bx", i1_1="tx")


def rows():
    """Sums of rows: a row by the threads of x, several rows by the ones of y."""
    text = TWICE.replace("63 - vi", "vi")
    sch = mlc.Schedule(mlc.parse(text)).compute_inline("R").split("i1", [None, 4])
    return bound(sch.split("k", [None, 8]).reorder("k_1", "k_0"), i1_0="bx", i1_1="ty", k_1="tx")


def virtual():
    """Virtual threads: a thread takes elements that are far apart."""
    sch = mlc.Schedule(mlc.parse(ADD)).split("i", [None, 2, 64])
    return bound(sch, i_0="bx", i_2="tx").bind("i_1", "vthread.x")


TENSORS = """
@T.prim_func
def main(A: T.Buffer((64, 64), "{factor}"), B: T.Buffer({shape}, "{factor}"),
         C: T.Buffer((64, 32), "{result}")):
    for i, j, k in T.grid(64, 32, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{result}(0)
            C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "{result}") * T.cast(B[{at}], "{result}")
"""
UNITS = {
    "f16": ("float16", "float32", 16),
    "bf16": ("bfloat16", "float32", 16),
    "i8": ("int8", "int32", 32),
}


def tiles(sch, block, rows, columns, intrin):
    """A copy, tile by tile by a warp."""
    i, j = sch.loops(block)[-2:]
    sch = sch.split(i, [None, rows], names=[f"{block}_i", f"{block}_r"])
    sch = sch.split(j, [None, columns], names=[f"{block}_j", f"{block}_c"])
    return sch.reorder(f"{block}_j", f"{block}_r").tensorize(f"{block}_r", intrin)


def fetched(sch, name, at, loops, *axes):
    """A copy in shared memory, by all threads of a block, some neighbours at a time."""
    flat = f"{name}_flat"
    sch = sch.compute_at(name, at)
    sch = sch.fuse(*sch.loops(name)[-2:], name=flat).split(flat, loops)
    for number, axis in enumerate(axes, 1):
        sch = sch.bind(f"{flat}_{number}", axis)
    return sch.vectorize(f"{flat}_{len(axes) + 1}")


@cache
def warps(kind="f16", turned=False, check=True, loads=""):
    """A product by tensor cores: two warps of a block have 16 by 16 elements each. `loads` is
    another intrinsic for the tiles of B.
    """
    factor, result, depth = UNITS[kind]
    shape, at = ("(32, 64)", "vj, vk") if turned else ("(64, 32)", "vk, vj")
    text = TENSORS.format(factor=factor, result=result, shape=shape, at=at)
    sch = mlc.Schedule(mlc.parse(text), check=check).cache_write("C", "C", "wmma.accumulator")
    sch = sch.split("i", [None, 2, 1, 16]).split("j", [None, 2, 8]).split("k", [None, 2, depth])
    sch = sch.reorder("i_0", "j_0", "i_1", "k_0", "k_1", "i_2", "j_1", "i_3", "j_2", "k_2")
    sch = bound(sch, i_0="by", j_0="bx", i_1="ty").reverse_compute_at("C_accumulator", "i_1")
    for name, part in (("A", "matrix_a"), ("B", "matrix_b")):
        sch = sch.cache_read("C", name, "shared").cache_read("C", f"{name}_shared", f"wmma.{part}")
        sch = sch.compute_at(f"{name}_shared_{part}", "k_1")
        sch = fetched(sch, f"{name}_shared", "k_0", [None, 2, 32, 8], "threadIdx.y", "threadIdx.x")
    total, last = f"{result[0]}32", "_turned" * turned
    sch = sch.decompose_reduction("C", "k_0").tensorize("i_3_init", f"mma_zero_{total}")
    sch = sch.tensorize("i_3", f"mma_{kind}{last}")
    sch = tiles(sch, "A_shared_matrix_a", 16, depth, f"mma_load_a_{kind}")
    loads = loads or f"mma_load_b_{kind}{last}"
    side = (8, depth) if loads.endswith("_turned") else (depth, 8)
    sch = tiles(sch, "B_shared_matrix_b", *side, loads)
    return tiles(sch, "C_accumulator", 16, 8, f"mma_store_{total}")


def alone():
    """Nothing is bound: one thread does it all."""
    return mlc.Schedule(mlc.parse(TWICE))


PROGRAMS = (
    *(
        add,
        add_vectors,
        window,
        product_local,
        product_shared,
        fetch_vectors,
        softmax,
        twice,
        rows,
        virtual,
    ),
    alone,
)


@cache
def program(name):
    """The scheduled function of that name."""
    return next(each for each in PROGRAMS if each.__name__ == name)()
