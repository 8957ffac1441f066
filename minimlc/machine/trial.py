"""Machine code tried in a separate process, which may crash.

This file is run as a script, so that little needs to be loaded: it imports nothing of the library.
"""

import ctypes
import json
import platform
import sys

ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA = 158, 0x1023, 18
"""Linux on x86-64: the number of a system call, its operation, and the registers concerned."""


def tiles_permitted() -> bool:
    """Ask the system to let this process use tile registers; whether it does.

    Linux grants them for good, to all threads (Documentation/arch/x86/xstate.rst).
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    system = ctypes.CDLL(None).syscall
    system.restype, system.argtypes = ctypes.c_long, [ctypes.c_long] * 3
    return bool(system(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0)


def main() -> int:
    """Link an object file, call a function of it; 0 if the last argument is then as expected."""
    header = json.loads(sys.stdin.buffer.readline())
    code, expected, *inputs = (sys.stdin.buffer.read(size) for size in header["sizes"])
    sys.path[:] = header["path"]
    if header["tiles"] and not tiles_permitted():
        return 2
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    builder.export_symbol(header["symbol"])
    library = builder.link(llvm.create_lljit_compiler(machine, use_jit_link=True), "trial")
    arguments = [ctypes.create_string_buffer(part, len(part) + 64) for part in inputs]
    entry = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * len(arguments))
    status = entry(library[header["symbol"]])(*map(ctypes.addressof, arguments))
    result = arguments[-1].raw[: len(expected)]
    return 0 if status == 0 and result == expected else 1


if __name__ == "__main__":
    sys.exit(main())
