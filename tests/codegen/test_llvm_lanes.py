"""Masks of one lane, which LLVM 22.1.0 stores as wide as they were before a truncation."""

import numpy as np
import pytest

from minimlc.loops.llvm.emit import emit_llvm
from minimlc.loops.llvm.machine import Machine, optimize, target_machine
from minimlc.script import parse
from minimlc.services.build import build
from tests.codegen.machines import WIDE, X86
from tests.guard_pages import guarded, isolated, needs_guard_pages


def last_alone(wide: str, narrow: str, size: int, part: int):
    """Rows whose elements a guarded loop over parts narrows: the last part has one of them."""
    return parse(f"""@T.prim_func
def main(A: T.Buffer((2, {size}), "{wide}"), C: T.Buffer((2, {size}), "{narrow}")):
    X = T.alloc_buffer((2, {size + 1}), "{wide}")
    for i, j in T.grid(2, {size}):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] + T.{wide}(1)
    for r, j_0, j_1 in T.grid(2, 2, {part}):
        with T.block("C"):
            vr = T.axis.spatial(2, r)
            vj = T.axis.spatial({size}, j_0 * {part} + j_1)
            T.where(j_0 * {part} + j_1 < {size})
            C[vr, vj] = T.cast(X[vr, vj], "{narrow}")
""")


KINDS = pytest.mark.parametrize(("wide", "narrow"), [("int16", "int8"), ("int32", "int16")])
SIZES = pytest.mark.parametrize(("size", "part"), [(4, 3), (8, 7), (9, 8), (17, 16)])


@KINDS
@SIZES
@needs_guard_pages
def test_a_lane_ends_with_its_array(wide, narrow, size, part):
    native = build(last_alone(wide, narrow, size, part), target="llvm")["main"]
    values, result = guarded((2, size), wide), guarded((2, size), narrow)
    values[...] = np.arange(-size, size).reshape(2, size)

    def check():
        native(values, result)
        assert (result == values + 1).all()

    assert not isolated(check)


@pytest.mark.skipif(not X86, reason="compiles for x86")
@KINDS
@SIZES
def test_a_mask_of_one_lane_is_never_stored(wide, narrow, size, part):
    machine = Machine(WIDE.cpu, WIDE.features, WIDE.vector_bits)
    text = emit_llvm({"main": last_alone(wide, narrow, size, part)["main"]}, machine).text
    optimized = str(optimize(text, target_machine(machine)))
    masked = [line for line in optimized.splitlines() if "call void @llvm.masked.store" in line]
    assert not [line for line in masked if line.count("i1 true") == 1]
    assert f"store i{narrow[3:]} %lane0" in optimized
