"""From primitive functions to callable machine code, through the cache."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from minimlc.loops.ir.intrinsics import is_formula
from minimlc.loops.ir.nodes import For, Intrin, PrimFunc
from minimlc.loops.llvm.kernel import NativeCode, backend, emit_llvm, link, machine_of, surroundings
from minimlc.loops.llvm.value import IN_PLACE, symbol
from minimlc.loops.lower.dialect import PLAIN, Legalize
from minimlc.loops.values.node import nodes_of, structural_hash
from minimlc.loops.values.process import short_turns
from minimlc.loops.values.target import Target
from minimlc.services.runtime.cache import FOLDER, Entries, cache_key
from minimlc.services.runtime.copies import READY
from minimlc.services.threads.parallel import symbols

Jobs = dict[str, Future[bytes]]
"""Code that is being compiled, by the names of its entries."""


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
    """The name of a stub's code, and of its entry in the cache."""
    return READY[func].codes.get(IN_PLACE in dict(func.attrs), ("missing", "missing"))


def code_name(func: PrimFunc, target: Target) -> str:
    """A name for a function's code, made from what it does, not from its name."""
    if func in READY:
        return code_of_stub(func)[0]
    return "k" + _key({"": func}, target, "")


@contextmanager
def compiler() -> Iterator[ThreadPoolExecutor]:
    """A thread for LLVM beside the one that writes its text. Each call of LLVM comes back by
    Python's lock, and would wait for the usual 5 ms there.
    """
    with short_turns(), ThreadPoolExecutor(1) as pool:
        yield pool


class Unit(NamedTuple):
    """The source of one object file: primitive functions, and entry points as LLVM's text."""

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
        """LLVM's text for the unit, and the meaning of its error slots."""
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
    `jobs` is the code being compiled already, by the names of its `entries`.
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


def _key(functions: Mapping[str, PrimFunc], target: Target, extra: str) -> str:
    parts = [*surroundings(), target.cpu, target.features, str(target.vector_bits), extra]
    for name, func in functions.items():
        if any(is_formula(part.name) for part in nodes_of(func, Intrin)):
            func = Legalize(PLAIN).visit(func)  # a formula of the user's is only a name in it
        parts += [name, structural_hash(func)]
    return cache_key(parts)
