"""Mistakes that newcomers make with the public names: each gets one short error that helps."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import te
from minimlc.script import R
from tests.helpers import refuses
from tests.schedule.programs import MatmulRelu

X = mlc.Var("x", R.Tensor((2, 3), "float32"))
SCH = mlc.Schedule(MatmulRelu)
BYTES, INTS = (te.placeholder((4,), dtype, name="A") for dtype in ("int8", "int32"))
SMALL = mlc.Var("x", R.Tensor((4,), "int8"))


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
        ("E132", lambda: mlc.build(SCH), "build(x.mod)"),
        ("E132", lambda: mlc.recipes.apply(SCH), "recipes.apply(x.mod)"),
        ("E132", lambda: mlc.run_passes(None, []), "run_passes takes a module, got NoneType"),
        ("E132", lambda: mlc.run_passes(MatmulRelu, LEGALIZE), "got the function legalize itself"),
        ("E132", lambda: mlc.run_passes(MatmulRelu, None), "of a module, got None"),
        ("E132", lambda: mlc.run_passes(MatmulRelu, [LEGALIZE, 3]), "functions of a module, got 3"),
        ("E132", lambda: mlc.run_passes(MatmulRelu, [forgetful]), '"forgetful" returned NoneType'),
        ("E132", lambda: mlc.build(MatmulRelu, pipeline=LEGALIZE), "the function legalize itself"),
        ("E230", lambda: mlc.passes.bind_params(MatmulRelu, [X]), "got list"),
        ("E132", lambda: mlc.recipes.rows(MatmulRelu), "takes a Schedule, got IRModule"),
        ("E132", lambda: mlc.run_passes(MatmulRelu, "legalize"), "got 'legalize'"),
        ("E132", lambda: mlc.parse(None), "takes a text, got NoneType"),
        ("E230", lambda: mlc.passes.remove_unused(MatmulRelu, "main"), "entries=['main']"),
        ("E105", lambda: mlc.passes.remove_unused(MatmulRelu, [None]), 'no function "None"'),
        ("E211", lambda: mlc.BlockBuilder().function("a b", [X]).__enter__(), "an identifier"),
        ("E211", lambda: mlc.BlockBuilder().function("for", [X]).__enter__(), "an identifier"),
        ("E108", lambda: te.placeholder((8,), "f4"), '"float32"'),
        ("E108", lambda: te.placeholder((8,), "(f4"), 'unknown dtype "(f4"'),
        ("E108", lambda: te.placeholder((8,), None), 'unknown dtype "None"'),
        ("E108", lambda: te.placeholder((8,), [3]), 'unknown dtype "[3]"'),
        ("E108", lambda: BYTES[0] + 200, "200 is not in -128 ... 127, as int8 is"),
        ("E108", lambda: BYTES[0] < 300, "300 is not in"),
        ("E108", lambda: 2**40 - INTS[0], "1099511627776 is not in"),
        ("E123", lambda: mlc.constant(2.7, "int8"), "2.7 is not a value of int8"),
        ("E123", lambda: mlc.constant([1, 300], "int8"), "300 is not a value of int8"),
        ("E123", lambda: mlc.constant([np.nan], "int32"), "nan is not a value of int32"),
        ("E123", lambda: mlc.constant(-1, "uint8"), "-1 is not a value of uint8"),
        ("E123", lambda: mlc.constant(1e6, "float16"), "1000000.0 is not a value of float16"),
        ("E123", lambda: mlc.constant(2, "bool"), "2 is not a value of bool"),
        ("E123", lambda: mlc.constant(2**70, "int64"), "no constant of these values"),
        ("E123", lambda: mlc.constant([[1], [1, 2]]), "no constant of these values"),
        (
            "E204",
            lambda: mlc.op.pad(SMALL, ((1, 1),), value=300),
            "300 is not a value of int8",
        ),
        ("E105", lambda: mlc.recipes.attempt(SCH, "vectorise", "j"), "vectorize"),
        ("E105", lambda: mlc.recipes.attempt(SCH, "vectorize", "jj"), 'no loop "jj"'),
        ("E133", set_mod, "never changes"),
        ("E133", set_new, "never changes"),
        ("E105", lambda: SCH.split("i", factor=[None, 4]), 'no "factor"'),
        ("E103", loops_for_axes, "write vi where it says i"),
        ("E205", lambda: mlc.Var("x", (2, 3)), "R.Tensor"),
        ("E201", lambda: np.exp(X), "mlc.op.exp(x)"),
        ("E201", lambda: np.ones(3) * X, 'mlc.op.multiply(mlc.constant(a, "float32"), x)'),
        ("E201", lambda: np.sum(X), "mlc.op.sum(x)"),
        ("E505", lambda: mlc.build(MatmulRelu, cache="no"), "mlc.build(mod, cache=False)"),
        ("E505", lambda: mlc.build(MatmulRelu, recipes="no"), "mlc.build(mod, recipes=False)"),
        ("E118", lambda: mlc.Schedule(MatmulRelu, check="no"), "mlc.Schedule(mod, check=False)"),
        ("E132", lambda: mlc.interpret(SCH, "main"), "mlc.interpret(x.mod)"),
        ("E132", lambda: mlc.IRModule.of(SCH.func), '({"main": func})'),
        ("E132", lambda: mlc.BlockBuilder("x"), "takes a module, got str"),
        ("E211", lambda: mlc.BlockBuilder().function("main", X).__enter__(), '"main", [x])'),
        ("E211", lambda: mlc.BlockBuilder().function("main", 3).__enter__(), "got 3"),
        ("E213", lambda: mlc.BlockBuilder().call_te(None), "bb.emit_te(lambda"),
        ("E614", lambda: mlc.register_func("n", "text"), "got 'text'"),
        ("E612", lambda: MatmulRelu["main"](1, 2, 3), "mlc.build"),
        ("E501", lambda: mlc.passes.for_target(MatmulRelu), "got IRModule"),
        ("E132", lambda: mlc.passes.for_target("c", mlc.passes.legalize), "legalize itself"),
    ],
)
def test_a_mistake_gets_one_short_error(code, call, word):
    refuses(code, call, word)


NO_PASSES = "default_pipeline", "for_target"


@pytest.mark.parametrize("name", [n for n in mlc.passes.__all__ if n not in NO_PASSES])
@pytest.mark.parametrize("value", [None, MatmulRelu["main"], SCH])
def test_passes_take_modules(name, value):
    refuses("E132", lambda: getattr(mlc.passes, name)(value), f"{name} takes a module, got")


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.float32, "float32"])
def test_numpys_dtypes_are_dtypes(dtype):
    assert te.placeholder((8,), dtype).dtype == "float32"
    assert mlc.constant([1, 2], dtype).data.dtype == np.float32


def test_constants_are_rounded_and_keep_what_is_infinite():
    assert mlc.constant(0.1, "float32").data == np.float32(0.1)
    assert mlc.constant(np.inf, "float16").data == np.inf
    assert np.isnan(mlc.constant(np.nan, "float16").data)
    assert mlc.constant(3.0, "int8").data == 3
    assert (BYTES[0] * -128).b.value == -128


@pytest.mark.parametrize("name", ["a b", "é", "x$y"])
def test_functions_may_have_any_name(name):
    """A text cannot say it, machine code can."""
    lib = mlc.build(mlc.IRModule.of({name: MatmulRelu["main"]}), cache=False)
    arguments = [np.ones(p.shape, p.dtype) for p in MatmulRelu["main"].params]
    lib[name](*arguments)
    assert arguments[-1].max() == arguments[0].shape[1]


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
