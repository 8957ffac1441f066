"""Random graphs of operators between pages out of bounds: `python -m tests.fuzz.graphs --count N`.

Shapes are small and odd. What is built for each target, with recipes and without, must compute what
the interpreter does. Data are whole numbers; where results depend on rounding, they are compared up
to it, and nothing that jumps (a comparison, an argmax) is asked of them. Nor is a wave: what was
rounded may be large, and the cosine of 5e8 is 0.64, that of the next float32 0.11.
"""

import argparse
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import minimlc as mlc
from minimlc.graphs.ir.nodes import Call, Expr, TensorType, Tuple, Var
from minimlc.graphs.ops import call_op
from minimlc.loops.values.dtypes import is_float, to_numpy
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import walk
from tests.fuzz.subject import NEAR, native_targets
from tests.guard_pages import between_guards, isolated

DTYPES = ("float32", "float32", "float32", "float64", "int32", "int8", "uint8", "bool")
SIZES = (1, 2, 3, 5, 7, 8, 13, 17, 33)
MOST = 4000
"""Elements that a tensor may have."""

STEPS = 6
TOLD = 0.1
"""The share of graphs with data-dependent sizes."""
JUMPS = ("argmax", "argmin", "floor", "ceil", "round", "equal", "less", "not_equal", "greater")
WAVES = ("sin", "cos")
SMOOTH = ("exp", "tanh", "sigmoid", "gelu", "silu", "erf", *WAVES)
ROUNDS = (*SMOOTH, "softmax", "log_softmax", "layer_norm", "mean", "avg_pool2d", "instance_norm")
Draw = tuple[str, list[Any], dict[str, Any]]


class Graph(NamedTuple):
    """A module with a function "main", and its inputs."""

    mod: IRModule
    inputs: list[np.ndarray]


def random_graph(seed: int) -> Graph:
    """Operators one on the other, with the last two as results; some have data-dependent sizes."""
    tells = random.Random(f"told {seed}").random() < TOLD
    return _Writer(random.Random(f"graph {seed}")).graph(tells)


class _Writer:
    """Adds operators to a graph, each on one of the last values and what fits to it."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.params: list[Var] = []
        self.rounded: set[Expr] = set()

    def graph(self, tells: bool = False) -> Graph:
        builder = mlc.BlockBuilder()
        sizes = [self.rng.choice(SIZES) for _ in range(self.rng.choice((1, 2, 2, 3, 4)))]
        values = [self.param(sizes, self.rng.choice(DTYPES))]
        with builder.function("main"):
            with builder.dataflow():
                while len(values) <= STEPS:
                    call = self.call(self.rng.choice(values[-3:]))
                    if call is not None:
                        values.append(builder.emit(call))
                        nested = any(isinstance(arg, Call) for arg in call.args)
                        if nested or call.op in ROUNDS or self.rounded & {*walk(call)}:
                            self.rounded.add(values[-1])
                told = self.told(values) if tells else []
                out = builder.emit_output(Tuple((*values[-2:], *told)))
            builder.emit_func_output(out, params=self.params)
        rng = np.random.default_rng(self.rng.randrange(2**32))
        return Graph(builder.get(), [_data(param, rng) for param in self.params])

    def told(self, values: Sequence[Expr]) -> list[Expr]:
        """Where a value is not 0, what it is there, and which different ones there are."""
        exact = [v for v in values if v.shape and v not in self.rounded]
        if not exact:
            return []
        places = mlc.op.nonzero(exact[-1], size="k")
        chosen = mlc.op.gather_nd(exact[-1], places)
        if chosen.dtype == "bool":
            return [places, chosen]
        return [places, chosen + chosen, *mlc.op.unique(chosen, size="m").fields]

    def param(self, shape: Sequence[int], dtype: str) -> Var:
        self.params.append(Var(f"x{len(self.params)}", TensorType(tuple(shape), dtype)))
        return self.params[-1]

    def call(self, x: Expr) -> Call | None:
        """An operator on a value; None where it does not take it."""
        kinds = (self.elements, self.elements, self.two, self.along, self.moved, self.parts)
        kinds = (*kinds, self.moved, self.product, self.images, self.attention)
        kinds = (*kinds, *[self.windows] * (4 if len(x.shape) == 4 else 1))
        before = len(self.params)
        try:
            op, args, attrs = self.rng.choice(kinds)(x)
            if op in (*JUMPS, *WAVES, "cast") and x in self.rounded:
                raise mlc.CompileError("it jumps", code="E000")
            call = call_op(op, *args, **attrs)
            if isinstance(call.type, TensorType) and 0 < math.prod(call.type.shape) <= MOST:
                return call
        except mlc.CompileError:
            pass
        del self.params[before:]
        return None

    def other(self, x: Expr) -> Expr:
        """A parameter that is broadcast to x, or of its shape."""
        shape = [self.rng.choice((size, size, 1)) for size in x.shape]
        return self.param(shape[self.rng.randint(0, len(shape)) // 2 :], x.dtype)

    def axis(self, x: Expr) -> int:
        return self.rng.randrange(-len(x.shape), len(x.shape)) if x.shape else 0

    def elements(self, x: Expr) -> Draw:
        op = self.rng.choice(("relu", "negative", "abs", "clip", "cast", "floor", *SMOOTH))
        attrs: dict[str, Any] = {"clip": {"min": 0, "max": 2}}.get(op, {})
        if op == "cast":
            wide = ("float32", "float64") if is_float(x.dtype) else ("float32", "int32", "int64")
            attrs = {"dtype": self.rng.choice(wide)}
        return ("logical_not" if x.dtype == "bool" and op != "cast" else op), [x], attrs

    def two(self, x: Expr) -> Draw:
        if x.dtype == "bool":
            return self.rng.choice(("logical_and", "logical_or")), [x, self.other(x)], {}
        names = ("add", "subtract", "multiply", "maximum", "minimum", "less", "equal", "where")
        op = self.rng.choice(names)
        args = [x, self.other(x)] if self.rng.random() < 0.6 else [self.other(x), x]
        if op == "where":
            return op, [self.param(x.shape, "bool"), *args], {}
        return op, args, {}

    def along(self, x: Expr) -> Draw:
        names = ("sum", "max", "min", "mean", "argmax", "softmax", "log_softmax", "layer_norm")
        op = self.rng.choice(names)
        if op == "layer_norm":
            return op, [x, *(self.param(x.shape[-1:], x.dtype) for _ in range(2))], {}
        keeps = {"keepdims": self.rng.random() < 0.5} if "softmax" not in op else {}
        return op, [x], {"axis": self.axis(x), **keeps}

    def moved(self, x: Expr) -> Draw:
        order = self.rng.sample(range(len(x.shape)), len(x.shape))
        size = math.prod(x.shape)
        by = self.rng.choice([n for n in range(1, size + 1) if size % n == 0])
        draws: list[Draw] = [
            ("permute_dims", [x], {"axes": tuple(order)}),
            ("reshape", [x], {"shape": (by, size // by)}),
            ("reshape", [x], {"shape": (size // by, 1, by)}),
            ("flatten", [x], {}),
            ("expand_dims", [x], {"axis": self.rng.randint(0, len(x.shape))}),
            ("squeeze", [x], {}),
            ("broadcast_to", [x], {"shape": (self.rng.choice((2, 3)), *x.shape)}),
        ]
        return self.rng.choice(draws)

    def parts(self, x: Expr) -> Draw:
        axis = self.axis(x)
        size = x.shape[axis] if x.shape else 1
        shape = list(x.shape)
        if shape:
            shape[axis] = self.rng.choice(SIZES)
        sides = tuple((self.rng.randint(0, 3), self.rng.randint(0, 3)) for _ in x.shape)
        begin = self.rng.randrange(size)
        some = {"begin": begin, "end": self.rng.randint(begin, size), "axes": axis}
        draws: list[Draw] = [
            ("concat", [(x, self.param(shape, x.dtype))], {"axis": axis}),
            ("concat", [(self.param(shape, x.dtype), x, x)], {"axis": axis}),
            ("pad", [x], {"pad_width": sides}),
            ("strided_slice", [x], {**some, "strides": self.rng.choice((1, 2, 3))}),
            ("strided_slice", [x], {"begin": -1, "end": -size - 1, "axes": axis, "strides": -1}),
        ]
        return self.rng.choice(draws)

    def product(self, x: Expr) -> Draw:
        size, width = x.shape[-1] if x.shape else 1, self.rng.choice(SIZES)
        if self.rng.random() < 0.5:
            return "matmul", [x, self.param((size, width), x.dtype)], {}
        return "dense", [x, self.param((width, size), x.dtype)], {}

    def windows(self, x: Expr) -> Draw:
        """Of an image in any layout."""
        if len(x.shape) < 4:
            raise mlc.CompileError("no image", code="E000")
        layout, out = self.layout("NCHW"), self.rng.choice(("", self.layout("NCHW")))
        kernel, step = self.rng.choice((1, 2, 3)), self.rng.choice((1, 2))
        attrs = {"strides": step, "padding": self.rng.choice((0, kernel // 2)), "out_layout": out}
        if self.rng.random() < 0.5:
            name = self.rng.choice(("max_pool2d", "avg_pool2d"))
            return name, [x], {"pool_size": kernel, "layout": layout, **attrs}
        usual, weights = "HWIO" if layout == "NHWC" else "OIHW", self.layout("OIHW")
        sizes = {"O": self.rng.choice((1, 3, 8)), "I": x.shape[layout.index("C")]}
        shape = [sizes.get(axis, kernel) for axis in weights]
        layouts = {"data_layout": layout, "kernel_layout": "" if weights == usual else weights}
        return "conv2d", [x, self.param(shape, x.dtype)], {**layouts, **attrs}

    def layout(self, axes: str) -> str:
        if self.rng.random() < 0.5:
            return axes
        known = {"NCHW": "NHWC", "OIHW": "HWIO"}[axes]
        return self.rng.choice((known, "".join(self.rng.sample(axes, 4))))

    def images(self, x: Expr) -> Draw:
        """Channels, along any axis, and reductions over several."""
        axis = self.axis(x)
        vectors = [self.param((x.shape[axis] if x.shape else 1,), x.dtype) for _ in range(2)]
        over = tuple(self.rng.sample(range(len(x.shape)), min(len(x.shape), 2)))
        draws: list[Draw] = [
            ("bias_add", [x, vectors[0]], {"axis": axis}),
            ("prelu", [x, vectors[0]], {"axis": axis}),
            ("instance_norm", [x, *vectors], {"channel_axis": axis}),
            (self.rng.choice(("sum", "max", "mean")), [x], {"axis": over, "keepdims": axis < 0}),
        ]
        return self.rng.choice(draws)

    def attention(self, x: Expr) -> Draw:
        """Written out: a product, maybe a scale and a mask, a softmax, a product."""
        if len(x.shape) < 2 or x.dtype not in ("float32", "float64"):
            raise mlc.CompileError("no rows", code="E000")
        *batch, rows, size = x.shape
        keys = self.rng.choice(SIZES)
        first = range(len(batch))
        turned = call_op(
            "permute_dims",
            self.param((*batch, keys, size), x.dtype),
            axes=(*first, len(batch) + 1, len(batch)),
        )
        scores = call_op("matmul", x, turned)
        if self.rng.random() < 0.5:
            scores = call_op(self.rng.choice(("multiply", "divide")), scores, 2.5)
        if self.rng.random() < 0.3:
            scores = call_op("add", scores, self.param((rows, keys), x.dtype))
        elif self.rng.random() < 0.3:
            scores = call_op("where", self.param((rows, keys), "bool"), scores, -9.0)
        weights = call_op("softmax", scores)
        return "matmul", [weights, self.param((*batch, keys, size), x.dtype)], {}


def _data(param: Var, rng: np.random.Generator) -> np.ndarray:
    low, high = {"b": (0, 2), "u": (0, 4)}.get(param.dtype[0], (-3, 4))
    shape = [int(size) for size in param.shape]  # of a size, by the sample that is drawn with
    return np.asarray(rng.integers(low, high, shape)).astype(to_numpy(param.dtype))


def failures(graphs: Sequence[Graph], target: str, recipes: bool = True) -> list[str]:
    """Why each graph as built for a target is wrong, all at once; '' if it is right."""
    functions = {f"g{n}": graph.mod["main"] for n, graph in enumerate(graphs)}
    try:
        lib = mlc.build(IRModule.of(functions), target=target, cache=False, recipes=recipes)
    except Exception as error:
        if len(graphs) == 1:
            return [f"{type(error).__name__}: {error}"]
        half = len(graphs) // 2
        return failures(graphs[:half], target, recipes) + failures(graphs[half:], target, recipes)
    calls = [(lib[f"g{n}"], graph) for n, graph in enumerate(graphs)]
    if not isolated(lambda: [_check(*call) for call in calls]):
        return [""] * len(graphs)
    return [isolated(lambda call=call: _check(*call)) for call in calls]  # type: ignore[misc]


def _check(function: Callable[..., Any], graph: Graph) -> None:
    expected, script = mlc.interpret(graph.mod, "main", *graph.inputs), graph.mod.script()
    for at_end in (True, False):
        arrays = [between_guards(a, a.dtype.name, at_end) for a in graph.inputs]
        for number, (got, wanted) in enumerate(zip(function(*arrays), expected, strict=True)):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            near = NEAR.get(got.dtype.name, 0)
            if got.dtype == "float64" and "R.cast(" in script:  # of what narrower ones rounded
                near = max(bound for dtype, bound in NEAR.items() if f'"{dtype}"' in script)
            with np.errstate(all="ignore"):
                scale = np.nanmax(np.abs(np.where(np.isfinite(wanted), wanted, 0)), initial=1)
            try:
                np.testing.assert_allclose(got, wanted, rtol=near, atol=near * float(scale))
            except AssertionError:
                if near == 0 or not _is_unsure(graph, number, got, near * (scale + np.abs(wanted))):
                    raise


def _is_unsure(graph: Graph, number: int, got: np.ndarray, near: np.ndarray) -> bool:
    """Whether a result is wrong only where the interpreter's is, by float64: the softmax of
    sums whose largest differ by less than they are rounded by is one or the other.
    """
    exact = mlc.parse(graph.mod.script(constants="inline").replace("float32", "float64"))
    inputs = [a.astype("float64") if a.dtype == "float32" else a for a in graph.inputs]
    with np.errstate(all="ignore"):
        wanted = mlc.interpret(graph.mod, "main", *graph.inputs)[number].astype("float64")
        off = np.abs(mlc.interpret(exact, "main", *inputs)[number].astype("float64") - wanted)
        wrong = np.abs(got.astype("float64") - wanted) > near
        return bool(np.all(off[wrong] > 10 * near[wrong]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.graphs")
    parser.add_argument("--count", type=int, default=100, help="graphs in all (100)")
    parser.add_argument("--seed", type=int, default=0, help="the first graph's number (0)")
    options = parser.parse_args()
    bad = 0
    for start in range(options.seed, options.seed + options.count, 10):
        numbers = range(start, min(start + 10, options.seed + options.count))
        graphs = [random_graph(number) for number in numbers]
        for target in native_targets():
            for recipes in (True, False):
                whys = failures(graphs, target, recipes)
                for number, graph, why in zip(numbers, graphs, whys, strict=True):
                    if why:
                        bad += 1
                        print(f"graph {number}, {target}, recipes={recipes}: {why}")
                        print(graph.mod.script(), flush=True)
    print(f"{options.count} graphs by {', '.join(native_targets())}: {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
