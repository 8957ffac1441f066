"""Tensor intrinsics as the machine's own instructions, where it has them.

A block annotated `tensor_intrin: name` holds the intrinsic's implementation: that is its meaning,
and what every back-end can compile. Here it is compared with the implementation once more, and
only if it still is one, with operands laid out as the instruction wants them, the instruction is
written instead. So neither a wrong annotation nor a later primitive can change a result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import NamedTuple

from minimlc.codegen.llvm_prefetch import Prefetches
from minimlc.codegen.llvm_value import MEMORY, SIZE, constant
from minimlc.codegen.lower import TENSOR, lower
from minimlc.dtypes import INDEX
from minimlc.errors import ScheduleError
from minimlc.schedule.intrin import find_intrin
from minimlc.schedule.match import Mismatch, Statement, match, statement
from minimlc.schedule.tree import nest
from minimlc.tir.nodes import Block, Buffer, For, Stmt, Store


class Part(NamedTuple):
    """Where a parameter lies: its first element, and how many elements on the next one is."""

    pointer: str
    strides: tuple[int, ...]
    buffer: Buffer


Emitter = Callable[["Tensors", list[Part]], None]


class Instruction(NamedTuple):
    """How a machine does what an intrinsic describes.

    `features` are LLVM's names of what it needs, `strides` the only layout of the operands that
    it takes (in the order of the intrinsic's parameters; None for any).
    """

    features: frozenset[str]
    strides: tuple[tuple[int | None, ...], ...]
    emit: Emitter


@dataclass
class Tensors(Prefetches):
    """Writes tensorized blocks into `code`."""

    features: frozenset[str] = frozenset()

    def stmt(self, item: Stmt) -> None:
        raise NotImplementedError

    def tensor(self, block: Block) -> None:
        """Write a block that was tensorized: an instruction, or the implementation."""
        name = dict(block.annotations)[TENSOR]
        parts = None
        plain = self.lanes is None and self.sites is None
        for instruction in INSTRUCTIONS.get(str(name), ()) if plain else ():
            if instruction.features <= self.features:
                parts = self._parts(str(name), block, instruction)
                if parts is not None:
                    instruction.emit(self, parts)
                    return
        self.stmt(block.body)

    def _parts(self, name: str, block: Block, instruction: Instruction) -> list[Part] | None:
        """Where the operands lie, if the block is the intrinsic and they lie as they have to."""
        wanted, params = _implementation(name)
        given = _flat(block.body)
        found = given and match(wanted, given)
        if not found or isinstance(found, Mismatch):
            return None
        parts = []
        for param, strides in zip(params, instruction.strides, strict=True):
            operand = found[param]
            have = _strides(operand.buffer.shape, operand.dims)
            if any(want not in (None, got) for want, got in zip(strides, have, strict=True)):
                return None
            parts.append((operand, have))
        return [
            Part(self.pointer_to(operand.buffer, operand.base), have, operand.buffer)
            for operand, have in parts
        ]

    def pointer_to(self, buffer: Buffer, indices: tuple) -> str:
        """The address of an element."""
        flat = constant(0, INDEX)
        for index, size in zip(indices, buffer.shape, strict=True):
            flat = self.binary("*", flat, constant(size, INDEX))
            flat = self.binary("+", flat, self.expr(index))
        return self._address(buffer, flat)

    def call(self, result: str, name: str, *operands: tuple[str, str]) -> str:
        """The result of an LLVM function of these operands, each a type and a value."""
        target = self.code.module.declare(name, result, ", ".join(kind for kind, _ in operands))
        listed = ", ".join(f"{kind} {text}" for kind, text in operands)
        return self.code.value(f"call {result} {target}({listed})")


@cache
def _implementation(name: str) -> tuple[Statement, tuple[Buffer, ...]]:
    """An intrinsic's implementation, lowered as the program that holds it is."""
    func = lower(find_intrin(name).implementation)
    found = _flat(func.body)
    if found is None:
        raise ScheduleError(f"{name}: an instruction stands for one nest that stores once")
    return found, func.params


def _flat(stmt: Stmt) -> Statement | None:
    """The nest of loops around one store, without a block."""
    loops = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, Store):
        return None
    found = statement(nest(loops, Block("", (), None, None, stmt)))
    return None if isinstance(found, str) else found


def _strides(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """How far apart neighbours along each of the dimensions are, in elements."""
    return tuple(prod(shape[dim + 1 :]) for dim in dims)


def _dot(name: str, lanes: int, operand: str, adds: bool = True) -> Emitter:
    """16 sums of a few products each: `a` as one 32-bit number in all lanes, times `b`.

    The instruction works on `lanes` sums at a time. One that only multiplies (`adds` is False)
    is followed by an addition.
    """

    def emit(code: Tensors, parts: list[Part]) -> None:
        a, b, c = parts
        kind = "float" if c.buffer.dtype == "float32" else "i32"
        one = code.code.value(f"load i32, ptr {a.pointer}, align {_align(a)}")
        wide = f"<{lanes} x i32>"
        spread = code.code.value(f"insertelement {wide} poison, i32 {one}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        spread = code.code.value(f"shufflevector {wide} {spread}, {wide} poison, {zeros}")
        result = f"<{lanes} x {kind}>"
        for first in range(0, 16, lanes):
            at, place = (_moved(code, part.pointer, 4 * first) for part in (b, c))
            pairs = code.code.value(f"load {operand}, ptr {at}, align {_align(b)}")
            sums = code.code.value(f"load {result}, ptr {place}, align 4")
            left = code.code.value(f"bitcast {wide} {spread} to {operand}")
            factors = ((operand, left), (operand, pairs))
            if adds:
                total = code.call(result, name, (result, sums), *factors)
            else:
                product = code.call(result, name, *factors)
                total = code.code.value(f"add {result} {sums}, {product}")
            code.code.do(f"store {result} {total}, ptr {place}, align 4")

    return emit


def _align(part: Part) -> int:
    return SIZE[MEMORY[part.buffer.dtype]]


def _moved(code: Tensors, pointer: str, count: int) -> str:
    """A pointer that many bytes further on."""
    if count == 0:
        return pointer
    return code.code.value(f"getelementptr inbounds i8, ptr {pointer}, i64 {count}")


def _sums(products: int, features: str, emit: Emitter) -> Instruction:
    """An instruction for 16 sums of some products; all operands lie in one piece."""
    return Instruction(frozenset(features.split()), ((1,), (products, 1), (1,)), emit)


INSTRUCTIONS: dict[str, tuple[Instruction, ...]] = {
    "dot_u8i8i32": (
        _sums(4, "+avx512vnni", _dot("llvm.x86.avx512.vpdpbusd.512", 16, "<16 x i32>")),
        _sums(4, "+avxvnni", _dot("llvm.x86.avx512.vpdpbusd.256", 8, "<8 x i32>")),
    ),
    "dot_i8i8i32": (_sums(4, "+avxvnniint8", _dot("llvm.x86.avx2.vpdpbssd.256", 8, "<8 x i32>")),),
    "dot_i16i16i32": (
        _sums(2, "+avx512vnni", _dot("llvm.x86.avx512.vpdpwssd.512", 16, "<16 x i32>")),
        _sums(2, "+avx512bw", _dot("llvm.x86.avx512.pmaddw.d.512", 16, "<32 x i16>", False)),
        _sums(2, "+avx2", _dot("llvm.x86.avx2.pmadd.wd", 8, "<16 x i16>", False)),
        _sums(2, "+sse2", _dot("llvm.x86.sse2.pmadd.wd", 4, "<8 x i16>", False)),
    ),
}
"""The instructions for each intrinsic, the best first; each intrinsic has 16 lanes."""
