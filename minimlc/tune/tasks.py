"""Whole models: the functions that a model calls are tuned one by one, each as far as it pays."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf, isfinite
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from minimlc import recipes
from minimlc.graph.nodes import Call, Function
from minimlc.module import IRModule, run_passes
from minimlc.node import Node, replace, structural_equal, structural_hash
from minimlc.passes import default_pipeline
from minimlc.recipes import CONSTANTS, SCHEDULED, constant_arguments
from minimlc.target import Target
from minimlc.tir.nodes import PrimFunc
from minimlc.tune.outcome import check_ran
from minimlc.tune.records import Result, TuneError
from minimlc.tune.runners import Measures, check_arguments, measuring
from minimlc.tune.search import EARLIEST, SEARCHED, Search, Trial, Tuned, ending, finals, rounds
from minimlc.tune.spaces import usual

BEFORE = default_pipeline[: default_pipeline.index(recipes.apply)]
AFTER = default_pipeline[len(BEFORE) + 1 :]
"""What `build` does to a model before and after its functions are scheduled."""


class Task(NamedTuple):
    """A function to tune: `func` with its constants noted, under all its `names` in the model,
    which call it `calls` times in all (in a loop, once).
    """

    func: PrimFunc
    names: tuple[str, ...]
    calls: int


@dataclass(frozen=True)
class TunedModel:
    """A model with each function as fast as its search got it. `mod` is ready for `build`; of each
    task there is what its search came to.
    """

    mod: IRModule
    tasks: tuple[tuple[Task, Tuned], ...]

    @property
    def speedup(self) -> float:
        """How much less time the tasks take together than by default."""
        each = [(task.calls, tuned) for task, tuned in self.tasks]
        before = sum(calls * tuned.score(tuned.records[0]) for calls, tuned in each)
        after = sum(calls * tuned.score(tuned.winner) for calls, tuned in each)
        return before / after if isfinite(before) and after else 1.0

    def __repr__(self) -> str:
        head = f"{len(self.tasks)} tasks, {self.speedup:.3g} times as fast as by default together"
        rows = [f"{', '.join(t.names)}, called {t.calls} times: {each}" for t, each in self.tasks]
        by: Any = dict(self.mod.attrs).get("dispatch", ())
        rows += [f"{piece}: by {name}" for piece, name in by if name != "minimlc"]
        return "\n  ".join([head, *rows])


def tasks(mod: IRModule, target: str | Target | None = None) -> tuple[Task, ...]:
    """The functions that a model's operators become, equal ones once, in the order of the model."""
    return _tasks(_lowered(mod))


def _lowered(mod: IRModule) -> IRModule:
    return run_passes(mod, BEFORE)


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
    """Tune a model's functions with `trials` in all, but one each at least: after a first batch
    each, the next batch goes to the task whose calls are expected to save most time by it. It ends
    after `seconds`, of which the last third is for measuring the best of each again; Ctrl-C gives
    the best so far.

    A task is measured with its constants packed, as the model packs them once. With `libraries`,
    `mlc.dispatch` first has numpy's BLAS, or torch where it is installed, compute the products that
    they compute faster, in this process, than the best of a search of such a product alone: 24
    trials at most, in a tenth of the time. Raises `TuneError` E902 for a module without graph
    functions, E909 where nothing ran.
    """
    check_arguments(trials, runner, database, seconds, observe=observe)
    end, last = ending(seconds, SEARCHED), ending(seconds)
    if libraries:
        options: Any = {"key": key, "database": database, "target": target, "observe": observe}
        with measuring(runner) as options["runner"]:
            few: Any = {"trials": min(trials, EARLIEST), "seconds": seconds and seconds / 10}
            by = import_module("minimlc.passes.dispatch").dispatch
            mod = by(mod, ours=lambda alone: search_model(alone, **few, **options).mod)
            left = seconds and max(last - perf_counter(), seconds / 10)
            return search_model(mod, trials=trials, seconds=left, **options)
    chosen, lowered = Target.of(target), _lowered(mod)
    if not any(isinstance(func, Function) for _, func in lowered.entries):
        why = "search_model tunes what graph functions call, and the module has none"
        raise TuneError(why, code="E902", hint="mlc.tune.search(mod)")
    each = _tasks(lowered)
    searches = [
        Search(IRModule.of({"main": task.func}), "main", chosen, usual(chosen), key)
        for task in each
    ]
    reasons = ["trials"] * len(each)
    again = [dict[int, tuple[Result, ...]]() for _ in each]
    with measuring(runner) as measures:
        running = {
            at: rounds(one, measures, database, trials, observe=observe and partial(observe, task))
            for at, (one, task) in enumerate(zip(searches, each, strict=True))
        }
        try:
            while running and sum(len(search.trials) for search in searches) < trials:
                if perf_counter() > end:
                    reasons = ["time" if at in running else reasons[at] for at in range(len(each))]
                    break
                at = max(running, key=lambda at: _worth(each[at], searches[at]))
                reasons[at] = next(running[at]) or "trials"
                if reasons[at] != "trials" or len(searches[at].trials) >= trials:
                    del running[at]
            for at, search in enumerate(searches):
                again[at] = finals(search, measures, database, last)
        except KeyboardInterrupt:
            reasons = ["interrupt"] * len(each)
    if "interrupt" not in reasons:
        check_ran([trial for search in searches for trial in search.trials])
    tuned = {
        task: Tuned(tuple(search.trials), why, results)
        for task, search, why, results in zip(each, searches, reasons, again, strict=True)
        if search.trials
    }
    return TunedModel(_stitched(lowered, tuned, chosen), tuple(tuned.items()))


def _worth(task: Task, search: Search) -> float:
    """The seconds that a task's calls are expected to save by another batch."""
    times = [median(t.result.seconds) for t in search.trials if isfinite(t.score)]
    if not search.trials:
        return inf
    return task.calls * min(times, default=0.0) * min(search.expected_gain, 1.0)


def _stitched(lowered: IRModule, tuned: dict[Task, Tuned], target: Target) -> IRModule:
    """The model with what was found; recipes schedule the rest."""
    functions: dict[str, Node] = {}
    for task, result in tuned.items():
        if not isfinite(result.winner.score):
            continue
        for name in task.names:
            plain = lowered[name]
            assert isinstance(plain, PrimFunc)
            attrs = (*plain.attrs, (SCHEDULED, True))
            functions[name] = replace(result.best.func, attrs=attrs)
    scheduled = lowered.with_functions({**lowered.functions, **functions})
    return run_passes(scheduled, (partial(recipes.apply, target=target), *AFTER))
