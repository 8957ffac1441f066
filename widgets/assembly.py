"""Assembly and LLVM code to read: their colours, and the innermost loops of assembly."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from minimlc_widgets.lexer import Tokens

VECTOR = "mlc-vector"
"""The class of registers and types that hold several elements: vectors and tiles."""

LABEL = re.compile(r"([^\s:]+):$")
INSTRUCTION = re.compile(r"\s+(\S+)\s*(.*)$")
OPERAND = re.compile(
    r"(?P<wide>%[yzt]mm\d+|\bv\d+\.\d+[bhsd]|\bq\d+\b|\bz\d+\.[bhsd])|(?P<x>%xmm\d+|\bv\d+\b(?!\.))"
    r"|(?P<name>%\w+|\b[xwsdhb]\d+\b|\bsp\b|\b[xw]zr\b)"
    r"|(?P<number>[$#]?-?\b(?:0x[0-9a-f]+|\d+)\b)|(?P<label>\.L\w+)"
)
SCALAR = re.compile(r"s[sd]$|^vcvt.*s[sdi]")
"""x86 instructions on one element of a vector register."""

LLVM_TOKEN = re.compile(
    r"(?P<vector><\d+ x [\w ]+>|\bx86_amx\b)"
    r"|(?P<type>\b(?:i\d+|float|double|half|bfloat|ptr|void|label)\b)"
    r"|(?P<function>@[\w.]+)|(?P<name>%[\w.]+)|(?P<number>\b(?:0x[0-9A-Fa-f]+|\d[\d.e+-]*)\b)"
)
LLVM_START = re.compile(r"(\s*(?:%[\w.]+ = )?)([a-z][\w.]*)")
FUSED = re.compile(r"^v?f(?:n?m(?:add|sub|la|ls)|ml[as])")


class Loop(NamedTuple):
    """An innermost loop: its lines, counted from 0, and its contents, in words."""

    lines: tuple[int, ...]
    text: str


def assembly_tokens(line: str) -> Tokens:
    """A line's parts as class, text, class, text, ..."""
    if LABEL.match(line):
        return ("nf", line)
    found = INSTRUCTION.match(line)
    if not found:
        return ("", line) if line else ()
    parts = ["", line[: found.start(1)], "k", found[1], "", line[found.end(1) : found.start(2)]]
    scalar = SCALAR.search(found[1]) is not None
    classes = {"wide": VECTOR, "x": "nb" if scalar else VECTOR, "name": "nb", "number": "m"}
    return _joined([*parts, *_parts(OPERAND, found[2], {**classes, "label": "nf"})])


def llvm_tokens(line: str) -> Tokens:
    """A line's parts as class, text, class, text, ..."""
    if line and not line.startswith((" ", "}")) and line.endswith(":"):
        return ("nf", line)
    comment = line.find(";")
    code, rest = (line, "") if comment < 0 else (line[:comment], line[comment:])
    start = LLVM_START.match(code)
    parts = ["", start[1], "k", start[2]] if start else []
    classes = {"vector": VECTOR, "type": "kt", "function": "nf", "name": "", "number": "m"}
    parts += _parts(LLVM_TOKEN, code[start.end() if start else 0 :], classes)
    return _joined([*parts, "c", rest])


def _parts(pattern: re.Pattern[str], text: str, classes: dict[str, str]) -> list[str]:
    parts, at = [], 0
    for found in pattern.finditer(text):
        parts += ["", text[at : found.start()], classes[str(found.lastgroup)], found[0]]
        at = found.end()
    return [*parts, "", text[at:]]


def _joined(parts: Sequence[str]) -> Tokens:
    """The parts that are not empty, neighbours of one class as one."""
    joined: list[str] = []
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if text and joined and joined[-2] == name:
            joined[-1] += text
        elif text:
            joined += [name, text]
    return tuple(joined)


def innermost_loops(lines: Sequence[str]) -> tuple[Loop, ...]:
    """The loops of a listing that have no other loop inside, by its control flow.

    A jump back to a block that dominates it closes a loop (Aho et al., Compilers, 9.6).
    """
    blocks = _blocks(lines)
    edges = _edges(lines, blocks)
    dominators = _dominators(edges)
    loops: dict[int, set[int]] = {}
    for block, following in enumerate(edges):
        for head in following:
            if head in dominators[block]:
                loops.setdefault(head, {head}).update(_reaching(block, head, edges))
    inner = [
        body
        for head, body in loops.items()
        if not any(other != head and other in body for other in loops)
    ]
    found = [tuple(sorted(n for block in body for n in blocks[block])) for body in inner]
    return tuple(Loop(numbers, _words([lines[n] for n in numbers])) for numbers in sorted(found))


def _blocks(lines: Sequence[str]) -> list[range]:
    """The basic blocks: they start at labels, and after jumps."""
    starts = [
        n
        for n, line in enumerate(lines)
        if n == 0 or LABEL.match(line) or _target(lines[n - 1]) or _ends(lines[n - 1])
    ]
    return [range(a, b) for a, b in pairwise([*starts, len(lines)])]


def _edges(lines: Sequence[str], blocks: Sequence[range]) -> list[list[int]]:
    """The blocks that may follow each block."""
    labels = {
        found[1]: n for n, block in enumerate(blocks) if (found := LABEL.match(lines[block[0]]))
    }
    edges = []
    for number, block in enumerate(blocks):
        last = lines[block[-1]]
        following = [labels[target] for target in [_target(last)] if target in labels]
        if not _ends(last) and number + 1 < len(blocks):
            following.append(number + 1)
        edges.append(following)
    return edges


def _target(line: str) -> str:
    """The local label that an instruction may jump to."""
    found = INSTRUCTION.match(line)
    if not found or not found[1].startswith(("j", "b", "cb", "tb")):
        return ""
    last = found[2].split()[-1] if found[2] else ""
    return last if last.startswith(".L") else ""


def _ends(line: str) -> bool:
    """Whether control never goes on with the next line."""
    found = INSTRUCTION.match(line)
    return not line or (found is not None and found[1] in ("jmp", "b", "ret", "retq", "ud2", "brk"))


def _dominators(edges: Sequence[Sequence[int]]) -> list[set[int]]:
    """For each block, those on every way to it; every block that nothing leads to is a start."""
    before: list[list[int]] = [[] for _ in edges]
    for block, following in enumerate(edges):
        for other in following:
            before[other].append(block)
    everything = set(range(len(edges)))
    found = [set(everything) if before[n] else {n} for n in range(len(edges))]
    if found:
        found[0] = {0}
    changed = True
    while changed:
        changed = False
        for block in range(1, len(edges)):
            if before[block]:
                new = set.intersection(*(found[b] for b in before[block])) | {block}
                changed |= new != found[block]
                found[block] = new
    return found


def _reaching(block: int, head: int, edges: Sequence[Sequence[int]]) -> set[int]:
    """The blocks from which `block` is reached without passing `head`."""
    found, waiting = {head}, [block]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            waiting += [n for n, following in enumerate(edges) if here in following]
    return found


def _words(lines: Iterable[str]) -> str:
    """ "9 instructions, 4 of them on vectors, 2 multiply-adds"."""
    code = [line for line in lines if INSTRUCTION.match(line)]
    vectors = sum(VECTOR in assembly_tokens(line)[::2] for line in code)
    fused = sum(FUSED.match(line.strip()) is not None for line in code)
    parts = [f"{len(code)} instruction" + "s" * (len(code) != 1)]
    parts += [f"{vectors} of them on vectors"] if vectors else []
    parts += [f"{fused} multiply-add" + "s" * (fused != 1)] if fused else []
    return ", ".join(parts)
