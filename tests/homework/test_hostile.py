"""Whatever a submission returns, prints or hands in: a polite 0, or points, and never an error."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from minimlc import homework
from minimlc.apart.limits import MIB
from minimlc.homework.assignment import find
from minimlc.homework.limits import Limits

pytestmark = pytest.mark.many

LIMITS = Limits(cpu_seconds=3, wall_seconds=60, memory_bytes=512 * MIB)
TOTAL = homework.register(
    homework.Assignment(
        "hostile.total",
        reference=lambda a: a.sum(axis=1),
        inputs=lambda n, m: [(n, m)],
        cases=[(1, 2), (3, 4)],
        items=[homework.values(3), homework.pure(2)],
        wanted="function",
        limits=LIMITS,
    )
)
TWICE = homework.register(
    homework.Assignment(
        "hostile.twice",
        reference=lambda a: 2 * a,
        inputs=lambda n: [(n,)],
        cases=[(1,), (3,)],
        items=[homework.values(4), homework.pure(1)],
        limits=LIMITS,
    )
)

RESULTS = {
    "a huge integer": ("10 ** 100_000", "not one of object"),
    "a recursive list": ("(lambda x: x.append(x) or x)([])", ""),
    "a generator without end": ("iter(int, 1)", "not one of object"),
    "masked": ("np.ma.masked_array(a.sum(1), a.sum(1) > 0)", "masked"),
    "objects": ("np.array([object()] * len(a))", "not one of object"),
    "text": ("'\\ud800'", "not one of <U1"),
    "None": ("None", "not one of object"),
    "complex": ("a.sum(1) + 0j", "not one of complex64"),
    "a structure": ("np.zeros(len(a), [('x', 'f4')])", "not one of"),
    "times": ("np.zeros(len(a), 'M8[s]')", "not one of datetime64"),
    "64 axes": ("a.sum(1).reshape((-1,) + (1,) * 31)", "not float32"),
    "more than there is": ("np.broadcast_to(a[0, :1], (2 ** 40,))", "memory"),
    "more than travels": ("np.zeros(2 ** 25, 'float32')", ""),
    "empty and huge": ("np.empty((0, 2 ** 60), 'int8')", "int8"),
    "an array that raises": (
        "type('X', (), {'__array__': lambda *a, **k: 1 / 0})()",
        "ZeroDivisionError",
    ),
    "an array that never ends": (
        "type('X', (), {'__array__': lambda *a, **k: all(x == 0 for x in iter(int, 1))})()",
        "CPU time",
    ),
    "a length that lies": (
        "type('X', (), {'__len__': lambda s: 2 ** 62, '__getitem__': lambda s, n: 1.0})()",
        "",
    ),
    "an error without words": (
        "(_ for _ in ()).throw(type('E', (Exception,), {'__str__': lambda s: 1 / 0})())",
        "can't be shown",
    ),
    "an error with half a character": ("(_ for _ in ()).throw(ValueError('\\ud800'))", "ud800"),
    "an exit without words": (
        "__import__('sys').exit(type('C', (), {'__repr__': lambda s: 1 / 0})())",
        "sys.exit",
    ),
    "an interrupt": ("(_ for _ in ()).throw(KeyboardInterrupt())", "KeyboardInterrupt"),
    "half a character printed": ("print('\\ud800')", "not one of object"),
    "megabytes printed": ("print('x' * 5_000_000)", "not one of object"),
    "too much printed": ("[print('x' * 5_000_000) for _ in range(9)]", "File too large"),
    "a real-time signal": ("__import__('os').kill(__import__('os').getpid(), 40)", "signal 40"),
}
RIGHT = {
    "a subclass of arrays": "a.sum(1).view(type('Sub', (np.ndarray,), {'__eq__': None}))",
    "a list of numbers of numpy's": "list(a.sum(1))[:] and a.sum(1)[::1]",
    "an array in another order": "np.asfortranarray(a).sum(1)",
}


def of_arrays(expression: str, tmp_path):
    """A function of arrays that gives what an expression does, as a notebook has it."""
    path = tmp_path / "cell.py"
    path.write_text(f"def total(a):\n    return {expression}\n")
    names = {"__name__": "__main__", "np": np}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["total"]


@pytest.mark.parametrize("kind", RESULTS)
def test_whatever_is_returned_is_a_polite_nothing(kind, tmp_path):
    expression, words = RESULTS[kind]
    submission = of_arrays(expression, tmp_path)
    report = homework.check(TOTAL, submission)
    assert report.points == 0 and words in report.results[0].why, report
    repr(report).encode(), report._repr_html_().encode()
    said = homework.export(tmp_path / "work.zip", {"hostile.total": submission})
    repr(said).encode("utf-8", "backslashreplace")
    assert homework.grade(tmp_path / "work.zip", "hostile.total").points == 0


@pytest.mark.parametrize("kind", RIGHT)
def test_what_is_an_array_of_numbers_is_one(kind, tmp_path):
    report = homework.check(TOTAL, of_arrays(RIGHT[kind], tmp_path))
    assert report.points == 5, report


class Hostile:
    """Raises at every question."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    @property
    def __class__(self):
        raise RuntimeError("no class")

    def __call__(self):
        raise RuntimeError("no call")


def test_whatever_is_given_is_a_polite_nothing():
    for assignment in (TOTAL, TWICE, "hw2.dense"):
        for submission in (
            Hostile(),
            Hostile,
            10**5000,
            "x" * 10**6,
            iter(int, 1),
            [[]],
            np.ma.masked,
        ):
            report = homework.check(assignment, submission)
            assert report.points == 0 and len(repr(report)) < 6000


def npy(shape: str, kind: str = "<f4", rest: bytes = b"") -> bytes:
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    text = head.ljust(1021).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + rest


ARRAYS = {
    "no elements, and too many": npy(f"(0, {2**70})"),
    "no elements, and 2**63": npy(f"(0, {2**63})"),
    "a hundred axes": npy(f"({'1, ' * 100})", rest=b"\0" * 4),
    "a hundred empty axes": npy(f"({'0, ' * 100})"),
    "a million axes": npy(f"({'1, ' * 300})", rest=b"\0" * 4),
    "a truth value for a size": npy("(True,)", rest=b"\0" * 4),
    "a size that is not an integer": npy("(1.0,)", rest=b"\0" * 4),
    "no numbers": npy("(1,)", "<U1", b"\0" * 4),
}


def file_of(path, bodies, arrays: dict[str, bytes] | None = None) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("submission.json", json.dumps({"format": 1, "answers": bodies}))
        inner = path.with_suffix(".npz")
        with zipfile.ZipFile(inner, "w") as parts:
            for name, data in (arrays or {}).items():
                parts.writestr(f"{name}.npy", data)
        packed.writestr("arrays.npz", inner.read_bytes())


@pytest.mark.parametrize("kind", ARRAYS)
def test_whatever_an_array_in_a_file_says_of_itself(kind, tmp_path):
    path = tmp_path / "work.zip"
    names = [f"{n}.{part}" for n in range(4) for part in ("first", "second", "0")]
    file_of(path, {"hostile.total": {}}, {f"hostile.total/{n}": ARRAYS[kind] for n in names})
    report = homework.grade(path, "hostile.total")
    assert report.points == 0 and report.results[0].why


BODIES = {
    "a failure that is not a text": {"failed": [[]]},
    "a failure of half a character": {"failed": "\ud800" * 3},
    "a failure of megabytes": {"failed": "x" * 10**6},
    "programs that are none": {"programs": [[], {}], "same": True},
    "programs of half a character": {"programs": ["\ud800", "\ud800"], "same": True},
    "one program too few": {"programs": [""], "same": True},
    "a null byte": {"programs": ["\0", "\0"], "same": True},
    "not the same": {"programs": ["", ""], "same": 1},
    "a buffer beyond all": {
        "programs": [
            f"@T.prim_func\ndef main(A: T.Buffer((0, {2**70}), 'float32'), "
            "C: T.Buffer((1,), 'float32')):\n    C[0] = A[0, 0]"
        ]
        * 2,
        "same": True,
    },
    "a buffer of a hundred axes": {
        "programs": [
            f"@T.prim_func\ndef main(A: T.Buffer(({'1, ' * 100}), 'float32'), "
            "C: T.Buffer((1,), 'float32')):\n    C[0] = T.float32(0)"
        ]
        * 2,
        "same": True,
    },
}


@pytest.mark.parametrize("kind", BODIES)
def test_whatever_a_file_says(kind, tmp_path):
    path = tmp_path / "work.zip"
    file_of(path, {"hostile.twice": BODIES[kind]})
    report = homework.grade(path, "hostile.twice")
    assert report.points == 0 and report.results[0].why
    assert len(repr(report).encode()) < 20_000 and report._repr_html_().encode()


TRACES = {
    "half a character": '["split", {"loop": "\\ud800", "factors": [null, 2]}]',
    "a huge factor": f'["split", {{"loop": "i", "factors": [null, {10**18}]}}]',
    "a factor beyond all": f'["split", {{"loop": "i", "factors": [null, {"9" * 5000}]}}]',
    "no number": '["split", {"loop": "i", "factors": [null, NaN]}]',
    "deep": '["annotate", {"name": "i", "key": "k", "value": ' + "[" * 900 + "]" * 900 + "}]",
    "no steps": "7",
    "a name that is none": '[["split"], {"loop": "i"}]',
}


DENSE = replace(find("hw2.dense"), limits=Limits(cpu_seconds=3, wall_seconds=4))


@pytest.mark.parametrize("kind", TRACES)
def test_whatever_a_trace_says(kind, tmp_path):
    path = tmp_path / "work.zip"
    trace = f'{{"version": 1, "steps": [{TRACES[kind]}]}}'
    file_of(path, {"hw2.dense": {"trace": trace, "text": "", "same": True}})
    report = homework.grade(path, DENSE)
    assert report.points < 6 and len(repr(report).encode()) < 20_000
