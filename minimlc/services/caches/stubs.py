"""Functions that were scheduled and compiled before: a stub stands for each in the module, so that
no recipe looks at it and nothing is proved again.

An entry's name is made from the function before it has a schedule, from which of its arguments are
constants, and from the target. It has the copies of constants made ahead, the results that may be
written over arguments, and the names of its code.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from minimlc.graphs.ir.nodes import Call, Constant, Function
from minimlc.graphs.mutator import is_primitive
from minimlc.graphs.passes import fuse_tir, scheduling
from minimlc.graphs.passes.fuse_tir import inline_elements, join_groups
from minimlc.loops.ir.nodes import PrimFunc, Store, seq, store
from minimlc.loops.llvm.kernel import surroundings
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.module import IRModule, Pass, pass_name, run_passes
from minimlc.loops.values.node import nodes_of, replace, structural_hash
from minimlc.loops.values.target import Target
from minimlc.services.caches.kept import FAULTS, has_units, without_formulas
from minimlc.services.native.in_place import joined, shares, sharing, views
from minimlc.services.native.native import Jobs, MissingCode, Unit, code_name, compiler, is_threaded
from minimlc.services.passes.pack_constants import Packs, pack_constants, packed
from minimlc.services.runtime.cache import Entries, cache_key
from minimlc.services.runtime.copies import READY, Copy, Ready, copy_from
from minimlc.services.runtime.library import Library, Stored

Linked = Callable[[IRModule, Jobs | None], Library]
"""The library of a module of loops and calls, by code some of which is being compiled."""


def with_stubs(
    mod: IRModule, target: Target, steps: Sequence[Pass], link: Linked, entries: Entries
) -> Library:
    """The library of a module by the passes `steps`; functions that `entries` have skip the passes
    from schedules on.
    """
    joins = [at for at, step in enumerate(steps) if step is fuse_tir]
    first = next(at for at, step in enumerate(steps) if _schedules(step))
    mod = run_passes(mod, steps[: joins[0] if joins else first])
    groups = {name for name, func in mod.entries if is_primitive(func)}
    if joins:
        mod = run_passes(join_groups(mod), steps[joins[0] + 1 : first])
    keys = _keys(mod, target, " ".join(map(pass_name, steps)))
    work = _Work(mod, groups, keys, target, link, entries)
    found = {name: _stub(mod[name], key, entries) for name, key in keys.items()}
    stubs = {name: stub for name, stub in found.items() if stub is not None}
    try:
        return _finished(work, stubs, steps[first:])
    except MissingCode:  # an entry was left out, or one of a function in place is not there yet
        return _finished(work, {}, steps[first:])


class _Work(NamedTuple):
    """A module whose `groups` are joined and not yet simplified, and what is to be done with it;
    `keys` are the names of its `entries`.
    """

    mod: IRModule
    groups: set[str]
    keys: Mapping[str, str]
    target: Target
    link: Linked
    entries: Entries

    def simplified(self, name: str, func: Any) -> Any:
        """A function as `fuse_tir` gives it."""
        return inline_elements(func) if name in self.groups and func not in READY else func


def _schedules(step: Pass) -> bool:
    return getattr(step, "func", step) in (*scheduling, pack_constants)


def _keys(mod: IRModule, target: Target, how: str) -> dict[str, str]:
    """The entry's name for each primitive function all of whose calls have constants at the same
    places.
    """
    about = [json.dumps(asdict(target)), how, *surroundings()]
    places: dict[str, set[frozenset[int]]] = {}
    for call in _calls(mod):
        places.setdefault(call.callee, set()).add(_constants(call))
    keys = {}
    for name, func in mod.entries:
        if isinstance(func, PrimFunc) and len(places.get(name, ())) == 1:
            what = [structural_hash(without_formulas(func)), str(sorted(*places[name]))]
            keys[name] = cache_key(["stub", *what, *about])
    return keys


def _calls(mod: IRModule) -> list[Call]:
    graphs = [func for _, func in mod.entries if isinstance(func, Function)]
    return [call for func in graphs for call in nodes_of(func, Call) if call.op == "call_tir"]


def _constants(call: Call) -> frozenset[int]:
    return frozenset(at for at, arg in enumerate(call.args) if isinstance(arg, Constant))


def _stub(func: Any, key: str, entries: Entries) -> PrimFunc | None:
    """The stub for a function that the cache has, which only stores to the same parameters; None
    where there is no sound entry.
    """
    entry = entries.load(key)
    if entry is None or any(0 in param.shape for param in func.params):
        return None
    try:
        ready = _ready_from(entry[0])
        written = [func.params[at] for at in entry[0]["written"]]
    except FAULTS:
        return None
    body = seq([store(param, (0,) * len(param.shape), 0) for param in written])
    attrs = (*func.attrs, ("scheduled", True), ("stub", key))
    stub = replace(func, allocs=(), body=body, attrs=attrs)
    READY[stub] = ready
    return stub


def _ready_from(record: Mapping[str, Any]) -> Ready:
    copies = [(int(at), str(name), copy_from(copy)) for at, name, copy in record["copies"]]
    shares = frozenset([(int(a), int(b)) for a, b in record["shares"]])
    codes = {key == "in place": (str(a), str(b)) for key, (a, b) in record["codes"].items()}
    parts = [tuple([int(start) for start in record[key]]) for key in ("views", "joined")]
    return Ready(tuple(copies), shares, codes, bool(record["threaded"]), *parts)


def _finished(work: _Work, stubs: Mapping[str, PrimFunc], steps: Sequence[Pass]) -> Library:
    """The library, with an entry for each function that had none."""
    link = work.link
    jobs, packs = Jobs(), Packs()

    def start(func: PrimFunc, places: frozenset[int]) -> None:
        _start(packed(func, places, packs)[0], work, pool, jobs)

    with compiler() as pool:
        mod = work.mod.with_functions({**work.mod.functions, **stubs})
        mod = _scheduled(work, mod, steps[0], start)
        names = {func: name for name, func in mod.entries if isinstance(func, PrimFunc)}
        rest = [partial(step, known=packs) if step is pack_constants else step for step in steps]
        library = link(verify(run_passes(mod, rest[1:])), jobs)
    if library.stored is not None:
        _store(library.stored, names, work, packs)
    if not stubs:
        return library

    def whole() -> Library:
        functions = {name: work.simplified(name, func) for name, func in work.mod.entries}
        mod = run_passes(work.mod.with_functions(functions), steps)
        return link(verify(mod), {})

    return library.read_from(whole)


def _scheduled(
    work: _Work, mod: IRModule, step: Pass, start: Callable[[PrimFunc, frozenset[int]], None]
) -> IRModule:
    """The module after its first step, which takes one function after the other: what is to be
    compiled is handed to `start` as soon as it is known.
    """
    graphs = {name: func for name, func in mod.entries if isinstance(func, Function)}
    places = {call.callee: _constants(call) for call in _calls(mod)}
    functions = dict(mod.functions)
    for name, func in mod.entries:
        functions[name] = func = work.simplified(name, func)
        if isinstance(func, PrimFunc) and func not in READY and name in work.keys:
            new = step(mod.with_functions({**graphs, name: func}))[name]
            assert isinstance(new, PrimFunc)
            functions[name] = new
            start(new, places[name])
    return run_passes(mod.with_functions(functions), [step])


def _start(func: PrimFunc, work: _Work, pool: ThreadPoolExecutor, jobs: Jobs) -> None:
    """Have a thread compile a function: where it may work in place, as one that does. Mostly it
    will; the plan, which decides, comes after all schedules.
    """
    if has_units(func):
        return
    if shares(func):
        func = sharing(func)
    unit = Unit({code_name(func, work.target): func})
    key = unit.key(work.target)
    if key not in jobs and work.entries.load(key) is None:
        jobs[key] = unit.compiled(work.target, pool)


def _store(stored: Stored, names: Mapping[PrimFunc, str], work: _Work, packs: Packs) -> None:
    origins = {new: (old, copies) for (old, _), (new, copies) in packs.items()}
    entries = []
    for name, func in stored.mod.entries:
        if not isinstance(func, PrimFunc) or func in READY or has_units(func):
            continue
        before, copies = origins.get(func, (func, []))
        key = work.keys.get(names.get(before, ""))
        if key is None or not all(isinstance(copy, Copy) for _, copy in copies):
            continue
        known = (work.entries.load(key) or ({},))[0].get("codes")
        entries.append((key, _record(known, func, copies, stored.codes[name]), b""))
    work.entries.store(entries)


def _record(
    known: Any,
    func: PrimFunc,
    copies: Sequence[tuple[int, Any]],
    code: tuple[str, str, bool],
) -> dict[str, Any]:
    stored = {part.buffer for part in nodes_of(func.body, Store)}
    written = [at for at, param in enumerate(func.params) if param in stored]
    alias, key, in_place = code
    known = known if isinstance(known, dict) else {}
    return {
        "copies": [(at, func.params[at].name, copy) for at, copy in copies],
        "shares": shares(func),
        "views": views(func),
        "joined": joined(func),
        "codes": {**known, "in place" if in_place else "": (alias, key)},
        "threaded": is_threaded({"": func}),
        "written": written,
    }
