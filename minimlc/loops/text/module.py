"""Modules: classes decorated with `I.ir_module`, and `parse(text)`."""

import ast
import sys
import textwrap
from collections.abc import Iterable, Mapping
from functools import partial
from types import FrameType
from typing import Any

from minimlc.loops.text.constructs import NO_MODULES, Form, Namespace
from minimlc.loops.text.definition import Level, Siblings, read
from minimlc.loops.text.reader import HELPERS, Reader
from minimlc.loops.text.source import Names, Source
from minimlc.loops.text.tir import T, parse_prim_func
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import Attrs, IRModule
from minimlc.loops.values.parts import Hook
from minimlc.loops.values.process import collector_paused

_OPTIONS = 'name="", private=False, check_well_formed=True, pure=True, s_tir=True'
LEVELS = (Level("T.prim_func", parse_prim_func, {"T": T}), *Hook[Level]("languages"))
_DECORATORS = {
    level.decorator: Form(f"{level.decorator}({_OPTIONS})", level.read) for level in LEVELS
}
Definitions = dict[str, tuple[ast.FunctionDef, Form]]
_DECORATOR_HINT = f"decorate it with {' or '.join(f'@{name}' for name in _DECORATORS)}"


def ir_module(cls: Any = None, *, check_well_formed: bool = True, s_tir: bool = True) -> Any:
    """A module from a class of `@T.prim_func` and `@R.function` definitions.

    `check_well_formed` and `s_tir`, which other compilers' scripts have, mean nothing here.
    """
    described = partial(_module_of, sys._getframe(1))
    return described if cls is None else described(cls)


def module_attrs(attributes: dict[str, object]) -> None:
    """The module's attributes, on a line of its class. Nothing runs here: the class is read."""


_MODULE = Form("I.ir_module(check_well_formed=True, s_tir=True)", ir_module)
_ATTRS = Form("I.module_attrs(attributes)", module_attrs)
I: Any = Namespace("I", {"ir_module": ir_module, "module_attrs": module_attrs})  # noqa: E741 (its name in TVMScript)
"""Modules."""

NAMES = {"I": I, **{name: value for level in LEVELS for name, value in level.names.items()}}
"""The names for a text, which has no Python around it."""


def _module_of(frame: FrameType, cls: type) -> IRModule:
    owners = frozenset({cls.__name__})
    return read(ast.ClassDef, cls, frame, partial(_read_module, owners=owners))


@collector_paused()
def parse(text: str, meant: Names = NO_MODULES) -> IRModule:
    """The module that a script describes: a class, or functions that stand alone.

    `T`, `R` and `I` mean what they mean everywhere, unless `meant` has them; the text is read,
    never run.
    """
    if not isinstance(text, str):
        why = f"parse takes a text, got {type(text).__name__}"
        raise CompileError(why, code="E132", hint="mlc.parse(mod.script())")
    if not isinstance(meant, Mapping):
        why = f"parse takes what names mean by name, got {type(meant).__name__}"
        raise CompileError(why, code="E132", hint="mlc.parse(text, mlc.named_constants(mod))")
    source = Source("", textwrap.dedent(text))
    source.limited(source.tree)
    if not source.tree.body:
        raise source.error(source.at(1, 0, 1), "the text holds no function", "E129")
    names = {**NAMES, **meant}
    classes = [s for s in source.tree.body if isinstance(s, ast.ClassDef)]
    if not classes:
        return _read_module(source, source.tree, names, frozenset())
    for item in source.tree.body:
        if item is classes[-1]:
            _check_module(Reader(source, names), classes[-1])
        elif isinstance(item, ast.ClassDef | ast.FunctionDef):
            why = "a text with a class holds that class alone"
            raise source.error(item, why, "E129", "move the functions into the class")
        else:
            _constants(source, [item], names)
    return _read_module(source, classes[-1], names, frozenset({classes[-1].name}))


def _check_module(reader: Reader, node: ast.ClassDef) -> None:
    """Check that the class is decorated as a module."""
    for item in node.decorator_list:
        call = item.func if isinstance(item, ast.Call) else item
        if isinstance(call, ast.Attribute) and call.attr == "ir_module":
            if isinstance(item, ast.Call):
                _MODULE.bind(reader.source, item)
            return
        if reader.path(call):
            raise reader.error(call, f"{ast.unparse(call)} makes no module", "E129", "@I.ir_module")
    place = reader.source.word(node, node.name)
    raise reader.error(place, f"{node.name} is not a module", "E129", "@I.ir_module above it")


def _read_module(
    source: Source, node: ast.ClassDef | ast.Module, names: Names, owners: frozenset[str]
) -> IRModule:
    """The functions in a class body or at the top of a text."""
    if isinstance(names, dict):
        others = [item for item in node.body if not isinstance(item, ast.FunctionDef)]
        _constants(source, others, names)
    functions = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    macros = [item for item in functions if _is_macro(Reader(source, names), item)]
    if isinstance(names, dict):
        for helpers in HELPERS:
            names.update((item.name, helpers.in_text(source, item, names)) for item in macros)
    functions = [item for item in functions if item not in macros]
    definitions = _definitions(Reader(source, names), functions)
    syntax = {name: item for name, (item, _) in definitions.items()}
    done: dict[str, Any] = {}
    siblings = Siblings(owners | {"cls"}, syntax, done)
    for name, (item, form) in definitions.items():
        done[name] = source.guard(item, form.meaning, source, item, names, siblings)
    return IRModule(done, _attributes(Reader(source, names), node.body))


def _is_macro(reader: Reader, node: ast.FunctionDef) -> bool:
    """Whether a function is only for scripts to call."""
    calls = [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]
    kinds = [helpers.macro for helpers in HELPERS]
    return len(calls) == 1 and reader.meant(calls[0]) in kinds


def _attributes(reader: Reader, body: list[ast.stmt]) -> Attrs:
    """The attributes in `I.module_attrs({...})`."""
    statements: list[Any] = [item for item in body if _sets_attributes(reader, item)]
    calls = [item.value for item in statements]
    return tuple([pair for call in calls for pair in reader.arguments(_ATTRS, call)["attributes"]])


def _sets_attributes(reader: Reader, item: ast.stmt) -> bool:
    return isinstance(item, ast.Expr) and reader.called(item.value) == _ATTRS.name


def _definitions(reader: Reader, functions: Iterable[ast.FunctionDef]) -> Definitions:
    """Each function's syntax and decorator, by the name it gets in the module."""
    definitions: Definitions = {}
    for node in functions:
        form, name = _decorator(reader, node)
        if name in definitions:
            place, why = (
                reader.source.word(node, node.name),
                f'the module has two functions "{name}"',
            )
            raise reader.error(place, why, "E129", "give each a name of its own")
        definitions[name] = node, form
    return definitions


def _decorator(reader: Reader, node: ast.FunctionDef) -> tuple[Form, str]:
    """The decorator of a function, and its name."""
    if len(node.decorator_list) != 1:
        place = reader.source.word(node, node.name)
        raise reader.error(place, f"what is {node.name}?", "E129", _DECORATOR_HINT)
    item = node.decorator_list[0]
    form = _DECORATORS.get(reader.path(item.func if isinstance(item, ast.Call) else item))
    if form is None:
        why = f"{ast.unparse(item)[:40]} makes no function of a module"
        raise reader.error(item, why, "E129", _DECORATOR_HINT)
    bound = form.bind(reader.source, item) if isinstance(item, ast.Call) else {}
    return form, reader.string(bound["name"], "a name") if "name" in bound else node.name


def _constants(source: Source, body: Iterable[ast.stmt], names: dict[str, Any]) -> None:
    """`n = 128` beside the functions; imports and docstrings are passed over."""
    for item in body:
        match item:
            case ast.Import() | ast.ImportFrom() | ast.Pass():
                continue
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Expr() if _sets_attributes(Reader(source, names), item):
                continue
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = Reader(source, names).constant(value, name)
            case _:
                hint = "a module holds functions, and constants such as n = 128"
                raise source.error(item, "this cannot stand in a module", "E124", hint)
