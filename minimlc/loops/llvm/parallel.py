"""Parallel loops: the body becomes a separate function, shared out over threads.

Each share is one run of neighbouring iterations, so results do not depend on timing. The code
that unpacks a share's context is not optimized: it runs once per loop, and LLVM would take a tenth
longer.
"""

from minimlc.loops.ir.nodes import Alloc, Buffer, For, Let, Load, Store, Var
from minimlc.loops.llvm.expr import Expressions
from minimlc.loops.llvm.stmt import Statements
from minimlc.loops.llvm.value import IN_PLACE, REGISTER, Code, Value, facts
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.node import walk

RUNTIME = "declare i32 @minimlc_parallel(ptr, ptr, i64)"
"""Runs a task with its context over 0 ... count-1; gives its status plus 1, as 0 is a fault's."""


def parallel(outer: Statements, item: For, extent: Value) -> None:
    """Write a parallel loop: its body apart, in the outer function a call that shares it out."""
    writer, code, job = outer.writer, outer.code, outer.job
    pointers = outer.memory.pointers
    buffers, variables = _captured(item, writer)
    code.module.tasks += 1
    symbol = f"{job.symbol}.parallel{code.module.tasks}"
    kinds = ["ptr"] * len(buffers) + [REGISTER[v.dtype] for v in variables]
    code.module.definitions += [
        _body(outer, item, symbol, buffers, variables),
        _task(symbol, kinds),
    ]
    texts = [pointers[b] for b in buffers] + [writer.variables[v].text for v in variables]
    context = code.on_stack("i64", len(texts))
    for number, (kind, text) in enumerate(zip(kinds, texts, strict=True)):
        place = code.place("i64", context, number)
        code.do(f"store {kind} {text}, ptr {place}, align 8")
    operands = f"ptr @{symbol}.task, ptr {context}, i64 {extent.text}"
    result = code.value(f"sub i32 {code.value(f'call i32 @minimlc_parallel({operands})')}, 1")
    code.fail_where(f"icmp ne i32 {result}, 0", result, "failed", "done")


def _captured(item: For, writer: Expressions) -> tuple[list[Buffer], list[Var]]:
    """The buffers and run-time variables from outside that the loop uses, in order."""
    parts = list(walk(item.body))
    bound = {item.var} | {part.var for part in parts if isinstance(part, For | Let)}
    local = {part.buffer for part in parts if isinstance(part, Alloc)}
    buffers = dict.fromkeys(part.buffer for part in parts if isinstance(part, Load | Store))
    variables = dict.fromkeys(part for part in parts if isinstance(part, Var))
    at_run_time = [v for v in variables if v not in bound and writer.variables[v].const is None]
    return [b for b in buffers if b not in local], at_run_time


def _body(
    outer: Statements, item: For, symbol: str, buffers: list[Buffer], variables: list[Var]
) -> str:
    """The function that runs iterations begin ... end-1."""
    code = Code(outer.code.module, outer.code.line)
    inner = Statements(code, outer.job, parallel)
    inner.writer.variables.update(outer.writer.variables)
    parameters = []
    for number, buffer in enumerate(buffers):
        inner.memory.pointers[buffer] = f"%b{number}"
        own = buffer not in outer.job.program.params
        known = facts(buffer, own=own, alone=own or IN_PLACE not in dict(outer.job.program.attrs))
        parameters.append(f"ptr {known} %b{number}")
    for number, var in enumerate(variables):
        inner.writer.variables[var] = Value(f"%s{number}", var.dtype)
        parameters.append(f"{REGISTER[var.dtype]} %s{number}")
    begin, binary = Value("%begin", INDEX), inner.values.binary
    count = binary("-", Value("%end", INDEX), begin)
    inner.loop(count, lambda n: inner.iteration(item, binary("+", begin, n)))
    inner.finish()
    listed = ", ".join([*parameters, "i64 %begin", "i64 %end"])
    return code.function(f"define internal i32 @{symbol}({listed}) noinline #0")


def _task(symbol: str, kinds: list[str]) -> str:
    """The function that a thread calls: it unpacks what the loop's body uses."""
    lines, arguments = [], []
    for number, kind in enumerate(kinds):
        lines.append(f"  %at{number} = getelementptr inbounds i64, ptr %context, i64 {number}")
        lines.append(f"  %x{number} = load {kind}, ptr %at{number}, align 8")
        arguments.append(f"{kind} %x{number}")
    listed = ", ".join([*arguments, "i64 %begin", "i64 %end"])
    lines.append(f"  %status = call i32 @{symbol}({listed})")
    body = "\n".join([*lines, "  ret i32 %status"])
    header = f"define internal i32 @{symbol}.task(ptr %context, i64 %begin, i64 %end)"
    return f"{header} noinline optnone {{\n{body}\n}}"
