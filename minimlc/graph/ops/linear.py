"""Matrix products. Products of 16-bit floats are summed in float32 and rounded once."""

from collections.abc import Callable

import numpy as np

from minimlc.graph.nodes import TensorType
from minimlc.graph.ops.loops import narrow, read, stage
from minimlc.graph.ops.record import NUMBERS, Op, broadcast_shapes, refuse, wide
from minimlc.tir import te
from minimlc.tir.nodes import Expr


def _check_matrix(name: str, x: TensorType) -> None:
    if x.ndim < 2:
        refuse(
            f"{name} has {x.ndim} dimension(s), a matrix product needs at least 2",
            hint=f"op.expand_dims({name}, 0) makes a row of a vector",
        )


def _check_inner(first: str, second: str, sizes: tuple[int, int]) -> None:
    if sizes[0] != sizes[1]:
        refuse(f"{first} is {sizes[0]}, {second} is {sizes[1]}; they must be equal")
    if sizes[0] == 0:
        refuse(f"{first} is 0: there is nothing to sum")


def _matmul_type(x: TensorType, w: TensorType) -> TensorType:
    _check_matrix("x", x)
    _check_matrix("w", w)
    _check_inner("x's last axis", "w's last but one", (x.shape[-1], w.shape[-2]))
    try:
        batch = broadcast_shapes(x.shape[:-2], w.shape[:-2])
    except ValueError:
        refuse(f"the batch axes {x.shape[:-2]} and {w.shape[:-2]} do not broadcast")
    return TensorType((*batch, x.shape[-2], w.shape[-1]), x.dtype)


def _lower_matmul(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    batch = broadcast_shapes(x.shape[:-2], w.shape[:-2])
    rows, inner, columns = x.shape[-2], x.shape[-1], w.shape[-1]
    k = te.reduce_axis((0, inner), "k")
    inside = wide(x.dtype)

    def element(*i: Expr) -> te.Reduction:
        left = read(x, (*i[:-1], k), (*batch, rows, inner))
        right = read(w, (*i[:-2], k, i[-1]), (*batch, inner, columns))
        return te.sum(left.astype(inside) * right.astype(inside), axis=k)

    total = te.compute((*batch, rows, columns), _named(element, batch), stage("matmul", x.dtype))
    return narrow(total, x.dtype, "matmul")


def _named(element: Callable[..., te.Reduction], batch: tuple[int, ...]) -> Callable:
    """A plain product's loops are called i and j."""
    return element if batch else lambda i, j: element(i, j)


def _dense_type(x: TensorType, w: TensorType) -> TensorType:
    _check_matrix("x", x)
    if w.ndim != 2:
        refuse(f"w has {w.ndim} dimension(s), it must be a matrix: (outputs, inputs)")
    _check_inner("x's last axis", "w's last axis", (x.shape[-1], w.shape[-1]))
    return TensorType((*x.shape[:-1], w.shape[0]), x.dtype)


def _lower_dense(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, x.shape[-1]), "k")
    inside = wide(x.dtype)

    def element(*i: Expr) -> te.Reduction:
        left, right = x[(*i[:-1], k)], w[i[-1], k]
        return te.sum(left.astype(inside) * right.astype(inside), axis=k)

    shape = (*x.shape[:-1], w.shape[0])
    total = te.compute(shape, _named(element, x.shape[:-2]), stage("dense", x.dtype))
    return narrow(total, x.dtype, "dense")


OPS = (
    Op(
        "matmul",
        ("x", "w"),
        "The matrix product (..., n, k) @ (..., k, m) -> (..., n, m); batch axes broadcast.",
        infer=_matmul_type,
        meaning=np.matmul,
        lower=_lower_matmul,
        dtypes=NUMBERS,
    ),
    Op(
        "dense",
        ("x", "w"),
        "x @ w.T, with x: (..., k) and w: (m, k) -> (..., m).",
        infer=_dense_type,
        meaning=lambda x, w: np.matmul(x, w.T),
        lower=_lower_dense,
        dtypes=NUMBERS,
    ),
)
