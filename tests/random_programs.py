"""Random trees of both IRs for the printer and the parser: every node, odd names, odd numbers.

They are well-typed, but nothing more: indices may lie outside their buffers.
"""

import math
import random

import numpy as np

from minimlc import IRModule
from minimlc.graphs.ir import nodes as graph
from minimlc.graphs.ops import call_op
from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import (
    BITWISE,
    COMPARISONS,
    LOGICAL,
    LOOP_KINDS,
    Alloc,
    Binary,
    Block,
    BlockIter,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    IfThenElse,
    Intrin,
    Load,
    PrimFunc,
    Select,
    Seq,
    Stmt,
    Store,
    Unary,
    Var,
    index,
)
from minimlc.loops.values.dtypes import INDEX, integer_range, is_float, is_integer, to_numpy

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8", "bool")
NAMES = (
    "i",
    "j",
    "k",
    "i",
    "A",
    "vi",
    "lambda",
    "T",
    "x.y",
    "0",
    "i1",
    "C",
    "while",
    "float",
    "fi",
    "ﬁ",
    "x²",
)
INFINITE = (math.inf, -math.inf, math.nan, -math.nan)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.1, 1e-45, 1e300, 2.0**53, *INFINITE)
TEXTS = ("a", 'say "hi"', "it's", "both ' and \"", "line\nbreak", "é ∑", "\\", "")
ATTRIBUTES = (1, -3, True, None, 0.5, math.inf, "x", (1, 2), (), (("a", 1.5),), (1,))


class RandomFunction:
    """One random primitive function."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.buffers: list[Buffer] = []
        self.vars: list[Var] = []
        self.blocks = 0

    def build(self) -> PrimFunc:
        params = tuple(self.buffer() for _ in range(self.rng.randint(0, 3)))
        allocs = tuple(self.buffer() for _ in range(self.rng.randint(0, 2)))
        return PrimFunc(params, allocs, self.stmt(4), self.annotations())

    def name(self) -> str:
        return self.rng.choice(NAMES)

    def annotations(self) -> tuple[tuple[str, object], ...]:
        keys = self.rng.sample(TEXTS, self.rng.choice((0, 0, 1, 2)))
        return tuple((key, self.rng.choice((*ATTRIBUTES, *TEXTS))) for key in keys)

    def buffer(self) -> Buffer:
        shape = tuple(self.rng.randint(1, 9) for _ in range(self.rng.randint(0, 3)))
        scope = self.rng.choice(("global", "global", "local", "shared"))
        made = Buffer(self.name(), shape, self.rng.choice(DTYPES), scope)
        self.buffers.append(made)
        return made

    # Statements

    def stmt(self, depth: int) -> Stmt:
        kinds = [self.store, self.nothing]
        if depth:
            kinds += [self.loop, self.loop, self.block, self.branch, self.seq, self.alloc]
        return self.rng.choice(kinds)(depth - 1)

    def nothing(self, depth: int) -> Stmt:
        return Seq(())

    def seq(self, depth: int) -> Stmt:
        return Seq(tuple(self.stmt(depth) for _ in range(self.rng.randint(0, 4))))

    def store(self, depth: int) -> Stmt:
        if not self.buffers:
            return Seq(())
        buffer = self.rng.choice(self.buffers)
        return Store(buffer, self.indices(buffer), self.expr(buffer.dtype, 4))

    def loop(self, depth: int) -> Stmt:
        kind = self.rng.choice(("serial", "serial", "serial", *LOOP_KINDS))
        extent = index(self.rng.randint(0, 20)) if self.rng.random() < 0.8 else self.expr(INDEX, 2)
        thread = "threadIdx.x" if kind == "thread_binding" else ""
        annotations = self.annotations() if self.rng.random() < 0.3 else ()
        var = Var(self.name())
        self.vars.append(var)
        body = self.loop(depth - 1) if depth > 0 and self.rng.random() < 0.5 else self.stmt(depth)
        self.vars.pop()
        return For(var, extent, kind, body, thread, annotations)

    def block(self, depth: int) -> Stmt:
        self.blocks += 1
        name = f"{self.rng.choice(TEXTS)} {self.blocks}"
        iters = tuple(self.iter() for _ in range(self.rng.randint(0, 3)))
        predicate = self.expr("bool", 2) if self.rng.random() < 0.3 else None
        self.vars += [it.var for it in iters]
        init = self.stmt(depth - 1) if depth > 0 and self.rng.random() < 0.4 else None
        body = self.stmt(depth)
        del self.vars[len(self.vars) - len(iters) :]
        return Block(name, iters, predicate, init, body, self.annotations())

    def iter(self) -> BlockIter:
        loops = self.vars and self.rng.random() < 0.6
        value = self.rng.choice(self.vars) if loops else self.expr(INDEX, 2)
        return BlockIter(Var(self.name()), self.rng.randint(1, 20), self.rng.choice("SSRO"), value)

    def branch(self, depth: int) -> Stmt:
        otherwise = self.stmt(depth) if self.rng.random() < 0.5 else None
        return IfThenElse(self.expr("bool", 2), self.stmt(depth), otherwise)

    def alloc(self, depth: int) -> Stmt:
        buffer = self.buffer()
        body = self.stmt(depth)
        self.buffers.remove(buffer)
        return Alloc(buffer, body)

    # Expressions

    def indices(self, buffer: Buffer) -> tuple[Expr, ...]:
        return tuple(self.expr(INDEX, 2) for _ in buffer.shape)

    def expr(self, dtype: str, depth: int) -> Expr:
        kinds = [self.const, self.leaf]
        if depth:
            kinds += [self.load, self.binary, self.binary, self.unary, self.select, self.cast]
            kinds += [self.intrin]
        return self.rng.choice(kinds)(dtype, depth - 1)

    def const(self, dtype: str, depth: int = 0) -> Expr:
        if dtype == "bool":
            return Const(self.rng.random() < 0.5, dtype)
        if is_float(dtype):
            return Const(self.rng.choice((*FLOATS, self.rng.gauss(0, 1))), dtype)
        low, high = integer_range(dtype)
        return Const(self.rng.choice((0, 1, low, high, self.rng.randint(low, high))), dtype)

    def leaf(self, dtype: str, depth: int) -> Expr:
        if dtype == INDEX and self.vars:
            return self.rng.choice(self.vars)
        return self.const(dtype)

    def load(self, dtype: str, depth: int) -> Expr:
        fitting = [b for b in self.buffers if b.dtype == dtype]
        if not fitting or depth < 1:
            return self.leaf(dtype, depth)
        buffer = self.rng.choice(fitting)
        return Load(buffer, tuple(self.expr(INDEX, depth - 1) for _ in buffer.shape))

    def binary(self, dtype: str, depth: int) -> Expr:
        if dtype == "bool":
            op = self.rng.choice(COMPARISONS + LOGICAL)
            operand = "bool" if op in LOGICAL else self.rng.choice(DTYPES)
        else:
            ops = ("+", "-", "*", "/", "min", "max") if is_float(dtype) else ("+", "-", "*", "//")
            more = ("%", "min", "max", *BITWISE) if is_integer(dtype) else ("//", "%")
            op, operand = self.rng.choice(ops + more), dtype
        return Binary(op, self.expr(operand, depth), self.expr(operand, depth))

    def unary(self, dtype: str, depth: int) -> Expr:
        ops = ("not",) if dtype == "bool" else ("-", "~") if is_integer(dtype) else ("-",)
        return Unary(self.rng.choice(ops), self.expr(dtype, depth))

    def select(self, dtype: str, depth: int) -> Expr:
        return Select(self.expr("bool", depth), self.expr(dtype, depth), self.expr(dtype, depth))

    def cast(self, dtype: str, depth: int) -> Expr:
        return Cast(dtype, self.expr(self.rng.choice(DTYPES), depth))

    def intrin(self, dtype: str, depth: int) -> Expr:
        operand = self.rng.choice(DTYPES[:4]) if dtype == "bool" else dtype
        kind = "float" if is_float(operand) else "int"
        fitting = [r for r in INTRINSICS.values() if r.result(operand) == dtype and kind in r.kinds]
        if not fitting:
            return self.const(dtype)
        record = self.rng.choice(fitting)
        return Intrin(record.name, tuple(self.expr(operand, depth) for _ in range(record.arity)))


class RandomGraph:
    """One random graph function: elementwise operators, tuples, calls, constants, blocks."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.values: list[graph.Var] = []

    def build(self, steps: int = 8) -> graph.Function:
        params = tuple(self.var(self.type()) for _ in range(self.rng.randint(1, 3)))
        blocks = tuple(self.block(steps) for _ in range(self.rng.randint(0, 4)))
        attrs = ((self.rng.choice(TEXTS), self.rng.choice(ATTRIBUTES)),)
        return graph.Function(params, blocks, self.atom(2), attrs[: self.rng.randint(0, 1)])

    def var(self, kind: graph.Type) -> graph.Var:
        made = graph.Var(self.rng.choice((*NAMES, "lv", "lv", "gv")), kind)
        self.values.append(made)
        return made

    def type(self) -> graph.Type:
        if self.rng.random() < 0.2:
            return graph.TupleType(tuple(self.type() for _ in range(self.rng.randint(0, 3))))
        shape = tuple(self.rng.randint(1, 4) for _ in range(self.rng.randint(0, 3)))
        return graph.TensorType(shape, self.rng.choice(DTYPES))

    def block(self, steps: int) -> graph.BindingBlock:
        bindings = []
        dataflow, outside = self.rng.random() < 0.6, len(self.values)
        for _ in range(self.rng.randint(0, steps)):
            value = self.value()
            bindings.append(graph.Binding(self.var(value.type), value))
        if dataflow and self.rng.random() < 0.3:
            del self.values[outside:]
        return graph.BindingBlock(tuple(bindings), dataflow)

    def value(self) -> graph.Expr:
        return self.rng.choice((self.operator, self.operator, self.call, self.field, self.any))()

    def any(self) -> graph.Expr:
        return self.atom(2)

    def atom(self, depth: int) -> graph.Expr:
        choice = self.rng.random()
        if depth and choice < 0.2:
            return graph.Tuple(tuple(self.atom(depth - 1) for _ in range(self.rng.randint(0, 3))))
        return self.constant() if choice < 0.4 else self.rng.choice(self.values)

    def constant(self) -> graph.Constant:
        dtype = self.rng.choice(DTYPES)
        shape = self.rng.choice(((), (1,), (2, 3), (5, 9), (0,), (0, 3), (2, 1, 2)))
        with np.errstate(all="ignore"):
            return graph.constant(self.numbers(dtype, shape), dtype)

    def numbers(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        count = math.prod(shape)
        if is_float(dtype):
            flat = [self.rng.choice((*FLOATS, self.rng.gauss(0, 1))) for _ in range(count)]
        else:
            flat = [self.rng.randint(0, 1) for _ in range(count)]
        return np.array(flat, np.float64).reshape(shape).astype(to_numpy(dtype))

    def tensors(self) -> list[graph.Expr]:
        return [v for v in self.values if isinstance(v.type, graph.TensorType)]

    def operator(self) -> graph.Expr:
        floats = [v for v in self.tensors() if is_float(v.dtype) and 0 not in v.shape]
        if not floats:
            return self.constant()
        x = self.rng.choice(floats)
        same = [v for v in floats if v.type == x.type]
        name = self.rng.choice(("add", "exp", "relu", "reshape", "sum", "cast", "concat", "where"))
        match name:
            case "add":
                return call_op("add", x, self.rng.choice(same))
            case "reshape":
                return call_op("reshape", x, shape=(math.prod(x.shape), 1))
            case "sum" if x.shape:
                return call_op("sum", x, keepdims=self.rng.random() < 0.5)
            case "cast":
                return call_op("cast", x, dtype=self.rng.choice(DTYPES))
            case "concat" if x.shape:
                return call_op("concat", (x, self.rng.choice(same)), axis=0)
            case "where":
                flags = graph.constant(np.ones(x.shape), "bool")
                return call_op("where", flags, x, self.rng.choice(same))
            case "exp" | "relu":
                return call_op(name, x)
        return x

    def call(self) -> graph.Expr:
        args = tuple(self.atom(1) for _ in range(self.rng.randint(0, 3)))
        make = self.rng.choice((graph.call_tir, graph.call_dps_packed, graph.call_function))
        return make(self.rng.choice(("f", "env.linear", 'a "b"', "x-y")), args, self.type())

    def field(self) -> graph.Expr:
        tuples = [v for v in self.values if isinstance(v.type, graph.TupleType) and v.type.fields]
        if not tuples:
            return self.rng.choice(self.values)
        source = self.rng.choice(tuples)
        return graph.TupleGetItem(source, self.rng.randrange(len(source.type.fields)))


def random_prim_func(seed: int) -> PrimFunc:
    return RandomFunction(random.Random(seed)).build()


def random_graph(seed: int) -> graph.Function:
    return RandomGraph(random.Random(seed)).build()


def random_module(seed: int) -> IRModule:
    """A module of both kinds of functions, some under names that are no identifiers."""
    rng = random.Random(seed)
    names = ("main", "f", "a.b", "class", "Module", "lv", "é", "T", "fi", "ﬁ", "x²", "e\u0301")
    chosen = rng.sample(names, rng.randint(0, 4))
    makers = (RandomFunction, RandomGraph)
    return IRModule.of({name: rng.choice(makers)(rng).build() for name in chosen})
