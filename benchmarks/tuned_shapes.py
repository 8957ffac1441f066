"""The operator shapes that searches are tried on: as graphs, by torch, and as ONNX models."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import minimlc as mlc
from benchmarks import samples
from benchmarks.installed import module

Sizes = tuple[int, ...]


class Shape(NamedTuple):
    """One operator: sizes of its inputs, ours and torch's function of them, and its ONNX node."""

    sizes: tuple[Sizes, ...]
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    node: str
    attributes: tuple[tuple[str, Any], ...] = ()

    def arrays(self) -> list[np.ndarray]:
        """Random inputs, float32."""
        rng = np.random.default_rng(0)
        return [rng.standard_normal(size, np.float32) for size in self.sizes]

    def onnx(self, shape: Sizes) -> bytes:
        """The operator alone as an ONNX model, with a result of that shape."""
        package = import_module("onnx")
        helper, single = package.helper, package.TensorProto.FLOAT
        names = [f"x{at}" for at in range(len(self.sizes))]
        inputs = [
            helper.make_tensor_value_info(name, single, size)
            for name, size in zip(names, self.sizes, strict=True)
        ]
        axes = [package.numpy_helper.from_array(np.array([0]), "axes")]
        summed = self.node == "ReduceSum"
        node = helper.make_node(
            self.node, [*names, "axes"] if summed else names, ["y"], **dict(self.attributes)
        )
        result = helper.make_tensor_value_info("y", single, shape)
        graph = helper.make_graph([node], "one", inputs, [result], axes if summed else [])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        return samples.onnx_bytes(model)


def product(*sizes: Sizes) -> Shape:
    """x @ w."""
    return Shape(sizes, mlc.op.matmul, lambda x, w: x @ w, "MatMul")


def transposed(x: Sizes, w: Sizes) -> Shape:
    """x @ w.T."""
    return Shape((x, w), mlc.op.linear, lambda x, w: x @ w.T, "Gemm", (("transB", 1),))


def conv(x: Sizes, w: Sizes, stride: int = 1) -> Shape:
    """One image through a layer; by channel where its filters have one."""
    groups, padding = x[1] // w[1], w[2] // 2
    attributes = (("strides", [stride] * 2), ("pads", [padding] * 4), ("group", groups))

    def ours(x: Any, w: Any) -> Any:
        return mlc.op.conv2d(x, w, strides=stride, padding=padding, groups=groups)

    def theirs(x: Any, w: Any) -> Any:
        return module("torch").nn.functional.conv2d(x, w, None, stride, padding, 1, groups)

    return Shape((x, w), ours, theirs, "Conv", attributes)


def normalized(rows: int, width: int) -> Shape:
    """A layer norm of rows."""

    def theirs(x: Any, gamma: Any, beta: Any) -> Any:
        return module("torch").nn.functional.layer_norm(x, gamma.shape, gamma, beta)

    sizes = ((rows, width), (width,), (width,))
    return Shape(sizes, mlc.op.layer_norm, theirs, "LayerNormalization")


def softmax(rows: int, width: int) -> Shape:
    """A softmax of rows."""
    return Shape(((rows, width),), mlc.op.softmax, lambda x: x.softmax(-1), "Softmax")


def summed(rows: int, width: int) -> Shape:
    """The sum over the first axis."""
    ours, theirs = lambda x: mlc.op.sum(x, axis=0), lambda x: x.sum(0)
    return Shape(((rows, width),), ours, theirs, "ReduceSum", (("keepdims", 0),))


def turned(rows: int, width: int) -> Shape:
    """A transpose."""
    return Shape(((rows, width),), mlc.op.permute_dims, lambda x: x.T.contiguous(), "Transpose")


SHAPES = {
    "product 1024³": product((1024, 1024), (1024, 1024)),
    "product 768³": product((768, 768), (768, 768)),
    "product 333×517 by 517×129": product((333, 517), (517, 129)),
    "one row by 784×128": product((1, 784), (784, 128)),
    "one row by 128×784, transposed": transposed((1, 784), (128, 784)),
    "eight rows by 2048×2048": product((8, 2048), (2048, 2048)),
    "eight rows by 2048×2048, transposed": transposed((8, 2048), (2048, 2048)),
    "conv2d 3×3, 56×56×64": conv((1, 64, 56, 56), (64, 64, 3, 3)),
    "conv2d 1×1, 28×28×256→128": conv((1, 256, 28, 28), (128, 256, 1, 1)),
    "conv2d 3×3 of stride 2, 56×56×64→128": conv((1, 64, 56, 56), (128, 64, 3, 3), 2),
    "conv2d 3×3 by channel, 56×56×128": conv((1, 128, 56, 56), (128, 1, 3, 3)),
    "batched product 64 × 128³": product((64, 128, 128), (64, 128, 128)),
    "softmax 1024×1024": softmax(1024, 1024),
    "layer norm 1024×1024": normalized(1024, 1024),
    "sum over the first axis, 1024×1024": summed(1024, 1024),
    "transpose 1024×1024": turned(1024, 1024),
}

TINY = {
    "product": product((12, 9), (9, 20)),
    "transposed": transposed((1, 32), (16, 32)),
    "conv2d": conv((1, 4, 6, 6), (4, 1, 3, 3), 2),
    "layer norm": normalized(3, 16),
    "softmax": softmax(3, 16),
    "sum": summed(5, 16),
    "transpose": turned(6, 10),
}
