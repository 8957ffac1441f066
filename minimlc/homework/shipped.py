"""The assignments of `notebooks/homework`."""

import numpy as np

from minimlc.homework import counters, space
from minimlc.homework import structure as st
from minimlc.homework.assignment import (
    Assignment,
    counted,
    pure,
    register,
    spaced,
    speed,
    structured,
    values,
)
from minimlc.homework.limits import Limits
from minimlc.script import parse

Array = np.ndarray


def _softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def _conv2d(x: Array, w: Array) -> Array:
    kernel = w.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(1, 2))
    return np.einsum("chwrs,ocrs->ohw", windows, w).astype("float32")


def _max_pool(x: Array) -> Array:
    channels, height, width = x.shape
    return x.reshape(channels, height // 2, 2, width // 2, 2).max(axis=(2, 4))


def _argmax(x: Array) -> Array:
    return x.argmax(axis=1).astype("int32")


_SOON = Limits(cpu_seconds=5.0, wall_seconds=30.0)

_TENSOR_PROGRAMS = (
    Assignment(
        "hw1.broadcast_add",
        lambda a, b: a + b,
        inputs=lambda n, m: [(n, m), (m,)],
        cases=[(1, 1), (1, 2), (2, 1), (2, 3), (5, 4)],
        items=[values(4), pure(1)],
        limits=_SOON,
    ),
    Assignment(
        "hw1.matmul",
        lambda a, b: a @ b,
        inputs=lambda n, m, k: [(n, k), (k, m)],
        cases=[(1, 1, 1), (1, 2, 1), (2, 1, 3), (3, 2, 4), (5, 7, 3)],
        items=[values(4), pure(1)],
        limits=_SOON,
    ),
    Assignment(
        "hw1.conv2d",
        _conv2d,
        inputs=lambda c, o, h, w, r: [(c, h, w), (o, c, r, r)],
        cases=[(1, 1, 1, 1, 1), (1, 1, 2, 3, 2), (2, 1, 3, 3, 2), (1, 3, 4, 5, 3), (2, 2, 5, 4, 3)],
        items=[values(4), pure(1)],
        limits=_SOON,
    ),
    Assignment(
        "hw1.max_pool",
        _max_pool,
        inputs=lambda c, h, w: [(c, 2 * h, 2 * w)],
        cases=[(1, 1, 1), (1, 1, 2), (2, 2, 1), (3, 2, 3)],
        items=[values(4), pure(1)],
        numbers=("whole", "normal", "negative", "lowest"),
        limits=_SOON,
    ),
    Assignment(
        "hw1.softmax",
        _softmax,
        inputs=lambda n, m: [(n, m)],
        cases=[(1, 1), (1, 2), (2, 3), (3, 5)],
        items=[values(4), pure(1)],
        numbers=("whole", "normal", "large", "tiny", "equal", "negative", "lowest"),
        limits=_SOON,
    ),
    Assignment(
        "hw1.argmax",
        _argmax,
        inputs=lambda n, m: [(n, m)],
        cases=[(1, 1), (1, 2), (2, 3), (4, 7)],
        items=[values(4), pure(1)],
        numbers=("whole", "normal", "large", "tiny", "equal", "negative", "lowest", "least"),
        limits=_SOON,
    ),
)

_DENSE = parse(
    """
@I.ir_module
class Dense:
    @T.prim_func
    def dense(
        A: T.Buffer((256, 256), "float32"),
        B: T.Buffer((256, 256), "float32"),
        bias: T.Buffer((256,), "float32"),
        C: T.Buffer((256, 256), "float32"),
    ):
        Y = T.alloc_buffer((256, 256), "float32")
        for i, j, k in T.grid(256, 256, 256):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i2, j2 in T.grid(256, 256):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i2, j2])
                C[vi, vj] = T.max(Y[vi, vj] + bias[vj], T.float32(0))
"""
)

_SCHEDULES = Assignment(
    "hw2.dense",
    _DENSE,
    items=[
        values(1, tolerance=1e-3),
        pure(1),
        structured(
            st.tiled("i", 2, 16) & st.tiled("j", 8, 64) & st.ordered("j", "i", "k", ("i", "j")), 3
        ),
        structured(st.fused_epilogue(), 3),
        structured(st.register_tile(16, 512), 3),
        structured(st.packed("B") & st.copied_outside("B", "i"), 3),
        structured(st.vectorized("j"), 2),
        structured(st.no_guard(), 1),
        structured(st.parallel("i", "j"), 1),
        speed(1, 2),
        speed(1, 4),
    ],
)

_PRODUCT = parse(
    """
@I.ir_module
class Product:
    @T.prim_func
    def product(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        for i, j, k in T.grid(128, 128, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
)

_SEARCH = Assignment(
    "hw3.product",
    _PRODUCT,
    items=[
        values(2, tolerance=1e-3),
        pure(2),
        spaced(space.sampled_tile(), 4),
        spaced(space.decided(2), 2),
        spaced(space.distinct(5), 3),
        structured(st.register_tile(8, 512), 3),
        structured(st.vectorized("j"), 2),
        speed(2, 2),
    ],
    wanted="space",
    limits=Limits(cpu_seconds=30.0, wall_seconds=90.0),
)

_LAYER = parse(
    """
@I.ir_module
class Layer:
    @T.prim_func
    def layer(
        A: T.Buffer((128, 64), "float32"),
        B: T.Buffer((64, 128), "float32"),
        D: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        Y = T.alloc_buffer((128, 128), "float32")
        for i, j, k in T.grid(128, 128, 64):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i2, j2 in T.grid(128, 128):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i2, j2])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0)) + D[vi, vj]
"""
)

_KERNELS = Assignment(
    "hw4.layer",
    _LAYER,
    items=[
        values(1, tolerance=1e-3),
        pure(1),
        structured(st.bound("i") & st.bound("j"), 2),
        structured(st.register_tile(8, 256), 3),
        structured(st.fused_epilogue(), 2),
        counted(counters.one_kernel(), 1),
        counted(counters.at_most("sectors", 2048, action="store", buffer="C"), 2),
        structured(st.shared_tile("A", "k") & st.shared_tile("B", "k"), 3),
        structured(st.fetched_together("A") & st.fetched_together("B"), 1),
        counted(counters.busy(0.95), 1),
        counted(counters.at_most("sectors", 24_576, space="global"), 2),
        counted(counters.at_most("requests", 24_576, action="load"), 1),
    ],
    limits=Limits(cpu_seconds=30.0, wall_seconds=90.0),
)
"""With 4 x 4 sums and tiles of 16 steps it takes 14 336 sectors and 17 920 requests to load."""

for _assignment in (*_TENSOR_PROGRAMS, _SCHEDULES, _SEARCH, _KERNELS):
    register(_assignment)
