"""Homework 4: right schedules earn everything, wrong ones miss what they lack, tricks earn 0."""

import pytest

from minimlc import homework
from minimlc.homework import counters
from tests.helpers import refuses
from tests.homework import wrong
from tests.homework.test_wrong_solutions import item_of, notebook  # noqa: F401 (a fixture)

pytestmark = pytest.mark.many

LAYER = "hw4.layer"
STAGES = wrong.solutions("hw4")
"""The notebook's solutions by name, each a function `NAME(sch)`."""


def schedule(*stages: str, **changes: str) -> str:
    """The text of a function `layer`: the stages' solutions, with texts replaced."""
    parts = [STAGES[stage] for stage in stages]
    for stage, change in changes.items():
        old, new = change.split(" -> ")
        number = stages.index(stage)
        assert old in parts[number], (stage, old)
        parts[number] = parts[number].replace(old, new)
    steps = "".join(f"    sch = {stage}(sch)\n" for stage in stages)
    return "\n\n".join([*parts, f"def layer(sch):\n{steps}    return sch\n"])


ALL = ("registers", "fuse", "write", "share", "fetch")
ANOTHER = """
def layer(sch):
    sch = sch.split("i", [None, 8, 8], names=["bi", "ti", "ri"])
    sch = sch.split("j", [None, 16, 4], names=["bj", "tj", "rj"])
    sch = sch.reorder("bi", "bj", "ti", "tj", "k", "ri", "rj").fuse("ti", "tj", name="t")
    sch = sch.bind("bi", "blockIdx.x").bind("bj", "blockIdx.y").bind("t", "threadIdx.x")
    sch = sch.cache_write("C", "C", "local").reverse_compute_at("C", "t")
    sch = sch.reverse_compute_at("C_local", "t").vectorize(sch.loops("C_local")[-1])
    sch = sch.decompose_reduction("Y", at="k").split("k", [None, 32], names=["ko", "ki"])
    for factor in "AB":
        tile, part = f"{factor}_shared", f"{factor}_shared_local"
        sch = sch.cache_read("Y_update", factor, "shared").compute_at(tile, "ko")
        sch = sch.fuse(*sch.loops(tile)[-2:], name=f"{factor}_all")
        sch = sch.split(f"{factor}_all", [None, 128], names=[f"{factor}_o", f"{factor}_i"])
        sch = sch.bind(f"{factor}_i", "threadIdx.x")
        sch = sch.cache_read("Y_update", tile, "local").compute_at(part, "ki")
        sch = sch.unroll(sch.loops(part)[-1])
    for loop in ("ri_init", "rj_init", "ri", "rj", *sch.loops("C")[-2:], sch.loops("C_local")[-2]):
        sch = sch.unroll(loop)
    return sch
"""
SLICES = """
        sch = sch.cache_read("Y_update", tile, "local").compute_at(part, "ki")
        sch = sch.unroll(sch.loops(part)[-1])"""
assert SLICES in ANOTHER
RIGHT = {
    "as in the notebook": schedule(*ALL),
    "other tiles and names, one axis of threads": ANOTHER,
}
WRONG = {
    "a module": ("def layer(sch):\n    return sch.mod", "the values are right", "a schedule"),
    "nothing": ("def layer(sch):\n    return sch", "one kernel", "blocks of 1 thread:"),
    "blocks only": (
        'def layer(sch):\n    return sch.bind("i", "blockIdx.x").bind("j", "blockIdx.y")',
        "i is spread",
        "no loop of i is bound to threadIdx",
    ),
    "columns in blocks only": (
        schedule("registers", registers='.bind("tx", "threadIdx.x") -> '),
        "i is spread",
        "no loop of j is bound to threadIdx",
    ),
    "rows in a loop": (
        schedule("registers", "fuse", registers='"row", "column"): -> "column"):'),
        "the sums stay",
        "Y is indexed by row, a serial loop",
    ),
    "large tiles": (
        schedule("registers", "fuse", registers='16, 4], names=["bx" -> 1, 128], names=["bx"'),
        "the sums stay",
        "which has 4 × 128 elements",
    ),
    "not fused": (schedule("registers"), "the epilogue is fused", "a pass of its own"),
    "two kernels": (schedule("registers"), "one kernel", "layer_1 runs by blocks of 1 thread:"),
    "no write cache": (
        schedule("registers", "fuse"),
        "at most 2,048 sectors (store C)",
        "they take 8,192 sectors",
    ),
    "numbers one by one": (
        schedule("registers", "fuse", "write", write="sch.vectorize(columns) -> sch"),
        "at most 2,048 sectors (store C)",
        "they take 8,192 sectors",
    ),
    "no shared memory": (
        schedule("registers", "fuse", "write"),
        "tiles of A are staged",
        "A is not copied to shared memory",
    ),
    "no tiles from global memory": (
        schedule("registers", "fuse", "write"),
        "at most 24,576 sectors (global)",
        "they take 92,160 sectors",
    ),
    "each for itself": (
        schedule("registers", "fuse", "write", "share"),
        "the threads of a block fetch A",
        "no loop around A_shared is bound to threadIdx.x",
    ),
    "by half of the axes": (
        schedule(*ALL, fetch='.bind(ty, "threadIdx.y").bind -> .bind'),
        "the threads of a block fetch A",
        "no loop around A_shared is bound to threadIdx.y",
    ),
    "no slices": (
        ANOTHER.replace(SLICES, ""),
        "at most 24,576 requests (load)",
        "they take",
    ),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_two_right_schedules_earn_everything(kind, notebook):  # noqa: F811
    report = homework.check(LAYER, notebook(RIGHT[kind], "layer"))
    assert report.points == report.total == 20, report


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_schedules_miss_the_item(kind, notebook):  # noqa: F811
    text, item, why = WRONG[kind]
    report = homework.check(LAYER, notebook(text, "layer"))
    missed = item_of(report, item)
    assert report.points < 20 and missed.earned == 0 and why in missed.why, report


@pytest.mark.parametrize("kind", ["a recipe", "getattr", "apply", "the pipeline", "its source"])
def test_a_recipe_earns_nothing(kind, notebook):  # noqa: F811
    lines = wrong.TRICKS[kind].split("\n")
    trick = notebook("\n".join(["def trick(sch):", *(f"    {line}" for line in lines)]), "trick")
    report = homework.check(LAYER, trick)
    assert report.points == 0 and "hw4.layer does not allow mlc." in report.results[0].why, report


def test_every_item_is_missed_by_some():
    missed = [item for _, item, _ in WRONG.values()]
    texts = [item.text for item in homework.find(LAYER).items if item.kind != "pure"]
    assert [text for text in texts if not any(map(text.startswith, missed))] == [
        "of the threads of a warp, 95% are at work"
    ]


def test_counters_that_are_not_there():
    refuses("E802", lambda: counters.at_most("sector", 1), "no counter 'sector'")
    refuses("E802", lambda: counters.at_most("sectors", 1, kernel="main"), "by kernel")
    refuses("E802", lambda: counters.at_most("sectors", -1), "a whole number is wanted")
    refuses("E802", lambda: homework.counted(None, 1), "a requirement is wanted")


def test_idle_threads_are_counted():
    counts = counters.Counts(1, 0.5, ())
    assert counters.busy(0.95).explain(counts) == "50% are"
    assert counters.busy(0.5).explain(counts) == counters.one_kernel().explain(counts) == ""
