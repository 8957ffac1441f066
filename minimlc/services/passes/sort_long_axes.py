"""Sorting of long axes, and search in them, by programs of n log n steps."""

from collections.abc import Callable
from math import inf, prod
from typing import Any, NamedTuple

from minimlc.graphs.ir.nodes import (
    Call,
    Expr,
    TensorType,
    Tuple,
    TupleGetItem,
    call_tir,
    size_names,
)
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops import OPS
from minimlc.graphs.ops.checks import axis_of
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.dtypes import DTYPES, INDEX
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import replace
from minimlc.loops.values.target import CPUS, Target
from minimlc.services.passes import sorts

WRITTEN = ("argsort", "searchsorted")
"""Operators that programs compute; the others are composed of them."""
OPERATORS = (*WRITTEN, "padded_nonzero", "padded_unique", "sort", "topk")
LONG = 64
"""Elements up to which all pairs are compared, in vectors."""
FEW = 128
"""Places up to which one pass over all elements keeps the first ones in order."""
MEMORY = 48 * 1024
"""Bytes of shared memory that a block of threads has on every GPU."""


@module_pass
def sort_long_axes(mod: IRModule, target: str | Target | None = None) -> IRModule:
    """Replace operators that sort more than 64 elements, or search in as many, by the operators
    they are composed of, and the sort or search itself by a program.

        lv = R.sort(x)         -->    order = R.call_tir("argsort", (x,), ...)
                                      lv = R.take_along_axis(x, order)

    It merges runs, where the operator compares each with each; for a top-k of 128 at most, it goes
    over all once and keeps the first k in order. On a GPU the threads of a block sort a row that
    its memory holds; each place is searched for by one thread. Functions of symbolic sizes stay
    as they are.
    """
    if Target.of(target).name in CPUS:
        return _Sorted(Programs(OPERATORS, WRITTEN, sorts.argsort, FEW, inf))(mod)
    operators = ("argsort", "padded_unique", "sort", "topk")
    return _Sorted(Programs(operators, ("argsort",), sorts.argsort_by_threads, 0, MEMORY))(mod)


class Programs(NamedTuple):
    """Programs for a target: the operators that are replaced, those of them that are written as
    programs, the sort, the most places of a top-k in one pass, and the bytes of memory for
    elements, their places, and a copy of both.
    """

    operators: tuple[str, ...]
    written: tuple[str, ...]
    argsort: Callable[[int, int, str, bool], PrimFunc]
    few: int
    memory: float

    def give(self, call: Call) -> bool:
        """Whether a program gives the value of a call."""
        if call.op not in self.written:
            return False
        return 2 * _size_of(call) * (DTYPES[call.args[0].dtype].bits // 8 + 4) <= self.memory


class _Sorted(Mutator):
    def __init__(self, programs: Programs):
        self.programs = programs

    def visit_Call(self, call: Call) -> Expr:
        if call.op not in self.programs.operators or size_names(*[arg.type for arg in call.args]):
            return call
        x, attrs = call.args[0], _attrs_of(call)
        if _size_of(call) <= LONG or any(0 in arg.shape for arg in call.args):
            return call
        if call.op in self.programs.written:
            return self.by_programs(call, {})
        if call.op == "topk" and attrs["k"] <= self.programs.few:
            axis, descending = attrs["axis"], attrs["largest"]
            order = self.ordered(x, axis=axis, descending=descending, kept=attrs["k"])
            return Tuple((OPS["take_along_axis"](x, order, axis=axis), order))
        result = OPS[call.op].formula(x, **attrs)
        whole = Tuple(tuple(result)) if isinstance(result, tuple) else result
        return self.by_programs(whole, {})

    def by_programs(self, value: Expr, done: dict[Expr, Expr]) -> Expr:
        """A formula with calls of programs for its operators; `done` has its parts, each once."""
        if value in done:
            return done[value]
        new = value
        match value:
            case Call(args=args):
                new = replace(value, args=tuple([self.by_programs(arg, done) for arg in args]))
                if self.programs.give(new):
                    program = self.ordered if new.op == "argsort" else self.found
                    new = program(*new.args, **_attrs_of(new))
            case Tuple(fields=fields):
                new = Tuple(tuple([self.by_programs(field, done) for field in fields]))
            case TupleGetItem(tuple=whole):
                new = replace(value, tuple=self.by_programs(whole, done))
            case _:  # other nodes: nothing is inside them
                pass
        return done.setdefault(value, new)

    def ordered(self, x: Any, *, axis: int, descending: bool, kept: int = 0) -> Any:
        """The order of `x` along an axis, or the first `kept` places of it."""
        along = axis_of(axis, x.ndim)
        lead = [other for other in range(x.ndim) if other != along]
        size, rows = x.shape[along], prod(x.shape[other] for other in lead)
        reshape, transpose = OPS["reshape"], OPS["permute_dims"]
        table = reshape(transpose(x, axes=(*lead, along)), shape=(rows, size))
        if kept:
            name, program = "topk", sorts.topk(rows, size, x.dtype, descending, kept)
        else:
            name, program = "argsort", self.programs.argsort(rows, size, x.dtype, descending)
        order = self.called(name, program, (table,), (rows, kept or size))
        order = reshape(order, shape=(*(x.shape[other] for other in lead), kept or size))
        back = sorted(range(x.ndim), key=[*lead, along].__getitem__)
        return transpose(order, axes=tuple(back))

    def found(self, x: Any, values: Any, *, right: bool) -> Any:
        """The places of `values` in the vector `x`."""
        count = prod(values.shape)
        flat = OPS["reshape"](values, shape=(count,))
        program = sorts.searchsorted(x.shape[0], count, x.dtype, right)
        places = self.called("searchsorted", program, (x, flat), (count,))
        return OPS["reshape"](places, shape=values.shape)

    def called(self, name: str, program: PrimFunc, args: tuple[Expr, ...], shape: Any) -> Expr:
        """A call of a program, which the module has under that name."""
        return call_tir(self.builder.add_func(program, name), args, TensorType(shape, INDEX))


def _size_of(call: Call) -> int:
    """The number of elements that a call sorts or searches in."""
    x, attrs = call.args[0], _attrs_of(call)
    return x.shape[axis_of(attrs["axis"], x.ndim)] if "axis" in attrs else prod(x.shape)


def _attrs_of(call: Call) -> dict[str, Any]:
    """A call's options, defaults included."""
    return {**dict(OPS[call.op].attrs), **dict(call.attrs)}
