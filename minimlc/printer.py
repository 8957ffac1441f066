"""Every node as a script that parses back to a structurally equal one: with the large constants
that it names, or alone where they are written inside it.

Names are made unique here, in the text; the tree keeps its own.
"""

import keyword
from collections.abc import Iterator, Mapping

import numpy as np

from minimlc.errors import CompileError, did_you_mean
from minimlc.graph import nodes as graph
from minimlc.graph.printer import GraphPrinter
from minimlc.literals import dict_literal, prints_inline, quoted
from minimlc.module import IRModule, global_symbol, not_a_module
from minimlc.names import spelled
from minimlc.node import Node, install_printer, nodes_of
from minimlc.tir import nodes as tir
from minimlc.tir.printer_symbolic import write_symbolic

_TIR = (tir.Stmt, tir.Expr, tir.Buffer, tir.BlockIter)
_GRAPH = (graph.Expr, graph.Binding, graph.BindingBlock)


CONSTANTS = ("names", "inline")
"""How a script has large constants: by name, or with their bytes."""


def script(item: Node, full: bool = True, constants: str = "names") -> str:
    """`item` as text that parses back.

    Large constants are names, `R.const(const0, R.Tensor((64, 128), "float32"))`, and
    `mlc.parse(text, mlc.named_constants(item))` reads them; with `constants="inline"` their bytes
    are in the text. With `full=False` they are left out: a display, no source. `CompileError` for
    another option.
    """
    if constants not in CONSTANTS:
        why, hint = (
            f"constants={constants!r:.60} is unknown",
            did_you_mean(str(constants), CONSTANTS),
        )
        raise CompileError(why, hint=hint)
    names = {id(data): name for name, data in _named(item)} if full and constants == "names" else {}
    printer = GraphPrinter(full=full, constants=names)
    match item:
        case IRModule():
            return _module(item, full, names)
        case tir.PrimFunc() | tir.SymbolicFunc() | graph.Function():
            _function(printer, global_symbol(item), item)
            return "\n".join(printer.lines)
        case _ if isinstance(item, _TIR):
            return printer.fragment(item)
        case _ if isinstance(item, _GRAPH):
            return printer.graph_fragment(item)
        case _:
            raise CompileError(f"cannot print a {type(item).__name__}")


def named_constants(item: Node) -> dict[str, np.ndarray]:
    """The large constants of a module or a function, by the names that
    `item.script(constants="names")` gives them; read-only arrays. `CompileError` E132 for others.
    """
    if not isinstance(item, Node):
        raise not_a_module(item, "mlc.named_constants")
    return dict(_named(item))


def _named(item: Node) -> Iterator[tuple[str, np.ndarray]]:
    """Names that no variable or size begins with: then none is made unique to one, either."""
    stem, variables = "const", nodes_of(item, graph.Var)
    taken = {var.name for var in variables} | {*graph.size_names(*[var.type for var in variables])}
    while any(name.startswith(stem) for name in taken):
        stem += "_"
    arrays = {id(part.data): part.data for part in nodes_of(item, graph.Constant)}
    large = (data for data in arrays.values() if not prints_inline(data))
    return ((f"{stem}{number}", data) for number, data in enumerate(large))


def _module(mod: IRModule, full: bool, names: Mapping[int, str]) -> str:
    lines = ["@I.ir_module", "class Module:"]
    if mod.attrs:
        lines += [f"    I.module_attrs({dict_literal(mod.attrs)})", ""]
    for name, func in mod.entries:
        printer = GraphPrinter(depth=1, full=full, constants=names)
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
