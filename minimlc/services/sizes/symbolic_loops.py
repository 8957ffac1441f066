"""Symbolic functions: one primitive function for each choice of their sizes.

Proofs, schedules and targets know numbers only. So what runs, and what is scheduled, is always an
instance, in which the sizes are numbers; a call finds them in the shapes of its arrays.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from minimlc.loops.ir.nodes import (
    SCALAR,
    BlockIter,
    Buffer,
    Expr,
    For,
    PrimFunc,
    SymbolicFunc,
    Var,
    index,
)
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.simplify import Simplifier
from minimlc.loops.values.errors import CallError, CompileError, shown
from minimlc.loops.values.node import Mutator, replace
from minimlc.services.runtime.memory import shape_of

MOST_INSTANCES = 64
"""The most instances that are kept, of all functions together."""

ArgumentAxis = tuple[int, int]
"""An argument and one of its axes; -1 for a number."""


def checked_sizes(
    name: str,
    own: Sequence[str],
    sizes: Mapping[str, int],
    call: str = "mlc.specialize(mod, ",
) -> dict[str, int]:
    """The sizes of a function in order. `CompileError` E136 for others, with a hint that begins as
    `call`, and for no integers.
    """
    if sorted(own) != sorted(sizes):
        listed = [", ".join(names) or "none" for names in (own, sizes)]
        why = f"{name} has the sizes {listed[0]}, got {listed[1]}"
        hint = f"{call}{', '.join(f'{size}=128' for size in own)})" if own else ""
        raise CompileError(why, code="E136", hint=hint)
    for size, value in sizes.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise CompileError(f"the size {size} is an integer, got {shown(value)}", code="E136")
    return {size: int(sizes[size]) for size in own}


@lru_cache(maxsize=MOST_INSTANCES)
def instance(item: SymbolicFunc, sizes: tuple[int, ...]) -> PrimFunc:
    """The function for these values of `item.sizes`: it takes the arrays alone, not the numbers."""
    func = _Instance(dict(zip(item.sizes, sizes, strict=True))).visit(item.func)
    return replace(func, attrs=item.attrs)


class _Instance(Mutator):
    """Puts numbers in the place of sizes."""

    def __init__(self, sizes: Mapping[Var, int]):
        self.sizes = sizes
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_Var(self, var: Var) -> Expr:
        return index(self.sizes[var]) if var in self.sizes else var

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        if buffer not in self.buffers:
            shape = [self.number(size, f"a size of {buffer.name}") for size in buffer.shape]
            self.buffers[buffer] = replace(buffer, shape=shape)
        return self.buffers[buffer]

    def visit_BlockIter(self, it: BlockIter) -> BlockIter:
        extent = self.number(it.extent, f"the extent of {it.var.name}")
        return replace(it, extent=extent, value=self.visit(it.value))

    def visit_For(self, loop: For) -> For:
        loop = self.visit_children(loop)
        return replace(loop, extent=Simplifier(Ranges()).visit(loop.extent))

    def number(self, size: Any, what: str) -> int:
        """The number that a size is; `CompileError` where it is none, or less than 0."""
        if not isinstance(size, Expr):
            return size
        value = constant_value(Simplifier(Ranges()).visit(self.visit(size)))
        if value is None or value < 0:
            at = ", ".join(f"{var.name} = {number}" for var, number in self.sizes.items())
            why = f"{what}, {size.script()}, is {'no number' if value is None else value}"
            raise CompileError(f"{why} where {at}", code="E136")
        return value


# Calls


def arguments_of(item: SymbolicFunc) -> list[Buffer | Var]:
    """The parameters of a call, in order: arrays, and numbers where scalar parameters stand."""
    listed: list[Buffer | Var] = [*item.func.params]
    for place, size in item.scalars:
        listed.insert(place, size)
    return listed


def signature(item: SymbolicFunc, name: str) -> str:
    """The function's name and the parameters of a call, as text."""
    parts = (
        f"{arg.name}: {arg.dtype}[{_shape(arg)}]" if isinstance(arg, Buffer) else arg.name
        for arg in arguments_of(item)
    )
    return f"{name}({', '.join(parts)})"


def _shape(buffer: Buffer) -> str:
    sizes: tuple[Any, ...] = buffer.shape
    return ", ".join(size.script() if isinstance(size, Expr) else str(size) for size in sizes)


def instance_of_call(
    item: SymbolicFunc, name: str, args: Sequence[Any], named: Mapping[str, Any] = {}
) -> tuple[tuple[int, ...], list[Any]]:
    """The sizes that a call has, and the arrays that its instance takes.

    `CallError` for another number of arguments, for anything but a number where a size is expected,
    and for arrays whose shapes do not agree on a size.
    """
    expected = arguments_of(item)
    if named or len(args) != len(expected):
        why = f"{name} takes {len(expected)} argument(s) by position, got {len(args) + len(named)}"
        raise CallError(why, code="E601", hint=signature(item, name))
    call = _Call(name, expected, args)
    return call.sizes(item), [a for a, e in zip(args, expected, strict=True) if e not in item.sizes]


class _Call:
    """The arguments of one call, and the sizes that they give."""

    def __init__(self, name: str, expected: list[Buffer | Var], args: Sequence[Any]):
        self.name, self.expected, self.args = name, expected, args
        self.values: dict[Var, int] = {}
        self.places: dict[Var, ArgumentAxis] = {}

    def sizes(self, item: SymbolicFunc) -> tuple[int, ...]:
        for place, size in item.scalars:
            self.learn(size, self.integer(place), (place, -1))
        for number, param in enumerate(self.expected):
            for axis, size, value in self.axes(number, param):
                self.learn(size, value, (number, axis))
        return tuple(self.values[size] for size in item.sizes)

    def which(self, number: int) -> str:
        return f'argument {number + 1} ("{self.expected[number].name}") of {self.name}'

    def integer(self, number: int) -> int:
        """A scalar argument: an integer, or an array of one without axes."""
        value = self.args[number]
        plain = isinstance(value, int | np.integer | np.ndarray) and not isinstance(value, bool)
        if not plain or np.ndim(value) or np.asarray(value).dtype.kind not in "iu":
            why = f"{self.which(number)} must be an integer, got {shown(value)}"
            raise CallError(why, code="E602", hint="int(value)")
        return int(value)

    def axes(self, number: int, buffer: Buffer | Var) -> Iterator[tuple[int, Var, int]]:
        """The axes of an array whose sizes are variables, and their sizes in the call."""
        if not isinstance(buffer, Buffer) or buffer.scope == SCALAR:
            return
        got = shape_of(self.args[number])
        if got is None:
            kind = type(self.args[number]).__name__
            why = f"{self.which(number)} must be an array, got {kind}"
            raise CallError(why, code="E602", hint=f'numpy.asarray(value, "{buffer.dtype}")')
        if len(got) != buffer.ndim:
            why = f"must have {buffer.ndim} dimension(s) ({_shape(buffer)}), got {tuple(got)}"
            raise CallError(f"{self.which(number)} {why}", code="E604")
        sizes: tuple[Any, ...] = buffer.shape
        for axis, (size, value) in enumerate(zip(sizes, got, strict=True)):
            if isinstance(size, Var):
                yield axis, size, int(value)

    def learn(self, size: Var, value: int, place: ArgumentAxis) -> None:
        """Note a size from an argument; all arguments must agree."""
        number, axis = self.places.setdefault(size, place)
        known = self.values.setdefault(size, value)
        if known == value:
            return
        where = f'"{self.expected[number].name}" has on axis {axis}' if axis >= 0 else "was passed"
        why = f"must have size {size.name} = {known} on axis {place[1]}, got {value}"
        example = f"{size.name} is {known}, as {where}"
        raise CallError(f"{self.which(place[0])} {why}", code="E604", example=example)
