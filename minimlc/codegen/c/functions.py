"""The programs of `minimlc.tir.math.functions` as C functions, written out where they are used."""

import textwrap

from minimlc.codegen.c.expr import PLUS, UNARY, VALUE, C, Expressions, call
from minimlc.tir.math.float_steps import Program
from minimlc.tir.math.functions import PROGRAMS, ULP_BOUNDS
from minimlc.tir.nodes import Expr, Intrin, Var

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


class _Steps(Expressions):
    """The expressions of a program: variables have their own types."""

    def _variable(self, item: Var) -> C:
        return C(self.names[item])

    def _intrinsic(self, item: Intrin) -> C:
        if item.name == "muladd":
            a, b, c = (self.expr(argument) for argument in item.args)
            product = f"{a.inside(UNARY)} * {b.inside(UNARY)}"
            if c.text.startswith("-") and c.level >= UNARY:
                return C(f"{product} - {c.text[1:]}", PLUS)
            return C(f"{product} + {c.inside(UNARY)}", PLUS)
        if item.name in ("bits", "number"):
            return call(f"{item.name}_f32", *(self.expr(argument) for argument in item.args))
        return Expressions._intrinsic(self, item)


def _function(name: str, program: Program) -> str:
    steps = _Steps({var: var.name for var in program.params})
    parameters = ", ".join(f"float {var.name}" for var in program.params)
    lines = [f"// Off by at most {ULP_BOUNDS[name]} units in the last place."]
    lines += [f"static inline float {name}_f32({parameters}) {{"]
    for var, value in program.steps:
        lines.append(f"    const {VALUE[var.dtype]} {var.name} = {_text(steps, value)};")
        steps.names[var] = var.name
    if program.rare is not None:
        given = ", ".join(var.name for var in program.params)
        lines += [
            f"    if ({_text(steps, program.rare)}) {{",
            f"        return {name}f({given});",
            "    }",
        ]
    lines += [f"    return {_text(steps, program.result)};", "}"]
    return "\n".join(part for line in lines for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line,
        WIDTH,
        subsequent_indent=indent + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _text(steps: _Steps, value: Expr) -> str:
    return steps.expr(value).text


FUNCTIONS = {
    "bits_f32": _BITS.strip(),
    "number_f32": _NUMBER.strip(),
    **{f"{name}_f32": _function(name, program) for name, program in PROGRAMS.items()},
}
"""The text of each function."""
