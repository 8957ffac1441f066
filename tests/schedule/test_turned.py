"""Steps on indices that run backwards, through quotients and rests, at other steps; on several
blocks, and on blocks beside others or inside of them. What is near and wrong stays refused.
"""

import pytest

import minimlc as mlc
from minimlc.loops.values.module import IRModule
from tests.corpus.test_corpus import assert_right
from tests.helpers import refuses


def pair(first: str, second: str, size: int = 16, made: int = 16, more: str = "") -> IRModule:
    """`B[first] = A[vi] * 2` for 16 values, then `C[vi] = second + 1` for `size`."""
    return mlc.parse(f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer(({size},), "int32")):
    B = T.alloc_buffer(({made},), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            {more or "pass"}
            B[{first}] = A[vi] * 2
    for j in range({size}):
        with T.block("C"):
            vi = T.axis.spatial({size}, j)
            C[vi] = {second} + 1
""")


MIRRORED = [("15 - vi", "B[vi]"), ("15 - vi", "B[15 - vi]"), ("vi", "B[15 - vi]")]


@pytest.mark.parametrize(("first", "second"), MIRRORED)
@pytest.mark.parametrize("factor", [1, 4, 5])
def test_a_block_that_counts_backwards_moves(first: str, second: str, factor: int):
    mod = pair(first, second)
    moved = mlc.Schedule(mod).split("j", [None, factor]).compute_at("B", "j_0")
    assert_right(mod, moved.mod)
    back = mlc.Schedule(mod).split("i", [None, factor]).reverse_compute_at("C", "i_0")
    assert_right(mod, back.mod)
    assert_right(mod, mlc.Schedule(mod).compute_inline("B").mod)


@pytest.mark.parametrize("start", [2, 3, 4])
def test_a_block_with_an_offset_moves(start: int):
    mod = pair("vi + 2", f"B[vi + {start}]", 14, 20)
    moved = mlc.Schedule(mod).split("j", [None, 4]).compute_at("B", "j_0")
    assert moved.loops("B") == ["j_0", "ax0"] and moved.mod["main"].allocs[0].shape == (20,)
    assert_right(mod, moved.mod)
    assert_right(mod, mlc.Schedule(mod).compute_inline("B").mod)


def test_what_comes_of_a_step_says_what_it_computes():
    text = mlc.Schedule(pair("15 - vi", "B[vi]")).compute_at("B", "j").mod.script()
    assert "vi = T.axis.spatial(16, 15 - j)" in text and "B[15 - vi] = A[vi] * T.int32(2)" in text


def test_what_is_no_iter_once_stays_where_it_is():
    strided = mlc.Schedule(pair("vi * 2", "B[vi * 2]", 16, 31))
    refuses("E115", lambda: strided.compute_at("B", "j"), "each spatial iter once")
    mirrored = mlc.Schedule(pair("15 - vi", "A[vi] + B[vi]"))
    refuses("E115", lambda: mirrored.fuse_reduction_epilogue("B", "C"), "as it is")
    refuses("E131", lambda: mlc.Schedule(pair("vi + 2", "B[vi]", 16, 20)), "B[0]")


LAYOUTS = ["vi // 8, vi % 8", "7 - vi // 8, vi % 8", "vi // 8, 7 - vi % 8"]
LAYOUTS += ["(63 - vi) // 8, (63 - vi) % 8", "vi // 8, vi // 8"]


def layout(index: str) -> IRModule:
    """`B[vi, vj]` row by row, read at an index over one iter."""
    return mlc.parse(f"""
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((64,), "int32")):
    B = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] + 1
    for k in range(64):
        with T.block("C"):
            vi = T.axis.spatial(64, k)
            C[vi] = B[{index}]
""")


@pytest.mark.parametrize("index", LAYOUTS)
def test_a_reader_goes_where_its_rows_are_made(index: str):
    mod = layout(index)
    moved = mlc.Schedule(mod).reverse_compute_at("C", "i")
    assert moved.loops("C") == ["i", "ax0"]
    assert_right(mod, moved.mod)
    assert_right(mod, mlc.Schedule(mod).split("i", [None, 3]).reverse_compute_at("C", "i_0").mod)


def test_a_reader_of_rows_that_are_still_made_is_refused():
    rows = mlc.Schedule(layout("vi // 8, vi % 8")).reorder("j", "i")
    error = refuses("E113", lambda: rows.reverse_compute_at("C", "j"), "before it is finished")
    assert error.example == "iteration j=0 writes B[1, 0], j=1 reads it"
    columns = mlc.Schedule(layout("vi % 8, vi // 8"))
    refuses("E113", lambda: columns.reverse_compute_at("C", "i"), "before it is finished")
    assert_right(columns.mod, columns.reorder("j", "i").reverse_compute_at("C", "j").mod)


PRODUCT = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")


def tiled(*order: str) -> mlc.Schedule:
    sch = mlc.Schedule(PRODUCT)
    for loop in "ijk":
        sch = sch.split(loop, [None, 4])
    return sch.reorder(*order, "i_1", "j_1", "k_1").blockize("i_1")


def test_a_tile_of_a_reduction_writes_a_copy():
    cached = tiled("i_0", "j_0", "k_0").cache_write("C_o", "C")
    assert_right(PRODUCT, cached.mod)
    back = cached.reverse_compute_at("C_local", "j_0")
    assert back.loops("C_local") == ["i_0", "j_0", "ax0", "ax1"]
    assert_right(PRODUCT, back.mod)
    refuses("E113", lambda: cached.reverse_compute_at("C_local", "k_0"), "before it is finished")
    outside = tiled("k_0", "i_0", "j_0").cache_write("C_o", "C")
    assert_right(PRODUCT, outside.mod)
    refuses("E113", lambda: outside.reverse_compute_at("C_local", "j_0"), "k_0 goes on writing it")


STARTS = """
@T.prim_func
def main(A: T.Buffer((8, 4, 4), "int32"), C: T.Buffer((32,), "int32")):
    for i, k in T.grid(8, 4):
        with T.block("O"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(4, {order})
            with T.init():
                for x in range({started}):
                    with T.block("Z"):
                        vx = T.axis.spatial(4, x)
                        C[vi * 4 + vx] = 0
            for y in range(4):
                with T.block("U"):
                    vy = T.axis.spatial(4, y)
                    C[vi * 4 + vy] = C[{read}] + A[vi, vk, vy]
"""


def test_a_start_that_comes_in_some_iterations_only_is_none():
    """At k = 0 the loop over x is shorter: what later iterations add to was never started."""
    text = """
@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32")):
    for k in range(4):
        for x in range(k + 1):
            with T.block("O"):
                vx = T.axis.spatial(4, x)
                vk = T.axis.reduce(4, k)
                with T.init():
                    with T.block("Z"):
                        C[vx] = 0
                with T.block("U"):
                    C[vx] = C[vx] + A[vk, vx]
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    refuses("E117", lambda: sch.cache_write("O", "C"), "C")


def test_a_copy_of_what_was_not_started_is_refused():
    own = "vi * 4 + vy"
    mod = mlc.parse(STARTS.format(order="k", started=4, read=own))
    assert_right(mod, mlc.Schedule(mod).cache_write("O", "C").mod)
    for order, started in (("k", 3), ("3 - k", 4)):
        text = STARTS.format(order=order, started=started, read=own)
        sch = mlc.Schedule(mlc.parse(text), check=False)
        refuses("E117", lambda sch=sch: sch.cache_write("O", "C"), "starts from what C holds")


SCOPE = """
@T.prim_func
def main(D: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((8, 8), "int32")
    for i0, j0 in T.grid(2, 2):
        with T.block("scope"):
            i, j = T.axis.remap("SS", [i0, j0])
            for x, y in T.grid(4, {width}):
                with T.block("B"):
                    vi = T.axis.spatial(8, i * 4 + x)
                    vj = T.axis.spatial(8, j * 4 + y)
                    B[vi, vj] = D[vi, vj] + 1
            for x, y in T.grid(4, {width}):
                with T.block("C"):
                    vi = T.axis.spatial(8, i * 4 + x)
                    vj = T.axis.spatial(8, j * 4 + y)
                    C[vi, vj] = B[vi, vj] * 2
"""


def test_cache_write_inside_a_block_copies_what_is_made_there():
    mod = mlc.parse(SCOPE.format(width=4))
    cached = mlc.Schedule(mod).cache_write("B", "B")
    assert "v1 = T.axis.spatial(8, j * 4 + ax1)" in cached.mod.script()
    assert_right(mod, cached.mod)
    assert_right(mod, mlc.Schedule(mod).cache_write("C", "C").mod)
    narrow = mlc.parse(SCOPE.format(width=3))
    assert_right(narrow, mlc.Schedule(narrow).cache_write("B", "B").mod)


def test_cache_write_inside_a_block_copies_nothing_else():
    uneven = mlc.parse(SCOPE.format(width="i + 3"))
    assert_right(uneven, mlc.Schedule(uneven).cache_write("B", "B").mod)
    ordered = SCOPE.format(width=4).replace('"SS", [i0', '"OO", [i0')
    ordered = ordered.replace("vi = T.axis.spatial", "vi = T.axis.opaque")
    again = mlc.parse(ordered.replace("= B[vi, vj] * 2", "= B[vi, vj] + C[7 - vi, vj]"))
    sch = mlc.Schedule(again, check=False)
    refuses("E117", lambda: sch.cache_write("C", "C"), "starts from what C holds")


CLAMPED = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((15,), "int32")):
    for i in range(15):
        with T.block("C"):
            vi = T.axis.spatial(15, i)
            C[vi] = A[{index}]
"""


@pytest.mark.parametrize(
    "index",
    [
        'T.max(T.min(T.cast(T.floor(T.cast(vi, "float32") * 0.6), "int32"), 7), 0)',
        'T.min(T.max(T.cast(vi, "int8") - 3, 0), 7)',
        'T.cast(vi, "int32") * 3 // 6',
        'T.cast(A[vi % 8], "uint8") % 8',
    ],
)
def test_an_index_that_is_clamped_stays_inside(index: str):
    mod = mlc.parse(CLAMPED.format(index=index))
    mlc.verify(mod)
    assert_right(mod, mlc.Schedule(mod).split("i", [None, 4]).mod)


@pytest.mark.parametrize(
    ("index", "example"),
    [
        ('T.max(T.min(T.cast(vi, "int32"), 8), 0)', "at i=8: A[8]"),
        ('T.min(T.cast(vi, "int32") - 1, 7)', "at i=0: A[-1]"),
        ('T.max(T.cast(T.floor(T.cast(vi, "float32") * 0.6), "int32"), 0)', "not known"),
        ('T.min(T.cast(vi, "int8") * 100, 7)', "at i=2: A[-56]"),
    ],
)
def test_an_index_that_is_clamped_elsewhere_is_refused(index: str, example: str):
    refuses("E107", lambda: mlc.verify(mlc.parse(CLAMPED.format(index=index))), example)


UPSCALE = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((24,), "int32")):
    B = T.alloc_buffer((14,), "int32")
    for i in range(14):
        with T.block("B"):
            v = T.axis.spatial(14, i)
            B[v] = A[v] * 3
    for j, r in T.grid(24, 3):
        with T.block("C"):
            v, vr = T.axis.remap("SR", [j, r])
            with T.init():
                C[v] = -128
            C[v] = T.max(C[v], B[{index} + vr])
"""


@pytest.mark.parametrize("factor", [2, 3, 5, 6])
@pytest.mark.parametrize("by", [2, 3])
def test_a_window_moves_by_one_step_or_another(by: int, factor: int):
    mod = mlc.parse(UPSCALE.format(index=f"v // {by}"))
    sch = mlc.Schedule(mod).split("j", [None, factor]).compute_at("B", "j_0")
    rolled = sch.rolling_buffer("B", "B")
    assert rolled.func.allocs[0].shape[0] < 14
    assert_right(mod, rolled.mod)


def test_a_window_that_does_not_move_on_is_refused():
    back = mlc.parse(UPSCALE.format(index="(23 - v) // 2"))
    sch = mlc.Schedule(back).split("j", [None, 6]).compute_at("B", "j_0")
    refuses("E148", lambda: sch.rolling_buffer("B", "B"), "nothing stays")
    again = mlc.parse(UPSCALE.format(index="v % 8"))
    sch = mlc.Schedule(again).split("j", [None, 6]).compute_at("B", "j_0")
    refuses("E148", lambda: sch.rolling_buffer("B", "B"))
    far = mlc.parse(UPSCALE.format(index="v // 6 * 3"))
    sch = mlc.Schedule(far).split("j", [None, 6]).compute_at("B", "j_0")
    refuses("E148", lambda: sch.rolling_buffer("B", "B"), "nothing stays")


CHAIN = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), D: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((8, 8), "int32")
    C = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for x, y in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj] + 1
    for z, w in T.grid(8, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [z, w])
            D[vi, vj] = C[vi, vj] - B[vi, vj]
""")


def test_several_blocks_become_one():
    sch = mlc.Schedule(CHAIN)
    assert_right(CHAIN, sch.blockize(["B", "C"]).mod)
    rows = sch.compute_at("C", "z").compute_at("B", "z")
    one = rows.blockize(["B", "C", "D"], name="row")
    assert one.child_blocks("row") == ["B", "C", "D"]
    assert "vz = T.axis.spatial(8, z)" in one.mod.script()
    assert_right(CHAIN, one.parallel("z").mod)
    assert_right(CHAIN, rows.blockize(["C", "D"], name="last").blockize(["B", "last"]).mod)
    again = mlc.Schedule.replay(CHAIN, one.trace)
    assert mlc.structural_equal(again.mod, one.mod)


def test_blocks_inside_of_a_block_become_one():
    mod = mlc.parse(SCOPE.format(width=4))
    both = mlc.Schedule(mod).blockize(["B", "C"])
    assert both.child_blocks("scope") == ["B_C_o"]
    assert_right(mod, both.mod)
    assert_right(mod, mlc.Schedule(mod).blockize(["B"]).mod)


def test_several_blocks_of_iterations_in_order_are_opaque():
    halo = mlc.parse(UPSCALE.format(index="v // 2"))
    sch = mlc.Schedule(halo).split("j", [None, 4]).compute_at("B", "j_0").blockize(["B", "C"])
    assert "vj_0 = T.axis.opaque(6, j_0)" in sch.mod.script()
    assert_right(halo, sch.mod)


def test_blocks_that_are_no_neighbours_do_not_become_one():
    sch = mlc.Schedule(CHAIN)
    refuses("E155", lambda: sch.blockize(["B", "D"]), '"C" stands among')
    refuses("E118", lambda: sch.blockize([]), "one or more blocks")
    refuses("E105", lambda: sch.blockize(["B", "E"]), '"E"')
    refuses("E155", lambda: sch.parallel("x").blockize(["B", "C"]), "threads start outside")


PADDING = """
@T.prim_func
def main(x: T.Buffer((24,), "int32"), y: T.Buffer((24,), "int32")):
    p = T.alloc_buffer((26,), "int32")
    for z in range(26):
        with T.block("z"):
            v = T.axis.spatial(26, z)
            p[v] = 5
    for o in range(3):
{first}
{second}
"""
PAD = """
        for ax in range(10):
            with T.block("p"):
                v = T.axis.spatial(26, o * 8 + ax)
                p[v] = T.if_then_else(v >= 1 and v < 25, x[v - 1], 0)
"""
READ = """
        for i, r in T.grid(8, {window}):
            with T.block("y"):
                v = T.axis.spatial(24, o * 8 + i)
                vr = T.axis.reduce({window}, r)
                with T.init():
                    y[v] = 0
                y[v] = y[v] + p[{index}]
"""


def padding(first: str, second: str, window: int = 3, index: str = "v + vr") -> mlc.Schedule:
    parts = {"first": first, "second": second}
    text = PADDING.format(**parts).format(window=window, index=index)
    return mlc.Schedule(mlc.parse(text), check=False)


def test_padding_is_filled_before_a_loop_that_reads_it():
    sch = padding(PAD, READ)
    filled = sch.decompose_padding("p", "o")
    assert filled.blocks() == ["z", "p_pad", "p", "y"]
    assert_right(sch.mod, filled.mod)
    refuses("E104", lambda: filled.parallel("o"), "p[8]")


def test_padding_is_not_filled_where_what_was_there_is_read():
    late = padding(READ, PAD)
    refuses("E153", lambda: late.decompose_padding("p", "o"), 'p is used elsewhere in "o"')
    wide = padding(PAD, READ, 1, "(v + 13) % 26")
    refuses("E153", lambda: wide.decompose_padding("p", "o"), 'p is used elsewhere in "o"')
    other = PAD.replace('"p"', '"q"').replace("x[v - 1]", "7")
    refuses("E153", lambda: padding(PAD, other).decompose_padding("p", "o"), "p is used elsewhere")


TWINS = """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for x, y in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = {value} + 1
"""


@pytest.mark.parametrize("value", ["A[vi, 7 - vj]", "B[vi, vj]", "B[vi, T.max(vj - 1, 0)]"])
def test_loops_of_two_nests_merge_with_those_around(value: str):
    mod = mlc.parse(TWINS.format(value=value))
    merged = mlc.Schedule(mod).merge("j", "y")
    assert merged.loops("C") == ["i", "j"]
    assert_right(mod, merged.mod)


def test_loops_of_two_nests_merge_only_in_order():
    def twins(value: str) -> mlc.Schedule:
        return mlc.Schedule(mlc.parse(TWINS.format(value=value)))

    error = refuses("E109", lambda: twins("B[vi, 7 - vj]").merge("j", "y"), "y uses B before j")
    assert error.example == "iteration j=4 writes B[0, 4], j=3 reads it"
    refuses("E109", lambda: twins("B[7 - vi, vj]").merge("j", "y"), "x uses B before i")
    refuses("E116", lambda: twins("A[vi, vj]").split("y", [2, 4]).merge("j", "y_1"), "equally deep")
    refuses("E116", lambda: twins("A[vi, vj]").merge("i", "j"), "equally deep")
    refuses("E118", lambda: twins("A[vi, vj]").split("y", [2, 4]).merge("j", "y_0"), "iterations")


def test_loops_whose_outermost_extent_varies_are_fused():
    ragged = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((15, 4), "int32"), C: T.Buffer((15, 4), "int32")):
    for i in range(4):
        for j, k in T.grid(T.min(4, 15 - i * 4), 4):
            with T.block("C"):
                vi = T.axis.spatial(15, i * 4 + j)
                vk = T.axis.spatial(4, k)
                C[vi, vk] = A[vi, vk] + 3
""")
    fused = mlc.Schedule(ragged).fuse("j", "k")
    assert fused.loops("C") == ["i", "j_k_fused"]
    assert_right(ragged, fused.split("j_k_fused", [None, 3]).mod)
    assert mlc.Schedule(ragged).fuse("i").loops("C") == ["i_fused", "j", "k"]
    refuses("E102", lambda: mlc.Schedule(ragged).fuse("i", "j"), '"j" is not constant')
    refuses("E102", lambda: mlc.Schedule(ragged).reorder("k", "j").fuse("k", "j"))


def test_an_extent_that_would_wrap_is_not_fused():
    text = """
@T.prim_func
def main(N: T.Buffer((1,), "int64"), A: T.Buffer((8, 4), "int32")):
    for j, k in T.grid(T.min(8, {extent}), 4):
        with T.block("A"):
            vj = T.axis.spatial(8, j)
            vk = T.axis.spatial(4, k)
            A[vj, vk] = A[vj, vk] + 1
"""
    low = mlc.Schedule(mlc.parse(text.format(extent="N[0]")))
    refuses("E102", lambda: low.fuse("j", "k"), "not constant")
    counted = mlc.parse(text.format(extent="N[0] % 9"))
    assert_right(counted, mlc.Schedule(counted).fuse("j", "k").mod)


UNDER = """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((8, 8), "int32")
    for a, b in T.grid(8, 8):
        with T.block("Z"):
            va, vb = T.axis.remap("SS", [a, b])
            B[va, vb] = 7
    for i in range(8):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2
        for k in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, k])
                C[vi, vj] = B[{index}] + 1
"""


def test_a_reader_dissolves_under_a_loop_that_both_share():
    first = UNDER[: UNDER.index("    for a, b")] + UNDER[UNDER.index("    for i in") :]
    for index in ("vi, vj", "vi, 7 - vj"):
        mod = mlc.parse(first.format(index=index))
        inlined = mlc.Schedule(mod).reverse_compute_inline("C")
        assert inlined.blocks() == ["C"]
        assert_right(mod, inlined.mod)
    turned = mlc.Schedule(mlc.parse(UNDER.format(index="7 - vi, vj")), check=False)
    refuses("E115", lambda: turned.reverse_compute_inline("C"), "needs one producer")


def test_a_reader_dissolves_into_a_producer_that_makes_all_it_reads():
    for size in (15, 9):
        mod = pair("vi", "B[vi]", size, 15, "T.where(i < 15)")
        assert_right(mod, mlc.Schedule(mod).reverse_compute_inline("C").mod)
    some = pair("vi", "B[vi]", 15, 15, "T.where(i < 15 and A[i] > 0)")
    sch = mlc.Schedule(some, check=False)
    refuses("E115", lambda: sch.reverse_compute_inline("C"), "runs only where")


SUMS = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        for k, u in T.grid(8, 1):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0
                B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * 2
""")


def test_a_copy_in_another_layout_stands_before_the_reader():
    sch = mlc.Schedule(SUMS)
    cached = sch.reindex_cache_write("B", "B", "local", "i, k -> i // 4, i % 4")
    assert cached.blocks() == ["B", "B_local", "C"]
    assert_right(SUMS, cached.mod)
    rows = sch.split("i", [None, 2]).reindex_cache_write("B", "B", "local", "i, k -> i")
    assert_right(SUMS, rows.mod)
    turned = SUMS.script().replace("for i in range(8)", "for k in range(8)")
    turned = turned.replace("for k, u in T.grid(8, 1)", "for i, u in T.grid(8, 1)")
    turned = turned.replace("vi = T.axis.spatial(8, i)\n", "vi = T.axis.opaque(8, k)\n")
    early = mlc.Schedule(mlc.parse(turned), check=False)
    refuses("E117", lambda: early.reindex_cache_write("B", "B", "local", "i, k -> i"), "elsewhere")


def test_a_loop_of_one_iteration_is_factored_too():
    factored = mlc.Schedule(SUMS).rfactor("u", axis=1)
    assert "B_rf = T.alloc_buffer((8, 1)" in factored.mod.script()
    assert_right(SUMS, factored.mod)
    wide = SUMS.script().replace("T.grid(8, 1)", "T.grid(8, 2)")
    refuses("E150", lambda: mlc.Schedule(mlc.parse(wide), check=False).rfactor("u"), '"u"')


def test_parts_of_a_loop_by_their_extents():
    parts = mlc.Schedule(CHAIN).loop_partition("i", factors=[2, None, 1])
    assert [parts.blocks()[n] for n in range(3)] == ["B_head", "B", "B_tail"]
    assert_right(CHAIN, parts.mod)
    for factors in ([2, 5], [8], [None, None], [9, -1], [0, 8]):
        sch = mlc.Schedule(CHAIN)
        refuses("E118", lambda sch=sch, f=factors: sch.loop_partition("i", factors=f))


def test_padding_of_a_layout_by_its_indices():
    mod = pair("vi", "B[vi]")
    sch = mlc.Schedule(mod)
    filled = sch.transform_layout("B", "B", "i -> i // 5, i % 5", pad_value=lambda i, j: i * 5 + j)
    assert "B[v0, v1] = T.cast(v0 * 5 + v1, " in filled.mod.script()
    assert_right(mod, filled.mod)
    assert mlc.structural_equal(mlc.Schedule.replay(mod, filled.trace).mod, filled.mod)
    for value in ("i -> i", "i, j -> i, j"):
        refuses(
            "E146",
            lambda value=value: sch.transform_layout("B", "B", "i -> i // 5, i % 5", value),
            "2 indices to one number",
        )
