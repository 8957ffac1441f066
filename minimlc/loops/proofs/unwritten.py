"""A read of an element that was never written, and the error for its consequences.

The elements of a function's own buffer are undefined until they are written. A value read before
that is unwritten, and so is whatever is computed from it; the error is to decide by it, or to store
it in a parameter.
"""

from collections.abc import Mapping
from math import isinf
from typing import NamedTuple

from minimlc.loops.ir.nodes import Binary, Block, Buffer, Const, Load, Store
from minimlc.loops.ir.operators import REDUCERS, start_of
from minimlc.loops.proofs.access import element_key
from minimlc.loops.proofs.witness import Element
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import span_of


class Unwritten(NamedTuple):
    """A read of an element that holds nothing yet: which, in which iteration, and what for."""

    load: Load
    element: Element
    values: Mapping[str, int]
    block: Block | None
    into: Store | None

    def error(
        self,
        target: Buffer | None = None,
        place: Element | None = None,
        kind: type[CompileError] = CompileError,
    ) -> CompileError:
        """The error where `target[place]` would get a value computed from the element, or where
        such a value would decide something.
        """
        where = f' in block "{self.block.name}"' if self.block is not None else ""
        at = ", ".join(f"{name}={value}" for name, value in self.values.items())
        read = f"{_named(self.load.buffer, self.element)} is read{where}{at and f' at {at}'}"
        lines = (span_of(part) for part in (self.load, self.into, self.block) if part is not None)
        example = "it decides what runs, or where"
        if target is not None:
            example = f"{_named(target, place)} would come of it"
        return kind(
            f"{read} before anything was written there",
            code="E131",
            span=next((span for span in lines if span is not None), None),
            example=example,
            hint=self.advice(),
        )

    def advice(self) -> str:
        """A line to write, and where: the start of a sum, for one."""
        element, into = self.load.script(), self.into
        value = into.value if into is not None and is_update(self.load, into) else None
        if not isinstance(value, Binary) or value.op not in REDUCERS:
            return f"write {_named(self.load.buffer, self.element)} first"
        start = _start(value.op, value.dtype)
        if self.block is not None and any(it.kind == "R" for it in self.block.iters):
            return f'with T.init(): {element} = {start}  # in block "{self.block.name}"'
        return f"{element} = {start}  # before what updates it"


def _start(op: str, dtype: str) -> str:
    """The start value of a reduction, as a script writes it."""
    start = start_of(op, dtype)
    infinite = isinstance(start, float) and isinf(start)
    return Const(start, dtype).script() if infinite else repr(start)


def _named(buffer: Buffer, element: Element | None) -> str:
    return buffer.name if element is None else f"{buffer.name}[{', '.join(map(str, element))}]"


def is_update(read: Load, into: Store | None) -> bool:
    """Whether a read is of the element that its value goes to."""
    return into is not None and element_key(read) == element_key(into)
