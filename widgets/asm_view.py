"""A function as script, LLVM code and assembly, side by side, with matching lines linked."""

from collections.abc import Sequence
from html import escape
from importlib import import_module
from typing import Any, NamedTuple

from minimlc_widgets.assembly import assembly_tokens, innermost_loops, llvm_tokens
from minimlc_widgets.base import View, source
from minimlc_widgets.functions import function_of, read_back
from minimlc_widgets.lexer import Tokens, script_tokens
from minimlc_widgets.static import lines_html, script_html
from traitlets import Bool, Dict, Int, List, Unicode

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.llvm.kernel import backend
from minimlc.loops.values.errors import CompileError, did_you_mean
from minimlc.loops.values.target import Target

MOST_LINES = 2000
"""Longer listings are cut, with a note."""

AVX2 = "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2"
AVX512 = f"{AVX2},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
AMX = f"{AVX512},+avx512bf16,+avx512vnni,+amx-tile,+amx-bf16,+amx-int8"
TARGETS = {
    "sse2": Target("llvm", "x86-64", "+sse2", 128),
    "avx2": Target("llvm", "x86-64-v3", AVX2, 256),
    "avx512": Target("llvm", "x86-64-v4", AVX512, 512),
    "amx": Target("llvm", "sapphirerapids", AMX, 512),
    "neon": Target("llvm", "cortex-a76", "+neon", 128),
}
"""Machines to show code for, by the vectors or tiles that they have."""


class AsmView(View):
    """The primitive function `name` of a module, schedule or library, from script to assembly.

    Pointing at a line marks the lines that it became, and came from; a click, or Enter, keeps
    that. `pin` keeps a line from the start: its number, or a text in it. `target` is a `Target`, or
    "sse2", "avx2", "avx512", "amx" or "neon": a named machine and not the one at hand, so that a
    page reads the same everywhere. The LLVM code is what minimlc wrote, or, `optimized`, what LLVM
    made of it. In the assembly vector registers are marked, and the innermost loops (`loops`).
    Lines are LLVM's debug locations: what was merged or moved from several lines has none.
    `BuildError` for what does not compile.
    """

    _esm = source("prelude.js", "asm_view.js")
    _css = source("base.css", "diff.css", "asm_view.css")
    title = Unicode().tag(sync=True)
    machine = Unicode().tag(sync=True)
    columns = List(Dict()).tag(sync=True)
    marked = List(Dict()).tag(sync=True)
    optimized = Bool().tag(sync=True)
    pinned = Int().tag(sync=True)

    def __init__(
        self,
        mod: Any,
        name: str | None = None,
        target: str | Target = "avx2",
        optimized: bool = False,
        pin: int | str = 0,
    ) -> None:
        self.target = _target(target)
        found, func = function_of(mod, name)
        self.script, read = read_back(found, func)
        self.listing = _listing(found, read, self.target, optimized)
        self.loops = innermost_loops([line.text for line in self.listing.assembly])
        lines = self.script.split("\n")
        numbers = range(1, len(lines) + 1)
        code = [
            _column("script", script_tokens(self.script), numbers),
            _column(
                "LLVM, optimized" if optimized else "LLVM",
                [llvm_tokens(line.text) for line in self.listing.llvm],
                [line.script for line in self.listing.llvm],
            ),
            _column(
                "assembly",
                [assembly_tokens(line.text) for line in self.listing.assembly],
                [line.script for line in self.listing.assembly],
            ),
        ]
        super().__init__(
            title=found,
            machine=_machine_text(self.target),
            columns=code,
            marked=[{"lines": list(loop.lines), "text": loop.text} for loop in self.loops],
            optimized=optimized,
            pinned=_pinned(pin, lines),
        )

    def static_html(self) -> str:
        assembly = (assembly_tokens(line.text) for line in self.listing.assembly)
        numbers = [_number(line.script) for line in self.listing.assembly]
        label = f"{self.title} for {self.machine}; before each line the script's line it is for"
        parts = [script_html(_numbered(self.script)), f"<p>{escape(label)}</p>"]
        parts.append(lines_html(["", f"{n} ", *t] for n, t in zip(numbers, assembly, strict=True)))
        llvm = [
            ["", f"{_number(line.script)} ", *llvm_tokens(line.text)] for line in self.listing.llvm
        ]
        summary = escape(self.columns[1]["title"])
        parts.append(f"<details><summary>{summary}</summary>{lines_html(llvm)}</details>")
        items = "".join(f"<li>{escape(text)}</li>" for text in self._loops())
        return "\n".join([*parts, f"<ul>{items}</ul>"] if items else parts)

    def text(self) -> str:
        lines = [f"{_number(line.script)} {line.text}".rstrip() for line in self.listing.assembly]
        head = f"{self.title} for {self.machine}"
        return "\n".join([_numbered(self.script), "", head, *lines, *self._loops()])

    def _loops(self) -> list[str]:
        return [f"innermost loop: {loop.text}" for loop in self.loops]


class MachineCode(NamedTuple):
    """A function's machine code as text: its lines, and the lines of each innermost loop."""

    lines: tuple[str, ...]
    loops: tuple[tuple[str, ...], ...]

    def loop(self, *words: str) -> tuple[str, ...]:
        """The innermost loop with the most lines that contain one of `words`."""
        if not self.loops:
            raise CompileError("the code has no loop", hint="machine_code(sch).lines")
        return max(self.loops, key=lambda body: sum(any(w in line for w in words) for line in body))


def machine_code(mod: Any, name: str | None = None, target: str | Target = "avx2") -> MachineCode:
    """The assembly that `AsmView` shows, to count in: the same text on every machine."""
    found, func = function_of(mod, name)
    _, read = read_back(found, func)
    listed = _listing(found, read, _target(target), optimized=False)
    lines = tuple(line.text for line in listed.assembly)
    loops = (tuple(lines[n] for n in loop.lines) for loop in innermost_loops(lines))
    return MachineCode(lines, tuple(loops))


def _target(target: Any) -> Target:
    if isinstance(target, str) and target in TARGETS:
        return TARGETS[target]
    if isinstance(target, Target) and target.name == "llvm" and target.cpu:
        return target
    hint = did_you_mean(target, TARGETS) if isinstance(target, str) else 'target="avx2"'
    raise CompileError(f"target= names a machine to show code for, got {target!r}", hint=hint)


def _listing(name: str, func: PrimFunc, target: Target, optimized: bool) -> Any:
    machine = backend().Machine(target.cpu, target.features, target.vector_bits)
    made = import_module("minimlc.services.llvm.listing")
    return made.listing(name, func, machine, optimized=optimized)


def _pinned(pin: int | str, lines: list[str]) -> int:
    """The number of the line that `pin` means, counted from 1; 0 for none."""
    if isinstance(pin, str):
        found = [n for n, line in enumerate(lines, start=1) if pin in line]
        if not found:
            raise CompileError(f"pin={pin!r}: the script has no such line")
        return found[-1]
    if not 0 <= pin <= len(lines):
        raise CompileError(f"pin={pin}: the script has lines 1 ... {len(lines)}")
    return pin


def _machine_text(target: Target) -> str:
    return f"{target.cpu}, {target.vector_bits}-bit vectors"


def _column(title: str, tokens: Sequence[Tokens], numbers: Sequence[int]) -> dict[str, Any]:
    return {
        "title": title,
        "lines": [list(line) for line in tokens[:MOST_LINES]],
        "numbers": list(numbers[:MOST_LINES]),
        "more": max(0, len(tokens) - MOST_LINES),
    }


def _number(line: int) -> str:
    return f"{line or '':>4}"


def _numbered(script: str) -> str:
    return "\n".join(f"{n:4} {line}" for n, line in enumerate(script.split("\n"), start=1))
