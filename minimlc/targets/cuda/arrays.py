"""Arrays of other libraries in a GPU's memory: as arguments to be checked, and on the streams of
their owners.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from minimlc.loops.ir.arguments import Arguments, view_of
from minimlc.loops.values.errors import CallError
from minimlc.targets.gpu.host import Argument

ON_GPU = (2, 13)
"""DLPack's numbers for memory of a GPU, and for memory that moves there."""


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_on_gpu(value: Any) -> bool:
    """Whether an array is in a GPU's memory."""
    if isinstance(value, np.ndarray | type):
        return False
    try:
        if hasattr(value, "__dlpack_device__"):
            return value.__dlpack_device__()[0] in ON_GPU
        return hasattr(value, "__cuda_array_interface__")
    except Exception:  # whatever the other library raises: the check of arguments reports it
        return False


@contextmanager
def placed(cp: Any, arrays: Sequence[Any]) -> Iterator[Any]:
    """A context with the device of the first array (without one, the current device) and its
    owner's stream; the streams of other owners wait before it and after.
    """
    numbers = (item.__dlpack_device__()[1] for item in arrays if hasattr(item, "__dlpack_device__"))
    with cp.cuda.Device(int(next(numbers, cp.cuda.runtime.getDevice()))):
        streams = {stream.ptr: stream for stream in [_stream(cp, item) for item in arrays]}
        first, *others = streams.values() or [cp.cuda.get_current_stream()]
        for other in others:
            first.wait_event(other.record())
        with first:
            yield first
        for other in others:
            other.wait_event(first.record())


def _stream(cp: Any, value: Any) -> Any:
    """The stream on which a library works now; torch has its own."""
    if not is_tensor(value):
        return cp.cuda.get_current_stream()
    pointer = sys.modules["torch"].cuda.current_stream(value.device).cuda_stream
    return cp.cuda.Stream.from_external(SimpleNamespace(__cuda_stream__=lambda: (0, pointer)))


def argument(cp: Any, number: int, expected: Arguments, value: Any) -> Argument:
    """An array on a GPU as an argument. `CallError` where its memory cannot be shared."""
    which = expected.which(number)
    try:
        memory = _memory(cp, value)
        header = _header(memory, _is_writable(cp, value))
    except Exception as error:  # whatever the other library raises
        why = f"{which} cannot be shared with CuPy: {str(error) or type(error).__name__}"
        raise CallError(why, code="E602", hint="detach it first") from None
    here = cp.cuda.runtime.getDevice()
    if memory.data.device_id != here:
        why = f"{which} is on device {memory.data.device_id}, another argument on device {here}"
        raise CallError(why, code="E602", hint="move it to the same device")
    return Argument(header, memory)


def _memory(cp: Any, value: Any) -> Any:
    """CuPy's array on the same memory."""
    if isinstance(value, cp.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        return view_of(value, cp.from_dlpack)
    return cp.asarray(value)


def _is_writable(cp: Any, value: Any) -> bool:
    """Whether an array's library lets others write; CuPy does not learn it through DLPack."""
    if isinstance(value, cp.ndarray) or is_tensor(value):
        return True
    interface = getattr(value, "__cuda_array_interface__", None)
    return interface is not None and not interface["data"][1]


def _header(memory: Any, writable: bool) -> np.ndarray:
    """A numpy array of the same shape, strides and address, whose elements nobody may read."""
    facts = {"shape": memory.shape, "strides": memory.strides, "typestr": memory.dtype.str}
    facts |= {"data": (memory.data.ptr, not writable), "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=facts)).view(memory.dtype)


def exported(array: Any, like: Any) -> Any:
    """A result for the caller: torch's tensor where `like` is one, else CuPy's array."""
    if not is_tensor(like):
        return array
    torch = sys.modules["torch"]
    if array.dtype.name == "bfloat16":  # which DLPack of CuPy does not know
        return torch.from_dlpack(array.view("int16")).view(torch.bfloat16)
    return torch.from_dlpack(array)
