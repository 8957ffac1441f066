"""Homework 3: right spaces earn everything, wrong ones miss what they lack, tricks earn 0."""

import json
import zipfile

import pytest

from minimlc import homework
from minimlc.homework import space
from tests.helpers import refuses
from tests.homework import wrong
from tests.homework.test_wrong_solutions import notebook  # noqa: F401 (a fixture)

pytestmark = pytest.mark.many

NAME = "hw3.product"
TASK = homework.find(NAME)
STAGES = wrong.solutions("hw3")
BOTH = "    return registers(tiles(sch))"
ROWS = 'sch, rows = sch.sample_perfect_tile("i", 2, max_innermost_factor=8)'
COLUMNS = 'sch, columns = sch.sample_categorical([16, 8, 32], name="columns")'
START, TILE, TIMES = "a loop is split by a sampled", "the sums stay", "at least 2 times"
VARY, PROGRAMS, LANES = "at least 2 decisions", "at least 5 of 8", "the j loop"
SPACE = {START, VARY, PROGRAMS}


def text(body: str = BOTH, **changes: str) -> str:
    """The text of a function `space`: the notebook's solutions, with texts replaced."""
    whole = "\n\n".join([*STAGES.values(), f"def space(sch):\n{body}\n"])
    texts = [changes.get(key, "").split("|") for key in ("old", "new")]
    for old, new in zip(*texts, strict=True):
        assert old in whole, old
        whole = whole.replace(old, new)
    return whole


BY_PARTS = text(
    old=f'{COLUMNS}|.split("j", [None, columns])',
    new='sch, columns = sch.sample_partitioned_tile("j", 2, 1, 8)|.split("j", columns)',
)
FIXED = text(old=f"{ROWS}|{COLUMNS}", new="rows = (32, 4)|columns = 16")
RIGHT = {"as in the notebook": text(), "a tile of j in parts of 8": BY_PARTS}
WRONG = {
    "nothing": (text("    return sch"), {*SPACE, TILE, LANES, TIMES}),
    "a draw for nothing": (
        text(f"    {ROWS}\n    return sch"),
        {START, VARY, PROGRAMS, TILE, LANES, TIMES},
    ),
    "one schedule": (FIXED, SPACE),
    "drawn, not used": (text(old="rows).split", new="(32, 4)).split"), {START, PROGRAMS}),
    "one choice of columns": (text(old="[16, 8, 32]", new="[16]"), {VARY, PROGRAMS}),
    "by the key": (
        text(
            "    sch = sch.annotate('C', 'n', sch.chance.key)\n" + BOTH, old=ROWS, new="rows=(32,4)"
        ),
        {START, PROGRAMS, VARY},
    ),
    "threads only": (text("    return sch.parallel('i')"), {*SPACE, TILE, LANES, TIMES}),
    "rows in vectors": (
        text("    return sch.split('i', [None, 4]).reorder('j', 'k', 'i_1')"),
        {*SPACE, TILE, LANES},
    ),
    "sums in memory": (text("    return tiles(sch)"), {TILE, LANES}),
    "lanes of i": (text("    return tiles(sch).vectorize('i_1')"), {TILE, LANES}),
    "k inside": (
        text("    return tiles(sch).reorder('i_0', 'j_0', 'i_1', 'j_1', 'k')"),
        {TILE, LANES},
    ),
}
FAILED = {
    "no return": "    tiles(sch)",
    "a module": "    return sch.mod",
    "a pair": f"    return {ROWS.partition(' = ')[2]}",
    "illegal": "    return sch.parallel('k')",
    "no such loop": "    return sch.sample_perfect_tile('z', 2)[0]",
    "a mistake": "    return sch.split('i', 1 / 0)",
}


@pytest.mark.parametrize("kind", RIGHT)
def test_two_right_spaces_earn_everything(kind, notebook):  # noqa: F811
    report = homework.check(NAME, notebook(RIGHT[kind], "space"))
    assert report.points == report.total == 20, report


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_spaces_miss_the_items(kind, notebook):  # noqa: F811
    source, missed = WRONG[kind]
    report = homework.check(NAME, notebook(source, "space"))
    lacking = {result.text for result in report.results if not result.earned}
    assert all(any(each.startswith(start) for each in lacking) for start in missed), report
    assert report.results[0].earned == 2, report


@pytest.mark.parametrize("kind", FAILED)
def test_what_is_no_space_earns_nothing(kind, notebook):  # noqa: F811
    report = homework.check(NAME, notebook(text(FAILED[kind]), "space"))
    assert report.points == 0 and report.results[0].why, report


def test_each_item_is_missed_by_five():
    """By spaces that run, where those can miss it: values, purity and speed by what is no space."""
    for item in TASK.items:
        lacking = [missed for _, missed in WRONG.values() if any(map(item.text.startswith, missed))]
        is_structure = any(map(item.text.startswith, (*SPACE, TILE, LANES)))
        assert len(lacking) + (0 if is_structure else len(FAILED)) >= 5, item.text


@pytest.mark.parametrize("kind", ["a recipe", "getattr", "apply", "the pipeline", "its source"])
def test_a_recipe_earns_nothing(kind, notebook):  # noqa: F811
    lines = wrong.TRICKS[kind].split("\n")
    trick = notebook("\n".join(["def trick(sch):", *(f"    {line}" for line in lines)]), "trick")
    report = homework.check(NAME, trick)
    assert report.points == 0 and "hw3.product does not allow mlc." in report.results[0].why


def test_a_file_is_judged_by_its_data(notebook, tmp_path):  # noqa: F811
    """Draws are among the choices, and there is a point for each key."""
    path = tmp_path / "work.zip"
    homework.export(path, {NAME: notebook(text(), "space")})
    with zipfile.ZipFile(path) as file:
        whole, arrays = json.loads(file.read("submission.json")), file.read("arrays.npz")

    def graded(old: str, new: str, count: int = 8) -> homework.Report:
        body = json.loads(json.dumps(whole))
        points = body["answers"][NAME]["points"][:count]
        for point in points:
            point["trace"] = point["trace"].replace(old, new)
        body["answers"][NAME]["points"] = points
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("submission.json", json.dumps(body))
            file.writestr("arrays.npz", arrays)
        return homework.grade(path, NAME)

    assert (
        "none of the choices"
        in graded('"candidates": [16, 8, 32]', '"candidates": [3]').results[0].why
    )
    assert "8 points of the space" in graded("", "", 7).results[0].why
    assert graded("", "").points == 20


def test_requirements_that_cannot_be():
    refuses("E802", lambda: space.distinct(9), "a count of 1 to 8")
    refuses("E802", lambda: space.decided(0), "a count of 1 or more")
    items = [homework.values(1), homework.spaced(space.decided(1), 1)]
    refuses("E802", lambda: homework.Assignment("x", TASK.reference, items), 'wanted="space"')
