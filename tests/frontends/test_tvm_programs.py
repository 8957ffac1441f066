"""Programs of several releases as they are: names that came and went, and handles that stay."""

from __future__ import annotations

import numpy as np
import pytest

import minimlc as mlc
import minimlc.frontends.tvm as tvm
from minimlc.frontends.tvm import meta_schedule as ms
from minimlc.frontends.tvm import relax, te, tir
from minimlc.frontends.tvm.script import ir as I
from minimlc.frontends.tvm.script import relax as R
from minimlc.frontends.tvm.script import tir as T
from minimlc.frontends.tvm.script import tirx
from tests.helpers import refuses

RNG = np.random.default_rng(4)


def rand(*shape):
    return RNG.integers(-4, 5, shape).astype("float32")


def run(mod, *inputs):
    """The result of a module's `main`."""
    vm = relax.VirtualMachine(relax.build(mod, target="llvm"), tvm.cpu())
    return vm["main"](*map(tvm.nd.array, inputs)).numpy()


def fill(lib, name, shape, *inputs):
    """The array that a primitive function of a library writes."""
    out = tvm.nd.empty(shape)
    lib[name](*inputs, out)
    return out.numpy()


@T.prim_func
def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)


@T.prim_func
def total(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


# The module of a schedule


def test_the_module_of_a_lone_function_calls_it_main():
    sch = tvm.tir.Schedule(double)
    (i,) = sch.get_loops(sch.get_block("B", func_name="main"))
    sch.vectorize(i)
    assert list(sch.mod.functions) == ["main"]
    a, lib = rand(8), tvm.build(sch.mod)
    for name in ("main", "double", lib.entry_name):
        assert np.array_equal(fill(lib, name, (8,), a), a * 2)
    timed = lib.time_evaluator("double", tvm.cpu(), number=1, repeat=2)
    assert len(timed(a, tvm.nd.empty((8,))).results) == 2


def test_also_one_that_has_no_name():
    A = te.placeholder((4,), name="A")
    func = te.create_prim_func([A, te.compute((4,), lambda i: A[i] + 1.0, name="B")])
    sch = tvm.tir.Schedule(func)
    sch.unroll(sch.get_loops(sch.get_block("B"))[0])
    assert "unroll" in sch.mod["main"].script()
    a = rand(4)
    assert np.array_equal(fill(tvm.build(sch.mod), "main", (4,), a), a + 1)


def test_a_module_keeps_the_names_of_its_functions():
    sch = tvm.tir.Schedule(tvm.IRModule({"total": total, "double": double}))
    sch.work_on("total")
    block = sch.get_block("B")
    sch.decompose_reduction(block, sch.get_loops(block)[1])
    assert list(sch.mod.functions) == ["total", "double"]
    a = rand(4, 8)
    assert np.array_equal(fill(tvm.build(sch.mod), "total", (4,), a), a.sum(1))
    refuses("E132", lambda: tvm.tir.Schedule("total"), "Schedule takes a module")


# Handles


def test_merged_loops():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    sch = tvm.tir.Schedule(te.create_prim_func([A, B, C]))
    loops = [sch.get_loops(sch.get_block(name))[0] for name in "BC"]
    both = sch.merge(*loops)
    assert (both, type(both)) == (loops[0], tir.schedule.LoopRV)
    sch.unroll(both)
    a, b, c = rand(8), tvm.nd.empty((8,)), tvm.nd.empty((8,))
    tvm.build(sch.mod)["main"](a, b, c)
    assert np.array_equal(b.numpy(), a * 2)
    assert np.array_equal(c.numpy(), a + 1)


def test_three_merged_loops_split_at_once():
    A = te.placeholder((8,), name="A")
    parts = [te.compute((8,), lambda i, n=n: A[i] * float(n), name=f"B{n}") for n in range(3)]
    sch = tvm.tir.Schedule(te.create_prim_func([A, *parts]))
    loops = [sch.get_loops(sch.get_block(f"B{n}"))[0] for n in range(3)]
    outer, _ = sch.split(sch.merge(*loops), factors=[2, 4])
    sch.parallel(outer)
    a, outs = rand(8), [tvm.nd.empty((8,)) for _ in parts]
    tvm.build(sch.mod)["main"](a, *outs)
    for n, out in enumerate(outs):
        assert np.array_equal(out.numpy(), a * n)


def test_one_loop_fused_again_and_again():
    sch = tvm.tir.Schedule(double)
    (i,) = sch.get_loops(sch.get_block("B"))
    sch.vectorize(sch.fuse(sch.fuse(i)))
    a = rand(8)
    assert np.array_equal(fill(tvm.build(sch.mod), "main", (8,), a), a * 2)


def chain(steps):
    """A schedule of A + 0, then + 1, + 2 ..., by blocks B0, B1 ..."""
    tensors = [te.placeholder((6, 6), name="A")]
    for n in range(steps):
        before = tensors[-1]
        tensors.append(
            te.compute((6, 6), lambda i, j, x=before, n=n: x[i, j] + float(n), name=f"B{n}")
        )
    sch = tvm.tir.Schedule(te.create_prim_func([tensors[0], tensors[-1]]))
    return sch, [sch.get_block(f"B{n}") for n in range(steps)]


def test_a_producer_keeps_its_handle():
    sch, (first, second) = chain(2)
    sch.reverse_compute_inline(second)
    assert sch.get(first) is sch.get(second)
    i, _ = sch.get_loops(first)
    sch.parallel(i)
    a = rand(6, 6)
    assert np.array_equal(fill(tvm.build(sch.mod), "main", (6, 6), a), a + 1)


def test_so_it_does_along_a_chain():
    sch, blocks = chain(4)
    for block in reversed(blocks[1:]):
        sch.reverse_compute_inline(block)
    assert sch.get(blocks[0]).name_hint == "B3"
    sch.fuse(*sch.get_loops(blocks[0]))
    a = rand(6, 6)
    assert np.array_equal(fill(tvm.build(sch.mod), "main", (6, 6), a), a + 6)


def test_a_block_that_is_inlined_has_no_handle():
    sch, (first, second) = chain(2)
    loop = sch.get_loops(second)[0]
    sch.compute_inline(first)
    refuses("E105", lambda: sch.get(first), "B0")
    sch.fuse(*sch.get_loops(second))
    refuses("E105", lambda: sch.get(loop), loop)
    refuses("E105", lambda: sch.get_loops(first), "B0")


def test_nodes_know_their_names():
    sch = tvm.tir.Schedule(total)
    block = sch.get_sblock("B")
    node, loop = sch.get(block), sch.get(sch.get_loops(block)[1])
    assert (node.name_hint, loop.loop_var.name) == ("B", "k")
    assert (node.reads, node.writes) == (["A"], ["B"])
    assert node.same_as(sch.get(block)) and not node.same_as(loop)
    sch.annotate(block, "first", {"depth": 2})
    sch.annotate(block, "second", 3)
    assert dict(sch.get(block).annotations)["second"] == 3


def test_positions_choose_between_programs_of_one_meaning():
    sch, (first, second, third) = chain(3)
    sch.compute_at(second, sch.get_loops(third)[0], index=-2)
    sch.compute_at(first, sch.get_loops(third)[0], preserve_unit_loops=True, index=0)
    a = rand(6, 6)
    assert np.array_equal(fill(tvm.build(sch.mod), "main", (6, 6), a), a + 3)


# Libraries and devices


def test_libraries_have_their_names():
    lib = tvm.compile(tvm.IRModule({"double": double}), target="llvm")
    a = rand(8)
    assert lib.entry_name == "double"
    assert np.array_equal(fill(lib.mod, lib.mod.entry_name, (8,), a), a * 2)
    timed = lib.mod.time_evaluator("double", tvm.cpu(), repeat=3)
    assert len(timed(a, tvm.nd.empty((8,))).results) == 3
    assert "double" in lib.imported_modules[0].get_source()


def test_graphs_are_built_under_both_names():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return R.add(x, x)

    a = rand(4)
    for build in (relax.build, relax.vm.build, relax.vm_build.build, tvm.compile):
        vm = relax.VirtualMachine(build(Module, target="llvm"), tvm.context("llvm"))
        assert np.array_equal(vm["main"](tvm.nd.array(a)).numpy(), a * 2)


@pytest.mark.parametrize(
    "name",
    ["llvm -mcpu=x86-64-v3", "cpu", tvm.target.Target("llvm -num-cores 2"), "c -mcpu=znver3"],
)
def test_a_device_of_the_text_of_a_target(name):
    for where in (tvm.device(name, 0), tvm.context(name, 0), tvm.nd.context(name)):
        a = tvm.nd.array(rand(4), ctx=where)
        b = tvm.nd.empty((4,), "float32", ctx=where)
        assert a.copyto(b) is b
        assert np.array_equal(a.numpy(), b.numpy())
    refuses("E604", lambda: a.copyto(tvm.nd.empty((5,))), "(5,)", "(4,)")


def test_a_device_that_is_none():
    refuses("E105", lambda: tvm.device("lvm -mcpu=x86-64-v3"), "tvm has no name 'lvm'", "llvm")
    refuses("E105", lambda: tvm.device("cuda -arch=sm_90", 0), "tvm.cuda has no counterpart")


def test_a_function_that_may_be_missing():
    assert tvm.get_global_func("programs.none", allow_missing=True) is None
    refuses("E614", lambda: tvm.get_global_func("programs.none"), "programs.none")

    @tvm.register_func("programs.some", override=True)
    def some(x, out):
        out[:] = x.numpy() + 1

    a, out = rand(3), np.zeros(3, "float32")
    tvm.get_global_func("programs.some", allow_missing=True)(a, out)
    assert np.array_equal(out, a + 1)


# Scripts


@I.ir_module(s_tir=True)
class Newest:
    @tirx.prim_func(s_tir=True)
    def scale(A: tirx.Buffer((4,), "float32"), B: tirx.Buffer((4,), "float32")):
        for i in tirx.grid(4):
            with tirx.sblock("B"):
                vi = tirx.axis.spatial(4, i)
                B[vi] = A[vi] * tirx.float32(3)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Newest
        with R.dataflow():
            y = R.call_tir(cls.scale, (x,), out_ty=R.Tensor((4,), "float32"))
            R.output(y)
        return y


def test_a_module_of_the_newest_spellings():
    a = rand(4)
    assert np.array_equal(run(Newest, a), a * 3)
    text = Newest.script().replace("I.ir_module", "I.ir_module(s_tir=True)")
    text = text.replace("T.block", "T.sblock").replace("T.", "tirx.")
    assert tvm.ir.structural_equal(tvm.script.from_source(text), Newest)
    assert tvm.tirx is tvm.tir is tvm.s_tir


def test_calls_say_the_type_of_their_result():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    bb = relax.BlockBuilder(Newest)
    with bb.function("twice", [x], private=True):
        y = bb.emit(R.call_tir("scale", (x,), out_ty=R.Tensor((4,), "float32")))
        z = bb.emit(R.call_tir("scale", (y,), out_sinfo=R.Tensor((4,), "float32")))
        bb.emit_func_output(z)
    a = rand(4)
    lib = tvm.build(bb.get())
    assert np.array_equal(lib["twice"](a).numpy(), a * 9)


def test_a_registered_function_says_it_too():
    @tvm.register_func("programs.less", override=True)
    def less(x, out):
        out[:] = x.numpy() - 1

    mod = tvm.script.from_source("""
@R.function
def main(x: R.Tensor((4,), "float32")):
    return R.call_dps_packed("programs.less", (x,), out_ty=R.Tensor((4,), "float32"))
""")
    a = rand(4)
    assert np.array_equal(run(mod, a), a - 1)


RELU = """
@T.prim_func
def relu(x: T.handle, y: T.handle):
    {sizes}
    X = T.match_buffer(x, (m, n), "float32")
    Y = T.match_buffer(y, (m, n), "float32")
    for i, j in T.grid(m, n):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = T.max(X[vi, vj], T.float32(0))
"""


@pytest.mark.parametrize(
    "sizes",
    ["m, n = T.int64(), T.int64()", "m, n = T.int32(), T.int64()", "n, m = (T.int64(), T.int64())"],
)
def test_sizes_are_declared_together(sizes):
    mod = tvm.script.from_source(RELU.format(sizes=sizes))
    one_by_one = RELU.format(sizes="m = T.int64()\n    n = T.int64()")
    a = rand(3, 5)
    for each in (mod, tvm.script.from_source(one_by_one)):
        assert np.array_equal(fill(tvm.build(each), "relu", (3, 5), a), np.maximum(a, 0))


def test_also_in_a_graph():
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        y = R.broadcast_to(x, (n, m))
        return R.add(x, y)

    a = rand(2, 3)
    assert np.array_equal(run(mlc.IRModule({"main": main}), a), a * 2)


def test_values_are_not_declared_together():
    refuses(
        "E124",
        lambda: tvm.script.from_source(RELU.format(sizes="m, n = T.int64(), 4")),
        "m, n = T.int64(), 4",
    )


PACKED = """
@I.ir_module
class Module:
    @T.prim_func
    def scale(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("Y"):
                vi = T.axis.spatial(4, i)
                Y[vi] = X[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            {calls}
            R.output(y)
        return y
"""
OUT = 'R.Tensor((4,), "float32")'


@pytest.mark.parametrize(
    ("calls", "factor"),
    [
        (f'y = R.call_dps_packed("scale", (x,), {OUT})', 2),
        (f'y = R.call_dps_packed("scale", x, out_sinfo={OUT})', 2),
        (
            f'z = R.call_dps_packed("scale", (x,), {OUT})\n'
            f'            y = R.call_tir("scale", (z,), {OUT})',
            4,
        ),
    ],
)
def test_packed_calls_of_functions_of_the_module(calls, factor):
    a = rand(4)
    assert np.array_equal(run(tvm.script.from_source(PACKED.format(calls=calls)), a), a * factor)


def test_a_packed_call_of_nothing_is_refused():
    calls = f'y = R.call_dps_packed("programs.nothing", (x,), {OUT})'
    mod = tvm.script.from_source(PACKED.format(calls=calls))
    refuses("E614", lambda: run(mod, rand(4)), "programs.nothing")


@I.ir_module
class Older:
    @R.function
    def main(x: Tensor((3, 4), "float32"), y: Tensor((3, 4), "float32")):
        with relax.dataflow():
            lv0 = relax.multiply(x, y)
            lv1 = relax.nn.relu(relax.op.add(lv0, relax.const(1.0, "float32")))
            relax.output(lv1)
        return lv1


def test_operators_of_the_module_relax():
    a, b = rand(3, 4), rand(3, 4)
    assert np.array_equal(run(Older, a, b), np.maximum(a * b + 1, 0))
    assert len(Older["main"].body.blocks[0].bindings) == 3
    assert Older["main"].body.body is Older["main"].result


@pytest.mark.parametrize("tensor", ["Tensor", "R.Tensor"])
@pytest.mark.parametrize("operators", ["relax", "R", "relax.op"])
def test_operators_of_a_text(tensor, operators):
    mod = tvm.script.from_source(f"""
@R.function
def main(x: {tensor}((3, 4), "float32")) -> {tensor}((4, 3), "float32"):
    y = {operators}.permute_dims({operators}.add(x, x))
    return y
""")
    a = rand(3, 4)
    assert np.array_equal(run(mod, a), (a + a).T)


def test_constants_have_a_dtype():
    mod = tvm.script.from_source("""
@R.function
def main(x: R.Tensor((3,), "int64")):
    y = R.add(x, R.const(1, dtype="int64"))
    return R.add(y, R.const([1, 2, 3], "int64"))
""")
    assert np.array_equal(run(mod, np.arange(3)), np.array([2, 4, 6]))


# Types that say less


def test_a_parameter_without_its_shape():
    @R.function
    def main(x: R.Tensor(ndim=2, dtype="float32")) -> R.Tensor:
        y: R.Tensor(dtype="float32", ndim=2) = R.add(x, x)
        return y

    mod = mlc.IRModule({"main": main})
    for shape in ((1, 3), (4, 2)):
        a = rand(*shape)
        assert np.array_equal(run(mod, a), a * 2)
    assert tvm.ir.structural_equal(tvm.script.from_source(mod.script()), mod)


def test_results_without_their_shapes():
    mod = tvm.script.from_source("""
@R.function
def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor(ndim=1):
    y: R.Tensor = R.sum(x, axis=0)
    return y
""")
    a = rand(2, 3)
    assert np.array_equal(run(mod, a), a.sum(0))


def test_two_parameters_have_sizes_of_their_own():
    mod = tvm.script.from_source("""
@R.function
def main(x: R.Tensor(ndim=1), y: R.Tensor(ndim=1)) -> R.Tensor(ndim=0):
    return R.add(R.sum(x), R.sum(y))
""")
    a, b = rand(3), rand(5)
    assert run(mod, a, b) == a.sum() + b.sum()


@pytest.mark.parametrize(
    ("param", "result", "text"),
    [
        ("R.Tensor", "R.Tensor", "x may have any number of axes"),
        ("R.Tensor(ndim=-3)", "R.Tensor", "ndim is a number of axes, got -3"),
        ("R.Tensor(ndim=2)", "R.Tensor(ndim=3)", "the result has the type"),
        ("R.Tensor((2,), 'float32')", "R.Tensor(dtype='int32', ndim=1)", "the result has the type"),
    ],
)
def test_types_that_do_not_fit(param, result, text):
    source = f"@R.function\ndef main(x: {param}) -> {result}:\n    return x\n"
    refuses("E126", lambda: tvm.script.from_source(source), text)


def test_the_result_of_another_function_has_a_shape():
    source = """
@R.function
def main(x: R.Tensor((4,), "float32")):
    return R.call_dps_packed("f", (x,), R.Tensor(ndim=1))
"""
    refuses("E126", lambda: tvm.script.from_source(source), "expected a type")


# Modules and passes


def test_a_module_in_a_module_is_refused():
    mod = tvm.IRModule({"double": double})
    refuses("E132", lambda: tvm.IRModule({"main": mod}), 'a module as "main"', 'mod["double"]')
    refuses("E132", lambda: Older.with_function("f", mod), 'a module as "f"')
    assert tvm.IRModule({"main": mod["double"]})["main"] is double


FUSED = """
@I.ir_module
class Module:
    @T.prim_func
    def scale(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n, 4), "float32")
        Y = T.match_buffer(y, (n, 4), "float32")
        for i, j in T.grid(n, 4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)

    @R.function
    def fused(x: R.Tensor(({size}, 4), "float32")):
        R.func_attr({{"{primitive}": True}})
        with R.dataflow():
            y = R.call_tir("scale", (x,), R.Tensor(({size}, 4), "float32"))
            z = R.call_tir("scale", (y,), R.Tensor(({size}, 4), "float32"))
            R.output(z)
        return z

    @R.function
    def main(x: R.Tensor(({size}, 4), "float32")):
        cls = Module
        with R.dataflow():
            y = cls.fused(x)
            R.output(y)
        return y
"""


@pytest.mark.parametrize("size", [1, 6])
@pytest.mark.parametrize("primitive", ["primitive", "Primitive"])
def test_groups_call_functions_of_sizes_known_at_the_call(size, primitive):
    mod = tvm.script.from_source(FUSED.format(size=size, primitive=primitive))
    fused = relax.transform.FuseTIR()(mod)
    assert isinstance(fused["fused"], tvm.tir.PrimFunc)
    a = rand(size, 4)
    assert np.array_equal(run(fused, a), a * 4)


def test_a_group_of_sizes_known_at_the_call_is_refused():
    mod = mlc.parse(FUSED.format(size='"n"', primitive="primitive"))
    refuses("E232", lambda: mlc.passes.fuse_tir(mod), '"fused"', "known only at the call")


def test_a_builders_function_may_be_private():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 2), "float32"))
    with bb.function("fused", [x], attrs={"Primitive": True}, private=True):
        with bb.dataflow():
            y = bb.emit(bb.call_te(tvm.topi.add, x, x))
            z = bb.emit_output(bb.call_te(tvm.topi.nn.relu, y))
        bb.emit_func_output(z)
    with bb.function("main", [x], private=False):
        call = R.call("fused", (x,), out=R.Tensor((2, 2), "float32"))
        bb.emit_func_output(bb.emit(call))
    a = rand(2, 2)
    for mod in (bb.get(), relax.transform.FuseTIR()(bb.get())):
        assert np.array_equal(run(mod, a), np.maximum(a + a, 0))


def images(layout):
    shape = {"NHWC": (1, 6, 6, 3), "NCHW": (1, 3, 6, 6)}[layout]
    return mlc.parse(f"""
@R.function
def main(x: R.Tensor({shape}, "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
    with R.dataflow():
        y = R.conv2d(x, w, data_layout="{layout}", kernel_layout="OIHW")
        z = R.relu(y)
        R.output(z)
    return z
""")


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_layouts_are_converted(layout):
    mod = images(layout)
    x, w = rand(*mod["main"].params[0].type.shape), rand(4, 3, 3, 3)
    expected = run(mod, x, w)
    for desired in ({"relax.nn.conv2d": ["NCHW", "OIHW"]}, {"relax.nn.conv2d": ["NHWC", "OHWI"]}):
        passes = [relax.transform.ConvertLayout(desired), relax.transform.Normalize()]
        after = tvm.transform.Sequential(passes)(mod)
        convolution = next(b.value for b in after["main"].bindings() if b.value.op == "conv2d")
        assert dict(convolution.attrs)["data_layout"] == desired["relax.nn.conv2d"][0]
        assert np.array_equal(run(after, x, w), expected)


def test_products_in_half_the_bits():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3, 8), "float32"), w: R.Tensor((8, 5), "float32")):
            return R.matmul(x, w)

    half = relax.transform.ToMixedPrecision()(Module)
    a, b = rand(3, 8), rand(8, 5)
    assert "float16" in half.script()
    assert np.array_equal(run(half, a, b), a @ b), "small integers are exact"
    refuses("E230", lambda: relax.transform.ToMixedPrecision("float16"), "float16")


# Searches


@I.ir_module
class Product:
    @T.prim_func
    def main(
        A: T.Buffer((16, 32), "float32"),
        B: T.Buffer((32, 16), "float32"),
        C: T.Buffer((16, 16), "float32"),
    ):
        for i, j, k in T.grid(16, 16, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def drawn(sch: tvm.tir.Schedule):
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    tile = sch.sample_perfect_tile(loop=j, n=2)
    j0, j1 = sch.split(loop=j, factors=tile)
    sch.reorder(i, j0, k, j1)
    step = sch.sample_categorical(candidates=[2, 4, 8], probs=[0.25, 0.5, 0.25])
    sch.unroll(sch.split(k, factors=[None, step])[1])
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    return sch


def is_the_product(mod):
    a, b = rand(16, 32), rand(32, 16)
    return np.array_equal(fill(tvm.build(mod), "main", (16, 16), a, b), a @ b)


def test_schedules_draw_by_their_seed():
    traces = [drawn(tvm.tir.Schedule(Product, seed=seed)).trace for seed in range(8)]
    assert len({str(trace.decisions) for trace in traces}) > 2
    assert traces[3] == drawn(tvm.tir.Schedule(Product, seed=3)).trace
    tile = traces[3].decisions["j"]
    assert int(np.prod(tile)) == 16
    assert is_the_product(drawn(tvm.tir.Schedule(Product, seed=3)).mod)
    assert is_the_product(drawn(tvm.tir.Schedule(Product)).mod)


def test_a_search_of_a_space_of_ones_own():
    found = ms.tune_tir(
        mod=Product,
        target="llvm --num-cores=1",
        max_trials_global=3,
        num_trials_per_iter=3,
        space=ms.space_generator.ScheduleFn(drawn),
        work_dir="unused",
        task_name="main",
    )
    assert found.trace[0][0] == "sample_perfect_tile"
    assert is_the_product(found.mod)
    again = ms.tir_integration.compile_tir(found, Product, "llvm --num-cores=1")
    assert again.trace == found.trace
    assert tvm.ir.structural_equal(again.mod, found.mod)


def test_a_search_of_the_usual_space():
    config = ms.TuneConfig(max_trials_global=2, num_trials_per_iter=1)
    found = ms.tune_tir(Product["main"], "llvm", work_dir="unused", config=config)
    assert list(found.mod.functions) == ["main"]
    assert is_the_product(found.mod)
