"""Code for another machine: compiled to be read, refused when called.

An instruction that a CPU lacks ends the process, so what a target's code may contain is compared
with what the machine at hand has before any of it runs.
"""

import functools
import re
from collections.abc import Callable
from typing import Any, NoReturn

from minimlc.loops.llvm.kernel import backend, is_x86, wide_enough
from minimlc.loops.values.errors import BuildError, CallError
from minimlc.loops.values.target import Target

PROBE = """
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.bswap.i64(i64)
define void @probe(ptr %p, i64 %n) #0 {
  %q = getelementptr i8, ptr %p, i64 4096
  %x = load <16 x float>, ptr %p, align 4
  %y = load <16 x float>, ptr %q, align 4
  %product = fmul contract <16 x float> %x, %y
  %sum = fadd contract <16 x float> %product, %y
  store <16 x float> %sum, ptr %q, align 4
  %bytes = load <64 x i8>, ptr %p, align 1
  %twice = add <64 x i8> %bytes, %bytes
  store volatile <64 x i8> %twice, ptr %p, align 1
  %short = load volatile <16 x half>, ptr %p, align 2
  %long = fpext <16 x half> %short to <16 x float>
  store volatile <16 x float> %long, ptr %p, align 4
  %words = load volatile <8 x i64>, ptr %p, align 8
  %squares = mul <8 x i64> %words, %words
  store volatile <8 x i64> %squares, ptr %p, align 8
  %small = load volatile <4 x i64>, ptr %p, align 8
  %again = mul <4 x i64> %small, %small
  store volatile <4 x i64> %again, ptr %p, align 8
  %ints = load volatile <4 x i32>, ptr %p, align 4
  %powers = mul <4 x i32> %ints, %ints
  store volatile <4 x i32> %powers, ptr %p, align 4
  %count = call i64 @llvm.ctpop.i64(i64 %n)
  store volatile i64 %count, ptr %p, align 8
  %leading = call i64 @llvm.ctlz.i64(i64 %n, i1 false)
  store volatile i64 %leading, ptr %p, align 8
  %trailing = call i64 @llvm.cttz.i64(i64 %n, i1 false)
  store volatile i64 %trailing, ptr %p, align 8
  %shifted = shl i64 %count, %leading
  store volatile i64 %shifted, ptr %p, align 8
  %turned = call i64 @llvm.bswap.i64(i64 %n)
  store i64 %turned, ptr %q, align 8
  ret void
}
attributes #0 = { "prefer-vector-width"="512" "min-legal-vector-width"="512" }
"""
"""Operations for which LLVM picks a telltale instruction wherever a CPU has it."""

SUM = """
define void @sum(ptr %p, <4 x i32> %x) {
  %y = load <4 x i32>, ptr %p, align 4
  %z = add <4 x i32> %x, %y
  store <4 x i32> %z, ptr %p, align 4
  ret void
}
"""
"""Vectors without floats: LLVM can compile this for every CPU, and floats not for all of them."""

TELLTALES = {
    "sse4.1": r"\bv?pmulld\b",
    "popcnt": r"\bpopcnt",
    "lzcnt": r"\blzcnt",
    "bmi": r"\btzcnt",
    "bmi2": r"\bshlx",
    "movbe": r"\bmovbe",
    "avx": r"%ymm",
    "avx2": r"\bvpaddb\b.*%[yz]mm",
    "fma": r"\bvfn?m(add|sub)",
    "f16c": r"\bvcvtph2ps",
    "avx512f": r"%zmm",
    "avx512bw": r"\bvpaddb\b.*%zmm",
    "avx512dq": r"\bvpmullq\b.*%zmm",
    "avx512vl": r"\bvpmullq\b.*%ymm",
    "avx512fp16": r"\bvcvtph2psx",
}
"""x86 features, older ones first, and what in a listing of `PROBE` shows that a CPU's name brings
them along."""


FEATURE = re.compile(r"[+-][a-z0-9][a-z0-9._-]*")


def missing_features(target: Target, named: bool = True) -> tuple[str, ...]:
    """The features that code for `target` may use and this machine lacks; none for its own code.

    With `named` false, only those that the name of the CPU brings along: C compilers get no
    more. `BuildError` for features that LLVM cannot make code for.
    """
    host = Target.host()
    if (target.cpu, target.features) == (host.cpu, host.features) or not host.features:
        return ()
    have = _features(host.features)
    asked = _features(target.features) if named else []
    brought = _brought(target.cpu, target.features if named else "")
    return tuple(dict.fromkeys(name for name in (*asked, *brought) if name not in have))


def _features(text: str) -> list[str]:
    return [part.strip()[1:] for part in text.split(",") if part.strip().startswith("+")]


@functools.lru_cache(maxsize=64)
def _brought(cpu: str, features: str) -> tuple[str, ...]:
    for part in features.split(",") if features else ():
        if not FEATURE.fullmatch(part):  # LLVM ends the process on some of these
            hint = 'Target("llvm", "x86-64", "+avx2,-fma"): each with a sign, without spaces'
            raise BuildError(f'"{part}" is not a CPU feature', code="E509", hint=hint)
    llvm = backend()
    machine = llvm.Machine(cpu, wide_enough(features), 512)
    if is_x86() and "%xmm" not in llvm.compile_assembly(SUM, machine):
        why = f'no code can be made for the CPU "{cpu}" with the features "{features}"'
        hint = 'Target("llvm", "x86-64-v3") names a usual CPU, Target.host() the one here'
        raise BuildError(why, code="E509", hint=hint)
    listing = llvm.compile_assembly(PROBE, machine)
    return tuple(name for name, sign in reversed(TELLTALES.items()) if re.search(sign, listing))


def refusing(name: str, target: Target, missing: tuple[str, ...]) -> Callable[..., Any]:
    """A function that refuses its calls: this machine cannot run its code."""
    lacking = ", ".join(missing[:6]) + (", …" if len(missing) > 6 else "")

    def call(*arguments: Any) -> NoReturn:
        why = f'{name} was compiled for the CPU "{target.cpu}"; the one here lacks {lacking}'
        hint = f'build(mod, "{target.name}") makes code for this machine'
        raise CallError(why, code="E617", hint=hint)

    call.__name__ = name
    return call
