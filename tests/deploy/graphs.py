"""Small graphs as they come from models: digits, a residual network, a transformer's block."""

from collections.abc import Callable

import numpy as np

import minimlc as mlc
from minimlc.graphs.ir.nodes import Var, constant
from minimlc.loops.values.module import IRModule
from minimlc.script import R

op = mlc.op


def weights() -> Callable[..., mlc.Constant]:
    """A source of constants of given shapes; the same ones each time."""
    rng = np.random.default_rng(7)
    return lambda *shape: constant(
        (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    )


weight = weights()


def graph(shape, make, dtype="float32") -> IRModule:
    """main(x): `make(x, emit)` gives the result."""
    x, bb = Var("x", R.Tensor(shape, dtype)), mlc.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(make(x, bb.emit))
        bb.emit_func_output(out)
    return bb.get()


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mlp(batch: int = 3) -> IRModule:
    weight = weights()
    w1, b1, w2, b2 = weight(6, 8), weight(8), weight(8, 4), weight(4)

    def make(x, emit):
        hidden = emit(op.nn.relu(emit(op.add(emit(op.matmul(x, w1)), b1))))
        return op.add(emit(op.matmul(hidden, w2)), b2)

    return graph((batch, 6), make)


def resnet(channels: tuple[int, ...] = (4, 8, 16, 32), size: int = 16, blocks: int = 2) -> IRModule:
    """The shape of ResNet-18 (He et al. 2016), narrow: a stem, stages of basic blocks, the first of
    which halves the image, with a projection around it; a mean over the image, and a product.
    """

    weight = weights()

    def make(x, emit):
        def conv(x, out, kernel, stride=1):
            w = weight(out, x.shape[1], kernel, kernel)
            y = emit(op.nn.conv2d(x, w, strides=stride, padding=kernel // 2))
            scaled = emit(op.multiply(y, weight(1, out, 1, 1)))
            return emit(op.add(scaled, weight(1, out, 1, 1)))

        def block(x, out, stride):
            y = emit(op.nn.relu(conv(x, out, 3, stride)))
            y = conv(y, out, 3)
            around = conv(x, out, 1, stride) if stride > 1 or x.shape[1] != out else x
            return emit(op.nn.relu(emit(op.add(y, around))))

        x = emit(op.nn.relu(conv(x, channels[0], 3)))
        for stage, out in enumerate(channels):
            for number in range(blocks):
                x = block(x, out, 2 if stage and not number else 1)
        return op.matmul(emit(op.mean(x, axis=(2, 3))), weight(channels[-1], 10))

    return graph((1, 3, size, size), make)


def transformer(tokens: int = 16, width: int = 32, heads: int = 4, layers: int = 2) -> IRModule:
    """Encoder blocks (Vaswani et al. 2017, normalized first): attention, then two products."""
    each, weight = width // heads, weights()

    def make(x, emit):
        def dense(x, out):
            return emit(op.add(emit(op.matmul(x, weight(x.shape[-1], out))), weight(out)))

        def split(x):
            return emit(
                op.permute_dims(emit(op.reshape(x, shape=(tokens, heads, each))), axes=(1, 0, 2))
            )

        def layer(x):
            y = emit(op.nn.layer_norm(x, weight(width), weight(width), axes=-1))
            q, k, v = (split(dense(y, width)) for _ in range(3))
            scores = emit(op.matmul(q, emit(op.permute_dims(k, axes=(0, 2, 1)))))
            shares = emit(
                op.nn.softmax(emit(op.multiply(scores, constant(np.float32(each**-0.5)))))
            )
            mixed = emit(op.permute_dims(emit(op.matmul(shares, v)), axes=(1, 0, 2)))
            x = emit(op.add(x, dense(emit(op.reshape(mixed, shape=(tokens, width))), width)))
            y = emit(op.nn.layer_norm(x, weight(width), weight(width), axes=-1))
            return emit(op.add(x, dense(emit(op.nn.gelu(dense(y, 4 * width))), width)))

        for _ in range(layers):
            x = layer(x)
        return x

    return graph((tokens, width), make)
