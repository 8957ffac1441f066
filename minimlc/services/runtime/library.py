"""The result of `build`: the compiled functions by name, their source, and their time."""

import os
from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

from minimlc.loops.values.errors import BuildError, CallError, CompileError, did_you_mean
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.parts import Hook
from minimlc.loops.values.target import Target
from minimlc.services.runtime.timing import Timing
from minimlc.services.runtime.timing import time as time_call

C_TEXTS = Hook[Callable[[Mapping[str, Any]], str]]("text in C")
GPU_TEXTS = Hook[Callable[[IRModule], Mapping[str, Callable[[], str]]]]("texts for GPUs")
"""Writers of functions as text: as C, as kernels."""


def _part(name: str) -> Any:
    """A file of the room `deploy`."""
    part = Hook[Any](f"deploy.{name}").first
    if part is None:
        raise CompileError(
            f"this needs minimlc.deploy.{name}, or what it needs, and it is not there"
        )
    return part


class Stored(NamedTuple):
    """A library in the cache: the module as it was linked, stubs included, the entries of its
    object code, its functions' symbols there, and of each primitive function, the name of its code,
    the entry, and whether it works in place.
    """

    mod: IRModule
    entries: tuple[str, ...]
    symbols: Mapping[str, str]
    codes: Mapping[str, tuple[str, str, bool]]


class Library:
    """Compiled functions: `lib["mm"](a, b, c)`.

    `mod` is the module as it was compiled, after all passes, or a function that gives it on demand.
    `checked` is whether its accesses are.
    """

    checked = False

    def __init__(
        self,
        mod: IRModule | Callable[[], IRModule],
        target: Target,
        functions: Mapping[str, Callable[..., Any]],
        sources: Mapping[str, Callable[[], str]],
        stored: Stored | None = None,
    ):
        """`stored` describes the library in the cache."""
        self._mod = mod
        self.target = target
        self._functions = dict(functions)
        self._sources = dict(sources)
        self.stored = stored

    @cached_property
    def mod(self) -> IRModule:
        """The module as it was compiled."""
        return self._mod if isinstance(self._mod, IRModule) else self._mod()

    def of(
        self, mod: Callable[[], IRModule], functions: Mapping[str, Callable[..., Any]]
    ) -> "Library":
        """This library's sources, with other functions, of another module."""
        return type(self)(mod, self.target, functions, self._sources)

    def read_from(self, whole: "Callable[[], Library]") -> "Library":
        """These functions, with the module and the sources of a library that is built when they are
        asked for.
        """
        once = cache(whole)
        sources = {name: partial(lambda text: once().source(text), name) for name in self._sources}
        return type(self)(lambda: once().mod, self.target, self._functions, sources, self.stored)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function `name`; `CompileError` with near misses for an unknown one."""
        self._check_name(name, "a library's function is chosen by its name", "library[{}]")
        function = self._functions.get(name)
        if function is None:
            why = f'the library has no function "{name}"'
            raise CompileError(why, code="E105", hint=did_you_mean(str(name), self._functions))
        return function

    def _check_name(self, name: object, what: str, call: str) -> None:
        """Refuse a name that is not a string; `call` is the right call, with `{}` for a name."""
        if not isinstance(name, str):
            hint = call.format(f'"{next(iter(self._functions), "main")}"')
            raise CallError(f"{what}, got {type(name).__name__}", code="E616", hint=hint)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def names(self) -> tuple[str, ...]:
        """The functions that can be called, in the module's order."""
        return tuple(self._functions)

    def time(self, name: str, *arguments: Any, warmup: int = 3, repeat: int = 20) -> Timing:
        """Time calls of the function `name` as a caller sees them, argument checks included."""
        what = "time: the first argument is the function's name"
        self._check_name(name, what, "library.time({}, ...)")
        return time_call(self[name], *arguments, warmup=warmup, repeat=repeat, name=name)

    def profile(self, name: str, *arguments: Any) -> Any:
        """Where the time of the function `name` goes: its kernels in the order in which they run,
        each with its time, the bytes and operations it takes, and its share of the roofline.

        They run one by one, as often as fits a fraction of a second; an ordinary call knows nothing
        of it. The first profile of a process measures the machine's peaks, for a second or two.
        """
        self._check_name(name, "the first argument is the function's name", "library.profile({})")
        return _part("profile").profile(self, name, arguments)

    def plan(self, name: str, /, **sizes: int) -> Any:
        """The memory plan of the graph function `name`: each value between its kernels with its
        bytes, its first and last use and its place, and how small the whole could be. That of a
        symbolic function is for some `sizes`, by name.
        """
        self._check_name(name, "the argument is the function's name", "library.plan({})")
        return _part("memory").memory_plan(self, name, sizes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the library to one file, which `mlc.load(path)` reads without a compiler: object
        code for its target, constants, and the module as a script. Of a symbolic function, the
        instances that were called are in it, each with its constants.

        A file that is there is replaced at once or not at all. `BuildError` E514 for a library of
        another target than "llvm", and for one that checks accesses; `OSError` where the file
        cannot be written.
        """
        _part("save").save(self, path)

    def source(self, language: str = "") -> str:
        """The generated code: "llvm", "asm" and "c" of a native library, "c" of one in C, "python"
        of a Python one. The first of them if no `language` is given. Any library's functions can be
        read as kernels for GPUs: "cuda", "opencl", "wgsl"."""
        sources = dict(self._sources)
        for texts in GPU_TEXTS:
            sources |= texts(self.mod)
        chosen = language or next(iter(sources))
        if chosen not in sources:
            why = f'a library for target "{self.target.name}" has no source "{language}"'
            raise CompileError(why, code="E105", hint=did_you_mean(language, sources))
        return sources[chosen]()

    def __deepcopy__(self, known: Any) -> "Library":
        return self

    def __reduce__(self) -> Any:
        why, hint = "machine code is not pickled", 'lib.save("net.mlc"), then mlc.load("net.mlc")'
        raise BuildError(why, code="E514", hint=hint)

    def __repr__(self) -> str:
        return f"<library for {self.target.name}: {', '.join(self._functions)}>"
