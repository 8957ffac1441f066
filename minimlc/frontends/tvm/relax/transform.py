"""`tvm.relax.transform`: calls that give passes."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from minimlc.frontends.tvm.ir import Op
from minimlc.graph.nodes import Function
from minimlc.module import IRModule, Pass
from minimlc.node import replace
from minimlc.passes import (
    bind_params,
    combine_parallel_matmul,
    eliminate_common_subexpr,
    fold_constants,
    fuse_ops,
    fuse_tir,
    legalize,
    remove_unused,
    remove_unused_outputs,
    remove_unused_parameters,
)


def _gives(step: Pass) -> Callable[..., Pass]:
    """A call that gives a pass; its options choose between programs of one meaning."""
    return lambda *_, **__: step


def _unchanged(mod: IRModule) -> IRModule:
    """The module: its values are in this form by themselves."""
    return mod


def _fused(mod: IRModule) -> IRModule:
    """Functions that TVM calls "Primitive" become one loop nest each; what is left over goes."""
    return remove_unused(fuse_tir(mod.with_functions(dict(map(_marked, mod.entries)))))


def _marked(entry: tuple[str, Any]) -> tuple[str, Any]:
    name, func = entry
    attrs = dict(func.attrs)
    if not isinstance(func, Function) or not attrs.pop("Primitive", False):
        return entry
    return name, replace(func, attrs=(*attrs.items(), ("primitive", True)))


FuseOps = _gives(fuse_ops)
FuseTIR = _gives(_fused)
FoldConstant = _gives(fold_constants)
EliminateCommonSubexpr = _gives(eliminate_common_subexpr)
CombineParallelMatmul = _gives(combine_parallel_matmul)
RemoveUnusedOutputs = _gives(remove_unused_outputs)
RemoveUnusedParameters = _gives(remove_unused_parameters)
AnnotateTIROpPattern = Normalize = NormalizeGlobalVar = CanonicalizeBindings = _gives(_unchanged)
ConvertToDataflow = TopologicalSort = RemovePurityChecking = ExpandTupleArguments = _gives(
    _unchanged
)


def LegalizeOps(customize_legalize_map: Mapping[str, Any] | None = None, *_: Any) -> Pass:
    """Operators become loops; functions of (builder, call) by operator come first."""
    chosen = {str(Op.get(name)): func for name, func in (customize_legalize_map or {}).items()}
    return partial(legalize, overrides=chosen)


def DeadCodeElimination(entry_functions: Iterable[str] | None = None) -> Pass:
    """What nothing uses goes."""
    return partial(remove_unused, entries=list(entry_functions) if entry_functions else None)


def BindParams(func_name: str, params: Mapping[Any, Any]) -> Pass:
    """Parameters become constants; they are given by name, or themselves."""
    named = {getattr(param, "name", param): value for param, value in params.items()}
    return partial(bind_params, params=named, func=func_name)
