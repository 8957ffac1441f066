"""Every item of the shipped assignments tells wrong solutions from right ones, and one-line tricks
earn nothing.
"""

import importlib
import itertools
import json
import re
import sys
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

import minimlc as mlc
from minimlc import homework, te
from minimlc.apart.message import to_npz
from minimlc.homework import allowed
from minimlc.homework import structure as st
from minimlc.script import I, R, T
from tests.helpers import refuses
from tests.homework import wrong

pytestmark = pytest.mark.many

NUMBER = itertools.count()
READY = {"mlc": mlc, "np": np, "te": te, "I": I, "R": R, "T": T}


@pytest.fixture
def notebook(tmp_path) -> Callable:
    """`notebook(text, name)`: the function that a notebook has after a cell with that text."""

    def define(text: str, name: str, **known) -> Callable:
        path = tmp_path / f"cell{next(NUMBER)}.py"
        path.write_text(text)
        names = {"__name__": "__main__", "importlib": importlib, "sys": sys, **READY, **known}
        exec(compile(text, str(path), "exec"), names)
        return names[name]

    return define


def test_each_item_has_at_least_five_wrong_solutions():
    tasks = {name.split(".")[1] for name in homework.assignments() if name.startswith("hw1.")}
    assert set(wrong.PROGRAMS) == tasks
    texts = [item.text for item in homework.find("hw2.dense").items]
    for start in wrong.SCHEDULES:
        assert sum(text.startswith(start) for text in texts) == 1, start
    assert len(wrong.SCHEDULES) == len(texts)
    assert all(len(kinds) >= 5 for kinds in (wrong.PROGRAMS | wrong.SCHEDULES).values())


@pytest.mark.parametrize("task", wrong.PROGRAMS)
def test_two_right_programs_earn_everything(task, notebook):
    for text in (wrong.solutions("hw1")[task], wrong.formula(task)):
        report = homework.check(f"hw1.{task}", notebook(text, task))
        assert report.points == report.total == 5, report


@pytest.mark.parametrize(
    "task, kind", [(task, kind) for task, kinds in wrong.PROGRAMS.items() for kind in kinds]
)
def test_wrong_programs_earn_nothing(task, kind, notebook, record_property):
    report = homework.check(f"hw1.{task}", notebook(wrong.program(task, kind), task))
    record_property("points", report.points)
    assert report.points == 0, report
    if "init" in kind:
        assert "written" in report.results[0].why, report


GREATER = """
def argmax(n, m):
    @I.ir_module
    class Argmax:
        @T.prim_func
        def main(X: T.Buffer((n, m), "float32"), Y: T.Buffer((n,), "int32")):
            M = T.alloc_buffer((n,), "float32")
            for i in range(n):
                START
                M[i] = T.min_value("float32")
                for j in range(m):
                    if X[i, j] > M[i]:
                        Y[i] = T.cast(j, "int32")
                        M[i] = X[i, j]

    return Argmax
"""


def test_an_argmax_that_waits_for_a_greater_one_has_a_start(notebook):
    report = homework.check("hw1.argmax", notebook(GREATER.replace("START", "pass"), "argmax"))
    assert report.points == 0 and "least numbers" in report.results[0].why, report
    right = GREATER.replace("START", "Y[i] = T.int32(0)")
    assert homework.check("hw1.argmax", notebook(right, "argmax")).points == 5


SIGNATURES = {
    "sizes": (
        {'C: T.Buffer((n, m), "float32")': 'C: T.Buffer((n, m + 1), "float32")'},
        'declare C as T.Buffer((1, 1), "float32")',
    ),
    "axes": (
        {'C: T.Buffer((n, m), "float32")': 'C: T.Buffer((n,), "float32")', "[vi, vj]": "[vi]"},
        'declare C as T.Buffer((1, 1), "float32")',
    ),
    "element type": (
        {'C: T.Buffer((n, m), "float32")': 'C: T.Buffer((n, m), "int32")', "float32(0)": "int32(0)"}
        | {"+ A[vi, vr] * B[vr, vj]": '+ T.cast(A[vi, vr] * B[vr, vj], "int32")'},
        'declare C as T.Buffer((1, 1), "float32")',
    ),
    "order": (
        {"A: T.Buffer((n, k)": "C: T.Buffer((n, m)", "B: T.Buffer((k, m)": "A: T.Buffer((n, k)"}
        | {'"float32"), C: T.Buffer((n, m)': '"float32"), B: T.Buffer((k, m)'},
        "declare the parameters in the order A, B, C",
    ),
    "order of the inputs": (
        {'"float32"), B: T.Buffer((k, m)': '"float32"), A: T.Buffer((n, k)'}
        | {"main(A: T.Buffer((n, k)": "main(B: T.Buffer((k, m)"},
        "declare the parameters in the order A, B, C",
    ),
}
PRODUCT = """
def matmul(n, m, k):
    @I.ir_module
    class Product:
        @T.prim_func
        def main(A: T.Buffer((n, k), "float32"), B: T.Buffer((k, m), "float32"), \
C: T.Buffer((n, m), "float32")):
            for i, j, r in T.grid(n, m, k):
                with T.block("C"):
                    vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]

    return Product
"""


@pytest.mark.parametrize("kind", SIGNATURES)
def test_a_wrong_signature_is_told_in_the_programs_own_names(kind, notebook):
    changes, words = SIGNATURES[kind]
    text = PRODUCT
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    why = homework.check("hw1.matmul", notebook(text, "matmul")).results[0].why
    assert words in why and "copy()" not in why


def item_of(report, start: str):
    return next(result for result in report.results if result.text.startswith(start))


@pytest.mark.parametrize("kind", wrong.RIGHT_SCHEDULES)
def test_two_right_schedules_earn_everything(kind, notebook):
    text = wrong.schedule(wrong.RIGHT_SCHEDULES[kind])
    report = homework.check("hw2.dense", notebook(text, "chain"))
    assert report.points == report.total == 20, report


QUICK = {item: kinds for item, kinds in wrong.SCHEDULES.items() if item != "at least 4 times"}


@pytest.mark.parametrize("item, kind", [(i, kind) for i, kinds in QUICK.items() for kind in kinds])
def test_wrong_schedules_miss_the_item(item, kind, notebook, record_property):
    text = wrong.schedule(wrong.SCHEDULES[item][kind])
    report = homework.check("hw2.dense", notebook(text, "chain"))
    record_property("points", report.points)
    assert report.points < 20
    missed = item_of(report, item)
    assert missed.earned == 0 and missed.why != "not judged: the values are wrong", report
    if item == "at least 2 times":
        assert item_of(report, "at least 4 times").earned == 0


@pytest.mark.parametrize("kind", wrong.TRICKS)
def test_a_recipe_earns_nothing_however_it_is_reached(kind, notebook, tmp_path):
    lines = wrong.TRICKS[kind].split("\n")
    text = "\n".join(["def trick(sch):", *(f"    {line}" for line in lines)])
    trick = notebook(text, "trick")
    report = homework.check("hw2.dense", trick)
    assert report.points == 0
    refusal = "hw2.dense does not allow mlc."
    if kind == "the garbage collector":
        refusal = "a submission may not use gc.get_objects"
    assert refusal in report.results[0].why, report
    said = homework.export(tmp_path / "work.zip", {"hw2.dense": trick})
    assert refusal in said["hw2.dense"]
    report = homework.grade(tmp_path / "work.zip", "hw2.dense")
    assert report.points == 0 and refusal in report.results[0].why


@pytest.mark.parametrize("kind", wrong.LEGAL)
@pytest.mark.parametrize("task", wrong.OPERATORS)
def test_an_operator_earns_nothing_however_it_is_lowered(task, kind, notebook):
    operator, shapes = wrong.OPERATORS[task]
    params = ", ".join(
        f'{name}: R.Tensor(({", ".join(shape)},), "float32")'
        for name, shape in zip("ab", shapes, strict=False)
    )
    names = ", ".join("ab"[: len(shapes)]) + (", axis=1" if task == "argmax" else "")
    graph = wrong.GRAPH.format(params=params, operator=operator, names=names)
    lines = [*graph.strip().split("\n"), "graph = Graph", f"mod = {wrong.LEGAL[kind]}"]
    lines.append("return mod.without('main')")
    head = wrong.solutions("hw1")[task].split("\n")[0]
    trick = notebook("\n".join([head, *(f"    {line}" for line in lines)]), task)
    report = homework.check(f"hw1.{task}", trick)
    assert report.points == 0
    assert f"hw1.{task} does not allow mlc.passes and graph operators" in report.results[0].why


def test_an_operators_own_formula_is_taken_away_too(notebook):
    text = (
        "def matmul(n, m, k):\n"
        "    from minimlc.graphs.ops import OPS\n"
        '    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")\n'
        '    return te.create_prim_func([A, B, OPS["matmul"].lower(A, B)])\n'
    )
    why = homework.check("hw1.matmul", notebook(text, "matmul")).results[0].why
    assert "does not allow mlc.passes and graph operators" in why


def recipe_schedule() -> mlc.Schedule:
    return mlc.recipes.matmul(mlc.Schedule(homework.find("hw2.dense").reference, check=False))


def test_what_was_made_before_earns_nothing(notebook, tmp_path):
    schedule = recipe_schedule()
    again = notebook(
        "def again(sch):\n    return mlc.Schedule.replay(sch.mod, mlc.Trace.from_json(TRACE))",
        "again",
        TRACE=schedule.trace.to_json(),
    )
    for submission, words in {
        schedule: "a function that makes it is wanted",
        mlc.recipes.matmul: "does not allow mlc.recipes",
        again: f"its {len(schedule.trace)} steps hold those of mlc.recipes.matmul",
    }.items():
        report = homework.check("hw2.dense", submission)
        assert report.points == 0 and words in report.results[0].why, report
    texts = notebook(
        "def matmul(n, m, k):\n    return mlc.parse(TEXTS[n, m, k])",
        "matmul",
        TEXTS={(1, 1, 1): "@T.prim_func\ndef main(): pass"},
    )
    why = homework.check("hw1.matmul", texts).results[0].why
    assert why == "it uses TEXTS of the notebook, a program: write it inside the function"


def mixed(steps, *between) -> list:
    """Steps with others after each, in which `#` is a number of their own."""
    text = json.dumps(between)
    return [
        item
        for number, step in enumerate(steps)
        for item in (step, *json.loads(text.replace("#", str(number))))
    ]


PAGE = re.compile(r"```text\n(.*?)```", re.S)
NOTED = ["annotate", {"name": "C", "key": "n#", "value": 1}]
CHANGES = {
    "none": list,
    "one more step": lambda steps: [("annotate", {"name": "C", "key": "n", "value": 1}), *steps],
    "one step less": lambda steps: steps[:-1],
    "notes": lambda steps: mixed(steps, NOTED),
    "notes that come and go": lambda steps: mixed(
        steps, NOTED, ["unannotate", {"name": "C", "key": "n#"}]
    ),
    "no notes": lambda steps: [step for step in steps if step[0] != "annotate"],
    "unit loops": lambda steps: mixed(steps, ["add_unit_loop", {"target": "C"}]),
    "loops cut by one": lambda steps: mixed(steps, ["split", {"loop": "j2", "factors": [None, 1]}]),
    "another order": lambda steps: [*steps[:-2], *steps[:-3:-1]],
}


@pytest.mark.parametrize("change", ["notes", "notes that come and go"])
def test_a_recipes_trace_with_other_steps_earns_nothing(change, notebook, tmp_path):
    steps = CHANGES[change](list(recipe_schedule().trace))
    trace = json.dumps({"version": 1, "steps": steps})
    text = "def again(sch):\n    return mlc.Schedule.replay(sch.mod, mlc.Trace.from_json(TRACE))"
    again = notebook(text, "again", TRACE=trace)
    homework.export(tmp_path / "work.zip", {"hw2.dense": again})
    for report in (
        homework.check("hw2.dense", again),
        homework.grade(tmp_path / "work.zip", "hw2.dense"),
    ):
        assert report.points == 0 and "hold those of mlc.recipes.matmul" in report.results[0].why


def test_the_errors_page_shows_what_is_said(notebook):
    trick, trace = (text.strip() for text in PAGE.findall(mlc.explain("E803").text))
    called = notebook("def trick(sch):\n    return mlc.recipes.matmul(sch)", "trick")
    assert repr(homework.check("hw2.dense", called)).startswith(trick)
    steps = recipe_schedule().trace
    said = allowed.in_trace("hw2.dense", ("recipes",), steps, lambda: {"matmul": steps})
    assert said == trace.replace("its 38 steps", f"its {len(steps)} steps")


@pytest.mark.parametrize("change", CHANGES)
def test_grading_knows_a_recipes_steps(change, tmp_path):
    schedule = recipe_schedule()
    steps = CHANGES[change](list(schedule.trace))
    trace = json.dumps({"version": 1, "steps": steps})
    body = {"trace": trace, "text": schedule.mod.script(), "same": True}
    with zipfile.ZipFile(tmp_path / "work.zip", "w") as packed:
        packed.writestr(
            "submission.json", json.dumps({"format": 1, "answers": {"hw2.dense": body}})
        )
        packed.writestr("arrays.npz", to_npz({}))
    report = homework.grade(tmp_path / "work.zip", "hw2.dense")
    assert report.points == 0 and "mlc.recipes.matmul" in report.results[0].why


@pytest.mark.parametrize("kind", wrong.RIGHT_SCHEDULES)
def test_honest_schedules_are_far_from_a_recipe(kind, notebook, monkeypatch):
    chain = notebook(wrong.schedule(wrong.RIGHT_SCHEDULES[kind]), "chain")
    honest = chain(mlc.Schedule(homework.find("hw2.dense").reference, check=False)).trace
    written = {"matmul": recipe_schedule().trace}
    assert allowed.in_trace("own", ("recipes",), mixed(written["matmul"], NOTED), lambda: written)
    monkeypatch.setattr(allowed, "ALIKE", 0.5)
    assert not allowed.in_trace("own", ("recipes",), honest, lambda: written)


# What an instructor may say


def product(**options) -> homework.Assignment:
    return homework.Assignment(
        "own.product",
        reference=lambda a, b: a @ b,
        inputs=lambda n: [(n, n), (n, n)],
        cases=[(1,), (3,)],
        items=[homework.values(1)],
        **options,
    )


FORBIDDEN = {
    "return np.matmul(a, b)": "own.product does not allow numpy.matmul",
    "return a @ b": "own.product does not allow numpy.matmul: write it yourself, without @",
    "return getattr(np, 'mat' + 'mul')(a, b)": "own.product does not allow numpy.matmul",
    "return np.linalg.inv(a)": "own.product does not allow numpy.linalg.*",
    "return a.dot(b)": "own.product does not allow numpy.dot",
    "from numpy import dot\n    return dot(a, b)": "own.product does not allow numpy.dot",
    "import json.tool": "own.product does not allow json.tool.*",
}


@pytest.mark.parametrize("body", FORBIDDEN)
def test_an_assignment_forbids_functions_modules_and_operators(body, notebook):
    assignment = product(
        wanted="function",
        forbid=["numpy.matmul", "numpy.dot", "numpy.linalg.*", "json.tool.*"],
    )
    answer = notebook(f"def answer(a, b):\n    {body}", "answer")
    report = homework.check(assignment, answer)
    assert report.points == 0 and FORBIDDEN[body] in report.results[0].why, report
    right = "def answer(a, b):\n    return (a[:, :, None] * b[None]).sum(1)"
    assert homework.check(assignment, notebook(right, "answer")).points == 1


def test_an_assignment_forbids_primitives_and_allows_recipes(notebook):
    def defined(**options):
        return homework.Assignment(
            "own.steps", homework.find("hw2.dense").reference, [homework.values(1, 1e-3)], **options
        )

    recipe = notebook("def recipe(sch):\n    return mlc.recipes.matmul(sch)", "recipe")
    assert homework.check(defined(), recipe).points == 0
    assert homework.check(defined(allow=["recipes"]), recipe).points == 1
    split = notebook("def split(sch):\n    return sch.split('i', [None, 4])", "split")
    assert homework.check(defined(forbid=["tensorize"]), split).points == 1
    report = homework.check(defined(forbid=["split"]), split)
    assert report.points == 0 and report.results[0].why == "own.steps does not allow split"
    assert homework.check(defined(allow=["recipes", "legalize"]), recipe_schedule()).points == 1


def own_reference(a, b):
    return a @ b


def test_the_reference_is_not_a_submission(notebook):
    assignment = homework.Assignment(
        "own.reference",
        own_reference,
        [homework.values(1)],
        [(2,)],
        lambda n: [(n, n), (n, n)],
        wanted="function",
    )
    assert "reference" in homework.check(assignment, own_reference).results[0].why
    inside = notebook(
        "def inside(a, b):\n    from tests.homework.test_wrong_solutions import own_reference\n"
        "    return own_reference(a, b)",
        "inside",
    )
    report = homework.check(assignment, inside)
    assert report.points == 0 and "does not allow its own reference" in report.results[0].why


# Assignments that can't be

MODULE = homework.find("hw2.dense").reference
VALUES = [homework.values(1)]
OUTSIDE = mlc.parse(
    "@T.prim_func\n"
    'def main(A: T.Buffer((8,), "float32"), C: T.Buffer((9,), "float32")):\n'
    "    for i in range(9):\n"
    "        C[i] = A[i]"
)
UNWRITTEN = mlc.parse(
    "@T.prim_func\n"
    'def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):\n'
    '    B = T.alloc_buffer((8,), "float32")\n'
    "    for i in range(8):\n"
    "        C[i] = A[i] + B[i]"
)
INVALID = {
    "no reference": (lambda: homework.Assignment("x", None, VALUES), "reference="),
    "a function for a module": (
        lambda: homework.Assignment("x", mlc.Schedule(MODULE).func, VALUES),
        "reference=",
    ),
    "a schedule": (lambda: homework.Assignment("x", mlc.Schedule(MODULE), VALUES), "reference="),
    "items of text": (lambda: homework.Assignment("x", MODULE, ["x"]), "items are"),
    "items are a text": (lambda: homework.Assignment("x", MODULE, "values"), "items=[...]"),
    "items are none": (lambda: homework.Assignment("x", MODULE, None), "items=[...]"),
    "one item": (lambda: homework.Assignment("x", MODULE, VALUES[0]), "items=[...]"),
    "no items": (lambda: homework.Assignment("x", MODULE, []), "values(points)"),
    "no values": (lambda: homework.Assignment("x", MODULE, [homework.pure(1)]), "values(points)"),
    "values twice": (lambda: homework.Assignment("x", MODULE, VALUES * 2), "two items"),
    "speed twice": (
        lambda: homework.Assignment("x", MODULE, [*VALUES, *[homework.speed(1, 2)] * 2]),
        "two items",
    ),
    "no points": (lambda: homework.values(0), "points is a number above 0, got 0"),
    "points of text": (lambda: homework.pure("1"), "points is a number above 0, got '1'"),
    "points taken": (lambda: homework.pure(-1), "points is a number above 0"),
    "points true": (lambda: homework.pure(True), "points is a number above 0, got True"),
    "no end of points": (lambda: homework.pure(float("inf")), "points is a number above 0"),
    "points unknown": (lambda: homework.pure(float("nan")), "points is a number above 0"),
    "a ratio of nothing": (lambda: homework.speed(1, 0), "ratio is a number above 0"),
    "a ratio of text": (lambda: homework.speed(1, "fast"), "ratio is a number above 0"),
    "a tolerance of none": (lambda: homework.values(1, None), "tolerance is a number above 0"),
    "no requirement": (lambda: homework.structured(st.no_guard, 1), "a requirement is wanted"),
    "a requirement of text": (lambda: homework.structured("tiled", 1), "a requirement is wanted"),
    "no such axis": (
        lambda: homework.Assignment(
            "x", MODULE, [*VALUES, homework.structured(st.tiled("z", 2, 4), 1)]
        ),
        'there is no axis "z"',
    ),
    "no such block": (
        lambda: homework.Assignment(
            "x", MODULE, [*VALUES, homework.structured(st.no_guard(), 1)], block="Z"
        ),
        "which block",
    ),
    "a name of none": (lambda: homework.Assignment(None, MODULE, VALUES), "name"),
    "an empty name": (lambda: homework.Assignment("", MODULE, VALUES), "name"),
    "no cases": (lambda: homework.Assignment("x", len, VALUES), "cases=[...]"),
    "a case of a number": (lambda: _function(cases=[3]), "a case is a tuple"),
    "a case of text": (lambda: _function(cases=[("n",)]), "a case is a tuple"),
    "too few sizes": (lambda: _function(cases=[(1, 2)]), "inputs(1, 2) gives no shapes"),
    "negative sizes": (lambda: _function(cases=[(-1,)]), "inputs(-1,) gives no shapes"),
    "inputs of text": (lambda: _function(inputs=lambda n: ["n"]), "gives no shapes"),
    "inputs of objects": (
        lambda: _function(inputs=lambda n: [np.array([None])]),
        "other things than numbers",
    ),
    "inputs are none": (lambda: _function(inputs=None), "inputs=..."),
    "a reference of more": (
        lambda: _function(reference=lambda a, b: a),
        "its reference raised TypeError",
    ),
    "a reference of text": (lambda: _function(reference=lambda a: "x"), "gives <U1"),
    "wanted wrongly": (lambda: _function(wanted="functions"), 'did you mean "function"'),
    "a schedule of a function": (lambda: _function(wanted="schedule"), "no module"),
    "a function of a module": (
        lambda: homework.Assignment("x", MODULE, VALUES, wanted="function"),
        "is a module",
    ),
    "speed of a function": (
        lambda: _function(items=[*VALUES, homework.speed(1, 2)]),
        "schedules only",
    ),
    "an element that is not there": (lambda: _scheduled(OUTSIDE), "E107: A is read out of range"),
    "an element that nobody wrote": (lambda: _scheduled(UNWRITTEN), "E131: B[0] is read"),
    "forbids a function that is not there": (
        lambda: _function(forbid=["numpy.matmull"]),
        'numpy has no matmull: did you mean "matmul"',
    ),
    "forbids below a module that is not there": (
        lambda: _function(forbid=["numpy.linalgg.*"]),
        'numpy has no linalgg: did you mean "linalg"',
    ),
    "forbids a method that is not there": (
        lambda: _function(forbid=["numpy.ndarray.dott"]),
        'numpy.ndarray has no dott: did you mean "dot"',
    ),
    "forbids of a package that is not there": (
        lambda: _function(forbid=["numpi.matmul"]),
        'there is no numpi: did you mean "numpy"',
    ),
    "allows what it forbids": (
        lambda: _function(allow=["recipes"], forbid=["recipes"]),
        "'recipes' is both allowed and forbidden",
    ),
    "less than no time": (lambda: homework.Limits(cpu_seconds=-1), "cpu_seconds is a number"),
    "time of text": (lambda: homework.Limits(wall_seconds="x"), "wall_seconds is a number"),
    "no end of time": (
        lambda: homework.Limits(wall_seconds=float("inf")),
        "wall_seconds is a number",
    ),
    "no memory": (lambda: homework.Limits(memory_bytes=0), "memory_bytes is a whole number"),
    "half a byte": (lambda: homework.Limits(file_bytes=0.5), "file_bytes is a whole number"),
    "processes less than none": (
        lambda: homework.Limits(processes=-1),
        "processes is a whole number, 0 or more, got -1",
    ),
    "tiles from more to fewer": (lambda: st.tiled("k", 8, 4), "such as 4, 32, got 8, 4"),
    "tiles of nothing": (lambda: st.cut("k", 0, 4), "cut: sizes go from a low one to a high one"),
    "tiles of text": (lambda: st.register_tile("2", 4), "register_tile: sizes"),
    "limits of a number": (lambda: _function(limits=3), "limits=Limits"),
    "no such numbers": (lambda: _function(numbers=["larg"]), 'did you mean "large"'),
    "numbers are a text": (lambda: _function(numbers="large"), "numbers=[...]"),
    "no such tool": (lambda: _function(forbid=["recipe"]), 'did you mean "recipes"'),
    "forbids a number": (lambda: _function(forbid=[3]), "given by name"),
    "allows what was not taken": (lambda: _function(allow=["numpy.dot"]), "was not taken away"),
    "registers a name": (lambda: homework.register("x"), "register takes an assignment"),
}


def _scheduled(module) -> homework.Assignment:
    return homework.Assignment("x", module, VALUES)


def _function(**changes) -> homework.Assignment:
    usual = {
        "name": "x",
        "reference": lambda a: a,
        "items": VALUES,
        "cases": [(1,)],
        "inputs": lambda n: [(n,)],
    }
    return homework.Assignment(**{**usual, **changes})


@pytest.mark.parametrize("kind", INVALID)
def test_an_assignment_that_cannot_be_is_refused_when_it_is_made(kind):
    call, words = INVALID[kind]
    refuses("E802", call, words)


def test_a_package_that_is_not_installed_may_be_forbidden():
    assert _function(forbid=["notinstalledanywhere.dot"]).forbid == ("notinstalledanywhere.dot",)


def test_a_cell_that_defines_an_assignment_may_run_twice():
    for _ in range(2):
        assert homework.register(_function(name="own.twice")) is homework.find("own.twice")
