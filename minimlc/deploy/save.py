"""A library as one file: its object code, its constants, and its module to read."""

import io
import os
from dataclasses import asdict
from importlib import import_module
from typing import Any

import numpy as np

from minimlc.arguments import parameters_of
from minimlc.codegen.llvm.entry import entry_symbol, symbol
from minimlc.deploy.archive import CODE, CONSTANTS, MODULE, pack, path_of, zipped
from minimlc.dtypes import dtype_name
from minimlc.errors import BuildError
from minimlc.files import write_atomically
from minimlc.graph.nodes import Function
from minimlc.graph.symbolic import is_family
from minimlc.module import IRModule
from minimlc.printer import named_constants
from minimlc.runtime.executable import functions_of
from minimlc.runtime.library import Library
from minimlc.runtime.native import backend, is_threaded, machine_of
from minimlc.runtime.plan import Plan, plan
from minimlc.runtime.records import plan_record, signature_record

READABLE = 0o644
"""All may read a library's file, its owner may write it."""


def save(library: Library, path: str | os.PathLike[str]) -> None:
    """Write a library to one file; see `Library.save`."""
    file = path_of(path, "library.save")
    _check(library)
    text = library.source("llvm")
    if "ptr %error" in text:
        hint = 'build(mod), without bounds="check"'
        raise BuildError("a library with checked accesses cannot be saved", code="E514", hint=hint)
    mod = library.mod
    plans = {
        name: plan(mod, name, in_place=True)
        for name, func in mod.entries
        if isinstance(func, Function)
    }
    _check_steps(plans)
    arrays = _arrays(mod, plans)
    members = {
        CODE: backend().compile_object(text, machine_of(library.target)),
        CONSTANTS: zipped({f"{name}.npy": _npy(data) for name, data in arrays.items()}),
        MODULE: mod.script(constants="names").encode(),
    }
    manifest = {
        **_machine(library, text),
        "dtypes": {name: dtype_name(data.dtype) for name, data in arrays.items()},
        "functions": _functions(mod, plans, {id(data): name for name, data in arrays.items()}),
    }
    write_atomically(file, pack(manifest, members), mode=READABLE)


def _check(library: Library) -> None:
    """Refuse a library whose functions are not all machine code."""
    if library.target.name != "llvm":
        why = f'a library for target "{library.target.name}" cannot be saved'
        raise BuildError(why, code="E514", hint='build(mod, "llvm")')
    symbolic = [name for name, func in library.mod.entries if is_family(func)]
    if symbolic:
        why = f"{symbolic[0]} is compiled at its calls, which tell its sizes: it cannot be saved"
        raise BuildError(why, code="E514", hint="mlc.specialize(mod, n=128), and build that")


def _check_steps(plans: dict[str, Plan]) -> None:
    """Refuse conditions and loops that reach Python."""
    for name, steps in plans.items():
        if any(step.call and not step.inner for step in steps.steps):
            why = f"{name} has a condition or loop that calls a registered function"
            raise BuildError(f"{why}: it cannot be saved", code="E514")


def _machine(library: Library, text: str) -> dict[str, Any]:
    """What the code needs of a machine."""
    return {
        "minimlc": import_module("minimlc").__version__,
        "triple": import_module("llvmlite.binding").get_process_triple(),
        "target": asdict(library.target),
        "threads": is_threaded(functions_of(library.mod)),
        "tiles": "llvm.x86.ldtilecfg" in text,
    }


def _arrays(mod: IRModule, plans: dict[str, Plan]) -> dict[str, np.ndarray]:
    """Constants by name: those of the script, then small ones, which have none there."""
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


def _functions(mod: IRModule, plans: dict[str, Plan], names: dict[int, str]) -> list[Any]:
    """Each function's name, its symbol in the code ("": it has none), and how it is called."""
    records: list[Any] = []
    for name, func in mod.entries:
        if isinstance(func, Function):
            entry = entry_symbol(name) if plans[name].native else ""
            how = {**signature_record(func), "plan": plan_record(plans[name], names)}
            records.append({"name": name, "symbol": entry, **how})
        else:
            parameters = [list(each) for each in parameters_of(func)]  # type: ignore[arg-type]
            records.append({"name": name, "symbol": symbol(name), "parameters": parameters})
    return records
