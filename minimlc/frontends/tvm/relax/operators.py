"""`tvm.relax.op`: the operators, called as TVM calls them."""

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from minimlc.errors import ScriptError
from minimlc.frontends.tvm.absent import INSTEAD, absent
from minimlc.graph.nodes import Call
from minimlc.graph.ops import OPS, call_op
from minimlc.graph.ops.checks import NO_DTYPE
from minimlc.graph.topi import said
from minimlc.script import R
from minimlc.script.constructs import Namespace

_POOLING = "pool_size=1 strides=1 padding dilation ceil_mode count_include_pad layout out_layout"
_ORDERS = {
    "arange": "start end step dtype=None",
    "argmax": "axis=None keepdims",
    "argmin": "axis=None keepdims",
    "avg_pool2d": _POOLING,
    "full": "shape fill_value dtype=None",
    "full_like": "fill_value dtype",
    "max_pool2d": _POOLING,
    "pad": "pad_width pad_value",
    "strided_slice": "axes=... begin end strides",
    "take": "axis=None",
}
"""The options of operators in TVM's order, with its defaults where ours are others."""

_MEANT = {"end": "stop", "fill_value": "value", "pad_value": "value"}
"""What TVM calls options, and what they are here."""


def _in_order(name: str, order: str) -> Callable[..., Call]:
    """The operator `name`, its options in this order."""
    own = dict(OPS[name].attrs)
    meant = {key: _MEANT[key] for key in _MEANT if key not in own}
    record = said(OPS[name], name, order, (), **meant)

    def apply(*args: Any, **options: Any) -> Call:
        with record.refusing():
            values = record.bind(args, options)
        if "dtype=None" in order and values["dtype"] in NO_DTYPE:
            values["dtype"] = _dtype(values)
        return call_op(name, **{meant.get(key, key): value for key, value in values.items()})

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__, apply.__signature__ = record.doc, record.signature  # type: ignore[attr-defined]
    return apply


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
    """Operators by names that TVM has for others are absent."""
    full = {name: f"tvm.relax.op.{name}" for name in values}
    return {n: absent(full[n], ()) if full[n] in INSTEAD else each for n, each in values.items()}


_OWN = {name: _in_order(name, order) for name, order in _ORDERS.items()}
_NN = Operators("R.nn", ChainMap(_OWN, _meant(vars(R.nn)["_values"])))
op = Operators("R", ChainMap({"nn": _NN}, _OWN, _meant(vars(R)["_values"])))
