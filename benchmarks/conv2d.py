"""Convolutions of images, channels first, as the layers of a residual network have them."""

from dataclasses import replace

import numpy as np

import minimlc as mlc
from benchmarks import peers, programs
from benchmarks.contest import Contest, Result, contest
from benchmarks.installed import module
from benchmarks.report import Report

Layer = tuple[int, int, int, int, int]

LAYERS: tuple[Layer, ...] = (
    (56, 64, 64, 3, 1),
    (14, 256, 256, 3, 1),
    (56, 64, 128, 3, 2),
    (28, 256, 128, 1, 1),
)
"""Image's side, channels in and out, filter's side, stride. The claims are about the first two."""


CHANNELS_LAST = "torch, channels last"
FOR_FREE = "as torch has both in its other layout beforehand"


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Targets: the first two layers as fast as torch."""
    with contest("conv2d", thread_count, repeat) as found:
        for layer in LAYERS:
            result = conv2d(found, layer)
            if layer in LAYERS[:2]:
                beside = result.claim(1.0, CHANNELS_LAST)
                found.report.claims += result.claim(1.0, "torch")
                found.report.claims += [replace(claim, unless=FOR_FREE) for claim in beside]
        found.report.notes += [
            "Images and filters as the user has them, N×C×H×W: what is packed, is packed in the "
            "time that is measured.",
            f"{CHANNELS_LAST}: with both in its other layout beforehand, which is not measured.",
        ]
    return found.report


def conv2d(found: Contest, layer: Layer) -> Result:
    """One image through one layer."""
    side, channels, filters, window, stride = layer
    padding = window // 2
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, channels, side, side), np.float32)
    w = rng.standard_normal((filters, channels, window, window), np.float32)

    def program(a, b):
        return mlc.op.conv2d(a, b, strides=stride, padding=padding)

    def by_torch(a, b):
        return module("torch").nn.functional.conv2d(a, b, stride=stride, padding=padding)

    def by_jax(a, b):
        pads = ((padding, padding), (padding, padding))
        return module("jax").lax.conv_general_dilated(a, b, (stride, stride), pads)

    contenders = [
        programs.model(programs.graph(program, x, w), x, w),
        *peers.torch_and_compiled(by_torch, x, w),
        *peers.torch(by_torch, x, w, name=CHANNELS_LAST, channels_last=True),
        *peers.jax(by_jax, x, w),
    ]
    exact = reference(x.astype(float), w.astype(float), stride, padding)
    title = f"conv2d {side}×{side}×{channels}→{filters} {window}×{window}"
    title += f", stride {stride}" if stride > 1 else ""
    operations = 2.0 * exact.size * w[0].size
    close = layer == LAYERS[0]
    return found.run(title, contenders, exact, operations=operations, close=close)


def reference(x: np.ndarray, w: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """By numpy: all windows, then one product."""
    edges = (padding, padding)
    padded = np.pad(x, ((0, 0), (0, 0), edges, edges))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    return np.moveaxis(np.tensordot(windows, w, axes=((1, 4, 5), (1, 2, 3))), -1, 1)
