"""Arrays beside a page that nobody may touch: compiled code that leaves one of them dies of it."""

import ctypes
import faulthandler
import mmap
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from functools import cache
from math import prod

import llvmlite.binding as llvm
import numpy as np
import pytest

from minimlc.loops.values.dtypes import to_numpy

needs_guard_pages = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and mprotect")
"""For tests that use this file."""


def guarded(shape: tuple[int, ...], dtype: str, at_end: bool = True) -> np.ndarray:
    """A zeroed array whose last byte (`at_end`) or first byte lies beside a page out of bounds."""
    wanted = to_numpy(dtype)
    size = prod(shape) * wanted.itemsize
    inner = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, inner + 2 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(pages, np.uint8)
    for first in (0, mmap.PAGESIZE + inner):
        place = ctypes.c_void_p(whole.ctypes.data + first)
        if ctypes.CDLL(None, use_errno=True).mprotect(place, ctypes.c_size_t(mmap.PAGESIZE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = mmap.PAGESIZE + (inner - size if at_end else 0)
    return whole[start : start + size].view(wanted).reshape(shape)


def between_guards(array: np.ndarray, dtype: str, at_end: bool = True) -> np.ndarray:
    """A copy of an array that is `guarded`."""
    made = guarded(array.shape, dtype, at_end)
    made[...] = array
    return made


def isolated(function: Callable[[], object], seconds: float = 60) -> str:
    """Call a function in a forked child: "" if it returned, else the signal or error it ended with.

    The child has none of this process's threads: set their number to one, or start none here.
    """
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(receiving)
            faulthandler.disable()
            try:
                function()
            except BaseException:
                os.write(sending, traceback.format_exc()[-60_000:].encode())
        finally:
            os._exit(0)
    os.close(sending)
    text, deadline = b"", time.monotonic() + seconds
    with os.fdopen(receiving, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0, deadline - time.monotonic()))[0]:
            part = pipe.read(1 << 16)
            if not part:
                break
            text += part
        else:
            os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"{name}\n{text.decode(errors='replace')}"
    return text.decode(errors="replace")


MASKED = """
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)

define void @first_and_third(ptr %x) {
  %loaded = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %x, i32 4, <8 x i1> <i1 1, i1 0, i1 1,
    i1 0, i1 0, i1 0, i1 0, i1 0>, <8 x float> zeroinitializer)
  %sum = fadd <8 x float> %loaded, %loaded
  %first = extractelement <8 x float> %sum, i32 0
  store float %first, ptr %x
  ret void
}
"""


@cache
def masks_hold() -> bool:
    """Whether a masked load of this CPU leaves alone what its mask leaves out. Every AVX does, but
    for the one that qemu 7.2 emulates: it reads the whole vector.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    )
    with llvm.create_mcjit_compiler(llvm.parse_assembly(MASKED), machine) as engine:
        engine.finalize_object()
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            engine.get_function_address("first_and_third")
        )
        array = guarded((3,), "float32")
        return not isolated(lambda: function(array.ctypes.data))


def needs_masks() -> None:
    """Skip a test of lanes that AVX masks out where the CPU is not to be trusted with it."""
    if not masks_hold():
        pytest.skip("this CPU reads what a mask leaves out: it is emulated by qemu 7.2")
