"""Lines of the script in LLVM code: where they are, and that they change nothing else."""

import re

import pytest

import minimlc as mlc
from minimlc.loops.ir.nodes import Stmt, Store
from minimlc.loops.llvm.emit import emit_llvm
from minimlc.loops.llvm.kernel import machine_of
from minimlc.loops.llvm.machine import optimize, target_machine
from minimlc.loops.values.node import span_of, walk
from tests.widgets.values import product

LOCATION = re.compile(r", !dbg !DILocation\(line: (\d+), scope: !\d+\)| !dbg !\d+")


def read_back(sch: mlc.Schedule) -> mlc.PrimFunc:
    """The function read from its script, so that nodes know their lines."""
    return mlc.parse(sch.mod.script())["mm"]


SCHEDULES = {
    "plain": product(16),
    "vectorized": product(16)
    .split("j", factors=[None, 8])
    .reorder("i", "j_0", "k", "j_1")
    .vectorize("j_1"),
    "unrolled": product(16).split("i", factors=[None, 4]).unroll("i_1"),
    "parallel": product(16).parallel("i"),
    "local": product(16).cache_write("C", "C"),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_without_its_locations_the_text_is_the_usual_one(name):
    func, machine = read_back(SCHEDULES[name]), machine_of(mlc.Target.host())
    usual = emit_llvm({"mm": func}, machine).text
    lined = emit_llvm({"mm": func}, machine, lines=True).text
    assert "!dbg" not in usual
    body = lined[: lined.index("\n\n!llvm.dbg.cu")] + "\n"
    assert LOCATION.sub("", body) == usual


@pytest.mark.parametrize("name", SCHEDULES)
def test_instructions_note_the_line_of_their_statement(name):
    func, machine = read_back(SCHEDULES[name]), machine_of(mlc.Target.host())
    text = emit_llvm({"mm": func}, machine, lines=True).text
    lines = {int(line) for line in re.findall(r"DILocation\(line: (\d+)", text)}
    known = {
        span_of(part).line: part for part in walk(func) if isinstance(part, Stmt) and span_of(part)
    }
    assert lines <= set(known)
    stores = {line for line, part in known.items() if isinstance(part, Store)}
    assert stores <= lines
    for found in re.findall(r"^  store (?:float|<.*>) .*DILocation\(line: (\d+)", text, re.M):
        assert int(found) in stores


@pytest.mark.parametrize("name", SCHEDULES)
def test_locations_do_not_change_the_machine_code(name):
    func, machine = read_back(SCHEDULES[name]), machine_of(mlc.Target.host())
    target = target_machine(machine)
    plain, lined = (
        _instructions(
            target.emit_assembly(optimize(emit_llvm({"mm": func}, machine, lines=on).text, target))
        )
        for on in (False, True)
    )
    assert plain and plain == lined


def _instructions(assembly: str) -> list[str]:
    """The instructions and labels of the text, without directives."""
    code = assembly.partition(".section\t.debug")[0]
    lines = [line.partition("#")[0].strip() for line in code.splitlines()]
    return [line for line in lines if line and not line.startswith((".", "#", "//"))]
