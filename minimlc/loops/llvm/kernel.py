"""One primitive function, compiled and ready to be called: machine code, linked, on arrays."""

import ctypes
import functools
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from minimlc.loops.ir.arguments import Arguments, Parameter, parameters_of
from minimlc.loops.ir.nodes import For, PrimFunc
from minimlc.loops.llvm.value import symbol
from minimlc.loops.lower.bounds import Site, outside
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.node import nodes_of
from minimlc.loops.values.parts import Hook
from minimlc.loops.values.target import Target

INTERRUPTIONS = Hook[Callable[[], BaseException]]("interruptions")
"""The function that makes the exception for threads that left a loop early."""

MACHINE = Hook[ModuleType]("machine code")
EMITTER = Hook[Callable[..., Any]]("LLVM's text")
"""Both are imported at the first use: cached code is not written, and needs no llvmlite."""

SERIAL = """
define i32 @minimlc_parallel(ptr %task, ptr %context, i64 %count) {
  %status = call i32 %task(ptr %context, i64 0, i64 %count)
  %result = add i32 %status, 1
  ret i32 %result
}
"""
"""The function that parallel loops call without threads: all iterations in one share."""


class NativeCode(NamedTuple):
    """Linked code: the address of each exported name, and the sites of its error slots.

    `library` keeps the code in memory, `entries` are the names of its parts in the cache.
    """

    addresses: Mapping[str, int]
    sites: tuple[Site, ...]
    library: object
    entries: tuple[str, ...] = ()


def backend() -> ModuleType:
    """The module that makes machine code, imported at the first use: it needs llvmlite."""
    try:
        machine = MACHINE.first
    except ImportError as error:
        why = f'target "llvm" needs llvmlite, which cannot be imported: {error}'
        hint = 'pip install llvmlite, or build(mod, target="python")'
        raise BuildError(why, code="E502", hint=hint) from None
    assert machine is not None
    return machine


LIBRARIES = 32
"""How many libraries share one of LLVM's linkers, which keeps part of each, dropped or not.
A linker lives as long as the last of its libraries."""


@functools.lru_cache(maxsize=1)
def _host_jit(number: int = 0) -> tuple[Any, Any]:
    llvm = backend().llvm
    machine = backend().target_machine(machine_of(Target.host()))
    # LLVM's older linker maps a library's sections one by one, and ends the process where two of
    # them are 2 GiB apart. Its newer one isn't complete on Windows.
    return llvm, llvm.create_lljit_compiler(machine, use_jit_link=sys.platform != "win32")


_numbers = itertools.count()
_linking = threading.Lock()


def wide_enough(features: str) -> str:
    """Features for LLVM, which ends the process when asked for 64-bit code for a CPU without."""
    if not is_x86() or "+64bit" in features.split(","):
        return features
    return f"{features},+64bit" if features else "+64bit"


@functools.cache
def is_x86() -> bool:
    return bool(backend().llvm.get_process_triple().startswith(("x86_64", "amd64")))


@functools.cache
def surroundings() -> tuple[str, ...]:
    """The rest that machine code depends on: LLVM's version, and the kind of machine and system.
    Asked once, as llvmlite is locked while another thread compiles.
    """
    llvm = backend().llvm
    return ".".join(map(str, llvm.llvm_version_info)), llvm.get_process_triple()


def machine_of(target: Target) -> Any:
    """The backend's view of a target."""
    return backend().Machine(target.cpu, wide_enough(target.features), target.vector_bits)


def link(
    codes: Sequence[bytes],
    exports: Sequence[str],
    imports: Mapping[str, int],
    sites: tuple[Site, ...] = (),
) -> NativeCode:
    """Object files in memory. `imports` are addresses of symbols that no library here has."""
    builder = backend().llvm.JITLibraryBuilder().add_current_process()
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


def entered(address: int, count: int, sites: Sequence[Site] | None) -> Callable[..., int]:
    """Compiled code of `count` pointers as a function of them that returns its status.

    With `sites`, the code takes one more pointer, to slots for the site at which an access failed
    and its index; the function makes an error of them.
    """
    entry: Callable[..., int] = entry_point(address, count + (sites is not None))
    if sites is None:
        return entry
    slots_type = ctypes.c_int64 * (1 + max((len(site.shape) for site in sites), default=0))

    def checked(*addresses: int) -> int:
        slots = slots_type()
        status = entry(*addresses, ctypes.addressof(slots))
        if status == 1:
            site = sites[slots[0]]
            raise outside(site, slots[1 : 1 + len(site.shape)])
        return status

    return checked


def failure(name: str, status: int) -> BaseException:
    """The exception for the status that compiled code returned."""
    if status == 2:
        return MemoryError(f"{name} could not get memory for the buffers it allocates")
    why = INTERRUPTIONS.first
    return why() if why else KeyboardInterrupt()


class Kernel:
    """A compiled primitive function: call it with arrays; it writes its results into them."""

    def __init__(
        self,
        name: str,
        parameters: Sequence[Parameter],
        code: int | Callable[..., int | None],
        sites: Sequence[Site] | None,
        keep: object,
    ):
        """`code` is an address, or a function of the arrays' addresses."""
        self.__name__ = name
        self._arguments = Arguments(name, parameters)
        self._entry = entered(code, len(parameters), sites) if isinstance(code, int) else code
        self._keep = keep

    def __call__(self, *arrays: Any, **named: Any) -> None:
        shared, addresses = self._arguments.check(arrays, named)
        status = self._entry(*addresses)
        del shared  # it has kept the memory alive
        if status:
            raise failure(self.__name__, status)

    def ready(self, *arrays: Any) -> Callable[[], None]:
        """The call with these arrays, which are checked now: it runs the code alone."""
        shared, addresses = self._arguments.check(arrays)

        def run(_kept: object = shared) -> None:
            status = self._entry(*addresses)
            if status:
                raise failure(self.__name__, status)

        return run

    def __repr__(self) -> str:
        return f"<compiled {self._arguments.signature}>"


def emit_llvm(functions: Mapping[str, PrimFunc], machine: Any, **options: Any) -> Any:
    """LLVM's text for primitive functions, and the sites of checked accesses; `emit.emit_llvm`."""
    backend()
    emit = EMITTER.first
    assert emit is not None
    return emit(functions, machine, **options)


def _is_parallel(func: PrimFunc) -> bool:
    return any(loop.kind == "parallel" for loop in nodes_of(func, For))


def compile_function(
    func: PrimFunc, target: str | Target = "llvm", *, name: str = "main", check: bool = False
) -> Kernel:
    """A primitive function as machine code, without cache and threads: call it with arrays.

    With `check`, an access outside of a buffer is a `BoundsError`. `VerifyError` for a function
    that is not well-formed, `BuildError` E501 for another target.
    """
    verify(func)
    chosen = Target.of(target)
    if chosen.name != "llvm":
        raise BuildError(f'no kernel alone for target "{chosen.name}"', code="E501")
    machine = machine_of(chosen)
    emitted = emit_llvm({name: func}, machine, check=check)
    texts = [emitted.text, *([SERIAL] if _is_parallel(func) else [])]
    codes = [backend().compile_object(text, machine) for text in texts]
    code = link(codes, [symbol(name)], {}, emitted.sites)
    sites = code.sites if check else None
    return Kernel(name, parameters_of(func), code.addresses[symbol(name)], sites, code.library)
