"""Attention, and the embedding of positions that goes with it."""

from functools import partial
from math import inf, prod, sqrt
from typing import Any

from minimlc.graphs.ops.broadcast import where
from minimlc.graphs.ops.checks import refuse
from minimlc.graphs.ops.linear import matmul
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.reduction import of_rows, weights_of
from minimlc.graphs.ops.shape import expand_dims, permute_dims, repeat, reshape, squeeze
from minimlc.graphs.ops.values import iota, named, spread
from minimlc.services.arrays.slicing import concat, split

CAUSAL = ("TopLeft", "BottomRight")


def _grouped(x: Any, heads: int) -> Any:
    """(batch, length, heads, size) with its heads repeated to be as many as the query's."""
    count = x.shape[2]
    if count == 0 or heads % count:
        refuse(f"the query has {heads} heads, which {count} heads do not divide")
    return x if count == heads else repeat(x, repeats=heads // count, axis=2)


def _causal(scores: Any, mask: str) -> Any:
    """The scores, -inf for keys behind the query: as counted from the first ones ("TopLeft") or
    from the last ones ("BottomRight") of both.
    """
    if mask not in CAUSAL:
        refuse(f"causal_mask is None, {' or '.join(CAUSAL)}, got {mask!r}", "E204")
    rows, columns = (spread(iota(scores.shape[a], scores), (a,), 4) for a in (2, 3))
    ahead = scores.shape[3] - scores.shape[2] if mask == "BottomRight" else 0
    return where(columns <= rows + ahead, scores, -inf)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    *,
    scale: float | None = None,
    causal_mask: str | None = None,
    masked: str = "zero",
) -> Any:
    """softmax(query @ key.T * scale + bias) @ value for each batch and head (Vaswani et al. 2017);
    all are (batch, length, heads, size), `scale` is 1 / sqrt(size) if it is None. Key and
    value may have fewer heads, each for several of the query's (Ainslie et al. 2023). With a
    `causal_mask`, "TopLeft" or "BottomRight", no query sees keys behind it. One that sees none (the
    mask or a bias of -inf hides all) gives zeros, or NaN if `masked` is "nan".
    """
    if masked not in ("zero", "nan"):
        refuse(f'masked is "zero" or "nan", got {masked!r}', "E204")
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim != 4:
            refuse(f"{name} has {x.ndim} dimension(s), it must be (batch, length, heads, size)")
    key, value = (_grouped(x, query.shape[2]) for x in (key, value))
    q, v = (permute_dims(x, axes=(0, 2, 1, 3)) for x in (query, value))
    factor = 1 / sqrt(query.shape[3]) if scale is None else float(scale)
    scores = matmul(q, permute_dims(key, axes=(0, 2, 3, 1))) * factor
    scores = scores if bias is None else scores + bias
    scores = scores if causal_mask is None else _causal(scores, causal_mask)
    hidden = bias is not None or causal_mask == "BottomRight"  # else each query sees the first key
    weights = of_rows(partial(weights_of, masked=masked == "zero" and hidden), scores, 3)
    return permute_dims(matmul(named(weights, "attention_weights"), v), axes=(0, 2, 1, 3))


attention = composite("attention", _attention)


def _rotary_embedding(x: Any, cos: Any, sin: Any, *, interleaved: bool = False) -> Any:
    """Pairs of elements of the last axis, turned by angles (Su et al. 2021): x[i] and x[i + n / 2],
    or with `interleaved` x[2 i] and x[2 i + 1]; cos and sin: (..., n / 2), with broadcasting.
    """
    if not x.ndim or x.shape[-1] % 2:
        refuse(f"x has shape {x.shape}, its last axis is not cut into pairs")
    pairs = (*x.shape[:-1], x.shape[-1] // 2, 2)
    cut = {"indices_or_sections": 2, "axis": -1}
    if interleaved:
        first, second = (squeeze(part, axis=-1) for part in split(reshape(x, shape=pairs), **cut))
    else:
        first, second = split(x, **cut)
    turned = (first * cos - second * sin, second * cos + first * sin)
    if not interleaved:
        return concat(turned, axis=-1)
    apart = concat(tuple(expand_dims(part, axis=-1) for part in turned), axis=-1)
    return reshape(apart, shape=(*apart.shape[:-2], prod(apart.shape[-2:])))


rotary_embedding = composite("rotary_embedding", _rotary_embedding)
