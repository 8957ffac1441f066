"""The system's C compiler: looked up when first needed; its flags define the semantics of numbers.

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

from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.target import Target
from minimlc.services.runtime.cache import cache_key, load_entry, own_folder, store_entry
from minimlc.targets.c.emit import Emitted

NAMES = ("cc", "gcc", "clang")
REQUIRED = ("-O2", "-shared", "-fPIC")
PREFERRED = (
    "-std=c99",
    "-fno-fast-math",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-strict-aliasing",
    "-mno-red-zone",
)
"""Floats as written, but for contraction to FMA, as LLVM code has it: `a * b + c` may round once.
Nobody looks at errno. Not -fno-trapping-math: with it GCC 12 computes the conversion of a float to
an integer and back as `trunc`, which keeps the sign of a zero. In the red zone below the stack, GCC
12 may keep an array 8 bytes beside what its aligned vector stores need."""

MASKS = ("-mno-avx512f",)
"""For accesses under conditions: where GCC 12 knows the mask of a masked load of AVX-512, it loads
the whole vector, and reads past the array's end. It leaves the masked loads of AVX alone."""

BACKWARD = ("-fno-tree-loop-vectorize",)
"""For indices that decrease: GCC 12 reads groups of bytes that go backward as vectors, and one
group too many, before the array's start."""

MOST_MESSAGE_LINES = 6
_TRIAL = "int trial(int x) { return x + 1; }\n"


class Compiler(NamedTuple):
    """A C compiler: the command that runs it, and the version that it states."""

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
    """The error for a missing compiler."""
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
def flags(cc: Compiler, march: str, special: tuple[str, ...]) -> tuple[str, ...]:
    """The flags of a compile, `special` ones for its text among them, that this compiler takes."""
    all_of_them = (*PREFERRED, march, *special)
    if _takes(cc, all_of_them):
        return (*REQUIRED, *all_of_them)
    kept = [flag for flag in all_of_them if _takes(cc, [flag])]
    if "-fopenmp" in special and "-fopenmp" not in kept and _takes(cc, ["-fopenmp-simd"]):
        kept.append("-fopenmp-simd")
    return (*REQUIRED, *kept)


def _special(emitted: Emitted) -> tuple[str, ...]:
    pragmas = ("-fopenmp",) if emitted.threaded else ("-fopenmp-simd",) if emitted.simd else ()
    careful = (*(MASKS if emitted.guarded else ()), *(BACKWARD if emitted.backward else ()))
    return (*careful, *pragmas)


def _takes(cc: Compiler, options: Sequence[str]) -> bool:
    return _compile(cc, _TRIAL, (*REQUIRED, *options))[0].returncode == 0


def _compile(
    cc: Compiler, text: str, options: Sequence[str]
) -> tuple[subprocess.CompletedProcess[str], bytes | None]:
    """The answer of the compiler, and the shared object if there is one."""
    with tempfile.TemporaryDirectory(prefix="minimlc-") as folder:
        source, library = Path(folder) / "program.c", Path(folder) / "program.so"
        source.write_text(text, "ascii")
        result = _run([*cc.command, *options, str(source), "-o", str(library), "-lm"])
        compiled = result.returncode == 0 and library.exists()
        return result, library.read_bytes() if compiled else None


def march_of(target: Target) -> str:
    """The flag for the CPU to compile for: all of the host's instructions only for the host."""
    host = Target.host()
    if (target.cpu, target.features) == (host.cpu, host.features):
        return "-march=native"
    return f"-march={target.cpu}"


def compile_c(emitted: Emitted, target: Target, *, cache: bool) -> "SharedObject":
    """C text as loaded code; `BuildError` where there is no compiler or it fails."""
    cc = compiler()
    if cc is None:
        raise missing_compiler()
    options = flags(cc, march_of(target), _special(emitted))
    parts = ["c", emitted.text, *cc.command, cc.version, *options]
    parts += [target.cpu, target.features, *([] if target.features else [_cpu_flags()])]
    key = cache_key(parts)
    entry = load_entry(key) if cache else None
    if entry is not None:
        with contextlib.suppress(BuildError):
            return SharedObject(entry[1], emitted.threaded)
    answer, code = _compile(cc, emitted.text, options)
    if code is None:
        raise _failed(cc, answer)
    if cache:
        store_entry(key, {"compiler": " ".join(cc.command), "target": target.cpu}, code)
    return SharedObject(code, emitted.threaded)


@functools.cache
def _cpu_flags() -> str:
    """A digest that differs where the host's instructions do, where LLVM cannot list them."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = {line for line in lines if line.lower().startswith(("flags", "features"))}
        return hashlib.blake2b("".join(sorted(features)).encode(), digest_size=8).hexdigest()
    return ""


def _failed(cc: Compiler, answer: subprocess.CompletedProcess[str]) -> BuildError:
    lines = (answer.stderr or answer.stdout).splitlines()
    messages = [line[:160] for line in lines if line.strip()]
    return BuildError(
        f"the C compiler {' '.join(cc.command)} failed with status {answer.returncode}",
        code="E507",
        excerpt="\n".join(messages[:MOST_MESSAGE_LINES]),
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
        """The address of a function."""
        return ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value or 0


_KEPT: list[SharedObject] = []
_PROCESS = ctypes.CDLL(None) if os.name == "posix" else None


def _load(code: bytes) -> ctypes.CDLL:
    """Load a shared object from a temporary file; where code may not run there, from the cache."""
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
