"""WGSL through wgpu: naga accepts the text, and values are the interpreter's."""

from contextlib import suppress

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.values.dtypes import to_numpy
from minimlc.targets.gpu.emit import emit
from minimlc.targets.gpu.wgsl import WGSL
from minimlc.targets.opencl import build as opencl
from tests.gpu.programs import PROGRAMS
from tests.helpers import random_array

pytestmark = [pytest.mark.requires("wgpu"), pytest.mark.many]


@pytest.fixture(scope="module")
def device():
    with suppress(mlc.BuildError):  # PoCL's LLVM comes first: after that of wgpu's driver it aborts
        opencl.device()
    wgpu = pytest.importorskip("wgpu")
    try:
        return wgpu.gpu.request_adapter_sync().request_device_sync()
    except RuntimeError as error:
        pytest.skip(f"wgpu has no adapter here: {error}")


def run(device, func, arrays):
    """Launches a function's kernels on arrays; the results are in new arrays."""
    emitted = emit({"main": func}, WGSL)
    workspace, launches = emitted.functions["main"]
    usage = 0x80 | 0x4 | 0x8  # STORAGE, COPY_SRC, COPY_DST
    memory = {
        buffer: device.create_buffer_with_data(data=array.copy(), usage=usage)
        for buffer, array in zip(func.params, arrays, strict=True)
    }
    for buffer in workspace:
        size = int(np.prod(buffer.shape)) * to_numpy(buffer.dtype).itemsize
        memory[buffer] = device.create_buffer(size=size, usage=usage)
    order = [*func.params, *workspace]
    module = device.create_shader_module(code=emitted.text)
    encoder = device.create_command_encoder()
    for launch in launches:
        step = {"module": module, "entry_point": launch.symbol}
        pipeline = device.create_compute_pipeline(layout="auto", compute=step)
        entries = [
            {"binding": order.index(buffer), "resource": {"buffer": memory[buffer]}}
            for buffer in launch.kernel.params
        ]
        group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
        work = encoder.begin_compute_pass()
        work.set_pipeline(pipeline)
        work.set_bind_group(0, group)
        work.dispatch_workgroups(*launch.kernel.grid)
        work.end()
    device.queue.submit([encoder.finish()])
    return [
        np.frombuffer(device.queue.read_buffer(memory[buffer]), array.dtype).reshape(array.shape)
        for buffer, array in zip(func.params, arrays, strict=True)
    ]


def agree(device, sch):
    rng = np.random.default_rng(2)
    args = [random_array(p.shape, p.dtype, rng) for p in sch.func.params]
    results = run(device, sch.func, args)
    mlc.interpret(sch.mod, "main", *args)
    for result, expected in zip(results, args, strict=True):
        limit = 1e-5 if expected.dtype.kind == "f" else 0
        np.testing.assert_allclose(result, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.__name__)
def test_programs(device, case):
    agree(device, case())


FUNCTIONS = """
@T.prim_func
def main(A: T.Buffer((64,), "{dtype}"), C: T.Buffer((64,), "{dtype}")):
    for i in range(64):
        with T.block("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = {value}
"""


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", "A[vi] // 3 + A[vi] % -4"),
        ("int32", "(A[vi] << 3) ^ (A[vi] >> 1) | ~A[vi]"),
        ("int32", "T.max(-A[vi], T.min(A[vi], 2)) - 2147483647"),
        ("int32", 'T.cast(T.cast(A[vi], "float32") * 1.7, "int32")'),
        ("uint32", 'A[vi] * T.uint32(4000000000) // T.uint32(7)'),
        ("float32", "T.exp(A[vi]) + T.tanh(A[vi]) * T.sigmoid(A[vi])"),
        ("float32", "T.tanh(A[vi] * 30.0) - T.log(T.abs(A[vi]) + 1.0)"),
        ("float32", 'T.if_then_else(A[vi] > 0.0, T.float32("inf"), -T.float32("inf"))'),
        ("float32", "T.round(A[vi]) + T.floor(A[vi]) * T.trunc(A[vi]) - T.ceil(A[vi])"),
    ],
)  # fmt: skip
def test_functions(device, dtype, value):
    text = FUNCTIONS.format(dtype=dtype, value=value)
    agree(device, mlc.Schedule(mlc.parse(text)).bind("i", "threadIdx.x"))
