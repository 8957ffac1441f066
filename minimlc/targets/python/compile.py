"""Modules as "low-level numpy": Python functions of plain loops over elements, to read and run.

The source means exactly what the interpreter computes, on every operator and dtype. Elements are
numpy scalars, so arithmetic wraps and rounds as their dtype does; loop variables are Python ints.
What numpy does not define is spelled out in small functions at the top of the source.
"""

import itertools
import linecache
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeGuard

import numpy as np

from minimlc.graphs.ir import nodes as graph
from minimlc.graphs.ops import OPS, evaluate, find_op
from minimlc.graphs.run import check_arguments
from minimlc.loops.interpreter.run import owned
from minimlc.loops.ir.arguments import Arguments, parameters_of
from minimlc.loops.ir.intrinsics import INTRINSICS, is_formula
from minimlc.loops.ir.nodes import Alloc, Buffer, For, PrimFunc, Stmt
from minimlc.loops.lower.lower import lower
from minimlc.loops.math.scalars import definition
from minimlc.loops.values.dtypes import DTYPES, dtype_name
from minimlc.loops.values.errors import BuildError, CompileError
from minimlc.loops.values.literals import array_literal, literal, prints_inline
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.names import UniqueNames, spelled
from minimlc.loops.values.node import Node, Visitor
from minimlc.services.control.control import parts
from minimlc.targets.python.expr import (
    HELPERS,
    INSIDE,
    NAMED,
    NUMPY_DIALECT,
    SYNTAX,
    Expressions,
    Shared,
)
from minimlc.targets.source.writer import Statements

LINE = 100

MOST_LOOPS = 20
"""Python nests no more loops in one function; loops inside get a separate function."""


def emit_python(mod: IRModule, check: bool = False) -> str:
    """The module as Python source, one function per function.

    Primitive functions write into their arguments, graph functions return arrays. Indices are
    checked only with `check`: without it, as in numpy, a negative one counts from the end.
    """
    return _Emitter(mod, check).source()


def compile_python(mod: IRModule, check: bool = False) -> dict[str, Callable[..., Any]]:
    """The functions of `emit_python(mod)` by name, ready to call; their arguments are checked.

    `CallError` for arguments that do not fit, `CompileError` for an integer division by zero;
    with `check`, `BoundsError` for an access outside its buffer.
    """
    emitter = _Emitter(mod, check)
    filename = f"<minimlc python {next(_NUMBERS)}>"
    try:
        source = emitter.source()
        constants = _Constants(emitter.constants.values())
        scope: dict[str, Any] = {"constants": constants, "sites": emitter.shared.sites}
        exec(compile(source, filename, "exec"), scope)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise BuildError(
            f"Python does not read the code written for it: {error.args[0]}",
            hint='build(mod, target="llvm") has no such limits; or store parts of deeply nested '
            "expressions in buffers",
        ) from None
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    weakref.finalize(constants, linecache.cache.pop, filename, None).atexit = False
    names = emitter.functions
    return {name: _guard(mod[name], name, scope[names[name]]) for name in mod.functions}


_NUMBERS = itertools.count(1)


class _Constants(list[np.ndarray]):
    """Constants, which live as long as the functions; so does the source that a traceback shows."""


def _guard(func: Any, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    expected = Arguments(name, parameters_of(func)) if isinstance(func, PrimFunc) else None

    def call(*args: Any, **named: Any) -> Any:
        if expected is not None:
            plain, _ = expected.check(args, named)
        else:
            plain = check_arguments(func, name, args, named)
        try:
            with np.errstate(all="ignore"):
                return owned(inner(*plain))
        except ZeroDivisionError as error:
            raise CompileError(str(error), code="E312") from None

    call.__name__ = call.__qualname__ = name
    return call


class _Operators:
    """`op.relu(x)`: the graph operators, applied to arrays."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def apply(*arrays: Any, **attrs: object) -> Any:
            types = tuple(map(_type_of, arrays))
            out = find_op(name).infer_type(types, attrs)
            args = tuple(graph.Var(f"x{n}", t) for n, t in enumerate(types))
            return evaluate(graph.Call(name, args, tuple(attrs.items()), out), arrays)

        if name not in OPS:
            raise AttributeError(name)
        return apply


op = _Operators()


def _type_of(value: Any) -> graph.Type:
    if isinstance(value, tuple):
        return graph.TupleType(tuple(map(_type_of, value)))
    return graph.TensorType(value.shape, dtype_name(value.dtype))


class _Emitter:
    """Writes the functions of a module; none of their symbols gets a name in `taken`."""

    def __init__(self, mod: IRModule, check: bool):
        self.mod = mod
        self.shared = Shared([] if check else None)
        self.constants: dict[str, np.ndarray] = {}
        words = _source_words() | ({"inside", "outside", "sites"} if check else set())
        names = UniqueNames(words)
        self.functions = {name: names.take(name) for name in mod.functions}
        self.taken = {*words, *self.functions.values()}

    def source(self) -> str:
        parts = ["\n".join(self.function(*entry)) for entry in self.mod.functions.items()]
        used, definitions = self.shared.used, self.shared.definitions
        helpers = [text for name, text in HELPERS.items() if name in used]
        helpers += definitions.values()
        helpers += [INSIDE] if self.shared.sites else []
        if any("math." in text for text in helpers):
            used.add("math")
        top = [
            f"{name} = constants[{number}]  # {dtype_name(data.dtype)} {data.shape}"
            for number, (name, data) in enumerate(self.constants.items())
        ]
        heads = ["\n".join(lines) for lines in (self.imports(), top) if lines]
        return "\n\n".join(heads) + "\n\n\n" + "\n\n\n".join([*helpers, *parts]) + "\n"

    def imports(self) -> list[str]:
        used = self.shared.used
        plain = sorted(({*DTYPES, "bool_"} - {"bfloat16", "bool"}) & used)
        lines = (
            ("math" in used, "import math\n"),
            (True, "import numpy as np"),
            ("bfloat16" in used, "from ml_dtypes import bfloat16"),
            (plain, f"from numpy import {', '.join(plain)}"),
            (self.shared.sites, "from minimlc.loops.lower.bounds import outside"),
            ("op" in used, "from minimlc.targets.python.compile import op"),
            *(
                (op in used, f"from minimlc.services.control.control import {op}")
                for op in graph.CONTROL
            ),
            ("call_packed" in used, "from minimlc.graphs.run import call_packed"),
        )
        return [line for needed, line in lines if needed]

    def function(self, name: str, func: Any) -> list[str]:
        """The lines of a function, its arguments named in its docstring."""
        match func:
            case PrimFunc():
                func = lower(func, dialect=NUMPY_DIALECT, whole=self.shared.sites is not None)
                names = UniqueNames(self.taken)
                body: _Body = _Function(SYNTAX, Expressions(self.shared), names)
                types = [f"{p.dtype} {p.shape}" for p in func.params]
            case graph.Function():
                body = _GraphFunction(self)
                types = [str(p.type) for p in func.params]
            case _:
                raise CompileError(f'"{name}" is a {type(func).__name__}, not a function')
        params = [body.declare(param) for param in func.params]
        body.write(func)
        described = [f"{param}: {kind}" for param, kind in zip(params, types, strict=True)]
        header = f"def {self.functions[name]}({', '.join(params)}):"
        return [header, *_docstring(described), *body.lines]

    def constant(self, data: np.ndarray, names: UniqueNames) -> str:
        """A constant's literal, or its name where it is kept beside the source."""
        dtype = self.shared.word(dtype_name(data.dtype))
        text = array_literal(data) if prints_inline(data) else ""
        if text and "nan:" not in text:
            return f"np.array({text}, {dtype})"
        for name, known in self.constants.items():
            if known is data:
                return name
        name = names.take(f"c{len(self.constants)}")
        self.taken.add(name)
        self.constants[name] = data
        return name


def _source_words() -> set[str]:
    """Names that the source itself may use, so that no function or symbol gets them."""
    plain = itertools.filterfalse(is_formula, INTRINSICS)
    defined = [name for name in plain if definition(name, "float64", approximate=False)]
    defined += [f"scalar_{name}" for name in filter(is_formula, INTRINSICS)]
    typed = [f"{name}_{dtype}" for name in ("to", *defined) for dtype in DTYPES]
    fixed = ("np", "op", "call_packed", "constants", "bool_", "math", *HELPERS, *NAMED.values())
    fixed = (*fixed, *graph.CONTROL)
    return set(map(spelled, (*fixed, *DTYPES, *defined, *typed))) - {"bool"}


def _docstring(items: list[str]) -> list[str]:
    """A docstring that describes the arguments, of lines that are not too long."""
    text = ", ".join(items)
    if len(text) < LINE - 10:
        return [f'    """{text}"""']
    return ['    """', *(f"    {item}" for item in items), '    """']


class _Function(Statements):
    """The statements of a primitive function, inside so many `loops`."""

    exprs: Expressions
    loops = 0

    def write(self, func: PrimFunc) -> None:
        self.visit(func.body)

    def visit_Alloc(self, item: Alloc) -> None:
        self.line(f"{self.declare(item.buffer)} = {_empty(self.exprs.shared, item.buffer)}")
        self.visit(item.body)

    def visit_For(self, item: For) -> None:
        extent, name = self.exprs.visit(item.extent), self.declare_loop(item, "int")
        note = "" if item.kind == "serial" else f"  # {item.kind}"
        header = SYNTAX.loop.format(name, extent.code) + note
        self.loops += 1
        (self.apart if self.loops % MOST_LOOPS == 0 else self.loop)(header, item.body)
        self.loops -= 1

    def loop(self, header: str, body: Stmt) -> None:
        with self.block(header):
            self.visit(body)

    def apart(self, header: str, body: Stmt) -> None:
        """Write a loop as a separate function, which is called once."""
        start = len(self.lines)
        with self.indented():
            self.loop(header, body)
        function = self.scope.take("inner_loops")
        self.lines.insert(start, "    " * self.depth + f"def {function}():")
        self.line(f"{function}()")


class _GraphFunction(Visitor):
    """The bindings of a graph function."""

    def __init__(self, emitter: _Emitter):
        self.emitter = emitter
        self.names: dict[Node, str] = {}
        self.scope = UniqueNames(emitter.taken)
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def declare(self, var: graph.Var) -> str:
        name = self.names[var] = self.scope.take(var.name)
        return name

    def write(self, func: graph.Function) -> None:
        for binding in func.bindings():
            self.binding(binding)
        self.result(func.result)

    def visit_children(self, item: Node) -> NoReturn:
        raise CompileError(f"no Python for {type(item).__name__} in a graph function")

    def visit_Var(self, item: graph.Var) -> str:
        return self.names[item]

    def visit_Constant(self, item: graph.Constant) -> str:
        return self.emitter.constant(item.data, self.scope)

    def visit_Tuple(self, item: graph.Tuple) -> str:
        return _tuple([self.visit(field) for field in item.fields])

    def visit_TupleGetItem(self, item: graph.TupleGetItem) -> str:
        return f"{self.visit(item.tuple)}[{item.index}]"

    def visit_Call(self, item: graph.Call) -> str:
        args = [self.visit(arg) for arg in item.args]
        if item.op == "call":
            return f"{self.emitter.functions[item.callee]}({', '.join(args)})"
        if item.op in graph.CONTROL:
            return self.control(item, args)
        self.emitter.shared.used.add("op")
        args += [f"{key}={literal(value)}" for key, value in item.attrs]
        return f"op.{item.op}({', '.join(args)})"

    def control(self, item: graph.Call, args: list[str]) -> str:
        """A condition or loop: a call of the function of its name, on the functions it names."""
        shared, functions = self.emitter.shared, [name for _, name in graph.called(item)]
        shared.used.add(item.op)
        named = [self.emitter.functions[name] for name in functions]
        if item.op == "cond":
            return f"cond({', '.join([args[0], *named, *args[1:]])})"
        if item.op == "scan":
            collected = parts(item.type)[len(parts(item.args[0].type)) :]
            empty = [_empty(shared, t) for kind in collected for t in graph.tensor_types(kind)]
            args.append(f"[{', '.join(empty)}]")
        return f"{item.op}({', '.join([*named, *args])})"

    def binding(self, item: graph.Binding) -> None:
        value = item.value
        if not _is_destination(value):
            text = self.visit(value)
            self.line(f"{self.declare(item.var)} = {text}")
            return
        inputs, name = self.inputs(value), self.declare(item.var)
        if isinstance(value.type, graph.TensorType):
            self.filled(value, inputs, [name])
            return
        fields = enumerate(graph.tensor_types(value.type))
        outs = [self.scope.take(f"{name}_{n}") for n, _ in fields]
        self.line(f"{name} = {self.filled(value, inputs, outs)}")

    def result(self, item: graph.Expr) -> None:
        if _is_destination(item):
            outs = [self.scope.take("out") for _ in graph.tensor_types(item.type)]
            text = self.filled(item, self.inputs(item), outs)
        else:
            text = self.visit(item)
        self.line(f"return {text}")

    def filled(self, call: graph.Call, inputs: list[str], outs: list[str]) -> str:
        """The value of a call that writes its results into fresh arrays named `outs`."""
        shared = self.emitter.shared
        for name, kind in zip(outs, graph.tensor_types(call.type), strict=True):
            self.line(f"{name} = {_empty(shared, kind)}")
        if call.op == "call_tir":
            self.line(f"{self.emitter.functions[call.callee]}({', '.join([*inputs, *outs])})")
        else:
            shared.used.add("call_packed")
            arguments = f"[{', '.join(inputs)}], [{', '.join(outs)}]"
            self.line(f"call_packed({literal(call.callee)}, {arguments})")
        return _nested(call.type, iter(outs))

    def inputs(self, call: graph.Call) -> list[str]:
        return [leaf for arg in call.args for leaf in self.leaves(arg)]

    def leaves(self, item: graph.Expr) -> list[str]:
        """The tensors of an argument, tuples taken apart."""
        if isinstance(item, graph.Tuple):
            return [leaf for field in item.fields for leaf in self.leaves(field)]
        return _parts(self.visit(item), item.type)


_Body = _Function | _GraphFunction


def _empty(shared: Shared, item: Buffer | graph.TensorType) -> str:
    return f"np.empty({item.shape}, {shared.word(item.dtype)})"


def _is_destination(item: graph.Expr) -> TypeGuard[graph.Call]:
    return isinstance(item, graph.Call) and item.op in ("call_tir", "call_dps_packed")


def _parts(text: str, kind: graph.Type) -> list[str]:
    if isinstance(kind, graph.TensorType):
        return [text]
    fields = enumerate(kind.fields)
    return [leaf for n, field in fields for leaf in _parts(f"{text}[{n}]", field)]


def _nested(kind: graph.Type, names: Iterator[str]) -> str:
    if isinstance(kind, graph.TensorType):
        return next(names)
    return _tuple([_nested(field, names) for field in kind.fields])


def _tuple(codes: list[str]) -> str:
    return f"({codes[0]},)" if len(codes) == 1 else f"({', '.join(codes)})"
