"""Pieces of a graph by libraries: what is chosen, how it is noted, and that it means the same."""

import subprocess
import sys
from itertools import count

import numpy as np

import minimlc as mlc
from minimlc.services.dispatch import PIECES, chosen, dispatch
from tests.helpers import refuses

SOURCE = """
@R.function
def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 16), "float32"),
         v: R.Tensor((8, 16), "float32"), b: R.Tensor((8,), "float32")):
    with R.dataflow():
        lv = R.matmul(x, w)
        lv1 = R.linear(lv, v, b)
        lv2 = R.matmul(lv1, w)
        lv3 = R.relu(lv2)
        R.output(lv3)
    return lv3
"""


PRODUCT = PIECES[0]._replace(functions=("numpy.matmul",))


def slow_ours():
    """A clock by which our own kernel, which is asked for first, takes the longest."""
    times = count(0, -1)
    return lambda *_: next(times)


def never(*_):
    raise AssertionError("no clock is to be read")


def test_the_fastest_is_called_and_noted_once_for_pieces_that_are_alike():
    mod = mlc.parse(SOURCE)
    fast = dispatch(mod, [PRODUCT], clock=slow_ours())
    assert fast.script().count('R.call_dps_packed("numpy.matmul"') == 2
    key = "matmul(x, w, out_dtype='') of (4, 8) float32, (8, 16) float32"
    assert chosen(fast) == {key: "numpy.matmul"}
    assert mlc.structural_equal(mlc.parse(fast.script()), fast)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.type.shape).astype("float32") for p in mod["main"].params]
    means = mlc.interpret(mod, "main", *arrays)
    for run in (mlc.build(fast)["main"], mlc.build(fast, "python")["main"]):
        np.testing.assert_allclose(run(*arrays), means, rtol=1e-4, atol=1e-4)
    again = dispatch(mod, [PRODUCT], choices=chosen(fast), clock=never)
    assert mlc.structural_equal(again, fast)


def test_ours_stays_where_it_is_fastest():
    mod = mlc.parse(SOURCE)
    same = dispatch(mod, clock=lambda *_: 1.0)
    assert same["main"] is mod["main"]
    assert set(chosen(same).values()) == {"minimlc"}


def test_pieces_of_unknown_sizes_stay():
    mod = mlc.parse(SOURCE.replace("(4, 8)", '("n", 8)'))
    assert dispatch(mod, clock=never) is mod


def test_what_computes_something_else_is_refused():
    mlc.register_func("test.wrong", lambda x, w, out: out.fill(1), override=True)
    wrong = PRODUCT._replace(functions=("test.wrong",))
    mod = mlc.parse(SOURCE)
    refuses("E235", lambda: dispatch(mod, [wrong]), '"test.wrong" computes')
    choices = dict.fromkeys(chosen(dispatch(mod, [PRODUCT], clock=slow_ours())), "numpy.matmull")
    refuses("E614", lambda: dispatch(mod, [PRODUCT], choices=choices), "numpy.matmull")


def test_a_library_s_function_is_there_before_anybody_dispatches():
    """As in a process that loads what another one has dispatched and saved."""
    code = "from minimlc.graphs.ir.registry import get_function as f\n"
    code += "print(f('numpy.matmul').__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "<lambda>\n", done.stderr[-500:]


def test_a_judge_chooses_or_leaves_a_piece_undecided():
    mod = mlc.parse(SOURCE)
    asked = []
    same = dispatch(mod, [PRODUCT], judge=lambda modules: asked.append([*modules]))
    assert same is mod and asked == [["minimlc", "numpy.matmul"]] * 2
    fast = dispatch(mod, [PRODUCT], judge=lambda modules: [*modules][1])
    assert set(chosen(fast).values()) == {"numpy.matmul"}
    refuses("E235", lambda: dispatch(mod, [PRODUCT], judge=lambda _: "numpy.linear"), "linear")
