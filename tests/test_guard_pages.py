"""The guard pages themselves: what touches one dies, what stays inside does not."""

import ctypes
import time

import numpy as np
import pytest

from tests.guard_pages import between_guards, guarded, isolated, needs_guard_pages

pytestmark = needs_guard_pages


def peek(array: np.ndarray, offset: int) -> None:
    """Read the byte so far from an array's first one."""
    ctypes.string_at(array.ctypes.data + offset, 1)


@pytest.mark.parametrize(("shape", "dtype"), [((5,), "float32"), ((3, 700), "int64"), ((), "bool")])
def test_the_byte_beside_an_array_is_out_of_bounds(shape, dtype):
    last, first = guarded(shape, dtype), guarded(shape, dtype, at_end=False)
    for array in (last, first):
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype)) and not array.any()
        array[...] = 1
        assert isolated(lambda a=array: (peek(a, 0), peek(a, a.nbytes - 1))) == ""
    assert isolated(lambda: peek(last, last.nbytes)).startswith(("SIGSEGV", "SIGBUS"))
    assert isolated(lambda: peek(first, -1)).startswith(("SIGSEGV", "SIGBUS"))


def test_empty_arrays_and_copies():
    assert guarded((0, 3), "float32").shape == (0, 3)
    values = np.arange(5, dtype=np.float32)
    assert (between_guards(values, "float32") == values).all()


def test_a_child_says_how_it_ended():
    def fails() -> None:
        raise ValueError("what went wrong")

    assert "what went wrong" in isolated(fails)
    assert isolated(lambda: time.sleep(60), seconds=0.2).startswith("SIGKILL")
