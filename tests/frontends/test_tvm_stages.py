"""Schedules of tensors: each step goes to the stage that is named, and the numbers stay."""

import numpy as np
import pytest

import minimlc as mlc
import minimlc.frontends.tvm as tvm
from minimlc.frontends.tvm import te
from tests.helpers import refuses

RNG = np.random.default_rng(3)


def rand(*shape):
    return RNG.integers(-4, 5, shape).astype("float32")


def check(s, tensors, *arrays):
    """Check the result of a schedule; `arrays` are the inputs and the expected result."""
    *inputs, expected = arrays
    out = tvm.nd.empty(expected.shape)
    tvm.build(s, tensors)(*inputs, out)
    assert np.array_equal(out.numpy(), expected)


def lines(s, tensors, word):
    return [
        line.strip() for line in tvm.lower(s, tensors)["main"].script().split("\n") if word in line
    ]


def loops(s, tensors):
    return [line.partition(" in ")[2] for line in lines(s, tensors, "for ")]


# Two tensors of one name


def chain(names):
    """(A + 1) * 2 - 3, by stages of these names."""
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name=names[0])
    C = te.compute((8,), lambda i: B[i] * 2.0, name=names[1])
    D = te.compute((8,), lambda i: C[i] - 3.0, name=names[2])
    return A, B, C, D


@pytest.mark.parametrize("names", ["YYY", "BBD", "AAA", "BCD"])
@pytest.mark.parametrize("which", [1, 2, 3])
def test_a_step_goes_to_the_tensor_that_is_named(names, which):
    tensors = chain(names)
    A, D = tensors[0], tensors[-1]
    s = te.create_schedule(D.op)
    s[tensors[which]].vectorize(tensors[which].op.axis[0])
    kinds = ["T.vectorized(8):" if n == which else "range(8):" for n in (1, 2, 3)]
    assert loops(s, [A, D]) == kinds
    a = rand(8)
    check(s, [A, D], a, (a + 1) * 2 - 3)


@pytest.mark.parametrize("names", ["YYY", "DDD"])
def test_names_stay_apart_whatever_the_parameters_are(names):
    A, B, C, D = chain(names)
    s = te.create_schedule([D.op])
    s[C].unroll(C.op.axis[0])
    for params in ([A, D], [A, B, D], [A, C, D], [A, C, B, D]):
        assert loops(s, params) == ["range(8):", "T.unroll(8):", "range(8):"]
    a, b, d = rand(8), tvm.nd.empty((8,)), tvm.nd.empty((8,))
    tvm.build(s, [A, B, D])(a, b, d)
    assert np.array_equal(b.numpy(), a + 1)
    assert np.array_equal(d.numpy(), (a + 1) * 2 - 3)


def test_stages_of_one_name_have_shapes_of_their_own():
    A = te.placeholder((8,), name="A")
    B = te.compute((4, 2), lambda i, j: A[i * 2 + j] + 1.0, name="Y")
    C = te.compute((8,), lambda i: B[i // 2, i % 2] * 2.0, name="Y")
    s = te.create_schedule(C.op)
    s[B].fuse(*B.op.axis)
    a = rand(8)
    check(s, [A, C], a, (a + 1) * 2)


def test_several_results_of_one_reduction():
    I, V = te.placeholder((4, 6), "int32", name="I"), te.placeholder((4, 6), name="V")
    k = te.reduce_axis((0, 6), "k")
    assert k.var is k
    best = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda of_index, of_value: (te.const(-1, of_index), te.min_value(of_value)),
    )
    place, value = te.compute((4,), lambda i: best((I[i, k], V[i, k]), axis=k), name="best")
    s = te.create_schedule([place.op, value.op])
    s[place].parallel(place.op.axis[0])
    v = RNG.permutation(24).reshape(4, 6).astype("float32")
    places, values = tvm.nd.empty((4,), "int32"), tvm.nd.empty((4,))
    index = np.tile(np.arange(6, dtype="int32"), (4, 1))
    tvm.build(s, [I, V, place, value])(index, v, places, values)
    assert np.array_equal(places.numpy(), v.argmax(1))
    assert np.array_equal(values.numpy(), v.max(1))


# Sizes known at the call, and constants


def test_rows_of_a_size_known_at_the_call():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * A[i], name="B")
    s = te.create_schedule(B.op)
    for size in (1, 5, 9):
        a = rand(size)
        check(s, [A, B], a, a * a)


def test_two_sizes_and_a_sum():
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    lib = tvm.build(te.create_schedule(B.op), [A, B], name="rows")
    assert lib.entry_name == "rows"
    a, b = rand(3, 7), tvm.nd.empty((3,))
    lib["rows"](a, b)
    assert np.array_equal(b.numpy(), a.sum(1))


def test_stages_of_one_name_and_of_a_size_known_at_the_call():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="Y")
    C = te.compute((n,), lambda i: B[i] * 3.0, name="Y")
    a = rand(6)
    check(te.create_schedule(C.op), [A, C], a, (a + 1) * 3)


def test_a_step_needs_numbers():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    refuses("E136", lambda: s[B].split(B.op.axis[0], factor=4), "known only at the call: n")


@pytest.mark.parametrize(
    "size", [te.const(12, "int64"), te.const(12, "int32"), tvm.tir.const(12, "int32"), 48 / 4]
)
def test_sizes_are_constants_too(size):
    A = te.placeholder((size, 4), name="A")
    k = te.reduce_axis((0, te.const(4, "int32")), "k")
    B = te.compute((size,), lambda i: te.sum(A[i, k], axis=k), name="B")
    assert B.shape == (12,)
    a = rand(12, 4)
    check(te.create_schedule(B.op), [A, B], a, a.sum(1))


@pytest.mark.parametrize("size", [2.5, te.const(1.0, "float32"), -1])
def test_what_is_no_size(size):
    refuses("E130", lambda: te.placeholder((size,), name="A"), "sizes are integers")


def test_results_that_no_parameter_names_come_last():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    mod = tvm.lower(te.create_schedule(B.op), [A], simple_mode=True)
    assert [param.name for param in mod["main"].params] == ["A", "B"]


# Caches


def scaled(n=16):
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] * 2.0, name="B")
    return A, B, te.create_schedule(B.op)


def product(n=16):
    A, B = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C, te.create_schedule(C.op)


def test_cache_write_of_elements():
    A, B, s = scaled()
    L = s.cache_write(B, "local")
    outer, _ = s[B].split(B.op.axis[1], 4)
    s[L].compute_at(s[B], outer)
    s[L].vectorize(L.op.axis[1])
    assert loops(s, [A, B]) == ["T.grid(16, 4):", "T.vectorized(4):", "range(4):"]
    a = rand(16, 16)
    check(s, [A, B], a, a * 2)


def test_cache_write_of_a_sum():
    A, B, C, s = product()
    L = s.cache_write(C, "local")
    xo, yo, xi, yi = s[C].tile(*C.op.axis, 4, 8)
    s[L].compute_at(s[C], yo)
    x, y = L.op.axis
    ko, ki = s[L].split(L.op.reduce_axis[0], factor=4)
    s[L].reorder(ko, x, ki, y)
    s[L].vectorize(y)
    s[C].vectorize(yi)
    assert 'C_local = T.alloc_buffer((16, 16), "float32", scope="local")' in lines(
        s, [A, B, C], "C_local ="
    )
    a, b = rand(16, 16), rand(16, 16)
    check(s, [A, B, C], a, b, a @ b)


def test_cache_write_of_a_stage_in_between():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="Y")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="Y")
    s = te.create_schedule(C.op)
    L = s.cache_write(B, "local")
    s[L].unroll(L.op.axis[0])
    s[C].vectorize(C.op.axis[0])
    assert loops(s, [A, C]) == ["T.unroll(8):", "range(8):", "T.vectorized(8):"]
    a = rand(8)
    check(s, [A, C], a, (a + 1) * 2)


def test_an_axis_that_went_to_the_cache_is_no_loop_of_what_is_left():
    _, _, C, s = product(4)
    (k,) = C.op.reduce_axis
    s.cache_write(C, "local")
    with pytest.raises(tvm.tir.ScheduleError, match="E118"):
        s[C].split(k, 2)


def test_cache_read_for_one_reader():
    A, B, s = scaled()
    L = s.cache_read(A, "shared", [B])
    s[L].compute_at(s[B], B.op.axis[0])
    s[L].vectorize(L.op.axis[1])
    assert loops(s, [A, B]) == ["range(16):", "T.vectorized(16):", "range(16):"]
    a = rand(16, 16)
    check(s, [A, B], a, a * 2)


def test_cache_read_of_a_copy_moved_in_any_order():
    A, B, C, s = product()
    AA = s.cache_read(A, "shared", [C])
    AL = s.cache_read(AA, "local", [C])
    L = s.cache_write(C, "local")
    s[L].compute_at(s[C], C.op.axis[0])
    ko, ki = s[L].split(L.op.reduce_axis[0], factor=4)
    s[L].reorder(ko, ki, L.op.axis[1])
    s[AA].compute_at(s[L], ko)  # waits for its reader
    s[AL].compute_at(s[L], ki)
    names = [line.split('"')[1] for line in lines(s, [A, B, C], "T.block(")]
    assert names == ["A_shared", "A_shared_local", "C", "C_local"]
    a, b = rand(16, 16), rand(16, 16)
    check(s, [A, B, C], a, b, a @ b)


def test_cache_read_of_a_computed_tensor():
    A, B, C, D = chain("YYY")
    s = te.create_schedule(D.op)
    L = s.cache_read(C, "local", [D])
    s[L].vectorize(L.op.axis[0])
    assert loops(s, [A, D]) == ["range(8):", "range(8):", "T.vectorized(8):", "range(8):"]
    a = rand(8)
    check(s, [A, D], a, (a + 1) * 2 - 3)
    refuses("E118", lambda: s.cache_read(A, "local", [B, C]), "a copy for one reader")


def test_a_place_that_is_none_is_refused_at_last():
    A, B, C, D = chain("BCD")
    s = te.create_schedule(D.op)
    s[D].compute_at(s[C], C.op.axis[0])
    with pytest.raises(tvm.tir.ScheduleError):
        tvm.lower(s, [A, D])


# Partial results


def sums(rows=8, columns=32):
    A = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), "k")
    B = te.compute((rows,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return A, k, B, te.create_schedule(B.op)


def test_partial_results_of_inner_iterations():
    A, k, B, s = sums()
    _, ki = s[B].split(k, factor=8)
    part = s.rfactor(B, ki)
    assert len(part.op.axis) == 2 and len(part.op.reduce_axis) == 1
    s[part].vectorize(part.op.axis[0])
    assert loops(s, [A, B])[0:2] == ["T.grid(8, 4):", "T.vectorized(8):"]
    a = rand(8, 32)
    check(s, [A, B], a, a.sum(1))


def test_partial_results_inside_their_sum():
    A, k, B, s = sums()
    _, ki = s[B].split(k, factor=8)
    part = s.rfactor(B, ki)
    s[part].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].parallel(s[B].op.axis[0])
    s[part].unroll(part.op.reduce_axis[0])
    assert loops(s, [A, B]) == ["T.parallel(8):", "range(8):", "T.unroll(4):"]
    a = rand(8, 32)
    check(s, [A, B], a, a.sum(1))


def test_partial_results_at_another_place():
    A, k, B, s = sums(4, 12)
    ko, _ = s[B].split(k, nparts=3)
    part = s.rfactor(B, ko, factor_axis=1)
    s[part].reorder(part.op.axis[1], part.op.axis[0])
    assert "B_rf[vi1, vk_0]" in lines(s, [A, B], "B_rf[")[0]
    a = rand(4, 12)
    check(s, [A, B], a, a.sum(1))


def test_partial_results_of_a_cached_sum_at_the_last_place():
    A, k, B, s = sums(4, 12)
    L = s.cache_write(B, "local")
    _, ki = s[L].split(L.op.reduce_axis[0], factor=3)
    part = s.rfactor(L, ki, factor_axis=-1)
    s[part].vectorize(part.op.axis[1])
    s[L].unroll(s[L].op.reduce_axis[0])
    assert loops(s, [A, B])[:2] == ["T.grid(4, 4):", "T.vectorized(3):"]
    a = rand(4, 12)
    check(s, [A, B], a, a.sum(1))


def test_a_stage_that_waits_is_moved_once():
    A, B, C, D = chain("BCD")
    s = te.create_schedule(D.op)
    s[B].compute_at(s[D], D.op.axis[0])  # C, which reads it, is not there yet
    s[C].compute_inline()
    for _ in range(2):
        assert loops(s, [A, D]) == ["range(8):"]
    a = rand(8)
    check(s, [A, D], a, (a + 1) * 2 - 3)


def test_notes_on_loops():
    A, B, s = scaled()
    s[B].pragma(B.op.axis[0], "auto_unroll_max_step", 8)
    (line,) = lines(s, [A, B], "pragma")
    assert '"pragma_auto_unroll_max_step": 8' in line
    a = rand(16, 16)
    check(s, [A, B], a, a * 2)


def test_factors_are_constants_too():
    A, B, s = scaled()
    sch = tvm.tir.Schedule(te.create_prim_func([A, B]))
    i, _ = sch.get_loops(sch.get_block("B"))
    outer, inner = sch.split(i, factors=[None, te.const(4, "int64")])
    assert mlc.Schedule(sch.mod).loops("B") == [outer, inner, "j"]
    assert sch.trace[0][1]["factors"] == (None, 4)
