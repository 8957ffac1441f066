"""`tvm.ir.module`."""

from minimlc.loops.values.module import IRModule
