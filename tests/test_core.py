"""The core and the rooms beside it: who imports whom, how much code each has, and that the core
works without any of them."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.code_lines import code_lines
from tests.test_packaging import imported, modules

ROOT = Path(__file__).resolve().parents[1]

ROOMS = {
    "tir/equivalence": 369,
    "schedule/more": 1410,
    "schedule/tensor": 698,
    "schedule/net": 376,
    "schedule/sampling.py": 140,
    "codegen/llvm/tensor": 338,
    "codegen/llvm/listing.py": 96,
    "codegen/source": 188,
    "codegen/c": 832,
    "codegen/gpu": 2373,
    "codegen/opencl": 93,
    "codegen/cuda": 342,
    "codegen/python": 528,
    "gpusim": 846,
    "passes/dispatch.py": 125,
    "machine": 485,
    "deploy": 620,
    "recipes": 2675,
    "frontends": 1000,
    "tile": 417,
    "apart": 583,
    "tune": 1651,
    "homework": 2264,
    "exercise.py": 203,
    "datasets.py": 163,
}
"""What can be removed, and how many lines of code each may have."""

CORE = {
    "tir": 2385,
    "tir/analysis": 3559,
    "tir/math": 535,
    "graph": 1963,
    "graph/ops": 3167,
    "script": 2807,
    "schedule": 2886,
    "passes": 2377,
    "codegen": 215,
    "codegen/llvm": 1947,
    "runtime": 2638,
    "": 2550,
}
"""The folders of the core (the last one is `minimlc` itself), and how many lines each may have.

A number goes down with the code. Where it is to go up, `docs/decisions.md` says why.
"""

LONGEST_FILE = 400


def place(file: Path) -> str:
    """The room or the folder of the core that a file belongs to."""
    path = file.relative_to(ROOT / "minimlc").as_posix()
    inside = [name for name in ROOMS if path == name or path.startswith(f"{name}/")]
    return inside[0] if inside else Path(path).parent.as_posix().removeprefix(".")


def files() -> dict[str, list[Path]]:
    places: dict[str, list[Path]] = {}
    for file in sorted((ROOT / "minimlc").rglob("*.py")):
        places.setdefault(place(file), []).append(file)
    return places


def test_each_place_keeps_to_its_budget():
    sizes = {name: sum(map(code_lines, here)) for name, here in files().items()}
    assert sizes == {**CORE, **ROOMS}, "a budget only goes down, and it goes down with the code"


def test_no_other_file_is_long():
    long = {
        file.relative_to(ROOT / "minimlc").as_posix(): count
        for here in files().values()
        for file in here
        if (count := len(file.read_text("utf-8").splitlines())) > LONGEST_FILE
    }
    assert long == {}


def lines_of(function: ast.AST) -> int:
    """From its `def` to its last line, without the docstring."""
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    first = function.body[0]
    has_doc = ast.get_docstring(function, clean=False) is not None
    doc = (first.end_lineno or 0) - first.lineno + 1 if has_doc else 0
    return (function.end_lineno or 0) - function.lineno + 1 - doc


def test_functions_are_short():
    """Half of them have at most seven lines."""
    functions = [
        lines_of(node)
        for here in files().values()
        for file in here
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert median(functions) <= 7


def test_the_core_imports_no_room():
    """Hooks of `minimlc.parts` connect them: an import would not."""
    rooms = tuple(f"minimlc.{name.removesuffix('.py').replace('/', '.')}" for name in ROOMS)
    wrong = []
    for file, package, tree in modules():
        if place(ROOT / file) in ROOMS or file == "minimlc/__init__.py":
            continue
        for node in ast.walk(tree):
            wrong += [
                f"{file} imports {name}"
                for name in imported(node, package)
                if any(name == room or name.startswith(f"{room}.") for room in rooms)
            ]
    assert not wrong


SITTING = '''
import sys
sys.meta_path = [f for f in sys.meta_path if "editable" not in repr(f)]
sys.path.insert(0, sys.argv[1])
import numpy as np
import minimlc as mlc
from minimlc.script import I, R

assert mlc.__file__.startswith(sys.argv[1])
mod = mlc.parse("""
@I.ir_module
class Module:
    @T.prim_func
    def mm(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"),
           C: T.Buffer((8, 8), "float32")):
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")
assert mlc.structural_equal(mlc.parse(mod.script()), mod)
sch = mlc.Schedule(mod).split("j", [None, 4]).reorder("k", "j_1").vectorize("j_1")
a, b = np.arange(128, dtype="float32").reshape(2, 8, 8)
c, d = np.zeros((2, 8, 8), "float32")
mlc.interpret(sch.mod, "mm", a, b, c)
mlc.build(sch.mod)["mm"](a, b, d)
assert np.array_equal(c, a @ b) and np.array_equal(d, c)
try:
    sch.vectorize("k")
except mlc.ScheduleError as error:
    print(error)

@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((8, 8), "float32")):
        y = R.nn.relu(R.matmul(x, x))
        return y

assert np.array_equal(mlc.build(Model)["main"](a), np.maximum(a @ a, 0))
print("the core works")
'''


@pytest.mark.many
@pytest.mark.parametrize("gone", [*([name] for name in ROOMS), list(ROOMS)], ids=lambda g: g[-1])
def test_the_core_works_without(gone, tmp_path):
    """One program from text to call, in a copy without a room; at last without any."""
    shutil.copytree(ROOT / "minimlc", tmp_path / "minimlc")  # with what is compiled of it
    for name in gone:
        there = tmp_path / "minimlc" / name
        there.unlink() if there.is_file() else shutil.rmtree(there)
    script = tmp_path / "sitting.py"
    script.write_text(SITTING, "utf-8")
    command = [sys.executable, str(script), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.endswith("the core works\n"), result.stdout + result.stderr
