"""Limits of a process apart. They protect from accidents; they are not a security sandbox."""

import sys
from dataclasses import asdict, dataclass
from typing import Any

import psutil

if sys.platform != "win32":
    import resource

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """CPU time and wall time in seconds, sizes in bytes; `processes` beside the worker itself."""

    cpu_seconds: float = 10.0
    wall_seconds: float = 20.0
    memory_bytes: int = 1024 * MIB
    file_bytes: int = 16 * MIB
    folder_bytes: int = 64 * MIB
    processes: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def apply(limits: Limits, final: bool) -> None:
    """Limit this process from now on; `final` limits cannot be raised again.

    Windows has no such limits: there, only the parent watches.
    """
    if sys.platform == "win32":
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(usage.ru_utime + usage.ru_stime + limits.cpu_seconds) + 1
    _limit(resource.RLIMIT_CPU, seconds, final, reserve=2)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes, final)
    _limit(resource.RLIMIT_CORE, 0, final)
    if sys.platform == "linux":
        size = psutil.Process().memory_info().vms
        _limit(resource.RLIMIT_AS, size + limits.memory_bytes, final)
    if limits.processes == 0 and final:
        # Counts all of the user's processes and threads, so 0 means: no more. Root is exempt.
        _limit(resource.RLIMIT_NPROC, 0, final)


def _limit(kind: int, value: int, final: bool, reserve: int = 0) -> None:
    """`reserve` is the distance between the limit that warns (SIGXCPU) and the one that kills."""
    hard = resource.getrlimit(kind)[1]
    highest = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (highest, highest + reserve if final else hard))
    except (ValueError, OSError):  # a system without this limit: the parent watches
        return
