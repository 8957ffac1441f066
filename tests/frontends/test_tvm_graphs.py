"""Programs as in a course's chapters on whole models, imports and graph rewriting."""

from functools import partial

import numpy as np
import pytest

import minimlc as mlc
import minimlc.frontends.tvm as tvm
from minimlc.frontends.tvm import relax, te, topi
from minimlc.frontends.tvm.ir.module import IRModule
from minimlc.frontends.tvm.script import relax as R
from minimlc.frontends.tvm.script import tir as T
from tests.helpers import refuses

RNG = np.random.default_rng(2)


def rand(*shape):
    return RNG.standard_normal(shape).astype("float32")


def run(mod, *inputs):
    ex = relax.build(mod, target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    return vm["main"](*map(tvm.nd.array, inputs)).numpy()


PARAMS = {"w0": rand(32, 48), "b0": rand(32), "w1": rand(10, 32), "b1": rand(10)}


def expected(x):
    hidden = np.maximum(x @ PARAMS["w0"].T + PARAMS["b0"], 0)
    return hidden @ PARAMS["w1"].T + PARAMS["b1"]


# The model in a script: primitive functions, functions of a library, both


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def linear0(
        X: T.Buffer((1, 48), "float32"),
        W: T.Buffer((32, 48), "float32"),
        B: T.Buffer((32,), "float32"),
        Z: T.Buffer((1, 32), "float32"),
    ):
        Y = T.alloc_buffer((1, 32), "float32")
        for i, j, k in T.grid(1, 32, 48):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 32):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @T.prim_func
    def relu0(X: T.Buffer((1, 32), "float32"), Y: T.Buffer((1, 32), "float32")):
        for i, j in T.grid(1, 32):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @R.function
    def main(
        x: R.Tensor((1, 48), "float32"),
        w0: R.Tensor((32, 48), "float32"),
        b0: R.Tensor((32,), "float32"),
        w1: R.Tensor((10, 32), "float32"),
        b1: R.Tensor((10,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.call_tir(linear0, (x, w0, b0), (1, 32), dtype="float32")
            lv1 = R.call_tir(relu0, (lv0,), (1, 32), dtype="float32")
            out = R.call_tir("env.linear", (lv1, w1, b1), (1, 10), dtype="float32")
            R.output(out)
        return out


@tvm.register_func("env.linear", override=True)
def numpy_linear(x: tvm.nd.NDArray, w: tvm.nd.NDArray, b: tvm.nd.NDArray, out: tvm.nd.NDArray):
    assert isinstance(x, tvm.nd.NDArray)
    out[:] = x.numpy() @ w.numpy().T + b.asnumpy()


def test_a_model_that_calls_both():
    x = rand(1, 48)
    tvm.testing.assert_allclose(
        run(MyModule, x, *PARAMS.values()), expected(x), rtol=1e-4, atol=1e-4
    )
    assert tvm.get_global_func("env.linear") is not None


def test_a_registered_function_that_fails_is_shown_where_it_fails():
    @tvm.register_func("env.fails", override=True)
    def fails(x, out):
        out.copy_from(x)

    @tvm.script.ir_module
    class Failing:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return R.call_dps_packed("env.fails", (x,), out=R.Tensor((4,), "float32"))

    error = refuses("E613", lambda: run(Failing, rand(4)), "copy_from", "out.copy_from(x)")
    assert error.span.filename == __file__


def test_parameters_bound():
    x = rand(1, 48)
    nd_params = {name: tvm.nd.array(value) for name, value in PARAMS.items()}
    with_params = relax.transform.BindParams("main", nd_params)(MyModule)
    assert len(with_params["main"].params) == 1
    tvm.testing.assert_allclose(run(with_params, x), expected(x), rtol=1e-4, atol=1e-4)


def test_a_model_of_operators_and_its_passes():
    x = relax.Var("x", R.Tensor((1, 48), "float32"))
    consts = {name: relax.const(value) for name, value in PARAMS.items()}
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            lv = bb.emit(relax.op.matmul(x, relax.op.permute_dims(consts["w0"])))
            lv = bb.emit(relax.op.nn.relu(relax.op.add(lv, consts["b0"])))
            lv = bb.emit(R.matmul(lv, R.permute_dims(consts["w1"])))
            gv = bb.emit_output(R.add(lv, consts["b1"]))
        bb.emit_func_output(gv)
    mod = bb.get()
    data = rand(1, 48)
    passes = [
        *(relax.transform.Normalize(), relax.transform.FoldConstant()),
        *(relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern()),
        *(relax.transform.FuseOps(fuse_opt_level=2), relax.transform.FuseTIR()),
        relax.transform.DeadCodeElimination(["main"]),
    ]
    with tvm.target.Target("llvm"), tvm.transform.PassContext(opt_level=3):
        final = tvm.ir.transform.Sequential(passes)(mod)
    primitive = [name for name, func in final.functions.items() if name != "main"]
    assert len(primitive) == 2
    assert relax.analysis.well_formed(final)
    for each in (mod, final):
        tvm.testing.assert_allclose(run(each, data), expected(data), rtol=1e-4, atol=1e-4)


def test_one_graph_function_calls_another():
    @tvm.script.ir_module
    class Module:
        @R.function
        def double(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            return R.add(x, x)

        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            cls = Module
            y = cls.double(x)
            return R.nn.relu(cls.double(y))

    x = rand(2, 3)
    assert np.array_equal(run(Module, x), np.maximum(x * 4, 0))
    gv = Module.get_global_var("double")
    call = relax.Call(gv, [Module["main"].params[0]])
    assert isinstance(call, relax.Call)
    assert call.struct_info == relax.TensorStructInfo((2, 3), "float32")


def test_several_results():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            lv = bb.emit_te(topi.nn.softmax, x)
            gv0 = bb.emit_output(lv)
            gv1 = bb.emit_output(bb.call_te(topi.sum, x, axis=1))
        bb.emit_func_output(relax.Tuple([gv0, gv1]))
    data = rand(4, 4)
    soft, total = relax.VirtualMachine(tvm.build(bb.finalize()), tvm.cpu())["main"](data)
    e = np.exp(data - data.max(1, keepdims=True))
    tvm.testing.assert_allclose(soft.numpy(), e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    tvm.testing.assert_allclose(total.numpy(), data.sum(1), rtol=1e-5, atol=1e-5)


# Rewriting


def mlp():
    """dense, add, relu, dense, add on constants."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", (1, 48), relax.DynTensorType(2, "float32"))
    w0, b0, w1, b1 = (relax.const(value, "float32") for value in PARAMS.values())
    with bb.function("main", [x]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.nn.dense(x, w0))
            lv1 = bb.emit(relax.op.add(lv0, b0))
            lv2 = bb.emit(relax.op.nn.relu(lv1))
            lv3 = bb.emit(relax.op.nn.dense(lv2, w1))
            gv = bb.emit_output(relax.op.add(lv3, b1))
        bb.emit_func_output(gv)
    return bb.get()


def ops(func):
    return [binding.value.op for binding in func.bindings()]


@relax.expr_functor.mutator
class MultiplyAdd(relax.PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op != tvm.ir.Op.get("relax.add"):
            return call
        value = self.lookup_binding(call.args[0])
        if not isinstance(value, relax.Call) or value.op != tvm.ir.Op.get("relax.multiply"):
            return call
        fma = tvm.ir.Op.get("relax.ewise_fma")
        return relax.Call(fma, [value.args[0], value.args[1], call.args[1]], None, None)


def test_multiply_and_add_fused():
    @tvm.script.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                lv0 = relax.op.multiply(x, y)
                gv0 = relax.op.add(lv0, y)
                R.output(gv0)
            return gv0

    updated = MultiplyAdd().visit_expr(Module["main"])
    assert ops(updated) == ["multiply", "ewise_fma"]
    clean = relax.analysis.remove_all_unused(updated)
    assert ops(clean) == ["ewise_fma"]
    x, y = rand(3, 4), rand(3, 4)
    final = tvm.IRModule.from_expr(clean.with_attr("global_symbol", "main"))
    tvm.testing.assert_allclose(run(final, x, y), x * y + y, rtol=1e-6, atol=1e-6)
    assert MultiplyAdd().visit_expr(clean) is clean, "nothing to change: the same function"


def test_operators_replaced_one_by_one():
    @relax.expr_functor.mutator
    class Gelu(relax.PyExprMutator):
        """relu becomes gelu."""

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            return relax.op.nn.gelu(*call.args) if call.op == "relu" else call

    mod = mlp()
    main = Gelu().visit_expr(mod["main"])
    assert ops(main) == ["dense", "add", "gelu", "dense", "add"]
    x = rand(1, 48)
    h = x @ PARAMS["w0"].T + PARAMS["b0"]
    erf = np.vectorize(__import__("math").erf)
    gelu = h / 2 * (1 + erf(h / np.sqrt(2)))
    result = run(mod.with_function("main", main), x)
    tvm.testing.assert_allclose(result, gelu @ PARAMS["w1"].T + PARAMS["b1"], rtol=1e-3, atol=1e-3)


def test_constants_and_tuples_visited():
    @relax.expr_functor.mutator
    class Doubled(relax.PyExprMutator):
        def visit_constant_(self, const):
            return relax.const(const.data * 2)

    @tvm.script.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return R.add(x, R.const([1.0, 2.0], "float32"))

    x = rand(2)
    main = Doubled().visit_expr(Module["main"])
    assert np.array_equal(run(Module.with_function("main", main), x), x + np.float32([2, 4]))


OP_MAP = {
    "relax.nn.dense": lambda bb, call: bb.call_te(topi.nn.dense, *call.args),
    "relax.add": lambda bb, call: bb.call_te(topi.add, *call.args),
    "relax.nn.relu": lambda bb, call: bb.call_te(topi.nn.relu, call.args[0]),
}


@relax.expr_functor.mutator
class LowerToTensorIR(relax.PyExprMutator):
    def __init__(self, mod: IRModule, op_map) -> None:
        super().__init__()
        self.mod_ = mod
        self.op_map = {tvm.ir.Op.get(k): v for k, v in op_map.items()}

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op in self.op_map:
            return self.op_map[call.op](self.builder_, call)
        return call

    def transform(self) -> IRModule:
        for global_var, func in self.mod_.functions.items():
            if isinstance(func, relax.Function):
                self.builder_.update_func(global_var, self.visit_expr(func))
        return self.builder_.get()


@tvm.ir.transform.module_pass(opt_level=0, name="LowerToTensorIR")
class LowerToTensorIRPass:
    def transform_module(self, mod, ctx):
        return LowerToTensorIR(mod, OP_MAP).transform()


@tvm.transform.module_pass(opt_level=0)
def lowered(mod, ctx):
    return LowerToTensorIR(mod, OP_MAP).transform()


@pytest.mark.parametrize("lower", [LowerToTensorIRPass(), lowered], ids=["class", "function"])
def test_operators_lowered_to_loops(lower):
    mod = mlp()
    final = tvm.transform.Sequential([lower, relax.transform.FuseOps(), relax.transform.FuseTIR()])(
        mod
    )
    assert set(ops(final["main"])) == {"call_tir"}
    x = rand(1, 48)
    tvm.testing.assert_allclose(run(final, x), expected(x), rtol=1e-4, atol=1e-4)


def test_legalize_with_a_map_of_ones_own():
    def te_relu(A: te.Tensor):
        return te.compute(A.shape, lambda *i: te.max(A(*i), 0), name="mine")

    custom = {"relax.nn.relu": lambda bb, call: bb.call_te(te_relu, *call.args)}
    mod = relax.transform.LegalizeOps(custom)(mlp())
    assert "te_relu" in mod.functions
    x = rand(1, 48)
    tvm.testing.assert_allclose(run(mod, x), expected(x), rtol=1e-4, atol=1e-4)


def test_a_pass_is_one_of_ours_too():
    mod = mlc.run_passes(mlp(), [lowered, partial(mlc.passes.remove_unused, entries=["main"])])
    tvm.ir.assert_structural_equal(mod, lowered(mlp()))
    with pytest.raises(mlc.VerifyError, match="not structurally equal"):
        tvm.ir.assert_structural_equal(mod, mlp())


def test_a_call_of_a_function_elsewhere_is_kept():
    """Its effects are not known; in a dataflow block its author claims it only gives a value."""

    @R.function
    def alone(x: R.Tensor((2,), "float32")):
        y = R.call("elsewhere", (x,), out=R.Tensor((2,), "float32"))
        z = R.add(x, x)
        with R.dataflow():
            w = R.call("elsewhere", (x,), out=R.Tensor((2,), "float32"))
            v = R.add(x, x)
            R.output(v)
        return v

    assert ops(relax.analysis.remove_all_unused(alone)) == ["call", "add"]


def test_a_misspelt_function_is_no_registered_one():
    bb = relax.BlockBuilder(MyModule)
    x = relax.Var("x", (1, 32), "float32")
    with bb.function("other", [x]):
        gv = bb.emit(R.call_tir("relu", (x,), R.Tensor((1, 32), "float32")))
        bb.emit_func_output(gv)
    with pytest.raises(mlc.VerifyError, match="E224") as refusal:
        relax.build(bb.get())
    assert 'did you mean "relu0"?' in str(refusal.value)


def test_targets():
    target = tvm.target.Target("llvm -num-cores 4 -mcpu=x86-64-v3", host="llvm")
    assert isinstance(target, tvm.target.Target)
    assert (target.name, target.cores, target.cpu) == ("llvm", 4, "x86-64-v3")
    assert tvm.target.Target(target) is target
    with pytest.raises(mlc.BuildError, match='unknown option "keys" of a target; known: -mcpu'):
        tvm.target.Target("llvm -keys=cpu")
    with pytest.raises(TypeError, match="unexpected keyword"):
        relax.build(MyModule, params={})


def test_a_method_that_nothing_calls_is_refused():
    with pytest.raises(tvm.TVMError, match=r"PyExprMutator has no name 'visit_var_binding_' here"):

        @relax.expr_functor.mutator
        class Renamed(relax.PyExprMutator):
            def visit_var_binding_(self, binding):
                return binding
