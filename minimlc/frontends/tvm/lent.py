"""Attributes that TVM's programs ask of values, lent to the classes of these values here.

Importing this package gives the classes below attributes under the names that TVM has for them.
"""

from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from minimlc.frontends.tvm.ir import global_var
from minimlc.frontends.tvm.schedule import operands
from minimlc.frontends.tvm.table import rows
from minimlc.frontends.tvm.te import Operation
from minimlc.graphs.ir.nodes import Expr, Function, Var
from minimlc.loops.ir.nodes import Block, For
from minimlc.loops.schedule import Trace
from minimlc.loops.te.tensors import ReduceAxis, Tensor
from minimlc.loops.values.display import display
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import Node
from minimlc.loops.values.target import Target
from minimlc.services.runtime.timing import Timing


def _unchangeable(self: IRModule, name: Any, func: Any) -> NoReturn:
    why = f"a module never changes; instead: mod = mod.with_function({str(name)!r}, func)"
    raise CompileError(why, code="E133")


_itself = property(lambda self: self)
LENT: dict[type, dict[str, Any]] = {
    Expr: {},
    Var: {},
    For: {},
    Block: {f"{r}s": property(partial(operands, role=r)) for r in ("read", "write")},
    Function: {"body": property(lambda f: SimpleNamespace(blocks=f.blocks, body=f.result))},
    Node: {"same_as": lambda self, other: self is other},
    ReduceAxis: {"var": _itself},
    IRModule: {
        "get_global_var": lambda self, name: global_var(name, self[name]),
        "get_global_vars": lambda self: [global_var(*entry) for entry in self.entries],
        **dict.fromkeys(("update_func", "__setitem__"), _unchangeable),
    },
    Tensor: {"op": property(Operation)},
    Timing: {
        "mean": property(lambda self: float(np.mean(self.samples))),
        "max": property(lambda self: max(self.samples)),
    },
    Target: {"kind": _itself, "__enter__": lambda it: it, "__exit__": lambda it, *_: None},
    Trace: {"show": display},
}
"""The attributes by class; none of them is a name that the class has by itself."""

for _class, _attributes in LENT.items():
    for _pair in rows(__file__).get(_class.__name__, "").split():
        _attributes[_pair.split("=")[0]] = property(attrgetter(_pair.split("=")[1]))
    for _name, _value in _attributes.items():
        setattr(_class, _name, _value)
