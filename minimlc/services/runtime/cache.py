"""The compile cache: machine code on disk, by a hash of all that it was made from.

An entry is one file: a checksum, a line of JSON, the object code. It is written to a temporary
name and renamed, so a reader sees all of it or nothing; one that does not check is ignored.

Entries are executed. So only plain files are read that belong to this user and that nobody else
may write, and only files with the names of entries are removed.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from minimlc.services.runtime.files import write_atomically

LIMIT_BYTES = 256 * 1024 * 1024
"""When the folder grows past this, the entries longest unused go."""

ABANDONED_SECONDS = 3600
"""A half-written file this old belongs to a process that was killed."""

_FOLDERS = {"win32": ("LOCALAPPDATA", "AppData/Local"), "darwin": ("", "Library/Caches")}
"""The folder for caches of a platform: in a variable, else a folder in the user's own."""

_MAGIC = b"minimlc1"
_LOOK = 64
"""A look through the folder costs a stat of each entry, so there is one for each 1/64 of the
limit that a process writes, and one at its first entry: the folder can be larger by as much."""

_unseen: dict[Path, int] = {}
"""Bytes that this process has written to a folder since its last look."""

Entry = tuple[dict[str, Any], bytes]
"""A record about machine code, and the code."""

_NAMES = re.compile(r"[0-9a-f]{40}\.bin|[0-9a-f]{40}\.\d+-\d+\.new|minimlc-\w{8}\.so")
"""Entries, files that become one, and libraries that are being loaded."""

_READING = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
"""Follows no link and waits for no pipe."""


def cache_dir() -> Path:
    """Where compiled code is kept: $MINIMLC_CACHE_DIR, else the platform's cache folder. The null
    device keeps nothing.
    """
    chosen = os.environ.get("MINIMLC_CACHE_DIR")
    if chosen:
        return Path(chosen)
    variable, folder = _FOLDERS.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    return Path(os.environ.get(variable) or Path.home() / folder) / "minimlc"


COMPILER = (
    "*.py",
    *(f"{name}/**/*.py" for name in ("loops", "graphs", "services", "targets", "recipes")),
)
"""The files that decide what code a module becomes."""


@functools.cache
def code_version() -> str:
    """A hash that identifies the code generator's own source: a changed compiler finds no old code.
    It is of names, sizes and times, as Python checks its compiled files, too; where all times are
    one, as an installation may set them, it is of contents as well.
    """
    digest = hashlib.blake2b(digest_size=16)
    root = Path(__file__).parents[2]
    paths = [path for pattern in COMPILER for path in sorted(root.glob(pattern))]
    facts = [path.stat() for path in paths]
    alike = len({fact.st_mtime_ns for fact in facts}) <= 1
    for path, fact in zip(paths, facts, strict=True):
        digest.update(f"{path.name} {fact.st_size} {fact.st_mtime_ns}\n".encode())
        if alike:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def cache_key(parts: Iterable[str]) -> str:
    """The name of an entry made from `parts`."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (code_version(), *parts):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def own_folder(*, make: bool = False) -> Path | None:
    """The folder of this user's entries: `cache_dir()`, or a separate folder in it where others may
    write there, too. None where there is no such place.
    """
    try:
        folder = cache_dir()
    except RuntimeError:  # there is no home
        return None
    if folder == Path(os.devnull):
        return None
    mine = folder / f"user-{os.geteuid() if hasattr(os, 'geteuid') else ''}"
    for place in (folder, mine):
        with contextlib.suppress(OSError):
            if make:
                place.mkdir(0o700, parents=True, exist_ok=True)
            if _is_private(place.stat()):
                return place
    if os.path.exists(mine):
        warnings.warn(
            f"compiled code is not cached: {mine} belongs to another user, or others may write it; "
            "MINIMLC_CACHE_DIR chooses another folder",
            RuntimeWarning,
            stacklevel=2,
        )
    return None


def _is_private(facts: os.stat_result) -> bool:
    """Whether a file is this user's, and nobody else may write it."""
    if not hasattr(os, "geteuid"):  # Windows: a user's folder is nobody else's
        return True
    return facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def load_entry(key: str) -> Entry | None:
    """The entry stored under `key`; None when there is nothing sound."""
    folder = own_folder()
    if folder is None:
        return None
    path = folder / f"{key}.bin"
    try:
        data = _read(path)
        checksum, body = data[8:40], data[40:]
        if data[:8] != _MAGIC or hashlib.blake2b(body, digest_size=32).digest() != checksum:
            return None
        head, _, code = body.partition(b"\n")
        record = json.loads(head)
        if record.pop("key", None) != key:
            return None
    except (OSError, ValueError, AttributeError, TypeError):
        return None
    with contextlib.suppress(OSError):  # a folder to read only is good to read from
        os.utime(path)
    return record, code


def _read(path: Path) -> bytes:
    """A plain file of this user's that nobody else may write; OSError for all else."""
    handle = os.open(path, _READING)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or not _is_private(facts) or facts.st_size > LIMIT_BYTES:
            raise PermissionError(f"{path} is not an entry of this user's")
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def store_entry(key: str, record: dict[str, Any], code: bytes) -> None:
    """Keep machine code under `key`; where the folder cannot be written, do nothing."""
    store_entries([(key, record, code)])


def store_entries(entries: Sequence[tuple[str, dict[str, Any], bytes]]) -> None:
    """`store_entry` for each of several; the folder is looked through for old ones at most once."""
    folder = own_folder(make=True) if entries else None
    if folder is None:
        return
    with contextlib.suppress(OSError):
        for key, record, code in entries:
            body = json.dumps({**record, "key": key}).encode() + b"\n" + code
            data = _MAGIC + hashlib.blake2b(body, digest_size=32).digest() + body
            write_atomically(folder / f"{key}.bin", data)
            _unseen[folder] = _unseen.get(folder, LIMIT_BYTES) + len(data)
        if _unseen[folder] >= LIMIT_BYTES // _LOOK:
            _unseen[folder] = 0
            _evict(folder)


MOST_KEPT = 1024
"""The most entries in the memory of one library."""


class Entries:
    """Entries that builds leave for others: in the folder, and in memory where there is one, which
    forgets the least recently used.
    """

    def __init__(self, folder: bool = True, memory: dict[str, Entry] | None = None):
        self.folder, self.memory = folder, memory

    def __bool__(self) -> bool:
        """Whether there is a place for entries."""
        return self.folder or self.memory is not None

    def load(self, key: str) -> Entry | None:
        """The entry stored under `key`; None when there is nothing sound."""
        known = None if self.memory is None else self.memory.pop(key, None)
        if known is None:
            known = load_entry(key) if self.folder else None
        if known is not None:
            self._keep(key, known)
        return known

    def _keep(self, key: str, entry: Entry) -> None:
        if self.memory is not None:
            self.memory[key] = entry
            while len(self.memory) > MOST_KEPT:
                self.memory.pop(next(iter(self.memory)), None)

    def store(self, entries: Sequence[tuple[str, dict[str, Any], bytes]]) -> None:
        """Keep several entries, each a key, a record and machine code."""
        for key, record, code in entries:
            self._keep(key, (json.loads(json.dumps(record)), code))
        if self.folder:
            store_entries(entries)


FOLDER = Entries()
"""The entries on disk."""


def _evict(folder: Path) -> None:
    """Remove what was abandoned, and entries longest unused until 3/4 of the limit are left."""
    entries = []
    with os.scandir(folder) as listed:
        ours = [entry for entry in listed if _NAMES.fullmatch(entry.name)]
    for entry in ours:
        with contextlib.suppress(OSError):
            facts = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(facts.st_mode):
                continue
            if entry.name.endswith(".bin"):
                entries.append((facts.st_mtime, facts.st_size, entry.path))
            elif facts.st_mtime < time.time() - ABANDONED_SECONDS:
                os.unlink(entry.path)
    total = sum(size for _, size, _ in entries)
    if total <= LIMIT_BYTES:
        return
    for _, size, path in sorted(entries):
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
        if total <= LIMIT_BYTES * 3 // 4:
            return
