"""Code for a CPU that this machine does not have: it can be read, and is never run."""

import subprocess
import sys

import numpy as np
import pytest

from minimlc.graphs.ir.nodes import Function
from minimlc.loops.llvm import kernel
from minimlc.loops.values.target import Target
from minimlc.script import I, R
from minimlc.services.build import build
from minimlc.services.native import native
from minimlc.services.runtime.cache import load_entry
from minimlc.services.runtime.foreign import missing_features
from tests.codegen.machines import X86
from tests.helpers import refuses
from tests.runtime.test_cache import square

x86 = pytest.mark.skipif(not X86, reason="these names are of x86 CPUs")
arrays = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)


def test_this_machine_lacks_nothing_of_its_own():
    host = Target.host()
    assert missing_features(host) == missing_features(Target.host("c"), named=False) == ()
    assert missing_features(Target("llvm", host.cpu, host.features, 128)) == ()


@x86
def test_what_a_name_brings_along(monkeypatch):
    """Seen from an x86 CPU of the first 64-bit years."""
    old = Target("llvm", "x86-64", "+cx8,+fxsr,+mmx,+sse,+sse2")
    monkeypatch.setattr(Target, "host", staticmethod(lambda name="llvm": old))
    assert missing_features(Target("llvm", "x86-64")) == ()
    second = missing_features(Target("llvm", "x86-64", "+sse2,+avx2"))
    assert second[0] == "avx2" and {"avx", "sse4.1"} <= set(second) and "fma" not in second
    third = missing_features(Target("llvm", "x86-64-v3"))
    assert {"avx", "avx2", "fma", "f16c", "bmi2", "movbe", "lzcnt"} <= set(third)
    assert not any(name.startswith("avx512") for name in third)
    for wide in ("x86-64-v4", "skylake-avx512", "sapphirerapids", "znver4"):
        brought = missing_features(Target("llvm", wide))
        assert {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(brought)
    assert "avx512f" not in missing_features(Target("llvm", "x86-64-v4", "-avx512f"))


@x86
@pytest.mark.parametrize("target", ["llvm", pytest.param("c", marks=pytest.mark.requires("cc"))])
def test_foreign_code_is_for_reading(target, monkeypatch):
    mine = Target.host()
    monkeypatch.setattr(
        Target, "host", staticmethod(lambda name="llvm": Target(name, mine.cpu, "+sse2"))
    )
    lib = build(square(), Target(target, "x86-64-v4", "+avx512f,+avx512vl", 512), cache=False)
    assert lib.names() == ("main",)
    refuses("E617", lambda: lib["main"](*arrays), "main", '"x86-64-v4"', "avx512f", "build(mod")
    assert "main" in lib.source("c")
    if target == "llvm":
        assert "vmulps" in lib.source("asm") and "define" in lib.source("llvm")
        refuses("E617", lambda: lib.time("main", *arrays), "lacks")


@x86
def test_a_graph_for_another_machine():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((9,), "float32")) -> R.Tensor((9,), "float32"):
            return R.exp(x)

    assert isinstance(Mod["main"], Function)
    lib = build(Mod, Target("llvm", "x86-64", "+sse2,+impossible"), cache=False)
    refuses("E617", lambda: lib["main"](arrays[0]), "impossible")


@x86
@pytest.mark.parametrize("features", ["avx2", "+avx2, +fma", "+", "avx2,fma", "+avx2,", "-sse2"])
def test_features_that_are_none(features):
    refuses("E509", lambda: build(square(), Target("llvm", "x86-64", features)), "x86-64")


@x86
@pytest.mark.parametrize("cpu", ["i386", "pentium4", "apple-m1", "no-such-cpu"])
def test_names_of_cpus_that_llvm_has_no_64_bit_code_for(cpu):
    """LLVM would end the process; what it takes them for runs on every 64-bit CPU."""
    script = (
        "import sys; from tests.runtime.test_foreign import *; "
        "lib = build(square(), Target('llvm', sys.argv[1]), cache=False); "
        "lib['main'](*arrays); assert (arrays[1] == arrays[0] ** 2).all(); print('good')"
    )
    done = subprocess.run([sys.executable, "-c", script, cpu], capture_output=True, text=True)
    assert done.stdout.strip() == "good", done.stderr


def test_each_cpu_has_entries_of_its_own_in_the_cache(tmp_path, monkeypatch, request):
    """A cache on a disk that two machines share: neither finds the other's code."""
    request.addfinalizer(kernel.surroundings.cache_clear)
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    host = Target.host()
    targets = [
        host,
        Target("llvm", host.cpu, host.features + ",+one-more", host.vector_bits),
        Target("llvm", host.cpu, "", host.vector_bits),
        Target("llvm", host.cpu, host.features, host.vector_bits * 2),
        Target("llvm", "another", host.features, host.vector_bits),
    ]
    functions = {"main": square()}
    keys = [native._key(functions, target, "") for target in targets]
    assert len(set(keys)) == len(keys)
    build(square(), host)
    assert [load_entry(key) is not None for key in keys] == [True, *[False] * 4]
    monkeypatch.setattr(
        "llvmlite.binding.get_process_triple", lambda: "elsewhere-unknown-linux-gnu"
    )
    kernel.surroundings.cache_clear()
    assert native._key(functions, host, "") not in keys


def test_a_cpu_that_lost_features_rebuilds(tmp_path, monkeypatch):
    """As after a move of the home folder to an older machine."""
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    build(square())["main"](*arrays)
    host = Target.host()
    fewer = Target("llvm", host.cpu, host.features.replace("+fma", "-fma"), host.vector_bits)
    monkeypatch.setattr(Target, "host", staticmethod(lambda name="llvm": fewer))
    result = np.zeros(9, np.float32)
    build(square())["main"](arrays[0], result)
    np.testing.assert_array_equal(result, arrays[0] ** 2)
    different = "+fma" in host.features.split(",")
    assert len(list(tmp_path.glob("*.bin"))) == 1 + different
