"""The frame: what is packaged, what is needed, which way imports point, what an import costs."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "minimlc"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
RUN_EXTRAS = ("chapters", "run")
LAB_EXTRAS = (*RUN_EXTRAS, "notebooks", "lab")
TEST_EXTRAS = (*LAB_EXTRAS, "onnx", "browser", "homework", "dev")
LOCKS = {
    "requirements-run.lock": RUN_EXTRAS,
    "requirements-lab.lock": LAB_EXTRAS,
    "requirements.lock": TEST_EXTRAS,
}
EXTRAS = {"torch", "onnx", "jax", "tune", "distributed", "cuda", "homework", "browser", "dev"}
CONDA_NAMES = {
    "matplotlib": "matplotlib-base",
    "nbconvert": "nbconvert-core",
    "playwright": "playwright-python",
}
IMPORT_SECONDS = 0.3
TIMES_NUMPY = 2.8

# Files may import only from files above them in this list, and from their own package.
ORDER = (
    "minimlc/loops/values/",
    "minimlc/composition.py",
    "minimlc/loops/ir/",
    "minimlc/loops/printer.py",
    "minimlc/loops/proofs/",
    "minimlc/loops/text/",
    "minimlc/script.py",
    "minimlc/loops/te/",
    "minimlc/loops/math/",
    "minimlc/loops/interpreter/",
    "minimlc/loops/schedule/",
    "minimlc/loops/lower/",
    "minimlc/loops/llvm/",
    "minimlc/graphs/ir/",
    "minimlc/graphs/ops/",
    "minimlc/graphs/",
    "minimlc/graphs/passes/",
    "minimlc/graphs/text/",
    "minimlc/services/explain.py",
    "minimlc/services/former.py",
    "minimlc/services/control/",
    "minimlc/services/runtime/",
    "minimlc/services/sizes/",
    "minimlc/services/arrays/",
    "minimlc/services/networks/",
    "minimlc/services/spellings/",
    "minimlc/services/checks/",
    "minimlc/services/equivalence/",
    "minimlc/services/layouts/",
    "minimlc/services/primitives/",
    "minimlc/services/tensor/",
    "minimlc/services/net/",
    "minimlc/services/sampling.py",
    "minimlc/services/llvm/",
    "minimlc/services/threads/",
    "minimlc/services/patterns/",
    "minimlc/services/passes/",
    "minimlc/services/native/",
    "minimlc/services/caches/",
    "minimlc/services/build.py",
    "minimlc/services/dispatch.py",
    "minimlc/targets/source/",
    "minimlc/targets/c/",
    "minimlc/targets/gpu/",
    "minimlc/targets/opencl/",
    "minimlc/targets/cuda/",
    "minimlc/targets/python/",
    "minimlc/recipes/",
    "minimlc/machine/",
    "minimlc/deploy/",
    "minimlc/gpusim/",
    "minimlc/apart/",
    "minimlc/tune/",
    "minimlc/frontends/",
    "minimlc/tile/",
    "minimlc/homework/",
    "minimlc/exercise.py",
    "minimlc/datasets.py",
    "minimlc/__init__.py",
)
VIEWS = ("IPython", "minimlc_widgets")  # reached from show() only
LAZY_FOLDERS = tuple(f"minimlc/{name}/" for name in ("frontends", "services", "machine", "tune"))


def name_of(requirement: str) -> str:
    return re.split(r"[ ><=!~\[;]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def wanted(*extras: str) -> dict[str, str]:
    """Requirement by name: the core's and the extras'."""
    optional = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *(r for e in extras for r in optional[e])]
    return {name_of(line): line for line in lines if name_of(line) != "minimlc"}


def test_extras_are_all_there():
    assert set(PROJECT["project"]["optional-dependencies"]) >= EXTRAS


def test_conda_environment_names_the_same_packages():
    entries = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    conda = {name_of(e): e for e in entries if isinstance(e, str)}
    assert conda.pop("python").endswith(PROJECT["project"]["requires-python"])
    conda.pop("pip")
    ours = {CONDA_NAMES.get(name, name): line for name, line in wanted(*TEST_EXTRAS).items()}
    assert set(conda) == set(ours)
    for name, line in ours.items():
        assert re.search("[<>=].*", conda[name])[0] == re.search("[<>=].*", line)[0], name


def pins(lock: str) -> dict[str, str]:
    """The pins of a lock by package: its version, its hashes, and on which systems."""
    text = (ROOT / lock).read_text("utf-8")
    found = re.findall(
        r"^([A-Za-z0-9._-]+)(?:\[[a-z-]+\])?==(\S+[^\\]* \\\n(?:    --hash=.*\n)+)", text, re.M
    )
    assert len(found) == len(re.findall(r"^\S+==", text, re.M)), "a pin without hashes"
    return {name_of(name): said for name, said in found}


@pytest.mark.parametrize(("lock", "extras"), LOCKS.items())
def test_locks_have_hashes_all_packages_and_no_addresses(lock, extras):
    names = set(pins(lock))
    assert set(wanted(*extras)) <= names
    assert not re.search(r"https?://|index-url|find-links", (ROOT / lock).read_text("utf-8"))
    assert not names & {"torch", "jax", "cupy-cuda12x"}, "too large for the default install"


def test_running_needs_less_than_testing_and_the_same_of_it():
    run, lab, test = (pins(lock) for lock in LOCKS)
    for less, more in ((run, lab), (lab, test)):
        assert less.keys() < more.keys()
        for name, said in less.items():
            version, hashes = said.split()[0], re.findall("--hash=.*", said)
            assert (version, hashes) == (more[name].split()[0], re.findall("--hash=.*", more[name]))
    assert "jupyterlab" in lab and "jupyterlab" not in run
    only_tests = {"nbgrader", "playwright", "onnxruntime", "onnx", "mypy", "pytest", "ruff"}
    assert only_tests <= set(test) and not only_tests & set(lab)


def test_every_package_is_shipped():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    found = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found | {
        "minimlc_widgets",
        "minimlc.pages",
    }


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    """(file, dotted name of its package, tree) of every file of the library."""
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        package = ".".join(path.relative_to(ROOT).parts[:-1])
        yield file, package, ast.parse(path.read_text("utf-8"))


def place(file: str) -> int:
    """The file's place in ORDER, by its longest entry; a file that has none comes last."""
    fitting = [e for e in ORDER if file == e or (e.endswith("/") and file.startswith(e))]
    return ORDER.index(max(fitting, key=len)) if fitting else len(ORDER) - 1


def file_of(module: str) -> str | None:
    path = ROOT.joinpath(*module.split("."))
    if path.is_dir():
        return (path / "__init__.py").relative_to(ROOT).as_posix()
    if path.with_suffix(".py").exists():
        return path.with_suffix(".py").relative_to(ROOT).as_posix()
    return None


def imported(node: ast.AST, package: str) -> Iterator[str]:
    """Dotted names of minimlc modules that an import statement reaches."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "minimlc")
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = package.split(".")
            base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
        if base.split(".")[0] != "minimlc":
            return
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield inner if file_of(inner) else base


def typing_only(tree: ast.Module) -> set[ast.AST]:
    return {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }


def test_imports_point_one_way():
    wrong = []
    for file, package, tree in modules():
        skipped = typing_only(tree)
        for node in ast.walk(tree):
            if node in skipped or not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for module in imported(node, package):
                target = file_of(module)
                if target and place(target) > place(file):
                    wrong.append(f"{file}:{node.lineno} imports {module}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_files_of_a_package_do_not_import_in_circles():
    graph: dict[str, set[str]] = {}
    for file, package, tree in modules():
        skipped = typing_only(tree)
        statements = [node for node in ast.walk(tree) if node not in skipped]
        found = {file_of(module) for node in statements for module in imported(node, package)}
        graph[file] = {target for target in found if target and target != file}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_the_order_names_every_file_of_the_top_level():
    known = {"/".join(entry.split("/")[:2]) for entry in ORDER}
    found = {path.relative_to(ROOT).as_posix() for path in PACKAGE.glob("*.py")}
    found |= {path.parent.relative_to(ROOT).as_posix() for path in PACKAGE.glob("*/__init__.py")}
    assert found <= known


def test_imports_in_functions_are_of_optional_packages():
    wrong = []
    for file, _, tree in modules():
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]
        for node in {n for function in functions for n in ast.walk(function)}:
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            root = (name or "minimlc").split(".")[0]
            own = isinstance(node, ast.ImportFrom) and node.level > 0
            views = root in VIEWS
            lazy = file.startswith(LAZY_FOLDERS) and root not in sys.stdlib_module_names
            if own or root == "minimlc" or not (views or lazy):
                wrong.append(f"{file}:{node.lineno} {ast.unparse(node)}")
    assert not wrong, "\n".join(sorted(set(wrong)))


@pytest.mark.alone
def test_import_is_quick():
    """Compiled files in place, as after an installation; the best of ten. A busy machine takes as
    much longer for numpy, which is part of it.
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-X", "importtime", "-c", "import minimlc"]
    best = float("inf")
    for _ in range(10):
        result = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment
        )
        rows = [line.split("|") for line in result.stderr.strip().splitlines()]
        totals = [(name.strip(), total) for _, total, name in rows[1:]]
        taken = {name: int(total) / 1e6 for name, total in totals}
        best = min(best, taken["minimlc"])
        if best <= IMPORT_SECONDS or taken["minimlc"] <= TIMES_NUMPY * taken["numpy"]:
            return
    raise AssertionError(f"import minimlc took {best:.3f} s")


ABSENT = "llvmlite torch onnx jax cupy IPython ipywidgets anywidget jupyterlab matplotlib sklearn"
WITHOUT = f"""
import sys
for name in {ABSENT.split()}:
    sys.modules[name] = None
import minimlc as mlc
assert all(hasattr(mlc, name) for name in getattr(mlc, "__all__", ()))
"""


def test_import_works_without_the_optional_packages():
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, cwd=ROOT)


def test_import_loads_numpy_and_ml_dtypes_only():
    code = "import minimlc, sys; print(*{name.split('.')[0] for name in sys.modules})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    distributions = set(wanted(*PROJECT["project"]["optional-dependencies"])) | {"ipython"}
    loaded = {name.lower().replace("_", "-") for name in result.stdout.split()}
    assert loaded & distributions <= {"numpy", "ml-dtypes", "setuptools"}


def test_readme_examples_run(tmp_path):
    """Those under "Ten lines": nothing in them fails, and the error shown after them is the one
    that is printed.
    """
    readme = (ROOT / "README.md").read_text("utf-8")
    section = re.search(r"^## Ten lines\n((?s:.*?))^## ", readme, re.M)
    blocks = re.findall(r"^```python\n(.*?)^```", section[1], re.M | re.S)
    assert len(blocks) == 3
    for block in blocks:
        lines = [line for line in block.splitlines() if line.strip()]
        assert len(lines) <= 20, "an example is meant to be about ten lines"
    shown = re.search(r"^```text\n>>> (.*)\n((?s:.*?))^```", readme, re.M)
    assert shown, "README.md shows no error"
    refused = f"try:\n    {shown[1]}\nexcept mlc.CompileError as error:\n"
    refused += '    print(*error._render_traceback_(), sep="\\n")\n'
    script = tmp_path / "examples.py"
    script.write_text("\n".join([*blocks, refused]), "utf-8")
    result = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == shown[2]
