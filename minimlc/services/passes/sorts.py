"""Sorts, top-k and bisection as loop programs, for rows of fixed size and dtype.

Their scripts are read once for each size: names around them are constants, and the comparison is a
function that the script calls.
"""

# mypy: disable-error-code="valid-type"

from collections.abc import Callable
from functools import lru_cache
from math import ceil
from typing import Any

from minimlc.loops.ir.nodes import For, PrimFunc
from minimlc.loops.values.dtypes import is_float
from minimlc.loops.values.node import replace
from minimlc.script import T

RUN = 32
"""Maximum length of a run that is sorted by insertion; longer ones are merged from such runs."""
LANES = 32
"""Values whose places are found together, in vectors."""
SHARED = 1 << 12
"""Minimum number of elements for which rows are shared out over threads."""
THREADS = 256
"""Maximum number of threads in a GPU's block."""


def less(a: Any, b: Any) -> Any:
    return a < b


def greater(a: Any, b: Any) -> Any:
    return b < a


def float_less(a: Any, b: Any) -> Any:
    """a < b, where NaN is the greatest value."""
    return not b <= a and a == a


def float_greater(a: Any, b: Any) -> Any:
    """a > b, where NaN is the greatest value."""
    return not a <= b and b == b


def order_of(dtype: str, descending: bool = False) -> Callable[[Any, Any], Any]:
    """The comparison that is true where its first operand comes before the second."""
    if is_float(dtype):
        return float_greater if descending else float_less
    return greater if descending else less


def finished(program: Any, work: int = 0) -> PrimFunc:
    """A program without its name, which a module gives; its outermost loop is parallel where the
    `work`, in elements, is worth threads.
    """
    loop = program.body
    assert isinstance(program, PrimFunc)
    if isinstance(loop, For) and work >= SHARED:
        loop = replace(loop, kind="parallel")
    return replace(program, body=loop, attrs=())


@lru_cache(maxsize=64)
def argsort(rows: int, size: int, dtype: str, descending: bool) -> PrimFunc:
    """A stable merge sort of (rows, size) elements along the last axis: order[r, :] as int64.

    Runs of at most 32 are sorted by insertion. Then pairs of runs are merged, element by element
    into the place `at`, from `i` of the first or `j` of the second, without a branch on data.
    """
    levels = (ceil(size / RUN) - 1).bit_length()
    length = ceil(size / 2**levels)
    runs = ceil(size / length)
    before = order_of(dtype, descending)

    @T.prim_func
    def argsort(x: T.Buffer((rows, size), dtype), order: T.Buffer((rows, size), "int64")):
        for row in range(rows):
            with T.block("argsort"):
                r = T.axis.spatial(rows, row)
                keys = T.alloc_buffer((size,), dtype)
                old = T.alloc_buffer((size,), "int64")
                old_keys = T.alloc_buffer((size,), dtype)
                width = T.alloc_buffer((1,), "int64")
                at = T.alloc_buffer((1,), "int64")
                i = T.alloc_buffer((1,), "int64")
                middle = T.alloc_buffer((1,), "int64")
                j = T.alloc_buffer((1,), "int64")
                end = T.alloc_buffer((1,), "int64")
                second = T.alloc_buffer((1,), "bool")
                best = T.alloc_buffer((1,), "int64")
                for run in range(runs):
                    for n in range(T.min(length, size - run * length)):
                        at[0] = run * length + n
                        while at[0] > run * length and before(
                            x[r, run * length + n], keys[at[0] - 1]
                        ):
                            order[r, at[0]] = order[r, at[0] - 1]
                            keys[at[0]] = keys[at[0] - 1]
                            at[0] = at[0] - 1
                        order[r, at[0]] = run * length + n
                        keys[at[0]] = x[r, run * length + n]
                width[0] = length
                for level in range(levels):
                    for n in range(size):
                        old[n] = order[r, n]
                    for n in range(size):
                        old_keys[n] = keys[n]
                    at[0] = 0
                    while at[0] < size:
                        i[0] = at[0]
                        middle[0] = T.min(at[0] + width[0], size)
                        j[0] = middle[0]
                        end[0] = T.min(middle[0] + width[0], size)
                        while i[0] < middle[0] and j[0] < end[0]:
                            second[0] = before(old_keys[j[0]], old_keys[i[0]])
                            best[0] = T.if_then_else(second[0], j[0], i[0])
                            order[r, at[0]] = old[best[0]]
                            keys[at[0]] = old_keys[best[0]]
                            i[0] = i[0] + 1 - T.cast(second[0], "int64")
                            j[0] = j[0] + T.cast(second[0], "int64")
                            at[0] = at[0] + 1
                        while i[0] < middle[0]:
                            order[r, at[0]] = old[i[0]]
                            keys[at[0]] = old_keys[i[0]]
                            i[0] = i[0] + 1
                            at[0] = at[0] + 1
                        while j[0] < end[0]:
                            order[r, at[0]] = old[j[0]]
                            keys[at[0]] = old_keys[j[0]]
                            j[0] = j[0] + 1
                            at[0] = at[0] + 1
                    width[0] = 2 * width[0]

    return finished(argsort, rows * size if rows > 1 else 0)


@lru_cache(maxsize=64)
def argsort_by_threads(rows: int, size: int, dtype: str, descending: bool) -> PrimFunc:
    """A stable merge sort of (rows, size) elements by a block of a GPU's threads for each row.

    Pairs of runs are merged, twice as long at each level. A thread computes places of the result:
    it finds `low`, the number of elements of the first run that come before its place, by bisection
    (O. Green, R. McColl, D. Bader, GPU Merge Path, 2012), so no place that is written depends on
    data.
    """
    threads = min(THREADS, -(-size // 32) * 32)
    places_each = ceil(size / threads)
    levels = (size - 1).bit_length()
    before = order_of(dtype, descending)

    @T.prim_func
    def argsort(x: T.Buffer((rows, size), dtype), order: T.Buffer((rows, size), "int64")):
        keys = T.alloc_buffer((rows, size), dtype, scope="shared")
        places = T.alloc_buffer((rows, size), "int32", scope="shared")
        new_keys = T.alloc_buffer((rows, size), dtype, scope="shared")
        new_places = T.alloc_buffer((rows, size), "int32", scope="shared")
        start = T.alloc_buffer((1,), "int64", scope="local")
        first = T.alloc_buffer((1,), "int64", scope="local")
        rest = T.alloc_buffer((1,), "int64", scope="local")
        at = T.alloc_buffer((1,), "int64", scope="local")
        low = T.alloc_buffer((1,), "int64", scope="local")
        high = T.alloc_buffer((1,), "int64", scope="local")
        middle = T.alloc_buffer((1,), "int64", scope="local")
        for r in T.thread_binding(rows, thread="blockIdx.x"):
            for t in T.thread_binding(threads, thread="threadIdx.x"):
                for p in range(places_each):
                    if p * threads + t < size:
                        keys[r, p * threads + t] = x[r, p * threads + t]
                        places[r, p * threads + t] = T.cast(p * threads + t, "int32")
            for level in range(levels):
                for t1 in T.thread_binding(threads, thread="threadIdx.x"):
                    for p in range(places_each):
                        if p * threads + t1 < size:
                            start[0] = (p * threads + t1) // (2 << level) * (2 << level)
                            first[0] = T.min(1 << level, size - start[0])
                            rest[0] = T.min(1 << level, size - start[0] - first[0])
                            at[0] = p * threads + t1 - start[0]
                            low[0] = T.max(0, at[0] - rest[0])
                            high[0] = T.min(at[0], first[0])
                            for step in range(level + 1):
                                middle[0] = (low[0] + high[0]) // 2
                                if low[0] < high[0]:
                                    if before(
                                        keys[r, start[0] + first[0] + at[0] - 1 - middle[0]],
                                        keys[r, start[0] + middle[0]],
                                    ):
                                        high[0] = middle[0]
                                    else:
                                        low[0] = middle[0] + 1
                            middle[0] = start[0] + low[0]
                            if at[0] - low[0] < rest[0]:
                                if low[0] >= first[0]:
                                    middle[0] = start[0] + first[0] + at[0] - low[0]
                                else:
                                    if before(
                                        keys[r, start[0] + first[0] + at[0] - low[0]],
                                        keys[r, start[0] + low[0]],
                                    ):
                                        middle[0] = start[0] + first[0] + at[0] - low[0]
                            new_keys[r, p * threads + t1] = keys[r, middle[0]]
                            new_places[r, p * threads + t1] = places[r, middle[0]]
                for t2 in T.thread_binding(threads, thread="threadIdx.x"):
                    for p in range(places_each):
                        if p * threads + t2 < size:
                            keys[r, p * threads + t2] = new_keys[r, p * threads + t2]
                            places[r, p * threads + t2] = new_places[r, p * threads + t2]
            for t3 in T.thread_binding(threads, thread="threadIdx.x"):
                for p in range(places_each):
                    if p * threads + t3 < size:
                        order[r, p * threads + t3] = T.cast(places[r, p * threads + t3], "int64")

    return finished(argsort)


@lru_cache(maxsize=64)
def topk(rows: int, size: int, dtype: str, descending: bool, kept: int) -> PrimFunc:
    """The places of the first `kept` elements of each row, in order: order[r, :kept] as int64.

    An element that comes before the last one kept is inserted at its place; the last drops out.
    """
    before = order_of(dtype, descending)

    @T.prim_func
    def topk(x: T.Buffer((rows, size), dtype), order: T.Buffer((rows, kept), "int64")):
        for row in range(rows):
            with T.block("topk"):
                r = T.axis.spatial(rows, row)
                at = T.alloc_buffer((1,), "int64")
                for i in range(size):
                    if i < kept or before(x[r, i], x[r, order[r, kept - 1]]):
                        at[0] = T.min(i, kept - 1)
                        while at[0] > 0 and before(x[r, i], x[r, order[r, at[0] - 1]]):
                            order[r, at[0]] = order[r, at[0] - 1]
                            at[0] = at[0] - 1
                        order[r, at[0]] = i

    return finished(topk, rows * size if rows > 1 else 0)


@lru_cache(maxsize=64)
def searchsorted(size: int, count: int, dtype: str, right: bool) -> PrimFunc:
    """The places of `count` values in a sorted vector of `size` elements, by bisection.

    ceil(size / 2**step) elements are left at each step, and the first half of them is known to come
    before a value or not; 32 values take each step together, in vectors.
    """
    before = order_of(dtype)
    lanes = min(LANES, count)
    blocks = ceil(count / lanes)
    steps = (size - 1).bit_length() + 1

    def comes_after(value: Any, element: Any) -> Any:
        return not before(value, element) if right else before(element, value)

    @T.prim_func
    def searchsorted(
        x: T.Buffer((size,), dtype),
        values: T.Buffer((count,), dtype),
        places: T.Buffer((count,), "int64"),
    ):
        for i in range(blocks):
            with T.block("searchsorted"):
                v = T.axis.spatial(blocks, i)
                at = T.alloc_buffer((lanes,), "int64")
                key = T.alloc_buffer((lanes,), dtype)
                for n in T.vectorized(lanes):
                    at[n] = 0
                    key[n] = values[T.min(v * lanes + n, count - 1)]
                for step in T.unroll(steps):
                    half = T.max((size + (1 << step) - 1 >> step) // 2, 1)
                    for n in T.vectorized(lanes):
                        at[n] = at[n] + T.if_then_else(
                            comes_after(key[n], x[at[n] + half - 1]), half, 0
                        )
                for n in range(T.min(lanes, count - v * lanes)):
                    places[v * lanes + n] = at[n]

    return finished(searchsorted, count * steps if blocks > 1 else 0)
