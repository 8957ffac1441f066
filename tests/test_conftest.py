"""The work of conftest.py: required parts, the list of skips, tests that are alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = re.compile("^pytest_plugins = .*", re.MULTILINE)
"""The plugins of conftest.py, which take seconds to import."""
TESTS = """
import pytest

@pytest.mark.requires("jax")
def test_marked():
    pytest.skip("jax: said the test itself")

def test_unmarked():
    pytest.skip("needs the moon")
"""


def run(
    folder: Path, require: str, tests: str = TESTS, more: str = "", *options: str
) -> subprocess.CompletedProcess[str]:
    """The tests under our conftest.py and `more` of it."""
    (folder / "test_it.py").write_text(tests, "utf-8")
    (folder / "conftest.py").write_text(
        CONFTEST.sub("", (ROOT / "tests" / "conftest.py").read_text("utf-8"), count=1)
        + '\nPARTS["jax"] = lambda: ""\nPARTS["torch"] = lambda: "torch is not here"\n'
        + more,
        "utf-8",
    )
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  requires\n  alone\n  slow\n  many", "utf-8"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *options, "."]
    if options:
        command += ["-p", "xdist.plugin"]
    # The plugins of Jupyter and others take seconds to import.
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **own, "MINIMLC_REQUIRE": require},
        capture_output=True,
        text=True,
    )


def test_skips_where_nothing_is_required(tmp_path):
    result = run(tmp_path, "")
    assert result.returncode == 0 and "2 skipped" in result.stdout, result.stdout


def test_a_plain_run_tries_a_third_of_many_cases_and_a_thorough_one_all(tmp_path):
    tests = """
import pytest

@pytest.mark.many
@pytest.mark.parametrize("outer", range(3))
@pytest.mark.parametrize("inner", range(3))
def test_it(inner, outer): pass
"""
    plain = run(tmp_path, "", tests, "", "-v")
    tried = re.findall(r"\[(\d)-(\d)\] PASSED", plain.stdout)
    assert [len(set(numbers)) for numbers in zip(*tried, strict=True)] == [3, 3], plain.stdout
    assert "3 passed, 6 skipped" in plain.stdout and "MINIMLC_REQUIRE=thorough" in plain.stdout
    assert "9 passed" in run(tmp_path, "thorough", tests).stdout


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "shared"])
def test_skips_are_listed_by_reason_with_what_brings_them(tmp_path, options):
    tests = """
import pytest

@pytest.mark.requires("distributed")
@pytest.mark.parametrize("n", range(3))
def test_marked(n): pass

@pytest.mark.skipif(True, reason="needs the moon")
def test_unmarked(): pass
"""
    more = (
        'PARTS["distributed"] = _modules("no_such_module", "cupy")\nfind_spec = lambda name: None\n'
    )
    result = run(tmp_path, "", tests, more, *options)
    at = result.stdout.index(" 4 skipped: how many, why, and what brings them ")
    listed = [line.strip() for line in result.stdout[at:].splitlines()[1:5]]
    assert listed[0].startswith("3  no_such_module and cupy not installed (")
    assert listed[0].endswith("-m pip install no_such_module cupy-cuda12x)")
    assert listed[1].startswith("3  ") and listed[1].endswith(".py")
    assert listed[2] == "1  needs the moon"


def test_no_list_where_nothing_is_skipped(tmp_path):
    assert "what brings them" not in run(tmp_path, "", "def test_it(): pass").stdout


def test_one_that_compares_times_is_last_and_has_the_machine_for_itself(tmp_path):
    tests = """
import os, time
import pytest

def note(what):
    with open("log", "a") as file:
        file.write(f"{what}\\n")

@pytest.mark.alone
@pytest.mark.parametrize("n", range(2))
def test_alone(n):
    note("begins")
    time.sleep(0.5)
    note("ends")

@pytest.mark.parametrize("n", range(8))
def test_other(n):
    time.sleep(0.1)
    note("other")
"""
    assert "10 passed" in run(tmp_path, "", tests, "", "-n", "2").stdout
    log = (tmp_path / "log").read_text("utf-8").splitlines()
    begins = [place for place, what in enumerate(log) if what == "begins"]
    assert [log[place + 1] for place in begins] == ["ends"] * 2
    assert run(tmp_path, "", tests).returncode == 0
    assert (tmp_path / "log").read_text("utf-8").split()[12:] == [
        *["other"] * 8,
        *["begins", "ends"] * 2,
    ]


def test_files_with_slow_tests_are_first(tmp_path):
    (tmp_path / "test_z.py").write_text(
        "import pytest\n\n@pytest.mark.slow\ndef test_slow(): pass\n\ndef test_fast(): pass"
    )
    result = run(tmp_path, "", "def test_other(): pass", "", "-v")
    order = [line.split("::")[1].split()[0] for line in result.stdout.splitlines() if "::" in line]
    assert order == ["test_slow", "test_fast", "test_other"]


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
