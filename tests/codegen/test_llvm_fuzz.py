"""Random small programs: loops of mixed kinds, guards, local buffers, odd sizes and indices."""

import numpy as np
import pytest

from minimlc.loops.ir.nodes import (
    Alloc,
    Binary,
    Buffer,
    Cast,
    Expr,
    For,
    IfThenElse,
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
from tests.codegen.machines import MACHINES
from tests.codegen.test_llvm_loops import agree
from tests.helpers import some_and_more

KINDS = ("serial", "vectorized", "unrolled", "parallel")
SIZES = (1, 2, 3, 5, 8, 9, 13)


class Program:
    """A nest of two loops over out[i, j]; each instance writes only its own elements."""

    def __init__(self, seed: int, dtype: str):
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.rows, self.columns = (int(self.rng.choice(SIZES)) for _ in range(2))
        self.x = Buffer("x", (self.rows, self.columns), dtype)
        self.y = Buffer("y", (self.columns, self.rows + 2), dtype)
        self.out = Buffer("out", (self.rows, self.columns), dtype)
        self.i, self.j = Var("i"), Var("j")

    def choose(self, *options):
        return options[self.rng.integers(len(options))]

    def within(self, size: int, *variables: Var) -> Expr:
        """Some index of an axis of `size`."""
        item: Expr = index(int(self.rng.integers(4)))
        for var in variables:
            item = item + var * int(self.rng.integers(1, 4))
        item = self.choose(item, item // int(self.rng.integers(1, 5)), (size - 1) - item)
        return item % size

    def element(self, *variables: Var) -> Expr:
        exact = self.choose(True, False)
        if self.choose(True, False):
            place = (
                (self.i, self.j)
                if exact
                else (
                    self.within(self.rows, *variables),
                    self.within(self.columns, *variables),
                )
            )
            return self.x[place]
        return self.y[
            self.j if exact else self.within(self.columns, *variables),
            self.i + 1 if exact else self.within(self.rows + 2, *variables),
        ]

    def value(self, depth: int, *variables: Var) -> Expr:
        if depth == 0:
            return self.choose(
                self.element(*variables), const(int(self.rng.integers(5)), self.dtype)
            )
        a, b = self.value(depth - 1, *variables), self.value(depth - 1, *variables)
        kind = self.rng.integers(6)
        if kind == 0:
            return Select(self.condition(*variables), a, b)
        if kind == 1:
            other = self.choose("int32", "float32", "int8", "float64")
            return binary("max", Cast(self.dtype, Cast(other, binary("min", a, 9))), b)
        return binary(self.choose("+", "-", "min", "max"), a, b)

    def condition(self, *variables: Var) -> Expr:
        place = self.choose(*variables) < int(self.rng.integers(1, 9))
        test = self.element(*variables) > self.element(*variables)
        return self.choose(place, test, Binary("and", place, test), Binary("or", place, test))

    def body(self) -> Stmt:
        k, i, j = Var("k"), self.i, self.j
        put = store(self.out, (i, j), self.value(2, i, j))
        more = binary("max", self.out[i, j], self.value(1, i, j, k))
        update = For(
            k,
            index(int(self.rng.choice(SIZES))),
            self.choose("serial", "unrolled"),
            store(self.out, (i, j), more),
        )
        if self.choose(True, False):
            local = Buffer("local", (2,), self.dtype, "local")
            put = Alloc(
                local,
                seq((store(local, (0,), self.value(1, i, j)), store(self.out, (i, j), local[0]))),
            )
        guarded = IfThenElse(self.condition(i, j), update, self.choose(None, put))
        return seq((put, self.choose(update, guarded)))

    def func(self) -> PrimFunc:
        inner = For(self.j, index(self.columns), self.choose(*KINDS), self.body())
        outer = For(self.i, index(self.rows), self.choose(*KINDS), inner)
        return PrimFunc((self.x, self.y, self.out), (), outer)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "uint8", "float64"])
@pytest.mark.parametrize("seeds", some_and_more(range(4), range(12)), ids=len)
def test_random_programs(seeds, dtype):
    for seed in seeds:
        func = Program(seed, dtype).func()
        agree(func, MACHINES[seed % len(MACHINES)], exact=not is_float(dtype))
