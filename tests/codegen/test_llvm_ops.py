"""Every operator, cast and function on every dtype: compiled code against the interpreter.

Each is run on hard values (NaN, infinities, signed zeros, subnormals, extremes), as a scalar loop
and as a vectorized one whose length leaves a tail.
"""

import re
import warnings
from functools import partial

import numpy as np
import pytest

from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    LOGICAL,
    Buffer,
    Cast,
    Expr,
    For,
    LoopKind,
    PrimFunc,
    Select,
    Var,
    binary,
    index,
    intrin,
    seq,
    store,
    unary,
)
from minimlc.loops.values.dtypes import DTYPES, integer_range, is_float, to_numpy
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.target import Target
from minimlc.services.build import build
from tests.codegen.machines import MACHINES, OLDEST, X86

pytestmark = pytest.mark.many

FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, 0.1, 6e-8, 1e-40, 65504.0, 3e38, -2.5, 7.0]
LENGTH = 37
ULP = {"float64": 2e-15, "float32": 1e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def hard_values(dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dtype == "bool":
            return rng.integers(0, 2, LENGTH).astype(np.bool_)
        if is_float(dtype):
            values = np.concatenate([FLOATS, rng.standard_normal(LENGTH - len(FLOATS)) * 4])
        else:
            low, high = integer_range(dtype)
            edges = [low, high, 0, 1, min(high, 7), max(low, -3), high - 1]
            rest = rng.integers(max(low, -50), 50, LENGTH - len(edges)).tolist()
            values = np.array([*edges, *rest], to_numpy(dtype))
        return rng.permutation(values.astype(to_numpy(dtype)))


def run_both(kind: LoopKind, make, dtypes: list[str], exact: bool, **options) -> None:
    """`make` gives an expression of elements of inputs of `dtypes`; run it over all of them."""
    i = Var("i")
    inputs = [Buffer(f"x{n}", (LENGTH,), d) for n, d in enumerate(dtypes)]
    value: Expr = make(*[b[i] for b in inputs])
    out = Buffer("out", (LENGTH,), value.dtype)
    func = PrimFunc((*inputs, out), (), For(i, index(LENGTH), kind, store(out, (i,), value)))
    mod = IRModule.of({"f": func})
    arrays = [hard_values(d, seed) for seed, d in enumerate(dtypes)]
    expected, got = (np.zeros(LENGTH, to_numpy(value.dtype)) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpret(mod, "f", *arrays, expected)
    build(mod, cache=False, **options)["f"](*arrays, got)
    if is_float(value.dtype):
        got, expected = got.astype(np.float64), expected.astype(np.float64)
    limit = 0 if exact else ULP.get(value.dtype, 0)
    np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)


def allowed(make, dtype: str) -> bool:
    try:
        make(*[Buffer("x", (1,), dtype)[0]] * 2)
    except CompileError:
        return False
    return True


KINDS: list[LoopKind] = ["serial", "vectorized"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_binary_operators(dtype, kind):
    for op in (*ARITHMETIC, *COMPARISONS, *LOGICAL, *BITWISE):

        def make(a, b, op=op):
            if op in ("//", "%") and not is_float(dtype):
                b = Select(b.equal(0), b + 1, b)
            if op in ("<<", ">>"):
                b = binary("&", b, 7)
            return binary(op, a, b)

        if allowed(make, dtype):
            run_both(kind, make, [dtype, dtype], exact=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("divisor", [1, 3, 8, -3, -1])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
def test_division_by_constants(dtype, divisor, kind):
    if dtype == "uint8":
        divisor = abs(divisor)
    run_both(kind, lambda a: a // divisor, [dtype], exact=True)
    run_both(kind, lambda a: a % divisor, [dtype], exact=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_unary_operators_and_select(dtype, kind):
    for op in ("-", "not", "~"):
        if allowed(lambda a, b, op=op: unary(op, a), dtype):
            run_both(kind, lambda a, op=op: unary(op, a), [dtype], exact=True)
    run_both(kind, lambda a, b: Select(a < b, a, b), [dtype, dtype], exact=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", DTYPES)
def test_casts(source, kind):
    for target in DTYPES:
        run_both(kind, lambda a, target=target: Cast(target, a), [source], exact=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions(dtype, kind):
    for record in INTRINSICS.values():
        if DTYPES[dtype].kind in record.kinds:
            run_both(
                kind,
                lambda *xs, r=record: intrin(r.name, *xs),
                [dtype] * record.arity,
                exact=False,
            )


def rounded_by_hand(a, b, c):
    """Each operation of float32, and rounded."""
    product = Cast(a.dtype, Cast("float32", a) * Cast("float32", b))
    return Cast(a.dtype, Cast("float32", product) - Cast("float32", c))


ROUNDED = {"as written": lambda a, b, c: a * b + c - b, "by hand": rounded_by_hand}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", ROUNDED)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_each_operation_rounds(dtype, make, kind):
    run_both(kind, ROUNDED[make], [dtype] * 3, exact=True)


@pytest.mark.skipif(not X86, reason="code for an x86 CPU")
@pytest.mark.parametrize("make", ROUNDED)
def test_a_cpu_that_calculates_with_16_bits_fuses_none_of_them(make):
    """LLVM makes operations of 16 bits from rounded ones of 32 bits, with their flags."""
    i, (*inputs, out) = Var("i"), (Buffer(name, (32,), "float16") for name in "abco")
    value = ROUNDED[make](*(each[i] for each in inputs))
    body = For(i, index(32), "vectorized", store(out, (i,), value))
    mod = IRModule.of({"f": PrimFunc((*inputs, out), (), body)})
    target = Target("llvm", "sapphirerapids", "+avx512f,+avx512fp16,+avx512vl,+fma,+f16c", 512)
    text = build(mod, target, cache=False).source("asm")
    assert not re.search(r"\bvf\w*(add|sub)\w*[ps]h\b", text)


@pytest.mark.skipif(not X86, reason="code for an old x86 CPU")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_cpu_without_wide_vectors_and_half_conversions(dtype, kind):
    target = OLDEST
    for other in DTYPES:
        run_both(kind, lambda a, t=other: Cast(t, a), [dtype], exact=True, target=target)
    for op in ARITHMETIC:
        make = partial(binary, op)
        if (is_float(dtype) or op not in ("//", "%")) and allowed(make, dtype):
            run_both(kind, make, [dtype, dtype], exact=True, target=target)
    if is_float(dtype):
        for name in ("floor", "ceil", "round", "trunc", "exp"):
            run_both(kind, lambda a, n=name: intrin(n, a), [dtype], exact=False, target=target)


def test_every_float16_converts():
    i = Var("i")
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    doubles = np.random.default_rng(0).standard_normal(65536) * 2.0 ** np.linspace(-30, 20, 65536)
    doubles[0] = 1 + 2.0**-11 + 2.0**-40  # by way of float32 it is 1
    a, d = Buffer("a", (65536,), "float16"), Buffer("d", (65536,), "float64")
    x, y = Buffer("x", (65536,), "float64"), Buffer("y", (65536,), "float16")
    z = Buffer("z", (65536,), "float16")
    body = seq(
        (
            store(x, (i,), Cast("float64", a[i])),
            store(y, (i,), Cast("float16", d[i])),
            store(z, (i,), Cast("float16", Cast("float32", d[i]))),
        )
    )
    func = PrimFunc((a, d, x, y, z), (), For(i, index(65536), "vectorized", body))
    for target in MACHINES:
        wide, near, twice = np.zeros(65536), np.zeros_like(halves), np.zeros_like(halves)
        build(func, target, cache=False)["main"](halves, doubles, wide, near, twice)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(wide, halves.astype(np.float64))
            np.testing.assert_array_equal(near, doubles.astype(np.float16))
            rounded = doubles.astype(np.float32).astype(np.float16)
            np.testing.assert_array_equal(twice, rounded)
