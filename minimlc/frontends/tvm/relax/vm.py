"""`tvm.relax.vm`: building and running graph functions."""

from minimlc.frontends.tvm.absent import names_of
from minimlc.frontends.tvm.driver import build
from minimlc.frontends.tvm.runtime import VirtualMachine

__getattr__ = names_of(__name__, globals())
