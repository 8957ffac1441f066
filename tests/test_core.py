"""The parts of the library: how much code each has, and that the rest works without rooms."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from minimlc.composition import ROOMS
from tests.code_lines import code_lines
from tests.test_packaging import imported, modules

ROOT = Path(__file__).resolve().parents[1]

RINGS = {
    "graphs": 1159,
    "graphs/ir": 483,
    "graphs/ops": 1186,
    "graphs/passes": 511,
    "graphs/text": 599,
    "loops/interpreter": 358,
    "loops/ir": 1470,
    "loops/llvm": 1648,
    "loops/lower": 196,
    "loops/math": 506,
    "loops": 57,
    "loops/proofs": 2722,
    "loops/schedule": 2357,
    "loops/te": 523,
    "loops/text": 1793,
    "loops/values": 1216,
}
"""The folders of the two rings, and how many lines of code each may have.

A number goes down with the code. Where it is to go up, `docs/decisions.md` has the reason.
"""

AROUND = {
    "__init__.py": 187,
    "apart": 583,
    "composition.py": 157,
    "datasets.py": 163,
    "deploy": 626,
    "exercise.py": 203,
    "frontends": 1009,
    "gpusim": 846,
    "homework": 2269,
    "machine": 487,
    "recipes": 2764,
    "script.py": 12,
    "services/arrays": 888,
    "services/build.py": 258,
    "services/caches": 393,
    "services/checks": 442,
    "services/control": 298,
    "services/dispatch.py": 125,
    "services/equivalence": 369,
    "services/explain.py": 40,
    "services/former.py": 62,
    "services/layouts": 758,
    "services/llvm": 484,
    "services/native": 407,
    "services/net": 376,
    "services/networks": 1048,
    "services/passes": 1373,
    "services/patterns": 530,
    "services/primitives": 1428,
    "services/runtime": 906,
    "services/sampling.py": 138,
    "services/sizes": 1178,
    "services/spellings": 433,
    "services/tensor": 712,
    "services/threads": 517,
    "targets/c": 826,
    "targets/cuda": 342,
    "targets/gpu": 2374,
    "targets/opencl": 93,
    "targets/python": 531,
    "targets/source": 188,
    "tile": 417,
    "tune": 1655,
}
"""Services, targets and rooms: what can be removed, and how many lines each may have."""

MOST_OF_A_SERVICE = 1500
LONGEST_FILE = 400


def place(file: Path) -> str:
    """The part that a file belongs to: a folder or file in a ring, `services` or `targets`, or one
    beside them.
    """
    path = file.relative_to(ROOT / "minimlc").as_posix()
    first, *rest = path.split("/")
    if first in ("loops", "graphs"):
        return "/".join([first, *rest[:-1]])
    return "/".join([first, *rest[:1]]) if first in ("services", "targets") else first


def files() -> dict[str, list[Path]]:
    places: dict[str, list[Path]] = {}
    for file in sorted((ROOT / "minimlc").rglob("*.py")):
        if code_lines(file):
            places.setdefault(place(file), []).append(file)
    return places


def test_each_place_keeps_to_its_budget():
    sizes = {name: sum(map(code_lines, here)) for name, here in files().items()}
    assert sizes == {**RINGS, **AROUND}, "a budget only goes down, and it goes down with the code"


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


def test_services_are_small():
    services = {name: size for name, size in AROUND.items() if name.startswith("services/")}
    assert len(services) > 15 and max(services.values()) <= MOST_OF_A_SERVICE


def test_services_import_no_room():
    """Hooks of `minimlc.parts` connect them: an import would not."""
    rooms = tuple(f"minimlc.{name}" for name in ROOMS)
    wrong = []
    for file, package, tree in modules():
        if not file.startswith("minimlc/services/"):
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


UNUSED = [
    "primitives",
    "tensor",
    "equivalence",
    "net",
    "sampling",
    "dispatch",
    "llvm",
    "layouts",
    "checks",
    "patterns",
]
GONE = [*ROOMS, *(f"services.{name}" for name in UNUSED)]


@pytest.mark.many
@pytest.mark.parametrize("gone", [*([name] for name in GONE), GONE], ids=lambda g: g[-1])
def test_the_core_works_without(gone, tmp_path):
    """One program from text to call, in a copy without a room; at last without any."""
    shutil.copytree(ROOT / "minimlc", tmp_path / "minimlc")  # with what is compiled of it
    for name in gone:
        there = tmp_path / "minimlc" / name.replace(".", "/")
        shutil.rmtree(there) if there.is_dir() else there.with_suffix(".py").unlink()
    script = tmp_path / "sitting.py"
    script.write_text(SITTING, "utf-8")
    command = [sys.executable, str(script), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.endswith("the core works\n"), result.stdout + result.stderr
