"""Every node as a script that parses back to a structurally equal one: with the large constants
that it names, or alone where they are written inside it.

Names are made unique here, in the text; the tree keeps its own.
"""

import keyword
from collections.abc import Iterator, Mapping

import numpy as np

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.ir.printer import TirPrinter
from minimlc.loops.values.errors import CompileError, did_you_mean
from minimlc.loops.values.kinds import kind_of
from minimlc.loops.values.literals import dict_literal, quoted
from minimlc.loops.values.module import IRModule, global_symbol, not_a_module
from minimlc.loops.values.names import spelled
from minimlc.loops.values.node import Node, install_printer
from minimlc.loops.values.parts import Hook

PRINTERS = Hook[type[TirPrinter]]("printers")
"""Printers that know more than loops."""

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
    if isinstance(item, IRModule):
        return _module(item, full, names)
    printer = _printer()(full=full, constants=names)
    if isinstance(item, PrimFunc) or kind_of(item):
        _function(printer, global_symbol(item), item)  # type: ignore[arg-type]
        return "\n".join(printer.lines)
    return printer.fragment(item)


def named_constants(item: Node) -> dict[str, np.ndarray]:
    """The large constants of a module or a function, by the names that
    `item.script(constants="names")` gives them; read-only arrays. `CompileError` E132 for others.
    """
    if not isinstance(item, Node):
        raise not_a_module(item, "mlc.named_constants")
    return dict(_named(item))


def _named(item: Node) -> Iterator[tuple[str, np.ndarray]]:
    return _printer().named(item)


def _printer() -> type[TirPrinter]:
    """The installed printer of all nodes; without one, that of loops."""
    return PRINTERS.first or TirPrinter


def _module(mod: IRModule, full: bool, names: Mapping[int, str]) -> str:
    lines = ["@I.ir_module", "class Module:"]
    if mod.attrs:
        lines += [f"    I.module_attrs({dict_literal(mod.attrs)})", ""]
    for name, func in mod.entries:
        printer = _printer()(depth=1, full=full, constants=names)
        _function(printer, name, func)
        lines += [*printer.lines, ""]
    return "\n".join(lines[:-1] if mod.entries or mod.attrs else [*lines, "    pass"])


def _function(printer: TirPrinter, name: str, func: Node) -> None:
    plain = name == spelled(name) and not keyword.iskeyword(name)
    shown, option = (name, "") if plain else (spelled(name) + "_", f"(name={quoted(name)})")
    kind = kind_of(func)
    if isinstance(func, PrimFunc):
        printer.function(func, shown, f"@T.prim_func{option}")
    elif kind is not None:
        kind.write(printer, func, shown, option)
    else:
        raise CompileError(f"a module holds functions; {name} is a {type(func).__name__}")


install_printer(script)
