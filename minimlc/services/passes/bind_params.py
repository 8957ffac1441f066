"""Fix some parameters of a function."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from minimlc.graphs.ir.nodes import Constant, Expr, Function, TensorType, Var, constant
from minimlc.graphs.ir.scope import refuse
from minimlc.graphs.mutator import Mutator
from minimlc.loops.values.dtypes import dtype_name
from minimlc.loops.values.errors import did_you_mean
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import replace


@module_pass
def bind_params(mod: IRModule, params: Mapping[str, Any], func: str = "main") -> IRModule:
    """Make constants of parameters of the graph function `func`.

        def main(x, w):                        def main(x):
            lv = R.matmul(x, w)     -->            lv = R.matmul(x, const)

    `params` gives arrays by parameter name; they are copied. `CompileError` for a name that is no
    parameter and for an array of another shape or dtype. As a pass:
    `functools.partial(bind_params, params=params)`.
    """
    if not isinstance(params, Mapping):
        why = f"bind_params: params are arrays by parameter name, got {type(params).__name__}"
        refuse(why, "E230", 'bind_params(mod, {"w": array})')
    target = mod[func]
    if not isinstance(target, Function):
        refuse(f'bind_params: "{func}" is not a graph function', "E230")
    by_name = {param.name: param for param in target.params}
    values: dict[Var, Constant] = {}
    for name, array in params.items():
        if name not in by_name:
            why = f'bind_params: "{func}" has no parameter "{name}"'
            refuse(why, "E230", did_you_mean(name, by_name))
        values[by_name[name]] = _constant(name, by_name[name], array)
    if not values:
        return mod
    rest = tuple(param for param in target.params if param not in values)
    return mod.with_function(func, replace(_Bind(values).visit(target), params=rest))


def _constant(name: str, param: Var, array: Any) -> Constant:
    data, declared = np.asarray(array), param.type
    if not isinstance(declared, TensorType):
        refuse(f'bind_params: "{name}" is a tuple, not a tensor', "E230")
    if data.shape != declared.shape:
        why = f'bind_params: "{name}" has the shape {declared.shape}, the array {data.shape}'
        refuse(why, "E230")
    given = TensorType(data.shape, dtype_name(data.dtype))
    if given != declared:
        why = f'bind_params: "{name}" is {declared}, the array is {given}'
        refuse(why, "E230", f'array.astype("{declared.dtype}") converts it')
    return constant(data)


class _Bind(Mutator):
    def __init__(self, values: Mapping[Var, Constant]):
        self.values = values

    def visit_Function(self, func: Function) -> Function:
        return self.rewrite_function(func)

    def visit_Var(self, var: Var) -> Expr:
        return self.values.get(var, var)
