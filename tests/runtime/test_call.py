"""A call with a wrong array never reaches native code, and names the argument and the axis."""

import numpy as np
import pytest

from minimlc.loops.ir.arguments import address_of
from minimlc.loops.ir.nodes import Buffer, For, PrimFunc, Var, index, seq, store
from minimlc.loops.values.errors import CallError, CompileError
from minimlc.services.build import build
from minimlc.services.runtime.library import Library
from tests.helpers import refuses


def scale(dtype: str = "float32") -> PrimFunc:
    """y = x + x, z[0] = x[0, 0]."""
    i, j = Var("i"), Var("j")
    x, y = Buffer("x", (4, 6), dtype), Buffer("y", (4, 6), dtype)
    z = Buffer("z", (1,), dtype)
    body = For(
        i, index(4), "serial", For(j, index(6), "vectorized", store(y, (i, j), x[i, j] + x[i, j]))
    )
    return PrimFunc((x, y, z), (), seq((body, store(z, (0,), x[0, 0]))))


@pytest.fixture(
    scope="module", params=["llvm", "python", pytest.param("c", marks=pytest.mark.requires("cc"))]
)
def lib(request) -> Library:
    return build(scale(), request.param)


def arrays(dtype: str = "float32") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.arange(24).reshape(4, 6).astype(dtype)
    return x, np.zeros_like(x), np.zeros(1, dtype)


def test_calls_write_into_their_arguments(lib):
    x, y, z = arrays()
    assert lib["main"](x, y, z) is None
    np.testing.assert_array_equal(y, 2 * x)


def test_the_count(lib):
    x, y, _ = arrays()
    refuses("E601", lambda: lib["main"](x, y), "takes 3", "got 2", "y: float32[4, 6]")
    refuses("E601", lambda: lib["main"](x, y=y, z=y), "by position, got y=, z=", "main(x: float32")


def test_what_is_no_array(lib):
    x, y, z = arrays()
    refuses("E602", lambda: lib["main"](x.tolist(), y, z), 'argument 1 ("x")', "list")
    refuses("E602", lambda: lib["main"](x, y, 1.0), 'argument 3 ("z")', "float")


def test_dtypes_and_byte_order(lib):
    x, y, z = arrays()
    refuses("E603", lambda: lib["main"](x.astype("float64"), y, z), '"x"', "float64")
    refuses("E603", lambda: lib["main"](x.astype("int32"), y, z), "int32")
    refuses("E603", lambda: lib["main"](x, y.astype(int), z), "out = y.astype", "pass out for y")
    refuses("E603", lambda: lib["main"](x.astype(x.dtype.newbyteorder()), y, z), "byte order")


def test_shapes_name_the_axis(lib):
    x, y, z = arrays()
    refuses("E604", lambda: lib["main"](x, y[:, :5].copy(), z), '"y"', "size 6 on axis 1, got 5")
    refuses("E604", lambda: lib["main"](x[:3], y, z), '"x"', "axis 0")
    refuses("E604", lambda: lib["main"](x.ravel(), y, z), "2 dimension(s)")


def test_strides_name_the_axis(lib):
    x, y, z = arrays()
    wide = np.zeros((4, 12), np.float32)
    refuses("E605", lambda: lib["main"](wide[:, ::2], y, z), '"x"', "axis 1")
    refuses("E605", lambda: lib["main"](wide[:, :6], y, z), "axis 0")
    refuses("E605", lambda: lib["main"](x, np.zeros((6, 4), np.float32).T, z), '"y"', "for y")


def test_alignment(lib):
    x, y, z = arrays()
    raw = np.zeros(97, np.uint8)[1:].view(np.float32).reshape(4, 6)
    refuses("E606", lambda: lib["main"](raw, y, z), "aligned to 4")


def test_read_only_arrays_are_good_inputs_only(lib):
    x, y, z = arrays()
    x.setflags(write=False)
    lib["main"](x, y, z)
    y.setflags(write=False)
    refuses("E607", lambda: lib["main"](x, y, z), '"y"', "read-only")


def test_overlap(lib):
    x, y, z = arrays()
    refuses("E608", lambda: lib["main"](x, x, z), '"y"', "shares memory", '"x"')
    memory = np.zeros(48, np.float32)
    first, second = memory[:24].reshape(4, 6), memory[20:44].reshape(4, 6)
    refuses("E608", lambda: lib["main"](first, second, z))
    refuses("E608", lambda: lib["main"](x, y, y.reshape(-1)[5:6]))
    lib["main"](first, memory[24:].reshape(4, 6), z)


def test_subclasses_and_dlpack():
    class Tagged(np.ndarray):
        pass

    class Exported:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    lib = build(scale())
    x, y, z = arrays()
    lib["main"](x.view(Tagged), Exported(y), z)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.requires("torch")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64"])
def test_torch_tensors_share_their_memory(dtype):
    import torch

    x = torch.arange(24).reshape(4, 6).to(getattr(torch, dtype))
    y, z = torch.zeros_like(x), torch.zeros(1, dtype=x.dtype)
    build(scale(dtype))["main"](x, y, z)
    assert torch.equal(y, x + x)
    with pytest.raises(CallError, match="detach"):
        build(scale())["main"](torch.zeros(4, 6, requires_grad=True), y, z)


def test_the_address_is_numpys():
    base = np.arange(24, dtype=np.int16)
    for array in (base, base[3:], base.reshape(2, 3, 4)[1], np.zeros((), np.float64)):
        assert address_of(array) == array.ctypes.data


def test_unknown_names(lib):
    with pytest.raises(CompileError, match="no function") as caught:
        lib["mian"]
    assert '"main"' in str(caught.value)
    with pytest.raises(CompileError, match="source"):
        lib.source("metal")
