"""Machine code from LLVM's text, by llvmlite.

Apart from the writer of the text, which cached code does not need.
"""

import re
from itertools import count
from typing import NamedTuple

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from minimlc.loops.values.errors import BuildError


class Machine(NamedTuple):
    """The target of code: LLVM's names of the CPU and its features, and the vector width."""

    cpu: str
    features: str
    vector_bits: int


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
            return _store_lanes(module, target)
    return _store_lanes(_parsed(text, target), target)


def _parsed(text: str, target: llvm.TargetMachine) -> llvm.ModuleRef:
    """The text as a module in a new context: LLVM's common one keeps all it has seen for good."""
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
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
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    NewPassManager._dispose(passes)  # llvmlite's own close() frees nothing here: 86 KiB
    passes.detach()


def _is_valid(module: llvm.ModuleRef) -> bool:
    try:
        module.verify()
    except RuntimeError:
        return False
    return True


_OFF = "i1 (?:false|undef|poison)"
_ONE_LANE = re.compile(
    r"(?:tail )?call void @llvm\.masked\.store\.v\d+(?P<lane>i\d+)\.p0\("
    r"(?P<value><\d+ x i\d+> %[^,]+), ptr (?:[^%@,]*? )?(?P<address>[%@][^,]+), "
    rf"<\d+ x i1> <(?P<before>(?:{_OFF}, )*)i1 true(?:, {_OFF})*>\)(?: #\d+)?"
)


def _store_lanes(module: llvm.ModuleRef, target: llvm.TargetMachine) -> llvm.ModuleRef:
    """The module with a scalar store for each masked store of one lane of integers.

    NB: LLVM 22.1.0 for x86 writes such a lane as wide as it was before a truncation, past its end
    (llvm-project issue 179489). Such masks come from guarded loops that LLVM has vectorized.
    """
    if not any(function.name.startswith("llvm.masked.store") for function in module.functions):
        return module
    numbers = count()

    def scalar(store: re.Match[str]) -> str:
        number, lane, at = next(numbers), store["lane"], store["before"].count("i1")
        return (
            f"%lane.address{number} = getelementptr {lane}, ptr {store['address']}, i64 {at}\n"
            f"  %lane{number} = extractelement {store['value']}, i64 {at}\n"
            f"  store {lane} %lane{number}, ptr %lane.address{number}, align 1"
        )

    text = str(module)
    changed = _ONE_LANE.sub(scalar, text)
    return module if changed == text else _parsed(changed, target)


def compile_object(text: str, machine: Machine, *, passes: bool = True) -> bytes:
    """Machine code, as an object file, for LLVM text; without `passes`, as it is written."""
    target = target_machine(machine)
    return target.emit_object(optimize(text, target) if passes else _parsed(text, target))


def compile_assembly(text: str, machine: Machine) -> str:
    """The assembly listing of the machine code."""
    target = target_machine(machine)
    return target.emit_assembly(optimize(text, target))
