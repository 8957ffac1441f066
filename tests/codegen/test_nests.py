"""Random nests of loops, conditions and storage mean on every target what they mean."""

from collections.abc import Callable, Sequence

import pytest

from minimlc.loops.values.module import IRModule
from minimlc.services.threads.parallel import set_num_threads
from minimlc.targets.python.compile import compile_python
from tests.codegen.c_programs import compiled as compiled_c
from tests.codegen.machines import MACHINES
from tests.codegen.nests import Nest, compare
from tests.codegen.test_llvm_loops import compiled
from tests.guard_pages import isolated, needs_guard_pages, needs_masks
from tests.helpers import some_and_more

pytestmark = [needs_guard_pages, pytest.mark.many]
COUNT = 6


def first_wrong(check: Callable[[int], None], seeds: Sequence[int]) -> str:
    """The first seed that is wrong, and why; one fork for all of them where none is."""

    def every(some: Sequence[int]) -> str:
        def work() -> None:
            set_num_threads(1)
            for seed in some:
                check(seed)

        return isolated(work, 300)

    if not every(seeds):
        return ""
    return next(f"seed {seed}: {why}" for seed in seeds if (why := every([seed])))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float16", "int8", "float64"])
@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
@pytest.mark.parametrize("seeds", some_and_more(range(2), range(COUNT)), ids=len)
def test_llvm(target, dtype, seeds):
    if "+avx" in target.features:
        needs_masks()

    def check(seed: int) -> None:
        nest = Nest(seed, dtype)
        func = nest.func()
        compare(nest, func, compiled(func, target))

    start = 100 * MACHINES.index(target)
    assert first_wrong(check, [start + seed for seed in seeds]) == ""


@pytest.mark.requires("cc")
@pytest.mark.parametrize("dtype", ["int32", "float32", "float16", "int8", "float64"])
def test_c(dtype):
    nests = {f"f{seed}": Nest(seed, dtype) for seed in range(COUNT)}
    functions = {name: nest.func() for name, nest in nests.items()}
    kernels = compiled_c(functions)

    def check(seed: int) -> None:
        name = f"f{seed}"
        compare(nests[name], functions[name], kernels[name])

    assert first_wrong(check, range(COUNT)) == ""


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_python(dtype):
    def check(seed: int) -> None:
        nest = Nest(seed, dtype)
        func = nest.func()
        compare(nest, func, compile_python(IRModule.of({"f": func}))["f"])

    assert first_wrong(check, range(5)) == ""
