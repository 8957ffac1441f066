"""Cache entries of whole builds: a module with operators is built again without running a pass.

An entry holds the functions' names and parameters, the keys of their object code, and the origin
of each constant: one of the module's, a copy of such a one (`runtime.copies`), or small and written
out. The entry's name is made from all that decides it: the module with its names and constants,
the target, and the source of all that compiles.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from math import prod
from threading import Thread
from typing import Any

import numpy as np

from minimlc.graphs.ir.nodes import Constant, Function
from minimlc.loops.ir.arguments import parameters_of
from minimlc.loops.ir.intrinsics import is_formula
from minimlc.loops.ir.nodes import Block, Intrin, PrimFunc
from minimlc.loops.llvm.kernel import link, surroundings
from minimlc.loops.lower.dialect import PLAIN, Legalize
from minimlc.loops.values.contents import KNOWN, digest_of, is_frozen
from minimlc.loops.values.dtypes import dtype_name, to_numpy
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import Node, nodes_of, structural_hash, walk
from minimlc.loops.values.target import Target
from minimlc.services.native.native import is_threaded
from minimlc.services.passes.pack_constants import ORIGINS, copied
from minimlc.services.runtime.cache import cache_key, load_entry, store_entry
from minimlc.services.runtime.copies import Copy, copy_from
from minimlc.services.runtime.executable import NativeGraph, functions_of
from minimlc.services.runtime.library import C_TEXTS, Library
from minimlc.services.runtime.memory import on_a_line
from minimlc.services.runtime.records import plan_record, restored, signature_record
from minimlc.services.threads.parallel import symbols

MOST_BYTES = 1 << 20
"""The most bytes of written-out constants, which passes computed from others."""

LARGE = 1 << 18
"""Bytes of an array that is worth a thread."""

FAULTS = (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError)
"""Exceptions that reading a malformed entry may raise."""


def kept(mod: IRModule, target: Target, how: str, build: Callable[[], Library]) -> Library:
    """The library that `build` gives, from the cache where it is there. `how` is all else that
    decides the library. `mod` need not be well-formed: an entry comes from an equal module that is.
    A module with a constant that may change is not cached.
    """
    if not all(is_frozen(constant.data) for constant in constants_of(mod)):
        return build()
    key = key_of(mod, target, how)
    library = _from_entry(key, mod, target, build)
    if library is None:
        library = build()
        _store(key, mod, library)
    return library


def key_of(mod: IRModule, target: Target, how: str) -> str:
    """The name of a module's entry, made from its meaning and all names that a user may see."""
    read_together(constant.data for constant in constants_of(mod))
    plain = {name: without_formulas(func) for name, func in mod.entries}
    names = [str(getattr(part, "name", "")) for part in walk(mod) if part._symbol]
    parts = [structural_hash(mod.with_functions(plain)), json.dumps(names)]
    return cache_key([*parts, json.dumps(asdict(target)), how, *surroundings()])


def read_together(arrays: Iterable[np.ndarray]) -> None:
    """Compute the digests of large arrays side by side; `digest_of` knows them then."""
    large = {id(a): a for a in arrays if a.nbytes >= LARGE and id(a) not in KNOWN}
    here, there = [*large.values()][::2], [*large.values()][1::2]
    if there:
        with suppress(RuntimeError):  # no thread can be started
            thread = Thread(target=lambda: [*map(digest_of, there)])
            thread.start()
            for array in here:
                digest_of(array)
            thread.join()


def without_formulas(func: Node) -> Node:
    """A primitive function with the user's formulas written out: in it, they are only names."""
    parts = nodes_of(func, Intrin) if isinstance(func, PrimFunc) else []
    return Legalize(PLAIN).visit(func) if any(is_formula(p.name) for p in parts) else func


def constants_of(mod: IRModule) -> list[Constant]:
    """The constants of the graph functions, in order."""
    graphs = [func for _, func in mod.entries if isinstance(func, Function)]
    return [constant for func in graphs for constant in nodes_of(func, Constant)]


def _store(key: str, mod: IRModule, library: Library) -> None:
    """Write an entry, where the library is native code that does not depend on trials of units."""
    if library.stored is None:
        return
    after, entries, symbols, _ = library.stored
    kernels = functions_of(after)
    graphs = [name for name, func in after.entries if isinstance(func, Function)]
    calls = {name: call for name in graphs if isinstance(call := library[name], NativeGraph)}
    if len(calls) < len(graphs) or any(map(has_units, kernels.values())):
        return
    plans = {name: graph.plan for name, graph in calls.items()}
    arrays = {id(data): data for plan in plans.values() for data in plan.constants}
    places = {number: str(at) for at, number in enumerate(arrays)}
    origins = _Origins(mod, after)
    records = [origins.record(data) for data in arrays.values()]
    if len(origins.written) > MOST_BYTES:
        return
    functions: list[Any] = []
    for name, func in after.entries:
        if isinstance(func, Function):
            about = {**signature_record(func), "plan": plan_record(plans[name], places)}
            functions.append({"name": name, "symbol": symbols[name], **about})
        elif isinstance(func, PrimFunc):
            parameters = [list(parameter) for parameter in parameters_of(func)]
            functions.append({"name": name, "symbol": symbols[name], "parameters": parameters})
    record = {
        "functions": functions,
        "constants": records,
        "threads": is_threaded(kernels),
        "code": list(entries),
    }
    store_entry(key, record, bytes(origins.written))


def has_units(func: PrimFunc) -> bool:
    blocks = nodes_of(func, Block)
    return any("tensor_intrin" in dict(block.annotations) for block in blocks)


class _Origins:
    """Where the constants of a library come from."""

    def __init__(self, before: IRModule, after: IRModule):
        self.numbers = {id(constant.data): at for at, constant in enumerate(constants_of(before))}
        self.nodes = {id(constant.data): constant for constant in constants_of(after)}
        self.written = bytearray()

    def record(self, data: np.ndarray) -> list[Any]:
        """[number of the module's constant, its successive copies], or [dtype, shape] of one that
        is written out, in this order.
        """
        node, copies = self.nodes.get(id(data)), list[Copy]()
        while node is not None and node in ORIGINS:
            node, copy = ORIGINS[node]
            copies.insert(0, copy)
        number = self.numbers.get(id(data if node is None else node.data))
        if number is not None:
            return [number, copies]
        self.written += data.tobytes()
        return [dtype_name(data.dtype), list(data.shape)]


def _from_entry(
    key: str, mod: IRModule, target: Target, build: Callable[[], Library]
) -> Library | None:
    """The library of an entry; None where there is no sound one."""
    entry = load_entry(key)
    if entry is None:
        return None
    record, written = entry
    try:
        codes = [load_entry(name) for name in record["code"]]
        arrays = dict(enumerate(_arrays(record["constants"], mod, written)))
        return _library(record, [c[1] for c in codes if c], len(codes), arrays, target, build)
    except FAULTS:
        return None


def _library(
    record: Mapping[str, Any],
    codes: list[bytes],
    count: int,
    arrays: Mapping[int, np.ndarray],
    target: Target,
    build: Callable[[], Library],
) -> Library:
    if len(codes) != count or not record["functions"]:
        raise KeyError("code is missing")
    exports = [func["symbol"] for func in record["functions"]]
    imports = symbols() if record["threads"] else {}
    native = link(codes, exports, imports)
    named = {str(at): data for at, data in arrays.items()}
    functions = {func["name"]: restored(func, native, named, {}) for func in record["functions"]}
    texts = ("llvm", "asm", *(("c",) if C_TEXTS.is_filled else ()))
    return Library(IRModule(), target, functions, dict.fromkeys(texts, str)).read_from(build)


def _arrays(records: list[Any], mod: IRModule, written: bytes) -> Iterator[np.ndarray]:
    """The constants, read-only."""
    given, start = constants_of(mod), 0
    for first, rest in records:
        if isinstance(first, int):
            data = given[first].data
            for copy in rest:
                data = copied(data, copy_from(copy))
        else:
            dtype = to_numpy(first)
            data = on_a_line(np.frombuffer(written, dtype, prod(rest), start).reshape(rest))
            start += data.nbytes
            data.setflags(write=False)
        yield data
