"""The libraries that minimlc is measured against. Those that are not installed are left out.

Each function gives the contenders of one peer: a list, empty without it. A peer's arrays are made,
its compiler has run and its threads are pinned before anything is timed.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from benchmarks import samples
from benchmarks.harness import Contender
from benchmarks.installed import module

prange: Any = range
"""A loop that numba may spread over threads."""


def into(name: str, call: Callable[[], Any], out: np.ndarray) -> Contender:
    """One that writes into an array that is there; it is emptied before the check."""

    def answer() -> np.ndarray:
        out.fill(0)
        call()
        return out

    return Contender(name, call, answer)


def torch(
    function: Callable[..., Any],
    *arrays: np.ndarray,
    name: str = "torch",
    compiled: bool = False,
    channels_last: bool = False,
    tolerance: float | None = None,
) -> list[Contender]:
    """torch in eager mode, or the function by torch.compile (needs a C++ compiler)."""
    if not (library := module("torch")):
        return []
    library.set_grad_enabled(False)
    tensors = [to_torch(array) for array in arrays]
    if channels_last:
        tensors = [t.contiguous(memory_format=library.channels_last) for t in tensors]
    if compiled:
        library._dynamo.reset()
        function = library.compile(function, dynamic=False)
        name = "torch.compile" if name == "torch" else name
    call = lambda: function(*tensors)  # noqa: E731
    answer = lambda: call().to(library.float64).numpy()  # noqa: E731
    try:
        answer()
    except Exception as error:  # whatever a peer's compiler lacks here is no fault of ours
        print(f"{name} is left out: {str(error).strip().splitlines()[0][:200]}")
        return []
    return [Contender(name, call, answer, tolerance=tolerance)]


def to_torch(array: np.ndarray) -> Any:
    """The array's memory as a tensor."""
    library = module("torch")
    if array.dtype.name == "bfloat16":
        return library.from_numpy(array.view(np.int16)).view(library.bfloat16)
    return library.from_numpy(array)


def torch_and_compiled(function: Callable[..., Any], *arrays: np.ndarray) -> list[Contender]:
    """torch in eager mode, and torch.compile."""
    return [*torch(function, *arrays), *torch(function, *arrays, compiled=True)]


def numba(
    function: Callable[..., Any], *arrays: np.ndarray, threads: int = 1, fresh: bool = False
) -> list[Contender]:
    """Loops in Python, compiled with the loosest floating point, that write the last array.

    `fresh` gives them a new one in each call, where the others return new arrays, too. `prange`
    marks loops for threads.
    """
    if not (library := module("numba")):
        return []
    assert isinstance(function, FunctionType)
    names = {**function.__globals__, "prange": library.prange if threads > 1 else range}
    function = FunctionType(function.__code__, names)
    compiled = library.njit(function, fastmath=True, parallel=threads > 1)
    compiled(*arrays)
    if not fresh:
        return [into("numba", lambda: compiled(*arrays), arrays[-1])]

    def call() -> np.ndarray:
        out = np.empty_like(arrays[-1])
        compiled(*arrays[:-1], out)
        return out

    return [Contender("numba", call)]


def jax(
    function: Callable[..., Any],
    *arrays: np.ndarray,
    name: str = "jax",
    tolerance: float | None = None,
) -> list[Contender]:
    """The function by jax.jit."""
    if not (library := module("jax")):
        return []
    values = [library.numpy.asarray(array) for array in arrays]
    compiled = library.jit(function)
    call = lambda: compiled(*values).block_until_ready()  # noqa: E731
    call()
    return [Contender(name, call, lambda: np.asarray(call()), tolerance=tolerance)]


def onnx(model: Callable[[], bytes], threads: int, **feed: np.ndarray) -> list[Contender]:
    """onnxruntime's session of a model with one result."""
    if not (module("onnxruntime") and module("onnx")):
        return []
    session = samples.onnx_session(model(), threads)
    call = lambda: session.run(None, feed)[0]  # noqa: E731
    return [Contender("onnxruntime", call)]
