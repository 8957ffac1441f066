"""A toy target: prints primitive functions as pseudo-code, with no more than machine operations."""

from minimlc.codegen.dialect import Dialect
from minimlc.codegen.lower import lower
from minimlc.errors import BuildError
from minimlc.names import SymbolNames
from minimlc.runtime.library import Library
from minimlc.tir.nodes import (
    Alloc,
    Binary,
    Cast,
    Const,
    For,
    IfThenElse,
    Intrin,
    Let,
    Load,
    PrimFunc,
    Select,
    Seq,
    Store,
    Unary,
    Var,
)

FLOATS = ("float32", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
SHIFTS = ("shift_left", "shift_right")
TRUNCATIONS = tuple(f"truncate_{dtype}" for dtype in INTEGERS)
TABLE = {
    **dict.fromkeys(("+", "-", "*", "negate"), (*FLOATS, *INTEGERS)),
    **dict.fromkeys(("/", "sqrt", "floor", "abs", "fmod", "copysign", "muladd", "exp"), FLOATS),
    **dict.fromkeys(("~", "quotient", "remainder", "number", *SHIFTS), INTEGERS),
    **dict.fromkeys(("bits", *TRUNCATIONS), FLOATS),
}
CONTROL = ("&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "and", "or", "not")


def computed_in(name, dtype):
    """Nothing but arithmetic, comparisons and conversions is this machine's own."""
    saturates = dtype in FLOATS and name.removeprefix("to_") in INTEGERS
    converts = name.startswith("to_") and not saturates
    return dtype if name in CONTROL or converts or dtype in TABLE.get(name, ()) else ""


PSEUDO = Dialect(computed_in, approximate=False)


class Writer:
    """Collects the lines of one function."""

    def __init__(self):
        self.names = SymbolNames()
        self.lines = []

    def line(self, depth, text):
        self.lines.append("  " * depth + text)

    def function(self, name, func):
        params = [f"{p.dtype} {self.names.declare(p)}{list(p.shape)}" for p in func.params]
        self.line(0, f"procedure {name}({', '.join(params)})")
        self.stmt(lower(func, dialect=PSEUDO).body, 1)
        return "\n".join(self.lines)

    def stmt(self, item, depth):
        match item:
            case Seq(stmts):
                for part in stmts:
                    self.stmt(part, depth)
            case For(var, extent, kind, body):
                word = {"serial": "for", "parallel": "forall"}.get(kind, f"for {kind}")
                self.line(depth, f"{word} {self.names.declare(var)} below {self.expr(extent)}")
                self.stmt(body, depth + 1)
            case Store(buffer, indices, value):
                self.line(depth, f"{self.element(buffer, indices)} <- {self.expr(value)}")
            case IfThenElse(condition, then_case, else_case):
                self.line(depth, f"if {self.expr(condition)}")
                self.stmt(then_case, depth + 1)
                if else_case is not None:
                    self.line(depth, "else")
                    self.stmt(else_case, depth + 1)
            case Alloc(buffer, body):
                place = f"{buffer.dtype} {self.names.declare(buffer)}{list(buffer.shape)}"
                self.line(depth, f"var {place}")
                self.stmt(body, depth)
            case _:
                raise BuildError(f"no pseudo-code for {type(item).__name__}")

    def element(self, buffer, indices):
        return f"{self.names[buffer]}[{', '.join(map(self.expr, indices))}]"

    def expr(self, item):
        match item:
            case Var():
                return self.names[item]
            case Const(value, _):
                return str(value)
            case Load(buffer, indices):
                return self.element(buffer, indices)
            case Unary(op, a):
                return f"({op} {self.expr(a)})"
            case Binary(op, a, b):
                return f"({self.expr(a)} {op} {self.expr(b)})"
            case Select(condition, a, b):
                return f"({self.expr(condition)} ? {self.expr(a)} : {self.expr(b)})"
            case Cast(dtype, a):
                return f"{dtype}({self.expr(a)})"
            case Intrin(name, args):
                return f"{name}({', '.join(map(self.expr, args))})"
            case Let(var, value, body):
                text = self.expr(value)
                return f"(let {self.names.declare(var)} = {text} in {self.expr(body)})"
            case _:
                raise BuildError(f"no pseudo-code for {type(item).__name__}")


def build(module, target, check, cache):
    def text():
        functions = ((n, f) for n, f in module.entries if isinstance(f, PrimFunc))
        return "\n\n".join(Writer().function(name, func) for name, func in functions)

    return Library(module, target, {}, {"pseudo": text})
