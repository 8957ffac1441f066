"""What TVM's programs ask of values, lent to the classes that these have here.

Importing this package gives the classes below attributes under the names that TVM has for them.
"""

from typing import Any, NoReturn

import numpy as np

from minimlc.display import display
from minimlc.errors import CompileError
from minimlc.frontends.tvm.ir import global_var
from minimlc.frontends.tvm.te import Operation
from minimlc.graph.nodes import Expr, Function, Var
from minimlc.module import IRModule
from minimlc.runtime.timing import Timing
from minimlc.schedule import Trace
from minimlc.target import Target
from minimlc.tir.tensors import Tensor


def _unchangeable(self: IRModule, name: Any, func: Any) -> NoReturn:
    why = f"a module never changes; instead: mod = mod.with_function({str(name)!r}, func)"
    raise CompileError(why, code="E133")


_type = property(lambda self: self.type)

LENT: dict[type, dict[str, Any]] = {
    Expr: {
        **dict.fromkeys(("_checked_type_", "checked_type", "struct_info", "ty"), _type),
        "shape_": property(lambda self: self.shape),
    },
    Var: {"name_hint": property(lambda self: self.name)},
    Function: {"ret_struct_info": property(lambda self: self.result.type)},
    IRModule: {
        "get_global_var": lambda self, name: global_var(name, self[name]),
        "get_global_vars": lambda self: [global_var(*entry) for entry in self.entries],
        **dict.fromkeys(("update_func", "__setitem__"), _unchangeable),
    },
    Tensor: {"op": property(Operation)},
    Timing: {
        "results": property(lambda self: self.samples),
        "mean": property(lambda self: float(np.mean(self.samples))),
        "max": property(lambda self: max(self.samples)),
    },
    Target: {"__enter__": lambda self: self, "__exit__": lambda self, *_: None},
    Trace: {"show": display},
}
"""The attributes by class; none of them is a name that the class has by itself."""

for _class, _attributes in LENT.items():
    for _name, _value in _attributes.items():
        setattr(_class, _name, _value)
