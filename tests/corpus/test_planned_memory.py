"""Graphs whose values could be given one buffer too early, and kernels that could be fused over a
change: results must not depend on where values live.
"""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import passes
from minimlc.loops.values.module import IRModule
from tests.helpers import assert_close, copies, random_args, refuses

HEAD = '@R.function\ndef main(x: R.Tensor((4, 6), "float32"), y: R.Tensor((4, 6), "float32")):\n'


@mlc.register_func("tests.corpus.negative")
def negative(x, out):
    np.from_dlpack(out)[...] = -np.from_dlpack(x)


def graph(*lines: str, result: str) -> IRModule:
    steps = "".join(f"        {line}\n" for line in lines)
    names = ", ".join(dict.fromkeys(line.split(" =")[0] for line in lines))
    return mlc.parse(
        f"{HEAD}    with R.dataflow():\n{steps}        R.output({names})\n    return {result}\n"
    )


PACKED = 'R.call_dps_packed("tests.corpus.negative", ({},), out=R.Tensor((4, 6), "float32"))'
GRAPHS = {
    "a residual outlives its neighbours": graph(
        "a = R.nn.relu(x)", "b = R.exp(a)", "c = R.add(b, y)", "d = R.add(c, a)", result="d"
    ),
    "a value is used at both ends": graph(
        "a = R.exp(x)", "b = R.nn.softmax(a)", "c = R.nn.softmax(b)", "d = R.nn.softmax(c)",
        "e = R.multiply(d, a)", result="e",
    ),
    "an output is read on": graph(
        "a = R.nn.softmax(x)", "b = R.nn.softmax(a)", "c = R.nn.softmax(b)", result="(a, c)"
    ),
    "one value is two outputs": graph("a = R.exp(x)", "b = R.add(a, y)", result="(b, b, a)"),
    "an input is an output": graph("a = R.exp(x)", result="(x, a)"),
    "both operands are one value": graph(
        "a = R.exp(x)", "b = R.multiply(a, a)", "c = R.subtract(b, b)", result="(c, b)",
    ),
    "diamonds": graph(
        "a = R.nn.softmax(x)", "b = R.nn.softmax(y)", "c = R.subtract(a, b)",
        "d = R.subtract(b, a)", "e = R.nn.softmax(c)", "f = R.nn.softmax(d)",
        "g = R.subtract(e, f)", "h = R.subtract(g, c)", result="(h, d)",
    ),
}  # fmt: skip
FUSED = {
    "a library call between two kernels": graph(
        "a = R.exp(x)", f"b = {PACKED.format('a')}", "c = R.add(b, a)", result="c"
    ),
    "a library call reads what a kernel goes on with": graph(
        "a = R.exp(x)", "b = R.add(a, y)", f"c = {PACKED.format('a')}", "d = R.add(b, c)",
        result="(d, a)",
    ),
    "two library calls on one value": graph(
        f"a = {PACKED.format('x')}", f"b = {PACKED.format('x')}", "c = R.exp(a)",
        "d = R.add(c, b)", result="(d, a)",
    ),
}  # fmt: skip
TARGETS = ("llvm", "python")


def outputs(result) -> tuple[np.ndarray, ...]:
    parts = result if isinstance(result, tuple) else (result,)
    return tuple(np.from_dlpack(part) for part in parts)


@pytest.mark.parametrize("name", [*GRAPHS, *FUSED])
def test_values_keep_to_themselves(name: str):
    before = {**GRAPHS, **FUSED}[name]
    args = random_args(before["main"], np.random.default_rng(0))
    expected = outputs(mlc.interpret(before, "main", *copies(args)))
    lowered = mlc.verify(passes.fuse_tir(passes.fuse_ops(passes.legalize(before))))
    assert_close(outputs(mlc.interpret(lowered, "main", *copies(args))), expected)
    for target in TARGETS:
        function = mlc.build(before, target=target, cache=False)["main"]
        given = copies(args)
        first = outputs(function(*given))
        assert_close(first, expected)
        assert_close(tuple(given), tuple(args), exact=True)
        kept = copies(list(first))
        function(*(-part for part in args))
        assert_close(first, tuple(kept), exact=True)
        assert_close(outputs(function(*args)), expected)


def test_arguments_that_share_memory_are_refused():
    mod = mlc.parse(
        '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):\n'
        "    for i in range(8):\n        C[i] = A[7 - i]\n"
    )
    memory = np.arange(12, dtype=np.int32)
    for target in TARGETS:
        function = mlc.build(mod, target=target, cache=False)["main"]
        refuses("E608", lambda f=function: f(memory[:8], memory[4:]), "shares memory")
    refuses("E608", lambda: mlc.interpret(mod, "main", memory[:8], memory[4:]))
