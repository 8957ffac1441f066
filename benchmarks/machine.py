"""The machine a benchmark ran on: its description, and its measured peaks."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from threadpoolctl import threadpool_info

import minimlc as mlc
from minimlc.loops.values.target import cpu_model
from minimlc.machine.peaks import copy_rate, fma_rate

FEATURES = ("avx", "avx2", "fma", "f16c", "avx512f", "avx512bf16", "avx512vnni", "amx-tile", "neon")
PACKAGES = ("numpy", "llvmlite", "torch", "numba", "jax", "onnxruntime", "scikit-learn")


def describe(peaks: bool = False) -> dict[str, Any]:
    """Plain data: CPU, cores, features that matter, versions, load, and measured peaks if asked."""
    host = mlc.Target.host()
    have = set(host.features.split(","))
    made: dict[str, Any] = {
        "cpu": f"{cpu_model() or platform.machine()} (LLVM: {host.cpu})",
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
