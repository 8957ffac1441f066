"""Candidates and their results: plain data that crosses processes and hosts as JSON."""

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Any, Self

from minimlc.loops.values.errors import CompileError, shown
from minimlc.loops.values.target import Target

KINDS = {
    "ok": "it ran, its values are right, and its samples are its times",
    "illegal": "a step of the schedule would change the program's meaning",
    "build": "the target could not compile it",
    "wrong": "its values differ from those of the unscheduled program",
    "crash": "the process that ran it ended by a signal, or was lost",
    "timeout": "it took longer than it may",
    "memory": "it needed more memory than it may",
    "processes": "it started processes",
    "output": "it wrote more output than it may",
}
"""Kinds of results, with their meaning."""


SCORES = 1e-9, 1e9
"""The least and the greatest score: a picosecond and days, as the reference takes a millisecond."""

HALF = re.compile("[\ud800-\udfff]")


class TuneError(CompileError):
    """A measurement or a database that cannot be used; what was recorded before is kept."""


class _Data:
    """A record's JSON text and back; every field's type is checked."""

    def to_json(self) -> str:
        """This record as JSON text."""
        return json.dumps(asdict(self), allow_nan=False)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """A record from JSON text; `TuneError` E901 where it is none. Nothing is evaluated."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError, TypeError) as error:
            raise _no_record(cls, f"{shown(text)} ({error})") from None
        return cls.of(data)

    @classmethod
    def of(cls, data: Any) -> Self:
        """A record from parsed JSON."""
        known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
        if not isinstance(data, Mapping) or not set(data) <= set(known):
            raise _no_record(cls, f"expected the fields {', '.join(known)}, got {shown(data)}")
        values = {key: tuple(v) if isinstance(v, list) else v for key, v in data.items()}
        for key, value in values.items():
            text = known[key].type in (str, "str")
            times = isinstance(value, tuple) and all(map(is_time, value))
            if not (is_text(value) if text else times):
                raise _no_record(cls, f'"{key}" cannot be {shown(value)}')
        try:
            return cls(**values)
        except TypeError as error:
            raise _no_record(cls, str(error).partition(") ")[2]) from None


def is_text(value: Any) -> bool:
    """Whether a value is a text that can be stored: it has no half of a character."""
    return isinstance(value, str) and not HALF.search(value)


def is_time(value: Any) -> bool:
    """Whether a value is a number of seconds."""
    return type(value) in (int, float) and 0 <= value <= sys.float_info.max


def _no_record(kind: type, why: str) -> TuneError:
    return TuneError(f"no {kind.__name__.lower()}: {why}", code="E901")


@dataclass(frozen=True)
class Candidate(_Data):
    """A program to try: the steps of `trace` on the function `func` of the module `mod`.

    `mod` is the unscheduled module as a script with its constants, `trace` the JSON text of a
    `Trace`, or of the name of a library's routine that computes the same, such as "numpy.matmul";
    `target` a target's name, or its fields as JSON.
    """

    mod: str
    func: str
    trace: str
    target: str

    @property
    def library(self) -> str:
        """The registered function that it is, "" if it is a program."""
        return self.trace[1:-1] if self.trace.startswith('"') else ""


@dataclass(frozen=True)
class Result(_Data):
    """The result of a candidate: its `kind` is one of `KINDS`.

    `seconds` are samples of one call, `reference` those of a fixed kernel taken in between, so that
    a machine that slows down slows down both. `host` names the machine: times of different
    hosts are never compared.
    """

    kind: str
    seconds: tuple[float, ...] = ()
    reference: tuple[float, ...] = ()
    message: str = ""
    host: str = ""

    def __post_init__(self) -> None:
        pairs = len(self.seconds) == len(self.reference) and 0 not in self.reference
        if self.kind not in KINDS or not pairs or (self.kind == "ok") != bool(self.seconds):
            raise _no_record(Result, shown((self.kind, self.seconds, self.reference)))

    @property
    def ratios(self) -> list[float]:
        """The times of a call by the reference's beside them: what lies beyond `SCORES` is a
        clock's fault.
        """
        pairs = zip(self.seconds, self.reference, strict=True)
        return [min(max(a / b, SCORES[0]), SCORES[1]) for a, b in pairs]

    @property
    def score(self) -> float:
        """The median of the ratios; infinite unless `ok`."""
        return median(self.ratios) if self.kind == "ok" else math.inf


def target_of(text: str) -> Target:
    """The target that a candidate names, in full."""
    if not text.startswith("{"):
        return Target.of(text)
    try:
        return Target(**json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise _no_record(Candidate, f"the target {shown(text)} ({error})") from None


def target_text(target: Target) -> str:
    """A target as candidates have it: a name for the machine at hand, else all fields."""
    return target.name if target == Target.host(target.name) else json.dumps(asdict(target))
