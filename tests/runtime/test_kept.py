"""A module that was built before: no pass runs; where one layer changed, one kernel is compiled."""

import cProfile
import subprocess
import sys

import numpy as np
import pytest

import minimlc as mlc
from minimlc.graphs.ir.nodes import Constant, Function
from minimlc.script import R
from minimlc.services.build import build
from minimlc.services.caches import kept, stubs
from minimlc.services.runtime import cache

RNG = np.random.default_rng(7)
WEIGHTS = [RNG.standard_normal(shape, "float32") for shape in ((10, 24), (10, 10), (40, 10))]


def network(last: str = "relu", scale: float = 1.0, name: str = "x") -> mlc.IRModule:
    """Three layers: rows times packed weights; the second is used twice."""
    bb = mlc.BlockBuilder()
    x = mlc.Var(name, R.Tensor((3, 24), "float32"))
    with bb.function("main", [x]):
        w = [mlc.constant(each * np.float32(scale)) for each in WEIGHTS]
        y = bb.emit(mlc.op.gelu(mlc.op.linear(x, w[0])))
        y = bb.emit(mlc.op.tanh(mlc.op.linear(y, w[1])))
        y = bb.emit(mlc.op.linear(y, w[1]))
        y = bb.emit(getattr(mlc.op, last)(mlc.op.linear(y, w[2])))
        bb.emit_func_output(y)
    return bb.get()


X = RNG.standard_normal((3, 24), "float32")


def same(mod: mlc.IRModule, library: mlc.services.runtime.library.Library) -> None:
    """Whether a library computes what one does that was built without the cache."""
    expected = build(mod, cache=False)["main"](X)
    np.testing.assert_array_equal(library["main"](X), expected)
    np.testing.assert_allclose(expected, mlc.interpret(mod, "main", X), 1e-4, 1e-5)


@pytest.fixture
def passes(monkeypatch) -> list[str]:
    """The names of the passes that ran."""
    names: list[str] = []
    for part in (stubs, sys.modules["minimlc.services.build"]):
        real = part.run_passes

        def noted(mod, steps, real=real):
            return real(mod, steps, lambda name, *_: names.append(name))

        monkeypatch.setattr(part, "run_passes", noted)
    return names


def test_the_second_build_runs_no_pass(folder, compilations, passes):
    first = build(network())
    assert "recipes.apply" in passes
    count = len(compilations)
    passes.clear()
    second = build(network())
    assert not passes and len(compilations) == count
    same(network(), second)
    assert second.names() == first.names() and repr(second["main"]) == repr(first["main"])


def test_what_will_work_in_place_is_compiled_beside_the_schedules(folder, compilations):
    """Not at the end, when no text is left to write: the plan comes after all schedules."""
    before, linked = [], sys.modules["minimlc.services.build"].compile_native

    def noted(codes, *args, jobs, **options):
        before.append(({*jobs}, codes))
        return linked(codes, *args, jobs=jobs, **options)

    w = [mlc.constant(RNG.standard_normal((40, 40), "float32")) for _ in range(4)]
    bb = mlc.BlockBuilder()
    x = mlc.Var("x", R.Tensor((40, 40), "float32"))
    with bb.function("main", [x]):
        y = bb.emit(mlc.op.relu(mlc.op.linear(x, w[0])))
        z = bb.emit(mlc.op.tanh(mlc.op.linear(y, w[1])))
        z = bb.emit(mlc.op.add(mlc.op.linear(z, w[2]), y))
        bb.emit_func_output(bb.emit(mlc.op.linear(z, w[3])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["minimlc.services.build"], "compile_native", noted)
        library = build(bb.get())
    ((jobs, codes),) = before
    in_place = [func for func in codes.values() if "in_place" in dict(func.attrs)]
    assert in_place and len(jobs) == len(codes) == len(compilations) - 1
    given = RNG.standard_normal((40, 40), "float32")
    expected = mlc.interpret(bb.get(), "main", given)
    np.testing.assert_allclose(library["main"](given), expected, 1e-3, 1e-2)


def test_a_new_process_runs_no_recipe(folder):
    code = (
        "import minimlc.recipes as recipes, minimlc as mlc\n"
        "from tests.runtime.test_kept import X, network\n"
        "def refuse(*_, **options): raise SystemExit('a recipe ran')\n"
        "recipes._schedule = refuse\n"
        "print(mlc.build(network())['main'](X).tobytes().hex())"
    )
    expected = build(network())["main"](X).tobytes().hex()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == expected, done.stderr


def test_one_layer_changed_compiles_one_kernel(folder, compilations):
    build(network())
    count = len(compilations)
    changed = build(network("sigmoid"))
    kernel, entry = compilations[count:]  # and the calls, in their order
    assert kernel.count("define i32 @mlc.k") == 1 and "define i32 @mlc.graph.main" in entry
    same(network("sigmoid"), changed)


def test_other_weights_compile_nothing(folder, compilations):
    build(network())
    count = len(compilations)
    library = build(network(scale=2.0))
    assert len(compilations) == count
    same(network(scale=2.0), library)


def test_a_cached_library_shows_its_module_and_its_sources(folder):
    first = build(network())
    for library in (build(network()), build(network("sigmoid"))):
        assert isinstance(library.mod["main"], Function)
        assert set(library.names()) == set(library.mod.functions)
        assert "@mlc.graph.main" in library.source("llvm")
    assert mlc.structural_equal(build(network()).mod, first.mod)


def test_packed_weights_begin_on_a_cache_line(folder, tmp_path):
    """Fresh, from the cache, and from a file."""
    for number in range(4):  # elsewhere in the heap each time
        mod = network(scale=1 + number)
        first, second = build(mod), build(mod)
        first.save(tmp_path / "net.mlc")
        for library in (first, second, mlc.load(tmp_path / "net.mlc")):
            weights = library["main"].plan.constants
            assert len(weights) == 3
            assert [weight.ctypes.data % 64 for weight in weights] == [0, 0, 0]


def test_kernels_of_a_cached_library_are_called_by_name(folder):
    first = build(network())
    second = build(network())
    name = next(name for name in first.names() if name != "main")
    for library in (first, second):
        with pytest.raises(mlc.CompileError, match=name):
            library[name]()


def test_names_are_part_of_the_key(folder):
    build(network())
    assert "pixels" in repr(build(network(name="pixels"))["main"])


def test_options_are_part_of_the_key(folder, passes):
    build(network())
    for options in ({"recipes": False}, {"target": mlc.Target("llvm", "x86-64-v2")}):
        passes.clear()
        build(network(), **options)
        assert "legalize" in passes


def scaled() -> mlc.IRModule:
    """A product with numbers that are computed from constants."""
    bb = mlc.BlockBuilder()
    x = mlc.Var("x", R.Tensor((3, 24), "float32"))
    with bb.function("main", [x]):
        scale = bb.emit(mlc.op.exp(mlc.constant(np.linspace(0, 1, 24, dtype="float32"))))
        bb.emit_func_output(bb.emit(mlc.op.multiply(x, scale)))
    return bb.get()


def test_a_small_constant_that_passes_computed_is_written_down(folder, passes):
    build(scaled())
    passes.clear()
    library = build(scaled())
    assert not passes
    same(scaled(), library)


def test_a_large_one_is_not(folder, monkeypatch, passes):
    monkeypatch.setattr(kept, "MOST_BYTES", 8)
    build(scaled())
    passes.clear()
    build(scaled())
    assert "recipes.apply" in passes


def answers() -> list[bytes]:
    """Of the network, which the cache has, and of one with another layer."""
    return [build(network(last))["main"](X).tobytes() for last in ("relu", "sigmoid")]


def restored(folder, entries) -> None:
    for path in folder.glob("*.bin"):
        path.unlink()
    cache.store_entries(entries)


@pytest.mark.requires("thorough")
def test_entries_that_are_missing_or_say_something_else(folder):
    """Whichever it is: sound ones of another content, and object code that is gone."""
    build(network())
    found = [(path.stem, *cache.load_entry(path.stem)) for path in sorted(folder.glob("*.bin"))]
    expected = answers()
    for number, (stem, record, code) in enumerate(found):
        others = found[:number] + found[number + 1 :]
        restored(folder, others)
        assert answers() == expected
        for key in record if not code else ():
            restored(folder, [*others, (stem, {**record, key: "x"}, code)])
            assert answers() == expected


def test_an_entry_of_an_older_compiler_is_not_found(folder, passes, monkeypatch):
    build(network())
    passes.clear()
    monkeypatch.setattr(cache, "code_version", lambda: "another")
    build(network())
    assert "recipes.apply" in passes


def test_what_is_not_to_be_cached_is_not(folder):
    build(network(), cache=False)
    build(network(), bounds="check")
    assert not folder.exists()


def chain(count: int) -> mlc.IRModule:
    """So many operators, some of whose results live for long."""
    bb = mlc.BlockBuilder()
    x = mlc.Var("x", R.Tensor((3, 24), "float32"))
    with bb.function("main", [x]):
        values = [x, x]
        for number in range(count):
            op = (mlc.op.add, mlc.op.matmul, mlc.op.maximum)[number % 3]
            other = mlc.constant(np.eye(24, dtype="float32")) if number % 3 == 1 else values[-2]
            values.append(bb.emit(op(values[-1], other)))
        bb.emit_func_output(values[-1])
    return bb.get()


def test_work_grows_with_the_number_of_operators(folder):
    """Calls of Python functions, which no other process changes."""
    counts = []
    for number in (100, 100, 1000):  # the first one also imports what compiles
        mod, profile = chain(number), cProfile.Profile()
        profile.runcall(build, mod, cache=False)
        counts.append(sum(entry.callcount for entry in profile.getstats()))
    assert counts[2] <= 12 * counts[1]


def folded(array: np.ndarray) -> mlc.IRModule:
    """x + exp(a constant), which a pass computes."""
    bb = mlc.BlockBuilder()
    x = mlc.Var("x", R.Tensor((4,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(mlc.op.add(x, mlc.op.exp(Constant(array)))))
    return bb.get()


def test_a_constant_that_can_change_is_read_each_time(tmp_path, monkeypatch):
    """The view is read-only, its memory is not."""
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    memory, x = np.zeros(4, np.float32), np.zeros(4, np.float32)
    view = memory[:]
    view.setflags(write=False)
    for value in (0, 1):
        memory[:] = value
        np.testing.assert_allclose(build(folded(view))["main"](x), np.exp(memory), rtol=1e-6)


def test_a_constant_that_is_refused_is_refused_from_the_cache_too(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    build(folded(mlc.constant(np.ones(4, np.float32)).data))
    with pytest.raises(mlc.CompileError) as caught:
        build(folded(np.ones(4, np.float32)))
    assert caught.value.code == "E222"


ODD = (True, None, 7, "x", [[]], [None], ["../x"], {}, [True])


@pytest.mark.parametrize("part", ["code", "functions", "constants", "threads"])
def test_an_entry_of_another_form_is_no_entry(part, tmp_path, monkeypatch):
    """Its checksum is sound: another version may have written it."""
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    mod, x = folded(mlc.constant(np.ones(4, np.float32)).data), np.zeros(4, np.float32)
    build(mod)
    for path in tmp_path.glob("*.bin"):
        record, code = cache.load_entry(path.stem)
        if part not in record:
            continue
        for odd in (*ODD, "gone"):
            other = {key: value for key, value in record.items() if key != part}
            cache.store_entry(path.stem, other if odd == "gone" else {**other, part: odd}, code)
            np.testing.assert_allclose(build(mod)["main"](x), np.e, rtol=1e-6)
