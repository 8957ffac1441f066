"""Elementwise activations of networks, composed of other operators."""

from typing import Any

from minimlc.graphs.ops.broadcast import logical_and, maximum, minimum, where
from minimlc.graphs.ops.checks import refuse
from minimlc.graphs.ops.elementwise import absolute, expm1, sigmoid, softplus, tanh
from minimlc.graphs.ops.record import composite


def _elu(x: Any, *, alpha: float = 1.0) -> Any:
    """x where x >= 0, else alpha * (exp(x) - 1) (Clevert et al. 2016)."""
    return where(x >= 0.0, x, expm1(minimum(x, 0.0)) * alpha)


def _celu(x: Any, *, alpha: float = 1.0) -> Any:
    """x where x >= 0, else alpha * (exp(x / alpha) - 1) (Barron 2017)."""
    if alpha == 0:
        refuse("alpha is 0, by which x is divided", "E204")
    return where(x >= 0.0, x, expm1(minimum(x, 0.0) / alpha) * alpha)


def _hard_sigmoid(x: Any, *, alpha: float = 1 / 6, beta: float = 0.5) -> Any:
    """alpha * x + beta, between 0 and 1."""
    return minimum(maximum(x * alpha + beta, 0.0), 1.0)


def _thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    """0 where x <= alpha, else x; NaN stays NaN."""
    return where(x <= alpha, 0.0, x)


def _hard_shrink(x: Any, *, lambd: float = 0.5) -> Any:
    """0 where -lambd <= x <= lambd, else x."""
    return where(logical_and(x >= -lambd, x <= lambd), 0.0, x)


def _soft_shrink(x: Any, *, lambd: float = 0.5) -> Any:
    """x less its part between -lambd and lambd."""
    if not lambd >= 0:
        refuse(f"lambd={lambd} is not >= 0", "E204")
    return x - minimum(maximum(x, -lambd), lambd)


def _swish(x: Any, *, beta: float = 1.0) -> Any:
    """x * sigmoid(beta * x) (Ramachandran et al. 2017)."""
    return x * sigmoid(x * beta)


elu = composite("elu", _elu)
celu = composite("celu", _celu)
hard_sigmoid = composite("hard_sigmoid", _hard_sigmoid)
hard_swish = composite(
    "hard_swish",
    lambda x: x * hard_sigmoid(x),
    "x * hard_sigmoid(x), element by element (Howard et al. 2019).",
)
mish = composite("mish", lambda x: x * tanh(softplus(x)), "x * tanh(softplus(x)) (Misra 2019).")
log_sigmoid = composite(
    "log_sigmoid", lambda x: minimum(x, 0.0) - softplus(-absolute(x)), "log(sigmoid(x))."
)
softsign = composite("softsign", lambda x: x / (absolute(x) + 1.0), "x / (1 + |x|).")
tanh_shrink = composite("tanh_shrink", lambda x: x - tanh(x), "x - tanh(x).")
thresholded_relu = composite("thresholded_relu", _thresholded_relu, rounds=False)
hard_shrink = composite("hard_shrink", _hard_shrink, rounds=False)
soft_shrink = composite("soft_shrink", _soft_shrink)
swish = composite("swish", _swish)
