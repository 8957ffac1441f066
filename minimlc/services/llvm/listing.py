"""Listings to read: a function's LLVM code and assembly, each line with its line of the script.

They are made for a named machine, whichever runs this: the same text everywhere.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import llvmlite.binding as llvm

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.llvm.emit import emit_llvm
from minimlc.loops.llvm.machine import Machine, optimize
from minimlc.loops.llvm.value import symbol
from minimlc.loops.values.errors import BuildError

ARCHITECTURES = {
    "x86_64": ("sse2", "sse4.2", "avx", "avx2", "avx512f"),
    "aarch64": ("neon", "sve"),
}
"""LLVM's names of architectures, and features that imply them."""

LOCATION = re.compile(r",? !dbg !(?:DILocation\(line: (\d+), scope: !\d+\)|(\d+))")
RECORD = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+)", re.M)
LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
LABEL = re.compile(r"([^\s:#]+):")
NUMBERS = re.compile(r", (?:![\w.]+ !\d+|#\d+)+$")


class Line(NamedTuple):
    """A line of code, and the script's line that it is for, counted from 1; 0 for none."""

    text: str
    script: int


class Listing(NamedTuple):
    """LLVM code as it was written or as LLVM optimized it, and assembly."""

    llvm: tuple[Line, ...]
    assembly: tuple[Line, ...]


def listing(name: str, func: PrimFunc, machine: Machine, *, optimized: bool = False) -> Listing:
    """The code of one function, its parallel loops' bodies before it. `func` comes from a script:
    its nodes know their lines. `BuildError` where this LLVM has no such architecture.
    """
    text = emit_llvm({name: func}, machine, lines=True).text
    target = _target_machine(machine)
    module = optimize(text, target)
    shown = str(module) if optimized else text
    _keep_gaps()
    return Listing(
        tuple(_llvm_lines(shown, symbol(name))),
        tuple(_assembly_lines(target.emit_assembly(module), symbol(name))),
    )


def architecture(machine: Machine) -> str:
    """LLVM's name of a machine's architecture, implied by its features; "" if they imply none."""
    have = {feature[1:] for feature in machine.features.split(",") if feature.startswith("+")}
    return next((a for a, features in ARCHITECTURES.items() if have & set(features)), "")


def _target_machine(machine: Machine) -> llvm.TargetMachine:
    """LLVM's code generator for a Linux of the machine's architecture."""
    _prepare_all()
    host = llvm.get_process_triple()
    kind = architecture(machine) or host.partition("-")[0].replace("arm64", "aarch64")
    try:
        target = llvm.Target.from_triple(f"{kind}-unknown-linux-gnu")
    except RuntimeError as error:
        why = f"this LLVM makes no code for {kind}: {error}"
        raise BuildError(why, code="E502", hint="name a target of another architecture") from None
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3, reloc="pic", codemodel="default"
    )


@functools.cache
def _prepare_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def _keep_gaps() -> None:
    """From now on, mark code without a line, instead of going on with the line before."""
    llvm.set_option("minimlc", "--use-unknown-locations=Enable")


def _llvm_lines(text: str, function: str) -> Iterator[Line]:
    lines = {int(number): int(line) for number, line in RECORD.findall(text)}
    inside = False
    for full in text.split("\n"):
        if full.startswith("define "):
            inside = _is_shown(full.partition("@")[2].partition("(")[0].strip('"'), function)
        if not inside:
            continue
        note = LOCATION.search(full)
        plain = LOCATION.sub("", full).rstrip()
        yield Line(NUMBERS.sub("", plain), _line_of(note, lines) if note else 0)
        if full == "}":
            yield Line("", 0)
            inside = False


def _line_of(note: re.Match[str], lines: Mapping[int, int]) -> int:
    return int(note[1]) if note[1] else lines.get(int(note[2]), 0)


def _is_shown(name: str, function: str) -> bool:
    """Whether code is a function's or a parallel loop's in it, not the task that calls the loop."""
    in_loop = name.startswith(f"{function}.parallel") and not name.endswith(".task")
    return name == function or in_loop


def _assembly_lines(text: str, function: str) -> Iterator[Line]:
    """Labels and instructions; no directives, which are for the assembler and the linker."""
    inside, line = False, 0
    for full in text.split("\n"):
        code = full.split("\t#")[0].split("\t//")[0].rstrip()
        label = LABEL.match(code)
        if label and not label[1].startswith(".L"):
            inside, line = _is_shown(label[1].strip('"'), function), 0
        elif label and label[1].startswith((".Lfunc_end", ".Ltmp", ".Lfunc_begin")):
            if inside and label[1].startswith(".Lfunc_end"):
                yield Line("", 0)
                inside = False
            continue
        if not inside:
            continue
        if place := LOC.match(code):
            line = int(place[1])
        elif label:
            yield Line(code, 0)
        elif code.strip() and not code.strip().startswith((".", "#", "//")):
            yield Line("    " + code.strip().replace("\t", " "), line)
