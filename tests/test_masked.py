"""The masked host: what hides part of the CPU, hides it from all that asks, and from processes."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.masked.sitecustomize import HERE, MASKS, SWITCH, masked

ROOT = Path(__file__).resolve().parents[1]
only_x86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="masks are of x86-64 CPUs"
)
PROGRAM = """
import minimlc as mlc
from minimlc.services.runtime.foreign import missing_features
mod = mlc.parse('''
@T.prim_func
def twice(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.vectorized(64):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * T.float32(2)
''')
"""


def run(host: str, code: str, **environment: str) -> str:
    """The output of a Python process on a masked host, one that tests were to start."""
    paths = os.pathsep.join([HERE, str(ROOT)])
    kept = {name: text for name, text in os.environ.items() if name != "CC"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + code],
        env={**kept, SWITCH: host, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_a_mask_denies_what_it_hides():
    features = "+64bit,+sse2,+avx2,+avx512f,-avx512fp16,+amx-tile,-sse4a"
    assert masked(features, MASKS["no-avx512"]) == (
        "+64bit,+sse2,+avx2,-avx512f,-avx512fp16,-amx-tile,-sse4a"
    )
    assert masked(features, MASKS["x86-64-v2"]) == (
        "+64bit,+sse2,-avx2,-avx512f,-avx512fp16,-amx-tile,-sse4a"
    )


@only_x86
@pytest.mark.parametrize(
    "host, register, bits", [("no-avx512", "zmm", 512), ("x86-64-v2", "ymm", 256)]
)
def test_code_for_the_host_keeps_to_the_mask(host, register, bits):
    code = "print(mlc.Target.host().vector_bits, mlc.build(mod, cache=False).source('asm'))"
    vector_bits, assembly = run(host, code).split(maxsplit=1)
    assert int(vector_bits) < bits
    assert "mm0" in assembly and register not in assembly


@only_x86
def test_a_name_that_brings_a_hidden_feature_back_is_refused_anywhere():
    """A target that leaves features out, instead of denying them, has its CPU's features."""
    code = """
from dataclasses import replace
host = mlc.Target.host()
kept = ",".join(f for f in host.features.split(",") if "avx512" not in f)
print(*missing_features(replace(host, features=kept)))
try:
    mlc.build(mod, replace(host, features=kept), cache=False)["twice"]()
except mlc.CompileError as error:
    print(error.code)
"""
    *missing, refusal = run("no-avx512", code).split()
    assert "avx512f" in missing and refusal == "E617"


@only_x86
def test_a_worker_is_masked_too():
    code = """
if __name__ == "__main__":
    print(mlc.tune.search(mod, trials=1, seconds=60).records[0].result.host)
"""
    assert run("x86-64-v2", code).startswith("x86-64-v2-")


@only_x86
@pytest.mark.requires("cc")
def test_c_compilers_are_masked_too():
    code = """
import subprocess, shlex, os
trial = "float f(float x, float y, float z) { return x * y + z; }"
flags = ["-march=native", "-O3", "-S", "-xc", "-", "-o", "-"]
print(subprocess.run([*shlex.split(os.environ["CC"]), *flags], input=trial, text=True,
                     capture_output=True, check=True).stdout)
"""
    assert "mulss" in run("x86-64-v2", code) and "vmulss" not in run("x86-64-v2", code)


@only_x86
def test_a_process_on_an_unknown_host_ends():
    with pytest.raises(AssertionError, match="no-avx512, x86-64-v2"):
        run("no-avx", "")
