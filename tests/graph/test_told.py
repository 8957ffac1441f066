"""Graph functions with data-dependent sizes: nonzero, unique, and what users cut themselves."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op, passes
from minimlc.graphs.ir.nodes import TensorType, TupleGetItem, TupleType
from minimlc.script import R
from minimlc.services.sizes.kernels import HalvedGraph
from minimlc.services.sizes.sizes import size_of
from tests.helpers import assert_close, refuses

F32 = "float32"
CHAIN = """
@R.function
def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((2, 4), "float32")):
    places = R.nonzero(x)
    rows = R.matmul(R.cast(places, "float32"), w)
    pairs = R.reshape(rows, shape=(k * 2, 2))
    values, at, inverse, counts = R.unique(places, size="m")
    return pairs, values, counts, x
"""


def var(name: str, *shape, dtype=F32) -> mlc.Var:
    return mlc.Var(name, TensorType(shape, dtype))


def graph(params, *values) -> mlc.IRModule:
    builder = mlc.BlockBuilder()
    with builder.function("main", params):
        outs = [builder.emit(value) for value in values]
        builder.emit_func_output(outs[0] if len(outs) == 1 else tuple(outs))
    return mlc.verify(builder.get())


def sparse(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return (rng.random((n, 3)) > 0.5).astype(F32), rng.random((2, 4), F32)


@pytest.mark.parametrize("target", ["llvm", "c", "python", "gpusim"])
def test_what_numpy_gives(target):
    mod = mlc.parse(CHAIN)
    main = mlc.build(mod, target)["main"]
    for n in (0, 1, 4, 4) if target != "llvm" else (0, 1, 2, 5, 5, 9):
        x, w = sparse(n)
        places = np.argwhere(x)
        values, counts = np.unique(places, return_counts=True)
        expected = (places.astype(F32) @ w).reshape(-1, 2), values, counts, x
        for got in (mlc.interpret(mod, "main", x, w), main(x, w)):
            assert_close(got, expected)
            assert [part.dtype for part in got] == [part.dtype for part in expected]


def test_types_and_scripts():
    x = var("x", 2, 3)
    assert op.nonzero(x).type == R.Tensor(("k", 2), "int64")
    kinds = op.unique(x, size="u").type.fields
    assert [kind.shape for kind in kinds] == [TensorType(s, F32).shape for s in UNIQUE]
    assert op.first(x, size=1).shape == (1, 3) and op.first(x, np.int64(1), size=1).shape == (1, 3)
    mod = mlc.verify(mlc.parse(CHAIN))
    text = mod.script()
    assert mlc.structural_equal(mlc.parse(text), mod)
    assert 'R.first(gv1, gv2, size="k")' in text and "shape=(k * 2, 2)" in text


UNIQUE = (("u",), ("u",), (2, 3), ("u",))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64"])
def test_every_dtype(dtype):
    x = var("x", 7, dtype=dtype)
    mod = graph([x], op.nonzero(x), op.unique(x, size="u"))
    main = mlc.build(mod)["main"]
    data = [np.array([0, 3, 1, 3, 0, 1, 1]), np.zeros(7), np.arange(7)]
    data += [np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, np.nan, 2])] * dtype.startswith("f")
    for array in (each.astype(dtype) for each in data):
        with np.errstate(all="ignore"):
            value, *parts = np.unique(
                array, return_index=True, return_inverse=True, return_counts=True
            )
        for got in (mlc.interpret(mod, "main", array), main(array)):
            np.testing.assert_array_equal(got[0], np.argwhere(array))
            for part, expected in zip(got[1], (array[parts[0]], *parts), strict=True):
                np.testing.assert_array_equal(part, expected)
            assert got[1][0].dtype == array.dtype
            assert value.shape == got[1][0].shape


def test_bool():
    x = var("x", 3, 4, dtype="bool")
    mod = graph([x], op.nonzero(x))
    array = np.eye(3, 4) > 0
    assert_close(mlc.build(mod)["main"](array), np.argwhere(array))


def test_a_selection_by_a_mask():
    """Selections share the size that the mask determines."""
    x, y, mask = var("x", 6), var("y", 6, 2), var("mask", 6, dtype="bool")
    at = op.reshape(op.nonzero(mask), (-1,))
    mod = graph([x, y, mask], op.expand_dims(op.take(x, at), axis=1) + op.take(y, at, axis=0))
    assert mod["main"].result.type == R.Tensor(("k", 2), F32)
    main = mlc.build(mod)["main"]
    a, b = np.arange(6, dtype=F32), np.ones((6, 2), F32)
    for bits in (0, 63, 0b101100):
        chosen = np.array([bool(bits >> i & 1) for i in range(6)])
        expected = a[chosen][:, None] + b[chosen]
        assert_close(main(a, b, chosen), expected)
        assert_close(mlc.interpret(mod, "main", a, b, chosen), expected)


LOOPS = """
@I.ir_module
class Module:
    @R.function
    def less(i: R.Tensor((), "int64"), x: R.Tensor((q, 4), "float32")):
        return R.less(i, R.const(3, "int64"))

    @R.function
    def more(i: R.Tensor((), "int64"), x: R.Tensor((q, 4), "float32")):
        return R.add(i, R.const(1, "int64")), R.multiply(x, x)

    @R.function
    def power(x: R.Tensor((q, 4), "float32")) -> R.Tensor(("q", 4), "float32"):
        y = R.while_loop("less", "more", (R.const(0, "int64"), x))
        return y[1]

    @T.prim_func
    def double(a: T.handle, b: T.handle):
        q = T.int64()
        A = T.match_buffer(a, (q, 4), "float32")
        B = T.match_buffer(b, (q, 4), "float32")
        for i, j in T.grid(q, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0

    @R.function
    def main(x: R.Tensor((n, 4), "float32"), mask: R.Tensor((n,), "bool")):
        at = R.reshape(R.nonzero(mask, size="k"), (-1,))
        rows = R.take(x, at, axis=0)
        high = R.call("power", (rows,), out=R.Tensor(("k", 4), "float32"))
        twice = R.call_tir("double", (high,), out=R.Tensor(("k", 4), "float32"))
        return twice, R.call("power", (x,), out=R.Tensor(("n", 4), "float32"))
"""


@pytest.mark.parametrize("target", ["llvm", "c", "python"])
def test_calls_and_loops_of_what_data_tell(target):
    mod = mlc.verify(mlc.parse(LOOPS))
    main = mlc.build(mod, target)["main"]
    for n in (5, 2):
        rng = np.random.default_rng(n)
        x, mask = rng.random((n, 4), F32), rng.random(n) > 0.5
        expected = 2 * x[mask] ** 8, x**8
        for got in (main(x, mask), mlc.interpret(mod, "main", x, mask)):
            for part, wanted in zip(got, expected, strict=True):
                np.testing.assert_allclose(part, wanted, 1e-4)


def counted() -> mlc.IRModule:
    x, n = var("x", 4, 2), var("n", dtype="int64")
    return graph([x, n], op.exp(op.first(x, n, size="k")))


def test_any_number_can_be_a_size():
    main, x = mlc.build(counted())["main"], np.ones((4, 2), F32)
    for n in (0, 3, 4):
        assert_close(main(x, np.array(n)), np.exp(x[:n]))
    for n in (-1, 5):
        for call in (main, lambda *args: mlc.interpret(counted(), "main", *args)):
            refuses("E604", lambda c=call, n=n: c(x, np.array(n)), f"k is {n}, but the array has 4")


def test_what_is_computed_once_for_a_size():
    lib = mlc.build(counted(), recipes=False)
    main = lib["main"]
    assert isinstance(main, HalvedGraph) and repr(main).startswith("<compiled main(x: float32[4")
    x = np.ones((4, 2), F32)
    for n in (1, 3, 1):
        main(x, np.array(n))
    assert [*main.tail.libraries] == [(1,), (3,)]


def test_results_are_the_callers_own():
    x = var("x", 4)
    mod = graph([x], op.nonzero(x))
    main, array = mlc.build(mod)["main"], np.ones(4, F32)
    one, other = main(array), main(array)
    one[...] = 7
    assert other.tolist() == main(array).tolist() == [[0], [1], [2], [3]]
    assert one.base is None
    builder = mlc.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output((x, builder.emit(op.nonzero(x)), mlc.constant([1.0, 2.0])))
    main = mlc.build(builder.get())["main"]
    copy, _, fixed = main(array)
    copy[...], fixed[...] = 0, 0
    assert array.all() and main(array)[2].tolist() == [1, 2]


def test_arguments_are_checked():
    main = mlc.build(counted())["main"]
    refuses("E604", lambda: main(np.ones((3, 2), F32), np.array(1)), 'argument 1 ("x") of main')
    refuses("E601", lambda: main(np.ones((4, 2), F32)), "main takes 2 argument(s), got 1")
    refuses("E601", lambda: main(x=np.ones((4, 2), F32), n=np.array(1)), "by position")


def test_files_profiles_and_plans(tmp_path, monkeypatch):
    monkeypatch.setattr("minimlc.deploy.profile.machine_peaks", lambda: mlc.Peaks(1e9, 1e9))
    mod, args = mlc.parse(CHAIN), sparse(5)
    lib = mlc.build(mod)
    expected = lib["main"](*args)
    profile = lib.profile("main", *args)
    assert_close(profile.result, expected)
    names = [kernel.name for kernel in profile.kernels]
    assert "padded_nonzero" in names[0] and any("unique" in name for name in names)
    lib.save(tmp_path / "lib.mlc")
    loaded = mlc.load(tmp_path / "lib.mlc")
    assert mlc.structural_equal(loaded.mod, mod)
    with monkeypatch.context() as patch:
        patch.setattr("minimlc.services.build.build", None)
        patch.setattr("minimlc.services.build._build_native", None)
        for got, wanted in zip(loaded["main"](*args), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
    for got, wanted in zip(loaded["main"](*sparse(2)), lib["main"](*sparse(2)), strict=True):
        np.testing.assert_array_equal(got, wanted)
    fixed = mlc.build(counted())
    refuses("E136", lambda: fixed.plan("main"), "it has a data-dependent size", "library.profile")
    refuses("E136", lambda: lib.plan("main", n=2), "it has a data-dependent size")


def test_nothing_left_to_compute():
    """Tuples, what is there twice, what comes through DLPack: all are the caller's own."""
    x = var("x", 4, 2)
    pair = mlc.Var("pair", TupleType((x.type, x.type)))
    builder = mlc.BlockBuilder()
    with builder.function("main", [x, pair]):
        whole = builder.emit(op.padded_nonzero(x))
        fields = [builder.emit(TupleGetItem(whole, number)) for number in range(2)]
        rows = builder.emit(op.first(*fields, size="k"))
        builder.emit_func_output((whole, rows, rows, pair, x))
    mod, array = mlc.verify(builder.get()), np.eye(4, 2, dtype=F32)
    main = mlc.build(mod)["main"]
    assert main.ends
    got = main(array, (array, array))
    assert_close(got, mlc.interpret(mod, "main", array, (array, array)))
    for number, part in enumerate((got[1], got[3][0], got[4])):
        part[...] = 7 + number
    assert got[2].tolist() == [[0, 0], [1, 1]] and array.sum() == 2 and got[3][1].sum() == 2
    assert_close(main(Shared(array), (array, array))[4], array)


class Shared:
    """An array that only DLPack knows."""

    def __init__(self, array: np.ndarray):
        self._array, self.shape = array, array.shape

    def __dlpack__(self, **options):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_what_tells_a_size_stays_while_the_size_is_used():
    x, builder = var("x", 4, 2), mlc.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            builder.emit(op.unique(x, size="u"))
            builder.emit(op.nonzero(x, size="j"))
            out = builder.emit_output(op.ones(shape=(size_of("u"), 2)))
        builder.emit_func_output(out)
    mod = mlc.verify(builder.get())
    after = mlc.verify(passes.remove_unused(mod))
    script = after.script()
    assert script.count('size="u"') >= 1 and "nonzero" not in script
    for each in (mod, after):
        assert mlc.interpret(each, "main", np.eye(4, 2, dtype=F32)).shape == (2, 2)
    names = [b.var.name for b in mod["main"].bindings() if "first" in repr(b.value)]
    refuses("E234", lambda: passes.outline(mod, names[:1], "part"), "determines a size")


def test_a_constant_tells_it_after_folding():
    x, builder = var("x", 4, 2), mlc.BlockBuilder()
    with builder.function("main", [x]):
        value = builder.emit(op.unique(mlc.constant(np.array([3, 1, 3, 2], F32)), size="u"))
        builder.emit_func_output((value, x))
    folded = mlc.verify(passes.fold_constants(builder.get()))
    again = mlc.verify(mlc.parse(folded.script(), mlc.named_constants(folded)))
    got = mlc.build(again)["main"](np.ones((4, 2), F32))
    assert got[0][0].tolist() == [1, 2, 3] and got[0][3].tolist() == [1, 1, 2]


def test_a_field_of_what_unique_gives():
    mod = mlc.parse("""
@R.function
def main(x: R.Tensor((5,), "float32")):
    a = R.unique(x)[0]
    return a
""")
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)


def test_names_of_sizes_and_variables_do_not_meet():
    text = """
@I.ir_module
class Module:
    @R.function
    def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        k = R.exp(x)
        return R.add(k, k)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = inner(x)
        k = R.nonzero(y, size="k")
        return k, inner(y), y
"""
    text = text.replace("inner(", "cls.inner(").replace("def cls.inner(", "def inner(")
    mod = mlc.verify(mlc.parse(text))
    for each in (mod, passes.inline(mod)):
        got = mlc.build(mlc.verify(each))["main"](np.zeros(4, F32))
        assert got[0].shape == (4, 1)
    params = (
        '@R.function\ndef main(x: R.Tensor((b, 2), "float32"), b: R.Tensor((2,), "float32")):\n'
    )
    refuses(
        "E221", lambda: mlc.verify(mlc.parse(f"{params}    return x + b\n")), "a size and a var"
    )


@pytest.mark.parametrize("target", ["llvm", "c", "python", "gpusim"])
def test_no_match_and_nothing_to_match(target):
    mod = mlc.parse("""
@R.function
def main(x: R.Tensor(("n", 4), "float32"), mask: R.Tensor(("n",), "bool")):
    at = R.reshape(R.nonzero(mask, size="k"), (-1,))
    rows = R.take(x, at, axis=0)
    order = R.argsort(R.sum(rows, axis=1))
    values, first, inverse, counts = R.unique(at, size="u")
    back = R.take(values, inverse, axis=0)
    return R.take(rows, order, axis=0), back, R.gather_nd(x, R.expand_dims(at, axis=1))
""")
    main = mlc.build(mod, target)["main"]
    for n, every in ((3, False), (0, False), (3, True)):
        x, mask = np.arange(4 * n, dtype=F32).reshape(n, 4), np.full(n, every)
        for got in (main(x, mask), mlc.interpret(mod, "main", x, mask)):
            rows, back, same = got
            assert rows.shape == same.shape == (n * every, 4) and back.shape == (n * every,)
            assert_close(rows, x[mask])
            assert_close(same, x[mask])


def test_verify_and_the_interpreter_look_once(monkeypatch):
    from minimlc.graphs.ir import sized
    from minimlc.services.sizes import symbolic_graphs as symbolic

    calls = []
    plain = sized.told_by
    monkeypatch.setattr(sized, "told_by", lambda value: calls.append(value) or plain(value))
    mod = counted()
    for _ in range(50):
        mlc.interpret(mod, "main", np.ones((4, 2), F32), np.array(2))
    assert len(calls) < 40
    assert symbolic.halves(mod, "main") is symbolic.halves(mod, "main")


@pytest.mark.parametrize(
    "text",
    [
        'def main(x: R.Tensor(("k",), "float32")):\n    i = R.nonzero(x, size="k")\n    return i\n',
        'def main(x: R.Tensor(("n",), "float32")):\n    i = R.nonzero(x, size="k")\n'
        '    j = R.nonzero(R.exp(x), size="k")\n    return i, j\n',
    ],
)
def test_another_size_s_name_is_refused_wherever_it_is_run(text):
    mod, x = mlc.parse("@R.function\n" + text), np.array([3, 0, 1, 0, 2], F32)
    size = "n" if '"n"' in text else "k"
    for run in (
        lambda: mlc.interpret(mod, "main", x),
        lambda: mlc.build(mod)["main"](x),
        lambda: mlc.specialize(mod, "main", **{size: 5}),
        lambda: mlc.verify(mod),
    ):
        refuses("E136", run, "another k", 'size="m"')


def test_passes_leave_it_right():
    mod, args = mlc.parse(CHAIN), sparse(4)
    expected = mlc.interpret(mod, "main", *args)
    for step in (*passes.default_pipeline, passes.inline, passes.simplify):
        after = mlc.verify(step(mod))
        assert_close(mlc.interpret(after, "main", *args), expected)
    table = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]], F32)
    constant = graph([], op.nonzero(mlc.constant(table)))
    folded = mlc.verify(passes.fold_constants(constant))
    for each in (constant, folded):
        assert mlc.build(each)["main"]().tolist() == [[0, 1], [1, 2]]


def test_what_is_refused():
    x, y = var("x", 4, 2), var("y", "k", 2)
    count = var("c", dtype="int64")

    def two(second):
        return graph([x, y], op.nonzero(x, size="m"), second)

    refuses("E136", lambda: two(op.nonzero(x, size="k")), "another k", 'size="m"')
    refuses("E136", lambda: two(op.nonzero(y, size="m")), "another m")
    refuses("E136", lambda: two(op.nonzero(x, size="x")), "another x")
    early = op.first(
        x, TupleGetItem(op.padded_nonzero(op.ones(shape=(size_of("k"), 2))), 1), size="k"
    )
    refuses("E136", lambda: graph([x], early), "no argument determines k", "no data before")
    refuses("E204", lambda: op.first(x, size="k"), "needs count")
    refuses("E204", lambda: op.first(x, var("c", 1, dtype="int64"), size="k"), "the scalar")
    refuses("E202", lambda: op.first(x, x, size="k"), "count cannot be float32")
    refuses("E204", lambda: op.first(x, size=5), "size=5 of the 4")
    refuses("E204", lambda: op.first(x, count, size=True), "a number or a name")
    for size in ("a * b", "k * 2", "k // 2"):
        refuses("E204", lambda s=size: op.first(x, count, size=s), "is a name")
    for size in (3, "3"):
        refuses("E204", lambda s=size: op.nonzero(x, size=s), "the name of a size, got")
    refuses("E204", lambda: op.unique(x, size=2), "the name of a size")
    refuses("E201", lambda: op.nonzero(x, sze="k"), "nonzero: ", "(x: Any")
    refuses("E201", lambda: op.first(x), "first: ", "size")
    assert op.first(var("v", "n"), size=100).shape == (100,)
    named = '@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    y = R.exp(x)\n'
    text = f'{named}    z = R.nonzero(x, size="y")\n    return R.add(y, y), z\n'
    refuses("E136", lambda: mlc.verify(mlc.parse(text)), "another y")
    refuses("E136", lambda: op.nonzero(x, size="k +"), "not a size")
    refuses("E203", lambda: op.nonzero(var("s")), "no axes", "expand_dims")
    refuses("E202", lambda: op.unique(var("b", 3, dtype="bool")), "cannot be bool")
    called = """
@I.ir_module
class Module:
    @R.function
    def inner(x: R.Tensor((4,), "float32")):
        return R.sum(R.nonzero(x))

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.call("inner", (x,), out=R.Tensor((), "int64"))
"""
    refuses("E136", lambda: mlc.verify(mlc.parse(called)), "it has data-dependent sizes")
