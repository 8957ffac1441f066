"""`tvm.script`: the languages that scripts are written in; they are minimlc's own."""

from minimlc.script import I, R, T, parse

ir, relax, tir = I, R, T
ir_module = I.ir_module
from_source = parse
