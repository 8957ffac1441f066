"""Tensor intrinsics: a small computation and a better way to do it, both in our own IR."""

from functools import cache
from typing import Any, NamedTuple, NoReturn

from minimlc.loops.ir.nodes import Block, Buffer, For, PrimFunc, Stmt, Store
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.proofs.inside import escapes
from minimlc.loops.proofs.wellformed import check_prim_func
from minimlc.loops.values.errors import CompileError, ScheduleError, did_you_mean
from minimlc.services.equivalence.compare import KINDS, difference, reduces_floats
from minimlc.services.tensor.intrinsics import BUILT_IN, DIFFERS


class TensorIntrin(NamedTuple):
    """A computation that `tensorize` looks for, and its replacement.

    `description` is the computation: one nest of loops around one block that stores once.
    `implementation` has parameters of the same shapes and dtypes and computes the same. A block
    that was tensorized is annotated `tensor_intrin: name`; a back-end with an instruction of its
    own for that name may emit it there, and every other one compiles the implementation. Where such
    an instruction's result is not the implementation's, `differs` states how.
    """

    name: str
    description: PrimFunc
    implementation: PrimFunc
    differs: str = ""


_REGISTERED: dict[str, TensorIntrin] = {}


def register_intrin(name: str, description: Any, implementation: Any) -> TensorIntrin:
    """Make an intrinsic known to `tensorize` by name.

    Both functions are verified, run on random inputs (zeros of both signs, infinities, NaN and
    extreme integers among them) and compared: exactly, but for the rounding of float sums.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ScheduleError(f"the name of an intrinsic is an identifier, got {name!r}", code="E157")
    if name in _REGISTERED or name in BUILT_IN:
        raise ScheduleError(
            f'there is a tensor intrinsic "{name}" already', code="E157", hint="another name"
        )
    intrin = checked(TensorIntrin(name, _function(description), _function(implementation)))
    _REGISTERED[name] = intrin
    return intrin


def find_intrin(name: str) -> TensorIntrin:
    """The intrinsic of that name, registered or built in."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in BUILT_IN:
        return _built_in(name)
    known = intrins()
    hint = did_you_mean(str(name), known) or f"there are {', '.join(known)}"
    raise ScheduleError(f'no tensor intrinsic "{name}" is registered', code="E157", hint=hint)


@cache
def _built_in(name: str) -> TensorIntrin:
    description, implementation = map(_function, BUILT_IN[name]())
    return TensorIntrin(name, description, implementation, DIFFERS.get(name, ""))


def intrins() -> list[str]:
    """The names of all tensor intrinsics, the built-in ones first."""
    return [*BUILT_IN, *_REGISTERED]


def _function(item: Any) -> PrimFunc:
    """A primitive function; a module with one is that one."""
    if isinstance(item, PrimFunc):
        return item
    entries: tuple[Any, ...] = getattr(item, "entries", ())
    if len(entries) == 1 and isinstance(entries[0][1], PrimFunc):
        return entries[0][1]
    raise ScheduleError(
        f"an intrinsic is made of two primitive functions, got {type(item).__name__}", code="E159"
    )


def checked(item: TensorIntrin) -> TensorIntrin:
    """The intrinsic, if its parts are right and compute the same; else an error."""
    _check_part(item.name, "description", item.description)
    _check_part(item.name, "implementation", item.implementation)
    _check_signature(item)
    _check_description(item)
    exact = not reduces_floats(item.description)
    mismatch = difference(item.description, item.implementation, exact, KINDS)
    if mismatch is None:
        _wrong(item.name, "its description cannot be run")
    if mismatch:
        raise ScheduleError(
            f"{item.name}: the implementation computes something else: {mismatch}", code="E158"
        )
    return item


def _wrong(name: str, why: str, hint: str = "") -> NoReturn:
    raise ScheduleError(f"{name}: {why}", code="E159", hint=hint)


def _check_part(name: str, part: str, func: PrimFunc) -> None:
    try:
        check_prim_func(part, func)
    except CompileError as error:
        raise ScheduleError(
            f"{name}: {error.why}", code="E159", span=error.span, example=error.example
        ) from error
    for loop in loops_in(func.body):
        if loop.kind in ("parallel", "thread_binding"):
            _wrong(name, f'the {part} has the {loop.kind} loop "{loop.var.name}"')
    written = {item.buffer for item in accesses(func) if item.is_write}
    for item in accesses(func):
        if any(escapes(item, written)):
            _wrong(name, f"{item.buffer.name} of the {part} may be indexed out of range")


def _check_signature(item: TensorIntrin) -> None:
    first, second = item.description.params, item.implementation.params
    if len(first) != len(second):
        _wrong(item.name, f"{len(first)} parameter(s) described, {len(second)} implemented")
    for a, b in zip(first, second, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            _wrong(item.name, f"{a.name} is {_type(a)}, the implementation takes {_type(b)}")
    used = {access.buffer for access in accesses(item.description)}
    written = {access.buffer for access in accesses(item.description) if access.is_write}
    changed = {access.buffer for access in accesses(item.implementation) if access.is_write}
    for a, b in zip(first, second, strict=True):
        if a not in used:
            _wrong(item.name, f"the description does not use {a.name}")
        if b in changed and a not in written:
            _wrong(item.name, f"the implementation writes {b.name}, which is read only")


def _type(buffer: Buffer) -> str:
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"


def _check_description(item: TensorIntrin) -> None:
    func = item.description
    stmt: Stmt = func.body
    while isinstance(stmt, For):
        if constant_value(stmt.extent) is None:
            _wrong(item.name, f'the extent of "{stmt.var.name}" is not constant')
        stmt = stmt.body
    plain = isinstance(stmt, Block) and stmt.predicate is None and stmt.init is None
    if func.allocs or not plain or not isinstance(stmt.body, Store):  # type: ignore[attr-defined]
        _wrong(
            item.name,
            "a description is one nest of loops around one block that stores once",
            "a reduction's update alone; the init is another intrinsic, zero_16x16 for example",
        )
    if any(it.kind == "O" for it in stmt.iters):  # type: ignore[attr-defined]
        _wrong(item.name, "a description's iterations may be taken in any order, no T.axis.opaque")
