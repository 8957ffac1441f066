"""Graph functions of symbolic sizes: deduced, checked at the call, one library for all sizes."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op, passes
from minimlc.graphs.ir.nodes import TensorType
from minimlc.loops.te import te
from minimlc.script import I, R, T
from minimlc.services.sizes.sizes import size_of
from tests.helpers import assert_close, random_array, refuses

F32 = "float32"


def var(name: str, *shape, dtype=F32) -> mlc.Var:
    return mlc.Var(name, TensorType(shape, dtype))


x, image, w = var("x", "n", 784), var("i", "n", 3, "h", "h * 2"), var("w", 784, 10)
DEDUCED = {
    "matmul": (op.matmul(x, w), ("n", 10)),
    "softmax": (op.softmax(x), ("n", 784)),
    "sum": (op.sum(x, axis=1, keepdims=True), ("n", 1)),
    "flatten": (op.reshape(x, shape=(-1,)), ("n * 784",)),
    "concat": (op.concat((x, x, var("y", 1, 784))), ("n * 2 + 1", 784)),
    "tail": (op.strided_slice(x, begin=1, end=2**31, axes=0), ("n - 1", 784)),
    "half": (op.strided_slice(x, begin=0, end=2**31, strides=2), ("(n + 1) // 2", 784)),
    "add": (op.add(x, var("y", 1, 784)), ("n", 784)),
    "conv2d": (op.conv2d(image, var("k", 8, 3, 3, 3), padding=1), ("n", 8, "h", "h * 2")),
    "pool": (op.max_pool2d(image, pool_size=2, strides=2), ("n", 3, "h // 2", "h")),
    "cumsum": (op.cumsum(x, axis=0), ("n", 784)),
    "arange": (op.arange(start=0, stop=size_of("n")), ("n",)),
    "ones": (op.ones(shape=(size_of("n"), 2)), ("n", 2)),
    "sort": (op.sort(x), ("n", 784)),
    "gather_nd": (op.gather_nd(x, var("i", 5, 1, dtype="int64")), (5, 784)),
    "take_along_axis": (
        op.take_along_axis(x, var("i", "n", 784, dtype="int64"), axis=0),
        ("n", 784),
    ),
    "scatter_nd": (op.scatter_nd(x, var("i", 5, 1, dtype="int64"), var("u", 5, 784)), ("n", 784)),
    "batched": (op.matmul(var("q", "b", "n", 4), var("k", "b", 4, "m")), ("b", "n", "m")),
}


@pytest.mark.parametrize("name", DEDUCED)
def test_types_are_deduced(name):
    call, shape = DEDUCED[name]
    assert call.shape == TensorType(shape, call.dtype).shape


def test_what_does_not_hold_for_all_sizes_is_refused():
    refuses("E203", lambda: op.add(x, var("y", "n + 1", 784)), "sizes n and n + 1")
    refuses("E203", lambda: op.add(x, var("y", 4, 784)), "sizes n and 4", "match_cast")
    refuses("E203", lambda: op.matmul(x, var("y", "n", 4)), "784", "n")
    refuses("E204", lambda: op.split(x, 3, axis=1), "784 elements")
    refuses("E136", lambda: var("y", "n /"))


NET = """
@R.function
def main(
    x: R.Tensor((n, 8), "float32"),
    w: R.Tensor((8, 4), "float32"),
    b: R.Tensor((n * 2, 2), "float32"),
):
    y = R.nn.relu(R.matmul(x, w))
    z = R.reshape(y, shape=(n * 2, 2))
    out: R.Tensor((n * 2 + 1, 2), "float32") = R.concat((z + b, R.ones(shape=(1, 2))), axis=0)
    return out
"""


@I.ir_module
class Decorated:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")) -> R.Tensor(("n * 2", 8), "float32"):
        n = T.int64()
        return R.concat((x, x), axis=0)


def arguments(n: int, rng=None) -> list[np.ndarray]:
    rng = rng or np.random.default_rng(n)
    return [random_array(shape, F32, rng) for shape in ((n, 8), (8, 4), (2 * n, 2))]


def test_it_is_printed_and_read_back():
    for mod in (mlc.parse(NET), Decorated):
        assert mlc.structural_equal(mlc.parse(mlc.verify(mod).script()), mod)
    text = mlc.parse(NET).script()
    assert 'x: R.Tensor(("n", 8), "float32")' in text and "shape=(n * 2, 2)" in text


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_one_library_serves_all_sizes(target):
    mod = mlc.parse(NET)
    main = mlc.build(mod, target)["main"]
    for n in (0, 1, 5) if target == "python" else (0, 1, 2, 7, 64):
        expected = mlc.interpret(mod, "main", *arguments(n))
        assert expected.shape == (2 * n + 1, 2)
        assert_close(main(*arguments(n)), expected)
    assert repr(main).startswith('<compiled main(x: float32["n", 8], w: float32[8, 4], b: ')


def test_an_instance_is_compiled_once(monkeypatch):
    lib = mlc.build(mlc.parse(NET), recipes=False)
    lib["main"](*arguments(3))
    monkeypatch.setattr("minimlc.services.sizes.kernels.instance_for", None)
    lib["main"](*arguments(3))
    with pytest.raises(TypeError):
        lib["main"](*arguments(4))


WRONG = {
    ((7, 8), (8, 4), (10, 2)): ("E604", "b: axis 0 is 10, and n = 7 from x's axis 0", "n * 2"),
    ((5, 7), (8, 4), (10, 2)): ("E604", "x: axis 1 is 7, and it must be 8"),
    ((5, 8), (8, 4)): ("E601", "3 a", "got 2"),
    ((5, 8), (8,), (10, 2)): ("E604", "w must have 2 dimension(s)"),
}


@pytest.mark.parametrize("shapes", WRONG)
def test_wrong_sizes_name_argument_axis_and_equation(shapes):
    mod, args = mlc.parse(NET), [np.zeros(shape, F32) for shape in shapes]
    code, *words = WRONG[shapes]
    refuses(code, lambda: mlc.build(mod, "python")["main"](*args), *words)
    refuses(code, lambda: mlc.interpret(mod, "main", *args), *words)


ONE = '@R.function\ndef main(x: R.Tensor(({}), "float32")):\n    y = {}\n    return y'


def test_a_size_is_found_where_it_stands_with_numbers():
    mod = mlc.parse(ONE.format("n * 2 + 1,", "R.exp(x)"))
    assert mlc.build(mod, "python")["main"](np.zeros(7, F32)).shape == (7,)
    refuses("E604", lambda: mlc.interpret(mod, "main", np.zeros(4, F32)), "is 4", "no n")


def test_a_size_that_no_call_tells_is_refused():
    text = ONE.format("n * m,", "R.exp(x)")
    refuses("E136", lambda: mlc.verify(mlc.parse(text)), "no argument determines")
    taken = '@R.function\ndef main(n: R.Tensor(("n",), "float32")):\n    return n'
    refuses("E221", lambda: mlc.verify(mlc.parse(taken)), '"n"')


def test_sizes_for_which_an_operator_is_not_defined_are_refused_with_them():
    mod = mlc.parse(ONE.format("n, 3", "R.max(x, axis=0)"))
    error = refuses("E136", lambda: mlc.build(mod)["main"](np.zeros((0, 3), F32)), "n = 0")
    assert "size 0" in error.why
    squeezed = mlc.parse(ONE.format("n, 3", "R.squeeze(x)"))
    refuses("E136", lambda: mlc.interpret(squeezed, "main", np.zeros((1, 3), F32)), "n = 1")


@pytest.mark.parametrize(
    "call", ["R.sort(x, axis=1)", "R.sum(x, axis=1)", "R.matmul(x, R.permute_dims(x))"]
)
def test_operators_along_an_axis_that_a_call_tells(call):
    mod = mlc.parse(ONE.format('3, "n"', call))
    library, rng = mlc.build(mod), np.random.default_rng(0)
    for n in (0, 1, 7) if "sort" not in call else (1, 7):
        array = random_array((3, n), F32, rng)
        assert_close(library["main"](array), mlc.interpret(mod, "main", array))


GATES = {"rnn": 1, "gru": 3, "lstm": 4}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", GATES)
def test_recurrent_layers_take_any_number_of_steps(name, reverse):
    gates, builder = GATES[name], mlc.BlockBuilder()
    params = [var("x", "n", "b", 3), var("w", 2 * gates, 3), var("r", 2 * gates, 2)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(getattr(op, name)(*params, reverse=reverse)))
    mod = mlc.verify(builder.get())
    assert mod["main"].result.type.fields[0] == R.Tensor(("n", "b", 2), F32)
    main = mlc.build(mod)["main"]
    for n, b in ((0, 3), (1, 2), (4, 1)):
        shapes = ((n, b, 3), (2 * gates, 3), (2 * gates, 2))
        args = [random_array(shape, F32, np.random.default_rng(n)) for shape in shapes]
        assert_close(main(*args), mlc.interpret(mod, "main", *args))
        fixed = mlc.specialize(mod, n=n, b=b)
        assert_close(mlc.interpret(fixed, "main", *args), mlc.interpret(mod, "main", *args))
    long = np.zeros((1025, 1, 3), F32)
    refuses("E136", lambda: main(long, *args[1:]), "1024 steps at the most", "n = 1025")
    expected = mlc.interpret(mod, "main", *args)
    for step in STEPS:
        limit = 1e-1 if step is passes.to_mixed_precision else 1e-5
        got = mlc.interpret(mlc.verify(step(mod)), "main", *args)
        for part, wanted in zip(got, expected, strict=True):
            np.testing.assert_allclose(part, wanted, limit, limit)


def test_threads_that_meet_a_size_together_build_it_once(monkeypatch):
    library = mlc.build(mlc.parse(ONE.format('"n", 4', "R.softmax(x)")))
    main, built = library["main"], []
    build = main._built
    monkeypatch.setattr(main, "_built", lambda mod: built.append(mod) or build(mod))
    arrays = [random_array((n, 4), F32, np.random.default_rng(n)) for n in (2, 3)] * 8
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(main, arrays))
    assert len(built) == 2
    for result, array in zip(results, arrays, strict=True):
        np.testing.assert_allclose(result.sum(axis=1), np.ones(len(array)), 1e-5)


TWO = """
@I.ir_module
class Two:
    @T.prim_func
    def twice(a: T.handle, b: T.handle):
        k = T.int64()
        A = T.match_buffer(a, (k, 3), "float32")
        B = T.match_buffer(b, (k, 3), "float32")
        for i, j in T.grid(k, 3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    @R.function
    def half(x: R.Tensor((n, 3), "float32")) -> R.Tensor((n, 3), "float32"):
        y = x * 0.5
        return y

    @R.function
    def main(x: R.Tensor((n, 3), "float32")):
        both = R.concat((x, x), axis=0)
        a = R.call("half", (both,), out=R.Tensor((n * 2, 3), "float32"))
        b = R.call_tir("twice", (a,), out=R.Tensor((n * 2, 3), "float32"))
        return b

    @R.function
    def fixed(x: R.Tensor((4, 3), "float32")):
        y = R.call("half", (x,), out=R.Tensor((4, 3), "float32"))
        return y
"""


def test_functions_of_symbolic_sizes_call_each_other():
    mod = mlc.verify(mlc.parse(TWO))
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    rows = np.arange(12, dtype=F32).reshape(4, 3)
    lib = mlc.build(mod, recipes=False)
    for run in (lib["main"], partial(mlc.interpret, mod, "main")):
        np.testing.assert_array_equal(run(rows), np.concatenate([rows, rows]))
    np.testing.assert_array_equal(lib["fixed"](rows), rows * 0.5)
    wrong = TWO.replace("(both,), out=R.Tensor((n * 2", "(both,), out=R.Tensor((n * 3")
    refuses("E222", lambda: mlc.verify(mlc.parse(wrong)), "n * 2", "n * 3")


def test_formulas_of_one_s_own_take_symbolic_sizes():
    builder = mlc.BlockBuilder()
    row = var("row", "n", 3)
    with builder.function("main", [row]):
        twice = builder.emit_te(lambda A: te.compute(A.shape, lambda i, j: A[i, j] * 2.0), row)
        builder.emit_func_output(builder.emit(op.concat((twice, row))))
    mod = mlc.verify(builder.get())
    assert mod["main"].result.shape == TensorType(("n * 2", 3), F32).shape
    rows = np.arange(6, dtype=F32).reshape(2, 3)
    np.testing.assert_array_equal(mlc.build(mod)["main"](rows), np.concatenate([rows * 2, rows]))


def test_specialize_gives_the_function_for_a_size():
    mod = mlc.parse(TWO)
    four = mlc.verify(mlc.specialize(mod, "main", n=2))
    assert four["main"].params[0].shape == (2, 3) and four["half1"].params[0].shape == (4, 3)
    refuses("E136", lambda: mlc.specialize(mod, "main", m=2), "has the sizes n")
    refuses("E136", lambda: mlc.specialize(mod, "main", n=-2))


STEPS = (*passes.default_pipeline, passes.inline, passes.to_mixed_precision)


@pytest.mark.parametrize("text", [NET, TWO])
def test_passes_keep_functions_of_symbolic_sizes_right(text):
    mod = mlc.parse(text)
    args = arguments(3) if text is NET else [np.ones((3, 3), F32)]
    expected = mlc.interpret(mod, "main", *args)
    for step in (*STEPS, partial(passes.remove_unused_parameters, entries=["main"])):
        after = mlc.verify(step(mod))
        limit = 1e-1 if step is passes.to_mixed_precision else 1e-5
        np.testing.assert_allclose(mlc.interpret(after, "main", *args), expected, limit, limit)


@pytest.mark.parametrize("text", [NET, TWO])
def test_a_file_has_the_instances_that_were_called(text, tmp_path, monkeypatch):
    mod = mlc.parse(text)
    sizes = {n: arguments(n) if text is NET else [np.ones((n, 3), F32)] for n in (1, 3, 5)}
    lib = mlc.build(mod)
    expected = {n: lib["main"](*sizes[n]) for n in (1, 3)}
    lib.save(tmp_path / "net.mlc")
    loaded = mlc.load(tmp_path / "net.mlc")
    assert loaded.names() == lib.names() and mlc.structural_equal(loaded.mod, lib.mod)
    assert repr(loaded["main"]) == repr(lib["main"])
    with monkeypatch.context() as patch:
        patch.setattr("minimlc.services.build.build", None)
        patch.setattr("minimlc.services.build._build_native", None)
        for n, result in expected.items():
            np.testing.assert_array_equal(loaded["main"](*sizes[n]), result)
    np.testing.assert_array_equal(loaded["main"](*sizes[5]), lib["main"](*sizes[5]))
    loaded.save(tmp_path / "again.mlc")
    np.testing.assert_array_equal(
        mlc.load(tmp_path / "again.mlc")["main"](*sizes[5]), lib["main"](*sizes[5])
    )


BESIDE = """
@I.ir_module
class Module:
    @T.prim_func
    def NAME(A: T.Buffer((4, 2), "float32"), B: T.Buffer((4, 2), "float32")):
        for i, j in T.grid(4, 2):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 100.0

    @R.function
    def plain(x: R.Tensor((4, 2), "float32")):
        return R.exp(x)

    @R.function
    def main(x: R.Tensor((n, 2), "float32"), y: R.Tensor((4, 2), "float32")):
        z = R.call_tir("NAME", (y,), out=R.Tensor((4, 2), "float32"))
        return R.concat((x, z), axis=0)
"""


@pytest.mark.parametrize("name", ["exp", "helper"])
def test_what_a_symbolic_function_calls_keeps_its_name(name, tmp_path):
    mod, ones = mlc.parse(BESIDE.replace("NAME", name)), np.ones((4, 2), F32)
    lib = mlc.build(mod)
    lib["main"](ones[:1], ones)
    lib.save(tmp_path / "lib.mlc")
    loaded = mlc.load(tmp_path / "lib.mlc")
    again = mlc.build(mlc.verify(lib.mod))
    assert mlc.structural_equal(mlc.verify(loaded.mod), lib.mod)
    for each in (lib, loaded, again):
        for n in (1, 3):
            assert each["main"](ones[:n], ones)[n:].tolist() == [[100, 100]] * 4
        np.testing.assert_allclose(each["plain"](ones), np.exp(ones), 1e-5)
    assert len(lib.profile("plain", ones).kernels) == 1
    assert "define" in loaded.source("llvm")


def test_a_symbolic_function_may_be_called_as_an_operator_is(tmp_path):
    mod = mlc.parse(BESIDE.replace("NAME", "helper").replace("def main", "def exp"))
    lib, ones = mlc.build(mod), np.ones((4, 2), F32)
    assert lib["exp"](ones[:1], ones)[1:].tolist() == [[100, 100]] * 4
    assert lib.profile("plain", ones).kernels[0].name != "exp"
    lib.save(tmp_path / "lib.mlc")
    np.testing.assert_allclose(mlc.load(tmp_path / "lib.mlc")["plain"](ones), np.exp(ones), 1e-5)


def test_a_symbolic_function_is_profiled_and_planned(monkeypatch):
    monkeypatch.setattr("minimlc.deploy.profile.machine_peaks", lambda: mlc.Peaks(1e9, 1e9))
    mod, lib = mlc.parse(NET), mlc.build(mlc.parse(NET))
    profile = lib.profile("main", *arguments(2))
    fixed = mlc.build(mlc.specialize(mod, n=2))
    alone = fixed.profile("main", *arguments(2))
    assert [k.name for k in profile.kernels] == [k.name for k in alone.kernels]
    assert_close(profile.result, mlc.interpret(mod, "main", *arguments(2)))
    assert repr(lib.plan("main", n=2)) == repr(fixed.plan("main"))
    assert lib.plan("main", n=7).planned >= lib.plan("main", n=2).planned
    refuses("E136", lambda: lib.plan("main"), "has the sizes n", 'library.plan("main", n=128)')
    refuses("E136", lambda: lib.plan("main", m=2), "got m")
    refuses("E136", lambda: fixed.plan("main", n=2), "no sizes known only at the call")


HEADS, WIDTH, VOCABULARY = 2, 8, 11


def decoder() -> mlc.IRModule:
    """A step of a small GPT: one token, and the keys and values of the `n` before it."""
    size, heads = WIDTH // HEADS, HEADS
    token = mlc.Var("token", TensorType((1, WIDTH), F32))
    cached = [var(name, heads, "n", size) for name in ("keys", "values")]
    weights = [var(name, WIDTH, WIDTH) for name in ("wq", "wk", "wv", "wo")]
    out = var("out", WIDTH, VOCABULARY)
    builder = mlc.BlockBuilder()
    with builder.function("main", [token, *cached, *weights, out]):
        with builder.dataflow():
            q, k, v = (
                op.permute_dims(op.reshape(op.matmul(token, each), (1, heads, size)), (1, 0, 2))
                for each in weights[:3]
            )
            keys, values = (
                builder.emit_output(op.concat(pair, axis=1))
                for pair in ((cached[0], k), (cached[1], v))
            )
            scores = op.matmul(q, op.permute_dims(keys, (0, 2, 1))) * (size**-0.5)
            mixed = op.matmul(op.softmax(scores, axis=-1), values)
            row = op.reshape(op.permute_dims(mixed, (1, 0, 2)), (1, WIDTH))
            logits = builder.emit_output(op.matmul(token + op.matmul(row, weights[3]), out))
        builder.emit_func_output((logits, keys, values))
    return mlc.verify(builder.get())


def test_a_transformer_decodes_with_a_cache_of_symbolic_length():
    """Step after step the cache grows by one; the whole sequence at once gives the same."""
    mod, rng = decoder(), np.random.default_rng(0)
    assert mod["main"].result.fields[1].shape == TensorType((2, "n + 1", 4), F32).shape
    embedding = random_array((VOCABULARY, WIDTH), F32, rng)
    weights = [random_array((WIDTH, WIDTH), F32, rng) * 0.5 for _ in range(4)]
    weights.append(random_array((WIDTH, VOCABULARY), F32, rng))
    main = mlc.build(mod, recipes=False)["main"]
    keys = values = np.zeros((HEADS, 0, WIDTH // HEADS), F32)
    tokens = [3]
    for _ in range(4):
        row = embedding[tokens[-1]][None]
        expected = mlc.interpret(mod, "main", row, keys, values, *weights)
        logits, keys, values = main(row, keys, values, *weights)
        assert_close((logits, keys, values), expected)
        np.testing.assert_allclose(logits, _whole(embedding[tokens], *weights), 1e-4, 1e-4)
        tokens.append(int(logits.argmax()))
    assert keys.shape == (HEADS, 4, WIDTH // HEADS)


def _whole(rows, wq, wk, wv, wo, out) -> np.ndarray:
    """The logits after these rows, without a cache, in numpy and float64."""
    q, k, v = (
        (rows.astype(float) @ each).reshape(len(rows), HEADS, -1).transpose(1, 0, 2)
        for each in (wq, wk, wv)
    )
    scores = np.exp(q[:, -1:] @ k.transpose(0, 2, 1) * (WIDTH // HEADS) ** -0.5)
    mixed = (scores / scores.sum(-1, keepdims=True)) @ v
    return (rows[-1:] + mixed.transpose(1, 0, 2).reshape(1, WIDTH) @ wo) @ out
