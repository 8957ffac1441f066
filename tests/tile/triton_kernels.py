"""The programs of `kernels` in Triton. `launch` runs one by Triton's interpreter, on the CPU."""

import numpy as np
import torch
import triton
import triton.language as tl
from triton import cdiv

from tests.tile.kernels import COLUMNS, ROWS, TOKENS, WIDTH, K, L, M, N


@triton.jit
def add(A, B, C, n: tl.constexpr):
    at = tl.program_id(0) * 256 + tl.arange(0, 256)
    inside = at < n
    tl.store(C + at, tl.load(A + at, inside) + tl.load(B + at, inside), inside)


@triton.jit
def softmax(A, C, n: tl.constexpr):
    columns = tl.arange(0, 64)
    at = tl.program_id(0) * n + columns
    x = tl.load(A + at, columns < n, float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(C + at, e / tl.sum(e, axis=0), columns < n)


@triton.jit
def layer_norm(A, W, B, C, n: tl.constexpr):
    columns = tl.arange(0, 64)
    inside = columns < n
    at = tl.program_id(0) * n + columns
    x = tl.load(A + at, inside, 0.0)
    centred = tl.where(inside, x - tl.sum(x, axis=0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + 1e-5) * tl.load(W + columns, inside)
    tl.store(C + at, centred * scale + tl.load(B + columns, inside), inside)


@triton.jit
def product(A, B, C, m: tl.constexpr, k: tl.constexpr, n: tl.constexpr):
    rows = (tl.program_id(0) * 32 + tl.arange(0, 32))[:, None]
    columns = (tl.program_id(1) * 32 + tl.arange(0, 32))[None, :]
    acc = tl.zeros((32, 32), tl.float32)
    for start in range(0, k, 16):
        along = start + tl.arange(0, 16)
        a = tl.load(A + rows * k + along[None, :], rows < m, 0.0)
        b = tl.load(B + along[:, None] * n + columns, columns < n, 0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    inside = (rows < m) & (columns < n)
    tl.store(C + rows * n + columns, tl.maximum(acc, 0.0), inside)


@triton.jit
def flash_attention(Q, K_, V, O, width: tl.constexpr):
    block = tl.program_id(0)
    rows = block * 16 + tl.arange(0, 16)
    across = tl.arange(0, width)[None, :]
    q = tl.load(Q + rows[:, None] * width + across)
    highest = tl.full((16,), float("-inf"), tl.float32)
    total = tl.zeros((16,), tl.float32)
    out = tl.zeros((16, width), tl.float32)
    for start in range(0, (block + 1) * 16, 8):
        keys = start + tl.arange(0, 8)
        k = tl.load(K_ + keys[:, None] * width + across)
        v = tl.load(V + keys[:, None] * width + across)
        scores = tl.sum(q[:, None, :] * k[None, :, :], axis=2) * 0.25
        scores = tl.where(rows[:, None] >= keys[None, :], scores, float("-inf"))
        new = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp(scores - new[:, None])
        old = tl.exp(highest - new)
        total = total * old + tl.sum(weights, axis=1)
        out = out * old[:, None] + tl.sum(weights[:, :, None] * v[None, :, :], axis=1)
        highest = new
    tl.store(O + rows[:, None] * width + across, out / total[:, None])


@triton.jit
def cumulative_sum(A, C, n: tl.constexpr):
    columns = tl.arange(0, 64)
    at = tl.program_id(0) * n + columns
    x = tl.load(A + at, columns < n, 0.0)
    tl.store(C + at, tl.cumsum(x, axis=0), columns < n)


@triton.jit
def histogram(A, C, n: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, 64)
    x = tl.load(A + row * n + columns, columns < n, 8)
    tl.store(C + row * 8 + tl.arange(0, 8), tl.histogram(x, 8, mask=(x >= 0) & (x < 8)))


@triton.jit
def transpose(A, C, m: tl.constexpr, n: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    columns = tl.program_id(1) * 16 + tl.arange(0, 16)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    x = tl.load(A + rows[:, None] * n + columns[None, :], inside)
    tl.store(C + columns[:, None] * m + rows[None, :], tl.trans(x), tl.trans(inside))


@triton.jit
def total(A, C, n: tl.constexpr):
    sums = tl.zeros((64,), tl.float32)
    for start in range(0, n, 64):
        at = start + tl.arange(0, 64)
        sums += tl.load(A + at, at < n, 0.0)
    tl.store(C, tl.sum(sums, axis=0))


@triton.jit
def elu(A, C, n: tl.constexpr):
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    x = tl.load(A + at, at < n)
    y = tl.where(x > 0.0, x, tl.exp(tl.minimum(x, 0.0)) - 1.0)
    tl.store(C + at, y * 2.0, at < n)


@triton.jit
def int8_product(A, W, C):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    columns = tl.program_id(1) * 16 + tl.arange(0, 16)
    acc = tl.zeros((16, 16), tl.int32)
    for k in range(0, 64, 32):
        ks = k + tl.arange(0, 32)
        a = tl.load(A + rows[:, None] * 64 + ks[None, :])
        w = tl.load(W + columns[:, None] * 64 + ks[None, :])
        acc = tl.dot(a, tl.trans(w), acc)
    tl.store(C + rows[:, None] * 32 + columns[None, :], acc)


@triton.jit
def ragged_max(A, SIZE, C, n: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, 64)
    size = tl.load(SIZE + row)
    x = tl.load(A + row * n + columns, columns < tl.minimum(size, n), 0)
    highest = tl.max(x, axis=0)
    if size < n:
        highest = tl.maximum(highest, 0)
    tl.store(C + row, highest)


LAUNCHES = {
    "add": ((cdiv(N, 256),), (N,)),
    "softmax": ((ROWS,), (COLUMNS,)),
    "layer_norm": ((ROWS,), (COLUMNS,)),
    "product": ((cdiv(M, 32), cdiv(L, 32)), (M, K, L)),
    "flash_attention": ((TOKENS // 16,), (WIDTH,)),
    "cumulative_sum": ((ROWS,), (COLUMNS,)),
    "histogram": ((ROWS,), (COLUMNS,)),
    "transpose": ((cdiv(ROWS, 16), cdiv(COLUMNS, 16)), (ROWS, COLUMNS)),
    "total": ((1,), (N,)),
    "elu": ((cdiv(N, 128),), (N,)),
    "int8_product": ((2, 2), ()),
    "ragged_max": ((ROWS,), (COLUMNS,)),
}
"""The grid of each program, and its sizes."""


def launch(name: str, arrays: list[np.ndarray]) -> None:
    """Runs a program on arrays, in place."""
    grid, sizes = LAUNCHES[name]
    globals()[name][grid](*map(torch.from_numpy, arrays), *sizes)
