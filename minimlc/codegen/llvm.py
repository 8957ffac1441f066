"""The LLVM backend: lowered functions to LLVM's text, that to machine code.

The text is written directly, so `lib.source("llvm")` shows exactly what was written here.
"""

from collections.abc import Mapping
from typing import NamedTuple

import llvmlite.binding as llvm

from minimlc.codegen.bounds import Site
from minimlc.codegen.llvm_entry import symbol
from minimlc.codegen.llvm_lines import LinedCode, LinedKernel, line_records
from minimlc.codegen.llvm_parallel import OPENMP, POOL, Kernel
from minimlc.codegen.llvm_value import Code, Module, facts
from minimlc.codegen.lower import lower
from minimlc.errors import BuildError
from minimlc.node import walk
from minimlc.tir.nodes import Buffer, PrimFunc, Store


class Machine(NamedTuple):
    """What code is made for: LLVM's names of the CPU and its features, and the vector width."""

    cpu: str
    features: str
    vector_bits: int


class Emitted(NamedTuple):
    """LLVM text, and what the error slots of its checked accesses mean."""

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
    openmp: bool = False,
    extra: str = "",
    lines: bool = False,
) -> Emitted:
    """LLVM's text for primitive functions. Each returns 0, or 1 (index outside), 2 (no memory).

    With `check`, each takes one more pointer: to the slots that describe a wrong access. `extra`
    is text to append: entry points that call the functions. With `lines`, instructions note which
    line of the script they are for (`llvm_lines`).
    """
    module = Module()
    sites: list[Site] = []
    for name, func in functions.items():
        module.definitions.append(
            _function(
                name, lower(func, tensors=True, whole=check), machine, module, sites, check, lines
            )
        )
    runtime = (OPENMP if openmp else POOL) if module.tasks else ""
    attributes = f'attributes #0 = {{ nounwind "prefer-vector-width"="{machine.vector_bits}"'
    if machine.vector_bits >= 512:
        attributes += ' "min-legal-vector-width"="512"'
    parts = [
        "; minimlc",
        *module.declarations.values(),
        runtime.strip(),
        *module.definitions,
        extra,
        attributes + " }",
        line_records(module.scopes) if lines else "",
    ]
    return Emitted("\n\n".join(part for part in parts if part) + "\n", tuple(sites))


def _function(
    name: str,
    func: PrimFunc,
    machine: Machine,
    module: Module,
    sites: list[Site],
    check: bool,
    lines: bool,
) -> str:
    features = frozenset(machine.features.split(","))
    kernel = (LinedKernel if lines else Kernel)(
        LinedCode(module) if lines else Code(module),
        half_conversions="+f16c" in features,
        sites=sites if check else None,
        vector_bits=machine.vector_bits,
        program=func,
        symbol=symbol(name),
        features=features,
    )
    stored = written(func)
    parameters = []
    for number, buffer in enumerate(func.params):
        kernel.pointers[buffer] = f"%p{number}"
        readonly = "" if buffer in stored else " readonly"
        parameters.append(f"ptr {facts(buffer)}{readonly} %p{number}")
    if check:
        parameters.append("ptr %error")
    kernel.stmt(func.body)
    kernel.finish()
    return kernel.code.function(f"define i32 @{symbol(name)}({', '.join(parameters)}) #0")


_READY: list[bool] = []


def _prepare() -> None:
    if not _READY:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _READY.append(True)


def target_machine(machine: Machine) -> llvm.TargetMachine:
    """LLVM's code generator for a machine of this process's architecture."""
    _prepare()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3, reloc="pic", codemodel="default"
    )


def optimize(text: str, target: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parse LLVM text and run the optimisation pipeline on it.

    NB: LLVM 22 can move a shuffle above what it uses, after vectorizing a loop by itself, and its
    code generator ends the process on such a module. So the result is verified, made again without
    LLVM's own vectors if it is wrong, and left as it was written if it still is.
    """
    for vectorize in (True, False):
        module = _parsed(text, target)
        _run_pipeline(module, target, vectorize)
        if _is_valid(module):
            return module
    return _parsed(text, target)


def _parsed(text: str, target: llvm.TargetMachine) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise BuildError(
            f"LLVM refuses the code written for it (a fault of minimlc):\n{error}"
        ) from None
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    return module


def _run_pipeline(module: llvm.ModuleRef, target: llvm.TargetMachine, vectorize: bool) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = vectorize
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)


def _is_valid(module: llvm.ModuleRef) -> bool:
    try:
        module.verify()
    except RuntimeError:
        return False
    return True


def compile_object(text: str, machine: Machine) -> bytes:
    """Machine code, as an object file, for LLVM text."""
    target = target_machine(machine)
    return target.emit_object(optimize(text, target))


def compile_assembly(text: str, machine: Machine) -> str:
    """The assembly listing of the machine code."""
    target = target_machine(machine)
    return target.emit_assembly(optimize(text, target))
