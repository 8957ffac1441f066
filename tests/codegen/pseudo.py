"""A toy target: prints primitive functions as pseudo-code, with no more than machine operations."""

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.lower.dialect import Dialect
from minimlc.loops.lower.lower import lower
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import Visitor
from minimlc.services.runtime.library import Library
from minimlc.targets.source.interval import Intervals
from minimlc.targets.source.writer import Statements, Syntax, Text, call

FLOATS = ("float32", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
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


SYNTAX = Syntax(
    loop="for {} below {}",
    let="{1} := {2}",
    store="{} <- {}",
    condition="if {}",
    otherwise="else",
    result="give {}",
)


class Expressions(Visitor):
    """Every operation in parentheses."""

    def __init__(self, scope):
        self.names, self.bounds, self.scope = {}, Intervals(), scope

    def visit_children(self, item):
        raise BuildError(f"no pseudo-code for {type(item).__name__}")

    def codes(self, *items):
        return [self.visit(item).code for item in items]

    def element(self, item):
        return f"{self.names[item.buffer].code}[{', '.join(self.codes(*item.indices))}]"

    def stored(self, value):
        return self.visit(value).code

    returned = stored

    def visit_Var(self, item):
        return self.names[item]

    def visit_Const(self, item):
        return Text(str(item.value))

    def visit_Load(self, item):
        return Text(self.element(item))

    def visit_Unary(self, item):
        return Text(f"({item.op} {self.stored(item.a)})")

    def visit_Binary(self, item):
        a, b = self.codes(item.a, item.b)
        return Text(f"({a} {item.op} {b})")

    def visit_Select(self, item):
        return Text("({} ? {} : {})".format(*self.codes(item.condition, item.a, item.b)))

    def visit_Cast(self, item):
        return call(item.dtype, self.visit(item.a))

    def visit_Intrin(self, item):
        return call(item.name, *map(self.visit, item.args))

    def visit_Let(self, item):
        value, name = self.stored(item.value), self.scope.take(item.var.name)
        self.names[item.var] = Text(name)
        return Text(f"(let {name} = {value} in {self.stored(item.body)})")


class Procedure(Statements):
    """Writes one function."""

    def __init__(self):
        scope = UniqueNames()
        super().__init__(SYNTAX, Expressions(scope), scope)

    def text(self, name, func):
        params = [f"{p.dtype} {self.declare(p)}{list(p.shape)}" for p in func.params]
        self.visit(lower(func, dialect=PSEUDO).body)
        return "\n".join([f"procedure {name}({', '.join(params)})", *self.lines])

    def visit_For(self, item):
        header = SYNTAX.loop.format(self.declare(item.var), self.exprs.stored(item.extent))
        word = {"serial": "for", "parallel": "forall"}.get(item.kind, f"for {item.kind}")
        with self.block(header.replace("for", word, 1)):
            self.visit(item.body)

    def visit_Alloc(self, item):
        buffer = item.buffer
        self.line(f"var {buffer.dtype} {self.declare(buffer)}{list(buffer.shape)}")
        self.visit(item.body)


def build(module, target, check, cache):
    def text():
        functions = ((n, f) for n, f in module.entries if isinstance(f, PrimFunc))
        return "\n\n".join(Procedure().text(name, func) for name, func in functions)

    return Library(module, target, {}, {"pseudo": text})
