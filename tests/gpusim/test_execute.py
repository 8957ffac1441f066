"""Statements by all threads at once: conditions, loops of any length, chunks of blocks, errors."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.gpusim import launch
from tests.helpers import refuses

THREADS = """
@T.prim_func
def main(N: T.Buffer((3, 50), "int64"), C: T.Buffer((3, 50), "float32")):
    X = T.alloc_buffer((8,), "float32", scope="local")
    for b in T.thread_binding(3, thread="blockIdx.x"):
        for t in T.thread_binding(50, thread="threadIdx.x"):
            {}
"""
BODIES = {
    "a condition": """
            if (t + b) % 3 == 0:
                C[b, t] = 1.0
            else:
                if N[b, t] > 3:
                    C[b, t] = 2.0""",
    "a loop as long as data say": """
            C[b, t] = 0.0
            for k in range(N[b, t]):
                C[b, t] = C[b, t] * 2.0 + T.cast(k, "float32")""",
    "a loop as long as the number of a block": """
            C[b, t] = 0.0
            for k in range(b):
                C[b, t] = C[b, t] + 1.0""",
    "while": """
            C[b, t] = T.cast(N[b, t] + 1, "float32")
            while C[b, t] < 100.0:
                C[b, t] = C[b, t] * 3.0""",
    "registers at places that differ": """
            for k in range(8):
                X[k] = T.cast(k * t, "float32")
            X[N[b, t]] = -1.0
            C[b, t] = X[(N[b, t] + t) % 8] + X[3]""",
    "sides that are not taken": """
            C[b, t] = T.if_then_else(
                t >= 8 and N[b, t - 8] > 2, T.cast(N[b, t - 8] // N[b, T.max(t - 8, 0)], "float32"),
                0.5)""",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("most", [1 << 17, 1])
def test_what_threads_compute(name, most, monkeypatch):
    monkeypatch.setattr(launch, "MOST_THREADS", most)
    mod = mlc.parse(THREADS.format(BODIES[name].strip()))
    numbers = np.random.default_rng(0).integers(0, 8, (3, 50))
    expected, got = np.zeros((2, 3, 50), "float32")
    mlc.interpret(mod, "main", numbers, expected)
    mlc.build(mod, "gpusim")["main"](numbers, got)
    np.testing.assert_array_equal(got, expected)


def simulated(line):
    mod = mlc.parse(THREADS.format(line))
    return mod, mlc.build(mod, "gpusim")["main"], np.full((3, 50), 7), np.zeros((3, 50), "float32")


def test_an_index_outside_is_an_error_with_its_line():
    _, main, numbers, result = simulated('C[b, t] = T.cast(N[b, N[b, t] * 9], "float32")')
    error = refuses("E609", lambda: main(numbers, result), "load of N[0, 63]", "axis 1")
    assert isinstance(error, mlc.BoundsError) and error.span.line == 7
    assert not result.any()


def test_division_by_zero_is_an_error_where_a_thread_comes_to_it():
    line = 'C[b, t] = T.if_then_else(t > 4, T.cast(100 // (N[b, t] - 7), "float32"), 1.0)'
    _, main, numbers, result = simulated(line)
    refuses("E312", lambda: main(numbers, result), "100 // 0")
    numbers[:, 5:] = 9
    main(numbers, result)
    assert (result[:, 5:] == 50).all() and (result[:, :5] == 1).all()


def test_arguments_are_checked():
    _, main, numbers, result = simulated("C[b, t] = 1.0")
    refuses("E603", lambda: main(numbers.astype("int32"), result), '"N"')
    refuses("E601", lambda: main(numbers))
    assert repr(main) == "<simulated main(N: int64[3, 50], C: float32[3, 50])>"


def test_threads_that_wait_are_counted():
    """50 threads are a warp and 18 threads; half of them take the one way, half the other."""
    mod, _, numbers, result = simulated(BODIES["a condition"].strip())
    (kernel,) = mlc.build(mod, "gpusim").profile("main", numbers, result).kernels
    condition, first, _, last = kernel.statements
    assert condition.text == "if (t + b) % 3 == 0:"
    assert (condition.warps, condition.threads, condition.active) == (6, 150, 150 / 192)
    assert (first.warps, first.threads, last.threads) == (6, 50, 100)


def test_the_source_of_a_simulated_library_is_a_kernel():
    assert "__global__" in mlc.build(simulated("C[b, t] = 1.0")[0], "gpusim").source("cuda")
