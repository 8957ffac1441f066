"""Random functions of one to three sizes: `python -m tests.fuzz.sizes --count N --seed S`.

Each is written twice, step by step: as a graph of symbolic sizes, and as numpy of the arrays of a
call. It is called with sizes from 0 to 2000: the interpreter, the interpreter after a graph pass,
LLVM, and a library of the same function with its sizes bound to numbers must all compute what numpy
does, or all refuse the sizes.
"""

import argparse
import random
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import minimlc as mlc
from minimlc import op, passes
from minimlc.graphs.ir.nodes import Expr, TensorType, Var, constant
from minimlc.script import R
from minimlc.services.sizes.sizes import size_of

Sizes = Mapping[str, int]
MOST = 2_000_000
"""Elements of an array, at the most: calls with more are not made."""
EDGES = (0, 1, 2, 3, 5, 8, 31, 64, 100, 257, 300, 500, 512, 1000, 1024, 1999, 2000)


class Undefined(Exception):
    """The numpy program has no meaning for the sizes."""


class TooLarge(Exception):
    """An array of the numpy program has too many elements."""


class Value(NamedTuple):
    """A vector of the graph, and what it is in numpy for the sizes and arrays of a call."""

    graph: Expr
    array: Callable[["Call"], np.ndarray]


class Call:
    """The sizes and arguments of one call of the numpy program, and its values so far."""

    def __init__(self, sizes: Sizes, arguments: Mapping[str, np.ndarray]):
        self.sizes, self.arguments = sizes, arguments
        self.known: dict[int, np.ndarray] = {}

    def of(self, value: Value) -> np.ndarray:
        key = id(value.graph)
        if key not in self.known:
            with np.errstate(all="ignore"):
                self.known[key] = np.asarray(value.array(self), "float32")
        if self.known[key].size > MOST:
            raise TooLarge
        return self.known[key]

    def number(self, text: str) -> int:
        return eval(text, {"min": min, "max": max}, dict(self.sizes))


def needs(holds: bool) -> None:
    if not holds:
        raise Undefined


def vector(x: np.ndarray) -> np.ndarray:
    needs(x.ndim == 1)
    if x.size > MOST:
        raise TooLarge
    return x


class Writer:
    """Draws the steps of one function."""

    def __init__(self, seed: int):
        self.rng, self.seed = random.Random(f"sizes {seed}"), seed
        self.bb = mlc.BlockBuilder()
        self.names = self.rng.sample(["n", "m", "k"], self.rng.choice([1, 1, 2, 2, 3]))
        self.bounds = {n: self.rng.choice([(), (), (), (0, 512), (1, 2000)]) for n in self.names}
        self.values: list[Value] = []
        self.text: list[str] = []

    def function(self) -> mlc.IRModule:
        shapes = {n: (n, *self.bounds[n]) if self.bounds[n] else n for n in self.names}
        params = [Var(f"x{n}", TensorType((shapes[n],), "float32")) for n in self.names]
        with self.bb.function("main", params):
            self.values = [Value(p, lambda call, p=p: call.arguments[p.name]) for p in params]
            wanted = self.rng.randint(2, 4)
            while wanted:
                wanted -= self.step()
            self.result = self.values[-1]
            self.bb.emit_func_output(self.result.graph)
        return mlc.verify(passes.remove_unused(self.bb.get()))

    def step(self) -> bool:
        """One more value, or none where the compiler refuses what was drawn."""
        name = self.rng.choice([*STEPS])
        try:
            graph, array = STEPS[name](self, self.rng, self.rng.choice(self.values))
            value = Value(self.bb.emit(graph), array)
        except mlc.CompileError as error:
            assert error.code, f"{name}: {error}"
            REFUSED[name] += 1
            return False
        self.text.append(name)
        self.values.append(value)
        return True

    def size(self, most: int = 2) -> str:
        """The text of a size."""
        n, c = self.rng.choice(self.names), self.rng.choice([1, 2, 3, 7, 64, 200, 500])
        forms = [n, n, f"{n} + {c}", f"{n} * {min(c, 3)}", f"{n} // {c}", f"{n} % {c} + 1"]
        forms += [f"min({n}, {c})", f"max({n}, {c})", f"({n} + 1) // 2", f"max({n} - {c}, 0)"]
        forms += [f"min({self.rng.choice(self.names)}, {n})", f"{n} - {c}"]
        return self.rng.choice(forms)


STEPS: dict[str, Callable[[Writer, random.Random, Value], tuple[Any, Callable]]] = {}
REFUSED: Counter = Counter()


def step(function: Callable) -> Callable:
    STEPS[function.__name__] = function
    return function


@step
def arithmetic(writer, rng, x):
    text = writer.size()
    size: Any = size_of(text)
    forms = {
        "x * {}": lambda x, s: x * s,
        "{} * x": lambda x, s: s * x,
        "x + {}": lambda x, s: x + s,
        "{} - x": lambda x, s: s - x,
        "x / ({} + 1)": lambda x, s: x / (s * s + 1),
        "1 / ({} + x * x)": lambda x, s: s / (x * x + 1),
        "maximum": lambda x, s: op.maximum(x, s) if isinstance(x, Expr) else np.maximum(x, s),
    }
    form = forms[rng.choice([*forms])]
    return form(x.graph, size), lambda call: form(call.of(x), np.float32(call.number(text)))


@step
def filled(writer, rng, x):
    text = writer.size()
    graph = op.multiply(x.graph, op.full(shape=(), value=size_of(text)))
    return graph, lambda call: call.of(x) * call.number(text)


@step
def cut(writer, rng, x):
    def end() -> tuple[Any, str]:
        if rng.random() < 0.3:
            text = writer.size()
            return size_of(text), text
        number = rng.choice([0, 1, 2, 100, 200, 256, 500, -1, -3, -200, -500])
        return number, str(number)

    (begin, first), (stop, last) = end(), end()
    if rng.random() < 0.4:
        stop, last = 2**31 - 1, "2**31"
    stride = rng.choice([1, 1, 2, 3])
    graph = op.strided_slice(x.graph, begin=begin, end=stop, strides=stride, axes=0)
    return graph, lambda call: vector(call.of(x))[call.number(first) : call.number(last) : stride]


def _windows(x: np.ndarray, kernel: int, stride: int, apart: int, padding: int, fill: float):
    around = np.pad(vector(x), padding, constant_values=fill)
    reach = (kernel - 1) * apart + 1
    needs(len(around) >= reach)
    if len(around) * kernel > 20 * MOST:
        raise TooLarge
    windows = np.lib.stride_tricks.sliding_window_view(around, reach)
    return windows[::stride, ::apart]


def _image(x: Expr) -> Expr:
    return op.reshape(x, shape=(1, 1, x.shape[0]))


def _row(x: Expr) -> Expr:
    return op.reshape(x, shape=(-1,))


@step
def convolution(writer, rng, x):
    kernel, stride = rng.choice([1, 3, 25, 150, 256, 500]), rng.choice([1, 2, 128])
    apart, padding = rng.choice([1, 1, 2]), rng.choice([0, 0, 1, 100])
    weight = np.asarray([(i % 5) - 2 for i in range(kernel)], "float32")
    options = {"strides": stride, "padding": padding, "dilation": apart}
    graph = op.conv1d(_image(x.graph), constant(weight.reshape(1, 1, -1)), **options)
    return _row(
        graph
    ), lambda call: _windows(call.of(x), kernel, stride, apart, padding, 0) @ weight


@step
def pool(writer, rng, x):
    kernel, stride = rng.choice([2, 5, 150, 256, 500]), rng.choice([1, 3, 100])
    padding = rng.choice([0, 0, 1])
    most = rng.random() < 0.5
    call_of = op.max_pool1d if most else op.avg_pool1d
    options = {"pool_size": kernel, "strides": stride, "padding": padding}
    if not most:
        options["count_include_pad"] = True
    graph = call_of(_image(x.graph), **options)

    def array(call):
        fill = -np.inf if most else 0
        windows = _windows(call.of(x), kernel, stride, 1, padding, fill)
        return windows.max(1) if most else windows.mean(1)

    return _row(graph), array


@step
def topk(writer, rng, x):
    text = rng.choice([writer.size(), "1", "5", "200", "500"])

    def array(call):
        k = call.number(text)
        needs(0 <= k <= len(vector(call.of(x))))
        return np.sort(call.of(x))[::-1][:k]

    return op.topk(x.graph, k=size_of(text))[0], array


@step
def table(writer, rng, x):
    rows, text = rng.choice([8, 64, 300, 2048]), writer.size()
    data = np.arange(rows, dtype="float32")
    part = op.strided_slice(constant(data), begin=0, end=size_of(text), axes=0)

    def array(call):
        return _added(call.of(x), data[: call.number(text)])

    return op.add(x.graph, part), array


def _added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    try:
        return a + b
    except ValueError:
        raise Undefined from None


@step
def positions(writer, rng, x):
    rows = rng.choice([64, 300, 4096])
    data = np.arange(rows, dtype="float32") % 7
    text = f"min({rng.choice(writer.names)}, {rows})"
    where = op.arange(start=0, stop=size_of(text))
    return op.take(constant(data), where, axis=0), lambda call: data[: call.number(text)]


@step
def joined(writer, rng, x):
    y = rng.choice(writer.values)
    graph = op.concat((x.graph, y.graph), axis=0)
    return graph, lambda call: np.concatenate((vector(call.of(x)), vector(call.of(y))))


@step
def padded(writer, rng, x):
    before, after = (rng.choice([0, 1, 30, 200, 500]) for _ in range(2))
    mode = rng.choice(["constant", "reflect", "edge", "wrap"])
    graph = op.pad(x.graph, pad_width=((before, after),), mode=mode)

    def array(call):
        array, most = vector(call.of(x)), max(before, after)
        needs(mode != "reflect" or most <= len(array) - 1)
        needs(len(array) > 0 or most == 0 or mode == "constant")
        return np.pad(array, (before, after), mode)

    return graph, array


@step
def repeated(writer, rng, x):
    text = rng.choice([writer.size(), "2", "3"])
    name = rng.choice(["repeat", "tile"])
    if name == "repeat":
        graph = op.repeat(x.graph, repeats=size_of(text), axis=0)
    else:
        graph = op.tile(x.graph, repeats=(size_of(text),))

    def array(call):
        count = call.number(text)
        needs(count >= 0)
        if count * len(call.of(x)) > MOST:
            raise TooLarge
        return getattr(np, name)(vector(call.of(x)), count)

    return graph, array


@step
def pieces(writer, rng, x):
    if rng.random() < 0.5:
        count = rng.choice([2, 3, 4])
        which = rng.randrange(count)
        graph = op.split(x.graph, indices_or_sections=count)[which]

        def array(call):
            needs(len(vector(call.of(x))) % count == 0)
            return np.split(call.of(x), count)[which]

        return graph, array
    text, which = rng.choice([writer.size(), "1", "200", "500"]), rng.randrange(2)
    graph = op.split(x.graph, indices_or_sections=(size_of(text),))[which]

    def cut_array(call):
        needs(0 <= call.number(text) <= len(vector(call.of(x))))
        return np.split(call.of(x), [call.number(text)])[which]

    return graph, cut_array


@step
def rows(writer, rng, x):
    width, axis = rng.choice([2, 4, 10, 250]), rng.choice([0, 1])
    graph = op.sum(op.reshape(x.graph, shape=(-1, width)), axis=axis)

    def array(call):
        needs(len(vector(call.of(x))) % width == 0)
        return call.of(x).reshape(-1, width).sum(axis)

    return graph, array


@step
def masked(writer, rng, x):
    y, k, axis = rng.choice(writer.values), rng.choice([-200, -1, 0, 3, 256]), rng.choice([0, 1])
    name = rng.choice(["tril", "triu", "causal"])
    left, right = op.expand_dims(x.graph, axis=1), op.expand_dims(y.graph, axis=0)
    outer = op.multiply(left, right)
    if name == "causal":
        queries = op.expand_dims(op.arange(start=0, stop=x.graph.shape[0]), axis=1)
        keys = op.expand_dims(op.arange(start=0, stop=y.graph.shape[0]), axis=0)
        chosen = op.where(op.less_equal(keys, op.add(queries, k)), outer, op.zeros_like(outer))
    else:
        chosen = getattr(op, name)(outer, k=k)

    def array(call):
        a, b = vector(call.of(x)), vector(call.of(y))
        if a.size * b.size > MOST:
            raise TooLarge
        return (np.triu if name == "triu" else np.tril)(np.outer(a, b), k).sum(axis)

    return op.sum(chosen, axis=axis), array


@step
def scanned(writer, rng, x):
    name = rng.choice(["cumsum", "flip", "roll", "roll", "relu"])
    text = rng.choice([writer.size(), "1", "200", "-3"])
    if name == "roll":
        graph = op.roll(x.graph, shift=size_of(text), axis=0)
        return graph, lambda call: np.roll(vector(call.of(x)), call.number(text))
    if name == "relu":
        return op.nn.relu(x.graph), lambda call: np.maximum(call.of(x), 0)
    options = {"axis": 0}
    return getattr(op, name)(x.graph, **options), lambda call: getattr(np, name)(
        vector(call.of(x)), **options
    )


@step
def reduced(writer, rng, x):
    name = rng.choice(["mean", "sum", "max", "variance"])
    graph = op.subtract(x.graph, getattr(op, name)(x.graph, axis=0))

    def array(call):
        needs(name != "max" or len(call.of(x)) > 0)
        return call.of(x) - getattr(np, {"variance": "var"}.get(name, name))(call.of(x))

    return graph, array


@step
def together(writer, rng, x):
    y = rng.choice(writer.values)
    return op.add(x.graph, y.graph), lambda call: _added(call.of(x), call.of(y))


@step
def matched(writer, rng, x):
    y, text = rng.choice(writer.values), writer.size()
    if rng.random() < 0.5:
        graph = op.multiply(x.graph, writer.bb.match_cast(y.graph, x.graph.type))

        def array(call):
            needs(call.of(x).shape == call.of(y).shape)
            return call.of(x) * call.of(y)

        return graph, array

    def same(call):
        needs(len(call.of(y)) == call.number(text))
        return call.of(y)

    return op.match_cast(y.graph, (size_of(text),)), same


@step
def looped(writer, rng, x):
    """As often as a size is, at most 9 times."""
    text, number = f"min({writer.size()}, 9)", len(writer.text)
    size = x.graph.shape
    i, state = Var("i", TensorType((), "int64")), Var("state", TensorType(("q",), "float32"))
    until, j = Var("until", TensorType((), "int64")), Var("j", TensorType((), "int64"))
    u, v = Var("u", TensorType((), "int64")), Var("v", TensorType((), "int64"))
    s = Var("s", TensorType(("q",), "float32"))
    with writer.bb.function(f"less{number}", [i, state, until]):
        writer.bb.emit_func_output(writer.bb.emit(op.less(i, until)))
    with writer.bb.function(f"more{number}", [j, s, u]):
        half = writer.bb.emit(s * 0.5 + s.shape[0])
        writer.bb.emit_func_output((writer.bb.emit(op.add(j, 1)), half))
    stop = op.full(shape=(), value=size_of(text), dtype="int64")
    stop, v = writer.bb.emit(stop), constant(0, "int64")
    state = (v, x.graph)
    loop = R.while_loop(f"less{number}", f"more{number}", state, (stop,))

    def array(call):
        result = vector(call.of(x))
        for _ in range(call.number(text)):
            result = result * np.float32(0.5) + np.float32(len(result))
        return result

    assert len(size) == 1
    return writer.bb.emit(loop)[1], array


class Tally(NamedTuple):
    """Calls that computed what numpy does, and calls that were refused, with numpy or alone."""

    right: int = 0
    undefined: int = 0
    refused: int = 0


def draw_sizes(writer: Writer, rng: random.Random) -> Sizes:
    sizes = {name: rng.choice([*EDGES, rng.randint(0, 2000)]) for name in sorted(writer.names)}
    first = min(sizes)
    if rng.random() < 0.5:  # often equal, or in a simple relation
        sizes = {name: sizes[first] * rng.choice([1, 1, 1, 2]) for name in sizes}
    spans = {name: bounds or (0, 2000) for name, bounds in writer.bounds.items()}
    return {name: min(max(size, spans[name][0]), spans[name][1]) for name, size in sizes.items()}


def calls(writer: Writer, count: int) -> list[tuple[Call, np.ndarray | None]]:
    """Calls, with the result; None where numpy has none."""
    rng = random.Random(f"calls {writer.seed}")
    known: dict[tuple, tuple[Call, np.ndarray | None]] = {}
    for _ in range(5 * count):
        sizes = draw_sizes(writer, rng)
        numbers = np.random.default_rng([writer.seed, *sizes.values()])
        arguments = {
            f"x{n}": numbers.integers(-3, 4, sizes[n]).astype("float32") for n in writer.names
        }
        call = Call(sizes, arguments)
        try:
            known[tuple(sizes.items())] = call, call.of(writer.result)
        except Undefined:
            known[tuple(sizes.items())] = call, None
        except TooLarge:
            continue
        if len(known) == count:
            break
    return [*known.values()]


def check(seed: int, count: int = 12, native: int = 12) -> Tally:
    """Function number `seed`, called `count` times, `native` of them compiled."""
    writer = Writer(seed)
    mod = writer.function()
    assert mlc.structural_equal(mlc.parse(mod.script(constants="inline")), mod), mod.script()
    main = mlc.build(mod, recipes=False)["main"]
    step = random.Random(f"pass {seed}").choice([*passes.default_pipeline, passes.inline])
    after = mlc.verify(step(mod))
    right = undefined = refused = 0
    for number, (call, expected) in enumerate(calls(writer, count)):
        arguments = [call.arguments[f"x{n}"] for n in writer.names]
        runs = [partial(mlc.interpret, mod, "main")]
        runs += [main, partial(_static, mod, call)] if number < native else []
        results = [_tried(run, arguments) for run in runs]
        errors = [result for result in results if isinstance(result, mlc.CompileError)]
        where = f"{seed} {writer.text} {call.sizes}"
        passed = _tried(partial(mlc.interpret, after, "main"), arguments)
        if not isinstance(passed, mlc.CompileError):  # it may leave out what has no meaning
            results.append(passed)
        assert not errors or len(errors) == len(runs), f"{where}: {results}"
        if errors:
            assert all(_names_sizes(error, call.sizes) for error in errors), f"{where}: {errors}"
            undefined, refused = undefined + (expected is None), refused + (expected is not None)
        else:
            assert len(results) > len(runs), f"{where}: after {step}: {passed}"
            assert expected is not None, f"{where}: {results[0]} has no meaning in numpy"
            right += 1
        for result in results[len(errors) :]:
            assert expected is not None, f"{where}: {results[-1]} has no meaning in numpy"
            _compare(result, expected, where)
    return Tally(right, undefined, refused)


def _names_sizes(error: mlc.CompileError, sizes: Sizes) -> bool:
    texts = [f"{name} = {value}" for name, value in sizes.items()]
    texts += [f"{name} is {value}" for name, value in sizes.items()]
    return error.code in ("E136", "E604") and any(text in str(error) for text in texts)


def _static(mod: mlc.IRModule, call: Call, *arguments: np.ndarray) -> Any:
    fixed = mlc.specialize(mod, "main", **call.sizes)
    return mlc.build(fixed, recipes=False)["main"](*arguments)


def _tried(run: Callable[..., Any], arguments: list[np.ndarray]) -> Any:
    try:
        return run(*arguments)
    except mlc.CompileError as error:
        return error


def _compare(result: np.ndarray, expected: np.ndarray, where: str) -> None:
    assert result.shape == expected.shape, f"{where}: {result.shape}, not {expected.shape}"
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1))
    np.testing.assert_allclose(result, expected, 1e-3, 1e-4 * scale, err_msg=where)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.sizes")
    parser.add_argument("--count", type=int, default=300, help="functions (300)")
    parser.add_argument("--seed", type=int, default=0, help="number of the first one")
    parser.add_argument("--calls", type=int, default=12, help="calls of each (12)")
    parser.add_argument("--native", type=int, default=12, help="those that are compiled (12)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of many sizes, of means of nothing
    total, wrong = Counter(), 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            total.update(check(seed, options.calls, options.native)._asdict())
        except Exception as error:
            wrong += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:400]}", flush=True)
    print(f"{options.count} functions: {dict(total)}; {wrong} wrong; refused steps {REFUSED}")
    return wrong > 0


if __name__ == "__main__":
    raise SystemExit(main())
