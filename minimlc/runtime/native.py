"""From primitive functions to callable machine code, through the cache."""

import contextlib
import ctypes
import functools
import itertools
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from minimlc.codegen.bounds import Site
from minimlc.codegen.dialect import PLAIN, Legalize
from minimlc.errors import BuildError
from minimlc.node import nodes_of, structural_hash
from minimlc.runtime.cache import cache_key, load_entry, store_entry
from minimlc.runtime.foreign import wide_enough
from minimlc.runtime.parallel import openmp, symbols
from minimlc.target import Target
from minimlc.tir.intrinsics import is_formula
from minimlc.tir.nodes import For, Intrin, PrimFunc


class NativeCode(NamedTuple):
    """Linked code: the address of each exported name, and what its error slots mean.

    `library` keeps the code in memory.
    """

    addresses: Mapping[str, int]
    sites: tuple[Site, ...]
    library: object


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
        loop.kind == "parallel" for func in functions.values() for loop in nodes_of(func, For)
    )


def compile_native(
    functions: Mapping[str, PrimFunc],
    target: Target,
    exports: Sequence[str],
    *,
    extra: str = "",
    check: bool = False,
    cache: bool = True,
) -> NativeCode:
    """Machine code for primitive functions and the entry points in `extra`, linked and ready."""
    threaded = is_threaded(functions)
    use_openmp = threaded and openmp() is not None
    key = _key(functions, target, extra, check, use_openmp)
    entry = load_entry(key) if cache and not check else None
    if entry is not None:
        with contextlib.suppress(RuntimeError, ValueError):
            return link(entry[1], exports, symbols() if threaded else {})
    machine = machine_of(target)
    emitted = emit_llvm(functions, machine, check=check, openmp=use_openmp, extra=extra)
    code = backend().compile_object(emitted.text, machine)
    if cache and not check:
        store_entry(key, {"functions": list(functions), "target": target.cpu}, code)
    return link(code, exports, symbols() if threaded else {}, emitted.sites)


def _key(
    functions: Mapping[str, PrimFunc], target: Target, extra: str, check: bool, use_openmp: bool
) -> str:
    backend()
    llvm = import_module("llvmlite.binding")
    parts = [".".join(map(str, llvm.llvm_version_info)), llvm.get_process_triple()]
    parts += [target.cpu, target.features, str(target.vector_bits), extra]
    parts += [str(check), str(use_openmp)]
    for name, func in functions.items():
        if any(is_formula(part.name) for part in nodes_of(func, Intrin)):
            func = Legalize(PLAIN).visit(func)  # a formula of the user's is only a name in it
        parts += [name, structural_hash(func)]
    return cache_key(parts)


def link(
    code: bytes, exports: Sequence[str], imports: Mapping[str, int], sites: tuple[Site, ...] = ()
) -> NativeCode:
    """An object file in memory. `imports` are addresses of what no library of the process has."""
    llvm = import_module("llvmlite.binding")
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
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
