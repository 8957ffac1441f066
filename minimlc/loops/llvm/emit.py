"""The LLVM backend: lowered functions to LLVM's text (`machine` makes machine code of it).

The text is written directly, so `lib.source("llvm")` shows exactly what was written here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from minimlc.loops.ir.nodes import Buffer, PrimFunc, Store
from minimlc.loops.llvm.lines import line_records
from minimlc.loops.llvm.machine import Machine
from minimlc.loops.llvm.parallel import RUNTIME, parallel
from minimlc.loops.llvm.shared import Share
from minimlc.loops.llvm.stmt import Job, Statements
from minimlc.loops.llvm.value import IN_PLACE, Code, Module, facts, symbol
from minimlc.loops.lower.bounds import Site
from minimlc.loops.lower.lower import lower
from minimlc.loops.values.node import replace, walk


class Emitted(NamedTuple):
    """LLVM text, and the checked accesses that its error slots refer to."""

    text: str
    sites: tuple[Site, ...]


def written(func: PrimFunc) -> frozenset[Buffer]:
    """The buffers that a function stores to."""
    return frozenset(part.buffer for part in walk(func.body) if isinstance(part, Store))


def emit_llvm(
    functions: Mapping[str, PrimFunc],
    machine: Machine,
    *,
    check: bool = False,
    extra: str = "",
    lines: bool = False,
) -> Emitted:
    """LLVM's text for primitive functions. Each returns 0, or 1 (index outside), 2 (no memory).

    With `check`, each takes one more pointer: to the slots that describe a wrong access. `extra`
    is text to append: entry points that call the functions. With `lines`, instructions note which
    line of the script they are for (`lines`).
    """
    module = Module(lined=lines)
    sites: list[Site] = []
    features = frozenset(machine.features.split(","))
    for name, func in functions.items():
        lowered = lower(func, tensors=True, whole=check)
        if not check:  # where a wrong index is looked for, it is at the place where it was written
            lowered = replace(lowered, body=Share().visit(lowered.body))
        job = Job(lowered, symbol(name), features, machine.vector_bits)
        module.definitions.append(_function(job, module, sites if check else None))
    attributes = f'attributes #0 = {{ nounwind "prefer-vector-width"="{machine.vector_bits}"'
    if machine.vector_bits >= 512:
        attributes += ' "min-legal-vector-width"="512"'
    parts = [
        "; minimlc",
        *module.declarations.values(),
        RUNTIME if module.tasks else "",
        *module.definitions,
        extra,
        attributes + " }",
        line_records(module.scopes) if lines else "",
    ]
    return Emitted("\n\n".join(part for part in parts if part) + "\n", tuple(sites))


def _function(job: Job, module: Module, sites: list[Site] | None) -> str:
    code = Code(module)
    kernel = Statements(code, job, parallel, sites)
    stored, alone = written(job.program), IN_PLACE not in dict(job.program.attrs)
    parameters = []
    for number, buffer in enumerate(job.program.params):
        kernel.memory.pointers[buffer] = f"%p{number}"
        readonly = "" if buffer in stored else " readonly"
        parameters.append(f"ptr {facts(buffer, alone=alone)}{readonly} %p{number}")
    if sites is not None:
        parameters.append("ptr %error")
    kernel.stmt(job.program.body)
    kernel.finish()
    return code.function(f"define i32 @{job.symbol}({', '.join(parameters)}) #0")
