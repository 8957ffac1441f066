"""`tvm.nd`: arrays. Compiled functions take numpy's; these have TVM's names too."""

from typing import Any

import numpy as np

from minimlc.frontends.tvm.absent import absent
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import CallError


class Device(str):
    """The place of arrays: this machine's memory."""

    def sync(self, stream: object = None) -> None:
        """Wait for what runs: calls here return when they are done."""


class NDArray(np.ndarray):
    """An array of numpy that can be asked for itself."""

    device: Any = Device("cpu")

    def numpy(self) -> np.ndarray:
        """A copy as a plain array of numpy."""
        return np.array(self, subok=False)

    asnumpy = numpy

    def copyfrom(self, source: Any) -> "NDArray":
        """Take over the values of `source`, an array of this shape; `CallError` for another one."""
        if np.shape(source) != self.shape:
            why = f"copyfrom: an array {self.shape} cannot take over one {np.shape(source)}"
            raise CallError(why, code="E604")
        self[...] = source
        return self

    def copyto(self, target: "NDArray") -> "NDArray":
        """Give the values to `target`, an array of this shape; `CallError` for another one."""
        return target.copyfrom(self)


def cpu(number: int = 0) -> Device:
    """This machine."""
    return Device("cpu")


def device(name: Any = "cpu", number: int = 0) -> Device:
    """The device of a name, or of a target or its text: this machine for "cpu" and "llvm"."""
    known = ("cpu", "llvm", "c", "python")
    kind = str(getattr(name, "name", name)).split(" ")[0]
    return cpu() if kind in known else absent(f"tvm.{kind}", known)()


context = device


def array(values: Any, device: Any = None, ctx: Any = None) -> NDArray:
    """A copy of `values`, C-contiguous."""
    return np.array(values, order="C").view(NDArray)


def empty(shape: Any, dtype: str = "float32", device: Any = None, ctx: Any = None) -> NDArray:
    """A new array; its elements are whatever was in memory."""
    return np.empty(shape, to_numpy(dtype)).view(NDArray)


def wrapped(value: Any) -> Any:
    """The result of a function: arrays as `NDArray`s, tuples as lists of them."""
    if isinstance(value, tuple):
        return [wrapped(part) for part in value]
    return value.view(NDArray) if isinstance(value, np.ndarray) else value
