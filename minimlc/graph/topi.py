"""The operators over tensor expressions: `topi.add(A, B)` is a tensor of `te`.

    A = te.placeholder((8, 16), "float32", name="A")
    func = te.create_prim_func([A, topi.nn.relu(A)])
    y = bb.emit_te(topi.nn.softmax, x, -1)

Each is an operator of the graph, its loops written out: same names, same checks, same errors. Those
whose arguments TVM orders in another way here have that order here, too.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from minimlc.dtypes import is_float
from minimlc.errors import OpError, did_you_mean
from minimlc.graph.nodes import Constant, Expr, TensorType, Tuple, Var
from minimlc.graph.op import documentation
from minimlc.graph.ops import ALIASES, OPS
from minimlc.graph.ops.checks import ALL, FLOATS, NUMBERS, refuse, sizes_of
from minimlc.graph.ops.create import arange, full
from minimlc.graph.ops.linear import matmul
from minimlc.graph.ops.record import Op, composite, primitive
from minimlc.graph.ops.reduction import argmax, argmin
from minimlc.graph.ops.shape import flatten, permute_dims, reshape
from minimlc.graph.ops.slicing import pad, take
from minimlc.graph.ops.values import Values
from minimlc.graph.ops.window import avg_pool2d, conv2d, max_pool2d
from minimlc.tir import te
from minimlc.tir.nodes import const

Function = Callable[..., Any]
_PLACEHOLDER = 'A = te.placeholder((8, 16), "float32", name="A")'


def _applied(record: Op, args: Iterable[Any], options: Mapping[str, Any]) -> Any:
    """The operator's call on variables that stand for the tensors, lowered to those."""
    tensors: dict[Expr, te.Tensor] = {}

    def variable(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(variable, value))
        if isinstance(value, Expr):
            why = f"topi.{record.name} takes tensor expressions, got a value of the graph"
            raise OpError(why, code="E201", hint=f"bb.emit_te(topi.{record.name}, ...)")
        if not isinstance(value, te.Tensor):
            return value
        var = Var(value.name, TensorType(value.shape, value.dtype))
        tensors[var] = value
        return var

    def operand(value: Expr) -> Any:
        if isinstance(value, Tuple):
            return tuple(map(operand, value.fields))
        if isinstance(value, Constant):
            return _number(record, value)
        return tensors[value]

    values = tuple(map(variable, args))
    named = {key: variable(value) for key, value in options.items()}
    if record.params and not tensors:
        why = f"topi.{record.name} takes tensor expressions, got none"
        raise OpError(why, code="E201", hint=_PLACEHOLDER)
    call = record.call(values, named)
    return record.lower(*map(operand, call.args), **dict(call.attrs))


def _number(record: Op, value: Constant) -> Values:
    """A number beside tensors, as the tensor without axes that it is."""
    if value.shape:
        why = f"topi.{record.name} takes tensor expressions, got an array"
        raise OpError(why, code="E201", hint=_PLACEHOLDER)
    return Values((), value.dtype, lambda: const(value.data[()].item(), value.dtype))


@cache
def _function(record: Op) -> Function:
    def apply(*args: Any, **options: Any) -> Any:
        return _applied(record, args, options)

    apply.__name__ = apply.__qualname__ = record.name
    apply.__doc__ = documentation(record)
    apply.__signature__ = record.signature  # type: ignore[attr-defined]
    return apply


class _Names:
    """`topi` or `topi.nn`: the operators, and before them those that are called in another way."""

    def __init__(self, name: str, own: Mapping[str, Op]):
        self._name, self._own = name, own

    def __getattr__(self, name: str) -> Function:
        record = self._own.get(name) or OPS.get(ALIASES.get(name, name))
        if record is None:
            hint = did_you_mean(name, dir(self))
            raise AttributeError(f'{self._name} has no "{name}"; {hint}')
        return _function(record)

    def __dir__(self) -> list[str]:
        return sorted({*OPS, *ALIASES, *self._own, *vars(self)} - {"_name", "_own"})


# What TVM calls in another way in `topi` than in a graph


def _turned(x: Any, yes: bool) -> Any:
    """`x` with its last two axes exchanged, if so wanted."""
    order = list(range(x.ndim))
    return permute_dims(x, axes=(*order[:-2], *order[:-3:-1])) if yes else x


def _full(*, shape: Any, dtype: str, fill_value: float) -> Values:
    """A tensor of `shape` that is `fill_value` everywhere."""
    return full.formula(shape=shape, value=fill_value, dtype=dtype)


def _arange(*, start: Any, stop: Any = None, step: Any = 1, dtype: str = "float32") -> Values:
    """start, start + step, ... below `stop`; 0 ... start-1 when stop is None."""
    first, last, by = (
        float(n) if is_float(dtype) and n is not None else n for n in (start, stop, step)
    )
    return arange.formula(start=first, stop=last, step=by, dtype=dtype)


def _argmax(x: Any, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first greatest value along `axis`, of all in order if it is None."""
    return argmax(x, axis=axis, keepdims=keepdims)


def _argmin(x: Any, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first least value along `axis`, of all in order if it is None."""
    return argmin(x, axis=axis, keepdims=keepdims)


def _take(x: Any, indices: Any, *, axis: int | None = None) -> Any:
    """The slices of x at `indices` along `axis`, of all elements in order if it is None."""
    return take(x, indices, axis=axis) if axis is not None else take(flatten(x), indices, axis=0)


def _matmul(a: Any, b: Any, *, transp_a: bool = False, transp_b: bool = False) -> Any:
    """The matrix product of a and b, each with its last two axes exchanged first if so wanted."""
    return matmul(_turned(a, transp_a), _turned(b, transp_b))


def _product(
    a: Any,
    b: Any,
    bias: Any = None,
    *,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Any:
    """The matrix product of a and b, plus bias if there is one; sums are of `out_dtype`."""
    product = matmul(_turned(a, transpose_a), _turned(b, transpose_b), out_dtype=out_dtype)
    return product if bias is None else product + bias


def _dense(data: Any, weight: Any, bias: Any = None, *, out_dtype: str = "") -> Any:
    """data @ weight.T, plus bias if there is one; sums are of `out_dtype`."""
    return _product(data, weight, bias, out_dtype=out_dtype, transpose_b=True)


def _batch_matmul(
    x: Any,
    y: Any,
    *,
    oshape: Any = None,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Any:
    """The products of two batches of matrices, those of y transposed unless it says otherwise."""
    return _product(x, y, out_dtype=out_dtype, transpose_a=transpose_a, transpose_b=transpose_b)


def _conv2d(
    data: Any,
    kernel: Any,
    *,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str = "",
    groups: int = 1,
) -> Any:
    """Cross-correlation in a layout; kernels are OIHW for NCHW, else HWIO, if not said."""
    return conv2d(
        data,
        kernel,
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=groups,
        data_layout=data_layout,
        kernel_layout=kernel_layout or ("OIHW" if data_layout == "NCHW" else "HWIO"),
        out_dtype=out_dtype,
    )


def _conv2d_of(layout: str) -> Callable[..., Any]:
    def formula(
        data: Any,
        kernel: Any,
        *,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        out_dtype: str = "",
    ) -> Any:
        options = {"strides": stride, "padding": padding, "dilation": dilation}
        return _conv2d(data, kernel, data_layout=layout, out_dtype=out_dtype, **options)

    formula.__doc__ = f"Cross-correlation of images in layout {layout}."
    return formula


def _depthwise_conv2d(
    data: Any,
    kernel: Any,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    out_dtype: str = "",
) -> Any:
    """Cross-correlation of each channel of (n, c, h, w) with its own kernels: (c, m, p, q)."""
    if kernel.ndim != 4:
        refuse(f"kernel has {kernel.ndim} dimension(s), it must be (c, m, height, width)")
    channels, several, *window = kernel.shape
    apart = reshape(kernel, shape=(channels * several, 1, *window))
    options = {"strides": stride, "padding": padding, "dilation": dilation}
    return conv2d(data, apart, groups=channels, out_dtype=out_dtype, **options)


def _pool2d(
    data: Any,
    *,
    kernel: Any,
    stride: Any,
    dilation: Any = 1,
    padding: Any = 0,
    pool_type: str = "max",
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Any:
    """The greatest value ("max") or the mean ("avg") of each window."""
    return _pooling(pool_type)(
        data,
        pool_size=kernel,
        strides=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        layout=layout,
    )


def _global_pool(data: Any, *, pool_type: str = "avg", layout: str = "NCHW") -> Any:
    """The greatest value or the mean of each whole image."""
    if data.ndim != 4 or sorted(layout) != sorted("NCHW"):
        refuse(f"data has {data.ndim} dimension(s), its layout is {layout}")
    size = tuple(data.shape[layout.index(axis)] for axis in "HW")
    return _pooling(pool_type)(data, pool_size=size, layout=layout)


def _pooling(pool_type: str) -> Op:
    if pool_type not in ("max", "avg"):
        refuse(f'pool_type is "max" or "avg", got {pool_type!r}', "E204")
    return max_pool2d if pool_type == "max" else avg_pool2d


def _pad(data: Any, *, pad_before: Any, pad_after: Any = None, pad_value: float = 0) -> Any:
    """`data` with `pad_value` before and after each axis, as much if `pad_after` is None."""
    before = sizes_of(pad_before, "pad_before")
    after = before if pad_after is None else sizes_of(pad_after, "pad_after")
    if len(before) != len(after):
        refuse(f"pad_before has {len(before)} sizes, pad_after {len(after)}", "E204")
    return pad(data, pad_width=tuple(zip(before, after, strict=True)), value=pad_value)


def _flatten(data: Any) -> Any:
    """All axes but the first as one."""
    return flatten(data, start_axis=1)


_OWN: dict[str, Op] = {}
_OWN_NN: dict[str, Op] = {}
_SAID: list[tuple[dict[str, Op], str, Callable[..., Any], tuple[str, ...]]] = [
    (_OWN, "full", _full, ALL),
    (_OWN, "arange", _arange, NUMBERS),
    (_OWN, "argmax", _argmax, NUMBERS),
    (_OWN, "argmin", _argmin, NUMBERS),
    (_OWN, "matmul", _matmul, NUMBERS),
    (_OWN_NN, "matmul", _product, NUMBERS),
    (_OWN_NN, "dense", _dense, NUMBERS),
    (_OWN_NN, "batch_matmul", _batch_matmul, NUMBERS),
    (_OWN_NN, "conv2d", _conv2d, NUMBERS),
    (_OWN_NN, "conv2d_nchw", _conv2d_of("NCHW"), NUMBERS),
    (_OWN_NN, "conv2d_nhwc", _conv2d_of("NHWC"), NUMBERS),
    (_OWN_NN, "depthwise_conv2d_nchw", _depthwise_conv2d, NUMBERS),
    (_OWN_NN, "pool2d", _pool2d, FLOATS),
    (_OWN_NN, "global_pool", _global_pool, FLOATS),
    (_OWN_NN, "pad", _pad, ALL),
    (_OWN_NN, "flatten", _flatten, ALL),
]
for _table, _name, _formula, _dtypes in _SAID:
    composite(_name, _formula, dtypes=_dtypes, rounds=False, table=_table)
_PLACES = take.param_dtypes
primitive("take", ALL, take.meaning, rounds=False, table=_OWN, param_dtypes=_PLACES)(_take)
topi: Any = _Names("topi", _OWN)
topi.nn = _Names("topi.nn", _OWN_NN)
