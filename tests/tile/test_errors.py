"""Mistakes in a tile program are refused where they stand."""

from functools import partial

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.values.errors import CompileError
from minimlc.script import T, tile
from tests.helpers import refuses


def line_of(error: CompileError) -> str:
    return error.span.text.strip()


def test_shapes_that_do_not_match():
    with pytest.raises(CompileError, match=r"\(4,\) and \(8,\)") as caught:

        @tile.kernel(grid=1)
        def wrong(A: T.Buffer((8,))):
            tile.store(A[tile.arange(0, 8)], tile.zeros((4,)) + tile.zeros((8,)))

    assert line_of(caught.value).startswith("tile.store")


def test_a_buffer_is_loaded_first():
    with pytest.raises(CompileError, match="elements of A: load them"):

        @tile.kernel(grid=1)
        def wrong(A: T.Buffer((8,)), C: T.Buffer((8,))):
            at = tile.arange(0, 8)
            tile.store(C[at], A[at] + 1.0)


def test_names_that_change_keep_their_shape():
    with pytest.raises(CompileError, match=r"acc is float32\[4\] before, float32\[8\] here"):

        @tile.kernel(grid=1)
        def wrong(A: T.Buffer((8,))):
            acc = tile.zeros((4,))
            for _ in range(0, 8, 4):
                acc = tile.zeros((8,))
            tile.store(A[tile.arange(0, 4)], acc)


def test_a_name_keeps_its_dtype():
    with pytest.raises(CompileError, match="got int64 and float32"):

        @tile.kernel(grid=1)
        def wrong(A: T.Buffer((8,))):
            total = 0
            for k in range(8):
                total = total + tile.load(A[k])
            tile.store(A[0], total)


def test_a_condition_decides_for_all():
    with pytest.raises(CompileError, match="one value decides for all"):

        @tile.kernel(grid=1)
        def wrong(A: T.Buffer((8,))):
            at = tile.arange(0, 8)
            if at < 4:
                tile.store(A[at], tile.zeros((8,)))


def test_programs_that_write_outside_are_refused():
    @tile.kernel(grid=tile.cdiv(10, 4))
    def outside(A: T.Buffer((10,))):
        at = tile.program_id(0) * 4 + tile.arange(0, 4)
        tile.store(A[at], tile.zeros((4,)))

    verify = partial(mlc.verify, mlc.IRModule({"main": outside}))
    error = refuses("E107", verify, "program=2, i=2: A[10]")
    assert line_of(error).startswith("tile.store")


def test_programs_that_read_outside_are_refused():
    @tile.kernel(grid=tile.cdiv(10, 4))
    def outside(A: T.Buffer((10,)), C: T.Buffer((12,))):
        at = tile.program_id(0) * 4 + tile.arange(0, 4)
        tile.store(C[at], tile.load(A[at]))

    verify = partial(mlc.verify, mlc.IRModule({"main": outside}))
    assert line_of(refuses("E107", verify, "A is read")).startswith("tile.store")


def test_another_name_of_the_language():
    with pytest.raises(CompileError, match=r"cannot call tl.program_id") as caught:

        @tile.kernel(grid=1)
        def wrong(A: T.Buffer((8,))):
            tile.store(A[tl.program_id(0)], 1.0)

    assert "try: tile.program_id" in str(caught.value)


def test_two_elements_in_one_place_are_refused():
    @tile.kernel(grid=1)
    def twice(A: T.Buffer((10,))):
        at = tile.arange(0, 4)
        tile.store(A[at // 2], tile.zeros((4,)))

    with pytest.raises(CompileError, match=r"A\[0\]"):
        mlc.verify(mlc.IRModule({"main": twice}))


@pytest.mark.parametrize("grid", [(), (1, 2, 3, 4), 0.5, (True,), "4"])
def test_a_grid_is_one_to_three_sizes(grid):
    with pytest.raises(CompileError):
        tile.kernel(grid=grid)


def test_a_name_may_be_bound_anew_behind_its_loop():
    @tile.kernel(grid=1)
    def again(A: T.Buffer((8,)), C: T.Buffer((2,))):
        x = tile.load(A[tile.arange(0, 8)])
        for _ in range(3):
            y = x
            x = x + y
        x = tile.max(x, axis=0)
        tile.store(C[tile.arange(0, 2)], x)

    a, c = np.arange(8, dtype="float32"), np.zeros(2, "float32")
    mlc.interpret(mlc.IRModule({"main": again}), "main", a, c)
    assert (c == 7 * 8).all()


def test_a_load_sees_what_was_there_before_a_store():
    @tile.kernel(grid=1)
    def reverse(A: T.Buffer((8,), "int32")):
        at = tile.arange(0, 8)
        tile.store(A[at], tile.load(A[7 - at]) * 2)

    a = np.arange(8, dtype="int32")
    mod = mlc.IRModule({"main": reverse})
    mlc.build(mod)["main"](a)
    assert a.tolist() == [14, 12, 10, 8, 6, 4, 2, 0]


def test_a_product_that_is_added_to_its_own_operand():
    @tile.kernel(grid=1)
    def power(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):
        at = tile.arange(0, 4)
        x = tile.load(A[at[:, None], at[None, :]])
        for _ in range(2):
            x += tile.dot(x, x)
        tile.store(B[at[:, None], at[None, :]], x)

    a = np.arange(16, dtype="int32").reshape(4, 4) % 3
    b, x = np.zeros_like(a), a
    for _ in range(2):
        x = x + x @ x
    mlc.build(mlc.IRModule({"main": power}))["main"](a, b)
    assert (b == x).all()


def test_a_store_may_name_its_elements():
    @tile.kernel(grid=1)
    def reverse(A: T.Buffer((8,), "int32")):
        at = tile.arange(0, 8)
        tile.store(elements=A[at], value=tile.load(A[7 - at]))

    a = np.arange(8, dtype="int32")
    mlc.build(mlc.IRModule({"main": reverse}))["main"](a)
    assert a.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_names_change_places_at_once():
    @tile.kernel(grid=1)
    def swapped(A: T.Buffer((4,), "int32"), C: T.Buffer((2, 4), "int32")):
        at = tile.arange(0, 4)
        x = tile.load(A[at])
        y = x * 10
        for _ in range(3):
            x, y = y, x + 1
        tile.store(C[0, at], x)
        tile.store(C[1, at], y)

    a, c = np.arange(4, dtype="int32"), np.zeros((2, 4), "int32")
    x, y = a, a * 10
    for _ in range(3):
        x, y = y, x + 1
    mlc.build(mlc.IRModule({"main": swapped}))["main"](a, c)
    assert (c == [x, y]).all()


def test_elements_that_meet_add_what_was_there_before():
    @tile.kernel(grid=1)
    def halves(A: T.Buffer((4,), "int32")):
        at = tile.arange(0, 4)
        tile.atomic_add(A[at // 2], tile.load(A[at // 2]))

    a = np.array([1, 10, 100, 1000], "int32")
    mlc.build(mlc.IRModule({"main": halves}))["main"](a)
    assert a.tolist() == [3, 30, 100, 1000]


def test_the_end_of_a_range_is_known_before():
    with pytest.raises(CompileError, match="a range is known before"):

        @tile.kernel(grid=1)
        def wrong(A: T.Buffer((8,), "int64")):
            for k in range(tile.load(A[0])):
                tile.store(A[k], 0)


def test_a_loop_has_no_else():
    with pytest.raises(CompileError, match="a loop is over a range"):

        @tile.kernel(grid=1)
        def wrong(A: T.Buffer((8,))):
            for k in range(4):
                tile.store(A[k], 0.0)
            else:
                tile.store(A[7], 1.0)
