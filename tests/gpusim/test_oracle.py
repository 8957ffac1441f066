"""The simulator's races are the ones that a comparison of all pairs of accesses finds."""

import random

import numpy as np
import pytest

import minimlc as mlc
from minimlc.gpusim import launch
from minimlc.loops.ir.nodes import Seq, Stmt
from minimlc.loops.ir.walks import statements_in
from minimlc.loops.values.node import Mutator
from minimlc.targets.gpu.kernels import Barrier, Launches, kernels
from tests.fuzz.subject import main_of
from tests.fuzz.threads import scheduled
from tests.gpu.races import CORRECT, HEAD, launches, planted
from tests.gpusim.oracle import check

PLANTED = planted()


def arrays_for(whole: Launches):
    rng = np.random.default_rng(0)
    return [rng.random(param.shape).astype(param.dtype) for param in whole.func.params]


@pytest.mark.parametrize("item", PLANTED, ids=lambda item: item.name)
def test_planted_mistakes(item, monkeypatch):
    whole = item.launches()
    assert check(whole, arrays_for(whole), monkeypatch)


@pytest.mark.parametrize("name", CORRECT)
def test_without_a_mistake(name, monkeypatch):
    whole = launches(CORRECT[name])
    assert check(whole, arrays_for(whole), monkeypatch) is None


READ_BEFORE = (
    HEAD
    + """
        for tx in range(32):
            if tx == 0:
                X[0] = C[0]
        for sx in range(32):
            if sx < 2 and bx == {writer}:
                Y[sx] = C[0] + X[0]
        for ux in range(32):
            if ux == 0 and bx == {writer}:
                C[0] = Y[1]
"""
)


@pytest.mark.parametrize("writer", [0, 1])
@pytest.mark.parametrize("most", [1 << 17, 1])
def test_a_reader_of_another_block_is_not_forgotten(writer, most, monkeypatch):
    """Readers of the writer's own block came later, and all of them before a barrier."""
    monkeypatch.setattr(launch, "MOST_THREADS", most)
    whole = launches(READ_BEFORE.format(writer=writer))
    report = check(whole, arrays_for(whole), monkeypatch)
    assert report == ("C", 0, frozenset((((0, 0, 0),) * 2, ((1, 0, 0), (0, 0, 0)))))


READ_LATER = (
    HEAD
    + """
        for tx in range(32):
            X[tx] = A[bx * 32 + tx]
        for sx in range(32):
            if sx == {early}:
                Y[9] = X[0]
        for ux in range(32):
            if ux < {readers}:
                Y[ux] = X[0]
            if ux == {writer}:
                X[0] = 1.0
        for tx in range(32):
            C[bx * 32 + tx] = X[0] + Y[0]
"""
)


@pytest.mark.parametrize(("early", "readers", "writer"), [(5, 2, 0), (5, 2, 1), (0, 1, 1)])
def test_of_readers_since_a_barrier_two_are_known(early, readers, writer, monkeypatch):
    whole = launches(READ_LATER.format(early=early, readers=readers, writer=writer))
    report = check(whole, arrays_for(whole), monkeypatch)
    assert report == ("X", 0, frozenset((((0, 0, 0),) * 2, ((0, 0, 0), (1, 0, 0)))))


class Without(Mutator):
    """Leaves out a barrier, counted from 0."""

    def __init__(self, number: int):
        self.left = number

    def visit_Barrier(self, item: Barrier) -> Stmt:
        self.left -= 1
        return Seq(()) if self.left == -1 else item


def without_a_barrier(whole: Launches, rng: random.Random) -> Launches:
    """Kernels without one of their barriers, if there is any."""
    counts = [
        sum(isinstance(part, Barrier) for part in statements_in(kernel.body))
        for kernel in whole.kernels
    ]
    places = [(at, number) for at, count in enumerate(counts) for number in range(count)]
    if not places:
        return whole
    at, number = rng.choice(places)
    body = Without(number).visit(whole.kernels[at].body)
    changed = list(whole.kernels)
    changed[at] = changed[at]._replace(body=body)
    return whole._replace(kernels=tuple(changed))


def compared(numbers, monkeypatch) -> list[object]:
    """The reports on random schedules without one of their barriers."""
    reports = []
    for number in numbers:
        known, new = scheduled(number)
        try:
            whole = kernels("main", main_of(new.sch.mod))
        except mlc.BuildError:
            continue
        less = without_a_barrier(whole, new.rng)
        if less is not whole:
            assert check(whole, known.inputs[0], monkeypatch) is None
            reports.append(check(less, known.inputs[0], monkeypatch))
    return reports


def test_random_schedules_without_a_barrier(monkeypatch):
    reports = compared(range(40), monkeypatch)
    assert len(reports) > 8 and sum(report is not None for report in reports) > 3


TWO_SUMS = """
@T.prim_func
def main(A: T.Buffer((3, 16), "float32"), C: T.Buffer((3,), "float32")):
    for i in T.thread_binding(3, thread="blockIdx.x"):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("sum"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v] = 0.0
                C[v] = C[v] + A[v, r]
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("rest"):
                v = T.axis.spatial(3, i)
                r = T.axis.reduce(16, k + 8)
                C[v] = C[v] + A[v, r]
"""


def test_memory_of_two_sums_has_two_names(monkeypatch):
    """A message names one of them; with any barrier left out it agrees with the oracle, too."""
    whole = kernels("main", main_of(mlc.parse(TWO_SUMS)))
    (kernel,) = whole.kernels
    assert [buffer.name for buffer in kernel.shared] == ["C_block", "C_block1"]
    count = sum(isinstance(part, Barrier) for part in statements_in(kernel.body))
    reports = []
    for number in range(count):
        less = kernel._replace(body=Without(number).visit(kernel.body))
        less = whole._replace(kernels=(less,))
        reports.append(check(less, arrays_for(whole), monkeypatch))
    assert {report.buffer for report in reports if report} == {"C_block", "C_block1"}
