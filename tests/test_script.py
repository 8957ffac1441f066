"""The texts that the parser accepts: every spelling, and the tree it stands for."""

import gc
import math

import numpy as np
import pytest

from minimlc import CompileError, IRModule, ScriptError, parse, structural_equal
from minimlc.graphs.ir import nodes as graph
from minimlc.loops.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Select,
    Seq,
    Store,
    Var,
)
from minimlc.loops.values.node import span_of, walk
from minimlc.loops.values.process import collector_paused
from minimlc.script import I, R, T
from tests.roundtrip import assert_round_trips

n, m = 16, np.int64(8)
shape = (n, m)
dtype = np.float32


@I.ir_module
class Course:
    """The course's own spelling, with everything it prints."""

    @T.prim_func
    def mm_relu(A: T.Buffer[(16, 8), "float32"], B: T.Buffer[(8, 16), "float32"], c: T.handle):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        C = T.match_buffer(c, (16, 16), "float32")
        Y = T.alloc_buffer((16, 16), dtype="float32")
        for i, j, k in T.grid(16, 16, 8):
            with T.block("Y"):
                vi = T.axis.spatial(16, i)
                vj, vk = T.axis.remap("SR", [j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(Y[vi, vj])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                vj = T.axis.spatial(16, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))

    @R.function
    def main(x: R.Tensor((16, 8), "float32"), w: R.Tensor((8, 16), "float32")):
        with R.dataflow():
            lv = R.call_tir(cls.mm_relu, (x, w), out_sinfo=R.Tensor((16, 16), dtype="float32"))
            lv1: R.Tensor((16, 16), "float32") = R.nn.relu(lv)
            R.output(lv1)
        return lv1


def body(func: PrimFunc) -> list:
    return list(func.body.stmts) if isinstance(func.body, Seq) else [func.body]


def same(*texts: str) -> PrimFunc:
    """All texts stand for one tree; it round-trips."""
    head = (
        '@T.prim_func\ndef f(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):\n'
    )
    parsed = [parse(head + "".join(f"    {line}\n" for line in t.split("\n"))) for t in texts]
    for other in parsed[1:]:
        assert structural_equal(parsed[0], other), f"{parsed[0]}\n{other}"
    assert_round_trips(parsed[0])
    return parsed[0]["f"]


def test_the_course_module() -> None:
    assert_round_trips(Course)
    func = Course["mm_relu"]
    assert [p.name for p in func.params] == ["A", "B", "C"]
    assert [b.name for b in func.allocs] == ["Y"]
    assert func.attrs == (("global_symbol", "mm_relu"), ("tir.noalias", True))
    loops = [s.var.name for s in walk(func) if isinstance(s, For)]
    assert loops == ["i", "j", "k", "i1", "j1"]


def test_nodes_know_their_place() -> None:
    for item in walk(Course):
        if isinstance(item, Load | Store | For | Block | graph.Binding | graph.Call):
            span = span_of(item)
            assert span is not None and span.filename == __file__
    first = next(s for s in walk(Course) if isinstance(s, Store))
    assert span_of(first).text.strip() == "Y[vi, vj] = T.float32(0)"


def test_loops() -> None:
    plain = "for i in range(16):\n    for j in range(8):\n        C[i, j] = A[i, j]"
    grid = "for i, j in T.grid(16, 8):\n    C[i, j] = A[i, j]"
    serial = "for i in T.serial(0, 16):\n    for j in T.serial(8):\n        C[i, j] = A[i, j]"
    func = same(plain, grid, serial)
    assert "for i, j in T.grid(16, 8):" in func.script()


@pytest.mark.parametrize("kind", ["parallel", "vectorized", "unroll"])
def test_kinds_of_loops(kind: str) -> None:
    header = f'for i in T.{kind}(16, annotations={{"a": 1}}):'
    func = same(header + "\n    C[i, 0] = 0.0")
    assert header in func.script()


def test_thread_binding() -> None:
    func = same('for i in T.thread_binding(0, 16, thread="threadIdx.x"):\n    C[i, 0] = 0.0')
    assert (func.body.kind, func.body.thread) == ("thread_binding", "threadIdx.x")


def test_a_start_moves_into_the_body() -> None:
    func = same(
        "for i in range(3, 8):\n    C[i, 0] = 0.0", "for i in range(5):\n    C[i + 3, 0] = 0.0"
    )
    assert func.body.extent.value == 5


def test_names_of_indices_are_substituted() -> None:
    same(
        "for i in range(4):\n    row = i * 4\n    C[row + 1, 0] = A[row, 0]",
        "for i in range(4):\n    C[i * 4 + 1, 0] = A[i * 4, 0]",
    )


def test_updates() -> None:
    same("C[0, 0] += A[0, 0]", "C[0, 0] = C[0, 0] + A[0, 0]")
    same("C[0, 0] *= 2", "C[0, 0] = C[0, 0] * T.float32(2)")


def test_conditions() -> None:
    func = same(
        "for i in range(16):\n    if 2 <= i < 4:\n        C[i, 0] = 0.0\n"
        "    elif i == 5 or not i > 3:\n        C[i, 0] = 1.0\n    else:\n        C[i, 0] = 2.0"
    )
    assert isinstance(func.body.body, IfThenElse)
    assert isinstance(func.body.body.else_case, IfThenElse)
    chosen = same("C[0, 0] = A[0, 0] if A[0, 0] > 0.0 else 0.0")
    assert isinstance(chosen.body.value, Select)
    same("if 3 > 2:\n    C[0, 0] = 1.0\nelse:\n    C[0, 0] = 2.0", "C[0, 0] = 1.0")


def test_casts_and_functions() -> None:
    same('C[0, 0] = T.cast(3 + T.int32(4), "float32")', "C[0, 0] = T.float32(3 + T.int32(4))")
    same("C[0, 0] = T.floordiv(A[0, 0], 2.0)", "C[0, 0] = A[0, 0] // 2.0")
    same("C[0, 0] = T.sigmoid(T.exp(A[0, 0]))")
    same('C[0, 0] = T.infinity("float32")', 'C[0, 0] = T.float32("inf")')
    same("C[0, 0] = T.if_then_else(A[0, 0] > 1, 1.0, 0.0)", "C[0, 0] = 1 if A[0, 0] > 1 else 0.0")


def test_axes() -> None:
    inner = "    with T.block('C'):\n        {}\n        C[vi, vj] = A[vi, vj]"
    grid = "for i, j in T.grid(16, 8):\n"
    same(
        grid + inner.format("vi, vj = T.axis.remap('SS', [i, j])"),
        grid + inner.format("vi = T.axis.spatial(16, i)\n        vj = T.axis.S((0, 8), j)"),
    )
    func = same(
        "for i_0, i_1 in T.grid(5, 4):\n    with T.block('C'):\n"
        "        vi = T.axis.spatial(16, i_0 * 4 + i_1)\n        vj = T.axis.opaque(8, 3)\n"
        "        T.where(i_0 * 4 + i_1 < 16)\n        T.block_attr({'a': (1, 'b')})\n"
        "        C[vi, vj] = A[vi, vj]"
    )
    block = next(s for s in walk(func) if isinstance(s, Block))
    assert [it.kind for it in block.iters] == ["S", "O"]
    assert block.predicate is not None
    assert block.annotations == (("a", (1, "b")),)


def test_names_written_twice_get_the_next_free_one() -> None:
    loop = "for i in range(8):\n    with T.block('C'):\n        vi = T.axis.spatial(8, i)\n"
    func = same(f"{loop}        C[vi, 0] = 0.0\n{loop}        C[vi, 1] = 0.0")
    assert [s.var.name for s in walk(func) if isinstance(s, For)] == ["i", "i1"]
    assert [s.name for s in walk(func) if isinstance(s, Block)] == ["C", "C1"]


def test_allocations() -> None:
    func = same(
        "Y = T.alloc_buffer((4,), 'int8', scope='shared')\nfor i in range(4):\n"
        "    Z = T.alloc_buffer((2,), 'int8', scope='local')\n    Z[0] = T.int8(1)\n    Y[i] = Z[0]"
    )
    assert func.allocs[0].scope == "shared"
    assert isinstance(func.body.body, Alloc)


def test_constants_come_from_python() -> None:
    scale, values = 0.5, (1, 2, 3)

    @T.prim_func
    def f(A: T.Buffer(shape, dtype), B: T.Buffer((n // 2, m + 1), "float64")):
        for i in range(n // 4 - 1):
            A[i, values[1]] = A[i, len(values)] * scale + math.pi
            B[i, 0] = -scale

    assert f.params[0].shape == (16, 8)
    assert f.params[1].shape == (8, 9)
    assert f.body.extent.value == 3
    last = [s for s in walk(f) if isinstance(s, Store)][-1]
    assert (last.value.value, last.value.dtype) == (-0.5, "float64")
    assert f.attrs == (("global_symbol", "f"),)
    assert_round_trips(f)


def test_graph_functions_from_python() -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)

    @R.function
    def f(x: R.Tensor((4, 2), "float32")) -> R.Tensor((4, 3), "float32"):
        return R.matmul(x, R.const(weight)) * 2 + R.const(1.5)

    calls = [b.value.op for b in f.bindings()]
    assert calls == ["matmul", "multiply", "add"]
    assert f.result.type == graph.TensorType((4, 3), "float32")
    assert_round_trips(f)


def test_tuples_calls_and_blocks() -> None:
    mod = parse(
        """
        @I.ir_module
        class M:
            k = 2
            @R.function
            def twice(x: R.Tensor((k, 3))) -> R.Tuple(R.Tensor((k, 3)), R.Tensor((k, 3))):
                R.func_attr({"primitive": True})
                return x, R.add(x, x)
            @R.function
            def main(x: R.Tensor((k, 3))):
                with R.dataflow():
                    lv, lv1 = cls.twice(x)
                    t = R.concat((lv, lv1), axis=0)
                    R.output(t)
                p = R.call_dps_packed("env.f", (t, x), out=[R.Tensor((2,)), R.Tensor((k,), "int8")])
                q = M.twice(x)
                return p[0], (q, R.const([1, 2], "int64"))
        """
    )
    assert_round_trips(mod)
    assert mod["twice"].attrs == (("primitive", True),)
    assert [b.dataflow for b in mod["main"].blocks] == [True, False]
    ops = [b.value.op for b in mod["main"].bindings() if isinstance(b.value, graph.Call)]
    assert ops == ["call", "concat", "call_dps_packed", "call"]


def test_old_spellings_of_call_tir() -> None:
    text = '@R.function\ndef main(x: R.Tensor((2, 3), "float32")):\n    return {}'
    forms = (
        'R.call_tir("f", (x,), out=R.Tensor((4,), "float32"))',
        'R.call_tir("f", x, (4,), dtype="float32")',
        'R.call_tir("f", [x], out_sinfo=R.Tensor((4,), dtype="float32"))',
    )
    first, *others = [parse(text.format(form)) for form in forms]
    assert all(structural_equal(first, other) for other in others)


def test_a_text_of_functions_and_imports() -> None:
    mod = parse(
        """
        # from tvm.script import ir as I
        from tvm.script import relax as R, tir as T

        @T.prim_func(private=True)
        def f(A: T.Buffer((4,), "float32")):
            A[0] = 1.0

        @R.function
        def g(x: "R.Tensor((4,), 'float32')"):
            return relax.op.add(x, x)
        """
    )
    assert list(mod.functions) == ["f", "g"]
    assert_round_trips(mod)


def test_in_plain_python_the_names_build_nodes() -> None:
    x = graph.Var("x", R.Tensor((2, 3), "float32"))
    assert R.add(x, x).type == x.type
    assert R.call_tir("f", (x,), out=R.Tensor((2,), "int8")).callee == "f"
    assert R.Tuple(x.type, x.type).fields == (x.type, x.type)
    assert R.const([1.0, 2.0]).dtype == "float32"
    i = Var("i")
    made = T.max(T.cast(i, "float32"), T.exp(T.float32(2)))
    assert isinstance(made, Expr) and made.dtype == "float32"
    assert isinstance(T.int8(3), Const)
    assert "sigmoid" in dir(T)
    assert not hasattr(T, "__wrapped__")


def test_annotations_accept_anything_until_they_are_read() -> None:
    assert T.Buffer(3, what="ever") is T.Buffer
    assert T.Buffer[(1,), "float32"] is T.Buffer
    with pytest.raises(ScriptError, match="inside a script"):
        T.grid(3)


def test_deep_expressions() -> None:
    text = " + ".join(["A[0, 0]"] * 150)
    same(f"C[0, 0] = {text}")


def test_declared_buffers_are_allocated() -> None:
    plain = 'Y = {}((8,), "float32", scope="local")\nY[0] = A[0, 0]\nC[0, 0] = Y[0]'
    inside = "for i in range(8):\n    " + plain.replace("\n", "\n    ")
    scoped = 'with {}((8,), "float32") as Y:\n    Y[0] = A[0, 0]\n    C[0, 0] = Y[0]'
    for text in (plain, inside, scoped):
        same(text.format("T.alloc_buffer"), text.format("T.decl_buffer"))
    nothing = plain.replace("scope", "data=None, strides=None, scope")
    same(plain.format("T.alloc_buffer"), nothing.format("T.decl_buffer"))


def test_declared_accesses_may_speak_of_loops() -> None:
    block = 'with T.block("C"):\n{}        C[i, j] = A[i, j]'
    loops = "for i, j in T.grid(8, 8):\n    "
    declared = "        T.reads(A[i, 0:8])\n        T.writes(C[i, j])\n"
    same(loops + block.format(declared), loops + block.format(""))
    outer = 'for i in range(8):\n    with T.block("o"):\n        vi = T.axis.spatial(8, i)\n'
    inner = '        with T.block("C"):\n            {}C[vi, 0] = A[vi, 0]'
    same(outer + inner.format("T.reads(A[vi, 0:1])\n            "), outer + inner.format(""))


def test_modules_of_a_dict() -> None:
    func = Course["mm_relu"]
    mod = IRModule({"main": func, "other": func})
    assert list(mod.functions) == ["main", "other"] and mod["main"] is func
    assert structural_equal(mod, IRModule.of({"main": func, "other": func}))
    assert IRModule(mod.entries).entries == mod.entries and IRModule().entries == ()
    for wrong in (func, mod, 5, "main", ["main"], [("main",)], None):
        with pytest.raises(CompileError, match="takes functions by name") as caught:
            IRModule(wrong)
        assert caught.value.code == "E132"


def test_modules_hold_functions_in_order() -> None:
    assert list(Course.functions) == ["mm_relu", "main"]
    assert isinstance(Course, IRModule)
    assert isinstance(Course["mm_relu"].params[0], Buffer)
    assert isinstance(body(Course["mm_relu"])[0], For)


def test_what_tvm_prints_around_a_whole_body() -> None:
    loops = """
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                Y[vi] = A[vi]
                C[vi] = Y[vi]"""
    head = 'def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):'
    alloc = "Y = T.alloc_buffer((8,))"
    plain = f"@T.prim_func\n{head}\n        {alloc}{loops}"
    inner = f"        T.reads()\n        T.writes()\n        {alloc}{loops}".replace("\n", "\n    ")
    root = f'@T.prim_func\n{head}\n        with T.block("root"):\n    {inner}'
    assert structural_equal(parse(plain), parse(root))


def test_a_block_named_root_that_is_one_stays_one() -> None:
    head = '@T.prim_func\ndef f(A: T.Buffer((8,), "float32")):\n    with T.block("root"):\n'
    leaf = parse(head + "        A[0] = 1.0")["f"]
    axis = parse(head + "        vi = T.axis.spatial(8, 3)\n        A[vi] = 1.0")["f"]
    assert isinstance(leaf.body, Block) and isinstance(axis.body, Block)


def test_cls_is_the_module() -> None:
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def g(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            C[i] = A[i]

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        cls = Module
        lv = R.call_tir(cls.g, (x,), out_sinfo=R.Tensor((8,), "float32"))
        return lv
"""
    assert structural_equal(parse(text), parse(text.replace("        cls = Module\n", "")))
    assert structural_equal(parse(text), parse(text.replace("class Module", "class Other")))


def test_a_loop_that_no_axis_is_bound_to_may_index() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.where(A[i, j] > 0.0)
            A[vi, j] = 1.0
"""
    assert_round_trips(parse(text))


@pytest.mark.parametrize("collecting", [True, False])
def test_the_garbage_collector_is_as_before(collecting):
    """It rests while a text is read, whatever comes of that."""
    try:
        (gc.enable if collecting else gc.disable)()
        parse("@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    A[0] = T.float32(1)\n")
        assert gc.isenabled() == collecting
        with pytest.raises(ScriptError):
            parse("nothing")
        assert gc.isenabled() == collecting
    finally:
        gc.enable()


def test_the_collector_rests_until_the_last_one_is_out():
    """Threads overlap: who came first leaves first, and who came second found it off."""
    first, second = collector_paused(), collector_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
