"""The net under each step of a schedule: it checks results, and explains refusals."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.proofs.wellformed import check_prim_func
from minimlc.loops.schedule.trace import Trace
from minimlc.loops.schedule.tree import NoSuchName
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.module import IRModule, Step


class Verdict(NamedTuple):
    """How a step was checked, in words, and the state that the net keeps for the next."""

    checked: str
    kept: Any = None


UNCHECKED = Verdict("not checked")
VERIFIED = Verdict("verified only")


class Net:
    """A net catches a faulty step and explains a refused one. This one verifies; `services.net`
    holds one that also compares and advises.
    """

    def check(
        self, start: IRModule, after: PrimFunc, name: str, label: str, trace: Trace, last: Verdict
    ) -> Verdict:
        """Check the last step of `trace`, which made `after` of the function `name`.

        `label` is the step's text, `last` the verdict on the step before.
        """
        check_prim_func(name, after)
        return VERIFIED

    def fault(
        self, start: IRModule, name: str, trace: Trace, label: str, why: str
    ) -> ScheduleError:
        """The report of a step that failed by itself: minimlc's fault, not the caller's."""
        return ScheduleError(f"{label} {why}", code="E199")

    def remedy(self, func: PrimFunc, name: str, arguments: dict[str, Any]) -> str:
        """A call that works where `name(arguments)` was refused; '' if none was found."""
        return ""

    def explained(
        self,
        error: NoSuchName,
        steps: Sequence[Step],
        func: str,
        name: str,
        arguments: dict[str, Any],
    ) -> ScheduleError:
        """The error for a step (or a question) with an unknown name."""
        return error
