"""Every name of TVM is here, or has a replacement in one line; and `import tvm` comes and goes."""

import subprocess
import sys
from types import ModuleType

import pytest

import minimlc as mlc
import minimlc.frontends.tvm as tvm
from minimlc import script
from minimlc.frontends.tvm.absent import INSTEAD, Absent, Unmapped
from minimlc.frontends.tvm.finder import modules
from minimlc.frontends.tvm.lent import LENT
from minimlc.frontends.tvm.script import tir as T

# What programs written for TVM use of it, by module: from its documentation and courses.
SURFACE = {
    "tvm": """
        IRModule TVMError arith autotvm auto_scheduler build compile contrib cpu cuda device dlight
        driver error get_global_func gpu instrument ir lower meta_schedule metal micro nd opencl
        register_func register_global_func relax relay rocm rpc runtime s_tir script target te
        testing tir topi transform vulkan webgpu""",
    "tvm.script": "from_source highlight ir ir_builder ir_module parse printer relax tir",
    "tvm.ir": """
        Array BaseFunc GlobalVar IRModule Map Op PassContext PrimExpr PrimType Range RelaxExpr Span
        Type assert_structural_equal instrument load_json module register_op_attr save_json
        structural_equal structural_hash transform""",
    "tvm.ir.transform": "PassContext PrintIR Sequential module_pass",
    "tvm.tir": """
        AttrStmt Block BlockRV Buffer BufferLoad BufferStore Cast Evaluate FloatImm For IfThenElse
        IndexMap IntImm IterVar LoopRV PrimExpr PrimFunc SBlock Schedule ScheduleError Select
        SeqStmt SizeVar Stmt TensorIntrin Var abs all analysis any call_extern call_intrin
        call_packed cast ceil const cos decl_buffer erf exp floor floordiv floormod if_then_else
        infinity ir_builder layout log max max_value min min_value power round rsqrt schedule
        sigmoid sin sqrt stmt_functor tanh transform""",
    "tvm.te.Schedule": "cache_read cache_write rfactor",
    "tvm.te": """
        abs all any ceil comm_reducer compute const cos create_prim_func create_schedule erf exp
        extern floor gradient hybrid if_then_else log max max_value min min_value placeholder power
        reduce_axis round rsqrt scan sigmoid sin sqrt sum tag_scope tanh thread_axis var""",
    "tvm.topi": """
        abs add arm_cpu broadcast_to cast ceil concatenate cos cuda divide equal erf exp expand_dims
        flip floor full generic greater less log matmul max maximum mean min minimum multiply
        negative nn not_equal power prod reshape rsqrt sigmoid sin split sqrt squeeze stack
        strided_slice subtract sum take tanh testing transpose where x86""",
    "tvm.topi.nn": """
        batch_matmul batch_norm bias_add conv2d conv2d_nchw dense flatten leaky_relu log_softmax
        matmul pad pool2d relu softmax upsampling""",
    "tvm.relax": """
        BindingBlock BlockBuilder Call Constant DataflowBlock DataflowVar DynTensorType Expr
        ExternFunc FuncStructInfo Function GlobalVar If PrimValue PyExprMutator SeqExpr ShapeExpr
        ShapeStructInfo StructInfo TensorStructInfo Tuple TupleGetItem TupleStructInfo Var
        VarBinding VirtualMachine analysis backend build call_dps_packed call_tir const distributed
        dpl expr_functor extern frontend get_pipeline get_shape_of op training transform vm""",
    "tvm.relax.op": """
        abs add argmax astype broadcast_to call_tir ceil concat cumsum divide equal erf ewise_fma
        exp expand_dims flatten floor full greater less log matmul max maximum mean min minimum
        multiply negative nn one_hot ones permute_dims power prod reshape round rsqrt sigmoid sin
        sort split sqrt squeeze strided_slice subtract sum take tanh topk where zeros""",
    "tvm.relax.op.nn": """
        avg_pool2d conv2d dense gelu layer_norm leaky_relu log_softmax max_pool2d relu silu
        softmax""",
    "tvm.relax.transform": """
        AllocateWorkspace AlterOpImpl AnnotateTIROpPattern AttachGlobalSymbol BindParams
        BindSymbolicVars BundleModelParams CallTIRRewrite CanonicalizeBindings CombineParallelMatmul
        ConvertLayout ConvertToDataflow DataflowUseInplaceCalls DeadCodeElimination
        DecomposeOpsForInference DecomposeOpsForTraining EliminateCommonSubexpr ExpandTupleArguments
        FoldConstant FuseOps FuseOpsByPattern FuseTIR Gradient InlinePrivateFunctions
        KillAfterLastUse LambdaLift LazyTransformParams LegalizeOps LiftTransformParams
        LowerAllocTensor MergeCompositeFunctions MetaScheduleApplyDatabase MetaScheduleTuneIRMod
        MetaScheduleTuneTIR Normalize RealizeVDevice RemovePurityChecking RewriteCUDAGraph
        RewriteDataflowReshape RunCodegen SplitCallTIRByPattern StaticPlanBlockMemory
        ToMixedPrecision ToNonDataflow UpdateVDevice VMBuiltinLower VMShapeLower
        dataflowblock_pass function_pass""",
    "tvm.relax.analysis": """
        all_vars bound_vars contains_impure_call free_vars get_var2val has_reshape_pattern
        name_to_binding post_order_visit remove_all_unused suggest_layout_transforms udchain
        well_formed""",
    "tvm.relax.expr_functor": "ExprVisitor PyExprMutator PyExprVisitor mutator",
    "tvm.relax.vm": "VirtualMachine build",
    "tvm.nd": "NDArray array cpu cuda device empty from_dlpack gpu",
    "tvm.runtime": """
        Device Module NDArray Tensor convert device disco load_module load_param_dict ndarray
        profiling save_param_dict system_lib tensor""",
    "tvm.runtime.Module": "export_library get_source imported_modules save time_evaluator",
    "tvm.target": "Target arm_cpu codegen cuda mali rocm tag",
    "tvm.testing": "assert_allclose main parameter parametrize_targets requires_cuda requires_gpu",
    "tvm.tir.Schedule": """
        add_unit_loop annotate bind blockize cache_inplace cache_read cache_write compute_at
        compute_inline copy decompose_padding decompose_reduction enter_postproc fork_seed fuse get
        get_block get_child_blocks get_consumers get_loops get_output_blocks get_producers get_sref
        loop_partition merge mod pad_einsum parallel reindex remove_rv reorder
        reorder_block_iter_var reverse_compute_at reverse_compute_inline rfactor rolling_buffer
        sample_categorical sample_compute_location sample_perfect_tile seed set_scope show split
        state storage_align tensorize trace transform_block_layout transform_layout unannotate
        unroll unsafe_hide_buffer_access unsafe_set_dtype vectorize work_on""",
    "tvm.meta_schedule": "tune_tir relax_integration",
    "tvm.dlight": "ApplyDefaultSchedule gpu",
    "tvm.contrib": "cblas nvcc",
}
NAMES = [(owner, name) for owner, names in SURFACE.items() for name in names.split()]


@tvm.script.ir_module
class Add:
    @T.prim_func
    def add(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in T.serial(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)


def owner_of(path):
    A = tvm.te.placeholder((4,), name="A")
    B = tvm.te.compute((4,), lambda i: A[i] + 1.0, name="B")
    values = {
        "tvm.tir.Schedule": tvm.tir.Schedule(Add),
        "tvm.te.Schedule": tvm.te.create_schedule(B.op),
        "tvm.runtime.Module": tvm.build(Add),
    }
    value = values.get(path, tvm)
    for name in path.split(".")[1:] if path not in values else ():
        value = getattr(value, name)
    return value


def test_every_name_is_here_or_says_what_to_use():
    absent = []
    for path, name in NAMES:
        value = getattr(owner_of(path), name)
        if isinstance(value, Absent):
            absent.append(f"{path}.{name}")
            with pytest.raises(Unmapped) as refusal:
                value()
            text = str(refusal.value)
            assert text.startswith(f"E105: {path}.{name} has no counterpart here; instead: "), text
            assert "\n" not in text
            assert len(text) < 200
    assert 100 < len(absent) < len(NAMES) / 2


def test_the_table_has_no_name_that_is_here():
    """Operators come often: where there is one, the table is not asked."""
    for entry in INSTEAD:
        path, _, name = entry.rpartition(".")
        if not path.startswith(("tvm.topi", "tvm.relax.op")):
            assert isinstance(getattr(owner_of(path), name), Absent), entry


def test_each_use_of_an_absent_name_refuses():
    absent = tvm.relax.ExternFunc
    uses = [
        lambda: absent("f"),
        lambda: absent.inner.name(),
        lambda: isinstance(1, absent),
        lambda: absent[0],
        lambda: list(absent),
    ]
    for use in uses:
        with pytest.raises(Unmapped, match=r"tvm\.relax\.ExternFunc"):
            use()
    with pytest.raises(Unmapped):

        class Mine(absent):
            pass


def test_a_misspelt_name_gets_near_misses():
    for call, near in (
        (lambda: tvm.nd.aray, "array"),
        (lambda: tvm.relax.BlockBuidler, "BlockBuilder"),
        (lambda: tvm.te.placehoder, "placeholder"),
        (lambda: tvm.topi.matmull, "matmul"),
        (lambda: tvm.relax.op.multply, "multiply"),
        (lambda: tvm.tir.Schedule(Add).vectorise, "vectorize"),
    ):
        with pytest.raises(mlc.CompileError, match=f'did you mean "{near}"') as refusal:
            call()
        assert "\n" not in str(refusal.value)
    assert not hasattr(tvm.nd, "aray")
    assert hasattr(tvm.nd, "array")


AUTOMATIC = {
    "ms.relax_integration.tune_relax(Add, {})": "tvm.meta_schedule.relax_integration.tune_relax",
    "sch.fork_seed()": "tvm.tir.Schedule.fork_seed",
    "tvm.auto_scheduler.SearchTask(func=None)": "tvm.auto_scheduler.SearchTask",
    "tvm.autotvm.task.create('f', args=())": "tvm.autotvm.task.create",
    "tvm.relax.transform.MetaScheduleTuneTIR()": "tvm.relax.transform.MetaScheduleTuneTIR",
}


@pytest.mark.parametrize("call", AUTOMATIC)
def test_a_search_is_refused_in_one_line(call):
    sch = tvm.tir.Schedule(Add)
    names = {"ms": tvm.meta_schedule, "tvm": tvm, "Add": Add, "sch": sch}
    names["i"] = sch.get_loops(sch.get_block("B"))[0]
    with pytest.raises(Unmapped, match=r"mlc\.tune\.search") as refusal:
        eval(call, names)
    assert f"{AUTOMATIC[call]} has no counterpart here" in str(refusal.value)
    assert "\n" not in str(refusal.value)


# import tvm


def state():
    return dict(sys.modules), list(sys.meta_path), {n: dict(vars(m)) for n, m in modules().items()}


IMPORTS = """
import tvm
import tvm.dlight as dl
import tvm.meta_schedule.database
import tvm.relax.transform
import tvm.script
import tvm.transform
from tvm import meta_schedule as ms
from tvm import relax, te, topi
from tvm.ir.module import IRModule
from tvm.meta_schedule import tune_tir
from tvm.script import ir as I, relax as R, tir as T
"""


def test_install_and_uninstall():
    before = state()
    with pytest.raises(ModuleNotFoundError):
        exec("import tvm")
    tvm.install()
    try:
        tvm.install()
        names = {}
        exec(IMPORTS, names)
        assert names["tvm"] is tvm
        for name in ("relax", "te", "topi"):
            assert names[name] is getattr(tvm, name)
        assert names["IRModule"] is mlc.IRModule
        languages = [tvm.script.tir, tvm.script.relax, script.I]
        assert [names[name] for name in "TRI"] == languages
        assert names["ms"].tune_tir is names["tune_tir"] is tvm.meta_schedule.tune_tir
        with pytest.raises(Unmapped):
            names["dl"].ApplyDefaultSchedule()
        with pytest.raises(mlc.CompileError, match="tvm has no name 'relaxx' here; did you mean"):
            exec("from tvm import relaxx")
        with pytest.raises(mlc.CompileError, match='did you mean "script"'):
            exec("import tvm.scripd")
    finally:
        tvm.uninstall()
    assert state() == before
    tvm.uninstall()
    assert state() == before


def test_install_beside_the_real_package_refuses(monkeypatch):
    real = ModuleType("tvm")
    monkeypatch.setitem(sys.modules, "tvm", real)
    with pytest.raises(mlc.CompileError, match="TVM itself is imported already") as refusal:
        tvm.install()
    assert "import minimlc.frontends.tvm as" in str(refusal.value)
    tvm.uninstall()
    assert sys.modules["tvm"] is real


ALONE = """
import sys
import minimlc
assert not [name for name in sys.modules if "frontends" in name], "the core asks for no frontend"
before = {kind: dir(kind) for kind in (minimlc.IRModule, minimlc.Var, minimlc.Function)}
import minimlc.frontends.tvm as tvm
assert "tvm" not in sys.modules
from minimlc.frontends.tvm import te, relax
from minimlc.frontends.tvm.script import tir as T, ir as I
"""


def test_it_is_a_module_like_any_other():
    subprocess.run([sys.executable, "-c", ALONE], check=True)


HIDES = """
from pkgutil import resolve_name
for line in {!r}.split():
    kind, _, name = line.rpartition(".")
    assert not hasattr(resolve_name(kind), name), line
"""


def test_what_is_lent_hides_nothing():
    """A class that has a name by itself keeps it."""
    lent = [f"{k.__module__}:{k.__qualname__}.{name}" for k, of in LENT.items() for name in of]
    subprocess.run([sys.executable, "-c", HIDES.format(" ".join(lent))], check=True)
