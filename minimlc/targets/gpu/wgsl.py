"""WGSL, the language of WebGPU: float32, int32, uint32, and float16 in memory where it is enabled.

Integer arithmetic wraps around by definition, so its operators are ours. What needs 64 bits, or 8,
is refused.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import product

from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import Binary, Cast, Const, Expr, Intrin, Load, Select
from minimlc.loops.ir.walks import stored_in
from minimlc.loops.lower.dialect import Legalize
from minimlc.loops.math.float_steps import Program
from minimlc.loops.math.scalars import definition
from minimlc.loops.values.dtypes import is_float, is_integer
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import Node, walk
from minimlc.targets.c.expr import OPERATORS, SHORT, Expressions, constant, function_name
from minimlc.targets.c.functions import C_DIALECT, MACHINE
from minimlc.targets.c.names import LOCAL, unique_names
from minimlc.targets.c.stmt import SYNTAX as C_SYNTAX
from minimlc.targets.gpu.emit import KernelText, Language, lacking
from minimlc.targets.gpu.kernels import Kernel, Launches
from minimlc.targets.gpu.limits import WEBGPU_LIMITS
from minimlc.targets.source.writer import Statements, Text, call

TITLE = "WGSL"
VALUE = {"float32": "f32", "int32": "i32", "uint32": "u32", "bool": "bool", "float16": "f32"}
STORED = {"float32": "f32", "int32": "i32", "uint32": "u32", "float16": "f16"}
SYNTAX = C_SYNTAX._replace(
    loop="for (var {0}: {2} = 0; {0} < {1}; {0}++) {{", let="let {1}: {0} = {2};", types=VALUE
)
_OWN = ["sqrt", "floor", "ceil", "trunc", "round", "abs", "copysign", "isnan", "exp", "log", "tanh"]
"""The language's functions, or ours of that name. An implementation may reorder sums, so our
polynomials, which round by adding a large number, would go wrong: exp and log are its own (off by
3 + 2 |x| and 3 units in the last place), tanh is made of them. Ours of log2 and
log10 do not round so, and are exact where they have to be."""
_ADD, _SUBTRACT, _TIMES, _OVER = (OPERATORS[sign].of for sign in "+-*/")
_FORMULAS: dict[str, Callable[..., Text]] = {
    **{name: MACHINE[name].of for name in ("shift_left", "shift_right", "quotient")},
    "bits": partial(call, "bitcast<i32>"),
    "number": partial(call, "bitcast<f32>"),
    "truncate_int32": partial(call, "i32"),
    "truncate_uint32": partial(call, "u32"),
    "muladd": lambda a, b, c: _ADD(_TIMES(a, b), c),
    # Not `%`: in OpenGL, that of negative numbers is not defined.
    "remainder": lambda a, b: _SUBTRACT(a, _TIMES(_OVER(a, b), b)),
}
"""Operations that are written without a function of their name."""
_SPECIAL = {
    "INFINITY": "special(0x7f800000u)",
    "NAN": "special(0x7fc00000u)",
    "INT32_MIN": "i32(-2147483648)",
}


class WgslExpressions(Expressions):
    """Writes expressions as WGSL has them."""

    def stored(self, value: Expr) -> str:
        if value.dtype != "float16":
            return self.visit(value).code
        wide = value.a if isinstance(value, Cast) and value.a.dtype == "float32" else value
        return call("f16", self.visit(wide)).code

    def visit_Const(self, item: Const) -> Text:
        text = constant(item)
        size = text.code.removeprefix("-")
        return text._replace(code=text.code.replace(size, _SPECIAL.get(size, size)))

    def visit_Select(self, item: Select) -> Text:
        return call("select", *map(self.visit, (item.b, item.a, item.condition)))

    def visit_Load(self, item: Load) -> Text:
        element = Text(self.element(item))
        return call("f32", element) if item.dtype == "float16" else element

    def visit_Binary(self, item: Binary) -> Text:
        if item.op == ">>" and isinstance(item.b, Const):
            return self.visit(Intrin("shift_right", (item.a, item.b)))
        return Expressions.visit_Binary(self, item)

    def overflows(self, item: Expr) -> bool:
        return False  # it wraps around

    def visit_Cast(self, item: Cast) -> Text:
        source, target, a = item.a.dtype, item.dtype, self.visit(item.a)
        if target == "float16" and source != target:
            return call("f32", call("f16", a))
        if VALUE[source] == VALUE[target]:
            return a
        to_integer = is_float(source) and is_integer(target)
        return call(f"to_{SHORT[target]}" if to_integer else VALUE[target], a)

    def visit_Intrin(self, item: Intrin) -> Text:
        name, dtype = item.name, item.args[0].dtype
        arguments = [self.visit(argument) for argument in item.args]
        if name in ("shift_left", "shift_right"):
            arguments[1] = call("u32", arguments[1])
        if name in _FORMULAS:
            return _FORMULAS[name](*arguments)
        if name in _OWN and is_float(dtype):
            return call("tanh_f32" if name == "tanh" else name, *arguments)
        if not _is_spelled(item):
            raise lacking(TITLE, f"{name} of {dtype}")
        return call(function_name(name, dtype), *arguments)


_MACHINE = {
    "special": """fn special(bits: u32) -> f32 {
    return bitcast<f32>(bits);
}""",
    "isnan": """fn isnan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}""",
    "tanh_f32": """fn tanh_f32(x: f32) -> f32 {
    let square: f32 = x * x;
    let small: f32 = x + x * square * (square * 0.13333334f - 0.33333334f);
    let grown: f32 = exp(-2.0f * abs(x));
    return select(copysign((1.0f - grown) / (1.0f + grown), x), small, abs(x) < 0.1f);
}""",
    "copysign": """fn copysign(size: f32, sign: f32) -> f32 {
    let bits = (bitcast<u32>(size) & 0x7fffffffu) | (bitcast<u32>(sign) & 0x80000000u);
    return bitcast<f32>(bits);
}""",
}
"""Constants and functions that the language lacks. It would refuse the values that the first one
gives if it saw them."""


@cache
def functions() -> Mapping[str, str]:
    """The definitions of operations that need no doubles."""
    dtypes = ("float32", "int32", "uint32")
    operations = ("//", "%", "min", "max", "<<", ">>", *INTRINSICS)
    named = {function_name(*pair): pair for pair in product(operations, dtypes)}
    named |= {f"to_{SHORT[dtype]}": (f"to_{dtype}", "float32") for dtype in dtypes[1:]}
    programs = {name: _definition(*pair) for name, pair in named.items()}
    spelled = ((name, item) for name, item in programs.items() if item and _has_all(item))
    return {**_MACHINE, **{name: _function(name, item) for name, item in spelled}}


def _is_spelled(item: Intrin) -> bool:
    """Whether the language has a function, or all that its definition needs."""
    name, dtype = item.name, item.args[0].dtype
    if name in (*_FORMULAS, *_OWN):
        return True
    program = _definition(name, dtype)
    return program is not None and _has_all(program)


def _definition(name: str, dtype: str) -> Program | None:
    return definition(name, dtype, approximate=name in ("log2", "log10"))


def _has_all(program: Program) -> bool:
    values = (*(value for _, value in program.steps), program.result)
    parts = [part for value in values for part in walk(value) if isinstance(part, Expr)]
    called = all(_is_spelled(part) for part in parts if isinstance(part, Intrin))
    return program.rare is None and called and all(part.dtype in VALUE for part in parts)


def _function(name: str, program: Program) -> str:
    program = Program(*Legalize(C_DIALECT).visit(program))
    body = Statements(SYNTAX, WgslExpressions(), unique_names(RESERVED))
    listed = [f"{body.declare(var)}: {VALUE[var.dtype]}" for var in program.params]
    body.steps(program)
    body.results(program)
    head = f"fn {name}({', '.join(listed)}) -> {VALUE[program.result.dtype]} {{"
    note = [f"// {program.note}"] if program.note else []
    return "\n".join([*note, head, *body.lines, "}"])


def _array(kind: str, name: str, shape: tuple[int, ...]) -> str:
    for size in reversed(shape):
        kind = f"array<{kind}, {size}>"
    return f"{name}: {kind}"


def _memory(form: Launches, known: dict[Node, Text], names: UniqueNames) -> Iterator[str]:
    """The bindings of a function: its parameters, then its workspace."""
    written = set().union(*(stored_in(kernel.body) for kernel in form.kernels))
    for number, buffer in enumerate((*form.func.params, *form.workspace)):
        name = names.take(buffer.name)
        known[buffer] = Text(name)
        access = "read_write" if buffer in written else "read"
        shape = tuple(max(1, size) for size in buffer.shape) or (1,)
        declared = _array(STORED[buffer.dtype], name, shape)
        yield f"@group(0) @binding({number}) var<storage, {access}> {declared};"


def _header(text: KernelText, kernel: Kernel) -> list[str]:
    return [
        *(f"var<workgroup> {text.declared(buffer)};" for buffer in kernel.shared),
        f"@compute @workgroup_size{kernel.block}",
        f"fn {text.symbol}(",
        "    @builtin(workgroup_id) blockIdx: vec3<u32>,",
        "    @builtin(local_invocation_id) threadIdx: vec3<u32>",
        ") {",
    ]


def _finish(text: str) -> str:
    return f"enable f16;\n\n{text}" if re.search(r"\bf16\b", text) else text


_WORDS = """alias array atomic bitcast blockIdx threadIdx const_assert diagnostic discard enable fn
    let loop override ptr requires sampler storage storageBarrier uniform var vec2 vec3 vec4
    workgroup workgroupBarrier function read write read_write active as async await become buffer
    cast coherent common concept conditional constinit crate debugger demote fail fallthrough filter
    final finally from fxgroup get groupshared highp impl implements import instanceof interface
    invariant lowp macro match mediump meta mod module move mut native noexcept noinline
    nointerpolation null of package packed partial pass patch pixelfragment precise precision
    premerge quat reflect regardless require resource select self set shared smooth snorm std
    subroutine super target tensor trait type unless unorm unsafe unsized use varying where with
    writeonly yield continuing handle min max clamp dot"""
RESERVED = frozenset({*LOCAL, *_WORDS.split(), *VALUE.values()})

WGSL = Language(
    name="wgsl",
    title=TITLE,
    syntax=SYNTAX,
    expressions=WgslExpressions,
    stored=STORED,
    functions=functions,
    reserved=RESERVED,
    array=_array,
    axis="let {1} = {0}({2});",
    barrier="storageBarrier(); workgroupBarrier();",
    header=_header,
    finish=_finish,
    own="var {};",
    memory=_memory,
    limits=WEBGPU_LIMITS,
)
