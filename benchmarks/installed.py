"""The installed peers; they are imported when first used, and keep to the thread count."""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

PEERS = ("torch", "numba", "jax", "onnx", "onnxruntime")

_loaded: dict[str, Any] = {}
_threads: list[int] = []


def absent() -> list[str]:
    """Peers that are not installed."""
    return [name for name in PEERS if find_spec(name) is None]


def module(name: str) -> Any:
    """The peer's module, pinned to the thread count; None without it."""
    if name not in _loaded:
        if name == "jax":
            _pin_jax()
        _loaded[name] = import_module(name) if find_spec(name) else None
        if _threads:
            pin_again()
    return _loaded[name]


def pin(count: int) -> None:
    """From now on the peers use `count` threads, those imported and those to come."""
    _threads.append(count)
    pin_again()


def unpin() -> None:
    """Undo the last `pin`."""
    _threads.pop()
    pin_again()


def pin_again() -> None:
    """To be called before timing: numba's start sets the OpenMP threads that torch uses, too."""
    count = _threads[-1] if _threads else os.cpu_count() or 1
    if count > 1 and (numba := _loaded.get("numba")):  # on one thread it starts no pool
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    if torch := _loaded.get("torch"):
        torch.set_num_threads(count)


def _pin_jax() -> None:
    """XLA reads the size of its pool once, when jax starts: it cannot be changed later."""
    count = _threads[-1] if _threads else os.cpu_count() or 1
    os.environ.setdefault("NPROC", str(count))
    if count == 1:
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
