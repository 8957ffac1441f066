"""Expressions of the loop language: what `T.max`, `A[i, j]` and `a + b` mean in a script."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from inspect import Parameter, signature
from itertools import takewhile
from typing import Any, NamedTuple

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.functions import FUNCTIONS
from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import BlockIter, Buffer, Const, Expr, Unary, Var, as_expr
from minimlc.loops.proofs.arith import constant_value, variables
from minimlc.loops.text.constructs import Form, Language
from minimlc.loops.text.reader import PYTHON, Reader, call, element, items_of
from minimlc.loops.text.source import Names, Source
from minimlc.loops.values.dtypes import INDEX, is_float, is_integer
from minimlc.loops.values.errors import did_you_mean
from minimlc.loops.values.names import UniqueNames

_PYTHON_TO_SCRIPT = {
    "float": 'T.cast(x, "float32")',
    "int": 'T.cast(x, "int64")',
    "bool": "x != 0",
}
MOST_FACTORS = {True: 16, False: 64}
"""The greatest power of floats, and of integers, that is written as a product."""
LOOPS = Language(
    "prim_func",
    PYTHON,
    {
        ast.Return: "it writes its results to the buffers it is given",
        **dict.fromkeys((ast.Break, ast.Continue), "guard the rest with: if condition:"),
    },
    {
        "T.sblock": "T.block",
        "T.sblock_attr": "T.block_attr",
        "T.sblock_alloc_buffer": "T.alloc_buffer",
        "T.power": "T.pow",
        "T.fabs": "T.abs",
    },
)
"""The loop language."""
COUNTS = dict.fromkeys(("int32", "int64"), INDEX)
"""The dtypes of sizes: `n: T.int32` counts, and indices are of one dtype here."""


@cache
def form_of(name: str, function: Callable[..., Any]) -> Form:
    """The call of the function `T.<name>`, by its signature."""
    if name in INTRINSICS:
        return Form(INTRINSICS[name].usage, function)
    parameters = signature(function).parameters.values()
    plain = [item.name for item in parameters if item.kind is Parameter.POSITIONAL_OR_KEYWORD]
    return Form(f"T.{name}({', '.join(plain)})", function)


Item = ir.Stmt | Buffer
"""An item of a suite: a statement, or a buffer that lives while those after it run."""


@dataclass(frozen=True)
class View:
    """A name with a shape for elements of a buffer; `at` gives the place of an element."""

    name: str
    buffer: Buffer
    shape: tuple[int, ...]
    at: Callable[[Sequence[Expr]], list[Expr]]


class Named(NamedTuple):
    """A name for a value that was read from buffers."""

    target: ast.Name
    read: set[Buffer]
    dtype: str


class Loop(NamedTuple):
    """A loop around: its variable counts from 0, its values in the script from `start` on, by
    `step`.
    """

    var: Var
    start: Expr | None
    extent: Expr
    step: int = 1


@dataclass
class Header:
    """The declarations of the function, or of a block, as far as they have been read; `parts` by
    the name of the construct.
    """

    of: str
    iters: list[BlockIter] = field(default_factory=list)
    allocs: list[Buffer] = field(default_factory=list)
    parts: dict[str, Any] = field(default_factory=dict)


class Loops(Reader):
    """Reads expressions of a primitive function, and keeps what its statements have declared.

    `params` are its parameters, None for a handle whose buffer is not known yet; `declared` its
    variables, some of them sizes, by their names in the script; `named` the names of values that
    were read from buffers: which ones, and the value's dtype; `loops` those
    around by what their names stand for; `sizes` the constant extents of loops and axes by
    variable. `header` is that of the block, or the function, whose statements are read; None within
    other statements.
    """

    language = LOOPS

    def __init__(self, source: Source, names: Names):
        Reader.__init__(self, source, names)
        self.params: dict[str, Buffer | Var | None] = {}
        self.declared: dict[str, Var] = {}
        self.named: list[Named] = []
        self.loop_names = UniqueNames()
        self.block_names = UniqueNames(reserved=(), spell=str)
        self.loops: dict[Expr, Loop] = {}
        self.sizes: dict[Var, int] = {}
        self.header: Header | None = None

    def inside(self, of: str) -> Header | None:
        """The header around the code being read, if directly in a "block", or the "function"."""
        return self.header if self.header is not None and self.header.of == of else None

    def folded(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.folded, value))
        return value.value if isinstance(value, Const) else value

    def size(self, node: ast.expr) -> Any:
        size = self.symbolic_size(self.read(node))
        return Reader.size(self, node) if size is None else size

    def symbolic_size(self, value: Any) -> Expr | None:
        """A size known only at the call: an expression over the function's sizes."""
        sizes = {var for var in self.declared.values() if var.dtype == INDEX}
        is_over = isinstance(value, Expr) and bool(variables(value)) and variables(value) <= sizes
        return value if is_over and not isinstance(value, Const) else None

    def expr(self, node: ast.expr, dtype: str | None = None) -> Expr:
        """An expression; a Python number takes `dtype`."""
        value = self.operand(node, self.read(node))
        return self.guard(node, as_expr, value, dtype)

    def operand(self, node: ast.expr, value: Any) -> Any:
        """`value` if it is a scalar; the error for a buffer or a captured object."""
        if isinstance(value, Buffer | View):
            indices = ", ".join("ijklmn"[: len(value.shape)]) or "()"
            hint = f"index it: {value.name}[{indices}]"
            raise self.error(node, f"{value.name} is a buffer, not a number", "E108", hint)
        if not isinstance(value, Expr | bool | int | float):
            kind = "None" if value is None else f"a {type(value).__name__}"
            raise self.error(node, f"expected a number, got {kind}", "E108")
        return value

    def symbolic(self, node: ast.expr, op: str, operands: list[Any]) -> Any:
        for value in operands:
            self.operand(node, value)
        match op, operands:
            case "-", [a]:
                negated = self.guard(node, ir.unary, op, a)
                return Unary("-", a) if isinstance(a, Const) else negated
            case "+", [a]:
                return a
            case (("not" | "~"), [a]):
                return self.guard(node, ir.unary, op, a)
            case "if", [test, a, b]:
                if isinstance(a, int | float) and isinstance(b, float):
                    a = float(a)
                return self.guard(node, ir.select, test, a, b)
            case "**", [a, b]:
                return _power(self, node, a, self.folded(b))
            case (("max" | "min"), [_, _, *_]) | (("abs" | "round"), [_]):
                function = partial(self.guard, node, FUNCTIONS[op])
                return reduce(function, operands) if len(operands) > 1 else function(*operands)
            case _ if op in _PYTHON_TO_SCRIPT or op in FUNCTIONS:
                instead = _PYTHON_TO_SCRIPT.get(op) or self.instead_of(op)
                why = f"{op} is Python's own, for constants"
                raise self.error(node, why, "E124", f"in a script: {instead}")
            case _, [a, b]:
                return self.guard(node, ir.binary, op, a, b)
            case _:
                raise self.error(node, f"a script cannot call {op} of an expression", "E124")

    def instead_of(self, called: str) -> str:
        name = called.rsplit(".", 1)[-1]
        name = {"maximum": "max", "minimum": "min"}.get(name, name)  # as numpy calls them
        if name in FUNCTIONS:
            return form_of(name, FUNCTIONS[name]).usage
        return "scripts call T's own functions, for example T.exp(x) or T.max(a, b)"

    def construct(self, node: ast.Call, name: str) -> Any:
        if name in self.language.forms["value"]:
            return self.apply(self.language.forms["value"][name], node)
        function = FUNCTIONS.get(name.removeprefix("T."))
        if function is None:
            raise self.error(node.func, f"{name} is not an expression", "E124")
        form = form_of(name.removeprefix("T."), function)
        node, dtype = _result_dtype(self, form, node)
        bound = form.bind(self.source, node)
        read = {key: _value(self, form, key, item) for key, item in bound.items()}
        values = [_number(read[key], dtype) for key in form.required]
        result = self.guard(node, function, *values)
        if dtype and result.dtype != dtype:
            why = f"{name} gives {result.dtype} here, not {dtype}"
            raise self.error(node, why, "E108", f'T.cast({ast.unparse(node)}, "{dtype}")')
        is_argument = not isinstance(result, Expr) or any(result is value for value in values)
        return result if is_argument else self.placed(result, node)

    def arguments(self, form: Form, call: ast.Call) -> dict[str, Any]:
        if form.names[0:1] == ["shape"]:
            _check_sizes(self, form.name, call)
        return Reader.arguments(self, form, call)

    def argument(self, form: Form, name: str, node: Any) -> Any:
        if name != "handle" or isinstance(node, ast.Subscript):
            return Reader.argument(self, form, name, node)
        parameter = ast.unparse(node)
        if self.params.get(parameter, node) is not None:
            why = f"{parameter} is not a parameter of type T.handle"
            raise self.error(node, why, "E126", "def f(a: T.handle): ...")
        return parameter

    def indices(self, node: ast.expr) -> list[Expr]:
        """The indices between the brackets; a wrong one is pointed at by itself."""
        return [self.index(item) for item in items_of(node)]

    def index(self, node: ast.expr) -> Expr:
        if isinstance(node, ast.Slice):
            why = "an index must be one element, got a slice"
            raise self.error(node, why, "E107", "loop over the elements: for i in range(n)")
        value = self.read(node)
        if isinstance(value, float):
            raise self.error(node, f"an index must be an integer, got {value}", "E107")
        expr = self.guard(node, as_expr, self.operand(node, value), INDEX)
        if not is_integer(expr.dtype):
            raise self.error(node, f"an index must be an integer, got {expr.dtype}", "E107")
        return expr

    def buffer(self, node: ast.expr) -> Buffer | View:
        """The buffer that a name stands for, or the view of one."""
        if not isinstance(node, ast.Name):
            raise self.error(node, "expected a buffer's name", "E122")
        value = self.scope.get(node.id)
        if isinstance(value, Buffer | View):
            return value
        bound = node.id in self.scope
        why = f'"{node.id}" is not a buffer' if bound else f'the buffer "{node.id}" is not defined'
        raise self.error(node, why, "E122", did_you_mean(node.id, self.buffers()))

    def buffers(self) -> list[str]:
        """The names that stand for buffers here."""
        return [name for name, value in self.scope.items() if isinstance(value, Buffer | View)]

    def is_bool(self, node: ast.expr, value: Any, hint: str) -> Any:
        """The condition `value`, which must be bool."""
        if isinstance(value, Expr) and value.dtype == "bool":
            return value
        got = value.dtype if isinstance(value, Expr | Buffer) else type(value).__name__
        raise self.error(node, f"a condition must be bool, got {got}", "E108", hint)


def _power(reader: Loops, node: ast.expr, base: Any, exponent: Any) -> Expr:
    """`base ** exponent`: a product where the exponent is a number that is not too great."""
    is_count = isinstance(exponent, int) and isinstance(base, Expr)
    if not is_count or not 0 <= exponent <= MOST_FACTORS[is_float(base.dtype)]:
        return reader.guard(node, FUNCTIONS["pow"], base, exponent)
    if exponent == 0:
        return as_expr(1, base.dtype)
    return reduce(partial(reader.guard, node, ir.binary, "*"), [base] * exponent)


def _result_dtype(reader: Loops, form: Form, call: ast.Call) -> tuple[ast.Call, str]:
    """A call without its `dtype=`, which is the result's, and that dtype."""
    given = [item for item in call.keywords if item.arg == "dtype" and "dtype" not in form.names]
    if not given:
        return call, ""
    rest = [item for item in call.keywords if item is not given[0]]
    plain = ast.copy_location(ast.Call(call.func, call.args, rest), call)
    return plain, reader.argument(form, "dtype", given[0].value)


def _number(value: Any, dtype: str) -> Any:
    """An argument; a plain number takes the dtype given for the result."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return as_expr(value, dtype) if dtype and is_number else value


def _value(reader: Loops, form: Form, name: str, node: ast.expr) -> Any:
    """The argument `name` of a function."""
    if name == "dtype":
        return reader.argument(form, name, node)
    value = reader.read(node)
    if isinstance(value, str) and name == "value" and form.name != "T.cast":
        return value
    return reader.operand(node, value)


def _check_sizes(reader: Loops, name: str, call: ast.Call) -> None:
    """Refuse `T.Buffer(8, 8, "float32")`, whose sizes are no tuple."""
    words = (ast.Tuple, ast.List)
    values = (None if isinstance(a, words) else reader.read(a) for a in call.args)
    sizes = list(takewhile(lambda value: type(value) is int, values))
    if len(sizes) > 1:
        rest = "".join(f", {ast.unparse(a)}" for a in call.args[len(sizes) :])
        hint = f"{name}({tuple(sizes)}{rest})".replace("'", '"')
        raise reader.error(call, "the shape is a tuple", "E126", hint)


def check_element(reader: Loops, node: ast.Subscript) -> None:
    """Refuse `B[i][j]`."""
    owner: ast.expr = node.value
    indices = [node.slice]
    while isinstance(owner, ast.Subscript):
        indices.insert(0, owner.slice)
        owner = owner.value
    buffer = reader.scope.get(owner.id) if isinstance(owner, ast.Name) else None
    if len(indices) > 1 and isinstance(buffer, Buffer | View):
        hint = f"write {buffer.name}[{', '.join(map(ast.unparse, indices))}]"
        raise reader.error(node, "one pair of brackets holds all the indices", "E107", hint)


_ASTYPE = Form("astype(dtype)", Expr.astype)


@LOOPS.reads(ast.Call)
def _call(reader: Loops, node: ast.Call) -> Any:
    """`value.astype("float32")`; any other call as in all scripts."""
    method = node.func
    if not isinstance(method, ast.Attribute) or method.attr != "astype" or reader.path(method):
        return call(reader, node)
    converted = reader.expr(method.value).astype(**reader.arguments(_ASTYPE, node))
    return reader.placed(converted, node)


@LOOPS.reads(ast.Subscript)
def _subscript(reader: Loops, node: ast.Subscript) -> Any:
    check_element(reader, node)
    owner = reader.read(node.value)
    if not isinstance(owner, Buffer | View):
        return element(reader, node, owner)
    return reader.placed(reader.guard(node, ir.load, *element_of(reader, node, owner)), node)


def element_of(
    reader: Loops, node: ast.Subscript, owner: Buffer | View
) -> tuple[Buffer, list[Expr]]:
    """The element that indices of a buffer, or of a view, mean."""
    indices = reader.indices(node.slice)
    if isinstance(owner, Buffer):
        return owner, indices
    if len(indices) != len(owner.shape):
        why = f"{owner.name} has {len(owner.shape)} dimension(s), got {len(indices)} index(es)"
        raise reader.error(node, why, "E107", f"{owner.name} has shape {owner.shape}")
    inside = [i.astype(INDEX) for i in indices]
    for axis, (size, i) in enumerate(zip(owner.shape, map(constant_value, inside), strict=True)):
        if i is not None and isinstance(size, int) and not 0 <= i < size:
            why = f"{owner.name} has size {size} on axis {axis}, the index is {i}"
            raise reader.error(node, why, "E107", f"{owner.name} has shape {owner.shape}")
    return owner.buffer, owner.at(inside)


def between(low: Expr, high: Expr) -> Expr:
    """`high - low`, as a number where it is one."""
    size = constant_value(ir.Binary("-", high, low))
    if size is not None:
        return ir.index(size)
    return high if constant_value(low) == 0 else ir.binary("-", high, low)
