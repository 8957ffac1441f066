"""The script languages: `I` for modules, `T` for loops, `R` for graphs; and `parse(text)`.

from minimlc.script import I, T, R

@I.ir_module
class Module:
    @T.prim_func
    def add(A: T.Buffer((8,), "float32"), B: ..., C: ...): ...
"""

from minimlc.script.module import I, R, T, parse

__all__ = ["I", "R", "T", "parse"]
