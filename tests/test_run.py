"""The interpreter is the semantics, so its tests compare with numbers worked out otherwise."""

import numpy as np
import pytest

from minimlc import IRModule
from minimlc.graphs.ir import nodes as graph
from minimlc.graphs.ir.registry import get_function, register_func, registered
from minimlc.graphs.ops import call_op
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import (
    Alloc,
    Block,
    BlockIter,
    Buffer,
    For,
    PrimFunc,
    Var,
    binary,
    index,
    load,
    select,
    store,
)
from minimlc.loops.lower.lower import lower
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import BoundsError, CompileError
from minimlc.script import T
from tests.helpers import assert_same, refuses


def run(func, *args):
    interpret(IRModule.of({"f": func}), "f", *args)


def elementwise(make, *arrays):
    """`make` applied to every element of 1-D arrays."""
    tensors = [te.placeholder(a.shape, a.dtype.name, name=f"X{n}") for n, a in enumerate(arrays)]
    result = te.compute(arrays[0].shape, lambda i: make(*[t[i] for t in tensors]), name="Y")
    y = np.zeros(arrays[0].shape, to_numpy(result.dtype))
    run(te.create_prim_func([*tensors, result]), *arrays, y)
    return y


def test_matmul():
    A, B = te.placeholder((3, 4), name="A"), te.placeholder((4, 5), name="B")
    k = te.reduce_axis((0, 4), name="k")
    C = te.compute((3, 5), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    a, b = np.arange(12, dtype="f4").reshape(3, 4) - 6, np.ones((4, 5), np.float32)
    c = np.empty((3, 5), np.float32)
    run(te.create_prim_func([A, B, C]), a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def test_floor_division_and_modulo_of_negatives():
    a, b = np.array([7, -7, 7, -7], "i4"), np.array([2, 2, -2, -2], "i4")
    assert elementwise(lambda x, y: x // y, a, b).tolist() == [3, -4, -4, 3]
    assert elementwise(lambda x, y: x % y, a, b).tolist() == [1, 1, -1, -1]
    assert elementwise(lambda x, y: x // y, a.astype("f4"), b.astype("f4")).tolist() == [
        3,
        -4,
        -4,
        3,
    ]


def test_integers_wrap():
    x = np.array([127, -128, -1], np.int8)
    assert elementwise(lambda v: v + 1, x).tolist() == [-128, -127, 0]
    assert elementwise(lambda v: -v, x).tolist() == [-127, -128, 1]
    assert elementwise(lambda v: v // -1, x).tolist() == [-127, -128, 1]
    assert elementwise(lambda v: v - 1, np.array([0], np.uint8)).tolist() == [255]
    assert elementwise(lambda v: v * v, np.array([2**62], np.int64)).tolist() == [0]


def test_shifts_by_too_much_give_the_sign():
    x, n = np.array([1, -2, 1, -2], np.int8), np.array([9, 9, -1, 1], np.int8)
    assert elementwise(lambda v, c: binary("<<", v, c), x, n).tolist() == [0, 0, 0, -4]
    assert elementwise(lambda v, c: binary(">>", v, c), x, n).tolist() == [0, -1, 0, -1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_floats_round_after_every_operation(dtype):
    kind = to_numpy(dtype).type
    step = 2 * float(np.finfo(np.float16).eps) if dtype == "float16" else 2.0**-7
    x = np.full(1, 1.0, kind)
    y = elementwise(lambda v: v + step / 4 + step / 4, x)
    assert y[0] == 1.0
    assert elementwise(lambda v: v + step, x)[0] == 1.0 + step


def test_minimum_and_maximum_pass_nan_on():
    a, b = np.array([np.nan, 1, 2], "f4"), np.array([1, np.nan, 3], "f4")
    for op, last in (("max", 3.0), ("min", 2.0)):
        y = elementwise(lambda v, w, op=op: binary(op, v, w), a, b)
        np.testing.assert_array_equal(y, np.array([np.nan, np.nan, last], "f4"))


def test_casts_from_floats_saturate():
    x = np.array([1.9, -1.9, 300, -300, np.nan, np.inf, -np.inf], "f4")
    assert elementwise(lambda v: v.astype("int8"), x).tolist() == [1, -1, 127, -128, 0, 127, -128]
    assert elementwise(lambda v: v.astype("uint8"), x).tolist() == [1, 0, 255, 0, 0, 255, 0]
    assert elementwise(lambda v: v.astype("bool"), x).all()
    assert elementwise(lambda v: v.astype("int64"), x)[5] == 2**63 - 1


def test_casts_between_integers_wrap_and_to_float_round_once():
    x = np.array([300, -1, 2**60 + 2**36 + 1], np.int64)
    assert elementwise(lambda v: v.astype("int8"), x).tolist() == [44, -1, 1]
    np.testing.assert_array_equal(elementwise(lambda v: v.astype("float32"), x), x.astype("f4"))


def test_only_the_chosen_side_is_evaluated():
    x = np.array([0, 2], np.int32)
    assert elementwise(lambda v: select(v > 0, 6 // v, v), x).tolist() == [0, 3]
    lazy = elementwise(lambda v: binary("and", v > 0, 6 // v > 2), x)
    assert lazy.tolist() == [False, True]
    assert elementwise(lambda v: binary("or", v <= 0, 6 // v > 2), x).tolist() == [True, True]


def guarded_sum():
    """Ten values summed in three blocks of four, the last one cut off."""
    X, Y, o, i = Buffer("X", (10,), "int32"), Buffer("Y", (), "int32"), Var("o"), Var("i")
    place, vk = o * 4 + i, Var("vk")
    update = store(Y, (), load(Y, ()) + load(X, (vk,)))
    reduce = BlockIter(vk, 10, "R", place)
    block = Block("Y", (reduce,), place < 10, store(Y, (), 0), update)
    return PrimFunc((X, Y), (), For(o, index(3), "serial", For(i, index(4), "unrolled", block)))


def test_a_predicate_and_an_init():
    y = np.array(99, np.int32)
    run(guarded_sum(), np.arange(10, dtype="i4"), y)
    assert y == 45


def test_blocks_mean_what_their_lowered_form_means():
    before = IRModule.of({"f": guarded_sum()})
    assert_same(before, IRModule.of({"f": lower(guarded_sum())}), exact=True)


def test_a_scan_runs_in_order():
    X, i, v = Buffer("X", (5,), "int32"), Var("i"), Var("v")
    body = store(X, (v + 1,), load(X, (v,)) + load(X, (v + 1,)))
    block = Block("scan", (BlockIter(v, 4, "O", i),), None, None, body)
    x = np.ones(5, np.int32)
    run(PrimFunc((X,), (), For(i, index(4), "parallel", block)), x)
    assert x.tolist() == [1, 2, 3, 4, 5]


def gather():
    I, X = te.placeholder((3,), "int8", name="I"), te.placeholder((2, 4), name="X")
    return te.create_prim_func([I, X, te.compute((3,), lambda i: X[1, I[i]], name="Y")])


def test_a_gather():
    x, y = np.arange(8, dtype="f4").reshape(2, 4), np.zeros(3, np.float32)
    run(gather(), np.array([3, 0, 2], np.int8), x, y)
    assert y.tolist() == [7, 4, 6]


@pytest.mark.parametrize("wrong", [4, -1])
def test_an_index_out_of_range_names_buffer_index_shape_and_line(wrong):
    args = np.array([3, wrong, 2], np.int8), np.ones((2, 4), np.float32), np.zeros(3, np.float32)
    error = refuses("E609", lambda: run(gather(), *args), f"X[1, {wrong}]", "(2, 4)", "axis 1")
    assert isinstance(error, IndexError) and isinstance(error, BoundsError)
    assert "I[i]" in str(error), "the line of the te.compute"


@pytest.mark.parametrize("shape", [(2,), (2, 2), (2, 2, 2)])
def test_stores_are_checked_for_every_number_of_axes(shape):
    X = Buffer("X", shape, "int32")
    bad = store(X, [0] * (len(shape) - 1) + [2], 1)
    refuses("E609", lambda: run(PrimFunc((X,), (), bad), np.zeros(shape, np.int32)), "outside X")


def test_a_block_iter_outside_its_extent_is_refused():
    X, i, v = Buffer("X", (9,), "int32"), Var("i"), Var("v")
    block = Block("X", (BlockIter(v, 3, "S", i * 2),), None, None, store(X, (v,), 1))
    func = PrimFunc((X,), (), For(i, index(3), "serial", block))
    refuses("E310", lambda: run(func, np.zeros(9, np.int32)), "v = 4", "0 ... 2")


def test_division_by_zero_is_refused():
    x = np.array([0], np.int32)
    refuses("E312", lambda: elementwise(lambda v: 5 // v, x), "5 // 0")
    refuses("E312", lambda: elementwise(lambda v: 5 % v, x), "5 % 0")
    assert elementwise(lambda v: 1.0 / v, x.astype("f4"))[0] == np.inf


def test_undefined_content_shows():
    Y = Buffer("Y", (1,), "float32")
    X = Buffer("X", (1,), "float32")
    func = PrimFunc((Y,), (X,), store(Y, (0,), load(X, (0,)) + 1.0))
    y = np.zeros(1, np.float32)
    for undefined in (func, PrimFunc((Y,), (), Alloc(X, store(Y, (0,), load(X, (0,)))))):
        refuses("E131", lambda f=undefined: run(f, y), "X[0] is read before anything was written")
    assert y[0] == 0.0


def test_arguments_are_checked():
    func = gather()
    good = np.zeros(3, np.int8), np.ones((2, 4), np.float32), np.zeros(3, np.float32)
    frozen = good[2].copy()
    frozen.setflags(write=False)
    shared = np.zeros(8, np.float32)
    signature = "f(I: int8[3], X: float32[2, 4], Y: float32[3])"
    refuses("E601", lambda: run(func, *good[:2]), "takes 3", signature)
    refuses("E602", lambda: run(func, [0, 0, 0], *good[1:]), '"I"', "list")
    refuses("E603", lambda: run(func, good[0].astype("i4"), *good[1:]), '"I"', "int8", "int32")
    refuses("E604", lambda: run(func, good[0], good[1][0], good[2]), '"X"', "2 dimension(s)")
    refuses("E604", lambda: run(func, good[0], good[1][:, :3].copy(), good[2]), "axis 1, got 3")
    refuses("E607", lambda: run(func, *good[:2], frozen), '"Y"', "read-only")
    refuses("E608", lambda: run(func, good[0], shared.reshape(2, 4), shared[:3]), '"Y"', '"X"')


def test_views_that_are_not_contiguous_work():
    x, y = np.arange(16, dtype="f4").reshape(4, 4).T[:2], np.zeros(6, np.float32)[::2]
    run(gather(), np.array([3, 0, 2], np.int8), x, y)
    assert y.tolist() == [13, 1, 9]


def test_an_unknown_function_has_near_misses():
    with pytest.raises(CompileError, match="gath") as caught:
        interpret(IRModule.of({"gather": gather()}), "gathr")
    assert '"gather"' in str(caught.value)


TENSOR = graph.TensorType((3,), "float32")


def graph_module(value):
    """x -> y = value(x) -> y, beside a primitive function "twice"."""
    X = te.placeholder((3,), name="X")
    twice = te.create_prim_func([X, te.compute((3,), lambda i: X[i] * 2.0, name="Y")])
    x = graph.Var("x", TENSOR)
    made = value(x)
    y = graph.Var("y", made.type)
    main = graph.Function((x,), (graph.BindingBlock((graph.Binding(y, made),), True),), y)
    return IRModule.of({"main": main, "twice": twice})


def test_graph_functions_give_their_results():
    x = np.array([-1, 0, 2], np.float32)
    relu = graph_module(lambda v: call_op("relu", v))
    assert interpret(relu, "main", x).tolist() == [0, 0, 2]
    tir = graph_module(lambda v: graph.call_tir("twice", (v,), TENSOR))
    assert interpret(tir, "main", x).tolist() == [-2, 0, 4]
    assert x.tolist() == [-1, 0, 2]
    pair = graph_module(lambda v: graph.Tuple((v, graph.constant([1.5]))))
    assert interpret(pair, "main", x)[1].tolist() == [1.5]


def test_graph_functions_check_their_arguments():
    mod = graph_module(lambda v: call_op("relu", v))
    refuses("E604", lambda: interpret(mod, "main", np.zeros(4, np.float32)), '"x"', "axis 0")
    refuses("E603", lambda: interpret(mod, "main", np.zeros(3)), '"x"', "float64")


def test_packed_functions_are_called_by_name():
    @register_func("test.run.plus_one", override=True)
    def plus_one(x, out):
        np.add(np.from_dlpack(x), 1, out=out)

    mod = graph_module(lambda v: graph.call_dps_packed("test.run.plus_one", (v,), TENSOR))
    x = np.zeros(3, np.float32)
    x.setflags(write=False)
    assert interpret(mod, "main", x).tolist() == [1, 1, 1]
    wrong = graph_module(lambda v: graph.call_dps_packed("test.run.plus_on", (v,), TENSOR))
    refuses("E614", lambda: interpret(wrong, "main", x), "test.run.plus_one")


def test_the_registry_keeps_the_first_of_two_names():
    first = register_func("test.run.taken", lambda x: x, override=True)
    assert "test.run.taken" in registered() and get_function("test.run.taken") is first
    refuses("E615", lambda: register_func("test.run.taken", abs), "registered already")
    register_func("test.run.taken", abs, override=True)
    assert get_function("test.run.taken") is abs


def test_a_forgotten_name_of_the_function_is_asked_for():
    @T.prim_func
    def main(A: T.Buffer((2,), "int32")):
        A[0] = 1

    mod = IRModule.of({"main": main})
    refuses("E105", lambda: interpret(mod, np.zeros(2, "int32")), "by name", "first: 'main'")
