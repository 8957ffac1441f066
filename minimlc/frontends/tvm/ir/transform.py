"""`tvm.ir.transform`, also `tvm.transform`: passes are functions of modules."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from minimlc.loops.values.module import IRModule, Pass, run_passes


class PassContext(nullcontext[None]):
    """Options of a compilation, which passes here take as arguments: it has no effect."""

    def __init__(self, **_: Any):
        super().__init__()


def Sequential(passes: Sequence[Pass], **_: Any) -> Pass:
    """The pass that applies passes in order."""
    return partial(run_passes, passes=tuple(passes))


def module_pass(pass_func: Any = None, *, name: str = "", **_: Any) -> Any:
    """A pass from a function of a module and a context, or a class with `transform_module`."""

    def decorated(func: Any) -> Callable[..., Any]:
        if isinstance(func, type):
            return lambda *args, **options: _pass(func(*args, **options).transform_module, name)
        return _pass(func, name)

    return decorated if pass_func is None else decorated(pass_func)


def _pass(transform: Callable[[IRModule, PassContext], IRModule], name: str) -> Pass:
    def apply(mod: IRModule) -> IRModule:
        return transform(mod, PassContext())

    apply.__name__ = name or transform.__name__
    return apply
