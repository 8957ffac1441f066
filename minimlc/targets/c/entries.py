"""Libraries for target "c": generated C, compiled by the system's compiler where there is one."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.llvm.kernel import entry_point
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.target import Target
from minimlc.services.threads.parallel import minds_forks, num_threads
from minimlc.targets.c.compiler import SharedObject, compile_c, compiler, missing_compiler
from minimlc.targets.c.emit import emit_c

Entry = Callable[..., int | None]


def c_text(functions: Mapping[str, PrimFunc]) -> str:
    """The C text of primitive functions."""
    return emit_c(functions).text


def c_entries(
    functions: Mapping[str, PrimFunc], target: Target, *, check: bool, cache: bool
) -> tuple[dict[str, Entry], object]:
    """The functions, to call with the addresses of their arrays, and what keeps their code loaded.

    All functions are one text, compiled at once. Without a compiler, each raises when called.
    """
    if check:
        raise BuildError(
            'target "c" has no checked accesses',
            code="E508",
            hint='build(mod, bounds="check") for target "llvm", or target="python"',
        )
    emitted = emit_c(functions)
    if not functions or compiler() is None:
        return dict.fromkeys(functions, _refuse), None
    loaded = compile_c(emitted, target, cache=cache)
    entries: dict[str, Entry] = {}
    for name, function in emitted.functions.items():
        result = ctypes.c_int if function.can_fail else None
        address = loaded.address(function.symbol)
        entries[name] = entry_point(address, len(function.program.params), result)
    if emitted.threaded and hasattr(loaded.library, "omp_set_num_threads"):
        entries = {name: _threaded(entry, loaded) for name, entry in entries.items()}
    return entries, loaded


def _refuse(*_: Any) -> NoReturn:
    raise missing_compiler()


def _threaded(entry: Entry, loaded: SharedObject) -> Entry:
    """`entry` on as many threads as were asked for; other OpenMP code of the caller's thread keeps
    its own number.
    """
    minds_forks(loaded.library)
    ask, choose = loaded.library.omp_get_max_threads, loaded.library.omp_set_num_threads

    def call(*addresses: int) -> int | None:
        before = ask()
        choose(num_threads())
        try:
            return entry(*addresses)
        finally:
            choose(before)

    return call
