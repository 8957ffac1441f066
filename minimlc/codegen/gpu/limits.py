"""What a device can launch: threads and shared memory of a block, blocks of a grid."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from minimlc.codegen.gpu.kernels import Kernel
from minimlc.dtypes import DTYPES
from minimlc.errors import BuildError
from minimlc.tir.nodes import Buffer


class Limits(NamedTuple):
    """A device's limits. `threads` are those of a block, `sides` by axis, `shared` is in bytes."""

    device: str
    threads: int = 1024
    sides: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    shared: int = 48 * 1024


CUDA_LIMITS = Limits("a CUDA device")
"""Those of every device since compute capability 3.0 (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability"); more shared memory than that must be asked for."""

CUDA_MOST = CUDA_LIMITS._replace(shared=227 * 1024)
"""With as much shared memory as a block may ask for where there is most, on capabilities 9.0 and
10.0.
"""
WEBGPU_LIMITS = Limits("WebGPU", 256, (256, 256, 64), (65535,) * 3, 16 * 1024)
"""What a page gets that asks for no more (W3C, WebGPU, "Limits")."""


def check_limits(kernel: Kernel, limits: Limits) -> None:
    """`BuildError` E510 for a kernel that a device cannot launch."""
    threads = prod(kernel.block)
    if threads > limits.threads:
        raise _beyond(kernel, f"{threads} threads in a block", limits, limits.threads)
    pairs = ("threadIdx", kernel.block, limits.sides), ("blockIdx", kernel.grid, limits.grid)
    for axis, sizes, most in pairs:
        for side, size, limit in zip("xyz", sizes, most, strict=True):
            if size > limit:
                raise _beyond(kernel, f"{size} on {axis}.{side}", limits, limit)
    size = shared_bytes(kernel.shared)
    if size > limits.shared:
        names = ", ".join(buffer.name for buffer in kernel.shared)
        raise _beyond(kernel, f"{size} bytes of shared memory ({names})", limits, limits.shared)


def shared_bytes(buffers: Sequence[Buffer]) -> int:
    """The size of buffers, each on a boundary of 16 bytes."""
    sizes = (prod(item.shape) * max(8, DTYPES[item.dtype].bits) // 8 for item in buffers)
    return sum(-(-size // 16) * 16 for size in sizes)


def dynamic_bytes(buffers: Sequence[Buffer]) -> int:
    """What a launch in CUDA asks for: all shared memory, where it is more than arrays may have."""
    size = shared_bytes(buffers)
    return size if size > CUDA_LIMITS.shared else 0


def _beyond(kernel: Kernel, what: str, limits: Limits, most: int) -> BuildError:
    return BuildError(
        f"{kernel.name} cannot be launched: it has {what}; {limits.device} allows {most}",
        code="E510",
        hint="split the bound loops into smaller tiles",
    )
