"""Functions of symbolic sizes that are called: an instance for each choice of them, built at its
first call.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import Any

from minimlc.graphs.execute import execute
from minimlc.graphs.ir.nodes import Constant, Function, TensorType, Type, size_names, tensor_types
from minimlc.graphs.run import flatten
from minimlc.loops.interpreter.run import owned
from minimlc.loops.ir.arguments import Arguments, parameters_of
from minimlc.loops.ir.nodes import SymbolicFunc
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.errors import CallError, ManySizes
from minimlc.loops.values.module import IRModule
from minimlc.services.runtime.library import Library
from minimlc.services.sizes.families import types_of
from minimlc.services.sizes.specialize import instance_for, instance_of
from minimlc.services.sizes.symbolic_graphs import (
    Halves,
    equations,
    halves,
    labelled,
    sizes_told,
    telling,
    type_at,
)
from minimlc.services.sizes.symbolic_loops import (
    MOST_INSTANCES,
    checked_sizes,
    instance,
    instance_of_call,
    signature,
)

Sizes = tuple[int, ...]

FEW = 8
"""Instances that calls may need before a warning of their number."""


class Family:
    """The base of families: a library for each choice of `sizes`, that of the instance `name`.

    `ahead` is the call that builds an instance before it is needed.
    """

    ahead = ""

    def __init__(self, name: str, sizes: Sequence[str], libraries: Mapping[Sizes, Library]):
        """There may be `libraries` already, of a file."""
        self.__name__ = name
        self.sizes = tuple(sizes)
        self.libraries = dict(libraries)
        self._building = RLock()
        self._met: list[Sizes] = []

    def called(self, sizes: Sizes, build: Callable[[], Library]) -> Library:
        """The library for a call with these sizes. Where that builds one too many, a warning."""
        known = self.libraries.get(sizes)
        if known is not None:
            return known
        library = self.library(sizes, build)
        with self._building:
            new = sizes not in self._met
            self._met += [sizes] if new else []
            count = len(self._met)
        if new and count == FEW + 1:
            warnings.warn(self._many(), ManySizes, stacklevel=4)
        return library

    def _many(self) -> str:
        counts = [len(set(values)) for values in zip(*self._met, strict=True)]
        named = zip(self.sizes, counts, strict=True)
        several = [f"{count} values of {size}" for size, count in named if count > 1]
        ahead = f" (one is compiled ahead by {self.ahead})" if self.ahead else ""
        return (
            f"{self.__name__} was called with {' and '.join(several)}, and compiled for each: "
            f"round sizes up to a few, and pad{ahead}; "
            'warnings.simplefilter("ignore", mlc.ManySizes) silences this'
        )

    def library(self, sizes: Sizes, build: Callable[[], Library]) -> Library:
        """The library for these sizes; threads that meet a size together build it once."""
        known = self.libraries.get(sizes)
        if known is not None:
            return known
        with self._building:
            if sizes not in self.libraries:
                new = build()
                while len(self.libraries) >= MOST_INSTANCES:
                    self.libraries.pop(next(iter(self.libraries)), None)
                self.libraries[sizes] = new
            return self.libraries[sizes]


class SymbolicKernel(Family):
    """A primitive function of symbolic sizes."""

    def __init__(
        self,
        name: str,
        func: SymbolicFunc,
        built: Callable[[Sizes], Library],
        libraries: Mapping[Sizes, Library] = {},
    ):
        super().__init__(name, [size.name for size in func.sizes], libraries)
        self._func, self._built = func, built

    def instance(self, arguments: Sequence[Any], **named: Any) -> tuple[Library, Sequence[Any]]:
        """The library for a call, and the arguments of its function."""
        sizes, arrays = instance_of_call(self._func, self.__name__, arguments, named)
        return self.called(sizes, lambda: self._built(sizes)), arrays

    def __call__(self, *arguments: Any, **named: Any) -> None:
        library, arrays = self.instance(arguments, **named)
        library[self.__name__](*arrays)

    def __repr__(self) -> str:
        return f"<compiled {signature(self._func, self.__name__)}>"


class SymbolicGraph(Family):
    """A graph function of symbolic sizes. A call looks its instance up by the axes that have them.

    `built` gives the library for the types of a call's arguments.
    """

    def __init__(
        self,
        name: str,
        func: Function,
        built: Callable[[Sequence[TensorType]], Library],
        libraries: Mapping[Sizes, Library] = {},
    ):
        known = places(func)
        super().__init__(name, [size for size, *_ in known], libraries)
        self.func, self._built = func, built
        self._flat = all(isinstance(param.type, TensorType) for param in func.params)
        self._places = [(number, axis) for _, number, axis in known]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        try:
            given = arguments if self._flat else flatten(arguments)
            sizes = tuple([given[number].shape[axis] for number, axis in self._places])
            function = self.libraries[sizes][self.__name__]
        except (KeyError, IndexError, AttributeError, TypeError):
            function = self.instance(arguments)[0][self.__name__]
        try:
            return function(*arguments, **named)
        except CallError as error:
            if error.code == "E604":
                sizes_told(self.func.params, types_of(self.func, arguments))
            raise

    def instance(self, arguments: Sequence[Any]) -> tuple[Library, Sequence[Any]]:
        """The library for a call, and its function's arguments; `CallError` for arguments that
        give no sizes.
        """
        sizes, build = self._for(types_of(self.func, arguments))
        return self.called(sizes, build), arguments

    def _for(self, types: Iterable[Type]) -> tuple[Sizes, Callable[[], Library]]:
        """The sizes of such arguments, and a function that builds their library."""
        tensors = [tensor for kind in types for tensor in tensor_types(kind)]
        sizes = tuple([tensors[number].shape[axis] for number, axis in self._places])
        return sizes, lambda: self._built(tensors)

    def at(self, sizes: Mapping[str, int]) -> Library:
        """The library for sizes by name; `CompileError` E136 for others."""
        kinds = [param.type for param in self.func.params]
        call = f'library.plan("{self.__name__}", '
        known = checked_sizes(self.__name__, size_names(*kinds), sizes, call)
        return self.library(*self._for([type_at(kind, known) for kind in kinds]))

    def __repr__(self) -> str:
        return f"<compiled {Arguments(self.__name__, parameters_of(self.func)).signature}>"


def places(func: Function) -> list[tuple[str, int, int]]:
    """The sizes of a graph function and the axes that give them: number of the tensor, and axis."""
    tensors = {name: number for number, (name, _) in enumerate(labelled(func.params))}
    shapes = [kind.shape for _, kind in labelled(func.params)]
    known = telling(equations(func.params, shapes))
    return [(item.size.linear()[0], tensors[item.name], item.axis) for item in known]


class HalvedGraph:
    """A graph function with a data-dependent size: a library up to there, a family for the rest,
    unless nothing is left to compute.
    """

    def __init__(self, name: str, cut: Halves, head: Library, tail: SymbolicGraph):
        self.__name__ = name
        self.cut, self.head, self.tail = cut, head, tail
        self.ends = not any(cut.tail.bindings())

    def rest(self, arguments: Sequence[Any], values: Any) -> list[Any]:
        """The arguments of the tail, from the results of the head."""
        return self.cut.arguments(self.__name__, arguments, values)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        values = self.head[self.__name__](*arguments, **named)
        rest = self.rest(arguments, values)
        return (
            owned(execute(self.cut.tail, rest, _data, _no_call)) if self.ends else self.tail(*rest)
        )

    def __repr__(self) -> str:
        return repr(self.head[self.__name__])


def _data(item: Constant) -> Any:
    return item.data


def _no_call(*_: Any) -> Any:
    raise AssertionError("a function without bindings calls nothing")


def family(
    name: str,
    module: IRModule,
    instance_library: Callable[[IRModule], Library],
    linked: Callable[[IRModule], Library],
    libraries: Mapping[Any, Library] = {},
) -> Callable[..., Any]:
    """A callable for the symbolic function `name` of a module. There may be `libraries` by sizes,
    that of None for the part before data-dependent ones.
    """
    func = module[name]
    known = {sizes: library for sizes, library in libraries.items() if sizes is not None}
    if isinstance(func, SymbolicFunc):
        return SymbolicKernel(name, func, partial(_kernel_library, linked, name, func), known)
    assert isinstance(func, Function)
    cut = None if size_names(*[param.type for param in func.params]) else halves(module, name)
    rest = cut.rest if cut else module
    called = cut.tail if cut else func
    graph = SymbolicGraph(
        name, called, lambda types: instance_library(instance_for(rest, name, called, types)), known
    )
    if cut is None:
        graph.ahead = f'library.plan("{name}", {"=..., ".join(graph.sizes)}=...)'
        return graph
    head = libraries.get(None) or instance_library(
        instance_of(module.with_function(name, cut.head), name)
    )
    return HalvedGraph(name, cut, head, graph)


def _kernel_library(
    linked: Callable[[IRModule], Library], name: str, func: SymbolicFunc, sizes: Sizes
) -> Library:
    """The library of a primitive function for some sizes."""
    return linked(verify(IRModule({name: instance(func, sizes)})))
