"""What the process's heap does with memory that is given back."""

import ctypes
import os
import sys
from functools import lru_cache

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Of glibc's mallopt: bytes from which on a block is mapped alone, and those kept at the end."""


@lru_cache(maxsize=1)
def keep_blocks() -> None:
    """Have the heap keep memory that is given back. Code takes its buffers at each call, and glibc
    hands large ones to the system each time, to be mapped anew, unless it is told not to, or has
    seen a block come and go that is as large as any that it keeps: 32 MiB.
    """
    chosen = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"} & {*os.environ}
    tell = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if tell is not None and not chosen:
        for option, size in ((MMAP_THRESHOLD, 1 << 25), (TRIM_THRESHOLD, 1 << 26)):
            tell(option, size)
