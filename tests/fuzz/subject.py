"""Results of a fuzzed program, on inputs that hide little, and whether another has the same."""

import re
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from multiprocessing import parent_process
from typing import NamedTuple

import numpy as np

import minimlc as mlc
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    For,
    IfThenElse,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    conjunction,
    index,
    substitute,
)
from minimlc.loops.ir.walks import blocks_in, loops_in
from minimlc.loops.proofs.arith import variables
from minimlc.loops.values.dtypes import is_float, is_integer
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import Mutator, replace
from minimlc.loops.values.target import Target
from tests.guard_pages import between_guards, isolated
from tests.helpers import copies, random_array

Arrays = Sequence[np.ndarray]
NEAR = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""How far apart results may be whose sums were taken in another order."""

INDICES = 7
"""An int64 parameter holds indices; they are below this."""

WHOLE = "whole"
"""The note `data` on a function that asks for small whole numbers: no sum of them is rounded."""

DIFFERENT = "comes out different"

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)


class Subject(NamedTuple):
    """A program with inputs and its results for them.

    `frozen` was read back from the program's text before anything was done with it; `exact` means
    that no schedule can change even the rounding.
    """

    mod: IRModule
    frozen: IRModule
    text: str
    inputs: tuple[list[np.ndarray], ...]
    expected: tuple[list[np.ndarray], ...]
    exact: bool

    def intact(self) -> bool:
        """Whether the program still is what it was before."""
        return self.mod.script() == self.text and mlc.structural_equal(self.mod, self.frozen)


def main_of(mod: IRModule) -> PrimFunc:
    """The function that is fuzzed."""
    func = mod["main"]
    assert isinstance(func, PrimFunc)
    return func


def subject(mod: IRModule, seed: int = 0) -> Subject:
    """The program with plain inputs, and again with special values among them."""
    func = main_of(mod)
    rng = np.random.default_rng(seed)
    inputs = tuple(_inputs(func, rng, special) for special in (False, True))
    expected = tuple(copies(arrays) for arrays in inputs)
    for arrays in expected:
        interpret(mod, "main", *arrays)
    text = mod.script()
    return Subject(mod, mlc.parse(text), text, inputs, expected, _keeps_rounding(func))


@lru_cache(maxsize=256)
def known_subject(mod: IRModule) -> Subject:
    """A fixed program's subject, made once."""
    return subject(mod)


def _keeps_rounding(func: PrimFunc) -> bool:
    """Whether no reduction's order matters: none is of floats."""
    reduces = any(it.kind == "R" for block in blocks_in(func.body) for it in block.iters)
    return not reduces or not any(is_float(b.dtype) for b in (*func.params, *func.allocs))


def _inputs(func: PrimFunc, rng: np.random.Generator, special: bool) -> list[np.ndarray]:
    arrays = []
    whole = dict(func.attrs).get("data") == WHOLE
    for buffer in func.params:
        if buffer.dtype == "int64":
            arrays.append(rng.integers(0, INDICES, buffer.shape))
            continue
        array = random_array(buffer.shape, buffer.dtype, rng)
        if is_float(buffer.dtype) and whole:
            array = rng.integers(-3, 4, buffer.shape).astype(array.dtype)
        arrays.append(_with_special(array, buffer.dtype, rng) if special else array)
    return arrays


def _with_special(array: np.ndarray, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Some elements NaN, infinite or a zero of either sign; of integers, some the extremes."""
    values: Sequence[float] = ()
    if is_float(dtype):
        values = SPECIAL
    elif is_integer(dtype):
        values = (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    for value in values:
        array[rng.random(array.shape) < 0.4 / len(values) / 2] = value
    return array


def alike(a: np.ndarray, b: np.ndarray, exact: bool) -> bool:
    """Equal, NaN with NaN; `exact` floats to the sign of zero, others up to rounding."""
    if a.dtype.name not in NEAR:
        return np.array_equal(a, b)
    first, second = a.astype(np.float64), b.astype(np.float64)
    if exact:
        same = np.array_equal(first, second, equal_nan=True)
        signs = (np.signbit(first) == np.signbit(second)) | np.isnan(first)
        return same and bool(signs.all())
    near = NEAR[a.dtype.name]
    return np.allclose(first, second, rtol=near, atol=near, equal_nan=True)


def wrong_results(subject: Subject, got: Sequence[Arrays], exact: bool) -> str:
    """Which result differs, for which inputs; '' if none."""
    params = main_of(subject.mod).params
    for kind, expected, arrays in zip(("plain", "special"), subject.expected, got, strict=True):
        for buffer, a, b in zip(params, expected, arrays, strict=True):
            if not alike(a, b, exact):
                return f"{buffer.name} {DIFFERENT} for {kind} inputs"
    return ""


class _Starts(Mutator):
    """Of a statement, the inits of some blocks alone, or all but these inits."""

    def __init__(self, blocks: Container[Block], alone: bool):
        self.blocks, self.alone = blocks, alone

    def visit_Store(self, item: Store) -> Stmt:
        return Seq(()) if self.alone else item

    def visit_Block(self, item: Block) -> Stmt:
        if item not in self.blocks:
            return self.visit_children(item)
        if not self.alone:
            return replace(item, init=None)
        first = conjunction(Binary("==", it.var, index(0)) for it in item.iters if it.kind == "R")
        return replace(item, init=None, body=IfThenElse(first, item.init))


def _started_by_threads(loop: For) -> list[Block]:
    """The blocks whose reduction the threads of a block share, with the init that one of them
    runs: before the others add to it.
    """
    threads = {part.var for part in loops_in(loop) if part.thread.startswith("threadIdx")}
    reductions = [block for block in blocks_in(loop) if block.init is not None]
    return [
        block
        for block in reductions
        if any(it.kind == "R" and variables(it.value) & threads for it in block.iters)
    ]


class _Backwards(Mutator):
    """Concurrent loops taken from their end: another of the orders they may run in."""

    def visit_For(self, item: For) -> Stmt:
        started = _started_by_threads(item) if item.kind == "thread_binding" else []
        if started:
            starts, rest = (_Starts(started, alone).visit(item) for alone in (True, False))
            return Seq((starts, self.visit(rest)))
        item = self.visit_children(item)
        if item.kind in ("serial", "unrolled"):
            return item
        last = substitute(item.body, {item.var: item.extent - 1 - item.var})
        return replace(item, kind="serial", thread="", body=last)


def backwards(mod: IRModule) -> IRModule:
    """The module with its concurrent loops serial, from their end."""
    return mod.with_function("main", _Backwards().visit(main_of(mod)))


def difference(before: Subject | IRModule, after: IRModule, *targets: str) -> str:
    """Why a scheduled program is wrong, by interpreter or as built; '' if it is right.

    `targets` may name "interpreter", "backwards" and the targets of `build`; all of them, if empty.
    """
    known = before if isinstance(before, Subject) else subject(before)
    for target in targets or ("interpreter", "backwards", *native_targets()):
        try:
            mlc.verify(after)
            why = _difference(known, after, target)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        if why:
            return f"{target}: {why}"
    return ""


def _difference(known: Subject, after: IRModule, target: str) -> str:
    if target not in ("interpreter", "backwards"):
        function = mlc.build(after, target=target, cache=False)["main"]
        if target == "python":  # it has no faults that end a process
            _call(function, known)
            return ""
        return native_differences([(function, known)])[0]
    got = tuple(copies(arrays) for arrays in known.inputs)
    for arrays in got:
        interpret(after if target == "interpreter" else backwards(after), "main", *arrays)
    return wrong_results(known, got, known.exact)


def native_differences(calls: Sequence[tuple[Callable[..., object], Subject]]) -> list[str]:
    """Why native code of each program is wrong; '' if it is right.

    It is called in a child process, which a fault ends. The inputs end, or begin, at a page out of
    bounds.
    """
    if len(calls) > 1 and not isolated(lambda: [_call(*call) for call in calls]):
        return [""] * len(calls)
    return [_cause(isolated(lambda call=call: _call(*call))) for call in calls]  # type: ignore[misc]


class Wrong(Exception):
    """Native code computes something else."""


def _call(function: Callable[..., object], known: Subject) -> None:
    if parent_process():  # whose threads do not run: this process is one of the fuzz's own
        mlc.set_num_threads(min(2, Target.host().cores))
    buffers = main_of(known.mod).params
    got: list[Arrays] = []
    for arrays, at_end in zip(known.inputs, (True, False), strict=True):
        pairs = zip(arrays, buffers, strict=True)
        got.append([between_guards(array, buffer.dtype, at_end) for array, buffer in pairs])
        function(*got[-1])
    why = wrong_results(known, got, exact=False)
    if why:
        raise Wrong(why)


def _cause(said: str) -> str:
    """The error with which a child ended, or the signal, without the lines that lead there."""
    if said.startswith("SIG"):
        return f"native code ended with {said.split()[0]}"
    start = re.search(r"^[\w.]+(Error|Wrong|Exception)\b", said, re.MULTILINE)
    return said[start.start() if start else 0 :].replace(f"{__name__}.Wrong: ", "").strip()


@lru_cache(maxsize=1)
def native_targets() -> tuple[str, ...]:
    """The native back-ends that this machine has."""
    return tuple(name for name in ("llvm", "c") if _builds(name))


def _builds(target: str) -> bool:
    text = '@T.prim_func\ndef main(A: T.Buffer((1,), "int32")):\n    A[0] = 1\n'
    try:
        mlc.build(mlc.parse(text), target=target, cache=False)
    except mlc.CompileError:
        return False
    return True
