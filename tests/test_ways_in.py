"""`docs/architecture.md` is true of the code: `python -m tests.ways_in` refreshes its figures. And
lists that a reader relies on are complete: the grammar, the primitives.
"""

import json
import re

import pytest

from minimlc.schedule import PRIMITIVES
from minimlc.tir import nodes
from tests import ways_in
from tests.rings import SIZES
from tests.ways_in import DAY, EXAMPLE, FILE, FIRST, PAGE, RINGS, ROOT, SIZE, TERM, TOTAL, printed

TEXT = PAGE.read_text("utf-8")
PACKAGE = ROOT / "minimlc"


def test_each_room_is_listed_with_its_budget():
    rows = [(name, int(size)) for _, name, size in SIZE.findall(TEXT)]
    assert dict(rows) == ways_in.sizes() and len(rows) == len(ways_in.sizes())
    _, core, _, rooms = TOTAL.search(TEXT).groups()
    assert int(core) == sum(ways_in.CORE.values())
    assert int(rooms) == sum(ways_in.ROOMS.values())
    _, loops, _, graphs, _ = RINGS.search(TEXT).groups()
    assert [int(loops), int(graphs)] == SIZES


def test_programs_print_what_is_shown():
    """In order, in one session: a stage goes on from the one before."""
    session: dict = {}
    examples = EXAMPLE.findall(TEXT)
    assert len(examples) >= 11, "six stages and five days"
    for _, code, shown in examples:
        assert printed(code, session) == shown


def test_the_ten_files_to_read_first_are_there():
    listed = FIRST.search(TEXT)[1]
    files = FILE.findall(listed)
    assert len(files) == len(listed.splitlines()) == 10
    assert all((PACKAGE / name).is_file() for name in files)


def test_five_days_are_about_equal():
    days = [(int(said), listed) for _, said, _, listed in DAY.findall(TEXT)]
    assert len(days) == 5
    counts = [ways_in.lines_in(listed) for _, listed in days]
    assert max(counts) <= 1.5 * min(counts)
    for (said, _), count in zip(days, counts, strict=True):
        assert abs(said - count) <= 0.25 * count, "python -m tests.ways_in"
    files = [name for _, listed in days for name in FILE.findall(listed)]
    assert len(files) == len(set(files)), "each file once"
    assert set(FILE.findall(FIRST.search(TEXT)[1])) <= set(files)


@pytest.mark.parametrize(("term", "file"), TERM.findall(TEXT))
def test_a_term_stands_in_its_file(term, file):
    assert re.search(rf"\b{term}", (PACKAGE / file).read_text("utf-8"), re.I)


def test_the_glossary_is_in_order():
    terms = [term for term, _ in TERM.findall(TEXT)]
    assert len(terms) >= 30 and terms == sorted(terms, key=str.lower)


def test_the_grammar_names_every_node():
    for kind in (nodes.Stmt, nodes.Expr):
        own = [node for node in kind.__subclasses__() if node.__module__.startswith("minimlc.tir.")]
        for node in own:
            assert re.search(rf"\b{node.__name__}\b", nodes.__doc__), node.__name__


def test_the_appendix_shows_every_primitive():
    """Its last cell asserts the same when it runs."""
    text = (ROOT / "notebooks" / "90_primitives.ipynb").read_text("utf-8")
    code = ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
    pages = [name for cell in code for name in re.findall(r'^page\(\s*"(\w+)"', cell, re.M)]
    assert sorted(pages) == sorted(PRIMITIVES)
    assert f"all {len(PRIMITIVES)}, each with a picture" in (ROOT / "README.md").read_text("utf-8")
