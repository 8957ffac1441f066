"""Losses: how far predictions are from targets. `reduction` is "mean", "sum" or "none"."""

from math import nan
from typing import Any

from minimlc.graphs.ops.broadcast import logical_or, maximum, where
from minimlc.graphs.ops.checks import INTEGERS, refuse
from minimlc.graphs.ops.create import full_like, zeros_like
from minimlc.graphs.ops.elementwise import absolute, log, softplus
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.reduction import log_softmax, mean, total, whether_any
from minimlc.graphs.ops.shape import expand_dims
from minimlc.graphs.ops.values import iota, named, spread


def _reduced(loss: Any, reduction: str, weights: Any = None) -> Any:
    """The losses, their sum, or their mean, which is over the sum of `weights` if given."""
    if reduction not in ("mean", "sum", "none"):
        refuse(f'reduction is "mean", "sum" or "none", got {reduction!r}', "E204")
    if reduction == "none":
        return loss
    if reduction == "mean" and weights is None:
        return mean(loss)
    whole = named(total(loss), "loss_sum")
    return whole if reduction == "sum" else whole / named(total(weights), "loss_weight")


def _mse_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """The squared distance of x from the target."""
    return _reduced((x - target) * (x - target), reduction)


def _l1_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """The distance of x from the target."""
    return _reduced(absolute(x - target), reduction)


def _huber_loss(x: Any, target: Any, *, delta: float = 1.0, reduction: str = "mean") -> Any:
    """Half the squared distance up to `delta`, beyond it delta * (distance - delta / 2)."""
    if not delta > 0:
        refuse(f"delta={delta} is not > 0", "E204")
    far = absolute(x - target)
    return _reduced(where(far <= delta, far * far * 0.5, (far - delta / 2) * delta), reduction)


def _binary_cross_entropy(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """-target * log(x) - (1 - target) * log(1 - x), the logarithms at least -100."""
    yes, no = maximum(log(x), -100.0), maximum(log(1.0 - x), -100.0)
    return _reduced(-target * yes - (1.0 - target) * no, reduction)


def _binary_cross_entropy_with_logits(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """The binary cross-entropy of sigmoid(x), without an overflow."""
    return _reduced(maximum(x, 0.0) - x * target + softplus(-absolute(x)), reduction)


def _kl_div(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """target * (log(target) - x), with x the logarithms of the other distribution."""
    return _reduced(where(target == 0.0, 0.0, target * (log(target) - x)), reduction)


def _nll_loss(
    x: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Any:
    """-x of the target's class, with x: (n, classes, ...) logarithms and target: (n, ...) integers;
    classes are weighted by `weight`, `ignore_index` counts nothing, what is no class gives NaN.
    """
    classes = (*x.shape, 0, 0)[1]
    if x.ndim < 2 or target.shape != (x.shape[0], *x.shape[2:]):
        refuse(f"x is (n, classes, ...), target (n, ...); got {x.shape} and {target.shape}")
    if weight is not None and weight.shape != (classes,):
        refuse(f"weight has shape {weight.shape}, there are {classes} classes")
    place = expand_dims(target, axis=1).astype("int64")
    hit = place == spread(iota(classes, x), (1,), x.ndim)
    weights = full_like(x, value=1.0) if weight is None else spread(weight, (1,), x.ndim)
    known = logical_or(whether_any(hit, axis=1), target.astype("int64") == ignore_index)
    hit = where(place == ignore_index, False, hit)
    share = named(total(where(hit, weights, zeros_like(x)), axis=1), "nll_loss_weight")
    loss = named(total(where(hit, -x * weights, 0.0), axis=1), "nll_loss")
    return _reduced(where(known, loss, nan), reduction, share)


def _cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Any:
    """The nll_loss of log_softmax(x) over the classes (axis 1)."""
    if x.ndim < 2:
        refuse(f"x is (n, classes, ...), got {x.shape}")
    logs, options = named(log_softmax(x, axis=1), "cross_entropy_log"), {"reduction": reduction}
    return _nll_loss(logs, target, weight, **options, ignore_index=ignore_index)


mse_loss = composite("mse_loss", _mse_loss)
l1_loss = composite("l1_loss", _l1_loss)
huber_loss = composite("huber_loss", _huber_loss)
binary_cross_entropy = composite("binary_cross_entropy", _binary_cross_entropy)
binary_cross_entropy_with_logits = composite(
    "binary_cross_entropy_with_logits", _binary_cross_entropy_with_logits
)
kl_div = composite("kl_div", _kl_div)
nll_loss = composite("nll_loss", _nll_loss, param_dtypes=(("target", INTEGERS),))
cross_entropy = composite("cross_entropy", _cross_entropy, param_dtypes=(("target", INTEGERS),))
