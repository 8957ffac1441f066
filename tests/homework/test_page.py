"""The page on homework: its first example runs as printed, and its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "homework.md"


def section() -> str:
    match = re.search(r"^## In ten lines\n(.*?)^## ", PAGE.read_text("utf-8"), re.M | re.S)
    assert match, "docs/homework.md has no example"
    return match[1]


def test_the_example_runs_and_its_solution_earns_everything(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", section(), re.M | re.S)
    assert len(blocks) == 1
    (tmp_path / "example.py").write_text(blocks[0])
    result = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("hw3.matmul: 10 of 10 points") == 2, result.stdout


def test_the_links_lead_to_files_and_to_the_students_versions():
    links = re.findall(r"\]\(([^)]+)\)", section())
    assert all((PAGE.parent / link).is_file() for link in links), links
    assert sum("/student/" in link for link in links) == 4
