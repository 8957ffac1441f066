"""What a tile program's statements and brackets mean."""

import ast
from typing import Any

from minimlc.constants import is_folded
from minimlc.dtypes import INDEX
from minimlc.node import nodes_of
from minimlc.script.reader import call, element, items_of
from minimlc.tile import values as tiles
from minimlc.tile.language import TILE, Tiles, dot, make_changing
from minimlc.tile.values import Elements, Tile, shape_of, spread
from minimlc.tir import nodes as tir
from minimlc.tir.functions import ceildiv
from minimlc.tir.nodes import Buffer, Expr, Load, Var

_RANGES: dict[str, tir.LoopKind] = {"range": "serial", "tile.static_range": "unrolled"}


@TILE.reads(ast.Assign)
def _assign(reader: Tiles, node: ast.Assign) -> None:
    pairs = [(node.targets[0], node.value)]
    if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        pairs = list(zip(node.targets[0].elts, node.value.elts, strict=True))
    if len(pairs) == 1 and _added(reader, *pairs[0]):
        return
    values = [reader.read(value) for _, value in pairs]
    for (target, _), value in zip(pairs, values, strict=True):
        if not isinstance(target, ast.Name):
            raise reader.error(target, "a name on the left of =", "E124", "tile.store(C[at], x)")
        reader.assign(node, target.id, value)


@TILE.reads(ast.AugAssign)
def _update(reader: Tiles, node: ast.AugAssign) -> None:
    old = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node.target)
    value = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
    _assign(reader, ast.copy_location(ast.Assign([node.target], value), node))


def _added(reader: Tiles, target: ast.expr, value: ast.expr) -> bool:
    """`acc += tile.dot(a, b)`, however it is written: the sum goes on in acc's own elements."""
    match value:
        case ast.BinOp(ast.Name(name), ast.Add(), ast.Call(args=arguments) as product):
            pass
        case ast.Call(args=[*arguments, ast.Name(name)]) as product:
            pass
        case _:  # other nodes: nothing is added to a product
            return False
    into, depth = reader.changing.get(name, (None, reader.depth))
    own = isinstance(target, ast.Name) and target.id == name and reader.depth > depth
    if into is None or not own or reader.called(product) != "tile.dot" or len(arguments) != 2:
        return False
    a, b = map(reader.tile, arguments)
    read = [part for side in (a, b) for part in nodes_of(side.element, Load)]
    if a.shape[:1] + b.shape[1:] != into.shape or any(part.buffer is into for part in read):
        return False
    dot(reader, product, a, b, into)
    return True


@TILE.reads(ast.Expr)
def _alone(reader: Tiles, node: ast.Expr) -> None:
    name = reader.called(node.value)
    form = TILE.forms["action"].get(name)
    if form is None:
        text = name or ast.unparse(node)[:40]
        raise reader.error(node, f"{text} does nothing here", "E124", "tile.store(C[at], x)")
    reader.apply(form, node.value)


@TILE.reads(ast.For)
def _for(reader: Tiles, node: ast.For) -> None:
    """`for k in range(start, stop, step)`."""
    kind = _RANGES.get(ast.unparse(node.iter).split("(")[0])
    if kind is None or not isinstance(node.iter, ast.Call) or not isinstance(node.target, ast.Name):
        raise reader.error(node, "a loop is over a range", "E125", "for k in range(0, n, step):")
    bounds = [_bound(reader, item) for item in node.iter.args]
    start, stop, step = {1: [0, *bounds, 1], 2: [*bounds, 1]}.get(len(bounds), bounds)
    if not isinstance(step, int) or step < 1:
        raise reader.error(node.iter, "the step of a range is a constant above 0", "E123")
    make_changing(reader, node, node.body)
    var = Var(reader.loops.take(node.target.id))
    span = reader.guard(node.iter, ceildiv, stop - start, step)
    with reader.suite() as stmts:
        scaled = var * step if step > 1 else var
        reader.scope[node.target.id] = scaled if is_folded(start) and not start else scaled + start
        for item in node.body:
            reader.stmt(item)
    reader.stmts.append(tir.For(var, tir.as_expr(span, INDEX), kind, tir.seq(stmts)))


def _bound(reader: Tiles, node: ast.expr) -> Any:
    """An end of a range: a number that does not come from memory."""
    value = reader.read(node)
    if isinstance(value, int) or (isinstance(value, Expr) and not nodes_of(value, Load)):
        return value
    hint = "loop over all of it, and mask what is not there"
    raise reader.error(node, "a range ends at a number that is known before", "E123", hint)


@TILE.reads(ast.If)
def _if(reader: Tiles, node: ast.If) -> None:
    test = reader.read(node.test)
    if is_folded(test):
        for item in node.body if test else node.orelse:
            reader.stmt(item)
        return
    if shape_of(test) != ():
        why, hint = "a condition of one value decides for all", "tile.where(condition, a, b)"
        raise reader.error(node.test, why, "E108", hint)
    make_changing(reader, node, [*node.body, *node.orelse])
    cases = []
    for body in (node.body, node.orelse):
        with reader.suite() as stmts:
            for item in body:
                reader.stmt(item)
        cases.append(tir.seq(stmts) if stmts else None)
    reader.stmts.append(tir.IfThenElse(spread(test, ()), *cases))  # type: ignore[arg-type]


@TILE.reads(ast.Subscript)
def _subscript(reader: Tiles, node: ast.Subscript) -> Any:
    owner, parts = reader.read(node.value), items_of(node.slice)
    if isinstance(owner, Buffer):
        indices = tuple([reader.tile(part) for part in parts])
        if len(indices) != owner.ndim:
            why = f"{owner.name} has {owner.ndim} dimension(s), got {len(indices)} index(es)"
            raise reader.error(node, why, "E107", f"{owner.name} has shape {owner.shape}")
        return Elements(owner, indices)
    if not isinstance(owner, Tile):
        return element(reader, node, owner)
    added = [isinstance(part, ast.Constant) and part.value is None for part in parts]
    whole = [isinstance(part, ast.Slice) and ast.unparse(part) == ":" for part in parts]
    if not all(map(max, added, whole)) or sum(whole) != len(owner.shape):
        raise reader.error(node, "a tile is indexed by : and None only", "E107", "x[:, None]")
    return tiles.reshaped(owner, added)


@TILE.reads(ast.Call)
def _call(reader: Tiles, node: ast.Call) -> Any:
    """`x.to("float32")`; any other call as in all scripts."""
    method = node.func
    if not isinstance(method, ast.Attribute) or method.attr != "to" or reader.path(method):
        return call(reader, node)
    if len(node.args) != 1 or node.keywords:
        raise reader.error(node, "to takes a dtype", "E121", 'x.to("float32")')
    dtype = reader.string(node.args[0], "a dtype")
    return reader.each(node, lambda x: tir.as_expr(x).astype(dtype), reader.read(method.value))
