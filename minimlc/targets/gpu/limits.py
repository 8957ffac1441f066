"""Limits of launches on a device: threads and shared memory of a block, blocks of a grid."""

from math import prod
from typing import NamedTuple

from minimlc.loops.values.errors import BuildError
from minimlc.targets.gpu.kernels import Kernel
from minimlc.targets.gpu.places import LEAST, places


class Limits(NamedTuple):
    """A device's limits. `threads` are per block, `sides` by axis, `shared` is in bytes, and arrays
    lie in it as by `places`, unless they are `apart`.
    """

    device: str
    threads: int = 1024
    sides: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    shared: int = LEAST
    apart: bool = False


CUDA_LIMITS = Limits("a CUDA device")
"""Limits of every device since compute capability 3.0 (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability"); more shared memory than that must be asked for."""

CUDA_ASKED = CUDA_LIMITS._replace(shared=64 * 1024)
"""With as much shared memory as a block may ask for from capability 7.5 on."""
CUDA_MOST = CUDA_LIMITS._replace(shared=227 * 1024)
"""With as much shared memory as a block may ask for where there is most, on capabilities 9.0 and
10.0.
"""
WEBGPU_LIMITS = Limits("WebGPU", 256, (256, 256, 64), (65535,) * 3, 16 * 1024, apart=True)
"""The limits of a page that asks for no more (W3C, WebGPU, "Limits")."""


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
    at = places(kernel.body)
    size = at.apart if limits.apart else at.size
    if size > limits.shared:
        names = ", ".join(buffer.name for buffer in kernel.shared)
        raise _beyond(kernel, f"{size} bytes of shared memory ({names})", limits, limits.shared)


def dynamic_bytes(kernel: Kernel) -> int:
    """Bytes that a launch in CUDA asks for: all shared ones, if more than arrays may have."""
    at = places(kernel.body)
    return at.size if at.apart > LEAST else 0


def _beyond(kernel: Kernel, what: str, limits: Limits, most: int) -> BuildError:
    return BuildError(
        f"{kernel.name} cannot be launched: it has {what}; {limits.device} allows {most}",
        code="E510",
        hint="split the bound loops into smaller tiles",
    )
