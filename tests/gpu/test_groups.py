"""Products that four warps do together, in swizzled memory."""

import re

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes
from minimlc.recipes.gpu import tiles
from tests.gpu.nvrtc import compiled, sass, spills
from tests.gpu.on_cpu import run_on_cpu
from tests.helpers import random_array, refuses
from tests.recipes.test_gpu import dense

NAMES = {"sm_80": "HMMA", "sm_90": "HMMA", "sm_90a": "HGMMA.64x128x16"}
KINDS = {"f16": "float16", "bf16": "bfloat16"}


def scheduled(kind, monkeypatch, m=128, n=128, k=160):
    """As a large product is."""
    monkeypatch.setattr(tiles, "BLOCKS", 1)
    made = recipes.apply(dense(m, n, k, KINDS[kind]), "cuda")
    assert f"mma_group_{kind}(&" in text_of(made)
    return made


def text_of(mod):
    return mlc.build(mod, "python").source("cuda")


def arguments(mod):
    rng = np.random.default_rng(0)
    return [random_array(p.shape, p.dtype, rng) for p in mod["main"].params]


def agrees(mod, run):
    args = arguments(mod)
    again = [array.copy() for array in args]
    run(*args)
    mlc.build(mod)["main"](*again)
    one, other = (arrays[-1].astype("float64") for arrays in (args, again))
    assert np.ptp(other) > 1
    np.testing.assert_allclose(one, other, rtol=2e-2, atol=2e-2)


@pytest.mark.many
@pytest.mark.requires("c++")
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_factors_lie_as_documented(kind, groups, tmp_path, monkeypatch):
    """The CUDA text, by functions that implement its instructions as in the PTX ISA."""
    made = scheduled(kind, monkeypatch)
    agrees(made, lambda *args: run_on_cpu(made["main"], tmp_path, args, groups=groups))


@pytest.mark.many
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_without_tensor_cores(kind, monkeypatch):
    made = scheduled(kind, monkeypatch, k=64)
    agrees(made, mlc.build(made, target="gpusim")["main"])


@pytest.mark.requires("nvrtc")
@pytest.mark.parametrize("kind", KINDS)
def test_instructions(kind, monkeypatch):
    text = text_of(scheduled(kind, monkeypatch, k=640))
    for architecture, name in NAMES.items():
        log = compiled(text, architecture)
        assert spills(log) == 0 and name in sass(text, architecture)
        # Two blocks of 256 threads have all of a device's registers.
        assert int(re.search(r"Used (\d+) registers", log)[1]) <= 128


WRONG = {
    "warps along another axis": ('"threadIdx.y"', '"threadIdx.z"', "four warps along threadIdx.y"),
    "rows in another order": ("v03o * 16 + vi1", "(7 - v03o) * 16 + vi1", "rows follow each other"),
    "some of the warps": (
        'T.block_attr({"tensor_intrin": "mma_group_f16"})',
        'T.where(matmul_float32_warp < 5)\nT.block_attr({"tensor_intrin": "mma_group_f16"})',
        "how often a thread meets the others",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_warps_that_cannot_multiply_together(case, monkeypatch):
    old, new, words = WRONG[case]
    script = scheduled("f16", monkeypatch, k=128).script()
    (margin,) = set(re.findall(rf"(?m)^( *){re.escape(old)}", script)) or {""}
    changed = mlc.parse(script.replace(old, new.replace("\n", f"\n{margin}")))
    refuses("E510", lambda: text_of(changed), words)


def test_memory_that_is_not_swizzled_has_no_such_instruction(monkeypatch):
    script = scheduled("f16", monkeypatch, k=128).script()
    refuses("E510", lambda: text_of(mlc.parse(script.replace("shared.swizzled", "shared"))))


def test_rows_that_are_far_apart_have_no_such_instruction(monkeypatch):
    script = scheduled("f16", monkeypatch, k=128).script()
    for old, new in (
        ("alloc_buffer((2, 2, 64, 64)", "alloc_buffer((2, 2, 64, 8, 64)"),
        ("v02 % 64, v12 % 64]", "v02 % 64, 0, v12 % 64]"),
        ("[v2o, vg, vk, vj1]", "[v2o, vg, vk, 0, vj1]"),
    ):
        assert script.count(old) == 1
        script = script.replace(old, new)
    refuses("E510", lambda: text_of(mlc.parse(script)), "wmma.accumulator")


SWIZZLED = """
@T.prim_func
def main(A: T.Buffer((16, 32), "float32"), B: T.Buffer((16, 32), "float32")):
    for b in T.thread_binding(1, thread="blockIdx.x"):
        S = T.alloc_buffer((16, 32), "float32", scope="shared.swizzled")
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for i in range(32):
                S[t, {written}] = A[t, i]
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for i in range(32):
                B[t, i] = S[15 - t, {read}]
"""
HALVES = "T.if_then_else(i < 16, i + 16, i - 16)"


@pytest.mark.many
@pytest.mark.requires("c++")
@pytest.mark.parametrize("read", ["i", HALVES, "T.min(i, 20)"])
@pytest.mark.parametrize("written", ["i", HALVES])
def test_any_index_is_swizzled(written, read, tmp_path):
    mod = mlc.parse(SWIZZLED.format(written=written, read=read))
    a = np.arange(16 * 32, dtype="float32").reshape(16, 32)
    expected, found = np.zeros_like(a), np.zeros_like(a)
    mlc.interpret(mod, "main", a, expected)
    run_on_cpu(mod["main"], tmp_path, [a, found])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.requires("nvrtc")
def test_arrays_that_begin_at_1024_bytes_are_asked_for():
    """They have 48 KiB together, and the gaps between them."""
    text = text_of(mlc.parse(GAPS))
    assert "extern __shared__" in text
    compiled(text, "sm_80")


GAPS = """
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for b in T.thread_binding(1, thread="blockIdx.x"):
        P = T.alloc_buffer((128,), "float32", scope="shared")
        S = T.alloc_buffer((184, 32), "float32", scope="shared.swizzled")
        Q = T.alloc_buffer((128,), "float32", scope="shared")
        R = T.alloc_buffer((192, 32), "float32", scope="shared.swizzled")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            P[t] = A[t]
            S[t, t] = A[t]
            Q[t] = A[t]
            R[t, t] = A[t]
        for t in T.thread_binding(32, thread="threadIdx.x"):
            B[31 - t] = P[t] + S[t, t] + Q[t] + R[t, t]
"""
