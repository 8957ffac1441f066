"""Reading a script's syntax tree: constants fold, names resolve, the rest each language adds."""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar

from minimlc.constants import is_folded, too_big
from minimlc.dtypes import dtype_record, is_size
from minimlc.errors import ScriptError, did_you_mean, shown
from minimlc.script.constructs import Form, Namespace
from minimlc.script.folding import BINARY, FOLDABLE, UNARY, grows, plain
from minimlc.script.source import Names, Place, Source
from minimlc.script.syntax import in_words


class Scope:
    """The names that a script has bound so far; leaving a suite unbinds the suite's own."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._log: list[tuple[str, Any]] = []

    def bind(self, name: str, value: Any) -> None:
        self._log.append((name, self.values.get(name)))
        self.values[name] = value

    def unbind(self, name: str) -> None:
        self._log.append((name, self.values.pop(name)))

    @contextmanager
    def suite(self) -> Iterator[None]:
        depth = len(self._log)
        yield
        while len(self._log) > depth:
            name, before = self._log.pop()
            if before is None:
                self.values.pop(name, None)
            else:
                self.values[name] = before


class Reader:
    """Evaluates expressions of a script without running them. Python constants fold.

    Subclasses say what names and calls of their language mean, and combine symbolic operands. The
    construct `T.where` of `forms["action"]` is read by the method `action_where`, to which `apply`
    gives the arguments by name.
    """

    language = "script"
    refused: ClassVar[dict[type, str]] = {}
    forms: ClassVar[dict[str, dict[str, Form]]] = {}
    """The constructs by where they stand: an "action" alone, a "value" in an expression, ..."""

    def __init__(self, source: Source, names: Names):
        self.source = source
        self.names = names
        self.scope = Scope()

    def read(self, node: ast.expr) -> Any:
        """The value of an expression: a Python constant, or a part of the program."""
        method = getattr(self, f"read_{type(node).__name__}", None)
        if method is None:
            raise self.error(node, f"a script cannot hold {in_words(node)}", "E124")
        value = method(node)
        if type(value) in _CAN_GROW and too_big(value):
            raise self.error(node, f"this constant has {too_big(value)}", "E123")
        return value

    def error(self, place: Place, why: str, code: str = "E121", hint: str = "") -> ScriptError:
        return self.source.error(place, why, code, hint)

    # What a language adds

    def undefined(self, node: ast.Name) -> ScriptError:
        """The error for a name that means nothing."""
        around = [n for n, v in self.names.items() if n[0] != "_" and _offered(plain(v))]
        known = [*self.scope.values, *around]
        hint = did_you_mean(node.id, known)
        return self.error(node, f'the name "{node.id}" is not defined', "E122", hint)

    def symbolic(self, node: ast.expr, op: str, operands: list[Any]) -> Any:
        """An operation on operands that are not all constants."""
        raise self.error(node, f'"{op}" needs constants here', "E123")

    def construct(self, node: ast.Call, name: str) -> Any:
        """A call of `T....` or `R....`."""
        raise self.error(node.func, f"{name} cannot be used here", "E124")

    def may_stand(self, name: str) -> bool:
        """Whether a statement of this name may stand where the reader is."""
        return True

    def action(self, node: ast.Expr, name: str) -> Any:
        """An expression that stands as a statement and may not."""
        raise self.error(node, f"a {self.language} cannot hold this", "E124")

    def assign(self, node: ast.Assign, target: ast.expr, value: ast.expr) -> Any:
        """`target = value`."""
        raise self.error(node, f"a {self.language} cannot hold this", "E124")

    # Constructs

    def called(self, node: ast.AST) -> str:
        """The full name of the construct that is called, such as "T.grid"; '' for none."""
        return self.path(node.func) if isinstance(node, ast.Call) else ""

    def apply(self, role: str, call: Any, *context: Any) -> Any:
        """What a call of a construct means where it stands."""
        form = self.forms[role][self.called(call)]
        method = getattr(self, role + form.name[1:].replace(".", "_"))
        return method(call, *context, **self.arguments(form, call))

    def arguments(self, form: Form, call: ast.Call) -> dict[str, Any]:
        """The arguments of a call by name, defaults among them: read where their names say what
        they are, else still as syntax.
        """
        bound = form.bind(self.source, call)
        read = {name: self.named(form, name, node) for name, node in bound.items()}
        return {**form.defaults, **read}

    def named(self, form: Form, name: str, node: Any) -> Any:
        """The argument `name` of a construct."""
        match name:
            case "dtype" | "stop" if form.defaults.get(name, "") is None and _is_none(node):
                return None
            case "dtype":
                return self.dtype(node)
            case "shape":
                return self.shape(node)
            case "scope" | "thread":
                return self.string(node, {"scope": "a scope"}.get(name, name))
            case "attributes":
                return self.dictionary(node, form.name)
            case "annotations" | "attrs":
                return self.dictionary(node, name)
            case _:
                return node

    # Statements

    def stmt(self, node: ast.stmt) -> Any:
        """What one statement means, by the method `stmt_<kind>`."""
        reader = getattr(self, f"stmt_{type(node).__name__}", None)
        if reader is not None:
            return self.source.guard(node, reader, node)
        place = self.source.word(node, ast.unparse(node).split()[0].rstrip(":"))
        why = f"a {self.language} cannot hold {in_words(node)}"
        raise self.source.error(place, why, "E124", self.refused.get(type(node), ""))

    def stmt_Pass(self, node: ast.Pass) -> Any:
        return None

    def stmt_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        name = self.called(node.value)
        if name in self.forms["action"] and self.may_stand(name):
            return self.apply("action", node.value)
        return self.action(node, name)

    def stmt_Assign(self, node: ast.Assign) -> Any:
        if len(node.targets) > 1:
            raise self.error(node, "one target for each =", "E124")
        return self.assign(node, node.targets[0], node.value)

    # Names and calls

    def read_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bytes | complex):
            raise self.error(node, f"a script cannot hold {in_words(node)}", "E124")
        return node.value

    def read_Name(self, node: ast.Name) -> Any:
        if node.id in self.scope.values:
            return self.scope.values[node.id]
        if node.id in self.names:
            return plain(self.names[node.id])
        raise self.undefined(node)

    def read_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.read(node.value)
        if isinstance(owner, Namespace):
            return self.in_namespace(node, owner)
        if isinstance(owner, ModuleType) or hasattr(owner, "__dict__"):
            try:
                return plain(getattr(owner, node.attr))
            except AttributeError:
                pass
        why = f"{ast.unparse(node.value)} has no attribute {node.attr!r}"
        raise self.error(node, why, "E122")

    def in_namespace(self, node: ast.Attribute, owner: Namespace) -> Any:
        """A name such as `T.exp`; the one error for all misspelt names."""
        values = vars(owner)["_values"]
        if node.attr in values:
            return values[node.attr]
        place = self.source.word(node, f".{node.attr}")
        raise self.source.error(
            place._replace(column=place.column + 1),
            f"{owner!r} has no name {node.attr!r}",
            "E120",
            did_you_mean(node.attr, values),
        )

    def path(self, node: ast.expr) -> str:
        """The full name of a construct, such as "T.axis.remap"; '' for anything else."""
        owner = self.owner(node.value) if isinstance(node, ast.Attribute) else None
        if not isinstance(node, ast.Attribute) or owner is None:
            return ""
        self.in_namespace(node, owner)
        return f"{owner!r}.{node.attr}"

    def owner(self, node: ast.expr) -> Namespace | None:
        """The namespace that an expression names, if it names one."""
        value: Any = None
        if isinstance(node, ast.Name):
            value = self.names.get(node.id)
        elif isinstance(node, ast.Attribute):
            outer = self.owner(node.value)
            root = self.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
            if outer is not None:
                value = self.in_namespace(node, outer)
            elif isinstance(root, ModuleType):
                value = getattr(root, node.attr, None)
        return value if isinstance(value, Namespace) else None

    def read_Call(self, node: ast.Call) -> Any:
        name = self.path(node.func)
        if name:
            return self.construct(node, name)
        called = ast.unparse(node.func)
        if called not in FOLDABLE or node.keywords:
            raise self.error(
                node.func, f"a script cannot call {called}", "E124", self.callable_(called)
            )
        return self.fold(node, FOLDABLE[called], [self.read(a) for a in node.args], called)

    def callable_(self, called: str) -> str:
        """A hint: what can be called instead."""
        return ""

    # Operations

    def read_Tuple(self, node: ast.Tuple | ast.List) -> tuple:
        return tuple(self.read(item) for item in node.elts)

    read_List = read_Tuple

    def read_BinOp(self, node: ast.BinOp) -> Any:
        return self.combine(node, node.op, self.read(node.left), self.read(node.right))

    def combine(self, node: ast.expr, op: ast.AST, left: Any, right: Any) -> Any:
        name, function = BINARY.get(type(op), (type(op).__name__, None))
        if function is None:
            raise self.error(node, f"a script cannot hold the operator {name}", "E124")
        return self.fold(node, function, [left, right], name)

    def fold(self, node: ast.expr, function: Callable[..., Any], values: list, name: str) -> Any:
        """`function` of Python constants."""
        for value in values:
            if not is_folded(value):
                return self.symbolic(node, name, values)
        if grows(name, values):
            raise self.error(node, f"this {name} does not fold to a constant", "E123")
        try:
            return function(*values)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise self.error(node, f"{name} of these constants: {error}", "E123") from None

    def read_UnaryOp(self, node: ast.UnaryOp) -> Any:
        name, function = UNARY[type(node.op)]
        return self.fold(node, function, [self.read(node.operand)], name)

    def read_Compare(self, node: ast.Compare) -> Any:
        """A comparison; `a < b < c` is `a < b and b < c`."""
        values = [self.read(item) for item in (node.left, *node.comparators)]
        tests = [
            self.combine(node, op, a, b)
            for op, a, b in zip(node.ops, values, values[1:], strict=False)
        ]
        return self.junction(node, "and", tests)

    def read_BoolOp(self, node: ast.BoolOp) -> Any:
        op = "and" if isinstance(node.op, ast.And) else "or"
        return self.junction(node, op, [self.read(value) for value in node.values])

    def junction(self, node: ast.expr, op: str, tests: list[Any]) -> Any:
        result = tests[0]
        for test in tests[1:]:
            if not (is_folded(result) and is_folded(test)):
                result = self.symbolic(node, op, [result, test])
            elif bool(result) is (op == "and"):
                result = test
        return result

    def read_IfExp(self, node: ast.IfExp) -> Any:
        test = self.read(node.test)
        if is_folded(test):
            return self.read(node.body if test else node.orelse)
        return self.symbolic(node, "if", [test, self.read(node.body), self.read(node.orelse)])

    def read_Subscript(self, node: ast.Subscript) -> Any:
        """An element of a constant tuple; languages index their own things first."""
        owner = self.read(node.value)
        if not isinstance(owner, tuple):
            raise self.error(node.value, f"{ast.unparse(node.value)} cannot be indexed", "E124")
        key = self.integer(node.slice, "the index of a tuple")
        if not -len(owner) <= key < len(owner):
            raise self.error(node.slice, f"element {key} of a tuple of {len(owner)}", "E123")
        return owner[key]

    # Constants

    def constant(self, node: ast.expr, what: str, kind: type = object, word: str = "") -> Any:
        """A Python constant of a kind; `what` and `word` are for the error."""
        value = self.read(node)
        if not is_folded(value):
            raise self.error(node, f"{what} must be a constant", "E123")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(node, f"{what} must be {word}, got {shown(value)}", "E123")
        return value

    def integer(self, node: ast.expr, what: str) -> int:
        return self.constant(node, what, int, "an integer")

    def string(self, node: ast.expr, what: str) -> str:
        return self.constant(node, what, str, "a string")

    def dtype(self, node: ast.expr) -> str:
        """The name of an element type."""
        name = self.string(node, "a dtype")
        return self.source.guard(node, dtype_record, name).name

    def shape(self, node: ast.expr) -> tuple[int, ...]:
        """Sizes in elements; a single one stands for itself."""
        items = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
        values = [self.constant(item, "a shape") for item in items]
        if len(values) == 1 and isinstance(values[0], tuple):
            values = list(values[0])
        for item, value in zip(items, values, strict=False):
            if not is_size(value):
                why = f"a size must be an integer >= 0, less than 2**63, got {shown(value)}"
                hint = "each shape has a program of its own: write numbers"
                raise self.error(item, why, "E123", hint if isinstance(value, str) else "")
        return tuple(values)

    def dictionary(self, node: ast.expr, what: str) -> tuple[tuple[str, Any], ...]:
        """`{"key": constant, ...}` as pairs."""
        if not isinstance(node, ast.Dict):
            raise self.error(node, f'{what} takes a dict, {{"key": value}}', "E121")
        pairs = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                raise self.error(value, f"{what} takes no **options", "E124")
            pairs.append((self.string(key, "a key"), self.attribute(value, what)))
        return tuple(pairs)

    def attribute(self, node: ast.expr, what: str) -> Any:
        return self.constant(node, f"a value of {what}")


_CAN_GROW = (int, str, tuple)


def _is_none(node: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _offered(value: Any) -> bool:
    """Whether a script may mean a value around it: numbers and names, not IPython's In."""
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(v, bool | int | float) for v in value)
    return isinstance(value, bool | int | float) or (
        isinstance(value, str) and value.isidentifier()
    )
