"""The search for the fastest program of a space, by trials on the machine.

Trial 0 is the space without a key: of a built-in space the recipe's program, so that no result is
slower. The next ones are those that the analytical model finds best among random ones. From then
on a cost model learns after each batch, and its favourites among changed versions of the best
programs so far are tried, with some random ones (L. Zheng et al., Ansor, 2020). Each program comes
with its siblings, which differ in what is decided late and so cost little: a family, of which one
at a time is tried. The same key and the same measurements give the same search.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, repeat
from math import erf, exp, inf, isfinite, log2, pi, sqrt
from time import perf_counter
from typing import Any

import numpy as np

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.schedule import Schedule
from minimlc.loops.schedule.primitive import Chance
from minimlc.loops.values.errors import CompileError, ScheduleError, did_you_mean, shown
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.process import collector_paused
from minimlc.loops.values.target import Target
from minimlc.tune import model, spaces
from minimlc.tune.features import NAMES
from minimlc.tune.measure import Measures, check_arguments, check_libraries, measuring
from minimlc.tune.outcome import Trial, Tuned, check_ran, comparable, keep_trials
from minimlc.tune.records import Candidate, Result, TuneError, target_text
from minimlc.tune.spaces import Program, Space, program

STRATEGIES = ("evolution", "random", "replay")
BATCH = 8  # trials that are chosen together, before a model learns from them
POOL = 24  # families of programs that the first trials are chosen from
BESIDE = 3  # programs that are made while a trial is measured, and their siblings
KEPT = 64
"""Programs that were not chosen, the most promising ones, that later trials may be."""

ELITE = 8  # the best programs so far, whose changed versions are tried
AT_RANDOM = 0.2  # the share of a pool that is drawn without looking at the best
FINALISTS = 5  # programs that are measured again at the end, besides the default
CLOSE = 1.2  # times what the best takes: a library that takes longer is measured once
SEARCHED = 2 / 3  # of the time; the rest is for measuring the best again
EARLIEST = 24  # trials before a search may stop by itself
UNSCHEDULED = 'in the part "expected"'
"""Part of the message of a failure that is not the candidate's: the unscheduled program failed. It
is no record, as a runner with other limits may do better.
"""


@dataclass
class Search:
    """A search under way, of programs of one function: its runner, its memory, and its outcome
    so far. Of a database's records, only `host`'s count, by default the ones of
    the machine where `runner` is.
    """

    mod: IRModule
    func: str
    target: Target
    space: Space
    key: int
    runner: Any = None
    database: Any = None
    host: str | None = None
    libraries: Sequence[str] = ()
    first: str = "the default"
    stopped: str = "trials"
    again: dict[int | str, tuple[Result, ...]] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    drawn: int = 0
    expected_gain: float = inf
    family: int = 0
    pool: list[tuple[int, Program]] = field(default_factory=list)

    @property
    def tuned(self) -> Tuned:
        """The outcome so far."""
        return Tuned(tuple(self.trials), self.stopped, self.again, self.first)

    def candidate(self, point: Program) -> Candidate:
        """A program as data."""
        return spaces.candidate(self.mod, self.func, self.target, point)

    def recorded(self) -> dict[str, list[Result]]:
        """The database's results for the function, by trace, in the order of recording."""
        results: dict[str, list[Result]] = {}
        if self.database is not None:
            name, host = target_text(self.target), self.host or getattr(self.runner, "host", None)
            for record in self.database.records(self.mod, self.func, name, host):
                results.setdefault(record.candidate.trace, []).append(record.result)
        return results

    def results(
        self, tried: Sequence[Candidate], known: Mapping[str, Sequence[Result]]
    ) -> Iterator[Result]:
        """The candidates' results, in order: those that are known, or new ones, which are recorded.
        Their measurement begins at once.
        """
        new = self.runner.submit([one for one in tried if one.trace not in known])
        return (known[one.trace][0] if one.trace in known else self._new(one, new) for one in tried)

    def _new(self, one: Candidate, new: Iterator[Result]) -> Result:
        result = next(new, None)
        if not isinstance(result, Result):
            why = f"the runner gives a Result for each candidate, got {shown(result)}"
            raise TuneError(why, code="E902", hint="mlc.tune.Runner()")
        if self.database is not None and UNSCHEDULED not in result.message:
            self.database.add(self.mod, self.func, one, result)
        return result

    def point(self, decisions: Mapping[str, Any]) -> Program | None:
        """The next program with these decisions, others drawn; None where it is illegal or known
        already.
        """
        self.drawn += 1
        numbers = np.random.Generator(np.random.Philox(key=[self.key, self.drawn]))
        chance = Chance(int(numbers.integers(1 << 63)), decisions, strict=False)
        return self._unknown(program(self.space, self.mod, self.func, self.target, chance))

    def default(self) -> Program:
        """The space without a key."""
        try:
            point = spaces.legal(self.space, self.mod, self.func, self.target, Chance())
        except ScheduleError as error:
            why = f'the space makes no program of "{self.func}": {str(error).splitlines()[0]}'
            raise ScheduleError(why, code="E163", hint="space(mlc.Schedule(mod))") from error
        self.known.add(point.steps)
        return point

    def _unknown(self, point: Program | None) -> Program | None:
        if point is None or point.steps in self.known:
            return None
        self.known.add(point.steps)
        return point

    def points(self, decisions: Iterable[Mapping[str, Any]], count: int) -> Iterator[Program]:
        """Up to so many new programs with such decisions, of twice as many that are drawn."""
        return islice(filter(None, map(self.point, islice(decisions, 2 * count))), count)

    def children(self, numbers: np.random.Generator) -> Iterator[dict[str, Any]]:
        """The best programs' decisions with one or two missing, or with some of another's."""
        ok = sorted(comparable(self.trials), key=lambda trial: trial.score)
        parents = [trial.program.decisions for trial in ok[:ELITE]]
        while parents:
            one, other = (parents[int(len(parents) * numbers.random() ** 2)] for _ in range(2))
            yield _child(one, other, numbers)

    @collector_paused()
    def prepare(self, count: int, enough: float = inf) -> None:
        """Put up to so many new families into the pool that trials are chosen from, until there are
        `enough` programs: most are of changed programs, some are drawn at random.
        """
        numbers = np.random.Generator(np.random.Philox(key=[self.key, self.drawn]))
        children, most = self.children(numbers), len(self.pool) + enough
        drawn = (numbers.random() < AT_RANDOM for _ in repeat(None))
        for point in self.points(({} if anew else next(children, {}) for anew in drawn), count):
            self.family += 1
            others = spaces.siblings(self.space, self.mod, self.func, self.target, point)
            new = point, *filter(None, map(self._unknown, others))
            self.pool += [(self.family, one) for one in new]
            if len(self.pool) >= most:
                break

    def predict(self, points: Sequence[Program]) -> np.ndarray:
        """The logarithms of scores that a model expects of programs."""
        ok = comparable(self.trials)
        rows = np.array([trial.program.features for trial in ok]).reshape(-1, len(NAMES))
        times = np.array([log2(trial.score) for trial in ok])
        return model.learned(rows, times)(np.array([point.features for point in points]))

    def batch(self, strategy: str, count: int) -> tuple[list[Program], list[float]]:
        """The next programs to try, and the scores that are expected of them: of each family the
        most promising one, where there are enough of them.
        """
        if strategy == "random" or not self.trials:
            points = [*self.points(repeat({}), count)]
            return points, [2.0**x for x in self.predict(points)] if points else []
        pool, self.pool = self.pool, []
        if not pool:
            return [], []
        expected = self.predict([point for _, point in pool])
        ranked = [int(at) for at in np.argsort(expected, kind="stable")]
        firsts = {pool[at][0]: at for at in reversed(ranked)}
        order = sorted(firsts.values(), key=ranked.index)[:count]
        order += [at for at in ranked if at not in order][: count - len(order)]
        rest = [at for at in ranked if at not in order]
        self.expected_gain = self._gain(expected[order])
        self.pool = [pool[at] for at in rest[:KEPT]]
        for at in rest[KEPT:]:
            self.known.discard(pool[at][1].steps)
        return [pool[at][1] for at in order], [2.0 ** expected[at] for at in order]

    def _gain(self, expected: np.ndarray) -> float:
        """The share of the best time that the most promising program is expected to save, given how
        far the model was off so far: expected improvement (J. Mockus, 1975).
        """
        ok = [trial for trial in comparable(self.trials) if trial.number]
        if not ok:
            return inf
        off = float(np.std([log2(trial.expected / trial.score) for trial in ok])) + 1e-6
        best = log2(min(trial.score for trial in comparable(self.trials)))
        steps = [(best - float(guess)) / off for guess in expected]
        gains = [
            off * (z * (1 + erf(z / sqrt(2))) / 2 + exp(-z * z / 2) / sqrt(2 * pi)) for z in steps
        ]
        return 1 - 2.0 ** -max(gains)


def _child(
    one: Mapping[str, Any], other: Mapping[str, Any], numbers: np.random.Generator
) -> dict[str, Any]:
    """A program's decisions with one or two missing, which are then drawn; or some of another's."""
    names = list(one)
    if one is not other and numbers.random() < 0.3:
        return {
            name: other.get(name, one[name]) if numbers.random() < 0.5 else one[name]
            for name in names
        }
    count = 1 + (numbers.random() < 0.3) if names else 0
    redrawn = {names[int(len(names) * numbers.random())] for _ in range(count)}
    return {name: value for name, value in one.items() if name not in redrawn}


def noise(result: Result) -> float:
    """The share of a score by which it may be off: the standard error of its samples' median."""
    ratios = result.ratios or [1.0]
    low, high = np.quantile(ratios, (0.25, 0.75))
    return 0.93 * float(high - low) / float(np.median(ratios)) / sqrt(len(ratios))


def search(
    mod: IRModule | PrimFunc,
    func: str | None = None,
    *,
    space: Space | None = None,
    trials: int = 64,
    key: int = 0,
    runner: Measures | None = None,
    database: Any = None,
    target: str | Target | None = None,
    strategy: str = "evolution",
    stop: bool = True,
    observe: Callable[[Trial], None] | None = None,
    host: str | None = None,
    seconds: float | None = None,
    libraries: Sequence[str] = (),
) -> Tuned:
    """Try programs of a space, `trials` at the most; the best is the result's `best`.

    `runner` measures them, by default a `Runner()` for this search. What `database` holds of this
    function is not measured again, and what is measured goes into it: an interrupted search (Ctrl-C
    gives the best so far) goes on where it was. Of its records, only `host`'s count, by default
    of the machine where `runner` is. With `stop`, it ends when less can be expected than the
    measurements' noise, and after `seconds`, of which the last third is for measuring the best few
    again. `strategy` is "evolution", "random", or "replay", which measures what the
    database has. `observe` sees each trial. `libraries` are functions of numpy's and torch's that
    `dispatch` knows, such as "numpy.matmul", and that compute the last parameter from the others:
    at the end they are measured with the best, if there is time, and checked on more values than a
    program, which is proven; the result's `library` is the one that is faster. Raises
    `ScheduleError` where the space makes no program without a key, `TuneError` E902 for an argument
    of another kind, E909 where nothing ran, `CompileError` E614 for an unknown library. Another
    error, such as a fault of a space of one's own, has the outcome so far as `error.tuned`.
    """
    check_arguments(trials, runner, database, seconds, space=space, observe=observe)
    end, last = ending(seconds, SEARCHED), ending(seconds)
    start = Schedule(mod, func, check=False, key=key)
    name, alone = start.func_name, IRModule.of({start.func_name: start.func})
    if strategy not in STRATEGIES:
        hint = did_you_mean(str(strategy), STRATEGIES)
        raise TuneError(f'no strategy "{strategy}"', code="E902", hint=hint)
    chosen, first = Target.of(target), "the first program of this space" if space else "the default"
    names = check_libraries(libraries)
    usual = space or spaces.usual(chosen)
    with measuring(runner) as measures:
        state = Search(alone, name, chosen, usual, key, measures, database, host, names, first)
        if space is not None and database is not None:
            _beside_the_recipe(state)
        try:
            for reason in rounds(state, trials, strategy, stop, observe, end):
                state.stopped = reason
            state.again = finals(state, last)
        except KeyboardInterrupt:
            if not state.trials:
                raise
            state.stopped = "interrupt"
        except Exception as error:
            keep_trials(error, replace(state.tuned, stopped="error"))
            raise
    if state.stopped != "interrupt":
        check_ran(state.trials)
    return state.tuned


def _beside_the_recipe(state: Search) -> None:
    """Have a database know the recipe's program, too: `build` takes the best that it knows."""
    usual = spaces.usual(state.target)
    if point := program(usual, state.mod, state.func, state.target, Chance()):
        list(state.results([state.candidate(point)], state.recorded()))


def ending(seconds: float | None, share: float = 1.0) -> float:
    """The time when a share of the seconds that a search may take is over."""
    return inf if seconds is None else perf_counter() + share * seconds


def finals(state: Search, end: float = inf) -> dict[int | str, tuple[Result, ...]]:
    """The results of the default, the best few programs, and the libraries, measured three times
    again in turns, or as often as there is time: of many that are alike, the first one in front
    was lucky. Nothing is compiled beside: where processors share a core, that slows some programs
    more than others. What a database has of an earlier end of the search is not measured again.
    """
    ran = sorted(comparable(state.trials), key=lambda trial: trial.score)[:FINALISTS]
    if not ran or (ran[0].number == 0 and not state.libraries):
        return {}
    tried: dict[int | str, Candidate] = {0: state.trials[0].candidate}
    tried |= {name: replace(tried[0], trace=f'"{name}"') for name in state.libraries}
    tried |= {trial.number: trial.candidate for trial in ran}
    known, here, left = state.recorded(), ran[0].result.host, dict[int | str, list[Result]]()
    for at, one in tried.items():
        found = [result for result in known.get(one.trace, []) if result.host == here]
        # Of a library, failures count no more: it may be installed by now. Of a program, the result
        # by which it was tried is no other.
        left[at] = [run for run in found if run.kind == "ok"] if one.library else found[1:]
    results: dict[int | str, tuple[Result, ...]] = {}
    for number in (*tried, *reversed(tried), *tried):
        if perf_counter() > end:
            break
        one, last = tried[number], results.get(number, ())[-1:]
        if one.library and last and last[0].score > CLOSE * ran[0].score:
            continue
        (new,) = left[number][:1] or state.results([one], {})
        left[number] = left[number][1:]
        if new.host == here:
            results[number] = (*results.get(number, ()), new)
    return results if len(results) > 1 else {}


def rounds(
    state: Search,
    most: int,
    strategy: str = "evolution",
    stop: bool = True,
    observe: Callable[[Trial], None] | None = None,
    end: float = inf,
) -> Iterator[str]:
    """A search batch by batch, `most` trials in all: "" after each, at last why it stopped."""
    measured = state.recorded()
    queue = _replayed(state, measured) if strategy == "replay" else None
    points, expected, quiet = [state.default()], [inf], 0
    while points:
        tried = [*map(state.candidate, points)]
        results = state.results(tried, measured)
        goes_on = strategy == "evolution" and len(state.trials) + len(points) < most
        if goes_on and not state.trials:
            state.prepare(min(POOL, 2 * (most - 1)))
        for point, one, guess, result in zip(points, tried, expected, results, strict=True):
            state.trials.append(Trial(len(state.trials), point, one, result, guess))
            if observe is not None:
                observe(state.trials[-1])
            if goes_on and len(state.trials) > 1:
                state.prepare(BESIDE, enough=BESIDE)
        left = min(BATCH, most - len(state.trials))
        best = min(state.trials, key=lambda trial: trial.score)
        quiet = quiet + 1 if state.expected_gain < noise(best.result) else 0
        ends = {
            "failure": UNSCHEDULED in state.trials[0].result.message,  # no program can do without
            "trials": left <= 0,
            "time": perf_counter() > end,
            "noise": stop and quiet > 1 and len(state.trials) >= EARLIEST,
        }
        yield next((reason for reason, there in ends.items() if there), "")
        if any(ends.values()):
            return
        if queue is not None:
            points = [queue.pop(0) for _ in range(min(left, len(queue)))]
            expected = [inf] * len(points)
        else:
            points, expected = state.batch(strategy, left)
    yield "space"


def _replayed(state: Search, measured: Mapping[str, Sequence[Result]]) -> list[Program]:
    """The programs that a database has, the fastest first."""
    ok = sorted((r[0].score, trace) for trace, r in measured.items() if isfinite(r[0].score))
    traces = [trace for _, trace in ok if not trace.startswith('"')]
    points = []
    for trace in traces:
        with suppress(CompileError):  # a step that this version refuses: there are others
            points.append(spaces.replayed(state.mod, state.func, state.target, trace))
    return points
