"""Functions that instances of one library have in common: scheduled and packed once.

For pipelines and targets without stubs. An equal function of another instance becomes the same
object, so nothing is proved of it again.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial

from minimlc.graphs.ir.nodes import Call, Constant, Function
from minimlc.graphs.passes import scheduling
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.module import IRModule, Pass
from minimlc.loops.values.node import Node, nodes_of, structural_hash, walk
from minimlc.services.passes.pack_constants import Packs, pack_constants

MOST = 512
"""The most functions whose schedules are remembered."""


class Schedules:
    """Scheduled and packed functions, by all that decides them: what the functions do, the names in
    them, and which arguments are constants.
    """

    def __init__(self) -> None:
        self.known: dict[Hashable, Node] = {}
        self.packs: Packs = {}

    def remembered(self, steps: Sequence[Pass]) -> list[Pass]:
        """A pipeline that schedules and packs no function twice."""
        return [self._step(step) for step in steps]

    def _step(self, step: Pass) -> Pass:
        inner = getattr(step, "func", step)
        if inner is pack_constants:
            return self._packed
        return partial(self._scheduled, step) if inner in scheduling else step

    def _packed(self, mod: IRModule) -> IRModule:
        if len(self.packs) > MOST:
            self.packs.clear()
        return pack_constants(mod, self.packs)

    def _scheduled(self, step: Pass, mod: IRModule) -> IRModule:
        graphs = {name: func for name, func in mod.entries if isinstance(func, Function)}
        functions, places = dict(mod.functions), _constants(graphs)
        for name, func in mod.entries:
            if isinstance(func, PrimFunc):
                key = _key(func), places.get(name)
                if key not in self.known:
                    while len(self.known) >= MOST:
                        self.known.pop(next(iter(self.known)), None)
                    self.known[key] = step(mod.with_functions({**graphs, name: func}))[name]
                functions[name] = self.known[key]
        return mod.with_functions(functions)


def _key(func: PrimFunc) -> Hashable:
    names = [str(getattr(part, "name", "")) for part in walk(func) if part._symbol]
    blocks = [str(getattr(part, "name", "")) for part in walk(func) if not part._symbol]
    return structural_hash(func), *names, *blocks


def _constants(graphs: Mapping[str, Node]) -> dict[str, frozenset[frozenset[int]]]:
    """The places of constants among the arguments of each function's calls."""
    places: dict[str, frozenset[frozenset[int]]] = {}
    for call in [call for graph in graphs.values() for call in nodes_of(graph, Call)]:
        if call.op == "call_tir":
            found = frozenset(at for at, arg in enumerate(call.args) if isinstance(arg, Constant))
            places[call.callee] = places.get(call.callee, frozenset()) | {found}
    return places
