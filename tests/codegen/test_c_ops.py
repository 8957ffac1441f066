"""Every operator, cast and function on every dtype: compiled C against the interpreter.

Hard values (NaN, infinities, signed zeros, subnormals, extremes), serial and vectorized, all
functions of a test in one compile.
"""

from dataclasses import replace

import numpy as np
import pytest

from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    LOGICAL,
    Buffer,
    Cast,
    For,
    PrimFunc,
    Select,
    Var,
    binary,
    const,
    index,
    intrin,
    seq,
    store,
    unary,
)
from minimlc.loops.values.dtypes import DTYPES, is_float
from minimlc.loops.values.target import Target
from minimlc.targets.c import compiler as c_compiler
from minimlc.targets.c.emit import Emitted
from tests.codegen.c_programs import Batch, compiled
from tests.codegen.machines import OLDEST, X86
from tests.codegen.test_llvm_ops import KINDS, allowed

pytestmark = pytest.mark.requires("cc")
INTEGERS = tuple(name for name, record in DTYPES.items() if record.kind in ("int", "uint"))


def all_operators(dtypes=DTYPES, kinds=KINDS) -> Batch:
    batch = Batch()
    for dtype in dtypes:
        for op in (*ARITHMETIC, *COMPARISONS, *LOGICAL, *BITWISE):

            def make(a, b, op=op, dtype=dtype):
                if op in ("//", "%") and not is_float(dtype):
                    b = Select(b.equal(0), b + 1, b)
                return binary(op, a, b)

            if allowed(make, dtype):
                for kind in kinds:
                    batch.add(kind, make, [dtype, dtype])
    return batch


def integer_corners(dtypes=INTEGERS) -> Batch:
    """Division by constants, unary operators, and expressions whose parts overflow."""
    batch = Batch()
    for dtype in dtypes:
        for divisor in (1, 3, 8, *(() if dtype.startswith("u") else (-3, -1))):
            batch.add("serial", lambda a, d=divisor: a // d, [dtype])
            batch.add("serial", lambda a, d=divisor: a % d, [dtype])
        for op in ("-", "~"):
            batch.add("serial", lambda a, op=op: unary(op, a), [dtype])
        batch.add("serial", lambda a: intrin("abs", a), [dtype])
        batch.add("serial", lambda a, b: (a * b - a) * (b + a) + 77 - a * 99, [dtype] * 2)
        one, seven = const(-1, dtype), const(-7, dtype)
        batch.add("serial", lambda a, b, i=one, j=seven: -(a * -b) - -a + i - j, [dtype] * 2)
        batch.add("serial", lambda a, b: (a * 5) // (binary("max", b, 1) * 2), [dtype] * 2)
        big = const(2**62 + 2**30 + 100, dtype)
        batch.add("serial", lambda a, big=big: big * big + a * (big - big * 3), [dtype])
        batch.add("serial", lambda a: Select(a > 3, const(2**31 - 1, a.dtype), a) * 3, [dtype])
        batch.add(
            "serial", lambda a, d=dtype: (const(2**31 - 1, d) + const(2**31 - 1, d)) + a, [dtype]
        )
        low = const(-(2**63), dtype) if dtype == "int64" else const(-(2**31), dtype)
        batch.add("serial", lambda a, low=low: Select(a > low, a, low), [dtype])
    return batch


def all_casts(sources=DTYPES) -> Batch:
    batch = Batch()
    for source in sources:
        for target in DTYPES:
            batch.add("serial", lambda a, t=target: Cast(t, a), [source])
            batch.add("vectorized", lambda a, t=target: Cast("float64", Cast(t, a)), [source])
    return batch


def test_binary_operators():
    all_operators().run()


def test_integers_and_their_corners():
    integer_corners().run()


def test_casts():
    all_casts().run()


def test_unary_operators_select_and_functions():
    batch = Batch()
    for dtype, record in DTYPES.items():
        for op in ("-", "not", "~"):
            if allowed(lambda a, b, op=op: unary(op, a), dtype):
                batch.add("vectorized", lambda a, op=op: unary(op, a), [dtype])
        batch.add("vectorized", lambda a, b: Select(a < b, a, b), [dtype, dtype])
        for function in INTRINSICS.values():
            if record.kind in function.kinds:
                batch.add(
                    "vectorized",
                    lambda *xs, f=function: intrin(f.name, *xs),
                    [dtype] * function.arity,
                    exact=function.name in ("floor", "ceil", "round", "trunc", "abs", "isnan"),
                )
    batch.run()


def test_constants_are_exact():
    batch = Batch()
    numbers = [0.1, -0.0, 1e-45, 1e-40, 3.4028235e38, 1e300, np.inf, -np.inf, np.nan, 65504.0]
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        for number in numbers:
            batch.add(
                "serial", lambda a, n=number, d=dtype: Select(a > 0.0, const(n, d), a), [dtype]
            )
            batch.add("serial", lambda a, n=number, d=dtype: const(n, d), [dtype])
    batch.run()


def test_how_tightly_operators_bind():
    def both(a, b):
        return binary("&", a, 12), binary("|", b, 3)

    integers = [
        lambda a, b: a - (b - a) - (a - b),
        lambda a, b: both(a, b)[0].equal(both(a, b)[1]),
        lambda a, b: binary("^", *both(a, b)) * binary("<<", *both(a, b)),
        lambda a, b: unary("not", binary("or", a < b, unary("not", b < a))),
        lambda a, b: binary("and", binary("or", a < b, b < 3), a > -5),
        lambda a, b: binary("or", binary("and", a < b, b < 3), binary("or", a > 5, b < -5)),
        lambda a, b: Select(Select(a < b, b < 3, a < 3), Select(a < 0, b, a), b),
        lambda a, b: unary("-", unary("-", a)) * unary("-", b - a),
        lambda a, b: Cast("float64", a + b) * Cast("float64", a),
        lambda a, b: (a < b).equal(b < a),
    ]
    batch = Batch()
    for make in integers:
        for dtype in ("int32", "int8"):
            batch.add("serial", make, [dtype, dtype])
    batch.add("serial", lambda a, b: a / (b / a) / b - (a - -b), ["float64"] * 2)
    batch.run()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_each_operation_rounds(dtype):
    batch = Batch()
    batch.add("vectorized", lambda a, b, c: a * b + c - b, [dtype] * 3)
    batch.run()


def test_every_float16_converts():
    i = Var("i")
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    singles = np.random.default_rng(0).standard_normal(65536) * 2.0 ** np.linspace(-30, 20, 65536)
    singles = singles.astype(np.float32)
    a, s = Buffer("a", (65536,), "float16"), Buffer("s", (65536,), "float32")
    x, y = Buffer("x", (65536,), "float64"), Buffer("y", (65536,), "float16")
    body = seq((store(x, (i,), Cast("float64", a[i])), store(y, (i,), Cast("float16", s[i]))))
    func = PrimFunc((a, s, x, y), (), For(i, index(65536), "vectorized", body))
    wide, near = np.zeros(65536), np.zeros_like(halves)
    compiled({"f": func})["f"](halves, singles, wide, near)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(wide, halves.astype(np.float64))
        np.testing.assert_array_equal(near, singles.astype(np.float16))


@pytest.mark.skipif(not X86, reason="code for an old x86 CPU")
def test_an_older_cpu():
    all_operators(("float32", "int32"), ["vectorized"]).run(replace(OLDEST, name="c"))


@pytest.fixture
def sanitized(monkeypatch):
    """Compiles with the compiler's own checks, which speak on stderr."""
    checks = ("-fsanitize=undefined,float-cast-overflow",)
    found = c_compiler.compiler()
    if not c_compiler._takes(found, checks):
        pytest.skip("the compiler has no sanitizer for undefined behaviour")
    monkeypatch.setattr(c_compiler, "REQUIRED", (*c_compiler.REQUIRED, *checks))
    c_compiler.flags.cache_clear()
    yield
    c_compiler.flags.cache_clear()


def test_no_behaviour_is_undefined(sanitized, capfd):
    for batch in (all_operators(kinds=["serial"]), integer_corners(), all_casts()):
        batch.run()
    assert "runtime error" not in capfd.readouterr().err
    text = "int twice(int x) { return x + x; }\n"
    emitted = Emitted(text, {}, threaded=False, simd=False, guarded=False)
    loaded = c_compiler.compile_c(emitted, Target.host("c"), cache=False)
    loaded.library.twice(2**31 - 1)
    assert "runtime error" in capfd.readouterr().err
