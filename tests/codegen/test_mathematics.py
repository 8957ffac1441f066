"""The stated bounds of the functions in float32, special values, and the same bits everywhere."""

import math
from functools import partial

import numpy as np
import pytest

from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import Buffer, Const, For, PrimFunc, Var, index, intrin, store
from minimlc.loops.math.functions import PROGRAMS, ULP_BOUNDS
from minimlc.loops.values.module import IRModule
from minimlc.services.build import build
from minimlc.targets.c.functions import FUNCTIONS
from tests.codegen.machines import MACHINES, USUAL, WIDE

pytestmark = pytest.mark.many

STRIDE = 2**32 // 2**17
NEAR = 40000
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-39, 3.4e38, -3.4e38, 1.0, -1.0]
CC = pytest.mark.requires("cc")
CORNERS = [-0.6, 0.6, -12.9, -13.1, -14.1, -14.2, -14.35, -14.4, -14.5, -40.0, 5.5, 14.4]
"""Where gelu bends, gets subnormal, and ends."""
POWERS = [*SPECIAL, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e10, 2.0**24 - 1, 1.0000001]
TRUE = {
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, [np.float64]),
    "sigmoid": lambda x: np.where(x < 0, np.exp(-abs(x)), 1) / (1 + np.exp(-abs(x))),
    "gelu": lambda x: np.vectorize(exact_gelu, [np.float64])(x),
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "pow": np.power,
}


def exact_gelu(x):
    """x * Phi(x) with 15 places, also in its tail; at -inf its limit."""
    return -0.0 if x < -60 else x * 0.5 * math.erfc(-x / math.sqrt(2))


def kernel(name, size, target="llvm", kind="vectorized", dtype="float32"):
    """A loop over arrays, built."""
    arity = 2 if name == "pow" else 1
    params = [Buffer(f"x{number}", (size,), dtype) for number in range(arity)]
    out, i = Buffer("out", (size,), dtype), Var("i")
    body = For(i, index(size), kind, store(out, (i,), intrin(name, *(p[i] for p in params))))
    func = PrimFunc((*params, out), (), body)
    if target == "interpreter":
        return partial(interpret, IRModule({"main": func}), "main")
    return build(func, target, cache=False)["main"]


def computed(name, arrays, target="llvm", kind="vectorized"):
    out = np.zeros_like(arrays[0])
    kernel(name, len(out), target, kind, out.dtype.name)(*arrays, out)
    return out


def inputs(name):
    """All exponents with both signs, the ranges where the functions bend, and special values."""
    spread = np.arange(0, 2**32, STRIDE, dtype=np.uint64).astype(np.uint32).view(np.float32)
    rng = np.random.default_rng(0)
    near = [rng.uniform(-r, r, NEAR) for r in (1, 10, 100, 7000)]
    x = np.concatenate([np.float32(SPECIAL + CORNERS), spread, *near], dtype=np.float32)
    return powers(rng, x) if name == "pow" else [x]


def powers(rng, x):
    """Any two floats, tame ones, whole exponents, bases near 1, and each pair of special values."""
    tame, whole = np.exp(rng.normal(0, 1.5, NEAR)), rng.uniform(-3, 3, NEAR)
    one = 1 + rng.choice([-1, 1], NEAR) * rng.uniform(1e-6, 1e-3, NEAR)
    pairs = np.array(np.meshgrid(POWERS, POWERS)).reshape(2, -1)
    sides = [
        (x, rng.permutation(x)),
        (tame, rng.uniform(-30, 30, NEAR)),
        (whole, rng.integers(-60, 60, NEAR)),
        (one, rng.uniform(-88, 88, NEAR) / np.log(one)),
        pairs,
    ]
    return [np.concatenate([np.float32(side[n]) for side in sides]) for n in range(2)]


def errors(name, got, arrays):
    """In units in the last place of the true value; what is not finite must be just so."""
    with np.errstate(all="ignore"):
        exact = TRUE[name](*(a.astype(np.float64) for a in arrays))
        want = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    unit = np.spacing(np.abs(want[finite])).astype(np.float64)
    return np.abs(got[finite].astype(np.float64) - exact[finite]) / unit


@pytest.mark.parametrize("name", ULP_BOUNDS)
@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
def test_bounds(name, target):
    arrays = inputs(name)
    largest = errors(name, computed(name, arrays, target), arrays).max()
    assert largest <= ULP_BOUNDS[name]


@pytest.mark.requires("cc")
@pytest.mark.parametrize("name", ULP_BOUNDS)
def test_bounds_of_generated_c(name):
    arrays = inputs(name)
    largest = errors(name, computed(name, arrays, "c", "serial"), arrays).max()
    assert largest <= ULP_BOUNDS[name]


@pytest.mark.parametrize("name", ULP_BOUNDS)
@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
def test_scalar_and_vector_code_agree(name, target):
    arrays = [array[::7] for array in inputs(name)]
    arrays = [np.ascontiguousarray(array) for array in arrays]
    vector, scalar = (computed(name, arrays, target, kind) for kind in ("vectorized", "serial"))
    np.testing.assert_array_equal(vector, scalar)


@pytest.mark.skipif(WIDE not in MACHINES, reason="this machine has no AVX-512")
@pytest.mark.parametrize("name", ULP_BOUNDS)
def test_machines_with_and_without_powers_of_two_agree(name):
    """Multiplied by 2**n at once or by two factors, the value is rounded once."""
    arrays = inputs(name)
    if name == "exp":
        arrays = [np.concatenate([arrays[0], np.linspace(-104.5, -86, 40000, dtype="float32")])]
    one, other = (computed(name, arrays, target) for target in (USUAL, WIDE))
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_only_machines_with_powers_of_two_scale():
    for target, scales in ((USUAL, False), (WIDE, True)):
        i, a, b = Var("i"), *(Buffer(name, (64,), "float32") for name in "ab")
        body = For(i, index(64), "vectorized", store(b, (i,), intrin("exp", a[i])))
        library = build(PrimFunc((a, b), (), body), target)
        assert ("@llvm.ldexp.v64f32.v64i32(" in library.source("llvm")) is scales


ENDS = ("exp", "log", "log2", "log10", "tanh", "erf", "sigmoid", "gelu", "sin", "cos")


@pytest.mark.parametrize("name", ENDS)
def test_zeros_and_ends_are_numpys(name):
    x = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        want = TRUE[name](x.astype(np.float64)).astype(np.float32)
    got = computed(name, [x])
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)  # The sign of a NaN means nothing; numpy's is another on other CPUs.
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "target", ["interpreter", "python", *MACHINES, pytest.param("c", marks=CC)]
)
def test_logarithms_of_powers_of_their_base_are_whole(target, dtype):
    """Subnormal ones, too, where they are exact; and 2 to whole powers."""
    info = np.finfo(dtype)
    twos = np.arange(info.minexp - info.nmant, info.maxexp)
    tens = np.arange(-307 if dtype == "float64" else -37, 309 if dtype == "float64" else 39)
    for name, base, exponents in (("log2", 2, twos), ("log10", 10, tens)):
        x = np.array([float(f"1e{e}") if base == 10 else 2.0**e for e in exponents]).astype(dtype)
        assert (computed(name, [x], target, "serial") == exponents).all()
    two, powers = np.full(len(twos), 2, dtype), twos.astype(dtype)
    assert (computed("pow", [two, powers], target, "serial") == 2.0**powers).all()


def test_special_powers_are_numpys():
    pairs = np.array(np.meshgrid(POWERS, POWERS), np.float32).reshape(2, -1)
    x, y = (np.ascontiguousarray(side) for side in pairs)
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    got = computed("pow", [x, y])
    np.testing.assert_array_max_ulp(got, want, 3)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_close_to_multiples_of_a_right_angle(name):
    """Where the result is smallest beside the argument: the floats around k * pi / 2."""
    at = np.float32(np.arange(1, 4096) * (math.pi / 2))
    x = np.concatenate([np.nextafter(at, np.float32(0)), at, np.nextafter(at, np.float32(1e9))])
    assert errors(name, computed(name, [x]), [x]).max() <= ULP_BOUNDS[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_vectorized_loop_calls_nothing_but_for_rare_lanes(name):
    size = 64
    arity = 2 if name == "pow" else 1
    params = [Buffer(f"x{number}", (size,), "float32") for number in range(arity)]
    out, i = Buffer("out", (size,), "float32"), Var("i")
    body = For(
        i, index(size), "vectorized", store(out, (i,), intrin(name, *(p[i] for p in params)))
    )
    text = build(PrimFunc((*params, out), (), body), cache=False).source("llvm")
    assert (f"@{name}f(" in text) is (PROGRAMS[name].rare is not None)


def test_generated_c_spells_each_program_out():
    assert {f"{name}_f32" for name in PROGRAMS} <= set(FUNCTIONS)
    assert "expf(" not in FUNCTIONS["exp_f32"] + FUNCTIONS["sigmoid_f32"]
    assert "return sinf(x);" in FUNCTIONS["sin_f32"]


@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
def test_gelu_keeps_its_places_in_the_tail(target):
    """Where 1 + erf(x / sqrt(2)) has lost them: down to the least float32."""
    x = np.linspace(-14.5, -0.3, 2**18, dtype=np.float32)
    got = computed("gelu", [x], target)
    assert errors("gelu", got, [x]).max() <= ULP_BOUNDS["gelu"]
    assert got.max() <= 0 and np.signbit(got).all()
    assert errors("gelu", INTRINSICS["gelu"].meaning(x), [x]).max() <= 0.501
    assert not got[x <= -14.4].any() and got[x >= -14.2].all()


@pytest.mark.parametrize("target", ["llvm", "python", pytest.param("c", marks=CC)])
def test_gelu_of_other_dtypes_keeps_its_places_too(target):
    for dtype in ("float64", "float16"):
        x = np.linspace(-30, 5, 200).astype(dtype)
        out, exact = np.zeros_like(x), TRUE["gelu"](x.astype(np.float64))
        kernel("gelu", len(x), target, "serial", dtype)(x, out)
        unit = 1e-12 * np.abs(exact) if dtype == "float64" else np.spacing(np.abs(out)) * 0.51
        assert (np.abs(out - exact) <= unit).all()
        ends = np.array([-np.inf, -0.0, np.inf, np.nan], dtype)
        kernel("gelu", 4, target, "serial", dtype)(ends, out[:4])
        np.testing.assert_array_equal(out[:4], [-0.0, -0.0, np.inf, np.nan])
        assert np.signbit(out[:2]).all()


@pytest.mark.parametrize("target", ["interpreter", "llvm", "python", pytest.param("c", marks=CC)])
def test_one_exponent_for_all_is_an_exponent_like_any_other(target):
    """numpy would take a square root for 0.5, which is another number at -0.0 and -inf."""
    x, out, i = Buffer("x", (4,), "float32"), Buffer("out", (4,), "float32"), Var("i")
    value = intrin("pow", x[i], Const(0.5, "float32"))
    func = PrimFunc((x, out), (), For(i, index(4), "serial", store(out, (i,), value)))
    given, found = np.float32([-np.inf, -0.0, 4, 0.25]), np.zeros(4, np.float32)
    if target == "interpreter":
        interpret(IRModule.of({"main": func}), "main", given, found)
    else:
        build(func, target, cache=False)["main"](given, found)
    np.testing.assert_array_equal(found, np.float32([np.inf, 0.0, 2, 0.5]))
    assert not np.signbit(found[1])
