"""The compile cache: machine code on disk, by a hash of all that it was made from.

An entry is one file: a checksum, a line of JSON, the object code. It is written to a temporary
name and renamed, so a reader sees all of it or nothing; one that does not check is ignored.
"""

import contextlib
import functools
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LIMIT_BYTES = 256 * 1024 * 1024
"""When the folder grows past this, the entries longest unused go."""

ABANDONED_SECONDS = 3600
"""A half-written file this old belongs to a process that was killed."""

_MAGIC = b"minimlc1"


def cache_dir() -> Path:
    """Where compiled code is kept: $MINIMLC_CACHE_DIR, else the platform's cache folder."""
    chosen = os.environ.get("MINIMLC_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "minimlc"


@functools.cache
def code_version() -> str:
    """A hash of what tells the code generator's own source from another: a changed compiler finds
    no old code. Names, sizes and times are what Python asks of its compiled files, too; where
    all times are one, as an installation may set them, they tell nothing, and contents do.
    """
    digest = hashlib.blake2b(digest_size=16)
    root = Path(__file__).parent.parent
    folders = (".", "codegen", "tir", "schedule", "runtime")
    paths = [path for folder in folders for path in sorted((root / folder).glob("*.py"))]
    facts = [path.stat() for path in paths]
    alike = len({each.st_mtime_ns for each in facts}) <= 1
    for path, each in zip(paths, facts, strict=True):
        digest.update(f"{path.name} {each.st_size} {each.st_mtime_ns}\n".encode())
        if alike:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def cache_key(parts: Iterable[str]) -> str:
    """The name of an entry made from `parts`."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (code_version(), *parts):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def load_entry(key: str) -> tuple[dict[str, Any], bytes] | None:
    """What was stored under `key`; None when there is nothing sound."""
    try:
        path = _path(key)
        data = path.read_bytes()
        checksum, body = data[8:40], data[40:]
        if data[:8] != _MAGIC or hashlib.blake2b(body, digest_size=32).digest() != checksum:
            return None
        head, _, code = body.partition(b"\n")
        record = json.loads(head)
        if record.pop("key", None) != key:
            return None
    except (OSError, ValueError, AttributeError, TypeError, RuntimeError):
        return None
    with contextlib.suppress(OSError):  # somebody else's folder is good to read from
        os.utime(path)
    return record, code


def store_entry(key: str, record: dict[str, Any], code: bytes) -> None:
    """Keep machine code under `key`; where the folder cannot be written, do nothing."""
    body = json.dumps({**record, "key": key}).encode() + b"\n" + code
    data = _MAGIC + hashlib.blake2b(body, digest_size=32).digest() + body
    try:
        path = _path(key)
    except RuntimeError:  # there is no home
        return
    temporary = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        return
    _evict(path.parent)


def _path(key: str) -> Path:
    return cache_dir() / f"{key}.bin"


def _evict(folder: Path) -> None:
    """Remove what was abandoned, and entries longest unused until 3/4 of the limit are left."""
    found = []
    for path in [*folder.glob("*.bin"), *folder.glob("*.new")]:
        with contextlib.suppress(OSError):
            facts = path.stat()
            if path.suffix == ".new" and facts.st_mtime < time.time() - ABANDONED_SECONDS:
                path.unlink()
            elif path.suffix == ".bin":
                found.append((facts.st_mtime, facts.st_size, path))
    total = sum(size for _, size, _ in found)
    if total <= LIMIT_BYTES:
        return
    for _, size, path in sorted(found):
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
        if total <= LIMIT_BYTES * 3 // 4:
            return
