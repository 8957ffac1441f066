"""Recurrent layers of one direction, step after step: x is (steps, batch, inputs), the weights are
(gates * hidden, inputs) and (gates * hidden, hidden), states (batch, hidden).

The steps are written out, so a build takes some 30 ms per step. `R.scan` is a loop.
"""

from collections.abc import Callable
from typing import Any

from minimlc.graphs.ops.broadcast import add
from minimlc.graphs.ops.checks import refuse
from minimlc.graphs.ops.create import full_like
from minimlc.graphs.ops.elementwise import sigmoid, tanh
from minimlc.graphs.ops.linear import dense
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.shape import broadcast_to, reshape
from minimlc.graphs.ops.values import named
from minimlc.services.arrays.slicing import concat, split, strided_slice
from minimlc.services.sizes.sizes import Size

MOST = 1024
"""The most steps that are written out."""


def _biased(x: Any, bias: Any) -> Any:
    return x if bias is None else add(x, bias)


def _check(
    name: str, gates: int, x: Any, weight: Any, recurrent: Any, biases: Any, *states: Any
) -> None:
    """Refuse shapes that do not fit a layer."""
    if x.ndim != 3 or weight.ndim != 2 or recurrent.ndim != 2:
        refuse("x is (steps, batch, inputs), the weights are matrices")
    rows, hidden = recurrent.shape
    if weight.shape != (rows, x.shape[2]) or rows != gates * hidden:
        refuse(f"the weights have shapes {weight.shape} and {recurrent.shape}, x has {x.shape}")
    for bias in biases:
        if bias is not None and bias.shape != (rows,):
            refuse(f"a bias has shape {bias.shape}, it must be {(rows,)}")
    for state in states:
        if state is not None and state.shape != (x.shape[1], hidden):
            refuse(f"a state has shape {state.shape}, it must be {(x.shape[1], hidden)}")
    if not isinstance(x.shape[0], Size) and x.shape[0] > MOST:
        hint = "R.scan takes any number of steps"
        refuse(f"{name} takes {MOST} steps at the most, x has {x.shape[0]}", hint=hint)


def _inputs(x: Any, weight: Any, bias: Any, name: str) -> tuple[Any, ...]:
    """The inputs' part of the gates, by one product: (batch, gates * hidden) for each step."""
    steps, batch, inputs = x.shape
    product = dense(reshape(x, shape=(steps * batch, inputs)), weight)
    terms = named(_biased(product, bias), f"{name}_inputs")
    if isinstance(steps, Size):  # one stands for all: only types are asked for
        return (strided_slice(terms, begin=0, end=batch),)
    return tuple(split(terms, indices_or_sections=steps, axis=0)) if steps else ()


def _steps(
    name: str,
    count: Any,
    inputs: tuple[Any, ...],
    states: tuple[Any, ...],
    step: Callable[..., Any],
    reverse: bool,
) -> tuple[Any, ...]:
    """All first states, (steps, batch, hidden), and the last ones; `step` takes the inputs'
    part of a step, its number, and the states.
    """
    rows: list[Any] = []
    for t in reversed(range(len(inputs))) if reverse else range(len(inputs)):
        new = step(inputs[t], t, *states)
        states = tuple(named(s, f"{name}_{t}_{k}") for k, s in enumerate(new))
        rows.append(states[0])
    if isinstance(count, Size) or not rows:
        return broadcast_to(states[0], shape=(count, *states[0].shape)), *states
    everything = concat(tuple(reversed(rows)) if reverse else tuple(rows), axis=0)
    return reshape(everything, shape=(count, *states[0].shape)), *states


def _first(state: Any, x: Any, recurrent: Any) -> Any:
    """The state to start from: zeros if there is none."""
    if state is not None:
        return state
    row = full_like(strided_slice(recurrent, begin=0, end=1, axes=0), value=0.0)
    return broadcast_to(row, shape=(x.shape[1], recurrent.shape[1]))


def _rnn(
    x: Any, weight: Any, recurrent: Any, bias: Any = None, h: Any = None, *, reverse: bool = False
) -> Any:
    """h = tanh(x @ weight.T + h @ recurrent.T + bias) for each step (Elman 1990): all of them, and
    the last one.
    """
    _check("rnn", 1, x, weight, recurrent, (bias,), h)

    def step(now: Any, t: int, h: Any) -> tuple[Any]:
        return (tanh(now + dense(h, recurrent)),)

    inputs = _inputs(x, weight, bias, "rnn")
    return _steps("rnn", x.shape[0], inputs, (_first(h, x, recurrent),), step, reverse)


def _lstm(
    x: Any,
    weight: Any,
    recurrent: Any,
    bias: Any = None,
    h: Any = None,
    c: Any = None,
    *,
    reverse: bool = False,
) -> Any:
    """Long short-term memory (Hochreiter and Schmidhuber 1997), its gates in the order input,
    forget, cell, output: the h of each step, and the last h and c.
    """
    _check("lstm", 4, x, weight, recurrent, (bias,), h, c)

    def step(now: Any, t: int, h: Any, c: Any) -> tuple[Any, Any]:
        gates = named(now + dense(h, recurrent), f"lstm_gates_{t}")
        i, f, g, o = split(gates, indices_or_sections=4, axis=1)
        cell = named(sigmoid(f) * c + sigmoid(i) * tanh(g), f"lstm_cell_{t}")
        return sigmoid(o) * tanh(cell), cell

    states = _first(h, x, recurrent), _first(c, x, recurrent)
    return _steps("lstm", x.shape[0], _inputs(x, weight, bias, "lstm"), states, step, reverse)


def _gru(
    x: Any,
    weight: Any,
    recurrent: Any,
    bias: Any = None,
    recurrent_bias: Any = None,
    h: Any = None,
    *,
    reverse: bool = False,
) -> Any:
    """Gated recurrent units (Cho et al. 2014), the gates in the order reset, update, new; the reset
    is of the product with the state: the h of each step, and the last one.
    """
    _check("gru", 3, x, weight, recurrent, (bias, recurrent_bias), h)

    def step(now: Any, t: int, h: Any) -> tuple[Any]:
        past = named(_biased(dense(h, recurrent), recurrent_bias), f"gru_past_{t}")
        (r, z, n), (rh, zh, nh) = (split(a, indices_or_sections=3, axis=1) for a in (now, past))
        update = named(sigmoid(z + zh), f"gru_update_{t}")
        return ((1.0 - update) * tanh(n + sigmoid(r + rh) * nh) + update * h,)

    inputs = _inputs(x, weight, bias, "gru")
    return _steps("gru", x.shape[0], inputs, (_first(h, x, recurrent),), step, reverse)


rnn = composite("rnn", _rnn)
lstm = composite("lstm", _lstm)
gru = composite("gru", _gru)
