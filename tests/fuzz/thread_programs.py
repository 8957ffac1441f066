"""Random programs for the threads of a GPU: larger than in `generate`, and of plain kinds.

Floats are whole numbers so small that no sum of them is rounded: what threads combine in another
order is equal to the bit.
"""

import random
from collections.abc import Callable

from tests.fuzz.subject import WHOLE

DTYPES = ("float32", "float32", "float32", "int32", "int32", "float64", "float16", "bfloat16")
DTYPES = (*DTYPES, "int8", "uint8", "int16", "uint32", "int64")
SMALL = ("float16", "bfloat16", "int8", "uint8")
"""Dtypes whose sums must stay short to be exact, and that arrays of another kind are made of."""

SCOPES = ("shared", "global", "local")


class Text:
    """Draws the text of one program."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.dtype = rng.choice(DTYPES)
        self.params: list[str] = []
        self.own: list[str] = []
        self.body: list[str] = []

    def size(self, *sizes: int) -> int:
        return self.rng.choice(sizes)

    def number(self, value: object) -> str:
        return (
            f'T.{self.dtype}("{value}")' if isinstance(value, str) else f"T.{self.dtype}({value})"
        )

    def param(self, name: str, *shape: int) -> None:
        self.params.append(f'{name}: T.Buffer({_tuple(shape)}, "{self.dtype}")')

    def buffer(self, name: str, *shape: int, scope: str = "global") -> None:
        scope = scope if self.rng.random() < 0.9 else self.rng.choice(SCOPES)
        text = f'{name} = T.alloc_buffer({_tuple(shape)}, "{self.dtype}", scope="{scope}")'
        self.own.append(text)

    def block(self, name: str, axes: dict[str, tuple[str, str, int]], *body: str) -> None:
        """A nest: for each iter its kind, loop and size; its body, the init first if indented."""
        for depth, (_, loop, size) in enumerate(axes.values()):
            self.line(depth, f"for {loop} in range({size}):")
        depth = len(axes)
        self.line(depth, f'with T.block("{name}"):')
        for it, (kind, loop, size) in axes.items():
            word = {"S": "spatial", "R": "reduce", "O": "opaque"}[kind]
            self.line(depth + 1, f"{it} = T.axis.{word}({size}, {loop})")
        for text in body:
            self.line(depth + 1, text)

    def line(self, depth: int, text: str) -> None:
        self.body.append(f"{'    ' * depth}{text}")

    def text(self) -> str:
        head = f"def main({', '.join(self.params)}):"
        note = f'T.func_attr({{"data": "{WHOLE}"}})'
        inside = (f"    {line}" for line in (note, *self.own, *self.body))
        return "\n".join(["@T.prim_func", head, *inside, ""])

    def value(self, a: str, b: str) -> str:
        """Of two values of the dtype."""
        forms = [
            *(f"{a} + {b}", f"{a} - {b}", f"T.max({a}, {b})", f"T.min({a}, {b})", a),
            f"T.if_then_else({a} > {b}, {b}, {a})",
            f"T.Select({a} < {self.number(1)}, {b}, {self.number(2)})",
        ]
        return self.rng.choice(forms)

    def place(self, name: str, axis: str, size: int) -> str:
        """An element of a row, a different one for each place on the axis."""
        shift = self.rng.randint(1, size)
        forms = (axis, axis, axis, f"{size - 1} - {axis}", f"({axis} + {shift}) % {size}")
        return f"{name}[{self.rng.choice(forms)}]"

    # Kinds

    def map(self) -> None:
        """One to three stages, each element by itself, or from another place of the row before."""
        n = self.size(40, 64, 100, 130, 256)
        self.param("A", n), self.param("B", n), self.param("C", n)
        last = "A"
        for stage in range(self.rng.randint(0, 2)):
            self.buffer(f"X{stage}", n)
            self._stage(f"X{stage}", last, n, stage)
            last = f"X{stage}"
        self._stage("C", last, n, 9)

    def _stage(self, target: str, source: str, n: int, number: int) -> None:
        v = f"v{number}"
        value = self.value(self.place(source, v, n), self.place("B", v, n))
        self.block(f"b{target}", {v: ("S", f"i{number}", n)}, f"{target}[{v}] = {value}")

    def window(self) -> None:
        """Sums of neighbours, by themselves or as a reduction."""
        n, w = self.size(32, 60, 64, 96), self.rng.randint(2, 4)
        self.param("A", n + w), self.param("C", n)
        if self.rng.random() < 0.5:
            parts = " + ".join(f"A[v + {offset}]" for offset in range(w))
            return self.block("bC", {"v": ("S", "i", n)}, f"C[v] = {parts}")
        axes = {"v": ("S", "i", n), "r": ("R", "j", w)}
        return self._sum(axes, "C[v]", "A[v + r]", "+")

    def rows(self) -> None:
        """Rows, or planes, whose elements are all combined."""
        n = self.size(1, 3, 4, 8, 9)
        k = self.size(4, 7, 12) if self.dtype in SMALL else self.size(8, 16, 32, 33, 50, 64)
        self.param("A", n, k), self.param("C", n)
        axes = {"v": ("S", "i", n), "r": ("R", "k", k)}
        if self.rng.random() < 0.25:
            self.params[0] = f'A: T.Buffer(({n}, {k}, 3), "{self.dtype}")'
            axes["q"] = ("R", "l", 3)
        at = ", ".join(axes)
        term = self.rng.choice((f"A[{at}]", f"A[{at}] * A[{at}]", f"A[{at}] + {self.number(1)}"))
        self._sum(axes, "C[v]", term, self.rng.choice(("+", "+", "max", "min")))

    def product(self) -> None:
        """A product of matrices, one of them turned or not, and what follows."""
        n, m, k = self.size(8, 12, 16), self.size(8, 10, 16), self.size(4, 7, 8, 16)
        if self.dtype in SMALL:
            k = self.size(3, 4)
        turned = self.rng.random() < 0.3
        self.param("A", n, k), self.param("B", *((m, k) if turned else (k, m)))
        self.param("C", n, m)
        axes = {"v": ("S", "i", n), "w": ("S", "j", m), "r": ("R", "k", k)}
        term = f"A[v, r] * B[{'w, r' if turned else 'r, w'}]"
        after = self.rng.random() < 0.4
        if after:
            self.buffer("Y", n, m)
        self._sum(axes, f"{'Y' if after else 'C'}[v, w]", term, "+")
        if after:
            axes = {"v1": ("S", "i1", n), "w1": ("S", "j1", m)}
            self.block("bC", axes, f"C[v1, w1] = T.max(Y[v1, w1], {self.number(0)})")

    def turned(self) -> None:
        """A transpose, in place of an element itself now and then."""
        n, m = self.size(16, 20, 32), self.size(16, 32)
        self.param("A", n, m), self.param("C", m, n)
        axes = {"v": ("S", "i", m), "w": ("S", "j", n)}
        self.block("bC", axes, f"C[v, w] = {self.rng.choice(('A[w, v]', 'A[w, v] + A[w, v]'))}")

    def norm(self) -> None:
        """Rows, or some of them, that are reduced, and changed by what comes out, in one loop."""
        n = self.size(2, 3, 6)
        k = self.size(5, 8) if self.dtype in SMALL else self.size(16, 20, 32, 48)
        self.param("A", n, k), self.param("C", n, k)
        both = self.rng.random() < 0.6
        self.buffer("M", n, scope="shared"), self.buffer("S", n, scope="shared")
        self.line(0, f"for i in range({n}):")
        start, self.body = self.body, []
        self._sum({"r": ("R", "k", k)}, "M[v]", "A[v, r]", self.rng.choice(("max", "min")))
        if both:
            self._sum({"r": ("R", "k1", k)}, "S[v]", "A[v, r] - M[v]", "+")
        value = self.value("A[v, w]", "S[v]" if both else "M[v]")
        self.block("bC", {"w": ("S", "j", k)}, f"C[v, w] = {value}")
        inside = _with_row(self.body, n)
        if self.rng.random() < 0.4:
            some = self.rng.choice((f"i < {n - 1}", "i % 2 == 0", "i > 0 or i < 1"))
            inside = [f"if {some}:", *(f"    {line}" for line in inside)]
        self.body = start + [f"    {line}" for line in inside]

    def ordered(self) -> None:
        """Rows whose elements need the ones before them."""
        n, k = self.size(8, 24, 33), self.rng.randint(2, 6)
        self.param("A", n, k), self.param("C", n, k)
        axes = {"v": ("S", "i", n), "t": ("O", "k", k)}
        before = f"T.if_then_else(t > 0, C[v, T.max(t - 1, 0)], {self.number(0)})"
        self.block("bC", axes, f"C[v, t] = {self.value('A[v, t]', before)}")

    def _sum(self, axes: dict[str, tuple[str, str, int]], target: str, term: str, op: str) -> None:
        """A reduction, from its neutral value, another one, or what is there already."""
        start = {"+": 0, "max": -4, "min": 5}[op] if "uint" not in self.dtype else 1
        update = f"{target} + ({term})" if op == "+" else f"T.{op}({target}, {term})"
        init = ["with T.init():", f"    {target} = {self.number(start)}"]
        fresh = target[0] != "C" or self.rng.random() < 0.8
        self.block(f"b{target[0]}", axes, *(init if fresh else []), f"{target} = {update}")


def _tuple(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))},)"


def _with_row(lines: list[str], size: int) -> list[str]:
    """Blocks with one more iter, v, for the loop i around."""
    new = []
    for line in lines:
        new.append(line)
        if "with T.block(" in line:
            inside = " " * (len(line) - len(line.lstrip()) + 4)
            new.append(f"{inside}v = T.axis.spatial({size}, i)")
    return new


KINDS: dict[str, Callable[[Text], None]] = {
    kind.__name__: kind
    for kind in (
        *(Text.map, Text.window, Text.rows, Text.product, Text.turned, Text.norm, Text.ordered),
    )
}


def thread_program(kind: str, seed: int) -> str:
    """The text of a random program of a kind."""
    text = Text(random.Random(f"{kind} {seed}"))
    KINDS[kind](text)
    return text.text()
