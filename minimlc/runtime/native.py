"""From primitive functions to callable machine code, through the cache."""

import ctypes
import functools
import itertools
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

from minimlc.codegen.bounds import Site
from minimlc.codegen.dialect import PLAIN, Legalize
from minimlc.codegen.llvm.value import IN_PLACE, symbol
from minimlc.errors import BuildError
from minimlc.node import nodes_of, structural_hash
from minimlc.runtime.cache import FOLDER, Entries, cache_key
from minimlc.runtime.foreign import wide_enough
from minimlc.runtime.parallel import symbols
from minimlc.target import Target
from minimlc.tir.analysis.copies import READY
from minimlc.tir.intrinsics import is_formula
from minimlc.tir.nodes import For, Intrin, PrimFunc


class NativeCode(NamedTuple):
    """Linked code: the address of each exported name, and what its error slots mean.

    `library` keeps the code in memory, `entries` are the names of its parts in the cache.
    """

    addresses: Mapping[str, int]
    sites: tuple[Site, ...]
    library: object
    entries: tuple[str, ...] = ()


def backend() -> ModuleType:
    """What makes machine code, imported at the first use: not every use needs llvmlite."""
    try:
        return import_module("minimlc.codegen.llvm.machine")
    except ImportError as error:
        why = f'target "llvm" needs llvmlite, which cannot be imported: {error}'
        hint = 'pip install llvmlite, or build(mod, target="python")'
        raise BuildError(why, code="E502", hint=hint) from None


def emit_llvm(functions: Mapping[str, PrimFunc], machine: Any, **options: Any) -> Any:
    """LLVM's text; its writer is imported only when the cache does not have the code."""
    backend()
    return import_module("minimlc.codegen.llvm.emit").emit_llvm(functions, machine, **options)


LIBRARIES = 32
"""How many libraries share one of LLVM's linkers, which keeps part of each, dropped or not.
A linker lives as long as the last of its libraries."""


@functools.lru_cache(maxsize=1)
def _host_jit(number: int = 0) -> tuple[Any, Any]:
    llvm = import_module("llvmlite.binding")
    machine = backend().target_machine(machine_of(Target.host()))
    # LLVM's older linker maps a library's sections one by one, and ends the process where two of
    # them are 2 GiB apart. Its newer one isn't complete on Windows.
    return llvm, llvm.create_lljit_compiler(machine, use_jit_link=sys.platform != "win32")


_numbers = itertools.count()
_linking = threading.Lock()


def machine_of(target: Target) -> Any:
    """The backend's view of a target."""
    return backend().Machine(target.cpu, wide_enough(target.features), target.vector_bits)


def is_threaded(functions: Mapping[str, PrimFunc]) -> bool:
    """Whether any of the functions has a parallel loop."""
    return any(
        (func in READY and READY[func].threaded)
        or any(loop.kind == "parallel" for loop in nodes_of(func, For))
        for func in functions.values()
    )


class MissingCode(RuntimeError):
    """A stub stands for code that the cache has no longer."""


def code_of_stub(func: PrimFunc) -> tuple[str, str]:
    """The name of its code, and that of its entry in the cache."""
    return READY[func].codes.get(IN_PLACE in dict(func.attrs), ("missing", "missing"))


def code_name(func: PrimFunc, target: Target) -> str:
    """A name for a function's code, made from what it does: whatever it is called."""
    if func in READY:
        return code_of_stub(func)[0]
    return "k" + _key({"": func}, target, "")


TURN = 0.0005
"""Seconds after which Python's threads take turns while one of them compiles."""
_lock = threading.Lock()
_usual: list[float] = []


@contextmanager
def compiler() -> Iterator[ThreadPoolExecutor]:
    """A thread for LLVM beside the one that writes its text. Each call of LLVM comes back by
    Python's lock, and would wait for the usual 5 ms there.
    """
    with _lock:
        _usual.append(sys.getswitchinterval())
        sys.setswitchinterval(min(TURN, _usual[-1]))
    try:
        with ThreadPoolExecutor(1) as pool:
            yield pool
    finally:
        with _lock:
            before = _usual.pop()
            if not _usual:  # the last to end has what was there before the first
                sys.setswitchinterval(before)


class Unit(NamedTuple):
    """What becomes one object file: primitive functions, and entry points as LLVM's text."""

    functions: Mapping[str, PrimFunc]
    extra: str = ""

    @property
    def stored(self) -> str:
        """The name of the entry that stubs stand for; "" for other functions."""
        keys = [code_of_stub(func)[1] for func in self.functions.values() if func in READY]
        return keys[0] if keys else ""

    def key(self, target: Target) -> str:
        """The name of its entry in the cache."""
        return self.stored or _key(self.functions, target, self.extra)

    def emitted(self, target: Target, check: bool = False) -> Any:
        """LLVM's text for it, and what its error slots mean."""
        return emit_llvm(self.functions, machine_of(target), check=check, extra=self.extra)

    def compiled(self, target: Target, pool: ThreadPoolExecutor) -> Future[bytes]:
        """Its machine code, which a thread makes: LLVM works while Python writes the next text.
        `MissingCode` for a stub. (llvmlite lets one thread at a time into LLVM.)
        """
        if self.stored:
            raise MissingCode(self.stored)
        text, machine = self.emitted(target).text, machine_of(target)
        return pool.submit(lambda: backend().compile_object(text, machine))


def units_of(
    functions: Mapping[str, PrimFunc], extra: str, check: bool, apart: bool = False
) -> list[Unit]:
    """A unit for each function and one for the entry points: where one changes, the cache has the
    others. One function and its entry points are one unit, unless they are to be `apart`. So is
    checked code, whose accesses are numbered from function to function, and all code on Windows,
    where the linker ends the process if two sections are 2 GiB apart.
    """
    if check or (len(functions) < 2 and not apart) or sys.platform == "win32":
        return [Unit(functions, extra)]
    alone = [Unit({name: func}) for name, func in functions.items()]
    called = [
        f"declare i32 @{symbol(name)}({', '.join(['ptr'] * len(func.params))})"
        for name, func in functions.items()
    ]
    return [*alone, Unit({}, "\n".join([*called, "", extra]))] if extra else alone


def compile_native(
    functions: Mapping[str, PrimFunc],
    target: Target,
    exports: Sequence[str],
    *,
    extra: str = "",
    check: bool = False,
    entries: Entries = FOLDER,
    apart: bool = False,
    jobs: Mapping[str, Future[bytes]] = MappingProxyType({}),
) -> NativeCode:
    """Machine code for primitive functions and the entry points in `extra`, linked and ready.
    `jobs` are what is being compiled already, by the names of their `entries`.
    """
    units = units_of(functions, extra, check, apart)
    imports = symbols(entries.folder) if is_threaded(functions) else {}
    if check:
        emitted = units[0].emitted(target, check)
        code = backend().compile_object(emitted.text, machine_of(target))
        return link([code], exports, imports, emitted.sites)
    by_key = {unit.key(target): unit for unit in units}
    found = {key: entries.load(key) for key in by_key}
    stored = {key: entry[1] for key, entry in found.items() if entry is not None}

    def linked(known: Mapping[str, bytes]) -> NativeCode:
        with compiler() as pool:
            work = {
                key: jobs.get(key) or unit.compiled(target, pool)
                for key, unit in by_key.items()
                if key not in known
            }
            new = {key: job.result() for key, job in work.items()}
        about = {k: {"functions": [*by_key[k].functions], "target": target.cpu} for k in new}
        entries.store([(k, about[k], code) for k, code in new.items()])
        codes = {**known, **new}
        code = link([codes[key] for key in by_key], exports, imports)
        return code._replace(entries=tuple(by_key)) if entries else code

    if stored:
        try:
            return linked(stored)
        except MissingCode:
            raise
        except (RuntimeError, ValueError):
            pass  # an entry that does not link
    return linked({})


@functools.cache
def surroundings() -> tuple[str, ...]:
    """What else machine code depends on: LLVM's version, and the kind of machine and system. Asked
    once: while another thread compiles, llvmlite lets nobody in.
    """
    backend()
    llvm = import_module("llvmlite.binding")
    return ".".join(map(str, llvm.llvm_version_info)), llvm.get_process_triple()


def _key(functions: Mapping[str, PrimFunc], target: Target, extra: str) -> str:
    parts = [*surroundings(), target.cpu, target.features, str(target.vector_bits), extra]
    for name, func in functions.items():
        if any(is_formula(part.name) for part in nodes_of(func, Intrin)):
            func = Legalize(PLAIN).visit(func)  # a formula of the user's is only a name in it
        parts += [name, structural_hash(func)]
    return cache_key(parts)


def link(
    codes: Sequence[bytes],
    exports: Sequence[str],
    imports: Mapping[str, int],
    sites: tuple[Site, ...] = (),
) -> NativeCode:
    """Object files in memory. `imports` are addresses of what no library of the process has."""
    llvm = import_module("llvmlite.binding")
    builder = llvm.JITLibraryBuilder().add_current_process()
    for code in codes:
        builder.add_object_img(code)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    with _linking:
        number = next(_numbers)
        _, jit = _host_jit(number // LIBRARIES)
        library = builder.link(jit, f"minimlc{number}")
    return NativeCode({name: library[name] for name in exports}, sites, library)


MOST_POINTERS = 1024
"""ctypes passes no more arguments."""


def entry_point(address: int, count: int, result: Any = ctypes.c_int) -> Any:
    """A compiled function of `count` pointers as a Python callable; it releases the GIL."""
    if count > MOST_POINTERS:
        why = f"compiled code takes at most {MOST_POINTERS} arrays, this function has {count}"
        raise BuildError(why, hint='pass some of them as one array, or build(mod, target="python")')
    return ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * count)(address)
