"""Memory of an emulated process lies together, as a real one's does: LLVM's linker relies on it.

qemu-user looks for new mappings from 2^38 upwards until the first collision, and from then on near
2^47, where Linux puts them. A module's code could lie in one place and its constants in the
other, further apart than an instruction can reach. So we have it collide before anything is mapped.
"""

import ctypes
import mmap

_PAGE = mmap.PAGESIZE
_FIXED_NOREPLACE = 0x100000  # Linux: at this very address, or not at all
_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ctypes.c_long,
)


def _mapped(address: int | None, pages: int, flags: int = 0) -> int:
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags
    return _libc.mmap(address, pages * _PAGE, mmap.PROT_READ, private, -1, 0)


_mapped(_mapped(None, 1) + 2 * _PAGE, 1, _FIXED_NOREPLACE)
_mapped(None, 2)
