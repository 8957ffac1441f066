"""The net under the primitives: old and new are verified, run and compared."""

import numpy as np

from minimlc.dtypes import is_float, to_numpy
from minimlc.errors import CompileError, ScheduleError
from minimlc.module import IRModule
from minimlc.run import interpret
from minimlc.tir.access import accesses, loop_extents
from minimlc.tir.nodes import PrimFunc
from minimlc.tir.wellformed import check_prim_func

QUICK = 20_000
"""Old and new are run and compared where each makes at most so many accesses."""


def check_step(old: IRModule, new: IRModule, name: str, label: str, trace: str) -> None:
    """A primitive that lets something wrong through is our bug, and is reported as one.

    `label` is the step's text and `trace` the JSON of all steps. A program that fails by itself
    (it divides by zero, say) is not compared.
    """
    before, after = old[name], new[name]
    assert isinstance(before, PrimFunc) and isinstance(after, PrimFunc)
    try:
        check_prim_func(name, after)
    except CompileError as error:
        raise _our_bug(label, str(error), trace) from error
    if max(_work(before), _work(after)) > QUICK:
        return
    try:
        expected = _outputs(old, name)
    except CompileError:
        return
    try:
        got = _outputs(new, name)
    except CompileError as error:
        raise _our_bug(label, str(error), trace) from error
    for buffer, a, b in zip(before.params, expected, got, strict=True):
        if not _alike(a, b):
            raise _our_bug(label, f"{buffer.name} comes out different", trace)


def _our_bug(label: str, why: str, trace: str) -> ScheduleError:
    return ScheduleError(
        f"{label} broke the program: {why}",
        code="E199",
        hint=f"this is a bug in minimlc; please report this trace:\n{trace}",
    )


def _work(func: PrimFunc) -> int:
    total = 0
    for item in accesses(func):
        runs = 1
        for extent in loop_extents(item.loops).values():
            runs *= extent
        total += runs
    return total


def _outputs(mod: IRModule, name: str) -> list[np.ndarray]:
    func = mod[name]
    assert isinstance(func, PrimFunc)
    random = np.random.default_rng(0)
    arrays = [_random(random, b.shape, b.dtype) for b in func.params]
    interpret(mod, name, *arrays)
    return arrays


def _random(random: "np.random.Generator", shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if is_float(dtype):
        return random.standard_normal(shape).astype(to_numpy(dtype))
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(0, 7, shape).astype(to_numpy(dtype))


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal; floating point up to the rounding of sums in another order."""
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    near = 1e-4 if a.dtype.itemsize >= 4 else 3e-2
    first, second = a.astype(np.float64), b.astype(np.float64)
    return bool(np.allclose(first, second, rtol=near, atol=near, equal_nan=True))
