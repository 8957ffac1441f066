"""The stand-in's memory, streams and devices. Addresses are numbers that nothing lies at: to read
through one ends the process.
"""

from functools import partial
from math import prod
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

LOG: list[tuple[str, int, int]] = []
"""Launches: kernels, and "graph" for replayed graphs; the stream, and the device."""


class Block:
    """Memory of the pool: it goes back to the stream that it was allocated on."""

    def __init__(self, size, device):
        self.base = 0x7000_0000_0000 + sum(block.bytes.size for block in BLOCKS)
        self.bytes, self.device = np.zeros(size, np.uint8), device
        BLOCKS.append(self)


BLOCKS: list[Block] = []
FREE: dict[tuple[int, int, int], list[Block]] = {}
"""Blocks that can be allocated again, by the stream, the device and the size."""


class Memory:
    def __init__(self, size):
        stream, device = get_current_stream(), runtime.getDevice()
        self.place = stream.ptr, device, max(512, -(-size // 512) * 512)
        free = FREE.setdefault(self.place, [])
        self.block = free.pop() if free else Block(self.place[2], device)
        stream.state.add(partial(self.block.bytes.fill, 0xFF))

    def __del__(self):
        FREE[self.place].append(self.block)


def bytes_at(address, size):
    (block,) = [b for b in BLOCKS if b.base <= address < b.base + b.bytes.size]
    start = address - block.base
    assert start + size <= block.bytes.size
    return block.bytes[start : start + size]


class MemoryPointer(NamedTuple):
    mem: Memory
    offset: int
    device_id: int

    @property
    def ptr(self):
        return self.mem.block.base + self.offset

    def __add__(self, offset):
        return self._replace(offset=self.offset + offset)


class ndarray:
    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.size, self.ndim = prod(self.shape), len(self.shape)
        self.nbytes = self.size * self.dtype.itemsize
        usual = np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape).shape
        usual = tuple(prod(usual[k + 1 :]) * self.dtype.itemsize for k in range(self.ndim))
        self.strides = usual if strides is None else strides
        self.flags = SimpleNamespace(c_contiguous=self.strides == usual or self.size < 2)
        self.data = memptr or MemoryPointer(Memory(self.nbytes), 0, runtime.getDevice())

    def get(self, stream=None, order="C", out=None, blocking=True):
        out = np.empty(self.shape, self.dtype) if out is None else out
        assert (out.shape, out.dtype) == (self.shape, self.dtype) and out.flags.c_contiguous
        stream = stream or get_current_stream()
        stream.state.add(partial(copy_out, self.data.ptr, out), captured=False)
        if blocking:
            stream.synchronize()
        return out

    def set(self, arr, stream=None):
        assert (arr.shape, arr.dtype) == (self.shape, self.dtype)
        state = (stream or get_current_stream()).state
        state.add(partial(copy_in, self.data.ptr, arr.copy()), captured=False)

    def copy(self, order="C"):
        result = empty(self.shape, self.dtype)
        get_current_stream().state.add(
            partial(copy_on, self.data.ptr, result.data.ptr, self.nbytes)
        )
        return result

    def view(self, dtype=None):
        assert np.dtype(dtype).itemsize == self.dtype.itemsize
        return ndarray(self.shape, dtype, self.data, self.strides)

    def __getitem__(self, part):
        kept = np.lib.stride_tricks.as_strided(
            np.zeros((), [("", f"V{self.dtype.itemsize}")]), self.shape, self.strides
        )
        taken = np.ndarray.__getitem__(kept, part)
        offset = taken.ctypes.data - kept.ctypes.data
        return ndarray(taken.shape, self.dtype, self.data + offset, taken.strides)

    def __setitem__(self, part, value):
        target = self[part]
        assert (target.shape, target.dtype) == (value.shape, value.dtype)
        assert target.flags.c_contiguous and value.flags.c_contiguous
        get_current_stream().state.add(
            partial(copy_on, value.data.ptr, target.data.ptr, target.nbytes)
        )

    def __len__(self):
        return self.shape[0]

    def __bool__(self):
        return bool(self.get())

    @property
    def __cuda_array_interface__(self):
        facts = {"shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False)}
        return {**facts, "strides": self.strides, "version": 3}

    def __dlpack_device__(self):
        return 2, self.data.device_id

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if self.dtype.kind not in "uifcb":
            raise BufferError("dtype is not supported for dlpack export")
        return self


def copy_out(address, array):
    array.reshape(-1).view(np.uint8)[:] = bytes_at(address, array.nbytes) if array.size else ()


def copy_in(address, array):
    if array.size:
        bytes_at(address, array.nbytes)[:] = array.reshape(-1).view(np.uint8)


def copy_on(address, target, size):
    if size:
        bytes_at(target, size)[:] = bytes_at(address, size)


def empty(shape, dtype=float):
    return ndarray(shape, dtype)


def asarray(a):
    if not isinstance(a, np.ndarray):
        facts = a.__cuda_array_interface__
        return ndarray(facts["shape"], facts["typestr"], a.memory, facts["strides"])
    assert a.dtype.kind in "uifb"
    result = empty(a.shape, a.dtype)
    result.set(a.copy(order="C"))
    return result


def from_dlpack(array):
    kind, number = array.__dlpack_device__()
    assert kind == 2
    taken = array.__dlpack__(stream=get_current_stream().ptr or 1, max_version=(1, 0))
    if taken.dtype.kind == "V":
        raise NotImplementedError("CuPy does not support bfloat16 yet")
    return ndarray(taken.shape, taken.dtype, taken.data, taken.strides)


# Streams


class State:
    """The work that waits in a stream, and its clock."""

    def __init__(self):
        self.work, self.graph, self.clock = [], None, 0.0
        self.running = False

    def add(self, job, captured=True):
        if self.graph is None:
            self.work.append(job)
        elif captured:
            self.graph.append(job)
        else:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported")

    def run(self, until=lambda: False):
        if self.graph is not None:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported")
        if self.running:  # what Python collects in the middle of a job waits for it: what is next
            return  # must not be done before that job is
        self.running = True
        try:
            while self.work and not until():
                self.work.pop(0)()
        finally:
            self.running = False


STATES: dict[int, State] = {}
CURRENT: list["Stream"] = []
"""The current streams, innermost last."""


class Stream:
    def __init__(self, null=False, non_blocking=False, ptds=False, *, ptr=None):
        self.ptr = 0 if null else ptr if ptr is not None else 0x1000 + len(STATES)
        self.state = STATES.setdefault(self.ptr, State())

    @classmethod
    def from_external(cls, obj):
        return cls(ptr=obj.__cuda_stream__()[1])

    def __enter__(self):
        CURRENT.append(self)
        return self

    def __exit__(self, *error):
        assert CURRENT.pop() is self

    def synchronize(self):
        self.state.run()

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event):
        self.state.add(partial(self._wait, event), captured=False)

    def _wait(self, event):
        event.synchronize()
        self.state.clock = max(self.state.clock, event.time)

    def is_capturing(self):
        return self.state.graph is not None

    def begin_capture(self, mode=None):
        if self.ptr in (0, 1):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        self.state.graph = []

    def end_capture(self):
        jobs, self.state.graph = self.state.graph, None
        return Graph(jobs)


class Graph:
    def __init__(self, jobs):
        self.jobs = jobs

    def launch(self, stream=None):
        stream = stream or get_current_stream()
        LOG.append(("graph", stream.ptr, runtime.getDevice()))
        for job in self.jobs:
            stream.state.add(partial(_again, job, stream.state))


def _again(job, state):
    job.keywords["state"] = state
    job()


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.state, self.time = None, None

    def record(self, stream=None):
        self.state, self.time = (stream or get_current_stream()).state, None
        self.state.add(self._reach, captured=False)

    def _reach(self):
        self.time = self.state.clock

    def synchronize(self):
        self.state.run(lambda: self.time is not None)


def get_elapsed_time(start_event, end_event):
    return end_event.time - start_event.time


def get_current_stream(device_id=-1):
    return CURRENT[-1]


# Devices


DEVICES = [0]
"""The current devices, innermost last."""


class Device:
    def __init__(self, device=None):
        self.id = device

    def __enter__(self):
        DEVICES.append(self.id)

    def __exit__(self, *error):
        DEVICES.pop()

    def synchronize(self):
        for state in STATES.values():
            state.run()


PROPERTIES = {
    "name": b"stand-in",
    "maxThreadsPerBlock": 1024,
    "maxThreadsDim": (1024, 1024, 64),
    "maxGridSize": (2**31 - 1, 65535, 65535),
    "sharedMemPerBlockOptin": 99 * 1024,
    "major": 8,
    "minor": 6,
}

runtime = SimpleNamespace(
    getDevice=lambda: DEVICES[-1], getDeviceProperties=lambda device: dict(PROPERTIES)
)


Stream.null = Stream(null=True)
CURRENT.append(Stream.null)
