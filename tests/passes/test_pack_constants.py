"""pack_constants: copies of constants are made ahead of time, and nothing else is."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import passes, te
from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import Constant, TensorType, Var, call_tir, constant
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.verify import verify
from minimlc.loops.schedule import Schedule
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.module import IRModule, run_passes
from minimlc.recipes import SCHEDULED
from minimlc.script import parse
from minimlc.services.passes.pack_constants import pack_constants

pytestmark = pytest.mark.many

BEFORE = passes.default_pipeline[: passes.default_pipeline.index(pack_constants)]


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def model(body, x, *weights):
    """`body(x, *weights)` with the weights bound as constants, scheduled and not packed yet."""
    names = [f"w{at}" for at in range(len(weights))]
    params = [Var("x", TensorType(x.shape, "float32"))]
    params += [Var(n, TensorType(w.shape, "float32")) for n, w in zip(names, weights, strict=True)]
    bb = BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(body(*params))
        bb.emit_func_output(out)
    bound = passes.bind_params(bb.get(), dict(zip(names, weights, strict=True)))
    return run_passes(bound, BEFORE)


def constants(mod):
    calls = [binding.value for binding in mod["main"].bindings()]
    return [arg for call in calls for arg in call.args if isinstance(arg, Constant)]


def callees(mod):
    return [binding.value.callee for binding in mod["main"].bindings()]


def packed(mod):
    """The module packed: well-formed, nothing left to do, the same bits."""
    after = verify(passes.remove_unused(pack_constants(mod)))
    assert pack_constants(after) is after
    return after


def assert_same_bits(before, after, x):
    results = [np.asarray(mlc.build(mod, cache=False)["main"](x)) for mod in (before, after)]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("shape", [(32, 48, 64), (33, 50, 70), (20, 401, 9)])
def test_a_matrix_becomes_panels(shape):
    m, k, n = shape
    x, w = random(m, k), random(k, n)
    before = model(op.matmul, x, w)
    after = packed(before)
    (panels,) = constants(after)
    assert panels.data.shape != w.shape
    kept = panels.data[panels.data != 0]
    np.testing.assert_array_equal(np.sort(kept), np.sort(w, axis=None))
    assert_same_bits(before, after, x)
    np.testing.assert_allclose(
        interpret(after, "main", x), x.astype(float) @ w, rtol=1e-4, atol=1e-4
    )


def test_the_function_makes_no_copy_any_more():
    before = model(op.matmul, random(32, 48), random(48, 64))
    after = packed(before)
    (old,), (new,) = callees(before), callees(after)
    assert len(after[new].allocs) == len(before[old].allocs) - 1
    assert (SCHEDULED, True) in after[new].attrs
    assert not any(
        item.is_write and item.buffer is after[new].params[1] for item in accesses(after[new])
    )


def test_a_convolutions_weights_go_by_channels():
    x, w = random(1, 8, 10, 10), random(16, 8, 3, 3)
    before = model(lambda a, b: op.conv2d(a, b, padding=1), x, w)
    after = packed(before)
    (weights,) = constants(after)
    lanes = weights.data.shape[-1]
    assert lanes > 1 and weights.data.shape == (16 // lanes, 8, 3, 3, lanes)
    assert_same_bits(before, after, x)


def test_layers_of_one_shape_share_a_function():
    x, weights = random(32, 64), (random(64, 64), random(64, 64) + 1)
    before = model(lambda a, v, w: op.matmul(op.relu(op.matmul(a, v)), w), x, *weights)
    after = packed(before)
    assert len(set(callees(after))) == len(set(callees(before)))
    assert_same_bits(before, after, x)


def test_what_a_function_reads_elsewhere_stays():
    """The sum needs the matrix as it is."""
    w = random(64, 64)
    mod = model(lambda a, b: op.add(op.matmul(a, b), b), random(64, 64), w)
    assert any(np.array_equal(item.data, w) for item in constants(packed(mod)))


def test_a_parameter_is_copied_at_each_call():
    x = Var("x", TensorType((32, 48), "float32"))
    w = Var("w", TensorType((48, 64), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x, w]):
        bb.emit_func_output(bb.emit(op.matmul(x, w)))
    mod = run_passes(bb.get(), BEFORE)
    assert pack_constants(mod) is mod


def test_weights_of_two_calls_are_packed_once():
    x, w = random(32, 64), random(64, 64)
    before = model(lambda a, b: op.matmul(op.relu(op.matmul(a, b)), b), x, w)
    first, second = constants(packed(before))
    assert first is second


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_of_16_bits_are_packed_as_they_are_added_up(dtype):
    x, w = (random(*s).astype(to_numpy(dtype)) for s in ((32, 48), (48, 64)))
    sums = TensorType((32, 64), "float32")
    a, b = (te.placeholder(s, dtype, name=n) for s, n in (((32, 48), "A"), ((48, 64), "B")))
    k = te.reduce_axis((0, 48), name="k")

    def element(i, j):
        return te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k)

    func = te.create_prim_func([a, b, te.compute((32, 64), element, name="C")])
    plain = mlc.Target("llvm", "x86-64-v3", "+avx2,+fma", vector_bits=256)
    made = mlc.recipes.apply(func, plain)["main"]
    p = Var("x", TensorType((32, 48), dtype))
    bb = BlockBuilder(IRModule.of({"mm": made}))
    with bb.function("main", [p]):
        bb.emit_func_output(bb.emit(call_tir("mm", (p, constant(w)), sums)))
    before = bb.get()
    after = packed(before)
    (panels,) = constants(after)
    assert panels.dtype == "float32"
    assert_same_bits(before, after, x)


PLAIN = """@T.prim_func
def main(
    A: T.Buffer((4, 6), "float32"), W: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")
):
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + W[vi, vj]
"""


def calling(schedule):
    """A graph function that calls the scheduled addition with a constant."""
    return called(schedule(Schedule(parse(PLAIN))).func)


def called(func):
    """A graph function that calls this one with a constant."""
    x = Var("x", TensorType((4, 6), "float32"))
    bb = BlockBuilder(IRModule.of({"plus": func}))
    with bb.function("main", [x]):
        call = call_tir("plus", (x, constant(random(4, 6))), x.type)
        bb.emit_func_output(bb.emit(call))
    return bb.get()


def test_a_layout_of_ones_own_is_packed():
    """Whatever wrote the copy: here one made by hand, without a recipe."""

    def turned(sch):
        return sch.cache_read("C", "W").transform_layout("W_local", "W_local", "i, j -> j, i")

    before = calling(turned)
    after = packed(before)
    (weights,) = constants(after)
    np.testing.assert_array_equal(weights.data, random(4, 6).T)
    assert_same_bits(before, after, random(4, 6))


def test_a_copy_in_the_same_order_stays():
    mod = calling(lambda sch: sch.cache_read("C", "W"))
    assert pack_constants(mod) is mod


def through_a_copy(copy, shape="4, 6", use="vi, vj"):
    """The addition, with W read through a buffer B that these lines fill."""
    lines = copy.strip("\n").splitlines()
    made = [f'    B = T.alloc_buffer(({shape}), "float32")', *(f"    {line}" for line in lines)]
    text = PLAIN.replace("+ W[vi, vj]", f"+ B[{use}]")
    func = parse(text.replace("    for i, j", "\n".join(made) + "\n    for i, j", 1))["main"]
    return called(func)


COPY = """
for i, j in T.grid({}, {}):
    with T.block("B"):
        vi = T.axis.spatial({}, i)
        vj = T.axis.spatial({}, j){}
        B[{}] = {}
"""


def test_a_copy_by_hand_is_packed():
    before = through_a_copy(COPY.format(4, 6, 4, 6, "", "vj, vi", "W[vi, vj]"), "6, 4", "vj, vi")
    after = packed(before)
    (weights,) = constants(after)
    np.testing.assert_array_equal(weights.data, random(4, 6).T)
    assert_same_bits(before, after, random(4, 6))


@pytest.mark.parametrize(
    "copy",
    [
        COPY.format(4, 6, 4, 6, "", "vi, vj", "W[vi, vj] * T.float32(2)"),
        COPY.format(4, 8, 4, 8, "\n        T.where(j < 6)", "vi, 5 - vj", "W[vi, vj]"),
        COPY.format(4, 6, 4, 9, "", "vi, 5 - vj", "W[vi, vj]"),
        COPY.format(4, 6, 9, 6, "", "vi, 5 - vj", "W[vi, vj]"),
        COPY.format(4, 6, 4, 6, "", "vi, 5 - vj", "T.max(W[vi, vj], T.float32(0))"),
        COPY.format(4, 6, 4, 6, "", "T.abs(vi - 3), vj", "W[vi, vj]"),
    ],
    ids=["computed", "where", "wide columns", "wide rows", "a maximum", "an index of its own"],
)
def test_what_does_more_or_less_than_copy_stays(copy):
    mod = through_a_copy(copy)
    assert pack_constants(mod) is mod


def test_what_threads_share_stays():
    """A GPU's threads fetch it again because that is faster than to read it where it was."""
    mod = calling(
        lambda sch: sch.cache_read("C", "W", "shared").transform_layout(
            "W_shared", "W_shared", "i, j -> j, i"
        )
    )
    assert pack_constants(mod) is mod


@pytest.mark.parametrize("other", ["", "else"])
def test_a_copy_under_a_condition_stays(other):
    inside = COPY.format(4, 6, 4, 6, "", "vi, 5 - vj", "W[vi, vj]").strip("\n").splitlines()
    lines = ["for t in range(2):", "    if t < 1:", *(f"        {line}" for line in inside)]
    if other:
        again = [line.replace('"B"', '"B2"').replace("W[", "A[") for line in inside]
        lines += ["    else:", *(f"        {line}" for line in again)]
    mod = through_a_copy("\n".join(lines))
    assert pack_constants(mod) is mod


def test_a_copy_of_a_copy_is_packed_too():
    twice = calling(
        lambda sch: (
            sch.cache_read("C", "W")
            .transform_layout("W_local", "W_local", "i, j -> j, i")
            .cache_read("C", "W_local")
            .transform_layout("W_local_local", "W_local_local", "j, i -> j // 2, i, j % 2")
        )
    )
    (weights,) = constants(packed(twice))
    assert weights.data.shape == (3, 4, 2)
