"""Operators that join, cut, gather and pad."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from minimlc.dtypes import whole_range
from minimlc.graph.nodes import TensorType, TupleType
from minimlc.graph.ops.loops import choose
from minimlc.graph.ops.record import ALL, REQUIRED, Op, axis_of, refuse, sizes_of
from minimlc.graph.ops.shape import mover
from minimlc.tir import te
from minimlc.tir.nodes import Expr, as_expr, binary


def _concat_type(tensors: TupleType, axis: int) -> TensorType:
    fields = [t for t in tensors.fields if isinstance(t, TensorType)]
    first = fields[0]
    along = axis_of(axis, first.ndim)
    for position, field in enumerate(fields):
        others = [s[:along] + s[along + 1 :] for s in (first.shape, field.shape)]
        if field.ndim != first.ndim or others[0] != others[1]:
            refuse(
                f"tensors[0] has shape {first.shape}, tensors[{position}] has {field.shape}; "
                f"only axis {along} may differ"
            )
    size = sum(f.shape[along] for f in fields)
    return TensorType((*first.shape[:along], size, *first.shape[along + 1 :]), first.dtype)


def _lower_concat(tensors: Sequence[te.Tensor], axis: int) -> te.Tensor:
    along = axis_of(axis, tensors[0].ndim)
    parts = [t for t in tensors if t.shape[along]] or list(tensors[:1])
    ends = list(accumulate(t.shape[along] for t in parts))
    shape = (*parts[0].shape[:along], ends[-1], *parts[0].shape[along + 1 :])

    def element(*i: Expr) -> Expr:
        cases = []
        for part, end in zip(parts, ends, strict=True):
            start = end - part.shape[along]
            moved = i[along] - start if start else i[along]
            value = part[(*i[:along], moved, *i[along + 1 :])]
            cases.append((i[along] < end, value))
        return choose(cases[:-1], cases[-1][1])

    return te.compute(shape, element, name="concat")


def _pieces(size: int, sections: object) -> list[tuple[int, int]]:
    """Where each piece of an axis starts and ends."""
    if isinstance(sections, int):
        if sections < 1 or size % sections:
            refuse(f"{size} elements do not split into {sections} equal pieces", "E204")
        step = size // sections
        return [(n * step, (n + 1) * step) for n in range(sections)]
    cuts = sizes_of(sections, "indices_or_sections")
    bounds = [0, *cuts, size]
    if bounds != sorted(bounds):
        refuse(f"the cuts {cuts} must ascend from 0 to {size}", "E204")
    return list(pairwise(bounds))


def _split_type(x: TensorType, indices_or_sections: object, axis: int) -> TupleType:
    along = axis_of(axis, x.ndim)
    pieces = _pieces(x.shape[along], indices_or_sections)
    return TupleType(
        tuple(
            TensorType((*x.shape[:along], end - start, *x.shape[along + 1 :]), x.dtype)
            for start, end in pieces
        )
    )


def _split(x: np.ndarray, indices_or_sections: object, axis: int) -> tuple[np.ndarray, ...]:
    along = axis_of(axis, x.ndim)
    pieces = _pieces(x.shape[along], indices_or_sections)
    return tuple(x[(slice(None),) * along + (slice(a, b),)] for a, b in pieces)


def _lower_split(x: te.Tensor, indices_or_sections: object, axis: int) -> tuple[te.Tensor, ...]:
    along = axis_of(axis, x.ndim)
    return tuple(
        _window(x, along, start, end) for start, end in _pieces(x.shape[along], indices_or_sections)
    )


def _window(x: te.Tensor, along: int, start: int, end: int) -> te.Tensor:
    shape = (*x.shape[:along], end - start, *x.shape[along + 1 :])

    def element(*i: Expr) -> Expr:
        moved = i[along] + start if start else i[along]
        return x[(*i[:along], moved, *i[along + 1 :])]

    return te.compute(shape, element, name="split")


def _slices(
    shape: Sequence[int], begin: object, end: object, strides: object, axes: object
) -> dict[int, slice]:
    starts, stops = sizes_of(begin, "begin"), sizes_of(end, "end")
    places = sizes_of(axes, "axes") if axes is not None else tuple(range(len(starts)))
    steps = sizes_of(strides, "strides") if strides is not None else (1,) * len(starts)
    if not len(starts) == len(stops) == len(steps) == len(places):
        lengths = f"{len(starts)}, {len(stops)}, {len(steps)} and {len(places)}"
        refuse(f"begin, end, strides and axes have {lengths} entries", "E204")
    if 0 in steps:
        refuse("a stride of 0 goes nowhere", "E204")
    normal = [axis_of(a, len(shape), "axes") for a in places]
    if len(set(normal)) != len(normal):
        refuse(f"axes={axes} names an axis twice", "E204")
    cuts = map(slice, starts, stops, steps)
    return dict(zip(normal, cuts, strict=True))


def _ranges(shape: Sequence[int], slices: dict[int, slice]) -> list[range]:
    return [range(*slices.get(a, slice(None)).indices(size)) for a, size in enumerate(shape)]


def _slice_type(
    x: TensorType, begin: object, end: object, strides: object, axes: object
) -> TensorType:
    ranges = _ranges(x.shape, _slices(x.shape, begin, end, strides, axes))
    return TensorType(tuple(map(len, ranges)), x.dtype)


def _slice(x: np.ndarray, begin: object, end: object, strides: object, axes: object) -> np.ndarray:
    slices = _slices(x.shape, begin, end, strides, axes)
    return x[tuple(slices.get(a, slice(None)) for a in range(x.ndim))]


def _lower_slice(
    x: te.Tensor, begin: object, end: object, strides: object, axes: object
) -> te.Tensor:
    ranges = _ranges(x.shape, _slices(x.shape, begin, end, strides, axes))

    def place(i: Expr, span: range) -> Expr:
        scaled = i if span.step == 1 else i * span.step
        return scaled + span.start if span.start else scaled

    return te.compute(
        tuple(map(len, ranges)),
        lambda *i: x[tuple(map(place, i, ranges))],
        name="strided_slice",
    )


def _take_type(x: TensorType, indices: TensorType, axis: int) -> TensorType:
    along = axis_of(axis, x.ndim)
    if x.shape[along] == 0:
        refuse(f"cannot take from axis {along}: it has size 0")
    return TensorType((*x.shape[:along], *indices.shape, *x.shape[along + 1 :]), x.dtype)


def _lower_take(x: te.Tensor, indices: te.Tensor, axis: int) -> te.Tensor:
    along = axis_of(axis, x.ndim)
    last = x.shape[along] - 1
    inner = along + indices.ndim
    shape = (*x.shape[:along], *indices.shape, *x.shape[along + 1 :])

    def element(*i: Expr) -> Expr:
        place = indices[tuple(i[along:inner])].astype("int64")
        safe = binary("min", binary("max", place, 0), last)
        return x[(*i[:along], safe, *i[inner:])]

    return te.compute(shape, element, name="take")


def _widths(ndim: int, pad_width: object) -> tuple[tuple[int, int], ...]:
    pairs = pad_width if isinstance(pad_width, tuple) else ()
    widths = tuple(sizes_of(pair, "pad_width") for pair in pairs)
    if len(widths) != ndim or any(len(w) != 2 or min(w) < 0 for w in widths):
        refuse(
            f"pad_width={pad_width!r} must hold (before, after) for each of {ndim} axes",
            "E204",
            f"pad_width={((1, 1),) * ndim}",
        )
    return tuple((w[0], w[1]) for w in widths)


def _pad_type(x: TensorType, pad_width: object, value: object) -> TensorType:
    if not isinstance(value, int | float | bool):
        refuse(f"value is a number, got {value!r}", "E204")
    limits = whole_range(x.dtype)
    if limits and (isinstance(value, float) or not limits[0] <= value <= limits[1]):
        refuse(f"value={value} is no {x.dtype}", "E204")
    widths = _widths(x.ndim, pad_width)
    return TensorType(
        tuple(size + a + b for size, (a, b) in zip(x.shape, widths, strict=True)), x.dtype
    )


def _pad(x: np.ndarray, pad_width: object, value: float) -> np.ndarray:
    filled = np.asarray(value).astype(x.dtype)
    widths = _widths(x.ndim, pad_width)
    return np.pad(x, widths, constant_values=filled) if widths else x  # numpy wants an axis


def padded(
    x: te.Tensor, widths: Sequence[tuple[int, int]], value: float | bool, name: str
) -> te.Tensor:
    """`x` with `value` around it."""
    shape = tuple(size + a + b for size, (a, b) in zip(x.shape, widths, strict=True))

    def element(*i: Expr) -> Expr:
        outside = []
        for e, size, (before, after) in zip(i, x.shape, widths, strict=True):
            outside += [e < before] if before else []
            outside += [e >= size + before] if after else []
        inside = x[tuple(e - w[0] if w[0] else e for e, w in zip(i, widths, strict=True))]
        fill = as_expr(value, x.dtype)
        return choose([(condition, fill) for condition in outside], inside)

    return te.compute(shape, element, name=name)


OPS = (
    Op(
        "concat",
        ("tensors",),
        "The tensors of a tuple, one after the other along `axis`.",
        infer=_concat_type,
        meaning=lambda tensors, axis: np.concatenate(tensors, axis),
        lower=_lower_concat,
        dtypes=ALL,
        attrs=(("axis", 0),),
        variadic=True,
    ),
    mover(
        "split",
        "A tuple of pieces along `axis`: that many equal ones, or cut at the given indices.",
        _split_type,
        _split,
        _lower_split,
        ("indices_or_sections", REQUIRED),
        ("axis", 0),
    ),
    mover(
        "strided_slice",
        "x[begin:end:strides] along `axes` (the first ones when None), as Python slices.",
        _slice_type,
        _slice,
        _lower_slice,
        ("begin", REQUIRED),
        ("end", REQUIRED),
        ("strides", None),
        ("axes", None),
    ),
    Op(
        "take",
        ("x", "indices"),
        "The slices of x at `indices` along `axis`; indices are clipped into range.",
        infer=_take_type,
        meaning=lambda x, indices, axis: np.take(x, indices, axis, mode="clip"),
        lower=_lower_take,
        dtypes=ALL,
        attrs=(("axis", 0),),
        param_dtypes=(("indices", ("int64", "int32", "int16", "int8", "uint8")),),
    ),
    mover(
        "pad",
        "x with `value` around it: `pad_width` holds (before, after) for each axis.",
        _pad_type,
        _pad,
        lambda x, pad_width, value: padded(x, _widths(x.ndim, pad_width), value, "pad"),
        ("pad_width", REQUIRED),
        ("value", 0),
    ),
)
