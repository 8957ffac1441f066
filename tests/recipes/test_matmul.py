"""Matrix products: every plan of the recipe, against float64 and element by element."""

from dataclasses import replace

import numpy as np
import pytest

import minimlc as mlc
from benchmarks.programs import graph
from minimlc import recipes, te
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.schedule import Schedule
from minimlc.recipes.tiles import even
from minimlc.script import T
from tests.helpers import refuses
from tests.recipes.programs import SMALL_CACHES, arguments, interpreted, matmul, run, target

pytestmark = pytest.mark.many

SIZES = [
    (64, 64, 64),
    (13, 16, 2),
    (33, 40, 129),
    (1, 64, 64),
    (1, 33, 512),
    (8, 128, 300),
    (96, 8, 64),
    (97, 8, 300),
    (50, 16, 31),
    (64, 8, 1021),
]
TURNED = [(False, False), (False, True), (True, False), (True, True)]


def worst_error(mod, turned, arrays, found):
    """The largest error over u * |A||B|, u being half the unit in the last place of 1."""
    a, b = (x.astype(np.float64) for x in arrays[:2])
    a = np.swapaxes(a, -1, -2) if turned[0] else a
    b = np.swapaxes(b, -1, -2) if turned[1] else b
    unit = np.finfo(arrays[0].dtype).eps / 2
    return np.max(np.abs(found - a @ b) / (unit * (np.abs(a) @ np.abs(b))))


def scheduled(mod, chosen=None):
    return recipes.matmul(Schedule(mod, check=False), target=chosen).mod


@pytest.mark.parametrize("turned", TURNED, ids=["ab", "abT", "aTb", "aTbT"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_any_size_and_layout_is_right(sizes, turned):
    mod = matmul(*sizes, turned=turned)
    if sizes[:2] == (1, 33) and turned[1]:  # columns that are not shared out evenly
        refuses("E170", lambda: scheduled(mod), "a reduction along each row")
        return
    arrays = arguments(mod)
    assert worst_error(mod, turned, arrays, run(scheduled(mod), arrays)) <= 4


def deviation(a, b, part):
    """The standard deviation of each element's rounding errors, at the most, when `part` products
    at a time are added up one by one, and then what they gave.

    A result x in [2^e, 2^(e+1)) is off by at most 2^e u either way. Spread evenly, that is a
    variance of (2^e u)^2 / 3, at most (u x)^2 / 3; and errors of different steps are not related
    (N. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019). A
    product is a step where there are no fused multiply-adds.
    """
    left, right = a.astype(float), b.astype(float)
    total = np.zeros((len(a), b.shape[1]))
    squares = np.zeros_like(total)
    for begin in range(0, a.shape[1], part):
        in_part = np.zeros_like(total)
        for k in range(begin, min(begin + part, a.shape[1])):
            product = np.outer(left[:, k], right[k])
            in_part += product
            squares += in_part**2 + product**2
        total += in_part
        squares += total**2
    return np.finfo(a.dtype).eps / 2 * np.sqrt(squares / 3)


def in_one_go(a, b):
    """The product by adding up all terms one by one."""
    total = np.zeros((len(a), b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        total += np.outer(a[:, k], b[k])
    return total


@pytest.mark.parametrize("draw", ["standard_normal", "random"])
@pytest.mark.parametrize(
    "sizes",
    [
        (384, 384, 384),
        (64, 64, 383),
        (128, 128, 200),
        (128, 128, 128),
        (300, 8, 384),
        (8, 600, 384),
        (40, 64, 1200),
    ],
    ids=str,
)
def test_errors_are_those_of_sums_in_parts(sizes, draw):
    """More than 8 products are added up in two parts at least, and of at most 256: that is what
    the recipe promises, for numbers of both signs and of one. A sum in one go is worse than that.

    The mean square of thousands of errors, each over its variance, is at most 1 however a machine
    adds up within these parts (it is 0.54 where results lie anywhere between powers of two), and
    none is seven deviations off: evenly spread errors would be with a probability of 10^-11.
    """
    mod = matmul(*sizes)
    lib = mlc.build(scheduled(mod), cache=False)["mm"]
    rng = np.random.default_rng(0)
    a, b = (getattr(rng, draw)(shape, np.float32) for shape in (sizes[::2], sizes[:0:-1]))
    c = np.empty(sizes[:2], np.float32)
    lib(a, b, c)
    part = min(256, (sizes[2] + 1) // 2)
    exact, expected = a.astype(float) @ b, deviation(a, b, part)
    errors, worse = ((x - exact) / expected for x in (c, in_one_go(a, b)))
    assert np.mean(errors**2) <= 1 < np.mean(worse**2)
    assert np.max(np.abs(errors)) <= 7
    assert draw == "random" or worst_error(mod, (False, False), (a, b), c) <= 4


@pytest.mark.parametrize(
    ("asked", "size"),
    [((1000, 32, 16), 16), ((1024, 32, 16), 32), ((10, 100), 10), ((1024, 384, 4, 4), 256)],
)
def test_blocks_are_even_and_waste_little(asked, size):
    """63 columns of 16 by one; 4 x 256 and their cost are less than 3 x 344 and theirs."""
    assert even(*asked) == size


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("sizes", [(20, 34, 40), (2, 64, 40), (36, 16, 20)], ids=str)
def test_blocks_of_every_kind_give_what_the_loops_mean(sizes, bits):
    mod = matmul(*sizes)
    made = scheduled(mod, target(bits, **SMALL_CACHES))
    arrays = arguments(mod)
    means = interpreted(made, arrays)
    np.testing.assert_allclose(means, interpreted(mod, arrays), rtol=1e-4, atol=1e-4)
    # Contraction to fused multiply-adds is all that may differ.
    np.testing.assert_allclose(run(made, arrays), means, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [(3,), (2, 3)], ids=str)
def test_batches(batch):
    mod = matmul(31, 48, 60, turned=(False, True), batch=batch)
    arrays = arguments(mod)
    assert worst_error(mod, (False, True), arrays, run(scheduled(mod), arrays)) <= 4


@pytest.mark.parametrize("turned", TURNED[::2], ids=["ab", "aTb"])
@pytest.mark.parametrize("sizes", [(64, 3, 300), (20, 1, 40), (33, 7, 1021)], ids=str)
def test_a_few_columns_are_rounded_up_to_vectors(sizes, turned):
    mod = matmul(*sizes, turned=turned)
    arrays = arguments(mod)
    made = scheduled(mod, target())
    assert "B_pad" in made.script()
    assert worst_error(mod, turned, arrays, run(made, arrays)) <= 4


@pytest.mark.parametrize("rows", [1, 5, 31])
@pytest.mark.parametrize("turned", [False, True], ids=["b", "bT"])
def test_a_batch_may_share_one_factor(rows, turned):
    a = te.placeholder((2, 3, rows, 50), name="A")
    b = te.placeholder((40, 50) if turned else (50, 40), name="B")
    k = te.reduce_axis((0, 50), name="k")
    c = te.compute(
        (2, 3, rows, 40),
        lambda p, q, i, j: te.sum(a[p, q, i, k] * (b[j, k] if turned else b[k, j]), axis=k),
        name="C",
    )
    mod = mlc.IRModule.of({"mm": te.create_prim_func([a, b, c])})
    if rows == 1 and turned:
        refuses("E170", lambda: scheduled(mod), "a reduction along each row")
        return
    arrays = arguments(mod)
    found = run(scheduled(mod), arrays)
    assert worst_error(mod, (False, turned), arrays, found) <= 4


def test_float64():
    mod = matmul(65, 47, 600, dtype="float64")
    arrays = arguments(mod)
    made = run(scheduled(mod), arrays)
    np.testing.assert_allclose(made, arrays[0] @ arrays[1], rtol=1e-10, atol=1e-11)


def test_infinities_and_nan_stay_in_their_row_and_column():
    mod = matmul(13, 19, 70)
    arrays = arguments(mod)
    arrays[0][3, 5], arrays[1][60, 2] = np.inf, np.nan
    found = run(scheduled(mod), arrays)
    clean = np.ones_like(found, bool)
    clean[3, :] = clean[:, 2] = False
    assert np.isfinite(found[clean]).all()
    assert not np.isfinite(found[~clean]).any()


@pytest.mark.parametrize("sizes", [(200, 180, 160), (500, 100, 300), (1200, 64, 600)], ids=str)
def test_the_bits_do_not_depend_on_threads_or_on_the_run(sizes):
    mod = matmul(*sizes)
    made = scheduled(mod)
    assert "parallel" in made.script()
    arrays = arguments(mod)
    lib = mlc.build(made, cache=False)
    results = []
    before = mlc.num_threads()
    try:
        for threads in (1, 2) * 10:
            mlc.set_num_threads(threads)
            out = arrays[-1].copy()
            lib["mm"](*arrays[:-1], out)
            results.append(out.tobytes())
    finally:
        mlc.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.parametrize(
    ("sizes", "bits", "copied"),
    [
        ((512, 64, 512), 256, False),
        ((96, 128, 64), 256, False),
        ((512, 128, 512), 256, True),
        ((97, 64, 64), 256, True),
        ((512, 128, 512), 512, False),
        ((64, 128, 784), 512, False),
        ((512, 512, 1024), 512, True),
        ((97, 512, 512), 512, True),
    ],
    ids=str,
)
def test_rows_that_are_seldom_read_are_not_copied(sizes, bits, copied):
    made = Schedule(scheduled(matmul(*sizes), target(bits)), check=False)
    assert any(name.startswith("A_") for name in made.blocks()) == copied
    arrays = arguments(made.mod)
    assert worst_error(made.mod, (False, False), arrays, run(made.mod, arrays)) <= 4


def test_rows_of_a_are_copied_in_runs_of_what_the_inner_loop_writes_out():
    made = Schedule(scheduled(matmul(100, 200, 512), target()), check=False)
    (panels,) = [buffer for buffer in made.func.allocs if buffer.name.startswith("A_")]
    assert panels.shape == (20, 128, 5, 4)
    assert made.loops(panels.name)[-1] in vectorized(made)


def vectorized(sch: Schedule) -> set[str]:
    return {loop.var.name for loop in loops_in(sch.func.body) if loop.kind == "vectorized"}


@pytest.mark.parametrize(
    ("columns", "whole"), [(100, 112), (48, 48), (64, 64), (777, 784), (1024, 1024)]
)
def test_threads_share_rows_where_columns_would_not_be_shared_evenly(columns, whole):
    made = Schedule(scheduled(matmul(500, columns, 300), target(cores=2)), check=False)
    (panels,) = [buffer for buffer in made.func.allocs if buffer.name.startswith("B_")]
    assert panels.shape[0] * panels.shape[2] == whole
    around = [loop for loop in loops_in(made.func.body) if loop.var.name in made.loops("C")]
    (shared,) = [loop.extent.value for loop in around if loop.kind == "parallel"]
    assert shared >= 84 if columns < 200 else shared < 40


def test_threads_share_columns_where_there_are_hardly_rows():
    made = Schedule(scheduled(matmul(24, 800, 2000), target(cores=16)), check=False)
    kinds = {loop.var.name: loop for loop in loops_in(made.func.body)}
    (shared,) = [name for name in made.loops("C") if kinds[name].kind == "parallel"]
    assert kinds[shared].extent.value == 25


@pytest.mark.parametrize("sums", [8, 64, 300])
def test_what_follows_element_by_element_is_done_when_a_tile_is_written(sums):
    a, b = te.placeholder((50, sums), name="A"), te.placeholder((sums, 40), name="B")
    bias, scale = te.placeholder((40,), name="bias"), te.placeholder((), name="scale")
    k = te.reduce_axis((0, sums), name="k")
    c = te.compute((50, 40), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((50, 40), lambda i, j: c[i, j] * scale[()] + bias[j], name="D")
    e = te.compute((50, 40), lambda i, j: T.max(d[i, j], T.float32(0)), name="E")
    mod = mlc.IRModule.of({"mm": te.create_prim_func([a, b, bias, scale, e])})
    made = scheduled(mod, target())
    sch = Schedule(made, check=False)
    assert sch.blocks()[-1] == "E" and "D" not in sch.blocks()
    (update,) = [name for name in sch.blocks() if name.endswith("_update")]
    assert len(set(sch.loops(update)) & set(sch.loops("E"))) >= 4
    x, y, *rest, out = arguments(mod)
    want = np.maximum((x.astype(float) @ y) * rest[1] + rest[0], 0)
    np.testing.assert_allclose(run(made, [x, y, *rest, out]), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(40, 70, 100), (2, 64, 100), (60, 16, 40)], ids=str)
def test_it_is_made_of_public_primitives_alone(sizes):
    mod = matmul(*sizes)
    sch = recipes.matmul(Schedule(mod, check=False))
    again = Schedule.replay(mod, mlc.Trace.from_json(sch.trace.to_json()))
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)
    mlc.verify(sch.mod)


def test_the_target_decides_the_tile():
    mod = matmul(256, 256, 256)
    features = {128: "+sse4.2", 256: "+avx2", 512: "+avx512f"}
    scripts = {
        bits: scheduled(mod, replace(target(bits), features=has)).script()
        for bits, has in features.items()
    }
    # 6 x 8, 6 x 16 and 6 x 64: with 32 registers, fewer loads for each product
    for bits, columns in {128: 8, 256: 16, 512: 64}.items():
        assert f"T.vectorized({columns})" in scripts[bits]


def test_apply_finds_the_product_and_leaves_schedules_alone():
    mod = matmul(64, 64, 64)
    made = recipes.apply(mod)
    assert {"B_local", "C_rf_update"} <= set(Schedule(made, check=False).blocks())
    assert recipes.apply(made) is made
    sch = Schedule(mod, check=False)
    by_hand = sch.parallel(sch.loops("C")[0]).mod
    assert recipes.apply(by_hand) is by_hand


def test_refusals_name_the_block():
    mod = matmul(4, 3, 64)
    refuses("E170", lambda: scheduled(mod), "too small for vectors")
    integers = matmul(8, 64, 8, dtype="int64")
    refuses("E170", lambda: scheduled(integers), "multiplies int64 by int64")


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("shape", [(10, 64, 32), (10, 40, 24), (9, 56, 40), (12, 33, 16)])
def test_rows_of_b_are_turned_around_in_registers(shape, bits):
    mod = matmul(*shape, turned=(False, True))
    made = scheduled(mod, target(bits))
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made, arrays), means, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(made, arrays), means, rtol=1e-4, atol=1e-5)


def test_only_what_a_call_brings_is_turned_around_by_way_of_registers():
    (func,) = matmul(10, 64, 32, turned=(False, True)).functions.values()
    fixed = mlc.IRModule.of({"mm": func.with_attr("constants", ("B",))})
    for mod, found in (mlc.IRModule.of({"mm": func}), True), (fixed, False):
        assert ("B_local1" in scheduled(mod, target()).script()) == found


@pytest.mark.parametrize(("name", "kind"), [("gelu", "serial"), ("relu", "unrolled")])
def test_much_code_for_an_element_is_written_once_a_vector(name, kind):
    """A tile's rows are a loop where functions such as gelu follow the product."""
    rng = np.random.default_rng(5)
    x, w, b = (rng.standard_normal(size, "float32") for size in ((64, 96), (96, 64), (64,)))
    given = lambda x, w, b: getattr(mlc.op, name)(mlc.op.add(mlc.op.matmul(x, w), b))  # noqa: E731
    mod = graph(given, x, w, b)
    library = mlc.build(mod, target(256), cache=False)
    means = mlc.interpret(mod, "main", x, w, b)
    np.testing.assert_allclose(library["main"](x, w, b), means, rtol=1e-4, atol=1e-4)
    (func,) = [f for _, f in library.mod.entries if isinstance(f, mlc.PrimFunc)]
    sch = Schedule(mlc.IRModule.of({"main": func}), check=False)
    kinds = {loop.var.name: loop.kind for loop in loops_in(func.body)}
    *_, row, lanes = sch.loops(sch.output_blocks()[-1])
    assert (kinds[row], kinds[lanes]) == (kind, "vectorized")


@pytest.mark.parametrize("constant", [False, True])
def test_no_rows_are_no_product(constant):
    x, w = np.zeros((0, 784), np.float32), np.ones((784, 128), np.float32)
    mod = graph(lambda x, w: mlc.op.relu(mlc.op.matmul(x, w)), x, w)
    args = (x,) if constant else (x, w)
    mod = mlc.passes.bind_params(mod, {"x1": w}) if constant else mod
    assert mlc.build(mod, cache=False)["main"](*args).shape == (0, 128)
    sch = Schedule(matmul(0, 48, 60), check=False)
    assert recipes.matmul(sch) is sch
