"""The rewrites that courses teach, written as a student writes them."""

from functools import partial

import numpy as np

from minimlc import passes
from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import Call, TensorType, Var, call_function
from minimlc.graphs.mutator import Mutator
from minimlc.loops.ir.nodes import PrimFunc, binary
from minimlc.loops.proofs.verify import verify
from minimlc.loops.te import te
from minimlc.loops.values.module import run_passes
from tests.helpers import assert_same


def mlp():
    """Dense, add, relu, dense, add on constants."""
    rng = np.random.default_rng(0)
    x = Var("x", TensorType((2, 12), "float32"))
    w0, b0, w1, b1 = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((8, 12), (8,), (4, 8), (4,))
    )
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            lv = bb.emit(op.dense(x, w0))
            lv1 = bb.emit(op.add(lv, b0))
            lv2 = bb.emit(op.relu(lv1))
            lv3 = bb.emit(op.dense(lv2, w1))
            gv = bb.emit_output(op.add(lv3, b1))
        bb.emit_func_output(gv)
    return bb.get()


class DenseAdd(Mutator):
    """dense then add become one group."""

    def visit_Call(self, call):
        dense = self.lookup_binding(call.args[0]) if call.op == "add" else None
        if not isinstance(dense, Call) or dense.op != "dense":
            return call
        args = (*dense.args, call.args[1])
        params = [Var(name, arg.type) for name, arg in zip("xwb", args, strict=True)]
        bb = BlockBuilder()
        with bb.function("fused_dense_add", params, attrs={"primitive": True}):
            with bb.dataflow():
                lv = bb.emit(op.dense(*params[:2]))
                gv = bb.emit_output(op.add(lv, params[2]))
            bb.emit_func_output(gv)
        name = self.builder.add_func(bb.get()["fused_dense_add"], "fused_dense_add")
        return call_function(name, args, call.type)


def te_dense(A, B):
    k = te.reduce_axis((0, A.shape[1]), "k")
    shape = (A.shape[0], B.shape[0])
    return te.compute(shape, lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), "dense")


def te_add(A, B):
    return te.compute(A.shape, lambda i, j: A[i, j] + B[j], "add")


def te_relu(A):
    return te.compute(A.shape, lambda i, j: binary("max", A[i, j], 0.0), "relu")


LOWERINGS = {
    "dense": lambda bb, call: bb.call_te(te_dense, *call.args),
    "add": lambda bb, call: bb.call_te(te_add, *call.args),
    "relu": lambda bb, call: bb.call_te(te_relu, *call.args),
}


def test_dense_add_fusion_down_to_one_function_per_layer():
    before = verify(mlp())
    fused = verify(passes.remove_unused(DenseAdd()(before)))
    assert list(fused.functions) == ["main", "fused_dense_add", "fused_dense_add1"]
    assert [b.value.op for b in fused["main"].bindings()] == ["call", "relu", "call"]
    assert_same(before, fused, func="main")
    again = DenseAdd()(fused)
    assert again is fused
    lowered = verify(passes.legalize(fused, LOWERINGS))
    final = verify(run_passes(lowered, (passes.fuse_tir, passes.remove_unused)))
    assert sorted(final.functions) == ["fused_dense_add", "fused_dense_add1", "main", "te_relu"]
    assert all(isinstance(f, PrimFunc) for n, f in final.functions.items() if n != "main")
    assert_same(before, final, func="main")


def test_the_same_by_pattern_kinds():
    steps = (partial(passes.legalize, overrides=LOWERINGS), passes.fuse_ops, passes.fuse_tir)
    final = verify(run_passes(mlp(), (*steps, passes.remove_unused)))
    assert list(final.functions) == [
        "main",
        "fused_te_dense_te_add_te_relu",
        "fused_te_dense_te_add",
    ]
    assert_same(mlp(), final, func="main")
