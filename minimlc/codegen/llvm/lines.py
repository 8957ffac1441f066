"""LLVM code that remembers which line of the script each instruction is for.

The lines travel as LLVM's own debug locations, which its passes keep, merge or drop as is right;
what has none in the end belongs to no line. They change neither the optimized code nor the machine
code. Nodes know their lines where they were read from a script (`span_of`).
"""

from dataclasses import dataclass

from minimlc.codegen.llvm.parallel import Kernel
from minimlc.codegen.llvm.value import Code
from minimlc.node import span_of
from minimlc.tir.nodes import Stmt

FIRST = 5
"""The number of the first function's record; those before are `HEAD`'s."""

HEAD = """\
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "script", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DISubroutineType(types: !4)
!4 = !{null}"""

FUNCTION = "distinct !DISubprogram(file: !1, type: !3, unit: !0, spFlags: DISPFlagDefinition)"
"""NB: without a type, LLVM 22 crashes where it leaves out an unused parameter."""


@dataclass
class LinedCode(Code):
    """Notes `line` at each instruction that is appended; 0 for none."""

    line: int = 0
    number: int = -1

    def __post_init__(self) -> None:
        self.number = FIRST + self.module.scopes
        self.module.scopes += 1

    def fresh(self) -> "LinedCode":
        return LinedCode(self.module, line=self.line)

    def do(self, instruction: str) -> None:
        super().do(instruction + self._location())

    def value(self, instruction: str) -> str:
        return super().value(instruction + self._location())

    def function(self, header: str) -> str:
        return super().function(f"{header} !dbg !{self.number}")

    def _location(self) -> str:
        return f", !dbg !DILocation(line: {self.line}, scope: !{self.number})" if self.line else ""


@dataclass
class LinedKernel(Kernel):
    """Tells its code the line of each statement that it writes."""

    def stmt(self, item: Stmt) -> None:
        code, span = self.code, span_of(item)
        assert isinstance(code, LinedCode)
        outer, code.line = code.line, span.line if span is not None else code.line
        super().stmt(item)
        code.line = outer


def line_records(scopes: int) -> str:
    """What the locations of a module's functions refer to."""
    functions = (f"!{FIRST + number} = {FUNCTION}" for number in range(scopes))
    return "\n".join([HEAD, *functions])
