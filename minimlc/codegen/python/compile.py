"""Modules as "low-level numpy": Python functions of plain loops over elements, to read and run.

The source means exactly what the interpreter computes, on every operator and dtype. Elements are
numpy scalars, so arithmetic wraps and rounds as their dtype does; loop variables are Python ints.
What numpy does not define is spelled out in small functions at the top of the source.
"""

import itertools
import linecache
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import numpy as np

from minimlc.codegen.bounds import Site
from minimlc.codegen.lower import lower
from minimlc.codegen.python.expr import HELPERS, INSIDE, NAMED, NUMPY_DIALECT, Expressions
from minimlc.dtypes import DTYPES, dtype_name
from minimlc.errors import BuildError, CompileError
from minimlc.graph import nodes as graph
from minimlc.graph.ops import OPS, evaluate, find_op
from minimlc.literals import array_literal, literal, prints_inline
from minimlc.module import IRModule
from minimlc.names import UniqueNames
from minimlc.node import Node
from minimlc.run import check_arguments
from minimlc.tir.intrinsics import INTRINSICS
from minimlc.tir.math.scalars import definition
from minimlc.tir.nodes import Alloc, For, IfThenElse, PrimFunc, Seq, Stmt, Store

LINE = 100

MOST_LOOPS = 20
"""Python takes no more loops in each other in one function; those inside get one of their own."""


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
    constants = emitter.constants
    scope: dict[str, Any] = {"constants": constants, "sites": emitter.sites}
    try:
        source = emitter.source()
        exec(compile(source, filename, "exec"), scope)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise BuildError(
            f"Python does not read the code written for it: {error.args[0]}",
            hint='build(mod, target="llvm") has no such limits; or store parts of what is deeply '
            "nested in buffers",
        ) from None
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    weakref.finalize(constants, linecache.cache.pop, filename, None).atexit = False
    names = emitter.functions
    return {name: _guard(mod[name], name, scope[names[name]]) for name in mod.functions}


_NUMBERS = itertools.count(1)


class _Constants(list[np.ndarray]):
    """They live as long as the functions: the source that a traceback shows goes with them."""


def _guard(func: Any, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        plain = check_arguments(func, name, args, named)
        try:
            with np.errstate(all="ignore"):
                return inner(*plain)
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
    def __init__(self, mod: IRModule, check: bool):
        self.mod = mod
        self.sites: list[Site] | None = [] if check else None
        self.constants = _Constants()
        self.used: set[str] = set()
        self.names = UniqueNames()
        self.definitions: dict[str, str] = {}
        own = ("np", "op", "call_packed", "constants", "bool_", "math", *HELPERS, *NAMED.values())
        defined = [n for n in INTRINSICS if definition(n, "float64", approximate=False)]
        typed = [f"{name}_{dtype}" for name in ("to", *defined) for dtype in DTYPES]
        for word in (*own, *DTYPES, *defined, *typed):
            if word != "bool":
                self.names.take(word)
        for word in ("inside", "outside", "sites") if check else ():
            self.names.take(word)
        self.functions = {name: self.names.take(name) for name in mod.functions}
        self.top: list[str] = []
        self.constant_names: list[str] = []

    def source(self) -> str:
        parts: list[str] = []
        for name, func in self.mod.functions.items():
            lines = self.prim_func(name, func) if isinstance(func, PrimFunc) else []
            if isinstance(func, graph.Function):
                lines = self.graph_function(name, func)
            if not lines:
                raise CompileError(f'"{name}" is a {type(func).__name__}, not a function')
            parts.append("\n".join(lines))
        helpers = [text for name, text in HELPERS.items() if name in self.used]
        helpers += self.definitions.values()
        helpers += [INSIDE] if self.sites else []
        for text in helpers:
            self.used |= {"math"} if "math." in text else set()
        heads = ["\n".join(self.imports()), *(["\n".join(self.top)] if self.top else [])]
        return "\n\n".join(heads) + "\n\n\n" + "\n\n\n".join([*helpers, *parts]) + "\n"

    def imports(self) -> Iterator[str]:
        if "math" in self.used:
            yield "import math"
            yield ""
        yield "import numpy as np"
        if "bfloat16" in self.used:
            yield "from ml_dtypes import bfloat16"
        plain = sorted(({*DTYPES, "bool_"} - {"bfloat16", "bool"}) & self.used)
        if plain:
            yield f"from numpy import {', '.join(plain)}"
        if self.sites:
            yield "from minimlc.codegen.bounds import outside"
        if "op" in self.used:
            yield "from minimlc.codegen.python.compile import op"
        if "call_packed" in self.used:
            yield "from minimlc.run import call_packed"

    def dtype(self, name: str) -> str:
        word = "bool_" if name == "bool" else name
        self.used.add(word)
        return word

    def empty(self, shape: tuple[int, ...], dtype: str) -> str:
        return f"np.empty({shape}, {self.dtype(dtype)})"

    # Primitive functions

    def prim_func(self, name: str, func: PrimFunc) -> list[str]:
        flat = lower(func, dialect=NUMPY_DIALECT, whole=self.sites is not None)
        scope = _Scope(self)
        params = [scope.declare(param) for param in flat.params]
        shapes = [
            f"{text}: {p.dtype} {p.shape}" for text, p in zip(params, flat.params, strict=True)
        ]
        lines = [f"def {self.functions[name]}({', '.join(params)}):", *_docstring(shapes)]
        lines += [f"    {line}" for line in scope.stmt(flat.body)]
        scope.close()
        return lines

    # Graph functions

    def graph_function(self, name: str, func: graph.Function) -> list[str]:
        scope = _GraphScope(self)
        params = [scope.declare(param) for param in func.params]
        lines = [f"def {self.functions[name]}({', '.join(params)}):"]
        lines += _docstring([f"{t}: {p.type}" for t, p in zip(params, func.params, strict=True)])
        for binding in func.bindings():
            lines += [f"    {line}" for line in scope.binding(binding)]
        lines += [f"    {line}" for line in scope.result(func.result)]
        scope.close()
        return lines

    def constant(self, data: np.ndarray) -> str:
        dtype = self.dtype(dtype_name(data.dtype))
        text = array_literal(data) if prints_inline(data) else ""
        if text and "nan:" not in text:
            return f"np.array({text}, {dtype})"
        for number, known in enumerate(self.constants):
            if known is data:
                return self.constant_names[number]
        name = self.names.take(f"c{len(self.constants)}")
        self.constant_names.append(name)
        shape = f"{dtype_name(data.dtype)} {data.shape}"
        self.top.append(f"{name} = constants[{len(self.constants)}]  # {shape}")
        self.constants.append(data)
        return name


def _docstring(items: list[str]) -> list[str]:
    """What the arguments are, as a docstring of lines that are not too long."""
    text = ", ".join(items)
    if len(text) < LINE - 10:
        return [f'    """{text}"""']
    return ['    """', *(f"    {item}" for item in items), '    """']


class _Names:
    """The names of one function's symbols; they are free again when it ends."""

    def __init__(self, emitter: _Emitter):
        self.emitter = emitter
        self.known: dict[Node, str] = {}
        self.wanted: list[tuple[str, str]] = []

    def declare(self, symbol: Any) -> str:
        self.known[symbol] = self.take(symbol.name)
        return self.known[symbol]

    def take(self, wanted: str) -> str:
        name = self.emitter.names.take(wanted)
        self.wanted.append((name, wanted))
        return name

    def close(self) -> None:
        for name, wanted in reversed(self.wanted):
            self.emitter.names.release(name, wanted)


class _Scope(_Names):
    """The statements of a primitive function."""

    def __init__(self, emitter: _Emitter):
        super().__init__(emitter)
        self.exprs = Expressions(self.known, emitter.used, emitter.definitions, emitter.sites)
        self.depth = 0

    def stmt(self, item: Stmt) -> list[str]:
        match item:
            case Seq():
                return [line for part in item.stmts for line in self.stmt(part)] or ["pass"]
            case For():
                return self.loop(item)
            case Store():
                target = self.exprs.element(item)
                return [f"{target} = {self.exprs.stored(item.value)}"]
            case IfThenElse():
                lines = [f"if {self.exprs.expr(item.condition).code}:", *self.body(item.then_case)]
                if item.else_case is not None:
                    lines += ["else:", *self.body(item.else_case)]
                return lines
            case Alloc():
                name, buffer = self.declare(item.buffer), item.buffer
                made = self.emitter.empty(buffer.shape, buffer.dtype)
                return [f"{name} = {made}", *self.stmt(item.body)]
            case _:
                raise CompileError(f"no Python for the statement {type(item).__name__}")

    def body(self, item: Stmt) -> list[str]:
        return [f"    {line}" for line in self.stmt(item)]

    def loop(self, item: For) -> list[str]:
        extent = self.exprs.expr(item.extent)
        name = self.declare(item.var)
        self.exprs.ranges[item.var] = 0, max(0, self.exprs.interval(item.extent)[1] - 1)
        note = "" if item.kind == "serial" else f"  # {item.kind}"
        self.depth += 1
        apart = self.depth % MOST_LOOPS == 0
        lines = [f"for {name} in range({extent.code}):{note}", *self.body(item.body)]
        self.depth -= 1
        if not apart:
            return lines
        function = self.take("inner_loops")
        return [f"def {function}():", *(f"    {line}" for line in lines), f"{function}()"]


class _GraphScope(_Names):
    """The bindings of a graph function."""

    def value(self, item: graph.Expr) -> str:
        match item:
            case graph.Var():
                return self.known[item]
            case graph.Constant():
                return self.emitter.constant(item.data)
            case graph.Tuple():
                return _tuple([self.value(field) for field in item.fields])
            case graph.TupleGetItem():
                return f"{self.value(item.tuple)}[{item.index}]"
            case graph.Call():
                return self.call(item)
            case _:
                raise CompileError(f"no Python for {type(item).__name__} in a graph function")

    def call(self, item: graph.Call) -> str:
        args = [self.value(arg) for arg in item.args]
        if item.op == "call":
            return f"{self.emitter.functions[item.callee]}({', '.join(args)})"
        self.emitter.used.add("op")
        args += [f"{key}={literal(value)}" for key, value in item.attrs]
        return f"op.{item.op}({', '.join(args)})"

    def binding(self, item: graph.Binding) -> list[str]:
        value = item.value
        if not _is_destination(value):
            text = self.value(value)
            return [f"{self.declare(item.var)} = {text}"]
        inputs = self.inputs(value)
        name = self.declare(item.var)
        if isinstance(value.type, graph.TensorType):
            return self.destination(value, inputs, [name])
        outs = [self.take(f"{name}_{n}") for n, _ in enumerate(graph.tensor_types(value.type))]
        lines = self.destination(value, inputs, outs)
        return [*lines, f"{name} = {_nested(value.type, iter(outs))}"]

    def result(self, item: graph.Expr) -> list[str]:
        if not _is_destination(item):
            return [f"return {self.value(item)}"]
        outs = [self.take("out") for _ in graph.tensor_types(item.type)]
        lines = self.destination(item, self.inputs(item), outs)
        return [*lines, f"return {_nested(item.type, iter(outs))}"]

    def destination(self, call: graph.Call, inputs: list[str], outs: list[str]) -> list[str]:
        """A call that writes its results into fresh arrays named `outs`."""
        types = graph.tensor_types(call.type)
        made = [self.emitter.empty(t.shape, t.dtype) for t in types]
        lines = [f"{name} = {text}" for name, text in zip(outs, made, strict=True)]
        if call.op == "call_tir":
            return [*lines, f"{self.emitter.functions[call.callee]}({', '.join([*inputs, *outs])})"]
        self.emitter.used.add("call_packed")
        given = f"[{', '.join(inputs)}], [{', '.join(outs)}]"
        return [*lines, f"call_packed({literal(call.callee)}, {given})"]

    def inputs(self, call: graph.Call) -> list[str]:
        return [leaf for arg in call.args for leaf in self.leaves(arg)]

    def leaves(self, item: graph.Expr) -> list[str]:
        """The tensors of an argument, tuples taken apart."""
        if isinstance(item, graph.Tuple):
            return [leaf for field in item.fields for leaf in self.leaves(field)]
        return _parts(self.value(item), item.type)


def _is_destination(item: graph.Expr) -> TypeGuard[graph.Call]:
    return isinstance(item, graph.Call) and item.op in ("call_tir", "call_dps_packed")


def _parts(text: str, wanted: graph.Type) -> list[str]:
    if isinstance(wanted, graph.TensorType):
        return [text]
    fields = enumerate(wanted.fields)
    return [leaf for n, field in fields for leaf in _parts(f"{text}[{n}]", field)]


def _nested(wanted: graph.Type, names: Iterator[str]) -> str:
    if isinstance(wanted, graph.TensorType):
        return next(names)
    return _tuple([_nested(field, names) for field in wanted.fields])


def _tuple(codes: list[str]) -> str:
    return f"({codes[0]},)" if len(codes) == 1 else f"({', '.join(codes)})"
