"""The graph IR as text that parses back."""

from collections.abc import Iterable, Iterator

import numpy as np

from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.ops import OPS
from minimlc.loops.ir.printer import TirPrinter
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.literals import (
    Symbol,
    array_literal,
    dict_literal,
    encode,
    literal,
    prints_inline,
    quoted,
)
from minimlc.loops.values.node import Node, nodes_of, walk

SHOWN_ELEMENTS = 8
"""A constant with more elements is not spelled out in a text that is only read."""


class GraphPrinter(TirPrinter):
    """Collects the lines of one function or fragment of either level."""

    @staticmethod
    def named(item: Node) -> Iterator[tuple[str, np.ndarray]]:
        """The large constants of a node, by names that no variable or size begins with: then none
        is made unique to one, either.
        """
        stem, variables = "const", nodes_of(item, ir.Var)
        taken = {var.name for var in variables} | {*ir.size_names(*[var.type for var in variables])}
        while any(name.startswith(stem) for name in taken):
            stem += "_"
        arrays = {id(part.data): part.data for part in nodes_of(item, ir.Constant)}
        large = (data for data in arrays.values() if not prints_inline(data))
        return ((f"{stem}{number}", data) for number, data in enumerate(large))

    def graph_function(self, func: ir.Function, name: str, decorator: str) -> None:
        """The whole function, as `def name`."""
        self.line(decorator)
        params = [f"{self.names.declare(p)}: {_declared(p.type)}" for p in func.params]
        self.signature(name, params, f" -> {func.result.type!r}")
        outputs = _outputs(func)
        with self.indented():
            attrs = tuple([pair for pair in func.attrs if pair[0] != ir.BOUNDS])
            if attrs:
                self.line(f"R.func_attr({dict_literal(attrs)})")
            open_before = False
            for block, used in zip(func.blocks, outputs, strict=True):
                self.binding_block(block, used, open_before)
                open_before = not block.dataflow
            self.line(f"return {self.value(func.result)}")

    def binding_block(self, block: ir.BindingBlock, used: list[ir.Var], open_before: bool) -> None:
        """`with R.dataflow():`, or plain lines: under `R.block()` where they would run together."""
        if not block.dataflow and block.bindings and not open_before:
            for item in block.bindings:
                self.binding(item)
            return
        self.line("with R.dataflow():" if block.dataflow else "with R.block():")
        with self.indented():
            for item in block.bindings:
                self.binding(item)
            if block.dataflow:
                self.line(f"R.output({', '.join(self.names[var] for var in used)})")
            elif not block.bindings:
                self.line("pass")

    def binding(self, item: ir.Binding) -> None:
        value = self.value(item.value)
        inferred = isinstance(item.value, ir.Call) and item.value.op not in ir.JOINTS
        note = f": {item.var.type!r}" if inferred else ""
        self.line(f"{self.names.declare(item.var)}{note} = {value}")

    def value(self, item: ir.Expr) -> str:
        """A graph expression."""
        match item:
            case ir.Var():
                return self.names[item]
            case ir.Constant():
                return self.constant(item)
            case ir.Tuple(fields):
                return self.tuple_of(fields)
            case ir.TupleGetItem(tuple=source, index=index):
                return f"{self.value(source)}[{index}]"
            case ir.Call():
                return self.call(item)
            case _:
                raise CompileError(f"cannot print a {type(item).__name__}")

    def tuple_of(self, fields: Iterable[ir.Expr]) -> str:
        texts = [self.value(field) for field in fields]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    def call(self, item: ir.Call) -> str:
        if item.op not in ir.JOINTS:
            options = [f"{key}={_option(item, value)}" for key, value in _set_attrs(item)]
            return f"R.{item.op}({', '.join([*map(self.value, item.args), *options])})"
        if item.op in ir.CONTROL:
            names, args = (
                [quoted(name) for _, name in ir.called(item)],
                [*map(self.value, item.args)],
            )
            if item.op == "cond":
                args, names = [self.tuple_of(item.args[1:])], [args[0], *names]
            return f"R.{item.op}({', '.join([*names, *args])}, out={item.type!r})"
        extra = tuple((key, value) for key, value in item.attrs if key != "callee")
        options = [f"attrs={dict_literal(extra)}"] if extra else []
        arguments = [quoted(item.callee), self.tuple_of(item.args), f"out={item.type!r}", *options]
        return f"R.{item.op}({', '.join(arguments)})"

    def constant(self, item: ir.Constant) -> str:
        dtype = quoted(item.dtype)
        if id(item.data) in self.constants:
            return f"R.const({self.constants[id(item.data)]}, {item.type!r})"
        if prints_inline(item.data) and (self.full or item.data.size <= SHOWN_ELEMENTS):
            return f"R.const({array_literal(item.data)}, {dtype})"
        content = quoted(encode(item.data)) if self.full else "..."
        return f"R.const_data({content}, {literal(item.shape)}, {dtype})"

    def fragment(self, item: Node) -> str:
        """Any node but a function."""
        match item:
            case ir.Expr():
                return self.value(item)
            case ir.Binding():
                self.binding(item)
            case ir.BindingBlock():
                self.binding_block(item, [b.var for b in item.bindings[-1:]], False)
            case _:  # other nodes: of the loops
                return super().fragment(item)
        return "\n".join(self.lines)


def _declared(kind: ir.Type) -> str:
    """A parameter's type, with the bounds of its sizes."""
    if isinstance(kind, ir.TupleType):
        return f"R.Tuple({', '.join(map(_declared, kind.fields))})"
    texts = [(s.bounded or str(s)) if isinstance(s, Symbol) else s for s in kind.shape]
    return f"R.Tensor({literal(tuple(texts))}, {quoted(kind.dtype)})"


def _option(call: ir.Call, value: object) -> str:
    """An option's text; a data-dependent size has no meaning before, so it is a string. Bounds
    stand where they are declared.
    """
    if call.op == "match_cast" and isinstance(value, tuple):
        value = tuple([s.bounded or s if isinstance(s, Symbol) else s for s in value])
    return literal(str(value) if call.op == "first" and isinstance(value, Symbol) else value)


def _set_attrs(call: ir.Call) -> ir.Attrs:
    """An operator's attributes without those that have their default value."""
    defaults = OPS[call.op].attrs if call.op in OPS else ()
    if [key for key, _ in call.attrs] != [key for key, _ in defaults]:
        return call.attrs
    pairs = zip(call.attrs, defaults, strict=True)
    return tuple(attr for attr, (_, default) in pairs if literal(attr[1]) != literal(default))


def _outputs(func: ir.Function) -> list[list[ir.Var]]:
    """For each block, the variables that are used after it, in order of binding."""
    home = {b.var: number for number, block in enumerate(func.blocks) for b in block.bindings}
    used: set[Node] = {part for part in walk(func.result) if part in home}
    for number, block in enumerate(func.blocks):
        for item in block.bindings:
            used.update(p for p in walk(item.value) if home.get(p, number) != number)  # type: ignore[call-overload]
    return [[b.var for b in block.bindings if b.var in used] for block in func.blocks]
