"""Random indices, conditions and values: small productions that combine.

Indices are inside for certain: of axes alone where they fit, else wrapped (`% n`) or guarded.
Floats are whole numbers so small that every result is exact: rounding in another order can be
distinguished from faults.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from minimlc.loops.values.dtypes import is_float

WRAPS = (6364136223846793005, 4611686018427387904, 1 << 62, 9223372036854775783)
"""Factors with which an axis of some values leaves 64 bits."""

EXACT = {"float64": 2**50, "float32": 2**22, "float16": 2**9, "bfloat16": 2**6}
"""Whole numbers up to these are exact in sums of four."""

LARGEST = 3
"""Magnitude of the parameters' elements, special ones apart."""


class Axis(NamedTuple):
    """Something in scope that takes the values 0 ... size - 1."""

    name: str
    size: int


class Value(NamedTuple):
    """An expression and a bound on its magnitude (of floats)."""

    text: str
    most: float = 0


class Source(NamedTuple):
    """A buffer to read from, and a bound on its elements."""

    name: str
    shape: tuple[int, ...]
    most: float = LARGEST


Axes = Sequence[Axis]


class Expressions:
    """Draws expressions of one dtype over the axes it is given; `N` holds integers."""

    def __init__(self, rng: random.Random, dtype: str):
        self.rng, self.dtype = rng, dtype
        self.floats = is_float(dtype)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def literal(self, number: object) -> str:
        text = f'"{number}"' if isinstance(number, str) else number
        return f"T.{self.dtype}({text})"

    # Indices

    def index(self, size: int, axes: Axes) -> str:
        """Of 0 ... size - 1, whatever the axes are."""
        if not axes or self.chance(0.06):
            return str(self.rng.randrange(size))
        fitting = self.fitting(size, axes)
        wrapped = self.wrapped(size, axes)
        return self.rng.choice(fitting if fitting and self.chance(0.6) else wrapped)

    def fitting(self, size: int, axes: Axes) -> list[str]:
        """Straight, reversed, shifted, strided, and sums of two axes, where they stay inside."""
        (a, n), (b, m) = self.rng.choice(axes), self.rng.choice(axes)
        forms = {
            a: n,
            f"{size - 1} - {a}": n,
            f"{a} + {max(0, size - n)}": n,
            f"{a} * 2 + 1": 2 * n,
            f"{a} * 2": 2 * n - 1,
            f"{a} + {b}": n + m - 1,
            f"{a} * {m} + {b}": n * m,
            f"{a} // 2": (n + 1) // 2,
        }
        return [form for form, values in forms.items() if values <= size]

    def wrapped(self, size: int, axes: Axes) -> list[str]:
        """Indices that stay inside by themselves."""
        (a, n), (b, _) = self.rng.choice(axes), self.rng.choice(axes)
        some = self.rng.randint(1, 9)
        return [
            f"({a} + {some}) % {size}",
            f"({a} * 5) % {size}",
            f"{a} // {1 + some % 3} % {size}",
            f"({a} + {b}) % {size}",
            f"T.min({a}, {size - 1})",
            f"T.max({a} - 1, 0) % {size}",
            f"{a} * {size} // {n}",
            f"({a} * {self.rng.choice(WRAPS)}) % {size}",
            f"N[{some % 4}] % {size}",
            f"(N[{a} % 4] + {b}) % {size}",
        ]

    def load(self, source: Source, axes: Axes) -> Value:
        """An element, more often than not the one at the axes of its sizes."""
        straight = [next((a for a in axes if a.size == size), None) for size in source.shape]
        if all(straight) and len(set(straight)) == len(straight) and self.chance(0.6):
            parts = [axis.name for axis in straight if axis]
        else:
            parts = [self.index(size, axes) for size in source.shape]
        return Value(f"{source.name}[{', '.join(parts) or '()'}]", source.most)

    def guarded(self, source: Source, axes: Axes) -> Value:
        """An element that is there only where a condition holds, and something else elsewhere."""
        if not axes or not source.shape:
            return self.load(source, axes)
        at = self.rng.randrange(len(source.shape))
        parts = [self.index(size, axes) for size in source.shape]
        (name, size), shift = self.rng.choice(axes), self.rng.choice((-2, -1, 1, 2))
        parts[at] = f"{name} {'+' if shift > 0 else '-'} {abs(shift)}"
        tests = [f"{name} >= {-shift}"] if shift < 0 else []
        if size + shift > source.shape[at]:
            tests.append(f"{name} < {source.shape[at] - shift}")
        there, other = f"{source.name}[{', '.join(parts)}]", self.constant()
        if not tests:
            return Value(there, source.most)
        choose = self.rng.choice(("T.Select", "T.if_then_else"))
        test, first, second = " and ".join(tests), there, other.text
        if self.chance(0.25):
            test, first, second = f"not ({test})", second, first
        return Value(f"{choose}({test}, {first}, {second})", max(source.most, other.most))

    # Conditions

    def condition(self, axes: Axes, sources: Sequence[Source] = (), depth: int = 1) -> str:
        """A truth value of axes, of `N`, of elements of the sources, of arithmetic that wraps."""
        if depth and self.chance(0.25):
            parts = [self.condition(axes, sources, 0) for _ in range(2)]
            return f"({parts[0]}) {self.rng.choice(('and', 'or'))} ({parts[1]})"
        tests = [f"N[{self.rng.randrange(4)}] > {self.rng.randint(0, 6)}"]
        if axes:
            (a, n), (b, m) = self.rng.choice(axes), self.rng.choice(axes)
            some = self.rng.randrange(n)
            tests += [
                f"{a} < {max(1, some)}",
                f"{a} >= {some}",
                f"{a} != {some}",
                f"{a} == {some}",
                f"{a} % {self.rng.choice((2, 3))} == 0",
                f"{a} + {b} > {self.rng.randrange(n + m)}",
                f"{a} * 2 + {b} >= {self.rng.randrange(2 * n + m)}",
                f"N[{a} % 4] > {b}",
                f"not ({a} == {some})",
                self.hashed(a),
                self.hashed(a),
            ]
        if sources:
            first, second = self.load(self.rng.choice(sources), axes), self.constant()
            signs = ("==", "!=") if self.dtype == "bool" else ("<", ">", "==", "!=", "<=")
            tests += [f"{first.text} {self.rng.choice(signs)} {second.text}"] * 2
        return self.rng.choice(tests)

    def hashed(self, axis: str) -> str:
        """A condition whose arithmetic leaves 64 bits."""
        factor, limit = self.rng.choice(WRAPS), self.rng.choice((5, 2**62, -(2**62)))
        forms = (
            f"{axis} * {factor} < {limit}",
            f"{axis} * {factor} >= {limit}",
            f"({axis} << 62) > {self.rng.choice((-1, 0, 5))}",
            f"({axis} + {2**63 - 3}) > {limit}",
            f"({axis} * {factor}) % 3 == 1",
            f"(({axis} * {factor}) >> 61) == {self.rng.randint(-4, 3)}",
        )
        return self.rng.choice(forms)

    # Values

    def constant(self) -> Value:
        if self.dtype == "bool":
            return Value(self.literal(self.chance(0.5)))
        if self.floats and self.chance(0.1):
            return Value(self.literal(self.rng.choice(("nan", "inf", "-inf", -0.0))))
        number = self.rng.randint(0 if self.dtype.startswith("u") else -LARGEST, LARGEST)
        return Value(self.literal(number), abs(number))

    def fit(self, value: Value, most: float = 0) -> Value:
        """The value, cut off where floats could get beyond `most` or would not be exact."""
        most = min(most or EXACT.get(self.dtype, 0), EXACT.get(self.dtype, 0))
        if not self.floats or value.most <= most:
            return value
        edge = max(1, min(LARGEST, int(most)))
        return Value(
            f"T.max(T.min({value.text}, {self.literal(edge)}), {self.literal(-edge)})", edge
        )

    def value(self, sources: Sequence[Source], axes: Axes, depth: int = 2) -> Value:
        """Of elements, constants and axes, with whatever operators there are."""
        if not depth or self.chance(0.15):
            return self.leaf(sources, axes)
        first = self.value(sources, axes, depth - 1)
        second = self.value(sources, axes, depth - 1)
        if self.chance(0.25):
            choose = self.rng.choice(("T.Select", "T.if_then_else"))
            test = self.condition(axes, sources)
            chosen = f"{choose}({test}, {first.text}, {second.text})"
            return Value(chosen, max(first.most, second.most))
        return self.fit(self.combined(first, second))

    def leaf(self, sources: Sequence[Source], axes: Axes) -> Value:
        if axes and self.dtype != "bool" and self.chance(0.1):
            axis = self.rng.choice(axes)
            return Value(f"T.cast({axis.name}, '{self.dtype}')", axis.size)
        if not sources or self.chance(0.08):
            return self.constant()
        load = self.guarded if self.chance(0.25) else self.load
        return load(self.rng.choice(sources), axes)

    def combined(self, a: Value, b: Value) -> Value:
        """Two values under an operator of the dtype; integers are divided by constants only."""
        x, y, sums = a.text, b.text, a.most + b.most
        either = max(a.most, b.most)
        if self.dtype == "bool":
            return Value(f"({x} {self.rng.choice('&|^')} {y})")
        forms = [
            Value(f"({x} + {y})", sums),
            Value(f"({x} - {y})", sums),
            Value(f"({x} * {y})", a.most * b.most),
            Value(f"T.max({x}, {y})", either),
            Value(f"T.min({x}, {y})", either),
        ]
        if not self.floats:
            by = self.literal(self.rng.choice((1, 2, 3, 7)))
            forms += [Value(f"({x} {self.rng.choice('&|^')} {y})")]
            forms += [Value(f"({x} {self.rng.choice(('//', '%', '<<', '>>'))} {by})")]
        return self.rng.choice(forms)

    def update(self, element: str, terms: Sequence[Value], times: int, start: float) -> Value:
        """An element with terms taken in, so many times each; all but sums take in the first."""
        signs = ["&", "|", "^"] if self.dtype == "bool" else ["+", "+", "*"]
        signs += [] if self.floats or self.dtype == "bool" else ["&", "|", "^"]
        sign = "+" if len(terms) > 1 and "+" in signs else self.rng.choice(signs)
        if self.dtype != "bool" and sign != "+" and self.chance(0.4):
            order = [element, terms[0].text]
            self.rng.shuffle(order)
            return Value(f"T.{self.rng.choice(('max', 'min'))}({', '.join(order)})", terms[0].most)
        limit = EXACT.get(self.dtype, 1)
        if sign == "*":
            term = self.fit(terms[0], max(1, (limit / max(1, start)) ** (1 / times)))
            most, terms = max(1, start) * max(1, term.most) ** times, [term]
        else:
            room = (limit - start) / times / len(terms)
            terms = [self.fit(term, max(1, room)) for term in terms]
            most = start + times * sum(term.most for term in terms)
        texts = [term.text for term in (terms if sign == "+" else terms[:1])]
        parts = [*texts, element] if self.chance(0.2) else [element, *texts]
        return Value(f" {sign} ".join(parts), most)
