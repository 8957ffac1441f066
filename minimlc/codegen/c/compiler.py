"""The system's C compiler: found when it is first needed, told what numbers mean, and cached.

A program is compiled to a shared object, loaded, and its file removed: the loaded code stays.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from minimlc.codegen.c.emit import Emitted
from minimlc.errors import BuildError
from minimlc.runtime.cache import cache_key, load_entry, own_folder, store_entry
from minimlc.target import Target

NAMES = ("cc", "gcc", "clang")
REQUIRED = ("-O2", "-shared", "-fPIC")
WANTED = (
    "-std=c99",
    "-fno-fast-math",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-strict-aliasing",
)
"""Floats as written, but for contraction to FMA, as LLVM code has it: `a * b + c` may round once.
Nobody looks at errno. Not -fno-trapping-math: with it GCC 12 computes the conversion of a float to
an integer and back as `trunc`, which keeps the sign of a zero."""

MASKS = ("-mno-avx512f",)
"""For accesses under conditions: where GCC 12 finds out the mask of a masked load of AVX-512, it
loads the whole vector, and reads behind an array's end. It leaves the masked loads of AVX alone."""

BACKWARD = ("-fno-tree-loop-vectorize",)
"""For indices that fall: GCC 12 reads groups of bytes that go backwards in vectors, and one group
too many, before an array's start."""

MOST_MESSAGE_LINES = 6
_TRIAL = "int trial(int x) { return x + 1; }\n"


class Compiler(NamedTuple):
    """A C compiler: the words that call it, and what it says of itself."""

    command: tuple[str, ...]
    version: str


def compiler() -> Compiler | None:
    """The compiler that $CC names, else the first of cc, gcc, clang; None where there is none."""
    return _find(os.environ.get("CC", ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _find(chosen: str, path: str) -> Compiler | None:
    for words in [_words(chosen)] if chosen.strip() else [[name] for name in NAMES]:
        if shutil.which(words[0], path=path):
            command = tuple(words)
            answer = _run([*command, "--version"])
            return Compiler(command, answer.stdout.strip() or answer.stderr.strip())
    return None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text) or [text]
    except ValueError:  # an open quotation mark
        return [text]


def missing_compiler() -> BuildError:
    """What to say where there is none."""
    chosen = os.environ.get("CC", "").strip()
    which = f"$CC names {chosen}, which is not there" if chosen else "there is none here"
    return BuildError(
        f'target "c" needs a C compiler to run its code, and {which}; '
        'the text itself is library.source("c")',
        code="E506",
        hint="install one (Debian: apt-get install gcc, macOS: xcode-select --install, "
        'conda: conda install c-compiler), or build(mod, target="llvm")',
    )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


@functools.lru_cache(maxsize=64)
def flags(found: Compiler, march: str, special: tuple[str, ...]) -> tuple[str, ...]:
    """The flags for a compile, `special` ones for its text: those that this compiler takes."""
    wanted = [*WANTED, *([march] if march else []), *special]
    if _takes(found, wanted):
        return (*REQUIRED, *wanted)
    kept = [flag for flag in wanted if _takes(found, [flag])]
    if "-fopenmp" in special and "-fopenmp" not in kept and _takes(found, ["-fopenmp-simd"]):
        kept.append("-fopenmp-simd")
    return (*REQUIRED, *kept)


def _special(emitted: Emitted) -> tuple[str, ...]:
    pragmas = ("-fopenmp",) if emitted.threaded else ("-fopenmp-simd",) if emitted.simd else ()
    careful = (*(MASKS if emitted.guarded else ()), *(BACKWARD if emitted.backward else ()))
    return (*careful, *pragmas)


def _takes(found: Compiler, wanted: Sequence[str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="minimlc-") as folder:
        return _compile(found, _TRIAL, (*REQUIRED, *wanted), Path(folder)).returncode == 0


def _compile(
    found: Compiler, text: str, options: Sequence[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    (folder / "program.c").write_text(text, "ascii")
    source, made = str(folder / "program.c"), str(folder / "program.so")
    return _run([*found.command, *options, source, "-o", made, "-lm"])


def march_of(target: Target) -> str:
    """The flag for the CPU to compile for: all of the host's instructions only for the host."""
    host = Target.host()
    if (target.cpu, target.features) == (host.cpu, host.features):
        return "-march=native"
    return f"-march={target.cpu}"


def compile_c(emitted: Emitted, target: Target, *, cache: bool) -> "SharedObject":
    """C text as loaded code; `BuildError` where there is no compiler or it fails."""
    found = compiler()
    if found is None:
        raise missing_compiler()
    options = flags(found, march_of(target), _special(emitted))
    parts = ["c", emitted.text, *found.command, found.version, *options]
    parts += [target.cpu, target.features, *([] if target.features else [_cpu_flags()])]
    key = cache_key(parts)
    entry = load_entry(key) if cache else None
    if entry is not None:
        with contextlib.suppress(BuildError):
            return SharedObject(entry[1], emitted.threaded)
    with tempfile.TemporaryDirectory(prefix="minimlc-") as folder:
        result = _compile(found, emitted.text, options, Path(folder))
        made = Path(folder) / "program.so"
        if result.returncode != 0 or not made.exists():
            raise _failed(found, result)
        code = made.read_bytes()
    if cache:
        store_entry(key, {"compiler": " ".join(found.command), "target": target.cpu}, code)
    return SharedObject(code, emitted.threaded)


@functools.cache
def _cpu_flags() -> str:
    """Something that differs where the host's instructions do, when LLVM is not here to say."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        told = {line for line in lines if line.lower().startswith(("flags", "features"))}
        return hashlib.blake2b("".join(sorted(told)).encode(), digest_size=8).hexdigest()
    return ""


def _failed(found: Compiler, result: subprocess.CompletedProcess[str]) -> BuildError:
    said = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    shown = said[:MOST_MESSAGE_LINES]
    return BuildError(
        f"the C compiler {' '.join(found.command)} failed with status {result.returncode}",
        code="E507",
        excerpt="\n".join(line[:160] for line in shown),
        hint='compare lib.source("c") of build(mod, target="llvm"); CC=gcc chooses a compiler',
    )


class SharedObject:
    """Loaded code; unloaded when nothing refers to it any more."""

    def __init__(self, code: bytes, threaded: bool):
        self.library = _load(code)
        if threaded and not _KEPT:
            _KEPT.append(self)  # its OpenMP runtime has threads by now, so it must stay
        elif _PROCESS is not None:
            handle = ctypes.c_void_p(self.library._handle)
            weakref.finalize(self, _PROCESS.dlclose, handle).atexit = False

    def address(self, name: str) -> int:
        """Where a function is."""
        return ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value or 0


_KEPT: list[SharedObject] = []
_PROCESS = ctypes.CDLL(None) if os.name == "posix" else None


def _load(code: bytes) -> ctypes.CDLL:
    """Load a shared object from a file of its own; where that may not run, from the cache's."""
    failure: OSError | None = None
    for folder in (tempfile.gettempdir, own_folder):
        with contextlib.suppress(PermissionError, FileNotFoundError):
            handle, name = tempfile.mkstemp(".so", "minimlc-", folder())
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(code)
                return ctypes.CDLL(name)
            except OSError as error:
                failure = error
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(name)
    raise BuildError(f"compiled C code cannot be loaded: {failure}", code="E507")
