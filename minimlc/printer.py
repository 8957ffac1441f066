"""Every node as a script: `mod.script()` parses back to a structurally equal module, always.

Names are made unique here, in the text; the tree keeps its own.
"""

import keyword

from minimlc.errors import CompileError
from minimlc.graph import nodes as graph
from minimlc.graph.printer import GraphPrinter
from minimlc.literals import dict_literal, quoted
from minimlc.module import IRModule, global_symbol
from minimlc.names import spelled
from minimlc.node import Node, install_printer
from minimlc.tir import nodes as tir
from minimlc.tir.printer_symbolic import write_symbolic

_TIR = (tir.Stmt, tir.Expr, tir.Buffer, tir.BlockIter)
_GRAPH = (graph.Expr, graph.Binding, graph.BindingBlock)


def script(item: Node, full: bool = True) -> str:
    """`item` as text. With `full=False` large constants lose their bytes: a display, no source."""
    printer = GraphPrinter(full=full)
    match item:
        case IRModule():
            return _module(item, full)
        case tir.PrimFunc() | tir.SymbolicFunc() | graph.Function():
            _function(printer, global_symbol(item), item)
            return "\n".join(printer.lines)
        case _ if isinstance(item, _TIR):
            return printer.fragment(item)
        case _ if isinstance(item, _GRAPH):
            return printer.graph_fragment(item)
        case _:
            raise CompileError(f"cannot print a {type(item).__name__}")


def _module(mod: IRModule, full: bool) -> str:
    lines = ["@I.ir_module", "class Module:"]
    if mod.attrs:
        lines += [f"    I.module_attrs({dict_literal(mod.attrs)})", ""]
    for name, func in mod.entries:
        printer = GraphPrinter(depth=1, full=full)
        _function(printer, name, func)
        lines += [*printer.lines, ""]
    return "\n".join(lines[:-1] if mod.entries or mod.attrs else [*lines, "    pass"])


def _function(printer: GraphPrinter, name: str, func: Node) -> None:
    plain = name == spelled(name) and not keyword.iskeyword(name)
    shown, option = (name, "") if plain else (spelled(name) + "_", f"(name={quoted(name)})")
    match func:
        case tir.PrimFunc():
            printer.function(func, shown, f"@T.prim_func{option}")
        case tir.SymbolicFunc():
            write_symbolic(printer, func, shown, f"@T.prim_func{option}")
        case graph.Function():
            printer.graph_function(func, shown, f"@R.function{option}")
        case _:
            raise CompileError(f"a module holds functions; {name} is a {type(func).__name__}")


install_printer(script)
