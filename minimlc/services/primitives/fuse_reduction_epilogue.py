"""The primitive fuse_reduction_epilogue: a reduction that starts from what is added to it."""

from math import inf

from minimlc.loops.ir.nodes import Binary, Const, Expr, Load, PrimFunc, Store, substitute
from minimlc.loops.proofs.access import reads, reducer_of, starts_its_target
from minimlc.loops.proofs.arith import conjuncts
from minimlc.loops.proofs.regions import init_comes_first
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import Redirect, fixed, to
from minimlc.loops.schedule.shape import Producer, check_own_result, producer
from minimlc.loops.schedule.tree import replaced, without_unused_allocs
from minimlc.loops.values.dtypes import is_float
from minimlc.loops.values.node import replace
from minimlc.services.layouts.reverse_inline import check_joined, check_only_reader, matching

REDUCERS = ("+", "*", "min", "max", "&", "|", "^")
"""Reductions that may start anywhere. (`and` and `or` may not look at their second operand.)"""


@primitive(keeps_order=False)
def fuse_reduction_epilogue(func: PrimFunc, reduction_block: str, epilogue_block: str) -> PrimFunc:
    """Start a reduction from what its reader adds to the result.

        for i, k in grid(n, m):                  for i, k in grid(n, m):
            with init: Y[i] = 0                      with init: C[i] = 0 + e(i)
            Y[i] += f(i, k)            -->           C[i] += f(i, k)
        for i in range(n):
            C[i] = Y[i] + e(i)

    The block is called as the reader was. Legal when the reader alone reads what the reduction
    writes, element for element and all of it, and combines it by the reduction's own operator
    with values that do not change in between. Floats are combined in another order: sums are
    rounded otherwise, and of two zeros `max` and `min` may take the other one.
    """
    # NB: in TVM, the 0 is left out for floats as well: -0.0 for e and for all f then gives -0.0.
    subject = producer(func, epilogue_block)
    source = producer(func, reduction_block)
    store, op = subject.block.body, _reducer(source)
    if not isinstance(store, Store) or any(it.kind != "S" for it in subject.block.iters):
        refuse("E115", "is not a single store for each element", of=subject.block)
    _check_pair(func, subject, source)
    same = matching(subject, source)
    start = source.block.init
    assert isinstance(start, Store)
    value = _started(store.value, source, op, start.value)
    if value is None:
        refuse(
            "E115",
            f"does not store {source.buffer.name}[...] {op} e, but {store.value.script()}",
            of=subject.block,
            example="the ReLU of half a sum, say, is not half of the ReLU of the sum",
            hint=f'reverse_compute_at("{epilogue_block}", ...) applies it to each finished element',
        )
    check_joined(subject, source, source.place.nest().own)
    at = tuple(substitute(part, same) for part in store.indices)
    body = Redirect({source.buffer: to(store.buffer, fixed(at))}).visit(source.block.body)
    init = Store(store.buffer, at, substitute(value, same))
    new = replace(source.block, name=subject.block.name, init=init, body=body)
    changed = replaced(func, {source.block: new, subject.place.nest().top: None})
    return finish(without_unused_allocs(changed))


def _reducer(source: Producer) -> str:
    """The operator of a reduction whose init surely runs first, and once."""
    block = source.block
    op = reducer_of(block)
    if op not in REDUCERS or not starts_its_target(block):
        listed = ", ".join(REDUCERS)
        refuse("E115", f"is not a reduction with an init, by one of {listed}", of=source.block)
    assert block.init is not None
    if reads(block.init, source.buffer):
        refuse("E115", f"reads {source.buffer.name} in its init", of=source.block)
    if not init_comes_first(block, source.place.loops, tuple(conjuncts(block.predicate))):
        refuse("E115", "does not surely run its init first", of=source.block)
    return str(op)


def _check_pair(func: PrimFunc, subject: Producer, source: Producer) -> None:
    """Refuse unless one block writes the buffer between the two, and the other alone reads it."""
    if not reads(subject.block.body, source.buffer) or subject.block is source.block:
        refuse("E115", f"does not read {source.buffer.name}", of=subject.block)
    check_own_result(func, source)
    check_only_reader(subject, source)
    if reads(subject.block.body, subject.buffer):
        refuse("E115", f"reads {subject.buffer.name}, which it writes", of=subject.block)


def _started(value: Expr, source: Producer, op: str, start: Expr) -> Expr | None:
    """The epilogue's value with the start in place of the result; None where the result is not
    just combined with other values.
    """
    here = source.buffer
    match value:
        case Load(buffer, _) if buffer is here:
            return start
        case Binary(way, a, b) if way == op and not reads(a, here):
            inner = _started(b, source, op, start)
            return _combined(value, a, inner, replace(value, b=inner))
        case Binary(way, a, b) if (way == op or (op, way) == ("+", "-")) and not reads(b, here):
            inner = _started(a, source, op, start)
            rest = b if way == op else None
            return _combined(value, rest, inner, replace(value, a=inner))
        case _:  # other nodes: no way to start there
            return None


def _combined(value: Binary, rest: Expr | None, inner: Expr | None, both: Expr) -> Expr | None:
    """`both`, or only the `rest` where its other operand is the identity."""
    if inner is None:
        return None
    return rest if rest is not None and _is_identity(value.op, inner) else both


def _is_identity(op: str, start: Expr) -> bool:
    """Whether combining with a constant changes nothing, to the bit: 0.0 makes 0.0 of -0.0."""
    if not isinstance(start, Const):
        return False
    whole = {"+": 0, "^": 0, "|": 0, "*": 1}
    real = {"*": 1, "max": -inf, "min": inf}
    return (real if is_float(start.dtype) else whole).get(op) == start.value
