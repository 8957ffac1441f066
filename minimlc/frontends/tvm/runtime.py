"""`tvm.runtime`: what is built, how it is called and timed, and Python functions by name."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from minimlc import registry
from minimlc.frontends.tvm import nd
from minimlc.frontends.tvm.absent import absent
from minimlc.runtime.library import Library
from minimlc.runtime.timing import Timing, time

NDArray = Tensor = nd.NDArray
Device = nd.Device
device, ndarray, tensor = nd.device, nd, nd.array


class Module:
    """A library; called as itself, it is the first of its functions."""

    def __init__(self, library: Library):
        self.library = library

    def __getitem__(self, name: str) -> Callable[..., Any]:
        function = self.library[name]
        return lambda *arrays: nd.wrapped(function(*arrays))

    def __call__(self, *arrays: Any) -> Any:
        return self[self.library.names()[0]](*arrays)

    def time_evaluator(
        self,
        func_name: str,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
    ) -> Callable[..., Timing]:
        """What times calls of a function: `repeat` samples, each of calls enough to measure."""
        return partial(time, self.library[func_name], warmup=1, repeat=repeat)

    evaluator = time_evaluator

    def get_source(self, language: str = "") -> str:
        """The generated code: "llvm", "asm" or "c"."""
        return self.library.source(language)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return absent(f"tvm.runtime.Module.{name}", vars(Module))


class VirtualMachine(Module):
    """What runs graph functions: here they are compiled as everything else."""

    def __init__(self, executable: Module, device: Any = None, memory_cfg: Any = None):
        super().__init__(executable.library)
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


get_global_func = registry.get_function
register_global_func = register_func
