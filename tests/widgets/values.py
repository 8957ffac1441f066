"""Values for the tests of the views: a module on its way through three steps."""

from collections.abc import Callable

import numpy as np

import minimlc as mlc
from minimlc.deploy.memory import MemoryPlan, PlannedValue
from minimlc.deploy.profile import KernelTime
from minimlc.deploy.profile import Profile as Times
from minimlc.gpusim.profile import Profile
from minimlc.graphs.ir.nodes import TensorType
from minimlc.loops.schedule.schedule import Schedule
from minimlc.loops.te import te
from minimlc.loops.values.module import History, IRModule, Step
from minimlc.tune import Result, Tuned


def module(rows: int = 128, name: str = "main") -> IRModule:
    """A matrix-vector product."""
    a = te.placeholder((rows, 64), "float32", name="A")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="C")
    return IRModule.of({name: te.create_prim_func([a, c])})


def history() -> History:
    """A start, a step that changes something, one that does not, one that does."""
    first, second, third = module(), module(256), module(256, "other")
    return History(
        [
            Step("start", first, 0.0),
            Step("widen", second, 0.0123),
            Step("verify", second, 0.00045),
            Step("rename", third, 0.067),
        ]
    )


class Timing:
    """As the runtime's, with what the views read of it."""

    name = "mm"
    samples = (0.0021, 0.002, 0.0023)
    machine = "a machine"


def schedule() -> Schedule:
    """Two steps; the second one only annotates."""
    return Schedule(module()).split("i", factors=[None, 4]).annotate("C", "note", 1)


def product(size: int = 8) -> Schedule:
    """A matrix product, to be scheduled."""
    a = te.placeholder((size, size), "float32", name="A")
    b = te.placeholder((size, size), "float32", name="B")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return Schedule(IRModule.of({"mm": te.create_prim_func([a, b, c])}))


def arguments(count: int, *shape: int) -> list[np.ndarray]:
    """Numbers of float32 between 0 and 1, the same each time."""
    rng = np.random.default_rng(0)
    return [rng.random(shape, "float32") for _ in range(count)]


def profile(mod: IRModule) -> Profile:
    """The simulator's counts for a program, on zeros."""
    arrays = [np.zeros(p.shape, p.dtype) for p in mod["main"].params]
    return mlc.build(mod, "gpusim").profile("main", *arrays)


NET = """
@I.ir_module
class Module:
    @R.function
    def dense(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        R.func_attr({"primitive": True})
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.nn.relu(lv)
            R.output(lv1)
        return lv1

    @R.function
    def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.call("dense", (x, w), out=R.Tensor((2, 4), "float32"))
            b = R.nn.softmax(a, axis=-1)
            d = R.add(b, x)
            c = R.call("dense", (d, w), out=R.Tensor((2, 4), "float32"))
            R.output(a, c)
        return (a, c)
"""


def net() -> IRModule:
    """A graph function that calls a fused one twice."""
    return mlc.parse(NET)


def timed(*names: str) -> Times:
    """A profile of kernels, each a microsecond longer than the one before."""
    kernels = [
        KernelTime(name, (n + 1) * 1e-6, 64 * (n + 1), 8 * n or None, 0.25 * n or None)
        for n, name in enumerate(names)
    ]
    return Times("main", tuple(kernels), 1e-5, "a machine")


def memory_plan() -> MemoryPlan:
    """Three values; the last one is written over the second."""
    small, large = TensorType((32,), "float32"), TensorType((48,), "float32")
    values = (
        PlannedValue("a", small, 128, 0, 1, 0, None),
        PlannedValue("b", small, 128, 1, 2, 128, None),
        PlannedValue("c", large, 192, 2, 3, 128, 1),
    )
    return MemoryPlan("main", values, 384, (128, 256, 320, 192))


class Pretend:
    """A runner whose n-th program comes to the n-th result, each time; then Ctrl-C."""

    def __init__(self, *results: Result):
        self.results, self.known = iter(results), {}

    def submit(self, candidates):
        for each in candidates:
            result = self.known.get(each) or next(self.results, None)
            if result is None:
                raise KeyboardInterrupt
            self.known[each] = result
            yield result


def ok(seconds: float) -> Result:
    return Result("ok", (seconds,), (0.001,), host="a machine")


def halves(sch):
    """A loop cut at a place that is drawn."""
    sch, factors = sch.sample_perfect_tile(sch.loops(sch.blocks()[0])[0], 2)
    return sch.split(sch.loops(sch.blocks()[0])[0], factors)


RESULTS = (ok(0.004), Result("wrong", message="<b>3.0</b> is not 4.0"), ok(0.002), ok(0.008))


def tuned(*results: Result, observe: Callable | None = None, trials: int = 4) -> Tuned:
    """A search in which nothing is measured."""
    pretend = Pretend(*(results or RESULTS))
    return mlc.tune.search(module(64), space=halves, runner=pretend, trials=trials, observe=observe)
