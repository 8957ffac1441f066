"""A graph function as nodes and edges, with groups that can be opened.

Groups are calls of graph functions (fused operators among them) and, where a function has several
blocks, its dataflow blocks. Each has a scope of its own: its inside, laid out by itself, in which
entries stand for what comes from outside.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from minimlc_widgets.layers import Layered, layered

from minimlc.graphs.execute import execute
from minimlc.graphs.ir.nodes import Binding, Call, Constant, Expr, Function, Type, Var, tensor_types
from minimlc.graphs.run import flatten, nest
from minimlc.loops.values.errors import CompileError, did_you_mean
from minimlc.loops.values.module import IRModule

MOST = 20_000
"""Nodes, at the most, of a drawing; a call beyond that does not show its inside."""


class Drawn(NamedTuple):
    """A node: `kind` is "entry", "operator", "kernel", "group" or "result"; `scope` is where it is,
    `inside` the scope of a group, or -1. `value` is the name of its result, `reads` its inputs'.
    """

    name: str
    kind: str
    scope: int
    inside: int = -1
    value: str = ""
    type: str = ""
    reads: tuple[str, ...] = ()
    options: str = ""
    kernel: bool = False

    @property
    def text(self) -> str:
        """In a line: "lv: float32[3, 8] = matmul(x, float32[8, 8])"."""
        left = f"{self.value}: {self.type}" if self.type else self.value
        if self.kind in ("entry", "result") or self.name == self.value:
            return left
        return f"{left} = {self.name}({', '.join((*self.reads, *filter(None, [self.options])))})"


class Drawing:
    """The nodes of a function and, by scope, the edges between them. `parents` are the groups that
    scopes belong to; `function` is the whole, in scope 0.
    """

    def __init__(self, mod: IRModule, name: str) -> None:
        self.mod, self.name = mod, name
        self.nodes: list[Drawn] = []
        self.edges: list[list[tuple[int, int]]] = [[]]
        self.parents = [-1]
        self.entries: dict[tuple[int, int], int] = {}
        self.open = [name]
        func = mod[name]
        assert isinstance(func, Function)
        self._function(func, 0, result="result")

    def add(self, node: Drawn, sources: Iterable[int]) -> int:
        """The number of a new node, after those that it reads."""
        ends = [self._entering(node.scope, source) for source in dict.fromkeys(sources)]
        self.nodes.append(node)
        number = len(self.nodes) - 1
        self.edges[node.scope] += [(end, number) for end in ends]
        return number

    def layouts(self) -> list[tuple[list[int], Layered]]:
        """By scope: the numbers of its nodes, and their layers in places among these."""
        members: list[list[int]] = [[] for _ in self.edges]
        for number, node in enumerate(self.nodes):
            members[node.scope].append(number)
        places = {number: at for scope in members for at, number in enumerate(scope)}
        return [
            (scope, layered(len(scope), [(places[a], places[b]) for a, b in edges]))
            for scope, edges in zip(members, self.edges, strict=True)
        ]

    def kernels(self) -> list[int]:
        """The nodes that are one call of a compiled function each, in the order of the calls."""
        return [number for number, node in enumerate(self.nodes) if node.kernel]

    def _entering(self, scope: int, source: int) -> int:
        """The node that stands for `source` in a scope; from a block that is closed, the block."""
        node = self.nodes[source]
        if node.scope == scope:
            return source
        if self.parents[node.scope] >= 0 and self._holds(scope, node.scope):
            return self.parents[node.scope]
        if (scope, source) not in self.entries:
            group = self.parents[scope]
            outer = self._entering(self.nodes[group].scope, source)
            self.edges[self.nodes[group].scope].append((outer, group))
            entry = Drawn(node.value, "entry", scope, value=node.value, type=node.type)
            self.entries[scope, source] = self.add(entry, ())
        return self.entries[scope, source]

    def _holds(self, outer: int, scope: int) -> bool:
        """Whether a scope is the inside of a group in another."""
        return self.nodes[self.parents[scope]].scope == outer

    def _scope(self, group: Drawn, sources: Iterable[int]) -> int:
        """The scope of a new group's inside."""
        inside = len(self.edges)
        self.edges.append([])
        self.parents.append(self.add(group._replace(inside=inside), sources))
        return inside

    def _function(self, func: Function, scope: int, result: str = "", quiet: bool = False) -> Any:
        """Draw a function's body; the node of each of its result's tensors."""
        entries = [
            nest(param.type, repeat(self.add(_entry(param, scope), ()))) for param in func.params
        ]
        body = _Body(self, func, scope, quiet)
        value = execute(func, entries, lambda _: (), body.call)
        if result:
            node = Drawn(result, "result", scope, value=result, type=type_text(func.result.type))
            self.add(node, flatten([value]))
        return value


class _Body:
    """One call of a function while it is drawn; knows which block and which binding is next."""

    def __init__(self, drawing: Drawing, func: Function, scope: int, quiet: bool) -> None:
        self.drawing, self.scope, self.quiet = drawing, scope, quiet
        self.bindings = _calls_of(func)
        self.next = next(self.bindings, None)
        self.blocks: dict[int, int] = {}

    def call(self, call: Call, arguments: list[Any]) -> Any:
        """Draw a call; its node, in tuples according to its type."""
        value, scope = "", self.scope
        if self.next is not None and self.next[1].value is call:
            block, binding = self.next
            value, scope = binding.var.name, self._block(block)
            self.next = next(self.bindings, None)
        node = _called(call, value, scope)
        number = self._leaf_or_group(call, node, flatten(arguments))
        return nest(call.type, repeat(number))

    def _leaf_or_group(self, call: Call, node: Drawn, sources: list[int]) -> int:
        drawing = self.drawing
        func = drawing.mod.functions.get(call.callee) if call.op == "call" else None
        too_deep = call.callee in drawing.open or len(drawing.nodes) >= MOST
        if not isinstance(func, Function) or too_deep:
            compiled = node.kind == "kernel" and not self.quiet
            return drawing.add(node._replace(kernel=compiled), sources)
        fused = bool(dict(func.attrs).get("primitive"))
        group = node._replace(kind="group", kernel=fused and not self.quiet)
        inside = drawing._scope(group, sources)
        drawing.open.append(call.callee)
        drawing._function(func, inside, quiet=fused or self.quiet)
        drawing.open.pop()
        return drawing.parents[inside]

    def _block(self, number: int) -> int:
        """The scope of a block of the function: its own where it is a group."""
        if number < 0:
            return self.scope
        if number not in self.blocks:
            group = Drawn(f"dataflow {number}", "group", self.scope, value=f"dataflow {number}")
            self.blocks[number] = self.drawing._scope(group, ())
        return self.blocks[number]


def _calls_of(func: Function) -> Iterator[tuple[int, Binding]]:
    """The bindings of calls, each with the number of its block where that is a group, or -1."""
    for number, block in enumerate(func.blocks):
        calls = [binding for binding in block.bindings if isinstance(binding.value, Call)]
        grouped = block.dataflow and len(func.blocks) > 1 and len(calls) > 1
        yield from ((number if grouped else -1, binding) for binding in calls)


def _entry(param: Var, scope: int) -> Drawn:
    return Drawn(param.name, "entry", scope, value=param.name, type=type_text(param.type))


def _called(call: Call, value: str, scope: int) -> Drawn:
    known = [(name, item) for name, item in call.attrs if name != "callee"]
    options = ", ".join(f"{name}={item!r}" for name, item in known if item not in (None, ""))
    kind = "kernel" if call.op in ("call_tir", "call_dps_packed") else "operator"
    reads = tuple(map(_read, call.args))
    name = call.callee or call.op
    return Drawn(name, kind, scope, -1, value, type_text(call.type), reads, options)


def _read(item: Expr) -> str:
    match item:
        case Var():
            return item.name
        case Constant():
            return f"constant {type_text(item.type)}"
        case _:  # other nodes: a tuple, a field of one
            return type_text(item.type)


def type_text(kind: Type) -> str:
    """A type as "float32[2, 3]"; the fields of a tuple one after the other."""
    return ", ".join(f"{t.dtype}{list(t.shape)}" for t in tensor_types(kind)) or "()"


def graph_of(value: Any, name: str | None = None) -> tuple[IRModule, str]:
    """The module of a module, a library or a graph function, and the name of a graph function in
    it: `name`, or the only one, or "main". `CompileError` where there is none, or a choice.
    """
    if isinstance(value, Function):
        value = IRModule.of({"main": value})
    mod = value if isinstance(value, IRModule) else getattr(value, "mod", None)
    if not isinstance(mod, IRModule):
        why = f"expected a module, a library or a graph function, got {type(value).__name__}"
        raise CompileError(why, code="E132")
    return mod, _name_in([n for n, func in mod.entries if isinstance(func, Function)], name)


def _name_in(known: Sequence[str], name: str | None) -> str:
    wanted = name or ("main" if len(known) != 1 else known[0])
    if wanted in known:
        return wanted
    if not known:
        raise CompileError("there is no graph function to show", code="E105")
    what = "which function to show?" if name is None else f'no graph function is called "{name}"'
    raise CompileError(what, code="E105", hint=did_you_mean(name or "", known))
