"""Whether a machine's tensor instructions can be used, tried out before the first use.

A CPU may list what its system forbids, or what an emulator does wrongly. So before code with such
an instruction is first run, a separate process runs a small product with it and compares the
result. If that ends badly, the portable code is used: slower, but never a crash.
"""

import json
import subprocess
import sys
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.ir.walks import blocks_in
from minimlc.loops.llvm.kernel import backend, emit_llvm, machine_of
from minimlc.loops.llvm.value import symbol
from minimlc.loops.schedule import Schedule
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import is_float, to_numpy
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.parts import Hook
from minimlc.loops.values.target import Target
from minimlc.machine.trial import tiles_permitted
from minimlc.recipes.lowprec import UNITS
from minimlc.recipes.matmul import matmul
from minimlc.services.runtime.foreign import missing_features

TENSOR_UNITS = Hook[Any]("tensor units")

SIZES = (32, 48, 128)
"""Rows, columns and sums of the product that is tried: several tiles, and several steps."""

SECONDS = 60.0
"""The time limit of a trial."""

TRIED = dict(reversed(UNITS))
"""The units of `recipes.lowprec` that are tried, by their features."""


def trusted(functions: Mapping[str, PrimFunc], target: Target) -> Target:
    """The target without the features whose instructions these functions use and that fail here.

    Code for another machine is left alone: it is not run here.
    """
    used = sorted(_used(functions, frozenset(target.features.split(","))))
    if not used or missing_features(target):
        return target
    failing = {feature for feature in used if not works(feature)}
    if not failing:
        return target
    if any(feature.startswith("+amx") for feature in failing):
        failing.add("+amx-tile")
    listed = ", ".join(sorted(feature[1:] for feature in failing))
    warnings.warn(
        f"the CPU lists {listed}, but a trial of it failed: the portable code is used",
        RuntimeWarning,
        stacklevel=2,
    )
    return replace(target, features=_without(target.features, failing))


def _without(features: str, denied: Collection[str]) -> str:
    """The features, "-" for those denied: left out, the CPU's name would bring them back."""
    parts = features.split(",")
    return ",".join(f"-{part[1:]}" if part in denied else part for part in parts)


def _used(functions: Mapping[str, PrimFunc], have: frozenset[str]) -> list[str]:
    """The features to be tried for the tensor intrinsics in the functions."""
    blocks = chain.from_iterable(blocks_in(func.body) for func in functions.values())
    names = {dict(block.annotations).get("tensor_intrin") for block in blocks} - {None}
    units = TENSOR_UNITS.first if names else None
    if units is None:
        return []
    known = units.INSTRUCTIONS
    needs = {
        feature
        for name in names
        for instruction in known.get(name, ())
        if instruction.features <= have
        for feature in instruction.features
    }
    tried = [feature for feature in TRIED if feature in needs]
    if "+amx-tile" in needs and not any(feature.startswith("+amx") for feature in tried):
        tried += [feature for feature in TRIED if feature.startswith("+amx") and feature in have]
    return tried


@cache
def works(feature: str) -> bool:
    """Whether a unit's instructions do what they should on this machine; tried once a process.

    For tile registers, this process gets the system's permission to use them as well.
    """
    tiles = feature.startswith("+amx")
    if tiles and not tiles_permitted():
        return False
    symbol, code, arrays, expected = trial_of(feature)
    return passes(symbol, code, arrays, expected, tiles)


def trial_of(feature: str) -> tuple[str, bytes, list[np.ndarray], np.ndarray]:
    """A small product with a unit's instructions: symbol, machine code, arguments and result."""
    unit = TRIED[feature]
    rows, columns, sums = SIZES
    result = "float32" if is_float(unit.left) else "int32"
    a = te.placeholder((rows, sums), unit.left, name="A")
    b = te.placeholder((sums, columns), unit.right, name="B")
    k = te.reduce_axis((0, sums), name="k")
    c = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, k].astype(result) * b[k, j].astype(result), axis=k),
        name="C",
    )
    host = Target.host()
    portable = _without(host.features, TRIED.keys() - {feature})
    tiles = ["+amx-tile"] if feature.startswith("+amx") else []
    # One core's, as nothing shares loops out where it is tried.
    target = replace(host, features=",".join([portable, feature, *tiles]), cores=1)
    func = te.create_prim_func([a, b, c])
    schedule = matmul(Schedule.trusting(IRModule.of({"trial": func}), "trial"), target=target)
    machine = machine_of(target)
    code = backend().compile_object(emit_llvm({"trial": schedule.func}, machine).text, machine)
    rng = np.random.default_rng(0)
    arrays = [_numbers(rng, p.shape, p.dtype) for p in func.params[:2]]
    expected = (arrays[0].astype(np.int64) @ arrays[1].astype(np.int64)).astype(result)
    return symbol("trial"), code, [*arrays, np.zeros_like(expected)], expected


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Whole numbers: floats so small that no sum of them is rounded, integers of all sizes."""
    if is_float(dtype):
        return rng.integers(-8, 9, shape).astype(to_numpy(dtype))
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def passes(
    symbol: str, code: bytes, arrays: list[np.ndarray], expected: np.ndarray, tiles: bool
) -> bool:
    """Whether a separate process computes the expected result and ends normally."""
    parts = [code, expected.tobytes(), *(array.tobytes() for array in arrays)]
    header = {"path": sys.path, "symbol": symbol, "tiles": tiles, "sizes": [len(p) for p in parts]}
    script = Path(__file__).with_name("trial.py")
    try:
        done = subprocess.run(
            [sys.executable, str(script)],
            input=b"".join([json.dumps(header).encode(), b"\n", *parts]),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
