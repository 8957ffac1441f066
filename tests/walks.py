"""How many files a program walks through: `python -m tests.walks` prints it for three of them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import minimlc as mlc
from minimlc.loops.llvm.kernel import compile_function

PACKAGE = str(Path(mlc.__file__).parent) + os.sep
PRODUCT = """
@T.prim_func
def mm(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"),
       C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
MODEL = """
@R.function
def main(x: R.Tensor((4, 16), "float32"), w: R.Tensor((16, 8), "float32")):
    y = R.nn.relu(R.matmul(x, w))
    return y
"""


def walked(action: Callable[[], object]) -> set[str]:
    """The files of the package that have a function which runs, relative to the package."""
    found: set[str] = set()

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            found.add(frame.f_code.co_filename.removeprefix(PACKAGE))

    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


def walks() -> dict[str, set[str]]:
    """The files of each walk. What is imported at the first use was imported before."""
    sch = mlc.Schedule(mlc.parse(PRODUCT), check=False)
    scheduled = sch.split("j", [None, 4]).reorder("k", "j_1").vectorize("j_1").func
    compile_function(scheduled)
    model = mlc.parse(MODEL)
    mlc.build(model, cache=False)
    other = mlc.parse(MODEL.replace("16", "24"))
    return {
        "split, unchecked": walked(lambda: sch.split("i", [None, 8])),
        "a scheduled function compiled": walked(lambda: compile_function(scheduled)),
        "a model of two operators built": walked(lambda: mlc.build(other, cache=False)),
    }


if __name__ == "__main__":
    np.seterr(all="ignore")
    for name, files in walks().items():
        print(f"{name:32} {len(files):4} files")
        if "-v" in sys.argv:
            print("   ", *sorted(files))
