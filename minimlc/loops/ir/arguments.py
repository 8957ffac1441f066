"""The arguments of a call, interpreted or compiled: what a function takes, and what it refuses.

A wrong array never reaches native code. The fast path is a few attribute reads per array;
everything that explains runs only after a fault.
"""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.ir.nodes import SCALAR, Buffer, PrimFunc, Store
from minimlc.loops.values.dtypes import DTYPES, to_numpy, whole_range
from minimlc.loops.values.errors import CallError, fitting_array, shown
from minimlc.loops.values.kinds import kind_of
from minimlc.loops.values.node import Node, nodes_of

CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
"""numpy's flag bits (`ndarray.flags.num`)."""

MOST_WORK = 100_000
"""Candidates that numpy may try to decide whether two arrays overlap: milliseconds."""


class Parameter(NamedTuple):
    """The requirements on one argument."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    written: bool
    scalar: bool = False


def written(func: PrimFunc) -> tuple[Buffer, ...]:
    """The parameters that `func` stores to."""
    stored = {store.buffer for store in nodes_of(func.body, Store)}
    return tuple(param for param in func.params if param in stored)


def parameters_of(func: Node) -> list[Parameter]:
    """The parameters of a call of a function; a tuple's fields count one by one."""
    if isinstance(func, PrimFunc):
        results = written(func)
        return [
            Parameter(p.name, p.shape, p.dtype, p in results, p.scope == SCALAR)
            for p in func.params
        ]
    kind = kind_of(func)
    return kind.parameters(func) if kind else []


class Arguments:
    """Checks the arguments of one function: count, kind, shape, dtype, layout and overlap."""

    def __init__(self, function: str, parameters: Sequence[Parameter]):
        self.function = function
        self.parameters = tuple(parameters)
        self.forms = tuple(
            (p.shape, to_numpy(p.dtype), CONTIGUOUS | ALIGNED | (WRITEABLE if p.written else 0))
            for p in self.parameters
        )
        sizes = [prod(shape) * dtype.itemsize for shape, dtype, _ in self.forms]
        self._conflicts = tuple(
            (i, j, sizes[i], sizes[j])
            for i, p in enumerate(self.parameters)
            if p.written
            for j, q in enumerate(self.parameters)
            if i != j and (j > i or not q.written) and sizes[i] and sizes[j]
        )

    @property
    def signature(self) -> str:
        """The function's name and parameters."""
        listed = ", ".join(f"{p.name}: {p.dtype}{list(p.shape)}" for p in self.parameters)
        return f"{self.function}({listed})"

    def check(
        self, arguments: Sequence[Any], named: Iterable[str] = ()
    ) -> tuple[Sequence[np.ndarray], list[int]]:
        """The arrays (some may have come through DLPack) and their addresses, for compiled code;
        `CallError` that names the argument and the axis.
        """
        if named or len(arguments) != len(self.forms):
            raise self.miscounted(len(arguments), len(self.forms), named)
        addresses = []
        for number, (shape, dtype, flags) in enumerate(self.forms):  # zip(strict) takes longer
            array = arguments[number]
            if (
                type(array) is not np.ndarray
                or array.shape != shape
                or (array.dtype is not dtype and array.dtype != dtype)
                or array.flags.num & flags != flags
            ):
                return self._check_slowly(arguments)
            addresses.append(address_of(array))
        if self._conflicts:
            self.check_overlap(addresses)
        return arguments, addresses

    def _check_slowly(self, arguments: Sequence[Any]) -> tuple[list[np.ndarray], list[int]]:
        """`check` where the fast path gives up: arrays of other libraries, and mistakes."""
        arrays = [self._as_array(number, value) for number, value in enumerate(arguments)]
        for number, array in enumerate(arrays):
            self._check_type(number, array)
            self._check_layout(number, array)
        addresses = [address_of(array) for array in arrays]
        self.check_overlap(addresses)
        return arrays, addresses

    def check_overlap(self, addresses: Sequence[int]) -> None:
        """Refuse two arrays that share memory if one is written."""
        for i, j, size, other in self._conflicts:
            if addresses[i] < addresses[j] + other and addresses[j] < addresses[i] + size:
                raise self._overlapping(i, j)

    def check_strided(self, values: Sequence[Any]) -> list[np.ndarray]:
        """The arrays, for the interpreter, which takes them at any strides and address.

        So whether two of them meet depends on their elements, not on the memory between.
        """
        arrays = []
        for number, value in enumerate(values):
            arrays.append(self._as_array(number, value))
            self._check_type(number, arrays[-1])
        for number, parameter in enumerate(self.parameters):
            if parameter.written:
                self._check_result(number, arrays)
        return arrays

    def _check_result(self, number: int, arrays: Sequence[np.ndarray]) -> None:
        array, copied = arrays[number], f"{self.parameters[number].name}.copy()"
        self._check_writeable(number, array)
        if array.size and _meets_itself(array):
            strides = f"its strides are {array.strides} bytes"
            why = f"is written, but elements of it share memory: {strides}"
            raise self._refusal(number, "E605", why, copied)
        for other, candidate in enumerate(arrays):
            if other != number and _share_memory(array, candidate):
                raise self._overlapping(number, other)

    def _as_array(self, number: int, value: Any) -> np.ndarray:
        """The memory of a numpy array, or of whatever offers it through DLPack; numpy's scalars are
        arrays without axes, but for results.
        """
        which, parameter = self.which(number), self.parameters[number]
        if parameter.scalar and not hasattr(value, "__dlpack__"):
            return _number(which, parameter.dtype, value)
        if isinstance(value, np.ndarray):
            return _plain_array(which, parameter.name, value)
        if isinstance(value, np.generic) and not (parameter.shape or parameter.written):
            return np.asarray(value)
        if isinstance(value, type) or not hasattr(value, "__dlpack__"):
            why = f"{which} must be an array, got {type(value).__name__}"
            hint = f'numpy.asarray(value, "{parameter.dtype}") makes one'
            raise CallError(why, code="E602", hint=hint)
        try:
            return view_of(value)
        except Exception as error:  # whatever the other library raises
            why = f"{which} cannot be shared with numpy: {str(error) or type(error).__name__}"
            hint = "move it to the CPU and detach it first"
            raise CallError(why, code="E602", hint=hint) from None

    def which(self, number: int) -> str:
        """An argument in words, by its number from 0."""
        return f'argument {number + 1} ("{self.parameters[number].name}") of {self.function}'

    def _check_type(self, number: int, array: np.ndarray) -> None:
        """Refuse another dtype or shape than the parameter's."""
        name, shape, dtype, *_ = self.parameters[number]
        if array.dtype != to_numpy(dtype):
            raise self._mistyped(number, array)
        fitting = None if array.shape == shape else fitting_array(name, shape, array.shape, dtype)
        if array.ndim != len(shape):
            why = f"must have {len(shape)} dimension(s) {shape}, got {array.ndim}: {array.shape}"
            raise self._refusal(number, "E604", why, fitting)
        for axis, (got, expected) in enumerate(zip(array.shape, shape, strict=True)):
            if got != expected:
                why = f"must have size {expected} on axis {axis}, got {got}"
                example = f"expected shape {shape}, got {array.shape}"
                raise self._refusal(number, "E604", why, fitting, example)

    def _check_layout(self, number: int, array: np.ndarray) -> None:
        """Refuse a layout that compiled code cannot address."""
        name, _, dtype, *_ = self.parameters[number]
        if not array.flags.c_contiguous:
            why = f"must be C-contiguous; its strides are {array.strides} bytes{_axis(array)}"
            raise self._refusal(number, "E605", why, f"numpy.ascontiguousarray({name})")
        if not array.flags.aligned:
            why = f"is not aligned to {to_numpy(dtype).alignment} bytes"
            raise self._refusal(number, "E606", why, f"{name}.copy()")
        if self.parameters[number].written:
            self._check_writeable(number, array)

    def _check_writeable(self, number: int, array: np.ndarray) -> None:
        if not array.flags.writeable:
            copied = f"{self.parameters[number].name}.copy()"
            raise self._refusal(number, "E607", "is written, and this array is read-only", copied)

    # Refusals

    def miscounted(self, got: int, expected: int, named: Iterable[str] = ()) -> CallError:
        """The error for too many arguments, too few, or some passed by name."""
        why = f"{self.function} takes {expected} argument(s), got {got}"
        if named:
            names = ", ".join(f"{name}=" for name in named)
            why = f"{self.function} takes its arguments by position, got {names}"
        return CallError(why, code="E601", hint=self.signature)

    def _mistyped(self, number: int, array: np.ndarray) -> CallError:
        name, _, dtype, *_ = self.parameters[number]
        cast = f'{name}.astype("{dtype}")'
        if array.dtype.newbyteorder("=") == to_numpy(dtype):
            why = f"must be in the machine's byte order, got {array.dtype.str}"
            return self._refusal(number, "E603", why, cast)
        as_bits = dtype == "bfloat16" and array.dtype.name in ("uint16", "int16")
        cast = f"{name}.view(ml_dtypes.bfloat16)" if as_bits else cast
        return self._refusal(number, "E603", f"must be {dtype}, got {array.dtype.name}", cast)

    def _overlapping(self, i: int, j: int) -> CallError:
        other = f'argument {j + 1} ("{self.parameters[j].name}")'
        why = f"{self.which(i)} is written and shares memory with {other}"
        return CallError(why, code="E608", hint="pass a copy of one of them")

    def _refusal(
        self, number: int, code: str, why: str, copied: str | None, example: str = ""
    ) -> CallError:
        """The error, with a copy to pass instead; the results are then in the copy."""
        name, _, _, is_result, _ = self.parameters[number]
        hint = f"out = {copied}  # pass out for {name}: the results are in it"
        why = f"{self.which(number)} {why}"
        return CallError(why, code=code, example=example, hint=hint if is_result else copied or "")


def _number(which: str, dtype: str, value: Any) -> np.ndarray:
    """A Python number as an array without axes; it must be a value of the dtype."""
    kinds = {"float": "iuf", "bool": "b"}.get(DTYPES[dtype].kind, "iu")
    array = np.asarray(value)
    limits = whole_range(dtype)
    fits = not array.shape and array.dtype.kind in kinds
    if not fits or not (limits is None or limits[0] <= int(array) <= limits[1]):
        why = f"{which} must be a number, a value of {dtype}, got {shown(value)}"
        raise CallError(why, code="E602")
    return array.astype(to_numpy(dtype))


def _plain_array(which: str, name: str, array: np.ndarray) -> np.ndarray:
    """The memory of an array of any class: what a subclass adds is not part of a program.

    `CallError` where that would change what the elements are: masked ones.
    """
    if type(array) is np.ndarray:
        return array
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        why = f"{which} has masked elements, and a program knows no masks"
        raise CallError(why, code="E602", hint=f"{name}.filled(0)")
    return np.ndarray.view(array, np.ndarray)


def _axis(array: np.ndarray) -> str:
    """The first axis that breaks row-major order, in words; empty if none does."""
    step = array.itemsize
    for axis in range(array.ndim - 1, -1, -1):
        if array.shape[axis] != 1 and array.strides[axis] != step:
            return f" (axis {axis}: expected {step})"
        step *= array.shape[axis]
    return ""


def _share_memory(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays may have an element in common: odd strides make that a hard question."""
    try:
        return np.shares_memory(one, other, MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _meets_itself(array: np.ndarray) -> bool:
    """Whether two elements may be one: no if each axis steps over all that smaller ones reach."""
    reach = array.itemsize
    axes = zip(map(abs, array.strides), array.shape, strict=True)
    for step, size in sorted(axis for axis in axes if axis[1] > 1):
        if step < reach:
            return True
        reach += step * (size - 1)
    return False


def view_of(value: Any, from_dlpack: Callable[[Any], Any] = np.from_dlpack) -> Any:
    """A numpy array on the same memory as `value`, through DLPack; with another `from_dlpack`,
    that library's.

    numpy has no bfloat16: such a tensor comes in as 16-bit integers and is viewed back.
    `BufferError` for a torch tensor whose memory holds its values negated: DLPack has no such flag.
    """
    if hasattr(value, "is_neg") and value.is_neg():
        raise BufferError("its values are stored negated; resolve_neg() gives a plain tensor")
    if "bfloat16" in str(getattr(value, "dtype", "")) and hasattr(value, "new_empty"):
        int16 = value.new_empty(0).short().dtype
        return from_dlpack(value.view(int16)).view(to_numpy("bfloat16"))
    return from_dlpack(value)


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
