"""`tvm.topi`: the operators over tensor expressions."""

from types import ModuleType

from minimlc.frontends.tvm.absent import names_of
from minimlc.services.spellings.topi import topi as MORE

nn = ModuleType(f"{__name__}.nn", "`tvm.topi.nn`: those of neural networks.")
nn.MORE = MORE.nn  # type: ignore[attr-defined]
nn.__getattr__ = names_of(nn)  # type: ignore[method-assign]
