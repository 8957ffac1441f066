"""Counts that were derived by hand, and counts from published profiles."""

import time

import numpy as np
import pytest

import minimlc as mlc
from minimlc.gpusim.devices import DEVICES
from minimlc.gpusim.profile import KernelProfile
from tests.gpusim import programs
from tests.helpers import refuses


def profile(mod) -> KernelProfile:
    """The only kernel of a program, run on random data; its results are the interpreter's."""
    rng = np.random.default_rng(0)
    args = [rng.random(p.shape).astype(p.dtype) for p in mod["main"].params]
    again = [array.copy() for array in args]
    (kernel,) = mlc.build(mod, "gpusim").profile("main", *args).kernels
    if sum(array.size for array in args) <= 1 << 13:
        mlc.interpret(mod, "main", *again)
        for got, expected in zip(args, again, strict=True):
            np.testing.assert_array_equal(got, expected)
    return kernel


def access(kernel, action, buffer):
    """The loads, or stores, of a buffer; the last where it has several."""
    return [a for a in kernel.accesses if (a.action, a.buffer) == (action, buffer)][-1]


@pytest.mark.parametrize(
    ("index", "size", "sectors"),
    [
        ("b * 128 + t", 1024, 4),  # a warp reads 128 bytes in a row: four sectors
        ("(b * 128 + t) * 32", 32768, 32),  # each thread in a sector of its own
        ("(b * 128 + t) * 2", 2048, 8),  # every other word: twice the sectors
        ("b * 128 + t + 1", 1025, 5),  # 128 bytes that begin within a sector
        ("b * 128 + t + 8", 1032, 4),  # and with the next one
        ("b * 128", 1024, 1),  # one word for all
    ],
)
def test_sectors_of_a_copy(index, size, sectors):
    kernel = profile(programs.copy(index, size))
    assert (kernel.grid, kernel.block) == ((8, 1, 1), (128, 1, 1))
    load, store = access(kernel, "load", "A"), access(kernel, "store", "B")
    assert (load.requests, load.sectors_per_request) == (8 * 128 // 32, sectors)
    assert (store.requests, store.sectors_per_request) == (32, 4)
    (copy,) = kernel.statements
    assert (copy.line, copy.warps, copy.threads, copy.instructions) == (6, 32, 1024, 64)
    assert (copy.active, copy.flops, copy.text[:18]) == (1.0, 0, "B[b * 128 + t] = A")
    read = 32 if sectors == 1 else {5: 32 * 4 + 1}.get(sectors, 32 * sectors)
    assert kernel.global_bytes == (8 if sectors == 1 else read) * 32 + 4096


def test_an_access_keeps_its_first_request():
    load = access(profile(programs.copy("(b * 128 + t) * 2", 2048)), "load", "A")
    assert (load.size, load.sample) == (4, tuple(range(0, 256, 8)))
    wide = access(profile(programs.vectors("u * 4 + v")), "load", "tile")
    assert (wide.size, wide.sample[:3]) == (16, (0, 16, 32))
    store = access(profile(programs.tree()), "store", "C")
    assert store.sample == (0, *[-1] * 31)


@pytest.mark.parametrize(
    ("row", "load", "store", "ways"), [(0, 4, 32, 0), (32, 4, 4, 32), (33, 4, 4, 1)]
)
def test_transposes(row, load, store, ways):
    """Directly, through a tile, and through one with padded rows."""
    kernel = profile(programs.transpose(row=row))
    requests = 64 * 64 // 32
    got = access(kernel, "load", "A"), access(kernel, "store", "B")
    assert [a.requests for a in got] == [requests, requests]
    assert [a.sectors_per_request for a in got] == [load, store]
    assert kernel.shared_bytes == 32 * row * 4
    if row:
        tile = access(kernel, "load", "tile")
        assert (tile.requests, tile.wavefronts_per_request) == (requests, ways)
        assert tile.conflicts == tile.requests * (ways - 1)
        assert access(kernel, "store", "tile").wavefronts_per_request == 1


def test_a_reduction():
    """256 values of each of four blocks; 128, 64, ... threads are left, of 8 warps."""
    kernel = profile(programs.tree())
    warps = 4 * (4 + 2 + 1 + 1 + 1 + 1 + 1 + 1)
    threads = 4 * 255
    (add,) = [item for item in kernel.statements if item.flops]
    assert (add.warps, add.threads, add.flops) == (warps, threads, threads)
    assert add.active == threads / (32 * warps)
    assert [a.requests for a in add.accesses] == [warps] * 3
    assert {a.wavefronts_per_request for a in add.accesses} == {1}
    assert add.instructions == 4 * warps
    (result,) = [item for item in kernel.statements if item.text.startswith("C[")]
    assert (result.warps, result.threads) == (4, 4)
    barriers = [item for item in kernel.statements if item.text.startswith("barrier")]
    assert sum(item.instructions for item in barriers) == 4 * 8 * (1 + 8)


def test_a_product():
    """Tiles of 16 by 16: a warp fetches two rows of 64 bytes; its threads multiply two words of one
    tile, which others of them read too, by a row of the other.
    """
    n = 32
    kernel = profile(programs.product(n))
    blocks, steps, warps = (n // 16) ** 2, n // 16, 8
    for name in "AB":
        load, store = access(kernel, "load", name), access(kernel, "store", f"{name}s")
        assert (load.requests, load.sectors_per_request) == (blocks * steps * warps, 4)
        assert (store.requests, store.wavefronts_per_request) == (blocks * steps * warps, 1)
        tile = access(kernel, "load", f"{name}s")
        assert (tile.requests, tile.wavefronts_per_request) == (blocks * n * warps, 1)
    assert sum(item.flops for item in kernel.statements) == 2 * n**3
    (inner,) = [item for item in kernel.statements if item.flops]
    assert inner.instructions == 3 * blocks * n * warps  # two loads and a fused multiply-add
    assert kernel.global_bytes == 3 * n * n * 4


@pytest.mark.parametrize(
    ("index", "requests", "wavefronts"),
    [
        ("u * 4 + v", 1, 4),  # each quarter of a warp reads all banks once
        ("u * 128 + v", 1, 32),  # all threads of a quarter, the same four banks
        ("u * 4 + v + 1", 4, 16),  # not aligned: four words one by one, four-way
        ("v", 1, 2),  # the same four words for all: each half still needs its turn
    ],
)
def test_vectors_of_shared_memory(index, requests, wavefronts):
    kernel = profile(programs.vectors(index))
    tile, store = access(kernel, "load", "tile"), access(kernel, "store", "C")
    assert (tile.requests, store.requests, store.sectors) == (requests, 1, 16)
    assert tile.wavefronts == wavefronts


def test_a_published_profile_of_a_transpose():
    """4096 by 4096 doubles through a tile of 32 by 32 that is written by columns, whose counters
    are published as 1048664 and 17061038 wavefronts; all other counts are exact.
    """
    n = 4096
    mod = programs.transpose(n, "float64", row=32, by_column=True)
    matrix, result = np.arange(n * n, dtype="float64").reshape(n, n), np.empty((n, n))
    (kernel,) = mlc.build(mod, "gpusim").profile("main", matrix, result).kernels
    assert np.array_equal(result, matrix.T)
    for action in ("load", "store"):
        assert kernel.total("requests", "global", action) == 524_288
        assert kernel.total("sectors", "global", action) == 4_194_304
    assert kernel.total("wavefronts", "shared", "load") == pytest.approx(1_048_664, rel=0.02)
    assert kernel.total("wavefronts", "shared", "store") == pytest.approx(17_061_038, rel=0.02)


def test_a_product_takes_seconds():
    mod = programs.product(256)
    a, b = np.random.default_rng(0).random((2, 256, 256), "float32")
    c = np.empty((256, 256), "float32")
    start = time.process_time()
    mlc.build(mod, "gpusim").profile("main", a, b, c)
    assert time.process_time() - start < 10
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def test_what_a_device_holds():
    kernel = profile(programs.product(64))
    occupancy = kernel.occupancy("A100")  # 2 KB and 8 warps a block; 64 warps an SM
    assert occupancy == (8, 64, 64, "warps") and occupancy.fraction == 1
    assert kernel.occupancy("T4") == (4, 32, 32, "warps")
    large = kernel._replace(shared_bytes=48 * 1024)
    assert large.occupancy("A100") == (3, 24, 64, "shared memory")
    small = kernel._replace(block=(32, 1, 1), shared_bytes=0)
    assert small.occupancy("A100") == (32, 32, 64, "blocks")
    uneven = small._replace(shared_bytes=3073)  # 13 units of 256 bytes on one, 25 of 128 and 1 KB
    assert (uneven.occupancy("V100").blocks, uneven.occupancy("A100").blocks) == (29, 32)
    assert uneven._replace(shared_bytes=6000).occupancy("A100").blocks == 23
    refuses("E105", lambda: kernel.occupancy("A10"), '"A100"')


@pytest.mark.parametrize(
    ("threads", "registers", "blocks"), [(256, 32, 8), (256, 128, 2), (128, 168, 3), (128, 169, 2)]
)
def test_registers_of_an_sm(threads, registers, blocks):
    """A warp gets a multiple of 256 of the 16384 of a partition."""
    kernel = profile(programs.product(64))._replace(block=(threads, 1, 1), shared_bytes=0)
    limit = "warps" if registers == 32 else "registers"
    warps = threads // 32
    assert kernel.occupancy("A100", registers) == (blocks, blocks * warps, 64, limit)


def test_the_table_of_devices():
    """SMs, lanes and clocks make the float32 TFLOPS of NVIDIA's data sheets."""
    published = {"V100": 15.7, "T4": 8.1, "A100": 19.5, "RTX 3090": 35.6, "RTX 4090": 82.6}
    published |= {"H100": 67, "B200": 75, "RTX 5090": 104.8}
    flops = {name: device.flops / 1e12 for name, device in DEVICES.items()}
    assert flops == pytest.approx(published, rel=0.01)


def test_a_roofline():
    copy, product = profile(programs.copy("b * 128 + t")), profile(programs.product(64))
    assert copy.roofline("A100") == (0, 8192 / 1555e9, 0)
    assert copy.roofline("A100").limit == "memory"
    roofline = product.roofline("H100")
    assert roofline.compute == pytest.approx(2 * 64**3 / 66.9e12, rel=1e-3)
    assert (roofline.limit, roofline.seconds) == ("shared", roofline.shared)


def test_the_table():
    mod, arrays = programs.tree(), (np.ones((4, 256), "float32"), np.zeros(4, "float32"))
    shown = mlc.build(mod, "gpusim").profile("main", *arrays)
    text = repr(shown).splitlines()
    assert text[0] == "main: 4 blocks of 256 threads, 1024 bytes of shared memory each"
    assert text[1].split() == list(text[1].split()) and text[1].startswith("line  instructions")
    (row,) = [line for line in text if "part[t] = part[t] + part" in line]
    assert row.split()[:3] == ["11", "192", "66%"]
    html = shown._repr_html_()
    assert html.count("<tr>") == len(text) - 1 and "128 &gt;&gt; s" in html


def test_graph_functions_and_sizes_are_profiled_too():
    double = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in T.thread_binding(n, thread="threadIdx.x"):
        B[i] = A[i] * 2.0
"""
    lib = mlc.build(mlc.parse(double), "gpusim")
    for size, warps in ((32, 1), (48, 2)):
        x, y = np.ones((2, size), "float32")
        (kernel,) = lib.profile("main", x, y).kernels
        assert kernel.block == (size, 1, 1) and kernel.total("requests") == 2 * warps
        assert kernel.statements[0].active == size / (32 * warps)
    graph = """
@R.function
def main(x: R.Tensor((4,), "float32")):
    y = R.exp(R.tanh(x))
    return y
"""
    shown = mlc.build(mlc.parse(graph), "gpusim").profile("main", np.ones(4, "float32"))
    assert len(shown.kernels) == 1 and "1 block of 4 threads" in repr(shown)
