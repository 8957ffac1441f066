"""A copy of rings 1 and 2 at work: graphs of operators become planned calls of functions."""

import sys

import numpy as np

import minimlc as mlc
from minimlc.graphs.plan import plan
from minimlc.loops.llvm.kernel import compile_function
from minimlc.script import I, R, T

assert mlc.__file__.startswith(sys.argv[1])


@I.ir_module
class Model:
    @T.prim_func
    def double(X: T.Buffer((2, 10), "float32"), Y: T.Buffer((2, 10), "float32")):
        for i, j in T.grid(2, 10):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * 2.0

    @R.function
    def main(
        x: R.Tensor((2, 16), "float32"),
        w: R.Tensor((16, 10), "float32"),
        b: R.Tensor((10,), "float32"),
    ):
        with R.dataflow():
            lv = R.nn.relu(R.matmul(x, w) + b)
            out = R.call_tir("double", (lv,), out=R.Tensor((2, 10), "float32"))
            R.output(out)
        return out


assert mlc.structural_equal(mlc.parse(Model.script()), mlc.verify(Model))
rng = np.random.default_rng(0)
x, w, b = (rng.standard_normal(s, "float32") for s in ((2, 16), (16, 10), (10,)))
expected = np.maximum(x @ w + b, 0) * 2
np.testing.assert_allclose(mlc.interpret(Model, "main", x, w, b), expected, rtol=1e-5, atol=1e-6)
mod = mlc.run_passes(Model, mlc.passes.default_pipeline)
mlc.verify(mod)
assert all(call.op == "call_tir" for call in (item.value for item in mod["main"].bindings()))
np.testing.assert_allclose(mlc.interpret(mod, "main", x, w, b), expected, rtol=1e-5, atol=1e-6)

# The plan says which memory each call takes; its functions run as machine code.
planned = plan(mod, "main")
memory = {("input", at): array for at, array in enumerate((x, w, b))}
memory |= {("constant", at): array for at, array in enumerate(planned.constants)}
kernels = {name: compile_function(mod[name]) for name in {step.callee for step in planned.steps}}
for step in planned.steps:
    for slot in step.slots:
        place = slot.kind, slot.number
        memory.setdefault(place, np.empty(slot.type.shape, slot.type.dtype))
    kernels[step.callee](*[memory[slot.kind, slot.number] for slot in step.slots])
(result,) = planned.results
np.testing.assert_allclose(memory[result.kind, result.number], expected, rtol=1e-5, atol=1e-6)

bb = mlc.BlockBuilder()
v = mlc.Var("v", R.Tensor((4, 4), "float32"))
with bb.function("main", [v]):
    bb.emit_func_output(bb.emit(mlc.op.relu(mlc.op.matmul(v, v))))
square = rng.standard_normal((4, 4), "float32")
found = mlc.interpret(bb.get(), "main", square)
np.testing.assert_allclose(found, np.maximum(square @ square, 0), rtol=1e-5, atol=1e-6)
try:
    mlc.op.matmul(v, mlc.Var("u", R.Tensor((5, 4), "float32")))
except mlc.OpError as error:
    assert "matmul" in str(error)
print("the graphs work")
