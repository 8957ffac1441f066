"""Schedules for whole functions, written with the public primitives alone.

A recipe takes a `Schedule` and gives one. It looks at the shapes and at the target's vectors and
caches, applies primitives, and refuses (`ScheduleError`) what it does not fit.
"""

from collections.abc import Callable, Sequence
from typing import Any

from minimlc.graphs.ir.nodes import Call, Constant, Function
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.schedule import Schedule
from minimlc.loops.values.errors import ScheduleError, did_you_mean
from minimlc.loops.values.module import IRModule, not_a_module
from minimlc.loops.values.node import replace
from minimlc.loops.values.parts import Hook
from minimlc.loops.values.target import Target
from minimlc.recipes.attention import attention
from minimlc.recipes.conv import conv2d
from minimlc.recipes.elementwise import elementwise, left_over
from minimlc.recipes.general import attempt, rows
from minimlc.recipes.matmul import matmul
from minimlc.recipes.programs import GPUS, programs
from minimlc.recipes.rowwise import rowwise
from minimlc.recipes.steps import on_threads
from minimlc.recipes.transpose import transpose
from minimlc.recipes.views import Draft, recipe
from minimlc.recipes.windows import windows

SCHEDULED, CONSTANTS = "scheduled", "constants"
Recipe = Callable[..., Schedule]

RECIPES = (matmul, conv2d, transpose, windows)
"""Recipes that `apply` tries on each block, in order, unless the function is `attention`. If none
fits any block, `rowwise` or `elementwise` may fit the function; `rows` takes the rest.
"""

OTHER_NAMES = {
    "softmax": "rowwise",
    "layer_norm": "rowwise",
    "reduction": "rowwise",
    "pooling": "windows",
    "max_pool2d": "windows",
    "avg_pool2d": "windows",
    "depthwise_conv2d": "windows",
    "batch_matmul": "matmul",
    "dense": "matmul",
}
"""Other names under which users look for a recipe."""

__all__ = [
    "apply",
    "attempt",
    "attention",
    "conv2d",
    "elementwise",
    "fitting",
    "matmul",
    "programs",
    "rows",
    "rowwise",
    "transpose",
    "windows",
]


def apply(mod: IRModule | PrimFunc | Function, target: str | Target | None = None) -> IRModule:
    """`mod` with a recipe applied to every primitive function that has no schedule yet.

    A function counts as scheduled when one of its loops is not serial, or when this pass has
    scheduled it; the attribute "scheduled" marks it. Without a target, parameters are for this
    machine. One function alone, instead of a module, becomes one called "main".
    """
    if isinstance(mod, PrimFunc | Function):
        mod = IRModule.of({"main": mod})
    if not isinstance(mod, IRModule):
        raise not_a_module(mod, "recipes.apply")
    chosen, constants = Target.of(target), constant_arguments(mod)
    functions = {
        name: _schedule(name, func, chosen, constants.get(name, frozenset()))
        if isinstance(func, PrimFunc) and not is_scheduled(func)
        else func
        for name, func in mod.entries
    }
    return mod.with_functions(functions)


def constant_arguments(mod: IRModule) -> dict[str, frozenset[int]]:
    """The arguments of each function that are constants in all calls: copies of them will be made
    ahead of time.
    """
    places: dict[str, frozenset[int]] = {}
    graphs = (func for _, func in mod.entries if isinstance(func, Function))
    for call in (binding.value for graph in graphs for binding in graph.bindings()):
        if isinstance(call, Call) and call.op == "call_tir":
            fixed = frozenset(at for at, arg in enumerate(call.args) if isinstance(arg, Constant))
            places[call.callee] = places.get(call.callee, fixed) & fixed
    return places


def __getattr__(name: str) -> Recipe:
    other = OTHER_NAMES.get(name)
    hint = f"mlc.recipes.{other}" if other else did_you_mean(name, __all__)
    raise AttributeError(f'there is no recipe "{name}": {hint}')


FOR_GPUS = Hook[Callable[[Draft, Target], Draft]]("recipes for GPUs")


def _schedule(name: str, func: PrimFunc, target: Target, constants: frozenset[int]) -> PrimFunc:
    plain = func
    if constants:
        func = func.with_attr(CONSTANTS, tuple(func.params[at].name for at in sorted(constants)))
    # In a separate module: each step of a schedule makes a new module.
    sch = Draft.trusting(IRModule.of({name: func}), name)
    for_gpu = FOR_GPUS.first if target.name in GPUS else None
    scheduled = sch
    if for_gpu or sch.blocks():  # loops around plain stores stay as they are
        scheduled = for_gpu(sch, target) if for_gpu else fitting(sch, target=target)
    return replace(scheduled.func, attrs=(*plain.attrs, (SCHEDULED, True)))


@recipe
def fitting(sch: Draft, block: str | None, target: Target) -> Draft:
    """The recipes that fit a whole function. Of a schedule with a key, it is the usual space."""
    start = sch
    sch = _first((programs, attention), sch, None, target)
    for name in sch.blocks() if sch is start else ():
        sch = _first(RECIPES, sch, name, target)
    if sch is not start:
        return left_over(sch, start.blocks(), target)
    whole: Draft = _first((rowwise, elementwise), sch, None, target)
    return rows(on_threads(sch, target)) if whole is sch else whole


def _first(recipes: Sequence[Recipe], sch: Draft, block: str | None, target: Target) -> Any:
    """The schedule by the first recipe that fits a block; unchanged if none does."""
    for plan in recipes:
        try:
            return plan(sch, block, target=target)
        except ScheduleError:
            continue
    return sch


def is_scheduled(func: PrimFunc) -> bool:
    """Whether a function counts as scheduled."""
    marked = (SCHEDULED, True) in func.attrs
    return marked or any(loop.kind != "serial" for loop in loops_in(func.body))
