"""Conditions and loops in the entry point of a graph function, whose parts have entry points.

What an entry point computes goes to the memory that it is given; a result that is one of its
inputs, a constant, or another result once more is copied there. A loop keeps its state where its
result belongs; a step writes the new state beside it.
"""

from collections.abc import Sequence
from typing import NamedTuple

COPY = """define internal void @mlc.copy(ptr %to, ptr %from, i64 %bytes) #0 {
start:
  br label %head
head:
  %i = phi i64 [ 0, %start ], [ %next, %body ]
  %more = icmp ult i64 %i, %bytes
  br i1 %more, label %body, label %end
body:
  %source = getelementptr inbounds i8, ptr %from, i64 %i
  %target = getelementptr inbounds i8, ptr %to, i64 %i
  %byte = load i8, ptr %source, align 1
  store i8 %byte, ptr %target, align 1
  %next = add nuw i64 %i, 1
  br label %head
end:
  ret void
}"""
"""Copies bytes; LLVM makes vectors or `memcpy` of it."""


class Callee(NamedTuple):
    """A graph function's entry point: its symbol, where its constants begin in the caller's table,
    and the origin of each result: the `number`-th "output", "input" or "constant".
    """

    symbol: str
    table: int
    results: tuple[tuple[str, int], ...]


class Control(NamedTuple):
    """A condition or loop: `op`, the functions it names, and how many of its tensors are state and
    rows; the bytes of its results, and of a row of each tensor that a scan takes apart.
    """

    op: str
    functions: tuple[Callee, ...]
    state: int
    rows: int
    steps: int
    bytes: tuple[int, ...]
    row_bytes: tuple[int, ...]


class Writer:
    """Lines of the entry point's step `step`, which pass on `%error` if accesses are checked."""

    def __init__(self, lines: list[str], step: int, check: bool):
        self.lines, self.step, self.check = lines, step, check
        self.count = 0

    def name(self, word: str) -> str:
        """A new name of a value or a label."""
        self.count += 1
        return f"{word}{self.step}.{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def value(self, word: str, text: str) -> str:
        name = f"%{self.name(word)}"
        self.line(f"{name} = {text}")
        return name

    def label(self, name: str, then: str = "") -> None:
        """The label `name`, to which the code before it goes, or to `then`."""
        self.line(f"br label %{then or name}")
        self.lines.append(f"{name}:")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Go on at one of two labels; the code of `yes` follows."""
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")
        self.lines.append(f"{yes}:")

    def at(self, pointer: str, offset: str | int) -> str:
        return self.value("p", f"getelementptr inbounds i8, ptr {pointer}, i64 {offset}")

    def copy(self, target: str, source: str, size: int) -> None:
        self.line(f"call void @mlc.copy(ptr {target}, ptr {source}, i64 {size})")

    def truth(self, pointer: str) -> str:
        return self.value("c", f"icmp ne i8 {self.value('b', f'load i8, ptr {pointer}')}, 0")

    def call(
        self,
        callee: Callee,
        inputs: Sequence[str],
        outputs: Sequence[str],
        sizes: Sequence[int],
        arena: str,
    ) -> None:
        """Call an entry point, with memory for each of its results."""
        table = self.value("t", f"getelementptr inbounds ptr, ptr %table, i64 {callee.table}")
        memory: dict[int, str] = {}
        for (kind, number), output in zip(callee.results, outputs, strict=True):
            if kind == "output":
                memory.setdefault(number, output)
        passed = [*inputs, *[memory[number] for number in sorted(memory)], table, arena]
        listed = ", ".join(f"ptr {name}" for name in [*passed, *(["%error"] if self.check else [])])
        status = self.value("s", f"call i32 @{callee.symbol}({listed})")
        stop, go = self.name("stop"), self.name("go")
        self.branch(self.value("f", f"icmp ne i32 {status}, 0"), stop, go)
        self.line(f"ret i32 {status}")
        self.lines.append(f"{go}:")
        for (kind, number), output, size in zip(callee.results, outputs, sizes, strict=True):
            source = memory[number] if kind == "output" else ""
            if kind == "input":
                source = inputs[number]
            if kind == "constant":
                place = self.value("k", f"getelementptr inbounds ptr, ptr {table}, i64 {number}")
                source = self.value("k", f"load ptr, ptr {place}, align 8")
            if source != output:
                self.copy(output, source, size)

    def write(
        self, item: Control, inputs: list[str], outputs: list[str], scratch: list[str]
    ) -> None:
        """The condition or loop; `scratch` is an arena, a word, and memory for a new state."""
        {"cond": self.cond, "while_loop": self.while_loop, "scan": self.scan}[item.op](
            item, inputs, outputs, scratch
        )

    def cond(
        self, item: Control, inputs: list[str], outputs: list[str], scratch: list[str]
    ) -> None:
        then, otherwise, end = (self.name(word) for word in ("then", "otherwise", "end"))
        self.branch(self.truth(inputs[0]), then, otherwise)
        self.call(item.functions[0], inputs[1:], outputs, item.bytes, scratch[0])
        self.label(otherwise, end)
        self.call(item.functions[1], inputs[1:], outputs, item.bytes, scratch[0])
        self.label(end)

    def start(self, item: Control, inputs: list[str], outputs: list[str]) -> list[str]:
        """The state in its place: pointers to it."""
        state = outputs[: item.state]
        for pointer, source, size in zip(state, inputs, item.bytes, strict=False):
            self.copy(pointer, source, size)
        return state

    def keep(self, item: Control, state: list[str], new: list[str]) -> None:
        for pointer, source, size in zip(state, new, item.bytes, strict=False):
            self.copy(pointer, source, size)

    def while_loop(
        self, item: Control, inputs: list[str], outputs: list[str], scratch: list[str]
    ) -> None:
        (arena, flag, *new), rest = scratch, inputs[item.state :]
        condition, body = item.functions
        head, again, end = (self.name(word) for word in ("head", "again", "end"))
        state = self.start(item, inputs, outputs)
        self.label(head)
        self.call(condition, [*state, *rest], [flag], [1], arena)
        self.branch(self.truth(flag), again, end)
        self.call(body, [*state, *rest], new, item.bytes, arena)
        self.keep(item, state, new)
        self.label(end, head)

    def scan(
        self, item: Control, inputs: list[str], outputs: list[str], scratch: list[str]
    ) -> None:
        (arena, word, *new), last = scratch, item.state + item.rows
        head, again, end = (self.name(label) for label in ("head", "again", "end"))
        state = self.start(item, inputs, outputs)
        self.line(f"store i64 0, ptr {word}, align 8")
        self.label(head)
        number = self.value("n", f"load i64, ptr {word}, align 8")
        self.branch(self.value("m", f"icmp ult i64 {number}, {item.steps}"), again, end)
        rows = inputs[item.state : last]
        rows, collected = (
            [self.at(p, self.value("o", f"mul i64 {number}, {size}")) for p, size in pairs]
            for pairs in (
                list(zip(rows, item.row_bytes, strict=False)),
                list(zip(outputs[item.state :], item.row_bytes[item.rows :], strict=True)),
            )
        )
        sizes = [*item.bytes[: item.state], *item.row_bytes[item.rows :]]
        values = [*state, *rows, *inputs[last:]]
        self.call(item.functions[0], values, [*new, *collected], sizes, arena)
        self.keep(item, state, new)
        self.line(f"store i64 {self.value('u', f'add i64 {number}, 1')}, ptr {word}, align 8")
        self.label(end, head)
