"""Requirements on a schedule's structure, in words: small predicates that can be combined.

Each is a `Requirement`: a sentence, and a test of a `Nest` that returns "" or what is missing.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from math import prod
from typing import Any, Concatenate, ParamSpec

from minimlc.homework.allowed import HomeworkError, invalid, is_number
from minimlc.homework.nest import Cut, Located, Nest, Unrecognized
from minimlc.loops.ir.nodes import SHARED, THREAD, Binary, Buffer, Expr, For, index
from minimlc.loops.proofs.access import Access, loop_extents
from minimlc.loops.proofs.affine import Digits
from minimlc.loops.proofs.arith import variables

P = ParamSpec("P")
BLOCK = "blockIdx"


@dataclass(frozen=True)
class Requirement:
    """`text` is the requirement in words; `test(nest)` returns "" where it holds, else why it
    doesn't. For the counters of a GPU, the test takes `counters.Counts`.
    """

    text: str
    test: Callable[[Any], str]

    def __post_init__(self) -> None:
        if not callable(self.test):
            raise self._wrong(f"is a function of a nest, got {self.test!r:.60}")

    def _wrong(self, why: str) -> HomeworkError:
        return invalid(f'the test of "{self.text}" {why}')

    def explain(self, nest: Any) -> str:
        """Why it does not hold; "" where it does. `HomeworkError` where the test itself fails,
        `ValueError` where it names what the program does not have.
        """
        try:
            why = self.test(nest)
        except Unrecognized as error:
            return str(error)
        except (HomeworkError, ValueError):
            raise
        except (Exception, SystemExit) as error:
            raise self._wrong(f"raised {type(error).__name__}: {error}") from error
        if not isinstance(why, str):
            raise self._wrong(f'gives "" or a sentence, got {why!r:.60}')
        return why

    def __and__(self, other: "Requirement") -> "Requirement":
        def both(nest: Any) -> str:
            return self.explain(nest) or other.explain(nest)

        return Requirement(f"{self.text}, and {other.text}", both)

    def __or__(self, other: "Requirement") -> "Requirement":
        def either(nest: Any) -> str:
            first, second = self.explain(nest), other.explain(nest)
            return f"{first}; {second}" if first and second else ""

        return Requirement(f"{self.text}, or {other.text}", either)


def _requirement(
    text: str,
) -> Callable[[Callable[Concatenate[Nest, P], Iterator[str]]], Callable[P, Requirement]]:
    """Turn a test of a nest, given some arguments, into a function from the arguments to a
    requirement. The test yields what is missing, and the first is reported. `text` names the
    arguments; `low` and `high` are a range of sizes.
    """

    def decorate(test: Callable[Concatenate[Nest, P], Iterator[str]]) -> Callable[P, Requirement]:
        signature = inspect.signature(test)
        params = list(signature.parameters.values())[1:]
        signature = signature.replace(parameters=params, return_annotation=Requirement)

        @wraps(test)
        def require(*args: P.args, **options: P.kwargs) -> Requirement:
            arguments = signature.bind(*args, **options)
            arguments.apply_defaults()
            if "low" in arguments.arguments:
                _check_range(test.__name__, *arguments.args[-2:])
            words = {name: _spelled(value) for name, value in arguments.arguments.items()}
            return Requirement(
                text.format(**words), lambda nest: next(test(nest, *args, **options), "")
            )

        require.__signature__ = signature  # type: ignore[attr-defined]
        return require

    return decorate


def _spelled(value: Any) -> str:
    return " or ".join(value) if isinstance(value, tuple) else str(value)


def _check_range(what: str, low: Any, high: Any) -> None:
    if not is_number(low, int) or not is_number(high, int) or not 1 <= low <= high:
        got = f"{low!r:.30}, {high!r:.30}"
        raise invalid(f"{what}: sizes go from a low one to a high one, such as 4, 32, got {got}")


@_requirement("the {axis} loop is tiled by {low}–{high}")
def tiled(nest: Nest, axis: str, low: int, high: int) -> Iterator[str]:
    """The axis is cut into tiles of `low` to `high`, with another axis's loop between the parts."""
    parts = nest.parts(axis)
    tiles = parts[:-1]
    if not tiles:
        yield f"{axis} is not cut" + (f": it is one loop of {parts[0].extent}" if parts else "")
    fitting = [part for part in tiles if low <= part.stride <= high]
    if not fitting:
        yield f"{axis} is cut into tiles of {_listed(part.stride for part in tiles)}"
    if all(_adjacent(nest, part, parts) for part in fitting):
        names = ", ".join(part.loop.var.name for part in parts)
        yield f"{axis} is cut, but no loop of another axis stands between {names}"


def ordered(*axes: str | tuple[str, ...]) -> Requirement:
    """The loops, from outside in, belong to these axes, in this order: `ordered("j", "i", "k",
    ("i", "j"))` has tiles' loops, then k's, then those inside the tiles, i's or j's first. Parts of
    one axis that follow each other count as one loop, loops of one iteration do not.
    """
    groups = [sorted(axis) if isinstance(axis, tuple) else [axis] for axis in axes]
    text = ", ".join(" and ".join(axis) if isinstance(axis, tuple) else axis for axis in axes)

    def test(nest: Nest) -> str:
        order = nest.order()
        rest = iter(order)
        if [sorted(islice(rest, len(group))) for group in groups] == groups and not list(rest):
            return ""
        return f"from outside in, the loops are those of {', '.join(order)}"

    return Requirement(f"from outside in, the loops are those of {text}", test)


@_requirement("the {axis} loop is cut by {low}–{high}")
def cut(nest: Nest, axis: str, low: int, high: int) -> Iterator[str]:
    """The axis is cut so that an inner loop has `low` to `high` steps, wherever it stands."""
    parts = nest.parts(axis)
    if not any(low <= part.stride <= high for part in parts[:-1]):
        yield f"{axis} has {len(parts)} loop(s), of {_listed(part.extent for part in parts)}"


@_requirement("the {axis} loop is vectorized")
def vectorized(nest: Nest, axis: str) -> Iterator[str]:
    """The innermost part of the axis is vectorized, in steps of one element."""
    steps = [part.stride for part in nest.parts(axis) if part.loop.kind == "vectorized"]
    if not steps:
        yield f"no loop of {axis} is vectorized"
    if steps[0] != 1:
        yield f"the vectorized loop of {axis} steps by {steps[0]}"


@_requirement("a loop of {axes} is parallel")
def parallel(nest: Nest, *axes: str) -> Iterator[str]:
    """A loop of one of the axes is shared out among threads."""
    return _lacks_kind(nest, "parallel", axes)


@_requirement("a loop of {axes} is unrolled")
def unrolled(nest: Nest, *axes: str) -> Iterator[str]:
    """A loop of one of the axes is unrolled."""
    return _lacks_kind(nest, "unrolled", axes)


def _lacks_kind(nest: Nest, kind: str, axes: tuple[str, ...]) -> Iterator[str]:
    if not any(loop.kind == kind for axis in axes for loop in nest.loops(axis)):
        others = [loop.var.name for loop in nest.main.loops if loop.kind == kind]
        elsewhere = f"; {others[0]} is, which comes from elsewhere" if others else ""
        yield f"no loop of {_spelled(axes)} is {kind}{elsewhere}"


@_requirement("{buffer} is staged in a cache inside {inside}")
def staged(nest: Nest, buffer: str, inside: str) -> Iterator[str]:
    """The buffer is copied to a cache inside a loop: `inside` is an axis, or one of its loops
    counted from the outermost ("k_0").
    """
    copy = nest.copy_of(buffer)
    axis, _, number = inside.rpartition("_")
    if inside in nest.axes() or not axis or not number.isdigit():
        axis, loops = inside, nest.loops(inside)
    else:
        loops = nest.loops(axis)[int(number) :][:1]
    if not any(loop in loops for place in nest.writers(copy) for loop in nest.shared(place)):
        yield f"{copy.name} is filled outside of the loops of {axis}"


@_requirement("{axis} is spread over blocks and threads")
def bound(nest: Nest, axis: str) -> Iterator[str]:
    """The axis has a loop bound to `blockIdx`, and one bound to `threadIdx`."""
    for kind in (BLOCK, THREAD):
        if not any(loop.thread.startswith(kind) for loop in nest.loops(axis)):
            yield f"no loop of {axis} is bound to {kind}"


@_requirement("tiles of {buffer} are staged in shared memory inside {inside}")
def shared_tile(nest: Nest, buffer: str, inside: str) -> Iterator[str]:
    """The computation reads the buffer, directly or not, from a copy in shared memory that is
    filled inside a loop of the axis `inside`.
    """
    copy = _shared_copy(nest, buffer)
    for place in nest.writers(copy):
        if not any(loop in nest.loops(inside) for loop in nest.shared(place)):
            yield f"{copy.name} is filled outside of the loops of {inside}"


@_requirement("the threads of a block fetch {buffer} together")
def fetched_together(nest: Nest, buffer: str) -> Iterator[str]:
    """The copy of the buffer in shared memory is filled by loops bound to all axes of threads."""
    copy = _shared_copy(nest, buffer)
    wanted = {loop.thread for loop in nest.main.loops if loop.thread.startswith(THREAD)}
    for place in nest.writers(copy):
        found = {loop.thread for loop in place.loops if loop not in nest.main.loops}
        for axis in sorted(wanted - found):
            yield f"no loop around {place.block.name} is bound to {axis}"


def _shared_copy(nest: Nest, buffer: str) -> Buffer:
    """The copy in shared memory from which the computation gets a parameter's elements."""
    copy = nest.copy_of(buffer)
    while not copy.scope.startswith(SHARED):
        if copy not in nest.sources:
            raise Unrecognized(f"{buffer} is not copied to shared memory")
        copy = nest.sources[copy]
    return copy


@_requirement("{buffer} is packed: read element after element")
def packed(nest: Nest, buffer: str) -> Iterator[str]:
    """A copy of the buffer holds its elements in the order in which the hot loops use them."""
    copy = nest.copy_of(buffer)
    reach = 1
    for loop, step, extent in _steps(nest.hot(copy), _hot_loops(nest)):
        if step != reach:
            yield f"in {copy.name}, {loop.var.name} steps by {step} elements, not by {reach}"
        reach *= extent


@_requirement("{buffer} is copied outside of the loops of {axis}")
def copied_outside(nest: Nest, buffer: str, axis: str) -> Iterator[str]:
    """The copy of the buffer is made outside of the axis's loops: once for all its iterations."""
    copy, loops = nest.copy_of(buffer), nest.loops(axis)
    for place in nest.writers(copy):
        for loop in place.loops:
            if loop in loops:
                yield f"{copy.name} is filled anew in each iteration of {loop.var.name}"


def _hot_loops(nest: Nest) -> set[str]:
    """The names of the loops from the outermost one of the reduction on inwards."""
    reduced = [axis for axis in nest.axes() if axis not in nest.spatial_axes()]
    first = min((part.position for axis in reduced for part in nest.parts(axis)), default=0)
    return {loop.var.name for loop in nest.main.loops[first:]}


def _steps(item: Access, names: set[str]) -> list[tuple[For, int, int]]:
    """(loop, elements per step, extent) of the named loops that move an access; innermost first."""
    offset: Expr = index(0)
    for size, place in zip(item.buffer.shape, item.indices, strict=True):
        offset = Binary("+", Binary("*", offset, index(size)), place)
    total = Digits(loop_extents(item.loops)).sums([offset])[0]
    if total is None:
        raise Unrecognized(f"the index of {item.buffer.name} is not a plain sum of loop variables")
    steps = []
    for loop in reversed(item.loops):
        terms = [(c, d.extent) for d, c in total.terms.items() if d.var is loop.var]
        if loop.var.name in names:
            steps += [(loop, step, extent) for step, extent in sorted(terms)]
    return steps


@_requirement("the sums stay in a register tile of {low}–{high} elements")
def register_tile(nest: Nest, low: int = 2, high: int = 1024) -> Iterator[str]:
    """The sums are kept in a local tile of `low` to `high` elements, whose indices are constants
    once unrolled loops are written out: registers.
    """
    target = nest.target
    if target in nest.func.params:
        yield f"the sums are kept in {target.name}, in the caller's memory"
    shape = nest.stored_size(target)
    if not low <= prod(shape) <= high:
        size = " × ".join(map(str, shape))
        yield f"the sums are kept in {target.name}, which has {size} elements"
    item = nest.hot(target, write=True)
    sizes = loop_extents(item.loops)
    moving = {var for part in item.indices for var in variables(part) if sizes.get(var) != 1}
    for loop in item.loops:
        if loop.var in moving and loop.kind not in ("unrolled", "vectorized"):
            yield (
                f"{target.name} is indexed by {loop.var.name}, a {loop.kind} loop: "
                "a register has no address"
            )


@_requirement("the epilogue is fused into the write-back")
def fused_epilogue(nest: Nest, *axes: str) -> Iterator[str]:
    """Work after the reduction happens inside the loops of its tile, along `axes` (by default, all
    that the result is spread over): it is not a separate pass.
    """
    after = nest.after()
    if not after and nest.target in nest.func.params:
        yield "the result is written by the reduction itself"
    if not after:
        yield "nothing works on the result of the reduction"
    for place in after:
        if apart := _apart(nest, place, axes or tuple(nest.spatial_axes())):
            yield f"{place.block.name} is a pass of its own over {' and '.join(apart)}"


def _apart(nest: Nest, place: Located, axes: tuple[str, ...]) -> list[str]:
    """The axes along which a block shares no loop with the computation."""
    loops = {axis: nest.loops(axis) for axis in axes}
    shared = set(nest.shared(place))
    return [axis for axis in axes if loops[axis] and shared.isdisjoint(loops[axis])]


@_requirement("no guard in the hot loop")
def no_guard(nest: Nest) -> Iterator[str]:
    """The computation's update runs without a condition: no guard of a tail, no start of a sum."""
    if nest.main.block.init is not None:
        yield "the hot loop asks whether the sum begins: decompose the reduction"
    for guard in nest.guards():
        yield f"the hot loop asks whether {guard.script()}"


def _adjacent(nest: Nest, outer: Cut, parts: list[Cut]) -> bool:
    """Whether no loop of another axis stands between `outer` and the axis's innermost loop."""
    cuts = {part.loop for part in parts}
    between = nest.main.loops[outer.position + 1 : parts[-1].position]
    return not any(loop not in cuts and loop_extents((loop,))[loop.var] > 1 for loop in between)


def _listed(sizes: Iterable[int]) -> str:
    return " and ".join(map(str, sizes))
