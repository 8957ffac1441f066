"""`tvm.relax.transform`: calls that give passes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from minimlc.frontends.tvm.ir import Op
from minimlc.frontends.tvm.table import rows
from minimlc.graphs import passes
from minimlc.graphs.ir.nodes import Function
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import IRModule, Pass
from minimlc.loops.values.node import replace


def _gives(step: Pass) -> Callable[..., Pass]:
    """A call that gives a pass; its options choose between programs of one meaning."""
    return lambda *_, **__: step


def _fused(mod: IRModule) -> IRModule:
    """Functions that TVM calls "Primitive" become loop nests; unused functions are removed."""
    return passes.remove_unused(
        passes.fuse_tir(mod.with_functions(dict(map(_marked, mod.entries))))
    )


def _marked(entry: tuple[str, Any]) -> tuple[str, Any]:
    name, func = entry
    attrs = dict(func.attrs)
    if not isinstance(func, Function) or not attrs.pop("Primitive", False):
        return entry
    return name, replace(func, attrs=(*attrs.items(), ("primitive", True)))


_STEPS: dict[str, Pass] = {**vars(passes), "_fused": _fused, "_unchanged": lambda mod: mod}
MORE = SimpleNamespace(**{name: _gives(_STEPS[step]) for name, step in rows(__file__).items()})
"""The passes without options."""


def LegalizeOps(customize_legalize_map: Mapping[str, Any] | None = None, *_: Any) -> Pass:
    """Operators become loops; functions of (builder, call) by operator come first."""
    chosen = {str(Op.get(name)): func for name, func in (customize_legalize_map or {}).items()}
    return partial(passes.legalize, overrides=chosen)


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]], *_: Any) -> Pass:
    """The pass that brings images to the first layout named, and weights to OIHW."""
    return partial(passes.convert_layout, layout=next(iter(desired_layouts.values()), [""])[0])


def ToMixedPrecision(out_dtype: str = "float32", *_: Any) -> Pass:
    """Operands of products in float16, sums in float32."""
    if out_dtype != "float32":
        raise CompileError(f"sums are in float32, not in {out_dtype}", code="E230")
    return _STEPS["to_mixed_precision"]


def DeadCodeElimination(entry_functions: Iterable[str] | None = None) -> Pass:
    """The pass that removes unused functions and bindings."""
    return partial(passes.remove_unused, entries=list(entry_functions) if entry_functions else None)


def BindParams(func_name: str, params: Mapping[Any, Any]) -> Pass:
    """Parameters become constants; they are given by name, or themselves."""
    named = {getattr(param, "name", param): value for param, value in params.items()}
    return partial(passes.bind_params, params=named, func=func_name)
