"""A toy target whose language is like C: kernels of a GPU, a thread for each outer iteration.

It stands on target "c": expressions, definitions of operations, names and types are the same.
"""

import re

from minimlc.loops.lower.lower import lower
from minimlc.targets.c.expr import STORED, Expressions
from minimlc.targets.c.functions import C_DIALECT, FUNCTIONS, function_texts
from minimlc.targets.c.names import LOCAL, unique_names
from minimlc.targets.c.stmt import SYNTAX, dimensions
from minimlc.targets.source.writer import Statements

RESERVED = {*LOCAL, *FUNCTIONS, "blockIdx", "blockDim", "threadIdx"}
THREAD = "const int64_t {} = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;"


class Kernel(Statements):
    """Writes one function; its loops, storage and header differ from C's."""

    def __init__(self, name, func):
        super().__init__(SYNTAX, Expressions(), unique_names({*RESERVED, name}))
        params = ", ".join(map(self.parameter, func.params))
        self.visit(lower(func, dialect=C_DIALECT).body)
        lines = [f'extern "C" __global__ void {name}({params}) {{', *self.lines, "}"]
        self.text = "\n".join(lines)

    def parameter(self, buffer):
        _, inner = dimensions(buffer)
        pointer = f"__restrict__ {self.declare(buffer)}"
        return f"{STORED[buffer.dtype]} " + (f"(*{pointer}){inner}" if inner else f"*{pointer}")

    def visit_For(self, item):
        name, extent = self.declare_loop(item), self.exprs.visit(item.extent).code
        header = SYNTAX.loop.format(name, extent)
        if item.kind == "parallel" and self.depth == 1:
            self.line(THREAD.format(name))
            header = SYNTAX.condition.format(f"{name} < {extent}")
        with self.block(header):
            self.visit(item.body)

    def visit_Alloc(self, item):
        first, inner = dimensions(item.buffer)
        kind, name = STORED[item.buffer.dtype], self.declare(item.buffer)
        self.line(f"{kind} {name}[{first}]{inner};")
        self.visit(item.body)


def kernels(functions):
    """The text of primitive functions."""
    texts = [Kernel(name, func).text for name, func in functions.items()]
    code = "\n".join(texts)
    helpers = "\n\n".join(function_texts(code, FUNCTIONS))
    return "\n\n".join([re.sub("^static", "__device__ static", helpers, flags=re.M), *texts])
