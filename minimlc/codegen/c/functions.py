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
    OPERATORS,
    PLUS,
    SHORT,
    TIMES,
    UNARY,
    VALUE,
    Expressions,
    converted,
    function_name,
)
from minimlc.codegen.c.names import LOCAL, unique_names
from minimlc.codegen.c.stmt import SYNTAX
from minimlc.codegen.dialect import Dialect, Legalize, halves_in_float32, is_count
from minimlc.codegen.source.writer import Infix, Statements, Text, call
from minimlc.dtypes import DTYPES, INDEX
from minimlc.tir.intrinsics import INTRINSICS, is_formula
from minimlc.tir.math.float_steps import Program
from minimlc.tir.math.scalars import definition
from minimlc.tir.nodes import Binary, Const, Intrin
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
    "quotient": Infix("/", TIMES, UNARY, UNARY),
    "remainder": Infix("%", TIMES, UNARY, UNARY),
    "shift_left": Infix("<<", BITS, UNARY, UNARY),
    "shift_right": Infix(">>", BITS, UNARY, UNARY),
}
"""Operations that C has for the operands they are used on in definitions."""

_PRODUCT, _SUM = Infix("*", PLUS, UNARY, UNARY), Infix("+", PLUS, PLUS, UNARY)


class _Steps(Expressions):
    """The expressions of a definition."""

    def visit_Binary(self, item: Binary) -> Text:
        if item.op == ">>" and is_count(item.b):
            return self.visit(Intrin("shift_right", (item.a, item.b)))
        if isinstance(item.b, Const) and item.op in ("&", "|") and item.b.value > 9:
            return OPERATORS[item.op].of(self.visit(item.a), Text(f"0x{item.b.value:X}"))
        return Expressions.visit_Binary(self, item)

    def visit_Intrin(self, item: Intrin) -> Text:
        name = item.name
        arguments = [self.visit(argument) for argument in item.args]
        if name == "shift_left":
            unsigned = "uint64_t" if item.dtype == INDEX else "uint32_t"
            arguments[0] = Text(f"({unsigned}){arguments[0].inside(UNARY)}", UNARY)
            return Text(f"({VALUE[item.dtype]})({_MACHINE[name].of(*arguments).code})", UNARY)
        if name in _MACHINE:
            return _MACHINE[name].of(*arguments)
        if name == "muladd":
            return _muladd(*arguments)
        if name in ("bits", "number"):
            return call(f"{name}_f32", *arguments)
        if name.startswith("truncate_"):
            return converted(arguments[0], item.dtype)
        return Expressions.visit_Intrin(self, item)


def _muladd(a: Text, b: Text, c: Text) -> Text:
    product = _PRODUCT.of(a, b)
    if c.code.startswith("-") and c.level >= UNARY:
        return Text(f"{product.code} - {c.code[1:]}", PLUS)
    return _SUM.of(product, c)


def _function(name: str, program: Program, library: str = "") -> str:
    """A definition as a C function; where it is rare, `library`'s gives the result."""
    program = Program(*Legalize(C_DIALECT).visit(program))
    steps = _Steps()
    body = Statements(SYNTAX, steps, unique_names(LOCAL))
    arguments = [body.declare(var) for var in program.params]
    typed = zip(program.params, arguments, strict=True)
    parameters = ", ".join(f"{VALUE[var.dtype]} {argument}" for var, argument in typed)
    body.steps(program)
    if program.rare is not None:
        body.case(program.rare, f"{library}f({', '.join(arguments)})")
    body.results(program)
    lines = [f"// {program.note}"] if program.note else []
    lines += [f"static inline {VALUE[program.result.dtype]} {name}({parameters}) {{", *body.lines]
    return "\n".join(part for line in [*lines, "}"] for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line,
        WIDTH,
        subsequent_indent=indent + ("// " if line.startswith("//") else "    "),
        break_long_words=False,
        break_on_hyphens=False,
    )


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
