"""`build`'s own arguments, checked bounds, and a library's description of itself."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import (
    Alloc,
    Buffer,
    For,
    IfThenElse,
    PrimFunc,
    Select,
    Stmt,
    Var,
    index,
    seq,
    store,
)
from minimlc.loops.values.errors import BoundsError, BuildError, CompileError
from minimlc.loops.values.target import Target
from minimlc.script import T
from minimlc.services.build import build
from tests.helpers import refuses

i, j = Var("i"), Var("j")
x, y = Buffer("x", (8,), "float32"), Buffer("y", (8, 8), "float32")
at = Buffer("at", (8,), "int64")
local = Buffer("local", (20000,), "float32", "local")


def loop(var: Var, extent: int, body: Stmt, kind="serial") -> For:
    return For(var, index(extent), kind, body)


def wrong_programs() -> dict[str, Stmt]:
    """Each goes wrong when at == [3, 8, -1, ...]; none is refused when it is verified."""
    picked = at[i]
    return {
        "load": loop(i, 8, store(y, (0, i), x[picked])),
        "store": loop(i, 8, store(x, (picked,), 0.0)),
        "second axis": loop(i, 8, store(y, (i, picked), 1.0)),
        "first axis": loop(i, 8, store(y, (picked, i), 1.0)),
        "negative": store(x, (at[2],), 1.0),
        "vectorized": loop(i, 8, store(y, (i, i), x[picked]), "vectorized"),
        "parallel": loop(i, 8, store(y, (i, i), x[picked]), "parallel"),
        "unrolled": loop(i, 8, store(y, (i, i), x[picked]), "unrolled"),
        "inner": loop(i, 8, loop(j, 8, store(y, (i, j), x[at[j] + i]))),
        "condition": loop(i, 8, IfThenElse(x[picked] > 0.0, store(y, (i, 0), 1.0))),
        "select": loop(i, 8, store(y, (i, 0), Select(i > 0, x[picked], x[i]))),
        "index of index": store(x, (at[at[1] - 6],), 1.0),
        "with heap": Alloc(local, seq((store(local, (0,), 1.0), store(x, (at[1],), local[0])))),
    }


@pytest.mark.parametrize("target", ["llvm", "python"])
@pytest.mark.parametrize("name", wrong_programs())
def test_checked_bounds(name, target):
    body = wrong_programs()[name]
    lib = build(PrimFunc((x, y, at), (), body), target, bounds="check")
    values = [np.zeros(8, np.float32), np.zeros((8, 8), np.float32)]
    places = np.array([3, 8, -1, 9, 100, 2**40, -(2**40), 8])
    with pytest.raises(IndexError) as caught:
        lib["main"](*values, places)
    assert isinstance(caught.value, BoundsError)
    refuses("E609", lambda: lib["main"](*values, places), "outside its shape", "axis")
    inside = np.zeros(8, np.int64)
    if name not in ("inner", "index of index"):
        lib["main"](*values, inside)


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_what_a_bounds_error_says(target):
    lib = build(PrimFunc((x, y, at), (), wrong_programs()["second axis"]), target, bounds="check")
    places = np.array([3, 8, 0, 0, 0, 0, 0, 0])
    arrays = np.zeros(8, np.float32), np.zeros((8, 8), np.float32), places
    refuses("E609", lambda: lib["main"](*arrays), "store of y[1, 8]", "(8, 8)", "axis 1", "0 to 7")


def test_every_target_says_where_in_the_script():
    @T.prim_func
    def shifted(X: T.Buffer((4,), "float32"), I: T.Buffer((4,), "int32")):
        for i in range(4):
            X[i] = X[I[i]]

    arrays = np.zeros(4, np.float32), np.array([0, 1, -1, 0], np.int32)
    mod = mlc.IRModule.of({"main": shifted})
    calls = [build(mod, t, bounds="check")["main"] for t in ("llvm", "python")]
    said = [refuses("E609", lambda call=call: call(*arrays), "X[-1]") for call in calls]
    assert str(said[0]) == str(said[1])
    meant = refuses("E609", lambda: interpret(mod, "main", *arrays), "X[-1]")
    assert said[0].span.line == meant.span.line


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_lazy_sides_are_not_checked(target):
    body = loop(i, 8, store(x, (i,), Select(i >= 4, y[0, i - 4], x[i])))
    build(PrimFunc((x, y, at), (), body), target, bounds="check")["main"](
        np.zeros(8, np.float32), np.zeros((8, 8), np.float32), np.zeros(8, np.int64)
    )


def test_unknown_targets_and_modes():
    func = PrimFunc((x,), (), store(x, (0,), 1.0))
    refuses("E501", lambda: build(func, "lvm"), '"llvm"')
    refuses("E501", lambda: build(func, Target("pyton")), '"python"')
    refuses("E505", lambda: build(func, bounds="chekc"), '"check"')
    with pytest.raises(BuildError, match="module or a function"):
        build(3)


def test_targets():
    host = Target.host()
    assert Target.of("llvm") is not None and host.vector_bits in (128, 256, 512)
    assert host.l1 <= host.l2 and host.cores >= 1
    assert Target.host("python").name == "python"
    chosen = Target("llvm", "x86-64-v2", "+sse4.2", 128)
    assert Target.of(chosen) is chosen
    assert "features='+sse4.2'" in repr(chosen)
    long = Target("llvm", "znver4", ",".join(["+adx", "-sse4a", "+avx2", "+fma"] * 5))
    assert "features=<15 flags: avx2, fma, …>" in repr(long)
    assert len(repr(host)) < 160


def test_sources():
    func = PrimFunc((x,), (), loop(i, 8, store(x, (i,), x[i] * 2.0), "vectorized"))
    lib = build(func)
    assert "define i32 @mlc.main(" in lib.source("llvm")
    assert "mlc.main:" in lib.source("asm")
    assert lib.names() == ("main",) and "main" in lib
    assert "float32[8]" in repr(lib["main"])
    assert "def main" in build(func, "python").source()


def test_floating_point_flags_are_only_contract():
    func = PrimFunc((x,), (), loop(i, 8, store(x, (i,), x[i] * x[i] + 1.0)))
    text = build(func).source("llvm")
    assert "fmul contract" in text
    assert not any(flag in text for flag in (" nnan", " ninf", " nsz", " reassoc", " fast"))


def test_a_name_of_the_c_library_is_free():
    lib = build(PrimFunc((x,), (), store(x, (0,), 1.0), (("global_symbol", "malloc"),)))
    values = np.zeros(8, np.float32)
    lib["malloc"](values)
    assert values[0] == 1


@pytest.mark.parametrize("target", ["llvm", pytest.param("c", marks=pytest.mark.requires("cc"))])
def test_more_arrays_than_compiled_code_can_be_called_with(target):
    def function(count: int) -> PrimFunc:
        params = tuple(Buffer(f"x{n}", (1,), "float32") for n in range(count))
        return PrimFunc(params, (), store(params[-1], (0,), params[0][0] + 1.0))

    arrays = [np.zeros(1, np.float32) for _ in range(1100)]
    build(function(1024), target)["main"](*arrays[:1024])
    assert arrays[1023] == 1
    with pytest.raises(BuildError, match="at most 1024 arrays, this function has 1100"):
        build(function(1100), target)
    build(function(1100), "python")["main"](*arrays)
    assert arrays[1099] == 1


@pytest.mark.parametrize(
    "target", ["llvm", "python", pytest.param("c", marks=pytest.mark.requires("cc"))]
)
def test_memory_that_is_not_there(target):
    """The largest buffer there can be: more than a process can address on most machines."""
    huge, k = Buffer("huge", (2**45,), "float32"), Var("k")
    fill = loop(i, 8, store(huge, ((at[0] + i) % 2**45,), 3.0))
    read = loop(k, 8, store(x, (k,), huge[(at[0] + k) % 2**45]))
    values = np.zeros(8, np.float32)
    try:
        build(PrimFunc((at, x), (huge,), seq([fill, read])), target)["main"](
            np.full(8, 2**44), values
        )
    except MemoryError:
        values[...] = 3
    assert (values == 3).all()


def test_compile_error_is_one_family():
    assert issubclass(BoundsError, CompileError) and issubclass(BoundsError, IndexError)
