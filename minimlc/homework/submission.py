"""`check` for students, `export` for handing in, `grade` for graders.

A submission file is a zip archive with `submission.json` (programs as script text, schedules as
traces) and `arrays.npz`. Grading reads it as data; no student's Python is run.
"""

import operator
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minimlc.apart.message import Arrays, Malformed, packed, unpacked
from minimlc.homework.allowed import HomeworkError
from minimlc.homework.answer import Answer
from minimlc.homework.assignment import Assignment, find
from minimlc.homework.collect import collect
from minimlc.homework.judge import judge
from minimlc.homework.report import Report
from minimlc.homework.worker import warm
from minimlc.loops.values.errors import shown
from minimlc.services.runtime.files import path_of, write_atomically

FORMAT = 1
LARGEST_FILE = 64 * 1024 * 1024


def check(assignment: str | Assignment, submission: Any, *, seed: int = 0) -> Report:
    """Judge a submission: values, purity, speed, structure. The report displays itself.

    `submission` is a function (it runs in a separate process, within limits), a module or a
    schedule. `seed` chooses the inputs.
    """
    chosen, seed = find(assignment), _seed(seed)
    warm()
    return judge(chosen, collect(chosen, submission, seed), seed)


class Exported(dict):
    """The outcome of an export: a sentence per assignment."""

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {text}" for name, text in self.items())


def export(path: str | os.PathLike, submissions: Mapping[str, Any], *, seed: int = 0) -> Exported:
    """Write submissions, by the names of their assignments, to one file: data, no code. Functions
    of arrays are called with the inputs of `seed`, by which they are graded.

    `HomeworkError` where the path is a folder, or its folder does not exist.
    """
    file, seed = _path(path).resolve(), _seed(seed)
    if not file.parent.is_dir():
        raise HomeworkError(f"there is no folder {file.parent} to write {path} to", code="E801")
    if file.is_dir():
        raise HomeworkError(f"{path} is a folder: name a file in it", code="E801")
    warm()
    arrays: Arrays = {}
    bodies, outcomes = {}, Exported()
    for name, submission in submissions.items():
        answer = collect(find(name), submission, seed)
        bodies[name] = {"failed": answer.failed} if answer.failed else answer.body
        arrays.update({f"{name}/{key}": array for key, array in answer.arrays.items()})
        outcomes[name] = f"NOT exported: {answer.failed}" if answer.failed else "exported"
    message = {"format": FORMAT, "answers": bodies}, arrays
    write_atomically(file, packed(message, zipfile.ZIP_DEFLATED))
    return outcomes


def _seed(seed: Any) -> int:
    number = operator.index(seed) if hasattr(seed, "__index__") else -1
    if number < 0:
        why = f"a seed is an integer that is not negative, got {shown(seed)}"
        raise HomeworkError(why, code="E802", hint="seed=2931")
    return number


def _path(path: str | os.PathLike) -> Path:
    file = path_of(path)
    if file is None:
        why = f"a submission file is named by its path, got {shown(path)}"
        raise HomeworkError(why, code="E801")
    return file


def grade(path: str | os.PathLike, assignment: str | Assignment, *, seed: int = 0) -> Report:
    """Judge one assignment of a submission file. Never raises for what is in the file. `seed`
    chooses the inputs; of functions of arrays, it is the one that they were exported with.
    """
    chosen, file, seed = find(assignment), _path(path), _seed(seed)
    warm()
    try:
        answer = _load(file, chosen.name)
    except (Malformed, OSError) as error:
        why = str(error) if isinstance(error, Malformed) else f"{file.name} cannot be read"
        return chosen.failed(f"the submission file: {why}")
    return judge(chosen, answer, seed)


def _load(path: Path, name: str) -> Answer:
    """One assignment's answer in a submission file; `Malformed`, with the reason, for no answer."""
    if not path.is_file():
        raise Malformed(f"there is no file {path.name}: run the cell that exports it")
    if path.stat().st_size > LARGEST_FILE:
        raise Malformed(f"it has more than {LARGEST_FILE:,} bytes")
    whole, arrays = unpacked(path.read_bytes())
    if whole.get("format") != FORMAT or not isinstance(whole.get("answers"), dict):
        raise Malformed(f"submission.json is not of format {FORMAT}")
    body = whole["answers"].get(name)
    if not isinstance(body, dict):
        raise Malformed(f"it has no answer to {name}")
    start = f"{name}/"
    parts = {key.removeprefix(start): a for key, a in arrays.items() if key.startswith(start)}
    failed = body.get("failed", "")
    if not isinstance(failed, str):
        raise Malformed("its reason for failing is not a text")
    return Answer(body, parts, failed=failed)
