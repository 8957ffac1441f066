"""The operators that whole models are written with, of minimlc and of each peer.

All kits have the same functions: linear, add, relu, gelu, layer_norm, attention of (batch, rows,
heads, size), reshape, split, concat; conv, norm, pool and average of images; lstm. A kit without
one of them doesn't take part in the models that use it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks.installed import module
from benchmarks.networks import Model
from benchmarks.samples import onnx_bytes
from minimlc.script import R


class Weights:
    """Random weights from one seed, in the order in which a model asks for them."""

    def __init__(self, use: Callable[[np.ndarray], Any]):
        """`use` makes a kit's value of each."""
        self.arrays: list[np.ndarray] = []
        self._use = use
        self._random = np.random.default_rng(0)

    def __call__(self, *shape: int, around: float = 0.0) -> Any:
        """The next one: a matrix or filters that keep the size of their operand,
        or small numbers around `around` for each channel.
        """
        inputs = int(np.prod(shape[1:])) if len(shape) > 1 else 100
        drawn = self._random.standard_normal(shape, np.float32) / np.float32(inputs) ** 0.5
        self.arrays.append(drawn + np.float32(around))
        return self._use(self.arrays[-1])


def inputs_of(model: Model) -> list[np.ndarray]:
    """Random inputs."""
    random = np.random.default_rng(1)
    return [random.standard_normal(shape, np.float32) for shape in model.inputs]


def is_numpy(model: Model) -> bool:
    """Whether numpy's kit has all operators of a model."""
    try:
        model.network(Numpy, Weights(lambda array: array), *inputs_of(model))
    except AttributeError:
        return False
    return True


def replayed(model: Model, kit: Any) -> Callable[..., Any]:
    """The model as a function of its inputs, then its weights."""

    def function(*arrays: Any) -> Any:
        count = len(model.inputs)
        weights: Iterator[Any] = iter(arrays[count:])
        return model.network(kit, lambda *_, **__: next(weights), *arrays[:count])

    return function


def ours(model: Model, dtype: str = "float32", **options: Any) -> tuple[mlc.IRModule, Weights]:
    """The model as a graph function of minimlc's operators, its weights as constants."""
    bb = mlc.BlockBuilder()
    kit = Ours(bb, **options)
    weights = Weights(lambda array: mlc.constant(array.astype(dtype)))
    inputs = [mlc.Var(f"x{at}", R.Tensor(s, dtype)) for at, s in enumerate(model.inputs)]
    with bb.function("main", inputs):
        with bb.dataflow():
            result = bb.emit_output(model.network(kit, weights, *inputs))
        bb.emit_func_output(result)
    return bb.get(), weights


class Ours:
    """minimlc's operators, each bound where it is called. With `changed`, the first activation is
    another one.
    """

    def __init__(self, bb: mlc.BlockBuilder, changed: bool = False):
        self._bb, self._changed = bb, changed

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **attrs: self._bb.emit(getattr(mlc.op, name)(*args, **attrs))

    def _once(self, name: str, x: Any) -> Any:
        name, self._changed = ("tanh" if self._changed else name), False
        return self._bb.emit(getattr(mlc.op, name)(x))

    def relu(self, x: Any) -> Any:
        return self._once("relu", x)

    def gelu(self, x: Any) -> Any:
        return self._once("gelu", x)

    def split(self, x: Any, count: int, axis: int) -> list[Any]:
        parts: Any = self._bb.emit(mlc.op.split(x, indices_or_sections=count, axis=axis))
        return [self._bb.emit(parts[at]) for at in range(count)]

    def concat(self, parts: Sequence[Any], axis: int) -> Any:
        return self._bb.emit(mlc.op.concat(tuple(parts), axis=axis))

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int = 1) -> Any:
        return self.conv2d(x, w, strides=stride, padding=padding, groups=groups)

    def norm(self, x: Any, *parameters: Any) -> Any:
        return self.batch_norm(x, *parameters)

    def pool(self, x: Any) -> Any:
        return self.max_pool2d(x, pool_size=3, strides=2, padding=1)

    def average(self, x: Any) -> Any:
        return self.mean(x, axis=(2, 3))

    def lstm(self, x: Any, w: Any, recurrent: Any, bias: Any) -> Any:
        """Written out: the products with all inputs at once, then the steps, which are alike."""
        steps, batch, inputs = x.type.shape
        hidden = recurrent.type.shape[1]
        x = self.reshape(x, (steps * batch, inputs))
        h = c = mlc.constant(np.zeros((batch, hidden), x.type.dtype))
        results = []
        for part in self.split(self.linear(x, w, bias), steps, 0):
            gates = self.add(part, self.linear(h, recurrent))
            i, f, g, o = self.split(gates, 4, 1)
            new = self.multiply(self.sigmoid(i), self._once("tanh", g))
            c = self.add(self.multiply(self.sigmoid(f), c), new)
            h = self.multiply(self.sigmoid(o), self.tanh(c))
            results.append(h)
        return self.reshape(self.concat(results, 0), (steps, batch, hidden))


class Numpy:
    """Operators as numpy users write them out; no convolutions."""

    add = staticmethod(np.add)

    @staticmethod
    def linear(x: Any, w: Any, b: Any) -> Any:
        return x @ w.T + b

    @staticmethod
    def relu(x: Any) -> Any:
        return np.maximum(x, 0)


class Torch:
    """torch's functions."""

    def __init__(self) -> None:
        library = module("torch")
        functions = library.nn.functional
        self.linear, self.add = functions.linear, library.add
        self.relu, self.gelu = functions.relu, functions.gelu
        self.reshape, self.concat = library.reshape, library.cat
        self.split = library.chunk
        self.layer_norm = lambda x, g, b: functions.layer_norm(x, g.shape, g, b)
        self.norm = lambda x, g, b, mean, var: functions.batch_norm(x, mean, var, g, b)
        self.pool = lambda x: functions.max_pool2d(x, 3, 2, 1)
        self.average = lambda x: x.mean((2, 3))
        self._library, self._functions = library, functions

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int = 1) -> Any:
        return self._functions.conv2d(x, w, None, stride, padding, 1, groups)

    def attention(self, *parts: Any) -> Any:
        turned = (part.transpose(1, 2) for part in parts)
        return self._functions.scaled_dot_product_attention(*turned).transpose(1, 2)

    def lstm(self, x: Any, w: Any, recurrent: Any, bias: Any) -> Any:
        zeros = x.new_zeros((1, x.shape[1], recurrent.shape[1]))
        weights = (w, recurrent, bias, self._library.zeros_like(bias))
        state = (zeros, zeros)
        return self._library.lstm(x, state, weights, True, 1, 0.0, False, False, False)[0]


class Jax:
    """Functions of jax.numpy, jax.lax and jax.nn."""

    def __init__(self) -> None:
        library = module("jax")
        self._jax, self._numpy = library, library.numpy
        self.add, self.reshape = library.numpy.add, library.numpy.reshape
        self.concat, self.split = library.numpy.concatenate, library.numpy.split
        self.relu, self.attention = library.nn.relu, library.nn.dot_product_attention
        self.gelu = lambda x: library.nn.gelu(x, approximate=False)
        self.linear = lambda x, w, b: x @ w.T + b
        self.average = lambda x: x.mean((2, 3))

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return self._jax.nn.standardize(x, axis=-1, epsilon=1e-5) * gamma + beta

    def norm(self, x: Any, *parameters: Any) -> Any:
        gamma, beta, mean, variance = (p[:, None, None] for p in parameters)
        return (x - mean) * (gamma / self._numpy.sqrt(variance + 1e-5)) + beta

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int = 1) -> Any:
        around, steps = ((padding, padding),) * 2, (stride, stride)
        by = self._jax.lax.conv_general_dilated
        return by(x, w, steps, around, feature_group_count=groups)

    def pool(self, x: Any) -> Any:
        around = ((0, 0), (0, 0), (1, 1), (1, 1))
        lax = self._jax.lax
        return lax.reduce_window(x, -np.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), around)

    def lstm(self, x: Any, w: Any, recurrent: Any, bias: Any) -> Any:
        sigmoid, tanh = self._jax.nn.sigmoid, self._numpy.tanh

        def step(state: Any, part: Any) -> Any:
            h, c = state
            i, f, g, o = self._numpy.split(part + h @ recurrent.T, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            h = sigmoid(o) * tanh(c)
            return (h, c), h

        zeros = self._numpy.zeros((x.shape[1], recurrent.shape[1]), x.dtype)
        return self._jax.lax.scan(step, (zeros, zeros), x @ w.T + bias)[1]


class Onnx:
    """ONNX nodes: every function appends some and gives the name of their result."""

    def __init__(self) -> None:
        self._onnx = module("onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def numbers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def node(self, kind: str, *inputs: str, count: int = 1, **attrs: Any) -> Any:
        names = [f"v{len(self.nodes)}_{at}" for at in range(count)]
        self.nodes.append(self._onnx.helper.make_node(kind, list(inputs), names, **attrs))
        return names[0] if count == 1 else names

    def add(self, x: str, y: str) -> str:
        return self.node("Add", x, y)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def gelu(self, x: str) -> str:
        return self.node("Gelu", x)

    def linear(self, x: str, w: str, b: str) -> str:
        return self.add(self.node("MatMul", x, self.node("Transpose", w, perm=(1, 0))), b)

    def layer_norm(self, x: str, gamma: str, beta: str) -> str:
        return self.node("LayerNormalization", x, gamma, beta)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.node("Reshape", x, self.numbers(*shape))

    def split(self, x: str, count: int, axis: int) -> list[str]:
        return self.node("Split", x, count=count, axis=axis, num_outputs=count)

    def concat(self, parts: Sequence[str], axis: int) -> str:
        return self.node("Concat", *parts, axis=axis)

    def attention(self, query: str, key: str, value: str) -> str:
        q, v = (self.node("Transpose", part, perm=(0, 2, 1, 3)) for part in (query, value))
        scores = self.node("MatMul", q, self.node("Transpose", key, perm=(0, 2, 3, 1)))
        size = self.node("Gather", self.node("Shape", query), self.numbers(3))
        root = self.node("Sqrt", self.node("Cast", size, to=self._onnx.TensorProto.FLOAT))
        weights = self.node("Softmax", self.node("Div", scores, root))
        return self.node("Transpose", self.node("MatMul", weights, v), perm=(0, 2, 1, 3))

    def conv(self, x: str, w: str, stride: int, padding: int, groups: int = 1) -> str:
        attrs: dict[str, Any] = {"strides": [stride] * 2, "pads": [padding] * 4, "group": groups}
        return self.node("Conv", x, w, **attrs)

    def norm(self, x: str, *parameters: str) -> str:
        return self.node("BatchNormalization", x, *parameters)

    def pool(self, x: str) -> str:
        attrs: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
        return self.node("MaxPool", x, **attrs)

    def average(self, x: str) -> str:
        return self.node("ReduceMean", x, self.numbers(2, 3), keepdims=0)

    def lstm(self, x: str, w: str, recurrent: str, bias: str) -> str:
        """Its gates are in the order input, output, forget, cell, for each direction."""
        parts = ((*self.split(part, 4, 0),) for part in (w, recurrent, bias))
        gates = [self.concat((i, o, f, g), 0) for i, f, g, o in parts]
        gates[2] = self.concat(
            (gates[2], self.node("Mul", gates[2], self.constant(np.array(0, np.float32)))), 0
        )
        turned = [self.node("Unsqueeze", part, self.numbers(0)) for part in gates]
        hidden = int(self.constants[int(recurrent[1:])].dims[1])
        every = self.node("LSTM", x, *turned, hidden_size=hidden)
        return self.node("Squeeze", every, self.numbers(1))


def onnx(model: Model, shape: tuple[int, ...]) -> bytes:
    """The model for onnxruntime, with a result of that shape."""
    library, kit = module("onnx"), Onnx()
    helper, single = library.helper, library.TensorProto.FLOAT
    names = [f"x{at}" for at in range(len(model.inputs))]
    result = model.network(kit, Weights(kit.constant), *names)
    inputs = [
        helper.make_tensor_value_info(name, single, shape)
        for name, shape in zip(names, model.inputs, strict=True)
    ]
    output = helper.make_tensor_value_info(result, single, shape)
    graph = helper.make_graph(kit.nodes, "model", inputs, [output], kit.constants)
    return onnx_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
