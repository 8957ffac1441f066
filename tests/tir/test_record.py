"""Elements that a run touches, in order: serial, vectorized, parallel, cut short."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.lower.lower import lower
from minimlc.loops.values.errors import BoundsError
from minimlc.machine.record import Touch, record


def parsed(text: str) -> mlc.PrimFunc:
    return mlc.parse(text)["main"]


COPY = parsed("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((2, 3), "float32"), B: T.Buffer((3, 2), "float32")):
        for j, i in T.grid(3, 2):
            with T.block("B"):
                vj, vi = T.axis.remap("SS", [j, i])
                B[vj, vi] = A[vi, vj]
""")


def test_each_store_is_a_step_with_what_it_reads_first():
    run = record(COPY)
    assert run.complete and [b.name for b in run.buffers] == ["A", "B"]
    assert [step.touches for step in run.steps] == [
        [Touch(0, i * 3 + j, False), Touch(1, j * 2 + i, True)] for j in range(3) for i in range(2)
    ]
    assert [step.values for step in run.steps] == [(j, i) for j in range(3) for i in range(2)]
    assert [[loop.var.name for loop in loops] for loops in run.loops.values()] == [["j", "i"]]


def test_the_lowered_program_touches_the_same():
    assert [s.touches for s in record(lower(COPY)).steps] == [s.touches for s in record(COPY).steps]


def test_a_record_is_cut_at_its_limit():
    run = record(COPY, limit=5)
    assert not run.complete
    assert [step.touches for step in run.steps] == [s.touches for s in record(COPY).steps[:3]]


def scheduled(*steps) -> mlc.PrimFunc:
    sch = mlc.Schedule(mlc.IRModule.of({"main": COPY}))
    for name, *arguments in steps:
        sch = getattr(sch, name)(*arguments)
    return sch.mod["main"]


def test_lanes_are_one_step_an_access_at_a_time():
    steps = record(scheduled(("vectorize", "i"))).steps
    assert [step.touches for step in steps] == [
        [
            Touch(0, j, False),
            Touch(0, 3 + j, False),
            Touch(1, 2 * j, True),
            Touch(1, 2 * j + 1, True),
        ]
        for j in range(3)
    ]


def test_lanes_that_read_one_element_read_it_once():
    func = parsed("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((1,), "float32"), B: T.Buffer((4,), "float32")):
        for i in T.vectorized(4):
            B[i] = A[0]
""")
    (step,) = record(func).steps
    assert step.touches == [Touch(0, 0, False), *(Touch(1, i, True) for i in range(4))]


def test_lanes_that_go_different_ways_are_steps_apart():
    func = parsed("""
@I.ir_module
class Module:
    @T.prim_func
    def main(B: T.Buffer((4,), "float32")):
        for i in T.vectorized(4):
            if i < 2:
                B[i] = T.float32(0)
""")
    assert [step.touches for step in record(func).steps] == [
        [Touch(0, 0, True)],
        [Touch(0, 1, True)],
    ]


def test_threads_take_neighbouring_iterations_at_one_pace():
    parallel = scheduled(("parallel", "j"))
    assert [len(step.touches) for step in record(parallel).steps] == [2] * 6
    both = record(parallel, threads=2)
    written = [[t.element for t in step.touches if t.write] for step in both.steps]
    assert written == [[0, 2], [1, 3], [4], [5]]
    assert both.complete
    cut = record(parallel, threads=2, limit=4)
    assert not cut.complete
    assert [[t.element for t in s.touches if t.write] for s in cut.steps] == [[0, 2]]
    assert record(parallel, threads=99).complete


def test_reads_of_conditions_and_indices_count():
    func = parsed("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((2,), "int64"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            if A[i] == 0:
                B[A[i]] = T.float32(i)
""")
    reads = [[t.element for t in s.touches if t.buffer == 0] for s in record(func).steps]
    assert reads == [[0, 0], [1, 1]]


def test_a_wrong_program_is_refused_as_by_the_interpreter():
    func = parsed("""
@I.ir_module
class Module:
    @T.prim_func
    def main(B: T.Buffer((2,), "float32")):
        for i in range(3):
            B[i] = T.float32(0)
""")
    with pytest.raises(BoundsError):
        record(func)


def test_every_access_of_a_product_is_noted():
    a = mlc.te.placeholder((3, 4), "float32", name="A")
    b = mlc.te.placeholder((4, 2), "float32", name="B")
    k = mlc.te.reduce_axis((0, 4), name="k")
    c = mlc.te.compute((3, 2), lambda i, j: mlc.te.sum(a[i, k] * b[k, j], axis=k), name="C")
    run = record(mlc.te.create_prim_func([a, b, c]))
    counts = np.zeros((3, 2), int)
    for step in run.steps:
        for touch in step.touches:
            counts[touch.buffer, int(touch.write)] += 1
    assert counts.tolist() == [[24, 0], [24, 0], [24, 6 + 24]]


def test_lanes_around_a_loop_are_cut_evenly():
    func = parsed("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((100, 4), "float32"), B: T.Buffer((4,), "float32")):
        for j in T.vectorized(4):
            for i in range(100):
                B[j] = A[i, j]
""")
    run = record(func, limit=40)
    assert not run.complete
    assert [step.lanes for step in run.steps] == [4] * 5
    assert run.steps[2].touches[0] == Touch(0, 8, False)
    assert [(s.lanes, s.threads) for s in record(func).steps] == [(4, 1)] * 100


def test_threads_with_lanes_inside_are_cut_and_say_so():
    func = scheduled(("vectorize", "i"), ("parallel", "j"))
    assert [(s.lanes, s.threads) for s in record(func, threads=2).steps] == [(2, 2), (2, 1)]
    assert not record(func, threads=2, limit=8).complete


def test_values_are_computed_only_where_they_decide():
    divided = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((2,), "int64"), B: T.Buffer((2,), "int64")):
        for i in range(2):
            B[{index}] = 1 // A[i]
"""
    steps = record(parsed(divided.format(index="i"))).steps
    assert [step.touches for step in steps] == [
        [Touch(0, i, False), Touch(1, i, True)] for i in (0, 1)
    ]
    with pytest.raises(mlc.CompileError, match="division by zero"):
        record(parsed(divided.format(index="A[i]")))


def test_a_choice_reads_its_chosen_side_only():
    func = parsed("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((2,), "int64"), B: T.Buffer((2,), "int64"), C: T.Buffer((2,), "int64")):
        for i in range(2):
            C[i] = T.if_then_else(A[i] > 0, A[i], B[i])
""")
    assert [t.buffer for step in record(func).steps for t in step.touches] == [0, 1, 2] * 2
