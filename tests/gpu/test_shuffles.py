"""Threads of a warp combine values by shuffles, in the order in which others do it in memory."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.walks import statements_in
from minimlc.targets.gpu.kernels import Barrier, kernels
from minimlc.targets.gpu.shuffles import Shuffle
from tests.gpu.nvrtc import assembly, compiled
from tests.gpu.on_cpu import run_on_cpu
from tests.gpu.programs import bound, program
from tests.helpers import random_array

pytestmark = pytest.mark.many

SUM = """
@T.prim_func
def main(A: T.Buffer((6, {n}), "{dtype}"), C: T.Buffer((6,), "{dtype}")):
    for i, k in T.grid(6, {n}):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.{dtype}(0)
            C[vi] = {update}
"""


def total(n, threads, rows=1, dtype="float32", update="C[vi] + A[vi, vk]"):
    """Sums of rows, some of them in a block."""
    mod = mlc.parse(SUM.format(n=n, dtype=dtype, update=update))
    sch = mlc.Schedule(mod, check=False).split("i", [None, rows]).split("k", [None, threads])
    return bound(sch.reorder("k_1", "k_0"), i_0="bx", i_1="ty", k_1="tx")


def planes():
    """Threads of both axes combine values of one element."""
    mod = mlc.parse(SUM.format(n=96, dtype="float32", update="C[vi] + A[vi, vk]"))
    return bound(mlc.Schedule(mod).split("k", [3, 32]), i="bx", k_0="ty", k_1="tx")


def pairs():
    """One step is between threads of a warp."""
    mod = mlc.parse(SUM.format(n=96, dtype="float32", update="C[vi] + A[vi, vk]"))
    sch = mlc.Schedule(mod, check=False).split("k", [2, 48])
    return bound(sch, i="bx", k_0="tx", k_1="ty")


CASES = {
    "a part of a warp": total(40, 8),
    "rows in a warp": total(40, 8, 3),
    "a warp": total(70, 32, 2),
    "three warps": total(200, 96, 2),
    "no power of two": total(100, 50),
    "rows across warps": total(48, 24, 2),
    "halves": total(64, 32, dtype="float16"),
    "the greatest": total(64, 16, update="T.max(C[vi], A[vi, vk])"),
    "integers": total(64, 32, dtype="int64"),
    "two axes": planes(),
    "pairs": pairs(),
}
SHUFFLED = {"pairs": 1, "three warps": 5, "no power of two": 5, "rows across warps": 0, "a warp": 5}


def results(sch, run):
    rng = np.random.default_rng(0)
    args = [random_array(p.shape, p.dtype, rng) for p in sch.func.params]
    run(*args)
    return args[-1]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    sch = CASES[request.param]
    return sch, results(sch, mlc.build(sch.mod, target="gpusim")["main"])


def test_interpreted(case):
    sch, simulated = case
    expected = results(sch, lambda *args: mlc.interpret(sch.mod, "main", *args))
    half = simulated.dtype == np.float16
    np.testing.assert_allclose(simulated, expected, rtol=1e-5, atol=0.02 if half else 1e-5)


@pytest.mark.requires("opencl")
def test_memory_gives_the_same_bits(case):
    sch, simulated = case
    np.testing.assert_array_equal(
        results(sch, mlc.build(sch.mod, target="opencl")["main"]), simulated
    )


@pytest.mark.requires("c++")
def test_cuda_gives_the_same_bits(case, tmp_path):
    sch, simulated = case
    result = results(sch, lambda *args: run_on_cpu(sch.func, tmp_path, args))
    np.testing.assert_array_equal(result, simulated)


@pytest.mark.parametrize("name", SHUFFLED)
def test_as_many_steps_as_a_warp_has(name):
    (kernel,) = kernels("main", CASES[name].func, shuffles=True).kernels
    parts = list(statements_in(kernel.body))
    assert sum(isinstance(part, Shuffle) for part in parts) == SHUFFLED[name]


def barriers(func, shuffles):
    (kernel,) = kernels("main", func, shuffles=shuffles).kernels
    return [part.why for part in statements_in(kernel.body) if isinstance(part, Barrier)]


def test_nobody_waits_within_a_warp():
    assert len(barriers(program("rows").func, False)) == 4
    assert barriers(program("rows").func, True) == []
    assert barriers(program("softmax").func, True) == [
        f"{name} is read when all have written it" for name in "MS"
    ]


@pytest.mark.requires("nvrtc")
@pytest.mark.parametrize("name", CASES)
def test_cuda_compiles(name):
    compiled(mlc.build(CASES[name].mod, target="python").source("cuda"), "sm_75")


@pytest.mark.requires("nvrtc")
def test_instructions():
    code = assembly(mlc.build(program("rows").mod, target="python").source("cuda"), "compute_80")
    assert code.count("shfl.sync.down") == 3 and "bar.sync" not in code


@pytest.mark.parametrize("rounds", ["0", "N[0]"])
def test_a_sum_that_never_runs_changes_nothing(rounds):
    mod = mlc.parse(f"""
@T.prim_func
def main(N: T.Buffer((1,), "int64"), A: T.Buffer((4, 3, 8), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        for r in range({rounds}):
            for k in range(8):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    vr = T.axis.reduce(3, r)
                    vk = T.axis.reduce(8, k)
                    T.where(r < 3)
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi, vr, vk]
""")
    sch = bound(mlc.Schedule(mod, check=False), i="bx", k="tx")
    function = mlc.build(sch.mod, target="gpusim")["main"]
    for count in (0, 2):
        args = [np.array([count]), np.arange(96, dtype="int32").reshape(4, 3, 8)]
        expected, result = np.full(4, 7, "int32"), np.full(4, 7, "int32")
        mlc.interpret(mod, "main", *args, expected)
        function(*args, result)
        np.testing.assert_array_equal(result, expected)
