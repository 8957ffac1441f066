"""Functions that scripts call, macros, powers, Python's own functions, and loops by other steps."""

import math

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import I, R, T
from tests.helpers import random_args, refuses
from tests.script_dialect.cases import check_call

SCALE = 3


def relu(x):
    """The positive part."""
    return T.max(x, 0.0)


def affine(x, a=2.0, *, b: float = 1.0):
    y: T.float32 = x * a
    y += b
    return y * SCALE


def power(x, n):
    return 1.0 if n == 0 else x * power(x, n - 1)


def sign(x):
    if x > 0.0:
        return 1.0
    if x < 0.0:
        return -1.0
    return 0.0


def clamp(i, low, high):
    return max(min(i, high), low)


def diagonal(buffer, i):
    return buffer[i, i]


@T.macro
def fill(B, i, value=2.0):
    for j in range(4):
        B[i, j] = relu(value)


@I.ir_module
class Called:
    @T.prim_func
    def main(
        A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = affine(relu(A[vi, 0]), b=2.0) + power(A[clamp(vi + 2, 0, 3), 1], 3)
        for i in range(4):
            C[i] = C[i] + sign(A[i, 2]) * diagonal(A, i)
            fill(B, i, C[i])


def parses_back(mod: mlc.IRModule) -> bool:
    return mlc.structural_equal(mlc.parse(mod.script()), mod)


def test_functions_stand_where_they_are_called():
    def expected(a, b, c):
        c = (np.maximum(a[:, 0], 0) * 2 + 2) * 3
        c = c + a[[2, 3, 3, 3], 1] ** 3 + np.sign(a[:, 2]) * np.diagonal(a)
        return a, np.repeat(np.maximum(c, 0)[:, None], 4, axis=1), c

    assert parses_back(Called)
    args = random_args(Called["main"], np.random.default_rng(0))
    wanted = expected(*args)
    for target in ("interpreter", "llvm"):
        run = [a.copy() for a in args]
        if target == "llvm":
            mlc.build(Called)["main"](*run)
        else:
            mlc.interpret(Called, "main", *run)
        for got, want in zip(run, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_names_in_a_function_are_its_own():
    offset = 5

    def moved(x):
        return x + offset

    def made():
        offset = 100

        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for i in range(4):
                A[i] = moved(A[i])

        return main

    assert "A[i] = A[i] + T.int32(5)" in made().script()


def act(x):
    y = R.multiply(x, R.const(2.0))
    return R.nn.relu(y)


def test_graph_functions_call_functions_too():
    @I.ir_module
    class Graph:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                y = act(act(x))
                R.output(y)
            return y

    assert parses_back(Graph)
    x = np.array([-1, 0, 1, 2], "float32")
    np.testing.assert_array_equal(mlc.interpret(Graph, "main", x), np.maximum(x * 4, 0))


def forever(x):
    return forever(x) + 1.0


def misspelt(x):
    y = x + 1.0
    return T.mux(y, 0.0)


def looped(x):
    for i in range(3):
        x = x + i
    return x


def silent(x):
    y = x


WRONG = [
    ("forever(A[i])", "E137", "calling itself"),
    ("misspelt(A[i])", "E120", "misspelt: T has no name 'mux'", "return T.mux(y, 0.0)", '"max"'),
    ("looped(A[i])", "E137", "names and a return", "for i in range(3):"),
    ("silent(A[i])", "E137", "ends without a value"),
    ("relu()", "E121", "relu: missing a required argument: 'x'", "try: relu(x)"),
    ("relu(A[i], 2)", "E121", "too many"),
    ("relu(*A)", "E124", "spells its arguments out"),
    ("double(A[i])", "E137", "lambda", "def f(x)"),
    ("relu(A)", "E108", "relu: A is a buffer", "in relu, line"),
    ("fill(A, i)", "E137", "names and a return"),
    ("math.exp(A[i])", "E124", "T.exp(x)"),
    ("np.clip(A[i], 0, 1)", "E124", "cannot call np.clip"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_errors_point_at_the_call(case: tuple[str, ...]):
    text, code, *words = case
    script = f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = {text}
"""
    names = {**globals(), "double": lambda x: x * 2, "np": np, "math": math}
    error = refuses(code, lambda: mlc.parse(script, names), *words)
    assert error.span is not None and error.span.line == 5


def test_macros_of_a_text():
    mod = mlc.parse("""
@T.macro
def fill(B, i, value=2.0):
    B[i, 0] = value
    B[i, 1] = twice(value)

@T.macro
def twice(x):
    return x + x

@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4, 2), "float32")):
    for i in range(4):
        fill(B, i, A[i])
    fill(B, 0)
""")
    a, b = np.arange(4, dtype="float32"), np.zeros((4, 2), "float32")
    mlc.interpret(mod, "main", a, b)
    np.testing.assert_array_equal(b, [[2, 4], [1, 2], [2, 4], [3, 6]])
    assert parses_back(mod)


def test_a_macro_does_not_change_what_it_is_given():
    text = """
@T.macro
def both(B, i, value):
    B[i, 0] = value
    B[i, 1] = value

@T.prim_func
def main(B: T.Buffer((4, 2), "float32")):
    for i in range(4):
        both(B, i, B[i, 0] + 1.0)
"""
    refuses("E124", lambda: mlc.parse(text), '"value" would stand for a value read from memory')
    refuses("E121", lambda: fill(None, 0), "belongs inside a script")


def powers(dtype: str, value: str) -> mlc.IRModule:
    return mlc.parse(f"""
@T.prim_func
def main(A: T.Buffer((8,), "{dtype}"), B: T.Buffer((8,), "{dtype}")):
    for i in range(8):
        B[i] = {value}
""")


@pytest.mark.parametrize(
    ("dtype", "value", "meaning"),
    [
        ("float32", "A[i] ** 2", lambda a: a * a),
        ("int32", "A[i] ** 5", lambda a: a**5),
        ("int8", "A[i] ** 0 + A[i] ** 1", lambda a: a + 1),
        ("float64", "abs(A[i]) ** 0.5", lambda a: np.sqrt(np.abs(a))),
        ("float64", "2.0 ** A[i]", lambda a: 2.0**a),
        ("float32", "max(A[i], 0, A[i] * 2)", lambda a: np.maximum(2 * a, 0)),
        ("int32", "min(A[i], A[7 - i], 3)", lambda a: np.minimum(np.minimum(a, a[::-1]), 3)),
        ("float32", "round(A[i] * 0.5) + round(2.5)", lambda a: np.rint(a * 0.5) + 2),
    ],
)
def test_powers_and_pythons_functions(dtype: str, value: str, meaning):
    mod = powers(dtype, value)
    assert parses_back(mod)
    args = [np.array([-3, -2, -1, 0, 1, 2, 3, 4], dtype), np.zeros(8, dtype)]
    check_call(mod, args, lambda a, b: meaning(a))


@pytest.mark.parametrize("value", ["A[i] ** A", "A[i] ** A[0]", "A[i] ** 100", "A[i] ** -1"])
def test_powers_that_are_none(value: str):
    refuses("E108", lambda: powers("int32", value))


RANGES = [(15, -1, -1), (1, 16, 3), (0, 16, 5), (12, 3, -4), (3, 8, -1), (8, 3, 1), (5, 4, -7)]


@pytest.mark.parametrize("ends", RANGES, ids=str)
def test_loops_by_other_steps(ends: tuple[int, int, int]):
    mod = mlc.parse(f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), N: T.Buffer((1,), "int32")):
    for i in range{ends}:
        A[i] = A[i] + N[0] + i
        N[0] = N[0] * 2
    for j in range{ends}:
        with T.block("A"):
            vj = T.axis.remap("O", [j])
            A[vj] = A[vj] * 3
""")
    a, n = np.arange(16, dtype="int32"), np.ones(1, "int32")
    wanted, factor = a.copy(), 1
    for i in range(*ends):
        wanted[i] += factor + i
        factor *= 2
    for i in range(*ends):
        wanted[i] *= 3
    assert parses_back(mod)
    again = a.copy()
    mlc.interpret(mod, "main", a, n)
    np.testing.assert_array_equal(a, wanted)
    mlc.build(mod)["main"](again, np.ones(1, "int32"))
    np.testing.assert_array_equal(again, wanted)


def test_loops_of_a_size_by_other_steps():
    mod = mlc.parse("""
@T.prim_func
def main(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "int32")
    for i in range(n - 1, -1, -2):
        A[i] = A[i] + 1
""")
    for size in (1, 4, 7):
        a = np.zeros(size, "int32")
        mlc.build(mod)["main"](a)
        assert a.tolist() == [int((size - 1 - i) % 2 == 0) for i in range(size)]
