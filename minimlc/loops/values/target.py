"""The targets that code is compiled for, and the machine at hand."""

import contextlib
import functools
import importlib
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from minimlc.loops.values.errors import BuildError, did_you_mean

TARGETS = ["llvm", "c", "python", "opencl", "cuda", "gpusim"]
CPUS = ("llvm", "c", "python")
"""The targets on which one thread may do a long piece of work by itself."""

TELLING = ("avx512f", "avx2", "fma", "sve", "neon", "sse4.2")
"""The features that best describe a CPU's vectors, the best first."""


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """A machine to compile for. `name` is the backend; cache sizes are in bytes.

    `cpu` and `features` are LLVM's names ("x86-64-v3", "+avx2,+fma"); the features decide, since
    a CPU can be reported under the name of an older one. Made from a name alone, a target has no
    CPU of its own and stands for the machine at hand. Raises `BuildError` for sizes that no machine
    has, and for features that begin with neither + nor -.
    """

    name: str = "llvm"
    cpu: str = ""
    features: str = ""
    vector_bits: int = 128
    l1: int = 32 * 1024
    l2: int = 512 * 1024
    l3: int = 8 * 1024 * 1024
    cores: int = 1

    def __post_init__(self) -> None:
        for name in ("name", "cpu", "features"):
            if not isinstance(getattr(self, name), str):
                _refuse(f"{name}={getattr(self, name)!r} is not a string", 'mlc.Target("llvm")')
        for part in self.features.split(",") if self.features else ():
            if part[:1] not in ("+", "-"):
                why = f'the feature "{part}" of CPU "{self.cpu}" begins with neither + nor -'
                hint = f'mlc.Target("llvm", "{self.cpu or "x86-64"}", "+avx2,+fma")'
                raise BuildError(why, code="E509", hint=hint)
        for name in ("vector_bits", "l1", "l2", "l3", "cores"):
            size = getattr(self, name)
            if not hasattr(size, "__index__") or isinstance(size, bool):
                _refuse(f"{name}={size!r} is not an integer")
        bits = self.vector_bits
        if bits < 64 or bits & (bits - 1):
            _refuse(f"vector_bits={bits} is not a power of two of at least 64")
        for name in ("l1", "l2", "l3", "cores"):
            if getattr(self, name) < 1:
                _refuse(f"{name}={getattr(self, name)} is less than 1")

    def __repr__(self) -> str:
        shown = {f.name: repr(getattr(self, f.name)) for f in fields(self)}
        shown["features"] = _features_text(self.features)
        return f"Target({', '.join(f'{name}={text}' for name, text in shown.items())})"

    @staticmethod
    def host(name: str = "llvm") -> "Target":
        """The machine at hand."""
        return replace(_host(), name=name)

    @staticmethod
    def of(target: "str | Target | None") -> "Target":
        """A target from its name, or itself; the machine at hand for None.

        Raises `BuildError` for an unknown name.
        """
        if target is None:
            return Target.host()
        name = target.name if isinstance(target, Target) else target
        if not isinstance(name, str):
            why = f"a target is a name or an mlc.Target, got {type(name).__name__}"
            raise BuildError(why, code="E501", hint=did_you_mean("", TARGETS))
        if name not in TARGETS:
            hint = did_you_mean(name, TARGETS)
            raise BuildError(f'unknown target "{name}"', code="E501", hint=hint)
        if isinstance(target, Target) and target.cpu:
            return target
        return Target.host(name)


def _refuse(why: str, hint: str = "mlc.Target.host()") -> None:
    raise BuildError(f"there is no such machine: {why}", code="E501", hint=hint)


def _features_text(features: str) -> str:
    """The features in full where they are few; else how many there are, and the main ones."""
    have = [name[1:] for name in features.split(",") if name.startswith("+")]
    if len(features) <= 40:
        return repr(features)
    main = [name for name in TELLING if name in have][:3] or have[:3]
    return f"<{len(have)} flags: {', '.join(main)}, …>"


@functools.cache
def _host() -> Target:
    cpu, features = _cpu()
    l1, l2, l3 = _cache_sizes()
    return Target("llvm", cpu, features, _vector_bits(features), l1, l2, l3, _cores())


def cpu_model() -> str:
    """The CPU's name as its maker writes it, "" where the system does not give it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _cpu() -> tuple[str, str]:
    try:
        llvm = importlib.import_module("llvmlite.binding")
    except ImportError:
        return platform.machine(), ""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _vector_bits(features: str) -> int:
    have = set(features.split(","))
    if "+avx512f" in have:
        return 512
    return 256 if "+avx" in have else 128


def _cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _cache_sizes() -> tuple[int, int, int]:
    """Level 1 (data), 2 and 3 in bytes; a usual size where the system gives none."""
    sizes = {1: 32 * 1024, 2: 512 * 1024, 3: 8 * 1024 * 1024}
    sizes.update(_linux_caches(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")))
    return sizes[1], sizes[2], sizes[3]


def _linux_caches(folders: Iterable[Path]) -> dict[int, int]:
    sizes = {}
    units = {"K": 1024, "M": 1024 * 1024}
    for folder in folders:
        try:
            if (folder / "type").read_text().strip() == "Instruction":
                continue
            level = int((folder / "level").read_text())
            text = (folder / "size").read_text().strip()
            sizes[level] = int(text.rstrip("KM")) * units.get(text[-1:], 1)
        except (OSError, ValueError):
            continue
    return {level: size for level, size in sizes.items() if level in (1, 2, 3) and size > 0}
