"""Modules and functions as values with attributes, and the ways to write them."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest

import minimlc as mlc
from minimlc import IRModule
from minimlc.loops.te import te
from minimlc.script import I, R, T
from tests.helpers import refuses


def doubled(name="B"):
    A = te.placeholder((4,), name="A")
    return te.create_prim_func([A, te.compute((4,), lambda i: A[i] * 2.0, name=name)])


@I.ir_module(check_well_formed=False)
class Marked:
    I.module_attrs({"version": 2, "sizes": (1, 2), "by": "hand"})

    @T.prim_func(private=True, check_well_formed=False)
    def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * 2.0

    @R.function(pure=True, private=True)
    def main(x: R.Tensor((4,), "float32")):
        return R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((4,), "float32"))


def test_a_module_of_a_dictionary_and_of_a_function():
    func = doubled()
    mod = IRModule({"double": func})
    assert mod["double"] is func and mod.attrs == ()
    assert list(IRModule.from_expr(func).functions) == ["main"]
    assert list(IRModule.from_expr(func.with_attr("global_symbol", "f")).functions) == ["f"]
    x, y = np.arange(4, dtype="float32"), np.empty(4, "float32")
    mlc.build(IRModule.from_expr(func))["main"](x, y)
    np.testing.assert_array_equal(y, 2 * x)
    for wrong in (mod, None, "main"):
        refuses("E132", lambda wrong=wrong: IRModule.from_expr(wrong), "a function")


def test_attributes_of_functions_come_and_go():
    func = doubled()
    named = func.with_attr("global_symbol", "f").with_attr("sizes", [np.int64(3), 4])
    assert named.attrs == (("global_symbol", "f"), ("sizes", (3, 4)))
    assert named.with_attr("sizes", 1).attrs == (("global_symbol", "f"), ("sizes", 1))
    assert mlc.structural_equal(named.without_attr("global_symbol").without_attr("sizes"), func)
    assert func.attrs == () and func.without_attr("sizes") is func
    assert func.with_attr({"global_symbol": "f", "sizes": (3, 4)}).attrs == named.attrs
    mod = IRModule.from_expr(named)
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)


def test_a_graph_function_is_marked_primitive():
    main = Marked["main"].with_attr("primitive", True)
    assert ("primitive", True) in main.attrs
    mod = Marked.with_function("main", main)
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    again = mod.with_function("main", main.without_attr("primitive"))
    assert mlc.structural_equal(again, Marked)


@pytest.mark.parametrize("value", [object(), {"a": 1}, np.zeros(3), doubled(), 1 << 2000])
def test_an_attribute_is_a_constant(value):
    for item in (doubled(), Marked, Marked["main"]):
        refuses("E123", lambda item=item: item.with_attr("key", value), "key")
    refuses("E123", lambda: doubled().with_attr(3, value))


def test_attributes_of_modules_are_read_and_printed():
    assert Marked.attrs == (("version", 2), ("sizes", (1, 2)), ("by", "hand"))
    text = Marked.script()
    assert 'I.module_attrs({"version": 2, "sizes": (1, 2), "by": "hand"})' in text
    assert mlc.structural_equal(mlc.parse(text), Marked)
    bare = IRModule({}, {"a": 1.5})
    assert mlc.structural_equal(bare, IRModule({}).with_attr("a", 1.5))
    assert mlc.structural_equal(mlc.parse(bare.script()), bare)
    assert not mlc.structural_equal(bare, IRModule({}))
    assert mlc.structural_equal(copy.deepcopy(bare), bare)
    assert not mlc.structural_equal(Marked.without_attr("by"), Marked)


def test_passes_keep_the_attributes_of_a_module():
    def attrs(transform):
        return transform(Marked).attrs

    assert attrs(mlc.passes.legalize) == attrs(mlc.passes.remove_unused) == Marked.attrs
    assert attrs(lambda mod: mlc.Schedule(mod, "f").parallel("i").mod) == Marked.attrs
    assert attrs(lambda mod: mod.without("main")) == Marked.attrs
    assert attrs(lambda mod: mlc.BlockBuilder(mod).get()) == Marked.attrs
    assert attrs(lambda mod: mlc.run_passes(mod, mlc.passes.default_pipeline)) == Marked.attrs


def test_what_is_wrong_with_attributes_of_modules():
    refuses("E121", lambda: mlc.parse("@I.ir_module\nclass M:\n    I.module_attrs(3)\n"), "a dict")
    text = '@I.ir_module\nclass M:\n    I.module_attrs({"a": [x]})\n'
    refuses("E122", lambda: mlc.parse(text), '"x"')
    refuses("E101", lambda: mlc.verify(IRModule({}, (("a", object()),))), "a is not")


def test_functions_say_what_other_compilers_ask_for():
    text = Marked.script().replace("@T.prim_func", "@T.prim_func(private=True)")
    text = text.replace("@R.function", "@R.function(pure=False, check_well_formed=True)")
    text = text.replace("@I.ir_module", "@I.ir_module(check_well_formed=True)")
    assert mlc.structural_equal(mlc.parse(text), Marked)
    refuses("E121", lambda: mlc.parse(text.replace("pure", "pur")), "did you mean")


def test_attributes_are_looked_up_by_name():
    func = doubled().with_attr("kind", "copy").with_attr("depth", 2)
    assert func.attrs["kind"] == "copy"
    assert func.attrs.get("depth") == 2
    assert func.attrs.get("none") is None
    assert "kind" in func.attrs
    assert "none" not in func.attrs
    assert ("depth", 2) in func.attrs
    assert list(func.attrs.keys())[-2:] == ["kind", "depth"]
    assert dict(func.attrs)["depth"] == 2
    assert func.attrs[-1] == ("depth", 2)
    with pytest.raises(KeyError):
        func.attrs["none"]
    assert mlc.structural_equal(copy.deepcopy(func), func)


PAUSED = """
import gc
from weakref import ref

from minimlc.loops.values.process import OLD, YOUNG, collector_paused


class Loop:
    def __init__(self):
        self.me = self


def pause():
    with collector_paused():
        loops = [Loop() for _ in range(YOUNG)]
        return ref(loops[0])


gc.collect()
first = pause()
assert gc.isenabled() and any(item is first() for item in gc.get_objects(generation=2))
for _ in range(OLD // YOUNG):
    pause()
assert first() is None

gc.freeze()
frozen = gc.get_freeze_count()
pause()
assert gc.get_freeze_count() == frozen
"""


def test_after_a_pause_the_collector_need_not_look_at_once():
    """In a process of its own: pytest's have frozen what was there."""
    done = subprocess.run([sys.executable, "-c", PAUSED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FORKED = """
import gc, os
from minimlc.loops.values import process

process.YOUNG = process.OLD = 0


class Builder:
    def __init__(self):
        self.me = self

    def __del__(self):
        with process.collector_paused():  # as a finalizer that builds
            print("inside", flush=True)


with process.collector_paused():
    Builder()
assert gc.isenabled()
with process.collector_paused():
    child = os.fork()
    if child == 0:
        started = gc.isenabled()
    else:
        os.waitpid(child, 0)
if child == 0:
    with process.collector_paused():
        paused = not gc.isenabled()
    print(started, paused, gc.isenabled(), flush=True)
    os._exit(0)
assert gc.isenabled()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks there")
def test_finalizers_and_forks_inside_a_pause():
    """Neither waits for the pause to end, nor leaves the collector off."""
    command = [sys.executable, "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "inside\nTrue True True\n"
