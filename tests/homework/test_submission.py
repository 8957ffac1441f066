"""Checks, submission files and grading: values, purity, counter-examples, hostile data."""

import io
import json
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import minimlc as mlc
from minimlc import homework
from minimlc.apart.message import Malformed, from_npz, to_npz
from minimlc.homework import evaluate
from minimlc.homework.limits import Limits
from minimlc.script import I, T
from tests.helpers import refuses

SCALE = 3


def scaled(n, m, factor=1.0):
    @I.ir_module
    class Scaled:
        @T.prim_func
        def main(A: T.Buffer((n, m), "float32"), C: T.Buffer((n, m), "float32")):
            for i, j in T.grid(n, m):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * T.float32(factor)

    return Scaled


# What an instructor writes.
TRIPLE = homework.Assignment(
    "triple",
    reference=lambda a: 3 * a,
    inputs=lambda n, m: [(n, m)],
    cases=[(4, 5), (1, 1), (2, 1)],
    items=[homework.values(4), homework.pure(1)],
    limits=Limits(cpu_seconds=3, wall_seconds=60),
)
ROWS = homework.Assignment(
    "rows",
    reference=lambda a: a.sum(axis=1),
    inputs=lambda n, m: [(n, m)],
    cases=[(1, 2), (3, 4)],
    items=[homework.values(3), homework.pure(2)],
    wanted="function",
)
STEPS = homework.Assignment(
    "steps",
    reference=scaled(16, 64, 2.0),
    items=[homework.values(1), homework.pure(1), homework.speed(1, 0.01)],
)
for assignment in (TRIPLE, ROWS, STEPS):
    homework.register(assignment)


def triple(n, m):
    return scaled(n, m, SCALE)


def test_a_right_program_earns_everything_and_shows_itself():
    report = homework.check("triple", triple)
    assert (report.points, report.total, report.passed) == (5.0, 5.0, True)
    assert repr(report).startswith("triple: 5 of 5 points\n  ✓ 4/4  the values are right")
    assert "5 of 5 points" in report._repr_html_() and "<script" not in report._repr_html_()


def test_the_smallest_counter_example_is_shown():
    def off_by_one(n, m):
        @I.ir_module
        class Wrong:
            @T.prim_func
            def main(A: T.Buffer((n, m), "float32"), C: T.Buffer((n, m), "float32")):
                for i, j in T.grid(n, m):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = A[0, vj] * T.float32(3)

        return Wrong

    report = homework.check(TRIPLE, off_by_one)
    assert report.points == 0
    assert report.results[0].why.startswith("for (2, 1): element [1, 0] is ")
    assert "input 0 = [[" in report.results[0].why and "expected [[" in report.results[0].why
    assert report.results[1].why == "not judged: the values are wrong"


def test_what_is_read_before_it_is_written_is_said():
    def forgotten(n, m):
        @I.ir_module
        class Forgotten:
            @T.prim_func
            def main(A: T.Buffer((n, m), "float32"), C: T.Buffer((n, m), "float32")):
                for i, j, k in T.grid(n, m, 3):
                    with T.block("C"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        C[vi, vj] = C[vi, vj] + A[vi, vj]

        return Forgotten

    why = homework.check(TRIPLE, forgotten).results[0].why
    assert "C[0, 0] is read before it is written, at i=0, j=0, k=0" in why
    assert "nothing was written" not in why and "element [0, 0] has no value then" in why


def test_an_own_buffer_that_is_read_before_it_is_written_is_said():
    def forgotten(n, m):
        @I.ir_module
        class Forgotten:
            @T.prim_func
            def main(A: T.Buffer((n, m), "float32"), C: T.Buffer((n, m), "float32")):
                S = T.alloc_buffer((n, m), "float32")
                for i, j, k in T.grid(n, m, 3):
                    with T.block("S"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        S[vi, vj] = S[vi, vj] + A[vi, vj]
                for i, j in T.grid(n, m):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = S[vi, vj]

        return Forgotten

    why = homework.check(TRIPLE, forgotten).results[0].why
    assert "S[0, 0] is read" in why and "before" in why and "nothing was written there)" not in why


def test_integers_that_nobody_starts_are_found():
    """Whatever the result held, the least and the greatest number have their turn."""
    largest = homework.Assignment(
        "largest",
        reference=lambda a: a.max(axis=1),
        inputs=lambda n: [np.empty((n, 3), "int32")],
        cases=[(1,), (2,)],
        items=[homework.values(1)],
    )

    def unstarted(n):
        @I.ir_module
        class Unstarted:
            @T.prim_func
            def main(A: T.Buffer((n, 3), "int32"), C: T.Buffer((n,), "int32")):
                for i, k in T.grid(n, 3):
                    with T.block("C"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        C[vi] = T.max(C[vi], A[vi, vk])

        return Unstarted

    why = homework.check(largest, unstarted).results[0].why
    assert "C[0] is read before it is written" in why


def test_integers_are_compared_exactly():
    """Also where they differ by less than a float's tolerance."""
    large = homework.Assignment(
        "large",
        reference=lambda a: a * 0 + 1_000_000,
        inputs=lambda n: [np.empty((n,), "int32")],
        cases=[(2,)],
        items=[homework.values(1)],
        wanted="function",
    )

    def nearly(a):
        return a * 0 + 1_000_001

    why = homework.check(large, nearly).results[0].why
    assert "element [0] is 1000001; expected 1000000" in why


def test_what_is_not_written_is_said():
    def lazy(n, m):
        @I.ir_module
        class Lazy:
            @T.prim_func
            def main(A: T.Buffer((n, m), "float32"), C: T.Buffer((n, m), "float32")):
                C[0, 0] = A[0, 0] * T.float32(3)

        return Lazy

    assert "(nothing was written there)" in homework.check(TRIPLE, lazy).results[0].why


def test_a_program_that_writes_its_input_is_not_pure():
    def greedy(n, m):
        @I.ir_module
        class Greedy:
            @T.prim_func
            def main(A: T.Buffer((n, m), "float32"), C: T.Buffer((n, m), "float32")):
                for i, j in T.grid(n, m):
                    C[i, j] = A[i, j] * T.float32(3)
                for i2, j2 in T.grid(n, m):
                    A[i2, j2] = T.float32(0)

        return Greedy

    report = homework.check(TRIPLE, greedy)
    assert report.points == 4 and "input 0 was changed" in report.results[1].why


def test_a_function_of_arrays_is_judged_by_its_results():
    def right(a):
        return a.sum(1)

    def impure(a):
        total = a.sum(1)
        a[:] = 0
        return total

    def wrong(a):
        return a[:, 0]

    assert homework.check("rows", right).points == 5
    assert homework.check("rows", impure).points == 3
    assert "element [0] is" in homework.check("rows", wrong).results[0].why


def test_a_schedule_is_replayed_and_timed():
    def steps(sch):
        return sch.vectorize("j").parallel("i")

    assert homework.check("steps", steps).points == 3
    schedule = mlc.Schedule(STEPS.reference).vectorize("j")
    assert "a function that makes it is wanted" in homework.check("steps", schedule).results[0].why
    assert homework.check(replace(STEPS, allow=("recipes", "legalize")), schedule).points == 3
    assert "its steps count" in homework.check("steps", STEPS.reference).results[0].why


@pytest.mark.parametrize("compiled_by", ["c", "python"])
def test_programs_are_timed_and_run_without_llvm(monkeypatch, compiled_by):
    def build(mod, target="llvm", **options):
        if target == "llvm":
            raise mlc.BuildError("no llvmlite", code="E502")
        used.append(target)
        return whole(mod, target, **options)

    used, whole = [], evaluate.builder.build
    monkeypatch.setattr(evaluate.builder, "build", build)
    monkeypatch.setattr(evaluate, "compiler", lambda: compiled_by == "c" or None)
    a, text = np.full((2, 3), 2, "float32"), scaled(2, 3, 4.0).script()
    arrays = {"0": a, "1": np.zeros_like(a)}
    if compiled_by == "python":
        _, after = evaluate.run(arrays, text, compiled=True)
        assert after["1"].tolist() == [[8.0] * 3] * 2
        assert evaluate.ratio(arrays, text, text, rounds=3)[0]["ratio"] > 0
    else:
        evaluate.build(evaluate.program(text)[0])
    assert set(used) == {compiled_by}


def test_what_cannot_be_sent_is_said():
    held = object()

    def closed(n, m):
        return held

    for submission, words in {
        closed: "held of the function around it",
        (lambda n, m: 0): "a lambda",
        test_values_must_be_asked_for: "takes 0 positional arguments",
        print: "a function is wanted",
        3: "not int",
        None: "not None",
    }.items():
        assert words in homework.check("triple", submission).results[0].why


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "work.zip"
    said = homework.export(path, {"triple": triple, "rows": None, "steps": one_step})
    assert said["triple"] == said["steps"] == "exported"
    assert said["rows"].startswith("NOT exported: a function of arrays is wanted")
    return path.read_bytes()


@pytest.fixture
def handed_in(tmp_path, exported):
    """A submission file of one's own, to change."""
    path = tmp_path / "work.zip"
    path.write_bytes(exported)
    return path


def one_step(sch):
    return sch.vectorize("j")


def test_grading_reads_what_was_exported(handed_in):
    assert homework.grade(handed_in, "triple", seed=5).points == 5
    assert homework.grade(handed_in, "steps").points == 3
    assert "NOT" not in homework.grade(handed_in, "rows").results[0].why
    assert homework.grade(handed_in, "rows").points == 0
    with zipfile.ZipFile(handed_in) as packed:
        assert packed.namelist() == ["submission.json", "arrays.npz"]
        text = packed.read("submission.json").decode()
    assert "def triple" not in text and "vectorize" in text


def test_results_of_a_function_travel_as_npz(tmp_path):
    def right(a):
        return a.sum(1)

    homework.export(tmp_path / "work.zip", {"rows": right}, seed=9)
    assert homework.grade(tmp_path / "work.zip", "rows", seed=9).points == 5


def rewritten(path, change) -> None:
    """Change the answers in a submission file."""
    with zipfile.ZipFile(path) as packed:
        body, arrays = json.loads(packed.read("submission.json")), packed.read("arrays.npz")
    change(body["answers"])
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("submission.json", json.dumps(body))
        packed.writestr("arrays.npz", arrays)


ENDLESS = """
@T.prim_func
def main(A: T.Buffer((1, 1), "float32"), C: T.Buffer((1, 1), "float32")):
    for i in range(1000000000000):
        C[0, 0] = A[0, 0] * T.float32(3)
"""
OUTSIDE = """
@T.prim_func
def main(A: T.Buffer((1, 1), "float32"), C: T.Buffer((1, 1), "float32")):
    C[0, 0] = A[0, 77777]
"""
HUGE = """
n = 10 ** 10 ** 10
@T.prim_func
def main(A: T.Buffer((1, 1), "float32"), C: T.Buffer((1, 1), "float32")):
    C[0, 0] = A[0, 0]
"""
LARGE = """
@T.prim_func
def main(A: T.Buffer((1, 1), "float32"), C: T.Buffer((1, 1), "float32")):
    Y = T.alloc_buffer((1000000, 1000000), "float32")
    for i in range(1):
        Y[0, 0] = A[0, 0]
    for j in range(1):
        C[0, 0] = Y[0, 0]
"""
PROGRAMS = {
    "endless": (ENDLESS, ("CPU time", "endless loop")),
    "outside": (OUTSIDE, ("outside", "77777")),
    "huge constant": (HUGE, ("for (1, 1)",)),
    "large buffer": (LARGE, ("for (1, 1)",)),
    "python": ("__import__('os').system('true')", ("for (1, 1)",)),
    "nested": ("x = " + "(" * 5000 + ")" * 5000, ("for (1, 1)",)),
    "no text": (7, ("for (1, 1)",)),
    "long": ("#" * 300_000, ("300,000 characters",)),
    "two functions": (ENDLESS + ENDLESS.replace("main", "other"), ("one @T.prim_func",)),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_hostile_programs_are_failed_checks(handed_in, kind):
    text, words = PROGRAMS[kind]
    rewritten(handed_in, lambda answers: answers["triple"].update(programs=[text] * 3))
    report = homework.grade(handed_in, "triple")
    assert report.points == 0
    assert any(word in report.results[0].why for word in words), report
    assert homework.grade(handed_in, "steps").points == 3


def steps_text(*steps) -> str:
    return json.dumps({**json.loads(mlc.Trace().to_json()), "steps": steps})


TRACES = {
    "no json": "[[",
    "no steps": '{"a": 1}',
    "no primitive": steps_text(["__class__", {}]),
    "no such argument": steps_text(["split", {"loop": "i", "exec": "1"}]),
    "illegal": steps_text(["vectorize", {"loop": "k"}]),
    "many": steps_text(*[["annotate", {"name": "C", "key": "a", "value": 1}]] * 501),
    "a number": 3,
    "nested": "[" * 100_000,
}


@pytest.mark.parametrize("kind", TRACES)
def test_hostile_traces_are_failed_checks(handed_in, kind):
    rewritten(handed_in, lambda answers: answers["steps"].update(trace=TRACES[kind]))
    report = homework.grade(handed_in, "steps")
    assert report.points == 0 and report.results[0].why


def test_a_trace_that_is_not_the_shown_program_costs_purity(handed_in):
    text = scaled(16, 64, 3.0).script()
    rewritten(handed_in, lambda answers: answers["steps"].update(text=text))
    report = homework.grade(handed_in, "steps")
    assert report.points == 2 and "replays to another program" in report.results[1].why


def zipped(method: int = zipfile.ZIP_DEFLATED, **files: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as packed:
        for name, content in files.items():
            packed.writestr(name.replace("_", "."), content)
    return data.getvalue()


ANSWERS = json.dumps({"format": 1, "answers": {"triple": {}}}).encode()
FILES = {
    "no file": (None, "there is no file"),
    "no archive": (b"passed", "not a readable archive"),
    "other files": (zipped(submission_py=b""), "it holds"),
    "a bomb": (zipped(submission_json=b" " * 10**8, arrays_npz=b""), "unpacked it has"),
    "another packing": (
        zipped(zipfile.ZIP_BZIP2, submission_json=b"{}", arrays_npz=b""),
        "packed in a way that is not allowed",
    ),
    "no json": (zipped(submission_json=b"{", arrays_npz=to_npz({})), "not JSON"),
    "deep json": (zipped(submission_json=b"[" * 10**6, arrays_npz=to_npz({})), "not JSON"),
    "another format": (zipped(submission_json=b"{}", arrays_npz=to_npz({})), "not of format"),
    "no arrays": (zipped(submission_json=ANSWERS, arrays_npz=b""), "not a readable archive"),
    "no programs": (zipped(submission_json=ANSWERS, arrays_npz=to_npz({})), "no programs"),
}


@pytest.mark.parametrize("kind", FILES)
def test_hostile_files_are_failed_checks(tmp_path, kind):
    data, words = FILES[kind]
    path = tmp_path / "work.zip"
    if data is not None:
        path.write_bytes(data)
    report = homework.grade(path, "triple")
    assert report.points == 0 and words in report.results[0].why


def test_no_more_is_unpacked_than_an_archive_says_it_has():
    data = bytearray(zipped(a_npy=b" " * 10**8))
    size = data.index(b"PK\x01\x02") + 24
    data[size : size + 4] = (10).to_bytes(4, "little")
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            from_npz(bytes(data))
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_arrays_are_read_without_pickle_and_without_trust():
    def npy(descr: str, shape: str, rest: bytes = b"") -> bytes:
        head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
        text = head.ljust(117).encode() + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + rest

    assert from_npz(zipped(a_npy=npy("'<f4'", "(1,)", b"\0" * 4)))["a"].tolist() == [0.0]
    for part in (
        npy("'|O'", "(1,)", b"cos\nsystem\n"),
        npy("'<f4'", "(1000000000000,)"),
        npy("'<f4'", "(-1,)"),
        npy("[('a', '<f4')]", "(1,)", b"\0" * 4),
        b"\x93NUMPY\x09\x00",
        b"",
    ):
        with pytest.raises(Malformed):
            from_npz(zipped(a_npy=part))
    columns = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert from_npz(to_npz({"a": columns}))["a"].tolist() == columns.tolist()


def test_an_unknown_name_is_an_error_with_near_misses():
    refuses("E801", lambda: homework.check("hw1.sofmax", None), '"hw1.softmax"')


def test_where_a_submission_file_is_to_lie_is_looked_at_first(tmp_path):
    asked = []
    refuses(
        "E801", lambda: homework.export(tmp_path / "no" / "a.zip", {"rows": asked.append}), "no"
    )
    refuses("E801", lambda: homework.export(tmp_path, {"rows": asked.append}), "is a folder")
    assert not list(tmp_path.parent.glob("*.new"))
    refuses("E801", lambda: homework.export(3, {}), "path")
    refuses("E801", lambda: homework.grade(3, "rows"), "path")
    assert not asked


def test_values_must_be_asked_for():
    refuses("E802", lambda: homework.Assignment("x", scaled(2, 2), [homework.pure(1)]), "values")
    refuses(
        "E802",
        lambda: homework.Assignment(
            "x", len, [homework.values(1), homework.speed(1, 2)], [(1,)], lambda n: [(n,)]
        ),
        "schedules only",
    )
    refuses("E802", lambda: homework.Assignment("x", len, [homework.values(1)]), "cases")


def test_shipped_assignments_are_known():
    names = homework.assignments()
    assert sum(name.startswith("hw1.") for name in names) == 6 and "hw2.dense" in names
    assert mlc.homework is homework
