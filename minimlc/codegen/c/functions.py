"""Functions that the C text defines where it uses them.

Each is `static inline`. What a scalar operation means where C has no operator for it is written
from its definition in `minimlc.tir.math.scalars`; the few machine operations that C spells in a
roundabout way are written here.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import product

from minimlc.codegen.c.expr import (
    BITS,
    PLUS,
    SHORT,
    SMALL,
    TIMES,
    UNARY,
    VALUE,
    C,
    Expressions,
    call,
    function_name,
)
from minimlc.dtypes import DTYPES, INDEX, is_float, is_integer
from minimlc.tir.intrinsics import INTRINSICS
from minimlc.tir.math.float_steps import Program
from minimlc.tir.math.scalars import definition
from minimlc.tir.nodes import Binary, Cast, Const, Expr, Intrin, Var
from minimlc.tir.values import HALF

WIDTH = 100

_BITS = """
static inline int32_t bits_f32(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
"""

_NUMBER = """
static inline float number_f32(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
"""

_ROUND = """
static inline float round_{t}(float x) {{
    return {t}_to_f32(f32_to_{t}(x));
}}
"""

_WRAP = """
// Wraps around where C's own operator must not overflow.
static inline {c} {name}_{t}({c} a, {c} b) {{
    return ({c})((u{c})a {op} (u{c})b);
}}
"""

_NEG = """
// Wraps around for the least value.
static inline {c} neg_{t}({c} a) {{
    return ({c})(0u - (u{c})a);
}}
"""


class _Steps(Expressions):
    """The expressions of a definition, whose operators are the machine's own."""

    def _variable(self, item: Var) -> C:
        return C(self.names[item])

    def _binary(self, item: Binary) -> C:
        by_constant = isinstance(item.b, Const)
        if item.op == ">>":
            a, b = self.expr(item.a).inside(UNARY), self.expr(item.b).inside(UNARY)
            return C(f"{a} >> {b}", BITS)
        if item.op in ("&", "|") and isinstance(item.b, Const) and item.b.value > 9:
            return C(f"{self.expr(item.a).inside(UNARY)} {item.op} 0x{item.b.value:X}", BITS)
        if item.op == "<<" and not by_constant:
            bits = 64 if item.dtype == INDEX else 32
            a, b = self.expr(item.a).inside(UNARY), self.expr(item.b).inside(PLUS)
            return C(f"({VALUE[item.dtype]})((uint{bits}_t){a} << {b})", UNARY)
        return Expressions._binary(self, item)

    def _cast(self, item: Cast) -> C:
        if is_float(item.a.dtype) and is_integer(item.dtype):
            return C(f"({VALUE[item.dtype]}){self.expr(item.a).inside(UNARY)}", UNARY)
        return Expressions._cast(self, item)

    def _intrinsic(self, item: Intrin) -> C:
        arguments = [self.expr(argument) for argument in item.args]
        match item.name:
            case "muladd":
                return _muladd(*arguments)
            case "quotient" | "remainder":
                sign = "/" if item.name == "quotient" else "%"
                a, b = (argument.inside(UNARY) for argument in arguments)
                return C(f"{a} {sign} {b}", TIMES)
            case "bits" | "number":
                return call(f"{item.name}_f32", *arguments)
            case _:
                return Expressions._intrinsic(self, item)


def _muladd(a: C, b: C, c: C) -> C:
    product = f"{a.inside(UNARY)} * {b.inside(UNARY)}"
    if c.text.startswith("-") and c.level >= UNARY:
        return C(f"{product} - {c.text[1:]}", PLUS)
    return C(f"{product} + {c.inside(UNARY)}", PLUS)


def _function(name: str, program: Program, library: str = "") -> str:
    """A definition as a C function; where it is rare, `library`'s gives the result."""
    steps = _Steps({var: var.name for var in program.params})
    parameters = ", ".join(f"{VALUE[var.dtype]} {var.name}" for var in program.params)
    lines = [f"// {program.note}"] if program.note else []
    lines += [f"static inline {VALUE[program.result.dtype]} {name}({parameters}) {{"]
    for var, value in program.steps:
        lines.append(f"    const {VALUE[var.dtype]} {var.name} = {_text(steps, value)};")
        steps.names[var] = var.name
        if is_integer(var.dtype):
            steps.ranges[var] = steps.interval(value)
    if program.rare is not None:
        arguments = ", ".join(var.name for var in program.params)
        lines += _returned(_text(steps, program.rare), f"{library}f({arguments})")
    cases, rest = program.cases()
    for condition, value in cases:
        lines += _returned(_text(steps, condition), _text(steps, value))
    lines += [f"    return {_text(steps, rest)};", "}"]
    return "\n".join(part for line in lines for part in _wrapped(line))


def _returned(condition: str, value: str) -> list[str]:
    return [f"    if ({condition}) {{", f"        return {value};", "    }"]


def _wrapped(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line,
        WIDTH,
        subsequent_indent=indent + ("// " if line.startswith("//") else "    "),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _text(steps: _Steps, value: Expr) -> str:
    return steps.expr(value).text


def _named(operations: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """The functions of operations on a dtype, as far as there are definitions."""
    programs = {name: definition(*operation) for name, operation in operations.items()}
    return {n: _function(n, p, operations[n][0]) for n, p in programs.items() if p is not None}


def _defined(operations: Iterable[str], dtypes: Iterable[str]) -> dict[str, str]:
    return _named({function_name(*pair): pair for pair in product(operations, dtypes)})


def _machine() -> dict[str, str]:
    texts = {"bits_f32": _BITS, "number_f32": _NUMBER}
    for t in (SHORT[dtype] for dtype in HALF):
        texts[f"round_{t}"] = _ROUND.format(t=t)
    for t, c in (("i64", "int64_t"), ("i32", "int32_t")):
        texts[f"neg_{t}"] = _NEG.format(t=t, c=c)
        for name, op in (("add", "+"), ("sub", "-"), ("mul", "*")):
            texts[f"{name}_{t}"] = _WRAP.format(name=name, t=t, c=c, op=op)
    return {name: text.strip() for name, text in texts.items()}


_WIDE = ("float64", "float32", "int64", "int32")
_INTEGERS = ("int64", "int32", *SMALL)

FUNCTIONS = {
    **_machine(),
    **_defined(("//", "%", "min", "max", *INTRINSICS), _WIDE),
    **_defined(("<<", ">>"), _INTEGERS),
    **_named({f"to_{SHORT[dtype]}": (f"to_{dtype}", "float64") for dtype in _INTEGERS}),
    **_named({f"{SHORT[dtype]}_to_f32": (f"load_{dtype}", "int32") for dtype in HALF}),
    **_named({f"f32_to_{SHORT[dtype]}": (f"store_{dtype}", "float32") for dtype in HALF}),
}
"""The text of each function."""


def entered() -> dict[str, str]:
    """Those of the functions that were entered as formulas."""
    names = [name for name, record in INTRINSICS.items() if record.formula is not None]
    return _defined(names, (dtype for dtype in DTYPES if dtype not in HALF))


def function_texts(code: str, texts: Mapping[str, str]) -> list[str]:
    """The definitions of what `code` calls and of what they call, each after what it calls."""
    ordered: dict[str, str] = {}

    def add(text: str) -> None:
        for name in sorted(set(re.findall(r"\b(\w+)\(", text)) & texts.keys()):
            if name not in ordered:
                add(texts[name].split("{", 1)[1])
                ordered[name] = texts[name]

    add(code)
    return list(ordered.values())
