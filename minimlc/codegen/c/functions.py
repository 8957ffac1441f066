"""Functions that the C text defines where it uses them.

Each is `static inline`. What a scalar operation means where C has no operator for it is written
from its definition in `minimlc.tir.math.scalars`; the few machine operations that C spells in a
roundabout way are written here.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import filterfalse, product

from minimlc.codegen.c.expr import (
    BITS,
    INTEGERS,
    PLUS,
    SHORT,
    TIMES,
    UNARY,
    VALUE,
    C,
    Expressions,
    call,
    function_name,
)
from minimlc.codegen.c.names import LOCAL, unique_names
from minimlc.codegen.dialect import Dialect, Legalize, halves_in_float32, is_count
from minimlc.dtypes import DTYPES, INDEX, is_integer
from minimlc.tir.intrinsics import INTRINSICS, is_formula
from minimlc.tir.math.float_steps import Program
from minimlc.tir.math.scalars import definition
from minimlc.tir.nodes import Binary, Const, Expr, Intrin, Var
from minimlc.tir.values import HALF

C_DIALECT = Dialect(halves_in_float32)
"""What C has no operator for is a function of the text, so all is C's own but 16-bit floats."""

WIDTH = 100

_COPIED = """
static inline {to} {name}_f32({of} {a}) {{
    {to} {b};
    memcpy(&{b}, &{a}, sizeof {b});
    return {b};
}}
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


_MACHINE = {
    "quotient": ("/", TIMES),
    "remainder": ("%", TIMES),
    "shift_left": ("<<", BITS),
    "shift_right": (">>", BITS),
}
"""Operations that C has for the operands they are used on in definitions."""


class _Steps(Expressions):
    """The expressions of a definition."""

    def _variable(self, item: Var) -> C:
        return C(self.names[item])

    def _binary(self, item: Binary) -> C:
        if item.op == ">>" and is_count(item.b):
            return self._machine("shift_right", item.a, item.b)
        if isinstance(item.b, Const) and item.op in ("&", "|") and item.b.value > 9:
            return C(f"{self.expr(item.a).inside(UNARY)} {item.op} 0x{item.b.value:X}", BITS)
        return Expressions._binary(self, item)

    def _machine(self, name: str, a: Expr, b: Expr) -> C:
        sign, level = _MACHINE[name]
        left, right = self.expr(a).inside(UNARY), self.expr(b).inside(UNARY)
        if name == "shift_left":
            unsigned = "uint64_t" if a.dtype == INDEX else "uint32_t"
            return C(f"({VALUE[a.dtype]})(({unsigned}){left} << {right})", UNARY)
        return C(f"{left} {sign} {right}", level)

    def _intrinsic(self, item: Intrin) -> C:
        if item.name in _MACHINE:
            return self._machine(item.name, *item.args)
        arguments = [self.expr(argument) for argument in item.args]
        if item.name == "muladd":
            return _muladd(*arguments)
        if item.name in ("bits", "number"):
            return call(f"{item.name}_f32", *arguments)
        if item.name.startswith("truncate_"):
            return C(f"({VALUE[item.dtype]}){arguments[0].inside(UNARY)}", UNARY)
        return Expressions._intrinsic(self, item)


def _muladd(a: C, b: C, c: C) -> C:
    product = f"{a.inside(UNARY)} * {b.inside(UNARY)}"
    if c.text.startswith("-") and c.level >= UNARY:
        return C(f"{product} - {c.text[1:]}", PLUS)
    return C(f"{product} + {c.inside(UNARY)}", PLUS)


def _function(name: str, program: Program, library: str = "") -> str:
    """A definition as a C function; where it is rare, `library`'s gives the result."""
    scope = unique_names(LOCAL)
    steps = _Steps({var: scope.take(var.name) for var in program.params})
    arguments = [steps.names[var] for var in program.params]
    parameters = ", ".join(f"{VALUE[var.dtype]} {steps.names[var]}" for var in program.params)
    lines = [f"// {program.note}"] if program.note else []
    lines += [f"static inline {VALUE[program.result.dtype]} {name}({parameters}) {{"]
    for var, value in program.steps:
        text, step = _text(steps, value), scope.take(var.name)
        lines.append(f"    const {VALUE[var.dtype]} {step} = {text};")
        steps.names[var] = step
        if is_integer(var.dtype):
            steps.ranges[var] = steps.interval(value)
    if program.rare is not None:
        lines += _returned(_text(steps, program.rare), f"{library}f({', '.join(arguments)})")
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
    return steps.expr(Legalize(C_DIALECT).visit(value)).text


def _named(operations: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """The functions of operations on a dtype, as far as there are definitions."""
    programs = {name: definition(*operation) for name, operation in operations.items()}
    return {n: _function(n, p, operations[n][0]) for n, p in programs.items() if p is not None}


def _defined(operations: Iterable[str], dtypes: Iterable[str]) -> dict[str, str]:
    return _named({function_name(*pair): pair for pair in product(operations, dtypes)})


def _machine() -> dict[str, str]:
    bits = _COPIED.format(name="bits", to="int32_t", of="float", a="x", b="bits")
    number = _COPIED.format(name="number", to="float", of="int32_t", a="bits", b="x")
    texts = {"bits_f32": bits, "number_f32": number}
    for t in (SHORT[dtype] for dtype in HALF):
        texts[f"round_{t}"] = _ROUND.format(t=t)
    for t, c in (("i64", "int64_t"), ("i32", "int32_t")):
        texts[f"neg_{t}"] = _NEG.format(t=t, c=c)
        for name, op in (("add", "+"), ("sub", "-"), ("mul", "*")):
            texts[f"{name}_{t}"] = _WRAP.format(name=name, t=t, c=c, op=op)
    return {name: text.strip() for name, text in texts.items()}


_WIDE = ("float64", "float32", "int64", "int32")

FUNCTIONS = {
    **_machine(),
    **_defined(("//", "%", "min", "max", *filterfalse(is_formula, INTRINSICS)), _WIDE),
    **_defined(("<<", ">>"), INTEGERS),
    **_named({f"to_{SHORT[dtype]}": (f"to_{dtype}", "float64") for dtype in INTEGERS}),
    **_named({f"{SHORT[dtype]}_to_f32": (f"load_{dtype}", "int32") for dtype in HALF}),
    **_named({f"f32_to_{SHORT[dtype]}": (f"store_{dtype}", "float32") for dtype in HALF}),
}
"""The text of each function."""


def entered() -> dict[str, str]:
    """Those of the functions that were entered as formulas."""
    texts: dict[str, str] = {}
    for name in filter(is_formula, INTRINSICS):
        kinds = INTRINSICS[name].kinds
        dtypes = [dtype for dtype in DTYPES if DTYPES[dtype].kind in kinds and dtype not in HALF]
        texts |= _defined([name], dtypes)
    return texts


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
