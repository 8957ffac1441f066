"""Reductions along rows: the recipe against the loops' meaning."""

import numpy as np
import pytest

import minimlc as mlc
from benchmarks.programs import graph
from minimlc import recipes
from minimlc.loops.ir.nodes import IfThenElse, Load
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.lower.lower import lower
from minimlc.loops.proofs.arith import flat
from minimlc.loops.schedule import Schedule
from minimlc.loops.schedule.tree import find_block
from minimlc.loops.values.node import nodes_of, walk
from minimlc.script import R
from tests.recipes.programs import arguments, interpreted, run, target

pytestmark = pytest.mark.many


def softmax(*shape: int) -> mlc.IRModule:
    """The loops of a softmax along the last axis, unscheduled."""
    x = mlc.Var("x", R.Tensor(shape, "float32"))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            result = bb.emit_output(mlc.op.softmax(x))
        bb.emit_func_output(result)
    made = mlc.run_passes(bb.get(), [mlc.passes.legalize, mlc.passes.fuse_ops, mlc.passes.fuse_tir])
    (func,) = [func for _, func in made.entries if isinstance(func, mlc.PrimFunc)]
    return mlc.IRModule.of({"main": func})


def scheduled(mod: mlc.IRModule) -> mlc.IRModule:
    return recipes.rowwise(Schedule(mod, check=False), target=target()).mod


def rows_at_a_time(mod: mlc.IRModule) -> int:
    """How many rows one iteration of the outermost loops does."""
    (func,) = mod.functions.values()
    lanes = [loop for loop in loops_in(func.body) if loop.kind == "unrolled"]
    return next((lp.extent.value for lp in lanes if lp.var.name.startswith("i")), 1)


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ((8, 40), 4),
        ((2, 6, 20), 3),
        ((7, 40), 1),
        ((2, 40), 1),
        ((8, 200), 2),
        ((7, 200), 1),
        ((4, 1024), 2),
        ((4, 1025), 1),
        ((40,), 1),
    ],
    ids=str,
)
def test_short_rows_are_done_together(shape, rows):
    mod = softmax(*shape)
    made = scheduled(mod)
    assert rows_at_a_time(made) == rows
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made, arrays), means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(made, arrays), means, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [100, 136, 777, 1016, 1000])
def test_a_row_of_any_length_has_a_long_part_without_a_condition(length):
    mod = softmax(3, length)
    made = scheduled(mod)
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made, arrays), means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(made, arrays), means, rtol=1e-5, atol=1e-6)
    (func,) = made.functions.values()
    loops = loops_in(lower(func).body)
    conditional = [loop.var.name for loop in loops if isinstance(loop.body, IfThenElse)]
    assert all("_tail" in name for name in conditional)


def wide(bits: int) -> mlc.Target:
    return mlc.Target("llvm", "x86-64", "+avx512f,+avx512vl,+avx2,+fma", bits)


@pytest.mark.parametrize(("bits", "partial"), [(128, 4), (256, 8), (512, 4)])
def test_no_more_than_eight_lanes_are_added_up_one_after_the_other(bits, partial):
    mod = softmax(4, 1024)
    made = recipes.rowwise(Schedule(mod, check=False), target=wide(bits)).mod
    (func,) = made.functions.values()
    lanes = [loop.extent.value for loop in loops_in(func.body) if loop.kind == "vectorized"]
    assert min(lanes) == partial
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made, arrays), means, rtol=1e-5, atol=1e-6)


def test_a_long_row_is_gone_through_in_a_loop_on_wide_vectors():
    made = recipes.rowwise(Schedule(softmax(4, 1024), check=False), target=target(512, l3=4096)).mod
    (func,) = made.functions.values()
    around = [loop for loop in loops_in(func.body) if loop.var.name.startswith("k")]
    kinds = {loop.kind for loop in around if "_0" in loop.var.name and loop.extent.value == 16}
    assert "serial" in kinds


def notes(mod: mlc.IRModule) -> dict[str, object]:
    """The prefetches of the loops."""
    (func,) = mod.functions.values()
    return {
        lp.var.name: v for lp in loops_in(func.body) for k, v in lp.annotations if k == "prefetch"
    }


def normalized(*shape: int) -> mlc.IRModule:
    """The loops of a layer norm of rows, unscheduled."""
    x, scale = np.ones(shape, np.float32), np.ones(shape[-1], np.float32)
    return alone(mlc.op.layer_norm, x, scale, scale)


@pytest.mark.parametrize(
    ("bits", "asked"), [(256, [("A", "i"), ("layer_norm", "i")]), (512, [("A", "i")])]
)
def test_rows_from_afar_are_asked_for_a_row_ahead(bits, asked):
    """The input by the last sum over it, the output by what writes it, by the outer loop's next;
    but for what writes whole lines.
    """
    far = target(bits, l1=64 * 1024, l2=4096, l3=16 * 1024)
    mod = normalized(4, 1024)
    made = recipes.rowwise(Schedule(mod, check=False), target=far).mod
    assert [(note[0], note[1][0]) for note in notes(made).values()] == asked
    arrays = arguments(mod)
    np.testing.assert_allclose(run(made, arrays), interpreted(mod, arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "l2"), [((4, 1024), 1 << 20), ((64, 64), 4096), ((2, 8192), 4096)]
)
def test_rows_that_are_near_or_short_or_long_are_not(shape, l2):
    far = target(l1=32 * 1024, l2=l2)
    made = recipes.rowwise(Schedule(normalized(*shape), check=False), target=far).mod
    assert notes(made) == {}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mlc.op.sum(x, axis=-1),
        lambda x: mlc.op.std(x, axis=-1),
        mlc.op.softmax,
        mlc.op.lp_normalize,
    ],
    ids=["one sum", "nothing written", "exp", "one sum and a row written"],
)
@pytest.mark.parametrize("ahead", ["", "read", "both"])
def test_only_what_a_search_decides_asks_for_other_rows(function, ahead):
    far = target(l1=64 * 1024, l2=4096, l3=16 * 1024)
    mod = alone(function, np.ones((4, 1024), np.float32))
    decisions = {"decisions": {"rows_together": 1, "prefetch": ahead}} if ahead else {}
    made = recipes.rowwise(Schedule(mod, check=False, **decisions), target=far).mod
    written = ahead == "both" and mod["main"].params[-1].shape[-1] == 1024
    assert len(notes(made)) == (ahead != "") + written
    arrays = arguments(mod)
    np.testing.assert_allclose(run(made, arrays), interpreted(mod, arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [[1, 2], [2], [0, 1, 2]], ids=str)
def test_sums_over_several_axes_are_made_once(axes):
    """A sum stands in no loop over what it sums up, which would make it anew."""
    x = mlc.Var("x", R.Tensor((3, 6, 40), "float32"))
    scale = mlc.Var("scale", R.Tensor(tuple((3, 6, 40)[axis] for axis in axes), "float32"))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x, scale]):
        with bb.dataflow():
            result = bb.emit_output(mlc.op.layer_norm(x, scale, scale, axes=axes))
        bb.emit_func_output(result)
    made = mlc.run_passes(bb.get(), [mlc.passes.legalize, mlc.passes.fuse_ops, mlc.passes.fuse_tir])
    (func,) = [func for _, func in made.entries if isinstance(func, mlc.PrimFunc)]
    mod = mlc.IRModule.of({"main": func})
    sch = recipes.rowwise(Schedule(mod, check=False), target=target())
    loops = {loop.var.name: loop.extent.value for loop in loops_in(sch.func.body)}
    (sums,) = [name for name in sch.blocks() if name.endswith("sum_rf_update")]
    assert np.prod([loops[name] for name in sch.loops(sums)]) == 3 * 6 * 40
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(run(sch.mod, arrays), means, rtol=1e-5, atol=1e-5)


def alone(given, *arrays):
    """The one function of a graph, unscheduled, as "main"."""
    made = mlc.build(graph(given, *arrays), recipes=False).mod
    (func,) = [func for _, func in made.entries if isinstance(func, mlc.PrimFunc)]
    return mlc.IRModule.of({"main": func})


def work(sch):
    """How often each block that updates a sum runs."""
    return {
        name: int(np.prod([loop.extent.value for loop in find_block(sch.func, name).loops]))
        for name in sch.blocks()
        if name.endswith("update")
    }


def agrees(given, *arrays, atol=1e-5):
    mod = graph(given, *arrays)
    means = mlc.interpret(mod, "main", *arrays)
    result = mlc.build(mod, cache=False)["main"](*arrays)
    np.testing.assert_allclose(result, means, rtol=1e-4, atol=atol)


RNG = np.random.default_rng(3)


@pytest.mark.parametrize("shape", [(6, 40), (3, 5, 64), (40,), (1, 33)], ids=str)
@pytest.mark.parametrize("name", ["mean", "variance", "std"])
def test_a_row_may_become_one_number(name, shape):
    """Without the axis that is summed, the last block has no loop along it: each row is still
    finished before the next begins.
    """
    x = RNG.standard_normal(shape, "float32")
    given = lambda x: getattr(mlc.op, name)(x, axis=-1)  # noqa: E731
    agrees(given, x)
    if len(shape) > 1 and shape[0] > 1:
        sch = recipes.rowwise(Schedule(alone(given, x), check=False), target=target())
        outermost = {sch.loops(block)[0] for block in sch.blocks()}
        assert len(outermost) == 1


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_ranks_of_a_row_are_computed_once(name):
    """They are sums over a row for each of its elements, not for each pair of those."""
    x = RNG.standard_normal((6, 32), "float32")
    given = lambda x: getattr(mlc.op, name)(x, axis=-1)  # noqa: E731
    agrees(given, x)
    sch = recipes.rowwise(Schedule(alone(given, x), check=False), target=target())
    assert max(work(sch).values()) == 6 * 32 * 32


def test_rows_that_end_in_a_number_for_all_are_rows_too():
    """A buffer that the last block needs all of is row by row of its own last block."""
    x, labels = RNG.standard_normal((12, 200), "float32"), RNG.integers(0, 200, 12)
    agrees(mlc.op.cross_entropy, x, labels)
    mod = alone(mlc.op.cross_entropy, x, labels)
    sch = recipes.rowwise(Schedule(mod, check=False), target=target())
    (losses,) = {sch.loops(name)[0] for name in sch.blocks() if name.startswith("log_softmax")}
    assert losses in sch.loops("nll_loss_update")


def test_few_classes_of_pixels_are_summed_in_lanes_of_pixels():
    """They are no row, and what follows them is one number for all."""
    x, labels = RNG.standard_normal((4, 11, 6, 8), "float32"), RNG.integers(0, 11, (4, 6, 8))
    agrees(mlc.op.cross_entropy, x, labels)
    agrees(mlc.op.cross_entropy, x[:, :, 0, 0].copy(), labels[:, 0, 0].copy())
    mod = alone(mlc.op.cross_entropy, x, labels)
    sch = recipes.rowwise(Schedule(mod, check=False), target=target())
    sums = sch.loops("log_softmax_sum_update")
    classes = next(at for at, name in enumerate(sums) if name.startswith("k"))
    assert classes < len(sums) - 1


def test_a_block_without_a_store_is_left_alone():
    mod = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((4, 40), "float32"), C: T.Buffer((4,), "float32")):
    for i, j in T.grid(4, 40):
        with T.block("e"):
            vi, vj = T.axis.remap("SS", [i, j])
            pass
    for i, k in T.grid(4, 40):
        with T.block("s"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
""")
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(run(recipes.apply(mod), arrays), means, rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (3, 5, 7, 7), (2, 16, 24)], ids=str)
def test_a_sum_over_all_reads_whole_vectors(shape):
    """However many axes it has: no element's place is a quotient of its lane."""
    x = RNG.standard_normal(shape, "float32")
    agrees(mlc.op.sum, x, atol=1e-4)
    (func,) = [f for _, f in mlc.build(graph(mlc.op.sum, x), cache=False).mod.entries][1:]
    loops = [loop for loop in loops_in(lower(func).body) if not loop.var.name.endswith("tail")]
    lanes = [loop for loop in loops if loop.kind == "vectorized"]
    reads = [(lp.var, load) for lp in lanes for load in nodes_of(lp.body, Load)]
    own = [(var, load) for var, load in reads if load.buffer is func.params[0]]
    numbers = [(var, flat(load.indices, load.buffer.shape)) for var, load in own]
    assert numbers
    for var, number in numbers:
        assert [step for atom, step in number.terms.items() if var in walk(atom.expr)] == [1]


@pytest.mark.parametrize("shape", [(1, 24, 7, 7), (2, 3, 5, 9), (3, 4, 1, 50)], ids=str)
@pytest.mark.parametrize("axes", [[2, 3], [1, 2, 3], [0, 2, 3], [1, 3]], ids=str)
def test_numbers_in_a_row_are_one_sum_whatever_their_axes(shape, axes):
    x = RNG.standard_normal(shape, "float32")
    given = lambda x: mlc.op.mean(x, axis=axes)  # noqa: E731
    agrees(given, x)
    if shape == (1, 24, 7, 7) and axes == [2, 3]:
        sch = recipes.rowwise(Schedule(alone(given, x), check=False), target=target(512))
        assert [name for name in sch.blocks() if name.endswith("rf_update")]


def test_a_sum_whose_loop_is_one_of_another_axis_is_made():
    """Every number but the first of two joined vectors, backwards."""
    x, y = (mlc.Var(name, R.Tensor((n,), "int32")) for name, n in (("x", 33), ("y", 1)))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.dataflow():
            both = bb.emit(mlc.op.concat([x, y]))
            back = bb.emit(mlc.op.strided_slice(both, begin=-1, end=-35, strides=-1, axes=-1))
            total = bb.emit_output(mlc.op.sum(back, axis=0))
        bb.emit_func_output(total)
    one, other = np.arange(33, dtype="int32"), np.array([500], "int32")
    assert mlc.build(bb.get(), cache=False)["main"](one, other) == 500 + one.sum()
