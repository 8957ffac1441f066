"""Random programs: blocks with conditions, reductions, in-place updates and odd indices."""

import random
from collections.abc import Callable
from unittest.mock import patch

import numpy as np

import minimlc as mlc
from minimlc.dtypes import integer_range, is_float, to_numpy
from minimlc.run import interpret
from tests.fuzz.subject import Subject, alike, subject
from tests.helpers import copies

Lines = list[str]


def random_program(seed: int) -> Subject:
    """A program that is well-formed, runs, and reads nothing undefined."""
    rng = random.Random(f"program {seed}")
    while True:
        try:
            mod = mlc.parse(_Writer(rng).program())
            mlc.verify(mod)
            known = subject(mod, seed)
        except mlc.CompileError:
            continue
        if not reads_undefined(known):
            return known


def reads_undefined(known: Subject) -> bool:
    """Whether results depend on what an allocated buffer holds before it is written: tried with
    small numbers, and with large ones of either sign, which no minimum or maximum hides.
    """
    rng = np.random.default_rng(0)

    def small(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return rng.integers(0, 2 if dtype == "bool" else 127, shape).astype(to_numpy(dtype))

    def high(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.full(shape, _extremes(dtype)[1]).astype(to_numpy(dtype))

    def low(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.full(shape, _extremes(dtype)[0]).astype(to_numpy(dtype))

    return any(_changes(known, other) for other in (small, high, low))


def _extremes(dtype: str) -> tuple[float, float]:
    if is_float(dtype):
        return -3e4, 3e4
    return (0, 1) if dtype == "bool" else integer_range(dtype)


def _changes(known: Subject, other: Callable[[tuple[int, ...], str], np.ndarray]) -> bool:
    for arrays, expected in zip(known.inputs, known.expected, strict=True):
        got = copies(arrays)
        with patch("minimlc.tir.execute.poison", other):
            interpret(known.mod, "main", *got)
        if not all(alike(a, b, exact=True) for a, b in zip(got, expected, strict=True)):
            return True
    return False


class _Writer:
    """One program's text. `A` is read and updated, `C` is the output, `X0` ... lie between."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.rows, self.columns, self.depth = (
            rng.choice([3, 4, 5, 6]),
            rng.choice([2, 3, 4]),
            rng.choice([2, 3, 5]),
        )
        self.shared = rng.random() < 0.35
        self.sources = ["A"]

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def program(self) -> str:
        body: Lines = []
        if self.chance(0.2):
            body = ["for t in range(2):"]
        pad = "    " * len(body)
        if self.shared:
            body.append(f"{pad}for i in range({self.rows}):")
        count = self.rng.randint(2, 4)
        inner = pad + "    " if self.shared else pad
        own: Lines = []
        for number in range(count):
            name = f"X{number}" if number < count - 1 else "C"
            own += [name] if name != "C" else []
            body += [inner + line for line in self.block(number, name)]
            if self.chance(0.2):
                body += [inner + line for line in self.update(number)]
        return "\n".join([*self.head(own), *(f"    {line}" for line in body), ""])

    def head(self, own: Lines) -> Lines:
        shape = f"({self.rows}, {self.columns}), 'int32'"
        lines = ["@T.prim_func", f"def main(A: T.Buffer({shape}), C: T.Buffer({shape})):"]
        lines += [f"    {name} = T.alloc_buffer({shape})" for name in own]
        for name in own:
            if self.chance(0.4):
                loops = f"z{name}, y{name}"
                lines += [
                    f"    for {loops} in T.grid({self.rows}, {self.columns}):",
                    f"        with T.block('{name}_zero'):",
                    f"            vi, vj = T.axis.remap('SS', [{loops}])",
                    f"            {name}[vi, vj] = 7",
                ]
        return lines

    def block(self, number: int, name: str) -> Lines:
        row, column, inner = ("i" if self.shared else f"i{number}"), f"j{number}", f"k{number}"
        reduces = self.chance(0.4)
        around: Lines = []
        if not self.shared:
            if self.chance(0.12):
                around.append(f"if A[0, 0] > {self.rng.choice([-5, 0, 5])}:")
            around.append(f"for {row} in range({self.rows}):")
        around.append(f"for {column} in range({self.columns}):")
        if reduces:
            around.append(f"for {inner} in range({self.depth}):")
        if self.chance(0.12):
            last = f"{inner} > 0" if reduces else f"{row} > 0"
            tests = [f"{row} + {column} > 1", f"{column} < 1", f"A[{row}, {column}] > 0", last]
            around.append(f"if {self.rng.choice(tests)}:")
        around.append(f"with T.block('{name}'):")
        body = self.body(name, row, column, inner if reduces else "")
        self.sources.append(name)
        pads = ["    " * depth for depth in range(len(around) + 1)]
        lines = [pad + line for pad, line in zip(pads, around, strict=False)]
        return lines + [pads[-1] + line for line in body]

    def body(self, name: str, row: str, column: str, inner: str) -> Lines:
        kinds, loops = ("SSR", [row, column, inner]) if inner else ("SS", [row, column])
        iters = "vi, vj, vk" if inner else "vi, vj"
        lines = [f"{iters} = T.axis.remap('{kinds}', [{', '.join(loops)}])"]
        if self.chance(0.15):
            tests = [f"{row} < {self.rows - 1}", f"{row} + {column} < 4", f"{column} >= 1"]
            lines.append(f"T.where({self.rng.choice(tests)})")
        first, second = self.load(), self.load()
        if self.chance(0.25):
            source, other = self.rng.choice(self.sources), self.rng.choice(["0", second])
            first = f"T.if_then_else(vi >= 1, {source}[vi - 1, vj], {other})"
        target = f"{name}[vi, vj]"
        if not inner:
            op, number = self.rng.choice("+-*"), self.rng.randint(-3, 3)
            return [*lines, f"{target} = {first} {op} {second} + {number}"]
        updates = [
            f"{target} + ({first}) * T.cast(vk + 1, 'int32')",
            f"T.max({target}, {first} - T.cast(vk, 'int32'))",
        ]
        start = self.rng.choice(["0", second])
        lines += ["with T.init():", f"    {target} = {start}"]
        return [*lines, f"{target} = {self.rng.choice(updates)}"]

    def load(self) -> str:
        """An element of something written before, mostly the block's own."""
        last, width = self.rows - 1, self.columns
        index = self.rng.choices(
            [
                "vi, vj",
                f"{last} - vi, vj",
                f"(vi + 1) % {self.rows}, vj",
                f"vi, (vj + vi) % {width}",
                f"vi // 2, {width - 1} - vj",
            ],
            [55, 15, 10, 10, 10],
        )[0]
        return f"{self.rng.choice(self.sources)}[{index}]"

    def update(self, number: int) -> Lines:
        """A block that changes A in place."""
        row, column = ("i" if self.shared else f"ia{number}"), f"ja{number}"
        loops = [f"for {column} in range({self.columns}):"]
        if not self.shared:
            loops = [f"for {row}, {column} in T.grid({self.rows}, {self.columns}):"]
        return [
            *loops,
            f"    with T.block('U{number}'):",
            f"        vi, vj = T.axis.remap('SS', [{row}, {column}])",
            "        A[vi, vj] = A[vi, vj] + 1",
        ]
