"""Listings: whose lines are whose, for machines of two architectures, whichever runs this."""

import re

import pytest

import minimlc as mlc
from minimlc.loops.llvm.machine import Machine
from minimlc.loops.values.errors import BuildError
from minimlc.services.llvm.listing import architecture, listing
from tests.widgets.values import product

AVX2 = Machine("x86-64-v3", "+avx,+avx2,+fma,+f16c", 256)
NEON = Machine("cortex-a76", "+neon", 128)
PARALLEL = product(16).parallel("i")
LANES = product(16).reorder("i", "k", "j").vectorize("j")


def read(sch: mlc.Schedule) -> tuple[list[str], mlc.PrimFunc]:
    """The script's lines, and the function read from it."""
    script = sch.mod.script()
    return ["", *script.split("\n")], mlc.parse(script)["mm"]


@pytest.mark.parametrize("machine", [AVX2, NEON])
@pytest.mark.parametrize("optimized", [False, True])
def test_multiplications_are_of_the_line_that_multiplies(machine, optimized):
    lines, func = read(LANES)
    made = listing("mm", func, machine, optimized=optimized)
    multiplied = {line.script for line in made.llvm if " fmul " in line.text}
    fused = {line.script for line in made.assembly if re.search(r" (vfmadd|fmla)", line.text)}
    assert multiplied == fused and len(fused) == 1
    assert "A[vi, vk] * B[vk, vj]" in lines[fused.pop()]


def test_nothing_of_the_debug_information_is_left():
    _, func = read(PARALLEL)
    for optimized in (False, True):
        made = listing("mm", func, AVX2, optimized=optimized)
        text = "\n".join(line.text for line in (*made.llvm, *made.assembly))
        assert not re.search(r"!dbg|!\d|\.loc|\.Ltmp|\.cfi|\.section|debug", text)


def test_a_parallel_loops_body_is_shown_and_what_calls_it_is_not():
    _, func = read(PARALLEL)
    made = listing("mm", func, AVX2)
    defined = [line.text.split("@")[1].split("(")[0] for line in made.llvm if "define" in line.text]
    assert defined == ["mlc.mm.parallel1", "mlc.mm"]
    labels = [line.text for line in made.assembly if re.match(r"[^.\s].*:$", line.text)]
    assert labels == ["mlc.mm.parallel1:", "mlc.mm:"]


def test_a_listing_is_for_its_machine():
    _, func = read(LANES)
    texts = {}
    for machine in (AVX2, NEON, Machine("x86-64-v4", "+avx512f,+avx512vl,+fma", 512)):
        texts[machine.cpu] = "\n".join(line.text for line in listing("mm", func, machine).assembly)
    assert "%ymm" in texts["x86-64-v3"] and "%zmm" not in texts["x86-64-v3"]
    assert "%zmm" in texts["x86-64-v4"]
    assert "v1.4s" in texts["cortex-a76"] and "%" not in texts["cortex-a76"]


def test_the_architecture_is_told_from_features():
    assert [architecture(m) for m in (AVX2, NEON)] == ["x86_64", "aarch64"]
    assert architecture(Machine("", "", 128)) == ""


def test_an_architecture_that_llvm_lacks(monkeypatch):
    monkeypatch.setattr("minimlc.services.llvm.listing.architecture", lambda machine: "nosuch")
    with pytest.raises(BuildError, match="no code for nosuch"):
        listing("mm", read(LANES)[1], AVX2)
