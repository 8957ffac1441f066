"""NVRTC, called through ctypes: CUDA C++ to a cubin, and what its log says of registers."""

import ctypes
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

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


def _compile(text, architecture, *more):
    library, program = _library(), ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
    listed = [f"--gpu-architecture={architecture}".encode(), *more]
    options = (ctypes.c_char_p * len(listed))(*listed)
    status = library.nvrtcCompileProgram(program, len(listed), options)
    log = _text(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
    assert status == 0, log
    code = _text(program, library.nvrtcGetPTXSize, library.nvrtcGetPTX)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return log, code


def _text(program, size_of, text_of):
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    text_of(program, text)
    return text.value.decode()


def spills(log):
    """Bytes that a compile spilled, by all kernels."""
    return sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", log)))
