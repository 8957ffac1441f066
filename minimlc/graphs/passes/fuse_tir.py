"""Make each group of calls one primitive function."""

from math import prod

from minimlc.graphs.execute import execute
from minimlc.graphs.ir.dimensions import FAMILIES
from minimlc.graphs.ir.nodes import Call, Constant, Expr, Function, TensorType, Var, call_tir
from minimlc.graphs.ir.sized import is_symbolic
from minimlc.graphs.mutator import Mutator, is_primitive
from minimlc.graphs.passes.merge import Merger, copy_of
from minimlc.graphs.run import flatten, nest
from minimlc.loops.ir.nodes import Block, Buffer, Intrin, Load, PrimFunc, Store, SymbolicFunc
from minimlc.loops.ir.walks import blocks_in
from minimlc.loops.schedule.inline import compute_inline
from minimlc.loops.values.errors import CompileError, ScheduleError
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import nodes_of, walk

CHEAP = 8
"""Nodes of an expression that may be computed again wherever it is read."""


@module_pass
def fuse_tir(mod: IRModule) -> IRModule:
    """Join the primitive functions that each graph function marked primitive calls into one.

        def fused_matmul_add(x, w, b):  # primitive      @T.prim_func
            lv = R.call_tir("matmul", (x, w), ...)  -->  def fused_matmul_add(x, w, b, add):
            lv1 = R.call_tir("add", (lv, b), ...)            matmul = T.alloc_buffer(...)
            return lv1                                       ... the loops of matmul, then of add

    What goes from one to the next becomes a local allocation; a value that is computed element by
    element and read once is computed where it is read.
    """
    joined = join_groups(mod)
    groups = {name for name, func in mod.entries if is_primitive(func)}
    functions = {n: inline_elements(f) if n in groups else f for n, f in joined.entries}  # type: ignore[arg-type]
    return joined.with_functions(functions)


def join_groups(mod: IRModule) -> IRModule:
    """The first half of `fuse_tir`: each group is one function, all that it computes is stored."""
    fused: dict[str, _Fused] = {}
    for name, func in mod.entries:
        if isinstance(func, Function) and is_primitive(func):
            fused[name] = _Fused(mod, name, func)
    if not fused:
        return mod
    functions = {n: fused[n].prim_func if n in fused else f for n, f in mod.entries}
    return _Recall(fused)(mod.with_functions(functions))


class _Recall(Mutator):
    """Calls of fused graph functions become `call_tir`."""

    def __init__(self, fused: "dict[str, _Fused]"):
        self.fused = fused

    def visit_Call(self, call: Call) -> Expr:
        if call.op != "call" or call.callee not in self.fused:
            return call
        constants = tuple(self.fused[call.callee].constants)
        return call_tir(call.callee, (*call.args, *constants), call.type)


Value = Buffer | tuple["Value", ...]


class _Fused:
    """One group: `prim_func` takes its parameters, then `constants`, then its outputs."""

    def __init__(self, mod: IRModule, name: str, func: Function):
        self.mod = mod
        self.name = name
        self.merger = Merger()
        self.constants: dict[Constant, Buffer] = {}
        params = [self._parameter(param) for param in func.params]
        outputs = self._outputs(execute(func, params, self._constant, self._call))
        params += [*self.constants.values(), *outputs]
        self.prim_func = self.merger.function(params)

    def _parameter(self, param: Var) -> Buffer:
        if not isinstance(param.type, TensorType):
            raise self._refusal(f"its parameter {param.name} is a tuple")
        return self.merger.buffer(param.name, param.type)

    def _constant(self, item: Constant) -> Buffer:
        if item not in self.constants:
            self.constants[item] = self.merger.buffer("const", item)
        return self.constants[item]

    def _call(self, call: Call, args: list[Value]) -> Value:
        if call.op != "call_tir":
            raise self._refusal(f"it has the call {call.op} {call.callee}".rstrip())
        callee = self._callee(call)
        inputs = flatten(args)
        outputs = [self.merger.alloc(param.name, param) for param in callee.params[len(inputs) :]]
        self.merger.append(callee, [*inputs, *outputs])
        return nest(call.type, iter(outputs))

    def _callee(self, call: Call) -> PrimFunc:
        """The function that a call needs: for a callee with symbolic sizes, its instance."""
        callee = self.mod[call.callee]
        if isinstance(callee, PrimFunc):
            return callee
        families = FAMILIES.first
        if not isinstance(callee, SymbolicFunc) or families is None:
            raise self._refusal(f'"{call.callee}" is not a primitive function')
        if is_symbolic(self.mod[self.name]):
            raise self._refusal("its sizes are known only at the call")
        _, func = families.called_instance(callee, call)
        return func

    def _outputs(self, result: Value) -> list[Buffer]:
        """Distinct allocations for the result, which become parameters."""
        outputs: list[Buffer] = []
        for buffer in flatten([result]):
            if buffer not in self.merger.allocs or buffer in outputs:
                buffer = self._copy(buffer)
            outputs.append(buffer)
        self.merger.allocs = [b for b in self.merger.allocs if b not in outputs]
        return outputs

    def _copy(self, buffer: Buffer) -> Buffer:
        copied = self.merger.alloc(f"{buffer.name}_copy", buffer)
        self.merger.append(copy_of(buffer), [buffer, copied])
        return copied

    def _refusal(self, why: str) -> CompileError:
        why = f'fuse_tir: the group "{self.name}" cannot become one primitive function: {why}'
        hint = "run mlc.passes.legalize first, and keep calls of graph and registered functions "
        return CompileError(why, code="E232", hint=f"{hint}out of groups")


def inline_elements(func: PrimFunc) -> PrimFunc:
    """`func` with element-wise blocks that are cheap or read once, computed where they are read."""
    for block in blocks_in(func.body):
        if _is_worth_inlining(func, block):
            try:
                func = compute_inline(func, block.name)
            except ScheduleError:
                continue
    return func


def _is_worth_inlining(func: PrimFunc, block: Block) -> bool:
    """Inlining must not repeat costly work: neither at several places nor in a larger loop."""
    blocks = blocks_in(func.body)
    store = next(b for b in blocks if b.name == block.name).body
    if not isinstance(store, Store) or store.buffer not in func.allocs:
        return False
    if any(it.kind != "S" for it in block.iters):
        return False
    loads = [(block, load) for block in blocks for load in nodes_of(block, Load)]
    readers = [block for block, load in loads if load.buffer is store.buffer]
    repeats = [b for b in readers if prod(it.extent for it in b.iters) > prod(store.buffer.shape)]
    if any(it.kind == "R" for b in repeats for it in b.iters):
        return False
    cheap = len(list(walk(store.value))) <= CHEAP and not nodes_of(store.value, Intrin)
    return cheap or (len(readers) == 1 and not repeats)
