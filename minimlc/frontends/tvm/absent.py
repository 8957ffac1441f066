"""Names of TVM that have no counterpart here, and what to use instead, a line each."""

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, ClassVar, NoReturn

from minimlc.errors import CompileError, did_you_mean

_NAMES = {
    "sch.split(...) by hand, or mlc.recipes.apply(mod); a search comes with a later chapter": (
        "tvm: meta_schedule auto_scheduler autotvm; tvm.tir.Schedule: sample_perfect_tile"
        " sample_categorical sample_compute_location sample_partitioned_tile seed fork_seed;"
        " tvm.relax.transform: MetaScheduleTuneTIR MetaScheduleTuneIRMod FewShotTuning"
    ),
    'tvm.cpu() and target="llvm"; a GPU target comes with a later chapter': (
        "tvm: cuda gpu rocm metal opencl vulkan webgpu hexagon ext_dev vpi; tvm.nd: cuda gpu rocm"
        " metal opencl vulkan; tvm.relax: to_vdevice; tvm.relax.transform: RealizeVDevice"
        " UpdateVDevice; tvm.target: cuda rocm mali opencl vulkan; tvm.topi: cuda rocm mali gpu;"
        " tvm.testing: parametrize_targets requires_gpu requires_cuda requires_llvm"
    ),
    '@tvm.register_func("env.f") and R.call_dps_packed("env.f", (x,), out)': (
        "tvm: contrib; tvm.relax: ExternFunc extern backend; tvm.relax.transform: RunCodegen;"
        " tvm.te: extern extern_primfunc; tvm.tir: call_extern call_packed call_llvm_intrin"
        " call_llvm_pure_intrin"
    ),
    "mlc.recipes.apply(mod)": (
        "tvm: dlight; tvm.topi: x86 arm_cpu generic hexagon;"
        " tvm.relax.transform: MetaScheduleApplyDatabase"
    ),
    'mlc.build(mod), which lowers by itself; its source("llvm") shows the result': (
        "tvm.ir: register_intrin_lowering; tvm.tir: analysis transform; tvm.relax.transform:"
        " CallTIRRewrite RewriteDataflowReshape VMShapeLower VMBuiltinLower LowerAllocTensor"
        " LowerRuntimeBuiltin AttachGlobalSymbol ToNonDataflow"
    ),
    "mlc.build(mod), which plans memory by itself": (
        "tvm.relax.analysis: estimate_memory_usage; tvm.relax.transform: AllocateWorkspace"
        " StaticPlanBlockMemory KillAfterLastUse DataflowUseInplaceCalls RewriteCUDAGraph"
    ),
    "relax.PyExprMutator with visit_call_, or relax.transform.FuseOps()": (
        "tvm.relax: dpl; tvm.relax.analysis: has_reshape_pattern; tvm.relax.transform:"
        " MergeCompositeFunctions FuseOpsByPattern SplitCallTIRByPattern AdjustMatmulOrder"
        " CombineParallelMatmul ExpandMatmulOfSum"
    ),
    "mlc.Visitor and mlc.Mutator, with methods visit_<Node>": (
        "tvm.relax.analysis: post_order_visit free_vars bound_vars all_vars; tvm.tir: functor"
        " stmt_functor; tvm.relax.expr_functor: ExprFunctor ExprMutator ExprVisitor PyExprVisitor"
    ),
    "numbers for sizes: one program for each shape": (
        "tvm.relax: ShapeExpr PrimValue ShapeStructInfo PrimStructInfo get_shape_of; tvm.te:"
        " size_var; tvm.tir: SizeVar; tvm.relax.analysis: tir_vars_in_struct_info"
        " definable_tir_vars_in_struct_info; tvm.relax.transform: BindSymbolicVars ComputePrimValue"
    ),
    "sch.transform_layout(block, buffer, index_map)": (
        "tvm.tir: layout bijective_layout; tvm.relax.analysis: suggest_layout_transforms;"
        " tvm.relax.transform: ConvertLayout OptimizeLayoutTransform"
    ),
    "a T.prim_func, or te.create_prim_func": (
        "tvm.tir: ir_builder AttrStmt Evaluate Allocate AllocateConst BufferRealize DeclBuffer;"
        " tvm.te: scan hybrid; tvm.script: ir_builder"
    ),
    "numpy or torch for gradients; training comes with a later chapter": (
        "tvm.relax: training; tvm.relax.transform: Gradient; tvm.te: gradient"
    ),
    "R.Tensor(shape, dtype)": (
        "tvm.ir: FuncType PrimType PointerType Type TensorAffineType;"
        " tvm.relax: FuncStructInfo ObjectStructInfo"
    ),
    "tvm.build(mod) again: mlc.cache_dir() keeps compiled code": (
        "tvm.runtime: load_module load_static_library system_lib;"
        " tvm.runtime.Module: export_library save"
    ),
    "relax.BlockBuilder, with one bb.emit for each node of the model": "tvm.relax: frontend",
    "relax.BlockBuilder and R.function": "tvm: relay micro",
    "mlc.run_passes(mod, passes, observe=mlc.History())": (
        "tvm: instrument; tvm.ir: instrument; tvm.ir.transform: PrintIR"
    ),
    "mod.time_evaluator(name, tvm.cpu())(*arrays)": "tvm: rpc; tvm.runtime: profiling",
    "one machine; sharding comes with a later chapter": (
        "tvm.relax: distributed; tvm.runtime: disco"
    ),
    'mlc.Target("llvm", cpu, features)': "tvm.target: arm_cpu riscv_cpu hexagon tag",
    'mlc.build(mod).source("asm")': "tvm.target: codegen",
    "Python's operators on T's expressions": "tvm: arith",
    "tvm.script.from_source(text)": "tvm.ir: load_json",
    "mod.script(), a text that parses back": "tvm.ir: save_json; tvm.script: printer highlight",
    "Python's own tuples, dicts and pairs": "tvm.ir: Array Map Range; tvm.runtime: convert",
    "node.span, a place in a script": "tvm.ir: SourceName Span SequentialSpan",
    "functools.partial(mlc.passes.legalize, overrides={name: function})": (
        "tvm.ir: register_op_attr; tvm.relax.transform: AlterOpImpl"
    ),
    "a function IRModule -> IRModule": (
        "tvm.ir.transform: Pass PassInfo ModulePass;"
        " tvm.relax.transform: function_pass dataflowblock_pass"
    ),
    "numpy.from_dlpack(x); compiled functions take x itself, too": "tvm.nd: from_dlpack",
    "R.where(condition, a, b), which chooses for each element": "tvm.relax: If SeqExpr",
    "numbers, strings and tuples as options": "tvm.relax: DataTypeImm StringImm",
    "bb.lookup_binding(var)": "tvm.relax.analysis: udchain name_to_binding",
    "mod.functions": "tvm.relax.analysis: all_global_vars called_global_vars",
    "mlc.passes.remove_unused(mod), which keeps calls with effects": (
        "tvm.relax.analysis: contains_impure_call"
    ),
    "relax.analysis.well_formed(mod)": "tvm.relax.analysis: detect_recursion",
    "mlc.passes.pack_constants(mod)": (
        "tvm.relax.transform: LazyTransformParams LiftTransformParams BundleModelParams"
    ),
    "parameters and results as they are, all of them in use": (
        "tvm.relax.transform: LazyGetInput LazySetOutput RemoveUnusedParameters RemoveUnusedOutputs"
    ),
    "operators in the form for inference": (
        "tvm.relax.transform: DecomposeOpsForInference DecomposeOpsForTraining"
    ),
    "one function, written with relax.BlockBuilder": (
        "tvm.relax.transform: InlinePrivateFunctions LambdaLift"
    ),
    'R.astype(x, "float16"), where it is wanted': "tvm.relax.transform: ToMixedPrecision",
    "numpy.savez(file, **params) and numpy.load(file)": (
        "tvm.runtime: load_param_dict save_param_dict"
    ),
    "mod.get_source()": "tvm.runtime.Module: imported_modules import_module",
    "pytest's own names": "tvm.testing: parameter parameters fixture main",
    "T's functions, such as T.exp": "tvm.tir: call_intrin call_pure_intrin",
    "mlc.Buffer(name, shape, dtype)": "tvm.tir: decl_buffer",
    "nothing: a schedule is made in one go": "tvm.tir.Schedule: enter_postproc remove_rv",
    "sch.mod, and names for loops and blocks": "tvm.tir.Schedule: get_sref state",
    "a script: a step has to be proved": (
        "tvm.tir.Schedule: unsafe_hide_buffer_access unsafe_set_dtype"
    ),
    "nothing: fusion sees what a function is by its loops": "tvm.te: tag_scope",
    "numpy": "tvm.topi: testing",
}

INSTEAD: Mapping[str, str] = {
    f"{module}.{name}": text
    for text, families in _NAMES.items()
    for module, names in (family.split(":") for family in families.split("; "))
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

    __path__: ClassVar[list[str]] = []

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


def names_of(module: str, known: Iterable[str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: the absent name, or an error with near misses."""

    def lookup(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{shown(module)}.{name}", known)

    return lookup


def absent(name: str, known: Iterable[str], error: type[CompileError] = UnknownName) -> Absent:
    """What stands for a name of the table; an error for any other."""
    if covering(name):
        return Absent(name)
    owner, _, own = name.rpartition(".")
    hint = did_you_mean(own, [each for each in known if not each.startswith("_")])
    raise error(f"{owner} has no name {own!r} here; {hint}", code="E105")


def shown(module: str) -> str:
    """A module's name as TVM has it."""
    return module.removeprefix("minimlc.frontends.")
