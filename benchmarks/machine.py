"""The machine a benchmark ran on: its description, and its measured peaks."""

import ctypes
import os
import platform
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from threadpoolctl import threadpool_info

import minimlc as mlc

FEATURES = ("avx", "avx2", "fma", "f16c", "avx512f", "avx512bf16", "avx512vnni", "amx-tile", "neon")
PACKAGES = ("numpy", "llvmlite", "torch", "numba", "jax", "onnxruntime", "scikit-learn")
ACCUMULATORS = 12
STEPS = 2_000_000
COPY_BYTES = 256 * 1024 * 1024


def describe(peaks: bool = False) -> dict[str, Any]:
    """Plain data: CPU, cores, features that matter, versions, load, and measured peaks if asked."""
    host = mlc.Target.host()
    have = set(host.features.split(","))
    made: dict[str, Any] = {
        "cpu": f"{_model()} (LLVM: {host.cpu})",
        "cores": host.cores,
        "vector_bits": host.vector_bits,
        "features": [name for name in FEATURES if f"+{name}" in have],
        "caches": [host.l1, host.l2, host.l3],
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": {"minimlc": mlc.__version__, **_versions()},
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan"),
    }
    if peaks:
        rates = {"operations": fma_rate(), "bytes": copy_rate()}
        made["peak_rates"] = rates
        made["peaks"] = {
            "float32 GFLOP/s": rates["operations"] / 1e9,
            "copied GB/s (read + written)": rates["bytes"] / 1e9,
        }
    return made


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    for library in threadpool_info():
        if library["user_api"] == "blas":
            found[library["internal_api"]] = str(library["version"])
    return found


def fma_rate(repeat: int = 50) -> float:
    """float32 operations a second of one core: independent chains of fused multiply-adds."""
    loop, operations = _fma_code()
    return max(operations / _seconds(loop) for _ in range(repeat))


def spare_cores(count: int, repeat: int = 10) -> float:
    """How many cores' worth of that rate so many threads get just now: the median."""
    loop, _ = _fma_code()
    with ThreadPoolExecutor(count) as pool:
        shares = []
        for _ in range(repeat):
            alone = _seconds(loop)
            together = list(pool.map(lambda _: _seconds(loop), range(count)))
            shares.append(count * alone / max(together))
    return statistics.median(shares)


def _seconds(loop: Callable[[int], float]) -> float:
    start = perf_counter()
    loop(STEPS)
    return perf_counter() - start


@cache
def _fma_code() -> tuple[Callable[[int], float], int]:
    """A function of the number of steps, and how many operations `STEPS` of them are."""
    host = mlc.Target.host()
    lanes = host.vector_bits // 32
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=host.cpu, features=host.features, opt=2, jit=True
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_fma_loop(lanes)), machine)
    engine.finalize_object()
    address = engine.get_function_address("fma_loop")
    compiled = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(address)

    def loop(steps: int, _engine: Any = engine) -> float:  # the engine owns the code
        return compiled(steps)

    loop(STEPS)
    return loop, 2 * lanes * ACCUMULATORS * STEPS


def _fma_loop(lanes: int) -> str:
    """LLVM's text of a loop of `ACCUMULATORS` chains x = x * s + s, with a small s."""
    vector = f"<{lanes} x float>"
    each = range(ACCUMULATORS)
    phis = "\n".join(f"  %a{n} = phi {vector} [ %seed, %entry ], [ %b{n}, %loop ]" for n in each)
    steps = "\n".join(
        f"  %b{n} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{n}, {vector} %seed, "
        f"{vector} %seed)"
        for n in each
    )
    sums = "\n".join(
        f"  %s{n} = fadd {vector} {f'%s{n - 1}' if n else '%seed'}, %b{n}" for n in each
    )
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define float @fma_loop(i64 %count) {{
entry:
  %start = sitofp i64 %count to float
  %scaled = fmul float %start, 0x3E10000000000000
  %one = insertelement {vector} zeroinitializer, float %scaled, i32 0
  %seed = shufflevector {vector} %one, {vector} zeroinitializer, <{lanes} x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{sums}
  %result = extractelement {vector} %s{ACCUMULATORS - 1}, i32 0
  ret float %result
}}
"""


def copy_rate() -> float:
    """Bytes read and written a second by one core that copies what no cache holds."""
    source = np.ones(COPY_BYTES // 8)
    target = np.zeros_like(source)
    times = []
    for _ in range(15):
        start = perf_counter()
        np.copyto(target, source)
        times.append(perf_counter() - start)
    return 2 * COPY_BYTES / min(times)
