"""Callable results of a build: kernels on arrays, and graph functions."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from minimlc.graphs.ir.nodes import Call, Function, TensorType, called
from minimlc.graphs.plan import Plan, PlannedCall, Slot, nbytes, plan
from minimlc.graphs.run import call_packed, flatten, nest
from minimlc.loops.ir.arguments import Arguments, Parameter, address_of, parameters_of
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.llvm.kernel import Kernel as Compiled
from minimlc.loops.llvm.kernel import entered, failure
from minimlc.loops.lower.bounds import Site
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.process import keep_blocks, make_pages_huge
from minimlc.loops.values.target import Target
from minimlc.services.control import control
from minimlc.services.runtime.foreign import refusing
from minimlc.services.runtime.library import Library
from minimlc.services.runtime.memory import memory

LARGE = 1 << 16
"""Bytes from which on it pays to choose where an array begins."""
SMALL = 1 << 14
"""Bytes of arrays in all, below which code hardly needs large buffers of its own."""


class Kernel(Compiled):
    """A compiled primitive function of a library: what it frees stays for the next call."""

    def __init__(self, name: str, parameters: Sequence[Parameter], *code: Any):
        Compiled.__init__(self, name, parameters, *code)
        if sum(map(nbytes, parameters)) >= SMALL:
            keep_blocks()


def aligned_bytes(size: int) -> np.ndarray:
    """Fresh memory that begins on a cache line."""
    keep_blocks()
    return memory(size)


def maker(kind: TensorType) -> Callable[[], np.ndarray]:
    """A maker of new arrays; large ones on a cache line: a vector across two takes longer."""
    shape, dtype, size = kind.shape, to_numpy(kind.dtype), nbytes(kind)
    if size < LARGE:
        return partial(np.empty, shape, dtype)
    return lambda: aligned_bytes(size).view(dtype).reshape(shape)


class GraphFunction:
    """The base of native and step-by-step graph functions: arguments in, fresh arrays out."""

    def __init__(self, name: str, func: Function, plan: Plan):
        self.__name__ = name
        self._flat = all(isinstance(param.type, TensorType) for param in func.params)
        self._arguments = Arguments(name, parameters_of(func))
        self._result = func.result.type
        self.plan = plan
        self._outputs = [maker(slot.type) for slot in plan.outputs]
        self._single = plan.results == tuple(plan.outputs) and isinstance(self._result, TensorType)
        self._copied = tuple(
            slot.kind != "output" or slot in plan.results[:at]
            for at, slot in enumerate(plan.results)
        )

    def _check(
        self, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Sequence[np.ndarray], list[int]]:
        flat = arguments if self._flat else flatten(arguments)
        return self._arguments.check(flat, named)

    def _assemble(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Any:
        if self._single:
            return outputs[0]
        sources = {"input": inputs, "constant": self.plan.constants, "output": outputs}
        arrays = [
            sources[slot.kind][slot.number].copy() if copied else outputs[slot.number]
            for slot, copied in zip(self.plan.results, self._copied, strict=True)
        ]
        return nest(self._result, iter(arrays))

    def __repr__(self) -> str:
        return f"<compiled {self._arguments.signature}>"


class NativeGraph(GraphFunction):
    """A graph function that is one native call. Arenas are kept for the next call."""

    def __init__(
        self,
        name: str,
        func: Function,
        plan: Plan,
        address: int,
        sites: Sequence[Site] | None,
        keep: object,
    ):
        """`address` is the entry point's; `keep` owns the code."""
        super().__init__(name, func, plan)
        pointers = [address_of(c) for c in plan.constants]
        table = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        self._table = ctypes.addressof(table)
        self._keep = (keep, table)
        self._free: list[tuple[np.ndarray, int]] = []
        self._entry = entered(address, len(plan.inputs) + len(plan.outputs) + 2, sites)
        make_pages_huge(plan.constants)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        inputs, addresses = self._check(arguments, named)
        outputs = [new() for new in self._outputs]
        for output in outputs:
            addresses.append(address_of(output))
        try:
            arena, start = self._free.pop()
        except IndexError:
            arena = aligned_bytes(self.plan.arena_bytes)
            start = address_of(arena)
        addresses += (self._table, start)
        status = self._entry(*addresses)
        self._free.append((arena, start))
        if status:
            raise failure(self.__name__, status)
        return self._assemble(inputs, outputs)


class SteppedGraph(GraphFunction):
    """A graph function with registered Python functions between its kernels, or conditions."""

    def __init__(
        self, name: str, func: Function, plan: Plan, functions: Mapping[str, Callable[..., Any]]
    ):
        """`functions` are what the steps call: kernels, graph functions in conditions and loops;
        they are looked up at a call. Constants are copied so that they are writable: numpy
        exports no read-only array through DLPack, and a copy at each call would cost more.
        """
        super().__init__(name, func, plan)
        self._functions = functions
        self._constants = tuple(c.copy() for c in self.plan.constants)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.run(self._run, arguments, named)

    def run(
        self, take: Callable[..., None], arguments: Sequence[Any], named: Mapping[str, Any] = {}
    ) -> Any:
        """The result of a call; `take` takes each step, with its input and output arrays."""
        inputs, _ = self._check(arguments, named)
        outputs = [new() for new in self._outputs]
        arena = aligned_bytes(self.plan.arena_bytes)

        def array(slot: Slot) -> np.ndarray:
            if slot.kind == "arena":
                return _view(arena, slot.number, slot.type)
            sources = {"input": inputs, "constant": self._constants, "output": outputs}
            return sources[slot.kind][slot.number]

        for step in self.plan.steps:
            take(step, [array(s) for s in step.inputs], [array(s) for s in step.outputs])
        return self._assemble(inputs, outputs)

    def _run(self, step: PlannedCall, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        perform(self._functions, step, inputs, outputs)


def perform(
    functions: Mapping[str, Callable[..., Any]],
    step: PlannedCall,
    inputs: list[np.ndarray],
    outputs: list[np.ndarray],
) -> None:
    """Take a step of a plan: a kernel, a registered function, or a condition or loop."""
    if step.op == "call_dps_packed":
        call_packed(step.callee, inputs, outputs)
    elif step.call is None:
        functions[step.callee](*inputs, *outputs)
    else:
        for output, value in zip(
            outputs, decided(functions, step.call, inputs, _empty), strict=True
        ):
            if output is not value:
                output[...] = value


def decided(
    functions: Mapping[str, Callable[..., Any]],
    call: Call,
    inputs: Sequence[Any],
    empty: Callable[[TensorType], Any],
) -> Sequence[Any]:
    """The results of a condition or loop over arrays, which the host decides; `empty` makes one."""
    leaves = iter(inputs)
    values = [nest(arg.type, leaves) for arg in call.args]
    chosen = {key: functions[name] for key, name in called(call)}
    return flatten([control.run(call, values, chosen, empty)])


def _empty(kind: TensorType) -> np.ndarray:
    return maker(kind)()


def _view(memory: np.ndarray, start: int, kind: TensorType) -> np.ndarray:
    part = memory[start : start + nbytes(kind)]
    return part.view(to_numpy(kind.dtype)).reshape(kind.shape)


def functions_of(module: IRModule) -> dict[str, PrimFunc]:
    """The primitive functions of a module, by name."""
    return {name: func for name, func in module.entries if isinstance(func, PrimFunc)}


def library(
    module: IRModule,
    target: Target,
    kernels: Mapping[str, Callable[..., Any]],
    graph: Callable[[str, Function, Plan, Mapping[str, Callable[..., Any]]], Callable[..., Any]],
    sources: dict[str, Callable[[], str]],
    kind: Callable[..., Library] = Library,
    plans: Mapping[str, Plan] = {},
) -> Library:
    """A library of kernels and graph functions. `graph` makes each of the latter from its plan, and
    they may call all functions of the library. There may be `plans` already.
    """
    functions = dict(kernels)
    for name, func in module.entries:
        if isinstance(func, Function):
            functions[name] = graph(name, func, plans.get(name) or plan(module, name), functions)
    return kind(module, target, {name: functions[name] for name in module.functions}, sources)


def to_read(
    module: IRModule,
    target: Target,
    missing: tuple[str, ...],
    sources: dict[str, Callable[[], str]],
) -> Library:
    """A library for another machine: its source is there, its functions refuse to be called."""
    functions = {name: refusing(name, target, missing) for name in module.functions}
    return Library(module, target, functions, sources)
