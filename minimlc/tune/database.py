"""The database: results of measurements, in one SQLite file that many processes read and write."""

import hashlib
import json
import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from minimlc import composition
from minimlc.loops.ir.nodes import PrimFunc, substitute
from minimlc.loops.proofs.wellformed import check_prim_func
from minimlc.loops.schedule import Schedule
from minimlc.loops.values.errors import CompileError, shown
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import replace, structural_equal, structural_hash
from minimlc.loops.values.target import Target
from minimlc.recipes import SCHEDULED, is_scheduled
from minimlc.script import parse
from minimlc.services.runtime.files import path_of, write_atomically
from minimlc.tune.attempt import host as this_host
from minimlc.tune.records import (
    Candidate,
    Result,
    TuneError,
    is_text,
    is_time,
    target_text,
)

SQLITE = b"SQLite format 3\0"
LONGEST = 1e6  # seconds to wait that SQLite can count

APPLICATION, VERSION = 0x6D6C6364, 1
"""The identity of the file: SQLite's `application_id`, and the version of these tables."""

TABLES = """
create table workloads (
    id integer primary key, hash text not null, mod text not null, func text not null,
    unique (hash, mod, func));
create table records (
    number integer primary key, digest text not null unique,
    workload integer not null references workloads, trace text not null, target text not null,
    version text not null, host text not null, result text not null);
create index by_workload on records (workload, version);
"""
IDENTITY = """
select (select count(*) from sqlite_master), application_id, user_version
from pragma_application_id, pragma_user_version
"""
COLUMNS = "mod, func, trace, target, result, version"
INSERT_PROGRAM = "insert or ignore into workloads (hash, mod, func) values (?, ?, ?)"
FIND_PROGRAM = "select id from workloads where hash = ? and mod = ? and func = ?"
INSERT_RECORD = """
insert or ignore into records (digest, workload, trace, target, version, host, result)
values (?, ?, ?, ?, ?, ?, ?)
"""
JOINED = f"select {COLUMNS} from records join workloads on workload = id"


class Record(NamedTuple):
    """A candidate, and its result."""

    candidate: Candidate
    result: Result


class Database:
    """Results by program, target, host and version of minimlc, in the file `path`.

    A program is found by its structural hash and then compared. Every record is a transaction: a
    process that is killed loses at most the one that it writes. A file that may not be written can
    be read. `seconds` is how long to wait for other writers. Raises `TuneError`: E905 for a file
    that is something else, E906 for one of another version, E907 where another process has it
    locked, E908 where it can't be read or written; E902 for another argument.
    """

    def __init__(self, path: str | os.PathLike[str], *, seconds: float = 10.0):
        if not is_time(seconds):
            raise _unlike("seconds is a number", seconds)
        self.path, self.seconds = _file(path), min(seconds, LONGEST)
        with self._connection() as connection:
            empty = self._is_empty(connection)
        if empty:
            with self._transaction() as connection:
                self._make(connection)
            with self._connection() as connection, suppress(sqlite3.OperationalError):
                connection.execute("pragma journal_mode = wal")  # another may just do the same

    def __repr__(self) -> str:
        return f'Database("{self.path}")'

    def _is_empty(self, connection: sqlite3.Connection) -> bool:
        """Whether a file has no tables yet; refuse one that has others."""
        tables, kind, version = connection.execute(IDENTITY).fetchone()
        if tables and kind != APPLICATION:
            raise _no_database(self.path, "it holds other tables")
        if tables and version != VERSION:
            why = f"{self.path} is a tuning database of version {version}, this one reads {VERSION}"
            hint = "database.export(path) with the other minimlc, load(path) with this one"
            raise TuneError(why, code="E906", hint=hint)
        return not tables

    def _make(self, connection: sqlite3.Connection) -> None:
        """The tables of a new file, unless another process just made them."""
        if self._is_empty(connection):
            for statement in TABLES.split(";")[:-1]:
                connection.execute(statement)
            connection.execute(f"pragma application_id = {APPLICATION}")
            connection.execute(f"pragma user_version = {VERSION}")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A new connection for each use: threads and forks share none."""
        try:
            there = self.path.exists()
            fixed = there and not all(os.access(p, os.W_OK) for p in (self.path, self.path.parent))
            place = f"{self.path.resolve().as_uri()}?immutable=1" if fixed else self.path
            options: Any = {"timeout": self.seconds, "isolation_level": None, "uri": fixed}
            with closing(sqlite3.connect(place, **options)) as connection:
                connection.execute("pragma synchronous = normal")
                yield connection
        except (sqlite3.Error, UnicodeError, OSError) as error:
            raise _explained(self.path, error) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("begin immediate")
            yield connection
            connection.execute("commit")

    def add(self, mod: IRModule, func: str, candidate: Candidate, result: Result) -> None:
        """Keep the result of a candidate for the function `func` of a module. A record that is
        there already is kept once.
        """
        if not isinstance(candidate, Candidate) or not isinstance(result, Result):
            raise _unlike("what is kept is a Candidate and a Result", (candidate, result))
        key = structural_hash(_plain_of(mod, func))
        with self._transaction() as connection:
            _insert(connection, key, candidate, result, _version())

    def records(
        self, mod: IRModule, func: str, target: str | Target | None = None, host: str | None = None
    ) -> list[Record]:
        """The records of this version for a function, in the order of recording; for one target
        and one host, where they are given.
        """
        name = target_text(target) if isinstance(target, Target) else target
        return [
            record
            for _, record in self._read(self._rows(mod, func))
            if name in (None, record.candidate.target) and host in (None, record.result.host)
        ]

    def best(
        self, mod: IRModule, func: str, target: str | Target = "llvm", host: str | None = None
    ) -> Record | None:
        """The record with the best score for a target, of this version, on one host (this one). A
        schedule that was measured several times counts with the median of its scores. None where
        there is none.
        """
        groups: dict[tuple[str, str], list[Record]] = {}
        for item in self.records(mod, func, target, host or this_host()):
            if item.result.kind == "ok" and not item.candidate.library:
                groups.setdefault((item.candidate.mod, item.candidate.trace), []).append(item)
        return min(map(_middle, groups.values()), key=lambda item: item.result.score, default=None)

    def _rows(self, mod: IRModule, func: str) -> list[tuple]:
        """The rows of records of the same program, whatever its parts are called."""
        plain, mine = _plain_of(mod, func), {}
        with self._connection() as connection:
            key = structural_hash(plain)
            question = f"{JOINED} where hash = ? and version = ? order by number"
            rows = connection.execute(question, (key, _version())).fetchall()
        for text, name in {row[:2] for row in rows}:
            with suppress(CompileError):  # a text that this version does not read is another
                mine[text, name] = structural_equal(_parsed(text, name), plain)
        return [row for row in rows if mine.get(row[:2])]

    def _read(self, rows: Iterable[tuple]) -> Iterator[tuple[str, Record]]:
        """The versions and records of rows. One that is none is skipped with a `UserWarning`."""
        for row in rows:
            try:
                yield row[-1], Record(Candidate(*row[:4]), Result.from_json(row[4]))
            except TuneError as error:
                warnings.warn(f"{self.path}: a record was skipped: {error.why}", stacklevel=4)

    def scheduled(self, mod: IRModule, target: str | Target = "llvm") -> IRModule:
        """A pass: `mod` with the best recorded schedule for each function that has none yet. A
        schedule is replayed, step by step checked, so no record can change what a program means.
        """
        functions = {
            name: self._best_of(mod, name, func, Target.of(target))
            if isinstance(func, PrimFunc) and not is_scheduled(func)
            else func
            for name, func in mod.entries
        }
        return mod.with_functions(functions)

    def _best_of(self, mod: IRModule, name: str, func: PrimFunc, target: Target) -> PrimFunc:
        record = self.best(mod, name, target)
        if record is None:
            return func
        there = record.candidate
        try:
            start = parse(there.mod)
            done = Schedule.replay(start, there.trace, there.func, check=False).func
            done = substitute(done, dict(zip(done.params, func.params, strict=True)))
            check_prim_func(name, done)
        except CompileError:  # a step that this version refuses: the recipe takes over
            return func
        return replace(done, attrs=(*func.attrs, (SCHEDULED, True)))

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all records to a file as JSON lines; how many there are. It is no database."""
        file = _file(path)
        with suppress(OSError), open(file, "rb") as there:
            if there.read(len(SQLITE)) == SQLITE:
                why = f"{path} is a database, which export would overwrite"
                raise TuneError(why, code="E908", hint='database.export("records.jsonl")')
        with self._connection() as connection:
            rows = connection.execute(f"{JOINED} order by number").fetchall()
        lines = [
            {"version": version, "candidate": asdict(item.candidate), "result": asdict(item.result)}
            for version, item in self._read(rows)
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        try:
            write_atomically(file, text.encode())
        except OSError as error:
            raise _not_written(path, str(error)) from error
        return len(lines)

    def load(self, path: str | os.PathLike[str]) -> int:
        """Add the records of a file that `export` wrote; how many lines were read. A line that is
        none, such as a last one that was torn off, is skipped with a `UserWarning`.
        """
        file = _file(path)
        try:
            lines = file.read_text("utf-8", "replace").splitlines()
        except OSError as error:
            why, hint = f"{path} cannot be read: {error}", "a file that database.export(path) wrote"
            raise TuneError(why, code="E908", hint=hint) from error
        read = []
        for number, line in enumerate(lines, 1):
            try:
                read.append(_line(line))
            except Exception as error:  # a line may hold anything
                why = str(error).partition("\n")[0][:200] or type(error).__name__
                warnings.warn(f"{path}, line {number} was skipped: {why}", stacklevel=2)
        with self._transaction() as connection:
            for record in read:
                _insert(connection, *record)
        return len(read)


def _plain(func: Any) -> PrimFunc:
    """A function without its attributes: they affect how it is built, not what it computes."""
    if not isinstance(func, PrimFunc):
        raise TuneError(f"a {type(func).__name__} is not measured by itself", code="E902")
    return replace(func, attrs=())


@lru_cache(maxsize=64)
def _parsed(text: str, func: str) -> PrimFunc:
    return _plain(parse(text)[func])


def _plain_of(mod: Any, func: str) -> PrimFunc:
    if not isinstance(mod, IRModule):
        raise _unlike("a program is a function of a module", mod)
    return _plain(mod[func])


def _file(path: Any) -> Path:
    """The path of a file; `TuneError` for what names none."""
    if (file := path_of(path)) is None:
        raise _unlike("a file is named by its path", path)
    return file


def _unlike(what: str, got: Any) -> TuneError:
    return TuneError(f"{what}, got {shown(got)}", code="E902", hint='mlc.tune.Database("a.db")')


def _version() -> str:
    return composition.VERSION


def _middle(group: list[Record]) -> Record:
    """The record with the median score."""
    return sorted(group, key=lambda record: record.result.score)[len(group) // 2]


def _line(text: str) -> tuple[str, Candidate, Result, str]:
    """A line of JSON as `_insert` takes it."""
    data = json.loads(text)
    candidate, result = Candidate.of(data["candidate"]), Result.of(data["result"])
    key = structural_hash(_parsed(candidate.mod, candidate.func))
    version = str(data["version"])
    if not is_text(version):
        raise TuneError(f"no version: {shown(version)}", code="E901")
    return key, candidate, result, version


def _insert(
    connection: sqlite3.Connection, key: str, candidate: Candidate, result: Result, version: str
) -> None:
    program = (key, candidate.mod, candidate.func)
    connection.execute(INSERT_PROGRAM, program)
    (number,) = connection.execute(FIND_PROGRAM, program).fetchone()
    text = result.to_json()
    values = (number, candidate.trace, candidate.target, version, result.host, text)
    digest = hashlib.blake2b(repr(values).encode(), digest_size=16).hexdigest()
    connection.execute(INSERT_RECORD, (digest, *values))


def _explained(path: Path, error: Exception) -> TuneError:
    """SQLite's or the system's error in this library's words."""
    if isinstance(error, UnicodeEncodeError):
        return TuneError(f"a record's texts cannot be stored: {error}", code="E901")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, UnicodeError) or code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return _no_database(path, str(error))
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        why = f"another process keeps {path} locked; nothing was recorded"
        return TuneError(why, code="E907", hint="mlc.tune.Database(path, seconds=60)")
    return _not_written(path, str(error))


def _no_database(path: Path, why: str) -> TuneError:
    why = f"{path} is not a tuning database: {why}"
    return TuneError(why, code="E905", hint='mlc.tune.Database("tuning.db")  # makes a new one')


def _not_written(path: Any, why: str) -> TuneError:
    hint = "free space, or another folder; what was recorded before is kept"
    return TuneError(f"{path} cannot be written: {why}", code="E908", hint=hint)
