"""`tvm.relax`: graph functions."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from minimlc.frontends.tvm.absent import names_of
from minimlc.frontends.tvm.alias import Alias
from minimlc.frontends.tvm.driver import build
from minimlc.frontends.tvm.ir import GlobalVar
from minimlc.frontends.tvm.relax import analysis, expr_functor, transform, vm
from minimlc.frontends.tvm.relax.builder import BlockBuilder
from minimlc.frontends.tvm.relax.expr_functor import PyExprMutator
from minimlc.frontends.tvm.runtime import VirtualMachine
from minimlc.graph import nodes
from minimlc.graph.nodes import BindingBlock, Expr, Function, TensorType, TupleGetItem, TupleType
from minimlc.graph.ops import call_op
from minimlc.module import Pass, run_passes
from minimlc.passes import default_pipeline
from minimlc.script import R

op = R
TensorStructInfo, TupleStructInfo, StructInfo = TensorType, TupleType, TensorType
call_tir, call_dps_packed = R.call_tir, R.call_dps_packed
DataflowBlock, VarBinding = BindingBlock, nodes.Binding


def DynTensorType(ndim: int, dtype: str = "float32") -> str:
    """What TVM once said of a tensor besides its shape: here only the dtype matters."""
    return dtype


class Var(metaclass=Alias):
    """A variable: by its type, or by a shape and a dtype."""

    kind = nodes.Var

    def __new__(cls, name_hint: str, shape: Any, dtype: Any = None) -> nodes.Var:  # type: ignore[misc]
        kind = shape if dtype is None else TensorType(shape, getattr(dtype, "dtype", dtype))
        return nodes.Var(name_hint, kind)


DataflowVar = Var


class Constant(metaclass=Alias):
    """A tensor known at compile time."""

    kind = nodes.Constant

    def __new__(cls, data: Any, struct_info: Any = None) -> nodes.Constant:  # type: ignore[misc]
        return const(data, struct_info)


class Tuple(metaclass=Alias):
    """Several values as one."""

    kind = nodes.Tuple

    def __new__(cls, fields: Iterable[Expr]) -> nodes.Tuple:  # type: ignore[misc]
        return nodes.Tuple(tuple(fields))


class Call(metaclass=Alias):
    """An operator, or a graph function of the module, applied to values."""

    kind = nodes.Call

    def __new__(  # type: ignore[misc]
        cls,
        op: Any,
        args: Iterable[Expr],
        attrs: Mapping[str, Any] | None = None,
        sinfo_args: Any = None,
    ) -> nodes.Call:
        if not isinstance(op, GlobalVar):
            return call_op(op, *args, **dict(attrs or {}))
        out = sinfo_args[0] if sinfo_args else op.result
        return nodes.call_function(op, tuple(args), out)


def const(value: Any, dtype: Any = None) -> nodes.Constant:
    """A constant tensor; Python's floats are float32."""
    return R.const(value, getattr(dtype, "dtype", dtype))


def get_pipeline(name: str = "zero", **_: Any) -> Pass:
    """The passes that `tvm.build` applies to graph functions."""
    return partial(run_passes, passes=default_pipeline)


__getattr__ = names_of(__name__, globals())
