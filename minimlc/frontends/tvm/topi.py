"""`tvm.topi`: the operators over tensor expressions."""

from typing import Any

from minimlc.frontends.tvm.absent import names_of
from minimlc.graph.topi import topi as own

nn = own.nn
_more = names_of(__name__, dict.fromkeys(dir(own)))


def __getattr__(name: str) -> Any:
    return getattr(own, name) if name in dir(own) else _more(name)
