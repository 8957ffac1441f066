"""The sizes of operators' results: computed when called, checked there, never guessed."""

from functools import partial

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from minimlc.graphs.ir.nodes import Expr, TensorType, TupleType, Var
from minimlc.graphs.ops import OPS
from minimlc.loops.te import te
from minimlc.script import R
from minimlc.services.sizes.sizes import size_of
from minimlc.services.sizes.symbolic_graphs import sizes_told, type_at
from tests.graph.op_cases import samples
from tests.helpers import assert_close, refuses

TARGETS = ("llvm", "c", "python")
ONE = np.ones((5, 4), "float32")
LONG = np.arange(1000, dtype="float32")


def function(formula, *shapes) -> mlc.IRModule:
    """The function of parameters of these shapes that gives what a formula makes of them."""
    params = [Var(f"x{at}", TensorType(shape, "float32")) for at, shape in enumerate(shapes)]
    builder = mlc.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(formula(*params)))
    mod = mlc.verify(builder.get())
    text = mod.script(constants="inline")
    assert mlc.structural_equal(mlc.parse(text), mod), text
    return mod


def agree(mod, args, expected, targets=("llvm",)) -> None:
    """The interpreter, targets and the function of fixed sizes give what is expected."""
    types = [TensorType(array.shape, "float32") for array in args]
    fixed = mlc.specialize(mod, "main", **sizes_told(mod["main"].params, types))
    runs = [mlc.build(mod, target, recipes=False)["main"] for target in targets]
    runs += [lambda *a: mlc.interpret(mod, "main", *a), mlc.build(fixed, recipes=False)["main"]]
    for run in runs:
        assert_close(run(*args), np.asarray(expected, "float32"))


COMPUTED = {
    "x * n": (lambda x: x * x.shape[0], ONE * 5),
    "x / n": (lambda x: x / x.shape[0], ONE / 5),
    "n - x": (lambda x: x.shape[0] - x, ONE * 4),
    "n * 2 / x": (lambda x: x.shape[0] * 2 / x, ONE * 10),
    "x ** n": (lambda x: (x * 2) ** x.shape[0], ONE * 32),
    "x * 0.5 * n": (lambda x: x * 0.5 * x.shape[0], ONE * 2.5),
    "min(n, 3) + x": (lambda x: x.shape[0].min(3) + x, ONE * 4),
    "an argument": (lambda x: op.add(x, x.shape[0] + np.int64(1)), ONE * 7),
    "where": (lambda x: op.where(op.less(x, x.shape[0]), x.shape[0], x), ONE * 5),
    "1 / sqrt(n)": (lambda x: x / op.sqrt(op.full(shape=(), value=x.shape[0])), ONE / 5**0.5),
    "full": (lambda x: x + op.full(shape=(4,), value=x.shape[0]), ONE * 6),
    "options": (lambda x: op.leaky_relu(op.negative(x), alpha=x.shape[0]), ONE * -5),
    "clip": (lambda x: op.clip(x, x.shape[0] - 2, x.shape[0]), ONE * 3),
    "pad": (lambda x: op.pad(x, ((0, 0), (0, 0)), value=x.shape[0]), ONE),
    "take": (lambda x: op.take(op.cumsum(x, axis=0), x.shape[0] - 1, axis=0), np.full(4, 5)),
    "arange": (lambda x: op.arange(0, 100, x.shape[0], dtype="float32"), np.arange(0, 100, 5)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_tensors_compute_with_a_size_when_called(name):
    formula, expected = COMPUTED[name]
    targets = TARGETS if name in ("x / n", "min(n, 3) + x") else ("llvm",)
    agree(function(formula, ("n", 4)), [ONE], expected, targets)


def test_scripts_compute_with_sizes():
    text = """
@R.function
def main(x: R.Tensor((n, 4), "float32")):
    half = max(n // 2, 1)
    rows = R.strided_slice(x, begin=0, end=min(n, 64), axes=0)
    return n - rows / half
"""
    mod = mlc.verify(mlc.parse(text))
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    agree(mod, [ONE], 5 - ONE / 2)
    for wrong in ("1 / n", "1.5 * n", "n > 3", "float(n)", "n ** 0.5"):
        refuses("E236", lambda wrong=wrong: mlc.parse(text.replace("n - rows", wrong)), wrong)


def test_formulas_of_te_take_a_size_as_an_argument():
    def scaled(A, size):
        return te.compute(A.shape, lambda i, j: A[i, j] * size)

    x, builder = Var("x", TensorType(("n", 4), "float32")), mlc.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit_te(scaled, x, x.shape[0] * 2 + 1))
    agree(mlc.verify(builder.get()), [ONE], ONE * 11)
    builder, least = mlc.BlockBuilder(), x.shape[0].min(3)
    with builder.function("main", [x]):
        part = op.strided_slice(x, 0, least, axes=0)
        builder.emit_func_output(builder.emit_te(lambda _, A, s: scaled(A, s), x, part, least))
    agree(mlc.verify(builder.get()), [ONE], ONE[:3] * 3)
    refuses("E236", lambda: builder.call_te(lambda A: scaled(A, x.shape[0]), x))
    refuses("E236", lambda: te.placeholder(x.shape))
    refuses("E236", lambda: mlc.constant(x.shape[0], "float32"))
    refuses("E201", lambda: op.sqrt(x.shape[0]), "op.full(shape=(), value=n)")


def rows(x: Expr, width: int) -> Expr:
    return op.reshape(x, shape=(-1, width))


def window(formula, width: int):
    return lambda x: op.reshape(formula(op.reshape(x, shape=(1, 1, -1)), width), shape=(-1,))


SUMS = np.convolve(LONG, np.ones(256), "valid")
FITS = {
    "x[200:]": (lambda x: op.strided_slice(x, 200, 2**62, axes=0), LONG[200:], 199),
    "x[:200]": (lambda x: op.strided_slice(x, 0, 200, axes=0), LONG[:200], 199),
    "x[-200:]": (lambda x: op.strided_slice(x, -200, 2**62, axes=0), LONG[-200:], 199),
    "conv1d 256": (
        window(lambda x, k: op.conv1d(x, np.ones((1, 1, k), "float32"), strides=128), 256),
        SUMS[::128],
        255,
    ),
    "max_pool1d 150": (
        window(lambda x, k: op.max_pool1d(x, pool_size=k, strides=1), 150),
        LONG[149:],
        149,
    ),
    "topk 200": (lambda x: op.topk(x, k=200)[0], LONG[::-1][:200], 199),
    "split at 200": (lambda x: op.split(x, (200,))[1], LONG[200:], 199),
    "split in 4": (lambda x: op.split(x, 4)[1], LONG[250:500], 998),
    "rows of 4": (lambda x: op.sum(rows(x, 4), axis=1), LONG.reshape(-1, 4).sum(1), 998),
    "reflect 200": (
        lambda x: op.pad(x, ((200, 0),), mode="reflect"),
        np.pad(LONG, (200, 0), "reflect"),
        200,
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_a_rule_takes_sizes_that_fit_and_the_call_checks_them(name):
    formula, expected, refused = FITS[name]
    mod = function(formula, ("n",))
    agree(mod, [LONG], expected)
    main = mlc.build(mod, "python")["main"]
    for run in (main, lambda a: mlc.interpret(mod, "main", a)):
        refuses("E136", lambda run=run: run(LONG[:refused]), f"n = {refused}")


def test_the_first_rows_of_a_table_are_as_many_as_there_are():
    table = np.arange(64, dtype="float32")
    first = op.strided_slice(mlc.constant(table), 0, size_of("n"), axes=0)
    assert first.shape == (size_of("min(n, 64)"),)
    mod = function(lambda x: op.sum(x, axis=1) + first, ("n", 4))
    agree(mod, [ONE], table[:5] + 4)
    refuses("E136", lambda: mlc.interpret(mod, "main", np.ones((65, 4), "float32")), "n = 65")
    for begin, end in (("n", "2**62"), ("m", "n"), ("n", "n + 5"), ("-n", "2**62")):
        ends = [eval(text, {"n": size_of("n"), "m": size_of("m")}) for text in (begin, end)]
        part = op.strided_slice(mlc.constant(table), *ends, axes=0)
        for n, m in ((5, 3), (70, 80), (3, 5)):
            at = {"n": n, "m": m}
            expected = table[eval(begin, {}, at) : eval(end, {}, at)]
            assert part.shape[0].at(at) == len(expected)


BOUNDED = (("n", 2, 300), 4)


def test_bounds_are_checked_at_the_call():
    mod = function(lambda x: x * x.shape[0], BOUNDED)
    assert 'x0: R.Tensor((("n", 2, 300), 4), "float32")' in mod.script()
    plain = function(lambda x: x * x.shape[0], ("n", 4))
    assert not mlc.structural_equal(mod, plain)
    agree(mod, [ONE], ONE * 5)
    library = mlc.build(mod, "python")
    for n in (1, 301):
        array = np.ones((n, 4), "float32")
        for run in (library["main"], lambda a: mlc.interpret(mod, "main", a)):
            refuses("E604", lambda run=run, a=array: run(a), f"n is {n}", "from 2 to 300")
        refuses("E136", lambda n=n: mlc.specialize(mod, n=n), f"n is {n}", "from 2 to 300")


def test_bounds_say_which_numbers_a_rule_is_asked_about():
    x = Var("x", TensorType((("n", 1, 100),), "float32"))
    assert op.strided_slice(x, 200, 2**62, axes=0).shape == (0,)
    refuses("E204", lambda: op.topk(x, k=200), "k=200")
    refuses("E203", lambda: op.add(x, Var("y", TensorType((("m", 200),), "float32"))), "n and m")
    assert op.topk(Var("y", TensorType((("m", 200),), "float32")), k=200)[0].shape == (200,)


def test_bounds_survive_passes_and_calls():
    text = """
@I.ir_module
class Module:
    @R.function
    def half(y: R.Tensor((("m", 0, 8), 4), "float32")):
        return y * 0.5

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        return R.call("half", (R.concat((x, x), axis=0),))
"""
    mod = mlc.verify(mlc.parse(text))
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    for each in (mod, mlc.run_passes(mod, mlc.passes.default_pipeline)):
        assert_close(mlc.interpret(each, "main", ONE[:4]), np.ones((8, 4), "float32") / 2)
        refuses("E604", lambda each=each: mlc.interpret(each, "main", ONE), "m is 10")


def test_sizes_that_differ_may_be_equal_when_called():
    mod = function(lambda x, y: x + y, ("n",), ("m",))
    agree(mod, [LONG, LONG], LONG * 2)
    agree(mod, [LONG, LONG[:1]], LONG)
    for sizes in ((3, 4), (1, 4)):
        args = [LONG[:size] for size in sizes]
        refuses("E136", lambda args=args: mlc.interpret(mod, "main", *args), "n = ", "m = 4")
    joined = function(lambda x, y: op.concat((x, y), axis=1), ("n", 2), ("m", 3))
    args = [np.ones((4, size), "float32") for size in (2, 3)]
    agree(joined, args, np.ones((4, 5)))
    refuses("E203", lambda: function(lambda x, y: x + y, ("n",), ("n + 1",)), "n and n + 1")


def test_upsampling_gives_the_size_back_where_it_is_even():
    kernel = np.ones((1, 1, 1, 1), "float32")

    def skip(x: Expr) -> Expr:
        return x + op.repeat(op.conv2d(x, kernel, strides=(2, 1)), repeats=2, axis=2)

    mod = function(skip, (1, 1, "h", 4))
    assert mod["main"].result.shape == (1, 1, size_of("h"), 4)
    agree(mod, [np.ones((1, 1, 6, 4), "float32")], np.full((1, 1, 6, 4), 2))
    odd = np.ones((1, 1, 5, 4), "float32")
    refuses("E136", lambda: mlc.interpret(mod, "main", odd), "h = 5")


def test_match_cast_is_checked_at_the_call():
    x, y = (Var(name, TensorType((f"{name}s", 4), "float32")) for name in "xy")
    builder = mlc.BlockBuilder()
    with builder.function("main", [x, y]):
        same = builder.match_cast(y, x.type)
        assert same.type == x.type
        builder.emit_func_output(builder.emit(op.concat((x * same, same), axis=1)))
    mod = mlc.verify(builder.get())
    agree(mod, [ONE, ONE * 3], np.full((5, 8), 3))
    refuses(
        "E136", lambda: mlc.interpret(mod, "main", ONE, ONE[:3]), "xs = 5, ys = 3", "match_cast"
    )
    fixed = mlc.passes.simplify(mlc.specialize(mod, xs=5, ys=5))
    assert "match_cast" in mod.script() and "match_cast" not in fixed["main"].script()
    refuses("E203", lambda: op.match_cast(x, ("xs + 1", 4)), "xs + 1")
    refuses("E203", lambda: op.match_cast(x, (4,)), "2 dimension(s)")
    refuses("E202", lambda: op.match_cast(x, R.Tensor(("n", 4), "int32")), 'op.cast(x, "int32")')


def test_match_cast_names_sizes_in_scripts():
    text = """
@R.function
def main(x: R.Tensor((n, 4), "float32"), y: R.Tensor((n * 2, 2), "float32")):
    z = R.match_cast(y, R.Tensor((rows, 2), "float32"))
    w = R.match_cast(R.reshape(x, (rows, 2)), R.Tensor((rows, 2), "float32"))
    return z * w * R.ones((rows, 1))
"""
    mod = mlc.verify(mlc.parse(text))
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    agree(mod, [ONE, np.full((10, 2), 3, "float32")], np.full((10, 2), 3))
    declared = text.replace("    z =", "    n, rows = T.int64(), T.int64()\n    z =")
    assert mlc.structural_equal(mlc.parse(declared), mod)
    unknown = declared.replace("R.ones((rows, 1))", "R.ones((rows, 1)) * k").replace(
        "n, rows", "k, rows"
    )
    refuses("E136", lambda: mlc.verify(mlc.parse(unknown)), "no argument determines k")


def test_attributes_are_sizes_of_variables_too():
    n = te.var("n")
    for end, text in ((n, "n"), (te.min(n, 64), "min(n, 64)"), (n // 2 + 1, "n // 2 + 1")):
        full = op.full((end,), 1.0, "float32")
        assert full.type == TensorType((text,), "float32")
    x = Var("x", TensorType((n, 4), "float32"))
    assert op.strided_slice(x, (0,), (n // 2,)).type == TensorType(("n // 2", 4), "float32")
    refuses("E204", lambda: op.full((x,), 1.0, "float32"))


@pytest.mark.parametrize("size", ['("rows", 2, 4)', '("n", 2, 4)'])
def test_match_cast_declares_bounds(size):
    text = f"""
@R.function
def main(x: R.Tensor((n, 4), "float32")):
    z = R.match_cast(x, R.Tensor(({size}, 4), "float32"))
    return z * n
"""
    mod = mlc.verify(mlc.parse(text))
    for each in (mod, mlc.parse(mod.script())):
        agree(each, [ONE[:3]], ONE[:3] * 3)
        for n in (1, 5):
            call = partial(mlc.interpret, each, "main", ONE[:n])
            refuses("E136", call, f"n is {n}, declared from 2 to 4")
    refuses("E136", lambda: mlc.parse(text.replace("(n, 4)", "(n + 1, 4)", 1)), "bounded size")


def named(shape, number: int):
    """A shape, or a list of them, with a size of a call in the place of a number."""
    if isinstance(shape, list):
        return [named(each, number) for each in shape]
    return tuple([size_of("n") if size == number else size for size in shape])


def types_of(record, shapes) -> tuple:
    own = dict(record.param_dtypes)
    dtype = "float32" if "float32" in record.dtypes else record.dtypes[0]
    if record.variadic:
        return (TupleType(tuple([TensorType(shape, dtype) for shape in shapes[0]])),)
    kinds = [own.get(name, (dtype,))[0] for name in record.params]
    return tuple(map(TensorType, shapes, kinds[: len(shapes)]))


@pytest.mark.parametrize("name", OPS)
def test_types_of_sizes_are_those_of_their_numbers(name):
    """Or the operator refuses them, as one that fits one number only."""
    record = OPS[name]
    for shapes, attrs in samples(name):
        flat = [shape for s in shapes for shape in (s if isinstance(s, list) else [s])]
        for number in {size for shape in flat for size in shape if size > 1}:
            expected = record.infer_type(types_of(record, shapes), attrs)
            try:
                symbolic = types_of(record, [named(shape, number) for shape in shapes])
                assert type_at(record.infer_type(symbolic, attrs), {"n": number}) == expected
            except mlc.OpError as error:
                assert error.why.startswith(name)
