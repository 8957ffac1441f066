"""`tvm.ir.module`."""

from minimlc.module import IRModule
