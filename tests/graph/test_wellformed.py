import numpy as np
import pytest

from minimlc.graphs import op
from minimlc.graphs.ir.nodes import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    Function,
    TensorType,
    Tuple,
    TupleGetItem,
    Var,
    call_function,
    call_tir,
)
from minimlc.loops.ir.nodes import Block, Store
from minimlc.loops.proofs.verify import verify
from minimlc.loops.te import te
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import replace
from tests.helpers import refuses

TYPE = TensorType((3, 4), "float32")
OTHER = TensorType((4, 3), "float32")
X, Y, Z = (Var(name, TYPE) for name in "xyz")
W = Var("w", OTHER)


def double():
    A = te.placeholder((3, 4), name="A")
    return te.create_prim_func([A, te.compute((3, 4), lambda i, j: A[i, j] + A[i, j], "B")])


def in_place():
    func = double()
    block = func.body.body.body
    assert isinstance(block, Block)
    store = block.body
    assert isinstance(store, Store)
    changed = replace(block, body=replace(store, buffer=func.params[0]))
    body = replace(func.body, body=replace(func.body.body, body=changed))
    return replace(func, body=body)


def module(*bindings, result=X, params=(X,), **functions):
    block = BindingBlock(tuple(Binding(var, value) for var, value in bindings), True)
    main = Function(tuple(params), (block,), result)
    return IRModule.of({"main": main, **functions})


def test_what_is_well_formed_is_returned():
    mod = module((Y, op.relu(X)), (Z, call_tir("double", (Y,), TYPE)), result=Z, double=double())
    assert verify(mod) is mod


@pytest.mark.parametrize(
    ("code", "mod", "words"),
    [
        ("E220", module(result=Y), ('"y", which is not bound before',)),
        ("E220", module((Y, op.relu(Z))), ("argument 0 of relu", '"z"')),
        ("E220", module((Y, op.relu(Var("x", TYPE)))), ("another variable has this name",)),
        ("E221", module((Y, op.relu(X)), (Y, op.exp(X))), ('"y" is bound twice',)),
        ("E221", module((Var("x", TYPE), op.relu(X))), ('two variables are called "x"',)),
        ("E222", module((W, op.relu(X))), ('"w" is declared R.Tensor((4, 3)', "(3, 4)")),
        ("E222", module((W, Call("relu", (X,), (), OTHER))), ("relu gives", "the call has type")),
        ("E223", module((Y, op.relu(op.exp(X)))), ("a nested Call", "bb.emit")),
        ("E224", module((Y, Call("rleu", (X,), (), TYPE))), ('no operator "rleu"', "relu")),
        ("E204", module((Y, Call("relu", (X,), (("b", 1),), TYPE))), ('attribute "b"',)),
        ("E203", module((Y, Call("matmul", (X, X), (), TYPE))), ("matmul", "must be equal")),
        ("E224", module((Y, call_tir("f", (X,), TYPE))), ('calls "f": no such function',)),
        (
            "E224",
            module((Y, call_function("f", (X,), TYPE)), f=double()),
            ('call cannot call "f", a PrimFunc', 'use "call_tir"'),
        ),
        (
            "E225",
            module((Y, call_tir("f", (X, X), TYPE)), f=double()),
            ("2 parameters", "2 argument(s) and 1 output(s)"),
        ),
        (
            "E225",
            module((W, call_tir("f", (X,), OTHER)), f=double()),
            ('output 0 of "f" (B) is R.Tensor((3, 4)', "(4, 3)"),
        ),
        (
            "E226",
            module((Y, call_tir("f", (X,), TYPE)), f=in_place()),
            ('"f" writes its argument A',),
        ),
        ("E222", module((Y, TupleGetItem(Tuple((X,)), 1))), ("field 1 of a tuple of 1",)),
    ],
)
def test_faults_are_named(code, mod, words):
    refuses(code, lambda: verify(mod), *words)


def test_a_circle_of_calls_is_refused():
    other = module((Z, call_function("main", (X,), TYPE)), result=Z)["main"]
    mod = module((Y, call_function("other", (X,), TYPE)), result=Y, other=other)
    refuses("E227", lambda: verify(mod), '"main"', "never end")


def test_a_constant_that_can_change_is_refused():
    refuses("E222", lambda: verify(module(result=Constant(np.zeros(3)))), "mlc.constant")
