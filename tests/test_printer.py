"""The printer: what it writes, and that it parses back, for random trees of every kind."""

import math

import numpy as np
import pytest

import minimlc as mlc
from minimlc import IRModule, parse, structural_equal
from minimlc.graphs.ir import nodes as graph
from minimlc.loops.ir.nodes import (
    Alloc,
    Binary,
    Buffer,
    Const,
    For,
    PrimFunc,
    Seq,
    Store,
    Unary,
    Var,
    index,
    store,
)
from minimlc.loops.values.node import Node
from minimlc.script import R
from tests.helpers import calls, refuses
from tests.random_programs import random_graph, random_module, random_prim_func
from tests.roundtrip import assert_round_trips

A = Buffer("A", (8,), "float32")
i, j = Var("i"), Var("j")


@pytest.mark.parametrize("seed", range(150))
def test_random_prim_func(seed: int) -> None:
    assert_round_trips(random_prim_func(seed))


@pytest.mark.parametrize("seed", range(150))
def test_random_graph(seed: int) -> None:
    assert_round_trips(random_graph(seed))


@pytest.mark.parametrize("seed", range(40))
def test_random_module(seed: int) -> None:
    assert_round_trips(random_module(seed))


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (i + j * 2, "i + j * 2"),
        ((i + j) * 2, "(i + j) * 2"),
        (i - (j - 1), "i - (j - 1)"),
        (i - j - 1, "i - j - 1"),
        (-(i + j), "-(i + j)"),
        ((-i) * j, "-i * j"),
        ((i < j).equal(j < i), "(i < j) == (j < i)"),
        (Binary("and", i < j, Binary("or", i < 1, j < 1)), "i < j and (i < 1 or j < 1)"),
        (Unary("not", Binary("and", i < j, i < 1)), "not (i < j and i < 1)"),
        (Binary("max", i, index(3)), "T.max(i, 3)"),
        (index(2) + index(3), "T.int64(2) + 3"),
        (A[i].astype("float16"), 'T.cast(A[i], "float16")'),
        (A[i] + 1, "A[i] + T.float32(1)"),
        (Const(-0.0, "float16"), "T.float16(-0.0)"),
        (Const(math.inf, "bfloat16"), 'T.bfloat16("inf")'),
        (Const(0.1, "float32"), "T.float32(0.1)"),
        (Const(True, "bool"), "T.bool(True)"),
        (index(-5), "-5"),
    ],
)
def test_expressions_with_few_parentheses(tree: Node, text: str) -> None:
    assert tree.script() == text


def test_names_are_made_unique_in_the_text_only() -> None:
    first, second = Var("i"), Var("i")
    func = PrimFunc((A,), (), For(first, index(8), "serial", loop_over(second)))
    assert "for i, i1 in T.grid(8, 4):" in func.script()
    assert (first.name, second.name) == ("i", "i")
    assert_round_trips(func)


def loop_over(var: Var) -> For:
    return For(var, index(4), "serial", store(A, (var,), 0.0))


def test_long_signatures_take_a_line_for_each_parameter() -> None:
    func = PrimFunc(tuple(Buffer(f"A{n}", (128, 128), "float32") for n in range(4)), (), Seq(()))
    assert '\n    A3: T.Buffer((128, 128), "float32"),\n):' in func.script()


def test_an_allocation_inside_ends_with_its_suite() -> None:
    local = Buffer("Y", (4,), "float32", "local")
    body = Alloc(local, store(local, (i,), 0.0))
    func = PrimFunc((A,), (), For(i, index(8), "serial", body))
    assert '        Y = T.alloc_buffer((4,), "float32", scope="local")\n' in func.script()
    followed = For(i, index(8), "serial", Seq((body, store(A, (i,), 0.0))))
    assert 'with T.alloc_buffer((4,), "float32", scope="local") as Y:' in (
        PrimFunc((A,), (), followed).script()
    )
    assert_round_trips(PrimFunc((A,), (), followed))


def test_many_nested_allocations_take_one_level() -> None:
    body: Node = Store(A, (index(0),), Const(0.0, "float32"))
    for number in range(150):
        body = Alloc(Buffer(f"Y{number}", (4,), "float32"), body)
    assert_round_trips(PrimFunc((A,), (), body))


def test_constants_of_the_graph_level() -> None:
    small = graph.constant([[0.1, -0.0], [math.inf, 1e-45]], "float32")
    assert small.script() == 'R.const([[0.1, -0.0], [float("inf"), 1e-45]], "float32")'
    large = graph.constant(np.arange(100), "int32")
    assert large.script() == 'R.const(const0, R.Tensor((100,), "int32"))'
    assert large.script(constants="inline").startswith('R.const_data("AAAAAAEAAAA')
    assert repr(large) == 'R.const_data(..., (100,), "int32")'
    trained = graph.constant(np.arange(10), "float32")
    assert trained.script().startswith("R.const([0.0, 1.0")
    assert repr(trained) == 'R.const_data(..., (10,), "float32")'


def test_a_display_form_says_that_it_is_no_source() -> None:
    func = graph.Function((), (), graph.constant(np.arange(100), "int32"))
    with pytest.raises(Exception, match="left out for display"):
        parse(repr(func))


def test_operators_show_options_that_differ_from_their_default() -> None:
    text = '@R.function\ndef main(x: R.Tensor((2, 3), "float32")):\n    return '
    func = parse(text + "R.sum(x, axis=None, keepdims=True)")["main"]
    assert "R.sum(x, keepdims=True)" in func.script()


def test_functions_of_any_name() -> None:
    func = random_prim_func(3)
    mod = IRModule.of({"a.b": func, "class": func, "é": func})
    assert '@T.prim_func(name="a.b")\n    def a_b_(' in mod.script()
    assert_round_trips(mod)


def test_the_empty_module() -> None:
    assert IRModule.of({}).script() == "@I.ir_module\nclass Module:\n    pass"
    assert_round_trips(IRModule.of({}))


def test_printing_is_deterministic() -> None:
    assert random_module(5).script() == random_module(5).script()


def graph_text(operators: int) -> str:
    lines = ["@R.function", 'def main(x: R.Tensor((4, 4), "float32")):', "    with R.dataflow():"]
    lines += ["        x = R.add(x, x)"] * operators
    return "\n".join([*lines, "        R.output(x)", "    return x"])


def read_print_read(text: str) -> None:
    mod = parse(text)
    assert structural_equal(parse(mod.script()), mod)


def test_work_grows_linearly() -> None:
    small, large = (calls(read_print_read, graph_text(count)) for count in (200, 2000))
    assert large <= 10.5 * small


def weights(*names: str, shape: tuple[int, ...] = (40,), dtype: str = "float32") -> mlc.IRModule:
    """main(first name) adds a constant of its own for each further name, which is the sum's."""
    first, *others = (mlc.Var(name, R.Tensor(shape, dtype)) for name in names)
    bb, total = mlc.BlockBuilder(), first
    with bb.function("main", [first]):
        for number, var in enumerate(others):
            data = np.arange(np.prod(shape)).reshape(shape) + number
            total = bb.emit(mlc.op.add(total, mlc.constant(data, dtype)), var.name)
        bb.emit_func_output(total)
    return bb.get()


def test_a_large_constant_is_read_back():
    mod = weights("x", "y", shape=(400, 300))
    assert mlc.structural_equal(mlc.parse(mod.script(constants="inline")), mod)


def test_large_constants_by_name():
    mod = weights("x", "y", "z")
    text = mod.script(constants="names")
    assert (
        'y: R.Tensor((40,), "float32") = R.add(x, R.const(const0, R.Tensor((40,), "float32")))'
        in text
    )
    assert 'R.add(y, R.const(const1, R.Tensor((40,), "float32")))' in text
    arrays = mlc.named_constants(mod)
    assert list(arrays) == ["const0", "const1"] and arrays["const1"][0] == 1
    assert mlc.structural_equal(mlc.parse(text, arrays), mod)
    assert mod["main"].script(constants="names").count("const1") == 1
    assert mlc.structural_equal(mlc.parse(mod.script(constants="inline")), mod)
    assert mod.script() == text


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(40,), (5, 8), (0, 3), (1, 33)])
def test_constants_by_name_of_every_kind(dtype, shape):
    data = mlc.constant(np.arange(np.prod(shape)).reshape(shape) % 2, dtype)
    x, bb = mlc.Var("x", data.type), mlc.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(mlc.Tuple((x, data)))
    mod = bb.get()
    text = mod.script(constants="names")
    assert mlc.structural_equal(mlc.parse(text, mlc.named_constants(mod)), mod)


def test_names_of_constants_meet_no_variable():
    mod = weights("const0", "const", "const_0", "const")
    arrays = mlc.named_constants(mod)
    text = mod.script(constants="names")
    assert list(arrays) == ["const__0", "const__1", "const__2"]
    assert mlc.structural_equal(mlc.parse(text, arrays), mod)


def test_names_of_constants_meet_no_size():
    v = mlc.Var("v", R.Tensor(("const0",), "float32"))
    bb = mlc.BlockBuilder()
    with bb.function("main", [v]):
        big = bb.emit(mlc.op.exp(mlc.constant(np.arange(100), "float32")))
        bb.emit_func_output((bb.emit(mlc.op.exp(v)), big))
    mod = bb.get()
    assert mlc.structural_equal(mlc.parse(mod.script(), mlc.named_constants(mod)), mod)


def test_small_constants_have_no_names():
    assert mlc.named_constants(weights("x", "y", shape=(4,))) == {}
    assert mlc.named_constants(mlc.parse(weights("x", "y").script(constants="inline"))).keys() == {
        "const0"
    }


def test_a_constant_that_two_calls_share_has_one_name():
    shared, x = mlc.constant(np.arange(40), "float32"), mlc.Var("x", R.Tensor((40,), "float32"))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(mlc.op.add(x, shared))
        bb.emit_func_output(bb.emit(mlc.op.add(y, shared)))
    mod = bb.get()
    assert list(mlc.named_constants(mod)) == ["const0"]
    assert mod.script(constants="names").count("const0") == 2


def test_arrays_by_name_must_fit():
    mod = weights("x", "y")
    text = mod.script(constants="names")
    refuses("E205", lambda: mlc.parse(text, {"const0": np.zeros(41, "float32")}), "(41,)")
    refuses("E122", lambda: mlc.parse(text), "the constant const0", 'constants="inline"')
    refuses("", lambda: mod.script(constants="name"), "names")
    refuses("", lambda: mod.script(constants=True), "constants=True")
    refuses("E132", lambda: mlc.named_constants("main"), "str")
