"""Tensors of `te`, and the primitive functions that they become."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.nodes import load
from minimlc.loops.proofs.access import reads
from minimlc.loops.proofs.reducers import is_reduction
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.errors import CompileError, Span
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import Node, Visitor, node, nodes_of, span_of, walk, with_span

Extent = int | ir.Expr


@node
class Size(ir.Expr):
    """A size that is known only at the call, of one axis or several."""

    _symbol: ClassVar[bool] = True
    name: str
    dtype: str = INDEX


@node
class ReduceAxis(ir.Expr):
    """The variable of a reduction: takes low ... high-1, numbers or expressions of sizes."""

    _symbol: ClassVar[bool] = True
    name: str
    low: Extent
    high: Extent
    dtype: str = INDEX


@node
class Reduction(Node):
    """All `values` over `axes`, combined: the kept value, at first `start`, becomes `combined`,
    over the variables `kept` and `new`. An argmax keeps several parts: an index and a value.
    """

    values: tuple[ir.Expr, ...]
    start: tuple[ir.Expr, ...]
    axes: tuple[ReduceAxis, ...]
    kept: tuple[ir.Var, ...]
    new: tuple[ir.Var, ...]
    combined: tuple[ir.Expr, ...]
    name: str = ""

    @property
    def dtype(self) -> str:
        return self.values[0].dtype

    def __repr__(self) -> str:
        return f"a reduction over {', '.join(axis.name for axis in self.axes)}"


@node
class Steps(Node):
    """Elements that are `start`, and then change one after the other: for `axes` in order, the one
    at `place` becomes `value`. Both may read the tensor as it is by then, `so_far`.
    """

    start: ir.Expr
    axes: tuple[ReduceAxis, ...]
    so_far: "Tensor"
    place: tuple[ir.Expr, ...]
    value: ir.Expr

    @property
    def dtype(self) -> str:
        return self.start.dtype


@node
class Tensor(ir.Buffer):
    """A placeholder, or the result of a compute (`value` over the index variables `axes`): of a
    reduction that keeps several parts, the one with the number `part`.
    """

    axes: tuple[ir.Var, ...] = ()
    value: ir.Expr | Reduction | Steps | None = None
    part: int = 0

    def __getitem__(self, indices: Any) -> ir.Load:
        return load(self, indices if isinstance(indices, tuple) else (indices,))

    def __call__(self, *indices: Any) -> ir.Load:
        return load(self, indices)

    def __repr__(self) -> str:
        origin = "placeholder" if self.value is None else "compute"
        return f'te.{origin}({self.shape}, "{self.dtype}", name="{self.name}")'


Argument = Tensor | Size


def refuse(why: str, hint: str = "", span: Span | None = None) -> NoReturn:
    """Raise the error of a tensor expression that is wrong."""
    raise CompileError(why, code="E130", span=span, hint=hint)


def refuse_as_number(item: Tensor | Reduction | Steps, *_: object) -> NoReturn:
    """Refuse a tensor, or a reduction, as an operand of an operator of numbers."""
    if isinstance(item, Tensor):
        element = f"{item.name}[{', '.join('ijklmn'[: item.ndim])}]"
        why = f'the tensor "{item.name}" is used as a number'
        refuse(why, f"name one of its elements: {element}")
    what = "a reduction" if isinstance(item, Reduction) else "te.in_steps"
    hint = f"give {what} a te.compute of its own, and read its result in the next one"
    refuse(f"{what} must be the whole expression of its te.compute", hint)


def _refuse_product(item: Tensor | Reduction | Steps, *_: object) -> NoReturn:
    try:
        refuse_as_number(item)
    except CompileError as error:
        error.hint = "te.sum(A[i, k] * B[k, j], axis=k)  # an element of A @ B, in a te.compute"
        raise


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    for _kind in (Tensor, Reduction, Steps):
        setattr(_kind, f"__{_operator}__", refuse_as_number)
        setattr(_kind, f"__r{_operator}__", refuse_as_number)
for _operator in ("__matmul__", "__rmatmul__"):
    for _kind in (Tensor, Reduction, Steps):
        setattr(_kind, _operator, _refuse_product)
for _operator in ("neg", "lt", "le", "gt", "ge", "float", "index"):
    for _kind in (Tensor, Reduction, Steps):
        setattr(_kind, f"__{_operator}__", refuse_as_number)


class Uses(Visitor):
    """The variables, sizes and tensors that an expression uses, in order of appearance."""

    def __init__(self) -> None:
        self.variables: dict[ir.Var | ReduceAxis, None] = {}
        self.sizes: dict[Size, None] = {}
        self.tensors: dict[Tensor, None] = {}

    def visit_Size(self, item: Size) -> None:
        self.sizes[item] = None

    def visit_Var(self, item: ir.Var) -> None:
        self.variables[item] = None

    visit_ReduceAxis = visit_Var

    def visit_Buffer(self, item: ir.Buffer) -> None:
        refuse(f'the buffer "{item.name}" is not a tensor', "te.placeholder(...)")

    def visit_Tensor(self, item: Tensor) -> None:
        self.tensors[item] = None


def uses_of(value: ir.Expr | Reduction | Steps | Tensor) -> Uses:
    """The uses of a value, including its shape (of a tensor) and the bounds of reduce axes."""
    uses = Uses()
    reduction = value.value if isinstance(value, Tensor) else value
    if isinstance(value, Tensor):
        uses.visit(value.shape)
    if isinstance(reduction, Reduction | Steps):
        uses.visit(tuple((axis.low, axis.high) for axis in reduction.axes))
    if isinstance(reduction, Reduction):
        uses.visit((*reduction.values, *reduction.start))
    elif isinstance(reduction, Steps):
        uses.visit((reduction.start, *reduction.place, reduction.value))
        uses.tensors.pop(reduction.so_far, None)
    else:
        uses.visit(reduction)
    return uses


def create_prim_func(tensors: Argument | Iterable[Argument], *more: Argument) -> Any:
    """The function that computes `tensors`: they are its parameters, inputs and outputs, in order.

    Tensors in between are allocated inside. Every call makes new variables and buffers. With sizes
    of `te.var` it is a `SymbolicFunc`; sizes may stand among the tensors, for the call to pass.
    """
    given = (*(tensors if isinstance(tensors, Iterable) else (tensors,)), *more)
    _check_arguments(given)
    args = tuple(arg for arg in given if isinstance(arg, Tensor))
    stages = _together(_stages(args))
    if not stages:
        refuse("nothing to compute: every tensor given is a placeholder")
    computed = [part for parts in stages for part in parts]
    names = UniqueNames(reserved=(), spell=str)
    sizes = _sizes(given, computed)
    known: dict[Node, Node] = {size: ir.Var(names.take(size.name)) for size in sizes}
    for tensor in dict.fromkeys((*args, *computed)):
        fresh, shape = names.take(tensor.name), _Instantiate(known).visit(tensor.shape)
        known[tensor] = ir.Buffer(fresh, shape, tensor.dtype, tensor.scope)
    body = ir.seq(_nest(parts, known, names) for parts in stages)
    params: Any = tuple(known[tensor] for tensor in args)
    allocs: Any = tuple(known[tensor] for tensor in computed if tensor not in args)
    func = ir.PrimFunc(params, allocs, body)
    if not sizes:
        return func
    places: Any = [(at, known[arg]) for at, arg in enumerate(given) if isinstance(arg, Size)]
    variables: Any = [known[size] for size in sizes]
    return ir.SymbolicFunc(tuple(variables), tuple(places), func)


def _sizes(given: tuple[Any, ...], computed: Iterable[Tensor]) -> list[Size]:
    """The sizes that are known at the call: each is that of an axis, or an argument itself."""
    axes = [size for arg in given for size in (arg.shape if isinstance(arg, Tensor) else (arg,))]
    known = dict.fromkeys(size for size in axes if isinstance(size, Size))
    tensors = [*(arg for arg in given if isinstance(arg, Tensor)), *computed]
    for size in (size for tensor in tensors for size in uses_of(tensor).sizes):
        if size not in known:
            why = f"nothing determines the size {size.name}: it is not a size of an argument"
            hint = f"te.create_prim_func([{size.name}, A, ...])  # the call passes it"
            raise CompileError(why, code="E136", hint=hint)
    return list(known)


def _check_arguments(args: tuple[Any, ...]) -> None:
    for arg in args:
        if not isinstance(arg, Tensor | Size):
            refuse(f"expected tensors, got {type(arg).__name__}: {arg!r}")
    for arg in args:
        if args.count(arg) > 1:
            refuse(f'"{arg.name}" is given twice')


def _stages(args: tuple[Tensor, ...]) -> list[Tensor]:
    """Every computed tensor that `args` need, producers before consumers."""
    done: dict[Tensor, None] = {}
    stack = [(tensor, False) for tensor in reversed(args)]
    while stack:
        tensor, ready = stack.pop()
        if ready:
            done[tensor] = None
        if ready or tensor in done or tensor.value is None:
            continue
        stack.append((tensor, True))
        for used in reversed(uses_of(tensor.value).tensors):
            if used.value is None and used not in args:
                why = (
                    f'"{tensor.name}" reads the placeholder "{used.name}", which is not an argument'
                )
                refuse(why, "give every input to te.create_prim_func, then the outputs")
            stack.append((used, False))
    return list(done)


def _together(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """The tensors that each block computes: one, or all parts of a reduction, named or not."""
    stages: dict[Node, dict[int, Tensor]] = {}
    for tensor in tensors:
        value = tensor.value
        key = value if isinstance(value, Reduction) else tensor
        parts = {} if not isinstance(value, Reduction) else dict(enumerate(parts_of(tensor, value)))
        stages.setdefault(key, parts)[tensor.part] = tensor
    return [list(parts.values()) for parts in stages.values()]


def parts_of(first: Tensor, value: Reduction) -> list[Tensor]:
    """New tensors of the parts of a reduction, with the shape and the axes of `first`."""
    return [
        Tensor(f"{value.name}_v{n}", first.shape, item.dtype, first.scope, first.axes, value, n)
        for n, item in enumerate(value.values)
    ]


class _Instantiate(ir.Substitute):
    """New variables and buffers in place of a compute's."""

    visit_ReduceAxis = visit_Size = ir.Substitute.visit_Var
    visit_Tensor = ir.Substitute.visit_Buffer


Axis = tuple[ir.Var | ReduceAxis, Extent, Extent, ir.IterKind]


def _nest(parts: list[Tensor], known: Mapping[Node, Node], names: UniqueNames) -> ir.Stmt:
    """Loops over the indices of `parts`, then over their reduce axes, around their block.

    Where the values must be taken in order, the elements get their start in a separate block, and
    the loops of steps are over their axes alone.
    """
    tensor, value = parts[0], parts[0].value
    spatial: list[Axis] = [(v, 0, n, "S") for v, n in zip(tensor.axes, tensor.shape, strict=True)]
    nest = partial(_loops, known=known, names=names)
    name = known[tensor].name  # type: ignore[attr-defined]
    if isinstance(value, Steps):
        first = nest(names.take(f"{name}_start"), spatial, None, _store(tensor, value.start))
        known = {**known, value.so_far: known[tensor]}
        step = _Instantiate(known).visit(ir.Store(tensor, value.place, value.value))
        step = with_span(step, span_of(tensor))
        axes = [(axis, axis.low, axis.high, _axis_kind(axis, step)) for axis in value.axes]
        return ir.seq((first, _loops(name, axes, None, step, known, names)))
    if not isinstance(value, Reduction):
        return nest(name, spatial, None, _store(tensor, value))
    start = ir.seq(map(_store, parts, value.start))
    update = ir.seq(_updates(parts, value))
    name = name if len(parts) == 1 else names.take(value.name)
    kind: ir.IterKind = "R" if is_reduction(ir.Block("", (), None, None, update)) else "O"
    every = [*spatial, *((axis, axis.low, axis.high, kind) for axis in value.axes)]
    if kind == "R":
        return nest(name, every, start, update)
    first = nest(names.take(f"{name}_init"), spatial, None, start)
    return ir.seq((first, nest(name, every, None, update)))


def _axis_kind(axis: ReduceAxis, step: ir.Store) -> ir.IterKind:
    """Spatial where all values of an axis keep to separate elements, else opaque."""
    reads = [load.indices for load in nodes_of(step, ir.Load) if load.buffer is step.buffer]
    places = zip(step.indices, *reads, strict=True)
    return "S" if any(all(at is axis for at in both) for both in places) else "O"


def _store(tensor: Tensor, value: ir.Expr | None) -> ir.Store:
    assert isinstance(value, ir.Expr)
    return with_span(ir.Store(tensor, tensor.axes, value), span_of(tensor))


def _updates(parts: list[Tensor], value: Reduction) -> Iterator[ir.Store]:
    """The stores of the parts' new values, each after those that read what it changes."""
    known: dict[Node, Node] = dict(zip(value.new, value.values, strict=True))
    known |= {v: ir.Load(part, part.axes) for v, part in zip(value.kept, parts, strict=True)}
    left = [
        _store(part, ir.substitute(c, known)) for part, c in zip(parts, value.combined, strict=True)
    ]
    while left:
        free = [
            store
            for store in left
            if not any(reads(other.value, store.buffer) for other in left if other is not store)
        ]
        if not free:
            why = f"each part of {value.name} reads the other's value of the step before"
            refuse(why, "let one part depend on itself alone: te.max(x[1], y[1])")
        left.remove(free[0])
        yield free[0]


def _loops(
    name: str,
    axes: Sequence[Axis],
    init: ir.Stmt | None,
    body: ir.Stmt,
    known: Mapping[Node, Node],
    names: UniqueNames,
) -> ir.Stmt:
    """A loop for each of `axes` around the block `name`."""
    loops = [ir.Var(names.take(var.name)) for var, *_ in axes]
    iter_names = [f"v{v.name}" if len(v.name) == 1 else f"v_{v.name}" for v, *_ in axes]
    iters: list[ir.BlockIter] = []
    variables: dict[Node, Node] = {}
    for (var, low, high, kind), loop, text in zip(axes, loops, iter_names, strict=True):
        mine = ir.Var(names.take(text))
        begin, extent = _Instantiate(known).visit((low, _extent(low, high)))
        iters.append(ir.BlockIter(mine, extent, kind, loop))
        variables[var] = mine if begin == 0 else mine + begin
    for it, text in zip(iters, iter_names, strict=True):
        names.release(it.var.name, text)
    local = _Instantiate({**known, **variables})
    nest: ir.Stmt = ir.Block(name, tuple(iters), None, local.visit(init), local.visit(body))
    for loop, it in reversed(list(zip(loops, iters, strict=True))):
        nest = ir.For(loop, ir.as_expr(it.extent), "serial", nest)
    return nest


def is_symbolic(size: Any) -> bool:
    """Whether a size is an expression of sizes and numbers."""
    if not isinstance(size, ir.Expr) or size.dtype != INDEX:
        return False
    return all(isinstance(part, Size | ir.Const | ir.Binary | ir.Unary) for part in walk(size))


def _extent(low: Extent, high: Extent) -> Extent:
    return high if isinstance(low, int) and low == 0 else high - low
