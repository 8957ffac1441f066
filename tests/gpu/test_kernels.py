"""Kernels of one thread: axes, barriers and their reasons, storage, and refusals of launches."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.nodes import IfThenElse
from minimlc.loops.ir.walks import buffers_in, loops_in, statements_in
from minimlc.targets.gpu.kernels import Barrier, kernels
from minimlc.targets.gpu.limits import CUDA_LIMITS, check_limits
from minimlc.targets.gpu.meetings import waits
from tests.gpu import programs
from tests.gpu.programs import PROGRAMS, program
from tests.helpers import assert_close, copies, random_args, refuses
from tests.schedule.test_threads import SUM, SUMS

pytestmark = pytest.mark.many


def launched(name):
    return kernels("main", program(name).func)


def barriers(kernel):
    return [part.why for part in statements_in(kernel.body) if isinstance(part, Barrier)]


def test_axes_are_values_under_the_users_names():
    (kernel,) = launched("add").kernels
    assert [(axis.name, axis.var.name, axis.extent) for axis in kernel.axes] == [
        ("blockIdx.x", "i_0", 8),
        ("threadIdx.x", "i_1", 128),
    ]
    assert (kernel.grid, kernel.block) == ((8, 1, 1), (128, 1, 1))
    assert not barriers(kernel) and not loops_in(kernel.body)
    assert [buffer.name for buffer in kernel.params] == ["A", "B", "C"]


def test_threads_wait_for_what_they_fetch_together():
    (kernel,) = launched("product_shared").kernels
    assert barriers(kernel) == [
        "B_shared is read when all have written it",
        "A_shared is written when all have read it",
    ]
    assert [(b.name, b.shape) for b in kernel.shared] == [
        ("A_shared", (16, 8)),
        ("B_shared", (8, 16)),
    ]


def test_shared_memory_holds_one_tile_at_a_time():
    shared = launched("window").kernels[0].shared
    assert [(buffer.name, buffer.shape) for buffer in shared] == [("A_shared", (64,))]


def test_a_nest_of_its_own_is_a_kernel_of_its_own():
    form = launched("twice")
    assert [kernel.name for kernel in form.kernels] == ["main_0", "main_1"]
    assert [buffer.name for buffer in form.workspace] == ["R"]
    names = [[buffer.name for buffer in kernel.params] for kernel in form.kernels]
    assert names == [["A", "R"], ["C", "R"]]


def test_nothing_bound_is_one_thread():
    form = launched("alone")
    assert {(kernel.grid, kernel.block) for kernel in form.kernels} == {((1, 1, 1), (1, 1, 1))}


def test_a_reduction_over_threads_is_a_tree():
    (kernel,) = launched("rows").kernels
    assert [(b.name, b.shape) for b in kernel.shared] == [("C_block", (4, 8))]
    assert barriers(kernel) == ["C_block is read when all have written it"] * 4


def test_two_axes_combine_one_after_the_other():
    sch = mlc.Schedule(mlc.parse(SUMS.format(**SUM))).bind("i", "blockIdx.x").split("k", [None, 4])
    sch = sch.bind("k_0", "threadIdx.y").bind("k_1", "threadIdx.x")
    (kernel,) = kernels("main", sch.func).kernels
    assert [b.shape for b in kernel.shared] == [(3, 4)]
    assert len(barriers(kernel)) == 2 + 2 + 1


BETWEEN = """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4, 8), "int32")):
    for i in range(4):
        for k in range(8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
        for j in range(8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj] - C[vi]
"""


def test_one_block_waits_for_the_sum():
    sch = mlc.Schedule(mlc.parse(BETWEEN))
    sch = sch.bind("i", "blockIdx.x").bind("k", "threadIdx.x").bind("j", "threadIdx.x")
    (kernel,) = kernels("main", sch.func).kernels
    assert barriers(kernel)[-1] == "C is read when all have written it"


PLANES = """
@T.prim_func
def main(A: T.Buffer((4, 8, 3), "int32"), C: T.Buffer((4, 3), "int32")):
    for i, k, j in T.grid(4, 8, 3):
        with T.block("C"):
            vi, vk, vj = T.axis.remap("SRS", [i, k, j])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vk, vj]
"""


def test_threads_combine_for_one_element_at_a_time():
    sch = mlc.Schedule(mlc.parse(PLANES)).bind("i", "blockIdx.x").bind("k", "threadIdx.x")
    refuses("E510", lambda: kernels("main", sch.func), "several elements of C", '"j", "k"')
    kernels("main", mlc.Schedule(mlc.parse(PLANES)).reorder("j", "k").bind("k", "threadIdx.x").func)


BOTH = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((1,), "int32"), D: T.Buffer((8,), "int32")):
    for k in range(8):
        with T.block("C"):
            vk = T.axis.reduce(8, k)
            C[0] = C[0] + A[vk]
        with T.block("D"):
            vk = T.axis.spatial(8, k)
            D[vk] = A[vk]
"""


def test_a_reduction_beside_something_else_is_refused():
    sch = mlc.Schedule(mlc.parse(BOTH)).bind("k", "threadIdx.x")
    refuses("E510", lambda: kernels("main", sch.func), "combine values of C", "k runs more")


def test_a_guard_of_both_without_an_init_is_refused():
    text = SUMS.format(**{**SUM, "init": "", "where": "\n            T.where(i * 3 + k < 15)"})
    sch = mlc.Schedule(mlc.parse(text)).bind("i", "blockIdx.x").bind("k", "threadIdx.x")
    refuses("E510", lambda: kernels("main", sch.func), "whether any thread of k runs C")


ACROSS = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    X = T.alloc_buffer((8,), "int32", scope="{scope}")
    for r in range(2):
        for b in T.thread_binding({blocks}, thread="{axis}"):
            X[b] = A[b]
        for b1 in T.thread_binding({blocks}, thread="{axis}"):
            C[b1] = X[7 - b1]
"""


def test_blocks_do_not_wait_for_each_other():
    def form(scope, axis):
        text = ACROSS.format(scope=scope, axis=axis, blocks=8)
        return kernels("main", mlc.parse(text)["main"])

    refuses("E510", lambda: form("global", "blockIdx.x"), "X is used by more than one block")
    refuses("E510", lambda: form("shared", "blockIdx.x"), "shared buffer X is used by more than")
    refuses("E510", lambda: form("local", "threadIdx.x"), "threads of a block share the local")
    (kernel,) = form("shared", "threadIdx.x").kernels
    assert barriers(kernel) == [
        "X is read when all have written it",
        "X is written when all have read it",
    ]


PLACED = """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    X = T.alloc_buffer((4, 8), "int32"{scope})
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            X[b, t] = A[b, t]
        for t1 in T.thread_binding(8, thread="threadIdx.x"):
            C[b, t1] = X[b, 7 - t1]
"""


def test_what_threads_share_is_in_shared_memory():
    text = PLACED.format(scope=', scope="shared"')
    (kernel,) = kernels("main", mlc.parse(text)["main"]).kernels
    assert [buffer.shape for buffer in kernel.shared] == [(1, 8)]
    mod = mlc.parse(PLACED.format(scope=""))
    refuses("E510", lambda: kernels("main", mod["main"]), "share the global buffer X", "set_scope")


DIVERGENT = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8, 8), "int32")):
    X = T.alloc_buffer((8,), "int32", scope="shared")
    for t in T.thread_binding(8, thread="threadIdx.x"):
        {how}
            for u in T.thread_binding(8, thread="threadIdx.x"):
                X[u] = A[u]
            C[t, 0] = X[7 - t]
"""


@pytest.mark.parametrize("how", ["for r in range(t + 1):", "if t < 4:", "if A[t] > 0:"])
def test_a_barrier_is_for_all_threads(how):
    """`bind` refuses such steps; so do kernels of a program that was written so."""
    text = DIVERGENT.format(how=how)
    try:
        func = mlc.parse(text)["main"]
    except mlc.CompileError:
        pytest.fail("the text is read before it is verified")
    refuses("E510", lambda: kernels("main", func, check=False), "depends on")
    refuses("E510", lambda: kernels("main", func), "not the same for all")


def test_limits_are_those_of_the_device():
    text = programs.ADD.replace("1000", "8192")
    sch = mlc.Schedule(mlc.parse(text)).split("i", [None, 2048])
    sch = sch.bind("i_0", "blockIdx.x").bind("i_1", "threadIdx.x")
    (kernel,) = kernels("main", sch.func).kernels
    refuses("E510", lambda: check_limits(kernel, CUDA_LIMITS), "2048 threads", "allows 1024")
    refuses("E510", lambda: mlc.build(sch.mod, target="gpusim"), "2048 threads")
    library = mlc.build(sch.mod, target="python")
    refuses("E510", lambda: library.source("cuda"), "a CUDA device allows 1024")
    refuses("E510", lambda: library.source("wgsl"), "WebGPU allows 256")
    wide = kernels("main", programs.product_shared().func).kernels[0]
    small = CUDA_LIMITS._replace(shared=1000)
    refuses("E510", lambda: check_limits(wide, small), "1024 bytes of shared memory (A_shared")
    deep = kernels("main", program("add").func).kernels[0]._replace(axes=())
    check_limits(deep, CUDA_LIMITS)


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.__name__)
def test_the_programs_mean_what_they_meant(case):
    """Their schedules keep the meaning: the interpreter runs both."""
    sch = case()
    rng = np.random.default_rng(1)
    args = [rng.integers(-4, 5, p.shape).astype(p.dtype) for p in sch.func.params]
    again = [array.copy() for array in args]
    mlc.interpret(sch.history[0].mod, "main", *args)
    mlc.interpret(sch.mod, "main", *again)
    for one, other in zip(args, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


ALONE = """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    {above}
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for i in T.thread_binding(8, thread="threadIdx.x"):
            {inside}
                X[0] = A[b, i]
                C[b, i] = X[0] * 2
"""


@pytest.mark.parametrize(
    ("above", "inside", "why"),
    [
        ('X = T.alloc_buffer((1,), "int32", scope="shared")', "if True:", "i=0 and i=1 both write"),
        ("pass", 'with T.alloc_buffer((1,), "int32", scope="shared") as X:', "for itself"),
    ],
)
def test_shared_memory_is_not_each_threads_own(above, inside, why):
    mod = mlc.parse(ALONE.format(above=above, inside=inside))
    refuses("E510", lambda: kernels("main", mod["main"]), why)


SOMETIMES = """
@T.prim_func
def main(A: T.Buffer((4, 32), "int32"), B: T.Buffer((4, 32), "int32"),
         C: T.Buffer((4, 32), "int32")):
    S = T.alloc_buffer((32,), "int32", scope="shared")
    U = T.alloc_buffer((32,), "int32", scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for k in range(4):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                S[t] = A[k, t]
            {sometimes}:
                for t1 in T.thread_binding(32, thread="threadIdx.x"):
                    U[t1] = A[k, t1] * 3
                for t2 in T.thread_binding(32, thread="threadIdx.x"):
                    B[k, t2] = U[31 - t2]
            for t3 in T.thread_binding(32, thread="threadIdx.x"):
                C[k, t3] = S[31 - t3] + 1
"""


@pytest.mark.parametrize("sometimes", ["if k < 2", "for m in range(T.max(0, 2 - k))"])
@pytest.mark.parametrize(
    "target", ["gpusim", pytest.param("opencl", marks=pytest.mark.requires("opencl"))]
)
def test_a_barrier_that_is_sometimes_passed_is_not_relied_on(sometimes, target):
    mod = mlc.parse(SOMETIMES.format(sometimes=sometimes))
    args = random_args(mod["main"], np.random.default_rng(0))
    results = copies(args)
    mlc.interpret(mod, "main", *args)
    mlc.build(mod, target=target)["main"](*results)
    assert_close(tuple(args), tuple(results))


TURNED = """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    S = T.alloc_buffer((8,), "int32", scope="shared")
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            for t1 in T.thread_binding(8, thread="threadIdx.x"):
                S[t1] = A[b, t]
            C[b, t] = S[7 - t]
"""


def test_what_threads_do_together_is_the_same_for_all():
    """Also in a program that is written so, without `bind`."""
    mod = mlc.parse(TURNED)
    refuses("E510", lambda: kernels("main", mod["main"]), "t1", "not the same for all threads")


DECIDED = """
@T.prim_func
def main(A: T.Buffer((8,), "int64"), C: T.Buffer((8,), "int64")):
    S = T.alloc_buffer((1,), "int64", scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        S[0] = A[3] % 3
        {decision}
            {change}for t in T.thread_binding(8, thread="threadIdx.x"):
                C[t] = C[t] + A[t]
        S[0] = 7
"""
CHANGE = "S[0] = 2\n            "
READ, WRITTEN = "S is read when all have written it", "S is written when all have read it"


@pytest.mark.parametrize("decision", ["if S[0] > 0:", "for k in range(S[0]):"])
@pytest.mark.parametrize("change", ["", CHANGE], ids=["kept", "changed"])
def test_all_threads_read_what_decides_for_them(decision, change):
    """One thread writes it before, after, and while it decides."""
    mod = mlc.parse(DECIDED.format(decision=decision, change=change))
    (kernel,) = kernels("main", mod["main"]).kernels
    whys = barriers(kernel)
    assert whys[0] == READ and WRITTEN in whys[1:]
    assert ("decided" in {buffer.name for buffer in buffers_in(kernel.body)}) == bool(change)
    args = random_args(mod["main"], np.random.default_rng(0))
    args[0][3] = 2
    expected = copies(args)
    mlc.interpret(mod, "main", *expected)
    mlc.build(mod, "gpusim")["main"](*args)
    np.testing.assert_array_equal(args[1], expected[1])


OF_A_ROW = """
@T.prim_func
def main(A: T.Buffer((2, 8), "int64"), C: T.Buffer((2, 8), "int64")):
    S = T.alloc_buffer((2,), "int64", scope="shared")
    for y in T.thread_binding(2, thread="threadIdx.y"):
        S[y] = A[y, 0]
        if S[y] > 0:
            for x in T.thread_binding(8, thread="threadIdx.x"):
                C[y, x] = A[y, x]
"""


def test_threads_of_a_row_read_what_its_first_one_wrote():
    (kernel,) = kernels("main", mlc.parse(OF_A_ROW)["main"]).kernels
    assert barriers(kernel) == [READ]


def test_barriers_stay_outside_of_what_memory_decides():
    """All threads come to them, whatever the decision is."""
    text = DECIDED.format(decision="if S[0] > 0:", change=CHANGE)
    (kernel,) = kernels("main", mlc.parse(text)["main"]).kernels
    conditions = [part for part in statements_in(kernel.body) if isinstance(part, IfThenElse)]
    assert conditions and not any(map(waits, conditions))
