"""Functions of symbolic sizes for some sizes: instances, verified."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from minimlc.graphs.ir.nodes import Function, Type, declared_sizes, size_names
from minimlc.graphs.ir.sized import data_tell, is_symbolic
from minimlc.graphs.wellformed import check_function
from minimlc.loops.ir.nodes import SymbolicFunc
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.errors import CallError, CompileError, did_you_mean
from minimlc.loops.values.module import IRModule, not_a_module
from minimlc.loops.values.node import Node
from minimlc.services.sizes.symbolic_graphs import instance, is_family, out_of_bounds, sizes_told
from minimlc.services.sizes.symbolic_loops import MOST_INSTANCES, checked_sizes
from minimlc.services.sizes.symbolic_loops import instance as primitive_instance


def specialize(mod: Any, func: str | None = None, /, **sizes: int) -> Any:
    """`mod` with its symbolic function `func` (None: the only one) as it is for these sizes.

    All of its sizes are given by name. Of a function instead of a module, the instance itself.
    What a graph function calls is added as instances, too. `CompileError` E136 for sizes that it
    does not have, or that it cannot have.
    """
    if is_family(mod):
        return _specialized(IRModule({"main": mod}), func or "main", mod, sizes)[func or "main"]
    if not isinstance(mod, IRModule):
        raise not_a_module(mod, "mlc.specialize")
    names = [name for name, item in mod.entries if _sizes(item)]
    name = names[0] if func is None and len(names) == 1 else func
    if name not in names:
        which = (
            "which symbolic function" if func is None else f'"{func}" is not a symbolic function'
        )
        raise CompileError(which, code="E105", hint=did_you_mean(str(func), names))
    chosen = _specialized(mod, name, mod[name], sizes)
    return mod.with_functions({**mod.functions, **chosen})


def _sizes(item: Any) -> list[str]:
    """The names of the sizes that are known at a call."""
    if isinstance(item, SymbolicFunc):
        return [size.name for size in item.sizes]
    return size_names(*[param.type for param in item.params]) if isinstance(item, Function) else []


def _specialized(
    mod: IRModule, name: str, item: Any, sizes: Mapping[str, int]
) -> Mapping[str, Node]:
    if isinstance(item, SymbolicFunc):
        known = checked_sizes(name, _sizes(item), sizes)
        return {name: primitive_instance(item, tuple(known.values()))}
    check_data_sizes(mod, name)
    known = checked_sizes(name, _sizes(item), sizes)
    for size, span in out_of_bounds(tuple(declared_sizes(item.params).values()), known):
        raise CompileError(f"the size {size} is {known[size]}, declared {span}", code="E136")
    return instance_of(mod, name, tuple(known.items())).functions


@lru_cache(maxsize=MOST_INSTANCES)
def instance_of(mod: IRModule, name: str, sizes: tuple[tuple[str, int], ...] = ()) -> IRModule:
    """The graph function `name` for these sizes and all that it calls, verified.

    `CompileError` E136 where an operator in it cannot have them.
    """
    try:
        return verify(instance(mod, name, sizes))
    except CallError:
        raise
    except CompileError as error:
        at = ", ".join(f"{size} = {value}" for size, value in sizes)
        why = f"{name} is not defined{at and f' for {at}'}: {error.why}"
        place = {"span": error.span, "excerpt": error.excerpt}
        raise CompileError(why, code="E136", **place) from None  # type: ignore[arg-type]


@lru_cache(maxsize=MOST_INSTANCES)
def check_data_sizes(mod: IRModule, name: str) -> None:
    """Verify the function `name` if it has data-dependent sizes: no instance shows that one of them
    has the name of another size.
    """
    func: Any = mod[name]
    if data_tell(func):
        check_function(mod, name, func)


def instance_for(mod: IRModule, name: str, func: Function, types: Iterable[Type]) -> IRModule:
    """The module in which the graph function `name` has the sizes of a call with these types."""
    sizes = sizes_told(func.params, types) if is_symbolic(func) else {}
    return instance_of(mod, name, tuple(sizes.items()))
