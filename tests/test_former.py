"""Modules under the names that they had before the rings."""

import subprocess
import sys

import pytest

import minimlc
from minimlc.loops.values import node
from minimlc.services.former import PLACES

NOW = {
    "minimlc.node": "minimlc.loops.values.node",
    "minimlc.run": "minimlc.loops.interpreter.run",
    "minimlc.sizes": "minimlc.services.sizes.sizes",
    "minimlc.tir": "minimlc.loops.ir",
    "minimlc.tir.te": "minimlc.loops.te.te",
    "minimlc.tir.analysis.access": "minimlc.loops.proofs.access",
    "minimlc.graph.builder": "minimlc.graphs.builder",
    "minimlc.graph.ops.gather": "minimlc.services.arrays.gather",
    "minimlc.passes.rewrite": "minimlc.services.patterns.rewrite",
    "minimlc.runtime.team": "minimlc.services.threads.team",
    "minimlc.runtime.build": "minimlc.services.build",
    "minimlc.codegen.c": "minimlc.targets.c",
    "minimlc.codegen.gpu.emit": "minimlc.targets.gpu.emit",
    "minimlc.tir.equivalence.match": "minimlc.services.equivalence.match",
    "minimlc.schedule.more.rfactor": "minimlc.services.primitives.rfactor",
}


@pytest.mark.parametrize("name", NOW)
def test_a_former_name_is_the_module_itself(name):
    __import__(name)
    assert sys.modules[name] is sys.modules[NOW[name]]
    assert sys.modules[name].__name__ == NOW[name] == sys.modules[name].__spec__.name


def test_former_names_in_a_new_process():
    code = "from minimlc.tir import nodes; from minimlc.passes import legalize; import minimlc.node"
    code += "; import minimlc as mlc; assert nodes.PrimFunc is mlc.PrimFunc; print(minimlc.node)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == repr(node), done.stderr


@pytest.mark.parametrize(
    "name", ["verify", "explain", "specialize", "passes.rewrite", "passes.legalize"]
)
def test_a_function_of_a_module_s_name_stays(name):
    code = f"""
import minimlc as mlc
before = mlc.{name}
import minimlc.{name}, sys
print(mlc.{name} is before, callable(mlc.{name}), type(sys.modules["minimlc.{name}"]).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True True module\n", done.stdout + done.stderr


def test_other_names_are_not_found():
    wrong = "nodee nodes build tir.nodee loops.tir recipes.x codegen.c.nothing"
    for name in (f"minimlc.{each}" for each in wrong.split()):
        with pytest.raises(ModuleNotFoundError):
            __import__(name)


@pytest.mark.parametrize("place", sorted({p for places in PLACES.values() for p in places.split()}))
def test_each_place_is_there(place):
    assert (minimlc.__path__[0] and __import__(f"minimlc.{place}")) is minimlc
