"""The MINIMLC_REQUIRE switch: a skip where the part is required is a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest

@pytest.mark.requires("jax")
def test_marked():
    pytest.skip("jax: said the test itself")

def test_unmarked():
    pytest.skip("needs the moon")
"""


def run(folder: Path, require: str, tests: str = TESTS) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(tests, "utf-8")
    (folder / "conftest.py").write_text(
        (ROOT / "tests" / "conftest.py").read_text("utf-8")
        + '\nPARTS["jax"] = lambda: ""\nPARTS["torch"] = lambda: "torch is not here"\n',
        "utf-8",
    )
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = requires", "utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "."],
        cwd=folder,
        env={**os.environ, "MINIMLC_REQUIRE": require, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_skips_where_nothing_is_required(tmp_path):
    result = run(tmp_path, "")
    assert result.returncode == 0 and "2 skipped" in result.stdout, result.stdout


def test_fails_where_the_part_is_required(tmp_path):
    result = run(tmp_path, "jax")
    assert result.returncode == 1 and "1 failed, 1 skipped" in result.stdout, result.stdout
    assert "MINIMLC_REQUIRE names jax" in result.stdout


@pytest.mark.parametrize(("require", "verdict"), [("", "1 skipped"), ("torch", "1 error")])
def test_a_missing_part(tmp_path, require, verdict):
    tests = 'import pytest\n\n@pytest.mark.requires("torch")\ndef test_it(): raise SystemError'
    result = run(tmp_path, require, tests)
    assert verdict in result.stdout and "torch is not here" in result.stdout, result.stdout


def test_a_file_that_skips_itself_fails(tmp_path):
    tests = 'import pytest\npytest.importorskip("no_such_module")\ndef test_it(): pass'
    assert run(tmp_path, "jax", tests).returncode != 0


def test_an_unknown_part_is_refused(tmp_path):
    result = run(tmp_path, "browser,jaxx")
    assert result.returncode == 4 and "jaxx" in result.stderr + result.stdout
