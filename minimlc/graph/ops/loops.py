"""Pieces of lowerings: how operators become tensor expressions."""

from collections.abc import Callable, Sequence
from typing import Any

from minimlc.graph.ops.record import broadcast_shapes, wide
from minimlc.tir import te
from minimlc.tir.nodes import Expr, select

Formula = Callable[..., Expr]
Lowering = Callable[..., te.Tensor]


def read(x: te.Tensor, indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The element of `x` that broadcasting to `shape` puts at `indices`."""
    skipped = len(shape) - x.ndim
    own = zip(x.shape, shape[skipped:], indices[skipped:], strict=True)
    return x[tuple(0 if size == 1 and out != 1 else i for size, out, i in own)]


def pointwise(name: str, formula: Formula, rounds: bool = False) -> Lowering:
    """`formula` of the elements, broadcast. Its attributes are given as keywords.

    `rounds` says that it takes more than one rounding step, so that for 16-bit floats it must be
    computed in float32 and rounded at the end.
    """

    def lower(*tensors: te.Tensor, **attrs: Any) -> te.Tensor:
        shape = broadcast_shapes(*(t.shape for t in tensors))

        def element(*i: Expr) -> Expr:
            values = [read(t, i, shape) for t in tensors]
            if not rounds:
                return formula(*values, **attrs)
            widened = [v.astype(wide(v.dtype)) for v in values]
            return formula(*widened, **attrs).astype(values[0].dtype)

        return te.compute(shape, element, name=name)

    return lower


def narrow(x: te.Tensor, dtype: str, name: str) -> te.Tensor:
    """`x` rounded to `dtype`; `x` itself if it has it."""
    if x.dtype == dtype:
        return x
    return te.compute(x.shape, lambda *i: x[i].astype(dtype), name=name)


def stage(name: str, dtype: str) -> str:
    """The name of a result before it is rounded to `dtype`: its own if rounding does nothing."""
    return name if wide(dtype) == dtype else f"{name}_{wide(dtype)}"


def choose(cases: Sequence[tuple[Expr, Expr]], otherwise: Expr) -> Expr:
    """The value of the first case whose condition holds."""
    for condition, value in reversed(cases):
        otherwise = select(condition, value, otherwise)
    return otherwise
