"""Whether two versions of a function compute the same: run on several kinds of random inputs.

The inputs are chosen so that a difference means something. Ordinary floats are small integers:
their sums and products are exact, in whatever order they are taken.
"""

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from minimlc.loops.interpreter.execute import execute
from minimlc.loops.ir.nodes import Buffer, Cast, Const, Load, PrimFunc, Store, substitute
from minimlc.loops.ir.walks import blocks_in
from minimlc.loops.proofs.access import accesses, loop_extents, reducer_of
from minimlc.loops.values.dtypes import integer_range, is_float, to_numpy
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import Mutator, Node, walk

BUDGET = 16_000
"""The interpreter makes about so many accesses in 20 ms; a larger function is compared smaller."""
ELEMENTS = 200_000
"""The most elements that the arrays of a function may have in all, to be compared."""
KINDS = ("ordinary", "special", "positive", "large")
TOLERANCE = {"float64": 1e-12, "float32": 3e-5, "float16": 1.6e-2, "bfloat16": 6e-2}
"""The error that reordering a sum may cause, relative to the largest element of the result."""

Arrays = list[np.ndarray]


class Trial(NamedTuple):
    """A function's arguments, and the same arrays after a run."""

    arguments: Arrays
    results: Arrays


_TRIALS: WeakKeyDictionary[PrimFunc, dict[str, Trial | None]] = WeakKeyDictionary()


def cost(func: PrimFunc) -> int:
    """The number of accesses of a run; beyond `BUDGET` where the arrays are too large as well."""
    elements = sum(int(np.prod(b.shape, dtype=object)) for b in (*func.params, *func.allocs))
    total = BUDGET + 1 if elements > ELEMENTS else 0
    for item in accesses(func):
        runs = 1
        for extent in loop_extents(item.loops).values():
            runs *= extent
        total += runs
    return total


def difference(old: PrimFunc, new: PrimFunc, exact: bool, kinds: Sequence[str] = ()) -> str | None:
    """The first difference between two functions that are quick to run; '' if there is none.

    None where nothing could be compared, because `old` fails by itself (it divides by zero, say).
    With `exact`, floats must agree to the bit; else the order of sums may differ. All `kinds` of
    inputs are tried where they are given, else as many as are quick.
    """
    count = max(1, BUDGET // max(1, cost(new)))
    answer = None
    for kind in kinds or KINDS[:count]:
        trial = _trial(old, kind)
        if trial is None:
            continue
        answer = _compare(old, new, trial, exact)
        if answer:
            return f"{answer} (on {kind} inputs)"
    return answer


def reduces_floats(func: PrimFunc) -> bool:
    """Whether a function has a reduction whose result may depend on its order: sums by rounding,
    `max` and `min` in the sign of a zero.
    """
    return any(
        isinstance(part, Store) and is_float(part.buffer.dtype)
        for block in blocks_in(func.body)
        if any(it.kind == "R" for it in block.iters)
        for part in walk(block.body)
    )


def _trial(func: PrimFunc, kind: str) -> Trial | None:
    """A function's results for one kind of input, computed once."""
    known = _TRIALS.setdefault(func, {})
    if kind not in known:
        arguments = inputs(func, kind)
        try:
            known[kind] = Trial(arguments, _run(func, arguments))
        except CompileError:
            known[kind] = None
    return known[kind]


def _run(func: PrimFunc, arguments: Arrays) -> Arrays:
    results = [array.copy() for array in arguments]
    execute(func, results)
    return results


def _compare(old: PrimFunc, new: PrimFunc, trial: Trial, exact: bool) -> str:
    try:
        got = _run(new, trial.arguments)
    except CompileError as error:
        return brief(error)
    wrong = first_difference(old.params, trial.results, got, None if exact else TOLERANCE)
    if wrong and not exact and _is_rounding(old, new, trial, got):
        return ""
    return wrong


def brief(error: CompileError) -> str:
    """The text of an error without the place: its reason and its example."""
    text = f"{error.code}: {error.why}" if error.code else error.why
    return f"{text}; {error.example}" if error.example else text


def first_difference(
    params: Sequence[Buffer], expected: Arrays, got: Arrays, tolerance: dict[str, float] | None
) -> str:
    """The first element that differs, in words; '' if none does. `tolerance` is by dtype, relative
    to the largest element; without, floats must agree to the bit.
    """
    for param, a, b in zip(params, expected, got, strict=True):
        limit = None if tolerance is None else tolerance.get(a.dtype.name)
        wrong = _differ(a, b) if limit is None else _differ_much(a, b, limit)
        if wrong.any():
            place = tuple(int(n) for n in np.argwhere(wrong)[0])
            element = f"{param.name}[{', '.join(map(str, place))}]"
            return f"{element} comes out as {b[place]}, not as {a[place]}"
    return ""


def _differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays differ; NaN equals NaN, and -0.0 differs from 0.0."""
    if a.dtype.kind in "iub":
        return a != b
    first, second = a.astype(np.float64), b.astype(np.float64)
    same = (first == second) & (np.signbit(first) == np.signbit(second))
    return ~(same | (np.isnan(first) & np.isnan(second)))


def _differ_much(a: np.ndarray, b: np.ndarray, limit: float) -> np.ndarray:
    """Where floats differ by more than rounding does; infinities and NaN must agree."""
    first, second = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(first)
    scale = np.abs(first[finite]).max(initial=0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(first - second) <= limit * scale
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return ~(same | (finite & near))


def _is_rounding(old: PrimFunc, new: PrimFunc, trial: Trial, got: Arrays) -> bool:
    """Whether the difference (all but) vanishes when all floats are computed in 64 bits."""
    if all(not is_float(param.dtype) or param.dtype == "float64" for param in old.params):
        return False
    wide = [a if a.dtype.kind in "iub" else a.astype(np.float64) for a in trial.arguments]
    try:
        one, other = _run(_widened(old), wide), _run(_widened(new), wide)
    except CompileError:
        return False
    pairs = zip(trial.results, got, one, other, strict=True)
    return all(_shrinks(*(array.astype(np.float64) for array in four)) for four in pairs)


def _shrinks(a: np.ndarray, b: np.ndarray, wide_a: np.ndarray, wide_b: np.ndarray) -> bool:
    """Whether the 64-bit results differ by nothing, or far less than the narrow ones."""
    with np.errstate(invalid="ignore", over="ignore"):
        narrow, wide = np.abs(a - b), np.abs(wide_a - wide_b)
        near = (wide <= 1e-3 * np.where(np.isfinite(narrow), narrow, 0)) | (
            wide <= 1e-9 * np.abs(wide_a)
        )
    same = (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))
    return bool((same | near).all())


class _Widen(Mutator):
    """Replaces every float dtype by float64."""

    def visit_Const(self, item: Const) -> Const:
        return Const(item.value, "float64") if is_float(item.dtype) else item

    def visit_Cast(self, item: Cast) -> Cast:
        dtype = "float64" if is_float(item.dtype) else item.dtype
        return Cast(dtype, self.visit(item.a))


def _widened(func: PrimFunc) -> PrimFunc:
    buffers: dict[Node, Node] = {
        b: Buffer(b.name, b.shape, "float64", b.scope)
        for b in (*func.params, *func.allocs)
        if is_float(b.dtype)
    }
    return substitute(_Widen().visit(func), buffers)


def inputs(func: PrimFunc, kind: str) -> Arrays:
    """Random arguments of one kind; the outputs are filled too, so what is not written shows."""
    random = np.random.default_rng(KINDS.index(kind))
    limits = _index_limits(func)
    allowed = [np.nan] * _takes_nan(func) + [np.inf, -0.0, -np.inf]
    arrays = []
    for param in func.params:
        if param in limits:
            array = random.integers(0, limits[param], param.shape).astype(to_numpy(param.dtype))
        elif is_float(param.dtype):
            array = _floats(random, param, kind, allowed)
        else:
            array = _integers(random, param, kind)
        arrays.append(array)
    return arrays


def _floats(
    random: np.random.Generator, param: Buffer, kind: str, special: list[float]
) -> np.ndarray:
    if kind == "positive":
        return random.uniform(0.25, 4, param.shape).astype(to_numpy(param.dtype))
    values = random.integers(-4, 5, param.shape).astype(np.float64)
    if kind == "large":
        values *= 8.0 if param.dtype == "float16" else 2.0**30
    if kind == "special":
        count = min(-(-values.size // 2), max(len(special), values.size // 16))
        places = random.permutation(values.size)[:count]
        values.reshape(-1)[places] = np.resize(special, count)
    return values.astype(to_numpy(param.dtype))


def _integers(random: np.random.Generator, param: Buffer, kind: str) -> np.ndarray:
    if param.dtype == "bool":
        return random.integers(0, 2, param.shape).astype(np.bool_)
    low, high = integer_range(param.dtype)
    make = to_numpy(param.dtype)
    if kind == "large":
        return random.integers(low, high, param.shape, make, endpoint=True)
    if kind == "special":
        return random.choice(np.array([low, high, 0, 1], make), param.shape)
    start = 1 if kind == "positive" else max(low, -6)
    return random.integers(start, 8, param.shape).astype(make)


def _takes_nan(func: PrimFunc) -> bool:
    """Whether inputs may hold NaN: not where a reduction compares, as NaN is not ordered."""
    reductions = [b for b in blocks_in(func.body) if any(it.kind == "R" for it in b.iters)]
    return all(reducer_of(block) is not None for block in reductions)


def _index_limits(func: PrimFunc) -> dict[Buffer, int]:
    """The parameters whose elements are indices, and the limits that they must stay below."""
    limits: dict[Buffer, int] = {}
    for part in walk(func.body):
        if not isinstance(part, Load | Store):
            continue
        for size, position in zip(part.buffer.shape, part.indices, strict=True):
            for inner in walk(position):
                if isinstance(inner, Load):
                    limits[inner.buffer] = max(1, min(limits.get(inner.buffer, size), size))
    return limits
