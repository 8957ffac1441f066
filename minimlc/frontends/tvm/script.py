"""`tvm.script`: the languages that scripts are written in; operators are called as in TVM."""

from functools import partial

from minimlc.frontends.tvm.relax.operators import op as relax
from minimlc.loops.text.constructs import Namespace
from minimlc.script import I as ir
from minimlc.script import T as own_tir
from minimlc.script import parse as own_parse

tir = Namespace("T", {k: v for k, v in vars(own_tir)["_values"].items() if k != "round"})
"""TVM's `T.round` takes halves away from zero, ours to the even one."""

ir_module = ir.ir_module
tirx = tir
_NAMES = {"T": tir, "tir": tir, "tirx": tir, "R": relax, "relax": relax}
parse = from_source = partial(own_parse, meant=_NAMES)
