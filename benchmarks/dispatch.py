"""The overhead of a call: tiny arrays, where it is nearly all of the time."""

import numpy as np

import minimlc as mlc
from benchmarks import peers, samples
from benchmarks.harness import Contender, compare, threads
from benchmarks.machine import describe
from benchmarks.report import Report, Table
from minimlc import te

SIZE = 8
ROUNDS = 50


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """The sum of two arrays of eight float32: as a kernel, as a graph function, and the peers'."""
    a, b = np.arange(SIZE, dtype=np.float32), np.full(SIZE, 0.5, np.float32)
    c = np.empty(SIZE, np.float32)
    library = mlc.build(kernel())
    add = library["add"]
    graph = mlc.build(graph_function())["main"]
    with threads(thread_count):
        report = Report("dispatch", thread_count, describe())
        contenders = [
            Contender("minimlc kernel: f(a, b, c)", lambda: add(a, b, c), lambda: c),
            Contender("the same: lib['add'](a, b, c)", lambda: library["add"](a, b, c), lambda: c),
            Contender("minimlc graph: c = f(a, b)", lambda: graph(a, b)),
            Contender("numpy: add(a, b, out=c)", lambda: np.add(a, b, out=c)),
            Contender("numpy: c = a + b", lambda: a + b),
            *peers.onnx(lambda: samples.add_onnx(SIZE), thread_count, a=a, b=b),
        ]
        expected = a.astype(np.float64) + b
        rows = compare(contenders, expected, tolerance=1e-6, rounds=repeat or ROUNDS)
    base = rows[0].name
    report.tables.append(Table(f"c = a + b, {SIZE} float32", rows, base))
    report.notes.append("Every sample includes the call of a lambda, about 30 ns.")
    return report


def kernel() -> mlc.IRModule:
    """c = a + b as a vector loop."""
    a, b = (te.placeholder((SIZE,), "float32", name=name) for name in "ab")
    c = te.compute((SIZE,), lambda i: a[i] + b[i], name="c")
    func = te.create_prim_func([a, b, c])
    return mlc.schedule.vectorize(mlc.IRModule.of({"add": func}), "i", func="add")


def graph_function() -> mlc.IRModule:
    """c = a + b as a graph function that returns a fresh array."""
    kind = mlc.Var("a", samples.tensor((SIZE,))), mlc.Var("b", samples.tensor((SIZE,)))
    bb = mlc.BlockBuilder()
    with bb.function("main", kind):
        bb.emit_func_output(bb.emit(mlc.op.add(*kind)))
    return bb.get()
