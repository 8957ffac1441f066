"""NVRTC, called through ctypes: CUDA C++ to a cubin, and the registers in its log."""

import ctypes
import re
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


@cache
def _library():
    spec = find_spec("nvidia.cuda_nvrtc")
    (folder,) = spec.submodule_search_locations
    (path,) = Path(folder, "lib").glob("libnvrtc.so.*[0-9]")
    return ctypes.CDLL(str(path))


def compiled(text, architecture):
    """The log of a compile for a device; `AssertionError` with the log where it fails."""
    return _compile(text, architecture, b"--ptxas-options=-v")[0]


def assembly(text, architecture):
    """PTX."""
    return _compile(text, architecture)[1]


def compile_text(text, architecture, *options):
    """The log with registers, and PTX."""
    more = [option.encode() for option in options]
    log = _compile(text, architecture, b"--ptxas-options=-v", *more)[0]
    return log, _compile(text, architecture.replace("sm", "compute"), *more)[1]


def _compile(text, architecture, *more):
    library, program = _library(), ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
    listed = [f"--gpu-architecture={architecture}".encode(), *more]
    options = (ctypes.c_char_p * len(listed))(*listed)
    status = library.nvrtcCompileProgram(program, len(listed), options)
    log = _bytes(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog).decode()
    assert status == 0, log
    code = _bytes(program, library.nvrtcGetPTXSize, library.nvrtcGetPTX).decode()
    cubin = _bytes(program, library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return log.rstrip("\0"), code.rstrip("\0"), cubin


def _bytes(program, size_of, bytes_of):
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    bytes_of(program, data)
    return data.raw


def sass(text, architecture):
    """The instructions of a device; a skip where there is no `nvdisasm`."""
    spec = find_spec("nvidia.cu13")
    tool = Path(*(spec.submodule_search_locations if spec else ["none"]), "bin", "nvdisasm")
    if not tool.exists():
        pytest.skip("nvdisasm not installed (pip install nvidia-cuda-nvdisasm)")
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(_compile(text, architecture)[2])
        file.flush()
        return subprocess.run([tool, file.name], check=True, capture_output=True, text=True).stdout


def spills(log):
    """Bytes that a compile spilled, by all kernels."""
    return sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", log)))
