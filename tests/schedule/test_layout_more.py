"""transform_layout with a pad value, copies laid out by a map of iters, unsafe_set_dtype."""

import numpy as np
import pytest

import minimlc as mlc
from tests.corpus.test_corpus import assert_right
from tests.helpers import assert_same, refuses
from tests.schedule.programs import MatmulRelu

PAIR = """
@T.prim_func
def main(A: T.Buffer((6, 10), "{a}"), C: T.Buffer((6, 10), "{c}")):
    B = T.alloc_buffer((6, 10), "{b}")
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {stored}
    for x, y in T.grid(6, 10):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = {read}
"""


def pair(a="int32", b="int32", c="int32", stored="A[vi, vj] * 2", read="B[5 - vx, vy] + 1"):
    return mlc.parse(PAIR.format(a=a, b=b, c=c, stored=stored, read=read))


def test_what_a_layout_pads_has_a_value():
    sch = mlc.Schedule(pair()).transform_layout("B", "B", "i, j -> j // 4, i, j % 4", pad_value=3)
    assert sch.blocks() == ["B_pad", "B", "C"]
    text = sch.mod.script()
    assert "T.where(not ax2 + ax0 * 4 < 10)" in text and "B[v0, v1, v2] = T.int32(3)" in text
    assert_right(pair(), sch.mod)
    assert_right(pair(), sch.parallel("i").mod)


@pytest.mark.parametrize(
    ("index_map", "padded"),
    [
        ("i, j -> j, i", False),
        ("i, j -> i * 10 + j", False),
        ("i, j -> i // 4, j, i % 4", True),
        ("i, j -> i, j + 2", True),
        ("i, j -> i, j * 2", True),
        ("i, j -> i * 16 + j", True),
    ],
)
def test_only_what_is_not_filled_is_padded(index_map, padded):
    mod = pair(a="float32", b="float32", c="float32", stored="A[vi, vj]", read="B[vx, vy]")
    sch = mlc.Schedule(mod).transform_layout("B", "B", index_map, pad_value=-0.5)
    assert ("B_pad" in sch.blocks()) is padded
    assert_same(mod, sch.mod)


def test_a_pad_value_is_one_of_the_buffers():
    sch = mlc.Schedule(pair())
    refuses("E145", lambda: sch.transform_layout("B", "B", "i, j -> i, j * 2", pad_value="0"))
    refuses("E108", lambda: sch.transform_layout("B", "B", "i, j -> i, j * 2", pad_value=0.5))
    refuses("E108", lambda: sch.transform_layout("B", "B", "i, j -> i, j * 2", pad_value=2**40))


def test_padding_inside_a_loop_stays_with_its_iteration():
    mod = pair(read="B[vx, vy]")
    sch = mlc.Schedule(mod).compute_at("B", "x").parallel("x")
    new = sch.transform_layout("B", "B", "i, j -> i, j // 4, j % 4", pad_value=1)
    assert new.loops("B_pad")[0] == "ax0" and new.blocks()[0] == "B_pad"
    assert_right(mod, new.mod)


def test_padding_of_what_an_iteration_owns_is_in_that():
    mod = mlc.parse(ROWS)
    sch = mlc.Schedule(mod).parallel("x").transform_layout("B", "B", "j -> j // 4, j % 4", 2)
    assert sch.loops("B_pad")[0] == "x"
    assert_right(mod, sch.mod)


ROWS = """
@T.prim_func
def main(A: T.Buffer((6, 10), "int32"), C: T.Buffer((6, 10), "int32")):
    B = T.alloc_buffer((10,), "int32")
    for x in range(6):
        for j in range(10):
            with T.block("B"):
                vj = T.axis.spatial(10, j)
                B[vj] = A[x, vj] * 2
        for y in range(10):
            with T.block("C"):
                vx, vy = T.axis.remap("SS", [x, y])
                C[vx, vy] = B[vy] + 1
"""
CONV = """
@T.prim_func
def main(A: T.Buffer((10,), "int32"), W: T.Buffer((3,), "int32"), C: T.Buffer((8,), "int32")):
    for i, r in T.grid(8, 3):
        with T.block("C"):
            vi, vr = T.axis.remap("SR", [i, r])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi + vr] * W[vr]
"""


def test_a_copy_is_laid_out_by_the_iters():
    mod = mlc.parse(CONV)
    sch = mlc.Schedule(mod).reindex_cache_read("C", "A", "shared", "i, r -> r, i // 4, i % 4")
    assert sch.func.allocs[0].shape == (3, 2, 4) and sch.func.allocs[0].scope == "shared"
    text = sch.mod.script()
    assert "A_shared[v1, v0 // 4, v0 % 4] = A[v0 + v1]" in text
    assert "A_shared[vr, vi // 4, vi % 4] * W[vr]" in text
    assert_right(mod, sch.mod)
    both = sch.reindex_cache_read("C", "W", "local", lambda i, r: r)
    assert_right(mod, both.reindex_cache_write("C", "C", "local", "i, r -> i % 2, i // 2").mod)
    again = mlc.Schedule.replay(mod, both.trace.to_json())
    assert mlc.structural_equal(again.mod, both.mod)


def test_a_result_is_laid_out_by_the_iters():
    sch = mlc.Schedule(MatmulRelu).reindex_cache_write("Y", "Y", "local", "i, j, k -> j, i")
    assert "Y_local[vj, vi] = Y_local[vj, vi] +" in sch.mod.script()
    assert_right(mlc.Schedule(MatmulRelu).mod, sch.mod)


def test_a_map_of_iters_keeps_elements_apart():
    sch = mlc.Schedule(mlc.parse(CONV))
    refuses("E146", lambda: sch.reindex_cache_read("C", "A", "local", "i, r -> i"))
    refuses("E146", lambda: sch.reindex_cache_read("C", "A", "local", "i, r -> i + r"))
    refuses("E146", lambda: sch.reindex_cache_read("C", "W", "local", "i, r -> i, r"), "vi")
    refuses("E146", lambda: sch.reindex_cache_read("C", "W", "local", "r -> r"), "2 iter(s)")
    refuses("E146", lambda: sch.reindex_cache_write("C", "C", "local", "i, r -> i, r"), "vr")
    refuses("E146", lambda: sch.reindex_cache_read("C", "W", "local", "i, r -> r * 60000"))
    refuses("E117", lambda: sch.reindex_cache_read("C", "C", "local", "i, r -> i"), "write")
    refuses("E117", lambda: sch.reindex_cache_write("C", "A", "local", "i, r -> i, r"), "not write")
    refuses("E117", lambda: sch.reindex_cache_read("C", "A", "fast", "i, r -> i, r"), "scope")
    apart = sch.decompose_reduction("C", "r")
    refuses("E117", lambda: apart.reindex_cache_write("C_update", "C", "local", "i, r -> i"))


def test_a_wider_buffer_holds_all_values():
    sch = mlc.Schedule(pair()).unsafe_set_dtype("B", "B", "int64")
    assert sch.func.allocs[0].dtype == "int64"
    assert_right(pair(), sch.mod)
    same = mlc.Schedule(pair())
    assert mlc.structural_equal(same.unsafe_set_dtype("B", "B", "int32").mod, same.mod)


NARROW = {"a": "float16", "b": "float32", "c": "float32", "stored": 'T.cast(A[vi, vj], "float32")'}


def test_a_narrower_buffer_holds_what_was_converted_from_it():
    mod = pair(**NARROW, read="B[vx, vy] * B[5 - vx, vy]")
    sch = mlc.Schedule(mod).unsafe_set_dtype("B", "B", "float16")
    assert "B[vi, vj] = A[vi, vj]" in sch.mod.script()
    assert_same(mod, sch.mod, exact=True)
    special = np.array([np.nan, np.inf, -0.0, 6e-8] * 15, "float16").reshape(6, 10)
    results = [np.empty((6, 10), "float32") for _ in range(2)]
    for module, result in zip((mod, sch.mod), results, strict=True):
        mlc.interpret(module, "main", special, result)
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize(
    ("parts", "dtype"),
    [
        ({}, "int16"),
        ({}, "float32"),
        ({}, "uint8"),
        ({}, "float64"),
        (NARROW, "bfloat16"),
        ({**NARROW, "stored": 'T.cast(A[vi, vj], "float32") + T.float32(1)'}, "float16"),
        ({"a": "float32", "b": "int32", "stored": 'T.cast(A[vi, vj], "int32")'}, "float32"),
        ({"a": "int64", "b": "int32", "stored": 'T.cast(A[vi, vj], "int32")'}, "int16"),
    ],
)
def test_a_dtype_that_would_lose_values(parts, dtype):
    parts = {**parts, "read": "B[vx, vy]"}
    refuses("E117", lambda: mlc.Schedule(pair(**parts)).unsafe_set_dtype("B", "B", dtype))


@pytest.mark.parametrize("scope", ["shared.dyn", "wmma.matrix_a", "warp", "global.A_reg"])
def test_a_scope_may_have_parts(scope):
    sch = mlc.Schedule(MatmulRelu).cache_read("Y", "A", scope).set_scope("Y", "Y", scope)
    assert {buffer.scope for buffer in sch.func.allocs} == {scope}
    assert_right(mlc.Schedule(MatmulRelu).mod, sch.mod)
    for wrong in (f"{scope}.", f".{scope}", f"{scope} ", "register.file", "shared.1", ""):
        refuses("E117", lambda: mlc.Schedule(MatmulRelu).set_scope("Y", "Y", wrong))  # noqa: B023


def test_whose_dtype_may_change():
    sch = mlc.Schedule(MatmulRelu)
    refuses("E147", lambda: sch.unsafe_set_dtype("C", "C", "float64"))
    refuses("E103", lambda: sch.unsafe_set_dtype("Y", "Y", "float64"))
    refuses("E117", lambda: sch.unsafe_set_dtype("C", "Y", "float64"))
