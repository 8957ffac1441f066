"""Limits: deep and large programs, huge numbers, odd names work, or get one typed error at once."""

import copy
import sys
import warnings

import numpy as np
import pytest

import minimlc as mlc
from minimlc import parse, te
from minimlc.graphs.ir.nodes import TensorType, Tuple, TupleType
from minimlc.loops.ir.nodes import (
    Block,
    BlockIter,
    Buffer,
    Const,
    Expr,
    For,
    IfThenElse,
    PrimFunc,
    Seq,
    Store,
    Unary,
    Var,
    index,
)
from minimlc.loops.values.depth import MOST_LEVELS
from minimlc.loops.values.node import structural_equal, structural_hash
from minimlc.script import R, T
from tests.helpers import refuses
from tests.roundtrip import assert_round_trips

HEAD = "@T.prim_func\ndef main(A: T.Buffer((8,), 'float32')):\n"
A, C = Buffer("A", (8,), "float32"), Buffer("C", (8,), "float32")
ELIF = "    if A[0] > 150:\n        A[0] = 1.0\n"
DEEP = {
    "a sum": f"    A[0] = {' + '.join(['A[1]'] * 500)}\n",
    "signs": f"    A[0] = {'-' * 500}A[1]\n",
    "conditions": f"    if {' and '.join(['A[1] > 0'] * 500)}:\n        A[0] = 1.0\n",
    "branches": ELIF + "".join(f"    elif A[0] > {n}:\n        A[0] = 2.0\n" for n in range(150)),
}


def written(value: Expr) -> PrimFunc:
    """A function that stores a value of `i` to each element of C."""
    return PrimFunc((A, C), (), For(I, index(8), "serial", Store(C, (I,), value)))


I = Var("i")


@pytest.mark.parametrize("name", DEEP)
def test_deep_programs_are_programs(name):
    mod = parse(HEAD + DEEP[name])
    assert_round_trips(mod)
    assert structural_hash(mod) == structural_hash(parse(HEAD + DEEP[name]))
    wanted = np.linspace(-1, 1, 8).astype("float32")
    got = wanted.copy()
    mlc.interpret(mlc.verify(mod), "main", wanted)
    mlc.build(mod, cache=False)["main"](got)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.requires("cc")
def test_deep_programs_in_c():
    mod = parse(HEAD + DEEP["a sum"])
    data = np.ones(8, "float32")
    mlc.build(mod, "c", cache=False)["main"](data)
    assert data[0] == 500


def test_a_deep_program_is_scheduled():
    total = A[I]
    for _ in range(500):
        total = total + A[I]
    sch = mlc.Schedule(mlc.IRModule({"main": written(total)})).split("i", [None, 4])
    data, out = np.ones(8, "float32"), np.zeros(8, "float32")
    mlc.build(sch.mod, cache=False)["main"](data, out)
    assert out.tolist() == [501] * 8


@pytest.mark.parametrize(
    ("body", "line", "shown"),
    [
        (f"    A[0] = {'+'.join(['A[1]'] * 1500)}\n", 3, "expression nests too deeply"),
        (f"    A[0] = 1.0\n    A[0] = {'+'.join(['A[1]'] * 5000)}\n", 4, "nests too deeply"),
        (f"    A[0] = 1.0\n    A[0] = {'-' * 25_000}A[1]\n    A[0] = 1.0\n", 4, "nests too deeply"),
        (
            ELIF + "    elif A[0] > 2:\n        A[0] = 2.0\n" * 1500,
            None,
            "program nests too deeply",
        ),
        (
            "    A[0] = 1.0\n    A[0] = (\n" + "- \\\n" * 25_000 + "A[1])\n",
            None,
            "nests too deeply",
        ),
    ],
    ids=range(5),
)
def test_too_deep_a_text(body, line, shown):
    error = refuses("E134", lambda: parse(HEAD + body), shown)
    assert isinstance(error, mlc.ScriptError) and error.span is not None
    assert line is None or error.span.line == line


def test_a_chain_of_indices_is_read_once():
    """Reading what is indexed once more at each level would take 2**60 steps."""
    chain = "(" * 60 + "2.0" + ",)" * 60 + "[0]" * 60
    assert structural_equal(parse(HEAD + f"    A[0] = {chain}"), parse(HEAD + "    A[0] = 2.0"))


def test_too_deep_an_annotation():
    text = f"@T.prim_func\ndef main(A: '{'-' * 1990}T.Buffer((8,))'):\n    A[0] = 1.0\n"
    with pytest.raises(mlc.ScriptError):
        parse(text)
    with pytest.raises(mlc.ScriptError):
        parse(text.replace("-" * 1990, "-" * 25_000))


def test_trees_that_are_too_deep_cannot_be_made():
    value = A[I]
    with pytest.raises(mlc.CompileError, match="nests too deeply") as caught:
        for _ in range(MOST_LEVELS + 1):
            value = Unary("-", value)
    assert caught.value.code == "E134"
    stmt = Store(C, (I,), A[I])
    with pytest.raises(mlc.CompileError, match="program nests too deeply"):
        for number in range(MOST_LEVELS // 4 + 1):
            stmt = For(Var(f"k{number}"), index(1), "serial", stmt)


def test_room_for_recursion_only_grows_for_those_who_need_it():
    before = sys.getrecursionlimit()
    assert before >= 1000
    written(A[I] + 1.0)
    assert sys.getrecursionlimit() == before


def test_names_that_double():
    body = "    for i in range(8):\n        a0 = i + 1\n"
    body += "".join(f"        a{n + 1} = a{n} + a{n}\n" for n in range(40))
    error = refuses("E134", lambda: parse(HEAD + body + "        A[a40 % 8] = 1.0\n"))
    assert error.span.text.strip() == "a15 = a14 + a14" and error.span.line == 19


@pytest.mark.parametrize("first", ["17", "(1, 2)", "'ab'"])
def test_constants_that_double(first):
    sign = "*" if first == "17" else "+"
    body = f"    a0 = {first}\n" + "".join(f"    a{n + 1} = a{n} {sign} a{n}\n" for n in range(40))
    error = refuses("E123", lambda: parse(HEAD + body + "    A[0] = 1.0\n"), "this constant has")
    assert f"{sign} a" in error.span.text
    pairs = body.replace("+", ",").replace("*", ",")
    if first == "(1, 2)":
        refuses("E123", lambda: parse(HEAD + pairs + "    A[0] = 1.0\n"), "items")


def test_expressions_that_double_by_hand_and_in_te():
    def doubled(value):
        for _ in range(40):
            value = value + value
        return value

    refuses("E134", lambda: doubled(A[I]))
    X = te.placeholder((8,), name="X")
    refuses("E134", lambda: te.compute((8,), lambda i: doubled(X[i])))
    body = Store(C, (I,), A[I])
    with pytest.raises(mlc.CompileError, match="program is too large"):
        for _ in range(40):
            body = Seq((body, body))


def test_values_of_the_graph_share_without_end_until_they_are_walked_over():
    x = mlc.Var("x", TensorType((4,), "float32"))
    total = x
    for _ in range(60):
        total = mlc.op.add(total, total)
    for walk in (repr, structural_hash, lambda value: structural_equal(value, value)):
        refuses("E134", lambda walk=walk: walk(total), "this value is too large")
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(total))
    assert len(list(mlc.verify(bb.get())["main"].bindings())) == 60


def test_long_graph_functions():
    x = mlc.Var("x", R.Tensor((4,), "float32"))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        y = x
        for _ in range(1500):
            y = bb.emit(mlc.op.negative(y))
        bb.emit_func_output(y)
    mod = mlc.verify(bb.get())
    assert_round_trips(mod)
    data = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(mlc.interpret(mod, "main", data), data)


def test_copies_of_nodes_are_whole():
    func = written(A[I] + 1.0)
    again = copy.deepcopy(func)
    assert structural_equal(func, again)
    assert (
        structural_equal(PrimFunc(again.params, (), Seq((again.body, again.body))), again) is False
    )


# Numbers


NUMBERS = (
    "(2**63)**910",
    "2**10**9",
    "1 << 10**12",
    "round(5, -10**12)",
    "10**400",
    "0x" + "f" * 9999,
)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "text",
    [
        "@T.prim_func\ndef main(A: T.Buffer(({},), 'int32')):\n    A[0] = 1\n",
        "@R.function\ndef main(x: R.Tensor(({},), 'int32')):\n    return x\n",
        HEAD + "    for i in range({}):\n        A[0] = 1.0\n",
        HEAD + "    for i in range(8):\n        with T.block('b'):\n"
        "            v = T.axis.spatial({}, i)\n            A[v] = 1.0\n",
        HEAD + "    A[{}] = 1.0\n",
        HEAD + "    A[0] = {}\n",
        HEAD + "    A[0] = T.float32({}) + T.cast({}, 'float32')\n",
    ],
)
def test_numbers_that_are_too_large(text, number):
    with pytest.raises(mlc.ScriptError) as caught:
        parse(text.replace("{}", number))
    assert caught.value.span is not None and caught.value.code in ("E108", "E123", "E125")


@pytest.mark.parametrize("size", [2**63, 10**5000, -1, True, 1.5], ids=range(5))
def test_sizes_have_a_limit(size):
    refuses("E205", lambda: mlc.Var("x", R.Tensor((size,), "int8")))
    refuses("E130", lambda: te.placeholder((size,)))
    odd = Buffer("Y", (size,), "int8")
    refuses("E101", lambda: mlc.verify(PrimFunc((A, odd), (), Store(A, (index(0),), A[1]))), "Y")
    it = BlockIter(Var("v"), size, "S", index(0))
    block = Block("b", (it,), None, None, Store(A, (index(0),), A[1]))
    refuses("E101", lambda: mlc.verify(PrimFunc((A,), (), block)), "the extent of v")


@pytest.mark.parametrize(
    "bounds", [(0, 2**63), (-(2**63), 1), (10**5000, 10**5000 + 1)], ids=range(3)
)
def test_reduce_axes_stay_in_their_type(bounds):
    refuses("E130", lambda: te.reduce_axis(bounds))


@pytest.mark.parametrize("value", [2**40, 10**5000, 1.5, "1"], ids=range(4))
def test_constants_by_hand_are_of_their_dtype(value):
    odd = PrimFunc((C,), (), Store(C, (index(0),), T.cast(Const(value, "int32"), "float32")))
    refuses("E108", lambda: mlc.verify(odd), "int32")
    refuses("E108", lambda: te.compute((2,), lambda i: T.float32(10**400) + i.astype("float32")))


def test_numbers_of_attributes():
    text = HEAD + "    for i in T.serial(8, annotations={'a': 10**300}):\n        A[i] = 1.0\n"
    assert_round_trips(mlc.verify(parse(text)))
    for value in (1 << 60_000, (1, (1 << 60_000,)), [1], np.zeros(3), ("a" * 2**17,), {}):
        func = PrimFunc((A,), (), Store(A, (index(0),), A[1]), (("a", value),))
        refuses("E101", lambda func=func: mlc.verify(func), "the attribute a")
        loop = For(I, index(8), "serial", Store(A, (I,), A[1]), annotations=(("a", value),))
        refuses("E101", lambda loop=loop: mlc.verify(PrimFunc((A,), (), loop)), "the attribute a")
    large = PrimFunc((A,), (), Store(A, (index(0),), A[1]), (("a", 1 << 60_000),))
    assert "0x1000" in large.script() and len(structural_hash(large)) == 32


# Names

ODD = ("\ud800", "a\0b", "a\nb", "", "x" * 10_000_000, 7, None)
FINE = ("for", "a b", "é", "1st", "T", '"', "\\", "ﬁ", "x" * 1000)


def named(name: str) -> dict[str, mlc.IRModule]:
    """Modules in which a thing of each kind has the name."""
    here = Store(A, (index(0),), A[1])
    v, y = Var(name), Buffer(name, (8,), "float32")
    it = BlockIter(v, 8, "S", I)
    blocks = {
        "block": Block(name, (), None, None, here),
        "iter": Block("b", (it,), None, None, Store(A, (v,), A[v])),
    }
    functions = {
        "loop": PrimFunc((A,), (), For(v, index(8), "serial", Store(A, (v,), A[v]))),
        "buffer": PrimFunc((A,), (y,), Seq((Store(y, (index(0),), A[1]), here))),
        "parameter": PrimFunc((A, y), (), Store(y, (index(0),), A[1])),
        **{kind: PrimFunc((A,), (), For(I, index(8), "serial", b)) for kind, b in blocks.items()},
    }
    modules = {kind: mlc.IRModule({"main": func}) for kind, func in functions.items()}
    modules["function"] = mlc.IRModule({name: PrimFunc((A,), (), here)})
    modules["attribute"] = mlc.IRModule({"main": PrimFunc((A,), (), here, ((name, 1),))})
    x = mlc.Var(name, TensorType((4,), "float32"))
    modules["variable"] = mlc.IRModule({"main": mlc.Function((x,), (), x)})
    return modules


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
def test_odd_names_are_refused(name):
    for kind, mod in named(name).items():
        with pytest.raises(mlc.VerifyError, match="the name of this") as caught:
            mlc.verify(mod)
        assert len(str(caught.value)) < 400, kind
        str(caught.value).encode()


@pytest.mark.parametrize("name", FINE, ids=range(len(FINE)))
def test_names_that_scripts_can_spell(name):
    for kind, mod in named(name).items():
        assert_round_trips(mlc.verify(mod))
        again = parse(mod.script())
        assert kind != "function" or list(again.functions) == [name]


def test_half_a_character_in_a_text_is_pointed_at():
    for odd, words in (("\ud800", "ud800"), ("\0", "x00")):
        error = refuses(
            "E127", lambda odd=odd: parse(HEAD + f"    A[0] = 1.0\n    # {odd}\n"), words
        )
        assert error.span.line == 4
        str(error).encode()


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for body in DEEP.values():
            parse(HEAD + body)
        IfThenElse(A[0] > 1.0, Store(A, (index(0),), A[1]))


def test_tuples_have_limits():
    kind = TensorType((4,), "float32")
    x = mlc.Var("x", kind)
    value, deep = x, x
    with pytest.raises(mlc.CompileError, match="a tuple has at most"):
        for _ in range(40):
            kind = TupleType((kind, kind))
    with pytest.raises(mlc.CompileError, match="a tuple has at most"):
        for _ in range(40):
            value = Tuple((value, value))
    with pytest.raises(mlc.CompileError, match="a tuple has at most"):
        for _ in range(400):
            deep = Tuple((deep,))
    lines = "".join(f"    a{n + 1} = (a{n}, a{n})\n" for n in range(40))
    text = f"@R.function\ndef main(x: R.Tensor((4,))):\n    a0 = x\n{lines}    return a40\n"
    assert refuses("E134", lambda: parse(text)).span.line == 15


@pytest.mark.parametrize("value", [10**400, 10**5000], ids=range(2))
def test_arguments_of_operators_and_steps_have_limits(value):
    x = mlc.Var("x", TensorType((4,), "float32"))
    for call in (
        lambda: mlc.op.reshape(x, (value,)),
        lambda: mlc.op.sum(x, axis=value),
        lambda: mlc.op.pad(x, ((1, 0),), value),
        lambda: mlc.op.full((4,), value, "float32"),
        lambda: mlc.op.arange(0, value),
    ):
        refuses("E204", call, "bits")
    sch = mlc.Schedule(mlc.IRModule({"main": written(A[I])}))
    refuses("E118", lambda: sch.split("i", [None, value]), "bits")
    refuses("E118", lambda: sch.annotate("i", "key", value), "bits")


@pytest.mark.requires("thorough")
def test_steps_that_double_an_expression():
    X = te.placeholder((4,), name="X")
    last = X
    for n in range(18):
        last = te.compute((4,), lambda i, Y=last: Y[i] + Y[i], name=f"t{n}")
    sch = mlc.Schedule(mlc.IRModule({"main": te.create_prim_func([X, last])}), check=False)
    with pytest.raises(mlc.ScheduleError, match="this expression is too large") as caught:
        for n in range(17):
            sch = sch.compute_inline(f"t{n}")
    assert caught.value.code == "E118"
