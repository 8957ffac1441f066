"""Conditions and loops of graph functions: written, checked, interpreted, built, kept by passes."""

from functools import partial

import numpy as np
import pytest

import minimlc as mlc
from minimlc import passes
from minimlc.graphs.ir.nodes import TensorType
from minimlc.graphs.run import flatten
from minimlc.script import R
from minimlc.services.runtime.executable import NativeGraph
from tests.helpers import assert_close, random_array, refuses

F32 = "float32"
TEXT = """
@I.ir_module
class Control:
    @R.function
    def step(
        h: R.Tensor((b, 4), "float32"),
        x: R.Tensor((b, 3), "float32"),
        w: R.Tensor((3, 4), "float32"),
    ):
        new = R.tanh(R.matmul(x, w) + h)
        return (new, new * 2.0)

    @R.function
    def less(i: R.Tensor((), "int64"), y: R.Tensor((4,), "float32"), last: R.Tensor((), "int64")):
        c = R.less(i, last)
        return c

    @R.function
    def body(i: R.Tensor((), "int64"), y: R.Tensor((4,), "float32"), last: R.Tensor((), "int64")):
        j = i + R.const(1)
        z = y * 1.5 + R.cast(last, dtype="float32")
        return (j, z)

    @R.function
    def double(y: R.Tensor((4,), "float32")):
        z = y * 2.0
        return z

    @R.function
    def same(y: R.Tensor((4,), "float32")):
        return y

    @R.function
    def layer(
        x: R.Tensor((steps, b, 3), "float32"),
        h: R.Tensor((b, 4), "float32"),
        w: R.Tensor((3, 4), "float32"),
    ):
        r = R.scan(step, (h,), (x,), (w,))
        total = r[1] * 3.0
        return (r[0], total)

    @R.function
    def loop(i: R.Tensor((), "int64"), y: R.Tensor((4,), "float32"), last: R.Tensor((), "int64")):
        r = R.while_loop(less, body, (i, y), last)
        s = R.exp(r[1] * 0.01)
        return (r, s)

    @R.function
    def choose(p: R.Tensor((), "bool"), y: R.Tensor((4,), "float32")):
        r = R.cond(p, double, same, (y,))
        q = r + 1.0
        return q
"""
FIXED = TEXT.replace("steps, b, 3", "5, 2, 3").replace("(b, ", "(2, ")


def number(value, dtype="int64") -> np.ndarray:
    return np.array(value, dtype)


def calls(steps: int = 5, batch: int = 2) -> list[tuple]:
    """A call of each function, the loop of no rounds and of some."""
    rng = np.random.default_rng(steps)
    x, h, w = (random_array(s, F32, rng) for s in ((steps, batch, 3), (batch, 4), (3, 4)))
    y = random_array((4,), F32, rng)
    loops = [("loop", number(first), y, number(3)) for first in (0, 7)]
    choices = [("choose", number(p, "bool"), y) for p in (True, False)]
    return [("layer", x, h, w), *loops, *choices]


def agree(run, mod, listed) -> None:
    for name, *args in listed:
        assert_close(tuple(flatten([run(name)(*args)])), tuple(flatten([meant(mod, name, *args)])))


def meant(mod, name, *args):
    return mlc.interpret(mod, name, *args)


def test_the_interpreter_says_what_numpy_says():
    mod = mlc.verify(mlc.parse(TEXT))
    (_, x, h, w), (_, i, y, last), _, (_, p, _), _ = calls()
    for row in x:
        h = np.tanh(row @ w + h)
    np.testing.assert_allclose(meant(mod, "layer", *calls()[0][1:])[0], h, 1e-5, 1e-6)
    (count, z), _ = meant(mod, "loop", i, y, last)
    for _ in range(3):
        y = y * np.float32(1.5) + 3
    assert count == 3
    np.testing.assert_allclose(z, y, 1e-5)


@pytest.mark.parametrize("text", [TEXT, FIXED])
def test_it_is_printed_and_read_back(text):
    mod = mlc.verify(mlc.parse(text))
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)


C = pytest.param("c", marks=pytest.mark.requires("cc"))


OPENCL = pytest.param("opencl", marks=pytest.mark.requires("opencl"))


@pytest.mark.parametrize("target", ["llvm", "python", C, "gpusim", OPENCL])
def test_every_target_agrees(target):
    mod = mlc.parse(FIXED)
    lib = mlc.build(mod, target, recipes=False)
    agree(lambda name: lib[name], mod, calls())


def test_a_scan_of_symbolic_steps_and_batch():
    """No copies of the body: one module for any number of steps."""
    mod = mlc.parse(TEXT)
    lib = mlc.build(mod)
    for steps, batch in ((0, 1), (1, 2), (128, 1)):
        agree(lambda name: lib[name], mod, calls(steps, batch)[:1])


def test_a_library_with_loops_is_one_native_call_that_can_be_saved(tmp_path):
    """Branches and bodies become part of the entry points of the functions that name them."""
    mod = mlc.parse(FIXED)
    lib = mlc.build(mod, recipes=False)
    lib.save(tmp_path / "loops.mlc")
    loaded = mlc.load(tmp_path / "loops.mlc")
    assert all(isinstance(lib[name], NativeGraph) for name in ("layer", "loop", "choose"))
    agree(lambda name: loaded[name], mod, calls())
    assert repr(loaded.plan("layer")) == repr(lib.plan("layer"))


COPIES = """
@I.ir_module
class Copies:
    @R.function
    def body(
        h: R.Tensor((2,), "float32"), k: R.Tensor((2,), "float32"), x: R.Tensor((2,), "float32")
    ):
        y = h + x
        return (k, y, y, R.const([1.0, 2.0], "float32"), x)

    @R.function
    def main(
        h: R.Tensor((2,), "float32"), k: R.Tensor((2,), "float32"), x: R.Tensor((3, 2), "float32")
    ):
        r = R.scan(body, (h, k), (x,))
        return r
"""


def test_results_that_are_inputs_constants_or_each_other_are_copied():
    mod = mlc.parse(COPIES)
    args = [np.arange(size, dtype=F32).reshape(-1, 2).squeeze() + size for size in (2, 2, 6)]
    assert_close(mlc.build(mod)["main"](*args), meant(mod, "main", *args), exact=True)


def test_passes_keep_them_right():
    mod = mlc.parse(FIXED)
    entries = ["layer", "loop", "choose"]
    for step in (
        *passes.default_pipeline,
        passes.inline,
        partial(passes.remove_unused, entries=entries),
        partial(passes.remove_unused_parameters, entries=entries),
        partial(passes.remove_unused_outputs, entries=entries),
    ):
        after = mlc.verify(step(mod))
        agree(lambda name, after=after: partial(meant, after, name), mod, calls())
    kept = passes.remove_unused(mod, entries=["loop"])
    assert [*kept.functions] == ["less", "body", "loop"]


def test_the_builder_has_them():
    state, flag = TensorType((4,), F32), TensorType((), "bool")
    y, p = mlc.Var("y", state), mlc.Var("p", flag)
    builder = mlc.BlockBuilder(mlc.parse(FIXED))
    with builder.function("main", [p, y]):
        chosen = builder.emit(R.cond(p, "double", "same", (y,), state))
        builder.emit_func_output(builder.emit(R.multiply(chosen, chosen)))
    mod, value = mlc.verify(builder.get()), np.arange(4, dtype=F32)
    np.testing.assert_array_equal(meant(mod, "main", number(True, "bool"), value), value**2 * 4)
    rows = mlc.Var("rows", TensorType((5, 2, 3), F32)), mlc.Var("w", TensorType((3, 4), F32))
    h = TensorType((2, 4), F32)
    scanned = R.scan("step", (mlc.Var("h", h),), rows[:1], rows[1:], out=R.Tuple(h, h))
    looped = R.while_loop("less", "body", (mlc.Var("i", TensorType((), "int64")), y), [y])
    assert scanned.callee == "" and looped.type.fields[1] == state


WRONG = {
    ("R.cond(p, double, same, (y,))", "R.cond(y, double, same, (y,))"): ("E228", "condition is"),
    ("R.cond(p, double, same, (y,))", "R.cond(p, double, same, (y, y))"): ("E225", "double"),
    ("return (j, z)", "return (z, j)"): ("E228", "another state"),
    ("c = R.less(i, last)", "c = R.add(i, last)"): ("E228", "condition gives"),
    ("(x,), (w,))", "(), (w,))"): ("E228", "first size"),
    ("R.cond(p, double, same, (y,))", 'R.cond(p, "twice", same, (y,))'): ("E126", "twice"),
}


@pytest.mark.parametrize("change", WRONG)
def test_what_does_not_fit_is_refused(change):
    code, *words = WRONG[change]
    refuses(code, lambda: mlc.verify(mlc.parse(FIXED.replace(*change))), *words)


def test_python_conditions_and_loops_say_what_to_write():
    head = '@R.function\ndef f(p: R.Tensor((), "bool")):\n    '
    lines = {"if p:": "R.cond", "while p:": "R.while_loop", "for i in p:": "R.scan"}
    for line, word in lines.items():
        text = f"{head}{line}\n        x = p\n    return p"
        assert word in refuses("E124", lambda text=text: mlc.parse(text)).hint


def test_a_function_that_reaches_itself_is_refused():
    text = FIXED.replace("z = y * 2.0", "z = R.cond(R.const(True), double, same, (y,), out=y1)")
    text = text.replace("y1)", 'R.Tensor((4,), "float32"))')
    refuses("E227", lambda: mlc.verify(mlc.parse(text)))
