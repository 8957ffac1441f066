"""Two scripts line by line: which lines correspond, which changed, which moved.

Lines match by their text without indentation: a transform that wraps a body in one more loop
changes the loop's line, not the whole body.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

Op = tuple
"""A change of lines; `i` counts the lines before, `j` the lines after, from 0:

    ("=", i, j, n)              n lines stay
    ("~", i, j, marks, marks)   a line changes; marks are the changed columns, start, end, ...
    ("-", i)  ("+", j)          a line goes, a line comes
    ("<", i, j)  (">", i, j)    a line leaves i and arrives, unchanged, at j
"""

WORD = re.compile(r"\w+|\s+|[^\w\s]")
SYMBOL = re.compile(r"\w+|[^\w\s]")
ALIKE = 0.5  # changed lines at least this similar stand side by side
GAP = ("…", "")
MAX_PAIRS = 2500  # lines × lines of a hunk that is still compared pair by pair


def compare(before: Sequence[str], after: Sequence[str]) -> list[Op]:
    """The operations that turn `before` into `after`, in the order in which they read."""
    old, new = [line.strip() for line in before], [line.strip() for line in after]
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    hunks = [code[1:] for code in codes if code[0] != "equal"]
    leaving, arriving = _moves(old, new, hunks)
    ops: list[Op] = []
    for kind, i, i_end, j, j_end in codes:
        if kind == "equal":
            ops.append(("=", i, j, i_end - i))
            continue
        ops += _hunk(before, after, range(i, i_end), range(j, j_end), leaving, arriving)
    return ops


def counts(ops: Sequence[Op]) -> tuple[int, int]:
    """How many lines come and how many go; a changed or moved line counts as both."""
    come = sum(op[0] in "+~>" for op in ops)
    go = sum(op[0] in "-~<" for op in ops)
    return come, go


def unified(before: Sequence[str], after: Sequence[str], context: int = 2) -> list[tuple[str, str]]:
    """The changes as (sign, line) pairs with `context` lines around them, `GAP` between."""
    lines: list[tuple[str, str]] = []
    for op in _grouped(compare(before, after)):
        match op:
            case ("=", _, j, n):
                lines += [(" ", after[j + k]) for k in range(n)]
            case ("-" | "<", i, *_):
                lines.append(("-", before[i]))
            case ("+", j) | (">", _, j):
                lines.append(("+", after[j]))
            case ("~", i, j, *_):
                lines += [("-", before[i]), ("+", after[j])]
    return _shortened(lines, context)


def _grouped(ops: list[Op]) -> Iterator[Op]:
    """The operations; in a run of changes, all lines that go stand before all that come."""
    run: list[Op] = []
    for op in [*ops, ("=", 0, 0, 0)]:
        if op[0] != "=":
            run.append(op)
            continue
        for change in run:
            if change[0] in "-<~":
                yield ("-", change[1])
        for change in run:
            if change[0] in "+>~":
                yield ("+", change[1] if change[0] == "+" else change[2])
        run = []
        yield op


def _shortened(lines: list[tuple[str, str]], context: int) -> list[tuple[str, str]]:
    changed = [n for n, (sign, _) in enumerate(lines) if sign != " "]
    near = {k for n in changed for k in range(n - context, n + context + 1)}
    result: list[tuple[str, str]] = []
    for n, line in enumerate(lines):
        if n in near:
            result.append(line)
        elif not result or result[-1] != GAP:
            result.append(GAP)
    return result


def _moves(old: list[str], new: list[str], hunks: list[tuple]) -> tuple[dict, dict]:
    """Lines that go in one place and come, unchanged, in another: i -> j and j -> i."""
    arrivals = defaultdict(list)
    for _, _, j, j_end in hunks:
        for k in range(j, j_end):
            arrivals[new[k]].append(k)
    leaving = {}
    for i, i_end, _, _ in hunks:
        for k in range(i, i_end):
            if len(old[k]) > 3 and arrivals[old[k]]:
                leaving[k] = arrivals[old[k]].pop(0)
    return leaving, {j: i for i, j in leaving.items()}


def _hunk(
    before: Sequence[str],
    after: Sequence[str],
    left: range,
    right: range,
    leaving: dict[int, int],
    arriving: dict[int, int],
) -> Iterator[Op]:
    pairs = _pairs(
        [(i, before[i]) for i in left if i not in leaving],
        [(j, after[j]) for j in right if j not in arriving],
    )
    at = right.start
    for i in left:
        if i in pairs:
            yield from (_come(j, arriving) for j in range(at, pairs[i]))
            at = pairs[i] + 1
            yield ("~", i, pairs[i], *_marks(before[i], after[pairs[i]]))
        elif i in leaving:
            yield ("<", i, leaving[i])
        else:
            yield ("-", i)
    yield from (_come(j, arriving) for j in range(at, right.stop))


def _come(j: int, arriving: dict[int, int]) -> Op:
    return (">", arriving[j], j) if j in arriving else ("+", j)


def _pairs(left: list[tuple[int, str]], right: list[tuple[int, str]]) -> dict[int, int]:
    """The order-keeping pairing of changed lines with the largest total likeness."""
    rows, columns = len(left), len(right)
    if not rows or not columns or rows * columns > MAX_PAIRS:
        return {}
    words_left = [SYMBOL.findall(line) for _, line in left]
    words_right = [SYMBOL.findall(line) for _, line in right]
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    alike = [[_likeness(a, b) for b in words_right] for a in words_left]
    for r in reversed(range(rows)):
        for c in reversed(range(columns)):
            together = alike[r][c] and alike[r][c] + best[r + 1][c + 1]
            best[r][c] = max(together, best[r + 1][c], best[r][c + 1])
    pairs, r, c = {}, 0, 0
    while r < rows and c < columns:
        if alike[r][c] and best[r][c] == alike[r][c] + best[r + 1][c + 1]:
            pairs[left[r][0]] = right[c][0]
            r, c = r + 1, c + 1
        elif best[r][c] == best[r + 1][c]:
            r += 1
        else:
            c += 1
    return pairs


def _likeness(a: list[str], b: list[str]) -> float:
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.real_quick_ratio() < ALIKE or matcher.quick_ratio() < ALIKE:
        return 0.0
    ratio = matcher.ratio()
    return ratio if ratio >= ALIKE else 0.0


def _marks(a: str, b: str) -> tuple[list[int], list[int]]:
    """The columns of the words that differ, as start, end, start, end, ... for each side."""
    left, right = WORD.findall(a), WORD.findall(b)
    starts_left, starts_right = _starts(left), _starts(right)
    marks: tuple[list[int], list[int]] = ([], [])
    for kind, i, i_end, j, j_end in SequenceMatcher(None, left, right, False).get_opcodes():
        if kind == "equal":
            continue
        _mark(marks[0], starts_left[i], starts_left[i_end], a)
        _mark(marks[1], starts_right[j], starts_right[j_end], b)
    return marks


def _mark(marks: list[int], start: int, end: int, line: str) -> None:
    if not line[start:end].strip():
        return
    if marks and not line[marks[-1] : start].strip():
        marks[-1] = end
    else:
        marks += [start, end]


def _starts(words: list[str]) -> list[int]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return starts
