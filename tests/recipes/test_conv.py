"""Convolutions: the recipe against the loops' meaning."""

from dataclasses import replace

import numpy as np
import pytest

import minimlc as mlc
from benchmarks.programs import graph
from minimlc import recipes, te
from minimlc.graphs.ir.nodes import TensorType
from minimlc.loops.ir.nodes import Load, Store
from minimlc.loops.ir.walks import blocks_in, loops_in
from minimlc.loops.lower.lower import lower
from minimlc.loops.schedule import Schedule
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.node import nodes_of, walk
from minimlc.script import T
from tests.helpers import refuses
from tests.recipes.programs import arguments, conv2d, interpreted, run, target

pytestmark = pytest.mark.many

CASES = [
    {"n": 1, "c": 3, "h": 8, "w": 10, "o": 16},
    {"n": 2, "c": 4, "h": 9, "w": 9, "o": 24},
    {"n": 1, "c": 2, "h": 9, "w": 9, "o": 8, "kernel": 3, "stride": 2},
    {"n": 3, "c": 5, "h": 6, "w": 4, "o": 32, "kernel": 1},
    {"n": 1, "c": 1, "h": 12, "w": 6, "o": 8, "kernel": 5},
    {"n": 1, "c": 2, "h": 9, "w": 13, "o": 16},  # 77 pixels: the last tile is not whole
    {"n": 1, "c": 2, "h": 3, "w": 15, "o": 16},  # a prime number of pixels in a row
    {"n": 1, "c": 5, "h": 5, "w": 4, "o": 8, "kernel": 2},
    {"n": 1, "c": 6, "h": 4, "w": 8, "o": 8, "kernel": 1},  # pixels are lanes, and 8 = 6 + 2
    {"n": 1, "c": 2, "h": 5, "w": 17, "o": 8, "kernel": 3, "stride": 2},
    {"n": 1, "c": 1, "h": 5, "w": 18, "o": 8, "kernel": 3},
    {"n": 1, "c": 2, "h": 3, "w": 18, "o": 8, "kernel": 3},  # one row of pixels
    {"n": 1, "c": 3, "h": 8, "w": 9, "o": 10},  # channels are rounded up to 12, or to 16
    {"n": 2, "c": 2, "h": 9, "w": 9, "o": 21, "kernel": 3, "stride": 2},
    {"n": 2, "c": 2, "h": 7, "w": 7, "o": 3},
]


def scheduled(mod, chosen=None):
    return recipes.conv2d(Schedule(mod, check=False), target=chosen).mod


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_means_the_same(case, bits):
    mod = conv2d(**case)
    made = scheduled(mod, target(bits))
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made, arrays), means, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(made, arrays), means, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", [CASES[1], CASES[2], CASES[-2]], ids=str)
def test_halves_are_added_up_in_float32(case, dtype):
    mod = conv2d(**case, dtype=dtype)
    made = scheduled(mod, target())
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made, arrays), means, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(made, arrays), means, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("channels", "lanes"), [(66, 8), (68, 4), (72, 8), (3, 4)])
def test_channels_that_fill_no_vectors_are_rounded_up(channels, lanes):
    """Or fill halves of them. Zeros come where the weights are packed; none of their sums is
    written.
    """
    mod = conv2d(n=1, c=4, h=9, w=9, o=channels)
    made = recipes.conv2d(Schedule(mod, check=False), target=target(256))
    loops = {loop.var.name: (loop.kind, loop.extent.value) for loop in loops_in(made.func.body)}
    sums = next(name for name in made.blocks() if name.endswith("_update"))
    assert loops[made.loops(sums)[-1]] == ("vectorized", lanes)
    weights = made.func.params[1]
    assert sum(load.buffer is weights for load in nodes_of(made.func.body, Load)) == 1


@pytest.mark.parametrize("channels", [16, 18])
def test_functions_that_are_much_code_are_written_once(channels):
    """Where pixels are lanes: rows of sums are written out, what is done with them is a loop."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("f4") for s in ((1, 3, 18, 18), (channels, 3, 3, 3)))
    mod = graph(lambda x, w: mlc.op.tanh(mlc.op.conv2d(x, w)), x, w)
    name = "fused_conv2d_tanh"
    func = mlc.run_passes(mod, mlc.passes.for_target(target(512)))[name]
    copied = [block for block in blocks_in(func.body) if block.name.startswith("conv2d_global_")]
    unrolled = [loop for loop in loops_in(func.body) if loop.kind == "unrolled"]
    assert copied and all(any(each in blocks_in(loop) for loop in unrolled) for each in copied)
    assert not any("tanh" in loop.script() for loop in unrolled)
    means = mlc.interpret(mod, "main", x, w)
    np.testing.assert_allclose(
        mlc.build(mod, cache=False)["main"](x, w), means, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_graphs_halves_are_widened_where_they_are_padded_and_packed(dtype):
    """Image and weights are copied once each, into float32."""
    shapes = {"x": (1, 4, 6, 6), "w": (16, 4, 3, 3)}
    x, w = (mlc.Var(name, TensorType(shape, dtype)) for name, shape in shapes.items())
    bb = mlc.BlockBuilder()
    with bb.function("main", [x, w]):
        with bb.dataflow():
            out = bb.emit_output(mlc.op.conv2d(x, w, padding=1))
        bb.emit_func_output(out)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(to_numpy(dtype)) for shape in shapes.values()]
    lib = mlc.build(bb.get(), cache=False)
    found, means = lib["main"](*arrays), mlc.interpret(bb.get(), "main", *arrays)
    step = 2.0**-10 if dtype == "float16" else 2.0**-7
    np.testing.assert_allclose(found.astype("f4"), means.astype("f4"), rtol=step, atol=step / 8)
    own = mlc.passes.default_pipeline
    allocs = mlc.run_passes(bb.get(), own)["conv2d"].allocs
    assert {buffer.dtype for buffer in allocs} == {"float32"}


def test_an_image_of_two_convolutions_is_made_once():
    """Their common input is not made anew in each, where it would be made for every product."""
    image = te.placeholder((1, 8, 10, 10), "bfloat16", name="image")
    made = te.compute(image.shape, lambda *at: T.exp(image[at]), name="made")
    outs = []
    for number in range(2):
        weights = te.placeholder((16, 8, 3, 3), "bfloat16", name=f"weights{number}")
        axes = [
            te.reduce_axis((0, size), name=name) for size, name in ((8, "c"), (3, "p"), (3, "q"))
        ]

        def element(n, o, i, j, weights=weights, axes=axes):
            c, p, q = axes
            pixel = made[n, c, i + p, j + q].astype("float32")
            return te.sum(pixel * weights[o, c, p, q].astype("float32"), axis=axes)

        outs += [weights, te.compute((1, 16, 8, 8), element, name=f"out{number}")]
    mod = mlc.IRModule.of({"main": te.create_prim_func([image, *outs])})
    text = recipes.apply(mod).script()
    assert text.count("T.exp") == 1
    assert text.count("_update") >= 2


@pytest.mark.parametrize(
    ("features", "kernel", "most"),
    [("+avx2", 3, 6), ("+avx2,+avx512f", 3, 7), ("+avx2,+avx512f", 1, 13)],
)
def test_a_tile_fills_the_registers(features, kernel, most):
    """Those of a window are for its columns, too, where there are many."""
    side = kernel - 1
    mod = conv2d(n=1, c=600, h=28 + side, w=26 + side, o=16, kernel=kernel)
    chosen = replace(target(), features=features)
    made = recipes.conv2d(Schedule(mod, check=False), target=chosen)
    sums = next(name for name in made.blocks() if name.endswith("_update"))
    loops = {loop.var.name: (loop.kind, loop.extent.value) for loop in loops_in(made.func.body)}
    assert [loops[name] for name in made.loops(sums)[-2:]] == [
        ("unrolled", most),
        ("vectorized", 16),
    ]


@pytest.mark.parametrize(("l2", "shared"), [(1 << 20, 1), (1 << 16, 2)])
def test_sums_that_outgrow_the_second_level_are_kept_for_a_group_of_pixels(l2, shared):
    mod = conv2d(n=1, c=4, h=18, w=34, o=16)
    chosen = replace(target(l1=8192, l2=l2), features="+avx2,+avx512f")
    made = recipes.conv2d(Schedule(mod, check=False), target=chosen)
    sums, copy = (made.loops(name) for name in ("out_update", "out_global"))
    assert [a == b for a, b in zip(sums, copy, strict=False)].index(False) == shared
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made.mod, arrays), means, rtol=1e-4, atol=1e-5)


def test_few_tiles_ask_for_the_next_weights():
    few, many = (conv2d(n=1, c=8, h=side, w=side, o=32, kernel=1) for side in (7, 49))
    assert "prefetch" in scheduled(few, target()).script()
    assert "prefetch" not in scheduled(many, target()).script()
    large = scheduled(conv2d(n=1, c=64, h=9, w=9, o=32), target(l2=1 << 16))["conv"]
    loops = {loop.var.name: loop for loop in loops_in(large.body)}
    (note,) = [dict(loop.annotations)["prefetch"] for loop in loops.values() if loop.annotations]
    (partial,) = [each for each in large.allocs if each.name.endswith("_rf")]
    assert loops[note[1]].extent.value == partial.shape[0] == 2  # of all channels, half at a time


@pytest.mark.parametrize(("l1", "block"), [(4096, 4), (1, 1), (1 << 15, 8)])
def test_weights_are_taken_by_blocks_that_the_first_level_holds(l1, block):
    mod = conv2d(n=1, c=8, h=9, w=9, o=16)
    made = recipes.conv2d(Schedule(mod, check=False), target=target(l1=l1))
    sums = next(name for name in made.blocks() if name.endswith("_update"))
    loops = {loop.var.name: loop.extent.value for loop in loops_in(made.func.body)}
    taken = [loops[name] for name in made.loops(sums) if name.startswith("ax2")]
    parts = [8 // block, block] if block < 8 else [block]
    assert taken[: len(parts)] == parts
    arrays = arguments(mod)
    np.testing.assert_allclose(
        run(made.mod, arrays), interpreted(mod, arrays), rtol=1e-4, atol=1e-5
    )


def test_long_sums_are_of_partial_ones():
    """One after the other, 1152 products of normal numbers are off by 5.4e-7 of their size."""
    mod = conv2d(n=1, c=128, h=9, w=9, o=32)
    image, weights, _ = arrays = arguments(mod)
    sums = run(scheduled(mod), arrays)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(float), (3, 3), axis=(2, 3))
    exact = np.einsum("ncijpq,ocpq->noij", windows, weights.astype(float))
    assert rms(sums - exact) / rms(exact) < 3.6e-7


@pytest.mark.many
def test_whatever_is_drawn_is_a_convolution():
    """One pixel at a time, too, where sums are of partial ones."""
    mod = conv2d(n=1, c=128, h=9, w=9, o=32)
    arrays = arguments(mod)
    means, ones = interpreted(mod, arrays), 0
    for key in range(40):
        made = recipes.conv2d(Schedule(mod, check=False, key=key), target=target(512))
        ones += made.trace.decisions["pixels"] == 1
        np.testing.assert_allclose(run(made.mod, arrays), means, rtol=1e-4, atol=1e-4)
    assert ones > 0


def rms(array):
    return float(np.sqrt(np.mean(np.square(array, dtype=float))))


@pytest.mark.parametrize("groups", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("kernel", [1, 3])
def test_a_tile_stays_in_a_group_of_channels(groups, kernel):
    """Then its lanes read the same pixels: each is one load, not one for each lane."""
    rng = np.random.default_rng(groups)
    x = rng.standard_normal((1, 32, 7, 9), "float32")
    w = rng.standard_normal((64, 32 // groups, kernel, kernel), "float32")
    mod = graph(lambda x, w: mlc.op.conv2d(x, w, groups=groups, padding=kernel // 2), x, w)
    library = mlc.build(mod, target(128), cache=False)
    means = mlc.interpret(mod, "main", x, w)
    np.testing.assert_allclose(library["main"](x, w), means, rtol=1e-4, atol=1e-4)
    (func,) = [f for _, f in library.mod.entries if isinstance(f, mlc.PrimFunc)]
    sums = [
        (loop.var, store)
        for loop in loops_in(lower(func).body)
        if loop.kind == "vectorized"
        for store in nodes_of(loop.body, Store)
        if len({load.buffer for load in nodes_of(store.value, Load)}) == 3
    ]
    images = {"x0", "A", "conv2d_pad"}
    read = [(var, load) for var, store in sums for load in nodes_of(store.value, Load)]
    places = [(var, load.indices) for var, load in read if load.buffer.name in images]
    assert places and not any(var in walk(index) for var, found in places for index in found)


@pytest.mark.parametrize(
    ("size", "inputs", "outputs", "groups", "kernel", "stride", "pad"),
    [
        (50, 6, 16, 1, 3, 1, 1),
        (50, 6, 16, 1, 3, 1, 0),
        (33, 5, 8, 1, 5, 2, 2),
        (40, 8, 16, 2, 3, 1, 1),
        (48, 12, 8, 1, 1, 1, 0),
        (31, 4, 24, 1, 1, 2, 0),
    ],
)
def test_one_row_is_an_image_too(size, inputs, outputs, groups, kernel, stride, pad):
    """Its weights have no axis for rows, and none is left of a window of one number."""
    rng = np.random.default_rng(size)
    x = rng.standard_normal((2, inputs, size), "float32")
    w = rng.standard_normal((outputs, inputs // groups, kernel), "float32")
    options = {"groups": groups, "strides": stride, "padding": pad}
    mod = graph(lambda x, w: mlc.op.conv1d(x, w, **options), x, w)
    means = mlc.interpret(mod, "main", x, w)
    library = mlc.build(mod, target(128), cache=False)
    np.testing.assert_allclose(library["main"](x, w), means, rtol=1e-4, atol=1e-4)
    (func,) = [f for _, f in library.mod.entries if isinstance(f, mlc.PrimFunc)]
    assert any(buffer.scope == "local" for buffer in func.allocs)  # by the recipe


@pytest.mark.parametrize(
    "channel",
    [
        lambda o, c: o % 2 + c,
        lambda o, c: (o + c) % 4,
        lambda o, c: o // 16 + c,
        lambda o, c: o // 8 * 4 + c,
        lambda o, c: 3 - c,
    ],
)
def test_other_numbers_of_input_channels_are_right_too(channel):
    image, w = te.placeholder((1, 8, 16, 16), name="x"), te.placeholder((16, 4, 1, 1), name="w")
    c, p, q = (te.reduce_axis((0, size), name) for size, name in ((4, "c"), (1, "p"), (1, "q")))
    out = te.compute(
        (1, 16, 16, 16),
        lambda b, o, i, j: te.sum(
            image[b, channel(o, c), i + p, j + q] * w[o, c, p, q], axis=[c, p, q]
        ),
        name="out",
    )
    mod = mlc.IRModule.of({"main": te.create_prim_func([image, w, out])})
    arrays = arguments(mod)
    made = recipes.apply(mod, target(512))
    np.testing.assert_allclose(run(made, arrays), interpreted(mod, arrays), rtol=1e-4, atol=1e-5)


def test_an_image_in_one_axis_is_no_convolutions():
    image, w = te.placeholder((4 * 18 * 18,), name="x"), te.placeholder((16, 4, 3, 3), name="w")
    c, p, q = (te.reduce_axis((0, size), name) for size, name in ((4, "c"), (3, "p"), (3, "q")))
    out = te.compute(
        (1, 16, 16, 16),
        lambda b, o, i, j: te.sum(
            image[(c * 18 + i + p) * 18 + j + q] * w[o, c, p, q], axis=[c, p, q]
        ),
        name="out",
    )
    mod = mlc.IRModule.of({"main": te.create_prim_func([image, w, out])})
    refuses("E170", lambda: scheduled(mod, target()))
    arrays = arguments(mod)
    made = recipes.apply(mod, target())
    np.testing.assert_allclose(run(made, arrays), interpreted(mod, arrays), rtol=1e-4, atol=1e-5)


def test_it_is_made_of_public_primitives_alone():
    mod = conv2d(2, 4, 9, 9, 24)
    sch = recipes.conv2d(Schedule(mod, check=False), target=target())
    again = Schedule.replay(mod, mlc.Trace.from_json(sch.trace.to_json()))
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)


def test_apply_finds_it():
    mod = conv2d(1, 4, 10, 10, 32)
    chosen = mlc.Target.host()
    func = scheduled(mod, chosen)["conv"].with_attr(recipes.SCHEDULED, True)
    assert mlc.structural_equal(recipes.apply(mod, chosen)["conv"], func)


def test_refusals():
    refuses("E170", lambda: scheduled(conv2d(1, 2, 6, 6, 1), target()), "do not fill vectors of 8")
    refuses("E170", lambda: scheduled(conv2d(1, 2, 3, 3, 8), target()), "1 pixels")
    whole = conv2d(1, 2, 8, 8, 8, dtype="int32")
    refuses("E170", lambda: scheduled(whole), "no block is")


def test_filters_of_one_channel_each_go_along_rows():
    """With what follows element by element computed piece by piece, in the same loops."""
    x, w = (
        np.random.default_rng(0).standard_normal(s, np.float32)
        for s in ((1, 8, 9, 9), (8, 1, 3, 3))
    )

    def program(a):
        return mlc.op.relu(mlc.op.conv2d(a, mlc.constant(w), padding=1, groups=8))

    mod = graph(program, x)
    lib = mlc.build(mod, cache=False)
    (func,) = [f for _, f in lib.mod.entries if isinstance(f, mlc.PrimFunc)]
    assert func.params[1].shape == w.shape  # not by channels
    np.testing.assert_allclose(lib["main"](x), mlc.interpret(mod, "main", x), rtol=1e-5, atol=1e-5)


def test_a_residual_and_a_relu_are_added_as_sums_are_written():
    x, y, w = (
        np.random.default_rng(0).standard_normal(s, np.float32)
        for s in ((1, 4, 6, 6), (1, 16, 6, 6), (16, 4, 3, 3))
    )

    def program(a, b):
        return mlc.op.relu(mlc.op.add(mlc.op.conv2d(a, mlc.constant(w), padding=1), b))

    mod = graph(program, x, y)
    lib = mlc.build(mod, cache=False)
    (func,) = [f for _, f in lib.mod.entries if isinstance(f, mlc.PrimFunc)]
    assert not any(buffer.shape == func.params[-1].shape for buffer in func.allocs)
    means = mlc.interpret(mod, "main", x, y)
    np.testing.assert_allclose(lib["main"](x, y), means, rtol=1e-4, atol=1e-5)
