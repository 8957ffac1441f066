"""Statements of the loop language: loops, stores, conditions, allocations."""

import ast
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.nodes import LOOP_KINDS, Buffer, Const, Expr, LoopKind, Stmt, Var
from minimlc.loops.text.reader import HELPERS, combine, items_of
from minimlc.loops.text.syntax import declares
from minimlc.loops.text.tir_buffer import declare_variable
from minimlc.loops.text.tir_expr import (
    LOOPS,
    Header,
    Item,
    Loop,
    Loops,
    Named,
    between,
    check_element,
    element_of,
)
from minimlc.loops.text.tir_let import buffers_read, check_named, name_value
from minimlc.loops.values.constants import is_folded
from minimlc.loops.values.dtypes import DTYPES, INDEX, is_integer

_LOOP_HINT = "for i in range(n), T.grid(n, m), T.serial, T.parallel, T.vectorized, T.unroll"
_PLACES = {
    "T.func_attr": "it belongs at the start of the function",
    **dict.fromkeys(
        ("T.where", "T.reads", "T.writes", "T.block_attr"),
        'it belongs inside: with T.block("..."):',
    ),
}
_LOOP_KIND_OF: dict[str, LoopKind] = {spelling: kind for kind, spelling in LOOP_KINDS.items()}
_ALLOCS = ("T.alloc_buffer", "T.decl_buffer")


class _Loop(NamedTuple):
    """One loop of a header. Loops of the tree begin at 0 and count by 1: start and step move into
    the body.
    """

    start: Expr | None
    extent: Expr
    options: dict[str, Any]
    step: int = 1


def _statements(items: Sequence[Item]) -> list[Stmt]:
    """Statements in order; a buffer among them is an `Alloc` that owns what follows it."""
    done: list[Stmt] = []
    for item in reversed(items):
        done = [ir.Alloc(item, _sequence(done))] if isinstance(item, Buffer) else [item, *done]
    return done


def _sequence(stmts: list[Stmt]) -> Stmt:
    """Statements as one."""
    return stmts[0] if len(stmts) == 1 else ir.Seq(tuple(stmts))


def items(reader: Loops, nodes: Iterable[ast.stmt]) -> list[Item]:
    """The items that statements mean, in order."""
    outer, reader.named = reader.named, []
    done: list[Item] = []
    ends: list[int] = []
    for node in nodes:
        done += reader.stmt(node) or ()
        ends += [len(done)] * (len(reader.named) - len(ends))
    for named, end in zip(reader.named, ends, strict=True):
        check_named(reader, named, done[end:])
    reader.named = outer
    return done


def nested(reader: Loops, nodes: Iterable[ast.stmt], header: Header | None = None) -> list[Stmt]:
    """The statements of an indented suite, which has a separate scope; those of a block or the
    function note their declarations in its `header`.
    """
    outer, reader.header = reader.header, header
    with reader.own_names():
        stmts = _statements(items(reader, nodes))
    reader.header = outer
    return stmts


def suite(reader: Loops, nodes: Iterable[ast.stmt], header: Header | None = None) -> Stmt:
    """An indented suite as one statement."""
    return _sequence(nested(reader, nodes, header))


@LOOPS.reads(ast.Expr)
def _expression(reader: Loops, node: ast.Expr) -> list[Item] | None:
    """A construct that stands alone; the statements of a macro."""
    for helpers in HELPERS:
        helper = helpers.helper_of(reader, node.value)
        if helper is not None and helper.is_macro:
            call: Any = node.value
            items: list[Item] = helpers.inlined(reader, call, helper, partial(_macro, reader, call))
            return items
    name = reader.called(node.value)
    if name == "T.block_attr" and reader.inside("function"):
        name = "T.func_attr"  # the block around the whole body is the function
    form = LOOPS.forms["action"].get(name)
    header = reader.inside("function" if name == "T.func_attr" else "block")
    if name == "T.evaluate":
        reader.apply(LOOPS.forms["alone"][name], node.value)
        return None
    if form is not None and header is not None:
        note(reader, node.value, header, name, reader.apply(form, node.value))
        return None
    text = name or ast.unparse(node).split("(")[0][:40]
    hint = _PLACES.get(name, "statements are loops, blocks and stores such as C[i] = value")
    raise reader.error(node, f"{text} is not a statement of a prim_func here", "E124", hint)


def _macro(reader: Loops, call: ast.Call, nodes: Sequence[ast.stmt]) -> list[Item]:
    """A macro's statements; what its parameters stand for must stay what it is."""
    given = dict(reader.scope)
    done = items(reader, nodes)
    for name, value in given.items():
        if isinstance(value, Expr) and (read := buffers_read(value)):
            target = ast.copy_location(ast.Name(name), call)
            check_named(reader, Named(target, read, value.dtype), done)
    return done


def note(reader: Loops, node: ast.expr, header: Header, name: str, value: Any) -> None:
    """Note what the construct `name` declares of the block, or the function, that is read."""
    if name == "T.func_attr":
        value = header.parts.get(name, ()) + value
    elif name in header.parts:
        raise reader.error(node, f"this block has a {name} already", "E125")
    header.parts[name] = value


@LOOPS.reads("T.evaluate(value)", role="alone")
def _evaluate(reader: Loops, call: ast.Call, value: ast.expr) -> None:
    """A value that nobody uses: expressions have no effects, so nothing is left of it."""
    reader.expr(value)


@LOOPS.reads("T.func_attr(attributes)", "T.block_attr(attributes)", role="action")
def _attributes(reader: Loops, call: ast.Call, attributes: Any) -> Any:
    return attributes


# Loops


@LOOPS.reads(ast.For)
def _for(reader: Loops, node: ast.For) -> list[Item]:
    if node.orelse:
        raise reader.error(node.orelse[0], "a loop has no else", "E124")
    targets = items_of(node.target)
    loops = _loop_header(reader, node.iter)
    if len(targets) != len(loops):
        why = f"{len(targets)} loop variable(s) for {len(loops)} extent(s)"
        raise reader.error(node.target, why, "E125", "each extent has a variable of its own")
    with reader.own_names():
        pairs = zip(targets, loops, strict=True)
        variables = [_loop_variable(reader, target, loop) for target, loop in pairs]
        body = suite(reader, node.body)
    for var, loop in zip(reversed(variables), reversed(loops), strict=True):
        body = reader.placed(ir.For(var, loop.extent, body=body, **loop.options), node)
    for target, loop in zip(targets, loops, strict=True):
        if loop.start is not None and isinstance(target, ast.Name):  # it stands where that does
            check_named(reader, Named(target, buffers_read(loop.start), INDEX), [body])
    return [body]


def _loop_variable(reader: Loops, target: ast.expr, loop: _Loop) -> Var:
    if not isinstance(target, ast.Name):
        raise reader.error(target, "a loop variable is a name", "E125")
    var = Var(reader.loop_names.take(target.id))
    if isinstance(loop.extent, Const):
        reader.sizes[var] = int(loop.extent.value)
    value = moved(var, loop.start, loop.step)
    reader.loops[value] = Loop(var, loop.start, loop.extent, loop.step)
    reader.scope[target.id] = value
    return var


def moved(var: Expr, start: Expr | None, step: int = 1) -> Expr:
    """The value of a variable that counts from 0, where its values begin at `start`."""
    if step < 0:
        back = var if step == -1 else ir.binary("*", var, -step)
        return ir.binary("-", ir.index(0) if start is None else start, back)
    value = var if step == 1 else ir.binary("*", var, step)
    return value if start is None or _is_zero(start) else ir.binary("+", value, start)


def _loop_header(reader: Loops, node: ast.expr) -> list[_Loop]:
    """The loops in a `for` header, outer to inner."""
    if not isinstance(node, ast.Call):
        raise reader.error(node, "a loop runs over a range", "E125", _LOOP_HINT)
    name, text = reader.path(node.func), ast.unparse(node.func)
    form = LOOPS.forms["loop"].get("range" if text == "range" else name)
    if form is None:
        raise reader.error(node.func, f"{name or text} is not a loop", "E125", _LOOP_HINT)
    return reader.apply(form, node)


@LOOPS.reads("T.grid(*extents)", role="loop")
def _grid(reader: Loops, call: ast.Call, extents: list[ast.expr]) -> list[_Loop]:
    return [_Loop(None, _extent(reader, item), {"kind": "serial"}) for item in extents]


@LOOPS.reads(
    "range(extent, stop=None, step=None)",
    "T.serial(extent, stop=None, annotations=None)",
    "T.parallel(extent, stop=None, annotations=None)",
    "T.vectorized(extent, stop=None, annotations=None)",
    "T.unroll(extent, stop=None, annotations=None)",
    "T.thread_binding(extent, stop=None, thread=None, annotations=None)",
    role="loop",
)
def _loop(
    reader: Loops,
    call: ast.Call,
    extent: ast.expr,
    stop: ast.expr | None,
    step: ast.expr | None = None,
    **options: Any,
) -> list[_Loop]:
    """One loop over `(n)`, `(start, stop)` or `(start, stop, step)`."""
    by = 1 if step is None else reader.integer(step, "a loop's step")
    if step is not None and by == 0:
        raise reader.error(step, "a loop's step is not 0", "E125", "range(start, stop, 1)")
    start, size = None, _extent(reader, extent)
    if stop is not None:
        start, size = size, _extent(reader, stop)
        size = _count(start, size, by)
        start = None if _is_zero(start) else start
    if options.get("thread", "") is None:
        hint = 'thread="threadIdx.x" or "blockIdx.x"'
        raise reader.error(call, "T.thread_binding misses thread", "E121", hint)
    options = {key: value for key, value in options.items() if value}
    kind = _LOOP_KIND_OF.get(reader.called(call), "serial")
    return [_Loop(start, size, {**options, "kind": kind}, by)]


def _count(start: Expr, stop: Expr, step: int) -> Expr:
    """The number of values in a range."""
    low, high = (start, stop) if step > 0 else (stop, start)
    size = between(low, high)
    if isinstance(size, Const):
        return ir.index(max(0, -(-int(size.value) // abs(step))))
    if abs(step) == 1:
        return size
    return ir.binary("//", ir.binary("+", size, abs(step) - 1), abs(step))


def _is_zero(value: Expr) -> bool:
    return isinstance(value, Const) and value.value == 0


def _extent(reader: Loops, node: ast.expr) -> Expr:
    hint = f'T.cast(n, "{INDEX}")'
    return integral(reader, node, f"a loop's extent must be {INDEX}", hint)


def integral(reader: Loops, node: ast.expr, what: str, hint: str = "") -> Expr:
    """An expression of the dtype of indices; `what` begins the error."""
    value = reader.expr(node, INDEX)
    if isinstance(value, Const) and is_integer(value.dtype):
        return ir.index(int(value.value))
    if value.dtype != INDEX:
        raise reader.error(node, f"{what}, got {value.dtype}", "E125", hint)
    return value


# Conditions


@LOOPS.reads(ast.If)
def _if(reader: Loops, node: ast.If) -> list[Item]:
    test = reader.read(node.test)
    if is_folded(test):
        chosen = suite(reader, node.body if test else node.orelse)
        return list(chosen.stmts) if isinstance(chosen, ir.Seq) else [chosen]
    condition = reader.is_bool(node.test, test, "compare: x > 0")
    then_case = suite(reader, node.body)
    else_case = suite(reader, node.orelse) if node.orelse else None
    return [reader.placed(ir.IfThenElse(condition, then_case, else_case), node)]


@LOOPS.reads(ast.While)
def _while(reader: Loops, node: ast.While) -> list[Item]:
    if node.orelse:
        raise reader.error(node.orelse[0], "a loop has no else", "E124")
    test = reader.read(node.test)
    if is_folded(test):
        why = "the condition of a while loop never changes: it ends at once, or never"
        raise reader.error(node.test, why, "E125", "for i in range(n)")
    condition = reader.is_bool(node.test, test, "compare: x > 0")
    return [reader.placed(ir.While(condition, suite(reader, node.body)), node)]


# Stores and local names


@LOOPS.reads(ast.Assign)
def _assign(reader: Loops, node: ast.Assign) -> list[Item] | None:
    target, value = node.targets[0], node.value
    name, is_name = reader.called(value), isinstance(target, ast.Name)
    form = LOOPS.forms["axis"].get(name) or LOOPS.forms["assign"].get(name)
    if form is not None and (is_name or name.startswith("T.axis.")):
        return reader.apply(form, value, target)
    if isinstance(target, ast.Name) and declares(value, name):
        declare_variable(reader, target.id, target, name)
        return None
    if isinstance(target, ast.Subscript):
        return [_store(reader, node, target, None, value)]
    if isinstance(target, ast.Name):
        name_value(reader, target, value)
        return None
    raise reader.error(target, "this cannot be assigned to", "E124", "C[i, j] = value")


@LOOPS.reads(ast.AnnAssign)
def _ann_assign(reader: Loops, node: ast.AnnAssign) -> None:
    """`x: T.int32 = i * 4 + j`."""
    dtype = reader.path(node.annotation).removeprefix("T.")
    if dtype not in DTYPES or node.value is None:
        why = "a prim_func names values of T's dtypes only"
        raise reader.error(node.annotation, why, "E124", "row: T.int32 = i * 4 + j")
    name_value(reader, node.target, node.value, dtype)


@LOOPS.reads(ast.AugAssign)
def _aug_assign(reader: Loops, node: ast.AugAssign) -> list[Item]:
    if not isinstance(node.target, ast.Subscript):
        hint = "C[i, j] += value"
        raise reader.error(node.target, "only a buffer's element can be updated", "E124", hint)
    return [_store(reader, node, node.target, node.op, node.value)]


def _store(
    reader: Loops, node: ast.stmt, target: ast.Subscript, op: ast.operator | None, value: ast.expr
) -> Stmt:
    """`C[i] = value`, or `C[i] = C[i] op value`."""
    check_element(reader, target)
    buffer, indices = element_of(reader, target, reader.buffer(target.value))
    place = reader.guard(target, ir.load, buffer, indices)
    stored = reader.operand(value, reader.read(value))
    if op is not None:
        stored = combine(reader, value, op, reader.placed(place, target), stored)
    return reader.placed(reader.guard(value, ir.store, buffer, indices, stored), node)


# with


@LOOPS.reads(ast.With)
def _with(reader: Loops, node: ast.With) -> list[Item] | None:
    names = [_context_name(reader, item) for item in node.items]
    if set(names) <= set(_ALLOCS):
        allocs = (_as_assign(reader, item, node) for item in node.items)
        return [*nested(reader, chain(allocs, node.body))]
    if len(names) > 1:
        raise reader.error(node.items[1].context_expr, "one construct for each with", "E124")
    call, form = node.items[0].context_expr, LOOPS.forms["with"].get(names[0])
    if names[0] == "T.seq":
        return [ir.Seq(tuple(nested(reader, node.body)))]
    if form is not None:
        return reader.apply(form, call, node)
    hint = 'with T.block("C"):, and with T.init(): inside it'
    raise reader.error(call, f"{names[0]} cannot stand here", "E124", hint)


def _context_name(reader: Loops, item: ast.withitem) -> str:
    name = reader.called(item.context_expr)
    if not name:
        hint = 'with T.block("C"):'
        raise reader.error(item.context_expr, "with takes a block", "E124", hint)
    return name


def _as_assign(reader: Loops, item: ast.withitem, node: ast.With) -> ast.Assign:
    """`with T.alloc_buffer(...) as Y:` allocates Y for the suite, as an assignment in it would."""
    if not isinstance(item.optional_vars, ast.Name):
        hint = 'with T.alloc_buffer((4,), "float32") as Y:'
        raise reader.error(item.context_expr, "this buffer needs a name", "E125", hint)
    return ast.copy_location(ast.Assign([item.optional_vars], item.context_expr), node)
