import math

import numpy as np
import pytest

from minimlc import IRModule
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import Block, For, binary, intrin
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import structural_equal, walk
from minimlc.script import T
from tests.helpers import random_array, refuses

A = te.placeholder((4, 6), name="A")
B = te.placeholder((6, 5), name="B")
k = te.reduce_axis((0, 6), name="k")


def run(tensors, *args):
    interpret(IRModule.of({"f": te.create_prim_func(tensors)}), "f", *args)


def blocks(func):
    return [item for item in walk(func) if isinstance(item, Block)]


def loops(func):
    return [item.var.name for item in walk(func) if isinstance(item, For)]


def matmul(name="C"):
    return te.compute((4, 5), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name=name)


def test_matmul_and_relu():
    C = matmul()
    D = te.compute((4, 5), lambda i, j: binary("max", C[i, j], 0.0), name="D")
    rng = np.random.default_rng(0)
    a, b = random_array((4, 6), "float32", rng), random_array((6, 5), "float32", rng)
    d = np.empty((4, 5), np.float32)
    run([A, B, D], a, b, d)
    np.testing.assert_allclose(d, np.maximum(a.astype(float) @ b, 0), rtol=1e-5, atol=1e-6)


def test_names_are_unique_within_a_function():
    C = matmul()
    D = te.compute((4, 5), lambda i, j: C[i, j] * 2.0, name="C")
    E = te.compute((4, 5), lambda *i: D[i] + 1.0, name="C")
    func = te.create_prim_func([A, B, E])
    assert [b.name for b in blocks(func)] == ["C1", "C2", "C"]
    assert loops(func) == ["i", "j", "k", "i1", "j1", "i0", "i11"]
    assert [b.name for b in func.allocs] == ["C1", "C2"]
    assert [[it.var.name for it in b.iters] for b in blocks(func)] == [
        ["vi", "vj", "vk"],
        ["vi", "vj"],
        ["v_i0", "v_i1"],
    ]


def test_every_call_makes_new_symbols():
    C = matmul()
    first, second = te.create_prim_func([A, B, C]), te.create_prim_func([A, B, C])
    assert structural_equal(first, second)
    assert first.params[0] is not second.params[0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int64"])
@pytest.mark.parametrize("reduce", ["sum", "prod", "max", "min"])
def test_reductions(reduce, dtype):
    X = te.placeholder((3, 4), dtype, name="X")
    r = te.reduce_axis((0, 4), name="r")
    Y = te.compute((3,), lambda i: getattr(te, reduce)(X[i, r], axis=r), name="Y")
    x = (np.arange(12).reshape(3, 4) % 5).astype(to_numpy(dtype))
    y = np.zeros(3, x.dtype)
    run([X, Y], x, y)
    wanted = getattr(x.astype("f8"), reduce)(axis=1).astype(x.dtype)
    np.testing.assert_array_equal(y.astype("f8"), wanted.astype("f8"))


def test_the_greatest_of_only_minus_infinity():
    X = te.placeholder((3,), name="X")
    r = te.reduce_axis((0, 3), name="r")
    Y = te.compute((), lambda: te.max(X[r], axis=r), name="Y")
    y = np.zeros((), np.float32)
    run([X, Y], np.full(3, -np.inf, np.float32), y)
    assert y == -np.inf


def test_a_reduce_axis_with_an_offset_and_two_axes():
    r, s = te.reduce_axis((1, 4), name="r"), te.reduce_axis((2, 6), name="s")
    Y = te.compute((1,), lambda i: te.sum(A[r, s] * (i + 1).astype("float32"), axis=[r, s]))
    a, y = np.arange(24, dtype="f4").reshape(4, 6), np.zeros(1, np.float32)
    run([A, Y], a, y)
    assert y[0] == a[1:4, 2:6].sum()


def test_padding_reads_only_where_it_may():
    P = te.compute(
        (8,),
        lambda i: te.if_then_else(te.all(i >= 1, i < 7), A[0, i - 1], 0.0),
        name="P",
    )
    a, p = np.ones((4, 6), np.float32), np.zeros(8, np.float32)
    run([A, P], a, p)
    assert p.tolist() == [0, 1, 1, 1, 1, 1, 1, 0]


def test_any_of_several_conditions():
    Y = te.compute((8,), lambda i: te.if_then_else(te.any(i < 1, i > 5, i.equal(3)), 1.0, 0.0))
    y = np.zeros(8, np.float32)
    run([Y], y)
    assert y.tolist() == [1, 0, 0, 1, 0, 0, 1, 1]
    refuses("E130", te.any, "at least one")


@pytest.mark.parametrize(
    "condition",
    [
        lambda i, j: i == j,
        lambda i, j: i != j,
        lambda i, j: (i > 0) & (j != 2),
        lambda i, j: (i == 3) | ~(j > 1),
        lambda i, j: ((i ^ j) & 1) == 0,
        lambda i, j: (i << 1) >> 2 == j,
    ],
)
def test_operators_of_conditions_and_bits_mean_what_they_do_in_python(condition):
    Y = te.compute((4, 4), lambda i, j: te.if_then_else(condition(i, j), 1.0, 0.0))
    y = np.zeros((4, 4), np.float32)
    run([Y], y)
    # Of Python's bools, ~ gives numbers; of numpy's it is `not`.
    numbers = [np.int64(n) for n in range(4)]
    assert y.tolist() == [[float(condition(i, j)) for j in numbers] for i in numbers]


def test_outside_a_trace_nodes_are_equal_to_themselves_only():
    one, other = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 4), name="k")
    te.compute((4,), lambda i: te.if_then_else(i == 0, 1.0, 0.0))
    refuses("E112", lambda: te.compute((4,), lambda i: 1.0 if i == 0 else 0.0), "i == 0")
    assert one == one and one != other and other not in [one] and {one: 1}.get(other) is None


def test_the_functions_of_elements_are_those_of_scripts():
    for name in ("exp", "sigmoid", "pow", "cast", "if_then_else"):
        assert getattr(te, name) is getattr(T, name) and name in dir(te)
    assert te.power is T.pow and te.max is not T.max
    X = te.placeholder((3,), name="X")
    x, y = np.array([-1.0, 0.5, 2.0], np.float32), np.empty(3, np.float32)
    run([X, te.compute((3,), lambda i: te.exp(te.abs(X[i])))], x, y)
    np.testing.assert_allclose(y, np.exp(abs(x)), rtol=1e-6)


def test_tensors_are_called_and_two_values_compared():
    X = te.placeholder((3,), name="X")
    relu = te.compute(X.shape, lambda *i: te.max(X(*i), 0), name="relu")
    least = te.compute(X.shape, lambda *i: te.min(relu(*i), te.min(1.5, X(*i) + 1.0)), name="least")
    x, y = np.array([-1.0, 0.5, 2.0], np.float32), np.empty(3, np.float32)
    run([X, least], x, y)
    assert y.tolist() == [0.0, 0.5, 1.5]
    indexed = te.compute(X.shape, lambda *i: T.max(X[i], 0), name="relu")
    both = [te.create_prim_func([X, each]) for each in (relu, indexed)]
    assert structural_equal(*both)


def test_a_name_that_te_lacks_gets_its_near_misses():
    with pytest.raises(AttributeError, match=r'no "comput"; did you mean "compute"'):
        te.comput


def test_parameters_with_defaults_are_no_indices():
    Y = te.compute((4,), lambda i, scale=3.0: A[i, 0] * scale)
    assert [axis.name for axis in Y.axes] == ["i"]


def test_keywords_and_odd_names_become_identifiers():
    X = te.placeholder((2,), name="lambda")
    Y = te.compute((2,), lambda i: X[i], name="my out")
    assert [p.name for p in te.create_prim_func([X, Y]).params] == ["lambda_", "my_out"]


@pytest.mark.parametrize(
    ("code", "call", "word"),
    [
        ("E107", lambda: te.compute((4,), lambda i: A[i]), "A has 2 dimension(s)"),
        ("E130", lambda: te.compute((4, 6), lambda i: A[i, 0]), "(i)"),
        ("E130", lambda: te.placeholder((4, -1)), ">= 0"),
        ("E112", lambda: te.compute((4,), lambda i: 1.0 if A[i, 0] > 0 else 0.0), "if_then_else"),
        ("E130", lambda: te.compute((4,), lambda i: np.exp(A[i, 0])), "te.exp"),
        ("E130", lambda: te.compute((4,), lambda i: math.exp(A[i, 0])), "te.exp"),
        ("E130", lambda: te.compute((4,), lambda i: abs(A[i, 0])), "te.abs"),
        ("E130", lambda: te.compute((4,), lambda i: A[i, 0] ** 2), "te.pow"),
        ("E130", lambda: te.compute((4,), lambda i: float(A[i, 0])), "te.cast"),
        ("E112", lambda: te.compute((4,), lambda i: max(A[i, 0], 0)), "T.max(a, b)"),
        ("E130", lambda: te.compute((4,), lambda i: te.max(A[i, 0], "k")), "te.reduce_axis"),
        ("E130", lambda: te.compute((4,), lambda i: te.sum(A[i, 0], 0.0)), "te.reduce_axis"),
        ("E108", lambda: te.compute((4,), lambda i: A[i * 1.5, 0]), "vi * 3 // 2"),
        ("E112", lambda: te.compute((4,), lambda i: T.Select(i > 0 and i < 2, 1.0, 0.0)), "te.all"),
        ("E112", lambda: te.compute((4,), lambda i: T.Select(i > 2 or i < 1, 1.0, 0.0)), "te.any"),
        ("E112", lambda: te.compute((4,), lambda i: T.Select(not i > 2, 1.0, 0.0)), "~(a > b)"),
        ("E112", lambda: te.compute((4,), lambda i: T.Select(0 < i < 2, 1.0, 0.0)), "te.all"),
        ("E112", lambda: te.compute((4,), lambda i: 1.0 if i == 2 else 0.0), "i == 2"),
        ("E112", lambda: te.compute((4,), lambda i: T.Select(i in (1, 2), 1.0, 0.0)), "i == 1"),
        ("E130", lambda: A @ B, "te.sum(A[i, k] * B[k, j], axis=k)"),
        ("E107", lambda: te.compute((4,), lambda *i: A(*i)), "A has 2 dimension(s)"),
        ("E130", lambda: te.compute((4,), lambda i: te.sum(A[i, k])), "te.sum(..., axis=k)"),
        ("E108", lambda: te.placeholder((4,), "flot32"), '"float32"'),
        ("E108", lambda: te.compute((4,), lambda i: A[i, 0] * T.int32(i)), '"float32")'),
        ("E130", lambda: te.compute((4,), lambda i: A), "A[i, j]"),
        ("E130", lambda: te.compute((4, 6), lambda i, j: A * 2.0), "A[i, j]"),
        ("E130", lambda: te.compute((4, 6), lambda i, j: B[i, j] + A), "A[i, j]"),
        ("E130", lambda: te.compute((4,), lambda i: A[i, k]), "te.sum(..., axis=k)"),
        ("E130", lambda: te.compute((4,), lambda i: te.sum(A[i, k], axis=k) / 6.0), "whole"),
        ("E130", lambda: te.compute((4,), lambda i: 2.0 * te.sum(A[i, k], axis=k)), "whole"),
        ("E130", lambda: te.compute((4,), lambda i: -te.max(A[i, k], axis=k)), "whole"),
        (
            "E130",
            lambda: te.compute((4,), lambda i: intrin("exp", te.sum(A[i, k], axis=k))),
            "whole",
        ),
        ("E130", lambda: te.compute((4,), lambda i: te.sum(A[i, i], axis=i)), "reduce_axis"),
        ("E130", lambda: te.compute((4,), lambda i: te.sum(A[i, k], axis=())), "at least one"),
    ],
)
def test_refusals_say_what_to_write(code, call, word):
    refuses(code, call, word)


def test_a_refusal_shows_the_line():
    error = refuses("E107", lambda: te.compute((4,), lambda i: A[i]))
    assert error.span is not None and "lambda i: A[i]" in str(error)


@pytest.mark.parametrize(
    ("tensors", "word"),
    [
        ([B, matmul()], '"A"'),
        ([A, B], "placeholder"),
        ([A, A, matmul()], "twice"),
        ([A, B, "C"], "str"),
    ],
)
def test_create_prim_func_refuses(tensors, word):
    with pytest.raises(CompileError, match=word):
        te.create_prim_func(tensors)


@pytest.mark.parametrize("dom", [8, (0,), (3, 3), (0, 2.5)])
def test_a_reduce_axis_needs_bounds(dom):
    with pytest.raises(CompileError):
        te.reduce_axis(dom)
