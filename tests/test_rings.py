"""The rings: what they import, how much code they have, and that copies of them alone work."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from minimlc.composition import PARTS, ROOMS, SERVICES
from tests.code_lines import code_lines
from tests.rings import PACKAGE, RINGS, ROOT, SIZES, ring_of
from tests.test_packaging import file_of, imported, modules

PROGRAMS = [Path(__file__).parent / "rings" / name for name in ("loops.py", "graphs.py")]
BY_NAME = ("import_module", "resolve_name", "room", "is_there", "find_spec")
ALONE = """
import runpy, sys
sys.meta_path = [f for f in sys.meta_path if "editable" not in repr(f)]
sys.path.insert(0, sys.argv[1])
runpy.run_path(sys.argv[2], run_name="__main__")
"""
"""Runs a program with a copy of the package, and nothing of the package itself."""


def reached(tree: ast.Module, package: str) -> Iterator[str]:
    """The files of the package that a module imports, by text, too."""
    for node in ast.walk(tree):
        names = list(imported(node, package))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in BY_NAME:
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            names += [f"minimlc.{str(text).removeprefix('minimlc.')}" for text in texts]
        yield from filter(None, map(file_of, names))


def without_typing(tree: ast.Module) -> ast.Module:
    """A module without what only type checkers see."""
    kept = [
        s
        for s in tree.body
        if not (isinstance(s, ast.If) and "TYPE_CHECKING" in ast.unparse(s.test))
    ]
    return ast.Module(kept, [])


def test_a_ring_imports_itself_and_inner_ones():
    wrong = []
    for file, package, tree in modules():
        name = file.removeprefix("minimlc/")
        targets = {
            target.removeprefix("minimlc/") for target in reached(without_typing(tree), package)
        }
        wrong += [
            f"{name} imports {target}"
            for target in targets - {*ROOT}
            if ring_of(target) > ring_of(name) and name not in ROOT
        ]
    assert not wrong


def test_rings_have_no_ambient_state():
    """A rule or a formula depends on its arguments alone."""
    wrong = [
        file
        for ring in RINGS
        for file in ring
        if "contextvars" in (PACKAGE / file).read_text("utf-8")
    ]
    assert not wrong


def test_process_wide_effects_stand_in_one_file():
    """Processes of their own (`apart`, exercises, the tuner's workers) may do as they like."""
    effect = re.compile(
        r"\b(gc\.(disable|enable|freeze)|sys\.set\w+|register_at_fork|mallopt|madvise)\b(?!\")"
    )
    found = {
        file
        for file, _, _ in modules()
        if effect.search((PACKAGE.parent / file).read_text("utf-8"))
        if not file.startswith(("minimlc/apart/", "minimlc/tune/", "minimlc/homework/"))
    }
    assert found == {"minimlc/loops/values/process.py", "minimlc/exercise.py"}


def test_rings_keep_to_their_sizes():
    assert [sum(code_lines(PACKAGE / file) for file in ring) for ring in RINGS] == SIZES


def is_of_the_library(call: ast.Call) -> bool:
    """Whether a name may be one of the library's modules: a text that is not is marked."""
    if ast.unparse(call.func) == "room" or "minimlc" in ast.unparse(call):
        return True
    return bool(call.args) and not isinstance(call.args[0], ast.Constant)


def test_only_the_root_names_parts():
    """Nowhere else is a module of the library imported by a text; hooks are filled from outside.

    Homework imports what an assignment names; the tuner looks for packages of others.
    """
    named = {
        file.removeprefix("minimlc/")
        for file, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in BY_NAME
        if is_of_the_library(node) and not file.startswith(("minimlc/homework/", "minimlc/tune/"))
    }
    assert named == {"__init__.py", "loops/values/parts.py", "services/former.py"}


def modules_named() -> list[str]:
    places = [place for places in PARTS.values() for place in places]
    return [*(place.partition(":")[0] for place in places), *SERVICES.values(), *ROOMS]


@pytest.mark.parametrize("name", sorted(set(modules_named())))
def test_what_the_root_names_is_there(name):
    path = PACKAGE / name.replace(".", "/")
    assert path.is_dir() or path.with_suffix(".py").is_file()


def copied(files: Iterable[str], to: Path) -> Path:
    for file in files:
        (to / "minimlc" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / file, to / "minimlc" / file)
    return to


def run(program: Path, place: Path) -> None:
    command = [sys.executable, "-c", ALONE, str(place), str(program)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=place)
    assert result.stdout.endswith(f"the {program.stem} work\n"), result.stdout + result.stderr


def test_the_loops_work_alone(tmp_path):
    run(PROGRAMS[0], copied([*ROOT, *RINGS[0]], tmp_path))


def test_the_graphs_work_over_the_loops_alone(tmp_path):
    place = copied([*ROOT, *RINGS[0], *RINGS[1]], tmp_path)
    for program in PROGRAMS:
        run(program, place)


@pytest.mark.many
@pytest.mark.parametrize("service", SERVICES)
def test_the_rings_work_without(service, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "minimlc")
    gone = tmp_path / "minimlc" / SERVICES[service].replace(".", "/")
    shutil.rmtree(gone) if gone.is_dir() else gone.with_suffix(".py").unlink()
    for program in PROGRAMS:
        run(program, tmp_path)
