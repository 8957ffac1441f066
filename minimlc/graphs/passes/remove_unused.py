"""Take out what nothing uses."""

from collections.abc import Collection

from minimlc.graphs.ir.nodes import OF_GRAPHS, Binding, BindingBlock, Function, Var, reached
from minimlc.graphs.ir.sized import sizes_in, told_by
from minimlc.graphs.mutator import is_primitive
from minimlc.graphs.passes.effects import Effects
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import nodes_of, replace


@module_pass
def remove_unused(mod: IRModule, entries: Collection[str] | None = None) -> IRModule:
    """Take out bindings whose value nothing uses, and functions that nothing calls.

        lv = R.add(x, y)
        lv1 = R.exp(x)          -->        lv1 = R.exp(x)
        return lv1                         return lv1

    Functions reached from `entries` stay: by default every graph function but fused groups,
    or every function of a module without graph functions. Calls that may have effects stay.
    """
    checked_entries("remove_unused", mod, entries or ())
    effects = Effects(mod)
    functions = {
        name: _live(func, effects) if isinstance(func, Function) else func
        for name, func in mod.entries
    }
    if entries is None:
        entries = [n for n, f in mod.entries if isinstance(f, Function) and not is_primitive(f)]
        entries = entries or list(functions)
    used = reached(functions, entries, "call_tir", *OF_GRAPHS)
    return mod.with_functions({name: f for name, f in functions.items() if name in used})


def checked_entries(step: str, mod: IRModule, entries: Collection[str]) -> None:
    """Refuse `entries` that are no list of names of the module's functions."""
    if isinstance(entries, str):
        why = f"{step}: entries are a list of functions' names, got {entries!r}"
        raise CompileError(why, code="E230", hint=f"entries=[{entries!r}]")
    for name in entries:
        mod[name]


def _live(func: Function, effects: Effects) -> Function:
    used: set[Var] = set(nodes_of(func.result, Var))
    sizes: set[str] = set()
    blocks: list[BindingBlock] = []
    for block in reversed(func.blocks):
        kept: list[Binding] = []
        for binding in reversed(block.bindings):
            needed = binding.var in used or told_by(binding.value) in sizes
            if needed or effects.of_binding(binding.value, block.dataflow):
                used.update(nodes_of(binding.value, Var))
                sizes.update(sizes_in(binding))
                kept.append(binding)
        if kept or not block.bindings:
            blocks.append(replace(block, bindings=kept[::-1]))
    return replace(func, blocks=blocks[::-1])
