"""Recurrent layers as operators, step after step."""

from minimlc.graphs.ir.nodes import Call, Expr, Tuple, size_names
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops import OPS
from minimlc.graphs.ops.checks import HALF
from minimlc.loops.values.module import IRModule, module_pass

RECURRENT = ("gru", "lstm", "rnn")


@module_pass
def unroll_recurrent(mod: IRModule) -> IRModule:
    """Replace recurrent layers by the operators of their formulas.

        lv = R.rnn(x, w, r)    -->    lv = R.dense(R.reshape(x, ...), w); lv1 = R.split(lv, ...)
                                      h = R.tanh(R.add(lv1[0], R.dense(h, r))); ...

    The steps are alike, so they share their kernels, where a layer as one kernel takes longer to
    build with each step. 16-bit floats are computed with in float32, as the operator does.
    """
    return _Unrolled()(mod)


class _Unrolled(Mutator):
    def visit_Call(self, call: Call) -> Expr:
        if call.op not in RECURRENT or size_names(*[arg.type for arg in call.args]):
            return call  # only an instance has a number of steps
        dtype, cast = call.args[0].dtype, OPS["cast"]
        args = [cast(a, dtype="float32") for a in call.args] if dtype in HALF else call.args
        results = OPS[call.op].formula(*args, **dict(call.attrs))
        if dtype in HALF:
            results = [cast(result, dtype=dtype) for result in results]
        return Tuple(tuple(results))
