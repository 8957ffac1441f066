"""Spellings of tensor expressions that the field uses: at least three programs of each, run by the
interpreter and by LLVM.
"""

from functools import partial

import numpy as np
import pytest

import minimlc as mlc
from minimlc import IRModule, te
from minimlc.loops.ir.nodes import Block
from minimlc.loops.values.node import nodes_of, structural_equal
from tests.helpers import assert_same, refuses
from tests.te_runs import run

A = te.placeholder((5, 7), name="A")
B = te.placeholder((5, 7), name="B")
I32 = te.placeholder((5, 7), "int32", name="I32")


def axis(size=7, name="k"):
    return te.reduce_axis((0, size), name)


def iter_kinds(*tensors):
    """Of each block, its name and the kinds of its axes."""
    blocks = nodes_of(te.create_prim_func(tensors), Block)
    return {block.name: "".join(it.kind for it in block.iters) for block in blocks}


# A(i, j)


def test_reads_in_round_brackets_are_reads():
    def both(index):
        k = axis()
        row = te.compute((5,), lambda i: te.sum(index(A, i, k), axis=k), name="row")
        last = te.compute((7, 5), lambda i, j: index(A, j, i) - index(row, j), name="last")
        return te.create_prim_func([A, last])

    assert structural_equal(both(lambda X, *i: X(*i)), both(lambda X, *i: X[i]))


def test_a_window_read_in_round_brackets():
    X = te.placeholder((9,), name="X")
    p = axis(3, "p")
    x, y = run(X, te.compute((7,), lambda i: te.sum(X(i + p), axis=p)))
    np.testing.assert_array_equal(y, np.convolve(x, np.ones(3), "valid").astype("float32"))


def test_a_gather_read_in_round_brackets():
    places = te.placeholder((4,), "int64", name="places")
    Y = te.compute((4,), lambda i: A(te.max(te.min(places(i), 4), 0), 2), name="Y")
    a, p, y = run(A, places, Y)
    np.testing.assert_array_equal(y, a[np.clip(p, 0, 4), 2])


# te.max and te.min of two values, beside reductions


def test_the_greater_of_two_values():
    a, b, c = run(A, B, te.compute((5, 7), lambda *i: te.max(A(*i), B(*i)), name="C"))
    np.testing.assert_array_equal(c, np.maximum(a, b))


def test_a_relu_of_a_greatest_value():
    k = axis()
    row = te.compute((5,), lambda i: te.max(A[i, k], axis=k), name="row")
    out = te.compute((5,), lambda i: te.max(row[i], te.const(0, "float32")), name="out")
    a, y = run(A, out)
    np.testing.assert_array_equal(y, np.maximum(a.max(1), 0))


def test_values_between_two_bounds():
    between = te.compute((5, 7), lambda i, j: te.min(te.max(I32(i, j), -2), 3), name="between")
    x, y = run(I32, between)
    np.testing.assert_array_equal(y, np.clip(x, -2, 3))


# te.const


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "float16", "float32", "float64"])
def test_a_number_of_a_dtype(dtype):
    X = te.placeholder((6,), dtype, name="X")
    x, y = run(X, te.compute((6,), lambda i: X[i] + te.const(3, dtype), name="Y"))
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x + x.dtype.type(3))


def test_a_number_without_a_dtype_takes_that_of_what_it_meets():
    x, y = run(I32, te.compute((5, 7), lambda i, j: I32[i, j] * te.const(2) + te.const(1)))
    np.testing.assert_array_equal(y, 2 * x + 1)
    a, y = run(A, te.compute((5, 7), lambda i, j: A[i, j] * te.const(0.5) + te.const(1)))
    np.testing.assert_array_equal(y, a / 2 + 1)
    refuses("E108", lambda: te.const(300, "int8"), "-128 ... 127")
    refuses("E108", lambda: te.const(1, "flot32"), '"float32"')


def test_a_bool_and_an_infinity():
    Y = te.compute((5,), lambda i: te.if_then_else(te.const(True, "bool"), A[i, 0], 0.0), name="Y")
    a, y = run(A, Y)
    np.testing.assert_array_equal(y, a[:, 0])
    least = te.compute((5,), lambda i: te.max(te.const("-inf", "float32"), A[i, 0]), name="least")
    a, y = run(A, least)
    np.testing.assert_array_equal(y, a[:, 0])


# Keywords, tags, several outputs


def test_keywords_of_all_constructs():
    X = te.placeholder(shape=(5, 7), dtype="float32", name="X")
    k = te.reduce_axis(dom=(0, 7), name="k")
    Y = te.compute(
        shape=(5,),
        fcompute=lambda i: te.sum(expr=X[i, k], axis=[k]),
        name="Y",
        tag="reduction",
        attrs={"workload": "sum"},
    )
    x, y = run(X, Y)
    np.testing.assert_array_equal(y, x.sum(1))


def test_a_function_of_several_values_makes_several_tensors():
    S, D = te.compute((5, 7), lambda i, j: (A[i, j] + B[i, j], A[i, j] - B[i, j]), name="both")
    a, b, s, d = run(A, B, S, D)
    np.testing.assert_array_equal([s, d], [a + b, a - b])
    assert [S.name, D.name] == ["both_v0", "both_v1"]
    a, b, d = run(A, B, D)
    np.testing.assert_array_equal(d, a - b)


def test_several_reductions_of_one_function():
    k = axis()
    low, high = te.compute(
        (5,), lambda i: [te.min(A[i, k], axis=k), te.max(A[i, k], axis=k)], name="range"
    )
    a, x, y = run(A, low, high)
    np.testing.assert_array_equal([x, y], [a.min(1), a.max(1)])


# where= and init= of reductions


def test_a_reduction_where_a_condition_holds():
    k = axis()
    meanings = {te.sum: (np.sum, 0), te.prod: (np.prod, 1), te.max: (np.max, -9)}
    for reduce, (meaning, least) in meanings.items():
        above = partial(reduce, axis=k, where=I32[0, k] > 1)
        Y = te.compute((5,), lambda i, above=above: above(I32[i, k]), name="Y")
        x, y = run(I32, Y)
        wanted = meaning(x, axis=1, where=x[0] > 1, initial=least)
        np.testing.assert_array_equal(y, wanted)
        assert iter_kinds(I32, Y) == {"Y": "SR"}


def test_a_reduction_over_part_of_an_axis():
    k = axis()
    lower = te.compute((5,), lambda i: te.sum(I32[i, k], axis=k, where=k <= i), name="lower")
    x, y = run(I32, lower)
    np.testing.assert_array_equal(y, np.tril(x).sum(1))


def test_a_reduction_that_starts_from_a_value():
    k = axis()
    b = te.placeholder((5,), name="b")
    biased = te.compute((5,), lambda i: te.sum(A[i, k], axis=k, init=b[i]), name="biased")
    a, start, y = run(A, b, biased)
    np.testing.assert_array_equal(y, a.sum(1) + start)
    above = te.compute((5,), lambda i: te.max(A[i, k], axis=k, init=3), name="above")
    a, y = run(A, above)
    np.testing.assert_array_equal(y, np.maximum(a.max(1), 3))


# te.comm_reducer


def test_a_sum_of_ones_own():
    total = te.comm_reducer(lambda x, y: x + y, lambda t: te.const(0, dtype=t), name="total")
    k, i = axis(), axis(5, "i")
    Y = te.compute((5,), lambda i: total(A[i, k] * B[i, k], axis=k), name="Y")
    a, b, y = run(A, B, Y)
    np.testing.assert_array_equal(y, (a * b).sum(1))
    assert iter_kinds(A, B, Y) == {"Y": "SR"}
    every = te.compute((1,), lambda _: total(I32[i, k], axis=[i, k]), name="every")
    x, y = run(I32, every)
    assert y[0] == x.sum() and total.__name__ == "total"


@pytest.mark.parametrize(
    ("combine", "start", "meaning"),
    [
        (lambda x, y: x * y, 1, np.prod),
        (lambda x, y: te.max(x, y), -100, np.max),
        (lambda x, y: te.min(y, x), 100, np.min),
        (lambda x, y: x | y, 0, lambda a, axis: np.bitwise_or.reduce(a, axis)),
    ],
)
def test_reducers_that_the_library_knows(combine, start, meaning):
    k = axis()
    mine = te.comm_reducer(combine, lambda t: te.const(start, t), name="mine")
    Y = te.compute((5,), lambda i: mine(I32[i, k], axis=k), name="Y")
    x, y = run(I32, Y)
    np.testing.assert_array_equal(y, meaning(x, axis=1))
    assert iter_kinds(I32, Y) == {"Y": "SR"}


def test_what_is_not_associative_is_combined_in_order():
    k = axis()
    horner = te.comm_reducer(lambda x, y: x * 2 + y, lambda t: te.const(0, t), name="horner")
    Y = te.compute((5,), lambda i: horner(I32[i, k], axis=k), name="Y")
    x, y = run(I32, Y)
    np.testing.assert_array_equal(y, x @ (2 ** np.arange(7)[::-1]))
    assert iter_kinds(I32, Y) == {"Y_init": "S", "Y": "SO"}
    sch = mlc.Schedule(IRModule.from_expr(te.create_prim_func([I32, Y])))
    refuses("E104", lambda: sch.parallel("k"))


def argmax(better=lambda x, y: x[1] >= y[1]):
    def fcombine(x, y):
        first = better(x, y)
        return te.if_then_else(first, x[0], y[0]), te.if_then_else(first, x[1], y[1])

    def fidentity(of_index, of_value):
        return te.const(-1, of_index), te.min_value(of_value)

    return te.comm_reducer(fcombine, fidentity, name="argmax")


PLACES = te.placeholder((5, 7), "int32", name="PLACES")


@pytest.mark.parametrize("dtype", ["int32", "int8", "float32", "float16"])
def test_the_greatest_value_and_its_place(dtype):
    X = te.placeholder((5, 7), dtype, name="X")
    k = axis()
    P, V = te.compute((5,), lambda i: argmax()((k, X[i, k]), axis=k), name="T")
    x, p, v = run(X, P, V)
    np.testing.assert_array_equal(p, x.argmax(1))
    np.testing.assert_array_equal(v, x.max(1))
    assert (P.name, V.name, P.dtype, V.dtype) == ("T_v0", "T_v1", "int64", dtype)
    # A float may be NaN, whose place in the order depends on how the values are grouped.
    kinds = {"T": "SR"} if dtype[0] == "i" else {"T_init": "S", "T": "SO"}
    assert iter_kinds(X, P, V) == kinds


def test_parts_that_are_read_or_that_nobody_reads():
    k = axis()
    P, V = te.compute((5,), lambda i: argmax()((PLACES[i, k], I32[i, k]), axis=k), name="T")
    places, x, p, v = run(PLACES, I32, P, V)
    best = x.argmax(1)
    np.testing.assert_array_equal(p, places[range(5), best])
    np.testing.assert_array_equal(v, x.max(1))
    *_, again = run(PLACES, I32, P)
    np.testing.assert_array_equal(again, p)
    scaled = te.compute((5,), lambda i: P[i] * 2, name="scaled")
    *_, twice = run(PLACES, I32, scaled)
    np.testing.assert_array_equal(twice, 2 * p)


def test_an_argmax_can_be_scheduled():
    k = axis()
    P, V = te.compute((5,), lambda i: argmax()((k, I32[i, k]), axis=k), name="T")
    sch = mlc.Schedule(IRModule.from_expr(te.create_prim_func([I32, P, V])))
    done = sch.parallel("i").split("k", [None, 3]).decompose_reduction("T", at="k_0")
    x = np.array([[1, 5, 5, 0, 2, 5, 1]] * 5, "int32")
    p, v = np.empty(5, "int64"), np.empty(5, "int32")
    mlc.build(done.mod)["main"](x, p, v)
    assert p.tolist() == [1] * 5 and v.tolist() == [5] * 5


def test_three_parts_and_a_condition():
    def fcombine(x, y):
        return x[0] + y[0], te.max(x[1], y[1]), te.min(x[2], y[2])

    summary = te.comm_reducer(
        fcombine, lambda *t: (te.const(0, t[0]), te.min_value(t[1]), te.max_value(t[2])), "summary"
    )
    k = axis()
    outs = te.compute(
        (5,), lambda i: summary([I32[i, k], I32[i, k], I32[i, k]], axis=k, where=k > 0), name="S"
    )
    x, total, most, least = run(I32, *outs)
    part = x[:, 1:]
    np.testing.assert_array_equal([total, most, least], [part.sum(1), part.max(1), part.min(1)])


def test_what_a_reducer_refuses():
    k = axis()
    add = te.comm_reducer(lambda x, y: x + y, lambda t: te.const(0, t), name="add")
    swap = te.comm_reducer(
        lambda x, y: (x[1] + y[0], x[0] + y[1]), lambda *t: (te.const(0, t[0]), te.const(0, t[1]))
    )
    short = te.comm_reducer(lambda x, y: x[0], lambda *t: (0, 0), name="short")
    wide = te.comm_reducer(lambda x, y: (x + y).astype("int64"), lambda t: 0, name="wide")
    true = te.comm_reducer(lambda x, y: x if x > y else y, lambda t: 0, name="true")
    pair = te.compute((5,), lambda i: swap((I32[i, k], I32[i, k]), axis=k), name="pair")
    refuses("E130", lambda: te.create_prim_func([I32, *pair]), "step before", "te.max(x[1], y[1])")
    refuses("E130", lambda: add(I32[0, k]), "axis=k")
    refuses("E130", lambda: add(I32, axis=k), "I32[i, j]")
    refuses("E130", lambda: short((I32[0, k], I32[0, k]), axis=k), "fcombine of short gives 1")
    refuses("E130", lambda: wide(I32[0, k], axis=k), "gives int64 for value 0, which is int32")
    refuses("E112", lambda: true(I32[0, k], axis=k), "if_then_else")
    one = te.comm_reducer(lambda x: x, lambda t: 0, name="one")
    refuses("E130", lambda: one(I32[0, k], axis=k), "fcombine of one does not take 2 argument(s)")
    refuses("E130", lambda: one((), axis=k), "fcombine of one")
    refuses("E130", lambda: te.comm_reducer(3, 4)(I32[0, k], axis=k), "fcombine of reduce")
    refuses("E108", lambda: add(I32[0, k], axis=k, where=3), "bool")
    refuses("E130", lambda: te.compute((5,), lambda i: ()), "nothing")
    refuses("E130", lambda: te.compute((5,), lambda i: add(I32[i, k], axis=k) + 1), "whole")


# te.var


def symbolic(args, arrays):
    """The arrays after a call: interpreter and LLVM give the same bits; the script reads back."""
    mod = mlc.verify(IRModule.from_expr(te.create_prim_func(args)))
    assert isinstance(mod["main"], mlc.SymbolicFunc)
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    again = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
    mlc.interpret(mod, "main", *arrays)
    mlc.build(mod)["main"](*again)
    for mine, other in zip(arrays, again, strict=True):
        assert np.asarray(mine).tobytes() == np.asarray(other).tobytes()
    return arrays


def whole(*shape, dtype="float32"):
    return (np.arange(np.prod(shape)) % 7 - 3).reshape(shape).astype(dtype)


@pytest.mark.parametrize("make", [te.var, te.size_var])
@pytest.mark.parametrize("size", [1, 5])
def test_a_vector_of_any_length(make, size):
    n = make("n", dtype="int32")
    X = te.placeholder((n,), name="X")
    x, y = symbolic(
        [X, te.compute((n,), lambda i: X[i] + 1.0, name="Y")], [whole(size), whole(size)]
    )
    np.testing.assert_array_equal(y, x + 1)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (5, 1, 2)])
def test_a_product_of_any_sizes(sizes):
    n, m, l = (te.var(name) for name in "nml")
    X, W = te.placeholder((n, l), name="X"), te.placeholder((l, m), name="W")
    k = te.reduce_axis((0, l), name="k")
    Y = te.compute((n, m), lambda i, j: te.sum(X[i, k] * W[k, j], axis=k), name="Y")
    Z = te.compute((n, m), lambda i, j: te.max(Y(i, j), 0) * n, name="Z")
    rows, columns, inner = sizes
    arrays = [whole(rows, inner), whole(inner, columns), whole(rows, columns)]
    x, w, z = symbolic([X, W, Z], arrays)
    np.testing.assert_array_equal(z, np.maximum(x @ w, 0) * rows)


def test_sizes_of_sizes_and_sizes_that_a_call_passes():
    n, m = te.var("n"), te.var("m")
    X = te.placeholder((n, m), "int32", name="X")
    k = te.reduce_axis((1, m), name="k")
    rest = te.compute((n * 2,), lambda i: te.sum(X[i // 2, k], axis=k), name="rest")
    x, y = symbolic([X, rest], [whole(3, 4, dtype="int32"), np.zeros(6, "int32")])
    np.testing.assert_array_equal(y, x[:, 1:].sum(1).repeat(2))
    count = te.var("count")
    Y = te.placeholder((n,), name="Y")
    scaled = te.compute((n,), lambda i: Y[i] * (count - 1), name="scaled")
    count_, y, z = symbolic([count, Y, scaled], [4, whole(5), whole(5)])
    np.testing.assert_array_equal(z, y * 3)
    assert len(mlc.structural_hash(te.create_prim_func([count, Y, scaled]))) == 32


def test_sizes_that_nothing_tells_and_other_mistakes():
    n, m = te.var("n"), te.var("m")
    X = te.placeholder((n,), name="X")
    loose = te.compute((n,), lambda i: X[i] * m, name="loose")
    refuses("E136", lambda: te.create_prim_func([X, loose]), "determines the size m", "[m, A")
    refuses("E130", lambda: te.var("x", "float32"), "float32 is none")
    refuses("E130", lambda: te.placeholder((A[0, 0], 3)), "sizes are integers")
    refuses("E130", lambda: te.reduce_axis((n, 2.5)), "bounds")
    refuses("E130", lambda: te.create_prim_func([n, n, X, loose]), '"n" is given twice')
    mod = IRModule.from_expr(te.create_prim_func([X, te.compute((n,), lambda i: X[i] * 2.0)]))
    refuses("E136", lambda: mlc.Schedule(mod).parallel("i"), "n=128")
    one = mlc.specialize(mod, "main", n=8)
    assert_same(one, mlc.Schedule(one).split("i", [None, 4]).mod)
