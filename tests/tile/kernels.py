"""Tile programs, and what each computes in numpy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.script import T, tile

Arrays = list[np.ndarray]


class Case(NamedTuple):
    """A program, and the numpy function of its inputs that gives its last parameter."""

    func: PrimFunc
    expected: Callable[..., Any]
    tolerance: float = 0.0


CASES: dict[str, Case] = {}


def case(expected: Callable[..., Any], tolerance: float = 0.0) -> Callable[[PrimFunc], PrimFunc]:
    def enter(func: PrimFunc) -> PrimFunc:
        CASES[dict(func.attrs)["global_symbol"]] = Case(func, expected, tolerance)
        return func

    return enter


N = 1000
ROWS, COLUMNS = 37, 50


@case(lambda a, b: a + b)
@tile.kernel(grid=(tile.cdiv(N, 256),))
def add(A: T.Buffer((N,)), B: T.Buffer((N,)), C: T.Buffer((N,))):
    at = tile.program_id(0) * 256 + tile.arange(0, 256)
    inside = at < N
    x = tile.load(A[at], inside)
    tile.store(C[at], x + tile.load(B[at], mask=inside, other=0.0), inside)


def softmax_of(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@case(softmax_of, 1e-6)
@tile.kernel(grid=ROWS)
def softmax(A: T.Buffer((ROWS, COLUMNS)), C: T.Buffer((ROWS, COLUMNS))):
    row, columns = tile.program_id(0), tile.arange(0, 64)
    inside = columns < COLUMNS
    x = tile.load(A[row, columns], inside, float("-inf"))
    e = tile.exp(x - tile.max(x, axis=0))
    tile.store(C[row, columns], e / tile.sum(e, axis=0), inside)


def layer_norm_of(a, w, b):
    centred = a - a.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b


@case(layer_norm_of, 1e-5)
@tile.kernel(grid=ROWS)
def layer_norm(
    A: T.Buffer((ROWS, COLUMNS)),
    W: T.Buffer((COLUMNS,)),
    B: T.Buffer((COLUMNS,)),
    C: T.Buffer((ROWS, COLUMNS)),
):
    row = tile.program_id(0)
    columns = tile.arange(0, COLUMNS)
    x = tile.load(A[row, columns])
    centred = x - tile.sum(x, axis=0) / float(COLUMNS)
    variance = tile.sum(centred * centred, axis=0) / float(COLUMNS)
    scale = tile.rsqrt(variance + 1e-5) * tile.load(W[columns])
    tile.store(C[row, columns], centred * scale + tile.load(B[columns]))


M, K, L = 70, 48, 90


@case(lambda a, b: np.maximum(a @ b, 0), 1e-5)
@tile.kernel(grid=(tile.cdiv(M, 32), tile.cdiv(L, 32)))
def product(A: T.Buffer((M, K)), B: T.Buffer((K, L)), C: T.Buffer((M, L))):
    rows = tile.program_id(0) * 32 + tile.arange(0, 32)
    columns = tile.program_id(1) * 32 + tile.arange(0, 32)
    acc = tile.zeros((32, 32), "float32")
    for k in range(0, K, 16):
        ks = k + tile.arange(0, 16)
        a = tile.load(A[rows[:, None], ks[None, :]], rows[:, None] < M)
        b = tile.load(B[ks[:, None], columns[None, :]], columns[None, :] < L)
        acc += tile.dot(a, b)
    inside = (rows[:, None] < M) & (columns[None, :] < L)
    tile.store(C[rows[:, None], columns[None, :]], tile.maximum(acc, 0.0), inside)


TOKENS, WIDTH = 64, 16


def attention_of(q, k, v):
    return softmax_of(np.where(np.tri(TOKENS, dtype=bool), q @ k.T / 4.0, -np.inf)) @ v


@case(attention_of, 1e-5)
@tile.kernel(grid=TOKENS // 16)
def flash_attention(
    Q: T.Buffer((TOKENS, WIDTH)),
    K_: T.Buffer((TOKENS, WIDTH)),
    V: T.Buffer((TOKENS, WIDTH)),
    O: T.Buffer((TOKENS, WIDTH)),
):
    block = tile.program_id(0)
    rows = block * 16 + tile.arange(0, 16)
    width = tile.arange(0, WIDTH)
    q = tile.load(Q[rows[:, None], width[None, :]])
    highest = tile.full((16,), float("-inf"), "float32")
    total = tile.zeros((16,), "float32")
    out = tile.zeros((16, WIDTH), "float32")
    for start in range(0, (block + 1) * 16, 8):
        keys = start + tile.arange(0, 8)
        k = tile.load(K_[keys[:, None], width[None, :]])
        v = tile.load(V[keys[:, None], width[None, :]])
        scores = tile.where(
            rows[:, None] >= keys[None, :], tile.dot(q, tile.trans(k)) * 0.25, float("-inf")
        )
        new = tile.maximum(highest, tile.max(scores, axis=1))
        weights = tile.exp(scores - new[:, None])
        old = tile.exp(highest - new)
        total = total * old + tile.sum(weights, axis=1)
        out = out * old[:, None] + tile.dot(weights, v)
        highest = new
    tile.store(O[rows[:, None], width[None, :]], out / total[:, None])


@case(lambda a: np.cumsum(a, axis=1), 1e-5)
@tile.kernel(grid=ROWS)
def cumulative_sum(A: T.Buffer((ROWS, COLUMNS)), C: T.Buffer((ROWS, COLUMNS))):
    row, columns = tile.program_id(0), tile.arange(0, COLUMNS)
    tile.store(C[row, columns], tile.cumsum(tile.load(A[row, columns]), axis=0))


@case(lambda a: np.stack([np.bincount(row[(row >= 0) & (row < 8)], minlength=8) for row in a]))
@tile.kernel(grid=ROWS)
def histogram(A: T.Buffer((ROWS, COLUMNS), "int32"), C: T.Buffer((ROWS, 8), "int32")):
    row, columns = tile.program_id(0), tile.arange(0, COLUMNS)
    x = tile.load(A[row, columns])
    tile.store(C[row, tile.arange(0, 8)], tile.histogram(x, 8))


@case(lambda a: a.T)
@tile.kernel(grid=(tile.cdiv(ROWS, 16), tile.cdiv(COLUMNS, 16)))
def transpose(A: T.Buffer((ROWS, COLUMNS)), C: T.Buffer((COLUMNS, ROWS))):
    rows = tile.program_id(0) * 16 + tile.arange(0, 16)
    columns = tile.program_id(1) * 16 + tile.arange(0, 16)
    inside = (rows[:, None] < ROWS) & (columns[None, :] < COLUMNS)
    x = tile.load(A[rows[:, None], columns[None, :]], inside)
    tile.store(C[columns[:, None], rows[None, :]], x.T, inside.T)


@case(lambda a: a.sum(dtype="f8").reshape(1), 1e-3)
@tile.kernel(grid=1)
def total(A: T.Buffer((N,)), C: T.Buffer((1,))):
    partial_sums = tile.zeros((64,), "float32")
    for start in range(0, N, 64):
        at = start + tile.arange(0, 64)
        partial_sums += tile.load(A[at], at < N)
    tile.store(C[tile.arange(0, 1)], tile.sum(partial_sums, axis=0))


@case(lambda a: np.where(a > 0, a, np.exp(np.minimum(a, 0)) - 1) * 2, 1e-6)
@tile.kernel(grid=tile.cdiv(N, 128))
def elu(A: T.Buffer((N,)), C: T.Buffer((N,))):
    at = tile.program_id(0) * 128 + tile.arange(0, 128)
    x = tile.load(A[at], at < N)
    y = tile.where(x > 0.0, x, tile.exp(tile.minimum(x, 0.0)) - 1.0)
    tile.store(C[at], y * 2.0, at < N)


@case(lambda a, w: a.astype("i4") @ w.astype("i4").T)
@tile.kernel(grid=(2, 2))
def int8_product(
    A: T.Buffer((32, 64), "int8"), W: T.Buffer((32, 64), "int8"), C: T.Buffer((32, 32), "int32")
):
    rows = tile.program_id(0) * 16 + tile.arange(0, 16)
    columns = tile.program_id(1) * 16 + tile.arange(0, 16)
    acc = tile.zeros((16, 16), "int32")
    for k in range(0, 64, 32):
        ks = k + tile.arange(0, 32)
        a = tile.load(A[rows[:, None], ks[None, :]])
        w = tile.load(W[columns[:, None], ks[None, :]])
        acc = tile.dot(a, w.T, acc)
    tile.store(C[rows[:, None], columns[None, :]], acc)


@case(lambda a, n: np.where(np.arange(COLUMNS) < n[:, None], a, 0).max(1))
@tile.kernel(grid=ROWS)
def ragged_max(
    A: T.Buffer((ROWS, COLUMNS), "int32"),
    SIZE: T.Buffer((ROWS,), "int32"),
    C: T.Buffer((ROWS,), "int32"),
):
    row, columns = tile.program_id(0), tile.arange(0, COLUMNS)
    size = tile.load(SIZE[row])
    x = tile.load(A[row, columns], columns.to("int32") < size)
    highest = tile.max(x, axis=0)
    if size < COLUMNS:
        highest = tile.maximum(highest, 0)
    tile.store(C[row], highest)
