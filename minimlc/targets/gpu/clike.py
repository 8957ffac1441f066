"""Common parts of CUDA C++ and OpenCL C: C's expressions, types and functions as they are, but for
some words.
"""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from math import prod

from minimlc.targets.c.expr import STORED, Expressions
from minimlc.targets.c.functions import FUNCTIONS, entered
from minimlc.targets.c.names import LOCAL
from minimlc.targets.c.stmt import SYNTAX, dimensions
from minimlc.targets.gpu.emit import KernelText, Language, written_in
from minimlc.targets.gpu.kernels import Kernel

WIDTH = 100
INTEGERS = [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def words(signed: str, unsigned: str, **more: str) -> dict[str, str]:
    """Words of C as the language spells them: the integers, the smallest first, and more."""
    spelled = [*signed.split(", "), *unsigned.split(", ")]
    return {**dict(zip(INTEGERS, spelled, strict=True)), **more}


def reserved(words: Iterable[str], more: str) -> frozenset[str]:
    """Names that mean something in the language."""
    return LOCAL | set(words) | set(more.split())


def array(kind: str, name: str, shape: tuple[int, ...]) -> str:
    """The declaration of an array."""
    return f"{kind} {name}" + "".join(f"[{size}]" for size in shape)


def same_bits(bits: str, number: str) -> dict[str, str]:
    """C's functions that take a float's bits as an integer and back, by two of the language's."""
    return {
        "bits_f32": f"static inline int32_t bits_f32(float x) {{\n    return {bits}(x);\n}}",
        "number_f32": f"static inline float number_f32(int32_t x) {{\n    return {number}(x);\n}}",
    }


def functions(inline: str, own: Mapping[str, str]) -> Mapping[str, str]:
    """C's functions as functions of the device; the ones in `own` replace or extend them."""
    known = {**FUNCTIONS, **entered(), **own}
    return {name: re.sub("^static inline", inline, t, flags=re.M) for name, t in known.items()}


def finish(words: Mapping[str, str], first: Mapping[str, str], text: str) -> str:
    """Words of C as the language spells them, and what comes `first` where a pattern is found."""
    text = re.sub(rf"\b({'|'.join(words)})\b", lambda match: words[match[0]], text)
    lines = [line for sign, line in first.items() if re.search(sign, text)]
    return "\n".join([*lines, *([""] if lines else []), text])


def header(start: str, pointee: str, restrict: str, text: KernelText, kernel: Kernel) -> list[str]:
    """The head of a kernel: `start` is a template of its name and its threads, `pointee` one of the
    type of elements in global memory, and `restrict` the qualifier of pointers.
    """
    written, listed = written_in(kernel), []
    for buffer in kernel.params:
        pointer, (_, inner) = f"*{restrict} {text.declare(buffer)}", dimensions(buffer)
        kind = pointee.format(("" if buffer in written else "const ") + STORED[buffer.dtype])
        listed.append(f"{kind} ({pointer}){inner}" if inner else f"{kind} {pointer}")
    threads = prod(kernel.block)
    # Of groups of warps, another block multiplies while one waits.
    least = ", __CUDA_ARCH__ < 800 ? 1 : 2" * (text.groups and threads <= 256)
    start = start.format(text.symbol, f"{threads}{least}")
    one = f"{start}({', '.join(listed)}) {{"
    lines = ",\n".join(f"    {part}" for part in listed)
    return [one] if len(one) <= WIDTH else [f"{start}(", lines, ") {"]


like_c = partial(
    Language,
    syntax=SYNTAX._replace(loop="for ({2} {0} = {3}; {0} < {1}; ++{0}) {{"),
    expressions=Expressions,
    stored=STORED,
    array=array,
    axis="const {} {} = {};",
    unroll="#pragma unroll",
)
"""A language with C's expressions, types and statements."""
