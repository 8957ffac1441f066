"""Generated C as text; its loops, storage and threads; compilers that are missing or fail."""

import gc
import multiprocessing
import os
import re
import stat
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    IfThenElse,
    PrimFunc,
    Select,
    Var,
    index,
    intrin,
    seq,
    store,
)
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.target import Target
from minimlc.script import I, T
from minimlc.services.build import build
from minimlc.services.threads import parallel
from minimlc.services.threads.parallel import num_threads, set_num_threads
from minimlc.targets.c import compiler as c_compiler
from minimlc.targets.c import entries as build_c
from minimlc.targets.c.emit import emit_c
from tests.codegen.c_programs import agree, compiled
from tests.codegen.test_llvm_loops import loop, tile
from tests.guard_pages import guarded, isolated, needs_guard_pages, needs_masks
from tests.helpers import assert_close, refuses

pytestmark = pytest.mark.many

needs_compiler = pytest.mark.requires("cc")
i, j, k, m = Var("i"), Var("j"), Var("k"), Var("m")


def stay_inside(*functions: PrimFunc) -> None:
    """Between guard pages they touch their arrays alone, and leave in them what is meant."""
    named = {f"f{number}": func for number, func in enumerate(functions)}
    kernels = compiled(named)
    calls = [
        (name, [guarded(p.shape, p.dtype, at_end) for p in func.params])
        for (name, func), at_end in product(named.items(), (True, False))
    ]
    assert isolated(lambda: [kernels[name](*arrays) for name, arrays in calls]) == ""
    for name, arrays in calls:
        meant = [array.copy() for array in arrays]
        mlc.interpret(IRModule.of({"main": named[name]}), "main", *meant)
        kernels[name](*arrays)
        assert_close(tuple(arrays), tuple(meant), exact=True)


GUARDED = """
@T.prim_func
def main(
    x: T.Buffer(({n},), "{dtype}"),
    y: T.Buffer((16,), "{dtype}"),
    out: T.Buffer((16,), "{dtype}"),
):
    for i in T.{kind}(16):
        with T.block("out"):
            v = T.axis.spatial(16, i)
            {body}
"""


@needs_compiler
@needs_guard_pages
@pytest.mark.parametrize("kind", ["vectorized", "serial"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int8"])
@pytest.mark.parametrize(
    "body",
    [
        "out[v] = T.Select(v < {n}, x[v], y[v])",
        "if v < {n}: out[v] = x[v]",
        "if v < {n}: x[v] = y[v]",
        "out[v] = T.cast(v < {n} and x[v] > y[v], '{dtype}')",
        "out[v] = T.Select(v >= 16 - {n}, x[v - (16 - {n})], y[v])",
    ],
)
def test_what_a_condition_holds_off_is_not_touched(body, dtype, kind):
    """GCC 12 reads whole vectors where it knows the mask of a masked load."""
    needs_masks()
    text = GUARDED.format(body=body, dtype=dtype, kind=kind, n="{n}")
    stay_inside(*(mlc.parse(text.format(n=n, dtype=dtype))["main"] for n in (1, 3, 5, 9)))


FRAMED = """
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), B: T.Buffer((6, 4), "int32"), C: T.Buffer((4, 4), "int32")):
    for i in range(2):
        with T.alloc_buffer((4, 4), "int32") as X:
            for j, i1, j1 in T.grid(2, 2, 2):
                C[i * 2 + i1, j * 2 + j1] = 0
            for i1, j1 in T.grid(4, 4):
                X[i1, j1] = C[i1, j1]
            for j, k, i1, j1, k1 in T.grid(2, 3, {n}, 2, 2):
                if i1 < {last}:
                    X[i * 2 + i1, j * 2 + j1] = (
                        X[i * 2 + i1, j * 2 + j1]
                        + A[i * 2 + i1, k * 2 + k1] * B[k * 2 + k1, j * 2 + j1]
                    )
            for i1, j1 in T.grid(4, 4):
                C[i1, j1] = X[i1, j1]
"""


@needs_compiler
@needs_guard_pages
def test_a_functions_array_is_where_aligned_stores_need_it():
    """GCC 12 keeps one 8 bytes beside in the red zone: five of these ended with a fault."""
    texts = (FRAMED.format(n=n, last=last) for n in (3, 4, 5, 8) for last in (1, 2))
    stay_inside(*(mlc.parse(text)["main"] for text in texts))


BACKWARD = """
@T.prim_func
def main(x: T.Buffer(({n}, 2), "{dtype}"), out: T.Buffer(({n}, 2, 2), "{dtype}")):
    for i, j, k in T.grid({n}, 2, 2):
        out[{last} - i, {j}, k] = x[{last} - i, 1 - j]
"""


@needs_compiler
@needs_guard_pages
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32"])
@pytest.mark.parametrize("j", ["j", "1 - j", "j * 5 % 2"])
def test_groups_that_go_backward_are_read_from_their_array_only(j, dtype):
    """GCC 12 reads one group of bytes too many, before the array's start."""
    sizes = (2, 3, 5, 8, 17)
    texts = (BACKWARD.format(n=n, last=n - 1, j=j, dtype=dtype) for n in sizes)
    functions = [mlc.parse(text)["main"] for text in texts]
    assert all(emit_c({"main": func}).backward for func in functions)
    stay_inside(*functions)


def test_what_goes_forward_is_vectorized_as_ever():
    forward = "x[i + 1, 1], x[i - 1, j]", "x[i * 2, j]", "x[i // 2, j % 2]"
    for element in ", ".join(forward).split("], "):
        text = BACKWARD.format(n=3, last=2, j="j", dtype="int8")
        text = text.replace("out[2 - i, j, k]", "out[i, j, k]")
        text = text.replace("x[2 - i, 1 - j]", f"{element.rstrip(']')}]")
        assert not emit_c({"main": mlc.parse(text)["main"]}).backward, text


@I.ir_module
class Mod:
    @T.prim_func
    def mm(
        A: T.Buffer((30, 64), "float32"),
        B: T.Buffer((64, 50), "float32"),
        C: T.Buffer((30, 50), "float32"),
    ):
        for i, j, k in T.grid(30, 50, 64):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


MATMUL = """\
#include <stdint.h>

void mm(const float A[restrict 30][64], const float B[restrict 64][50], float C[restrict 30][50]) {
    for (int64_t i = 0; i < 30; ++i) {
        for (int64_t j = 0; j < 50; ++j) {
            for (int64_t k = 0; k < 64; ++k) {
                // block C
                if (k == 0) {
                    C[i][j] = 0.0f;
                }
                C[i][j] += A[i][k] * B[k][j];
            }
        }
    }
}
"""

SCHEDULED = """\
    #pragma omp parallel for
    for (int64_t i = 0; i < 30; ++i) {
        for (int64_t j_0 = 0; j_0 < 4; ++j_0) {
            for (int64_t j_1_init = 0; j_1_init < 16; ++j_1_init) {
                // block C_init
                if (j_0 * 16 + j_1_init < 50) {
                    C[i][j_0 * 16 + j_1_init] = 0.0f;
                }
            }
            for (int64_t k = 0; k < 64; ++k) {
                #pragma omp simd
                for (int64_t j_1 = 0; j_1 < 16; ++j_1) {
                    // block C_update
                    if (j_0 * 16 + j_1 < 50) {
                        C[i][j_0 * 16 + j_1] += A[i][k] * B[k][j_0 * 16 + j_1];
                    }
                }
            }
        }
    }
}
"""


def scheduled() -> IRModule:
    sch = mlc.Schedule(Mod, func="mm", check=False)
    sch = sch.split("j", factors=[None, 16]).reorder("i", "j_0", "k", "j_1")
    return sch.decompose_reduction("C", at="k").vectorize("j_1").parallel("i").mod


def test_a_matmul_as_text():
    assert emit_c(dict(Mod.functions)).text == MATMUL


def test_guards_vectors_and_threads_as_text():
    text = emit_c(dict(scheduled().functions)).text
    assert text.endswith(SCHEDULED), text


def test_the_text_is_there_for_native_libraries():
    assert build(Mod, cache=False).source("c") == MATMUL


def test_every_function_of_the_library_has_its_header():
    x, y = Buffer("x", (4,), "float64"), Buffer("y", (4,), "float64")
    func = PrimFunc((x, y), (), loop(i, 4, "serial", store(y, (i,), intrin("gelu", x[i]))))
    text = emit_c({"f": func}).text
    assert "erfc(" in text and text.startswith("#include <math.h>\n")


@needs_compiler
@pytest.mark.parametrize("make", [lambda: Mod, scheduled])
def test_a_matmul_runs(make):
    lib = build(make(), "c", cache=False)
    a, b = (np.random.default_rng(s).standard_normal((64, 64)) for s in (0, 1))
    a, b = a[:30].astype(np.float32), b[:, :50].astype(np.float32).copy()
    c = np.zeros((30, 50), np.float32)
    lib["mm"](a, b, c)
    np.testing.assert_allclose(c, a.astype(float) @ b, rtol=1e-5, atol=1e-5)
    assert lib.source() == lib.source("c") and lib.target.name == "c"
    assert lib.time("mm", a, b, c, repeat=2).median > 0
    refuses("E604", lambda: lib["mm"](b, a, c), "A")


WORDS = """int exp expf malloc double x.y 1st _Bool __a α int32_t NULL max_f32 status main restrict
    uint8_t INT32_MIN memcpy i f16""".split()  # noqa: SIM905


@needs_compiler
def test_names_that_c_has_taken():
    functions = {}
    for word in [*WORDS, "j0", "memset", "printf", "time"]:
        x, y = Buffer(word, (6,), "float32"), Buffer(word, (6,), "float32")
        own, var, other = Buffer(word, (3,), "float32", "local"), Var(word), Var(word)
        filled = loop(other, 3, "serial", store(own, (other,), y[other] + 1.0))
        value = Select(x[var] > own[var % 3], x[var], own[var % 3])
        used = loop(var, 6, "parallel", Block(word, (), None, None, store(y, (var,), value)))
        functions[word] = PrimFunc((x, y), (), Alloc(own, seq([filled, used])))
    kernels = compiled(functions)
    for name, func in functions.items():
        x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
        kernels[name](x, y)
        np.testing.assert_array_equal(y, np.maximum(x, 1), err_msg=emit_c({name: func}).text)


def test_a_comment_cannot_end():
    text = "x */ \\ \n int y; ??/"
    func = PrimFunc((), (), Block(text, (), None, None, seq([])))
    lines = emit_c({"f": func}).text.split("\n")
    assert lines[1:] == ["    // block x */ _ _ int y; _/", "}", ""]


@needs_compiler
def test_kinds_of_loops_and_storage():
    """The programs that the LLVM back-end is tried on, in one compile."""
    a, b = Buffer("a", (40,), "float32"), Buffer("b", (40, 3), "float32")
    total, big = Buffer("total", (1,), "float32"), Buffer("big", (20000,), "float32", "local")
    wide, long = Buffer("wide", (6, 20000), "float32"), Buffer("long", (6, 20000), "float32")
    scale, local = Buffer("scale", (), "float32"), Buffer("local", (9, 2), "float32", "local")
    empty, cube = Buffer("empty", (0, 3), "float32"), Buffer("cube", (5, 7, 9), "float32")
    flag, half = Buffer("flag", (40,), "bool"), Buffer("half", (40,), "float16")
    j1, k1 = Var("j1"), Var("k1")
    narrow = flag[i].astype("float16")
    filled = loop(j, 20000, "vectorized", store(big, (j,), wide[i, j] + 1.0))
    turned = loop(j1, 20000, "serial", store(long, (i, j1), big[19999 - j1]))
    inner = loop(
        j,
        7,
        "parallel",
        loop(k, 9, "vectorized", store(cube, (i, j, k), local[k, 1] * i.astype("float32"))),
    )
    staged = seq(
        [loop(k1, 9, "vectorized", store(local, (k1, 1), cube[i, 0, k1] * scale[()])), inner]
    )
    lanes = seq(
        [
            IfThenElse(a[i] > 0.0, store(b, (i, 0), 1.0), store(b, (i, 0), a[i])),
            IfThenElse(i < 38, store(b, (i, 1), a[i])),
            store(b, (i, 2), Select(i >= 2, a[i - 2], a[i] * 3.0)),
            loop(k, 4, "serial", IfThenElse(k < i, store(b, (i, 1), b[i, 1] + a[k % 40]))),
            For(m, i, "serial", store(b, (i, 2), b[i, 2] + a[m])),
        ]
    )
    functions = [
        PrimFunc((a,), (), loop(i, 39, "vectorized", store(a, (i + 1,), a[i] * 0.5))),
        PrimFunc((a, total), (), loop(i, 40, "parallel", store(total, (0,), total[0] + a[i]))),
        PrimFunc((empty, scale), (), loop(i, 0, "serial", store(empty, (i, 0), scale[()]))),
        PrimFunc((flag, half), (), loop(i, 40, "vectorized", store(flag, (i,), half[i] > 0.25))),
        PrimFunc((flag, half), (), loop(i, 40, "serial", store(half, (i,), narrow))),
        *(PrimFunc((a, b), (), loop(i, 40, kind, lanes)) for kind in ("vectorized", "parallel")),
        *(
            PrimFunc((wide, long), (), loop(i, 6, kind, Alloc(big, seq([filled, turned]))))
            for kind in ("serial", "parallel", "vectorized", "unrolled")
        ),
        *(
            PrimFunc((cube, scale), (), loop(i, 5, kind, Alloc(local, staged)))
            for kind in ("serial", "parallel", "unrolled", "vectorized")
        ),
        *(tile(rows, width) for rows, width in ((1, 1), (4, 16), (3, 7), (8, 32))),
        *(
            PrimFunc((total,), (), loop(i, extent, kind, store(total, (i,), 3.0)))
            for extent in (0, 1)
            for kind in ("serial", "unrolled", "vectorized", "parallel")
        ),
    ]
    agree(functions)


@needs_compiler
def test_an_extent_is_read_once():
    n, x = Buffer("n", (1,), "int64"), Buffer("x", (9,), "float32")
    body = seq([store(x, (i,), 1.0), store(n, (0,), index(9))])
    func = PrimFunc((n, x), (), For(i, n[0], "serial", body))
    count, ones = np.array([4]), np.zeros(9, np.float32)
    compiled({"f": func})["f"](count, ones)
    assert ones.sum() == 4 and count[0] == 9


def test_only_what_is_proven_is_promised():
    a = Buffer("a", (40,), "float32")
    for kind in ("vectorized", "parallel"):
        carried = PrimFunc((a,), (), loop(i, 39, kind, store(a, (i + 1,), a[i] * 0.5)))
        assert "#pragma" not in emit_c({"f": carried}).text
        nest = loop(i, 4, kind, loop(j, 10, kind, store(a, (i * 10 + j,), 1.0)))
        assert emit_c({"f": PrimFunc((a,), (), nest)}).text.count("#pragma omp") == 1


@needs_compiler
@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_no_memory(kind):
    """More than any machine has: an error, not a crash, and nothing is left allocated."""
    big, x = Buffer("big", (1 << 52,), "float32", "local"), Buffer("x", (8,), "float32")
    body = Alloc(big, seq([store(big, (i,), x[i]), store(x, (i,), big[i] + 1.0)]))
    kernel = compiled({"f": PrimFunc((x,), (), loop(i, 8, kind, body))})["f"]
    with pytest.raises(MemoryError):
        kernel(np.zeros(8, np.float32))


@needs_compiler
def test_the_number_of_threads(monkeypatch):
    lib = build(scheduled(), "c", cache=False)
    a, b, c = np.ones((30, 64), "f"), np.ones((64, 50), "f"), np.zeros((30, 50), "f")
    before = num_threads()
    try:
        for count in (1, 2, 5):
            parallel._threads.value = count  # also more than there are cores
            c[:] = 0
            lib["mm"](a, b, c)
            np.testing.assert_array_equal(c, 64)
    finally:
        set_num_threads(before)


def test_other_users_of_openmp_keep_their_number_of_threads():
    said: list[object] = []
    openmp = SimpleNamespace(omp_get_max_threads=lambda: 7, omp_set_num_threads=said.append)
    loaded = SimpleNamespace(library=openmp)
    build_c._threaded(lambda *addresses: said.append(addresses), loaded)(1, 2)
    assert said == [num_threads(), (1, 2), 7]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@needs_compiler
def test_a_child_of_a_fork_goes_on():
    lib = build(scheduled(), "c", cache=False)
    a, b, c = np.ones((30, 64), "f"), np.ones((64, 50), "f"), np.zeros((30, 50), "f")
    lib["mm"](a, b, c)
    child = multiprocessing.get_context("fork").Process(target=lib["mm"], args=(a, b, c))
    child.start()
    child.join(60)
    assert child.exitcode == 0


@needs_compiler
def test_graph_functions():
    mod = mlc.parse(GRAPH)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    (expected,) = [mlc.interpret(mod, "main", x)]
    assert_close(build(mod, "c", cache=False)["main"](x), expected)
    assert "void " in build(mod, "c", cache=False).source()


GRAPH = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        with R.dataflow():
            a: R.Tensor((3, 4), "float32") = R.exp(x)
            b: R.Tensor((3, 4), "float32") = R.add(a, x)
            R.output(b)
        return b
"""


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path


def test_without_a_compiler_there_is_the_text(no_compiler, monkeypatch):
    lib = build(Mod, "c")
    assert lib.source("c") == MATMUL
    a, b, c = np.ones((30, 64), "f"), np.ones((64, 50), "f"), np.zeros((30, 50), "f")
    refuses("E506", lambda: lib["mm"](a, b, c), "needs a C compiler", "apt-get install gcc")
    for chosen in ("nocc -m64", "no'cc"):
        monkeypatch.setenv("CC", chosen)
        refuses("E506", lambda: build(Mod, "c")["mm"](a, b, c), f"$CC names {chosen}")


@pytest.mark.skipif(os.name != "posix", reason="writes a shell script")
@pytest.mark.parametrize("script", ["exit 3", "echo 'program.c:1: no' >&2; exit 1", "exit 0"])
def test_a_compiler_that_fails(no_compiler, script):
    broken = no_compiler / "cc"
    broken.write_text(f"#!/bin/sh\n{script}\n")
    broken.chmod(stat.S_IRWXU)
    error = refuses("E507", lambda: build(Mod, "c", cache=False), "compiler cc failed")
    assert ("program.c:1: no" in str(error)) is ("program" in script)


def test_checked_accesses_are_refused():
    refuses("E508", lambda: build(Mod, "c", bounds="check"), "llvm")


@needs_compiler
def test_the_second_build_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path / "cache"))
    compiles = []
    real = c_compiler._compile
    monkeypatch.setattr(
        c_compiler, "_compile", lambda *args: compiles.append(args[1]) or real(*args)
    )
    build(Mod, "c")
    count = compiles.count(MATMUL)
    again = build(Mod, "c")
    assert (count, compiles.count(MATMUL)) == (1, 1)
    a, b, c = np.ones((30, 64), "f"), np.ones((64, 50), "f"), np.zeros((30, 50), "f")
    again["mm"](a, b, c)
    np.testing.assert_array_equal(c, 64)
    build(Mod, Target("c", "x86-64", "+sse2"))
    build(Mod, "c", cache=False)
    assert compiles.count(MATMUL) == 3


@needs_compiler
def test_code_that_cannot_be_loaded_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(c_compiler, "load_entry", lambda key: ({}, b"no shared object"))
    a, b, c = np.ones((30, 64), "f"), np.ones((64, 50), "f"), np.zeros((30, 50), "f")
    build(Mod, "c")["mm"](a, b, c)
    np.testing.assert_array_equal(c, 64)


@needs_compiler
def test_loaded_code_is_unloaded(tmp_path):
    def mapped() -> int:
        gc.collect()
        with open("/proc/self/maps") as maps:
            return len(re.findall("minimlc-.*deleted", maps.read()))

    if not os.path.exists("/proc/self/maps"):
        pytest.skip("no /proc/self/maps")
    before = mapped()
    lib = build(Mod, "c", cache=False)
    assert mapped() > before
    del lib
    assert mapped() == before


def test_a_host_is_compiled_for_by_name():
    assert c_compiler.march_of(Target.host("c")) == "-march=native"
    assert c_compiler.march_of(Target("c", "x86-64-v3", "+avx2")) == "-march=x86-64-v3"
