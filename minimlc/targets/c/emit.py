"""The C backend: lowered functions as C99 text, to read, to compile, or to take elsewhere.

One C function per primitive function, and no library of ours: operations that C lacks are small
functions at the top of the text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.lower.lower import lower
from minimlc.targets.c.functions import C_DIALECT, FUNCTIONS, entered, function_texts
from minimlc.targets.c.names import GLOBAL, unique_names
from minimlc.targets.c.stmt import Function

_MATH = r"""\b(INFINITY|NAN)\b|\b(isnan|fabsf?|copysignf?|fmodf?|rintf?|powf?|erfc?f?|expf?|logf?
    |sqrtf?|tanhf?|sinf?|cosf?|floorf?|ceilf?|truncf?)\("""
_HEADERS = {
    "math.h": re.compile(_MATH, re.VERBOSE),
    "stdbool.h": re.compile(r"\b(bool|true|false)\b"),
    "stdint.h": re.compile(r"\bu?int\d+_t\b|\bU?INT\d+_"),
    "stdlib.h": re.compile(r"\bmalloc\("),
    "string.h": re.compile(r"\bmemcpy\("),
}
"""By header: the names for which it is included."""


class Emitted(NamedTuple):
    """The text, its functions by their names in the module, and which pragmas it has.

    `guarded` is whether some access to memory is under a condition, `backward` whether some index
    may decrease as a loop advances.
    """

    text: str
    functions: dict[str, Function]
    threaded: bool
    simd: bool
    guarded: bool
    backward: bool = False


def emit_c(functions: Mapping[str, PrimFunc]) -> Emitted:
    """C99 text for primitive functions: pointers in the caller's order, each of them `restrict`.

    A function that calls malloc returns 0, or 2 if it fails; the others return nothing.
    """
    defined = {**FUNCTIONS, **entered()}
    names = unique_names({*GLOBAL, *defined})
    written = {
        name: Function(names.take(name), lower(func, dialect=C_DIALECT, named=True), defined)
        for name, func in functions.items()
    }
    bodies = [item.text() for item in written.values()]
    code = re.sub("//.*", "", "\n".join(bodies))
    helpers = function_texts(code, defined)
    includes = _includes([code, *helpers])
    parts = [*([includes] if includes else []), *helpers, *bodies]
    return Emitted(
        "\n\n".join(parts) + "\n",
        written,
        threaded="#pragma omp parallel" in code,
        simd="#pragma omp simd" in code,
        guarded=any(item.guarded for item in written.values()),
        backward=any(item.backward for item in written.values()),
    )


def _includes(texts: Sequence[str]) -> str:
    whole = re.sub("//.*", "", "\n".join(texts))
    return "\n".join(f"#include <{name}>" for name, what in _HEADERS.items() if what.search(whole))
