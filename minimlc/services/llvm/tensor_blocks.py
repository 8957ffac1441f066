"""Tensor intrinsics as the machine's own instructions, where it has them.

A block annotated `tensor_intrin: name` holds the intrinsic's implementation: that is its meaning,
and what every back-end can compile. Here it is compared with the implementation once more, and
only if it still is one, with operands laid out as the instruction wants them, the instruction is
written instead. So neither a wrong annotation nor a later primitive can change a result.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import Any

from minimlc.loops.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Var,
)
from minimlc.loops.llvm.expr import Expressions
from minimlc.loops.llvm.value import element_size
from minimlc.loops.lower.lower import MOST_COPIES, TENSOR, lower
from minimlc.loops.proofs.arith import constant_value, variables
from minimlc.loops.schedule.tree import nest
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.node import walk
from minimlc.loops.values.parts import Hook
from minimlc.services.equivalence.match import Mismatch, Operand, Statement, match, statement
from minimlc.services.llvm.tensor_units import (
    INSTRUCTIONS,
    TILE_BYTES,
    TILES,
    Fragment,
    Instruction,
    configure,
    release,
)

intrinsics: Any = Hook[Any]("intrinsics' records").first

TILE_SCOPE = "amx.tile"
Use = tuple[Instruction, list[Operand]]


@dataclass
class TensorBlocks:
    """Writes tensorized blocks of a program for a machine with some features."""

    writer: Expressions
    program: PrimFunc
    features: frozenset[str]
    configured: bool = False

    @property
    def tiles(self) -> dict[Buffer, int]:
        """The first tile register of each buffer that lives in tile registers."""
        checked = self.writer.sites is not None
        return {} if checked else tile_numbers(self.program, self.features)

    def write(self, block: Block) -> bool:
        """Write a block that was tensorized as an instruction; False where there is none."""
        use = None
        if self.writer.plain:
            use = instruction_for(block, self.features, frozenset(self.tiles))
        if use is None:
            return False
        instruction, operands = use
        if instruction.tiles and not self.configured:
            configure(self.writer.values.code)
            self.configured = True
        instruction.emit(self.writer.values, [self._part(operand) for operand in operands])
        return True

    def leave(self) -> None:
        """Release the tile registers, before each of the function's returns."""
        if self.configured:
            release(self.writer.values.code)

    def _part(self, operand: Operand) -> Fragment:
        buffer, strides, memory = operand.buffer, strides_of(operand), self.writer.memory
        flat = memory.flat(buffer, map(self.writer.expr, operand.base))
        if buffer not in self.tiles:
            return Fragment(memory.address(buffer, flat), strides, buffer)
        number = int(flat.const or 0) * element_size(buffer) // TILE_BYTES
        return Fragment("", strides, buffer, self.tiles[buffer] + number)


def instruction_for(block: Block, features: frozenset[str], tiled: frozenset[Buffer]) -> Use | None:
    """The machine's instruction for a tensorized block, if the block still is the intrinsic and
    its operands lie as it needs them: in tile registers exactly its tile operands.
    """
    name = str(dict(block.annotations)[TENSOR])
    known = [form for form in INSTRUCTIONS.get(name, ()) if form.features <= features]
    operands = operands_of(block) if known else None
    if operands is None:
        return None
    in_tiles = tuple(n for n, operand in enumerate(operands) if operand.buffer in tiled)
    for instruction in known:
        if instruction.tiles == in_tiles and _lie_right(operands, instruction):
            return instruction, operands
    return None


def operands_of(block: Block) -> list[Operand] | None:
    """Where the parameters of a tensorized block's intrinsic lie; None if it is none any more."""
    if intrinsics is None:
        return None
    pattern, params = implementation(str(dict(block.annotations)[TENSOR]))
    candidate = _flat(block.body)
    matched = candidate and match(pattern, candidate)
    if not matched or isinstance(matched, Mismatch):
        return None
    return [matched[param] for param in params]


def _lie_right(operands: list[Operand], instruction: Instruction) -> bool:
    return all(
        want in (None, got)
        for operand, strides in zip(operands, instruction.strides, strict=True)
        for want, got in zip(strides, strides_of(operand), strict=True)
    )


def strides_of(operand: Operand) -> tuple[int, ...]:
    """How far apart neighbours along each of an operand's dimensions are, in elements."""
    return tuple(prod(operand.buffer.shape[dim + 1 :]) for dim in operand.dims)


@cache
def implementation(name: str) -> tuple[Statement, tuple[Buffer, ...]]:
    """An intrinsic's implementation, lowered as the program that holds it is."""
    assert intrinsics is not None
    func = lower(intrinsics.find_intrin(name).implementation)
    nest_of_one = _flat(func.body)
    if nest_of_one is None:
        raise ScheduleError(f"{name}: an instruction stands for one nest that stores once")
    return nest_of_one, func.params


def _flat(stmt: Stmt) -> Statement | None:
    """The nest of loops around one store, without the blocks in it; None for anything else."""
    loops = []
    while isinstance(stmt, For | Block):
        loops += [stmt] if isinstance(stmt, For) else []
        stmt = stmt.body
    if not isinstance(stmt, Store):
        return None
    result = statement(nest(loops, Block("", (), None, None, stmt)))
    return None if isinstance(result, str) else result


@lru_cache(maxsize=8)
def tile_numbers(func: PrimFunc, features: frozenset[str]) -> dict[Buffer, int]:
    """The first tile register of each buffer of the scope "amx.tile".

    All of them or none: none where the machine has no tile registers, where there are too few, or
    where one is used otherwise than by an instruction on a whole tile whose number is known.
    """
    tiled = [
        part.buffer
        for part in walk(func.body)
        if isinstance(part, Alloc) and part.buffer.scope == TILE_SCOPE
    ]
    check = _Check(frozenset(tiled), features)
    if not tiled or not check.threads(func.body) or not check.fits(func.body):
        return {}
    numbers, count = {}, 0
    for buffer in tiled:
        numbers[buffer] = count
        count += prod(buffer.shape) * element_size(buffer) // TILE_BYTES
    return numbers if count <= TILES else {}


@dataclass(frozen=True)
class _Check:
    """Whether buffers can live in tile registers."""

    tiled: frozenset[Buffer]
    features: frozenset[str]

    def threads(self, body: Stmt) -> bool:
        """Whether each thread has tiles of its own: they are set up where its function begins."""
        parallel = [p for p in walk(body) if isinstance(p, For) and p.kind == "parallel"]
        if not parallel:
            return True
        inner = [set(walk(loop.body)) for loop in parallel]
        if any(loop in nodes for loop in parallel for nodes in inner):
            return False
        owned = [p for p in walk(body) if isinstance(p, Alloc) and p.buffer in self.tiled]
        return all(any(alloc in nodes for nodes in inner) for alloc in owned)

    def fits(self, stmt: Stmt, known: frozenset[Var] = frozenset(), copies: int = 1) -> bool:
        """Whether only instructions use the buffers; `known` are variables of unrolled loops."""
        match stmt:  # other nodes: they fit if they use no such buffer
            case Seq(parts):
                return all(self.fits(part, known, copies) for part in parts)
            case Alloc():
                return self.fits(stmt.body, known, copies)
            case For():
                extent = constant_value(stmt.extent)
                if stmt.kind == "unrolled" and extent and copies * extent <= MOST_COPIES:
                    return self.fits(stmt.body, known | {stmt.var}, copies * extent)
                if stmt.kind != "vectorized" and not self.uses(stmt.extent):
                    return self.fits(stmt.body, known, copies)
            case IfThenElse(condition, then_case, else_case) if not self.uses(condition):
                rest = else_case is None or self.fits(else_case, known, copies)
                return rest and self.fits(then_case, known, copies)
            case Block() if any(key == TENSOR for key, _ in stmt.annotations):
                use = instruction_for(stmt, self.features, self.tiled)
                if use is not None:
                    return self.whole(use[1], known)
        return not self.uses(stmt)

    def uses(self, item: Stmt | Expr) -> bool:
        return any(isinstance(p, Load | Store) and p.buffer in self.tiled for p in walk(item))

    def whole(self, operands: Iterable[Operand], known: frozenset[Var]) -> bool:
        """Whether operands in tiles are whole tiles, whose numbers the compiler knows."""
        for operand in operands:
            if operand.buffer not in self.tiled:
                continue
            start = len(operand.buffer.shape) - len(operand.dims)
            last = tuple(range(start, len(operand.buffer.shape)))
            size = prod(operand.buffer.shape[start:]) * element_size(operand.buffer)
            inner = [constant_value(part) for part in operand.base[start:]]
            outer = {var for part in operand.base[:start] for var in variables(part)}
            if operand.dims != last or size != TILE_BYTES or any(inner) or outer - known:
                return False
            if None in inner:
                return False
        return True
