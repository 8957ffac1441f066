"""The README's homework: its example runs as printed, and its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def section() -> str:
    text = (ROOT / "README.md").read_text("utf-8")
    match = re.search(r"^## In your homework\n(.*?)^## ", text, re.M | re.S)
    assert match, "README.md has no section on homework"
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
    assert all((ROOT / link).is_file() for link in links), links
    assert sum("/student/" in link for link in links) == 4
