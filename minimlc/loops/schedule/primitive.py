"""The table of primitives. Each enters itself when its file is imported."""

from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple, NoReturn, TypeVar, cast
from weakref import WeakKeyDictionary

from minimlc.loops.ir.nodes import Block, PrimFunc
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.node import Node, span_of


class Decided(NamedTuple):
    """The result of a sampling primitive: the function, and its choice (plain data).

    Such a primitive has an argument `decision=None`. The step's trace holds the choice under that
    name; given back at replay, it is taken instead of a new one.
    """

    func: PrimFunc
    decision: Any


class Chance(NamedTuple):
    """The source of a schedule's decisions: by name from `decisions`, else drawn by `key`, or the
    first choices without one. If not `strict`, a given decision that is no choice is drawn.
    """

    key: int | None = None
    decisions: Mapping[str, Any] = {}
    strict: bool = True


Rule = Callable[..., PrimFunc | Decided]
R = TypeVar("R", bound=Rule)

PRIMITIVES: dict[str, Rule] = {}
"""Each primitive's rule: PrimFunc -> PrimFunc, by name. Its claims are proven at once."""

SAMPLES: dict[str, Rule] = {}
"""Rules that only decide, by chance (`services.sampling`), in the form of primitives."""

RULES = ChainMap(PRIMITIVES, SAMPLES)
"""All that the steps of a trace may name."""

_CLAIMS: WeakKeyDictionary[PrimFunc, Callable[[PrimFunc], object]] = WeakKeyDictionary()
"""The proofs of the claims of functions that steps made."""

KEEPS_ORDER: set[str] = set()
"""The primitives after which every reduction takes its values in the same order as before: floats
must then agree to the bit.
"""


class Refusal(ScheduleError):
    """Why a rule does not apply. Its primitive's name is put in front where the rule is applied."""

    def by(self, name: str) -> ScheduleError:
        """The error of the primitive `name`; some texts start with the call: `split("i"): ...`."""
        starts = self.why.startswith((f"{name}(", f"{name} "))
        why = self.why if starts else f"{name}: {self.why}"
        error = ScheduleError(why)
        vars(error).update(vars(self), why=why)
        return error


def refuse(
    code: str,
    why: str,
    *,
    at: Node | None = None,
    of: Block | None = None,
    example: str = "",
    hint: str = "",
) -> NoReturn:
    """Raise a `Refusal`; `at` is the statement it is about, `of` the block that `why` is about."""
    if of is not None:
        why, at = f'block "{of.name}" {why}', of
    raise Refusal(why, code=code, **location(at), example=example, hint=hint)


def location(at: Node | None) -> dict[str, Any]:
    """The location of an error about a statement: its place in the source, else its first lines."""
    span = None if at is None else span_of(at)
    if at is None or span is not None:
        return {"span": span}
    return {"excerpt": "\n".join(at.script().rstrip().split("\n")[:4])}


def claim(func: PrimFunc, proof: Callable[[PrimFunc], object]) -> PrimFunc:
    """The result of a rule, whose claims `proof` has to prove; it refuses what it cannot."""
    _CLAIMS[func] = proof
    return func


def settled(result: PrimFunc | Decided) -> PrimFunc | Decided:
    """The result of a rule, with its claims proven."""
    func = result.func if isinstance(result, Decided) else result
    if proof := _CLAIMS.get(func):
        proof(func)
        del _CLAIMS[func]
    return result


def unproven(rule: R) -> R:
    """A primitive's rule, whose claims the caller has proven, by `settled` or `finish.proven`."""
    return getattr(rule, "unproven", rule)


def primitive(*, keeps_order: bool) -> Callable[[R], R]:
    """Decorates a rule: it becomes a method of `Schedule` and a function of modules.

    `keeps_order`: every reduction takes its values in the same order as before, so floats must
    agree to the bit; False where that is not sure.
    """

    def enter(rule: R) -> R:
        name = rule.__name__

        @wraps(rule)
        def named(*args: Any, **options: Any) -> PrimFunc | Decided:
            try:
                return rule(*args, **options)
            except Refusal as refusal:
                raise refusal.by(name) from None

        @wraps(rule)
        def applied(*args: Any, **options: Any) -> PrimFunc | Decided:
            return settled(named(*args, **options))

        applied.unproven = named  # type: ignore[attr-defined]
        PRIMITIVES[name] = applied
        if keeps_order:
            KEEPS_ORDER.add(name)
        return cast(R, applied)

    return enter
