"""Functions that a script calls: plain Python functions, and those decorated with `T.macro`.

    def relu(x):
        return T.max(x, 0.0)

They are read where they are called, as the script itself is: nothing runs. Names in them mean what
they mean where they are defined, parameters what the call gives.
"""

import ast
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import Parameter, Signature, signature
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from minimlc.loops.text.definition import closure_names, locate
from minimlc.loops.text.folding import plain
from minimlc.loops.text.source import Names, Source, frame_span
from minimlc.loops.values.constants import is_folded
from minimlc.loops.values.errors import ScriptError

MOST_CALLS = 64
"""The most nested calls of such functions."""


class Helper(NamedTuple):
    """A function that scripts may call: its signature, its source and syntax, and what names
    mean there.
    """

    name: str
    form: Signature
    read: Callable[[], tuple[Source, ast.FunctionDef, Names]]
    is_macro: bool = False
    hygienic: bool = True

    def __call__(self, *args: object, **keywords: object) -> Any:
        why = f"{self.name} is a macro: it belongs inside a script"
        raise ScriptError(why, code="E121", span=frame_span(sys._getframe(1)))


def macro(function: FunctionType | None = None, *, hygienic: bool = True) -> Any:
    """A function whose statements, or whose value, stand where a script calls it. If not
    `hygienic`, names in it that it does not bind may be the caller's.
    """
    if function is None:
        return partial(macro, hygienic=hygienic)
    return _of_python(function)._replace(is_macro=True, hygienic=hygienic)


NAMES = {"macro": macro}
"""The names that `T` has from here."""


def _of_python(function: FunctionType) -> Helper:
    """The helper for a Python function."""

    def read() -> tuple[Source, ast.FunctionDef, Names]:
        code, around = function.__code__, function.__globals__
        place = (code.co_filename, code.co_firstlineno)
        source, node = locate(ast.FunctionDef, function.__name__, *place, around)
        assert isinstance(node, ast.FunctionDef)
        return source, node, ChainMap(closure_names([function]), around)

    return Helper(function.__name__, signature(function), read)


def in_text(source: Source, node: ast.FunctionDef, names: Names) -> Helper:
    """The helper for a macro in a text."""
    plain_ones = [*node.args.posonlyargs, *node.args.args]
    defaults = [None] * (len(plain_ones) - len(node.args.defaults)) + node.args.defaults
    parameters = [
        Parameter(item.arg, Parameter.POSITIONAL_OR_KEYWORD, default=default or Parameter.empty)
        for item, default in zip(plain_ones, defaults, strict=True)
    ]
    try:
        form = Signature(parameters)
    except ValueError as error:
        raise source.error(source.word(node, node.name), str(error), "E126") from None
    return Helper(node.name, form, lambda: (source, node, names), is_macro=True)


def helper_of(reader: Any, node: ast.AST) -> Helper | None:
    """The function that a call calls, if it is one to be read."""
    if not isinstance(node, ast.Call):
        return None
    value = _meant(reader, node.func)
    if isinstance(value, FunctionType):
        return _of_python(value)
    return value if isinstance(value, Helper) else None


def _meant(reader: Any, node: ast.expr) -> Any:
    match node:
        case ast.Name(name) if name not in reader.scope:
            return reader.names.get(name)
        case ast.Attribute(outer, name) if isinstance(owner := _meant(reader, outer), ModuleType):
            return getattr(owner, name, None)
    return None


def inlined(
    reader: Any, call: ast.Call, helper: Helper, body: Callable[[Sequence[ast.stmt]], Any]
) -> Any:
    """The result of `body` for a function's statements, with the arguments of the call."""
    if helper.name == "<lambda>":
        raise reader.error(call, "a lambda is not read", "E137", "def f(x): return ...")
    if len(reader.calls) >= MOST_CALLS:
        raise reader.error(call, f"{helper.name} goes on calling itself", "E137")
    values = _arguments(reader, call, helper)
    outer = {} if helper.hygienic else reader.scope
    try:
        source, node, names = helper.read()
        source.limited(node)
        if node.decorator_list and not helper.is_macro:
            why = f"a script cannot call {helper.name}"
            raise reader.error(call, why, "E124", reader.instead_of(helper.name))
        with _elsewhere(reader, call, source, names, {**outer, **values}):
            return body(node.body)
    except ScriptError as error:
        raise _located(reader, call, helper.name, error) from None


def _located(reader: Any, call: ast.Call, name: str, error: ScriptError) -> ScriptError:
    """An error in a function that is called, where the script calls it."""
    span = error.span
    if span is None or span == reader.source.span(call):
        return error
    located: ScriptError = reader.error(call, f"{name}: {error.why}", error.code, error.hint)
    line = f"in {name}, line {span.line}: {span.text.strip()}"
    located.example = error.example or line
    return located


def _arguments(reader: Any, call: ast.Call, helper: Helper) -> dict[str, Any]:
    """The values of the parameters, by name."""
    for item in (*call.args, *call.keywords):
        if isinstance(item, ast.Starred) or getattr(item, "arg", "") is None:
            raise reader.error(item, "a script spells its arguments out", "E124")
    named = {str(item.arg): item.value for item in call.keywords}
    try:
        bound = helper.form.bind(*call.args, **named)
    except TypeError as error:
        why = f"{helper.name}: {error}"
        raise reader.error(call, why, "E121", f"{helper.name}{helper.form}") from None
    bound.apply_defaults()
    given = bound.arguments.items()
    return {
        name: reader.read(value) if isinstance(value, ast.expr) else plain(value)
        for name, value in given
    }


@contextmanager
def _elsewhere(
    reader: Any, call: ast.Call, source: Source, names: Names, scope: dict[str, Any]
) -> Iterator[None]:
    """The reader in a function's source. What it reads there is placed where the call is."""
    before = reader.source, reader.names, reader.scope
    reader.calls.append((reader.source, call))
    _move(reader, source, names, scope)
    try:
        yield
    finally:
        _move(reader, *before)
        reader.calls.pop()


def _move(reader: Any, source: Source, names: Names, scope: dict[str, Any]) -> None:
    """Read on in another source, where names mean other things."""
    reader.source, reader.names, reader.scope = source, names, scope
    reader.error, reader.guard = source.error, source.guard


def result(reader: Any, stmts: Sequence[ast.stmt]) -> Any:
    """The value of a function of names for values, conditions and `return value`."""
    for at, stmt in enumerate(stmts):
        match stmt:
            case ast.Return(value=ast.expr() as value):
                return reader.read(value)
            case ast.Assign(targets=[ast.Name(name)], value=value):
                reader.scope[name] = reader.read(value)
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                reader.scope[name] = reader.read(value)
            case ast.AugAssign(target=ast.Name(name) as target, op=op, value=value):
                old = ast.copy_location(ast.Name(name, ast.Load()), target)
                both = ast.copy_location(ast.BinOp(old, op, value), stmt)
                reader.scope[name] = reader.read(both)
            case ast.If():
                return _chosen(reader, stmt, stmts[at + 1 :])
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                why = "a function that a script calls for a value is made of names and a return"
                raise reader.error(stmt, why, "E137", "loops stand in the script, or in a T.macro")
    why = "the function ends without a value"
    raise reader.error(stmts[-1], why, "E137", "return value")


def _chosen(reader: Any, stmt: ast.If, rest: Sequence[ast.stmt]) -> Any:
    """The value by a condition: of one side where that is a constant, else of both."""
    test = reader.read(stmt.test)
    if is_folded(test):
        return result(reader, [*(stmt.body if test else stmt.orelse), *rest])
    sides = []
    for side in (stmt.body, stmt.orelse):
        with reader.own_names():
            sides.append(result(reader, [*side, *rest]))
    return reader.symbolic(stmt, "if", [test, *sides])
