"""Functions that a C text contains where it calls them.

Each is `static inline`. A scalar operation that C lacks is written from its definition in
`minimlc.loops.math.scalars`; the few machine operations that C spells in a roundabout way are here.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import filterfalse, product

from minimlc.loops.ir.intrinsics import INTRINSICS, is_formula
from minimlc.loops.ir.nodes import Binary, Const, Intrin
from minimlc.loops.ir.values import HALF
from minimlc.loops.lower.dialect import Dialect, Legalize, halves_in_float32, is_count
from minimlc.loops.math.float_steps import Program
from minimlc.loops.math.scalars import definition
from minimlc.loops.values.dtypes import DTYPES
from minimlc.targets.c.expr import (
    BITS,
    INTEGERS,
    OPERATORS,
    PLUS,
    SHORT,
    TIMES,
    UNARY,
    UNSIGNED,
    VALUE,
    WRAPPING,
    Expressions,
    converted,
    function_name,
)
from minimlc.targets.c.names import LOCAL, unique_names
from minimlc.targets.c.stmt import SYNTAX
from minimlc.targets.source.writer import Infix, Statements, Text, call

C_DIALECT = Dialect(halves_in_float32)
"""Operations that C lacks are functions of the text; only 16-bit floats are computed in another
dtype."""

WIDTH = 100

MACHINE = {
    "quotient": Infix("/", TIMES, UNARY, UNARY),
    "remainder": Infix("%", TIMES, UNARY, UNARY),
    "shift_left": Infix("<<", BITS, UNARY, UNARY),
    "shift_right": Infix(">>", BITS, UNARY, UNARY),
}
"""Operations that are C's own for the operands that they have in definitions."""

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
            first = converted(arguments[0], f"uint{max(DTYPES[item.dtype].bits, 32)}_t")
            return converted(MACHINE[name].of(first, arguments[1]), VALUE[item.dtype])
        if name in MACHINE:
            return MACHINE[name].of(*arguments)
        if name == "muladd":
            return _muladd(*arguments)
        if name in ("bits", "number"):
            return call(f"{name}_f32", *arguments)
        if name.startswith("truncate_"):
            return converted(arguments[0], VALUE[item.dtype])
        return Expressions.visit_Intrin(self, item)


def _muladd(a: Text, b: Text, c: Text) -> Text:
    product = _PRODUCT.of(a, b)
    if c.code.startswith("-") and c.level >= UNARY:
        return Text(f"{product.code} - {c.code[1:]}", PLUS)
    return _SUM.of(product, c)


Named = tuple[str, str]
"""A function's name and text."""


def _inline(result: str, name: str, parameters: str, *body: str, note: str = "") -> Named:
    header = f"static inline {result} {name}({parameters}) {{"
    lines = [*([f"// {note}"] if note else []), header, *body, "}"]
    return name, "\n".join(part for line in lines for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    more = indent + ("// " if line.startswith("//") else "    ")
    wrapper = textwrap.TextWrapper(WIDTH, subsequent_indent=more, break_on_hyphens=False)
    wrapper.break_long_words = False
    return wrapper.wrap(line)


def _function(name: str, program: Program, library: str = "") -> Named:
    """A definition as a C function; where it is rare, `library`'s gives the result."""
    program = Program(*Legalize(C_DIALECT).visit(program))
    body = Statements(SYNTAX, _Steps(), unique_names(LOCAL))
    arguments = {body.declare(var): VALUE[var.dtype] for var in program.params}
    body.steps(program)
    if program.rare is not None:
        body.case(program.rare, f"{library}f({', '.join(arguments)})")
    body.results(program)
    parameters = ", ".join(f"{kind} {argument}" for argument, kind in arguments.items())
    return _inline(VALUE[program.result.dtype], name, parameters, *body.lines, note=program.note)


def _named(operations: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """The functions of operations (name, dtype) that have a definition."""
    programs = {name: definition(*operation) for name, operation in operations.items()}
    named = ((name, program) for name, program in programs.items() if program is not None)
    return dict(_function(*item, operations[item[0]][0]) for item in named)


def _defined(operations: Iterable[str], dtypes: Iterable[str]) -> dict[str, str]:
    return _named({function_name(*pair): pair for pair in product(operations, dtypes)})


_BITS = "    int32_t bits;", "    memcpy(&bits, &x, sizeof bits);", "    return bits;"
_NUMBER = "    float x;", "    memcpy(&x, &bits, sizeof x);", "    return x;"


def _machine() -> Iterator[Named]:
    """Machine operations that C spells in a roundabout way."""
    yield _inline("int32_t", "bits_f32", "float x", *_BITS)
    yield _inline("float", "number_f32", "int32_t bits", *_NUMBER)
    for t in (SHORT[dtype] for dtype in HALF):
        yield _inline("float", f"round_{t}", "float x", f"    return {t}_to_f32(f32_to_{t}(x));")
    for t, c in (("i64", "int64_t"), ("i32", "int32_t")):
        note, code = "Wraps around for the least value.", f"    return ({c})(0u - (u{c})a);"
        yield _inline(c, f"neg_{t}", f"{c} a", code, note=note)
        for op, name in WRAPPING.items():
            note = "Wraps around where C's own operator must not overflow."
            code = f"    return ({c})((u{c})a {op} (u{c})b);"
            yield _inline(c, f"{name}_{t}", f"{c} a, {c} b", code, note=note)


_WIDE = ("float64", "float32", "int64", "int32", *UNSIGNED)

FUNCTIONS = {
    **dict(_machine()),
    **_defined(("//", "%", "min", "max", *filterfalse(is_formula, INTRINSICS)), _WIDE),
    **_defined(("<<", ">>"), INTEGERS),
    **_defined(("odd_float32",), _WIDE),
    **_named({f"to_{SHORT[dtype]}": (f"to_{dtype}", "float64") for dtype in INTEGERS}),
    **_named({f"{SHORT[dtype]}_to_f32": (f"load_{dtype}", "int32") for dtype in HALF}),
    **_named({f"f32_to_{SHORT[dtype]}": (f"store_{dtype}", "float32") for dtype in HALF}),
}
"""The text of each function."""


def entered() -> dict[str, str]:
    """The texts of functions that were entered as formulas."""
    texts: dict[str, str] = {}
    for name in filter(is_formula, INTRINSICS):
        kinds = INTRINSICS[name].kinds
        dtypes = [dtype for dtype in DTYPES if DTYPES[dtype].kind in kinds and dtype not in HALF]
        texts |= _defined([name], dtypes)
    return texts


def function_texts(code: str, texts: Mapping[str, str]) -> list[str]:
    """The definitions of the functions that `code` calls, directly or not, callees first."""
    ordered: dict[str, str] = {}

    def add(text: str) -> None:
        for name in sorted(set(re.findall(r"\b(\w+)(?:<\d+>)?\(", text)) & texts.keys()):
            if name not in ordered:
                add(texts[name].split("{", 1)[1])
                ordered[name] = texts[name]

    add(code)
    return list(ordered.values())
