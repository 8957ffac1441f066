"""The rings: a small compiler of loops, and one of graphs around it, each in a folder."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "minimlc"

ROOT = ("__init__.py", "composition.py")
"""The composition root: the files that name all parts."""

RINGS = [
    sorted(path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / folder).rglob("*.py"))
    for folder in ("loops", "graphs")
]
RINGS[0].append("script.py")
"""The files of each ring, relative to the package."""

SIZES = [12858, 3938]
"""Lines of code of the loops, and of the graphs without them; they only go down."""


def ring_of(file: str) -> int:
    """The ring of a file: 1, 2, or 3 for what is around."""
    return next((number for number, ring in enumerate(RINGS, 1) if file in ring), 3)
