"""Listings of lectures, notes and slides, which say `import tvm`, run as they are printed."""

import runpy
from pathlib import Path

import pytest

from minimlc.frontends.tvm import install, uninstall

LISTINGS = sorted((Path(__file__).parent / "listings").glob("*.py"))


@pytest.fixture
def installed():
    install()
    yield
    uninstall()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.requires("torch")] * ("torch" in path.stem))
        for path in LISTINGS
    ],
    ids=lambda path: path.stem,
)
def test_listing(path, installed):
    """Each compares its results with numpy itself."""
    runpy.run_path(str(path))


def test_there_are_listings():
    assert len(LISTINGS) >= 5
