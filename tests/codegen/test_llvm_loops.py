"""Loops of every kind, lengths and strides that do not fit, storage of every kind."""

import re

import numpy as np
import pytest

from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.arguments import Parameter, written
from minimlc.loops.ir.nodes import (
    Alloc,
    Buffer,
    For,
    IfThenElse,
    PrimFunc,
    Select,
    Stmt,
    Var,
    const,
    index,
    seq,
    store,
    substitute,
)
from minimlc.loops.llvm import stmt
from minimlc.loops.llvm.emit import emit_llvm
from minimlc.loops.llvm.machine import Machine
from minimlc.loops.values.dtypes import DTYPES
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import replace
from minimlc.loops.values.target import Target
from minimlc.script import parse
from minimlc.services.build import build
from minimlc.services.native.native import compile_native
from minimlc.services.runtime.cache import Entries
from minimlc.services.runtime.executable import Kernel
from tests.codegen.machines import MACHINES, WIDE, X86
from tests.guard_pages import guarded, isolated, masks_hold, needs_guard_pages
from tests.helpers import assert_close, copies, random_args

pytestmark = pytest.mark.many

LENGTHS = [1, 3, 7, 16, 17, 33, 150]


def compiled(func: PrimFunc, target: Target) -> Kernel:
    """The kernel as the code generator makes it, also of programs that `verify` refuses."""
    native = compile_native({"f": func}, target, ["mlc.f"], entries=Entries(folder=False))
    parameters = [Parameter(p.name, p.shape, p.dtype, p in written(func)) for p in func.params]
    return Kernel("f", parameters, native.addresses["mlc.f"], None, native.library)


def agree(func: PrimFunc, target="llvm", exact=False, args=None) -> None:
    """Compiled code leaves the same in every argument as the interpreter does."""
    mod = IRModule.of({"f": func})
    args = args or random_args(func, np.random.default_rng(0))
    again = copies(args)
    interpret(mod, "f", *args)
    compiled(func, Target.of(target))(*again)
    assert_close(tuple(args), tuple(again), exact)


def loop(var: Var, extent: int, kind, body: Stmt) -> For:
    return For(var, index(extent), kind, body)


i, j, k, m = Var("i"), Var("j"), Var("k"), Var("m")


@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
@pytest.mark.parametrize("length", LENGTHS)
def test_vectorized_lengths_and_strides(length, target):
    a, b = Buffer("a", (3 * length + 2,), "float32"), Buffer("b", (2 * length + 1, 4), "float32")
    body = seq(
        [
            store(b, (i, 0), a[i] + a[i + 1]),
            store(b, (i, 1), a[3 * i + 1] * 2.0),
            store(b, (2 * i + 1, 2), a[(length - 1) - i] - a[0]),
            store(b, (i, 3), a[(i * 7) % length]),
        ]
    )
    agree(PrimFunc((a, b), (), loop(i, length, "vectorized", body)), target)


@needs_guard_pages
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("length", [1, 7, 8, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "bool"])
def test_every_second_element_reads_none_outside(dtype, length, at_end):
    a, b = Buffer("a", (2 * length - 1,), dtype), Buffer("b", (length,), dtype)
    func = PrimFunc((a, b), (), loop(i, length, "vectorized", store(b, (i,), a[2 * i])))
    agree(func, exact=True)
    native, values = compiled(func, Target.of("llvm")), guarded(a.shape, dtype, at_end)
    assert not isolated(lambda: native(values, np.empty(length, values.dtype)))


def columns(rows: int, width: int, dtype: str) -> PrimFunc:
    """Rows that are copied into local storage, whose columns are written, lane by lane;
    the last of the columns twice, from one place further on.
    """
    x, y = Buffer("x", (rows, width), dtype), Buffer("y", (width + 1, rows), dtype)
    own, c = Buffer("own", (rows, width), dtype, "local"), Var("c")
    copy = loop(i, rows, "serial", loop(j, width, "vectorized", store(own, (i, j), x[i, j])))
    turned = loop(k, rows, "vectorized", store(y, (c, k), own[k, c]))
    again = loop(m, rows - 1, "vectorized", store(y, (index(width), m), own[m + 1, 0]))
    last = store(y, (index(width), index(rows - 1)), x[0, 0])
    body = seq([copy, loop(c, width, "unrolled", turned), again, last])
    return PrimFunc((x, y), (), Alloc(own, body))


@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (16, 16), (8, 4), (8, 16), (5, 8)], ids=str)
def test_columns_of_one_s_own_storage(shape, dtype, target):
    agree(columns(*shape, dtype), target, exact=True)


def test_a_square_turns_by_whole_rows():
    """Each column of eight in three steps; the first ones are other columns', too."""
    text = emit_llvm({"f": columns(8, 8, "float32")}, WIDE).text
    assert text.count("shufflevector <8 x float>") == 8 * (4 + 2 + 1)
    narrow = emit_llvm({"f": columns(8, 4, "float32")}, WIDE).text
    assert "shufflevector <8 x float>" not in narrow and "insertelement <8 x float>" in narrow


def sums(length: int, dtype: str) -> PrimFunc:
    """Two rows that are added up in storage of their own, with all that lanes may read."""
    x = Buffer("x", (2, 2 * length - 1), dtype)
    factors, y = Buffer("factors", (2,), dtype), Buffer("y", (2, length), dtype)
    acc = Buffer("acc", (2, length), dtype, "local")

    def row(number, output, value):
        at = Var("at")
        return loop(at, length, "vectorized", store(output, (number, at), value(number, at)))

    steps = [row(n, acc, lambda n, i: x[n, i] * factors[n]) for n in range(2)]
    steps += [row(n, acc, lambda n, i: acc[n, i] + x[n, 2 * i] - acc[1 - n, i]) for n in (1, 0)]
    copies = [row(n, y, lambda n, i: acc[n, i]) for n in range(2)]
    return PrimFunc((x, factors, y), (), Alloc(acc, seq([*steps, *copies])))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [2, 3, 5, 7, 9, 11, 14, 15, 17, 28, 31, 57, 127])
def test_the_last_lanes_may_fill_part_of_a_vector(length, dtype):
    func = sums(length, dtype)
    for target in MACHINES:
        agree(func, target)
    machine = Machine(WIDE.cpu, WIDE.features, WIDE.vector_bits)
    text = emit_llvm({"f": func}, machine).text
    left = length % (512 // DTYPES[dtype].bits)
    assert ("llvm.masked" in text) == (left & (left - 1) > 0)


def test_copies_of_a_buffer_that_are_on_the_heap_have_no_room_behind():
    """Of nine copies of 32 KiB, the frame holds seven; all end in a vector of nine lanes."""
    x, y = Buffer("x", (9, 8185), "float32"), Buffer("y", (9, 8185), "float32")
    acc = Buffer("acc", (8185,), "float32")
    fill = loop(i, 8185, "vectorized", store(acc, (i,), x[j, i] * 2.0))
    use = loop(k, 8185, "vectorized", store(y, (j, k), acc[8184 - k] + acc[k]))
    func = PrimFunc((x, y), (), loop(j, 9, "unrolled", Alloc(acc, seq([fill, use]))))
    agree(func)
    text = emit_llvm({"f": func}, Machine(WIDE.cpu, WIDE.features, WIDE.vector_bits)).text
    on_heap = text.count("call noalias ptr @malloc")
    assert on_heap == 2 == text.count("call void @llvm.masked.store")


def test_sums_that_a_loop_carries_in_memory_are_not_masked():
    x, y = Buffer("x", (20, 14), "float32"), Buffer("y", (14,), "float32")
    func = PrimFunc(
        (x, y), (), loop(k, 20, "serial", loop(i, 14, "vectorized", store(y, (i,), y[i] + x[k, i])))
    )
    agree(func)
    machine = Machine(WIDE.cpu, WIDE.features, WIDE.vector_bits)
    assert "llvm.masked" not in emit_llvm({"f": func}, machine).text


@needs_guard_pages
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("length", [3, 7, 14, 31])
def test_lanes_that_are_not_filled_read_and_write_nothing(length, at_end):
    func = sums(length, "float32")
    native = compiled(func, Target.host())
    x, factors, y = (guarded(p.shape, "float32", at_end) for p in func.params)
    assert not masks_hold() or not isolated(lambda: native(x, factors, y))


@needs_guard_pages
@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("length", [1, 8, 13, 62])
def test_every_second_element_under_a_mask(length, dtype, target):
    a, b = Buffer("a", (length,), dtype), Buffer("b", (length // 2 + 3,), dtype)
    zero = const(0, dtype)
    inside = Select(2 * i < 3, zero, Select(2 * i - 3 >= length, zero, a[2 * i - 3]))
    func = PrimFunc((a, b), (), loop(i, length // 2 + 3, "vectorized", store(b, (i,), inside)))
    agree(func, target, exact=True)
    native = compiled(func, target)
    for at_end in (True, False):
        values, results = (guarded(buffer.shape, dtype, at_end) for buffer in (a, b))
        assert not masks_hold() or not isolated(lambda x=values, y=results: native(x, y))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "bool", "uint8"])
def test_vectorized_dtypes(dtype):
    a, b = Buffer("a", (4, 45), dtype), Buffer("b", (4, 45), dtype)
    value = Select(a[i, j] < a[i, 44 - j], a[i, j], a[i, 44 - j])
    body = loop(i, 4, "serial", loop(j, 45, "vectorized", store(b, (i, j), value)))
    for target in MACHINES:
        agree(PrimFunc((a, b), (), body), target, exact=True)


@pytest.mark.parametrize("length", LENGTHS)
def test_lanes_that_disagree(length):
    a, b = Buffer("a", (length,), "float32"), Buffer("b", (length, 3), "float32")
    body = seq(
        [
            IfThenElse(a[i] > 0.0, store(b, (i, 0), 1.0), store(b, (i, 0), a[i])),
            IfThenElse(i < index(length - 2), store(b, (i, 1), a[i])),
            store(b, (i, 2), Select(i >= 2, a[i - 2], a[i] * 3.0)),
            loop(k, 4, "serial", IfThenElse(k < i, store(b, (i, 1), b[i, 1] + a[k % length]))),
            For(m, i, "serial", store(b, (i, 2), b[i, 2] + a[m])),
        ]
    )
    agree(PrimFunc((a, b), (), loop(i, length, "vectorized", body)))


@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
@pytest.mark.parametrize("length", [1, 9, 16, 26, 58])
def test_what_lanes_are_known_to_do_is_not_asked(length, target):
    """An edge of an image: where a short row has code for each piece of it."""
    a, b = Buffer("a", (length,), "float32"), Buffer("b", (length + 3, 3), "float32")
    flipped = Select(length >= i, a[length - i], const(7, "float32"))
    edges = Select(i < 2, const(-1, "float32"), Select(i >= length + 2, a[0], a[i - 2]))
    odd = Select((i != 5) & ~(i * 2 > length), a[i % length], -a[0])
    values = Select(i < 1, const(2, "float32"), flipped), edges, odd
    body = seq(store(b, (i, at), value) for at, value in enumerate(values))
    func = PrimFunc((a, b), (), loop(i, length + 3, "vectorized", body))
    agree(func, target, exact=True)
    text = build(replace(func, body=loop(i, length + 3, "vectorized", body.stmts[1]))).source()
    assert "vector.reduce" not in text
    assert text.count("masked.load") <= 3


@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
@pytest.mark.parametrize("extent", [index(4), i % 3])
def test_lanes_that_disagree_around_loops(extent, target):
    a, b = Buffer("a", (4, 24), "float32"), Buffer("b", (4, 24), "float32")
    inner = For(j, extent, "serial", store(b, (j, i), a[j, i]))
    body = IfThenElse(a[0, i] < 0.0, inner, store(b, (0, i), 5.0))
    agree(PrimFunc((a, b), (), loop(i, 24, "vectorized", body)), target)
    body = IfThenElse(a[0, i] < 0.0, seq([inner, store(b, (0, i), a[1, i])]))
    agree(PrimFunc((a, b), (), loop(i, 24, "vectorized", body)), target)


def test_storage_in_a_branch_of_some_lanes():
    a, b = Buffer("a", (24,), "float32"), Buffer("b", (24,), "float32")
    acc = Buffer("acc", (3,), "float32", "local")
    fill = loop(k, 3, "serial", store(acc, (k,), a[i] + acc[(k + 2) % 3]))
    whole = seq([loop(m, 3, "serial", store(acc, (m,), 1.0)), fill, store(b, (i,), acc[0])])
    agree(
        PrimFunc((a, b), (), loop(i, 24, "vectorized", IfThenElse(a[i] > 0.0, Alloc(acc, whole))))
    )


@pytest.mark.parametrize("kind", ["serial", "unrolled", "vectorized", "parallel"])
@pytest.mark.parametrize("count", [-100, -64, -3, 0, 3, 37])
def test_lengths_that_are_read_from_memory(count, kind):
    n, b = Buffer("n", (1,), "int64"), Buffer("b", (164,), "float32")
    func = PrimFunc((n, b), (), For(i, n[0], kind, store(b, (i + 100,), 7.0)))
    agree(func, args=[np.array([count]), np.zeros(164, np.float32)])


@pytest.mark.parametrize("step", [1, 2])
def test_choices_in_choices_stay_short(step):
    x, y, b = (Buffer(name, (32,), "float32") for name in "xyb")

    def nested(depth: int) -> PrimFunc:
        value = x[i * step]
        for number in range(depth):
            value = Select(x[i] < 0.1 * number - 1.0, y[i * step], value)
        return PrimFunc((x, y, b), (), loop(i, 16, "vectorized", store(b, (i,), value)))

    agree(nested(20))
    few, many = (len(build(nested(n), cache=False).source("llvm")) for n in (16, 32))
    assert many < 3 * few


def test_what_decides_whether_lanes_can_be_masked_writes_nothing():
    a, b = Buffer("a", (40,), "float32"), Buffer("b", (40,), "float32")
    value = Select(a[i] > 0.0, a[(i + 7) * 2 // 2], a[i + 1])
    text = build(PrimFunc((a, b), (), loop(i, 16, "vectorized", store(b, (i,), value)))).source()
    named = re.findall(r"^  (%\S+) = (?!call|phi)", text, re.MULTILINE)
    assert named and not [name for name in named if len(re.findall(rf"{name}\b", text)) == 1]


def test_a_vectorized_loop_that_depends_on_itself_runs_in_order():
    a = Buffer("a", (40,), "float32")
    agree(PrimFunc((a,), (), loop(i, 39, "vectorized", store(a, (i + 1,), a[i] * 0.5))))
    total = Buffer("total", (1,), "float32")
    body = loop(i, 40, "parallel", store(total, (0,), total[0] + a[i]))
    agree(PrimFunc((a, total), (), body))


@pytest.mark.parametrize("kind", ["parallel", "vectorized"])
def test_fused_loops_run_side_by_side(kind):
    a, b = Buffer("a", (6, 8), "float32"), Buffer("b", (6, 8), "float32")
    body = store(b, (i // 8, i % 8), a[i // 8, i % 8] + 1.0)
    func = PrimFunc((a, b), (), loop(i, 48, kind, body))
    agree(func)
    text = build(func, cache=False).source("llvm")
    assert ("@minimlc_parallel(" if kind == "parallel" else "x float>") in text


def tile(rows: int, width: int, target="llvm") -> PrimFunc:
    """A register tile: rows unrolled, columns vectorized, the sum in a local buffer."""
    a, b = Buffer("a", (rows, 50), "float32"), Buffer("b", (50, width), "float32")
    c, acc = Buffer("c", (rows, width), "float32"), Buffer("acc", (rows, width), "float32", "local")

    def each(var_i: Var, var_j: Var, body: Stmt) -> Stmt:
        return loop(var_i, rows, "unrolled", loop(var_j, width, "vectorized", body))

    names = [(Var(f"i{n}"), Var(f"j{n}")) for n in range(3)]
    (i0, j0), (i1, j1), (i2, j2) = names
    body = seq(
        [
            each(i0, j0, store(acc, (i0, j0), 0.0)),
            loop(
                k,
                50,
                "serial",
                each(i1, j1, store(acc, (i1, j1), acc[i1, j1] + a[i1, k] * b[k, j1])),
            ),
            each(i2, j2, store(c, (i2, j2), acc[i2, j2])),
        ]
    )
    return PrimFunc((a, b, c), (acc,), body)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (4, 16), (3, 7), (6, 33), (8, 32)])
def test_register_tiles(rows, width):
    for target in MACHINES:
        agree(tile(rows, width), target)


@pytest.mark.skipif(not X86, reason="reads x86 assembly")
def test_a_register_tile_lives_in_registers():
    listing = build(tile(8, 32), WIDE, cache=False).source("asm")
    multiply_adds = [line for line in listing.split("\n") if "vfmadd" in line]
    assert multiply_adds
    assert all("zmm" in line for line in multiply_adds)
    assert "rsp" not in "".join(multiply_adds)


def test_buffers_private_to_a_lane():
    a, b = Buffer("a", (5, 21), "float32"), Buffer("b", (21,), "float32")
    acc = Buffer("acc", (2,), "float32", "local")
    body = Alloc(
        acc,
        seq(
            [
                store(acc, (0,), 0.0),
                loop(k, 5, "serial", store(acc, (0,), acc[0] + a[k, j])),
                IfThenElse(acc[0] > 0.0, store(acc, (0,), acc[0] * 2.0)),
                store(b, (j,), acc[0]),
            ]
        ),
    )
    agree(PrimFunc((a, b), (), loop(j, 21, "vectorized", body)))


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_large_buffers_go_to_the_heap(kind):
    a, b = Buffer("a", (6, 20000), "float32"), Buffer("b", (6, 20000), "float32")
    big, j1 = Buffer("big", (20000,), "float32", "local"), Var("j1")
    body = Alloc(
        big,
        seq(
            [
                loop(j, 20000, "vectorized", store(big, (j,), a[i, j] + 1.0)),
                loop(j1, 20000, "serial", store(b, (i, j1), big[19999 - j1])),
            ]
        ),
    )
    agree(PrimFunc((a, b), (), loop(i, 6, kind, body)))


def test_parallel_loops_nest_and_use_what_is_outside():
    a, b = Buffer("a", (5, 7, 9), "float32"), Buffer("b", (5, 7, 9), "float32")
    scale, local = Buffer("scale", (), "float32"), Buffer("local", (9,), "float32", "local")
    k1 = Var("k1")
    inner = loop(
        j,
        7,
        "parallel",
        loop(k, 9, "vectorized", store(b, (i, j, k), local[k] * i.astype("float32"))),
    )
    body = seq([loop(k1, 9, "vectorized", store(local, (k1,), a[i, 0, k1] * scale[()])), inner])
    agree(PrimFunc((a, scale, b), (), loop(i, 5, "serial", Alloc(local, body))))
    agree(PrimFunc((a, scale, b), (), loop(i, 5, "parallel", Alloc(local, body))))


def test_a_loop_that_lowering_copied():
    a, local = Buffer("a", (5, 9), "float32"), Buffer("local", (9,), "float32", "local")
    update = store(a, (i, j), a[i, j] + local[j])
    inner = seq((loop(j, 9, "serial", store(local, (j,), 1.5)), loop(j, 9, "serial", update)))
    once = loop(i, 5, "parallel", Alloc(local, inner))
    agree(PrimFunc((a,), (), seq((inner_of(once), once))))


def inner_of(item: For) -> Stmt:
    """The loop's body for the first row, sharing variables and buffers with the loop itself."""
    return substitute(item.body, {item.var: index(0)})


@pytest.mark.parametrize("kind", ["serial", "unrolled", "vectorized", "parallel"])
@pytest.mark.parametrize("extent", [0, 1])
def test_short_loops(kind, extent):
    a = Buffer("a", (2,), "float32")
    agree(PrimFunc((a,), (), loop(i, extent, kind, store(a, (i,), 3.0))))


def test_empty_and_zero_dimensional_buffers():
    a, b = Buffer("a", (0, 3), "float32"), Buffer("b", (), "float32")
    agree(
        PrimFunc(
            (a, b), (), seq([store(b, (), 2.0), loop(i, 0, "serial", store(a, (i, 0), b[()]))])
        )
    )


def test_what_the_optimizer_breaks_is_compiled_all_the_same():
    """LLVM 22 turns these reversed stores and loads into a use before its definition."""
    mod = parse("""@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    X = T.alloc_buffer((8,), "int32")
    for i in range(4):
        with T.block("L"):
            vi = T.axis.spatial(4, i)
            X[7 - vi] = A[vi] + T.int32(1)
    for i1 in range(4):
        with T.block("H"):
            vi = T.axis.spatial(4, i1)
            X[3 - vi] = A[vi + 4] * T.int32(2)
    for j in range(8):
        with T.block("C"):
            vj = T.axis.spatial(8, j)
            C[vj] = X[vj] + X[7 - vj]
""")
    func = mod["main"]
    assert isinstance(func, PrimFunc)
    agree(func, exact=True)


def test_unrolled_loops_ask_once_what_a_loop_inside_of_them_may_do(monkeypatch):
    a, b = Buffer("a", (8, 256), "float32"), Buffer("b", (8, 256), "float32")
    lanes = loop(j, 256, "vectorized", store(b, (i, j), a[i, (j // 4) * 4 + j % 4] * 2.0))
    func = PrimFunc((a, b), (), loop(i, 8, "unrolled", lanes))
    asked = []
    real = stmt.carried_dependence
    monkeypatch.setattr(
        stmt, "carried_dependence", lambda item, *rest: asked.append(item) or real(item, *rest)
    )
    agree(func, exact=True)
    assert len(asked) == 1
