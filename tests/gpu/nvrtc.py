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
    library, program = _library(), ctypes.c_void_p()
    source = text.encode()
    library.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None)
    listed = [f"--gpu-architecture={architecture}".encode(), b"--ptxas-options=-v"]
    options = (ctypes.c_char_p * len(listed))(*listed)
    status = library.nvrtcCompileProgram(program, len(listed), options)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    assert status == 0, log.value.decode()
    return log.value.decode()


def spills(log):
    """Bytes that a compile spilled, by all kernels."""
    return sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", log)))
