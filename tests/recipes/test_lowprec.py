"""Products of bytes and of 16-bit floats: every unit's plan, against exact sums."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes, te
from minimlc.loops.llvm.emit import emit_llvm
from minimlc.loops.llvm.kernel import machine_of
from minimlc.loops.schedule import Schedule
from minimlc.loops.values.dtypes import integer_range, is_float, to_numpy
from minimlc.loops.values.target import Target
from tests.codegen.machines import X86
from tests.helpers import refuses
from tests.recipes.programs import SMALL_CACHES, run, target

pytestmark = pytest.mark.many

SIZES = [(64, 64, 64), (7, 17, 5), (33, 40, 129), (100, 48, 70), (1, 33, 65), (9, 128, 30)]
SIZES += [(50, 16, 31), (13, 16, 2), (40, 15, 7)]
TURNED = [(False, False), (False, True), (True, False), (True, True)]
BYTES = [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")]


def product(m, n, k, left, right, result, *, turned=(False, False), batch=()) -> mlc.IRModule:
    """C[..., i, j] += A[..., i, k] * B[..., k, j], both converted to the dtype of C first."""
    a = te.placeholder((*batch, *((k, m) if turned[0] else (m, k))), left, name="A")
    b = te.placeholder((*batch, *((n, k) if turned[1] else (k, n))), right, name="B")
    r = te.reduce_axis((0, k), name="k")

    def element(*indices):
        *outer, i, j = indices
        x = a[(*outer, r, i)] if turned[0] else a[(*outer, i, r)]
        y = b[(*outer, j, r)] if turned[1] else b[(*outer, r, j)]
        return te.sum(x.astype(result) * y.astype(result), axis=r)

    c = te.compute((*batch, m, n), element, name="C")
    return mlc.IRModule.of({"mm": te.create_prim_func([a, b, c])})


def numbers(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Random numbers; of integers, the least and the greatest are a fourth."""
    if is_float(dtype):
        return rng.standard_normal(shape).astype(to_numpy(dtype))
    low, high = integer_range(dtype)
    some = rng.integers(low, high + 1, shape)
    return np.where(rng.integers(0, 4, shape) == 0, rng.choice([low, high], shape), some).astype(
        dtype
    )


def arguments(mod: mlc.IRModule, seed: int = 0) -> list[np.ndarray]:
    *inputs, out = mod["mm"].params
    rng = np.random.default_rng(seed)
    made = [numbers(p.dtype, p.shape, rng) for p in inputs]
    return [*made, numbers(out.dtype, out.shape, rng)]


def exact(turned, arrays: list[np.ndarray]) -> np.ndarray:
    a, b = (x.astype(np.float64) for x in arrays[:2])
    a = np.swapaxes(a, -1, -2) if turned[0] else a
    b = np.swapaxes(b, -1, -2) if turned[1] else b
    return a @ b


def scheduled(mod: mlc.IRModule, chosen: Target | None = None) -> mlc.IRModule:
    return recipes.matmul(Schedule(mod, check=False), target=chosen).mod


@pytest.mark.parametrize("turned", TURNED, ids=["ab", "abT", "aTb", "aTbT"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bytes_are_summed_up_exactly(sizes, turned):
    pairs = BYTES if sizes == SIZES[0] else [BYTES[0], BYTES[1 + sum(sizes) % 3]]
    for left, right in pairs:
        mod = product(*sizes, left, right, "int32", turned=turned)
        if sizes[0] == 1 and turned[1]:
            refuses("E170", lambda mod=mod: scheduled(mod), "a reduction along each row")
            continue
        arrays = arguments(mod)
        found = run(scheduled(mod), arrays)
        np.testing.assert_array_equal(found, exact(turned, arrays).astype(np.int64))


@pytest.mark.parametrize("turned", TURNED, ids=["ab", "abT", "aTb", "aTbT"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_halves_are_summed_up_in_float32(sizes, turned):
    if sizes[0] == 1 and turned[1]:
        return
    dtype = ("bfloat16", "float16")[(SIZES.index(sizes) + TURNED.index(turned)) % 2]
    mod = product(*sizes, dtype, dtype, "float32", turned=turned)
    arrays = arguments(mod)
    found = run(scheduled(mod), arrays)
    limit = exact((turned), [np.abs(x) for x in arrays[:2]])
    error = np.abs(found - exact(turned, arrays)) / (np.finfo(np.float32).eps / 2 * limit)
    assert np.max(error) <= 6


@pytest.mark.parametrize("left", ["bfloat16", "float16", "float32"])
def test_factors_may_have_different_floats(left):
    mod = product(20, 40, 30, left, "bfloat16", "float32")
    arrays = arguments(mod)
    np.testing.assert_allclose(
        run(scheduled(mod), arrays), exact((False, False), arrays), rtol=1e-5, atol=1e-5
    )


def test_sums_wrap_around_as_the_program_s_do():
    mod = product(8, 16, 6, "int16", "int16", "int32")
    arrays = [np.full(p.shape, -32768, p.dtype) for p in mod["mm"].params[:2]]
    arrays.append(np.zeros((8, 16), np.int32))
    np.testing.assert_array_equal(run(scheduled(mod), arrays), np.int32(-(2**31)))


@pytest.mark.parametrize("dtypes", [("int8", "int8", "int32"), ("bfloat16",) * 2 + ("float32",)])
def test_blocks_for_small_caches_and_batches(dtypes):
    mod = product(40, 70, 100, *dtypes, batch=(2, 3), turned=(False, True))
    made = scheduled(mod, target(256, **SMALL_CACHES))
    arrays = arguments(mod)
    np.testing.assert_allclose(
        run(made, arrays), exact((False, True), arrays), rtol=1e-4, atol=1e-4
    )


UNITS = [
    ("+avx2,+avxvnni,+avxvnniint8", "int8", "int8", "dot_i8i8i32", "vpdpbssd"),
    ("+avx512f,+avx512bw,+avx512vl,+avx512vnni", "uint8", "int8", "dot_u8i8i32", "vpdpbusd"),
    ("+avx512f,+avx512bw,+avx512vl,+avx512vnni", "int8", "int8", "dot_i8u8i32", "vpdpbusd"),
    ("+avx512f,+avx512bw,+avx512vl,+avx512vnni", "int16", "int16", "dot_i16i16i32", "vpdpwssd"),
    ("+avx2,+avxvnni", "uint8", "int8", "dot_u8i8i32", "vpdpbusd"),
    ("+avx2,+fma", "int8", "int8", "dot_i16i16i32", "pmadd"),
    ("+neon", "int8", "int8", "dot_i16i16i32", "mul <16 x i32>"),
]


@pytest.mark.parametrize(("features", "left", "right", "intrin", "instruction"), UNITS)
def test_the_target_decides_the_unit(features, left, right, intrin, instruction):
    bits = 512 if "avx512f" in features else 128 if "neon" in features else 256
    chosen = Target("llvm", "x86-64" if X86 else "", features, bits)
    mod = product(48, 64, 36, left, right, "int32")
    made = scheduled(mod, chosen)
    assert f'"tensor_intrin": "{intrin}"' in made.script()
    assert instruction in emit_llvm(made.functions, machine_of(chosen)).text
    # Compiled for this machine, the same schedule is right with or without the instruction.
    arrays = arguments(mod)
    expected = exact((False, False), arrays).astype(np.int64).astype(np.int32)
    np.testing.assert_array_equal(run(made, arrays), expected)


def test_it_is_made_of_public_primitives_alone():
    mod = product(40, 70, 100, "int8", "int8", "int32")
    sch = recipes.matmul(Schedule(mod, check=False))
    again = Schedule.replay(mod, mlc.Trace.from_json(sch.trace.to_json()))
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)
    mlc.verify(sch.mod)


def test_what_is_added_up_too_narrowly_is_refused():
    mod = product(8, 64, 8, "int8", "int8", "int8")
    refuses("E170", lambda: scheduled(mod), "multiplies int8 by int8 and adds up in int8")
