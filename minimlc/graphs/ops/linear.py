"""Matrix products. Products of 16-bit floats are summed in float32 and rounded once."""

from typing import Any

import numpy as np

from minimlc.graphs.ops.checks import NO_DTYPE, NUMBERS, broadcast_shapes, refuse
from minimlc.graphs.ops.record import composite, primitive
from minimlc.graphs.ops.shape import expand_dims, permute_dims, squeeze
from minimlc.graphs.ops.values import Values, read, wide
from minimlc.loops.ir.nodes import Expr, const
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import holds, to_numpy


def _check_axes(name: str, x: Any) -> None:
    if not x.ndim:
        refuse(f"{name} has no axes, a matrix product sums along one", hint="op.multiply(x, w)")


def _check_inner(first: str, second: str, sizes: tuple[int, int]) -> None:
    if sizes[0] != sizes[1]:
        refuse(f"{first} is {sizes[0]}, {second} is {sizes[1]}; they must be equal")


def promoted(x: Any, out_dtype: object) -> Any:
    """`x`, an array too, in the dtype that products are to be summed in: "" is that of `x`."""
    if out_dtype in NO_DTYPE:
        return x
    dtype = str(out_dtype)
    if not isinstance(x, Values):
        return x.astype(to_numpy(wide(dtype)))
    if not holds(dtype, x.dtype):
        refuse(f'out_dtype="{dtype}" does not hold all values of {x.dtype}', "E204")
    return x.astype(dtype)


@primitive("matmul", NUMBERS, np.matmul, rounds=True, table={})
def _product(x: Values, w: Values) -> Values:
    """The product of matrices; batch axes broadcast."""
    _check_inner("x's last axis", "w's last but one", (x.shape[-1], w.shape[-2]))
    try:
        batch = broadcast_shapes(x.shape[:-2], w.shape[:-2])
    except ValueError:
        refuse(f"the batch axes {x.shape[:-2]} and {w.shape[:-2]} do not broadcast")
    rows, inner, columns = x.shape[-2], x.shape[-1], w.shape[-1]

    def element(*i: Expr) -> Expr | te.Reduction:
        if inner == 0:
            return const(0, x.dtype)
        k = te.reduce_axis((0, inner), "k")
        left = read(x, (*i[:-1], k), (*batch, rows, inner))
        right = read(w, (*i[:-2], k, i[-1]), (*batch, inner, columns))
        return te.sum(left * right, axis=k)

    plain = None if batch else lambda i, j: element(i, j)  # whose loops are called i and j
    return Values((*batch, rows, columns), x.dtype, plain or element, "matmul")


def _matmul(x: Any, w: Any, *, out_dtype: str = "") -> Any:
    """The matrix product (..., n, k) @ (..., k, m) -> (..., n, m); batch axes broadcast. A vector x
    is one row, a vector w one column, and the result has no axis for it. `out_dtype` is that of the
    sums.
    """
    _check_axes("x", x)
    _check_axes("w", w)
    vectors = tuple(axis for axis, side in ((-2, x), (-1, w)) if side.ndim == 1)
    if w.ndim == 1:
        _check_inner("x's last axis", "w's only one", (x.shape[-1], w.shape[-1]))
    left = expand_dims(x, axis=0) if x.ndim == 1 else x
    right = expand_dims(w, axis=1) if w.ndim == 1 else w
    product = _product(promoted(left, out_dtype), promoted(right, out_dtype))
    return squeeze(product, axis=vectors) if vectors else product


matmul = composite("matmul", _matmul, dtypes=NUMBERS, rounds=False)


def _dense(x: Any, w: Any, *, out_dtype: str = "") -> Any:
    """x @ w.T, with x: (..., k) and w: (m, k) -> (..., m); `out_dtype` is that of the sums."""
    _check_axes("x", x)
    if w.ndim != 2:
        refuse(f"w has {w.ndim} dimension(s), it must be a matrix: (outputs, inputs)")
    _check_inner("x's last axis", "w's last axis", (x.shape[-1], w.shape[-1]))
    return matmul(x, permute_dims(w), out_dtype=out_dtype)


dense = composite("dense", _dense, dtypes=NUMBERS, rounds=False)


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """x @ weight.T, plus bias if there is one, with weight: (outputs, inputs)."""
    product = dense(x, weight)
    return product if bias is None else product + bias


def _outer(x: Any, y: Any) -> Any:
    """The products of each element of the vector x with each of the vector y."""
    if x.ndim != 1 or y.ndim != 1:
        refuse(f"x and y are vectors, got {x.ndim} and {y.ndim} dimension(s)")
    return expand_dims(x, axis=1) * expand_dims(y, axis=0)


linear = composite("linear", _linear, dtypes=NUMBERS)
outer = composite("outer", _outer, dtypes=NUMBERS, rounds=False)
