"""Reading a script's syntax tree: constants fold, names resolve, the rest each language adds."""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from minimlc.loops.text.constructs import Form, Language, Namespace
from minimlc.loops.text.folding import BINARY, FOLDABLE, UNARY, grows, plain
from minimlc.loops.text.source import Names, PythonNode, Source
from minimlc.loops.text.syntax import declarations, in_words
from minimlc.loops.values.constants import is_folded, too_big
from minimlc.loops.values.dtypes import dtype_record, is_size
from minimlc.loops.values.errors import ScriptError, did_you_mean, shown
from minimlc.loops.values.literals import Notes, Symbol
from minimlc.loops.values.node import Node, with_span
from minimlc.loops.values.parts import Hook

N = TypeVar("N", bound=Node)
_CAN_GROW = (int, str, tuple)


HELPERS = Hook[Any]("functions that scripts call")
PYTHON = Language("script")
"""The language that all scripts share: Python's expressions."""


class Reader:
    """Evaluates expressions of a script without running them. Python constants fold.

    Each language derives one class, which defines its constructs and operations and keeps what
    has been read of a function; its syntax is read by functions over that reader.
    """

    language = PYTHON

    def __init__(self, source: Source, names: Names):
        self.source = source
        self.names = names
        self.scope: dict[str, Any] = {}
        self.calls: list[tuple[Source, ast.Call]] = []
        self.error, self.guard = source.error, source.guard

    @contextmanager
    def own_names(self) -> Iterator[None]:
        """The context of a suite, which has a separate scope."""
        outer, self.scope = self.scope, dict(self.scope)
        yield
        self.scope = outer

    def read(self, node: ast.expr) -> Any:
        """The value of an expression: a Python constant, or a part of the program."""
        reading = self.language.syntax.get(type(node))
        if reading is None:
            raise self.error(node, f"a script cannot hold {in_words(node)}", "E124")
        value = reading(self, node)
        if isinstance(node, ast.Constant) and isinstance(value, str):
            return value  # as long as the script has it: a tensor's bytes may be
        if type(value) in _CAN_GROW and too_big(value):
            raise self.error(node, f"this constant has {too_big(value)}", "E123")
        return value

    def stmt(self, node: ast.stmt) -> Any:
        """The meaning of one statement."""
        if isinstance(node, ast.Pass) or _is_docstring(node):
            return None
        if isinstance(node, ast.Assign) and len(node.targets) > 1:
            raise self.error(node, "one target for each =", "E124")
        if parts := declarations(node, self.called):
            return [*map(self.stmt, parts)][-1]
        reading = self.language.syntax.get(type(node))
        if reading is not None:
            return self.source.guard(node, reading, self, node)
        place = self.source.word(node, ast.unparse(node).split()[0].rstrip(":"))
        why = f"a {self.language.name} cannot hold {in_words(node)}"
        raise self.error(place, why, "E124", self.language.refused.get(type(node), ""))

    def placed(self, item: N, place: PythonNode) -> N:
        """`item`, which notes where it was read: in the script, if in a function that it calls."""
        source, at = self.calls[0] if self.calls else (self.source, place)
        return with_span(item, source.span(at))

    # What a language adds

    def folded(self, value: Any) -> Any:
        """A part of the program as the Python constant that it is, if it is one."""
        return value

    def undefined(self, node: ast.Name) -> ScriptError:
        """The error for a name that means nothing."""
        around = [n for n, v in self.names.items() if n[0] != "_" and _offered(plain(v))]
        hint = did_you_mean(node.id, [*self.scope, *around])
        return self.error(node, f'the name "{node.id}" is not defined', "E122", hint)

    def symbolic(self, node: ast.expr, op: str, operands: list[Any]) -> Any:
        """An operation on operands that are not all constants."""
        raise self.error(node, f'"{op}" needs constants here', "E123")

    def construct(self, node: ast.Call, name: str) -> Any:
        """A call of `T....` or `R....`."""
        raise self.error(node.func, f"{name} cannot be used here", "E124")

    def instead_of(self, called: str) -> str:
        """A hint: what to call instead of a name that is not a function here."""
        base = called.rsplit(".", 1)[-1]
        known = (name for forms in self.language.forms.values() for name in forms)
        return next((name for name in known if name.rsplit(".", 1)[-1] == base), "")

    def attribute(self, node: ast.expr, what: str) -> Any:
        """A value in a dictionary of attributes, which may be a dictionary too."""
        if isinstance(node, ast.Dict):
            return Notes(_dictionary(self, node, what))
        return self.constant(node, f"a value of {what}")

    # Constructs

    def path(self, node: ast.expr) -> str:
        """The full name of a construct, such as "T.axis.remap"; '' for anything else."""
        if isinstance(node, ast.Name) and node.id not in self.scope:
            return self.language.spellings.get(node.id, "")
        owner = self.meant(node.value) if isinstance(node, ast.Attribute) else None
        if not isinstance(node, ast.Attribute) or not isinstance(owner, Namespace):
            return ""
        self.in_namespace(node, owner)
        name = f"{owner!r}.{node.attr}"
        return self.language.spellings.get(name, name)

    def meant(self, node: ast.expr) -> Any:
        """The meaning of a dotted name, if it leads through namespaces or out of a module."""
        match node:
            case ast.Name(name):
                return _meant(self.language, self.names.get(name))
            case ast.Attribute(outer, attr):
                owner = self.meant(outer)
                if isinstance(owner, Namespace):
                    return self.in_namespace(node, owner)
                if isinstance(owner, ModuleType):
                    return _meant(self.language, getattr(owner, attr, None))
        return None

    def in_namespace(self, node: ast.Attribute, owner: Namespace) -> Any:
        """A name such as `T.exp`; the one error for all misspelt names."""
        values = vars(owner)["_values"]
        if node.attr in values:
            return values[node.attr]
        known = [name for name in values if f"{owner!r}.{name}" not in self.language.spellings]
        why, hint = f"{owner!r} has no name {node.attr!r}", did_you_mean(node.attr, known)
        raise self.error(self.source.attribute(node), why, "E120", hint)

    def called(self, node: ast.AST) -> str:
        """The full name of the construct that is called, such as "T.grid"; '' for none."""
        return self.path(node.func) if isinstance(node, ast.Call) else ""

    def apply(self, form: Form, call: Any, *context: Any) -> Any:
        """The meaning of a call of a construct in its `context`, which its function gets."""
        return form.meaning(self, call, *context, **self.arguments(form, call))

    def arguments(self, form: Form, call: ast.Call) -> dict[str, Any]:
        """The arguments of a call by name, defaults among them: read where their names determine
        their kinds, else still as syntax.
        """
        bound = form.bind(self.source, call)
        return {**form.defaults, **{name: self.argument(form, name, bound[name]) for name in bound}}

    def argument(self, form: Form, name: str, node: Any) -> Any:
        """The argument `name` of a construct."""
        match name:
            case "dtype" | "stop" if form.defaults.get(name, "") is None and is_none(node):
                return None
            case "dtype":
                return self.guard(node, dtype_record, self.string(node, "a dtype")).name
            case "shape":
                return _shape(self, node)
            case "scope" | "thread":
                return self.string(node, {"scope": "a scope"}.get(name, name))
            case "attributes":
                return _dictionary(self, node, form.name)
            case "annotations" | "attrs":
                return _dictionary(self, node, name)
            case _:
                return node

    # Constants

    def constant(self, node: ast.expr, what: str, kind: type = object, word: str = "") -> Any:
        """A Python constant of a kind; `what` and `word` are for the error."""
        value = self.folded(self.read(node))
        if not is_folded(value):
            raise self.error(node, f"{what} must be a constant", "E123")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(node, f"{what} must be {word}, got {shown(value)}", "E123")
        return value

    def size(self, node: ast.expr) -> Any:
        """One size of a shape, or several as a tuple."""
        return self.constant(node, "a shape")

    def integer(self, node: ast.expr, what: str) -> int:
        return self.constant(node, what, int, "an integer")

    def string(self, node: ast.expr, what: str) -> str:
        return self.constant(node, what, str, "a string")


def _meant(language: Language, value: Any) -> Any:
    """The namespace that a module of Python stands for in a language; any other value itself."""
    name = value.__name__ if isinstance(value, ModuleType) else ""
    return language.modules.get(name, value)


def _shape(reader: Reader, node: ast.expr) -> tuple[int, ...]:
    """Sizes in elements; a single one stands for itself."""
    items = items_of(node, lists=True)
    values = [reader.size(item) for item in items]
    if len(values) == 1 and isinstance(values[0], tuple):
        values = list(values[0])
    for item, value in zip(items, values, strict=False):
        if not (isinstance(value, Node | Symbol) or is_size(value)):
            why = f"a size must be an integer >= 0, less than 2**63, got {shown(value)}"
            hint = "write a number, or a variable: n = T.int64()"
            raise reader.error(item, why, "E123", hint if isinstance(value, str) else "")
    return tuple(values)


def _dictionary(reader: Reader, node: ast.expr, what: str) -> tuple[tuple[str, Any], ...]:
    """`{"key": constant, ...}` as pairs."""
    if not isinstance(node, ast.Dict):
        raise reader.error(node, f'{what} takes a dict, {{"key": value}}', "E121")
    pairs = []
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            raise reader.error(value, f"{what} takes no **options", "E124")
        pairs.append((reader.string(key, "a key"), reader.attribute(value, what)))
    return tuple(pairs)


def items_of(node: ast.expr, lists: bool = False) -> list[ast.expr]:
    """The items of a tuple, with `lists` also of a list; anything else is one."""
    if isinstance(node, ast.Tuple) or (lists and isinstance(node, ast.List)):
        return node.elts
    return [node]


def _is_docstring(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def is_none(node: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _offered(value: Any) -> bool:
    """Whether a script may mean a value around it: numbers and names, not IPython's In."""
    items = value if isinstance(value, tuple) and value else (value,)
    numbers = all(isinstance(item, bool | int | float) for item in items)
    return numbers or (isinstance(value, str) and value.isidentifier())


# Python's expressions


@PYTHON.reads(ast.Constant)
def _constant(reader: Reader, node: ast.Constant) -> Any:
    if isinstance(node.value, bytes | complex):
        raise reader.error(node, f"a script cannot hold {in_words(node)}", "E124")
    return node.value


@PYTHON.reads(ast.Name)
def _name(reader: Reader, node: ast.Name) -> Any:
    if node.id in reader.scope:
        return reader.scope[node.id]
    if node.id in reader.names:
        return plain(reader.names[node.id])
    raise reader.undefined(node)


@PYTHON.reads(ast.Attribute)
def _attribute(reader: Reader, node: ast.Attribute) -> Any:
    owner = reader.read(node.value)
    if isinstance(owner, Namespace):
        return reader.in_namespace(node, owner)
    if hasattr(owner, "__dict__"):
        with suppress(AttributeError):
            return plain(getattr(owner, node.attr))
    why = f"{ast.unparse(node.value)} has no attribute {node.attr!r}"
    hint = 'its type has its sizes: numbers, or names such as n of ("n", 4)'
    raise reader.error(node, why, "E122", hint if node.attr == "shape" else "")


@PYTHON.reads(ast.Call)
def call(reader: Reader, node: ast.Call) -> Any:
    name = reader.path(node.func)
    if name:
        return reader.construct(node, name)
    for helpers in HELPERS:
        if helper := helpers.helper_of(reader, node):
            return helpers.inlined(reader, node, helper, partial(helpers.result, reader))
    called = ast.unparse(node.func)
    if called not in FOLDABLE or node.keywords:
        why, hint = f"a script cannot call {called}", reader.instead_of(called)
        raise reader.error(node.func, why, "E124", hint)
    return _fold(reader, node, called, FOLDABLE[called], [reader.read(a) for a in node.args])


@PYTHON.reads(ast.Tuple, ast.List)
def _tuple(reader: Reader, node: ast.Tuple | ast.List) -> tuple:
    return tuple([reader.read(item) for item in node.elts])


@PYTHON.reads(ast.BinOp)
def _binary(reader: Reader, node: ast.BinOp) -> Any:
    return combine(reader, node, node.op, reader.read(node.left), reader.read(node.right))


def combine(reader: Reader, node: ast.expr, op: ast.AST, left: Any, right: Any) -> Any:
    """The binary operation `left op right`."""
    if type(op) not in BINARY:
        why = f"a script cannot hold the operator {type(op).__name__}"
        raise reader.error(node, why, "E124")
    return _fold(reader, node, *BINARY[type(op)], [left, right])


@PYTHON.reads(ast.UnaryOp)
def _unary(reader: Reader, node: ast.UnaryOp) -> Any:
    return _fold(reader, node, *UNARY[type(node.op)], [reader.read(node.operand)])


def _fold(
    reader: Reader, node: ast.expr, name: str, function: Callable[..., Any], values: list[Any]
) -> Any:
    """`function` of Python constants; of anything else, the reader's symbolic operation."""
    if not all(map(is_folded, values)):
        return reader.symbolic(node, name, values)
    if grows(name, values):
        raise reader.error(node, f"this {name} does not fold to a constant", "E123")
    try:
        return function(*values)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise reader.error(node, f"{name} of these constants: {error}", "E123") from None


@PYTHON.reads(ast.Compare)
def _compare(reader: Reader, node: ast.Compare) -> Any:
    """A comparison; `a < b < c` is `a < b and b < c`."""
    values = [reader.read(item) for item in (node.left, *node.comparators)]
    sides = zip(node.ops, values, values[1:], strict=False)
    return _junction(reader, node, "and", [combine(reader, node, *side) for side in sides])


@PYTHON.reads(ast.BoolOp)
def _bool_op(reader: Reader, node: ast.BoolOp) -> Any:
    op = "and" if isinstance(node.op, ast.And) else "or"
    return _junction(reader, node, op, [reader.read(value) for value in node.values])


def _junction(reader: Reader, node: ast.expr, op: str, tests: list[Any]) -> Any:
    result = tests[0]
    for test in tests[1:]:
        if not (is_folded(result) and is_folded(test)):
            result = reader.symbolic(node, op, [result, test])
        elif bool(result) is (op == "and"):
            result = test
    return result


@PYTHON.reads(ast.IfExp)
def _if_exp(reader: Reader, node: ast.IfExp) -> Any:
    test = reader.read(node.test)
    if is_folded(test):
        return reader.read(node.body if test else node.orelse)
    return reader.symbolic(node, "if", [test, reader.read(node.body), reader.read(node.orelse)])


@PYTHON.reads(ast.Subscript)
def _subscript(reader: Reader, node: ast.Subscript) -> Any:
    return element(reader, node, reader.read(node.value))


def element(reader: Reader, node: ast.Subscript, owner: Any) -> Any:
    """An element of a constant tuple."""
    if not isinstance(owner, tuple):
        raise reader.error(node.value, f"{ast.unparse(node.value)} cannot be indexed", "E124")
    key = reader.integer(node.slice, "the index of a tuple")
    if not -len(owner) <= key < len(owner):
        raise reader.error(node.slice, f"element {key} of a tuple of {len(owner)}", "E123")
    return owner[key]
