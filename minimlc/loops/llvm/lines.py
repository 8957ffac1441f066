"""LLVM code that remembers which line of the script each instruction is for.

The lines travel as LLVM's own debug locations, which its passes keep, merge or drop as is right;
what has none in the end belongs to no line. They change neither the optimized code nor the machine
code. Nodes know their lines where they were read from a script (`span_of`).
"""

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


def line_records(scopes: int) -> str:
    """The records that the locations of a module's functions refer to."""
    functions = (f"!{FIRST + number} = {FUNCTION}" for number in range(scopes))
    return "\n".join([HEAD, *functions])
