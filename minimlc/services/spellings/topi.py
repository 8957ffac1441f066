"""The operators over tensor expressions: `topi.add(A, B)` is a tensor of `te`.

    A = te.placeholder((8, 16), "float32", name="A")
    func = te.create_prim_func([A, topi.nn.relu(A)])
    y = bb.emit_te(topi.nn.softmax, x, -1)

Each is an operator of the graph, its loops written out: same names, same checks, same errors. Those
whose arguments TVM orders in another way here have that order here, too.
"""

from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from minimlc.graphs.ir.nodes import Attrs, Constant, Expr, TensorType, Tuple, Var
from minimlc.graphs.op import documentation
from minimlc.graphs.ops import ALIASES, OPS
from minimlc.graphs.ops.checks import ALL, FLOATS, NUMBERS, refuse, sizes_of
from minimlc.graphs.ops.create import arange, full
from minimlc.graphs.ops.linear import matmul
from minimlc.graphs.ops.record import REQUIRED, Op, composite
from minimlc.graphs.ops.reduction import argmax, argmin, greatest, mean
from minimlc.graphs.ops.shape import batch_flatten, flip, permute_dims, reshape
from minimlc.graphs.ops.values import Values
from minimlc.loops.ir.nodes import const
from minimlc.loops.te import te
from minimlc.loops.values.errors import OpError, did_you_mean
from minimlc.services.arrays.slicing import pad, take
from minimlc.services.networks.window import avg_pool2d, conv2d, max_pool2d

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

    def __init__(self, name: str, special: Mapping[str, Op]):
        self._name, self._own = name, special

    def __getattr__(self, name: str) -> Function:
        record = self._own.get(name) or OPS.get(ALIASES.get(name, name))
        if record is None:
            hint = did_you_mean(name, dir(self))
            raise AttributeError(f'{self._name} has no "{name}"; {hint}')
        return _function(record)

    def __dir__(self) -> list[str]:
        return sorted({*OPS, *ALIASES, *self._own, *vars(self)} - {"_name", "_own"})


# What TVM calls in another way in `topi` than in a graph


def said(record: Op, name: str, order: str, /, fixed: Attrs = (), **meant: str) -> Op:
    """The operator `name`, which is `record` with its attributes in another order.

    `order` names them, some with another default: "axis=None keepdims", or with none: "axes=...";
    `meant` has the names that `record` uses for them. Attributes that are `fixed` are left out.
    """
    usual = dict(record.attrs)

    def called(function: Function) -> Function:
        def apply(*tensors: Any, **given: Any) -> Any:
            options = {meant.get(key, key): value for key, value in given.items()}
            return function(*tensors, **{**usual, **dict(fixed), **options})

        return apply

    attrs = []
    for key, _, default in (word.partition("=") for word in order.split()):
        known = {"": usual.get(meant.get(key, key)), "...": REQUIRED}
        attrs.append((key, known[default] if default in known else literal_eval(default)))
    formula, meaning = called(record.formula), called(record.meaning)
    return record._replace(name=name, attrs=tuple(attrs), formula=formula, meaning=meaning)


def _turned(x: Any, yes: bool) -> Any:
    """`x` with its last two axes exchanged, if so wanted."""
    order = list(range(x.ndim))
    return permute_dims(x, axes=(*order[:-2], *order[:-3:-1])) if yes else x


def _product(
    a: Any,
    b: Any,
    bias: Any = None,
    *,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Any:
    """The matrix product of a and b, each with its last two axes exchanged first if so wanted,
    plus bias if there is one; the sums are of `out_dtype`.
    """
    product = matmul(_turned(a, transpose_a), _turned(b, transpose_b), out_dtype=out_dtype)
    return product if bias is None else product + bias


def _depthwise_conv2d(x: Any, w: Any, **options: Any) -> Any:
    """Cross-correlation of each channel of (n, c, h, w) with its own kernels: (c, m, p, q)."""
    if w.ndim != 4:
        refuse(f"w has {w.ndim} dimension(s), it must be (channels, m, height, width)")
    channels, several, *window = w.shape
    options["groups"] = channels
    return conv2d(x, reshape(w, shape=(channels * several, 1, *window)), **options)


def _pool2d(x: Any, *, pool_type: str, **options: Any) -> Any:
    """The greatest value ("max") or the mean ("avg") of each window."""
    return _choice(pool_type, max=max_pool2d, avg=avg_pool2d)(x, **options)


def _global_pool(x: Any, *, pool_type: str = "avg", layout: str = "NCHW") -> Any:
    """The greatest value ("max") or the mean ("avg") of each whole image."""
    if x.ndim != 4 or sorted(layout) != sorted("NCHW"):
        refuse(f"x has {x.ndim} dimension(s), its layout is {layout!r}")
    axes = tuple(layout.index(axis) for axis in "HW")
    return _choice(pool_type, max=greatest, avg=mean)(x, axis=axes, keepdims=True)


def _choice(pool_type: str, **known: Op) -> Op:
    if pool_type not in known:
        refuse(f'pool_type is "max" or "avg", got {pool_type!r}', "E204")
    return known[pool_type]


def _pad(x: Any, *, pad_before: Any, pad_after: Any = None, pad_value: float = 0) -> Any:
    """`x` with `pad_value` before and after each axis, as much if `pad_after` is None."""
    before = sizes_of(pad_before, "pad_before")
    after = before if pad_after is None else sizes_of(pad_after, "pad_after")
    if len(before) != len(after):
        refuse(f"pad_before has {len(before)} sizes, pad_after {len(after)}", "E204")
    return pad(x, pad_width=tuple(zip(before, after, strict=True)), value=pad_value)


_products = composite("matmul", _product, dtypes=NUMBERS, rounds=False, table={})
_plain_products = _products._replace(params=("a", "b"), optional=0)
_apart = conv2d._replace(formula=_depthwise_conv2d, meaning=_depthwise_conv2d)
_pools = max_pool2d._replace(
    formula=_pool2d, meaning=_pool2d, dtypes=FLOATS, attrs=(*max_pool2d.attrs, ("pool_type", "max"))
)
_CONV = "stride padding dilation out_dtype"
_NHWC = (("data_layout", "NHWC"), ("kernel_layout", "HWIO"))
_POOL = "kernel stride dilation padding pool_type ceil_mode layout count_include_pad=True"
_TRANSP = {"transp_a": "transpose_a", "transp_b": "transpose_b"}
_OWN = {
    "full": said(full, "full", "shape dtype fill_value", fill_value="value"),
    "arange": said(arange, "arange", "start stop step dtype='float32'"),
    "argmax": said(argmax, "argmax", "axis=None keepdims"),
    "argmin": said(argmin, "argmin", "axis=None keepdims"),
    "flip": said(flip, "flip", "axis=0"),
    "take": said(take, "take", "axis=None"),
    "matmul": said(_plain_products, "matmul", "transp_a transp_b", (), **_TRANSP),
}
_OWN_NN = {
    "matmul": _products,
    "dense": said(_products, "dense", "out_dtype", (("transpose_b", True),)),
    "batch_matmul": said(_plain_products, "batch_matmul", "out_dtype transpose_a transpose_b=True"),
    "conv2d": said(
        conv2d, "conv2d", "strides padding dilation data_layout kernel_layout='' out_dtype"
    ),
    "conv2d_nchw": said(conv2d, "conv2d_nchw", _CONV, stride="strides"),
    "conv2d_nhwc": said(conv2d, "conv2d_nhwc", _CONV, _NHWC, stride="strides"),
    "depthwise_conv2d_nchw": said(_apart, "depthwise_conv2d_nchw", _CONV, stride="strides"),
    "pool2d": said(_pools, "pool2d", _POOL, kernel="pool_size", stride="strides"),
    "global_pool": composite("global_pool", _global_pool, rounds=False, table={}),
    "pad": composite("pad", _pad, dtypes=ALL, rounds=False, table={}),
    "flatten": batch_flatten,
}
topi: Any = _Names("topi", _OWN)
topi.nn = _Names("topi.nn", _OWN_NN)
