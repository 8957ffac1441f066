"""Functions are compiled one by one: where one changes, the cache has the others."""

import numpy as np

from minimlc.loops.llvm.kernel import backend, machine_of
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.target import Target
from minimlc.script import parse
from minimlc.services.build import build
from minimlc.services.runtime import cache

LAYERS = """
@I.ir_module
class Model:
    @T.prim_func
    def scale(x: T.Buffer((9,), "float32"), y: T.Buffer((9,), "float32")):
        for i in range(9):
            with T.block("y"):
                vi = T.axis.spatial(9, i)
                y[vi] = x[vi] * T.float32({factor})

    @T.prim_func
    def shift(x: T.Buffer((9,), "float32"), y: T.Buffer((9,), "float32")):
        for i in T.parallel(9):
            with T.block("y"):
                vi = T.axis.spatial(9, i)
                y[vi] = x[vi] + T.float32(1)

    @R.function
    def main(x: R.Tensor((9,), "float32")) -> R.Tensor((9,), "float32"):
        with R.dataflow():
            lv = R.call_tir("scale", (x,), out=R.Tensor((9,), "float32"))
            lv1 = R.call_tir("shift", (lv,), out=R.Tensor((9,), "float32"))
            R.output(lv1)
        return lv1
"""


def check_layers(factor: int) -> None:
    x = np.arange(9, dtype=np.float32)
    library = build(parse(LAYERS.format(factor=factor)))
    np.testing.assert_array_equal(library["main"](x), x * factor + 1)
    y = np.zeros(9, np.float32)
    library["scale"](x, y)
    np.testing.assert_array_equal(y, x * factor)


def test_a_changed_function_is_compiled_alone(folder, compilations):
    check_layers(2)
    assert len(compilations) == len(list(folder.glob("*.bin"))) == 3  # the third: main's calls
    check_layers(2)
    assert len(compilations) == 3
    check_layers(3)
    (text,) = compilations[3:]
    assert "@mlc.scale(" in text and "@mlc.shift" not in text and "@mlc.graph" not in text


def test_a_function_is_found_in_another_module(folder, compilations):
    check_layers(2)
    alone = parse(LAYERS.format(factor=2)).without("main").without("shift")
    build(alone)
    assert len(compilations) == 3
    build(IRModule.of({"other": alone["scale"]}))  # its name is in the code
    assert len(compilations) == 4


def test_of_several_entries_the_damaged_one_is_rebuilt(folder, compilations):
    check_layers(2)
    for count, entry in enumerate(sorted(folder.glob("*.bin")), 4):
        whole = entry.read_bytes()
        entry.write_bytes(whole[:-1])
        check_layers(2)
        assert len(compilations) == count and entry.read_bytes() == whole


def test_where_one_of_several_does_not_link_all_are_rebuilt(folder, compilations):
    check_layers(2)
    entry = min(folder.glob("*.bin"))
    cache.store_entry(entry.stem, {}, b"no object file")
    check_layers(2)
    assert len(compilations) == 6
    check_layers(2)
    assert len(compilations) == 6


def test_several_entries_are_stored_with_one_look_through_the_folder(folder, monkeypatch):
    looks = []
    real = cache._evict
    monkeypatch.setattr(cache, "_evict", lambda path: looks.append(path) or real(path))
    check_layers(2)
    assert looks == [folder]


def test_checked_code_of_several_functions_is_one_text(folder, compilations):
    x, y = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    library = build(parse(LAYERS.format(factor=2)), bounds="check")
    library["shift"](x, y)
    np.testing.assert_array_equal(y, x + 1)
    assert len(compilations) == 1 and not folder.exists()


def test_the_assembly_is_that_of_the_code_that_runs(folder, compilations):
    library = build(parse(LAYERS.format(factor=2)))
    listings = [backend().compile_assembly(t, machine_of(Target.host())) for t in compilations]
    assert library.source("asm") == "\n".join(listings)
    assert library.source("llvm").count("define i32 @mlc.scale(") == 1
