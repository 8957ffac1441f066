"""Resources of GPUs, and their use by a kernel: occupancy, and the time that it takes at least."""

from typing import NamedTuple

from minimlc.gpusim.active import WARP
from minimlc.loops.values.errors import CompileError, did_you_mean


class Device(NamedTuple):
    """A GPU. For each streaming multiprocessor (SM): the warps and blocks that it holds at once,
    its shared memory, the unit in which a block gets of it, what each block loses to the system
    (all in bytes), and its lanes for float32. `clock` is the boost clock in GHz, `bandwidth` that
    of the memory in GB/s.
    """

    name: str
    capability: str
    sms: int
    warps: int
    blocks: int
    shared: int
    unit: int
    reserved: int
    lanes: int
    clock: float
    bandwidth: float

    @property
    def flops(self) -> float:
        """Float32 operations in a second at most: a fused multiply-add is two."""
        return self.sms * self.lanes * 2 * self.clock * 1e9


KB = 1024
_ALL = (
    Device("V100", "7.0", 80, 64, 32, 96 * KB, 256, 0, 64, 1.53, 900),
    Device("T4", "7.5", 40, 32, 16, 64 * KB, 256, 0, 64, 1.59, 320),
    Device("A100", "8.0", 108, 64, 32, 164 * KB, 128, KB, 64, 1.41, 1555),
    Device("RTX 3090", "8.6", 82, 48, 16, 100 * KB, 128, KB, 128, 1.695, 936),
    Device("RTX 4090", "8.9", 128, 48, 24, 100 * KB, 128, KB, 128, 2.52, 1008),
    Device("H100", "9.0", 132, 64, 32, 228 * KB, 128, KB, 128, 1.98, 3350),
    Device("B200", "10.0", 148, 64, 32, 228 * KB, 128, KB, 128, 1.965, 8000),
    Device("RTX 5090", "12.0", 170, 48, 24, 100 * KB, 128, KB, 128, 2.407, 1792),
)
DEVICES = {device.name: device for device in _ALL}
"""Limits of an SM are from the "CUDA C++ Programming Guide", table "Technical Specifications per
Compute Capability"; its lanes are from the table "Throughput of Native Arithmetic Instructions".
The kilobyte that a block loses is from the tuning guides for Ampere, Hopper and Blackwell, the
units are from the CUDA toolkit's occupancy calculator. SMs, clocks and bandwidths are from NVIDIA's
whitepapers on V100 (SXM2), Turing, A100 (SXM, 40 GB), GA102, Ada, H100 (SXM5) and RTX Blackwell.
There is none on B200: its bandwidth is from the data sheet, its SMs and clock are what one reports.
"""

REGISTERS, REGISTER_UNIT, PARTITIONS = 1 << 16, 256, 4
"""Registers of an SM of any of them, which partitions share; a warp gets a multiple of the unit."""


def device(name: str) -> Device:
    """A device of the table by its name; `CompileError` with near misses for another name."""
    if name not in DEVICES:
        hint = did_you_mean(name, DEVICES)
        raise CompileError(f'unknown device "{name}"', code="E105", hint=hint)
    return DEVICES[name]


class Occupancy(NamedTuple):
    """The blocks and warps of a kernel that an SM holds at once, its most warps, and the limit."""

    blocks: int
    warps: int
    most: int
    limit: str

    @property
    def fraction(self) -> float:
        return self.warps / self.most


def occupancy(device: Device, warps: int, shared: int, registers: int = 0) -> Occupancy:
    """The occupancy by blocks of so many warps, bytes of shared memory, and registers of a thread;
    0 registers, where they are not known, set no limit: a compiler decides.
    """
    limits = {"warps": device.warps // warps, "blocks": device.blocks}
    if shared:
        limits["shared memory"] = device.shared // (_rounded(shared, device.unit) + device.reserved)
    if registers:
        per_warp = _rounded(registers * WARP, REGISTER_UNIT)
        limits["registers"] = REGISTERS // PARTITIONS // per_warp * PARTITIONS // warps
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit], limits[limit] * warps, device.warps, limit)


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


class Roofline(NamedTuple):
    """The seconds that a device needs at least: to compute, to move each sector of memory once, and
    to serve shared memory's wavefronts, one for each cycle and SM. Operations on other floats are
    taken for those on float32.

    After S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model
    for multicore architectures", CACM 52(4), 2009.
    """

    compute: float
    memory: float
    shared: float

    @property
    def seconds(self) -> float:
        return max(self)

    @property
    def limit(self) -> str:
        """The part that takes the longest."""
        return self._fields[self.index(self.seconds)]


def roofline(device: Device, flops: int, moved: int, wavefronts: int) -> Roofline:
    """The roofline of so many float32 operations, bytes of memory and wavefronts."""
    shared = wavefronts / (device.sms * device.clock * 1e9)
    return Roofline(flops / device.flops, moved / (device.bandwidth * 1e9), shared)
