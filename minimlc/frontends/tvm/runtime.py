"""`tvm.runtime`: compiled modules, their calls and timings, and Python functions by name."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from minimlc.frontends.tvm import nd
from minimlc.frontends.tvm.absent import absent
from minimlc.graphs.ir import registry
from minimlc.services.runtime.library import Library
from minimlc.services.runtime.timing import Timing, time

NDArray, Tensor, Device = nd.NDArray, nd.NDArray, nd.Device
device, ndarray, tensor = nd.device, nd, nd.array


class Module:
    """A library; called as itself, it is the first of its functions. `symbols` are other names of
    functions: their global symbols.
    """

    def __init__(self, library: Library, symbols: Mapping[str, str] = {}):
        self.library, self.symbols = library, symbols

    def _function(self, name: str) -> Callable[..., Any]:
        known = name in self.library.names()
        return self.library[name if known else self.symbols.get(name, name)]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        function = self._function(name)
        return lambda *arrays: nd.wrapped(function(*arrays))

    def __call__(self, *arrays: Any) -> Any:
        return self[self.entry_name](*arrays)

    entry_name = property(lambda self: self.library.names()[0])
    """The name of the function that a call of the module itself means."""
    mod = property(lambda self: self)
    """The module, which is all that there is of an executable."""
    imported_modules = property(lambda self: [self])
    """The modules of devices: all code is in one."""

    def time_evaluator(
        self, func_name: str, dev: Any = None, number: int = 10, repeat: int = 1, **_: Any
    ) -> Callable[..., Timing]:
        """A timer of calls of a function: `repeat` samples, each of calls enough to measure."""
        return partial(time, self._function(func_name), warmup=1, repeat=repeat)

    evaluator = time_evaluator

    def get_source(self, language: str = "") -> str:
        """The generated code: "llvm", "asm" or "c"."""
        return self.library.source(language)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return absent(f"tvm.runtime.Module.{name}", vars(Module))


class VirtualMachine(Module):
    """The runner of graph functions: here they are compiled as everything else."""

    def __init__(self, executable: Module, device: Any = None, memory_cfg: Any = None):
        super().__init__(executable.library, executable.symbols)
        self.module = executable


def register_func(name: Any, func: Any = None, override: bool = False) -> Any:
    """Make a Python function of arrays callable from scripts; also a decorator."""
    if callable(name):
        return register_func(name.__name__, name)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arrays: Any) -> Any:
            return function(*map(nd.wrapped, arrays))

        registry.register_func(name, call, override=override)
        return function

    return register if func is None else register(func)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The function registered as `name`; None for an unknown one, if that is allowed."""
    missing = allow_missing and name not in registry.registered()
    return None if missing else registry.get_function(name)


register_global_func = register_func
