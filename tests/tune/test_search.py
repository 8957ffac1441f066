"""The search, on a runner that pretends: its finds, repeats, resumptions and messages."""

from dataclasses import replace
from math import log2

import pytest

import minimlc as mlc
from minimlc.loops.schedule.primitive import Chance
from minimlc.loops.values.target import Target
from minimlc.tune import Result, Tuned, TuneError, search
from minimlc.tune.spaces import program, usual
from tests.helpers import refuses
from tests.recipes.programs import matmul
from tests.tune.stand_in import InProcess, Pretended, Remembered, scheduled

MM = matmul(32, 16, 8)
POWERS = (1, 2, 4, 8, 16, 32)
WANTED = {"i": (2, 4, 4), "j": (2, 8), "k": (4, 2)}


TILES = {"i": [(32 // a // b, a, b) for b in POWERS for a in POWERS if 32 % (a * b) == 0]}
TILES |= {"j": [(16 // a, a) for a in POWERS[:5]], "k": [(8 // a, a) for a in POWERS[:4]]}


def space(sch):
    """Three tiles: 21 * 5 * 4 programs."""
    for axis, loop in zip("ijk", sch.loops("C"), strict=True):
        sch, tile = sch.sample_categorical(TILES[axis], name=axis)
        sch = sch.split(loop, tile)
    return sch


def score(candidate):
    """Least where each decision is as wanted; a recipe's is slower than any."""
    told = mlc.Trace.from_json(candidate.trace).decisions
    if not told.keys() >= WANTED.keys():
        return 99.0
    off = [abs(log2(a / b)) for key in WANTED for a, b in zip(told[key], WANTED[key], strict=True)]
    return 1.0 + sum(off)


def found(runner=None, **options):
    return search(MM, space=space, runner=runner or Pretended(score), stop=False, **options)


def test_evolution_beats_chance_and_begins_with_the_default():
    evolved, drawn = (found(strategy=s, trials=40).winner.score for s in ("evolution", "random"))
    assert evolved <= drawn
    tuned = found(trials=9)
    assert tuned.records[0].program.decisions == {"i": (32, 1, 1), "j": (16, 1), "k": (8, 1)}
    assert [trial.number for trial in tuned.records] == list(range(9))
    assert (tuned.stopped, tuned.speedup > 1) == ("trials", True)
    assert tuned.best.trace == tuned.trace == tuned.winner.program.schedule.trace


@pytest.mark.parametrize("strategy", ["evolution", "random"])
def test_the_same_key_and_measurements_give_the_same_search(strategy):
    first, again = (found(strategy=strategy, trials=24, key=5) for _ in range(2))
    assert [t.candidate for t in first.records] == [t.candidate for t in again.records]
    assert len({t.candidate for t in first.records}) == 24
    other = found(strategy=strategy, trials=24, key=6)
    assert [t.candidate for t in first.records] != [t.candidate for t in other.records]


def test_an_interrupted_search_gives_the_best_so_far_and_goes_on():
    database, whole = Remembered(), found(trials=32)
    part = found(Pretended(score, stop_after=13), trials=32, database=database)
    assert part.stopped == "interrupt" and len(part.records) == 12 == len(database.kept) - 1
    assert repr(part).endswith("as fast as the first program of this space, not measured again")
    runner = Pretended(score)
    resumed = found(runner, trials=32, database=database)
    assert runner.asked == 20 + 3 * len(resumed.again)
    assert [t.candidate for t in resumed.records] == [t.candidate for t in whole.records]
    assert resumed.winner.score == whole.winner.score
    third, again = Pretended(score), found(Pretended(None), trials=32, database=database)
    assert (again.winner.number, again.again) == (resumed.winner.number, resumed.again)
    assert third.asked == 0


def test_a_search_in_which_nothing_runs_says_so():
    runner = Pretended(score, kind=lambda candidate: "crash")
    with pytest.raises(TuneError, match=r"none of 9 programs ran \(9 × crash\)") as refused:
        found(runner, trials=9)
    assert refused.value.code == "E909"
    half = Pretended(score, kind=lambda candidate: "ok" if runner.asked % 2 else "memory")
    runner = half
    tuned = found(half, trials=9)
    assert "× memory" in repr(tuned)


def test_what_the_program_computes_is_asked_for_once():
    """Nothing can be compared with a program that does not end: no other one is tried."""

    class Slow(Pretended):
        def submit(self, candidates):
            for _ in super().submit(candidates):
                yield Result("timeout", message='it was stopped in the part "expected": timeout')

    runner, database = Slow(score), Remembered()
    for asked in (2, 4):  # the recipe's program is asked for, too; a runner may do better later
        with pytest.raises(TuneError, match="none of 1 programs ran"):
            found(runner, trials=32, database=database)
        assert (runner.asked, len(database.kept)) == (asked, 0)


def test_the_end_of_a_search_takes_no_record_of_another_host():
    class Elsewhere(Pretended):
        def submit(self, candidates):
            for result in super().submit(candidates):
                yield replace(result, host="elsewhere")

    database = Remembered()
    found(Pretended(score, stop_after=13), trials=12, database=database)  # before its end
    found(Elsewhere(score), trials=12, database=database, host="elsewhere")
    tuned = found(Pretended(score), trials=12, database=database)
    hosts = {result.host for results in tuned.again.values() for result in results}
    assert hosts == {"pretended"}


def test_a_fault_of_a_space_keeps_the_trials_before_it():
    asked = []

    def faulty(sch):
        asked.append(sch)
        if len(asked) == 200:
            raise ValueError("mine")
        return space(sch)

    with pytest.raises(ValueError, match="mine") as raised:
        search(MM, space=faulty, runner=Pretended(score), trials=99, stop=False)
    assert raised.value.tuned.winner.number > 0
    notes = " ".join(raised.value.__notes__)
    assert "in a space that got Chance(key=" in notes and "error.tuned" in notes


def test_a_database_knows_the_recipe_beside_a_space_of_ones_own():
    database = Remembered()
    found(trials=3, database=database)
    recipe = program(usual(Target.host()), MM, "mm", Target.host(), Chance())
    traces = [mlc.Trace.from_json(candidate.trace) for candidate, _ in database.kept]
    assert traces[0] == recipe.schedule.trace and WANTED.keys() <= traces[1].decisions.keys()


def test_a_search_that_has_a_time_ends_after_a_batch_and_measures_the_best_again():
    tuned = found(trials=80, seconds=1e-9)
    assert (tuned.stopped, len(tuned.records)) == ("time", 1)
    seen = []
    tuned = found(trials=400, seconds=1.0, observe=seen.append)
    assert (tuned.stopped in ("time", "space")) and len(seen) == len(tuned.records) < 400
    assert found(trials=24, seconds=600).again


def test_what_was_not_measured_again_has_to_be_well_ahead():
    slow, fast = (replace(trial, number=at) for at, trial in enumerate(found(trials=9).records[:2]))
    for score, number in ((0.97, 0), (0.94, 1)):
        ahead = replace(fast, result=replace(fast.result, seconds=(score,), reference=(1.0,)))
        default = replace(slow, result=replace(slow.result, seconds=(1.0,), reference=(1.0,)))
        assert Tuned((default, ahead), "interrupt").winner.number == number
        again = {0: (default.result,), 1: (ahead.result,)}
        assert Tuned((default, ahead), "trials", again).winner.number == 1


def test_what_is_ahead_is_so_each_time():
    """Of two that are alike, the one that was lucky twice of three times is not faster."""
    trials = tuple(
        replace(trial, number=at) for at, trial in enumerate(found(trials=9).records[:2])
    )

    def results(*scores):
        one = trials[0].result
        return tuple(replace(one, seconds=(score,), reference=(1.0,)) for score in scores)

    for scores, number in (((0.9, 0.9, 1.0), 0), ((0.9, 0.9, 0.97), 1)):
        again = {0: results(0.98, 1.0, 1.0), 1: results(*scores)}
        assert Tuned(trials, "trials", again).winner.number == number


def test_what_saves_less_than_a_microsecond_is_not_taken():
    trials = tuple(
        replace(trial, number=at) for at, trial in enumerate(found(trials=9).records[:2])
    )
    one = trials[0].result
    for seconds, number in ((9.2e-6, 0), (8.9e-6, 1)):
        times = {0: 10e-6, 1: seconds}
        again = {
            at: (replace(one, seconds=(time,), reference=(1e-3,)),) * 3
            for at, time in times.items()
        }
        assert Tuned(trials, "trials", again).winner.number == number


def test_ctrl_c_while_the_best_are_measured_again_gives_the_best_so_far():
    whole = found(trials=9)
    part = found(Pretended(score, stop_after=9 + 3), trials=9)
    assert (part.stopped, part.again) == ("interrupt", {})
    assert part.winner.number == whole.winner.number > 0


def test_a_default_and_a_best_that_both_fail_at_the_end_leave_the_default():
    default, *_, last = found(trials=9).records
    failed = replace(last.result, kind="crash", seconds=(), reference=())
    again = {0: (failed,), last.number: (failed,)}
    assert Tuned((default, last), "trials", again).winner is default


@pytest.mark.parametrize("seconds", [0, -1.0, "60", True])
def test_a_time_is_a_number_above_0(seconds):
    with pytest.raises(mlc.tune.TuneError, match="E902: seconds is a number above 0"):
        found(seconds=seconds)


def test_recorded_programs_are_replayed():
    database = Remembered()
    first = found(trials=12, database=database)
    replay = found(Pretended(score), trials=12, strategy="replay", database=database)
    scores = sorted(t.score for t in first.records)
    assert [t.score for t in replay.records[1:3]] == scores[:2]


def test_a_bad_record_is_not_replayed():
    database = Remembered()
    first = found(trials=9, database=database)
    candidate, result = database.kept[0]
    fast = replace(result, seconds=(1e-9,) * len(result.seconds))
    for trace in (candidate.trace.replace('"i"', '"zz"'), "[", "{}", "null", "[" * 100_000):
        database.add(MM, "C", replace(candidate, trace=trace), fast)
    tuned = found(Pretended(score), trials=9, strategy="replay", database=database)
    assert len(tuned.records) == len(first.records)


@pytest.mark.parametrize("times", [(0.0, 1.0), (1e-300, 1e300), (1e300, 1e-300)])
def test_a_clock_that_stands_still_ends_no_search(times):
    class Stopped:
        def submit(self, candidates):
            return (Result("ok", times[:1], times[1:], host="here") for _ in candidates)

    tuned = search(MM, trials=30, runner=Stopped(), stop=True)
    assert tuned.winner.number == 0 and 0 < tuned.winner.score < float("inf")


def test_failures_cost_a_trial_each_and_are_kept():
    def kind(candidate):
        decisions = mlc.Trace.from_json(candidate.trace).decisions
        return "crash" if decisions["j"] == (2, 8) else "ok"

    tuned = found(Pretended(score, kind), trials=32)
    assert len(tuned.records) == 32
    assert {trial.result.kind for trial in tuned.records} == {"ok", "crash"}
    assert tuned.winner.result.kind == "ok"


def test_a_small_space_ends_and_a_search_stops_when_nothing_more_is_expected():
    small = search(MM, space=lambda s: s, runner=Pretended(lambda c: 1.0))
    assert (small.stopped, small.speedup) == ("space", 1.0)
    assert search(MM, space=space, runner=Flat(), trials=200).stopped == "noise"


class Flat(Pretended):
    """All programs alike, but for noise."""

    def __init__(self):
        super().__init__(lambda candidate: 1.0)

    def submit(self, candidates):
        for result in super().submit(candidates):
            yield type(result)("ok", (1.0, 1.2, 0.9, 1.1), (1.0,) * 4)


def test_the_best_are_measured_again_and_the_lucky_one_loses():
    class Lucky(Pretended):
        def submit(self, candidates):
            for candidate in candidates:
                lucky = self.asked == 5
                (result,) = super().submit([candidate])
                yield replace(result, seconds=(1e-3,) * 3) if lucky else result

    tuned = found(Lucky(score), trials=16)
    assert tuned.records[5].score == 1e-3
    assert set(tuned.again) >= {0, 5} and tuned.winner.number != 5
    assert tuned.speedup > 1


def test_at_the_end_one_is_measured_at_a_time():
    class Counted(Pretended):
        sizes = ()

        def submit(self, candidates):
            listed = list(candidates)
            self.sizes = (*self.sizes, len(listed))
            yield from super().submit(listed)

    runner = Counted(score)
    tuned = found(runner, trials=16)
    assert len(tuned.again) > 2 and runner.sizes[-2 * len(tuned.again) :] == (1,) * (
        2 * len(tuned.again)
    )


def test_what_is_hardly_faster_than_the_default_is_not_worth_it():
    default = found(trials=1).records[0].candidate
    for best, chosen in ((0.995, 0), (0.95, 1)):
        tuned = found(Pretended(lambda c, b=best: 1.0 if c == default else b), trials=9)
        assert bool(tuned.winner.number) == bool(chosen)


def test_observers_see_each_trial():
    seen = []
    tuned = found(trials=10, observe=seen.append)
    assert tuple(seen) == tuned.records


def test_what_cannot_be_searched():
    with pytest.raises(mlc.CompileError, match="evolution"):
        found(strategy="evolve")
    with pytest.raises(mlc.ScheduleError, match="64 bits"):
        found(key=-1)
    with pytest.raises(mlc.ScheduleError, match="no program"):
        search(MM, space=lambda s: s.vectorize(s.loops("C")[-1]), runner=InProcess())


def test_a_product_is_tuned_on_this_machine():
    tuned = search(matmul(64, 64, 64), runner=InProcess(3), trials=4)
    assert [trial.result.kind for trial in tuned.records] == ["ok"] * 4
    assert mlc.structural_equal(scheduled(tuned.winner.candidate).func, tuned.best.func)
    assert tuned.speedup >= 1


@pytest.mark.parametrize(
    "options",
    [
        *({"trials": wrong} for wrong in (0, -1, True, 2.5, "x", None)),
        *({name: 3} for name in ("runner", "database", "observe", "space")),
        {"database": "tuned.db"},
        {"strategy": "luck"},
        {"space": lambda sch: None},
        {"space": lambda sch: mlc.Schedule(matmul(8, 8, 8))},
        {"runner": type("Short", (), {"submit": lambda self, candidates: iter(())})()},
    ],
)
def test_arguments_of_another_kind_are_refused(options):
    with pytest.raises(mlc.CompileError) as caught:
        search(MM, **{"space": space, "runner": Pretended(score), **options})
    assert caught.value.code == "E902"


def test_times_of_another_host_are_left_out():
    """Records of a database may be from elsewhere; the runner names its own host."""
    database = Remembered()
    here, there = Pretended(score), Pretended(lambda candidate: 1e-3)
    here.host = "pretended"
    found(runner=there, trials=8, database=database)
    database.kept = [
        record._replace(result=replace(record.result, host="elsewhere")) for record in database.kept
    ]
    tuned = found(runner=here, trials=8, database=database)
    assert {trial.result.host for trial in tuned.records} == {"pretended"}
    assert here.asked >= 8


def beside_numpy(time, kind="ok", **options):
    """A search of a product beside numpy's, which takes so long; programs take 1 to 99."""
    runner = Pretended(
        lambda one: time if one.library else score(one),
        lambda one: kind if one.library else "ok",
    )
    return runner, found(runner, trials=5, libraries=["numpy.matmul"], **options)


def test_a_library_is_measured_with_the_best_and_named_where_it_is_faster():
    _, tuned = beside_numpy(0.5)
    assert tuned.library == "numpy.matmul" and repr(tuned).endswith("; numpy.matmul is faster")
    assert [result.score for result in tuned.again["numpy.matmul"]] == [0.5] * 3
    assert tuned.winner.score >= 1  # and what a program of ours takes is as it was
    _, slower = beside_numpy(200.0)
    assert slower.library == "" and "numpy" not in repr(slower)
    assert len(slower.again["numpy.matmul"]) == 1  # it is too far behind for more
    _, failed = beside_numpy(0.5, kind="crash")
    assert failed.library == "" and repr(failed).endswith("; numpy.matmul: crash")
    kept = Remembered()
    _, first = beside_numpy(0.5, database=kept)
    runner, again = beside_numpy(200.0, database=kept)
    assert runner.asked == 0 and again.again == first.again
    kept.kept = [
        r._replace(result=Result("build")) if r.candidate.library else r for r in kept.kept
    ]
    assert beside_numpy(0.5, database=kept)[1].library == "numpy.matmul"  # a failure may be mended


def test_a_library_on_another_host_is_no_rival():
    class Hosts(Pretended):
        def submit(self, candidates):
            for one, result in zip(candidates, super().submit(candidates), strict=True):
                yield replace(result, host="fast") if one.library else result

    tuned = found(
        Hosts(lambda one: 0.1 if one.library else score(one)), trials=5, libraries="numpy.matmul"
    )
    assert tuned.library == "" and "numpy.matmul" not in tuned.again


def test_a_library_that_is_none_is_refused_before_anything_runs():
    runner = Pretended(score)
    refuses("E614", lambda: found(runner, libraries=["numpy.matmull"]), "numpy.matmul")
    mlc.register_func("env.mine", lambda *arrays: None, override=True)
    for strange in (None, 3, [None], [b"numpy.matmul"], [["numpy.matmul"]], ["env.mine"], ""):
        refuses("E902", lambda names=strange: found(runner, libraries=names), "libraries")
    assert runner.asked == 0
