"""tensorize: a nest of loops is replaced by a tensor intrinsic that computes the same."""

from collections.abc import Sequence
from math import gcd
from typing import NoReturn

from minimlc.dtypes import INDEX
from minimlc.node import Mutator, Node, replace
from minimlc.schedule.finish import finish
from minimlc.schedule.primitive import primitive
from minimlc.schedule.tensor.blockize import blockize
from minimlc.schedule.tensor.intrin import TensorIntrin, find_intrin
from minimlc.schedule.tree import Names, Place, find_block, find_loop, names_of, refuse, replaced
from minimlc.tir.analysis.access import accesses, loop_ranges
from minimlc.tir.analysis.arith import Linear, Ranges, constant_value, linear
from minimlc.tir.analysis.match import Mismatch, Operand, Operands, Statement, match, statement
from minimlc.tir.analysis.simplify import Simplifier
from minimlc.tir.analysis.wellformed import blocks_in, loops_in
from minimlc.tir.nodes import (
    Binary,
    Block,
    Buffer,
    Expr,
    Load,
    PrimFunc,
    Stmt,
    Store,
    index,
    seq,
    substitute,
)

WIDTH = 42


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
    found = find_intrin(intrin)
    whole, place = _block(func, target)
    block = place.stmt
    assert isinstance(block, Block)
    wanted = statement(found.description.body)
    assert isinstance(wanted, Statement)
    if len(blocks_in(block)) == 1:
        hint = "the loop around the tile, or its block after blockize"
        refuse("E156", f'tensorize: block "{target}" holds no nest of its own', at=block, hint=hint)
    given = statement(block.body)
    if isinstance(given, str):
        _refuse(found, f"in the program {given}", block)
    _check_kinds(given, found)
    given = _simplified(given, place)
    operands = match(wanted, given)
    if isinstance(operands, Mismatch):
        rows = _side_by_side(wanted, given, operands.row)
        _refuse(found, operands.why, block, rows)
    _check_operands(found, operands, place)
    body = _call(whole, found, operands)
    kept = tuple(pair for pair in block.annotations if pair[0] != "tensor_intrin")
    new = replace(block, body=body[0], annotations=(*kept, ("tensor_intrin", intrin)))
    after = replaced(whole, {block: new})
    return finish(replace(after, allocs=(*after.allocs, *body[1])))


def _refuse(item: TensorIntrin, why: str, at: Node, rows: str = "") -> NoReturn:
    rows = rows or f"see mlc.schedule.find_intrin({item.name!r}).description"
    refuse("E156", f"tensorize: this is no {item.name}: {why}", example=rows)


def _block(func: PrimFunc, target: str) -> tuple[PrimFunc, Place]:
    """The block to give a new body, made around the loop `target` unless there is one."""
    if target in names_of(func, "block") and target not in names_of(func, "loop"):
        return func, find_block(func, target)
    place = find_loop(func, target)
    around = place.around
    if around and isinstance(around[-1], Block) and around[-1].body is place.stmt:
        return func, Place(around[-1], around[:-1])
    before = set(names_of(func, "block"))
    after = blockize(func, target)
    name = next(n for n in names_of(after, "block") if n not in before)
    return after, find_block(after, name)


def _simplified(given: Statement, place: Place) -> Statement:
    """The nest with indices in the simplest form that the ranges around and inside allow."""
    ranges = loop_ranges(given.loops, _known(place))
    return given._replace(store=_Apart(ranges).visit(given.store))


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
        for coefficient, _ in form.terms.values():
            step = gcd(coefficient, by)
            rest = {k: t for k, t in form.terms.items() if t[0] % step}
            inner = Linear(rest, form.constant % step)
            low, high = self.ranges.reach(inner)
            if 1 < step < by and rest and low >= 0 and high < step:
                whole = {k: (c // step, a) for k, (c, a) in form.terms.items() if k not in rest}
                count = Linear(whole, form.constant // step).to_expr()
                part = self.visit(Binary(new.op, count, index(by // step)))
                return part if new.op == "//" else self.visit(part * step + inner.to_expr())
        return new


def _check_kinds(given: Statement, item: TensorIntrin) -> None:
    """Iterations that must be taken in order are none of an intrinsic's."""
    for it in given.block.iters:
        if it.kind == "O":
            _refuse(item, f"{it.var.name} must be taken in order", given.block)
    for loop in given.loops:
        if loop.kind in ("parallel", "thread_binding"):
            _refuse(item, f'"{loop.var.name}" is {loop.kind}', given.block)


def _side_by_side(wanted: Statement, given: Statement, row: int) -> str:
    """Both nests line by line, the first that differs marked."""
    lines = [("described", "the program")]
    first, second = (
        [f"for {lp.var.name} in range({lp.extent.script()})" for lp in part.loops]
        for part in (wanted, given)
    )
    count = min(6, max(len(first), len(second)))
    extents = [[lp.extent.script() for lp in part.loops] for part in (wanted, given)]
    marked = 0
    for n in range(count):
        a, b = (names[n] if n < len(names) else "" for names in (first, second))
        lines.append((a, b))
        one, other = (sizes[n] if n < len(sizes) else "" for sizes in extents)
        if row == 0 and marked == 0 and one != other:
            marked = n + 1
    stores = [part.block.body for part in (wanted, given)]
    assert all(isinstance(item, Store) for item in stores)
    lines.append(tuple(f"{item.script().strip().split(' = ')[0]} =" for item in stores))  # type: ignore[arg-type]
    lines.append(tuple(f"  {item.value.script()}" for item in stores))  # type: ignore[attr-defined,arg-type]
    if row > 0:
        marked = count + row
    return "\n".join(
        f"{'>' if n == marked else ' '} {_cut(a):{WIDTH}} | {_cut(b)}".rstrip()
        for n, (a, b) in enumerate(lines)
    )


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _check_operands(item: TensorIntrin, operands: Operands, place: Place) -> None:
    """Each region is inside its buffer, and none that is written overlaps another."""
    written = {access.buffer for access in accesses(item.description) if access.is_write}
    params = list(operands)
    for number, param in enumerate(params):
        for other in params[:number]:
            same = operands[param].buffer is operands[other].buffer
            if same and (param in written or other in written):
                name = operands[param].buffer.name
                why = f"{name} would be both {other.name} and {param.name}, and is written"
                _refuse(item, why, place.stmt)
    ranges = _known(place)
    for param, operand in operands.items():
        if not _inside(param, operand, ranges):
            base = ", ".join(part.script() for part in operand.base)
            why = f"{param.name} from {operand.buffer.name}[{base}] on may leave it"
            _refuse(item, why, place.stmt)


def _known(place: Place) -> Ranges:
    """What is known inside a block: of the loops and the iters around its body."""
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
    """The implementation on these operands, with names of its own, and the buffers it needs."""
    code = item.implementation
    names = Names(func)
    fresh: dict[Node, Node] = {}
    for buffer in code.allocs:
        fresh[buffer] = replace(buffer, name=names.buffer(buffer.name))
    for loop in loops_in(code.body):
        fresh[loop.var] = names.var(loop.var.name)
    for block in blocks_in(code.body):
        for it in block.iters:
            fresh[it.var] = names.var(it.var.name)
    placed = dict(zip(code.params, (operands[p] for p in item.description.params), strict=True))
    body = _Place(placed, names).visit(seq((substitute(code.body, fresh),)))
    return body, [fresh[buffer] for buffer in code.allocs]  # type: ignore[misc]


class _Place(Mutator):
    """Parameters become parts of buffers, and blocks get names that are free."""

    def __init__(self, placed: dict[Buffer, Operand], names: Names):
        self.placed = placed
        self.names = names

    def visit_Load(self, item: Load) -> Load | Store:
        return self._moved(self.visit_children(item))

    def visit_Store(self, item: Store) -> Load | Store:
        return self._moved(self.visit_children(item))

    def visit_Block(self, item: Block) -> Block:
        new = self.visit_children(item)
        return replace(new, name=self.names.block(item.name))

    def _moved(self, item: Load | Store) -> Load | Store:
        if item.buffer not in self.placed:
            return item
        operand = self.placed[item.buffer]
        return replace(item, buffer=operand.buffer, indices=_shifted(operand, item.indices))


def _shifted(operand: Operand, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    result = list(operand.base)
    for dim, part in zip(operand.dims, indices, strict=True):
        result[dim] = operand.base[dim] + part
    return tuple(result)
