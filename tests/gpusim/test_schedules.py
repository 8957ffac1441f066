"""Scheduled programs, known ones and random ones, run by all threads: the interpreter's results, no
race, and what the schedule was for.
"""

import time

import numpy as np
import pytest

import minimlc as mlc
from tests.gpu.programs import PROGRAMS, product_shared
from tests.helpers import assert_close, copies, random_args

pytestmark = pytest.mark.many

AXES = ("blockIdx.x", "threadIdx.x", "threadIdx.y", "blockIdx.y")


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.__name__)
def test_a_scheduled_program(case):
    """The interpreter takes reductions over threads in order, the kernel as a tree."""
    mod = case().mod
    args = random_args(mod["main"], np.random.default_rng(0))
    again = copies(args)
    mlc.interpret(mod, "main", *args)
    shown = mlc.build(mod, "gpusim").profile("main", *again)
    assert_close(tuple(args), tuple(again), exact=case.__name__ not in ("softmax", "rows", "twice"))
    assert all(item.warps for kernel in shown.kernels for item in kernel.statements)


def profile(case):
    sch = case()
    args = random_args(sch.mod["main"], np.random.default_rng(0))
    (kernel,) = mlc.build(sch.mod, "gpusim").profile("main", *args).kernels
    return kernel


def test_vectors_need_fewer_requests():
    """A warp's request is 512 bytes where each thread takes four words at once."""
    cases = {case.__name__: case for case in PROGRAMS}
    wide, narrow = profile(cases["add_vectors"]), profile(cases["add"])
    assert (wide.total("requests"), wide.total("sectors")) == (3 * 8, 3 * 128)
    assert (narrow.total("requests"), narrow.total("sectors")) == (3 * 32, 3 * 125)


def test_a_product_with_tiles_is_counted_in_seconds():
    """256 cubed. A 4 by 4 tile of a thread takes 8 words of shared memory for 16 products."""
    sch = product_shared(256)
    a, b = np.random.default_rng(0).random((2, 256, 256), "float32")
    c = np.empty((256, 256), "float32")
    lib = mlc.build(sch.mod, "gpusim")
    start = time.process_time()
    (kernel,) = lib.profile("main", a, b, c).kernels
    assert time.process_time() - start < 10
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    assert sum(item.flops for item in kernel.statements) == 2 * 256**3
    assert kernel.grid == (16, 16, 1) and kernel.block == (4, 4, 1)
