"""`tvm.ir.module`."""

from minimlc.frontends.tvm.absent import names_of
from minimlc.module import IRModule

__getattr__ = names_of(__name__, globals())
