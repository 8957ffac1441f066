"""Operators that join, cut, gather and pad."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from minimlc.graphs.ops.broadcast import logical_and, maximum, minimum, where
from minimlc.graphs.ops.checks import ALL, INDICES, axis_of, fits, refuse, resized, sizes_of
from minimlc.graphs.ops.elementwise import sigmoid
from minimlc.graphs.ops.record import composite, primitive
from minimlc.graphs.ops.shape import expand_dims, reshape
from minimlc.graphs.ops.values import Values, choose, iota, nothing, spread
from minimlc.loops.ir.nodes import Expr, as_expr, binary
from minimlc.services.sizes.sizes import Size, cut, names_in


@primitive("concat", ALL, lambda tensors, axis: np.concatenate(tensors, axis), variadic=True)
def concat(tensors: tuple[Values, ...], *, axis: int = 0) -> Values:
    """The tensors of a tuple, one after the other along `axis`."""
    first = tensors[0]
    along = axis_of(axis, first.ndim)
    for position, other in enumerate(tensors):
        if other.ndim != first.ndim or resized(other.shape, along) != resized(first.shape, along):
            refuse(
                f"tensors[0] has shape {first.shape}, tensors[{position}] has {other.shape}; "
                f"only axis {along} may differ"
            )
    parts = [t for t in tensors if t.shape[along]] or [first]
    ends = list(accumulate(t.shape[along] for t in parts))

    def element(*i: Expr) -> Expr:
        cases = []
        for part, end in zip(parts, ends, strict=True):
            start = end - part.shape[along]
            moved = i[along] - start if start else i[along]
            cases.append((i[along] < end, part[resized(i, along, moved)]))
        return _chosen(cases)

    return Values(resized(first.shape, along, ends[-1]), first.dtype, element)


FEW = 8
"""The most cases that are tested one after the other; more are bisected."""


def _chosen(cases: Sequence[tuple[Expr, Expr]]) -> Expr:
    """The value of the first case whose condition holds; those after it hold then, too."""
    if len(cases) <= FEW:
        return choose(cases[:-1], cases[-1][1])
    middle = len(cases) // 2
    condition, _ = cases[middle - 1]
    return choose([(condition, _chosen(cases[:middle]))], _chosen(cases[middle:]))


def _stack(tensors: tuple[Any, ...], *, axis: int = 0) -> Any:
    """The tensors of a tuple along a new axis `axis` of the result."""
    return concat(tuple([expand_dims(t, axis=axis) for t in tensors]), axis=axis)


stack = composite("stack", _stack, dtypes=ALL, rounds=False, variadic=True)


def _slices(ndim: int, begin: Any, end: Any, strides: Any, axes: Any) -> tuple[slice, ...]:
    """The slice along each axis."""
    starts, stops = sizes_of(begin, "begin"), sizes_of(end, "end")
    places = sizes_of(axes, "axes") if axes is not None else tuple(range(len(starts)))
    steps = sizes_of(strides, "strides") if strides is not None else (1,) * len(starts)
    if not len(starts) == len(stops) == len(steps) == len(places):
        lengths = f"{len(starts)}, {len(stops)}, {len(steps)} and {len(places)}"
        refuse(f"begin, end, strides and axes have {lengths} entries", "E204")
    if 0 in steps:
        refuse("a stride of 0 goes nowhere", "E204")
    normal = [axis_of(a, ndim, "axes") for a in places]
    if len(set(normal)) != len(normal):
        refuse(f"axes={axes} names an axis twice", "E204")
    cuts = dict(zip(normal, map(slice, starts, stops, steps), strict=True))
    return tuple([cuts.get(a, slice(None)) for a in range(ndim)])


@primitive("strided_slice", ALL, lambda x, **attrs: x[_slices(x.ndim, **attrs)])
def strided_slice(x: Values, *, begin: Any, end: Any, strides: Any = None, axes: Any = None) -> Any:
    """x[begin:end:strides] along `axes` (the first ones when None), as Python slices."""
    cuts = _slices(x.ndim, begin, end, strides, axes)
    starts, steps, counts = zip(*map(cut, cuts, x.shape), strict=True) if cuts else ((), (), ())

    def place(i: Expr, start: int, step: int) -> Expr:
        scaled = i if step == 1 else i * step
        return scaled + start if start else scaled

    return Values(counts, x.dtype, lambda *i: x[tuple(map(place, i, starts, steps))])


def _check_size(x: Any, count: Any, size: Any) -> None:
    if isinstance(size, Size):
        if size.linear() != (str(size), 1, 0):
            refuse(f'a data-dependent size is a name, got "{size}"', "E204", 'size="k"')
        if count is None or count.shape:
            refuse("a size by name needs count, the scalar that holds its value", "E204")
    elif not isinstance(size, int) or isinstance(size, bool):
        refuse(f"size is a number or a name, got {size!r}", "E204")
    elif not isinstance(x.shape[0], Size) and not 0 <= size <= x.shape[0]:
        refuse(f"size={size} of the {x.shape[0]} elements along axis 0", "E204")


@primitive(
    "first", ALL, lambda x, count=None, *, size: x[:size], param_dtypes=(("count", ("int64",)),)
)
def first(x: Values, count: Values | None = None, *, size: Any) -> Values:
    """The first `size` elements of x along axis 0: a number, or the name of a size, which is
    `count` when the function runs.
    """
    if not x.ndim:
        refuse("x has no axes")
    _check_size(x, count, size)
    return Values((size, *x.shape[1:]), x.dtype, lambda *i: x[i])


def _pieces(size: int, sections: object) -> list[tuple[int, int]]:
    """Where each piece of an axis starts and ends."""
    if isinstance(sections, Size):
        hint = f"indices_or_sections=({sections},)  # two pieces, cut there"
        refuse(f"the number of pieces is a number, got {sections}", "E204", hint)
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


def pieces_of(
    shape: Any, indices_or_sections: Any, axis: int = 0
) -> tuple[int, list[tuple[int, int]]]:
    """The axis along which a split cuts an array, and where each piece starts and ends."""
    along = axis_of(axis, len(shape))
    return along, _pieces(shape[along], indices_or_sections)


def _split(x: Any, *, indices_or_sections: Any, axis: int = 0) -> tuple[Any, ...]:
    """A tuple of pieces along `axis`: that many equal ones, or cut at the given indices."""
    along, pieces = pieces_of(x.shape, indices_or_sections, axis)
    return tuple([strided_slice(x, begin=a, end=b, axes=along) for a, b in pieces])


split = composite("split", _split, dtypes=ALL, rounds=False)


MODES = ("end", "clip", "wrap")


def inside(indices: Any, size: int, mode: str = "end") -> Any:
    """Indices into an axis of that size; over arrays, too."""
    places = indices.astype("int64")
    if 0 in indices.shape:
        return places
    if size == 0 and not names_in(indices.shape):
        refuse("there is nothing at an index: the axis has size 0")
    if mode == "wrap":
        return places % size
    places = where(places < 0, places + size, places) if mode == "end" else places
    return minimum(maximum(places, 0), size - 1)


def _taken(x: np.ndarray, indices: np.ndarray, axis: int | None, mode: str) -> np.ndarray:
    size = x.size if axis is None else x.shape[axis]
    return np.take(x, inside(indices, size, mode), axis)


@primitive("take", ALL, _taken, param_dtypes=(("indices", INDICES),))
def take(x: Values, indices: Values, *, axis: int | None = 0, mode: str = "end") -> Values:
    """The slices of x at `indices` along `axis`, of all elements in order if it is None. In mode
    "end" negative indices count from the end, and those out of range are clipped into it; in "clip"
    negative ones are 0, and in "wrap" one follows the other around, as in numpy.
    """
    if mode not in MODES:
        hint = 'compiled code does not raise: mode="end" clips' if mode == "raise" else ""
        refuse(f"mode is one of {', '.join(MODES)}, got {mode!r}", "E204", hint)
    if axis is None:
        return take.formula(reshape(x, shape=(-1,)), indices, mode=mode)
    along = axis_of(axis, x.ndim)
    inner = along + indices.ndim
    shape = resized(x.shape, along, *indices.shape)
    if 0 in indices.shape:
        return nothing(shape, x.dtype)
    places = inside(indices, x.shape[along], mode)
    return Values(shape, x.dtype, lambda *i: x[(*i[:along], places[i[along:inner]], *i[inner:])])


def _widths(ndim: int, pad_width: object) -> tuple[tuple[int, int], ...]:
    """(before, after) of each axis, also from one tuple of them all."""
    pairs = pad_width if isinstance(pad_width, tuple) else ()
    if len(pairs) == 2 * ndim and all(isinstance(width, int) for width in pairs):
        pairs = tuple(zip(pairs[::2], pairs[1::2], strict=True))
    widths = tuple(sizes_of(pair, "pad_width") for pair in pairs)
    if len(widths) != ndim or any(len(w) != 2 or min(w) < 0 for w in widths):
        refuse(
            f"pad_width={pad_width!r} must hold (before, after) for each of {ndim} axes",
            "E204",
            f"pad_width={((1, 1),) * ndim}",
        )
    return tuple((w[0], w[1]) for w in widths)


def padded(x: Values, widths: Sequence[tuple[int, int]], value: float | bool) -> Values:
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

    return Values(shape, x.dtype, element)


def _pad(x: np.ndarray, pad_width: Any, value: float, mode: str) -> np.ndarray:
    widths = _widths(x.ndim, pad_width)
    if not widths:  # numpy wants an axis
        return x
    options = {"constant_values": np.asarray(value).astype(x.dtype)} if mode == "constant" else {}
    return np.pad(x, widths, mode, **options)  # type: ignore[call-overload]


def _beside(place: Expr, size: int, mode: str) -> Expr:
    """The index inside an axis whose element a mode puts at a place before or behind it."""
    if mode == "wrap":
        return place % size
    if mode == "edge":
        return binary("min", binary("max", place, 0), size - 1)
    return choose([(place < 0, -place), (place >= size, 2 * (size - 1) - place)], place)


def _continued(x: Values, widths: Sequence[tuple[int, int]], mode: str) -> Values:
    for a, (size, width) in enumerate(zip(x.shape, widths, strict=True)):
        most = size - 1 if mode == "reflect" else 0 if size == 0 else max(width)
        if max(width) > most:
            refuse(f"axis {a} has size {size}, so {mode} cannot put {max(width)} beside it", "E204")
    shape = [size + sum(width) for size, width in zip(x.shape, widths, strict=True)]

    def element(*i: Expr) -> Expr:
        rows = zip(i, x.shape, widths, strict=True)
        return x[tuple([_beside(e - w[0], n, mode) if any(w) else e for e, n, w in rows])]

    return Values(shape, x.dtype, element)


@primitive("pad", ALL, _pad)
def pad(x: Values, *, pad_width: Any, value: float = 0, mode: str = "constant") -> Values:
    """x with `value` around it: `pad_width` holds (before, after) for each axis; or with elements
    of x: the nearest ("edge"), mirrored at its ends ("reflect"), or from its other end ("wrap").
    """
    if mode not in ("constant", "edge", "reflect", "wrap"):
        refuse(f'mode is "constant", "edge", "reflect" or "wrap", got {mode!r}', "E204")
    if not isinstance(value, int | float | bool | Size):
        refuse(f"value is a number, got {value!r}", "E204")
    if not fits(value, x.dtype):
        refuse(f"value={value} is not a value of {x.dtype}", "E204")
    widths = _widths(x.ndim, pad_width)
    return padded(x, widths, value) if mode == "constant" else _continued(x, widths, mode)


def _roll(x: Any, *, shift: Any, axis: Any) -> Any:
    """The elements moved by `shift` along `axis`, those that leave its end to its start."""
    shifts, axes = sizes_of(shift, "shift"), sizes_of(axis, "axis")
    if len(shifts) != len(axes):
        refuse(f"shift and axis have {len(shifts)} and {len(axes)} entries", "E204")
    for by, a in zip(shifts, [axis_of(a, x.ndim) for a in axes], strict=True):
        cut = -by % max(x.shape[a], 1)
        tail, head = split(x, indices_or_sections=(cut,), axis=a)
        x = concat((head, tail), axis=a)
    return x


roll = composite("roll", _roll, dtypes=ALL, rounds=False)


def _slice_scatter(
    x: Any, update: Any, *, begin: int, end: int, stride: int = 1, axis: int = 0
) -> Any:
    """x with `update` in the place of x[begin:end:stride] along `axis`, a stride > 0."""
    along = axis_of(axis, x.ndim)
    if not isinstance(stride, int) or stride < 1:
        refuse(f"stride is an integer >= 1, got {stride!r}", "E204")
    (part,) = _slices(1, begin, end, stride, 0)
    start, _, count = cut(part, x.shape[along])
    if update.shape != resized(x.shape, along, count):
        refuse(f"update has shape {update.shape}, the slice {resized(x.shape, along, count)}")
    if count == 0:
        return x
    where_to = iota(x.shape[along], x) - start
    hit = logical_and(where_to >= 0, where_to < count * stride)
    hit = logical_and(hit, where_to % stride == 0)
    moved = take(update, where_to // stride, axis=along, mode="clip")
    return where(spread(hit, (along,), x.ndim), moved, x)


slice_scatter = composite("slice_scatter", _slice_scatter, dtypes=ALL, rounds=False)


def _glu(x: Any, *, axis: int = -1) -> Any:
    """The first half of x along `axis` times the sigmoid of the second (Dauphin et al. 2017)."""
    first, second = split(x, indices_or_sections=2, axis=axis)
    return first * sigmoid(second)


glu = composite("glu", _glu)
