"""Random nests: loops of every kind in each other, whose lanes go different ways.

What a condition holds off is outside its buffer often enough, lengths depend on outer loops or are
read from memory (and may be negative), and storage lies anywhere. Operators are those whose result
no compiler may round otherwise, so all targets must agree in every bit.
"""

from collections.abc import Callable

import numpy as np

from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import (
    Alloc,
    Binary,
    Buffer,
    Expr,
    For,
    IfThenElse,
    Intrin,
    PrimFunc,
    Select,
    Stmt,
    Var,
    binary,
    const,
    index,
    seq,
    store,
)
from minimlc.loops.values.dtypes import is_float
from minimlc.loops.values.module import IRModule
from tests.guard_pages import between_guards
from tests.helpers import random_array

KINDS = ("serial", "vectorized", "vectorized", "unrolled", "parallel")
SIZES = (1, 2, 3, 4, 5, 8, 9, 17)
DEPTH = 4
LONGEST = 9
"""Iterations that are written out: more of them around loops of lanes take LLVM ten seconds."""

MOST = 6
"""A nest branches so often: some statements of random code are enough to read."""

ODD = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42)
"""Floats that are often forgotten."""


class Nest:
    """A random function of `x`, `y`, `n` and `out`; most stores are to an element of their own."""

    def __init__(self, seed: int, dtype: str):
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.shape = tuple(int(self.rng.choice(SIZES)) for _ in range(3))
        self.x = Buffer("x", (self.shape[1] + 2, self.shape[0]), dtype)
        self.y = Buffer("y", (int(self.rng.choice(SIZES)),), dtype)
        self.n = Buffer("n", (4,), "int64")
        self.out = Buffer("out", self.shape, dtype)
        self.count = 0

    def choose(self, *options):
        return options[self.rng.integers(len(options))]

    def often(self, chance: float) -> bool:
        return self.rng.random() < chance

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def func(self) -> PrimFunc:
        return PrimFunc((self.x, self.y, self.n, self.out), (), self.statement((), ()))

    # Statements

    def statement(self, loops: tuple[Var, ...], locals: tuple[Buffer, ...]) -> Stmt:
        kind = self.number(0, 10)
        if len(loops) < 2 or (kind < 3 and len(loops) < DEPTH):
            return self.loop(loops, locals)
        self.count += 1
        if self.count > MOST:
            return self.assignment(loops, locals)
        if kind < 5:
            return seq([self.statement(loops, locals) for _ in range(2)])
        if kind < 7:
            other = self.statement(loops, locals) if self.often(0.4) else None
            return IfThenElse(self.condition(loops), self.statement(loops, locals), other)
        if kind < 8:
            return self.storage(loops, locals)
        return self.assignment(loops, locals)

    def loop(self, loops: tuple[Var, ...], locals: tuple[Buffer, ...]) -> Stmt:
        var = Var(f"i{len(loops)}")
        inner = self.statement((*loops, var), locals)
        if len(loops) < 3:
            most = self.shape[len(loops)]
            extent: Expr = index(most)
            if loops and self.often(0.3):
                extent = binary("min", self.choose(loops[-1] + 1, loops[0] % 3, self.n[1]), most)
        else:
            extent = self.choose(index(self.number(0, 4)), loops[self.number(0, 3)] % 3, self.n[0])
        kind = self.choose(*KINDS)
        if kind == "unrolled" and len(loops) < 3 and self.shape[len(loops)] > LONGEST:
            kind = "serial"
        return For(var, extent, kind, inner)

    def storage(self, loops: tuple[Var, ...], locals: tuple[Buffer, ...]) -> Stmt:
        size, k = self.choose(2, 3, 40), Var("k")
        local = Buffer(f"local{len(locals)}", (size,), self.dtype, "local")
        fill = For(k, index(size), self.choose(*KINDS), store(local, (k,), self.value(1, loops)))
        return Alloc(local, seq([fill, self.statement(loops, (*locals, local))]))

    def assignment(self, loops: tuple[Var, ...], locals: tuple[Buffer, ...]) -> Stmt:
        own = tuple(index(0) if d >= len(loops) else loops[d] for d in range(3))
        value = self.value(2, loops, locals)
        if locals and self.often(0.4):
            local = locals[-1]
            return store(local, (self.within(local.shape[0], loops),), value)
        if self.often(0.1):
            return store(self.out, tuple(self.within(size, loops) for size in self.shape), value)
        if self.often(0.4):
            value = binary(self.choose("max", "min", "+"), self.out[own], value)
        return store(self.out, own, value)

    # Expressions

    def within(self, size: int, loops: tuple[Var, ...]) -> Expr:
        """Some index of an axis of `size`."""
        item: Expr = index(self.number(0, 4))
        for var in loops:
            item = item + var * self.number(0, 3)
        return self.choose(item, item // self.number(1, 4), (size - 1) - item) % size

    def place(self, loops: tuple[Var, ...], size: int) -> tuple[Expr, Expr]:
        """A plain index, and the condition that it is inside."""
        item = self.choose(*loops) * self.choose(1, 1, 1, 2, -1) + self.number(-3, 5)
        return item, Binary("and", item >= 0, item < size)

    def element(self, loops: tuple[Var, ...], locals: tuple[Buffer, ...] = ()) -> Expr:
        if locals and self.often(0.3):
            local = self.choose(*locals)
            return local[self.within(local.shape[0], loops)]
        if self.often(0.5):
            return self.x[loops[1] + self.number(0, 3), loops[0]]
        return self.y[self.within(self.y.shape[0], loops)]

    def value(self, depth: int, loops: tuple[Var, ...], locals: tuple[Buffer, ...] = ()) -> Expr:
        if depth == 0:
            number = const(self.number(0, 5), self.dtype)
            return self.choose(self.element(loops, locals), number)
        a, b = (self.value(depth - 1, loops, locals) for _ in range(2))
        kind = self.number(0, 6)
        if kind == 0:
            return Select(self.condition(loops), a, b)
        if kind in (1, 2):
            item, inside = self.place(loops, self.y.shape[0])
            return Select(inside, self.y[item], a)
        if kind == 3 and is_float(self.dtype):
            return Select(Intrin("isnan", (a,)), b, a)
        return binary(self.choose("+", "-", "min", "max"), a, b)

    def condition(self, loops: tuple[Var, ...]) -> Expr:
        var = self.choose(*loops)
        where = self.choose(
            var < self.number(1, 9), Binary("==", var % 3, index(1)), loops[0] <= loops[-1]
        )
        item, inside = self.place(loops, self.y.shape[0])
        held = Binary("and", inside, self.y[item] > self.element(loops))
        data = self.element(loops) > self.element(loops)
        either = Binary(self.choose("and", "or"), where, data)
        return self.choose(where, where, data, held, either, self.n[2] > var)

    def arguments(self) -> list[np.ndarray]:
        """Odd data; lengths from -3 to 5."""
        made = []
        for param in (self.x, self.y, self.n, self.out):
            array = random_array(param.shape, param.dtype, self.rng)
            if param is self.n:
                array = self.rng.integers(-3, 6, param.shape)
            elif is_float(param.dtype):
                array = self.rng.integers(-9, 10, param.shape).astype(array.dtype)
                odd = self.rng.random(param.shape) < 0.2
                array[odd] = self.rng.choice(ODD, param.shape)[odd]
            made.append(array)
        return made


def compare(nest: Nest, func: PrimFunc, run: Callable[..., object]) -> None:
    """`run` leaves in arrays between guard pages what the interpreter leaves, bit by bit."""
    given = nest.arguments()
    for at_end in (True, False):
        expected = [array.copy() for array in given]
        got = [
            between_guards(array, param.dtype, at_end)
            for array, param in zip(given, func.params, strict=True)
        ]
        interpret(IRModule.of({"f": func}), "f", *expected)
        run(*got)
        for param, meant, made in zip(func.params, expected, got, strict=True):
            if is_float(param.dtype):
                made, meant = made.astype(np.float64), meant.astype(np.float64)
                plain = ~np.isnan(meant)
                signs = np.signbit(made[plain]), np.signbit(meant[plain])
                np.testing.assert_array_equal(*signs, err_msg=f"signs of {param.name}")
            np.testing.assert_array_equal(made, meant, err_msg=param.name)
