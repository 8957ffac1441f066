"""The loop IR as text that parses back."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import numpy as np

from minimlc.loops.ir import nodes as ir
from minimlc.loops.values.dtypes import INDEX, is_float
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.literals import dict_literal, literal, number_text, quoted
from minimlc.loops.values.names import SymbolNames
from minimlc.loops.values.node import Node, structural_equal, walk

COLUMNS = 100
_LEVELS = (
    ("or",),
    ("and",),
    ("not",),
    ir.COMPARISONS,
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "//", "%"),
    ("unary -", "~"),
)
PRECEDENCE = {op: level for level, ops in enumerate(_LEVELS, start=1) for op in ops}
"""How tightly Python binds each operator."""
_NO_SCOPE = "global"


class TirPrinter:
    """Collects the lines of one function or fragment.

    With `full=False` the elements of larger constants are left out: good to read, not to parse.
    Those in `constants`, by the identity of their arrays, have names instead.
    """

    def __init__(self, depth: int = 0, full: bool = True, constants: Mapping[int, str] = {}):
        self.full, self.constants = full, constants
        self.names = SymbolNames()
        self.lines: list[str] = []
        self.depth = depth
        self.extents: dict[ir.Var, ir.Expr] = {}

    @staticmethod
    def named(item: Node) -> Iterator[tuple[str, np.ndarray]]:
        """The large constants of a node, and names for them."""
        return iter(())

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    # Functions

    def function(self, func: ir.PrimFunc, name: str, decorator: str) -> None:
        """The whole function, as `def name`."""
        self.line(decorator)
        params = [f"{self.names.declare(p)}: {annotation(self, p)}" for p in func.params]
        self.signature(name, params, "")
        with self.indented():
            inside(self, func, func.attrs)

    def size(self, size: Any) -> str:
        """A size of a buffer, or the extent of an axis."""
        return self.expr(size) if isinstance(size, ir.Expr) else literal(size)

    def signature(self, name: str, params: list[str], returns: str) -> None:
        """`def name(params) -> returns:` on one line, or a line for each parameter."""
        text = f"def {name}({', '.join(params)}){returns}:"
        if len(text) + 4 * self.depth <= COLUMNS:
            self.line(text)
            return
        self.line(f"def {name}(")
        with self.indented():
            for param in params:
                self.line(f"{param},")
        self.line(f"){returns}:")

    # Statements

    def suite(self, body: ir.Stmt, top: bool = False) -> None:
        """The statements of a body. An `Alloc` at its end owns what follows it.

        At the `top` of a function a plain `Y = T.alloc_buffer(...)` is one of `func.allocs`.
        """
        while True:
            parts = body.stmts if isinstance(body, ir.Seq) and len(body.stmts) != 1 else (body,)
            last = parts[-1] if parts else None
            if top or not isinstance(last, ir.Alloc):
                return self.parts(parts)
            if parts[:-1]:
                self.parts(parts[:-1])
            self.line(f"{self.names.declare(last.buffer)} = {_alloc(self, last.buffer)}")
            body = last.body

    def parts(self, stmts: Iterable[ir.Stmt]) -> None:
        empty = True
        for stmt in stmts:
            self.stmt(stmt)
            empty = False
        if empty:
            self.line("pass")

    def stmt(self, item: ir.Stmt) -> None:
        """Write one statement, on separate lines."""
        match item:
            case ir.For():
                self.loop(item)
            case ir.Block():
                self.block(item)
            case ir.Store(buffer, indices, value):
                self.line(f"{self.element(buffer, indices)} = {self.expr(value)}")
            case ir.IfThenElse():
                self.branch(item, "if")
            case ir.Alloc():
                self.scoped_alloc(item)
            case ir.While(condition, body):
                self.line(f"while {self.expr(condition)}:")
                with self.indented():
                    self.suite(body)
            case ir.Seq(stmts):
                self.line("with T.seq():")
                with self.indented():
                    self.parts(stmts)
            case _:
                raise CompileError(f"cannot print a {type(item).__name__}")

    def loop(self, item: ir.For) -> None:
        nest = [item]
        while _joins_grid(nest):
            nest.append(nest[-1].body)  # type: ignore[arg-type]
        header = self.grid(nest) if len(nest) > 1 else self.loop_range(item)
        for loop in nest:
            self.extents[loop.var] = loop.extent
        variables = ", ".join([self.names.declare(loop.var) for loop in nest])
        self.line(f"for {variables} in {header}:")
        with self.indented():
            self.suite(nest[-1].body)

    def grid(self, nest: list[ir.For]) -> str:
        return f"T.grid({', '.join(self.expr(loop.extent) for loop in nest)})"

    def loop_range(self, loop: ir.For) -> str:
        if _plain(loop):
            return f"range({self.expr(loop.extent)})"
        arguments = [self.expr(loop.extent)]
        if loop.thread:
            arguments.append(f"thread={quoted(loop.thread)}")
        if loop.annotations:
            arguments.append(f"annotations={dict_literal(loop.annotations)}")
        return f"{ir.LOOP_KINDS[loop.kind]}({', '.join(arguments)})"

    def block(self, item: ir.Block) -> None:
        self.line(f"with T.block({quoted(item.name)}):")
        values = [self.expr(it.value) for it in item.iters]
        predicate = None if item.predicate is None else self.expr(item.predicate)
        for it in item.iters:
            self.names.declare(it.var)
        with self.indented():
            self.iters(item, values)
            if predicate is not None:
                self.line(f"T.where({predicate})")
            if item.annotations:
                self.line(f"T.block_attr({dict_literal(item.annotations)})")
            if item.init is not None:
                self.line("with T.init():")
                with self.indented():
                    self.suite(item.init)
            self.suite(item.body)
        for it in item.iters:
            self.names.forget(it.var)

    def iters(self, block: ir.Block, values: list[str]) -> None:
        """Write the axes; a run of plain loop variables is one `remap`."""
        pairs = zip(block.iters, values, strict=True)
        for plain, run in groupby(pairs, key=lambda pair: self.is_loop(pair[0])):
            group = list(run)
            if plain and len(group) > 1:
                left = ", ".join(self.names[it.var] for it, _ in group)
                kinds = "".join(it.kind for it, _ in group)
                loops = ", ".join(value for _, value in group)
                self.line(f'{left} = T.axis.remap("{kinds}", [{loops}])')
                continue
            for it, value in group:
                name = self.names[it.var]
                self.line(f"{name} = {ir.ITER_KINDS[it.kind]}({self.size(it.extent)}, {value})")

    def is_loop(self, it: ir.BlockIter) -> bool:
        extent = self.extents.get(it.value) if isinstance(it.value, ir.Var) else None
        if isinstance(it.extent, ir.Expr):
            return structural_equal(extent, it.extent)
        return isinstance(extent, ir.Const) and extent.dtype == INDEX and extent.value == it.extent

    def branch(self, item: ir.IfThenElse, word: str) -> None:
        self.line(f"{word} {self.expr(item.condition)}:")
        with self.indented():
            self.suite(item.then_case)
        if isinstance(item.else_case, ir.IfThenElse):
            self.branch(item.else_case, "elif")
        elif item.else_case is not None:
            self.line("else:")
            with self.indented():
                self.suite(item.else_case)

    def scoped_alloc(self, item: ir.Alloc) -> None:
        """Buffers that end before the suite does: `with T.alloc_buffer(...) as Y:`."""
        buffers = [item.buffer]
        while isinstance(item.body, ir.Alloc):
            item = item.body
            buffers.append(item.buffer)
        items = [f"{_alloc(self, b)} as {self.names.declare(b)}" for b in buffers]
        if len(items) == 1:
            self.line(f"with {items[0]}:")
        else:
            self.line("with (")
            with self.indented():
                for text in items:
                    self.line(f"{text},")
            self.line("):")
        with self.indented():
            self.suite(item.body)

    # Expressions

    def element(self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> str:
        if buffer.scope == ir.SCALAR:
            return self.names[buffer]
        return f"{self.names[buffer]}[{', '.join(map(self.expr, indices)) or '()'}]"

    def expr(self, item: ir.Expr, level: int = 0) -> str:
        """An expression, in parentheses where it binds looser than `level`."""
        match item:
            case ir.Expr(_symbol=True):
                return self.names[item]
            case ir.Const():
                return str(item.value) if item.dtype == INDEX else _typed(item)
            case ir.Binary(op, a, b) if op in ("min", "max"):
                return f"T.{op}({self.expr(a)}, {self.expr(b)})"
            case ir.Binary():
                return self.binary(item, level)
            case ir.Unary(op, a):
                binding = PRECEDENCE["unary -" if op == "-" else op]
                space = " " if op == "not" else ""
                return _group(f"{op}{space}{self.operand(a, binding)}", binding, level)
            case ir.Select(condition, a, b):
                return f"T.if_then_else({', '.join(map(self.expr, (condition, a, b)))})"
            case ir.Cast(dtype, a):
                return f"T.cast({self.expr(a)}, {quoted(dtype)})"
            case ir.Intrin(name, args):
                return f"T.{name}({', '.join(self.operand(a, 0) for a in args)})"
            case ir.Load(buffer, indices):
                return self.element(buffer, indices)
            case ir.Let(var, value, body):
                return self.let(var, self.expr(value), body)
            case _:
                raise CompileError(f"cannot print a {type(item).__name__}")

    def let(self, var: ir.Var, value: str, body: ir.Expr) -> str:
        name = self.names.declare(var)
        text = f"T.Let({self.expr(body)}, where={{{name}: {value}}})"
        self.names.forget(var)
        return text

    def operand(self, item: ir.Expr, level: int) -> str:
        """An operand that stands alone: a constant names its dtype, which nothing else gives it."""
        return _typed(item) if isinstance(item, ir.Const) else self.expr(item, level)

    def binary(self, item: ir.Binary, level: int) -> str:
        binding = PRECEDENCE[item.op]
        chained = item.op in ir.COMPARISONS
        constants = isinstance(item.a, ir.Const) and isinstance(item.b, ir.Const)
        left = (self.operand if constants else self.expr)(item.a, binding + chained)
        return _group(f"{left} {item.op} {self.expr(item.b, binding + 1)}", binding, level)

    def fragment(self, item: Node) -> str:
        """Any node of the loop IR but a function."""
        match item:
            case ir.Expr():
                return self.expr(item)
            case ir.Stmt():
                self.stmt(item)
                return "\n".join(self.lines)
            case ir.Buffer():
                return f"{item.name}: T.Buffer({type_text(self, item)})"
            case ir.BlockIter(var, extent, kind, value):
                return (
                    f"{var.name} = {ir.ITER_KINDS[kind]}({self.size(extent)}, {self.expr(value)})"
                )
            case _:
                raise CompileError(f"cannot print a {type(item).__name__}")


def _group(text: str, binding: int, level: int) -> str:
    return f"({text})" if binding < level else text


def _typed(item: ir.Const) -> str:
    text = number_text(item.value) if is_float(item.dtype) else repr(item.value)
    return f"T.{item.dtype}({text})"


def inside(printer: TirPrinter, func: ir.PrimFunc, attrs: ir.Annotations) -> None:
    """Write the inside of a function: attributes, buffers and body."""
    if attrs:
        printer.line(f"T.func_attr({dict_literal(attrs)})")
    for buffer in func.allocs:
        printer.line(f"{printer.names.declare(buffer)} = {_alloc(printer, buffer)}")
    printer.suite(func.body, top=True)


def annotation(printer: TirPrinter, buffer: ir.Buffer) -> str:
    """A parameter's annotation: `T.float32` for a number, else `T.Buffer(...)`."""
    is_number = buffer.scope == ir.SCALAR
    return f"T.{buffer.dtype}" if is_number else f"T.Buffer({type_text(printer, buffer)})"


def type_text(printer: TirPrinter, buffer: ir.Buffer) -> str:
    """Shape, dtype and scope."""
    scope = "" if buffer.scope == _NO_SCOPE else f", scope={quoted(buffer.scope)}"
    sizes: tuple[Any, ...] = buffer.shape
    shape = ", ".join(map(printer.size, sizes)) + ("," if len(sizes) == 1 else "")
    return f"({shape}), {quoted(buffer.dtype)}{scope}"


def _alloc(printer: TirPrinter, buffer: ir.Buffer) -> str:
    return f"T.alloc_buffer({type_text(printer, buffer)})"


def _plain(loop: ir.For) -> bool:
    return loop.kind == "serial" and not loop.thread and not loop.annotations


def _joins_grid(nest: list[ir.For]) -> bool:
    """Whether the next loop inside belongs to the same `T.grid`."""
    inner = nest[-1].body
    if not (isinstance(inner, ir.For) and _plain(nest[-1]) and _plain(inner)):
        return False
    outer = {loop.var for loop in nest}
    return not any(part in outer for part in walk(inner.extent))
