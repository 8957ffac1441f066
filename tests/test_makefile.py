"""The commands of the README: which there are, what they install, and what they say meanwhile."""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
FAKE_PIP = """#!/bin/sh
case "$*" in *requirements*) ;; *) echo "own $*" >> "{log}"; exit 0;; esac
echo "lock $*" >> "{log}"
for n in $(seq 45); do echo "Collecting package$n"; done
echo "Installing collected packages: package1"
echo "what pip complains of" >&2
exit {status}
"""

needs_make = pytest.mark.skipif(
    shutil.which("make") is None, reason="no make (on Debian: apt-get install make)"
)


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", f"PYTHON={sys.executable}", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


def python_in(folder: Path) -> None:
    """An environment that is there already: making one takes a while."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)


@needs_make
def test_the_environment_is_made_first(tmp_path):
    shown = make("-n", "run", f"VENV={tmp_path / 'env'}").stdout
    made, installed = (shown.index(f"[{n}/3]") for n in (1, 2))
    assert made < shown.index("-m venv --clear") < installed


@pytest.mark.parametrize(
    "target", ["run", "test", "lab", "bench", "refresh", "quick", "emulated", "lock"]
)
def test_makefile_has_the_documented_targets(target):
    assert re.search(rf"^{target}:", MAKEFILE, re.M)


@needs_make
@pytest.mark.parametrize(("user", "allowed"), [("0", True), ("1000", False)])
def test_lab_runs_as_root_too(tmp_path, user, allowed):
    """The command that `make -n` shows, run by that user with something for Python that prints."""
    command = make("-n", "lab", "PY=echo", f"VENV={tmp_path}").stdout.splitlines()[-1]
    assert command.startswith("echo -m jupyterlab "), command
    script(tmp_path / "id", f"#!/bin/sh\necho {user}\n")
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    said = subprocess.run(
        ["sh", "-c", command], env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert said.stdout.split()[2:] == [*["--allow-root"] * allowed, "notebooks"]


@needs_make
@pytest.mark.parametrize(
    ("target", "lock"),
    [
        *[(target, "requirements-run.lock") for target in ("run", "refresh")],
        ("lab", "requirements-lab.lock"),
        *[(target, "requirements.lock") for target in ("test", "quick", "bench", "setup")],
    ],
)
def test_running_installs_what_running_needs(tmp_path, target, lock):
    shown = make("-n", target, f"VENV={tmp_path}").stdout
    assert re.findall(r"--require-hashes --no-deps -r \$halves/\$half-(\S+);", shown) == [lock]


@needs_make
def test_installing_says_how_far_it_is_and_is_done_once(tmp_path):
    log = tmp_path / "log"
    pip = script(tmp_path / "pip", FAKE_PIP.format(log=log, status=0))
    python_in(tmp_path / "env")
    first = make("setup", f"VENV={tmp_path / 'env'}", f"PIP={pip}")
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert re.match(r"\[2/3\] installing what requirements.lock lists: about \d+ pack", lines[0])
    assert lines[1:] == [
        "      20 fetched",
        "      40 fetched",
        "      60 fetched",
        "      80 fetched",
        "      90 fetched; unpacking them",
        "[3/3] installing minimlc itself",
    ]
    lines = log.read_text("utf-8").splitlines()
    assert [line.split()[0] for line in lines] == ["lock", "lock", "own"]
    # What tests need is more than what the others need.
    for target in ("setup", "lab", "run"):
        again = make("-n", target, f"VENV={tmp_path / 'env'}").stdout
        assert "[2/3]" not in again, again


@needs_make
def test_installing_that_fails_is_a_failure(tmp_path):
    pip = script(tmp_path / "pip", FAKE_PIP.format(log=tmp_path / "log", status=3))
    python_in(tmp_path / "env")
    failed = make("setup", f"VENV={tmp_path / 'env'}", f"PIP={pip}")
    assert failed.returncode != 0 and "what pip complains of" in failed.stderr
    assert "[3/3]" not in failed.stdout
    assert not list((tmp_path / "env").glob("tests-*"))


@needs_make
def test_an_old_python_is_named(tmp_path):
    old = script(tmp_path / "old" / "python", "#!/bin/sh\nexit 1\n")
    refused = make(f"PYTHON={old}", "run", f"VENV={tmp_path / 'env'}")
    assert refused.returncode != 0 and "minimlc needs Python 3.11 or newer" in refused.stderr


# qemu has new mappings from 2^38 upwards. Linux has them near 2^47, or from 2^44 on where the limit
# of the stack is high.
REPORT = """
import ctypes, mmap, subprocess, sys
where = ctypes.addressof(ctypes.c_char.from_buffer(mmap.mmap(-1, mmap.PAGESIZE)))
print(sys.executable, where)
if len(sys.argv) == 2:
    subprocess.run([sys.executable, "-c", sys.argv[1]])
"""


@pytest.mark.skipif(
    shutil.which("qemu-x86_64") is None or sys.platform != "linux",
    reason="no qemu-x86_64 (on Debian: apt-get install qemu-user)",
)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="Python itself is no x86 program here")
def test_on_an_emulated_cpu_processes_are_emulated_too(tmp_path):
    """And what they map lies where real processes have it (see tests/emulated/sitecustomize.py)."""
    text = (ROOT / "tests/emulated/python.in").read_text("utf-8")
    values = {"CPU": "Nehalem", "HERE": ROOT / "tests/emulated"}
    values["PYTHON"] = Path(sys.executable).resolve()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    python = script(tmp_path / "python-Nehalem", text)
    said = subprocess.run(
        [python, "-c", REPORT, REPORT], capture_output=True, text=True, check=True
    )
    names, addresses = zip(*(line.split() for line in said.stdout.splitlines()), strict=True)
    assert names == (str(python),) * 2
    assert all(int(address) > 2**40 for address in addresses), addresses
