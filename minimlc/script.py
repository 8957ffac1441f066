"""The script languages: `I` for modules, `T` for loops, `R` for graphs, `tile` for tile programs
where those are; and `parse(text)`.

from minimlc.script import I, T, R

@I.ir_module
class Module:
    @T.prim_func
    def add(A: T.Buffer((8,), "float32"), B: ..., C: ...): ...
"""

from typing import TYPE_CHECKING, Any

from minimlc.loops.text.module import NAMES, I, T, parse
from minimlc.loops.values.parts import Hook

if TYPE_CHECKING:
    from minimlc.graphs.text.graph import R

TILES = Hook[Any]("tile programs")

__all__ = ["I", "R", "T", "parse"]


def __getattr__(name: str) -> Any:
    found = TILES.first if name == "tile" else NAMES.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
