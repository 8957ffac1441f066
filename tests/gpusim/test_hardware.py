"""The simulator's counts beside a GPU's: NVIDIA H200, profiled by Nsight Compute on
2026-11-27, one launch each.
"""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.gpusim.transactions import Warps
from tests.gpusim import programs

N = np.arange(32)
LOADS = [
    (N, 4, 2),
    (N * 0, 2, 1),
    (N // 2, 2, 1),
    (N // 4, 2, 1),
    (N // 16, 2, 1),
    (N % 2, 2, 1),
    (N % 4, 4, 2),
    (N % 16, 4, 2),
    (N ^ 1, 4, 2),
    (N // 2 * 8, 16, 8),
    (N // 4 * 8, 8, 4),
    (N // 2 * 32, 16, 16),
    (N % 2 * 8, 4, 1),
    (N % 2 * 4 + N // 8, 2, 1),
    (N // 2 % 2 + N % 2 * 2, 4, 2),
    (N // 2 % 4, 2, 1),
    (N // 4 * 2 + N % 2, 2, 1),
    (N // 8 * 2 + N % 2, 2, 1),
    (N % 4 * 8, 16, 4),
    (N // 4 * 8 + N % 4 // 2, 8, 4),
    (31 - N, 4, 2),
    (np.where(N < 16, N // 2, N), 4, 2),
    (np.where(N < 16, 0, N), 4, 2),
    (np.where(N < 8, N // 2, N // 4 + 40), 3, 1),
    (np.where(N < 16, N // 2, N // 4 * 2 + N % 2), 4, 2),
    (np.where(N % 2, -1, N), 4, 2),
    (np.where(N % 4 < 2, N, -1), 4, 2),
    (np.where(N % 2, -1, N // 2), 2, 1),
    (np.where(N % 4 < 2, N // 4 * 2 + N % 2, -1), 2, 1),
    (np.where(N % 4, -1, N), 4, 2),
    (np.where(N % 2, -1, N * 4), 16, 8),
]
"""Which vector of shared memory thread n loads, none for -1; wavefronts for vectors of 16 bytes,
and of 8. They are some of 270 that were profiled.
"""
STORES = [
    (np.where(N % 2, -1, N), 4, 2),
    (np.where(N % 2, -1, N // 2), 4, 2),
    (np.where(N % 4 < 2, N // 4 * 2 + N % 2, -1), 4, 2),
    (np.where(N % 2, -1, N * 4), 16, 8),
]


@pytest.mark.parametrize("size", [16, 8])
@pytest.mark.parametrize("action", ["load", "store"])
def test_wavefronts_of_vectors(action, size):
    for vectors, of_16, of_8 in LOADS if action == "load" else STORES:
        addresses = np.where(vectors < 0, -1, vectors * size).reshape(1, 32)
        most, _ = Warps(addresses, 1).wavefronts(size, loads=action == "load")
        assert most == (of_16 if size == 16 else of_8), vectors.tolist()


COUNTERS = [
    ("requests", "global", "load"),
    ("sectors", "global", "load"),
    ("requests", "global", "store"),
    ("sectors", "global", "store"),
    ("wavefronts", "shared", "load"),
    ("wavefronts", "shared", "store"),
]
KERNELS = {
    "coalesced copy": (programs.copy("b * 128 + t"), (32, 128, 32, 128, 0, 0)),
    "strided copy": (programs.copy("(b * 128 + t) * 2", 2048), (32, 256, 32, 128, 0, 0)),
    "offset copy": (programs.copy("b * 128 + t + 1", 1025), (32, 160, 32, 128, 0, 0)),
    "naive transpose": (programs.transpose(), (128, 512, 128, 4096, 0, 0)),
    "tiled transpose": (programs.transpose(row=32), (128, 512, 128, 512, 4096, 128)),
    "padded transpose": (programs.transpose(row=33), (128, 512, 128, 512, 128, 128)),
    "reduction": (programs.tree(), (32, 128, 4, 4, 100, 80)),
    "product": (programs.product(32), (128, 512, 32, 128, 1536, 128)),
}
MERGED = {"product": 512}
"""Wavefronts that the compiler saves: of a row of the left tile it loads four neighbours at once,
in two wavefronts and not in four.
"""


@pytest.mark.parametrize("name", KERNELS)
def test_counters(name):
    mod, expected = KERNELS[name]
    rng = np.random.default_rng(0)
    args = [rng.random(p.shape).astype(p.dtype) for p in mod["main"].params]
    (kernel,) = mlc.build(mod, "gpusim").profile("main", *args).kernels
    counted = [kernel.total(*counter) for counter in COUNTERS]
    counted[4] -= MERGED.get(name, 0)
    assert tuple(counted) == expected
