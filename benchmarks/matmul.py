"""Matrix products of every shape and dtype, their errors, and what threads give."""

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from benchmarks import peers, programs, samples
from benchmarks.contest import Contest, Result, contest, geometric_mean
from benchmarks.installed import module
from benchmarks.matmul_facts import Shape, errors, naive, operands, same_bits, scaling
from benchmarks.report import Claim, Report

SQUARE = (256, 512, 1024, 2048)
SKINNY: Sequence[Shape] = ((1, 2048, 2048), (8, 2048, 2048), (2048, 8, 2048))
BATCHED = (64, 128, 128, 128)
SIZE = 1024
SUMS: Sequence[Shape] = (
    *((512, 512, k) for k in (8, 16, 32, 64, 128, 256, 512)),
    (SIZE, SIZE, SIZE),
    (256, 256, 4096),
)
"""Products whose errors are measured, by the length of their sums; besides, `SKINNY`."""


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """The targets of the table of figures."""
    with contest("matmul", thread_count, repeat) as found:
        shapes = [*((n, n, n) for n in SQUARE), *SKINNY]
        results = [single(found, shape) for shape in shapes]
        claim_speed(found.report, dict(zip(shapes, results, strict=True)))
        single(found, BATCHED)
        brain(found, SIZE)
        whole(found, SIZE)
        naive(found, SIZE)
        scaling(found, SQUARE[-1])
        errors(found.report, [*SUMS, *SKINNY])
        same_bits(found.report, SIZE)
    return found.report


def title(shape: tuple[int, ...], dtype: str = "f32") -> str:
    """The product's name in tables."""
    *batch, m, n, k = shape
    size = f"{m}³" if m == n == k else f"{m}×{k} by {k}×{n}"
    return f"{dtype} matmul {f'{batch[0]} × ' if batch else ''}{size}"


def single(found: Contest, shape: tuple[int, ...]) -> Result:
    """float32: minimlc, numpy, torch and jax."""
    a, b, c = operands(shape)
    *batch, m, n, k = shape
    contenders = [
        programs.kernel(programs.matmul(m, n, k, batch=sum(batch)), a, b, c),
        peers.into("numpy", lambda: np.matmul(a, b, out=c), c),
        *peers.torch(lambda x, y, z: module("torch").matmul(x, y, out=z), a, b, c),
        *peers.jax(lambda x, y: x @ y, a, b),
    ]
    expected = a.astype(float) @ b.astype(float)
    operations = 2 * np.prod(shape, dtype=float)
    close = shape == (SIZE, SIZE, SIZE)
    return found.run(title(shape), contenders, expected, operations=operations, close=close)


def claim_speed(report: Report, results: dict[Shape, Result]) -> None:
    """float32 against numpy and torch."""
    for shape, result in results.items():
        if shape == (SIZE, SIZE, SIZE):
            report.claims += [*result.claim(1.05, "numpy"), *result.claim(0.95, "torch")]
    mean = geometric_mean([result.ratio("numpy", "torch") for result in results.values()])
    text = f"f32 matmul, geometric mean of {len(results)} sizes"
    report.claims.append(Claim(text, mean, ">=", 0.95, "×", "best of numpy, torch"))


def brain(found: Contest, size: int) -> None:
    """bfloat16 operands, float32 sums and result; torch's result is a bfloat16."""
    a, b, c = operands((size, size, size))
    x, y = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    contenders = [
        programs.kernel(programs.matmul(size, size, size, "bfloat16"), x, y, c),
        *peers.torch(lambda p, q: p @ q, x, y, tolerance=2**-8),
        *peers.jax(lambda p, q: product_of(p, q, "float32"), x, y),
    ]
    expected = x.astype(float) @ y.astype(float)
    shape = (size, size, size)
    result = found.run(title(shape, "bf16"), contenders, expected, operations=2.0 * size**3)
    found.report.claims += result.claim(0.9, "torch")


def whole(found: Contest, size: int) -> None:
    """int8 operands, int32 sums and result: exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, (size, size), np.int8) for _ in range(2))
    c = np.empty((size, size), np.int32)
    contenders = [
        programs.kernel(programs.matmul(size, size, size, "int8"), a, b, c),
        *peers.torch(lambda p, q: module("torch")._int_mm(p, q), a, b),
        *peers.jax(lambda p, q: product_of(p, q, "int32"), a, b),
        *peers.onnx(lambda: samples.integer_matmul_onnx(size), found.threads, a=a, b=b),
    ]
    expected = a.astype(float) @ b.astype(float)
    name, operations = title((size, size, size), "int8"), 2.0 * size**3
    result = found.run(name, contenders, expected, tolerance=0.0, operations=operations, close=True)
    found.report.claims += result.claim(1.0, "torch", "jax", "onnxruntime")


def product_of(x, y, dtype: str):
    """jax's product with sums in a wider dtype."""
    return module("jax").numpy.matmul(x, y, preferred_element_type=dtype)
