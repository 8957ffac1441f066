"""Memory left by a build when its library is dropped, counted exactly; `memory` runs 10 000."""

import gc
import linecache
import os
import subprocess
import sys

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.llvm import kernel
from minimlc.loops.llvm.machine import compile_object
from tests.runtime.memory import LOOPS, graph, left_behind, loops

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/statm"), reason="reads /proc/self/statm"
)
thorough = pytest.mark.requires("thorough")
KIB = 20 * 1024 / 10_000
"""So much may a build leave: 20 MiB for 10 000 of them."""


@pytest.mark.parametrize(
    "one, target, programs, most",
    [
        pytest.param(loops, "llvm", 0, KIB, id="loops", marks=thorough),
        pytest.param(graph, "llvm", 0, KIB, id="graphs", marks=thorough),
        pytest.param(loops, "python", 0, KIB / 4, id="Python"),
        pytest.param(loops, "llvm", 4, KIB / 4, id="loops from the cache"),
        pytest.param(graph, "llvm", 4, KIB / 4, id="graphs from the cache"),
        pytest.param(
            loops, "c", 4, KIB / 4, id="C from the cache", marks=pytest.mark.requires("cc")
        ),
    ],
)
def test_what_a_build_leaves_behind(one, target, programs, most, tmp_path, monkeypatch):
    """`most` KiB of malloc's, no mapping, and hardly any of Python's objects."""
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    numbers = [number % programs if programs else number for number in range(3 * kernel.LIBRARIES)]
    left = left_behind(one, target, bool(programs), numbers)
    assert left.native <= most and left.mappings <= 0.1 and left.blocks <= 20


def test_a_linker_goes_with_its_last_library():
    built = [mlc.build(mlc.parse(LOOPS.format(rows=8, number=n)), cache=False) for n in range(3)]
    assert kernel._host_jit.cache_info().maxsize == 1
    jits = {id(kernel._host_jit(number)[1]) for number in (10**6, 10**6, 10**6 + 1)}
    assert len(jits) == 2
    x, y = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    for number, library in enumerate(built):
        library["main"](x, y)
        np.testing.assert_array_equal(y, number + 1)


def test_code_runs_on_after_many_other_libraries():
    """Those of its linker, and of later ones, come and go."""
    first = mlc.build(mlc.parse(LOOPS.format(rows=8, number=7)), cache=False)["main"]
    text = LOOPS.format(rows=8, number=8)
    for _ in range(3 * kernel.LIBRARIES):
        mlc.build(mlc.parse(text))
    gc.collect()
    x, y = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    first(x, y)
    np.testing.assert_array_equal(y, 8)


def test_python_source_is_kept_as_long_as_its_functions():
    def known() -> set[str]:
        gc.collect()
        return {name for name in linecache.cache if name.startswith("<minimlc python")}

    before = known()
    library = mlc.build(mlc.parse(LOOPS.format(rows=8, number=3)), "python")
    (name,) = known() - before
    assert "def main" in "".join(linecache.getlines(name))
    call = library["main"]
    del library
    assert name in known()
    call(np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32))
    del call
    assert known() == before


def test_a_pass_manager_is_freed_once_whatever_llvmlite_does(monkeypatch):
    """A later one may close it itself; then it must be closed already."""
    freed = []
    manager = sys.modules["llvmlite.binding.newpassmanagers"].ModulePassManager
    monkeypatch.setattr(manager, "_dispose", lambda self: freed.append(self), raising=False)
    text = "define i32 @f() {\n  ret i32 1\n}\n"
    compile_object(text, kernel.machine_of(mlc.Target.host()))
    gc.collect()
    assert freed == []


STEP = """
    for i{n} in range(512):
        for j{n} in range(512):
            with T.block("{to}"):
                vi, vj = T.axis.remap("SS", [i{n}, j{n}])
                {to}[vi, vj] = {of}[vj, vi] + T.float32(1)"""
SIGNATURE = """@T.prim_func
def main(A: T.Buffer((512, 512), "float32"), E: T.Buffer((512, 512), "float32")):"""
BUFFERS = [f"\n    {name} = T.alloc_buffer((512, 512), 'float32')" for name in "BCD"]
STEPS = [STEP.format(n=n, of="ABCD"[n], to="BCDE"[n]) for n in range(4)]
CALLED = """
import resource, sys, numpy as np, minimlc as mlc
call = mlc.build(mlc.parse(sys.argv[1]), cache=False)["main"]
a, c = np.ones((512, 512), np.float32), np.zeros((512, 512), np.float32)
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
call(a, c); call(a, c)
before = faults()
for _ in range(20):
    call(a, c)
print((faults() - before) / 20)
"""


def test_a_buffer_of_a_call_is_not_mapped_anew_each_time():
    """Three of 1 MiB are 768 pages; glibc would hand some to the system after each call."""
    command = [sys.executable, "-c", CALLED, "".join([SIGNATURE, *BUFFERS, *STEPS])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 32
