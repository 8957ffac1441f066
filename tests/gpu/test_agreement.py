"""Programs that are written with threads: simulator, OpenCL and WGSL compute what the interpreter
does. (Scheduled ones: `test_programs` of each, and `tests.fuzz.threads`.)
"""

import numpy as np
import pytest

import minimlc as mlc
from tests.gpu import test_wgpu
from tests.gpu.races import CORRECT, bound
from tests.gpusim import programs
from tests.helpers import assert_close, copies, random_args, refuses

pytestmark = pytest.mark.many

WRITTEN = {name: mlc.IRModule.of({"main": bound(text)}) for name, text in CORRECT.items()} | {
    "copy": programs.copy("b * 128 + t"),
    "strided copy": programs.copy("(b * 128 + t) * 2", 2048),
    "naive transpose": programs.transpose(),
    "tiled transpose": programs.transpose(row=32),
    "padded transpose": programs.transpose(row=33),
    "sums of rows": programs.tree(),
    "product of tiles": programs.product(32),
    "vectors": programs.vectors("u * 4 + v"),
}
SHIFTED = ("tree", "scan", "sums of rows")
"""Those that shift an int64, which WGSL does not have."""
device = test_wgpu.device


def agree(mod, run):
    """`run` takes arrays, and has the results in those that it returns."""
    args = random_args(mod["main"], np.random.default_rng(0))
    results = run(copies(args))
    mlc.interpret(mod, "main", *args)
    assert_close(tuple(args), tuple(results))


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize(
    "target", ["gpusim", pytest.param("opencl", marks=pytest.mark.requires("opencl"))]
)
def test_targets(name, target):
    def run(arrays):
        mlc.build(WRITTEN[name], target=target)["main"](*arrays)
        return arrays

    agree(WRITTEN[name], run)


@pytest.mark.requires("wgpu")
@pytest.mark.parametrize("name", WRITTEN)
def test_wgsl(name, device):
    def run(arrays):
        return test_wgpu.run(device, WRITTEN[name]["main"], arrays)

    if name in SHIFTED:
        refuses("E511", lambda: agree(WRITTEN[name], run), "int64")
    else:
        agree(WRITTEN[name], run)
