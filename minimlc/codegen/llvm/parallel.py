"""Parallel loops: the body becomes a function of its own, shared out over threads.

Each thread takes one run of neighbouring iterations, so results do not depend on timing. What
shares the work out is not optimized: it runs once a loop, and LLVM would take a tenth longer.
"""

from minimlc.codegen.llvm.entry import IN_PLACE
from minimlc.codegen.llvm.expr import Expressions
from minimlc.codegen.llvm.stmt import Statements
from minimlc.codegen.llvm.value import REGISTER, Code, Value, facts
from minimlc.dtypes import INDEX
from minimlc.node import walk
from minimlc.tir.nodes import Alloc, Buffer, For, Let, Load, Store, Var

OPENMP = """
@minimlc_threads = external global i32
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
declare i32 @omp_in_parallel()

; One thread's share of a job {task, context, count, status}.
define internal void @minimlc.share(ptr %job) noinline optnone {
  %task = load ptr, ptr %job, align 8
  %context.at = getelementptr inbounds i64, ptr %job, i64 1
  %context = load ptr, ptr %context.at, align 8
  %count.at = getelementptr inbounds i64, ptr %job, i64 2
  %count = load i64, ptr %count.at, align 8
  %me.short = call i32 @omp_get_thread_num()
  %all.short = call i32 @omp_get_num_threads()
  %me = zext i32 %me.short to i64
  %all = zext i32 %all.short to i64
  %next = add i64 %me, 1
  %low = mul i64 %count, %me
  %high = mul i64 %count, %next
  %begin = udiv i64 %low, %all
  %end = udiv i64 %high, %all
  %status = call i32 %task(ptr %context, i64 %begin, i64 %end)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %note, label %done
note:
  %status.at = getelementptr inbounds i64, ptr %job, i64 3
  store atomic i32 %status, ptr %status.at monotonic, align 8
  br label %done
done:
  ret void
}

; Run a task over 0 ... count-1 on all threads; inside a parallel loop, on this one.
define internal i32 @minimlc.parallel(ptr %task, ptr %context, i64 %count) noinline optnone {
  %limit.short = load i32, ptr @minimlc_threads, align 4
  %limit = sext i32 %limit.short to i64
  %fewer = icmp slt i64 %count, %limit
  %threads = select i1 %fewer, i64 %count, i64 %limit
  %alone = icmp sle i64 %threads, 1
  br i1 %alone, label %serial, label %ask
ask:
  %inside = call i32 @omp_in_parallel()
  %nested = icmp ne i32 %inside, 0
  br i1 %nested, label %serial, label %shared
serial:
  %one = call i32 %task(ptr %context, i64 0, i64 %count)
  ret i32 %one
shared:
  %job = alloca [4 x i64], align 8
  store ptr %task, ptr %job, align 8
  %context.at = getelementptr inbounds i64, ptr %job, i64 1
  store ptr %context, ptr %context.at, align 8
  %count.at = getelementptr inbounds i64, ptr %job, i64 2
  store i64 %count, ptr %count.at, align 8
  %status.at = getelementptr inbounds i64, ptr %job, i64 3
  store i64 0, ptr %status.at, align 8
  %threads.short = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @minimlc.share, ptr %job, i32 %threads.short, i32 0)
  %status = load i32, ptr %status.at, align 8
  ret i32 %status
}
"""

POOL = """
declare i32 @minimlc_pool_run(ptr, ptr, i64)

; Run a task over 0 ... count-1 on the Python thread pool.
define internal i32 @minimlc.parallel(ptr %task, ptr %context, i64 %count) noinline optnone {
  %raised = call i32 @minimlc_pool_run(ptr %task, ptr %context, i64 %count)
  %status = sub i32 %raised, 1
  ret i32 %status
}
"""


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
    result = code.value(f"call i32 @minimlc.parallel({operands})")
    code.fail_where(f"icmp ne i32 {result}, 0", result, "failed", "done")


def _captured(item: For, writer: Expressions) -> tuple[list[Buffer], list[Var]]:
    """The buffers and run-time variables from outside that the loop uses, in order."""
    parts = list(walk(item.body))
    own = {item.var} | {part.var for part in parts if isinstance(part, For | Let)}
    local = {part.buffer for part in parts if isinstance(part, Alloc)}
    buffers = dict.fromkeys(part.buffer for part in parts if isinstance(part, Load | Store))
    variables = dict.fromkeys(part for part in parts if isinstance(part, Var))
    at_run_time = [v for v in variables if v not in own and writer.variables[v].const is None]
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
