"""Ways back to what an assignment takes away, and into the process that judges."""

import copy
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

import minimlc as mlc
from minimlc import homework
from minimlc.apart.message import Failed, packed
from minimlc.homework import worker
from minimlc.homework.allowed import sentences
from minimlc.homework.limits import Limits
from minimlc.homework.questions import questions
from minimlc.homework.worker import fresh_worker
from tests.helpers import refuses

pytestmark = pytest.mark.many

TAKEN = sentences("own", ["recipes", "legalize"])
LIMITS = Limits(cpu_seconds=60, wall_seconds=120)
FILE = os.path.join(os.path.dirname(mlc.__file__), "recipes", "matmul.py")
HERE = f"path = {FILE!r}\n    folder, name = os.path.split(path)\n    "
HOOK = """
    try:
        import minimlc.recipes.absent
    except Exception as error:
        frame = error.__traceback__
    while frame is not None:
        known = [*frame.tb_frame.f_locals.values(), *frame.tb_frame.f_code.co_consts]
        [item.clear() for item in known if isinstance(item, dict | list | set)]
        frame = frame.tb_next
"""
AGAIN = "[sys.modules.pop(n) for n in [*sys.modules] if n.startswith('minimlc.recipes')]"
WAYS = {
    "every object": "gc.get_objects()",
    "who refers to it": "gc.get_referrers(gc)",
    "threads' frames": "sys._current_frames()",
    "what the hook's frames hold": f"{HOOK}\n    {AGAIN}\n    import minimlc.recipes",
    "the hook's module": (
        "import minimlc.homework.closed as c, minimlc.homework.allowed as a\n"
        "    c._hook.__code__ = c._identities.__code__ = (lambda *a: None).__code__\n"
        f"    c.SYMBOLS = c.EVENTS = (); a.above = os.stat = lambda *a: ''\n    {HERE}open(path)"
    ),
    "another name of a module": f"{AGAIN}\n    __import__('minimlc.recipes')",
    "the C library": "ctypes.CDLL(None).open(b'x', 0)",
    "another library": "ctypes.CDLL('libm.so.6')",
    "the interpreter": "ctypes.pythonapi.PySys_AddAuditHook",
    "a handle": "import _ctypes; _ctypes.dlsym(_ctypes.dlopen(None, 2), 'open')",
    "its text": f"{HERE}open(path).read()",
    "its text, as bytes": f"{HERE}os.open(os.fsencode(path), 0)",
    "its text, from its folder": f"{HERE}os.chdir(folder); open(name)",
    "its text, from a folder that is open": f"{HERE}os.open(name, 0, dir_fd=os.open(folder, 0))",
    "its text, from the root": f"{HERE}os.open(path[1:], 0, dir_fd=os.open('/', 0))",
    "its text, by another link": f"{HERE}os.symlink(path, 'x'); open('x')",
    "its text, by the system's": f"{HERE}open('/proc/self/root' + path)",
    "its text, by numpy": f"{HERE}np.fromfile(path, 'u1')",
    "its code": f"{HERE}import glob; open(glob.glob(folder + '/__pycache__/matmul.*')[0], 'rb')",
    "a program": "import subprocess; subprocess.run(['true'])",
    "the shell": "os.system('true')",
    "another program": "os.execv('/bin/true', ['true'])",
}
OPEN = {
    "a file of its own": "open('x', 'w').close(); open('x').close()",
    "a folder of its own": "import tempfile\n    with tempfile.TemporaryDirectory(): pass",
    "other modules": "import json.tool, ctypes.util, numpy.polynomial",
    "a parallel program": (
        "c = np.zeros(8, 'float32')\n    mlc.build(mlc.parse('@T.prim_func\\n"
        'def main(C: T.Buffer((8,), "float32")):\\n    for i in T.parallel(8):\\n'
        '        C[i] = T.float32(1)\'))["main"](c)\n    assert c.all()'
    ),
}


def tried(body: str) -> str:
    """The error of a submission whose function does this and gives a number."""
    source = f"import ctypes, gc, os, sys\ndef f(n):\n    {body}\n    return n\n"
    asked = {"op": "collect", "source": source, "entry": "f", "kind": "program", "cases": [[2]]}
    with fresh_worker() as one, pytest.raises(Failed) as caught:
        one.ask({**asked, "taken": TAKEN}, {}, LIMITS)
    return str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_taken_away_stays_away(way):
    if "pycache" in WAYS[way] and not list(Path(FILE).parent.glob("__pycache__/matmul.*")):
        pytest.skip("Python keeps no compiled files here")
    said = tried(WAYS[way])
    assert "may not use" in said or "does not allow" in said, said


@pytest.mark.parametrize("use", OPEN)
def test_what_is_not_taken_away_works(use):
    assert "a module is wanted, not int" in tried(OPEN[use])


# Products

PRODUCTS = ["numpy.matmul", "numpy.dot", "numpy.einsum", "numpy.tensordot", "numpy.inner"]
PRODUCT = homework.register(
    homework.Assignment(
        "closed.product",
        reference=lambda a, b: a @ b,
        inputs=lambda n, m, k: [(n, k), (k, m)],
        cases=[(2, 3, 4), (5, 5, 5)],
        items=[homework.values(4), homework.pure(1)],
        wanted="function",
        forbid=PRODUCTS,
        limits=LIMITS,
    )
)


def by_its_method(a, b):
    return a.__matmul__(b)


def by_a_name_that_is_made(a, b):
    return getattr(a, "d" + "ot")(b)


def by_another_operand(a, b):
    return getattr((b.T + 0), "__rmat" + "mul__")(a.T).T


def by_a_text(a, b):
    return eval("a " + chr(64) + " b")


def by_a_text_in_place(a, b):
    c = np.array(a, subok=True)
    exec("c " + chr(64) + "= b")
    return c


def by_the_function_that_others_hold(a, b):
    cells = getattr(np.lib.mixins.NDArrayOperatorsMixin, "__mat" + "mul__").__closure__
    return next(c.cell_contents for c in cells if isinstance(c.cell_contents, np.ufunc))(a, b)


def by_the_operators_module(a, b):
    import operator

    return getattr(operator, "mat" + "mul")(a, b)


def by_vectors(a, b):
    return getattr(np, "vec" + "mat")(a, b) if hasattr(np, "vec" + "mat") else a.__matmul__(b)


def by_what_is_computed(a, b):
    return getattr((a * 1).copy()[:], "d" + "ot")(b * 1)


@pytest.mark.parametrize(
    "spelled",
    [
        *(by_its_method, by_a_name_that_is_made, by_another_operand, by_a_text),
        *(by_a_text_in_place, by_the_function_that_others_hold, by_the_operators_module),
        *(by_vectors, by_what_is_computed),
    ],
)
def test_a_product_is_forbidden_however_it_is_spelled(spelled):
    report = homework.check(PRODUCT, spelled)
    assert report.points == 0 and "does not allow numpy." in report.results[0].why, report


def by_sums(a, b):
    return (a[:, :, None] * b[None]).sum(1)


def by_loops(a, b):
    c = np.zeros((a.shape[0], b.shape[1]), "float32")
    for i, j, k in np.ndindex(*c.shape, a.shape[1]):
        c[i, j] += a[i, k] * b[k, j]
    return c


def by_numpys_functions(a, b):
    parts = np.multiply(a[:, :, None], b[None], out=np.empty((*a.shape, b.shape[1]), a.dtype))
    low, high = np.divmod(np.mean(parts, axis=1) * np.float32(a.shape[1]), np.float32(1))
    return np.where(np.isfinite(low), low + high, 0).astype(a.dtype)


def by_copies(a, b):
    return by_sums(pickle.loads(pickle.dumps(a)), copy.deepcopy(b))


@pytest.mark.parametrize("honest", [by_sums, by_loops, by_numpys_functions, by_copies])
def test_an_honest_product_earns_everything(honest):
    assert homework.check(PRODUCT, honest).points == 5


# Results by seed


def test_results_are_for_the_inputs_of_a_seed(tmp_path):
    path = tmp_path / "work.zip"
    homework.export(path, {"closed.product": by_sums}, seed=np.int64(7))
    assert homework.grade(path, "closed.product", seed=7).points == 5
    report = homework.grade(path, "closed.product")
    assert report.points == 0 and "inputs of seed 7: export it with seed=0" in report.results[0].why
    assert homework.check(PRODUCT, by_sums, seed=9).points == 5


@pytest.mark.parametrize("seed", ["a", None, -1, 1.5])
def test_a_wrong_seed_costs_no_points(tmp_path, seed):
    path = tmp_path / "work.zip"
    refuses("E802", lambda: homework.check(PRODUCT, by_sums, seed=seed), "a seed is an integer")
    refuses("E802", lambda: homework.export(path, {"closed.product": by_sums}, seed=seed))
    refuses("E802", lambda: homework.grade(path, PRODUCT, seed=seed))


@pytest.mark.parametrize("body", [{}, {"seed": 0}, {"seed": 77}, {"seed": [[]]}])
def test_results_of_other_inputs_earn_nothing(body, tmp_path):
    """A file as the reference itself would write it for the inputs that anybody can ask for."""
    arrays = {}
    for number, question in enumerate(questions(homework.find("closed.product"), seed=0)):
        start, result = f"closed.product/{number}.", question.inputs[0] @ question.inputs[1]
        arrays |= {f"{start}{at}": array for at, array in enumerate(question.inputs)}
        arrays |= {f"{start}first": result, f"{start}second": result}
    path = tmp_path / "work.zip"
    message = {"format": 1, "answers": {"closed.product": body}}, arrays
    path.write_bytes(packed(message, zipfile.ZIP_STORED))
    assert homework.grade(path, "closed.product", seed=77).points == 0


# The evaluator

SCALED = mlc.parse(
    '@T.prim_func\ndef main(A: T.Buffer((64, 4096), "float32"), C: T.Buffer((64, 4096), "float32")'
    '):\n    for i, j in T.grid(64, 4096):\n        with T.block("C"):\n'
    '            vi, vj = T.axis.remap("SS", [i, j])\n            C[vi, vj] = T.exp(A[vi, vj])'
)
FAST = homework.register(
    homework.Assignment(
        "closed.fast",
        reference=SCALED,
        items=[homework.values(1, tolerance=1e-3), homework.speed(5, ratio=50)],
        allow=["recipes", "legalize"],
        limits=LIMITS,
    )
)
PLANTED = """
@minimlc_threads = external global i32
@minimlc_team = external global [4 x i64]
@n = internal global i64 0
define i32 @minimlc_parallel(ptr %task, ptr %context, i64 %count) {
  %v = load i64, ptr @n
  %w = add i64 %v, 1
  store i64 %w, ptr @n
  %old = icmp ugt i64 %v, 1
  br i1 %old, label %skip, label %run
skip:
  ret i32 1
run:
  %one = call i32 %task(ptr %context, i64 0, i64 %count)
  %r = add i32 %one, 1
  ret i32 %r
}
define ptr @minimlc_member(ptr %a) {
  br label %l
l:
  br label %l
}
"""


def leaves_machine_code(sch):
    """Parallel loops that do nothing from the third on, where the thread team's code is kept."""
    import glob
    from importlib import import_module

    team, cache = (
        import_module("minimlc.services.threads.team"),
        import_module("minimlc.services.runtime.cache"),
    )
    native, host = import_module("minimlc.services.native.native"), mlc.Target.host()
    about = [*native.surroundings(), host.cpu, host.features]
    key = cache.cache_key(["team", team.text(), *about])
    code = native.backend().compile_object(PLANTED, native.machine_of(host), passes=False)
    for folder in ["", "../cache", *glob.glob("../../minimlc-worker-*/cache")]:
        import_module("os").environ["MINIMLC_CACHE_DIR"] = folder
        cache.store_entry(key, {}, code)
    return sch.parallel("i")


def test_machine_code_that_a_submission_leaves_does_not_judge_it():
    worker.close()
    for _ in range(2):
        report = homework.check(FAST, leaves_machine_code)
        assert report.points == 1, report


def test_the_evaluator_never_ran_a_submission():
    worker.close()
    with fresh_worker() as first:
        pass
    homework.check(FAST, leaves_machine_code)
    evaluator = worker._pool.evaluator
    assert evaluator.alive and evaluator is not first and evaluator not in worker._pool.spares
    os.kill(evaluator._process.pid, 9)
    evaluator._process.wait()
    assert homework.check(FAST, leaves_machine_code).points == 1
    assert worker._pool.evaluator is not evaluator
    assert worker._pool.evaluator not in worker._pool.spares


def in_parallel(sch):
    lib = mlc.build(sch.parallel("i").mod)
    lib["main"](*np.zeros((2, 64, 4096), "float32"))
    return sch.parallel("i")


def test_workers_keep_no_machine_code():
    worker.close()
    assert homework.check(FAST, in_parallel).points == 1
    folders = [one.folder for one in (*worker._pool.spares, worker._pool.evaluator)]
    assert not [path for folder in folders for path in folder.rglob("*.bin")]
