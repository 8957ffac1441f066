"""The names of TVM on minimlc: programs that were written for it run here.

    import minimlc.frontends.tvm as tvm
    from minimlc.frontends.tvm import relax, te

or, where a program says `import tvm` itself:

    from minimlc.frontends.tvm import install
    install()

Each name stands for a public one of minimlc's. A name without counterpart raises an error with a
replacement (`absent`); what differs, and why, is in `docs/coming-from-tvm.md`.
"""

from minimlc.frontends.tvm import (
    driver,
    error,
    ir,
    lent,
    meta_schedule,
    nd,
    relax,
    runtime,
    script,
    target,
    te,
    testing,
    tir,
    topi,
)
from minimlc.frontends.tvm.absent import names_of
from minimlc.frontends.tvm.driver import build, compile, lower  # noqa: A004
from minimlc.frontends.tvm.error import TVMError
from minimlc.frontends.tvm.finder import install, modules, uninstall
from minimlc.frontends.tvm.ir import transform
from minimlc.frontends.tvm.nd import context, cpu, device
from minimlc.frontends.tvm.runtime import get_global_func, register_func, register_global_func
from minimlc.loops.values.module import IRModule

s_tir = tirx = tir
__version__ = "0.0 (the names of TVM on minimlc)"
for _module in modules().values():
    _module.__getattr__ = names_of(_module)  # type: ignore[method-assign]
