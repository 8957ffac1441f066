"""Argument checks: a wrong array never reaches native code.

The fast path is a few attribute reads per array; everything that explains runs only after it has
found a fault.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minimlc.dtypes import to_numpy
from minimlc.errors import CallError, fitting_array
from minimlc.run import plain_array

CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
"""numpy's flag bits (`ndarray.flags.num`)."""


class Parameter(NamedTuple):
    """What an argument must be."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    written: bool


class Arguments:
    """Checks the arguments of one function: count, kind, shape, dtype, layout and overlap.

    Returns their addresses; `keep` are the arrays, in case some came through DLPack.
    """

    def __init__(self, function: str, parameters: Sequence[Parameter], signature: str = ""):
        self.function = function
        self.parameters = tuple(parameters)
        self.signature = signature or self._describe()
        self._wanted = tuple(
            (p.shape, to_numpy(p.dtype), CONTIGUOUS | ALIGNED | (WRITEABLE if p.written else 0))
            for p in self.parameters
        )
        sizes = [_bytes(p) for p in self.parameters]
        self._conflicts = tuple(
            (i, j, sizes[i], sizes[j])
            for i, p in enumerate(self.parameters)
            for j, q in enumerate(self.parameters)
            if i != j and p.written and (j > i or not q.written) and sizes[i] and sizes[j]
        )

    def _describe(self) -> str:
        listed = ", ".join(f"{p.name}: {p.dtype}{list(p.shape)}" for p in self.parameters)
        return f"{self.function}({listed})"

    def check(self, arguments: Sequence[Any]) -> tuple[Sequence[np.ndarray], list[int]]:
        """The arrays and their addresses; `CallError` that names the argument and the axis."""
        if len(arguments) != len(self._wanted):
            raise CallError(
                f"{self.function} takes {len(self._wanted)} argument(s), got {len(arguments)}",
                code="E601",
                hint=self.signature,
            )
        addresses = []
        for array, (shape, dtype, flags) in zip(arguments, self._wanted, strict=True):
            if (
                type(array) is not np.ndarray
                or array.shape != shape
                or (array.dtype is not dtype and array.dtype != dtype)
                or array.flags.num & flags != flags
            ):
                return self._check_slowly(arguments)
            addresses.append(address_of(array))
        if self._conflicts:
            self._check_overlap(addresses)
        return arguments, addresses

    def _check_slowly(self, arguments: Sequence[Any]) -> tuple[list[np.ndarray], list[int]]:
        """For what the fast path does not take: arrays of other libraries, and mistakes."""
        arrays = [self._as_array(number, value) for number, value in enumerate(arguments)]
        for number, (array, (shape, dtype, flags)) in enumerate(
            zip(arrays, self._wanted, strict=True)
        ):
            if array.shape != shape or array.dtype != dtype or array.flags.num & flags != flags:
                self._explain(number, array)
        addresses = [address_of(array) for array in arrays]
        self._check_overlap(addresses)
        return arrays, addresses

    def _check_overlap(self, addresses: Sequence[int]) -> None:
        for i, j, size, other in self._conflicts:
            if addresses[i] < addresses[j] + other and addresses[j] < addresses[i] + size:
                self._refuse_overlap(i, j)

    def _as_array(self, number: int, value: Any) -> np.ndarray:
        """A numpy view, without a copy, of anything that shares memory through DLPack."""
        if isinstance(value, np.ndarray):
            return plain_array(self._which(number), self.parameters[number].name, value)
        if isinstance(value, type) or not hasattr(value, "__dlpack__"):
            raise CallError(
                f"{self._which(number)} must be an array, got {type(value).__name__}",
                code="E602",
                hint="numpy.asarray(value, dtype) makes one",
            )
        try:
            return view_of(value)
        except Exception as error:  # whatever the other library raises
            raise CallError(
                f"{self._which(number)} cannot be shared with numpy: "
                f"{str(error) or type(error).__name__}",
                code="E602",
                hint="move it to the CPU and detach it first",
            ) from None

    def _which(self, number: int) -> str:
        return f'argument {number + 1} ("{self.parameters[number].name}") of {self.function}'

    def _explain(self, number: int, array: np.ndarray) -> None:
        parameter = self.parameters[number]
        which = self._which(number)
        want = to_numpy(parameter.dtype)
        if array.dtype != want:
            self._explain_dtype(which, parameter, array)
        if array.ndim != len(parameter.shape):
            raise CallError(
                f"{which} must have {len(parameter.shape)} dimension(s) {parameter.shape}, "
                f"got {array.ndim}: {array.shape}",
                code="E604",
                hint=_fitting(parameter, array),
            )
        for axis, (got, expected) in enumerate(zip(array.shape, parameter.shape, strict=True)):
            if got != expected:
                raise CallError(
                    f"{which} must have size {expected} on axis {axis}, got {got}",
                    code="E604",
                    example=f"expected shape {parameter.shape}, got {array.shape}",
                    hint=_fitting(parameter, array),
                )
        if not array.flags.c_contiguous:
            raise CallError(
                f"{which} must be C-contiguous; its strides are {array.strides} bytes"
                + _axis(array),
                code="E605",
                hint=_instead(parameter, f"numpy.ascontiguousarray({parameter.name})"),
            )
        if not array.flags.aligned:
            raise CallError(
                f"{which} is not aligned to {want.alignment} bytes",
                code="E606",
                hint=_instead(parameter, f"{parameter.name}.copy()"),
            )
        raise CallError(
            f"{which} is written, and this array is read-only",
            code="E607",
            hint=_instead(parameter, f"{parameter.name}.copy()"),
        )

    def _explain_dtype(self, which: str, parameter: Parameter, array: np.ndarray) -> None:
        if array.dtype.newbyteorder("=") == to_numpy(parameter.dtype):
            raise CallError(
                f"{which} must be in the machine's byte order, got {array.dtype.str}",
                code="E603",
                hint=_instead(parameter, f'{parameter.name}.astype("{parameter.dtype}")'),
            )
        as_bits = parameter.dtype == "bfloat16" and array.dtype.name in ("uint16", "int16")
        made = "view(ml_dtypes.bfloat16)" if as_bits else f'astype("{parameter.dtype}")'
        raise CallError(
            f"{which} must be {parameter.dtype}, got {array.dtype.name}",
            code="E603",
            hint=_instead(parameter, f"{parameter.name}.{made}"),
        )

    def _refuse_overlap(self, i: int, j: int) -> None:
        raise CallError(
            f"{self._which(i)} is written and shares memory with "
            f'argument {j + 1} ("{self.parameters[j].name}")',
            code="E608",
            hint="pass a copy of one of them",
        )


def _instead(parameter: Parameter, copied: str) -> str:
    """What to pass: the copy; the results in what is written are to be found there."""
    if not parameter.written:
        return copied
    return f"out = {copied}  # pass out for {parameter.name}: the results are in it"


def _fitting(parameter: Parameter, array: np.ndarray) -> str:
    made = fitting_array(parameter.name, parameter.shape, array.shape, parameter.dtype)
    return _instead(parameter, made)


def _axis(array: np.ndarray) -> str:
    """Which axis first breaks row-major order."""
    step = array.itemsize
    for axis in range(array.ndim - 1, -1, -1):
        if array.shape[axis] != 1 and array.strides[axis] != step:
            return f" (axis {axis}: expected {step})"
        step *= array.shape[axis]
    return ""


def _bytes(parameter: Parameter) -> int:
    size = to_numpy(parameter.dtype).itemsize
    for extent in parameter.shape:
        size *= extent
    return size


def view_of(value: Any) -> np.ndarray:
    """A numpy array on the same memory as `value`, through DLPack.

    numpy has no bfloat16 of its own: such a tensor comes in as 16-bit integers and is viewed back.
    `BufferError` for a torch tensor whose memory holds its values negated: DLPack cannot say so.
    """
    if hasattr(value, "is_neg") and value.is_neg():
        raise BufferError("its values are stored negated; resolve_neg() gives a plain tensor")
    if "bfloat16" in str(getattr(value, "dtype", "")) and hasattr(value, "new_empty"):
        int16 = value.new_empty(0).short().dtype
        return np.from_dlpack(value.view(int16)).view(to_numpy("bfloat16"))
    return np.from_dlpack(value)


def _plain_address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _fast_address() -> Callable[[np.ndarray], int]:
    """The data pointer as numpy's C interface has it: first after the object's header.

    `__array_interface__` builds a dictionary for it, five times as slow. Where the layout is not
    as expected (checked here, on arrays of several kinds), that is used all the same.
    """
    header = object.__basicsize__
    read = ctypes.c_size_t.from_address

    def address(array: np.ndarray) -> int:
        return read(id(array) + header).value

    try:
        base = np.arange(24, dtype=np.int16)
        probes = [base, base[3:], base.reshape(2, 3, 4)[1], np.zeros((), np.float64)]
        fits = all(address(probe) == _plain_address(probe) for probe in probes)
    except (TypeError, ValueError):
        fits = False
    return address if fits else _plain_address


address_of = _fast_address()
