"""A scalar operator given as a formula: scripts, `te`, the interpreter and all targets have it."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import te
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.functions import FUNCTIONS, scalar_operator
from minimlc.loops.ir.intrinsics import INTRINSICS, NUMBER, RECORDS
from minimlc.loops.ir.nodes import Buffer, For, PrimFunc, Var, binary, index, select, store
from minimlc.loops.lower.lower import lower
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.module import IRModule
from tests.helpers import refuses

SIZE = 16
TARGETS = ("llvm", "python", pytest.param("c", marks=pytest.mark.requires("cc")))
SCRIPT = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((16,), "{dtype}"), B: T.Buffer((16,), "{dtype}")):
        for i in {loop}(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = T.clamp(A[vi] + A[vi], T.{dtype}(-1), A[15 - vi])
"""


@pytest.fixture(scope="module")
def clamp():
    @scalar_operator
    def clamp(x, low, high):
        return select(x < low, low, select(x > high, high, x))

    yield clamp
    forget("clamp")


@pytest.fixture(scope="module")
def modulo(clamp):
    """Named as functions of the targets are, with parameters that C and Python use themselves."""

    def clamped(x, low, high):
        return select(x < low, low, select(x > high, high, x))

    def modulo(default, np):
        return binary(">>", clamped(default * np, np, default), 40) + default % np

    clamped, modulo = (scalar_operator(f, kinds=("int", "uint")) for f in (clamped, modulo))
    yield modulo
    for name in ("modulo", "clamped"):
        forget(name)


def forget(name):
    for table in (FUNCTIONS, INTRINSICS, RECORDS):
        table.pop(name, None)


@pytest.fixture
def entered():
    """Enters a formula for one test; gives a function of a target and of the values to take."""
    names = []

    def enter(formula):
        names.append(formula.__name__)
        forget(formula.__name__)
        operator = scalar_operator(formula)

        def call(target, values):
            x = te.placeholder((len(values),), "float32", name="x")
            y = te.compute(x.shape, lambda i: operator(x[i]), name="y")
            result = np.zeros(len(values), np.float32)
            library = mlc.build(te.create_prim_func([x, y]), target=target)
            library["main"](np.array(values, np.float32), result)
            return result

        return call

    yield enter
    for name in names:
        forget(name)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("target", TARGETS)
def test_formulas_of_formulas_on_integers(modulo, target, dtype):
    i, a, b, out = Var("i"), *(Buffer(name, (8,), dtype) for name in ("a", "b", "modulo"))
    body = For(i, index(8), "serial", store(out, (i,), modulo(a[i], b[i])))
    mod = IRModule.of({"scalar_modulo": PrimFunc((a, b, out), (), body)})
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 7, 0, 1, 100, info.max - 1, 55], dtype)
    y = np.array([3, 5, info.max, 9, info.min or 2, 17, 2, 11], dtype)
    outputs = [np.zeros(8, dtype) for _ in range(2)]
    interpret(mod, "scalar_modulo", x, y, outputs[0])
    mlc.build(mod, target=target, cache=False)["scalar_modulo"](x, y, outputs[1])
    np.testing.assert_array_equal(*outputs)


def expected(a):
    low, twice = np.full_like(a, -1), a + a
    with np.errstate(invalid="ignore"):
        return np.where(twice < low, low, np.where(twice > a[::-1], a[::-1], twice))


@pytest.mark.parametrize("loop", ["T.serial", "T.vectorized", "T.parallel"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("target", TARGETS)
def test_it_means_the_same_everywhere(clamp, target, dtype, loop):
    mod = mlc.parse(SCRIPT.format(dtype=dtype, loop=loop))
    assert "T.clamp(" in mod.script()
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    a = np.linspace(-3, 3, SIZE).astype(to_numpy(dtype))
    a[3] = np.nan
    outputs = [np.zeros_like(a) for _ in range(2)]
    interpret(mod, "main", a, outputs[0])
    mlc.build(mod, target=target, cache=False)["main"](a, outputs[1])
    for output in outputs:
        np.testing.assert_array_equal(*(x.astype(np.float64) for x in (output, expected(a))))


def test_it_is_a_function_of_te(clamp):
    a = te.placeholder((SIZE,), "float32", name="A")
    b = te.compute((SIZE,), lambda i: te.clamp(a[i], 0.0, 1.0), name="B")
    func = te.create_prim_func([a, b])
    values, out = np.linspace(-2, 2, SIZE, dtype=np.float32), np.zeros(SIZE, np.float32)
    mlc.build(func, target="python")["main"](values, out)
    np.testing.assert_array_equal(out, np.clip(values, 0, 1))


def test_arguments_are_evaluated_once_in_lowered_code(clamp):
    text = repr(lower(mlc.parse(SCRIPT.format(dtype="float32", loop="range"))["main"]))
    assert text.count("A[i] + A[i]") == 1
    assert "T.Let(" in text


def test_a_name_is_taken_once(clamp):
    def exp(x):
        return x

    refuses("E120", lambda: scalar_operator(exp), "T.exp")


def test_the_same_definition_may_run_again():
    """As a notebook cell does that is run twice; any other definition is refused."""

    def define(low, kinds=("float",)):
        def floored(x):
            return select(x < low, low, x)

        return scalar_operator(floored, kinds=kinds)

    try:
        first, record = define(0.0), RECORDS["floored"]
        assert define(0.0) is first
        assert RECORDS["floored"] is INTRINSICS["floored"] is record
        for changed in (lambda: define(1.0), lambda: define(-0.0), lambda: define(0, NUMBER)):
            refuses("E120", changed, "T.floored")

        def floored(x, low):
            return select(x < low, low, x)

        refuses("E120", lambda: scalar_operator(floored), "T.floored")
        assert RECORDS["floored"] is record
    finally:
        forget("floored")


def test_a_formula_for_one_dtype_may_run_again():
    """Its own KeyError means that it does not take a dtype, as ours does."""

    def define():
        least = {"float32": 1e-6}

        def raised(x):
            return x + least[x.dtype]

        return scalar_operator(raised)

    try:
        first = define()
        assert define() is first
    finally:
        forget("raised")


def test_a_definition_that_differs_in_one_dtype_is_another():
    def define(number):
        def scaled(x):
            return x * number if x.dtype == "float64" else x

        return scalar_operator(scaled)

    try:
        assert define(2.0) is define(2.0)
        refuses("E120", lambda: define(3.0), "T.scaled")
    finally:
        forget("scaled")


@pytest.mark.parametrize("target", TARGETS)
def test_a_formula_compares_values(target, entered):
    def reciprocal(x):
        return select(x == 0.0, 0.0, 1.0 / x)

    one = entered(reciprocal)
    np.testing.assert_array_equal(one(target, [0.0, 4.0]), [0.0, 0.25])


@pytest.mark.parametrize("target", TARGETS)
def test_another_formula_of_the_name_is_other_code(target, entered, monkeypatch, tmp_path):
    """A cached program has only the name."""
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    for number in (1.0, 2.0):

        def shifted(x):
            return x + number  # noqa: B023 (used in this round only)

        np.testing.assert_array_equal(entered(shifted)(target, [0.0, 4.0]), [number, 4.0 + number])
