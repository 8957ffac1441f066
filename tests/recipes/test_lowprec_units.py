"""Whole products in the instructions of machines that we have not, run on a model of them."""

import re

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.llvm.emit import emit_llvm
from minimlc.loops.llvm.kernel import machine_of
from minimlc.loops.llvm.machine import compile_assembly
from minimlc.loops.values.target import Target
from tests.codegen.machines import X86
from tests.codegen.x86_model import run as run_model
from tests.recipes.programs import run
from tests.recipes.test_lowprec import arguments, exact, product, scheduled

pytestmark = [pytest.mark.skipif(not X86, reason="assembles x86 code"), pytest.mark.many]

AVX512 = "+avx512f,+avx512bw,+avx512vl,+avx2,+avx,+fma,+f16c,+sse2"
SMALL = {"l1": 4096, "l2": 16384, "l3": 65536}
SAPPHIRE = Target(
    "llvm", "sapphirerapids", f"{AVX512},+avx512vnni,+amx-tile,+amx-int8,+amx-bf16", 512, **SMALL
)
ICE_LAKE = Target("llvm", "icelake-server", f"{AVX512},+avx512vnni", 512, **SMALL)
ZEN_4 = Target("llvm", "znver4", f"{AVX512},+avx512vnni,+avx512bf16", 512, **SMALL)
SIERRA = Target("llvm", "sierraforest", "+avx2,+fma,+f16c,+avxvnni,+avxvnniint8", 256, **SMALL)
ALDER = Target("llvm", "alderlake", "+avx2,+fma,+f16c,+avxvnni", 256, **SMALL)
SIZES = [(64, 64, 128), (33, 40, 130), (14, 50, 70), (65, 33, 31)]


def half(cases):
    """Each case with two of the four sizes, which take turns."""
    return [
        (*case, SIZES[number % 2 + more]) for number, case in enumerate(cases) for more in (0, 2)
    ]


@pytest.mark.parametrize(
    ("dtypes", "instruction", "sizes"),
    half(
        [
            (("int8", "int8", "int32"), "tdpbssd"),
            (("int8", "uint8", "int32"), "tdpbsud"),
            (("uint8", "int8", "int32"), "tdpbusd"),
            (("uint8", "uint8", "int32"), "tdpbuud"),
            (("bfloat16", "bfloat16", "float32"), "tdpbf16ps"),
        ]
    ),
)
def test_on_tiles(sizes, dtypes, instruction):
    turned = (sizes[0] == 33, sizes[0] == 65)
    mod = product(*sizes, *dtypes, turned=turned)
    made = scheduled(mod, SAPPHIRE)
    arrays = arguments(mod)
    used, tiles = run_model(made, SAPPHIRE, arrays)
    assert instruction in used and not tiles.faults
    assert tiles.used["ldtilecfg"] == tiles.used["tilerelease"] >= 1
    check(arrays[2], turned, arrays, dtypes)
    # The same schedule, compiled for this machine.
    check(run(made, arrays), turned, arrays, dtypes)


def check(found, turned, arrays, dtypes):
    if dtypes[2] == "int32":
        np.testing.assert_array_equal(found, exact(turned, arrays).astype(np.int64))
        return
    limit = exact(turned, [np.abs(x) for x in arrays[:2]])
    error = np.abs(found - exact(turned, arrays)) / (np.finfo(np.float32).eps / 2 * limit)
    assert np.max(error) <= 6


@pytest.mark.parametrize(
    ("chosen", "dtypes", "instruction", "sizes"),
    half(
        [
            (ICE_LAKE, ("uint8", "int8", "int32"), "avx512.vpdpbusd.512"),
            (ICE_LAKE, ("int8", "int8", "int32"), "avx512.vpdpbusd.512"),
            (SIERRA, ("int8", "int8", "int32"), "avx2.vpdpbssd.256"),
            (SIERRA, ("uint8", "int8", "int32"), "avx512.vpdpbusd.256"),
            (ALDER, ("int8", "int8", "int32"), "avx512.vpdpbusd.256"),
            (ALDER, ("int8", "uint8", "int32"), "avx512.vpdpbusd.256"),
            (ICE_LAKE, ("uint8", "uint8", "int32"), "avx512.vpdpbusd.512"),
            (ZEN_4, ("bfloat16", "bfloat16", "float32"), "avx512bf16.dpbf16ps.512"),
        ]
    ),
    ids=lambda item: getattr(item, "cpu", None),
)
def test_in_vectors(sizes, chosen, dtypes, instruction):
    mod = product(*sizes, *dtypes)
    arrays = arguments(mod)
    used, _ = run_model(scheduled(mod, chosen), chosen, arrays)
    assert used == {instruction}
    check(arrays[2], (False, False), arrays, dtypes)


@pytest.mark.parametrize(
    ("dtype", "interleave"), [("int8", "interleave_i8u8"), ("uint8", "interleave_u8i8")]
)
def test_bytes_get_their_offset_while_they_are_interleaved(dtype, interleave):
    made = scheduled(product(64, 64, 128, dtype, dtype, "int32"), ICE_LAKE)
    assert f'"tensor_intrin": "{interleave}"' in made.script()


def test_each_thread_sets_up_tiles_of_its_own():
    mod = product(200, 300, 128, "int8", "int8", "int32")
    made = scheduled(mod, SAPPHIRE)
    assert "T.parallel" in made.script()
    arrays = arguments(mod)
    _, tiles = run_model(made, SAPPHIRE, arrays)
    assert not tiles.faults
    check(arrays[2], (False, False), arrays, ("int8", "int8", "int32"))


def test_the_order_of_the_instructions_on_tiles():
    """Two tiles of each factor are loaded, four of C updated; nothing else is in the inner loop."""
    mod = product(64, 64, 128, "bfloat16", "bfloat16", "float32")
    machine = machine_of(SAPPHIRE)
    text = compile_assembly(emit_llvm(scheduled(mod, SAPPHIRE).functions, machine).text, machine)
    order = re.findall(r"^\s+(ldtilecfg|tile\w+|tdp\w+)", text, re.M)
    loop = ["tileloadd"] * 4 + ["tdpbf16ps"] * 4
    ends = ["tilezero"] * 4, ["tilestored"] * 4
    assert order == ["ldtilecfg", *ends[0], *loop, *ends[1], "tilerelease"]
    numbers = re.findall(r"tdpbf16ps\s+%tmm(\d), %tmm(\d), %tmm(\d)", text)
    assert len({c for _, _, c in numbers}) == 4


def test_without_tile_registers_they_are_memory():
    mod = product(64, 64, 128, "int8", "int8", "int32")
    made = scheduled(mod, SAPPHIRE)
    text = emit_llvm(made.functions, machine_of(ICE_LAKE)).text
    assert '"amx.tile"' in made.script() and "llvm.x86" not in text


def test_a_tile_used_otherwise_puts_all_of_them_into_memory():
    mod = product(64, 64, 128, "int8", "int8", "int32")
    script = scheduled(mod, SAPPHIRE).script()
    other = script.replace('T.block_attr({"tensor_intrin": "amx_zero_i32"})', "", 1)
    assert other != script
    text = emit_llvm(mlc.parse(other).functions, machine_of(SAPPHIRE)).text
    assert "llvm.x86" not in text
