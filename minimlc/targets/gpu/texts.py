"""The kernels of a module as text, in each language."""

from collections.abc import Callable
from functools import partial

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.module import IRModule
from minimlc.targets.gpu.cuda import CUDA
from minimlc.targets.gpu.emit import Language, emit
from minimlc.targets.gpu.opencl import OPENCL
from minimlc.targets.gpu.wgsl import WGSL

LANGUAGES = {language.name: language for language in (CUDA, OPENCL, WGSL)}


def texts(module: IRModule) -> dict[str, Callable[[], str]]:
    """Writers of the kernels of a module's primitive functions, by language. `BuildError` E510 for
    a function that cannot be launched, E511 for what a language lacks.
    """
    return {name: partial(_text, module, language) for name, language in LANGUAGES.items()}


def _text(module: IRModule, language: Language) -> str:
    functions = {name: func for name, func in module.entries if isinstance(func, PrimFunc)}
    return emit(functions, language).text
