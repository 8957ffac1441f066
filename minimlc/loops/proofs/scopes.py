"""Every name is bound once, before it is used, and every expression has the dtype it needs."""

from collections.abc import Sequence
from typing import Any, NoReturn

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.walks import inner_stmts, statements_in
from minimlc.loops.proofs.arith import variables
from minimlc.loops.values.constants import unwritable
from minimlc.loops.values.dtypes import INDEX, dtype_record, is_size, whole_range
from minimlc.loops.values.errors import VerifyError, shown
from minimlc.loops.values.names import misnamed
from minimlc.loops.values.node import Node, children, nodes_of, span_of, walk


class Scopes:
    """Every name is bound once, before it is used, and every expression has the dtype it needs."""

    def __init__(self, name: str, sizes: frozenset[Node] = frozenset()):
        self.name = name
        self.sizes = sizes
        self.bound: set[Node] = set()
        kinds = ("loop", "block", "buffer", "size")
        self.names: dict[str, set[str]] = {kind: set() for kind in kinds}

    def function(self, func: ir.PrimFunc) -> None:
        self.attributes(func.attrs, func)
        for buffer in (*func.params, *func.allocs):
            self.buffer(buffer, func)
        for store in nodes_of(func.body, ir.Store):
            if store.buffer.scope == ir.SCALAR:
                self.fail(f"{store.buffer.name} is a number: it is only read", store)
        self.stmt(func.body, self.sizes | {*func.params, *func.allocs})

    def symbolic(self, item: ir.SymbolicFunc) -> None:
        """Check a function over `sizes`, which a call finds in shapes of arrays, or passes."""
        self.attributes(item.attrs, item)
        known: set[Any] = {size for param in item.func.params for size in param.shape}
        known |= {size for _, size in item.scalars}
        for size in item.sizes:
            self.unique(size.name, "size", item)
            if size not in known:
                why = f"nothing determines the size {size.name}: it is not a size of a parameter"
                self.fail(why, item, "E136")
        self.function(item.func)

    def is_size(self, value: Any) -> bool:
        """Whether a value can be a size here."""
        if not isinstance(value, ir.Expr):
            return is_size(value)
        inside = {type(part) for part in walk(value)} - {ir.Var, ir.Const, ir.Binary, ir.Unary}
        return value.dtype == INDEX and not inside and variables(value) <= self.sizes

    def fail(self, why: str, where: Node, code: str = "E101", hint: str = "") -> NoReturn:
        raise VerifyError(f"{self.name}: {why}", code=code, span=span_of(where), hint=hint)

    def bind(self, symbol: Node, kind: str, where: Node) -> None:
        if symbol in self.bound:
            self.fail(f"{kind} {symbol.name} is bound twice", where)  # type: ignore[attr-defined]
        self.bound.add(symbol)
        self.unique(symbol.name, kind, where)  # type: ignore[attr-defined]

    def buffer(self, buffer: ir.Buffer, where: Node) -> None:
        self.bind(buffer, "buffer", where)
        if buffer.scope == ir.SCALAR and buffer.shape:
            self.fail(f"{buffer.name} is a number: it has no axes", where)
        if not all(map(self.is_size, buffer.shape)):
            why = f"the sizes of {buffer.name} are integers >= 0, less than 2**63"
            self.fail(f"{why}, got {shown(buffer.shape)}", where)

    def unique(self, name: str, kind: str, where: Node) -> None:
        wrong = misnamed(kind, name)
        if wrong:
            self.fail(wrong, where)
        if name in self.names[kind]:
            self.fail(f'two {kind}s are called "{name}"', where, hint=f"rename one {kind}")
        self.names[kind].add(name)

    def attributes(self, attrs: ir.Annotations, where: Node) -> None:
        if unwritable(attrs):
            self.fail(unwritable(attrs), where)

    def stmt(self, item: ir.Stmt, scope: frozenset[Node]) -> None:
        match item:
            case ir.Seq():
                pass
            case ir.For(var, extent):
                self.attributes(item.annotations, item)
                self.index(extent, scope)
                self.bind(var, "loop", item)
                scope |= {var}
            case ir.Alloc(buffer):
                self.buffer(buffer, item)
                scope |= {buffer}
            case ir.IfThenElse(condition):
                self.condition(condition, scope)
            case ir.While(condition, body):
                self.condition(condition, scope)
                self.plain(body)
            case ir.Store(buffer, indices, value):
                self.element(item, buffer, indices, scope)
                self.expr(value, scope)
                if value.dtype != buffer.dtype:
                    why = f"{buffer.name} holds {buffer.dtype}, the value is {value.dtype}"
                    self.fail(why, item, "E108")
            case ir.Block():
                self.block(item, scope)
                scope |= {it.var for it in item.iters}
            case _:  # other nodes: `fail` raises
                self.fail(f"{type(item).__name__} is not a statement", item)
        for part in inner_stmts(item):
            self.stmt(part, scope)

    def plain(self, body: ir.Stmt) -> None:
        """A while loop's body is opaque to schedules: nothing in it has a name."""
        for part in statements_in(body):
            if not isinstance(part, ir.Seq | ir.Store | ir.IfThenElse | ir.While):
                why = f"a while loop holds stores and conditions, not a {type(part).__name__}"
                self.fail(why, part, "E125", "put the while loop inside, not outside")

    def block(self, block: ir.Block, scope: frozenset[Node]) -> None:
        self.unique(block.name, "block", block)
        self.attributes(block.annotations, block)
        for it in block.iters:
            self.index(it.value, scope)
        if block.predicate is not None:
            self.condition(block.predicate, scope)
        for it in block.iters:
            if it.var in self.bound:
                self.fail(f"iter {it.var.name} is bound twice", block)
            if misnamed("iter", it.var.name):
                self.fail(misnamed("iter", it.var.name), block)
            if not self.is_size(it.extent):
                why = f"the extent of {it.var.name} is an integer >= 0, less than 2**63"
                self.fail(f"{why}, got {shown(it.extent)}", block)
            self.bound.add(it.var)

    def index(self, expr: ir.Expr, scope: frozenset[Node]) -> None:
        self.expr(expr, scope)
        if expr.dtype != INDEX:
            self.fail(f"an index must be {INDEX}, got {expr.dtype}", expr, "E108")

    def condition(self, expr: ir.Expr, scope: frozenset[Node]) -> None:
        self.expr(expr, scope)
        if expr.dtype != "bool":
            self.fail(f"a condition must be bool, got {expr.dtype}", expr, "E108")

    def expr(self, expr: ir.Expr, scope: frozenset[Node]) -> None:
        match expr:
            # other nodes: right if their operands are
            case ir.Var(name) if expr not in scope:
                self.fail(f"{name} is used outside its loop or block", expr)
            case ir.Load(buffer, indices):
                self.element(expr, buffer, indices, scope)
                return
            case ir.Const(value, dtype) if not _has(dtype, value):
                self.fail(f"{shown(value)} is not a value of {dtype}", expr, "E108")
            case ir.Let():
                self.fail("Let stands in lowered code only", expr)
                return
            case ir.Binary(_, a, b) if a.dtype != b.dtype:
                self.fail(f'"{expr.op}" got {a.dtype} and {b.dtype}', expr, "E108")
        for part in children(expr):
            self.expr(part, scope)  # type: ignore[arg-type]

    def element(
        self, where: Node, buffer: ir.Buffer, indices: Sequence[ir.Expr], scope: frozenset[Node]
    ) -> None:
        if buffer not in scope:
            self.fail(f"buffer {buffer.name} is used outside its scope", where)
        if len(indices) != buffer.ndim:
            why = f"{buffer.name} has {buffer.ndim} dimension(s), got {len(indices)} index(es)"
            self.fail(why, where, "E107")
        for part in indices:
            self.index(part, scope)


def _has(dtype: str, value: object) -> bool:
    """Whether a constant may be of a dtype: floats are rounded where they are used."""
    limits = whole_range(dtype_record(dtype).name)
    if limits is None:
        return isinstance(value, float)
    return isinstance(value, int) and limits[0] <= value <= limits[1]
