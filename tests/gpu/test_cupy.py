"""The stand-in has CuPy's names and takes what CuPy takes; without a GPU, CuPy's answer is ours."""

import inspect
import re

import numpy as np
import pytest

import minimlc as mlc
from tests.gpu import standin
from tests.gpu.programs import add
from tests.helpers import refuses

pytestmark = pytest.mark.requires("cupy")


@pytest.fixture
def cp():
    return pytest.importorskip("cupy")


def parameters(function):
    """Names, where Python or CuPy's documentation has them."""
    try:
        listed = inspect.signature(function).parameters.values()
        names = [
            each.name for each in listed if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    names = [name for name in names if name[0] != "_"]
    texts = [] if names else re.findall(r"\w\((.*)\)", function.__doc__ or "")[:2]
    parts = [part.split("=")[0].split() for text in texts for part in text.split(",")]
    names += [words[-1] for words in parts if words]
    return [name for name in dict.fromkeys(names) if name not in ("self", "cls")]


def found(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


@pytest.mark.parametrize(
    "path",
    [
        "RawModule", "RawModule.get_function", "RawKernel.__call__", "ndarray", "ndarray.get",
        "ndarray.set", "ndarray.view", "ndarray.copy", "ndarray.__dlpack__", "empty", "asarray",
        "from_dlpack", "cuda.Device", "cuda.Device.synchronize", "cuda.Event", "cuda.Event.record",
        "cuda.Event.synchronize", "cuda.get_elapsed_time", "cuda.get_current_stream",
        "cuda.Stream.from_external", "cuda.Stream.wait_event", "cuda.Stream.record",
        "cuda.Stream.synchronize", "cuda.Stream.is_capturing", "cuda.Stream.begin_capture",
        "cuda.Stream.end_capture", "cuda.Graph.launch", "cuda.compiler.compile_using_nvrtc",
    ],
)  # fmt: skip
def test_names_and_parameters(cp, path):
    ours = parameters(found(standin, path.removeprefix("cuda.").removeprefix("compiler.")))
    theirs = parameters(found(cp, path))
    assert ours == [name for name in theirs if name in ours]


def test_attributes(cp):
    for name in ("num_regs", "max_threads_per_block", "max_dynamic_shared_size_bytes"):
        assert hasattr(cp.RawKernel, name)
    memory = cp.cuda.UnownedMemory(4096, 64, None, 0)
    array = cp.ndarray((2, 3), "int16", memptr=cp.cuda.MemoryPointer(memory, 16) + 16)
    assert (array.data.ptr, array.data.device_id, array.strides) == (4128, 0, (6, 2))
    assert array.flags.c_contiguous
    assert array.view(mlc.dtypes.to_numpy("bfloat16")).dtype.name == "bfloat16"
    assert cp.cuda.Stream.null.ptr == 0
    assert issubclass(cp.cuda.compiler.CompileException, Exception)
    for name in vars(standin.Nvrtc):
        assert name.startswith("_") or callable(getattr(cp.cuda.nvrtc, name))
    assert "-ftz=true" in inspect.getsource(cp.cuda.compiler._compile_with_cache_cuda)


def test_nvrtc_as_cupy_calls_it(cp, monkeypatch):
    compiler = cp.cuda.compiler
    target = lambda arch=None: ("-arch=sm_90", "cubin")  # noqa: E731
    monkeypatch.setattr(compiler, "_get_arch_for_options_for_nvrtc", target)
    code, _ = compiler.compile_using_nvrtc(mlc.build(add().mod, target="cuda").source())
    assert code.startswith(b"\x7fELF")
    with pytest.raises(compiler.CompileException, match="error"):
        compiler.compile_using_nvrtc("nonsense;")


def test_without_a_driver(cp):
    if cp.cuda.is_available():
        pytest.skip("a GPU is here")
    kernel = mlc.build(add().mod, target="cuda")["main"]
    arrays = [np.zeros(1000, "float32") for _ in range(3)]
    refuses("E502", lambda: kernel(*arrays), "no NVIDIA GPU")
