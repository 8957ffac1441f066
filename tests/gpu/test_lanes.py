"""Neighbours that a thread of OpenCL computes at once, and one of CUDA loads and stores so."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.recipes import apply
from tests.gpu.on_cpu import run_on_cpu
from tests.gpu.programs import program
from tests.helpers import assert_close, copies, random_args

pytestmark = pytest.mark.many

CALCULATE = """
@T.prim_func
def main(
    A: T.Buffer((6, {row}), "{dtype}"),
    B: T.Buffer((6,), "{dtype}"),
    C: T.Buffer((6, {row}), "{dtype}"),
):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(3, thread="threadIdx.x"):
            for j in range({count}):
                for k in T.vectorized(4):
                    C[b * 3 + t, j * 4 + k] = {value}
"""
PLAIN = {"row": 16, "count": 4, "dtype": "float32"}
HERE, SAME = "A[b * 3 + t, j * 4 + k]", "B[b * 3 + t]"
CASES = [
    ({"value": f"{HERE} * {SAME} + T.float32(2)"}, True),
    ({"value": f"{SAME} - ({HERE} + {HERE}) * {HERE}"}, True),
    ({"value": f"C[b * 3 + t, j * 4 + k] + {HERE}"}, True),
    ({"value": SAME}, True),
    ({"value": "T.float32(0)"}, True),
    ({"value": "A[5 - t, 12 - j * 4 + k] + T.float32(1)"}, True),
    ({"value": f"{HERE} / {SAME}"}, False),
    ({"value": f"T.max({HERE}, {SAME})"}, False),
    ({"value": f"T.exp({HERE})"}, False),
    ({"value": f"{HERE} + T.cast(k, 'float32')"}, False),
    ({"value": f"{HERE} * T.int32(3)", "dtype": "int32"}, False),
    ({"value": f"{HERE} + B[k]"}, True),
    ({"value": f"{HERE} + B[k + 1]"}, False),
    ({"value": f"{HERE} * {SAME}", "row": 18}, False),
    ({"value": f"A[b * 3 + t, j * 4 + 3 - k] * {SAME}"}, False),
    ({"value": f"A[b * 3 + t, j * 4 + k + 1] * {SAME}", "count": 3}, False),
]


@pytest.mark.parametrize(("change", "wide"), CASES)
def test_sums_and_products_of_aligned_neighbours(change, wide):
    text = mlc.build(mlc.parse(CALCULATE.format(**{**PLAIN, **change})), "python").source("opencl")
    assert ("(__global float4 *)&C[" in text) == wide
    assert text.count("for (") == 1 + (not wide)


SCALAR = "B[k + 1]", "3 - k", "j * 4 + k + 1]"
"""Accesses that are no vector at a multiple of its size."""


@pytest.mark.requires("c++")
@pytest.mark.parametrize("change", [change for change, _ in CASES])
def test_neighbours_in_cuda(change, tmp_path):
    mod = mlc.parse(CALCULATE.format(**{**PLAIN, **change}))
    text = mlc.build(mod, "python").source("cuda")
    scalar = any(part in change["value"] for part in SCALAR) or change.get("row") == 18
    kind = {"int32": "int"}.get(change.get("dtype"), "float")
    assert (f"*(Lanes<{kind}, 4> *)&C[" in text) is not scalar
    args = random_args(mod["main"], np.random.default_rng(0))
    results = copies(args)
    mlc.interpret(mod, "main", *args)
    run_on_cpu(mod["main"], tmp_path, results)
    for one, other in zip(results, args, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_load_that_a_condition_decides_about_is_not_done_before():
    value = f"T.Select(j < 2, {HERE}, T.float32(0))"
    text = mlc.build(mlc.parse(CALCULATE.format(**PLAIN, value=value)), "python").source("cuda")
    assert "Lanes" not in text


@pytest.mark.requires("opencl")
@pytest.mark.parametrize(("change", "wide"), CASES)
def test_values(change, wide):
    mod = mlc.parse(CALCULATE.format(**{**PLAIN, **change}))
    args = random_args(mod["main"], np.random.default_rng(0))
    results = copies(args)
    mlc.interpret(mod, "main", *args)
    mlc.build(mod, target="opencl")["main"](*results)
    assert_close(tuple(args), tuple(results))


def test_memory_of_a_thread_and_of_a_block_is_aligned():
    sch = program("product_shared")
    *_, columns = sch.loops("C_update")
    text = mlc.build(sch.vectorize(columns).mod, target="python").source("opencl")
    assert "__local float B_shared[8][16] __attribute__((aligned(16)));" in text
    assert "float C_local[4][4] __attribute__((aligned(16)));" in text
    assert "__local float A_shared[16][8];" in text


OWN = """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            X = T.alloc_buffer((16,), "float32", scope="{scope}")
            for j in range(4):
                for k in T.vectorized(4):
                    X[j * 4 + k] = A[b * 4 + t, j * 4 + k] * T.float32(2)
            for j1 in range(4):
                for k1 in T.vectorized(4):
                    C[b * 4 + t, j1 * 4 + k1] = X[j1 * 4 + k1] + T.float32(1)
"""


@pytest.mark.requires("opencl")
@pytest.mark.parametrize("scope", ["global", "local", "wmma.accumulator"])
def test_memory_of_a_thread_is_its_own_whatever_its_scope(scope):
    library = mlc.build(mlc.parse(OWN.format(scope=scope)), target="opencl")
    assert " *(float4 *)&X[" in library.source("opencl")
    a, c = np.arange(128, dtype="float32").reshape(8, 16), np.zeros((8, 16), "float32")
    library["main"](a, c)
    np.testing.assert_array_equal(c, 2 * a + 1)


PRODUCT = """
@T.prim_func
def main(
    A: T.Buffer((70, 40), "float32"),
    B: T.Buffer((40, 130), "float32"),
    C: T.Buffer((70, 130), "float32"),
):
    for i, j, k in T.grid(70, 130, 40):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


@pytest.mark.requires("opencl")
def test_a_product_takes_sixteen_at_once():
    mod = apply(mlc.parse(PRODUCT), target="opencl")
    library = mlc.build(mod, target="opencl", recipes=False)
    text = library.source("opencl")
    assert " = (float16)(*(float16 *)&C_local_pad[" in text
    assert "* *(__local float16 *)&B_shared_pad[" in text
    args = random_args(mod["main"], np.random.default_rng(0))
    results = copies(args)
    mlc.interpret(mlc.parse(PRODUCT), "main", *args)
    library["main"](*results)
    assert_close(tuple(args), tuple(results))
