"""Graph functions: one native call, memory that is planned, Python functions in between."""

import gc
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from minimlc.graphs import op
from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import (
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    call_dps_packed,
    call_function,
    call_tir,
    constant,
)
from minimlc.graphs.ir.registry import register_func
from minimlc.graphs.passes import legalize
from minimlc.graphs.plan import plan
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import Buffer, For, PrimFunc, index, seq, store
from minimlc.loops.ir.nodes import Var as LoopVar
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import IRModule
from minimlc.services.build import build
from minimlc.services.runtime.executable import NativeGraph, SteppedGraph
from tests.helpers import assert_close, refuses

T8 = TensorType((8,), "float32")


def one_input(make) -> IRModule:
    """main(x): `make(bb, x)` gives the result."""
    x, bb = Var("x", T8), BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(make(bb, x))
        bb.emit_func_output(out)
    return bb.get()


def values(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(8).astype(np.float32)


def digits_mlp(batch: int = 1) -> IRModule:
    rng = np.random.default_rng(1)
    w1, b1, w2, b2 = (
        constant(rng.standard_normal(s).astype(np.float32))
        for s in ((64, 128), (128,), (128, 10), (10,))
    )
    x, bb = Var("x", TensorType((batch, 64), "float32")), BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            hidden = bb.emit(op.relu(bb.emit(op.add(bb.emit(op.matmul(x, w1)), b1))))
            out = bb.emit_output(op.add(bb.emit(op.matmul(hidden, w2)), b2))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize("pipeline", [None, (legalize,)])
@pytest.mark.parametrize("options", [{}, {"bounds": "check"}, {"cache": False}])
def test_an_mlp_is_one_native_call(pipeline, options):
    mod = digits_mlp(3)
    lib = build(mod, pipeline=pipeline, **options)
    assert isinstance(lib["main"], NativeGraph)
    x = np.random.default_rng(2).standard_normal((3, 64)).astype(np.float32)
    expected = interpret(mod, "main", x)
    first, second = lib["main"](x), lib["main"](x)
    assert first is not second
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(first, second)


def test_arguments_of_graph_functions_are_checked():
    lib = build(digits_mlp())
    wrong = np.zeros((1, 63), np.float32)
    refuses("E604", lambda: lib["main"](wrong), 'argument 1 ("x") of main', "axis 1, got 63")
    refuses("E601", lambda: lib["main"]())


def test_constants_outlive_the_module():
    lib = build(digits_mlp())
    x = np.ones((1, 64), np.float32)
    before = lib["main"](x)
    gc.collect()
    trash = [np.full((64, 128), 7, np.float32) for _ in range(50)]
    np.testing.assert_array_equal(lib["main"](x), before)
    assert trash


def test_results_that_are_parameters_constants_or_twice_the_same_are_copies():
    x, bb = Var("x", T8), BlockBuilder()
    fixed = constant(values(5))
    with bb.function("main", [x]):
        y = bb.emit(op.add(x, x))
        bb.emit_func_output(Tuple((x, fixed, y, y)))
    lib = build(bb.get())
    given = values()
    a, b, c, d = lib["main"](given)
    assert_close((a, b, c, d), (given, values(5), given + given, given + given))
    assert not any(np.shares_memory(p, q) for p, q in [(a, given), (b, fixed.data), (c, d)])
    c[:] = 0
    assert d.any()


def test_tuples_go_in_and_out():
    pair = Var("pair", TupleType((T8, TupleType((T8,)))))
    bb = BlockBuilder()
    with bb.function("main", [pair]):
        first = bb.emit(TupleGetItem(pair, 0))
        rest = bb.emit(TupleGetItem(pair, 1))
        second = bb.emit(TupleGetItem(rest, 0))
        total = bb.emit(op.add(first, second))
        bb.emit_func_output(Tuple((Tuple((total,)), first)))
    mod = bb.get()
    args = (values(1), (values(2),))
    for target in ("llvm", "python"):
        got = build(mod, target)["main"](args)
        assert_close(got, ((args[0] + args[1][0],), args[0]))


def kernel(name: str = "twice") -> IRModule:
    i, a, b = LoopVar("i"), Buffer("a", (8,), "float32"), Buffer("b", (8,), "float32")
    func = PrimFunc((a, b), (), For(i, index(8), "vectorized", store(b, (i,), a[i] + a[i])))
    return IRModule.of({name: func})


def graph_of(mod: IRModule, make) -> IRModule:
    """`mod` with main(x): the calls that `make(x, bind)` binds, in order; it gives the result."""
    x, bb = Var("x", T8), BlockBuilder(mod)
    with bb.function("main", [x]):
        bb.emit_func_output(make(x, bb.emit))
    return bb.get()


def test_long_chains_use_two_places():
    def chain(x, bind):
        for _ in range(30):
            x = bind(call_tir("twice", (x,), T8))
        return x

    mod = graph_of(kernel(), chain)
    assert plan(mod, "main").arena_bytes == 2 * 64
    x = values()
    np.testing.assert_array_equal(build(mod)["main"](x), x * np.float32(2.0**30))


def test_a_place_is_not_used_again_while_its_value_lives():
    rng = np.random.default_rng(7)
    for _ in range(10):

        def random_graph(x, bind):
            known = [x]
            for _ in range(25):
                source = known[rng.integers(len(known))]
                known.append(bind(call_tir("twice", (source,), T8)))
            return Tuple(tuple(known[n] for n in rng.integers(len(known), size=4)))

        mod = graph_of(kernel(), random_graph)
        assert_close(build(mod, cache=False)["main"](values()), interpret(mod, "main", values()))


def test_sizes_mix_in_the_arena():
    def make(bb, x):
        wide = bb.emit(op.broadcast_to(x, shape=(16, 8)))
        small = bb.emit(op.sum(wide, axis=0))
        again = bb.emit(op.broadcast_to(small, shape=(32, 8)))
        return op.sum(bb.emit(op.multiply(again, again)), axis=0)

    mod = one_input(make)
    assert_close(
        build(mod, pipeline=(legalize,))["main"](values()), interpret(mod, "main", values())
    )


def test_graph_functions_call_each_other():
    x = Var("x", T8)
    bb = BlockBuilder(kernel())
    with bb.function("inner", [x]):
        bb.emit_func_output(bb.emit(call_tir("twice", (x,), T8)))
    z = Var("z", T8)
    with bb.function("main", [z]):
        y = bb.emit(call_function("inner", (z,), T8))
        bb.emit_func_output(bb.emit(call_function("inner", (y,), T8)))
    lib = build(bb.get())
    assert isinstance(lib["main"], NativeGraph)
    np.testing.assert_array_equal(lib["main"](values()), values() * 4)


def test_registered_functions_get_the_memory_itself():
    seen = []

    @register_func("test.runtime.minus_one", override=True)
    def minus_one(a, out):
        seen.append(type(out))
        out[:] = a - 1

    def make(x, bind):
        y = bind(call_tir("twice", (x,), T8))
        z = bind(call_dps_packed("test.runtime.minus_one", (y,), T8))
        return bind(call_tir("twice", (z,), T8))

    mod = graph_of(kernel(), make)
    for target in ("llvm", "python"):
        lib = build(mod, target)
        np.testing.assert_array_equal(lib["main"](values()), (values() * 2 - 1) * 2)
    assert isinstance(build(mod)["main"], SteppedGraph) and seen == [np.ndarray, np.ndarray]


def test_registered_functions_get_the_same_constant_at_every_call():
    seen = []

    @register_func("test.runtime.add_weight", override=True)
    def add_weight(a, weight, out):
        seen.append(weight.__array_interface__["data"][0])
        out[:] = a + weight

    weight = constant(values(1))

    def make(x, bind):
        return bind(call_dps_packed("test.runtime.add_weight", (x, weight), T8))

    mod = graph_of(kernel(), make)
    lib = build(mod)
    for _ in range(2):
        np.testing.assert_array_equal(lib["main"](values()), values() + values(1))
    assert len(set(seen)) == 1


def test_a_registered_function_that_returns_its_result_is_told_so():
    register_func("test.runtime.returns", lambda a, out: a + 1, override=True)
    make = lambda x, bind: bind(call_dps_packed("test.runtime.returns", (x,), T8))  # noqa: E731
    mod = graph_of(kernel(), make)
    for call in (build(mod)["main"], build(mod, "python")["main"]):
        refuses("E611", lambda call=call: call(values()), "last argument")
    refuses("E611", lambda: interpret(mod, "main", values()))


def fails(a, out):
    np.copyto(out, a.reshape(3, 3))  # the line that is shown


@pytest.mark.parametrize("way", ["llvm", "python", "interpreter"])
def test_a_registered_function_that_raises_is_told_of(way):
    def outcome(func) -> CompileError:
        register_func("test.runtime.raises", func, override=True)
        make = lambda x, bind: bind(call_dps_packed("test.runtime.raises", (x,), T8))  # noqa: E731
        mod = graph_of(kernel(), make)
        if way == "interpreter":
            return refuses("E613", lambda: interpret(mod, "main", values()), "test.runtime.raises")
        return refuses("E613", lambda: build(mod, way)["main"](values()), "test.runtime.raises")

    error = outcome(fails)
    assert isinstance(error.__cause__, ValueError)
    frames = [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)]
    assert "fails" in frames
    for words in ("ValueError: cannot reshape", "float32 (8,)", "the line that is shown"):
        assert words in str(error)
    error = outcome(lambda a: None)
    assert "cannot be called with 2 array(s)" in str(error) and "then 1 output" in error.hint
    assert isinstance(error.__cause__, TypeError)


def test_a_kernel_that_writes_its_input_is_refused():
    a, b = Buffer("a", (8,), "float32"), Buffer("b", (8,), "float32")
    func = PrimFunc((a, b), (), seq((store(b, (0,), a[0]), store(a, (0,), 1.0))))
    mod = graph_of(IRModule.of({"bad": func}), lambda x, bind: bind(call_tir("bad", (x,), T8)))
    refuses("E226", lambda: build(mod), '"bad" writes its argument a')


def test_operators_that_were_not_lowered_are_refused():
    mod = one_input(lambda bb, x: op.add(x, x))
    refuses("E503", lambda: build(mod, pipeline=()), '"add"', "legalize")


def test_a_function_that_calls_itself_is_refused():
    x = Var("x", T8)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(call_function("main", (x,), T8)))
    with pytest.raises(Exception, match="main"):
        build(bb.get())


def test_calls_from_several_threads_do_not_share_an_arena():
    lib = build(digits_mlp(), pipeline=(legalize,))
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal((1, 64)).astype(np.float32) for _ in range(8)]
    expected = [lib["main"](x) for x in inputs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(30):
            for got, want in zip(pool.map(lib["main"], inputs), expected, strict=True):
                np.testing.assert_array_equal(got, want)


def test_every_dtype_of_constant():
    for dtype in ("float64", "float16", "bfloat16", "int8", "uint8"):
        kind = TensorType((8,), dtype)
        x, bb = Var("x", kind), BlockBuilder()
        with bb.function("main", [x]):
            bb.emit_func_output(bb.emit(op.add(x, constant(np.arange(8), dtype))))
        mod = bb.get()
        data = constant(np.arange(8) * 3, dtype).data
        assert_close(build(mod)["main"](data), interpret(mod, "main", data))
