"""Ways back to what an assignment takes away, closed while a submission runs.

An audit hook can't be removed, and this one is out of a submission's reach: it refers to nothing
that can be replaced or changed, and what lists a process's objects is closed as well. It keeps
honest people from shortcuts. It doesn't stop a submission's machine code: see
`docs/homework.md`.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

EVENTS = (
    *("gc.get_objects", "gc.get_referrers", "gc.get_referents"),
    *("sys._current_frames", "sys._current_exceptions", "ctypes.dlsym/handle"),
    *("os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "subprocess.Popen"),
)
"""Audit events of access to all objects, to functions of the system, to processes."""

SYMBOLS = (
    *("LLVMPY_", "minimlc_", "pthread_", "sem_", "dispatch_semaphore_", "omp_", "__kmpc_"),
    *("Py_IncRef", "madvise", "mallopt"),
)
"""Prefixes of the library functions that building and running programs needs."""

Identity = tuple[int, int]


def close(refusals: Mapping[str, Exception], refused: Callable[[str], Exception]) -> None:
    """Refuse to load the modules of these names, and to open their files by any name, from now on;
    `refused(what)` is the error for anything else that is closed.
    """
    names = tuple([(f"{name}.", refusal) for name, refusal in refusals.items()])
    known = [(frozenset(_identities(name)), refusal) for name, refusal in refusals.items()]
    files = tuple([pair for pair in known if pair[0]])
    events = tuple([(event, refused(event)) for event in EVENTS])
    sys.addaudithook(_hook(names, files, events, refused("ctypes")))


def _hook(
    names: tuple[tuple[str, Exception], ...],
    files: tuple[tuple[frozenset[Identity], Exception], ...],
    events: tuple[tuple[str, Exception], ...],
    library: Exception,
) -> Callable[[str, tuple[Any, ...]], None]:
    """The hook. Its constants are defaults: a traceback leads to frames, and with them to what a
    function closes over, but not to these.
    """

    def hook(
        event: str,
        args: tuple[Any, ...],
        names: Any = names,
        files: Any = files,
        events: Any = events,
        library: Exception = library,
        symbols: tuple[str, ...] = SYMBOLS,
        facts: Any = os.stat,
        faults: Any = (OSError, ValueError, TypeError),
        exact: Any = str.__str__,
    ) -> None:
        if event == "import":
            place = exact(args[0]) + "."
            for start, refusal in names:
                if place.startswith(start):
                    raise refusal
        elif event == "open":
            try:
                found = facts(args[0])
            except faults:
                return
            for known, refusal in files:
                if (found.st_dev, found.st_ino) in known:
                    raise refusal
        elif event == "ctypes.dlopen":
            if args[0] is not None:
                raise library
        elif event == "ctypes.dlsym":
            if not exact(args[1]).startswith(symbols):
                raise library
        else:
            for closed, refusal in events:
                if event == closed:
                    raise refusal

    return hook


def _identities(name: str) -> Iterator[Identity]:
    """The identities of a module's files, whatever they are called, and of the folders that they
    are in, from which they could be named.
    """
    for path in _files(name):
        with suppress(OSError):
            facts = path.stat()
            yield facts.st_dev, facts.st_ino


def _files(name: str) -> Iterable[Path]:
    try:
        origin = getattr(find_spec(name), "origin", None)
    except (ImportError, ValueError, AttributeError):  # it is no module
        return []
    if origin is None or not os.path.isfile(origin):
        return []
    file = Path(origin).resolve()
    if file.name != "__init__.py":
        compiled = (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc")
        return [file, *compiled, *file.parents]
    return [file.parent, *file.parent.rglob("*"), *file.parents]
