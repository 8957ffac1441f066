"""Schedules for GPUs: what each thread of a launch does.

Products are computed by tiles, what is between them row by row; of any other nest, each element has
a thread. Each nest is a launch.
"""

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any

from minimlc.loops.proofs.access import top_statements
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.target import Target
from minimlc.recipes.elementwise import is_untouched
from minimlc.recipes.gpu.each import in_threads, inlined, reduced
from minimlc.recipes.gpu.rows import in_parts, rows
from minimlc.recipes.gpu.tensor import tensor_product
from minimlc.recipes.gpu.tiles import product
from minimlc.recipes.programs import programs
from minimlc.recipes.views import Draft
from minimlc.services.checks.programs import race_of
from minimlc.targets.gpu.kernels import kernels
from minimlc.targets.gpu.limits import CUDA_ASKED, CUDA_LIMITS, check_limits


def for_gpu(sch: Draft, target: Target) -> Draft:
    """The schedule of a whole function. What cannot be launched is left out; at worst all is."""
    wide = target.name == "opencl"
    fitting = partial(_fitting, wide)
    whole = fitting(partial(programs, target=target), sch, None)
    if whole is not sch or race_of(sch.func):
        return whole
    for name in sch.blocks():
        if not wide:
            sch = fitting(tensor_product, sch, name)
        if name in sch.blocks() and is_untouched(sch, name):
            sch = fitting(product, sch, name, wide)
    sch = inlined(sch)
    for name in sch.blocks():
        sch = fitting(in_parts, sch, name)
    runs = groupby(sch.blocks(), partial(is_untouched, sch))
    for names in [list(run) for untouched, run in runs if untouched]:
        sch = fitting(rows, sch, names)
    for name in sch.blocks():
        if name in sch.blocks() and is_untouched(sch, name) and sch.loops_of(name, "R"):
            sch = fitting(reduced, sch, name)
    for nest in top_statements(sch.func):
        sch = fitting(partial(in_threads, vectors=not wide), sch, nest)
    return sch


def _fitting(opencl: bool, plan: Callable[..., Draft], sch: Draft, *args: Any) -> Draft:
    """The schedule by a plan; the old one where it does not fit, is no program of kernels, or too
    large for a device.
    """
    least = CUDA_LIMITS._replace(apart=True) if opencl else CUDA_ASKED
    try:
        after = plan(sch, *args)
        for kernel in kernels(after.func_name, after.func, cuda=not opencl).kernels:
            check_limits(kernel, least)
    except CompileError:
        return sch
    return after
