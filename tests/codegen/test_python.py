"""The Python backend computes what the interpreter computes, bit for bit."""

import numpy as np
import pytest

from minimlc import IRModule
from minimlc.graphs.ir import nodes as graph
from minimlc.graphs.ir.registry import register_func
from minimlc.graphs.ops import call_op
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import (
    BITWISE,
    COMPARISONS,
    Alloc,
    Binary,
    Buffer,
    Cast,
    For,
    IfThenElse,
    Intrin,
    Load,
    PrimFunc,
    Select,
    Store,
    Unary,
    Var,
    const,
    index,
    seq,
)
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import DTYPES, integer_range, is_float, is_integer, to_numpy
from minimlc.loops.values.errors import BuildError, CompileError
from minimlc.targets.python.compile import compile_python, emit_python
from tests.helpers import refuses

SIZE = 24
FLOATS = [0.0, -0.0, 1.0, -2.5, 0.1, 3.3e4, -7e37, 1e300, 1e-7, np.inf, -np.inf, np.nan]


def loop(value, buffers, out):
    i = Var("i")
    body = For(i, index(SIZE), "serial", Store(out, (i,), value(i)))
    return PrimFunc((*buffers, out), (), body)


def special(dtype, rng, size=SIZE):
    """Values of a dtype, the awkward ones among them."""
    if dtype == "bool":
        return rng.integers(0, 2, size).astype(np.bool_)
    with np.errstate(all="ignore"):
        if is_float(dtype):
            pool = np.concatenate([FLOATS, rng.standard_normal(size)])
            return rng.choice(pool, size).astype(to_numpy(dtype))
    low, high = integer_range(dtype)
    pool = [low, high, low + 1, high - 1, 0, 1, 2, 3, 7, 100, 5, -(low < 0)]
    return rng.choice(np.array(pool, to_numpy(dtype)), size)


@pytest.mark.parametrize("depth", [19, 20, 21, 45])
def test_more_loops_than_python_nests(depth):
    out, local = Buffer("out", (1,), "int64"), Buffer("local", (2,), "int64", "local")
    variables = [Var(f"i{number}") for number in range(depth)]
    body = Store(out, (index(0),), out[0] * 3 + variables[0] + variables[-1] + local[1])
    for number, var in reversed(list(enumerate(variables))):
        body = For(var, index(2 if number in (0, depth - 1) else 1), "serial", body)
        if number == 18:
            body = Alloc(local, seq([Store(local, (index(1),), index(5)), body]))
    agree(PrimFunc((out,), (), body), np.zeros(1, np.int64))


def test_what_nests_too_deeply_for_python():
    out = Buffer("out", (2,), "float32")
    value = out[0]
    for _ in range(250):
        value = Binary("-", out[1], value)
    mod = IRModule.of({"f": PrimFunc((out,), (), Store(out, (index(0),), value))})
    with pytest.raises(BuildError, match="Python does not read the code"):
        compile_python(mod)


def agree(func, *arrays):
    mod = IRModule.of({"f": func})
    first, second = [a.copy() for a in arrays], [a.copy() for a in arrays]
    outcomes = []
    for call, args in (
        (lambda *a: interpret(mod, "f", *a), first),
        (compile_python(mod)["f"], second),
    ):
        try:
            outcomes.append(call(*args))
        except CompileError as error:
            outcomes.append(error.code)
    assert outcomes[0] == outcomes[1], emit_python(mod)
    for a, b in zip(first, second, strict=True):
        assert same_bits(a, b), f"{emit_python(mod)}\n{arrays}\n{a}\n{b}"


def same_bits(a, b):
    """The same bits, except that every NaN is the same."""
    if is_float(a.dtype.name):
        nans = np.isnan(a.astype("f8"))
        if not np.array_equal(nans, np.isnan(b.astype("f8"))):
            return False
        a, b = np.where(nans, 0, a).astype(a.dtype), np.where(nans, 0, b).astype(b.dtype)
    return a.tobytes() == b.tobytes()


def operators(dtype):
    """Every binary operator of a dtype."""
    if dtype == "bool":
        return (*COMPARISONS, "and", "or", "&", "|", "^", "min", "max")
    if is_float(dtype):
        return (*COMPARISONS, "+", "-", "*", "/", "//", "%", "min", "max")
    return (*COMPARISONS, "+", "-", "*", "//", "%", "min", "max", *BITWISE)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_binary_operator(dtype):
    rng = np.random.default_rng(1)
    a, b = Buffer("a", (SIZE,), dtype), Buffer("b", (SIZE,), dtype)
    for op in operators(dtype):
        x, y = special(dtype, rng), special(dtype, rng)
        if op in ("//", "%") and not is_float(dtype):
            y[y == 0] = 3
        func = loop(
            lambda i, op=op: Binary(op, Load(a, (i,)), Load(b, (i,))), (a, b), result_of(op, a)
        )
        agree(func, x, y, np.zeros(SIZE, to_numpy(func.params[2].dtype)))


def result_of(op, a):
    value = Binary(op, Load(a, (index(0),)), Load(a, (index(0),)))
    return Buffer("out", (SIZE,), value.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_cast_and_function(dtype):
    rng = np.random.default_rng(2)
    a, b = Buffer("a", (SIZE,), dtype), Buffer("b", (SIZE,), dtype)
    makers = [lambda i, to=to: Cast(to, Load(a, (i,))) for to in DTYPES]
    ops = [op for op, fits in (("-", is_number(dtype)), ("~", is_integer(dtype))) if fits]
    makers += [lambda i, op=op: Unary(op, Load(a, (i,))) for op in ops]
    makers += [
        lambda i, r=r: Intrin(r.name, (Load(a, (i,)), Load(b, (i,)))[: r.arity])
        for r in INTRINSICS.values()
        if DTYPES[dtype].kind in r.kinds
    ]
    for make in makers:
        out = Buffer("out", (SIZE,), make(index(0)).dtype)
        func = loop(make, (a, b), out)
        agree(func, special(dtype, rng), special(dtype, rng), np.zeros(SIZE, to_numpy(out.dtype)))


def is_number(dtype):
    return is_float(dtype) or is_integer(dtype)


class Random:
    """Random well-typed expressions over the buffers and the loop variables."""

    def __init__(self, rng, buffers, variables):
        self.rng = rng
        self.buffers = {b.dtype: b for b in buffers}
        self.variables = variables

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def expr(self, dtype, depth):
        if depth == 0 or self.rng.random() < 0.15:
            return self.leaf(dtype)
        kind = self.pick(["binary"] * 5 + ["select", "cast", "unary", "intrin"])
        return getattr(self, kind)(dtype, depth - 1)

    def leaf(self, dtype):
        if dtype == "int64" and self.rng.random() < 0.6:
            return self.pick(self.variables)
        if self.rng.random() < 0.4:
            return const(special(dtype, self.rng, 1)[0].item(), dtype)
        return Load(self.buffers[dtype], (self.variables[0],))

    def binary(self, dtype, depth):
        if dtype == "bool" and self.rng.random() < 0.6:
            of = self.pick(list(DTYPES))
            return Binary(self.pick(COMPARISONS), self.expr(of, depth), self.expr(of, depth))
        op = self.pick([op for op in operators(dtype) if op not in COMPARISONS])
        b = self.expr(dtype, depth)
        if op in ("//", "%") and is_integer(dtype) and self.rng.random() < 0.9:
            b = self.pick([const(3, dtype), const(-7, dtype), Binary("|", b, const(1, dtype))])
        return Binary(op, self.expr(dtype, depth), b)

    def select(self, dtype, depth):
        return Select(self.expr("bool", depth), self.expr(dtype, depth), self.expr(dtype, depth))

    def cast(self, dtype, depth):
        return Cast(dtype, self.expr(self.pick(list(DTYPES)), depth))

    def unary(self, dtype, depth):
        if dtype == "bool":
            return Unary("not", self.expr(dtype, depth))
        op = "-" if is_float(dtype) else self.pick("-~")
        return Unary(op, self.expr(dtype, depth))

    def intrin(self, dtype, depth):
        kind = DTYPES[dtype].kind
        records = [r for r in INTRINSICS.values() if kind in r.kinds and not r.predicate]
        if not records:
            return self.leaf(dtype)
        record = self.pick(records)
        return Intrin(record.name, tuple(self.expr(dtype, depth) for _ in range(record.arity)))


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions(seed):
    rng = np.random.default_rng(seed)
    inputs = [Buffer(f"in_{dtype}", (5,), dtype) for dtype in DTYPES]
    outs = [Buffer(f"out_{dtype}", (5, 3), dtype) for dtype in DTYPES]
    i, j = Var("i"), Var("j")
    random = Random(rng, inputs, (i, j))
    stores = [Store(out, (i, j), random.expr(out.dtype, 4)) for out in outs]
    guarded = [IfThenElse(random.expr("bool", 2), s) if rng.random() < 0.2 else s for s in stores]
    body = For(i, index(5), "parallel", For(j, index(3), "vectorized", seq(guarded)))
    func = PrimFunc((*inputs, *outs), (), body)
    arrays = [special(b.dtype, rng, 5) for b in inputs]
    arrays += [np.zeros((5, 3), to_numpy(b.dtype)) for b in outs]
    agree(func, *arrays)


def test_the_source_reads_as_one_would_write_it():
    A = te.placeholder((2, 3), name="A")
    k = te.reduce_axis((0, 3), name="k")
    Y = te.compute((2,), lambda i: te.sum(A[i, k] * 2.0 + 1.0, axis=k), name="Y")
    mod = IRModule.of({"f": te.create_prim_func([A, Y])})
    assert (
        emit_python(mod)
        == '''\
import numpy as np


def f(A, Y):
    """A: float32 (2, 3), Y: float32 (2,)"""
    for i in range(2):
        for k in range(3):
            if k == 0:
                Y[i] = 0.0
            Y[i] = Y[i] + (A[i, k] * 2.0 + 1.0)
'''
    )


def test_odd_names_do_not_clash():
    X = te.placeholder((3,), "bfloat16", name="np")
    Y = te.compute((3,), lambda float64: X[float64] * 2.0, name="float32")
    func = te.create_prim_func([X, Y])
    mod = IRModule.of({"maximum": func})
    x, y = np.ones(3, to_numpy("bfloat16")), np.zeros(3, to_numpy("bfloat16"))
    compile_python(mod)["maximum"](x, y)
    assert y.tolist() == [2, 2, 2]


def test_graph_functions_return_arrays():
    X = te.placeholder((3,), name="X")
    twice = te.create_prim_func([X, te.compute((3,), lambda i: X[i] * 2.0, name="Y")])
    tensor = graph.TensorType((3,), "float32")
    x, lv, lv1 = (graph.Var(n, tensor) for n in ("x", "lv", "lv1"))
    t = graph.Var("t", graph.TupleType((tensor, tensor)))
    bindings = (
        graph.Binding(lv, graph.call_tir("twice", (x,), tensor)),
        graph.Binding(lv1, call_op("add", lv, graph.constant(np.arange(3, dtype="f4")))),
        graph.Binding(t, graph.call_dps_packed("test.swap", (graph.Tuple((lv, lv1)),), t.type)),
    )
    block = graph.BindingBlock(bindings, False)
    main = graph.Function((x,), (block,), graph.Tuple((t, graph.TupleGetItem(t, 0))))
    outer = graph.Function((x,), (), graph.call_function("main", (x,), main.result.type))
    mod = IRModule.of({"main": main, "twice": twice, "outer": outer})

    @register_func("test.swap", override=True)
    def swap(a, b, out_a, out_b):
        out_a[:], out_b[:] = b, a

    array = np.ones(3, np.float32)
    for name in ("main", "outer"):
        expected, got = interpret(mod, name, array), compile_python(mod)[name](array)
        assert np.array_equal(expected[0][1], [2, 2, 2])
        assert np.array_equal(got[1], [2, 3, 4])
        assert np.array_equal(expected[0], got[0]) and np.array_equal(expected[1], got[1])


def test_large_constants_are_kept_beside_the_source():
    tensor = graph.TensorType((100,), "float32")
    x = graph.Var("c0", tensor)
    data = np.linspace(0, 1, 100, dtype="f4")
    main = graph.Function((x,), (), call_op("add", x, graph.constant(data)))
    mod = IRModule.of({"main": main})
    assert "= constants[0]" in emit_python(mod)
    np.testing.assert_array_equal(compile_python(mod)["main"](data), data + data)


def test_constants_that_have_no_literal():
    with np.errstate(all="ignore"):
        odd = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.1], np.float32)
    main = graph.Function((), (), graph.constant(odd))
    got = compile_python(IRModule.of({"main": main}))["main"]()
    assert got.tobytes() == odd.tobytes()
    Y = te.compute((3,), lambda i: const(float("nan"), "float16"), name="Y")
    agree(te.create_prim_func(Y), np.zeros(3, np.float16))


def test_wrong_arguments_and_a_zero_divisor_are_refused():
    X = te.placeholder((3,), "int32", name="X")
    f = te.create_prim_func([X, te.compute((3,), lambda i: 6 // X[i], name="Y")])
    call = compile_python(IRModule.of({"f": f}))["f"]
    x, y = np.array([1, 2, 0], np.int32), np.zeros(3, np.int32)
    refuses("E312", lambda: call(x, y), "6 // 0")
    refuses("E603", lambda: call(x, y.astype("f4")), '"Y"')
