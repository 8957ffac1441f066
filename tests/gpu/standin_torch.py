"""A stand-in for torch's tensors on a GPU, with the memory and the streams of `standin`."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np

from minimlc.loops.values.dtypes import to_numpy
from tests.gpu import standin

BFLOAT16 = to_numpy("bfloat16")


class Tensor:
    """torch's names for what is done with a tensor that it shares."""

    def __init__(self, array, requires_grad=False):
        self.array, self.requires_grad = array, requires_grad
        self.dtype, self.shape = f"torch.{array.dtype.name}", array.shape
        self.device = SimpleNamespace(type="cuda", index=array.data.device_id)

    def is_neg(self):
        return False

    def new_empty(self, size):
        return Tensor(standin.ndarray((size,), self.array.dtype, self.array.data))

    def short(self):
        return SimpleNamespace(dtype=np.dtype("int16"))

    def view(self, dtype):
        return Tensor(self.array.view(dtype))

    def data_ptr(self):
        return self.array.data.ptr

    def cpu(self):
        """Its elements, by torch's own stream."""
        return self.array.get(stream=current)

    def __dlpack_device__(self):
        return 2, self.device.index

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self.array


def tensor(values, device=0):
    """Its elements come by torch's own stream."""
    with standin.Device(device), current:
        array = standin.empty(values.shape, values.dtype)
        array.set(values)
        return Tensor(array)


current = standin.Stream(non_blocking=True)


def entered(monkeypatch):
    """This module as `torch`."""
    torch = ModuleType("torch")
    torch.Tensor, torch.bfloat16 = Tensor, BFLOAT16
    torch.from_dlpack = lambda array: Tensor(array.__dlpack__(stream=current.ptr))
    stream = SimpleNamespace(cuda_stream=current.ptr)
    torch.cuda = SimpleNamespace(current_stream=lambda device=None: stream)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch
