"""`tvm.topi`: the operators over tensor expressions."""

from minimlc.graph.topi import topi as MORE
