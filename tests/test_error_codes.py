"""Every error code has one meaning, written down."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = re.compile(r"E\d{3}")


def raised() -> Iterator[str]:
    for path in sorted((ROOT / "minimlc").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and CODE.fullmatch(str(node.value)):
                yield node.value


def test_the_table_has_every_code_once_and_no_other():
    table = re.findall(r"^\| (E\d{3}) \|", (ROOT / "docs/errors.md").read_text("utf-8"), re.M)
    assert len(table) == len(set(table))
    assert set(table) == set(raised())
