"""Scalar operations that a target lacks, written out in those that it has.

A back-end spells about 25 machine operations. What the loop IR's operators mean beyond those (which
way `//` rounds, NaN in `max`, shifts that go too far, 16-bit floats, exp) is in `math.scalars`,
once.
"""

from collections.abc import Callable
from typing import NamedTuple

from minimlc.loops.ir.intrinsics import is_formula
from minimlc.loops.ir.nodes import Cast, Const, Expr, Intrin
from minimlc.loops.ir.values import HALF, rounds_twice
from minimlc.loops.math.scalars import definition, operands, operation, rounded, written_out
from minimlc.loops.values.dtypes import DTYPES
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.node import Mutator

EXACT = ("<", "<=", ">", ">=", "==", "!=", "negate", "min", "max", "isnan")
"""Operations whose results on 16-bit floats are those on the same values in float32."""


SHIFTS = {"<<": "shift_left", ">>": "shift_right"}
"""The machine's shifts, for counts within the type's bits."""


class Dialect(NamedTuple):
    """How a target computes: a record for `minimlc.loops.lower.lower.lower`.

    `computed_in(operation, dtype)` is the dtype in which it computes an operation on operands of a
    dtype: this one where it has the operation (as an instruction, an operator or a function); a
    wider one, whose result is rounded; or "" where the definition is to be written out, with a
    `Let` for each value that it names. `math.scalars.operation` gives the operations' names.
    With `approximate`, functions in float32 are our own polynomials, not a library's.
    """

    computed_in: Callable[[str, str], str]
    approximate: bool = True


def formulas_written_out(name: str, dtype: str) -> str:
    """`computed_in` of a target that has every operation except those entered as formulas."""
    return "" if is_formula(name) else dtype


def halves_in_float32(name: str, dtype: str) -> str:
    """`computed_in` of a target that has every operation on dtypes of 32 bits and more."""
    exact = name in EXACT or name.startswith("to_")
    return "float32" if dtype in HALF and not exact else dtype


PLAIN = Dialect(formulas_written_out)
"""The dialect of a target that implements every operator itself."""


class Legalize(Mutator):
    """Rewrites expressions into the operations of a dialect."""

    def __init__(self, dialect: Dialect):
        self.dialect = dialect

    def _visit_operation(self, item: Expr) -> Expr:
        return self._computed(self.visit_children(item))

    visit_Unary = visit_Binary = visit_Intrin = _visit_operation

    def visit_Cast(self, item: Cast) -> Expr:
        item = self.visit_children(item)
        if rounds_twice(item.a.dtype, item.dtype):
            return Cast(item.dtype, self._computed(Intrin("odd_float32", (item.a,))))
        if item.dtype in HALF and item.a.dtype not in ("float32", item.dtype):
            return Cast(item.dtype, self._computed(Cast("float32", item.a)))
        return self._computed(item)

    def _computed(self, item: Expr) -> Expr:
        name, values = operation(item), operands(item)
        dtype = values[0].dtype
        wide = self.dialect.computed_in(name, dtype) or ("float32" if dtype in HALF else "")
        if wide == dtype:
            return item
        if wide:
            return rounded(item, wide, self._computed)
        if name in SHIFTS and is_count(values[1]):
            return Intrin(SHIFTS[name], values)
        program = definition(name, dtype, self.dialect.approximate)
        if program is None or program.rare is not None:
            raise BuildError(f"this target has no {name} of {dtype}")
        return self.visit(written_out(program, values))


def is_count(item: Expr) -> bool:
    """Whether every machine can shift by this count."""
    return isinstance(item, Const) and 0 <= item.value < DTYPES[item.dtype].bits
