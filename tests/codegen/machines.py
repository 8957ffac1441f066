"""The machines that compiled code is tried for: this one, and older x86 ones where it is one."""

import platform

from minimlc.loops.values.target import Target

X86 = platform.machine().lower() in ("x86_64", "amd64")
OLDEST = Target("llvm", "x86-64", "+cx8,+fxsr,+mmx,+sse,+sse2", 128)
OLDER = Target("llvm", "x86-64-v2", "+cx16,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3", 128)
USUAL = Target("llvm", "x86-64-v3", "+avx,+avx2,+fma,+f16c,+bmi,+bmi2", 256)
WIDE = Target("llvm", "x86-64-v4", "+avx512f,+avx512vl,+avx2,+fma", 512)


def _runs(target: Target) -> bool:
    return X86 and set(target.features.split(",")) <= set(Target.host().features.split(","))


MACHINES = (Target.host(), *(t for t in (OLDEST, OLDER, USUAL, WIDE) if _runs(t)))
"""Those whose code this machine can run."""
