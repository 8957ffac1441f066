"""Listings of lectures, notes and slides, which say `import tvm`, run as they are printed."""

import runpy
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from minimlc.frontends.tvm import install, uninstall

LISTINGS = sorted((Path(__file__).parent / "listings").glob("*.py"))


@pytest.fixture
def installed():
    install()
    yield
    uninstall()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.requires("torch")] * ("torch" in path.stem))
        for path in LISTINGS
    ],
    ids=lambda path: path.stem,
)
def test_listing(path, installed):
    """Each compares its results with numpy itself."""
    runpy.run_path(str(path))


def test_there_are_listings():
    assert len(LISTINGS) >= 5


CELLS = """
import numpy as np
import tvm
from tvm import relax, te, topi
from tvm.ir.module import IRModule
from tvm.script import tir as T, relax as R

# This is needed for deferring annotation parsing in TVMScript
from __future__ import annotations
# %%
@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.float32(3)
# %%
sch = tvm.tir.Schedule(MyModule)
(i,) = sch.get_loops(sch.get_block("B"))
i0, i1 = sch.split(i, factors=[None, 4])
sch.vectorize(i1)
sch.mod.show()
# %%
a, b = tvm.nd.array(np.arange(8, dtype="float32")), tvm.nd.empty((8,))
rt_mod = tvm.build(sch.mod, target="llvm")
rt_mod["main"](a, b)
tvm.testing.assert_allclose(b.numpy(), a.numpy() * 3)
# %%
tvm.auto_scheduler.SearchTask(func=MyModule, target="llvm --num-cores=1")
"""


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_cells_of_a_notebook(installed, shell, capsys):
    *cells, search = CELLS.split("# %%")
    for cell in cells:
        shell.run_cell(cell).raise_error()
    capsys.readouterr()
    assert not shell.run_cell(search).success
    shown = capsys.readouterr().out
    assert "tvm.auto_scheduler.SearchTask has no counterpart here" in shown
    assert "Traceback" not in shown
