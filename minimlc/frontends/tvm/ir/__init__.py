"""`tvm.ir`: modules, operators and the names of functions."""

from typing import Any

from minimlc.frontends.tvm.ir import module, transform
from minimlc.frontends.tvm.ir.transform import PassContext
from minimlc.graphs.ir.nodes import JOINTS, Expr, Function, Type
from minimlc.graphs.ops import find_op
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.errors import VerifyError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import Node, structural_equal, structural_hash

PrimExpr = Node


class Op(str):
    """An operator: what `call.op` is compared with."""

    @staticmethod
    def get(name: str) -> "Op":
        """The operator that TVM calls "relax.nn.relu"; here it is "relu"."""
        base = name.rpartition(".")[2]
        return Op(base if base in JOINTS else find_op(base).name)


class GlobalVar(str):
    """The name of a function in a module, and the type of its result, if it is known."""

    result: Type | None = None

    name_hint = property(str)


def global_var(name: str, func: Any = None) -> GlobalVar:
    """The name of a function."""
    var = GlobalVar(name)
    var.result = func.result.type if isinstance(func, Function) else None
    return var


def assert_structural_equal(lhs: Any, rhs: Any) -> None:
    """`VerifyError` unless two trees are equal up to the names of bound variables."""
    if not structural_equal(lhs, rhs):
        raise VerifyError("the two are not structurally equal", hint="tvm.ir.structural_equal")
