"""`tvm.meta_schedule`: searches, by `mlc.tune`."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from minimlc.frontends.tvm.schedule import Schedule
from minimlc.frontends.tvm.target import Target
from minimlc.loops.schedule import Schedule as Value
from minimlc.loops.values.parts import Hook

TuneConfig = SimpleNamespace


def ScheduleFn(sch_fn: Callable[[Schedule], Any], *_: Any, **__: Any) -> Callable[[Value], Value]:
    """The space of the programs that a function makes of a schedule that draws."""

    def space(value: Value) -> Value:
        sch = Schedule.of(value)
        return (sch_fn(sch) or sch).value

    return space


def tune_tir(
    mod: Any, target: Any = "llvm", work_dir: str = "", max_trials_global: int = 64, **options: Any
) -> Schedule:
    """The schedule of the fastest program that a search found."""
    start, space = Schedule(mod).value, options.get("space")
    given = {"space": space} if callable(space) else {}
    trials = getattr(options.get("config"), "max_trials_global", max_trials_global)
    search: Any = Hook[Any]("tuner").first
    found = search.search(start.mod, start.func_name, trials=trials, target=Target(target), **given)
    return Schedule.of(found.best)


def compile_tir(database: Schedule, mod: Any, target: Any = None) -> Schedule:
    """The schedule that a search found, for a module: its steps are done once more."""
    start = Schedule(mod).value
    return Schedule.of(Value.replay(start.mod, database.value.trace, start.func_name))


space_generator = SimpleNamespace(ScheduleFn=ScheduleFn)
tir_integration = SimpleNamespace(tune_tir=tune_tir, compile_tir=compile_tir)
