"""Whole models, each written once: as a function of a kit of operators, of weights, and of inputs.

`benchmarks/kits.py` has the kits: minimlc's operators, and each peer's. `w(*shape)` gives
the next random weight. Sizes are arguments, so that the tests can run small ones.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

Shape = tuple[int, ...]


class Model(NamedTuple):
    """`network(kit, w, *inputs)` gives the result; `inputs` are the shapes of its inputs."""

    network: Callable[..., Any]
    inputs: tuple[Shape, ...]


def mlp(f: Any, w: Any, x: Any, widths: Sequence[int] = (784, 128, 10)) -> Any:
    """Layers of these widths, with ReLU between them."""
    for at, (inputs, outputs) in enumerate(pairwise(widths)):
        x = f.linear(f.relu(x) if at else x, w(outputs, inputs), w(outputs))
    return x


def block(f: Any, w: Any, x: Any, rows: int, width: int, heads: int, past: Any = ()) -> Any:
    """A transformer's block, normalized first (Radford et al. 2019), and its keys and values;
    `past` has the ones of earlier rows.
    """
    y = f.layer_norm(x, w(width, around=1), w(width))
    parts = f.split(f.linear(y, w(3 * width, width), w(3 * width)), 3, 2)
    query, *new = [f.reshape(part, (1, rows, heads, width // heads)) for part in parts]
    key, value = [f.concat(pair, 1) for pair in zip(past, new, strict=True)] if past else new
    y = f.reshape(f.attention(query, key, value), (1, rows, width))
    x = f.add(x, f.linear(y, w(width, width), w(width)))
    y = f.layer_norm(x, w(width, around=1), w(width))
    y = f.gelu(f.linear(y, w(4 * width, width), w(4 * width)))
    return f.add(x, f.linear(y, w(width, 4 * width), w(width))), *new


def transformer(
    f: Any, w: Any, x: Any, count: int = 4, rows: int = 128, width: int = 256, heads: int = 4
) -> Any:
    """Blocks one after the other."""
    for _ in range(count):
        x, *_ = block(f, w, x, rows, width, heads)
    return x


def decode(f: Any, w: Any, x: Any, *past: Any, width: int = 256, heads: int = 4) -> Any:
    """One step of a GPT with a cache: the scores of the next token, then the new keys and values.
    Its vocabulary is four times its width.
    """
    results = []
    for at in range(0, len(past), 2):
        x, *new = block(f, w, x, 1, width, heads, past[at : at + 2])
        results += new
    x = f.layer_norm(x, w(width, around=1), w(width))
    scores = f.linear(x, w(4 * width, width), w(4 * width))
    return f.concat([scores, *(f.reshape(part, (1, 1, width)) for part in results)], 2)


def normalized(f: Any, w: Any, x: Any, count: int) -> Any:
    """With the statistics of training, for each of so many channels."""
    return f.norm(x, w(count, around=1), w(count), w(count), w(count, around=1))


def resnet(f: Any, w: Any, x: Any, widths: Sequence[int] = (64, 128, 256, 512)) -> Any:
    """ResNet-18 (He et al. 2016): two blocks of each width, 1000 scores."""
    depth = widths[0]
    x = f.conv(x, w(depth, 3, 7, 7), 2, 3)
    x = f.pool(f.relu(normalized(f, w, x, depth)))
    for at, width in enumerate(widths):
        for stride in (2 if at else 1, 1):
            y = normalized(f, w, f.conv(x, w(width, depth, 3, 3), stride, 1), width)
            y = normalized(f, w, f.conv(f.relu(y), w(width, width, 3, 3), 1, 1), width)
            if depth != width:
                x = normalized(f, w, f.conv(x, w(width, depth, 1, 1), stride, 0), width)
            x, depth = f.relu(f.add(x, y)), width
    return f.linear(f.average(x), w(1000, depth), w(1000))


MOBILE = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2))
"""Widths and strides of MobileNet's layers; the last is another one of 1024."""


def mobilenet(
    f: Any, w: Any, x: Any, layers: Sequence[tuple[int, int]] = (*MOBILE, (1024, 1))
) -> Any:
    """MobileNet (Howard et al. 2017): a window of each channel, then all channels of each pixel."""
    depth = layers[0][0] // 2
    x = f.relu(normalized(f, w, f.conv(x, w(depth, 3, 3, 3), 2, 1), depth))
    for width, stride in layers:
        y = f.conv(x, w(depth, 1, 3, 3), stride, 1, depth)
        y = f.conv(f.relu(normalized(f, w, y, depth)), w(width, depth, 1, 1), 1, 0)
        x, depth = f.relu(normalized(f, w, y, width)), width
    return f.linear(f.average(x), w(1000, depth), w(1000))


def lstm(f: Any, w: Any, x: Any, inputs: int = 128, hidden: int = 128) -> Any:
    """A layer with long short-term memory; one bias, gates in the order of torch."""
    return f.lstm(x, w(4 * hidden, inputs), w(4 * hidden, hidden), w(4 * hidden))


MODELS = {
    "MLP 784-128-10, batch 1": Model(mlp, ((1, 784),)),
    "MLP 784-128-10, batch 64": Model(mlp, ((64, 784),)),
    "4 transformer blocks": Model(transformer, ((1, 128, 256),)),
    "ResNet-18": Model(resnet, ((1, 3, 224, 224),)),
    "MobileNet": Model(mobilenet, ((1, 3, 224, 224),)),
    "LSTM, 128 steps": Model(lstm, ((128, 1, 128),)),
    "GPT decode step": Model(decode, ((1, 1, 256), *[(1, 255, 4, 64)] * 12)),
}
TINY = {
    "MLP": Model(partial(mlp, widths=(6, 5, 3)), ((2, 6),)),
    "transformer": Model(partial(transformer, count=1, rows=3, width=8, heads=2), ((1, 3, 8),)),
    "ResNet": Model(partial(resnet, widths=(2, 4)), ((1, 3, 16, 16),)),
    "MobileNet": Model(partial(mobilenet, layers=((4, 1), (8, 2))), ((1, 3, 9, 9),)),
    "LSTM": Model(partial(lstm, inputs=3, hidden=2), ((3, 1, 3),)),
    "GPT": Model(partial(decode, width=8, heads=2), ((1, 1, 8), *[(1, 3, 2, 4)] * 2)),
}
"""The same, for tests."""
