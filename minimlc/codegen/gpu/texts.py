"""The kernels of a module as text, in each language."""

from collections.abc import Callable
from functools import partial

from minimlc.codegen.gpu.cuda import CUDA
from minimlc.codegen.gpu.emit import Language, emit
from minimlc.codegen.gpu.opencl import OPENCL
from minimlc.codegen.gpu.wgsl import WGSL
from minimlc.module import IRModule
from minimlc.tir.nodes import PrimFunc

LANGUAGES = {language.name: language for language in (CUDA, OPENCL, WGSL)}


def texts(module: IRModule) -> dict[str, Callable[[], str]]:
    """What writes the kernels of a module's primitive functions, by language. `BuildError` E510 for
    a function that cannot be launched, E511 for what a language lacks.
    """
    return {name: partial(_text, module, language) for name, language in LANGUAGES.items()}


def _text(module: IRModule, language: Language) -> str:
    functions = {name: func for name, func in module.entries if isinstance(func, PrimFunc)}
    return emit(functions, language).text
