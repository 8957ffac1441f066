"""Files that others may read while they are being replaced."""

import contextlib
import os
from pathlib import Path


def path_of(name: object) -> Path | None:
    """The path that a text or a path object gives; None for anything that can name no file."""
    try:
        text = os.fspath(name)  # type: ignore[call-overload]
        return Path(text) if isinstance(text, str) and b"\0" not in os.fsencode(text) else None
    except (TypeError, UnicodeError):  # no path, half a character
        return None


def write_atomically(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace a file: readers see all of the old one or all of the new one, and a write that fails
    or is interrupted leaves nothing behind (a process that is killed leaves a file `*.new`).

    Only this user may read or write it, unless a `mode` is given. `OSError` where it cannot be
    written; its folder must exist.
    """
    number = int.from_bytes(os.urandom(8))
    temporary = path.with_name(f"{path.stem[:40]}.{os.getpid()}-{number}.new")
    try:
        with open(temporary, "xb", opener=_private) as file:
            file.write(data)
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
