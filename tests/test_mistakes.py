"""Mistakes that newcomers make with the public names: each gets one short error that helps."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import R
from tests.helpers import refuses
from tests.schedule.programs import MatmulRelu

X = mlc.Var("x", R.Tensor((2, 3), "float32"))
SCH = mlc.Schedule(MatmulRelu)


class Plain:
    """A class whose decorator was forgotten."""


def loops_for_axes():
    return mlc.verify(
        mlc.parse("""
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[i, j] = A[i, j]
""")
    )


LEGALIZE = mlc.passes.legalize


def set_mod():
    SCH.mod = MatmulRelu


def set_new():
    SCH.anything = 1


def forgetful(mod):
    """A pass that does not return what it made."""


@pytest.mark.parametrize(
    ("code", "call", "word"),
    [
        ("E132", lambda: mlc.Schedule(Plain), "@I.ir_module"),
        ("E132", lambda: mlc.verify(Plain), "@I.ir_module"),
        ("E132", lambda: mlc.Schedule(None), "mlc.parse"),
        ("E132", lambda: mlc.build(SCH), "build(sch.mod)"),
        ("E132", lambda: mlc.recipes.apply(SCH), "recipes.apply(sch.mod)"),
        ("E132", lambda: mlc.run_passes(None, []), "run_passes takes a module, got NoneType"),
        ("E132", lambda: mlc.run_passes(MatmulRelu, LEGALIZE), "got the function legalize itself"),
        ("E132", lambda: mlc.run_passes(MatmulRelu, None), "of a module, got None"),
        ("E132", lambda: mlc.run_passes(MatmulRelu, [LEGALIZE, 3]), "functions of a module, got 3"),
        ("E132", lambda: mlc.run_passes(MatmulRelu, [forgetful]), '"forgetful" returned NoneType'),
        ("E132", lambda: mlc.build(MatmulRelu, pipeline=LEGALIZE), "the function legalize itself"),
        ("E230", lambda: mlc.passes.bind_params(MatmulRelu, [X]), "got list"),
        ("E132", lambda: mlc.recipes.rows(MatmulRelu), "takes a Schedule, got IRModule"),
        ("E105", lambda: mlc.recipes.attempt(SCH, "vectorise", "j"), "vectorize"),
        ("E105", lambda: mlc.recipes.attempt(SCH, "vectorize", "jj"), 'no loop "jj"'),
        ("E133", set_mod, "never changes"),
        ("E133", set_new, "never changes"),
        ("E105", lambda: SCH.split("i", factor=[None, 4]), 'no "factor"'),
        ("E103", loops_for_axes, "write vi where it says i"),
        ("E205", lambda: mlc.Var("x", (2, 3)), "R.Tensor"),
        ("E201", lambda: np.exp(X), "mlc.op.exp"),
        ("E612", lambda: MatmulRelu["main"](1, 2, 3), "mlc.build"),
    ],
)
def test_a_mistake_gets_one_short_error(code, call, word):
    refuses(code, call, word)


@pytest.mark.parametrize("name", [n for n in mlc.passes.__all__ if n != "default_pipeline"])
@pytest.mark.parametrize("value", [None, MatmulRelu["main"], SCH])
def test_passes_take_modules(name, value):
    refuses("E132", lambda: getattr(mlc.passes, name)(value), f"{name} takes a module, got")


@pytest.mark.parametrize(
    ("name", "known"), [("softmax", "rowwise"), ("pooling", "windows"), ("matmull", "matmul")]
)
def test_a_recipe_is_found_by_its_works_name(name, known):
    with pytest.raises(AttributeError, match=known):
        getattr(mlc.recipes, name)


def test_functions_are_found_by_name():
    with pytest.raises(AttributeError, match='mod\\["main"\\]'):
        _ = MatmulRelu.main


def test_a_single_function_is_verified_too():
    assert mlc.verify(MatmulRelu["main"]) is MatmulRelu["main"]


def test_numpy_integers_are_factors():
    sch = SCH.split("i", [None, np.int64(4)])
    assert mlc.Schedule.replay(MatmulRelu, sch.trace.to_json()).trace == sch.trace


def test_a_mutator_may_call_what_it_overrides():
    class Same(mlc.Mutator):
        def visit_Call(self, call):
            return super().visit_Call(call)

    builder = mlc.BlockBuilder()
    with builder.function("main", [X]):
        with builder.dataflow():
            out = builder.emit_output(mlc.op.relu(X) + X * 2.0)
        builder.emit_func_output(out)
    mod = builder.get()
    assert Same()(mod) is mod
    value = np.full((2, 3), -1, np.float32)
    np.testing.assert_array_equal(mlc.interpret(mod, "main", value), np.maximum(value, 0) - 2)
