"""Running sums for processors that have a thread for each element."""

from math import prod

from minimlc.graphs.ir.nodes import Call, Expr, size_names
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops.checks import axis_of
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.target import CPUS, Target
from minimlc.services.arrays.scan import PARALLEL

FEW, MANY = 32, 1 << 15
"""Elements of an axis that a thread takes in order, and rows from which on threads are busy."""


@module_pass
def scan_by_doubling(mod: IRModule, target: str | Target | None = None) -> IRModule:
    """Replace running sums and other scans by n log n steps, on GPUs.

        lv = R.cumsum(x, axis=0)     -->     lv = R.call_tir("cumsum", (x,), ...)

    Each of the steps is for all elements at once, where the operator takes one after the other. On
    CPUs, and where an axis is short or there are rows for all threads, operators stay as they are;
    so do functions of symbolic sizes. Legal always: sums of floats round in another order.
    """
    return mod if Target.of(target).name in CPUS else _Doubled()(mod)


class _Doubled(Mutator):
    def visit_Call(self, call: Call) -> Expr:
        if call.op not in PARALLEL or size_names(call.args[0].type):
            return call
        shape, attrs = call.args[0].shape, dict(call.attrs)
        size = shape[axis_of(attrs["axis"], len(shape))]
        if size <= FEW or prod(shape) >= MANY * size:
            return call
        op = PARALLEL[call.op]
        return self.builder.call_te(
            lambda x: op.lower(x, **attrs), *call.args, primfunc_name_hint=call.op
        )
