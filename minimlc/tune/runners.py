"""What a search measures with, and whether its arguments are of the right kind."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from minimlc.errors import shown
from minimlc.tune.measure import Runner, check_above_zero
from minimlc.tune.records import Candidate, Result, TuneError


class Measures(Protocol):
    """What times candidates: `tune.Runner`, or anything with this method."""

    def submit(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """The candidates' results, in their order."""


def measuring(runner: Measures | None) -> AbstractContextManager[Measures]:
    """The runner, or one of this machine for a while."""
    return Runner() if runner is None else nullcontext(runner)


def check_arguments(
    trials: Any, runner: Any, database: Any, seconds: Any, **functions: Any
) -> None:
    """`TuneError` for arguments of a search that are none."""
    hint = "mlc.tune.search(mod, trials=64)"
    check_above_zero(hint, trials=trials)
    check_above_zero(hint, int | float, **({} if seconds is None else {"seconds": seconds}))
    wanted = {
        "runner": (runner, ("submit",), "an mlc.tune.Runner"),
        "database": (database, ("records", "add"), "an mlc.tune.Database"),
        **{name: (value, ("__call__",), "a function") for name, value in functions.items()},
    }
    for name, (value, methods, kind) in wanted.items():
        if value is not None and not all(callable(getattr(value, each, None)) for each in methods):
            raise TuneError(f"{name} is {kind}, got {shown(value)}", code="E902", hint=hint)
