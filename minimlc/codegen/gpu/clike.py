"""What CUDA C++ and OpenCL C share: they take C's expressions, types and functions as they are,
but for some words.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from math import prod

from minimlc.codegen.c.expr import STORED, Expressions
from minimlc.codegen.c.functions import FUNCTIONS, entered
from minimlc.codegen.c.names import LOCAL
from minimlc.codegen.c.stmt import SYNTAX, dimensions
from minimlc.codegen.gpu.emit import KernelText, Language, written_in
from minimlc.codegen.gpu.kernels import Kernel
from minimlc.tir.nodes import Buffer

WIDTH = 100
INTEGERS = [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def words(signed: str, unsigned: str, **more: str) -> dict[str, str]:
    """Words of C as the language spells them: the integers, the smallest first, and more."""
    spelled = [*signed.split(", "), *unsigned.split(", ")]
    return {**dict(zip(INTEGERS, spelled, strict=True)), **more}


def reserved(words: Mapping[str, str], more: str) -> frozenset[str]:
    """Names that mean something in the language."""
    return LOCAL | set(words) | set(more.split())


def array(kind: str, name: str, shape: tuple[int, ...]) -> str:
    """The declaration of an array."""
    return f"{kind} {name}" + "".join(f"[{size}]" for size in shape)


def same_bits(bits: str, number: str) -> dict[str, str]:
    """C's functions that take a float's bits as an integer and back, by two of the language."""
    return {
        "bits_f32": f"static inline int32_t bits_f32(float x) {{\n    return {bits}(x);\n}}",
        "number_f32": f"static inline float number_f32(int32_t x) {{\n    return {number}(x);\n}}",
    }


def functions(inline: str, own: Mapping[str, str]) -> Callable[[], Mapping[str, str]]:
    """C's functions, `own` ones among them, as functions of the device."""

    def texts() -> Mapping[str, str]:
        known = {**FUNCTIONS, **entered(), **own}
        return {name: re.sub("^static inline", inline, t, flags=re.M) for name, t in known.items()}

    return texts


def finish(
    words: Mapping[str, str], first: Mapping[str, str] | None = None
) -> Callable[[str], str]:
    """Words of C as the language spells them, and what comes `first` where a pattern is found."""
    known = re.compile(r"\b(" + "|".join(words) + r")\b")

    def finished(text: str) -> str:
        text = known.sub(lambda match: words[match[0]], text)
        lines = [line for sign, line in (first or {}).items() if re.search(sign, text)]
        return "\n".join([*lines, *([""] if lines else []), text])

    return finished


def header(
    kernel_text: str, pointee: str, restrict: str
) -> Callable[[KernelText, Kernel], list[str]]:
    """The head of a kernel: `kernel_text` takes its name and its threads, `pointee` the type
    of elements in global memory, and no two pointers `restrict` each other.
    """

    def parameter(text: KernelText, buffer: Buffer, written: bool) -> str:
        name = text.declare(buffer)
        _, inner = dimensions(buffer)
        kind = ("" if written else "const ") + STORED[buffer.dtype]
        pointer = f"*{restrict} {name}"
        return f"{pointee.format(kind)} " + (f"({pointer}){inner}" if inner else pointer)

    def lines(text: KernelText, kernel: Kernel) -> list[str]:
        written = written_in(kernel)
        threads = prod(kernel.block)
        # Of groups of warps, another block multiplies while one waits.
        least = ", __CUDA_ARCH__ < 800 ? 1 : 2" * (text.groups and threads <= 256)
        start = kernel_text.format(text.symbol, f"{threads}{least}")
        listed = [parameter(text, buffer, buffer in written) for buffer in kernel.params]
        one = f"{start}({', '.join(listed)}) {{"
        return [one] if len(one) <= WIDTH else [f"{start}(", *_lines(listed), ") {"]

    return lines


def _lines(listed: list[str]) -> list[str]:
    return [f"    {part}{',' * (part is not listed[-1])}" for part in listed]


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
