"""Statements of the loop language: loops, stores, conditions, allocations."""

import ast
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from minimlc.constants import is_folded
from minimlc.dtypes import INDEX
from minimlc.errors import did_you_mean
from minimlc.names import UniqueNames
from minimlc.node import walk, with_span
from minimlc.script.constructs import Form, forms
from minimlc.script.source import Names, Source
from minimlc.script.tir_expr import ExprReader
from minimlc.tir.nodes import (
    LOOP_KINDS,
    Alloc,
    Buffer,
    Const,
    Expr,
    For,
    IfThenElse,
    Load,
    LoopKind,
    Seq,
    Stmt,
    Store,
    Var,
    binary,
    index,
    load,
    store,
)

RANGE = Form("range(extent, stop=None, step=None)")
GRID = Form("T.grid(*extents)")
LOOPS = forms(
    "T.serial(extent, stop=None, annotations=None)",
    "T.parallel(extent, stop=None, annotations=None)",
    "T.vectorized(extent, stop=None, annotations=None)",
    "T.unroll(extent, stop=None, annotations=None)",
    "T.thread_binding(extent, stop=None, thread=None, annotations=None)",
)
ALLOCS = forms(
    'T.alloc_buffer(shape, dtype="float32", scope="global")',
    'T.decl_buffer(shape, dtype="float32", data=None, strides=None, elem_offset=None, '
    'scope="global")',
)
_KINDS: dict[str, LoopKind] = {spelling: kind for kind, spelling in LOOP_KINDS.items()}
LOOP_HINT = "for i in range(n), T.grid(n, m), T.serial, T.parallel, T.vectorized, T.unroll"
Item = Stmt | Buffer


def suite_of(items: Sequence[Item]) -> list[Stmt]:
    """Statements in order; a buffer among them is an `Alloc` that owns what follows it."""
    done: list[Stmt] = []
    for item in reversed(items):
        done = [Alloc(item, _seq(done))] if isinstance(item, Buffer) else [item, *done]
    return done


def sequence(items: Sequence[Item]) -> Stmt:
    """The items of a suite as one statement."""
    return _seq(suite_of(items))


def _seq(stmts: list[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


class StmtReader(ExprReader):
    """Reads statements that stand outside blocks; `BlockReader` adds blocks."""

    def __init__(self, source: Source, names: Names):
        ExprReader.__init__(self, source, names)
        self.loop_names = UniqueNames()
        self.extents: dict[Var, Expr] = {}
        self.sizes: dict[Var, int] = {}

    def suite(self, nodes: Iterable[ast.stmt]) -> Stmt:
        """An indented suite, with names of its own."""
        with self.scope.suite():
            return sequence(self.items(nodes))

    def items(self, nodes: Iterable[ast.stmt]) -> list[Item]:
        return [item for node in nodes for item in self.stmt(node)]

    def stmt_Pass(self, node: ast.Pass) -> list[Item]:
        return []

    def stmt_Expr(self, node: ast.Expr) -> list[Item]:
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return []
        name = self.path(value.func) if isinstance(value, ast.Call) else ""
        return self.action(node, name)

    def action(self, node: ast.Expr, name: str) -> list[Item]:
        """A call that stands as a statement."""
        hints = {
            "T.evaluate": "a statement stores to a buffer or is a loop",
            "T.where": 'it belongs inside: with T.block("..."):',
            "T.reads": 'it belongs inside: with T.block("..."):',
            "T.writes": 'it belongs inside: with T.block("..."):',
            "T.block_attr": 'it belongs inside: with T.block("..."):',
            "T.func_attr": "it belongs at the start of the function",
        }
        text = name or ast.unparse(node).split("(")[0][:40]
        hint = hints.get(name, "statements are loops, blocks and stores such as C[i] = value")
        raise self.error(node, f"{text} is no statement of a prim_func here", "E124", hint)

    # Loops

    def stmt_For(self, node: ast.For) -> list[Item]:
        if node.orelse:
            raise self.error(node.orelse[0], "a loop has no else", "E124")
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        loops = self.loop_header(node.iter)
        if len(targets) != len(loops):
            why = f"{len(targets)} loop variable(s) for {len(loops)} extent(s)"
            raise self.error(node.target, why, "E125", "each extent has a variable of its own")
        with self.scope.suite():
            variables = [
                self.loop_variable(target, start, extent)
                for target, (start, extent, _) in zip(targets, loops, strict=True)
            ]
            body = self.suite(node.body)
        span = self.source.span(node)
        for var, (_, extent, options) in reversed(list(zip(variables, loops, strict=True))):
            body = with_span(For(var, extent, body=body, **options), span)
        return [body]

    def loop_variable(self, target: ast.expr, start: Expr | None, extent: Expr) -> Var:
        if not isinstance(target, ast.Name):
            raise self.error(target, "a loop variable is a name", "E125")
        var = Var(self.loop_names.take(target.id))
        self.extents[var] = extent
        if isinstance(extent, Const):
            self.sizes[var] = int(extent.value)
        self.scope.bind(target.id, var if start is None else binary("+", var, start))
        return var

    def loop_header(self, node: ast.expr) -> list[tuple[Expr | None, Expr, dict[str, Any]]]:
        """Start (None: 0), extent and the other fields of each loop in a `for` header."""
        if not isinstance(node, ast.Call):
            raise self.error(node, "a loop runs over a range", "E125", LOOP_HINT)
        name = self.path(node.func)
        if name == "T.grid":
            return [
                (None, self.extent(item), {"kind": "serial"})
                for item in GRID.bind(self.source, node)["extents"]
            ]
        if name in LOOPS:
            bound = LOOPS[name].bind(self.source, node)
            return [(*self.bounds(bound), self.loop_options(_KINDS[name], node, bound))]
        if not name and ast.unparse(node.func) == "range":
            bound = RANGE.bind(self.source, node)
            if "step" in bound and self.read(bound["step"]) != 1:
                hint = "for i in range(n // step), and i * step inside"
                raise self.error(bound["step"], "a loop counts by 1", "E125", hint)
            return [(*self.bounds(bound), {"kind": "serial"})]
        shown = name or ast.unparse(node.func)
        raise self.error(node.func, f"{shown} is no loop", "E125", LOOP_HINT)

    def bounds(self, bound: dict[str, ast.expr]) -> tuple[Expr | None, Expr]:
        """`(n)` or `(start, stop)`. Loops of the tree begin at 0: the start moves into the body."""
        stop = bound.get("stop")
        if stop is None or (isinstance(stop, ast.Constant) and stop.value is None):
            return None, self.extent(bound["extent"])
        start, end = self.extent(bound["extent"]), self.extent(stop)
        if isinstance(start, Const) and start.value == 0:
            return None, end
        if isinstance(start, Const) and isinstance(end, Const):
            return start, index(int(end.value - start.value))
        return start, binary("-", end, start)

    def extent(self, node: ast.expr) -> Expr:
        value = self.expr(node, INDEX)
        if value.dtype != INDEX:
            hint = f'T.cast(n, "{INDEX}")'
            raise self.error(
                node, f"a loop's extent must be {INDEX}, got {value.dtype}", "E125", hint
            )
        return value

    def loop_options(
        self, kind: LoopKind, node: ast.Call, bound: dict[str, ast.expr]
    ) -> dict[str, Any]:
        options: dict[str, Any] = {"kind": kind}
        if "annotations" in bound:
            options["annotations"] = self.dictionary(bound["annotations"], "annotations")
        if kind == "thread_binding":
            if "thread" not in bound:
                hint = 'thread="threadIdx.x" or "blockIdx.x"'
                raise self.error(node, "T.thread_binding misses thread", "E121", hint)
            options["thread"] = self.string(bound["thread"], "thread")
        return options

    # Conditions

    def stmt_If(self, node: ast.If) -> list[Item]:
        test = self.read(node.test)
        if is_folded(test):
            chosen = self.suite(node.body if test else node.orelse)
            return list(chosen.stmts) if isinstance(chosen, Seq) else [chosen]
        if not isinstance(test, Expr) or test.dtype != "bool":
            got = test.dtype if isinstance(test, Expr | Buffer) else type(test).__name__
            why = f"a condition must be bool, got {got}"
            raise self.error(node.test, why, "E108", "compare: x > 0")
        then_case = self.suite(node.body)
        else_case = self.suite(node.orelse) if node.orelse else None
        return [with_span(IfThenElse(test, then_case, else_case), self.source.span(node))]

    # Stores, allocations, local names

    def stmt_Assign(self, node: ast.Assign) -> list[Item]:
        if len(node.targets) > 1:
            raise self.error(node, "one target for each =", "E124")
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return [self.store(node, target, None, node.value)]
        name = self.path(node.value.func) if isinstance(node.value, ast.Call) else ""
        if name in ALLOCS and isinstance(target, ast.Name):
            return [self.alloc(target.id, node.value)]  # type: ignore[arg-type]
        if isinstance(target, ast.Name):
            return self.local_name(target, node.value)
        raise self.error(target, "this cannot be assigned to", "E124", "C[i, j] = value")

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> list[Item]:
        hint = "C[i, j] = value stores; row = i * 4 + j names an index"
        raise self.error(node.annotation, "a prim_func has no typed variables", "E124", hint)

    def stmt_AugAssign(self, node: ast.AugAssign) -> list[Item]:
        if not isinstance(node.target, ast.Subscript):
            hint = "C[i, j] += value"
            raise self.error(node.target, "only a buffer's element can be updated", "E124", hint)
        return [self.store(node, node.target, node.op, node.value)]

    def store(
        self, node: ast.stmt, target: ast.Subscript, op: ast.operator | None, value: ast.expr
    ) -> Store:
        """`C[i] = value`, or `C[i] = C[i] op value`."""
        self.check_element(target)
        buffer = self.buffer(target.value)
        indices = self.indices(target.slice)
        place = self.source.guard(target, load, buffer, indices)
        stored = self.operand(value, self.read(value))
        if op is not None:
            with_span(place, self.source.span(target))
            stored = self.combine(value, op, place, stored)
        made = self.source.guard(value, store, buffer, indices, stored)
        return with_span(made, self.source.span(node))

    def alloc(self, name: str, call: ast.Call) -> Buffer:
        """A buffer of the function's own."""
        form = ALLOCS[self.path(call.func)]
        self.check_sizes(form.name, call)
        bound = form.bind(self.source, call)
        for option in ("data", "strides", "elem_offset"):
            if option in bound and self.read(bound[option]) is not None:
                why = f"a buffer has memory of its own, all of it: {form.name} takes no {option}"
                raise self.error(bound[option], why, "E124", f"leave {option} out")
        return self.declare(name, self.buffer_type(bound), call)

    def check_sizes(self, name: str, call: ast.Call) -> None:
        """Refuse `T.Buffer(8, 8, "float32")`, whose sizes are no tuple."""
        words = (ast.Tuple, ast.List)
        values = (None if isinstance(a, words) else self.read(a) for a in call.args)
        sizes = list(takewhile(lambda value: type(value) is int, values))
        if len(sizes) > 1:
            rest = "".join(f", {ast.unparse(a)}" for a in call.args[len(sizes) :])
            hint = f"{name}({tuple(sizes)}{rest})".replace("'", '"')
            raise self.error(call, "the shape is a tuple", "E126", hint)

    def buffer_type(self, bound: dict[str, ast.expr]) -> tuple[tuple[int, ...], str, str]:
        """The shape, dtype and scope in a `T.Buffer(...)` or `T.alloc_buffer(...)`."""
        dtype = self.dtype(bound["dtype"]) if "dtype" in bound else "float32"
        scope = self.string(bound["scope"], "a scope") if "scope" in bound else "global"
        return self.shape(bound["shape"]), dtype, scope

    def declare(self, name: str, kind: tuple[tuple[int, ...], str, str], place: Any) -> Buffer:
        """Bind a new buffer; its name is kept from the loops."""
        buffer = with_span(Buffer(name, *kind), self.source.span(place))
        self.loop_names.take(name)
        self.scope.bind(name, buffer)
        return buffer

    def local_name(self, target: ast.Name, node: ast.expr) -> list[Item]:
        """`row = i * 4 + j`: the expression stands wherever the name does."""
        if target.id in self.scope.values and isinstance(self.scope.values[target.id], Buffer):
            hint = f"{target.id}[i] = value stores one element"
            raise self.error(target, f"the buffer {target.id} cannot be replaced", "E124", hint)
        value = self.read(node)
        if isinstance(value, Buffer) or not (is_folded(value) or isinstance(value, Expr)):
            known = [n for n, v in self.scope.values.items() if isinstance(v, Buffer)]
            hint = did_you_mean(target.id, known)
            raise self.error(node, "a name can stand for an index expression only", "E124", hint)
        if isinstance(value, Expr) and any(isinstance(part, Load) for part in walk(value)):
            why = f'"{target.id}" would stand for a value read from memory'
            hint = f'store it: {target.id} = T.alloc_buffer((1,), "{value.dtype}") before the loops'
            raise self.error(target, why, "E124", hint)
        self.scope.bind(target.id, value)
        return []

    # with

    def stmt_With(self, node: ast.With) -> list[Item]:
        names = [self.context_name(item) for item in node.items]
        if all(name in ALLOCS for name in names):
            return [self.scoped_alloc(node)]
        if len(names) > 1:
            raise self.error(node.items[1].context_expr, "one construct for each with", "E124")
        if names[0] == "T.seq":
            with self.scope.suite():
                return [Seq(tuple(suite_of(self.items(node.body))))]
        return self.with_block(node, names[0])

    def context_name(self, item: ast.withitem) -> str:
        call = item.context_expr
        name = self.path(call.func) if isinstance(call, ast.Call) else ""
        if not name:
            hint = 'with T.block("C"):'
            raise self.error(call, "with takes a block", "E124", hint)
        return name

    def with_block(self, node: ast.With, name: str) -> list[Item]:
        """A `with` statement that is no allocation; blocks are read by `BlockReader`."""
        hint = 'with T.block("C"):, and with T.init(): inside it'
        raise self.error(node.items[0].context_expr, f"{name} cannot stand here", "E124", hint)

    def scoped_alloc(self, node: ast.With) -> Stmt:
        """`with T.alloc_buffer(...) as Y:`, whose buffers live while the suite runs."""
        with self.scope.suite():
            buffers = []
            for item in node.items:
                if not isinstance(item.optional_vars, ast.Name):
                    hint = 'with T.alloc_buffer((4,), "float32") as Y:'
                    raise self.error(item.context_expr, "this buffer needs a name", "E125", hint)
                buffers.append(self.alloc(item.optional_vars.id, item.context_expr))  # type: ignore[arg-type]
            body = self.suite(node.body)
        for buffer in reversed(buffers):
            body = Alloc(buffer, body)
        return body
