"""Statements of the loop language: loops, stores, conditions, allocations."""

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from minimlc.constants import is_folded
from minimlc.dtypes import INDEX
from minimlc.errors import did_you_mean
from minimlc.names import UniqueNames
from minimlc.node import walk, with_span
from minimlc.script.source import Names, Place, Source
from minimlc.script.tir_expr import ExprReader
from minimlc.script.tir_forms import ALLOCS, LOOP_KIND_OF, LOOPS
from minimlc.tir import nodes as tir
from minimlc.tir.nodes import Buffer, Const, Expr, Stmt, Var

LOOP_HINT = "for i in range(n), T.grid(n, m), T.serial, T.parallel, T.vectorized, T.unroll"
Item = Stmt | Buffer
Loop = tuple[Expr | None, Expr, dict[str, Any]]
"""Start (None: 0), extent and the other fields of a loop."""


def statements(items: Sequence[Item]) -> list[Stmt]:
    """Statements in order; a buffer among them is an `Alloc` that owns what follows it."""
    done: list[Stmt] = []
    for item in reversed(items):
        done = [tir.Alloc(item, sequence(done))] if isinstance(item, Buffer) else [item, *done]
    return done


def sequence(stmts: list[Stmt]) -> Stmt:
    """Statements as one."""
    return stmts[0] if len(stmts) == 1 else tir.Seq(tuple(stmts))


class StmtReader(ExprReader):
    """Reads statements that stand outside blocks; `BlockReader` adds blocks."""

    def __init__(self, source: Source, names: Names):
        ExprReader.__init__(self, source, names)
        self.loop_names = UniqueNames()
        self.extents: dict[Var, Expr] = {}
        self.sizes: dict[Var, int] = {}

    def suite(self, nodes: Iterable[ast.stmt]) -> Stmt:
        """An indented suite as one statement."""
        return sequence(self.nested(nodes))

    def nested(self, nodes: Iterable[ast.stmt]) -> list[Stmt]:
        """The statements of an indented suite, which has names of its own."""
        with self.scope.suite():
            return statements(self.items(nodes))

    def items(self, nodes: Iterable[ast.stmt]) -> list[Item]:
        return [item for node in nodes for item in self.stmt(node) or ()]

    def action(self, node: ast.Expr, name: str) -> Any:
        hints = {
            "T.evaluate": "a statement stores to a buffer or is a loop",
            "T.func_attr": "it belongs at the start of the function",
            **dict.fromkeys(
                ("T.where", "T.reads", "T.writes", "T.block_attr"),
                'it belongs inside: with T.block("..."):',
            ),
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
            body = with_span(tir.For(var, extent, body=body, **options), span)
        return [body]

    def loop_variable(self, target: ast.expr, start: Expr | None, extent: Expr) -> Var:
        if not isinstance(target, ast.Name):
            raise self.error(target, "a loop variable is a name", "E125")
        var = Var(self.loop_names.take(target.id))
        self.extents[var] = extent
        if isinstance(extent, Const):
            self.sizes[var] = int(extent.value)
        self.scope.bind(target.id, var if start is None else tir.binary("+", var, start))
        return var

    def loop_header(self, node: ast.expr) -> list[Loop]:
        """The loops in a `for` header, outer to inner."""
        if not isinstance(node, ast.Call):
            raise self.error(node, "a loop runs over a range", "E125", LOOP_HINT)
        text = ast.unparse(node.func)
        name = self.path(node.func) or ("range" if text == "range" else "")
        if name not in LOOPS:
            raise self.error(node.func, f"{name or text} is no loop", "E125", LOOP_HINT)
        bound = self.arguments(LOOPS[name], node)
        if name == "T.grid":
            return [(None, self.extent(item), {"kind": "serial"}) for item in bound["extents"]]
        if bound.get("step") and self.read(bound["step"]) != 1:
            hint = "for i in range(n // step), and i * step inside"
            raise self.error(bound["step"], "a loop counts by 1", "E125", hint)
        start, extent = self.bounds(bound["extent"], bound["stop"])
        if bound.get("thread", "") is None:
            hint = 'thread="threadIdx.x" or "blockIdx.x"'
            raise self.error(node, "T.thread_binding misses thread", "E121", hint)
        options = {key: bound[key] for key in ("thread", "annotations") if bound.get(key)}
        options["kind"] = LOOP_KIND_OF.get(name, "serial")
        return [(start, extent, options)]

    def bounds(self, first: ast.expr, stop: ast.expr | None) -> tuple[Expr | None, Expr]:
        """`(n)` or `(start, stop)`. Loops of the tree begin at 0: the start moves into the body."""
        if stop is None:
            return None, self.extent(first)
        start, end = self.extent(first), self.extent(stop)
        if isinstance(start, Const) and start.value == 0:
            return None, end
        return start, self.between(start, end)

    def between(self, low: Expr, high: Expr) -> Expr:
        """`high - low`, as a number where both are."""
        if isinstance(low, Const) and isinstance(high, Const):
            return tir.index(int(high.value) - int(low.value))
        return tir.binary("-", high, low)

    def extent(self, node: ast.expr) -> Expr:
        return self.integral(node, f"a loop's extent must be {INDEX}", f'T.cast(n, "{INDEX}")')

    def integral(self, node: ast.expr, what: str, hint: str = "") -> Expr:
        """An expression of the dtype of indices; `what` begins the error."""
        value = self.expr(node, INDEX)
        if value.dtype != INDEX:
            raise self.error(node, f"{what}, got {value.dtype}", "E125", hint)
        return value

    # Conditions

    def stmt_If(self, node: ast.If) -> list[Item]:
        test = self.read(node.test)
        if is_folded(test):
            chosen = self.suite(node.body if test else node.orelse)
            return list(chosen.stmts) if isinstance(chosen, tir.Seq) else [chosen]
        condition = self.is_bool(node.test, test, "compare: x > 0")
        then_case = self.suite(node.body)
        else_case = self.suite(node.orelse) if node.orelse else None
        item = tir.IfThenElse(condition, then_case, else_case)
        return [with_span(item, self.source.span(node))]

    # Stores, allocations, local names

    def assign(self, node: ast.Assign, target: ast.expr, value: ast.expr) -> list[Item] | None:
        name, named = self.called(value), isinstance(target, ast.Name)
        if name.startswith("T.axis.") or (named and name in self.forms["assign"]):
            result: list[Item] | None = self.apply("assign", value, target)
            return result
        if isinstance(target, ast.Subscript):
            return [self.store(node, target, None, value)]
        if isinstance(target, ast.Name):
            self.local_name(target, value)
            return None
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
    ) -> Stmt:
        """`C[i] = value`, or `C[i] = C[i] op value`."""
        self.check_element(target)
        buffer = self.buffer(target.value)
        indices = self.indices(target.slice)
        place = self.source.guard(target, tir.load, buffer, indices)
        stored = self.operand(value, self.read(value))
        if op is not None:
            with_span(place, self.source.span(target))
            stored = self.combine(value, op, place, stored)
        item = self.source.guard(value, tir.store, buffer, indices, stored)
        return with_span(item, self.source.span(node))

    def assign_alloc_buffer(self, call: ast.Call, target: ast.Name, **bound: Any) -> list[Item]:
        return [self.alloc(call, target, **bound)]

    assign_decl_buffer = assign_alloc_buffer

    def alloc(
        self, call: ast.Call, target: ast.Name, shape: Any, dtype: str, scope: str, **others: Any
    ) -> Buffer:
        """A buffer of the function's own."""
        for option, node in others.items():
            if node is not None and self.read(node) is not None:
                name = self.called(call)
                why = f"a buffer has memory of its own, all of it: {name} takes no {option}"
                raise self.error(node, why, "E124", f"leave {option} out")
        return self.declare(target.id, call, shape, dtype, scope)

    def declare(self, name: str, place: Place, shape: Any, dtype: str, scope: str) -> Buffer:
        """Bind a new buffer; its name is kept from the loops."""
        buffer = with_span(Buffer(name, shape, dtype, scope), self.source.span(place))
        self.loop_names.take(name)
        self.scope.bind(name, buffer)
        return buffer

    def local_name(self, target: ast.Name, node: ast.expr) -> None:
        """`row = i * 4 + j`: the expression stands wherever the name does."""
        if isinstance(self.scope.values.get(target.id), Buffer):
            hint = f"{target.id}[i] = value stores one element"
            raise self.error(target, f"the buffer {target.id} cannot be replaced", "E124", hint)
        value = self.read(node)
        if isinstance(value, Buffer) or not (is_folded(value) or isinstance(value, Expr)):
            hint = did_you_mean(target.id, self.buffers())
            raise self.error(node, "a name can stand for an index expression only", "E124", hint)
        if isinstance(value, Expr) and any(isinstance(part, tir.Load) for part in walk(value)):
            why = f'"{target.id}" would stand for a value read from memory'
            hint = f'store it: {target.id} = T.alloc_buffer((1,), "{value.dtype}") before the loops'
            raise self.error(target, why, "E124", hint)
        self.scope.bind(target.id, value)

    # with

    def stmt_With(self, node: ast.With) -> list[Item] | None:
        names = [self.context_name(item) for item in node.items]
        if all(name in ALLOCS for name in names):
            return [self.scoped_alloc(node)]
        if len(names) > 1:
            raise self.error(node.items[1].context_expr, "one construct for each with", "E124")
        call = node.items[0].context_expr
        if names[0] == "T.seq":
            return [tir.Seq(tuple(self.nested(node.body)))]
        if names[0] in self.forms["with"]:
            items: list[Item] | None = self.apply("with", call, node)
            return items
        hint = 'with T.block("C"):, and with T.init(): inside it'
        raise self.error(call, f"{names[0]} cannot stand here", "E124", hint)

    def context_name(self, item: ast.withitem) -> str:
        name = self.called(item.context_expr)
        if not name:
            hint = 'with T.block("C"):'
            raise self.error(item.context_expr, "with takes a block", "E124", hint)
        return name

    def scoped_alloc(self, node: ast.With) -> Stmt:
        """`with T.alloc_buffer(...) as Y:`, whose buffers live while the suite runs."""
        buffers = []
        with self.scope.suite():
            for item in node.items:
                call: Any = item.context_expr
                if not isinstance(item.optional_vars, ast.Name):
                    hint = 'with T.alloc_buffer((4,), "float32") as Y:'
                    raise self.error(call, "this buffer needs a name", "E125", hint)
                bound = self.arguments(ALLOCS[self.called(call)], call)
                buffers.append(self.alloc(call, item.optional_vars, **bound))
            body = self.suite(node.body)
        for buffer in reversed(buffers):
            body = tir.Alloc(buffer, body)
        return body
