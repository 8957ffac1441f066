"""Programs as in a course's chapter on schedules: handles, steps in place, numbers as before."""

import numpy as np
import pytest

import minimlc as mlc
import minimlc.frontends.tvm as tvm
from minimlc.frontends.tvm import te
from minimlc.frontends.tvm.script import tir as T

RNG = np.random.default_rng(1)


def rand(*shape):
    return RNG.standard_normal(shape).astype("float32")


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((32, 32), dtype="float32")
        for i, j, k in T.grid(32, 32, 32):
            with T.block("Y"):
                vi = T.axis.spatial(32, i)
                vj = T.axis.spatial(32, j)
                vk = T.axis.reduce(32, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 32):
            with T.block("C"):
                vi = T.axis.spatial(32, i)
                vj = T.axis.spatial(32, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def check(sch):
    """A schedule of `mm_relu` computes what it did."""
    a, b = rand(32, 32), rand(32, 32)
    c, first = tvm.nd.empty((32, 32)), np.empty((32, 32), "float32")
    tvm.build(sch.mod, target="llvm")["mm_relu"](tvm.nd.array(a), tvm.nd.array(b), c)
    mlc.interpret(sch.mod, "mm_relu", a, b, first)
    for result in (c.numpy(), first):
        tvm.testing.assert_allclose(result, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


def test_split_reorder_and_move():
    sch = tvm.tir.Schedule(MyModule)
    block_Y = sch.get_block("Y", func_name="mm_relu")
    i, j, k = sch.get_loops(block_Y)
    j0, j1 = sch.split(j, factors=[None, 4])
    sch.reorder(j0, k, j1)
    block_C = sch.get_block("C", "mm_relu")
    sch.reverse_compute_at(block_C, j0)
    sch.decompose_reduction(block_Y, k)
    assert sch.get_loops(sch.get_block("Y_update")) == ["i", "j_0", "k", "j_1"]
    assert sch.get_loops(block_Y) == ["i", "j_0", "k", "j_1"], "a handle follows its block"
    sch.trace.show()
    sch.show()
    assert [name for name, _ in sch.trace] == [
        *("split", "reorder", "reverse_compute_at", "decompose_reduction")
    ]
    check(sch)


def transformed(mod, jfactor):
    sch = tvm.tir.Schedule(mod)
    block_Y = sch.get_block("Y", func_name="mm_relu")
    i, j, k = sch.get_loops(block_Y)
    j0, j1 = sch.split(j, factors=[None, jfactor])
    sch.reorder(j0, k, j1)
    block_C = sch.get_block("C", "mm_relu")
    sch.reverse_compute_at(block_C, j0)
    return sch


@pytest.mark.parametrize("jfactor", [1, 2, 8, 32])
def test_a_transform_as_a_function(jfactor):
    before = MyModule.script()
    check(transformed(MyModule, jfactor=jfactor))
    assert MyModule.script() == before, "the module itself stays"


def test_parallel_vectorize_unroll():
    sch = tvm.tir.Schedule(MyModule)
    block = sch.get_block("Y")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [8, None])
    j0, j1 = sch.split(loop=j, factors=[None, 8], preserve_unit_iters=True)
    k0, k1 = sch.split(k, factors=[None, 4])
    sch.reorder(i0, j0, k0, i1, k1, j1)
    init = sch.decompose_reduction(block, k0)
    assert init == "Y_init"
    sch.parallel(i0)
    sch.vectorize(j1)
    sch.unroll(k1)
    sch.annotate(i1, "pragma_note", 1)
    sch.unannotate(i1, ann_key="pragma_note")
    check(sch)


def test_cache_write_and_fuse():
    sch = tvm.tir.Schedule(MyModule)
    block_C = sch.get_block("C")
    copy = sch.cache_write(block_C, 0, "local")
    i, j = sch.get_loops(block_C)
    fused = sch.fuse(i, j)
    outer, inner = sch.split(fused, factors=[None, 32])
    sch.reverse_compute_at(copy, outer)
    assert sch.get_child_blocks(outer) == ["C", "C_local"]
    assert sch.get_producers(block_C) == ["Y"]
    assert sch.get_consumers(sch.get_block("Y")) == ["C"]
    check(sch)


def test_buffers_by_number():
    sch = tvm.tir.Schedule(MyModule)
    block_Y = sch.get_block("Y")
    first = sch.cache_read(block_Y, 0, "local")
    second = sch.cache_read(block_Y, read_buffer_index=1, storage_scope="local")
    assert (first, second) == ("A_local", "B_local")
    i, j, k = sch.get_loops(block_Y)
    sch.compute_at(first, i)
    sch.set_scope(block_Y, 0, "local")
    sch.transform_layout(block_Y, ("write", 0), lambda i, j: (j, i))
    sch.transform_layout(second, "B_local", tvm.tir.IndexMap.from_func(lambda i, j: (j, i)))
    check(sch)
    with pytest.raises(tvm.tir.ScheduleError, match="no buffer 5 to read; it has A_local"):
        sch.cache_read(block_Y, 5, "local")


def test_copies_in_another_order():
    sch = tvm.tir.Schedule(MyModule)
    block_Y = sch.get_block("Y")
    turned = sch.reindex_cache_read(block_Y, 1, "local", lambda vi, vj, vk: (vj, vk))
    assert turned == "B_local"
    result = sch.reindex_cache_write(sch.get_block("C"), 0, "local", lambda vi, vj: (vj, vi))
    assert result == "C_local"
    sch.annotate(turned, "note", {"kind": "copy", "depth": 2})
    check(sch)


def test_rfactor_and_the_root():
    A = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    sch = tvm.tir.Schedule(tvm.IRModule.from_expr(te.create_prim_func([A, B])))
    i, k = sch.get_loops(sch.get_block("B"))
    k0, k1 = sch.split(k, factors=[None, 4])
    rf = sch.rfactor(k1, factor_axis=0)
    assert sch.get_child_blocks(sch.get_block("root")) == [rf, "B"]
    assert sch.get_output_blocks("root") == ["B"]
    assert sch.get(rf).name == "B_rf"
    a, b = rand(8, 64), tvm.nd.empty((8,))
    tvm.build(sch.mod)["main"](a, b)
    tvm.testing.assert_allclose(b.numpy(), a.sum(1), rtol=1e-4, atol=1e-5)


def test_batch_product_as_in_the_exercise():
    A = te.placeholder((4, 16, 16), name="A")
    B = te.placeholder((4, 16, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    Y = te.compute((4, 16, 16), lambda n, i, j: te.sum(A[n, i, k] * B[n, k, j], axis=k), name="Y")
    C = te.compute((4, 16, 16), lambda n, i, j: te.max(Y[n, i, j], 0.0), name="C")
    func = te.create_prim_func([A, B, C]).with_attr("global_symbol", "bmm_relu")
    sch = tvm.tir.Schedule(tvm.IRModule({"bmm_relu": func}))
    Y = sch.get_block("Y", func_name="bmm_relu")
    C = sch.get_block("C", func_name="bmm_relu")
    n, i, j, k = sch.get_loops(Y)
    j0, j1 = sch.split(j, factors=[None, 8])
    k0, k1 = sch.split(k, factors=[None, 4])
    sch.reorder(j0, k0, k1, j1)
    sch.parallel(n)
    sch.reverse_compute_at(C, j0)
    init = sch.decompose_reduction(Y, k0)
    sch.vectorize(sch.get_loops(init)[-1])
    sch.vectorize(sch.get_loops(C)[-1])
    sch.unroll(k1)
    a, b, c = rand(4, 16, 16), rand(4, 16, 16), tvm.nd.empty((4, 16, 16))
    tvm.build(sch.mod, target="llvm")["bmm_relu"](tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


def test_several_functions_of_one_module():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: A[i] * 3.0, name="C")
    mod = tvm.IRModule({"one": te.create_prim_func([A, B]), "two": te.create_prim_func([A, C])})
    sch = tvm.tir.Schedule(mod)
    (i,) = sch.get_loops(sch.get_block("B", func_name="one"))
    sch.work_on("two")
    (j,) = sch.get_loops(sch.get_block("C"))
    sch.split(j, factors=[None, 4])
    sch.vectorize(i)
    sch.split(sch.get_loops(sch.get_block("C"))[0], factors=[None, 2])
    assert [name for name, _ in sch.trace] == ["split", "split"]
    other = sch.copy()
    other.unroll(other.get_loops(other.get_block("C"))[-1])
    assert "unroll" not in sch.mod.script()
    assert "unroll" in other.mod.script()
    a, b, c = rand(8), tvm.nd.empty((8,)), tvm.nd.empty((8,))
    lib = tvm.build(other.mod)
    lib["one"](a, b)
    lib["two"](a, c)
    assert np.array_equal(b.numpy(), a + 1)
    assert np.array_equal(c.numpy(), a * 3)


def test_an_illegal_step_is_refused_and_changes_nothing():
    sch = tvm.tir.Schedule(MyModule)
    before = sch.mod
    with pytest.raises(tvm.TVMError, match="E104"):
        sch.parallel(sch.get_loops(sch.get_block("Y"))[2])
    with pytest.raises(tvm.tir.ScheduleError, match="there is no block"):
        sch.get_block("Z")
    assert sch.mod is before


def schedule_of(n):
    A, B = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")
    return te.create_schedule(C.op), (A, B, C)


def test_a_handle_of_another_kind_or_of_what_is_gone_is_refused():
    sch = tvm.tir.Schedule(MyModule)
    block = sch.get_block("Y", func_name="mm_relu")
    i, j, k = sch.get_loops(block)
    sch.split(j, [None, 8])
    for step in (
        lambda: sch.cache_read(i, 0, "local"),
        lambda: sch.cache_write(k, 0, "local"),
        lambda: sch.set_scope(i, 0, "local"),
        lambda: sch.reindex(i, ("read", 0)),
        lambda: sch.get(j),
        lambda: sch.get(type(i)("zz")),
        lambda: sch.get_loops(i),
        lambda: sch.get_child_blocks(j),
        lambda: sch.compute_inline(i),
        lambda: sch.vectorize(block),
        lambda: sch.storage_align(i, 0, 0, 8, 1),
        lambda: sch.transform_layout(i, ("write", 0), lambda a, b: (b, a)),
        lambda: sch.get_producers(i),
        lambda: sch.fuse(block, i),
        lambda: sch.reverse_compute_at(i, block),
    ):
        with pytest.raises(mlc.CompileError):
            step()


def test_schedules_of_tensors():
    s, (A, B, C) = schedule_of(32)
    (x, y), (k,) = s[C].op.axis, s[C].op.reduce_axis
    xo, yo, xi, yi = s[C].tile(x, y, 8, 8)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(xo, yo, ko, xi, ki, yi)
    s[C].vectorize(yi)
    s[C].parallel(s[C].fuse(xo, yo))
    mod = tvm.lower(s, [A, B, C], simple_mode=True)
    assert mod["main"].params[0].name == "A"
    a, b, c = rand(32, 32), rand(32, 32), tvm.nd.empty((32, 32))
    tvm.build(s, [A, B, C], target="llvm")(a, b, c)
    tvm.testing.assert_allclose(c.asnumpy(), a @ b, rtol=1e-4, atol=1e-4)


def test_stages_inside_one_another():
    A = te.placeholder((16, 16), name="A")
    B = te.compute((16, 16), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((16, 16), lambda i, j: B[i, j] * 2.0, name="C")
    D = te.compute((16, 16), lambda i, j: C[i, j] - 3.0, name="D")
    s = te.create_schedule([D.op])
    s[B].compute_inline()
    s[C].compute_at(s[D], D.op.axis[0])
    outer, inner = s[D].split(D.op.axis[1], nparts=4)
    s[D].bind(outer, te.thread_axis("threadIdx.x"))
    a, d = rand(16, 16), tvm.nd.empty((16, 16))
    tvm.build(s, [A, D])(a, d)
    tvm.testing.assert_allclose(d.numpy(), (a + 1) * 2 - 3, rtol=1e-6, atol=1e-6)


def test_what_schedules_of_tensors_lack():
    s, (A, B, C) = schedule_of(8)
    with pytest.raises(tvm.TVMError, match=r"tvm\.te\.Schedule has no name 'cache_all'"):
        s.cache_all(C, "local")
    n = te.var("n")
    X = te.placeholder((n,), name="X")
    with pytest.raises(tvm.tir.ScheduleError, match="sizes that are known only at the call: n"):
        Z = te.compute((n,), lambda i: X[i] + 1.0, name="Z")
        te.create_schedule(Z.op)[Z].split(Z.op.axis[0], factor=4)
    with pytest.raises(tvm.TVMError, match="E132"):
        tvm.tir.Schedule("mm")
