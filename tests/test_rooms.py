"""Removed rooms, and what does not count as one: a broken import inside one is an error."""

import sys

import pytest

import minimlc
from minimlc.composition import ROOMS
from minimlc.loops.values.parts import room
from tests import test_core


def test_the_rooms_are_those_that_can_be_removed():
    removable = [name.removesuffix(".py").replace("/", ".") for name in test_core.ROOMS]
    assert sorted(ROOMS) == sorted(removable)


@pytest.mark.parametrize("name", ROOMS)
def test_a_removed_room_is_none(name, monkeypatch):
    monkeypatch.setitem(sys.modules, f"minimlc.{name}", None)
    assert room(name) is None


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A module `minimlc.broken` of one line."""

    def write(line):
        (tmp_path / "broken.py").write_text(line, "utf-8")
        monkeypatch.setattr(minimlc, "__path__", [*minimlc.__path__, str(tmp_path)])
        return "broken"

    yield write
    sys.modules.pop("minimlc.broken", None)


@pytest.mark.parametrize(
    "line",
    [
        "import minimlc.recipes.matmull",
        "import minimlc.recipees",
        "import minimlc.broken.inside",
        "import a_package_that_is_not_installed",
        "import graph",
        "from minimlc.recipes.matmul import no_such_name",
        "raise ImportError",
    ],
)
def test_a_broken_import_is_an_error(broken, line):
    with pytest.raises(ImportError):
        room(broken(line))


def test_a_room_that_needs_a_removed_one_is_absent_too(broken, monkeypatch):
    monkeypatch.setitem(sys.modules, "minimlc.machine", None)
    assert room(broken("import minimlc.machine")) is None


def test_a_name_that_is_no_room_is_an_error():
    with pytest.raises(ModuleNotFoundError, match="recipees"):
        room("recipees")
