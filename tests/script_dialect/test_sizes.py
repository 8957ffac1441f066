"""Sizes known only at the call, and parameters that are numbers."""

import textwrap

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import T
from tests.helpers import refuses
from tests.roundtrip import assert_round_trips
from tests.script_dialect.cases import check, check_call, module, vectors

RNG = np.random.default_rng(0)
TARGETS = ["llvm", "c", "python"]


def floats(*shape):
    return RNG.integers(-8, 8, shape).astype("float32")


COPY = """
n = T.int32()
A = T.match_buffer(a, (n,), "float32")
B = T.match_buffer(b, (n,), "float32")
for i in range(n):
    with T.block("B"):
        vi = T.axis.spatial(n, i)
        B[vi] = A[vi] * 2.0
"""
RENAMED = """
size = T.int64()
X = T.match_buffer(x, (size,), "float32")
Y = T.match_buffer(y, (size,), "float32")
for j in range(size):
    with T.block("B"):
        vj = T.axis.remap("S", [j])
        Y[vj] = X[vj] * 2.0
"""
MATMUL = """
m = T.int64()
k = T.int64()
A = T.match_buffer(a, (n, k), "float32")
B = T.match_buffer(b, [k, m], "float32")
C = T.match_buffer(c, (n, m), "float32")
for i, j, r in T.grid(n, m, k):
    with T.block("C"):
        vi, vj, vr = T.axis.remap("SSR", [i, j, r])
        with T.init():
            C[vi, vj] = 0.0
        C[vi, vj] += A[vi, vr] * B[vr, vj]
"""
PADDED = """
n = T.int32()
A = T.match_buffer(a, (n, 4), "float32")
B = T.match_buffer(b, (n * 4 + 1,), "float32")
Y = T.alloc_buffer((n, 2, 2), "float32")
for i, j in T.grid(n, 4):
    Y[i, j // 2, j % 2] = A[i, j] + 1.0
for i in T.parallel(n):
    for j in T.vectorized(4):
        B[i * 4 + j] = Y[i, j // 2, j % 2]
B[n * 4] = n
"""
OFFSET = """
A = T.match_buffer(a, (n,), "float32")
B = T.match_buffer(b, (n,), "float32")
for i in T.serial(lo, T.min(hi, n)):
    with T.block("B"):
        vi = T.axis.spatial((lo, n), i)
        B[vi] = A[n - 1 - vi] + i
"""


@pytest.mark.parametrize("size", [0, 1, 5, 16])
def test_one_size(size):
    mod = module("a: T.handle, b: T.handle", COPY)
    assert_round_trips(mod)
    check_call(mlc.verify(mod), [floats(size), floats(size)], lambda a, b: a * 2)


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 7, 2), (8, 8, 8)])
def test_a_size_that_is_passed(sizes):
    n, k, m = sizes
    mod = module("a: T.handle, n: T.int32, b: T.handle, c: T.handle", MATMUL)
    assert_round_trips(mod)
    args = [floats(n, k), np.int64(n), floats(k, m), floats(n, m)]
    check_call(mlc.verify(mod), args, lambda a, n, b, c: a @ b)


@pytest.mark.parametrize("size", [0, 3])
def test_sizes_are_expressions(size):
    mod = module("a: T.handle, b: T.handle", PADDED)
    assert_round_trips(mod)
    expected = lambda a, b: np.append(a.ravel() + 1, np.float32(size))  # noqa: E731
    check_call(mlc.verify(mod), [floats(size, 4), floats(size * 4 + 1)], expected)


def test_loops_between_sizes():
    mod = module("a: T.handle, b: T.handle, lo: T.int32, hi: T.int64, n: T.int32", OFFSET)
    assert_round_trips(mod)
    args = [floats(9), floats(9), 2, 7, 9]
    expected = np.where(
        (np.arange(9) >= 2) & (np.arange(9) < 7), args[0][::-1] + np.arange(9), args[1]
    )
    for run in (lambda *a: mlc.interpret(mod, "main", *a), mlc.build(mod)["main"]):
        result = args[1].copy()
        run(args[0], result, *args[2:])
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target(target):
    lib = mlc.build(module("a: T.handle, b: T.handle", PADDED), target)
    for size in (2, 3, 2):
        a, b = floats(size, 4), floats(size * 4 + 1)
        lib["main"](a, b)
        np.testing.assert_array_equal(b, np.append(a.ravel() + 1, np.float32(size)))


def test_each_size_is_compiled_once():
    lib = mlc.build(module("a: T.handle, b: T.handle", COPY))
    for n in (4, 4, 5):
        lib["main"](*[np.zeros(n, "float32") for _ in range(2)])
    assert [*lib["main"].libraries] == [(4,), (5,)]
    assert repr(lib["main"]) == "<compiled main(A: float32[n], B: float32[n])>"


def test_the_names_of_sizes_do_not_matter():
    mod = module("a: T.handle, b: T.handle", COPY)
    renamed = module("x: T.handle, y: T.handle", RENAMED)
    assert mlc.structural_equal(mod, renamed)
    assert mlc.structural_hash(mod) == mlc.structural_hash(renamed)
    other = module("x: T.handle, y: T.handle", RENAMED.replace("range(size)", "range(size - 1)"))
    assert not mlc.structural_equal(mod, other)


def test_specialize_gives_a_plain_function():
    mod = module("a: T.handle, n: T.int32, b: T.handle, c: T.handle", MATMUL)
    plain = mlc.specialize(mod, "main", n=4, m=8, k=2)
    assert [p.shape for p in plain["main"].params] == [(4, 2), (2, 8), (4, 8)]
    assert_round_trips(mlc.verify(plain))
    sch = mlc.Schedule(plain).split("j", [None, 4]).vectorize("j_1").parallel("i")
    args = [floats(4, 2), floats(2, 8), floats(4, 8)]
    check_call(sch.mod, args, lambda a, b, c: a @ b)


def test_decorated_in_python():
    @T.prim_func
    def scale(a: T.handle, b: T.handle, factor: T.float32):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i] * factor

    result = floats(3)
    mlc.build(scale)["scale"](floats(3), result, 0.0)
    np.testing.assert_array_equal(result, np.zeros(3))


def test_shapes_of_parameters_name_sizes():
    text = 'A: T.Buffer((n, 4), "float32"), n: T.int32, B: T.Buffer((n * 4,), "float32")'
    mod = module(text, "for i, j in T.grid(n, 4):\n    B[i * 4 + j] = A[i, j] * 2.0")
    assert_round_trips(mod)
    check_call(mod, [floats(3, 4), np.int32(3), floats(12)], lambda a, n, b: a.ravel() * 2)


def test_regions_of_symbolic_buffers():
    body = """
    n = T.int32()
    A = T.match_buffer(a, (n, n), "float32")
    B = T.match_buffer(b, (n,), "float32")
    row = T.match_buffer(A[n - 1, 0:n], (n,), "float32")
    for i in range(n):
        B[i] = row[i]
    """
    mod = module('a: T.handle("float32"), b: T.handle', body)
    assert_round_trips(mod)
    check_call(mlc.verify(mod), [floats(5, 5), floats(5)], lambda a, b: a[-1])


NUMBERS = [
    (
        vectors("float32") + ", x: T.float32",
        "for i in range(16):\n    B[i] = A[i] * x + x",
        (1.5,),
        lambda a, b, x: a * np.float32(x) + np.float32(x),
    ),
    (
        vectors("float32") + ", keep: T.bool, x: T.float64",
        "for i in range(16):\n    B[i] = T.if_then_else(keep, A[i], T.cast(x, 'float32'))",
        (False, 0.1),
        lambda a, b, keep, x: np.float32(0.1) + 0 * a,
    ),
    (
        vectors("int32") + ", shift: T.int8, n: T.int32",
        """
for i in range(16):
    if i < n:
        B[i] = (A[i] << T.cast(shift, "int32")) + n
""",
        (2, 5),
        lambda a, b, shift, n: np.where(np.arange(16) < n, (a << shift) + n, b),
    ),
]


@pytest.mark.parametrize(("params", "body", "numbers", "expected"), NUMBERS)
def test_parameters_that_are_numbers(params, body, numbers, expected):
    mod = module(params, body)
    assert_round_trips(mod)
    dtype = params.split('"')[1]
    a, b = (RNG.integers(-8, 8, 16).astype(dtype) for _ in range(2))
    wanted = expected(a, b.copy(), *numbers)
    for run in (lambda *args: mlc.interpret(mod, "main", *args), *map(kernel(mod), TARGETS)):
        result = b.copy()
        run(a, result, *numbers)
        np.testing.assert_array_equal(result, wanted)


def kernel(mod):
    return lambda target: mlc.build(mlc.verify(mod), target)["main"]


def test_a_number_is_scheduled_around():
    mod = module(*NUMBERS[0][:2])
    sch = mlc.Schedule(mod).split("i", [None, 4]).vectorize("i_1").parallel("i_0")
    a, b = floats(16), floats(16)
    mlc.build(sch.mod)["main"](a, b, 0.25)
    np.testing.assert_array_equal(b, a * np.float32(0.25) + np.float32(0.25))


# Refusals


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ([floats(3), floats(4)], "E604", "size n = 3 on axis 0, got 4"),
        ([floats(3)], "E601", "takes 2 argument(s)"),
        ([floats(3, 1), floats(3)], "E604", "1 dimension(s) (n), got (3, 1)"),
        ([[1.0], floats(1)], "E602", "must be an array, got list"),
        ([floats(3).astype("float64"), floats(3)], "E603", "must be float32"),
    ],
)
def test_calls_that_do_not_fit(args, code, words):
    mod = module("a: T.handle, b: T.handle", COPY)
    for call in (lambda *a: mlc.interpret(mod, "main", *a), mlc.build(mod)["main"]):
        refuses(code, lambda call=call: call(*args), words)


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (4, "E604", 'argument 1 ("A") of main must have size n = 4 on axis 0, got 3'),
        (3.0, "E602", "must be an integer, got 3.0"),
        (True, "E602", "must be an integer"),
    ],
)
def test_numbers_that_do_not_fit(number, code, words):
    mod = module("a: T.handle, n: T.int32, b: T.handle, c: T.handle", MATMUL)
    args = floats(3, 2), number, floats(2, 5), floats(3, 5)
    refuses(code, lambda: mlc.interpret(mod, "main", *args), words)
    refuses(code, lambda: mlc.build(mod)["main"](*args), words)


def test_an_instance_is_proved():
    mod = module("a: T.handle, b: T.handle", COPY.replace("A[vi]", "A[vi + 1]"))
    lib = mlc.build(mod)
    refuses("E107", lambda: lib["main"](floats(4), floats(4)), "A is read out of range")
    body = "n = T.int32()\nfor i in range(n):\n    pass"
    refuses("E136", lambda: module("", body), "nothing determines n")


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda mod: mlc.Schedule(mod), "E136", "mlc.specialize(mod"),
        (lambda mod: mlc.Schedule(mod, "main"), "E136", "known only at the call: n"),
        (lambda mod: mlc.specialize(mod, "main", m=3), "E136", "has the sizes n, got m"),
        (lambda mod: mlc.specialize(mod, "main"), "E136", "got none"),
        (lambda mod: mlc.specialize(mod, "main", n=2.5), "E136", "is an integer, got 2.5"),
        (lambda mod: mlc.specialize(mod, "main", n=-1), "E136", "is -1 where n = -1"),
        (lambda mod: mlc.specialize(mod, "mian", n=1), "E105", '"main"'),
    ],
)
def test_refusals(call, code, words):
    mod = module("a: T.handle, b: T.handle", COPY)
    refuses(code, lambda: call(mod), words)


@pytest.mark.parametrize(
    ("value", "words"),
    [("x", "must be a number"), (300, "a value of int8"), (1.5, "a value of int8")],
)
def test_numbers_of_another_kind(value, words):
    mod = module('A: T.Buffer((1,), "int8"), x: T.int8', "A[0] = x")
    refuses("E602", lambda: mlc.build(mod)["main"](np.zeros(1, "int8"), value), words)


def test_a_graph_calls_an_instance():
    mod = mlc.parse(f"""
@T.prim_func
def double(a: T.handle, b: T.handle):
{textwrap.indent(COPY, "    ")}
@R.function
def main(x: R.Tensor((4,), "float32")):
    y = R.call_tir("double", (x,), out=R.Tensor((4,), "float32"))
    return y
""")
    x = floats(4)
    for each in (mod, mlc.specialize(mod, "double", n=4)):
        np.testing.assert_array_equal(mlc.build(each)["main"](x), x * 2)


def test_a_number_is_only_read():
    axes = 'A: T.Buffer((4,), "float32", scope="scalar")'
    refuses("E101", lambda: mlc.verify(module(axes, "pass")), "has no axes")
    refuses("E122", lambda: module("x: T.float32", "x[0] = 1.0"), "x")
    assert check(vectors("int8"), "for i in range(16):\n    B[i] = A[i]", lambda a, b: a)
