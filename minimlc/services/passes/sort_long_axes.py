"""Sorting of long axes, and search in them, by programs of n log n steps."""

from collections.abc import Callable
from functools import lru_cache
from math import ceil, inf, prod
from typing import Any, NamedTuple

from minimlc.graphs.ir.nodes import (
    Call,
    Expr,
    TensorType,
    Tuple,
    TupleGetItem,
    call_tir,
    size_names,
)
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops import OPS
from minimlc.graphs.ops.checks import axis_of
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.dtypes import DTYPES, INDEX, is_float
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import replace
from minimlc.loops.values.target import CPUS, Target
from minimlc.script import parse

WRITTEN = ("argsort", "searchsorted")
"""Operators that programs compute; the others are composed of them."""
OPERATORS = (*WRITTEN, "padded_nonzero", "padded_unique", "sort", "topk")
LONG = 64
"""The most elements for which each is compared with each, in vectors."""
FEW = 128
"""The most places for which one pass over all elements keeps the first ones in order."""
RUN = 32
"""The most elements of a run, which is sorted by insertion before runs are merged."""
SIDE_BY_SIDE = 32
"""Values that are searched for together."""
SHARED = 1 << 12
"""Elements from which on rows are divided among threads."""
MEMORY, THREADS = 48 * 1024, 256
"""Bytes that the threads of a GPU's block share on every device, and how many they are at most."""


@module_pass
def sort_long_axes(mod: IRModule, target: str | Target | None = None) -> IRModule:
    """Replace operators that sort more than 64 elements, or search in as many, by the operators
    they are composed of, and the sort or search itself by a program.

        lv = R.sort(x)         -->    order = R.call_tir("argsort", (x,), ...)
                                      lv = R.take_along_axis(x, order)

    It merges runs, where the operator compares each with each; for a top-k of 128 at most, it goes
    over all once and keeps the first k in order. On a GPU the threads of a block sort a row that
    its memory holds; each place is searched for by one thread. Functions of symbolic sizes stay
    as they are.
    """
    if Target.of(target).name in CPUS:
        return _Sorted(Programs(OPERATORS, WRITTEN, argsort, FEW, inf))(mod)
    operators = ("argsort", "padded_unique", "sort", "topk")
    return _Sorted(Programs(operators, ("argsort",), argsort_by_threads, 0, MEMORY))(mod)


Before = Callable[[str, str], str]
"""The text of the condition that one element comes before another one."""


class Programs(NamedTuple):
    """Programs for a target: the operators that are replaced, the ones that are written as
    programs, the text of a sort, the most places of a top-k in one pass, and the bytes of memory
    for elements, their places, and a copy of both.
    """

    operators: tuple[str, ...]
    written: tuple[str, ...]
    argsort: Callable[[int, int, str, Before], str]
    few: int
    memory: float

    def give(self, call: Call) -> bool:
        """Whether a program gives the value of a call."""
        if call.op not in self.written:
            return False
        return 2 * _size_of(call) * (DTYPES[call.args[0].dtype].bits // 8 + 4) <= self.memory


class _Sorted(Mutator):
    def __init__(self, programs: Programs):
        self.programs = programs

    def visit_Call(self, call: Call) -> Expr:
        if call.op not in self.programs.operators or size_names(*[arg.type for arg in call.args]):
            return call
        x, attrs = call.args[0], _attrs_of(call)
        if _size_of(call) <= LONG or any(0 in arg.shape for arg in call.args):
            return call
        if call.op in self.programs.written:
            return self.by_programs(call, {})
        if call.op == "topk" and attrs["k"] <= self.programs.few:
            axis, descending = attrs["axis"], attrs["largest"]
            order = self.ordered(x, axis=axis, descending=descending, kept=attrs["k"])
            return Tuple((OPS["take_along_axis"](x, order, axis=axis), order))
        result = OPS[call.op].formula(x, **attrs)
        whole = Tuple(tuple(result)) if isinstance(result, tuple) else result
        return self.by_programs(whole, {})

    def by_programs(self, value: Expr, done: dict[Expr, Expr]) -> Expr:
        """A formula with calls of programs for its operators; `done` has its parts, each once."""
        if value in done:
            return done[value]
        new = value
        match value:
            case Call(args=args):
                new = replace(value, args=tuple([self.by_programs(arg, done) for arg in args]))
                if self.programs.give(new):
                    program = self.ordered if new.op == "argsort" else self.found
                    new = program(*new.args, **_attrs_of(new))
            case Tuple(fields=fields):
                new = Tuple(tuple([self.by_programs(field, done) for field in fields]))
            case TupleGetItem(tuple=whole):
                new = replace(value, tuple=self.by_programs(whole, done))
            case _:  # other nodes: nothing is inside them
                pass
        return done.setdefault(value, new)

    def ordered(self, x: Any, *, axis: int, descending: bool, kept: int = 0) -> Any:
        """The order of `x` along an axis, or the first `kept` places of it."""
        along = axis_of(axis, x.ndim)
        lead = [other for other in range(x.ndim) if other != along]
        size, rows = x.shape[along], prod(x.shape[other] for other in lead)
        reshape, transpose = OPS["reshape"], OPS["permute_dims"]
        table = reshape(transpose(x, axes=(*lead, along)), shape=(rows, size))
        before = comparing(x.dtype, descending)
        if kept:
            text = topk(rows, size, kept, x.dtype, before)
        else:
            text = self.programs.argsort(rows, size, x.dtype, before)
        order = self.called(text, (table,), (rows, kept or size))
        order = reshape(order, shape=(*(x.shape[other] for other in lead), kept or size))
        back = sorted(range(x.ndim), key=[*lead, along].__getitem__)
        return transpose(order, axes=tuple(back))

    def found(self, x: Any, values: Any, *, right: bool) -> Any:
        """The places of `values` in the vector `x`."""
        count = prod(values.shape)
        flat = OPS["reshape"](values, shape=(count,))
        text = searchsorted(x.shape[0], count, x.dtype, right)
        return OPS["reshape"](self.called(text, (x, flat), (count,)), shape=values.shape)

    def called(self, text: str, args: tuple[Expr, ...], shape: tuple[int, ...]) -> Expr:
        """A call of the program of a text."""
        name, func = _program(text)
        return call_tir(self.builder.add_func(func, name), args, TensorType(shape, INDEX))


def _size_of(call: Call) -> int:
    """The number of elements that a call sorts or searches in."""
    x, attrs = call.args[0], _attrs_of(call)
    return x.shape[axis_of(attrs["axis"], x.ndim)] if "axis" in attrs else prod(x.shape)


def _attrs_of(call: Call) -> dict[str, Any]:
    """A call's options, defaults included."""
    return {**dict(OPS[call.op].attrs), **dict(call.attrs)}


@lru_cache(maxsize=64)
def _program(text: str) -> tuple[str, PrimFunc]:
    ((name, func),) = parse(text).entries
    assert isinstance(func, PrimFunc)
    return name, func


def comparing(dtype: str, descending: bool = False) -> Before:
    """The condition that one element comes before another one, in ascending order or in descending;
    NaN is the greatest.
    """

    def before(a: str, b: str) -> str:
        a, b = (b, a) if descending else (a, b)
        return f"(not {b} <= {a} and {a} == {a})" if is_float(dtype) else f"{a} < {b}"

    return before


def loop(rows: int, size: int) -> str:
    """The text of a loop's range over rows."""
    return f"T.parallel({rows})" if rows > 1 and rows * size >= SHARED else f"range({rows})"


def argsort(rows: int, size: int, dtype: str, before: Before) -> str:
    """Merge sort: runs of 32 at most by insertion; then pairs are merged, element by element into
    the place `at`, from `i` of the first or `j` of the second. Which one it is decides no branch.
    """
    levels = (ceil(size / RUN) - 1).bit_length()
    length = ceil(size / 2**levels)
    return f"""
@T.prim_func
def argsort(x: T.Buffer(({rows}, {size}), "{dtype}"), order: T.Buffer(({rows}, {size}), "int64")):
    for row in {loop(rows, size)}:
        with T.block("argsort"):
            r = T.axis.spatial({rows}, row)
            keys = T.alloc_buffer(({size},), "{dtype}")
            old = T.alloc_buffer(({size},), "int64")
            old_keys = T.alloc_buffer(({size},), "{dtype}")
            width = T.alloc_buffer((1,), "int64")
            at = T.alloc_buffer((1,), "int64")
            i = T.alloc_buffer((1,), "int64")
            middle = T.alloc_buffer((1,), "int64")
            j = T.alloc_buffer((1,), "int64")
            end = T.alloc_buffer((1,), "int64")
            second = T.alloc_buffer((1,), "bool")
            best = T.alloc_buffer((1,), "int64")
            for run in range({ceil(size / length)}):
                for n in range(T.min({length}, {size} - run * {length})):
                    at[0] = run * {length} + n
                    while at[0] > run * {length} and {before(f"x[r, run * {length} + n]", "keys[at[0] - 1]")}:
                        order[r, at[0]] = order[r, at[0] - 1]
                        keys[at[0]] = keys[at[0] - 1]
                        at[0] = at[0] - 1
                    order[r, at[0]] = run * {length} + n
                    keys[at[0]] = x[r, run * {length} + n]
            width[0] = {length}
            for level in range({levels}):
                for n in range({size}):
                    old[n] = order[r, n]
                for n in range({size}):
                    old_keys[n] = keys[n]
                at[0] = 0
                while at[0] < {size}:
                    i[0] = at[0]
                    middle[0] = T.min(at[0] + width[0], {size})
                    j[0] = middle[0]
                    end[0] = T.min(middle[0] + width[0], {size})
                    while i[0] < middle[0] and j[0] < end[0]:
                        second[0] = {before("old_keys[j[0]]", "old_keys[i[0]]")}
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
"""  # noqa: E501


def argsort_by_threads(rows: int, size: int, dtype: str, before: Before) -> str:
    """Merge sort of pairs of runs, twice as long at each level. A thread has places of the result
    and finds by bisection how many elements of the first run come before, `low` (O. Green, R.
    McColl, D. Bader, GPU Merge Path, 2012), so no place of a write depends on data.
    """
    threads = min(THREADS, -(-size // 32) * 32)
    places = f"for p in range({ceil(size / threads)}):"
    all_threads = f'in T.thread_binding({threads}, thread="threadIdx.x"):'
    inside = f"if p * {threads} + {{0}} < {size}:"
    numbers = ("start", "first", "rest", "at", "low", "high", "middle")
    buffers = "\n    ".join(f'{x} = T.alloc_buffer((1,), "int64", scope="local")' for x in numbers)
    second, other = "start[0] + first[0] + at[0] - low[0]", "start[0] + low[0]"
    probe = "start[0] + first[0] + at[0] - 1 - middle[0]"
    return f"""
@T.prim_func
def argsort(x: T.Buffer(({rows}, {size}), "{dtype}"), order: T.Buffer(({rows}, {size}), "int64")):
    keys = T.alloc_buffer(({rows}, {size}), "{dtype}", scope="shared")
    places = T.alloc_buffer(({rows}, {size}), "int32", scope="shared")
    new_keys = T.alloc_buffer(({rows}, {size}), "{dtype}", scope="shared")
    new_places = T.alloc_buffer(({rows}, {size}), "int32", scope="shared")
    {buffers}
    for r in T.thread_binding({rows}, thread="blockIdx.x"):
        for t {all_threads}
            {places}
                {inside.format("t")}
                    keys[r, p * {threads} + t] = x[r, p * {threads} + t]
                    places[r, p * {threads} + t] = T.cast(p * {threads} + t, "int32")
        for level in range({(size - 1).bit_length()}):
            for t1 {all_threads}
                {places}
                    {inside.format("t1")}
                        start[0] = (p * {threads} + t1) // (2 << level) * (2 << level)
                        first[0] = T.min(1 << level, {size} - start[0])
                        rest[0] = T.min(1 << level, {size} - start[0] - first[0])
                        at[0] = p * {threads} + t1 - start[0]
                        low[0] = T.max(0, at[0] - rest[0])
                        high[0] = T.min(at[0], first[0])
                        for step in range(level + 1):
                            middle[0] = (low[0] + high[0]) // 2
                            if low[0] < high[0]:
                                if {before(f"keys[r, {probe}]", "keys[r, start[0] + middle[0]]")}:
                                    high[0] = middle[0]
                                else:
                                    low[0] = middle[0] + 1
                        middle[0] = {other}
                        if at[0] - low[0] < rest[0]:
                            if low[0] >= first[0]:
                                middle[0] = {second}
                            else:
                                if {before(f"keys[r, {second}]", f"keys[r, {other}]")}:
                                    middle[0] = {second}
                        new_keys[r, p * {threads} + t1] = keys[r, middle[0]]
                        new_places[r, p * {threads} + t1] = places[r, middle[0]]
            for t2 {all_threads}
                {places}
                    {inside.format("t2")}
                        keys[r, p * {threads} + t2] = new_keys[r, p * {threads} + t2]
                        places[r, p * {threads} + t2] = new_places[r, p * {threads} + t2]
        for t3 {all_threads}
            {places}
                {inside.format("t3")}
                    order[r, p * {threads} + t3] = T.cast(places[r, p * {threads} + t3], "int64")
"""


def topk(rows: int, size: int, kept: int, dtype: str, before: Before) -> str:
    """One pass: an element before the last one kept goes to its place, and the last one out."""
    return f"""
@T.prim_func
def topk(x: T.Buffer(({rows}, {size}), "{dtype}"), order: T.Buffer(({rows}, {kept}), "int64")):
    for row in {loop(rows, size)}:
        with T.block("topk"):
            r = T.axis.spatial({rows}, row)
            at = T.alloc_buffer((1,), "int64")
            for i in range({size}):
                if i < {kept} or {before("x[r, i]", f"x[r, order[r, {kept - 1}]]")}:
                    at[0] = T.min(i, {kept - 1})
                    while at[0] > 0 and {before("x[r, i]", "x[r, order[r, at[0] - 1]]")}:
                        order[r, at[0]] = order[r, at[0] - 1]
                        at[0] = at[0] - 1
                    order[r, at[0]] = i
"""


def searchsorted(size: int, count: int, dtype: str, right: bool) -> str:
    """Bisection, as in the operator's formula: in each step, half of the elements that are left are
    found to come before a value or not. Some values take each step together, in vectors.
    """
    before, left, steps = comparing(dtype), size, ""
    side = min(SIDE_BY_SIDE, count)
    while left:
        half = max(left // 2, 1)
        probe, value = f"x[at[n] + {half - 1}]", "own[n]"
        passes = f"not {before(value, probe)}" if right else before(probe, value)
        steps += f"""
            for n in T.vectorized({side}):
                at[n] = at[n] + T.if_then_else({passes}, {half}, 0)"""
        left -= half
    blocks = ceil(count / side)
    return f"""
@T.prim_func
def searchsorted(
    x: T.Buffer(({size},), "{dtype}"),
    values: T.Buffer(({count},), "{dtype}"),
    places: T.Buffer(({count},), "int64"),
):
    for i in {loop(blocks, side * size.bit_length())}:
        with T.block("searchsorted"):
            v = T.axis.spatial({blocks}, i)
            at = T.alloc_buffer(({side},), "int64")
            own = T.alloc_buffer(({side},), "{dtype}")
            for n in T.vectorized({side}):
                at[n] = 0
                own[n] = values[T.min(v * {side} + n, {count - 1})]{steps}
            for n in range(T.min({side}, {count} - v * {side})):
                places[v * {side} + n] = at[n]
"""
