"""Wrong scripts: one error of at most 15 lines, with place, token, and what would be right."""

from textwrap import dedent, indent

import pytest

from minimlc import ScriptError, parse
from minimlc.loops.values.errors import MAX_LINES
from minimlc.script import T
from tests.helpers import refuses

LOOPS = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32"), N: T.Buffer((8,), "int32")):
"""
GRAPH = """
@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
"""
BLOCK = """
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
"""
# (statements, code, the underlined token, words of the message)
IN_LOOPS = [
    ("for i in T.gird(8):\n    pass", "E120", "gird", '"grid"'),
    ("C[0, 0] = T.exq(A[0, 0])", "E120", "exq", '"exp"'),
    ("with T.block('C', nme=3):\n    pass", "E121", "nme", '"name"'),
    ("Y = T.alloc_buffer((8,), dtyp='int8')", "E121", "dtyp", '"dtype"'),
    ("Y = T.alloc_buffer((8,), 'int8', 'local', 3)", "E121", "3", "at most 3"),
    ("Y = T.decl_buffer((8,), data=A)", "E124", "A", "memory of its own"),
    ("Y = T.decl_buffer((8,), elem_offset=4)", "E124", "4", "elem_offset"),
    (
        "for i in range(8):\n    with T.block('b'):\n        T.reads(A[i, 1])\n"
        "        C[i, 0] = A[i, 0]",
        "E110",
        "A[i, 0]",
        "T.reads does not declare",
    ),
    ("Y = T.alloc_buffer()", "E121", "T.alloc_buffer()", "misses shape"),
    ("for i in T.vectorized(8, anotations={}):\n    pass", "E121", "anotations", "annotations"),
    ("for i in T.thread_binding(8):\n    pass", "E121", "T.thread_binding(8)", "threadIdx.x"),
    ("C[0, 0] = T.exp(A[0, 0], 1)", "E121", "1", "at most 1"),
    ("for i in range(m):\n    pass", "E122", "m", "not defined"),
    ("C[0, 0] = A[ii, 0]", "E122", "ii", "not defined"),
    ("AA[0, 0] = 1.0", "E122", "AA", '"A"'),
    ("Y = T.alloc_buffer((N, 2))", "E123", "N", "must be a constant"),
    ("Y = T.alloc_buffer((2, 2.5))", "E123", "2.5", "integer"),
    ("Y = T.alloc_buffer((2, 2), 'flot32')", "E108", "'flot32'", '"float32"'),
    ("C[0] = A[0, 0]", "E107", "C[0]", "2 dimension(s), got 1"),
    ("C[0, 0] = A[0, 0, 0]", "E107", "A[0, 0, 0]", "shape (8, 8)"),
    ("C[0, 0] = A[0, 0.5]", "E107", "0.5", "integer"),
    ("C[0, 0] = A[0, A[0, 0]]", "E107", "A[0, 0]", "float32"),
    ("C[0:4, 0] = 1.0", "E107", "0:4", "slice"),
    ("C[0, 0] = A[0, 0] + N[0]", "E108", "A[0, 0] + N[0]", "float32 and int32"),
    ("C[0, 0] = N[0]", "E108", "N[0]", "holds float32"),
    ("C[0, 0] += N[0]", "E108", "N[0]", "float32 and int32"),
    ("C[0, 0] = A", "E108", "A", "A[i, j]"),
    ("C[0, 0] = 'one'", "E108", "'one'", "a number"),
    ("C[0, 0] = T.exp(N[0])", "E108", "T.exp(N[0])", "int32"),
    ("C[0, 0] = T.int8(300)", "E108", "T.int8(300)", "127"),
    (
        "Y = T.alloc_buffer(8, 8, 'int8')",
        "E126",
        "T.alloc_buffer(8, 8, 'int8')",
        '((8, 8), "int8")',
    ),
    ("C[0, 0] = A[0][1]", "E107", "A[0][1]", "write A[0, 1]"),
    ("C[0][1] = 1.0", "E107", "C[0][1]", "write C[0, 1]"),
    (
        "for i in range(8):\n    C[i, 0] = A[i, 0] * N[i]",
        "E108",
        "A[i, 0] * N[i]",
        'T.cast(N[i], "float32")',
    ),
    ("C[0, 0] = N[0] * A[0, 0]", "E108", "N[0] * A[0, 0]", 'T.cast(N[0], "float32")'),
    ("if A[0, 0]:\n    pass", "E108", "A[0, 0]", "bool"),
    ("while True:\n    pass", "E125", "True", "range(n)"),
    ("print(A)", "E124", "print(A)", "statement"),
    ("return C", "E124", "return", "buffers it is given"),
    ("import os", "E124", "import", "import"),
    ("T.evaluate(x)", "E122", "x", "not defined"),
    ("x = C[0, 0]\nC[0, 0] = 1.0\nC[1, 0] = x", "E124", "x", "read from memory"),
    ("C = A", "E124", "C", "cannot be replaced"),
    ("C[0, 0] = foo(A[0, 0])", "E124", "foo", "T.exp(x)"),
    ("C[0, 0] = np.exp(A[0, 0])", "E124", "np.exp", "T.exp(x)"),
    ("C[0, 0] = float(A[0, 0])", "E124", "float(A[0, 0])", "T.cast"),
    ("C[0, 0] = A[0, 0] @ A[0, 1]", "E124", "A[0, 0] @ A[0, 1]", "@"),
    ("C[0, 0] = lambda x: x", "E124", "lambda x: x", "lambda"),
    ("for i, j in T.grid(8):\n    pass", "E125", "i, j", "1 extent(s)"),
    ("for i in A:\n    pass", "E125", "A", "range(n)"),
    ("for i in reversed(8):\n    pass", "E125", "reversed", "range(n)"),
    ("for i in range(0, 8, 0):\n    pass", "E125", "0", "not 0"),
    ("for i in range(0, 8, N[0]):\n    pass", "E123", "N[0]", "constant"),
    ("with T.init():\n    pass", "E125", "T.init()", "inside a block"),
    ("vi = T.axis.spatial(8, 0)", "E125", "T.axis.spatial(8, 0)", "inside a block"),
]
IN_A_BLOCK = [
    ("vk = T.axis.spatal(8, i)", "E120", "spatal", '"spatial"'),
    ("va, vb = T.axis.remap('SX', [i, j])", "E125", "X", '"X"'),
    ("va, vb = T.axis.remap('SSR', [i, j])", "E125", "'SSR'", "3 kind(s)"),
    ("va, vb, vc = T.axis.remap('SS', [i, j])", "E125", "va, vb, vc", "3 name(s)"),
    ("va, vb = T.axis.remap('SS', [i, vj])", "E125", "vj", "loop"),
    ("va = T.axis.spatial(A, i)", "E123", "A", "constant"),
    ("va = T.axis.reduce((8, 1), i)", "E125", "(8, 1)", "(integer, integer)"),
    ("T.where(A[vi, vj])", "E108", "A[vi, vj]", "bool"),
    ("T.block_attr(3)", "E121", "3", "dict"),
    ("T.reads(A[vi])", "E107", "A[vi]", "2 dimension(s)"),
    ("T.reads(A[vj, vi])\nC[vi, vj] = A[vi, vj]", "E110", None, "does not declare"),
]
IN_GRAPHS = [
    ("return z", "E122", "z", "not defined"),
    ("return R.ad(x, y)", "E120", "ad", '"add"'),
    ("return R.add(x)", "E201", "R.add(x)", '"y"'),
    ("return R.sum(x, axs=1)", "E201", "axs=1", '"axis"'),
    ("return R.sum(x, axis=5)", "E204", "axis=5", "out of range"),
    ("return R.matmul(x, y)", "E203", "R.matmul(x, y)", "equal"),
    ("return add(x, y)", "E124", "add", "R.add(x, y)"),
    ("return x % y", "E124", "x % y", "%"),
    ("with R.dataflow():\n    lv = x", "E129", "R.dataflow()", "R.output"),
    ("with R.dataflow():\n    R.output(x)", "E129", "x", "not bound"),
    (
        "with R.dataflow():\n    a = x\n    b = a\n    R.output(b)\nreturn a",
        "E122",
        "a",
        "R.output",
    ),
    ("a, b = R.add(x, y)", "E129", "a, b", "tensor"),
    ("a, b = (x, y, x)", "E129", "a, b", "3 field(s)"),
    ("a = (x, y)\nreturn a[2]", "E129", "2", "tuple of 2"),
    ("return x[0]", "E129", "x[0]", "tensor"),
    ('a: R.Tensor((2, 4), "float32") = x', "E126", 'R.Tensor((2, 4), "float32")', "(2, 3)"),
    ("if x:\n    pass", "E124", "if", "R.where"),
    ("for i in range(3):\n    pass", "E124", "for", "prim_func"),
    ("x += y", "E124", "x", "R.add"),
    ("R.add(x, y)", "E124", "R.add(x, y)", "name"),
    ("return R.call_tir(man, x, out=R.Tensor((2,)))", "E122", "man", '"main"?'),
    ('return R.call_tir("f", x)', "E121", 'R.call_tir("f", x)', "out"),
    ('return R.call_tir("f", x, ot=3)', "E121", "ot", '"out"'),
    ('return R.call_tir("f", x, out=3)', "E126", "3", "a type"),
    ("return R.call_tir(cls.f, x)", "E122", "f", '"main"'),
    ("return 3", "E123", "3", "R.const"),
    ('return R.const([300], "uint8")', "E123", "[300]", "300"),
    ("return R.Tensr((2,))", "E120", "Tensr", '"Tensor"'),
    ("y = x", "E129", "main", "returns nothing"),
    ("return x\nz = x", "E129", "z = x", "follows"),
]
TEXTS = [
    ("@T.prim_func\ndef f(A: T.Bufer((8,))):\n    pass", "E120", "Bufer", '"Buffer"'),
    ("@T.prim_func\ndef f(A: T.Buffer((n,))):\n    pass", "E122", "n", "not defined"),
    ("@T.prim_func\ndef f(A: T.Buffer((8,), 'f32')):\n    pass", "E108", "'f32'", "dtype"),
    ("@T.prim_func\ndef f(A: T.Buffer(8, 8, 'int8')):\n    pass", "E126", None, "((8, 8),"),
    ("@T.prim_func\ndef f(A):\n    pass", "E126", "A", "no type"),
    ("@T.prim_func\ndef f(A: int):\n    pass", "E126", "int", "a buffer"),
    ("@T.prim_func\ndef f(a: T.handle):\n    pass", "E126", "a", "T.match_buffer"),
    ("@T.prim_func\ndef f(*A):\n    pass", "E126", "A", "plain"),
    ("@T.prim_fun\ndef f():\n    pass", "E120", "prim_fun", '"prim_func"'),
    ("@T.prim_func(nam='g')\ndef f():\n    pass", "E121", "nam", '"name"'),
    ("def f():\n    pass", "E129", "f", "@T.prim_func"),
    ("@T.prim_func\ndef f(:\n    pass", "E127", ":", "syntax"),
    ("@R.function\ndef f(x):\n    return x", "E126", "x", "no type"),
    ("@I.ir_modul\nclass M:\n    pass", "E120", "ir_modul", '"ir_module"'),
    ("class M:\n    pass", "E129", "M", "@I.ir_module"),
    ("@I.ir_module\nclass M:\n    x: int", "E124", "x: int", "functions"),
    ("", "E129", "", "no function"),
]
TWICE = "@T.prim_func\ndef f():\n    pass\n\n@R.function\ndef f():\n    return ()"
TEXTS.append((TWICE, "E129", "f", "two functions"))


def refused(text: str, code: str, token: str | None, *words: str) -> ScriptError:
    """`parse(text)` raises one short error that underlines `token` and has all `words`."""
    with pytest.raises(ScriptError) as caught:
        parse(text)
    error, shown = caught.value, str(caught.value)
    assert error.code == code, shown
    assert len(shown.split("\n")) <= MAX_LINES
    assert error.span is not None, shown
    underlined = error.span.text[error.span.column : error.span.end_column]
    assert token in (None, underlined), shown
    assert error.span.text == text.split("\n")[error.span.line - 1]
    for word in words:
        assert word in shown, shown
    return error


def inside(head: str, body: str, depth: int = 1) -> str:
    return dedent(head).lstrip("\n") + indent(body, "    " * depth)


@pytest.mark.parametrize(("body", "code", "token", "words"), IN_LOOPS)
def test_in_loops(body: str, code: str, token: str, words: str) -> None:
    refused(inside(LOOPS, body), code, token, words)


@pytest.mark.parametrize(("body", "code", "token", "words"), IN_A_BLOCK)
def test_in_a_block(body: str, code: str, token: str, words: str) -> None:
    refused(inside(LOOPS, BLOCK + indent(body, "        ")), code, token, words)


@pytest.mark.parametrize(("body", "code", "token", "words"), IN_GRAPHS)
def test_in_graphs(body: str, code: str, token: str, words: str) -> None:
    refused(inside(GRAPH, body), code, token, words)


@pytest.mark.parametrize(("text", "code", "token", "words"), TEXTS)
def test_texts(text: str, code: str, token: str, words: str) -> None:
    refused(text, code, token, words)


def test_the_whole_message() -> None:
    body = 'for i in range(8):\n    C[i, 0] = T.max(A[i, 0], T.float32(0), dtyp="float32")'
    error = refused(inside(LOOPS, body), "E121", "dtyp")
    assert str(error) == dedent(
        """\
        E121: T.max has no argument 'dtyp'
          at script, line 4
          | C[i, 0] = T.max(A[i, 0], T.float32(0), dtyp="float32")
          |                                        ^^^^
        try: known names: "a", "b"
        T.max(a, b)"""
    )


def test_columns_are_characters() -> None:
    error = refused(inside(LOOPS, 'C[0, 0] = T.exp("é" if 1 else m, nme=1)'), "E121", "nme")
    assert error.span is not None
    assert error.span.text[error.span.column :].startswith("nme")


def test_a_constant_whose_content_is_damaged() -> None:
    text = '@R.function\ndef f():\n    return R.const_data("AAAA", (2,), "float32")'
    refused(text, "E123", '"AAAA"', "not a float32 array")
    refused(text.replace("AAAA", "A"), "E123", '"A"', "not a float32 array")


@pytest.mark.parametrize(("name", "close"), [("maximum", '"max"'), ("maximun", '"max" or "min"')])
def test_a_far_name_is_no_near_miss(name: str, close: str) -> None:
    error = refused(inside(LOOPS, f"C[0, 0] = T.{name}(A[0, 0], 0.0)"), "E120", name)
    assert error.hint == f"did you mean {close}?"


def test_what_ipython_keeps_is_not_suggested() -> None:
    In, Inn = ["x = 1"], 3
    with pytest.raises(ScriptError) as caught:

        @T.prim_func
        def f(A: T.Buffer((8,), "float32")):
            A[0] = Inm

    assert '"In"' not in caught.value.hint
    assert '"Inn"' in caught.value.hint


@pytest.mark.parametrize("name", ["<timed exec>", "<magic-timeit>", "<string>"])
def test_a_script_below_a_cell_magic_is_told_of_it(name):
    text = "@T.prim_func\ndef main(A: T.Buffer((8,))):\n    A[0] = 1.0\n"
    refuses("E128", lambda: exec(compile(text, name, "exec"), {"T": T}), "without %%time")


MEANT = {
    "max(x, x)": "R.maximum(x, x)",
    "abs(x)": "R.abs(x)",
    "x // 2.0": "R.floor_divide(x, 2.0)",
    "x > 0 and x < 1": "R.logical_and(x > 0, x < 1)",
    "x[0]": "R.take(x, R.const(0), axis=0)",
    "c[:n]": "R.strided_slice(c, (0,), (n,))",
    "c[1:n, 0:2]": "R.strided_slice(c, (1, 0), (n, 2))",
}


@pytest.mark.parametrize("wrong", MEANT)
def test_python_of_numbers_names_the_operator_of_tensors(wrong):
    text = (
        "@R.function\n"
        'def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((8, 4), "float32")):\n'
        f"    y = {wrong}\n"
        "    return y"
    )
    with pytest.raises(ScriptError) as caught:
        parse(text)
    assert caught.value.hint.startswith(MEANT[wrong])
    parse(text.replace(wrong, MEANT[wrong]))


def test_a_tensor_of_a_script_has_no_shape():
    text = '@R.function\ndef main(x: R.Tensor(("n", 4), "float32")):\n    return x / x.shape[0]'
    refuses("E122", lambda: parse(text), 'names such as n of ("n", 4)')
