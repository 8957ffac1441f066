"""Reading a script's syntax tree: constants fold, names resolve, the rest each language adds."""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar

from minimlc.constants import is_folded, too_big
from minimlc.dtypes import dtype_record, is_size
from minimlc.errors import ScriptError, did_you_mean, shown
from minimlc.script.constructs import Namespace
from minimlc.script.folding import BINARY, FOLDABLE, UNARY, grows, plain
from minimlc.script.source import Names, Place, Source


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

    Subclasses say what names and calls of their language mean, and combine symbolic operands.
    """

    language = "script"
    refused: ClassVar[dict[type, str]] = {}

    def __init__(self, source: Source, names: Names):
        self.source = source
        self.names = names
        self.scope = Scope()

    def read(self, node: ast.expr) -> Any:
        """The value of an expression: a Python constant, or a part of the program."""
        method = getattr(self, f"read_{type(node).__name__}", None)
        if method is None:
            raise self.error(node, f"a script cannot hold {_kind(node)}", "E124")
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

    # Statements

    def stmt(self, node: ast.stmt) -> Any:
        """What one statement means, by the method `stmt_<kind>`."""
        reader = getattr(self, f"stmt_{type(node).__name__}", None)
        if reader is not None:
            return self.source.guard(node, reader, node)
        kind = _STATEMENTS.get(type(node), f"a {type(node).__name__} statement")
        place = self.source.word(node, ast.unparse(node).split()[0].rstrip(":"))
        hint = self.refused.get(type(node), "")
        raise self.source.error(place, f"a {self.language} cannot hold {kind}", "E124", hint)

    # Names and calls

    def read_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bytes | complex):
            raise self.error(node, f"a script cannot hold {_kind(node)}", "E124")
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
        if not isinstance(node, ast.Attribute):
            return ""
        owner = self.owner(node.value)
        if owner is None:
            return ""
        self.in_namespace(node, owner)
        return f"{owner!r}.{node.attr}"

    def owner(self, node: ast.expr) -> Namespace | None:
        """The namespace that an expression names, if it names one."""
        if isinstance(node, ast.Name) and node.id in self.names:
            value = self.names[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            outer = self.owner(node.value)
            value = self.in_namespace(node, outer) if outer else self._module_attribute(node)
        else:
            return None
        return value if isinstance(value, Namespace) else None

    def _module_attribute(self, node: ast.Attribute) -> Any:
        root = self.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
        return getattr(root, node.attr, None) if isinstance(root, ModuleType) else None

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

    def read_List(self, node: ast.List) -> tuple:
        return self.read_Tuple(node)

    def read_BinOp(self, node: ast.BinOp) -> Any:
        return self.combine(node, node.op, self.read(node.left), self.read(node.right))

    def combine(self, node: ast.expr, op: ast.AST, left: Any, right: Any) -> Any:
        name, function = BINARY.get(type(op), (type(op).__name__, None))
        if function is None:
            raise self.error(node, f"a script cannot hold the operator {name}", "E124")
        if not (is_folded(left) and is_folded(right)):
            return self.symbolic(node, name, [left, right])
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
        value = self.read(node.operand)
        if is_folded(value):
            return self.fold(node, function, [value], name)
        return self.symbolic(node, name, [value])

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
        fold: Callable[[Any, Any], Any] = (
            (lambda a, b: a and b) if op == "and" else (lambda a, b: a or b)
        )
        result = tests[0]
        for test in tests[1:]:
            both = is_folded(result) and is_folded(test)
            result = fold(result, test) if both else self.symbolic(node, op, [result, test])
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

    def constant(self, node: ast.expr, what: str) -> Any:
        """A Python constant; `what` it is for says the error."""
        value = self.read(node)
        if not is_folded(value):
            raise self.error(node, f"{what} must be a constant", "E123")
        return value

    def integer(self, node: ast.expr, what: str) -> int:
        value = self.constant(node, what)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(node, f"{what} must be an integer, got {shown(value)}", "E123")
        return value

    def string(self, node: ast.expr, what: str) -> str:
        value = self.constant(node, what)
        if not isinstance(value, str):
            raise self.error(node, f"{what} must be a string, got {shown(value)}", "E123")
        return value

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
_STATEMENTS: dict[type, str] = {
    ast.While: "a while loop",
    ast.For: "a loop",
    ast.If: "an if",
    ast.Return: "return",
    ast.FunctionDef: "a function inside it",
    ast.AsyncFunctionDef: "a function inside it",
    ast.ClassDef: "a class",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.Try: "try",
    ast.Raise: "raise",
    ast.Assert: "assert",
    ast.Delete: "del",
    ast.Break: "break",
    ast.Continue: "continue",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Match: "match",
}


def _offered(value: Any) -> bool:
    """Whether a script may mean a value around it: numbers and names, not IPython's In."""
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(v, bool | int | float) for v in value)
    return isinstance(value, bool | int | float) or (
        isinstance(value, str) and value.isidentifier()
    )


def _kind(node: ast.AST) -> str:
    """A piece of syntax in words."""
    words = {
        ast.Lambda: "a lambda",
        ast.ListComp: "a list comprehension",
        ast.GeneratorExp: "a generator expression",
        ast.Dict: "a dict",
        ast.Set: "a set",
        ast.JoinedStr: "an f-string",
        ast.NamedExpr: "the operator :=",
        ast.Starred: "a *",
        ast.Slice: "a slice here",
        ast.Await: "await",
        ast.Constant: "such a literal",
    }
    return words.get(type(node), f"a {type(node).__name__}")
