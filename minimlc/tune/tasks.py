"""Whole models: the functions that a model calls are tuned one by one, each as far as it pays."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from minimlc import recipes
from minimlc.graphs.ir.nodes import Call, Function
from minimlc.graphs.passes import default_pipeline
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.module import IRModule, run_passes
from minimlc.loops.values.node import replace, structural_equal, structural_hash
from minimlc.loops.values.parts import Hook
from minimlc.loops.values.target import Target
from minimlc.recipes import CONSTANTS, SCHEDULED, constant_arguments
from minimlc.tune.measure import Measures, check_arguments, measuring
from minimlc.tune.outcome import Trial, Tuned, check_ran
from minimlc.tune.records import TuneError
from minimlc.tune.search import EARLIEST, SEARCHED, Search, ending, finals, rounds, search
from minimlc.tune.spaces import usual

LIBRARIES_BY_CLOCK = Hook[Any]("libraries")

BEFORE = default_pipeline[: default_pipeline.index(recipes.apply)]
AFTER = default_pipeline[len(BEFORE) + 1 :]
"""The passes of `build` on a model before and after its functions are scheduled."""

LIBRARIES = 1 / 3  # of the time, at the most, in which libraries are compared with our products


class Task(NamedTuple):
    """A function to tune: `func` with its constants noted, under all its `names` in the model,
    which call it `calls` times in all (in a loop, once).
    """

    func: PrimFunc
    names: tuple[str, ...]
    calls: int


@dataclass(frozen=True)
class TunedModel:
    """A model with each function as fast as its search got it. `mod` is ready for `build`; `tasks`
    has each task with the outcome of its search.
    """

    mod: IRModule
    tasks: tuple[tuple[Task, Tuned], ...]

    @property
    def speedup(self) -> float:
        """How much less time the tasks take together than by default."""
        before = sum(task.calls * tuned.score(tuned.records[0]) for task, tuned in self.tasks)
        after = sum(task.calls * tuned.score(tuned.winner) for task, tuned in self.tasks)
        return before / after if isfinite(before) and after else 1.0

    def __repr__(self) -> str:
        head = f"{len(self.tasks)} tasks, {self.speedup:.3g} times as fast as by default together"
        rows = [f"{', '.join(t.names)}, called {t.calls} times: {tuned}" for t, tuned in self.tasks]
        by: Any = dict(self.mod.attrs).get("dispatch", ())
        rows += [f"{piece}: by {name}" for piece, name in by if name != "minimlc"]
        return "\n  ".join([head, *rows])


def tasks(mod: IRModule, target: str | Target | None = None) -> tuple[Task, ...]:
    """The functions that a model's operators become, equal ones once, in the order of the model."""
    return _tasks(run_passes(mod, BEFORE))


def _tasks(mod: IRModule) -> tuple[Task, ...]:
    uses, constants = _uses(mod), constant_arguments(mod)
    kinds: dict[str, list[Task]] = {}
    for name, func in mod.entries:
        if not isinstance(func, PrimFunc) or not uses[name] or recipes.is_scheduled(func):
            continue
        fixed = tuple(func.params[at].name for at in sorted(constants.get(name, ())))
        noted = func.with_attr(CONSTANTS, fixed) if fixed else func
        alike = kinds.setdefault(structural_hash(noted), [])
        at = next((n for n, t in enumerate(alike) if structural_equal(t.func, noted)), len(alike))
        old = alike[at] if at < len(alike) else Task(noted, (), 0)
        alike[at:] = [Task(old.func, (*old.names, name), old.calls + uses[name]), *alike[at + 1 :]]
    return tuple(task for alike in kinds.values() for task in alike)


def _uses(mod: IRModule) -> Counter[str]:
    """How often each function is called by the model's graph functions."""
    graphs = (func for _, func in mod.entries if isinstance(func, Function))
    values = (binding.value for graph in graphs for binding in graph.bindings())
    return Counter(call.callee for call in values if isinstance(call, Call) and call.callee)


def search_model(
    mod: IRModule,
    *,
    runner: Measures | None = None,
    trials: int = 256,
    key: int = 0,
    database: Any = None,
    target: str | Target | None = None,
    observe: Callable[[Task, Trial], None] | None = None,
    seconds: float | None = None,
    libraries: bool = False,
) -> TunedModel:
    """Tune a model's functions with `trials` in all, but one for each at least: after a first
    batch for each, the next batch goes to the task whose calls are expected to save most time.
    It ends after `seconds`, of which the last third is for measuring the best of each again;
    Ctrl-C gives the best so far.

    A task is measured with its constants packed, as the model packs them once. With `libraries`,
    numpy's BLAS, and torch's where it is installed, are candidates: first, `mlc.dispatch` has them
    compute the products that they compute faster than the best of a search of such a product alone,
    each of 24 trials at most, in a tenth of the time, and all in a third; once it is over, nothing
    is decided. Raises `TuneError` E902 for a module without graph functions, E909 where none ran.
    """
    check_arguments(trials, runner, database, seconds, observe=observe)
    end, last = ending(seconds, SEARCHED), ending(seconds)
    chosen = Target.of(target)
    with measuring(runner) as measures:
        if libraries:
            few: dict[str, Any] = {"runner": measures, "database": database, "observe": observe}
            few |= {"trials": min(trials, EARLIEST), "key": key, "target": target}
            few["seconds"] = seconds and seconds / 10
            judge = partial(_judged, few, ending(seconds, LIBRARIES))
            try:
                by_clock: Any = LIBRARIES_BY_CLOCK.first
                mod = by_clock.dispatch(mod, judge=judge)
            except KeyboardInterrupt:
                few.clear()
            if not few:
                end = last = 0.0
        lowered = run_passes(mod, BEFORE)
        if not any(isinstance(func, Function) for _, func in lowered.entries):
            why = "search_model tunes what graph functions call, and the module has none"
            raise TuneError(why, code="E902", hint="mlc.tune.search(mod)")
        searches = dict[Task, Search]()
        for task in _tasks(lowered):
            alone = IRModule.of({"main": task.func})
            searches[task] = Search(alone, "main", chosen, usual(chosen), key, measures, database)
        running = {
            task: rounds(one, trials, observe=observe and partial(observe, task))
            for task, one in searches.items()
        }
        try:
            while running and sum(len(one.trials) for one in searches.values()) < trials:
                if perf_counter() > end:
                    for task in running:
                        searches[task].stopped = "time"
                    break
                task = max(running, key=lambda task: _worth(task, searches[task]))
                one = searches[task]
                one.stopped = next(running[task]) or "trials"
                if one.stopped != "trials" or len(one.trials) >= trials:
                    del running[task]
            for one in searches.values():
                one.again = finals(one, last)
        except KeyboardInterrupt:
            for one in searches.values():
                one.stopped = "interrupt"
    tuned = {task: one.tuned for task, one in searches.items() if one.trials}
    if not any(one.stopped == "interrupt" for one in tuned.values()):
        check_ran([trial for one in tuned.values() for trial in one.records])
    return TunedModel(_stitched(lowered, tuned, chosen), tuple(tuned.items()))


def _judged(few: dict[str, Any], end: float, modules: Mapping[str, IRModule]) -> str | None:
    """The name of the fastest way to compute a piece: a library, or the first of `modules` for the
    program that a search with the options `few` finds. None where nothing ran, after the `end`,
    and from an interrupt on, which clears `few`.
    """
    (ours, alone), *others = modules.items()
    left = end - perf_counter()
    pieces = tasks(alone, few["target"]) if few and left > 0 else ()
    if len(pieces) != 1:
        return None
    options = {**few, "seconds": few["seconds"] and min(left, few["seconds"])}
    options["observe"] = few["observe"] and partial(few["observe"], *pieces)
    try:
        tuned = search(pieces[0].func, libraries=[name for name, _ in others], **options)
    except KeyboardInterrupt:
        few.clear()
        return None
    except TuneError as error:
        if error.code != "E909":
            raise
        return None
    if tuned.stopped == "interrupt":
        few.clear()
    return tuned.library or (ours if few else None)


def _worth(task: Task, search: Search) -> float:
    """The seconds that a task's calls are expected to save by another batch."""
    times = [median(t.result.seconds) for t in search.trials if isfinite(t.score)]
    if not search.trials:
        return inf
    return task.calls * min(times, default=0.0) * min(search.expected_gain, 1.0)


def _stitched(lowered: IRModule, tuned: dict[Task, Tuned], target: Target) -> IRModule:
    """The model with the programs found; recipes schedule the rest."""
    functions = {
        name: replace(result.best.func, attrs=(*lowered[name].attrs, (SCHEDULED, True)))  # type: ignore[attr-defined]
        for task, result in tuned.items()
        if isfinite(result.winner.score)
        for name in task.names
    }
    scheduled = lowered.with_functions({**lowered.functions, **functions})
    return run_passes(scheduled, (partial(recipes.apply, target=target), *AFTER))
