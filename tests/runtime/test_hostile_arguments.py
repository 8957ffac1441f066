"""Whatever a built function is called with: it computes, or a typed error names the argument."""

import array
import ctypes
import weakref
from pathlib import Path

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.arguments import Arguments, Parameter
from minimlc.loops.ir.nodes import Buffer, For, PrimFunc, Var, index, store
from minimlc.loops.values.dtypes import DTYPES, to_numpy
from minimlc.loops.values.errors import CallError
from minimlc.services.build import build
from minimlc.services.runtime.library import Library
from tests.helpers import refuses
from tests.runtime.test_call import arrays, scale


@pytest.fixture(scope="module")
def lib() -> Library:
    return build(scale())


def buffer_of(offset: int) -> np.ndarray:
    """24 floats that start `offset` bytes into aligned memory."""
    memory = np.zeros(24 * 4 + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return np.frombuffer(memory.data, np.float32, 24, start).reshape(4, 6)


@pytest.mark.parametrize("offset", range(0, 64, 4))
def test_every_address_that_is_right_for_the_element_computes(lib, offset):
    """Vector instructions must not ask for more than the element's own alignment."""
    x, y, z = buffer_of(offset), buffer_of(64 - offset), np.zeros(1, np.float32)
    x[:] = np.arange(24).reshape(4, 6)
    lib["main"](x, y, z)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("offset", [1, 2, 3, 5, 63])
def test_other_addresses_are_refused(lib, offset):
    x, y, z = arrays()
    refuses("E606", lambda: lib["main"](buffer_of(offset), y, z), 'argument 1 ("x")', "x.copy()")
    refuses("E606", lambda: lib["main"](x, buffer_of(offset), z), 'argument 2 ("y")')


UNFIT = {
    "every element the same one": (np.broadcast_to(np.float32(1), (4, 6)), "E605", "(0, 0) bytes"),
    "every row the same one": (np.broadcast_to(np.ones(6, "f4"), (4, 6)), "E605", "axis 0"),
    "column-major": (np.zeros((4, 6), "f4", "F"), "E605", "axis 1"),
    "rows backwards": (np.zeros((4, 6), "f4")[::-1], "E605", "(-24, 4) bytes"),
    "columns backwards": (np.zeros((4, 6), "f4")[:, ::-1], "E605", "axis 1"),
    "every second row": (np.zeros((8, 6), "f4")[::2], "E605", "expected 24"),
    "a field of records": (np.zeros((4, 6), "f4,f4")["f0"], "E605", "axis 1"),
    "records": (np.zeros((4, 6), [("a", "f4")]), "E603", "got void32"),
    "named records": (np.rec.array(np.zeros((4, 6), [("a", "f4")])), "E603", "float32"),
    "the other byte order": (np.zeros((4, 6), np.dtype("f4").newbyteorder()), "E603", "byte order"),
    "objects": (np.zeros((4, 6), object), "E603", "got object"),
    "text": (np.zeros((4, 6), "U3"), "E603", "float32"),
    "dates": (np.zeros((4, 6), "M8[s]"), "E603", "datetime64"),
    "complex numbers": (np.zeros((4, 6), "c8"), "E603", "complex64"),
    "integers of the same size": (np.zeros((4, 6), "i4"), "E603", "int32"),
    "one number": (np.zeros((), "f4"), "E604", "2 dimension(s)"),
    "nothing": (np.zeros((0, 6), "f4"), "E604", "size 4 on axis 0, got 0"),
    "one more axis": (np.zeros((1, 4, 6), "f4"), "E604", "got 3"),
    "an enormous shape": (np.broadcast_to(np.float32(0), (1 << 40, 1 << 20)), "E604", "axis 0"),
    "half of it masked": (np.ma.masked_less(np.arange(24, dtype="f4").reshape(4, 6), 12), "E602",
                          "x.filled(0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_arrays_that_do_not_fit(lib, name):
    given, code, words = UNFIT[name]
    _, y, z = arrays()
    refuses(code, lambda: lib["main"](given, y, z), 'argument 1 ("x") of main', words)


NO_ARRAYS = {
    "None": None,
    "a number": 3.0,
    "a numpy number": np.float32(3),
    "text": "abc",
    "bytes": bytes(96),
    "a view of memory": memoryview(np.zeros((4, 6), np.float32)),
    "a list": [[0.0] * 6] * 4,
    "a generator": (row for row in [[0.0] * 6] * 4),
    "an array of the standard library": array.array("f", [0.0] * 24),
    "an array of ctypes": (ctypes.c_float * 24)(),
    "a class": np.ndarray,
    "a function": np.zeros,
    "another buffer": Buffer("x", (4, 6), "float32"),
}


@pytest.mark.parametrize("name", NO_ARRAYS)
def test_what_is_no_array_at_all(lib, name):
    x, y, z = arrays()
    refuses("E602", lambda: lib["main"](NO_ARRAYS[name], y, z), 'argument 1 ("x")', "asarray")
    refuses("E602", lambda: lib["main"](x, NO_ARRAYS[name], z), 'argument 2 ("y")')


class Exporting:
    """Offers DLPack, badly."""

    def __init__(self, result: object, device: object = (1, 0)):
        self.result, self.device = result, device

    def __dlpack__(self, **options: object) -> object:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def __dlpack_device__(self) -> object:
        return self.device


BAD_EXPORTS = {
    "no capsule": Exporting(5),
    "a capsule of something else": Exporting(np.zeros(3).__array_struct__),
    "an error of its own": Exporting(KeyError("gone")),
    "an error without words": Exporting(LookupError()),
    "another device": Exporting(5, (2, 0)),
    "a device that is none": Exporting(5, "cpu"),
}


@pytest.mark.parametrize("name", BAD_EXPORTS)
def test_exports_that_fail(lib, name):
    _, y, z = arrays()
    refuses("E602", lambda: lib["main"](BAD_EXPORTS[name], y, z), '"x"', "cannot be shared")


def test_an_interrupt_is_not_an_unfit_array(lib):
    _, y, z = arrays()
    with pytest.raises(KeyboardInterrupt):
        lib["main"](Exporting(KeyboardInterrupt()), y, z)


def test_subclasses_are_the_memory_that_they_have(lib):
    class Lying(np.ndarray):
        @property
        def shape(self):
            return (4, 6)

    x, y, z = arrays()
    for same in (x.view(np.matrix), np.ma.masked_array(x), x.view(np.recarray)):
        y[:] = 0
        lib["main"](same, y, z)
        np.testing.assert_array_equal(y, 2 * x)
    small = np.zeros((2, 2), np.float32).view(Lying)
    refuses("E604", lambda: lib["main"](small, y, z), "size 4 on axis 0, got 2")


def test_files_in_memory(lib, tmp_path: Path):
    x, y, z = arrays()
    path = tmp_path / "x.bin"
    x.tofile(path)
    lib["main"](np.memmap(path, "f4", "r", shape=(4, 6)), y, z)
    np.testing.assert_array_equal(y, 2 * x)
    fixed = np.memmap(path, "f4", "r", shape=(4, 6))
    refuses("E607", lambda: lib["main"](x, fixed, z), '"y"', "read-only")
    lib["main"](x, np.memmap(path, "f4", "r+", shape=(4, 6)), z)
    np.testing.assert_array_equal(np.fromfile(path, "f4").reshape(4, 6), 2 * x)


def copying(shape: tuple[int, ...], dtype: str) -> PrimFunc:
    x, y = Buffer("x", shape, dtype), Buffer("y", shape, dtype)
    names = tuple(Var(f"i{axis}") for axis in range(len(shape)))
    body = store(y, names, x[names])
    for var, extent in zip(reversed(names), reversed(shape), strict=True):
        body = For(var, index(extent), "serial", body)
    return PrimFunc((x, y), (), body)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1), (5,), (2, 3)])
def test_every_dtype_in_every_kind_of_shape(shape, dtype):
    given = np.ones(shape, to_numpy(dtype))
    result = np.zeros(shape, to_numpy(dtype))
    lib = build(copying(shape, dtype), cache=False)
    lib["main"](given, result)
    np.testing.assert_array_equal(given.astype(float), result.astype(float))
    if given.itemsize > 1 and given.size:
        raw = np.zeros(given.nbytes + 1, np.uint8)[1:].view(given.dtype).reshape(shape)
        refuses("E606", lambda: lib["main"](raw, result), f"aligned to {given.dtype.alignment}")


def test_counts_and_names(lib):
    x, y, z = arrays()
    refuses("E601", lambda: lib["main"](), "takes 3 argument(s), got 0")
    refuses("E601", lambda: lib["main"](*[x] * 1000), "got 1000")
    refuses("E616", lambda: lib[0], '"main"')
    refuses("E601", lambda: lib["main"](x, y, z=z), "by position, got z=")


@pytest.mark.parametrize("written", [(0, 1), (1,), ()])
def test_overlap_matters_where_something_is_written(written):
    memory = np.zeros(8, np.float32)
    parameters = [Parameter(n, (4,), "float32", k in written) for k, n in enumerate("xy")]
    arguments = Arguments("f", parameters)
    arguments.check([memory[:4], memory[4:]])
    for start in (1, 2, 3):
        given = [memory[:4], memory[start : start + 4]]
        if written:
            refuses("E608", lambda given=given: arguments.check(given), '"x"', '"y"')
        else:
            arguments.check(given)


def test_an_array_in_use_cannot_be_resized():
    """numpy refuses while somebody else refers to the array, as a call does until it returns."""
    array = np.ones(24, np.float32).reshape(4, 6).copy()
    held, addresses = Arguments("f", [Parameter("x", (4, 6), "float32", True)]).check((array,))
    with pytest.raises(ValueError, match="cannot resize"):
        array.resize(1)
    assert held[0] is array and addresses == [array.ctypes.data]


def test_a_library_that_is_dropped_keeps_its_code_while_a_function_lives():
    lib = build(scale(), cache=False)
    call, gone = lib["main"], weakref.ref(lib)
    del lib
    assert gone() is None
    x, y, z = arrays()
    call(x, y, z)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.requires("torch")
def test_tensors_that_are_not_plain_memory(lib):
    import torch

    plain = torch.ones(4, 6)
    _, y, z = arrays()
    with torch.inference_mode():
        inference = torch.ones(4, 6)
    lib["main"](inference, y, z)
    np.testing.assert_array_equal(y, 2)
    unfit = {
        "meta": torch.ones(4, 6, device="meta"),
        "require gradient": torch.nn.Parameter(plain),
        "layout": plain.to_sparse(),
        "conjugate": torch.ones(4, 6, dtype=torch.complex64).conj(),
        "negated": torch._neg_view(plain),
        "dtype": plain.to(torch.float8_e4m3fn),
    }
    for word, given in unfit.items():
        refuses("E602", lambda given=given: lib["main"](given, y, z), '"x"', word)
    refuses("E605", lambda: lib["main"](torch.ones(6, 4).T, y, z), '"x"', "axis 1")
    refuses("E605", lambda: lib["main"](torch.ones(1).expand(4, 6), y, z), "(0, 0) bytes")
    refuses("E603", lambda: lib["main"](plain > 0, y, z), "got bool")
    shared = torch.zeros(4, 6)
    refuses("E608", lambda: lib["main"](shared, shared, z), '"y"', "shares memory")


def test_nothing_is_written_by_a_refused_call(lib):
    x, y, _ = arrays()
    with pytest.raises(CallError):
        lib["main"](x, y, np.zeros(2, np.float32))
    assert not y.any()


GRAPH = """
@R.function
def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    return R.add(x, y)
"""
LOOPS = """
@T.prim_func
def main(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = x[i] * T.float32(2)
"""
WAYS = ["interpret", "python", "llvm", pytest.param("c", marks=pytest.mark.requires("cc"))]


def caller(text: str, way: str):
    mod = mlc.parse(text)
    if way == "interpret":
        return lambda *arrays: mlc.interpret(mod, "main", *arrays)
    return mlc.build(mod, way, cache=False)["main"]


class Renamed(np.ndarray):
    """Lies about itself wherever it can."""

    def view(self, *kind: object) -> object:
        return np.zeros(400, np.float32)

    def __mul__(self, other: object) -> object:
        raise ZeroDivisionError


UNFIT_ANYWHERE = {
    "masked": (np.ma.masked_array(np.arange(4, dtype="f4"), [0, 1, 0, 0]), "E602"),
    "masked in full": (np.ma.masked_all(4, "f4"), "E602"),
    "None": (None, "E602"),
    "a list": ([0.0] * 4, "E602"),
    "a number": (np.float32(1), "E602"),
    "a class": (np.ndarray, "E602"),
    "an export that fails": (Exporting(KeyError("gone")), "E602"),
    "a device that is none": (Exporting(5, "cpu"), "E602"),
    "objects": (np.zeros(4, object), "E603"),
    "records": (np.zeros(4, [("a", "f4")]), "E603"),
    "the other byte order": (np.zeros(4, np.dtype("f4").newbyteorder()), "E603"),
    "text": (np.zeros(4, "U3"), "E603"),
    "nothing": (np.zeros(0, "f4"), "E604"),
    "nothing, of an enormous shape": (np.zeros((0, 2**62), "u1").view("f4"), "E604"),
    "an enormous shape": (np.broadcast_to(np.float32(0), (1 << 40, 1 << 20)), "E604"),
    "all axes that numpy has": (np.zeros((1,) * 63 + (4,), "f4"), "E604"),
    "no axes": (np.zeros((), "f4"), "E604"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", [LOOPS, GRAPH], ids=["loops", "graph"])
def test_one_error_wherever_a_function_is_called(text, way):
    call = caller(text, way)
    fit = np.ones(4, np.float32)
    for what, (given, code) in UNFIT_ANYWHERE.items():
        for name, pair in (("x", (given, fit)), ("y", (fit, given))):
            error = refuses(code, lambda pair=pair: call(*pair), f'"{name}"')
            assert type(error) is CallError and len(str(error)) < 600, what


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", [LOOPS, GRAPH], ids=["loops", "graph"])
def test_a_subclass_is_its_memory_wherever_a_function_is_called(text, way):
    call = caller(text, way)
    plain = np.arange(4, dtype=np.float32)
    for kind in (Renamed, np.ma.MaskedArray, np.recarray):
        x, y = plain.copy().view(kind), plain.copy()
        result = call(x, y)
        np.testing.assert_array_equal(y if result is None else result, 2 * plain)
        assert result is None or type(result) is np.ndarray


@pytest.mark.parametrize("way", ["interpret", "python", "llvm"])
def test_an_operator_is_the_programs_not_the_classes(way):
    """numpy's matrices multiply with `*` as matrices do."""
    text = """
@R.function
def main(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
    return R.multiply(x, x)
"""
    x = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(caller(text, way)(x.view(np.matrix)), x * x)


@pytest.mark.parametrize("way", WAYS)
def test_a_result_whose_elements_share_memory_is_refused(way):
    x, memory = np.ones(4, np.float32), np.zeros(40, np.float32)
    for strides in ((0,), (2,), (-1,)):
        y = np.lib.stride_tricks.as_strided(memory[20:], (4,), strides)
        refuses("E605", lambda y=y: caller(LOOPS, way)(x, y), '"y"')
    y = memory[::-2][3:7]
    if way == "interpret":
        caller(LOOPS, way)(x, y)
        np.testing.assert_array_equal(y, 2)
    else:
        refuses("E605", lambda: caller(LOOPS, way)(x, y), '"y"')


def test_strides_for_which_overlap_is_a_hard_question():
    """Is one of 2**36 sums of strides 500? What numpy cannot decide soon is refused. All sums are
    addresses, wherever the array lies: qemu's begin at 2**38.
    """
    sizes, memory = (2,) * 36, np.zeros(1000, np.uint8)
    drawn = np.random.default_rng(0).integers(2**31, 2**32, len(sizes))
    strides = [int(step) * (-1) ** axis for axis, step in enumerate(drawn)]
    x = np.lib.stride_tricks.as_strided(memory, sizes, strides)
    text = f"""
@T.prim_func
def main(x: T.Buffer({sizes}, "uint8"), y: T.Buffer((1,), "uint8")):
    y[0] = x[{", ".join("0" * len(sizes))}]
"""
    refuses("E608", lambda: caller(text, "interpret")(x, memory[500:501]), '"x"', '"y"')
