"""The programs that are measured, and the same model for onnxruntime."""

from importlib import import_module
from typing import Any

import numpy as np

import minimlc as mlc
from minimlc import te
from minimlc.script import R

Weights = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def matmul(size: int) -> mlc.IRModule:
    """C = A @ B in float32: three nested loops."""
    a = te.placeholder((size, size), "float32", name="A")
    b = te.placeholder((size, size), "float32", name="B")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return mlc.IRModule.of({"mm": te.create_prim_func([a, b, c])})


CHAPTER_TILE = 2, 32
"""The tile of chapter 03, for registers of 256 bits: 8 of 16 hold it."""


def widest_tile(target: mlc.Target) -> tuple[int, int]:
    """Rows and columns of C that fill the vector registers and leave room for A and B.

    32 registers of 512 bits hold 8x32 in half of them; 16 of 256 bits hold 6x16 in 12.
    """
    return (8, 32) if target.vector_bits >= 512 else (6, 16)


def schedule(mod: mlc.IRModule, tile: tuple[int, int] = CHAPTER_TILE) -> mlc.IRModule:
    """Chapter 03's last schedule for one core.

    A tile of C stays in registers over all of k; B is packed into panels as wide as the tile.
    """
    rows, columns = tile
    sch = (
        mlc.Schedule(mod, func="mm", check=False)
        .cache_write("C", "C")
        .split("i", factors=[None, rows])
        .split("j", factors=[None, columns])
        .reorder("j_0", "i_0", "k", "i_1", "j_1")
        .reverse_compute_at("C_local", "i_0")
        .decompose_reduction("C", at="k")
        .cache_read("C_update", "B")
        .compute_at("B_local", "j_0")
    )
    copy_row, copy_lane = sch.loops("C_local")[-2:]
    for lane in ("j_1_init", "j_1", copy_lane, sch.loops("B_local")[-1]):
        sch = sch.vectorize(lane)
    for row in ("i_1_init", "i_1", copy_row):
        sch = sch.unroll(row)
    return sch.mod


def tensor(shape: tuple[int, ...]) -> Any:
    """The type of a float32 tensor."""
    return R.Tensor(shape, "float32")


def digit() -> np.ndarray:
    """The first of the held-out handwritten digits, as a batch of one."""
    return mlc.datasets.digits().x_test[:1]


def weights() -> Weights:
    """Random weights of the digits MLP, 64-128-10; its time does not depend on them."""
    rng = np.random.default_rng(0)
    w1 = rng.standard_normal((64, 128), np.float32) / 8
    w2 = rng.standard_normal((128, 10), np.float32) / 11
    return w1, rng.standard_normal(128, np.float32), w2, rng.standard_normal(10, np.float32)


def mlp(weights: Weights) -> mlc.IRModule:
    """The digits MLP as a graph function of operators, its weights as constants."""
    w1, b1, w2, b2 = map(mlc.constant, weights)
    x = mlc.Var("x", tensor((1, 64)))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            hidden = bb.emit(mlc.op.relu(mlc.op.add(mlc.op.matmul(x, w1), b1)))
            scores = bb.emit_output(mlc.op.add(mlc.op.matmul(hidden, w2), b2))
        bb.emit_func_output(scores)
    return bb.get()


def mlp_reference(weights: Weights, x: np.ndarray) -> np.ndarray:
    """The digits MLP in float64."""
    w1, b1, w2, b2 = (w.astype(np.float64) for w in weights)
    return np.maximum(x.astype(np.float64) @ w1 + b1, 0) @ w2 + b2


def mlp_onnx(weights: Weights) -> bytes:
    """The digits MLP as an ONNX model."""
    onnx = import_module("onnx")
    helper, tensor = onnx.helper, onnx.numpy_helper.from_array
    single = onnx.TensorProto.FLOAT
    names = ("w1", "b1", "w2", "b2")
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
            helper.make_node("Relu", ["h"], ["a"]),
            helper.make_node("Gemm", ["a", "w2", "b2"], ["y"]),
        ],
        "digits",
        [helper.make_tensor_value_info("x", single, (1, 64))],
        [helper.make_tensor_value_info("y", single, (1, 10))],
        [tensor(array, name) for array, name in zip(weights, names, strict=True)],
    )
    return onnx_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def add_onnx(size: int) -> bytes:
    """The sum of two float32 vectors as an ONNX model."""
    onnx = import_module("onnx")
    helper, single = onnx.helper, onnx.TensorProto.FLOAT
    a, b, c = (helper.make_tensor_value_info(name, single, (size,)) for name in "abc")
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "add", [a, b], [c])
    return onnx_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def integer_matmul_onnx(size: int) -> bytes:
    """The product of two square int8 matrices, summed in int32, as an ONNX model."""
    onnx = import_module("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    a, b = (helper.make_tensor_value_info(name, kinds.INT8, (size, size)) for name in "ab")
    c = helper.make_tensor_value_info("c", kinds.INT32, (size, size))
    node = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
    graph = helper.make_graph([node], "matmul", [a, b], [c])
    return onnx_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def onnx_bytes(model: Any) -> bytes:
    """An ONNX model, checked, in a format version that onnxruntime 1.20 reads."""
    onnx = import_module("onnx")
    model.ir_version = 10
    onnx.checker.check_model(model)
    return model.SerializeToString()


def onnx_session(model: bytes, thread_count: int | None) -> Any:
    """An inference session; None leaves the number of threads to onnxruntime."""
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    if thread_count is not None:
        options.intra_op_num_threads = thread_count
        options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
