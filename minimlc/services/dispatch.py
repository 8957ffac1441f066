"""Hand pieces of a graph to a library where that is faster: measured once, chosen for good."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np

from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import Constant, Expr, Var, call_dps_packed
from minimlc.graphs.ir.registry import get_function, register_func, registered
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import CompileError, shown
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import replace
from minimlc.services.build import build
from minimlc.services.patterns.match import Match, Surroundings
from minimlc.services.patterns.pattern import Pattern, wildcard
from minimlc.services.patterns.pattern import operator as call
from minimlc.services.patterns.rewrite import rewrite
from minimlc.services.runtime.timing import time

OURS, RECORD = "minimlc", "dispatch"
Clock: TypeAlias = Callable[[Callable[..., Any], Sequence[np.ndarray]], float]
"""The seconds of a call of a function with some arguments."""

Judge: TypeAlias = Callable[[Mapping[str, IRModule]], str | None]
"""The name of the best module for a piece; each has a candidate's "main", "minimlc" comes first.
None leaves the piece as it is, and undecided.
"""


class Piece(NamedTuple):
    """A pattern, and the registered `functions` that can compute its matches; missing ones are
    skipped. A function is called with the values of `parts`, then with the output, and without
    attributes: the pattern must name them all.
    """

    pattern: Pattern
    parts: tuple[Pattern, ...]
    functions: tuple[str, ...]


def _linear_by_numpy(x: np.ndarray, w: np.ndarray, *rest: np.ndarray) -> None:
    *bias, out = rest
    np.matmul(x, w.T, out=out)
    for term in bias:
        np.add(out, term, out=out)


register_func("numpy.matmul", lambda x, w, out: np.matmul(x, w, out=out))
register_func("numpy.linear", _linear_by_numpy)


def _by_torch(name: str) -> Callable[..., None]:
    def function(*arrays: np.ndarray) -> None:
        torch = import_module("torch")
        *inputs, out = map(torch.from_numpy, arrays)
        source: Any = torch if name == "matmul" else torch.nn.functional
        out.copy_(getattr(source, name)(*inputs))

    return function


if find_spec("torch"):
    register_func("torch.matmul", _by_torch("matmul"))
    register_func("torch.linear", _by_torch("linear"))

x, w, b = wildcard("x", dtype="float32"), wildcard("w"), wildcard("b")
PIECES = (
    Piece(call("matmul", x, w, out_dtype=""), (x, w), ("numpy.matmul", "torch.matmul")),
    Piece(call("linear", x, w, b), (x, w, b), ("numpy.linear", "torch.linear")),
    Piece(call("linear", x, w), (x, w), ("numpy.linear", "torch.linear")),
)
"""Products in float32, by numpy's BLAS and by torch."""


def seconds(function: Callable[..., Any], arrays: Sequence[np.ndarray]) -> float:
    """The median of some samples, on the machine at hand."""
    return time(function, *arrays, repeat=10).median


@module_pass
def dispatch(
    mod: IRModule,
    pieces: Sequence[Piece] = PIECES,
    *,
    choices: Mapping[str, str] | None = None,
    clock: Clock = seconds,
    judge: Judge | None = None,
) -> IRModule:
    """Have a library compute each piece that it computes faster than a kernel of ours.

        lv = R.matmul(x, w)    -->    lv = R.call_dps_packed("numpy.matmul", (x, w), ...)

    Each candidate is built as a separate function for the piece's very shapes and constants, and
    called with random inputs: results must agree (`CompileError` E235 otherwise), then the fastest
    by `clock` is taken, once for all pieces that are alike. Pieces of symbolic sizes stay. The
    module's attribute "dispatch" records the choices; `choices`, such as `chosen(mod)` of another
    time, are taken over unmeasured. A `judge` chooses in another way, and looks at values itself,
    as a search on workers does.

        fast = mlc.dispatch(mod)
        chosen(fast)           # {"matmul(x, w, out_dtype='') of (64, 64), (64, 64)": "minimlc"}
        mlc.dispatch(mod, choices=chosen(fast))    # the same module, and no clock was read

    It comes first in a pipeline, while operators are whole. It is no part of the default one: a
    graph function that calls a library is taken step by step, and no longer one native function.
    """
    known = {**chosen(mod), **(choices or {})}
    used: dict[str, str] = {}
    by = judge or partial(fastest, clock=clock)

    def replacement(piece: Piece, match: Match) -> Expr | None:
        args = [match[part] for part in piece.parts]
        if not all(isinstance(size, int) for arg in args for size in arg.shape):
            return None
        key = f"{piece.pattern!r} of {', '.join(map(_text, args))}"
        if key not in known:
            names = (OURS, *(name for name in piece.functions if name in registered()))
            choice = by({name: _alone(piece, args, name) for name in names})
            if choice is None:
                return None
            if choice not in names:
                why = f"dispatch: the judge chose {shown(choice)}"
                raise CompileError(why, code="E235", hint=f"one of {', '.join(names)}, or None")
            known[key] = choice
        used[key] = known[key]
        return (
            None if used[key] == OURS else _by_library(used[key], args, match.value(match.pattern))
        )

    after = mod
    for piece in pieces:
        after = rewrite(after, piece.pattern, partial(replacement, piece))
    record = {**chosen(mod), **used}
    others = [(name, value) for name, value in mod.attrs if name != RECORD]
    return replace(after, attrs=(*others, (RECORD, tuple(record.items())))) if record else after


def chosen(mod: IRModule) -> dict[str, str]:
    """The choice for each piece, as `dispatch` noted it: a registered function, or "minimlc"."""
    return dict(dict(mod.attrs).get(RECORD, ()))  # type: ignore[call-overload]


def fastest(modules: Mapping[str, IRModule], clock: Clock = seconds) -> str:
    """The module whose function is the fastest here on random inputs; all must compute the same."""
    random = np.random.default_rng(0)
    params = modules[OURS]["main"].params  # type: ignore[attr-defined]
    arrays = [random.standard_normal(param.shape).astype(to_numpy(param.dtype)) for param in params]
    times: dict[str, float] = {}
    expected = None
    for name, mod in modules.items():
        function = build(mod)["main"]
        result = function(*arrays)
        expected = result if expected is None else expected
        _check(name, result, expected)
        times[name] = clock(function, arrays)
    return min(times, key=lambda name: times[name])


def _check(name: str, result: np.ndarray, expected: np.ndarray) -> None:
    """Refuse a function that computes something else: more than half the digits must be right."""
    a, b = (array.astype(np.float64) for array in (result, expected))
    digits = ml_dtypes.finfo(expected.dtype).eps ** 0.5 if expected.dtype.kind in "fV" else 0
    if np.abs(a - b).max(initial=0.0) > digits * np.abs(b).max(initial=0.0):
        why = f'dispatch: "{name}" computes something else than the operators it would stand for'
        hint = "its pattern must name all attributes, its parts be in the order of its parameters"
        raise CompileError(why, code="E235", hint=hint)


def _alone(piece: Piece, args: Sequence[Expr], name: str) -> IRModule:
    """A module in which `name` computes a piece of such arguments; constants stay constants."""
    builder = BlockBuilder()
    inputs = [a if isinstance(a, Constant) else Var(f"x{n}", a.type) for n, a in enumerate(args)]
    parts = dict(zip(piece.parts, inputs, strict=True))
    match = Match(piece.pattern, parts, Surroundings(lambda _: None, {}))
    value = piece.pattern.build(match)
    with builder.function("main", [arg for arg in inputs if isinstance(arg, Var)]):
        result = builder.emit(value if name == OURS else _by_library(name, inputs, value))
        builder.emit_func_output(result)
    return builder.get()


def _by_library(name: str, args: Sequence[Expr], value: Expr) -> Expr:
    """A call of a registered function for a value."""
    get_function(name)
    return call_dps_packed(name, tuple(args), value.type)


def _text(arg: Expr) -> str:
    return f"{arg.shape} {arg.dtype}" + (" constant" if isinstance(arg, Constant) else "")
