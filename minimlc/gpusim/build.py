"""Target "gpusim": kernels run by numpy, all threads at once."""

from typing import Any

from minimlc.gpusim.launch import launch, profiled
from minimlc.gpusim.profile import Profile
from minimlc.loops.ir.arguments import Arguments, parameters_of
from minimlc.loops.ir.nodes import Seq, Stmt
from minimlc.loops.schedule.tree import replaced_in
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import nodes_of
from minimlc.loops.values.target import Target
from minimlc.services.runtime.executable import SteppedGraph, functions_of, library
from minimlc.services.runtime.library import Library
from minimlc.targets.gpu.kernels import Barrier, Launches, kernels
from minimlc.targets.gpu.limits import CUDA_MOST, check_limits


class Simulated:
    """A primitive function whose kernels are simulated: call it with arrays."""

    def __init__(self, name: str, launches: Launches):
        self.__name__ = name
        self.launches = launches
        self._arguments = Arguments(name, parameters_of(launches.func))

    def __call__(self, *arrays: Any, **named: Any) -> None:
        shared, _ = self._arguments.check(arrays, named)
        launch(self.launches, shared)

    def __repr__(self) -> str:
        return f"<simulated {self._arguments.signature}>"


class Simulator(Library):
    """A library whose functions are simulated, and can be profiled."""

    def profile(self, name: str, *arguments: Any) -> Profile:
        """Call the function `name`, and count what its kernels do: by statement and line, the
        instructions, the memory transactions, and the threads that sit idle.
        """
        return Profile(name, profiled(self[name], *arguments))

    def without_barrier(self, name: str, number: int = 0) -> Simulated:
        """The primitive function `name` less a barrier, counted from 0 in the text of its kernels:
        a call raises `RaceError` if that barrier is needed. `CompileError` where there is none.
        """
        launches: Launches | None = getattr(self[name], "launches", None)
        parts = launches.kernels if launches else ()
        barriers = [barrier for part in parts for barrier in nodes_of(part.body, Barrier)]
        if launches is None or not 0 <= number < len(barriers):
            why = f"{name} has {len(barriers)} barriers; number {number} is not there"
            raise CompileError(why, code="E105")
        gone: dict[Stmt, Stmt | None] = {barriers[number]: Seq(())}
        parts = tuple(part._replace(body=replaced_in(part.body, gone)) for part in parts)
        return Simulated(name, launches._replace(kernels=parts))


def build(module: IRModule, target: Target, check: bool, cache: bool) -> Library:
    """The library of a module without operators. Accesses are always checked, nothing is cached.
    `BuildError` E510 for a kernel that no CUDA device can launch.
    """
    functions = {}
    for name, func in functions_of(module).items():
        functions[name] = Simulated(name, kernels(name, func, shuffles=True))
        for kernel in functions[name].launches.kernels:
            check_limits(kernel, CUDA_MOST)
    return library(module, target, functions, SteppedGraph, {}, Simulator)
