"""The primitive tensorize: a tensor intrinsic in the place of a nest that computes the same."""

from itertools import combinations, zip_longest
from math import gcd
from typing import NoReturn

from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    Buffer,
    Expr,
    PrimFunc,
    Stmt,
    Store,
    index,
    seq,
    substitute,
)
from minimlc.loops.ir.walks import blocks_in, loops_in
from minimlc.loops.proofs.access import accesses, loop_ranges
from minimlc.loops.proofs.arith import constant_value, expression, linear
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.simplify import Simplifier
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names
from minimlc.loops.schedule.primitive import primitive, refuse, unproven
from minimlc.loops.schedule.redirect import Redirect, to
from minimlc.loops.schedule.tree import (
    Place,
    find_block,
    find_loop,
    names_of,
    replaced,
    with_allocs,
)
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.node import Mutator, replace
from minimlc.services.equivalence.match import (
    Mismatch,
    Operand,
    Operands,
    Statement,
    match,
    statement,
)
from minimlc.services.tensor.blockize import blockize
from minimlc.services.tensor.intrin import TensorIntrin, find_intrin

WIDTH = 42
MOST_LOOPS = 6


@primitive(keeps_order=False)
def tensorize(func: PrimFunc, target: str, intrin: str) -> PrimFunc:
    """Let a tensor intrinsic do what a loop, or the body of a blockized block, computes.

        for i_0 in range(n // 16):            for i_0 in range(n // 16):
            for i_1 in range(16):      -->        with block("C_o"): vio = i_0
                C[i_0 * 16 + i_1] = 0                 zero_16(C[vio * 16 ...])

    Legal when the nest is the intrinsic's description but for names, the order of its loops and of
    commutative operands; each parameter lies in a part of one buffer that is sure to be inside it;
    and no buffer that is written serves two parameters. A reduction's init stays, in the init of
    the new block.
    """
    item = find_intrin(intrin)
    whole, place = _block(func, target)
    block = place.stmt
    described = statement(item.description.body)
    assert isinstance(described, Statement)
    if len(blocks_in(block)) == 1:
        hint = "the loop around the tile, or its block after blockize"
        refuse("E156", f'block "{target}" holds no nest of its own', at=block, hint=hint)
    program = statement(block.body)
    if isinstance(program, str):
        _refuse(item, f"in the program {program}")
    _check_kinds(program, item)
    program = _simplified(program, place)
    operands = match(described, program)
    if isinstance(operands, Mismatch):
        _refuse(item, operands.why, _side_by_side(described, program, operands.row))
    _check_operands(item, operands, place)
    body, buffers = _call(whole, item, operands)
    kept = tuple(pair for pair in block.annotations if pair[0] != "tensor_intrin")
    new = replace(block, body=body, annotations=(*kept, ("tensor_intrin", intrin)))
    return finish(with_allocs(replaced(whole, {block: new}), buffers))


def _refuse(item: TensorIntrin, why: str, rows: str = "") -> NoReturn:
    rows = rows or f"see mlc.schedule.find_intrin({item.name!r}).description"
    refuse("E156", f"this is not {item.name}: {why}", example=rows)


def _block(func: PrimFunc, target: str) -> tuple[PrimFunc, Place[Block]]:
    """The block to give a new body, made around the loop `target` unless there is one."""
    if target in names_of(func, "block") and target not in names_of(func, "loop"):
        return func, find_block(func, target)
    place = find_loop(func, target)
    outer = place.around[-1] if place.around else None
    if isinstance(outer, Block) and outer.body is place.stmt:
        return func, Place(outer, place.around[:-1])
    before = set(names_of(func, "block"))
    after = unproven(blockize)(func, target)
    name = next(n for n in names_of(after, "block") if n not in before)
    return after, find_block(after, name)


def _simplified(program: Statement, place: Place[Block]) -> Statement:
    """The nest with indices in the simplest form that the ranges around and inside allow."""
    ranges = loop_ranges(program.loops, _known(place))
    return program._replace(store=_Apart(ranges).visit(program.store))


class _Apart(Simplifier):
    """Also divides what counts in steps: with i in 0 ... 15, `(16 * x + i) // 32` is `x // 2`."""

    def visit_Binary(self, expr: Binary) -> Expr:
        new = super().visit_Binary(expr)
        if not (isinstance(new, Binary) and new.op in ("//", "%") and new.dtype == INDEX):
            return new
        by = constant_value(new.b)
        form = linear(new.a)
        if by is None or by <= 0 or not self.ranges.is_exact(new.a):
            return new
        for coefficient in form.terms.values():
            step = gcd(coefficient, by)
            whole, rest = form.divided(step)
            low, high = self.ranges.reach(rest)
            if 1 < step < by and rest.terms and low >= 0 and high < step:
                part = self.visit(Binary(new.op, expression(whole), index(by // step)))
                return part if new.op == "//" else self.visit(part * step + expression(rest))
        return new


def _check_kinds(program: Statement, item: TensorIntrin) -> None:
    """Refuse iterations that must be taken in order, and loops over threads."""
    for it in program.block.iters:
        if it.kind == "O":
            _refuse(item, f"{it.var.name} must be taken in order")
    for loop in program.loops:
        if loop.kind in ("parallel", "thread_binding"):
            _refuse(item, f'"{loop.var.name}" is {loop.kind}')


def _side_by_side(described: Statement, program: Statement, row: int) -> str:
    """Both nests line by line, the first that differs marked."""
    sides = [_lines(part) for part in (described, program)]
    (loops, store), (others, other) = sides
    heads = list(zip_longest(loops[:MOST_LOOPS], others[:MOST_LOOPS], fillvalue=("", "")))
    lines = [("described", "the program"), *((a[0], b[0]) for a, b in heads)]
    lines += zip(store, other, strict=True)
    marked = len(heads) + row
    if row == 0:
        marked = next((n for n, (a, b) in enumerate(heads, 1) if a[1] != b[1]), 0)
    return "\n".join(
        f"{'>' if n == marked else ' '} {_cut(a):{WIDTH}} | {_cut(b)}".rstrip()
        for n, (a, b) in enumerate(lines)
    )


def _lines(part: Statement) -> tuple[list[tuple[str, str]], tuple[str, str]]:
    """A nest's loops, each with its extent, and its store in two lines."""
    extents = [lp.extent.script() for lp in part.loops]
    loops = [
        (f"for {lp.var.name} in range({n})", n) for lp, n in zip(part.loops, extents, strict=True)
    ]
    store = part.block.body
    assert isinstance(store, Store)
    return loops, (f"{store.script().strip().split(' = ')[0]} =", f"  {store.value.script()}")


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _check_operands(item: TensorIntrin, operands: Operands, place: Place[Block]) -> None:
    """Refuse a region that may leave its buffer, or is written and overlaps another."""
    written = {access.buffer for access in accesses(item.description) if access.is_write}
    for other, param in combinations(operands, 2):
        same = operands[param].buffer is operands[other].buffer
        if same and (param in written or other in written):
            name = operands[param].buffer.name
            _refuse(item, f"{name} would be both {other.name} and {param.name}, and is written")
    ranges = _known(place)
    for param, operand in operands.items():
        if not _inside(param, operand, ranges):
            base = ", ".join(part.script() for part in operand.base)
            _refuse(item, f"{param.name} from {operand.buffer.name}[{base}] on may leave it")


def _known(place: Place[Block]) -> Ranges:
    """The ranges of the loops and iters around a block's body."""
    ranges = loop_ranges(place.loops)
    for stmt in (*place.around, place.stmt):
        if isinstance(stmt, Block):
            ranges = ranges.extended({it.var: it.extent for it in stmt.iters})
    return ranges


def _inside(param: Buffer, operand: Operand, ranges: Ranges) -> bool:
    sizes = dict(zip(operand.dims, param.shape, strict=True))
    for dim, (base, extent) in enumerate(zip(operand.base, operand.buffer.shape, strict=True)):
        low, high = ranges.bounds(base)
        if low < 0 or high + sizes.get(dim, 1) > extent:
            return False
    return True


def _call(func: PrimFunc, item: TensorIntrin, operands: Operands) -> tuple[Stmt, list[Buffer]]:
    """The implementation on these operands, with fresh names, and the buffers it needs."""
    code = item.implementation
    names = Names(func)
    buffers = [replace(old, name=names.buffer(old.name)) for old in code.allocs]
    iters = [it for block in blocks_in(code.body) for it in block.iters]
    fresh = names.again(loops_in(code.body), iters)
    fresh |= zip(code.allocs, buffers, strict=True)
    parts = zip(code.params, (operands[p] for p in item.description.params), strict=True)
    moves = {param: to(part.buffer, part.at) for param, part in parts}
    body = Redirect(moves).visit(seq((substitute(code.body, fresh),)))
    return _Named(names).visit(body), buffers


class _Named(Mutator):
    """Gives blocks names that are free."""

    def __init__(self, names: Names):
        self.names = names

    def visit_Block(self, item: Block) -> Block:
        new = self.visit_children(item)
        return replace(new, name=self.names.block(item.name))
