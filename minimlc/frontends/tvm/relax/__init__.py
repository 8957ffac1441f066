"""`tvm.relax`: graph functions."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from minimlc.frontends.tvm.alias import Alias
from minimlc.frontends.tvm.driver import build
from minimlc.frontends.tvm.ir import GlobalVar
from minimlc.frontends.tvm.relax import analysis, expr_functor, operators, transform, vm
from minimlc.frontends.tvm.relax.builder import BlockBuilder
from minimlc.frontends.tvm.relax.expr_functor import PyExprMutator
from minimlc.frontends.tvm.relax.operators import op as op
from minimlc.frontends.tvm.runtime import VirtualMachine
from minimlc.graphs.ir import nodes
from minimlc.graphs.ir.nodes import (
    Constant,
    Expr,
    Function,
    TensorType,
    TupleGetItem,
    TupleType,
    Var,
)
from minimlc.graphs.ops import call_op
from minimlc.script import R

const, call_tir, call_dps_packed, vm_build = R.const, R.call_tir, R.call_dps_packed, vm
DataflowVar, VarBinding = Var, nodes.Binding
TensorStructInfo, TupleStructInfo, StructInfo = TensorType, TupleType, TensorType
BindingBlock = DataflowBlock = nodes.BindingBlock


class DynTensorType(NamedTuple):
    """The type of a tensor besides its shape, in older versions of TVM."""

    ndim: int = -1
    dtype: str = "float32"


class Tuple(metaclass=Alias):
    """Several values as one."""

    kind = nodes.Tuple

    def __new__(cls, fields: Iterable[Expr]) -> nodes.Tuple:  # type: ignore[misc]
        return nodes.Tuple(tuple(fields))


class Call(metaclass=Alias):
    """An operator, or a graph function of the module, applied to values."""

    kind = nodes.Call

    def __new__(cls, op: Any, args: Any, attrs: Any = None, sinfo_args: Any = None) -> Any:
        if not isinstance(op, GlobalVar):
            return call_op(op, *args, **dict(attrs)) if attrs else getattr(operators.op, op)(*args)
        out: Any = sinfo_args[0] if sinfo_args else op.result
        return nodes.call_function(op, tuple(args), out)
