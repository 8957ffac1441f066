"""Helpers of the tests of transforms: random arguments, "means the same", "refuses"."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minimlc import IRModule
from minimlc.graphs.ir import nodes as graph
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import Buffer, PrimFunc
from minimlc.loops.values.dtypes import integer_range, is_float, to_numpy
from minimlc.loops.values.errors import MAX_LINES, CompileError

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}


def some_and_more(few: range, all_of_them: range) -> list[Any]:
    """Numbers to try, in two parts; the second only where a thorough run is asked for."""
    rest = range(few.stop, all_of_them.stop)
    return [pytest.param(few), pytest.param(rest, marks=pytest.mark.requires("thorough"))]


def random_array(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Floats around 0, integers from -10 (0 if unsigned) to 10, both signs; truth values."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if is_float(dtype):
        return rng.standard_normal(shape).astype(to_numpy(dtype))
    return rng.integers(max(-10, integer_range(dtype)[0]), 11, shape).astype(to_numpy(dtype))


def _random_value(wanted: Buffer | graph.Type, rng: np.random.Generator) -> Any:
    if isinstance(wanted, graph.TupleType):
        return tuple(_random_value(field, rng) for field in wanted.fields)
    return random_array(wanted.shape, wanted.dtype, rng)


def random_args(func: PrimFunc | graph.Function, rng: np.random.Generator) -> list[Any]:
    """One random array per parameter; the outputs' too, so what is not written shows."""
    wanted = [p if isinstance(p, Buffer) else p.type for p in func.params]
    return [_random_value(w, rng) for w in wanted]


def copies(args: Any) -> list[Any]:
    return [tuple(copies(a)) if isinstance(a, tuple) else a.copy() for a in args]


def assert_close(a: Any, b: Any, exact: bool = False) -> None:
    """Equal arrays (or tuples of them): NaN equals NaN, floats may differ by rounding."""
    if isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_close(x, y, exact)
        return
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if exact or a.dtype.name not in TOLERANCE:
        np.testing.assert_array_equal(a, b)
        return
    limit = TOLERANCE[a.dtype.name]
    np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=limit, atol=limit)


def assert_same(
    before: IRModule,
    after: IRModule,
    func: str | None = None,
    seed: int = 0,
    exact: bool = False,
) -> None:
    """Both modules compute the same: run by the interpreter, every argument and result compared.

    `func` may be left out where the module has one function. With `exact`, floats compare equal.
    """
    name = next(iter(before.functions)) if func is None else func
    args = random_args(before[name], np.random.default_rng(seed))
    again = copies(args)
    first, second = interpret(before, name, *args), interpret(after, name, *again)
    assert_close(tuple(args), tuple(again), exact)
    if first is not None:
        assert_close(first, second, exact)


def refuses(code: str, call: Callable[[], Any], *words: str) -> CompileError:
    """`call` raises a CompileError of that code, at most 15 lines, that has all `words`."""
    with pytest.raises(CompileError) as caught:
        call()
    text = str(caught.value)
    assert caught.value.code == code, text
    assert len(text.split("\n")) <= MAX_LINES
    for word in words:
        assert word in text, text
    return caught.value


def calls(function: Callable[..., Any], *args: Any) -> int:
    """How many function calls `function(*args)` makes: its work, whatever the machine's load."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
    return count
