"""Maps of indices: where an element of one index space lies in another.

`IndexMap.of("i, j -> i // 4, j, i % 4")` and `IndexMap.of(lambda i, j: (i // 4, j, i % 4))` are the
same map. Its outputs are quasi-affine: sums of inputs, and their quotients and remainders by
constants.
As in `affine`, inputs are cut into digits; a map is one-to-one if the digits can be read back from
its outputs, which also gives its inverse. Where that does not work out, small spaces are tried
whole. Text is read as data: nothing in it is evaluated.
"""

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod
from typing import Any, NoReturn

import numpy as np

from minimlc.loops.ir.nodes import Binary, Const, Expr, Unary, Var, index, substitute
from minimlc.loops.ir.tracing import tracing
from minimlc.loops.proofs.affine import Digit, DigitSum, Divided
from minimlc.loops.proofs.arith import constant_value, variables
from minimlc.loops.proofs.dependence import EXHAUSTIVE
from minimlc.loops.proofs.points import evaluate
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.simplify import simplify
from minimlc.loops.text.folding import BINARY
from minimlc.loops.values.depth import too_deep
from minimlc.loops.values.errors import CompileError, ScheduleError, did_you_mean
from minimlc.loops.values.node import Node, walk

LARGEST = 2**31
"""Constants in a map stay below this."""

SIGNS = ("+", "-", "*", "//", "%")
NOT_EXPRESSIONS = "the outputs are not expressions"
EXAMPLE = '"i, j -> i // 4, j, i % 4"'


@dataclass(frozen=True)
class IndexMap:
    """`outputs` as expressions over the variables `inputs`."""

    inputs: tuple[Var, ...]
    outputs: tuple[Expr, ...]

    @classmethod
    def of(cls, source: "str | Callable[..., Any] | IndexMap") -> "IndexMap":
        """The map that a text or a callable describes; `ScheduleError` E145 where it is wrong."""
        if isinstance(source, IndexMap):
            return source
        if isinstance(source, str):
            return _parsed(source)
        if not callable(source):
            kind = type(source).__name__
            _wrong(f"an index map is a text or a function of indices, got {kind}", hint=EXAMPLE)
        return _from_callable(source)

    def __str__(self) -> str:
        """The text that `of` reads back."""
        names = ", ".join(var.name for var in self.inputs)
        return f"{names} -> {', '.join(out.script() for out in self.outputs)}"

    def __repr__(self) -> str:
        return f"IndexMap({str(self)!r})"

    def __call__(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The outputs for `indices`."""
        mapping: dict[Node, Node] = dict(zip(self.inputs, indices, strict=True))
        return tuple(substitute(out, mapping) for out in self.outputs)

    def shape(self, extents: Sequence[int]) -> tuple[int, ...]:
        """The smallest shape that holds the outputs for all inputs within `extents`.

        `ScheduleError` E146 where an output is negative for some of them.
        """
        return _shape(self, tuple(extents))

    def check_one_to_one(self, extents: Sequence[int]) -> None:
        """`ScheduleError` E146 unless no two inputs within `extents` have the same outputs."""
        if _read_back(self, tuple(extents)) is not None:
            return
        if prod(extents) > EXHAUSTIVE:
            _unfit(
                f"whether {self} keeps all elements apart is not known",
                hint="sums of digits, as in " + EXAMPLE,
            )
        clash = _first_clash(self, extents)
        if clash is not None:
            first, second, element = (list(c) for c in clash)
            _unfit(
                f"{self} does not keep elements apart",
                example=f"elements {first} and {second} would both become {element}",
                hint="every input must be readable from the outputs, as in " + EXAMPLE,
            )

    def inverse(self, extents: Sequence[int]) -> "IndexMap | None":
        """The map back from the outputs; None where none is found."""
        values = _read_back(self, tuple(extents))
        if values is None:
            return None
        outputs = tuple(values[1][var] for var in self.inputs)
        return IndexMap(values[0], outputs)

    def origin(
        self, extents: Sequence[int], at: Sequence[Expr], shape: Sequence[int]
    ) -> tuple[tuple[Expr, ...], list[Expr]] | None:
        """The inputs whose outputs are `at`, which are less than `shape`, and the conditions on
        `at` for such inputs to lie within `extents`; None where no way back is found.
        """
        back = self.inverse(extents)
        if back is None:
            return None
        values = back(at)
        parts = [Binary(">=", value, index(0)) for value in values]
        parts += [Binary("<", v, index(size)) for v, size in zip(values, extents, strict=True)]
        parts += [Binary("==", out, given) for out, given in zip(self(values), at, strict=True)]
        ranges = Ranges({v: size for v, size in zip(at, shape, strict=True) if isinstance(v, Var)})
        return values, [part for p in parts if not ranges.prove(part := simplify(p, ranges))]

    def is_onto(self, extents: Sequence[int]) -> bool:
        """Whether a one-to-one map reaches every element of its shape."""
        return prod(self.shape(extents)) == prod(extents)


@lru_cache(maxsize=128)
def _parsed(text: str) -> IndexMap:
    return _Parser(text).read()


@lru_cache(maxsize=128)
def _shape(map_: IndexMap, extents: tuple[int, ...]) -> tuple[int, ...]:
    ranges = Ranges(dict(zip(map_.inputs, extents, strict=True)))
    for part in (n for out in map_.outputs for n in walk(out) if isinstance(n, Expr)):
        if not ranges.is_exact(part):
            _unfit(f"{part.script()} leaves the range of 64-bit indices")
    sums = _digits(map_.inputs, extents).sums(map_.outputs)
    pairs = zip(map_.outputs, sums, strict=True)
    return tuple(_extent(out, total, ranges) for out, total in pairs)


def _extent(out: Expr, total: DigitSum | None, ranges: Ranges) -> int:
    low, high = ranges.bounds(out)
    if total is not None:
        low, high = max(low, total.bounds()[0]), min(high, total.bounds()[1])
    if low < 0:
        _unfit(f"{out.script()} can be negative: it goes down to {int(low)}")
    assert high < inf
    return int(high) + 1


def _digits(inputs: Sequence[Var], extents: Sequence[int]) -> Divided:
    return Divided(dict(zip(inputs, extents, strict=True)))


@lru_cache(maxsize=128)
def _read_back(
    map_: IndexMap, extents: tuple[int, ...]
) -> tuple[tuple[Var, ...], Mapping[Var, Expr]] | None:
    """Variables for the outputs, and each input as an expression over them; None if not found.

    Round by round: what is left of an output after subtracting the known digits is read as a
    number in a mixed radix, which makes more digits known. So is what a division leaves, which is
    0, where no digits were cut for it.
    """
    digits = _digits(map_.inputs, extents)
    sums = digits.sums(map_.outputs)
    names = _output_names(map_)
    outs = tuple(map(Var, names))
    shape = dict(zip(outs, map_.shape(extents), strict=True))
    known: dict[Digit, Expr] = {}
    pending: list[tuple[Expr, DigitSum]]
    pending = [(out, total) for out, total in zip(outs, sums, strict=True) if total is not None]
    pending += [(index(0), division.left) for division in digits.divisions.values()]
    progress = True
    while progress:
        progress = False
        for equation in list(pending):
            read = _read_digits(*equation, known)
            if read is not None:
                known.update({d: value for d, value in read.items() if d not in known})
                pending = [other for other in pending if other is not equation]
                progress = True
    values: dict[Var, Expr] = {}
    for var in map_.inputs:
        value: Expr = index(0)
        for digit in digits.of(var):
            if digit.extent > 1:
                if digit not in known:
                    return None
                value = value + known[digit] * digit.divisor
        values[var] = simplify(value, Ranges(shape))
    return outs, values


def _output_names(map_: IndexMap) -> list[str]:
    """One name per output: the input's where an output is one, else a number after "o"."""
    taken = {var.name for var in map_.inputs}
    names = []
    for number, out in enumerate(map_.outputs):
        name = out.name if isinstance(out, Var) and out.name not in names else f"o{number}"
        while name in names or (name in taken and not isinstance(out, Var)):
            name += "_"
        names.append(name)
    return names


def _read_digits(
    out: Expr, total: DigitSum, known: Mapping[Digit, Expr]
) -> dict[Digit, Expr] | None:
    """The unknown digits of a sum in terms of its value `out`; None where they overlap."""
    rest: Expr = out - total.constant
    unknown = []
    for digit, coefficient in total.terms.items():
        if digit in known:
            rest = rest - known[digit] * coefficient
            continue
        unknown.append((abs(coefficient), digit, coefficient < 0))
        if coefficient < 0:
            rest = rest - coefficient * (digit.extent - 1)
    unknown.sort(key=lambda item: item[0])
    reach = 1
    for size, digit, _ in unknown:
        if size < reach:
            return None
        reach = size * (digit.extent - 1) + reach
    values: dict[Digit, Expr] = {}
    for place, (size, digit, falls) in reversed(list(enumerate(unknown))):
        value = rest if size == 1 else rest // size
        if place > 0:
            rest = rest % size
        values[digit] = (digit.extent - 1) - value if falls else value
    return values


def _first_clash(map_: IndexMap, extents: Sequence[int]) -> Any:
    """Two inputs with one output, and that output; None where there are none."""
    grids = np.indices(tuple(extents)).reshape(len(extents), -1)
    values = dict(zip(map_.inputs, grids, strict=True))
    count = grids.shape[1]
    columns = [np.broadcast_to(evaluate(out, values), count) for out in map_.outputs]
    outputs = np.stack(columns, axis=1)
    _, first, number = np.unique(outputs, axis=0, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[number.ravel()] != np.arange(count))
    if len(again) == 0:
        return None
    row = int(again[0])
    other = int(first[number.ravel()[row]])
    return tuple(tuple(map(int, part)) for part in (grids[:, other], grids[:, row], outputs[row]))


def _wrong(why: str, *, hint: str = "") -> NoReturn:
    raise ScheduleError(why, code="E145", hint=hint)


def _unfit(why: str, *, example: str = "", hint: str = "") -> NoReturn:
    raise ScheduleError(f"index map: {why}", code="E146", example=example, hint=hint)


def _from_callable(function: Callable[..., Any]) -> IndexMap:
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        _wrong("an index map's function takes one argument per dimension", hint="lambda i, j: ...")
    inputs = tuple(Var(p.name) for p in parameters)
    try:
        with tracing():
            result = function(*inputs)
    except CompileError:
        raise
    except Exception as error:
        _wrong(f"the index map's function fails: {type(error).__name__}: {error}", hint=EXAMPLE)
    parts = tuple(result) if isinstance(result, list | tuple) else (result,)
    return _checked(inputs, parts)


def _checked(inputs: tuple[Var, ...], parts: Iterable[Any]) -> IndexMap:
    """The map of a function's result, parsed from its text, so that both are one object."""
    outputs = []
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, Expr | int | np.integer):
            _wrong(f"an output of an index map is {part!r}, which is not an index", hint=EXAMPLE)
        out = part if isinstance(part, Expr) else index(int(part))
        if not variables(out) <= set(inputs):
            _wrong(f"{out.script()} uses something other than the map's inputs")
        outputs.append(out)
    if not outputs:
        _wrong("an index map has at least one output", hint=EXAMPLE)
    return _parsed(str(IndexMap(inputs, tuple(outputs))))


class _Parser:
    """Reads `i, j -> i // 4, j, i % 4`."""

    def __init__(self, text: str):
        self.text = text
        self.inputs: dict[str, Var] = {}
        self.offset = 0

    def read(self) -> IndexMap:
        left, arrow, right = self.text.partition("->")
        if not arrow:
            raise self.error('an index map has "->" between inputs and outputs', len(left), 1)
        self._read_inputs(left)
        self.offset = len(left) + len(arrow)
        outputs = [self.expr(part) for part in self._outputs(right)]
        return IndexMap(tuple(self.inputs.values()), tuple(outputs))

    def error(self, why: str, column: int, width: int, hint: str = EXAMPLE) -> ScheduleError:
        """The error, with the place in the text marked."""
        marks = " " * column + "^" * max(1, width)
        shown = f"{self.text}\n{marks}" if len(self.text) < 200 else ""
        return ScheduleError(why, code="E145", excerpt=shown, hint=hint)

    def error_at(self, item: ast.expr, why: str, hint: str = EXAMPLE) -> ScheduleError:
        """The error in a part of the outputs."""
        width = (item.end_col_offset or 0) - item.col_offset
        return self.error(why, self.offset + item.col_offset, width, hint)

    def _read_inputs(self, left: str) -> None:
        at = 0
        for part in left.split(","):
            name = part.strip()
            column = at + len(part) - len(part.lstrip())
            if not name.isidentifier():
                raise self.error(f'an input is a name, got "{name}"', column, len(name))
            if name in self.inputs:
                raise self.error(
                    f"the input {name} stands twice", column, len(name), "another name"
                )
            self.inputs[name] = Var(name)
            at += len(part) + 1

    def _outputs(self, right: str) -> list[ast.expr]:
        start = len(right) - len(right.lstrip())
        self.offset += start - 1
        if not right.strip() or "\n" in right.strip():
            raise self.error(
                "an index map's outputs stand on one line after the arrow", self.offset, 1
            )
        try:
            tree = ast.parse(f"({right.strip().rstrip(',')},)", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            column = self.offset + max(0, (getattr(error, "offset", 1) or 1) - 1)
            raise self.error(NOT_EXPRESSIONS, min(column, len(self.text)), 1) from None
        if not isinstance(tree, ast.Tuple) or too_deep(tree) is not None:
            raise self.error(NOT_EXPRESSIONS, self.offset + 1, len(right.strip()))
        return tree.elts

    def expr(self, item: ast.expr) -> Expr:
        match item:
            case ast.Name(name):
                return self._name(item, name)
            case ast.Constant(value) if type(value) is int and value < LARGEST:
                return index(value)
            case ast.UnaryOp(ast.USub(), operand):
                inner = self.expr(operand)
                return index(-int(inner.value)) if isinstance(inner, Const) else Unary("-", inner)
            case ast.BinOp(left, op, right) if BINARY[type(op)][0] in SIGNS:
                return self._binary(item, BINARY[type(op)][0], left, right)
            case _:
                why = "an output is made of inputs, integers, + - * // % and parentheses"
                raise self.error_at(item, why)

    def _name(self, item: ast.expr, name: str) -> Expr:
        if name not in self.inputs:
            hint = did_you_mean(name, self.inputs)
            raise self.error_at(item, f'"{name}" is not an input', hint)
        return self.inputs[name]

    def _binary(self, item: ast.expr, op: str, left: ast.expr, right: ast.expr) -> Expr:
        a, b = self.expr(left), self.expr(right)
        factor = constant_value(b)
        if op in ("//", "%") and (factor is None or factor < 1):
            raise self.error_at(item, f'"{op}" in an index map divides by a constant >= 1')
        if op == "*" and factor is None and constant_value(a) is None:
            raise self.error_at(item, "a product in an index map has a constant side")
        return Binary(op, a, b)
