"""`tvm.relax.vm`: building and running graph functions."""

from minimlc.frontends.tvm.driver import build
from minimlc.frontends.tvm.runtime import VirtualMachine
