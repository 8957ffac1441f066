"""The assignments in an nbgrader course: generated, released, handed in up to three times, graded.

Grading runs the locked cells only (`minimlc.homework.autograde`), so that what counts is the
submission file: programs and traces, as data.
"""

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import numpy as np
import pytest

import minimlc as mlc
from minimlc.apart.message import to_npz
from minimlc.homework import assignments

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {"hw1": "hw1_tensor_programs", "hw2": "hw2_schedules", "hw4": "hw4_gpu"}
EXPECTED = {
    # Half: three of six programs.
    "hw1": {"half": 15.0, "hostile": 0.0},
    # Only the first two steps: 3 points each, values, purity, and the speed: a tiled product is
    # about 20 times as fast as the plain loops.
    "hw2": {"half": 10.0, "hostile": 0.0},
    "hw4": {"right": 20.0},
}
POINTS = {"hw1": 30.0, "hw2": 20.0, "hw4": 20.0}

WRONG_MATMUL = """
def matmul(n, m, k):
    @I.ir_module
    class Matmul:
        @T.prim_func
        def main(
            A: T.Buffer((n, k), "float32"),
            B: T.Buffer((k, m), "float32"),
            C: T.Buffer((n, m), "float32"),
        ):
            for i, j, r in T.grid(n, m, k):
                with T.block("C"):
                    vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                    with T.init():
                        C[vi, vj] = T.float32(1)
                    C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]

    return Matmul
"""

HALF = {
    "hw1": {
        "matmul": WRONG_MATMUL,
        "softmax": "def softmax(n, m):\n    raise NotImplementedError()",
        "argmax": "def argmax(n, m):\n    return None",
    },
    "hw2": {
        name: f"def {name}(sch):\n    raise NotImplementedError()"
        for name in ("registers", "pack", "share")
    },
}

HOSTILE = {
    "broadcast_add": "import ctypes\ndef broadcast_add(n, m):\n    ctypes.string_at(0)",
    "matmul": "def matmul(n, m, k):\n    while True: pass",
    "conv2d": "def conv2d(*a):\n    x = []\n    while True: x.append(bytearray(2**28))",
    "max_pool": "import sys\ndef max_pool(*a):\n    sys.exit(0)",
    "softmax": "import os\ndef softmax(*a):\n    os._exit(0)",
    "argmax": "import os\ndef argmax(*a):\n"
    "    print('hw1.argmax: 5 of 5 points', flush=True)\n"
    "    os.write(1, b'5.0')\n"
    "    return 5.0",
}
IMPORTED = ("minimlc", "numpy", "json", "pathlib", "ipykernel_launcher", "sitecustomize")
POISON = """
import os, types
homework.grade = lambda *a, **k: types.SimpleNamespace(points=30.0)
homework.Report.points = 30.0
"""


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def grade_id(cell: nbformat.NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def solutions(name: str) -> dict[str, str]:
    """The solution cells of the source notebook, without their delimiters."""
    cells = read(ROOT / "notebooks/homework" / f"{NOTEBOOKS[name]}.ipynb").cells
    chosen = {
        grade_id(c): c.source for c in cells if c.metadata.get("nbgrader", {}).get("solution")
    }
    return {
        key: "\n".join(li for li in t.split("\n") if "###" not in li) for key, t in chosen.items()
    }


def answered(notebook: nbformat.NotebookNode, answers: dict[str, str]) -> None:
    for cell in notebook.cells:
        if grade_id(cell) in answers:
            cell.source = answers[grade_id(cell)]


def hand_in(course: Path, name: str, student: str) -> None:
    """A student's copy of the release: answered, run as far as the export, and submitted."""
    from nbclient import NotebookClient

    folder = course / "submitted" / student / name
    folder.mkdir(parents=True)
    notebook = read(course / "release" / name / f"{NOTEBOOKS[name]}.ipynb")
    changes = {("hw1", "hostile"): HOSTILE, **{(name, "half"): HALF[name] for name in HALF}}
    answered(notebook, {**solutions(name), **changes.get((name, student), {})})
    shown = notebook.cells
    code = [c for c in shown if c.cell_type == "code" and "homework.check" not in c.source]
    run = nbformat.v4.new_notebook(
        cells=[c for c in code if not c.metadata.get("nbgrader", {}).get("grade")]
    )
    NotebookClient(run, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    if student == "hostile":
        notebook.cells.insert(2, nbformat.v4.new_code_cell(POISON))
        notebook.cells.insert(3, nbformat.v4.new_code_cell("os._exit(0)"))
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("grade"):
                cell.source = "30.0"
        if name != "hw1":
            (task,) = (t for t in assignments() if t.startswith(name))
            write_hostile_file(folder / f"{name}.zip", task)
            for module in IMPORTED:
                text = f"open({str(course / 'was_run')!r}, 'w').close()"
                (folder / f"{module}.py").write_text(text)
    nbformat.write(notebook, folder / f"{NOTEBOOKS[name]}.ipynb")


def write_hostile_file(path: Path, task: str) -> None:
    """A trace with code for a name, and praise of itself."""
    body = json.loads(mlc.Trace().to_json())
    body["steps"] = [["unroll", {"loop": "__import__('os')._exit(0)"}]]
    trace = json.dumps(body)
    answer = {"trace": trace, "text": "", "same": True, "points": 20.0, "passed": True}
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("submission.json", json.dumps({"format": 1, "answers": {task: answer}}))
        packed.writestr("arrays.npz", to_npz({f"{task}/points": np.array(20.0)}))


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable]:
    """A course directory in which everything was graded; gives the gradebook's scores."""
    from nbgrader.api import Gradebook
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    from minimlc.homework.autograde import configure

    folder = tmp_path_factory.mktemp("course")
    # nbgrader starts `alembic`, which is beside the Python of this environment.
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    environment = pytest.MonkeyPatch()
    environment.setenv("PATH", os.pathsep.join(places))
    config = Config()
    config.Exchange.root = str(folder / "exchange")
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.db_url = f"sqlite:///{folder / 'gradebook.db'}"
    configure(config)
    api = NbGraderAPI(config=config)
    for name, stem in NOTEBOOKS.items():
        (folder / "source" / name).mkdir(parents=True)
        shutil.copy(ROOT / "notebooks/homework" / f"{stem}.ipynb", folder / "source" / name)
        said = api.generate_assignment(name)
        assert said["success"], said["log"]
        for student in EXPECTED[name]:
            hand_in(folder, name, student)
            said = api.autograde(name, student)
            assert said["success"], said["log"]
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        yield folder, gradebook
    environment.undo()


@pytest.mark.requires("homework")
@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_each_submission_earns_what_it_should(course, name):
    folder, gradebook = course
    scores = {s: gradebook.find_submission(name, s).score for s in EXPECTED[name]}
    assert scores == EXPECTED[name]
    assert gradebook.find_assignment(name).max_score == POINTS[name]


@pytest.mark.requires("homework")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_release_has_neither_solutions_nor_hidden_tests(course, name):
    folder, gradebook = course
    released = (folder / "release" / name / f"{NOTEBOOKS[name]}.ipynb").read_text("utf-8")
    assert "YOUR CODE HERE" in released
    for word in ("BEGIN SOLUTION", "HIDDEN", "seed="):
        assert word not in released


@pytest.mark.requires("homework")
def test_no_python_that_was_handed_in_is_run(course):
    folder, gradebook = course
    assert (folder / "autograded/hostile/hw2/numpy.py").exists()
    assert not (folder / "was_run").exists()


@pytest.mark.requires("homework")
def test_a_hostile_submission_is_told_why(course):
    folder, gradebook = course
    graded = (folder / "autograded/hostile/hw1" / f"{NOTEBOOKS['hw1']}.ipynb").read_text("utf-8")
    for words in ("segfault", "endless loop", "memory", "sys.exit(0)", "exit code 0", "not float"):
        assert words in graded
