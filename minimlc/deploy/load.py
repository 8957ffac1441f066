"""A library from its file: linked and ready, without anything that writes code."""

import io
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from minimlc.deploy.archive import CODE, CONSTANTS, FAULTS, MODULE, damaged, file_of, unpack
from minimlc.loops.llvm.kernel import link
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.parts import Hook
from minimlc.loops.values.target import Target
from minimlc.machine.trial import tiles_permitted
from minimlc.script import parse
from minimlc.services.runtime.foreign import missing_features
from minimlc.services.runtime.library import Library
from minimlc.services.runtime.memory import on_a_line
from minimlc.services.runtime.records import restored
from minimlc.services.sizes.kernels import family
from minimlc.services.threads.parallel import symbols

BUILDING = Hook[Any]("building")
"""`build`, which is imported where something is built anew."""


def load(path: str | os.PathLike[str]) -> Library:
    """The library that `library.save(path)` wrote.

    **A library file is code.** Calling its functions runs what is in it, with all that this process
    may do: load a file only from somebody you trust. Its digests tell a damaged file from a whole
    one, not a bad one from a good one.

    Nothing of it is compiled. `library.mod` is read when it is asked for, or at once where it has
    symbolic functions. Such a function has the instances that were called before it was saved;
    another is compiled at its first call, as of `build(library.mod, library.target)`.

    `BuildError` E512 for what is not a library file, or a damaged one; E513 for one of another
    format, or for a machine with features that this one lacks; `OSError` where the file cannot be
    read.
    """
    file = file_of(path, "mlc.load")
    return _loaded(file.read_bytes(), file.name)


def _loaded(data: bytes, name: str) -> Library:
    manifest, members = unpack(data, name)
    try:
        target = Target(**manifest["target"])
        _check_machine(name, manifest, target)
        arrays = _arrays(members[CONSTANTS], manifest["dtypes"])
        return _library(manifest, target, members, arrays)
    except FAULTS as error:
        why = f"{name} is not a library file of this format: {type(error).__name__}: {error}"
        raise damaged(why) from error


def _check_machine(name: str, manifest: Mapping[str, Any], target: Target) -> None:
    """Refuse code that this machine cannot run: it would end the process."""
    here = import_module("llvmlite.binding").get_process_triple()
    if manifest["triple"] != here:
        raise _foreign(f"{name} has code for {manifest['triple']}, this process is {here}")
    missing = missing_features(target)
    if missing:
        lacking = ", ".join(missing[:6]) + (", …" if len(missing) > 6 else "")
        raise _foreign(f'{name} has code for the CPU "{target.cpu}"; the one here lacks {lacking}')
    if manifest["tiles"] and not tiles_permitted():
        raise _foreign(f"{name} needs tile registers (AMX), and the system forbids them")


def _foreign(why: str) -> BuildError:
    hint = 'mlc.build(mod, mlc.Target("llvm", "x86-64-v3")) makes code for most x86 machines'
    return BuildError(why, code="E513", hint=hint)


def _arrays(data: bytes, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The constants, read-only; of a dtype that numpy does not have, from their bits."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {
            name: on_a_line(file[name].view(to_numpy(dtype))) for name, dtype in dtypes.items()
        }
    for array in arrays.values():
        array.setflags(write=False)
    return arrays


def _library(
    manifest: Mapping[str, Any],
    target: Target,
    members: Mapping[str, bytes],
    arrays: Mapping[str, np.ndarray],
) -> Library:
    records = manifest["functions"]
    exports = [record["symbol"] for record in records if record["symbol"]]
    imports = symbols() if manifest["threads"] else {}
    native = link([members[CODE]], exports, imports)
    text = members[MODULE].decode()
    mod: Any = partial(parse, text, arrays)
    families = manifest["instances"]
    mod = mod() if families else mod
    functions: dict[str, Callable[..., Any]] = {}
    for name, sizes in families.items():
        functions[name] = _family(name, mod, target, sizes, members)
    for record in sorted(records, key=lambda record: "plan" in record):
        if record["name"] not in families:
            functions[record["name"]] = restored(record, native, arrays, functions)
    ordered = {record["name"]: functions[record["name"]] for record in records}
    rebuilt = partial(_rebuilt, mod if callable(mod) else lambda: mod, target)
    return Library(mod, target, ordered, {"llvm": rebuilt})


def _family(
    name: str,
    mod: IRModule,
    target: Target,
    sizes: Sequence[Sequence[int] | None],
    members: Mapping[str, bytes],
) -> Callable[..., Any]:
    """A symbolic function with the instances that are there."""
    building: Any = BUILDING.first
    libraries = {
        None if key is None else tuple(key): _loaded(members[f"{name}/{at}"], f"{name}/{at}")
        for at, key in enumerate(sizes)
    }
    again = partial(building.build, target=target)
    return family(name, mod, again, again, libraries)


def _rebuilt(mod: Callable[[], IRModule], target: Target) -> str:
    """LLVM's text, written anew: the file has object code alone."""
    building: Any = BUILDING.first
    library: Library = building.build(mod(), target)
    return library.source("llvm")
