"""Recipes under the schedule fuzz's checks: random shapes, every back-end, the trace through JSON.

What a recipe makes must mean what the loops meant, whichever way its concurrent loops are taken,
on plain inputs and with NaN, infinities and zeros of both signs among them.
"""

import random
from collections.abc import Callable

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes, te
from minimlc.script import R, T
from tests.fuzz.one import round_trip
from tests.fuzz.programs import PROGRAMS
from tests.fuzz.subject import difference, subject
from tests.helpers import some_and_more
from tests.recipes.programs import SMALL_CACHES, conv2d, matmul, target

pytestmark = pytest.mark.many

Draw = Callable[[random.Random], mlc.IRModule]
SIZES = (1, 2, 3, 7, 8, 13, 16, 17, 31, 32, 40, 64, 67)
FLOATS = ("float32", "float32", "float64", "float16")
RECIPES = (
    recipes.attention,
    recipes.matmul,
    recipes.conv2d,
    recipes.transpose,
    recipes.windows,
    recipes.rowwise,
    recipes.elementwise,
)


def main_only(mod: mlc.IRModule) -> mlc.IRModule:
    """The module with its only primitive function as "main"."""
    (func,) = [func for _, func in mod.entries if isinstance(func, mlc.PrimFunc)]
    return mlc.IRModule.of({"main": func})


def operator(build: Callable, *shapes: tuple[int, ...], dtype: str = "float32") -> mlc.IRModule:
    """The loops that a graph of operators becomes, unscheduled."""
    inputs = [mlc.Var(f"x{at}", R.Tensor(s, dtype)) for at, s in enumerate(shapes)]
    bb = mlc.BlockBuilder()
    with bb.function("main", inputs):
        with bb.dataflow():
            result = bb.emit_output(build(*inputs))
        bb.emit_func_output(result)
    algebra = (mlc.passes.simplify, mlc.passes.fold_transposes)  # may leave nothing to schedule
    passes = [step for step in mlc.passes.default_pipeline if step not in algebra]
    return main_only(mlc.run_passes(bb.get(), passes[: passes.index(recipes.apply)]))


def shape(rng: random.Random, axes: int) -> tuple[int, ...]:
    """Few elements, and an awkward number of them along each axis."""
    return tuple(rng.choice(SIZES[:6] if axes > 2 else SIZES) for _ in range(axes))


def softmax(rng: random.Random) -> mlc.IRModule:
    sizes = shape(rng, rng.choice((1, 2, 3)))
    return operator(lambda x: mlc.op.softmax(x, axis=-1), sizes, dtype=rng.choice(FLOATS))


def layer_norm(rng: random.Random) -> mlc.IRModule:
    sizes = shape(rng, 2)
    return operator(mlc.op.layer_norm, sizes, sizes[-1:], sizes[-1:], dtype=rng.choice(FLOATS[:3]))


def reduction(rng: random.Random) -> mlc.IRModule:
    reduce = rng.choice((mlc.op.sum, mlc.op.max, mlc.op.mean))
    sizes = shape(rng, rng.choice((1, 2, 3)))
    dtype = rng.choice(FLOATS)
    axis = tuple(sorted(rng.sample(range(len(sizes)), rng.randint(1, len(sizes)))))
    return operator(lambda x: reduce(x, axis=axis), sizes, dtype=dtype)


def chain(rng: random.Random) -> mlc.IRModule:
    sizes, dtype = shape(rng, rng.choice((1, 2, 3))), rng.choice(FLOATS)

    def build(x, y):
        return mlc.op.subtract(mlc.op.relu(mlc.op.add(mlc.op.multiply(x, x), y)), x)

    return operator(build, sizes, rng.choice((sizes, sizes[-1:])), dtype=dtype)


def stages(rng: random.Random) -> mlc.IRModule:
    """Element-wise blocks; some are used twice, or across rows."""
    n, m = shape(rng, 2)
    a = te.placeholder((n, m), "float32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * a[i, j], name="B")
    c = te.compute((n,), lambda i: b[i, 0] + 1.0, name="C")
    d = te.compute((n, m), lambda i, j: b[i, j] + b[i, m - 1 - j] + c[i], name="D")
    e = te.compute((n, m), lambda i, j: T.max(d[i, j], d[i, j] * 0.5), name="E")
    return mlc.IRModule.of({"main": te.create_prim_func([a, e])})


def turned(rng: random.Random) -> mlc.IRModule:
    sizes = shape(rng, rng.choice((2, 3)))
    axes = list(range(len(sizes)))
    rng.shuffle(axes)
    dtype = rng.choice((*FLOATS, "int8", "int32"))
    return operator(lambda x: mlc.op.permute_dims(x, tuple(axes)), sizes, dtype=dtype)


def pool(rng: random.Random) -> mlc.IRModule:
    size, step, around = rng.choice(((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 1, 0)))
    reduce = rng.choice((mlc.op.max_pool2d, mlc.op.avg_pool2d))
    sizes = (rng.choice((1, 2)), rng.choice((1, 3)), rng.choice((4, 9)), rng.choice((5, 8, 19)))

    def build(x):
        pooled = reduce(x, size, strides=step, padding=around)
        return mlc.op.multiply(mlc.op.relu(pooled), pooled) if rng.random() < 0.5 else pooled

    return operator(build, sizes)


def depthwise(rng: random.Random) -> mlc.IRModule:
    """out[n, c, i, j] += image[n, c, i * s + p, j * s + q] * weights[c, p, q]."""
    n, c, k, s = rng.choice((1, 2)), rng.choice((1, 3)), rng.choice((1, 3)), rng.choice((1, 2))
    h, w = rng.choice((5, 8)), rng.choice((7, 18, 35))
    dtype = rng.choice(("float32", "float64"))
    image = te.placeholder((n, c, h, w), dtype, name="image")
    weights = te.placeholder((c, k, k), dtype, name="weights")
    p, q = (te.reduce_axis((0, k), name=name) for name in "pq")

    def element(b, f, i, j):
        return te.sum(image[b, f, i * s + p, j * s + q] * weights[f, p, q], axis=[p, q])

    out = te.compute((n, c, (h - k) // s + 1, (w - k) // s + 1), element, name="out")
    return mlc.IRModule.of({"main": te.create_prim_func([image, weights, out])})


def scores(rng: random.Random) -> mlc.IRModule:
    """softmax(Q Kᵀ) V for several heads."""
    heads, n, m, width = rng.choice((1, 2)), rng.choice((5, 16, 21)), rng.choice((9, 17)), 8
    q, k, v = (
        te.placeholder((heads, size, width), "float32", name=name)
        for name, size in zip("QKV", (n, m, m), strict=True)
    )
    r, x, y, z = (
        te.reduce_axis((0, size), name=name)
        for name, size in zip("rxyz", (width, m, m, m), strict=True)
    )
    s = te.compute((heads, n, m), lambda h, i, j: te.sum(q[h, i, r] * k[h, j, r], axis=r), name="S")
    top = te.compute((heads, n), lambda h, i: te.max(s[h, i, x], axis=x), name="top")
    e = te.compute((heads, n, m), lambda h, i, j: T.exp(s[h, i, j] - top[h, i]), name="E")
    sums = te.compute((heads, n), lambda h, i: te.sum(e[h, i, y], axis=y), name="sums")
    p = te.compute((heads, n, m), lambda h, i, j: e[h, i, j] / sums[h, i], name="P")
    out = te.compute(
        (heads, n, width), lambda h, i, j: te.sum(p[h, i, z] * v[h, z, j], axis=z), name="out"
    )
    return mlc.IRModule.of({"main": te.create_prim_func([q, k, v, out])})


def product(rng: random.Random) -> mlc.IRModule:
    sizes = tuple(rng.choice(SIZES[:-2]) for _ in range(3))
    sides = rng.random() < 0.5, rng.random() < 0.5
    return main_only(matmul(*sizes, turned=sides, batch=rng.choice(((), (2,)))))


def convolution(rng: random.Random) -> mlc.IRModule:
    kernel, stride = rng.choice((1, 2, 3)), rng.choice((1, 2))
    sizes = rng.choice((1, 2)), rng.choice((1, 3)), rng.choice((5, 8)), rng.choice((6, 9))
    dtype = rng.choice(("float32", "float32", "bfloat16"))
    return main_only(conv2d(*sizes, rng.choice((8, 16, 12)), kernel, stride, dtype))


KINDS: dict[str, Draw] = {
    draw.__name__: draw
    for draw in (
        softmax,
        layer_norm,
        reduction,
        chain,
        stages,
        turned,
        pool,
        depthwise,
        scores,
        product,
        convolution,
    )
}
TARGETS = (target(256), target(128, **SMALL_CACHES), target(512))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("numbers", some_and_more(range(1), range(3)), ids=len)
def test_what_apply_makes_means_the_same(kind, numbers):
    for number in numbers:
        mod, chosen = KINDS[kind](random.Random(f"{kind} {number}")), TARGETS[number]
        made = recipes.apply(mod, chosen)
        assert difference(mod, made) == "", mod.script()


@pytest.mark.parametrize("kind", KINDS)
def test_recipes_give_a_right_schedule_or_refuse(kind):
    rng = random.Random(f"{kind} by hand")
    mod = KINDS[kind](rng)
    known = subject(mod)
    fitting = 0
    for recipe in RECIPES:
        try:
            sch = recipe(mlc.Schedule(mod, check=False), target=rng.choice(TARGETS))
        except mlc.ScheduleError as error:
            assert error.code == "E170", error
            continue
        fitting += 1
        assert difference(known, sch.mod, "interpreter", "backwards") == "", recipe.__name__
        assert round_trip(mod, sch) == "", recipe.__name__
    assert fitting or kind in ("reduction", "turned", "product", "convolution")
    assert known.intact()


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_program_can_be_given_to_apply(name):
    known = subject(PROGRAMS[name])
    assert difference(known, recipes.apply(known.mod), "interpreter", "backwards") == ""
    assert known.intact()


@pytest.mark.parametrize("count", [1, 2])
def test_threads_do_not_change_a_bit(count):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1024, 515), np.float32)
    before = mlc.num_threads()
    for op in (lambda a: mlc.op.softmax(a, axis=-1), mlc.op.gelu, mlc.op.permute_dims):
        mod = recipes.apply(operator(op, x.shape))
        assert "T.parallel" in mod.script()
        out = np.empty(mod["main"].params[-1].shape, np.float32)
        again = np.empty_like(out)
        function = mlc.build(mod, cache=False)["main"]
        try:
            mlc.set_num_threads(1)
            function(x, out)
            mlc.set_num_threads(count)
            function(x, again)
        finally:
            mlc.set_num_threads(before)
        assert out.tobytes() == again.tobytes()
