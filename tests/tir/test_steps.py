"""Tensor expressions whose elements change one after the other: `te.in_steps`."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import te
from minimlc.loops.ir.nodes import Block
from minimlc.loops.values.node import nodes_of
from tests.helpers import refuses
from tests.te_runs import run

X = te.placeholder((5, 4), name="X")
AT = te.placeholder((7,), "int64", name="AT")
NEW = te.placeholder((7, 4), name="NEW")


def axis(size, name="k"):
    return te.reduce_axis((0, size), name)


def added(x=X, at=AT, new=NEW):
    """Rows of `new` added to rows of `x` at data-dependent places."""
    k, j = axis(at.shape[0]), axis(x.shape[1], "j")

    def element(i, l):
        def step(y):
            row = te.max(te.min(at[k], x.shape[0] - 1), 0)
            return (row, j), y[row, j] + new[k, j]

        return te.in_steps(x[i, l], x.shape, [k, j], step)

    return te.compute(x.shape, element, name="Y")


def doubled():
    """Each element twice the one before, and itself."""
    k = te.reduce_axis((1, 6), "k")
    V = te.placeholder((6,), name="V")
    element = lambda i: te.in_steps(V[i], (6,), k, lambda y: ((k,), y[k] + 2.0 * y[k - 1]))  # noqa: E731
    return V, te.compute((6,), element, name="W")


PRINTED = """
    for i, l in T.grid(5, 4):
        with T.block("Y_start"):
            vi, vl = T.axis.remap("SS", [i, l])
            Y[vi, vl] = X[vi, vl]
    for k, j in T.grid(7, 4):
        with T.block("Y"):
            vk, vj = T.axis.remap("OS", [k, j])
            Y[T.max(T.min(AT[vk], 4), 0), vj] = """


def test_start_and_steps_are_two_nests():
    text = te.create_prim_func([X, AT, NEW, added()]).script()
    assert PRINTED.strip() in text.replace("\n    ", "\n", 1) or PRINTED in text, text


def test_updates_at_places_that_data_say():
    x, at, new, y = run(X, AT, NEW, added())
    wanted = x.copy()
    np.add.at(wanted, np.clip(at, 0, 4), new)
    np.testing.assert_array_equal(y, wanted)


def test_each_step_sees_the_one_before():
    v, w = run(*doubled())
    for k in range(1, 6):
        v[k] += 2 * v[k - 1]
    np.testing.assert_allclose(w, v, rtol=1e-6)


def test_with_sizes_that_the_call_tells():
    n, m = te.var("n"), te.var("m")
    x, new = te.placeholder((n, 4), name="X"), te.placeholder((m, 4), name="NEW")
    at = te.placeholder((m,), "int64", name="AT")
    func = te.create_prim_func([x, at, new, added(x, at, new)])
    lib = mlc.build(mlc.IRModule.of({"main": func}))
    for sizes in ((3, 9), (8, 1)):
        rng = np.random.default_rng(0)
        a, c = (rng.standard_normal((size, 4), np.float32) for size in sizes)
        b, y = rng.integers(0, sizes[0], sizes[1]), np.empty_like(a)
        lib["main"](a, b, c, y)
        np.add.at(a, b, c)
        np.testing.assert_array_equal(y, a)


def test_rows_may_run_together_and_steps_may_not():
    sch = mlc.Schedule(mlc.IRModule.of({"main": te.create_prim_func([X, AT, NEW, added()])}))
    refuses("E104", lambda: sch.parallel("k"), "two iterations of k")
    refuses("E104", lambda: sch.bind("k", "blockIdx.x"), "two iterations of k")
    assert "T.parallel(4)" in sch.reorder("j", "k").parallel("j").mod.script()
    assert "T.vectorized(4)" in sch.vectorize("j").mod.script()


def test_neighbours_that_a_step_reads_keep_an_axis_in_order():
    k, j = axis(6), axis(3, "j")
    start = te.placeholder((6, 4), name="S")
    Y = te.compute(
        (6, 4),
        lambda a, b: te.in_steps(
            start[a, b], (6, 4), [k, j], lambda y: ((k, j + 1), y[k, j] + y[k, j + 1])
        ),
        name="Y",
    )
    text = te.create_prim_func([start, Y]).script()
    assert 'T.axis.remap("SO", [k, j])' in text, text
    s, y = run(start, Y)
    np.testing.assert_array_equal(y, np.add.accumulate(s, 1))


@pytest.mark.parametrize(
    "element",
    [
        lambda i, k: te.in_steps(X[i, 0], (5,), k, lambda y: ((i,), y[i])),
        lambda i, k: te.in_steps(X[k, 0], (5,), k, lambda y: ((k,), y[k])),
    ],
)
def test_indices_are_for_the_start_and_axes_for_the_steps(element):
    k = axis(5)
    refuses("E130", lambda: te.compute((5,), lambda i: element(i, k)), "none of its indices")


def test_a_step_names_a_whole_element():
    k = axis(5)
    call = lambda: te.compute(  # noqa: E731
        (5, 4), lambda i, j: te.in_steps(X[i, j], (5, 4), k, lambda y: ((k,), y[k, 0]))
    )
    refuses("E107", call)


def test_long_formulas_before_them_are_read_once():
    """Each of 60 tensors reads the one before twice: 2 ** 60 ways through them."""
    x = first = te.placeholder((4,), name="P")
    for _ in range(60):
        x = te.compute((4,), lambda i, x=x: te.max(x[i], x[3 - i]))
    k = axis(4)
    y = te.compute((4,), lambda i: te.in_steps(x[i], (4,), k, lambda y: ((k,), y[k] + x[k])))
    assert len(nodes_of(te.create_prim_func([first, y]), Block)) == 62


def test_a_step_gives_what_an_element_is():
    k = axis(5)

    def stepped(given, start=X):
        element = lambda i: te.in_steps(start[i, 0], (5,), k, lambda y: ((k,), given))  # noqa: E731
        return te.compute((5,), element)

    x, y = run(X, stepped(2))
    np.testing.assert_array_equal(y, [2] * 5)
    refuses("E130", lambda: stepped(AT[k]), "a step gives int64, the start is float32")
    number = te.in_steps(X[0, 0], (5,), k, lambda y: ((k,), y[k]))
    refuses("E130", lambda: number + 1.0, "te.in_steps must be the whole expression")
