"""`docs/architecture.md` is true of the code: `python -m tests.ways_in` refreshes its figures. And
lists that a reader relies on are complete: the grammar, the primitives.
"""

import json
import re

import pytest

from minimlc.loops.ir import nodes
from minimlc.loops.schedule import PRIMITIVES
from tests import ways_in
from tests.code_lines import code_lines
from tests.rings import RINGS as RINGS_OF
from tests.rings import SIZES
from tests.test_packaging import modules
from tests.test_rings import reached, without_typing
from tests.ways_in import (
    EXAMPLE,
    FILE,
    FIRST,
    PAGE,
    PART,
    PATHS,
    QUESTION,
    RINGS,
    ROOT,
    SIZE,
    TERM,
    TOTAL,
    printed,
)

TEXT = PAGE.read_text("utf-8")
PACKAGE = ROOT / "minimlc"


def test_each_room_is_listed_with_its_budget():
    rows = [(name, int(size)) for _, name, size in SIZE.findall(TEXT)]
    assert dict(rows) == ways_in.sizes() and len(rows) == len(ways_in.sizes())
    assert int(TOTAL.search(TEXT)[2]) == sum(ways_in.AROUND.values())
    _, loops, _, graphs, _ = RINGS.search(TEXT).groups()
    assert [int(loops), int(graphs)] == SIZES


def test_programs_print_what_is_shown():
    """In order, in one session: a stage goes on from the one before."""
    session: dict = {}
    examples = EXAMPLE.findall(TEXT)
    assert len(examples) >= 7, "six stages, and one graph"
    for _, code, shown in examples:
        assert printed(code, session) == shown


def test_the_ten_files_to_read_first_are_there():
    listed = FIRST.search(TEXT)[1]
    files = FILE.findall(listed)
    assert len(files) == len(listed.splitlines()) == 10
    assert all((PACKAGE / name).is_file() for name in files)


LOOPS, GRAPHS = [(path, path.read_text("utf-8")) for path in PATHS]


@pytest.mark.parametrize(("page", "text"), [LOOPS, GRAPHS], ids=["loops", "graphs"])
def test_the_page_of_a_ring_is_fresh(page, text):
    assert ways_in.refreshed_path(page, text) == text, "python -m tests.ways_in"


@pytest.mark.parametrize(
    ("page", "text", "ring"), [(*LOOPS, 0), (*GRAPHS, 1)], ids=["loops", "graphs"]
)
def test_each_file_s_imports_precede_it(page, text, ring):
    """All files with code, once each, in an order in which they can be read."""
    order = [file.relative_to(PACKAGE).as_posix() for file in ways_in.listed(page, text)]
    assert sorted(order) == [file for file in sorted(RINGS_OF[ring]) if code_lines(PACKAGE / file)]
    trees = {file: (package, tree) for file, package, tree in modules()}
    for number, file in enumerate(order):
        package, tree = trees[f"minimlc/{file}"]
        needed = {name.removeprefix("minimlc/") for name in reached(without_typing(tree), package)}
        assert not needed & {*order[number + 1 :]}, file


def test_ten_parts_are_about_equal_and_each_has_a_question():
    parts = PART.findall(LOOPS[1])
    assert [int(number) for _, number, *_ in parts] == [*range(1, 11)]
    assert {850 <= int(lines) <= 1600 for _, _, lines, *_ in parts} == {True}
    for _, _, _, _, text in parts:
        assert len(QUESTION.findall(text)) == 1
        ((_, _, shown),) = EXAMPLE.findall(text)
        assert shown.strip(), "the answer"


@pytest.mark.parametrize(("term", "file"), TERM.findall(TEXT))
def test_a_term_stands_in_its_file(term, file):
    assert re.search(rf"\b{term}", (PACKAGE / file).read_text("utf-8"), re.I)


def test_the_glossary_is_in_order():
    terms = [term for term, _ in TERM.findall(TEXT)]
    assert len(terms) >= 30 and terms == sorted(terms, key=str.lower)


def test_the_grammar_names_every_node():
    for kind in (nodes.Stmt, nodes.Expr):
        own = [
            node
            for node in kind.__subclasses__()
            if node.__module__.startswith("minimlc.loops.ir.")
        ]
        for node in own:
            assert re.search(rf"\b{node.__name__}\b", nodes.__doc__), node.__name__


def test_the_appendix_shows_every_primitive():
    """Its last cell asserts the same when it runs."""
    text = (ROOT / "notebooks" / "90_primitives.ipynb").read_text("utf-8")
    code = ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
    pages = [name for cell in code for name in re.findall(r'^page\(\s*"(\w+)"', cell, re.M)]
    assert sorted(pages) == sorted(PRIMITIVES)
    assert f"all {len(PRIMITIVES)}, each with a picture" in (ROOT / "README.md").read_text("utf-8")
