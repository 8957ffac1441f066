"""The peaks of the machine at hand, measured: multiply-adds and copied bytes a second.

These are the two roofs of the roofline model (Williams, Waterman and Patterson, "Roofline: an
insightful visual performance model for multicore architectures", CACM 52(4), 2009).
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np

from minimlc.loops.llvm.kernel import NativeCode, backend, link, machine_of
from minimlc.loops.values.target import Target
from minimlc.services.runtime.timing import machine_text

CHAINS = 12
"""Independent sums, enough to hide the latency of two units of multiply-add."""

STEPS = 1_000_000
COPY_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Peaks:
    """`operations`: float32 operations a second, a multiply-add being two; `bytes`: bytes read and
    written a second while copying what no cache holds. Both of one core of `machine`.
    """

    operations: float
    bytes: float
    machine: str = ""

    @property
    def ridge(self) -> float:
        """Operations a byte from which on arithmetic, not memory, is the limit."""
        return self.operations / self.bytes

    def attainable(self, intensity: float) -> float:
        """The most operations a second of a kernel that does `intensity` of them a byte."""
        return min(self.operations, self.bytes * intensity)


@cache
def machine_peaks() -> Peaks:
    """The peaks of one core of this machine. Takes a second or two; the answer is kept."""
    return Peaks(fma_rate(), copy_rate(), machine_text())


def fma_rate(repeat: int = 50) -> float:
    """float32 operations a second of one core: independent chains of fused multiply-adds."""
    loop, operations = fma_loop()
    return max(operations * STEPS / loop_seconds(loop) for _ in range(repeat))


def loop_seconds(loop: Callable[[int], float]) -> float:
    """How long `STEPS` steps of `fma_loop` take."""
    start = perf_counter()
    loop(STEPS)
    return perf_counter() - start


def copy_rate(repeat: int = 15) -> float:
    """Bytes read and written a second by one core that copies what no cache holds."""
    source = np.ones(COPY_BYTES // 8)
    target = np.zeros_like(source)
    times = []
    for _ in range(repeat):
        start = perf_counter()
        np.copyto(target, source)
        times.append(perf_counter() - start)
    return 2 * COPY_BYTES / min(times)


@cache
def fma_loop() -> tuple[Callable[[int], float], int]:
    """A function of the number of steps to take, and how many operations a step is."""
    host = Target.host()
    lanes = host.vector_bits // 32
    code = backend().compile_object(_fma_text(lanes), machine_of(host))
    library = link([code], ["fma_loop"], {})
    compiled = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(library.addresses["fma_loop"])

    def loop(steps: int, _library: NativeCode = library) -> float:  # it owns the code
        return compiled(steps)

    loop(STEPS)
    return loop, 2 * lanes * CHAINS


def _fma_text(lanes: int) -> str:
    """LLVM's text of a loop of `CHAINS` chains x = x * s + s, with a small s.

    Fused where the machine can: elsewhere an `llvm.fma` would be a call for each element.
    """
    vector = f"<{lanes} x float>"
    ids = range(CHAINS)
    phis = "\n".join(f"  %a{n} = phi {vector} [ %seed, %entry ], [ %b{n}, %loop ]" for n in ids)
    steps = "\n".join(
        f"  %b{n} = call {vector} @llvm.fmuladd.v{lanes}f32({vector} %a{n}, {vector} %seed, "
        f"{vector} %seed)"
        for n in ids
    )
    sums = "\n".join(
        f"  %s{n} = fadd {vector} {f'%s{n - 1}' if n else '%seed'}, %b{n}" for n in ids
    )
    return f"""
declare {vector} @llvm.fmuladd.v{lanes}f32({vector}, {vector}, {vector})
define float @fma_loop(i64 %count) {{
entry:
  %start = sitofp i64 %count to float
  %scaled = fmul float %start, 0x3E10000000000000
  %one = insertelement {vector} zeroinitializer, float %scaled, i32 0
  %seed = shufflevector {vector} %one, {vector} zeroinitializer, <{lanes} x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{sums}
  %result = extractelement {vector} %s{CHAINS - 1}, i32 0
  ret float %result
}}
"""
