"""Scripts with a token changed at random: they parse, or get one short error with a place."""

import io
import random
import tokenize

import pytest

from minimlc import ScriptError, parse
from minimlc.loops.values.errors import MAX_LINES
from tests.random_programs import random_graph, random_prim_func

COURSE = """
@I.ir_module
class Module:
    @T.prim_func
    def mm(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 4), "float32"), c: T.handle):
        T.func_attr({"tir.noalias": True})
        C = T.match_buffer(c, (16, 4), "float32")
        Y = T.alloc_buffer((16, 4), "float32", scope="local")
        for i, j in T.grid(16, 4):
            for k in T.parallel(8, annotations={"a": 1}):
                with T.block("Y"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.where(i * 4 + j < 100)
                    T.reads(A[vi, vk], B[vk, 0:4])
                    T.block_attr({"b": 2})
                    with T.init():
                        Y[vi, vj] = T.float32(0)
                    Y[vi, vj] += A[vi, vk] * B[vk, vj]
        for i in range(2, 16):
            row = i - 1
            if row > 3 and not i == 4:
                C[row, 0] = T.max(Y[row, 0], T.exp(0.5)) if i < 5 else T.cast(i, "float32")
    @R.function
    def main(x: R.Tensor((16, 8), "float32"), w: R.Tensor((8, 4))) -> R.Tensor((16, 4), "float32"):
        with R.dataflow():
            lv = R.call_tir(cls.mm, (x, w), out=R.Tensor((16, 4), "float32"))
            lv1: R.Tensor((16, 4), "float32") = R.add(lv, R.const([1.0], "float32"))
            R.output(lv1)
        t = (lv1, R.sum(lv1, axis=(0, 1), keepdims=True) * 2)
        return R.subtract(t[0], t[1])
"""
VALUES = ("0", "-1", "1.5", "x", "A", "C", "T", "R", "i", '"S"', "None", "cls", "()", "[]", "{}")
MORE = ("T.exp", "R.add", "(1, 2)", "(lambda: 0)", "True", "...", "b''", "f'{A}'", "*A", "A[0]")
CALLS = ("T.float32(0)", "R.const(1)", "range(3)", "T.axis", "T.grid(2, 3)", "float", "Y[0, 0]")
OPERATORS = ("+", "-", "/", "//", "%", "**", "@", "<", "==", "and", "or", "if", ",", ":", "=", ".")


def changed(text: str, rng: random.Random) -> str:
    """`text` with one or two tokens replaced, mostly so that it stays Python."""
    lines = text.split("\n")
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.string.strip()]
    for _ in range(rng.randint(1, 2)):
        token = rng.choice(tokens)
        operator = token.type == tokenize.OP
        other = rng.choice(OPERATORS if operator else (*VALUES, *MORE, *CALLS))
        if not operator and rng.random() < 0.4:
            other = rng.choice([t.string for t in tokens if t.type != tokenize.OP])
        (row, start), (last, end) = token.start, token.end
        if row == last and lines[row - 1][start:end] == token.string:
            lines[row - 1] = lines[row - 1][:start] + other + lines[row - 1][end:]
    return "\n".join(lines)


def check(text: str) -> None:
    try:
        parse(text)
    except ScriptError as error:
        shown = str(error)
        assert error.span is not None, text
        assert len(shown.split("\n")) <= MAX_LINES, shown


@pytest.mark.parametrize("seed", range(30))
def test_the_course_module_changed(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(12):
        check(changed(COURSE, rng))


@pytest.mark.parametrize("seed", range(30))
def test_random_functions_changed(seed: int) -> None:
    rng = random.Random(seed)
    for make in (random_prim_func, random_graph):
        text = make(seed).script()
        for _ in range(4):
            check(changed(text, rng))
