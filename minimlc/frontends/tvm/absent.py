"""Names of TVM that have no counterpart here, and what to use instead, a line each."""

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, NoReturn

from minimlc.errors import CompileError, did_you_mean, near_misses

_TABLE = """
sch.split(...) by hand, or mlc.recipes.apply(mod); a search comes with a later chapter <- tvm:
  meta_schedule auto_scheduler autotvm; tir.Schedule: sample_perfect_tile sample_categorical
  sample_compute_location sample_partitioned_tile seed fork_seed; relax.transform:
  MetaScheduleTuneTIR MetaScheduleTuneIRMod FewShotTuning
tvm.cpu() and target="llvm"; a GPU target comes with a later chapter <- tvm: cuda gpu rocm metal
  opencl vulkan webgpu hexagon ext_dev vpi; nd: cuda gpu rocm metal opencl vulkan; relax:
  to_vdevice; relax.transform: RealizeVDevice UpdateVDevice; target: cuda rocm mali opencl vulkan;
  topi: cuda rocm mali gpu; testing: parametrize_targets requires_gpu requires_cuda requires_llvm
@tvm.register_func("env.f") and R.call_dps_packed("env.f", (x,), out) <- tvm: contrib; relax:
  ExternFunc extern backend; relax.transform: RunCodegen; te: extern extern_primfunc; tir:
  call_extern call_packed call_llvm_intrin call_llvm_pure_intrin
mlc.recipes.apply(mod) <- tvm: dlight; topi: x86 arm_cpu generic hexagon; relax.transform:
  MetaScheduleApplyDatabase
mlc.build(mod), which lowers by itself; its source("llvm") shows the result <- ir:
  register_intrin_lowering; tir: analysis transform; relax.transform: CallTIRRewrite
  RewriteDataflowReshape VMShapeLower VMBuiltinLower LowerAllocTensor LowerRuntimeBuiltin
  AttachGlobalSymbol ToNonDataflow
mlc.build(mod), which plans memory by itself <- relax.analysis: estimate_memory_usage;
  relax.transform: AllocateWorkspace StaticPlanBlockMemory KillAfterLastUse
  DataflowUseInplaceCalls RewriteCUDAGraph
relax.PyExprMutator with visit_call_, or relax.transform.FuseOps() <- relax: dpl; relax.analysis:
  has_reshape_pattern; relax.transform: MergeCompositeFunctions FuseOpsByPattern
  SplitCallTIRByPattern AdjustMatmulOrder CombineParallelMatmul ExpandMatmulOfSum
mlc.Visitor and mlc.Mutator, with methods visit_<Node> <- relax.analysis: post_order_visit
  free_vars bound_vars all_vars; tir: functor stmt_functor; relax.expr_functor: ExprFunctor
  ExprMutator ExprVisitor PyExprVisitor
numbers for sizes: one program for each shape <- relax: ShapeExpr PrimValue ShapeStructInfo
  PrimStructInfo get_shape_of; tir: SizeVar; relax.analysis: tir_vars_in_struct_info
  definable_tir_vars_in_struct_info; relax.transform: BindSymbolicVars ComputePrimValue
sch.transform_layout(block, buffer, index_map) <- tir: layout bijective_layout; relax.analysis:
  suggest_layout_transforms; relax.transform: ConvertLayout OptimizeLayoutTransform
a T.prim_func, or te.create_prim_func <- tir: ir_builder AttrStmt Evaluate Allocate AllocateConst
  BufferRealize DeclBuffer; te: scan hybrid; script: ir_builder
numpy or torch for gradients; training comes with a later chapter <- relax: training;
  relax.transform: Gradient; te: gradient
R.Tensor(shape, dtype) <- ir: FuncType PrimType PointerType TensorAffineType; relax:
  FuncStructInfo ObjectStructInfo
tvm.build(mod) again: mlc.cache_dir() keeps compiled code <- runtime: load_module
  load_static_library system_lib; runtime.Module: export_library save
relax.BlockBuilder, with one bb.emit for each node of the model <- relax: frontend
relax.BlockBuilder and R.function <- tvm: relay micro
mlc.run_passes(mod, passes, observe=mlc.History()) <- tvm: instrument; ir: instrument;
  ir.transform: PrintIR
mod.time_evaluator(name, tvm.cpu())(*arrays) <- tvm: rpc; runtime: profiling
one machine; sharding comes with a later chapter <- relax: distributed; runtime: disco
mlc.Target("llvm", cpu, features) <- target: arm_cpu riscv_cpu hexagon tag
mlc.build(mod).source("asm") <- target: codegen
Python's operators on T's expressions <- tvm: arith
tvm.script.from_source(text) <- ir: load_json
mod.script(), a text that parses back <- ir: save_json; script: printer highlight
Python's own tuples, dicts and pairs <- ir: Array Map Range; runtime: convert
node.span, a place in a script <- ir: SourceName Span SequentialSpan
functools.partial(mlc.passes.legalize, overrides={name: function}) <- ir: register_op_attr;
  relax.transform: AlterOpImpl
a function IRModule -> IRModule <- ir.transform: PassInfo ModulePass; relax.transform:
  function_pass dataflowblock_pass
numpy.from_dlpack(x); compiled functions take x itself, too <- nd: from_dlpack
R.where(condition, a, b), which chooses for each element <- relax: If SeqExpr
numbers, strings and tuples as options <- relax: DataTypeImm StringImm
bb.lookup_binding(var) <- relax.analysis: udchain name_to_binding get_var2val
mod.functions <- relax.analysis: all_global_vars called_global_vars
mlc.passes.remove_unused(mod), which keeps calls with effects <- relax.analysis:
  contains_impure_call
relax.analysis.well_formed(mod) <- relax.analysis: detect_recursion
mlc.passes.pack_constants(mod) <- relax.transform: LazyTransformParams LiftTransformParams
  BundleModelParams
parameters and results as they are, all of them in use <- relax.transform: LazyGetInput
  LazySetOutput RemoveUnusedParameters RemoveUnusedOutputs
operators in the form for inference <- relax.transform: DecomposeOpsForInference
  DecomposeOpsForTraining
one function, written with relax.BlockBuilder <- relax.transform: InlinePrivateFunctions
  LambdaLift
R.astype(x, "float16"), where it is wanted <- relax.transform: ToMixedPrecision
numpy.savez(file, **params) and numpy.load(file) <- runtime: load_param_dict save_param_dict
mod.get_source() <- runtime.Module: imported_modules import_module
pytest's own names <- testing: parameter parameters fixture main
T's functions, such as T.exp <- tir: call_intrin call_pure_intrin
mlc.Buffer(name, shape, dtype) <- tir: decl_buffer
nothing: a schedule is made in one go <- tir.Schedule: enter_postproc remove_rv
sch.mod, and names for loops and blocks <- tir.Schedule: get_sref state
a script: a step has to be proved <- tir.Schedule: unsafe_hide_buffer_access
nothing: fusion sees what a function is by its loops <- te: tag_scope
tvm.tir.Schedule(te.create_prim_func([...])) <- te.Schedule: cache_read cache_write rfactor
numpy <- topi: testing
mlc.passes.default_pipeline, which mlc.build applies <- relax: get_pipeline
mlc.Function and mlc.PrimFunc <- ir: BaseFunc BaseExpr RelaxExpr
bb.emit_te(function, x), with a te.compute in the function <- relax.op: argsort batch_norm cumprod
  cumsum einsum eye gather_elements gather_nd group_norm image instance_norm masked_fill
  nonzero one_hot scatter_elements sort topk unique vision
te.compute(shape, lambda *i: ...), which says what each element is <- topi: acos all any argsort
  atan cumprod cumsum einsum elemwise_sum gather gather_nd identity layout_transform left_shift
  log2 meshgrid mod one_hot right_shift scatter_nd sliding_window sort tan tensordot topk trilu
  trunc unique; topi.nn: batch_norm conv2d_nhwc conv2d_transpose_nchw depth_to_space
  depthwise_conv2d_nchw dilate global_pool group_norm instance_norm lrn mirror_pad
  scale_shift_nchw space_to_depth upsampling
topi.nn.conv2d(x, w, strides, padding) <- topi.nn: conv2d_nchw group_conv2d_nchw
topi.nn.max_pool2d and topi.nn.avg_pool2d <- topi.nn: pool2d adaptive_pool
"""

INSTEAD: Mapping[str, str] = {
    f"{family}.{name}" if family == "tvm" else f"tvm.{family}.{name}": text
    for row in _TABLE.strip().replace("\n  ", " ").split("\n")
    for text, families in (row.split(" <- "),)
    for family, names in (each.split(": ") for each in families.split("; "))
    for name in names.split()
}
"""What to use in place of a name of TVM, by its full name; what is inside it goes with it."""


class Unmapped(CompileError):
    """A name of TVM that has no counterpart here; one line says what to use instead."""


class UnknownName(CompileError, AttributeError):
    """A name that is neither here nor in the table; `hasattr` says no."""


class UnknownModule(CompileError, ModuleNotFoundError):
    """An import of such a name."""


def covering(name: str) -> str:
    """The entry of `INSTEAD` that a full name is, or is inside of; '' for none."""
    while name and name not in INSTEAD:
        name = name.rpartition(".")[0]
    return name


class Absent(ModuleType):
    """Stands where TVM has a module, class or function: every use of it says what to use."""

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        name = self.__name__
        why = f"{name} has no counterpart here; instead: {INSTEAD[covering(name)]}"
        raise Unmapped(why, code="E105")

    __call__ = __getitem__ = __iter__ = __enter__ = __mro_entries__ = __instancecheck__ = _refuse

    def __repr__(self) -> str:
        return f"<no {self.__name__}>"


def names_of(module: ModuleType) -> Callable[[str], Any]:
    """The `__getattr__` of a module here: what `MORE` has, an absent name, or an error with near
    misses.
    """
    more = vars(module).get("MORE")

    def lookup(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in dir(more):
            return getattr(more, name)
        return absent(f"{shown(module.__name__)}.{name}", [*vars(module), *dir(more)])

    return lookup


def absent(name: str, known: Iterable[str], error: type[CompileError] = UnknownName) -> Absent:
    """What stands for a name of the table; an error for any other."""
    if covering(name):
        return Absent(name)
    owner, _, own = name.rpartition(".")
    close = near_misses(own, [each for each in known if not each.startswith("_")])
    hint = did_you_mean(own, close) or "see docs/coming-from-tvm.md"
    raise error(f"{owner} has no name {own!r} here; {hint}", code="E105")


def shown(module: str) -> str:
    """A module's name as TVM has it."""
    return module.removeprefix("minimlc.frontends.")
