"""Loops that fetch ahead: the copies of tiles, barriers, copies in the background."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.walks import statements_in
from minimlc.targets.gpu.kernels import Barrier, kernels
from minimlc.targets.gpu.pipelines import ASYNC, STAGES
from tests.gpu.nvrtc import assembly, compiled, spills
from tests.gpu.on_cpu import run_on_cpu
from tests.gpu.programs import program, warps
from tests.helpers import assert_close, copies, random_args, random_array, refuses

pytestmark = pytest.mark.many

CASES = [
    ("product_shared", (0, 0, 1)),
    ("product_shared", (0, 0, 2)),
    ("fetch_vectors", (0, 0, 3)),
    ("fetch_vectors", (0, 0, 7)),
]
"""Of four iterations, by rounds of two, three, four and eight."""


def ahead(name, stages=(0, 0, 1), *, background=True):
    sch = program(name).annotate("k_0", STAGES, stages)
    return sch.annotate("k_0", ASYNC, (0,)) if background else sch


def agrees(sch, run):
    rng = np.random.default_rng(0)
    args = [random_array(p.shape, p.dtype, rng) for p in sch.func.params]
    a, b = (array.astype("float64") for array in args[:2])
    run(*args)
    np.testing.assert_allclose(args[2], a @ b, atol=1e-4)


@pytest.mark.parametrize(("name", "stages"), CASES)
def test_simulated(name, stages):
    sch = ahead(name, stages)
    agrees(sch, mlc.build(sch.mod, target="gpusim")["main"])


@pytest.mark.requires("opencl")
@pytest.mark.parametrize(("name", "stages"), CASES)
def test_opencl(name, stages):
    sch = ahead(name, stages)
    agrees(sch, mlc.build(sch.mod, target="opencl")["main"])


@pytest.mark.requires("c++")
@pytest.mark.parametrize(
    ("stages", "device"), [((0, 0, 1), 750), ((0, 0, 1), 800), ((0, 0, 2), 800), ((0, 0, 7), 800)]
)
def test_background_copies_are_waited_for(stages, device, tmp_path):
    """On a device where a copy is not there before it is waited for."""
    sch = ahead("fetch_vectors", stages)
    agrees(sch, lambda *args: run_on_cpu(sch.func, tmp_path, args, device))


@pytest.mark.requires("c++")
def test_tensor_cores_while_copies_go_on(tmp_path):
    sch = warps(check=False).annotate("k_0", STAGES, (0, 0, 1)).annotate("k_0", ASYNC, (0,))
    text = mlc.build(sch.mod, target="python").source("cuda")
    assert text.count("copy_async((Lanes<unsigned short, 8> *)&") == 6
    agrees(sch, lambda *args: run_on_cpu(sch.func, tmp_path, args))


@pytest.mark.requires("nvrtc")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_cuda(architecture):
    text = mlc.build(ahead("fetch_vectors").mod, target="python").source("cuda")
    assert spills(compiled(text, architecture)) == 0
    code = assembly(text, architecture.replace("sm", "compute"))
    assert ("cp.async.cg.shared.global" in code) is (architecture != "sm_75")


def barriers(sch):
    (kernel,) = kernels("main", sch.func).kernels
    return [part.why for part in statements_in(kernel.body) if isinstance(part, Barrier)]


@pytest.mark.parametrize(("name", "stages"), CASES)
@pytest.mark.parametrize("background", [False, True])
def test_one_barrier_an_iteration(name, stages, background):
    size = stages[-1] + 1
    # Of one round, none comes after the last iteration; nor after tiles that one round alone uses.
    expected = 1 + size - (size >= 4 or (size == 3 and not background))
    assert len(barriers(ahead(name, stages, background=background))) == expected


def test_as_many_tiles_as_are_needed():
    (kernel,) = kernels("main", ahead("product_shared", (0, 0, 2)).func).kernels
    assert sorted(buffer.name for buffer in kernel.shared) == [
        *("A_shared", "A_shared_1", "A_shared_2"),
        *("B_shared", "B_shared_1", "B_shared_2"),
    ]


@pytest.mark.parametrize("stages", [(0, 1), (0, 0, 0), (0, 1, 2), (1, 0, 0), (0, 0, -1)])
def test_stages_are_one_for_each_statement(stages):
    sch = program("product_shared").annotate("k_0", STAGES, stages)
    refuses("E510", lambda: kernels("main", sch.func), "k_0", "(0, 0, 1)")


WRONG = """
@T.prim_func
def main(A: T.Buffer((8, 32), "float32"), C: T.Buffer((8, 32), "float32")):
    T_shared = T.alloc_buffer((32,), "float32", scope="shared")
    for g in T.thread_binding(1, thread="blockIdx.x"):
        for k in range(7):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("T"):
                    vk = T.axis.opaque(7, k)
                    vt = T.axis.spatial(32, t)
                    {fetch}
            for t1 in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("C"):
                    vk = T.axis.opaque(7, k)
                    vt = T.axis.spatial(32, t1)
                    {use}
"""
FETCH = {
    "T_shared[vt] = C[vk, vt]": "C[vk + 1, vt] = T_shared[31 - vt] * T.float32(2)",
    "if vk < 1:\n                        T_shared[vt] = A[vk, vt]": "C[vk, vt] = T_shared[31 - vt]",
}


@pytest.mark.parametrize("fetch", FETCH)
def test_what_depends_on_an_earlier_iteration_is_refused(fetch):
    mod = mlc.parse(WRONG.format(fetch=fetch, use=FETCH[fetch]))
    sch = mlc.Schedule(mod, check=False).annotate("k", STAGES, (0, 1))
    name = "C" if "C[" in fetch else "T_shared"
    refuses("E510", lambda: kernels("main", sch.func), "k: ", name)


MEANWHILE = """
@T.prim_func
def main(A: T.Buffer((7, 2, 128), "float32"), C: T.Buffer((7, 128), "float32")):
    S = T.alloc_buffer((128,), "float32", scope="shared")
    R = T.alloc_buffer((128,), "float32", scope="shared")
    for g in T.thread_binding(1, thread="blockIdx.x"):
        for k in range(7):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                for r in range({times}):
                    for v in T.vectorized(4):
                        S[t * 4 + v] = A[k, r, t * 4 + v]
            for t1 in T.thread_binding(32, thread="threadIdx.x"):
                for v1 in range(4):
                    {second}
            for t2 in T.thread_binding(32, thread="threadIdx.x"):
                for v2 in range(4):
                    C[k, t2 * 4 + v2] = {result}[127 - t2 * 4 - v2]
"""
SECOND = "R[t1 * 4 + v1] = {}"
MEANWHILE_CASES = {
    "read by others": (1, SECOND.format("S[127 - t1 * 4 - v1] * T.float32(2)")),
    "changed": (1, "S[t1 * 4 + v1] = S[t1 * 4 + v1] * T.float32(2)"),
    "partly overwritten": (1, "if t1 < 20:\n" + " " * 24 + "S[t1 * 4 + v1] = T.float32(7)"),
    "copied twice": (2, SECOND.format("T.float32(7)")),
}


def meanwhile(times, second):
    """A fetch of two statements; the first one copies vectors."""
    text = MEANWHILE.format(times=times, second=second, result=second[second.index("[t1") - 1])
    return mlc.Schedule(mlc.parse(text), check=False).annotate("k", STAGES, (0, 0, 1))


@pytest.mark.parametrize("case", MEANWHILE_CASES)
def test_what_is_copied_meanwhile_is_left_alone(case):
    sch = meanwhile(*MEANWHILE_CASES[case]).annotate("k", ASYNC, (0,))
    refuses("E510", lambda: kernels("main", sch.func), "goes on with S", ASYNC)


@pytest.mark.parametrize("case", MEANWHILE_CASES)
@pytest.mark.parametrize(
    "target", ["gpusim", pytest.param("opencl", marks=pytest.mark.requires("opencl"))]
)
def test_fetches_of_two_statements(case, target):
    """The last round fetches only sometimes, and a barrier between the two with it."""
    sch = meanwhile(*MEANWHILE_CASES[case])
    args = random_args(sch.func, np.random.default_rng(0))
    results = copies(args)
    mlc.interpret(sch.mod, "main", *args)
    mlc.build(sch.mod, target=target)["main"](*results)
    assert_close(tuple(args), tuple(results))


def test_what_is_copied_meanwhile_once_may_be():
    sch = meanwhile(1, SECOND.format("T.float32(7)")).annotate("k", ASYNC, (0,))
    assert kernels("main", sch.func).kernels


def test_one_statement_is_no_pipeline():
    text = MEANWHILE.split("            for t1")[0].format(times=1, second="")
    sch = mlc.Schedule(mlc.parse(text), check=False).annotate("k", STAGES, (0,))
    refuses("E510", lambda: kernels("main", sch.func), "a statement that fetches")
