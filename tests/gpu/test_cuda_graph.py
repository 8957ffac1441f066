"""Graph functions on target "cuda": they stay on the GPU, and calls are replayed."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.graphs.ir import nodes
from minimlc.graphs.run import flatten
from minimlc.loops.values.dtypes import to_numpy
from tests.gpu import standin, standin_memory, standin_torch
from tests.gpu.programs import add, twice
from tests.gpu.test_cuda import arguments, assert_near, needs_device
from tests.graph import test_control
from tests.helpers import refuses


def network(make, shape=(4, 6), dtype="float32"):
    bb, x = mlc.BlockBuilder(), mlc.Var("x", mlc.script.R.Tensor(shape, dtype))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit_output(make(bb, x))
        bb.emit_func_output(y)
    return bb.get()


def chain(bb, x):
    """Several kernels, with constants."""
    w = nodes.constant(np.random.default_rng(3).standard_normal((6, 6)).astype("float32"))
    y = bb.emit(mlc.op.matmul(x, w))
    return mlc.op.softmax(bb.emit(mlc.op.matmul(bb.emit(mlc.op.relu(y)), w)))


X = np.random.default_rng(5).standard_normal((4, 6)).astype("float32")


@needs_device
def test_a_graph_function_gives_arrays_of_the_library_that_it_was_given(cp, torch):
    mod = network(chain)
    function, expected = mlc.build(mod, target="cuda")["main"], mlc.interpret(mod, "main", X)
    here, there, tensor = function(X), function(cp.asarray(X)), function(standin_torch.tensor(X))
    assert type(here) is np.ndarray and type(there) is cp.ndarray
    assert type(tensor) is standin_torch.Tensor
    assert_near([here, there.get(), tensor.cpu()], [expected] * 3)


@needs_device
def test_calls_at_the_same_addresses_are_replayed(cp):
    mod = network(chain)
    function = mlc.build(mod, target="cuda")["main"]
    x = cp.asarray(X)
    results = []
    for scale in range(1, 8):
        x.set(X * scale)
        results.append(function(x).get())
    assert_near(results, [mlc.interpret(mod, "main", X * k) for k in range(1, 8)])
    assert "graph" in [name for name, *_ in standin.LOG]
    kept = [function(x) for _ in range(3)]
    x.set(X)
    assert_near([each.get() for each in kept], [results[-1]] * 3)


@needs_device
def test_constants_are_there_for_every_stream(cp):
    mod = network(chain)
    function, expected = mlc.build(mod, target="cuda")["main"], mlc.interpret(mod, "main", X)
    first = function(cp.asarray(X))
    for _ in range(3):
        with cp.cuda.Stream(non_blocking=True):
            x = cp.asarray(X)
            assert_near([function(x).get() for _ in range(4)], [expected] * 4)
    assert_near([first.get()], [expected])


def workspace(bb, x):
    """A kernel that needs memory of its own, twice."""
    once = bb.emit(nodes.call_tir("twice", (x,), mlc.script.R.Tensor((64,), "float32")))
    y = bb.emit(mlc.op.reshape(bb.emit(mlc.op.broadcast_to(once, shape=(32, 64))), shape=(64, 32)))
    return nodes.call_tir("twice", (y,), mlc.script.R.Tensor((64,), "float32"))


@needs_device
def test_workspace_of_kernels_is_in_the_arena(cp):
    mod = network(workspace, (64, 32)).with_function("twice", twice().mod["main"])
    x = np.random.default_rng(5).standard_normal((64, 32)).astype("float32")
    function, there = mlc.build(mod, target="cuda")["main"], cp.asarray(x)
    expected = mlc.interpret(mod, "main", x)
    for _ in range(4):
        assert_near([function(there).get()], [expected], 1e-3)


@needs_device
def test_values_that_live_at_once_have_places_of_their_own(cp):
    def make(bb, x):
        w = nodes.constant(np.eye(6, dtype="float32")[::-1].copy())
        first = bb.emit(mlc.op.matmul(x, w))
        second = bb.emit(mlc.op.matmul(first, w))
        third = bb.emit(mlc.op.matmul(second, w))
        return mlc.op.matmul(bb.emit(mlc.op.add(bb.emit(mlc.op.add(first, second)), third)), w)

    mod = network(make)
    function, there = mlc.build(mod, target="cuda")["main"], cp.asarray(X)
    for _ in range(3):
        assert_near([function(there).get()], [mlc.interpret(mod, "main", X)])


@needs_device
def test_functions_of_the_user_get_numpy_arrays(cp):
    @mlc.register_func("tests.cuda.negate", override=True)
    def negate(x, out):
        assert type(x) is np.ndarray
        out[:] = -x

    def make(bb, x):
        kind = mlc.script.R.Tensor((4, 6), "float32")
        y = bb.emit(nodes.call_dps_packed("tests.cuda.negate", (x,), kind))
        return mlc.op.relu(y)

    function = mlc.build(network(make), target="cuda")["main"]
    np.testing.assert_array_equal(function(cp.asarray(X)).get(), np.maximum(-X, 0))


@needs_device
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_numbers_cross_over(cp, torch, dtype):
    mod = network(lambda bb, x: mlc.op.relu(x), dtype=dtype)
    function, x = mlc.build(mod, target="cuda")["main"], X.astype(to_numpy(dtype))
    for result in (function(x), function(cp.asarray(x.view("uint16")).view(x.dtype)).get()):
        np.testing.assert_array_equal(result, np.maximum(x, 0).astype(x.dtype))
    result = function(standin_torch.tensor(x))
    assert result.dtype == f"torch.{dtype}"
    np.testing.assert_array_equal(result.cpu(), np.maximum(x, 0).astype(x.dtype))


@needs_device
def test_results_that_are_arguments_are_copied(cp):
    mod = network(lambda bb, x: nodes.Tuple((x, bb.emit(mlc.op.relu(x)))))
    x = cp.asarray(X)
    same, positive = mlc.build(mod, target="cuda")["main"](x)
    assert same.data.ptr != x.data.ptr
    np.testing.assert_array_equal(same.get(), X)
    np.testing.assert_array_equal(positive.get(), np.maximum(X, 0))


@needs_device
def test_what_cannot_be_captured(cp):
    library = mlc.build(add().mod, target="cuda")
    graph = mlc.build(network(chain), target="cuda")["main"]
    a, b, c = arguments(add().mod)
    there = [cp.asarray(each) for each in (a, b, c)]
    library["main"](*there)
    x = cp.asarray(X)
    with cp.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        library["main"](*there)
        refuses("E620", lambda: graph(x), "captured")
        refuses("E620", lambda: library["main"](there[0], b, there[2]), "captured")
        captured = stream.end_capture()
    there[0].set(b)
    captured.launch()
    np.testing.assert_array_equal(there[2].get(), b + b)


CHOICE = """
@I.ir_module
class Choice:
    @R.function
    def low():
        return R.const([1.0, 2.0])

    @R.function
    def high():
        return R.const([3.0, 4.0])

    @R.function
    def choose(p: R.Tensor((), "bool")):
        r = R.cond(p, low, high, ())
        q = r * 2.0
        return q
"""


@needs_device
def test_conditions_and_loops_call_functions_with_arrays_on_the_gpu(cp):
    mod = mlc.parse(test_control.FIXED)
    lib = mlc.build(mod, "cuda")
    for name, *args in test_control.calls():
        expected = flatten([test_control.meant(mod, name, *args)])
        there = [cp.asarray(each) for each in args]
        for given in (args, there, there):
            results = flatten([lib[name](*given)])
            assert_near([getattr(each, "get", lambda e=each: e)() for each in results], expected)
    choice = mlc.build(mlc.parse(CHOICE), "cuda")["choose"]
    for p, expected in ((True, [2, 4]), (False, [6, 8])):
        results = [choice(np.array(p)), choice(cp.asarray(np.array(p))).get()]
        assert_near(results, [np.array(expected, "float32")] * 2)


def test_the_stand_ins_work_is_done_in_order():
    """Also where something waits for it in the middle of a job, as what Python collects may."""
    state, done = standin_memory.State(), []
    state.add(lambda: (state.run(), done.append("first")))
    state.add(lambda: done.append("second"))
    state.run()
    assert done == ["first", "second"]
