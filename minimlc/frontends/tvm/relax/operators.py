"""`tvm.relax.op`: the operators, called as TVM calls them."""

from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from minimlc.frontends.tvm.absent import INSTEAD, absent
from minimlc.frontends.tvm.table import rows
from minimlc.graphs.ir.nodes import Call, Expr, Tuple, TupleGetItem
from minimlc.graphs.ops import OPS, call_op
from minimlc.graphs.ops.checks import NO_DTYPE, refuse
from minimlc.graphs.text.graph_value import GRAPHS
from minimlc.loops.text.constructs import Namespace
from minimlc.loops.values.errors import ScriptError
from minimlc.script import R
from minimlc.services.spellings.topi import said

_ORDERS = rows(__file__)
"""The options of operators in TVM's order, with its defaults where ours are others."""

_CALLED = {"floor_mod": "mod", "gather_elements": "take_along_axis"}
"""TVM's names of operators, and the names here."""

_MEANT = {"end": "stop", "fill_value": "value", "pad_mode": "mode", "pad_value": "value"}
"""TVM's names of options, and the names here."""


_PLACES = {"fast": "end"}
"""Modes of `take`: TVM leaves places out of range undefined in mode "fast"."""

_FLAGS = ("center", "beta", R.zeros_like), ("scale", "gamma", R.ones_like)
"""Options that leave a tensor out, and what stands for it."""


def _in_order(name: str, order: str) -> Callable[..., Expr]:
    """The operator `name`, its options in this order."""
    op = OPS[_CALLED.get(name, name)]
    attrs = dict(op.attrs)
    meant = {key: _MEANT[key] for key in _MEANT if key not in attrs}
    record = said(op, name, order, (), **meant)
    usual = {k: v for k, v in record.attrs if meant.get(k, k) not in attrs and name not in _AS}

    def apply(*args: Any, **options: Any) -> Expr:
        with record.refusing():
            values = record.bind(args, options)
            for key in usual:
                if values.pop(key) not in (usual[key], None):
                    refuse(f"{key} is {usual[key]!r} here, and no other", "E204")
            for flag, key, like in _FLAGS:
                if not values.pop(flag, True):
                    values[key] = like(values[key])
            if name in _AS:
                try:
                    return _AS[name](**values)
                except (AttributeError, TypeError, ValueError) as error:
                    refuse(f"{error}", "E201", f"{name}{record.signature}")
        if "dtype=None" in order and values["dtype"] in NO_DTYPE:
            values["dtype"] = _dtype(values)
        return call_op(op.name, **{meant.get(key, key): value for key, value in values.items()})

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__, apply.__signature__ = record.doc, record.signature  # type: ignore[attr-defined]
    return apply


def _sums(name: str, x: Any, axis: int | None, dtype: Any, exclusive: bool) -> Call:
    """Sums or products up to each element, of all elements where there is no axis."""
    x = x if dtype in NO_DTYPE else R.astype(x, dtype)
    x = R.reshape(x, (-1,)) if axis is None else x
    return call_op(name, x, axis=axis or 0, exclusive=exclusive)


def _topk(ret_type: str, dtype: str, **options: Any) -> Expr:
    """The greatest elements, or their places, or both."""
    both = call_op("topk", **options)
    parts = TupleGetItem(both, 0), R.astype(TupleGetItem(both, 1), dtype)
    if ret_type not in (chosen := {"both": Tuple(parts), "values": parts[0], "indices": parts[1]}):
        refuse(f"ret_type is one of {', '.join(chosen)}, got {ret_type!r}", "E204")
    return chosen[ret_type]


def _batch_norm(x: Any, axis: int, momentum: float, training: bool, **options: Any) -> Tuple:
    """A tensor normalized by statistics, in training by its own; and those that are kept."""
    kept = used = [options.pop("mean"), options.pop("variance")]
    if training:
        rest = [other for other in range(x.ndim) if other != axis % x.ndim]
        used = [R.mean(x, rest), R.variance(x, rest)]
        kept = [old * (1 - momentum) + new * momentum for old, new in zip(kept, used, strict=True)]
    y = call_op("batch_norm", x, mean=used[0], variance=used[1], axis=axis, **options)
    return Tuple((y, *kept))


def _group_norm(name: str, x: Any, channel_axis: int, axes: Any, **options: Any) -> Call:
    """A tensor normalized over groups of channels, and all axes behind the batch's."""
    rest = {*range(1, x.ndim)} - {channel_axis % x.ndim}
    if {axis % x.ndim for axis in axes} != rest:
        refuse(f"axes are all but the batch's and the channels', {sorted(rest)}", "E204")
    return call_op(name, x, channel_axis=channel_axis, **options)


def _one_hot(on_value: Any, off_value: Any, **options: Any) -> Call:
    """Two values by places; the dtype is that of the first."""
    first = {"fill_value": on_value} if hasattr(on_value, "dtype") else {"value": on_value}
    on, off = (np.asarray(getattr(value, "data", value)).item() for value in (on_value, off_value))
    return call_op("one_hot", on_value=on, off_value=off, dtype=_dtype(first), **options)


def _scatter(name: str, reduction: str, **options: Any) -> Call:
    """Updates at places: TVM's "update" takes no old value in."""
    return call_op(name, reduction="none" if reduction == "update" else reduction, **options)


_AS: Mapping[str, Callable[..., Expr]] = {
    "argsort": lambda dtype, **options: R.astype(call_op("argsort", **options), dtype),
    "batch_norm": _batch_norm,
    "floor_divide": lambda x, y: R.floor_divide(x, y) if x.dtype[0] in "iu" else R.floor(x / y),
    "one_hot": _one_hot,
    "take": lambda mode, **options: call_op("take", mode=_PLACES.get(mode, mode), **options),
    "topk": _topk,
    **{name: partial(_sums, name) for name in ("cumprod", "cumsum")},
    **{name: partial(_group_norm, name) for name in ("group_norm", "instance_norm")},
    **{name: partial(_scatter, name) for name in ("scatter_elements", "scatter_nd")},
}
"""Operators whose options differ here, as functions of TVM's."""


def _dtype(values: dict[str, Any]) -> str:
    """The dtype of a tensor of these numbers."""
    if "fill_value" in values:
        return getattr(values["fill_value"], "dtype", "float32")
    floats = any(isinstance(value, float) for value in values.values())
    return "float32" if floats else "int64"


class Operators(Namespace):
    """The operators, by TVM's names too; scripts know them as R's."""

    def __getattr__(self, name: str) -> Any:
        try:
            return Namespace.__getattr__(self, name)
        except ScriptError:
            return absent(f"tvm.relax.op.{name}", self._values)


def _meant(values: Mapping[str, Any]) -> dict[str, Any]:
    """Operators by name; absent where the name is another operator's in TVM."""
    full = {name: f"tvm.relax.op.{name}" for name in values}
    return {n: absent(full[n], ()) if full[n] in INSTEAD else item for n, item in values.items()}


_OWN = {name: _in_order(name, order) for name, order in _ORDERS.items()}
_NN = Operators("R.nn", ChainMap(_OWN, _meant(vars(R.nn)["_values"])))
_MORE = {"nn": _NN}
op = Operators("R", ChainMap(_MORE, _OWN, _meant(vars(R)["_values"])))
_MORE["op"] = op
# Scripts may call the module relax itself, and older ones say Tensor(...).
GRAPHS.modules[__name__.rpartition(".")[0]] = op
GRAPHS.spellings["Tensor"] = "R.Tensor"
