"""Functions of symbolic sizes that are called: an instance for each choice of them, built at its
first call.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

from minimlc.arguments import Arguments, parameters_of
from minimlc.errors import CallError
from minimlc.graph.execute import execute
from minimlc.graph.nodes import Constant, Function, TensorType, size_names, tensor_types
from minimlc.graph.symbolic import (
    Halves,
    arguments_of,
    equations,
    labelled,
    sizes_told,
    telling,
    type_at,
)
from minimlc.run import flatten, types_of
from minimlc.runtime.library import Library
from minimlc.tir.nodes import SymbolicFunc
from minimlc.tir.symbolic import MOST_INSTANCES, checked_sizes, instance_of_call, signature

Sizes = tuple[int, ...]


class Family:
    """What families share: a library for each choice of sizes, that of the instance `name`."""

    def __init__(self, name: str, libraries: Mapping[Sizes, Library]):
        """There may be `libraries` already, of a file."""
        self.__name__ = name
        self.libraries = dict(libraries)
        self._building = RLock()

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
        super().__init__(name, libraries)
        self._func, self._built = func, built

    def instance(self, arguments: Sequence[Any], **named: Any) -> tuple[Library, Sequence[Any]]:
        """The library for a call, and what its function takes."""
        sizes, arrays = instance_of_call(self._func, self.__name__, arguments, named)
        return self.library(sizes, lambda: self._built(sizes)), arrays

    def __call__(self, *arguments: Any, **named: Any) -> None:
        library, arrays = self.instance(arguments, **named)
        library[self.__name__](*arrays)

    def __repr__(self) -> str:
        return f"<compiled {signature(self._func, self.__name__)}>"


class SymbolicGraph(Family):
    """A graph function of symbolic sizes. A call looks its instance up by the axes that tell them.

    `built` gives the library for the types of a call's arguments.
    """

    def __init__(
        self,
        name: str,
        func: Function,
        built: Callable[[Sequence[TensorType]], Library],
        libraries: Mapping[Sizes, Library] = {},
    ):
        super().__init__(name, libraries)
        self._func, self._built = func, built
        self._flat = all(isinstance(param.type, TensorType) for param in func.params)
        self._places = places(func)

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
                sizes_told(self._func.params, types_of(self._func, arguments))
            raise

    def instance(self, arguments: Sequence[Any]) -> tuple[Library, Sequence[Any]]:
        """The library for a call, and what its function takes; `CallError` for arguments that tell
        no sizes.
        """
        types = types_of(self._func, arguments)
        tensors = [tensor for kind in types for tensor in tensor_types(kind)]
        sizes = tuple([tensors[number].shape[axis] for number, axis in self._places])
        return self.library(sizes, lambda: self._built(tensors)), arguments

    def at(self, sizes: Mapping[str, int]) -> Library:
        """The library for sizes by name; `CompileError` E136 for others."""
        kinds = [param.type for param in self._func.params]
        call = f'library.plan("{self.__name__}", {{}})'
        known = checked_sizes(self.__name__, size_names(*kinds), sizes, call)
        return self.instance([t for k in kinds for t in tensor_types(type_at(k, known))])[0]

    def __repr__(self) -> str:
        return f"<compiled {Arguments(self.__name__, parameters_of(self._func)).signature}>"


def places(func: Function) -> list[tuple[int, int]]:
    """The axes that tell the sizes of a graph function: number of the tensor, and axis."""
    tensors = {name: number for number, (name, _) in enumerate(labelled(func.params))}
    shapes = [kind.shape for _, kind in labelled(func.params)]
    known = telling(equations(func.params, shapes))
    return [(tensors[each.name], each.axis) for each in known]


class HalvedGraph:
    """A graph function in which data tell a size: a library up to there, and a family for the rest,
    unless nothing is left to compute.
    """

    def __init__(self, name: str, cut: Halves, head: Library, tail: SymbolicGraph):
        self.__name__ = name
        self.cut, self.head, self.tail = cut, head, tail
        self.ends = not any(cut.tail.bindings())

    def rest(self, arguments: Sequence[Any], values: Any) -> list[Any]:
        """The arguments of the tail, by what the head gave."""
        return arguments_of(self.cut, self.__name__, arguments, values)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        values = self.head[self.__name__](*arguments, **named)
        rest = self.rest(arguments, values)
        if self.ends:
            return execute(self.cut.tail, [each.copy() for each in rest], _data, _no_call)
        return self.tail(*rest)

    def __repr__(self) -> str:
        return repr(self.head[self.__name__])


def _data(item: Constant) -> Any:
    return item.data.copy()


def _no_call(*_: Any) -> Any:
    raise AssertionError("a function without bindings calls nothing")
