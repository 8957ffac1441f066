"""Every `match` over nodes handles the nodes that it does not name: it raises, or a
comment in it begins with "other nodes:" and has the reason."""

import ast
from collections import Counter
from pathlib import Path

import minimlc.graphs.ir.nodes
import minimlc.loops.te.tensors
import minimlc.loops.values.module
from minimlc.loops.values.node import _NODE_NAMES, Node

ROOT = Path(__file__).resolve().parents[1]
BASES = {"Node", "Expr", "Stmt", "Binding"}
REMARK = "# other nodes:"


def of_nodes(match: ast.Match) -> bool:
    """Whether a match distinguishes classes of nodes."""
    patterns = (part for case in match.cases for part in ast.walk(case.pattern))
    classes = (part.cls for part in patterns if isinstance(part, ast.MatchClass))
    names = {ast.unparse(cls).rpartition(".")[2] for cls in classes}
    return bool(names & (_NODE_NAMES | BASES))


def raises(match: ast.Match) -> bool:
    """Whether the last case takes everything else and raises."""
    last = match.cases[-1]
    takes_all = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
    return takes_all and last.guard is None and isinstance(last.body[-1], ast.Raise)


def silent(text: str) -> int:
    """How many matches of a file do not say what becomes of other nodes."""
    lines = text.splitlines()
    matches = (part for part in ast.walk(ast.parse(text)) if isinstance(part, ast.Match))
    return sum(
        of_nodes(match)
        and not raises(match)
        and not any(REMARK in line for line in lines[match.lineno - 1 : match.end_lineno])
        for match in matches
    )


def test_every_match_over_nodes_raises_or_says_why_not():
    files = [*(ROOT / "minimlc").rglob("*.py"), *(ROOT / "widgets").rglob("*.py")]
    counts = Counter(
        {path.relative_to(ROOT).as_posix(): silent(path.read_text("utf-8")) for path in files}
    )
    assert +counts == Counter()


def test_what_counts_as_an_answer():
    assert issubclass(minimlc.loops.te.tensors.Tensor, Node)
    body = "match item:\n    case Load():\n        pass\n"
    assert silent(body) == 1
    assert silent(body + "    case _:\n        pass\n") == 1
    assert silent(body + "    case _:\n        raise TypeError\n") == 0
    assert silent(body + "    case _:  # other nodes: nothing to see\n        pass\n") == 0
    assert silent("match item:\n    case tir.Load():\n        pass\n") == 1
    assert silent("match item:\n    case str():\n        pass\n") == 0
