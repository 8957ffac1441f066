"""A library as one file: its object code, its constants, and its module to read."""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any

import numpy as np

from minimlc.composition import VERSION
from minimlc.deploy.archive import CODE, CONSTANTS, MODULE, file_of, pack, zipped
from minimlc.graphs.ir.nodes import Function
from minimlc.graphs.plan import Plan, plan
from minimlc.loops.ir.arguments import parameters_of
from minimlc.loops.llvm.kernel import backend, machine_of
from minimlc.loops.llvm.value import symbol
from minimlc.loops.printer import named_constants
from minimlc.loops.values.dtypes import dtype_name
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import Node
from minimlc.services.native.entry import entry_symbol
from minimlc.services.native.native import is_threaded
from minimlc.services.runtime.executable import functions_of
from minimlc.services.runtime.files import write_atomically
from minimlc.services.runtime.library import Library
from minimlc.services.runtime.records import plan_record, signature_record
from minimlc.services.sizes.kernels import HalvedGraph
from minimlc.services.sizes.symbolic_graphs import is_family

READABLE = 0o644
"""All may read a library's file, its owner may write it."""


def save(library: Library, path: str | os.PathLike[str]) -> None:
    """Write a library to one file; see `Library.save`."""
    file = file_of(path, "library.save")
    write_atomically(file, _packed(library), mode=READABLE)


def _packed(library: Library) -> bytes:
    """The bytes of the file; instances of symbolic functions are members of it."""
    if library.target.name != "llvm":
        why = f'a library for target "{library.target.name}" cannot be saved'
        raise BuildError(why, code="E514", hint='build(mod, "llvm")')
    if library.checked:
        hint = 'build(mod), without bounds="check"'
        raise BuildError("a library with checked accesses cannot be saved", code="E514", hint=hint)
    mod, text = library.mod, library.source("llvm")
    compiled = {name: mod[name] for name in library.names()}
    plans = {
        name: plan(mod, name, in_place=True)
        for name, func in compiled.items()
        if isinstance(func, Function) and not is_family(func)
    }
    _check_steps(plans)
    instances = {name: _instances(library[name]) for name, f in compiled.items() if is_family(f)}
    arrays = _arrays(mod, plans)
    members = {
        CODE: backend().compile_object(text, machine_of(library.target)),
        CONSTANTS: zipped({f"{name}.npy": _npy(data) for name, data in arrays.items()}),
        MODULE: mod.script().encode(),
        **{
            f"{name}/{at}": _packed(instance)
            for name, libraries in instances.items()
            for at, (_, instance) in enumerate(libraries)
        },
    }
    manifest = {
        **_machine(library, text),
        "dtypes": {name: dtype_name(data.dtype) for name, data in arrays.items()},
        "functions": _functions(compiled, plans, {id(data): name for name, data in arrays.items()}),
        "instances": {name: [key for key, _ in pairs] for name, pairs in instances.items()},
    }
    return pack(manifest, members)


def _instances(function: Any) -> list[tuple[Sequence[int] | None, Library]]:
    """The libraries of a symbolic function by sizes; None for the part before data-dependent sizes
    are known.
    """
    if isinstance(function, HalvedGraph):
        return [(None, function.head), *_instances(function.tail)]
    return list(function.libraries.items())


def _check_steps(plans: dict[str, Plan]) -> None:
    """Refuse conditions and loops that reach Python."""
    for name, steps in plans.items():
        if any(step.call and not step.inner for step in steps.steps):
            why = f"{name} has a condition or loop that calls a registered function"
            raise BuildError(f"{why}: it cannot be saved", code="E514")


def _machine(library: Library, text: str) -> dict[str, Any]:
    """Requirements of the code on a machine."""
    return {
        "minimlc": VERSION,
        "triple": import_module("llvmlite.binding").get_process_triple(),
        "target": asdict(library.target),
        "threads": is_threaded(functions_of(library.mod)),
        "tiles": "llvm.x86.ldtilecfg" in text,
    }


def _arrays(mod: IRModule, plans: dict[str, Plan]) -> dict[str, np.ndarray]:
    """Constants by name: the script's, then small ones, which have no name there."""
    arrays = named_constants(mod)
    known = {id(data) for data in arrays.values()}
    small = {id(data): data for steps in plans.values() for data in steps.constants}
    rest = (data for key, data in small.items() if key not in known)
    return {**arrays, **{f"small{number}": data for number, data in enumerate(rest)}}


def _npy(data: np.ndarray) -> bytes:
    """An array in numpy's format; of a dtype that numpy does not have, the bits."""
    memory = io.BytesIO()
    plain = data if data.dtype.kind in "biuf" else data.view(f"u{data.dtype.itemsize}")
    np.lib.format.write_array(memory, plain, allow_pickle=False)
    return memory.getvalue()


def _functions(mod: Mapping[str, Node], plans: dict[str, Plan], names: dict[int, str]) -> list[Any]:
    """Each function's name, its symbol in the code ("": it has none), and how it is called."""
    records: list[Any] = []
    for name, func in mod.items():
        if is_family(func):
            records.append({"name": name, "symbol": ""})
        elif isinstance(func, Function):
            entry = entry_symbol(name) if plans[name].native else ""
            how = {**signature_record(func), "plan": plan_record(plans[name], names)}
            records.append({"name": name, "symbol": entry, **how})
        else:
            parameters = [list(item) for item in parameters_of(func)]  # type: ignore[arg-type]
            records.append({"name": name, "symbol": symbol(name), "parameters": parameters})
    return records
