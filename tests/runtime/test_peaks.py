"""The measured peaks: plausible numbers, and the roof they make."""

import pytest

import minimlc as mlc
from minimlc.loops.llvm.machine import Machine, compile_assembly
from minimlc.machine.peaks import _fma_text, fma_loop
from tests.codegen.machines import OLDEST, USUAL, X86


def test_the_roof():
    peaks = mlc.Peaks(100.0, 20.0)
    assert peaks.ridge == 5.0
    assert [peaks.attainable(intensity) for intensity in (1.0, 5.0, 50.0)] == [20.0, 100.0, 100.0]


def test_this_machine_is_measured_once():
    peaks = mlc.machine_peaks()
    assert peaks is mlc.machine_peaks()
    assert 1e8 < peaks.operations < 1e13 and 1e8 < peaks.bytes < 1e13
    assert peaks.machine


def test_the_loop_takes_its_steps():
    loop, operations = fma_loop()
    assert operations == 2 * 12 * (mlc.Target.host().vector_bits // 32)
    assert loop(1) != 0 and loop(10) > loop(1)


@pytest.mark.skipif(not X86, reason="code for x86 CPUs")
@pytest.mark.parametrize("target", [OLDEST, USUAL], ids=lambda target: target.cpu)
def test_the_loop_is_arithmetic_on_machines_without_fused_multiply_adds_too(target):
    machine = Machine(target.cpu, target.features, target.vector_bits)
    text = compile_assembly(_fma_text(target.vector_bits // 32), machine)
    assert "mulps" in text or "fmadd" in text
    assert "call" not in text
