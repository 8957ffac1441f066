"""The script languages: `I` for modules, `T` for loops, `R` for graphs, `tile` for tile programs
where that room is; and `parse(text)`.

from minimlc.script import I, T, R

@I.ir_module
class Module:
    @T.prim_func
    def add(A: T.Buffer((8,), "float32"), B: ..., C: ...): ...
"""

from typing import Any

from minimlc.rooms import room
from minimlc.script.module import I, R, T, parse

__all__ = ["I", "R", "T", "parse"]


def __getattr__(name: str) -> Any:
    tile = room("tile") if name == "tile" else None
    if tile is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return tile.tile
