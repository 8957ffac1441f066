"""Requirements on a schedule's structure, in words: small predicates that can be combined.

Each is a `Requirement`: a sentence, and a test of a `Nest` that gives "" or says what is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any

from minimlc.homework.allowed import HomeworkError
from minimlc.homework.nest import Nest, Part, Place, Unrecognized
from minimlc.tir.analysis.access import Access, loop_extents
from minimlc.tir.analysis.affine import Digits
from minimlc.tir.analysis.arith import variables
from minimlc.tir.nodes import Binary, Expr, For, index


@dataclass(frozen=True)
class Requirement:
    """`text` says what is wanted; `test(nest)` gives "" where it is so, else why it is not."""

    text: str
    test: Callable[[Nest], str]

    def __post_init__(self) -> None:
        if not callable(self.test):
            why = f'the test of "{self.text}" is a function of a nest, got {self.test!r:.60}'
            raise HomeworkError(why, code="E802")

    def explain(self, nest: Nest) -> str:
        """ "" where it holds, else why not. `HomeworkError` where the test itself fails, or
        `ValueError` where it speaks of what the program does not have.
        """
        try:
            said = self.test(nest)
        except Unrecognized as error:
            return str(error)
        except (HomeworkError, ValueError):
            raise
        except (Exception, SystemExit) as error:
            why = f'the test of "{self.text}" raised {type(error).__name__}: {error}'
            raise HomeworkError(why, code="E802") from error
        if not isinstance(said, str):
            why = f'the test of "{self.text}" gives "" or a sentence, got {said!r:.60}'
            raise HomeworkError(why, code="E802")
        return said

    def __and__(self, other: "Requirement") -> "Requirement":
        def both(nest: Nest) -> str:
            return self.explain(nest) or other.explain(nest)

        return Requirement(f"{self.text}, and {other.text}", both)

    def __or__(self, other: "Requirement") -> "Requirement":
        def either(nest: Nest) -> str:
            first, second = self.explain(nest), other.explain(nest)
            return f"{first}; {second}" if first and second else ""

        return Requirement(f"{self.text}, or {other.text}", either)


def tiled(axis: str, low: int, high: int) -> Requirement:
    """The axis is cut into tiles of `low` to `high`, with another axis's loop between the parts."""

    _check_range("tiled", low, high)

    def test(nest: Nest) -> str:
        parts = nest.parts(axis)
        sizes = [part.stride for part in parts[:-1]]
        if not sizes:
            return f"{axis} is not cut" + (f": it is one loop of {_extent(parts)}" if parts else "")
        fitting = [p for p in parts[:-1] if low <= p.stride <= high]
        if not fitting:
            return f"{axis} is cut into tiles of {_listed(sizes)}"
        if all(_adjacent(nest, part, parts, axis) for part in fitting):
            names = ", ".join(part.loop.var.name for part in parts)
            return f"{axis} is cut, but no loop of another axis stands between {names}"
        return ""

    return Requirement(f"the {axis} loop is tiled by {low}–{high}", test)


def ordered(*axes: str | tuple[str, ...]) -> Requirement:
    """The loops, from outside in, are those of these axes, in this order: `ordered("j", "i", "k",
    ("i", "j"))` has tiles' loops, then k's, then those inside the tiles, i's or j's first. Parts of
    one axis that follow each other count as one loop, loops of one iteration do not.
    """
    wanted = [axis if isinstance(axis, tuple) else (axis,) for axis in axes]
    text = ", ".join(" and ".join(group) for group in wanted)

    def test(nest: Nest) -> str:
        found = nest.order()
        places = iter(found)
        groups = [sorted(islice(places, len(group))) for group in wanted]
        if groups == [sorted(group) for group in wanted] and not list(places):
            return ""
        return f"from outside in, the loops are those of {', '.join(found)}"

    return Requirement(f"from outside in, the loops are those of {text}", test)


def cut(axis: str, low: int, high: int) -> Requirement:
    """The axis is cut so that an inner loop has `low` to `high` steps, wherever it stands."""

    _check_range("cut", low, high)

    def test(nest: Nest) -> str:
        parts = nest.parts(axis)
        if any(low <= part.stride <= high for part in parts[:-1]):
            return ""
        return f"{axis} has {len(parts)} loop(s), of {_listed([p.extent for p in parts])}"

    return Requirement(f"the {axis} loop is cut by {low}–{high}", test)


def vectorized(axis: str) -> Requirement:
    """The innermost part of the axis is vectorized, in steps of one element."""

    def test(nest: Nest) -> str:
        found = [part for part in nest.parts(axis) if part.loop.kind == "vectorized"]
        if not found:
            return f"no loop of {axis} is vectorized"
        steps = found[0].stride
        return "" if steps == 1 else f"the vectorized loop of {axis} steps by {steps}"

    return Requirement(f"the {axis} loop is vectorized", test)


def parallel(*axes: str) -> Requirement:
    """A loop of one of the axes is shared out among threads."""
    return _of_kind("parallel", "parallel", axes)


def unrolled(*axes: str) -> Requirement:
    """A loop of one of the axes is written out."""
    return _of_kind("unrolled", "unrolled", axes)


def _of_kind(kind: str, word: str, axes: tuple[str, ...]) -> Requirement:
    named = " or ".join(axes)

    def test(nest: Nest) -> str:
        if any(part.loop.kind == kind for axis in axes for part in nest.parts(axis)):
            return ""
        found = [loop for loop in nest.main.loops if loop.kind == kind]
        return f"no loop of {named} is {word}" + (
            f"; {found[0].var.name} is, which comes from elsewhere" if found else ""
        )

    return Requirement(f"a loop of {named} is {word}", test)


def staged(buffer: str, inside: str) -> Requirement:
    """The buffer is copied to a cache inside a loop: `inside` is an axis, or one of its loops
    counted from the outermost ("k_0").
    """
    axis, number = _loop_name(inside)

    def test(nest: Nest) -> str:
        cache = nest.read_for(buffer)
        if nest.sources.get(cache) is None:
            return f"the computation reads {buffer} itself"
        axis_ = axis if inside not in nest.axes() else inside
        wanted = [part.loop for part in nest.parts(axis_)]
        if axis_ != inside and number is not None:
            wanted = wanted[number : number + 1]
        for place in nest.writers(cache):
            if any(loop in wanted for loop in nest.shared(place)):
                return ""
        return f"{cache.name} is filled outside of the loops of {axis_}"

    return Requirement(f"{buffer} is staged in a cache inside {inside}", test)


def _loop_name(text: str) -> tuple[str, int | None]:
    axis, _, number = text.rpartition("_")
    return (axis, int(number)) if axis and number.isdigit() else (text, None)


def packed(buffer: str) -> Requirement:
    """A copy of the buffer holds its elements in the order in which the hot loops use them."""

    def test(nest: Nest) -> str:
        cache = nest.read_for(buffer)
        if nest.sources.get(cache) is None:
            return f"the computation reads {buffer} itself"
        item = nest.hot(cache)
        steps = _steps(item, _hot_loops(nest, item))
        reach = 1
        for loop, step, extent in steps:
            if step != reach:
                return f"in {cache.name}, {loop.var.name} steps by {step} elements, not by {reach}"
            reach *= extent
        return ""

    return Requirement(f"{buffer} is packed: read element after element", test)


def copied_outside(buffer: str, axis: str) -> Requirement:
    """The copy of the buffer is made outside of the axis's loops: once for all its iterations."""

    def test(nest: Nest) -> str:
        cache = nest.read_for(buffer)
        if nest.sources.get(cache) is None:
            return f"the computation reads {buffer} itself"
        loops = [part.loop for part in nest.parts(axis)]
        for place in nest.writers(cache):
            around = [loop.var.name for loop in place.loops if loop in loops]
            if around:
                return f"{cache.name} is filled anew in each iteration of {around[0]}"
        return ""

    return Requirement(f"{buffer} is copied outside of the loops of {axis}", test)


def _hot_loops(nest: Nest, item: Access) -> set[str]:
    """The names of the loops from the outermost one of the reduction on inwards."""
    reduced = [p.position for axis in nest.axes() for p in _reduced(nest, axis)]
    first = min(reduced, default=0)
    return {loop.var.name for loop in nest.main.loops[first:]}


def _reduced(nest: Nest, axis: str) -> list[Part]:
    return [] if axis in nest.spatial_axes() else nest.parts(axis)


def _steps(item: Access, names: set[str]) -> list[tuple[For, int, int]]:
    """(loop, elements per step, extent) of the named loops that move an access; innermost first."""
    offset: Expr = index(0)
    for size, place in zip(item.buffer.shape, item.indices, strict=True):
        offset = Binary("+", Binary("*", offset, index(size)), place)
    total = Digits(loop_extents(item.loops)).sums([offset])[0]
    if total is None:
        raise Unrecognized(f"the index of {item.buffer.name} is no plain sum of loop variables")
    found = []
    for loop in reversed(item.loops):
        terms = [(c, d.extent) for d, c in total.terms.items() if d.var is loop.var]
        if loop.var.name in names:
            found += [(loop, step, extent) for step, extent in sorted(terms)]
    return found


def register_tile(low: int = 2, high: int = 1024) -> Requirement:
    """The sums are kept in a local tile of `low` to `high` elements, whose indices are constants
    once unrolled loops are written out: registers.
    """

    _check_range("register_tile", low, high)

    def test(nest: Nest) -> str:
        target = nest.target
        if target in nest.func.params:
            return f"the sums are kept in {target.name}, in the caller's memory"
        shape = nest.stored_size(target)
        size = prod(shape)
        if not low <= size <= high:
            return f"the sums are kept in {target.name}, which has {_product(shape)} elements"
        item = nest.hot(target, write=True)
        moving = {v for place in item.indices for v in variables(place)}
        for loop in item.loops:
            if loop.var in moving and loop.kind not in ("unrolled", "vectorized"):
                return (
                    f"{target.name} is indexed by {loop.var.name}, a {loop.kind} loop: "
                    "a register has no address"
                )
        return ""

    return Requirement(f"the sums stay in a register tile of {low}–{high} elements", test)


def fused_epilogue(*axes: str) -> Requirement:
    """What comes after the reduction happens inside the loops of its tile, along `axes` (all that
    the result is spread over, if none are named): no pass of its own.
    """

    def test(nest: Nest) -> str:
        after = nest.after()
        if not after:
            if nest.target in nest.func.params:
                return "the result is written by the reduction itself"
            return "nothing works on the result of the reduction"
        for place in after:
            apart = _apart(nest, place, axes or tuple(nest.spatial_axes()))
            if apart:
                return f"{place.block.name} is a pass of its own over {' and '.join(apart)}"
        return ""

    return Requirement("the epilogue is fused into the write-back", test)


def _apart(nest: Nest, place: Place, axes: tuple[str, ...]) -> list[str]:
    """The axes along which a block shares no loop with the computation."""
    shared = nest.shared(place)
    return [
        axis
        for axis in axes
        if nest.parts(axis) and not any(part.loop in shared for part in nest.parts(axis))
    ]


def no_guard() -> Requirement:
    """The computation's update runs without a condition: no tail's guard, no start of the sum."""

    def test(nest: Nest) -> str:
        if nest.main.block.init is not None:
            return "the hot loop asks whether the sum begins: decompose the reduction"
        guards = nest.guards()
        if guards:
            return f"the hot loop asks whether {guards[0].script()}"
        return ""

    return Requirement("no guard in the hot loop", test)


def _check_range(what: str, low: Any, high: Any) -> None:
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (low, high))
    if not whole or not 1 <= low <= high:
        got = f"{low!r:.30}, {high!r:.30}"
        why = f"{what}: sizes go from a low one to a high one, such as 4, 32, got {got}"
        raise HomeworkError(why, code="E802")


def _adjacent(nest: Nest, outer: Part, parts: list[Part], axis: str) -> bool:
    """Whether no loop of another axis stands between `outer` and the axis's innermost loop."""
    own = {part.loop for part in parts}
    between = nest.main.loops[outer.position + 1 : parts[-1].position]
    return not any(loop not in own and loop_extents((loop,))[loop.var] > 1 for loop in between)


def _extent(parts: list[Part]) -> int:
    return prod(part.extent for part in parts)


def _listed(sizes: list[int]) -> str:
    return " and ".join(map(str, sizes))


def _product(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
