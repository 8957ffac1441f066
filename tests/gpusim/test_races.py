"""Races and barriers that not all threads come to: planted ones are found, others are not."""

import re

import numpy as np
import pytest

import minimlc as mlc
from minimlc.gpusim import launch
from tests.gpu.races import CORRECT, HEAD, Planted, launches, planted
from tests.gpusim import programs
from tests.helpers import refuses

PLANTED = planted()


def run(whole):
    """The arguments after a run of kernels on random ones."""
    rng = np.random.default_rng(0)
    args = [rng.random(param.shape).astype(param.dtype) for param in whole.func.params]
    launch.launch(whole, args)
    return args


@pytest.fixture(params=[1 << 17, 1], ids=["together", "block by block"])
def chunks(request, monkeypatch):
    """How many threads a chunk of blocks may have."""
    monkeypatch.setattr(launch, "MOST_THREADS", request.param)


def test_forty_mistakes():
    assert len(PLANTED) == len({item.name for item in PLANTED}) == 40


@pytest.mark.parametrize("item", PLANTED, ids=lambda item: item.name)
def test_a_planted_mistake_is_found(item: Planted, chunks):
    error = refuses(item.code, lambda: run(item.launches()))
    assert isinstance(error, mlc.RaceError)
    threads = re.findall(r"thread \S+(?: \d+\))? of block \(?\d+", error.why)
    assert len(threads) == 2 and threads[0] != threads[1]
    if item.buffer:
        assert re.search(rf"(reads|writes) {item.buffer}\[\d+(, \d+)*\], which", error.why)
        assert error.span is not None


@pytest.mark.parametrize("name", CORRECT)
def test_no_report_without_a_mistake(name, chunks):
    got = run(launches(CORRECT[name]))
    rng = np.random.default_rng(0)
    args = [rng.random(array.shape).astype(array.dtype) for array in got]
    mlc.interpret(mlc.parse(CORRECT[name]), "main", *args)
    for one, other in zip(got, args, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_report_on_the_counted_kernels(chunks):
    kernels = (programs.copy("b * 128 + t"), programs.transpose(row=33), programs.tree())
    for mod in (*kernels, programs.product(32), programs.vectors("u * 4 + v")):
        run(mlc.build(mod, "gpusim")["main"].launches)


def test_what_a_race_says():
    whole = {item.name: item for item in PLANTED}
    error = refuses("E618", lambda: run(whole["window without barrier 0"].launches()))
    assert str(error).splitlines() == [
        "E618: thread 0 of block 0 reads X[1], which thread 1 of block 0 writes (line 7) "
        "with no barrier between",
        "  at script, line 10",
        "  | C[bx * 32 + sx] = X[sx] + X[sx + 1] + X[sx + 2]",
        "  |                           ^^^^^^^^^",
        "try: let all threads of the block wait between the two",
    ]
    error = refuses("E619", lambda: run(whole["half a barrier in transpose"].launches()))
    here, there = "thread (0, 0) of block (0, 0)", "thread (15, 0) of block (0, 0)"
    assert error.why == f"{here} comes to a barrier, {there} does not"
    error = refuses("E618", lambda: run(whole["blocks write the same"].launches()))
    assert "blocks do not wait" in error.hint and "block 1 writes" in error.why


BY_BLOCK = (
    HEAD
    + """
        for tx in range(32):
            X[tx] = A[bx * 32 + tx]
        for k in range(bx + 1):
            for sx in range(32):
                Y[sx] = X[31 - sx]
            for ux in range(32):
                X[ux] = Y[(ux + 1) % 32]
        for tx in range(32):
            C[bx * 32 + tx] = X[31 - tx]
"""
)


def test_blocks_may_meet_at_barriers_as_often_as_they_like(chunks):
    """One block goes round the loop once, the other one twice."""
    got = run(launches(BY_BLOCK))
    args = [np.random.default_rng(0).random(64).astype("float32"), np.zeros(64, "float32")]
    mlc.interpret(mlc.parse(BY_BLOCK), "main", *args)
    np.testing.assert_array_equal(got[1], args[1])


def test_a_function_less_a_barrier():
    """Both barriers of the product are needed; there is no third, and no kernel in a graph."""
    lib = mlc.build(programs.product(32), "gpusim")
    args = [np.ones((32, 32), "float32") for _ in range(3)]
    for number, action in enumerate(("reads As[0, 0]", "writes As[0, 1]")):
        error = refuses("E618", lambda n=number: lib.without_barrier("main", n)(*args))
        assert f"{action}, which thread" in error.why
    refuses("E105", lambda: lib.without_barrier("main", 2), "main has 2 barriers")
    lib["main"](*args)
    graph = """
@R.function
def main(x: R.Tensor((4,), "float32")):
    y = R.exp(x)
    return y
"""
    refuses("E105", lambda: mlc.build(mlc.parse(graph), "gpusim").without_barrier("main"))
