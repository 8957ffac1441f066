"""The mathematical functions: of arrays that stay in the cache, and their largest errors."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import minimlc as mlc
from benchmarks import peers, programs
from benchmarks.contest import Contest, Result, contest, geometric_mean
from benchmarks.harness import Contender, WrongResult
from benchmarks.installed import module
from benchmarks.peers import prange
from benchmarks.report import Claim, Report
from minimlc.loops.math.functions import ULP_BOUNDS
from minimlc.script import T

SIZE = 16 * 1024
SAMPLES = 2**24
PART = 2**20


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Targets: the bounds on the errors, and on the whole faster than the best peer."""
    with contest("math", thread_count, repeat) as found:
        ratios = [function(found, name, SIZE).ratio() for name in FUNCTIONS]
        text = "all functions, the geometric mean"
        found.report.claims.append(Claim(text, geometric_mean(ratios), ">=", 1.0, "×", "best peer"))
        for name in FUNCTIONS:
            found.report.claims.append(accuracy(name, SAMPLES))
        found.report.notes.append(
            "Errors are in units in the last place of the float64 result, over float32 numbers "
            "whose bits are evenly spread; over pairs of such for pow."
        )
    return found.report


def exp_loop(x, out):
    for i in prange(x.size):
        out[i] = math.exp(x[i])


def log_loop(x, out):
    for i in prange(x.size):
        out[i] = math.log(x[i])


def tanh_loop(x, out):
    for i in prange(x.size):
        out[i] = math.tanh(x[i])


def erf_loop(x, out):
    for i in prange(x.size):
        out[i] = math.erf(x[i])


def sigmoid_loop(x, out):
    for i in prange(x.size):
        out[i] = np.float32(1) / (np.float32(1) + math.exp(-x[i]))


def gelu_loop(x, out):
    half, scale = np.float32(0.5), np.float32(-math.sqrt(0.5))
    for i in prange(x.size):
        out[i] = half * x[i] * math.erfc(x[i] * scale)


def sin_loop(x, out):
    for i in prange(x.size):
        out[i] = math.sin(x[i])


def cos_loop(x, out):
    for i in prange(x.size):
        out[i] = math.cos(x[i])


def sqrt_loop(x, out):
    for i in prange(x.size):
        out[i] = math.sqrt(x[i])


def rsqrt_loop(x, out):
    for i in prange(x.size):
        out[i] = np.float32(1) / math.sqrt(x[i])


def pow_loop(x, y, out):
    for i in prange(x.size):
        out[i] = x[i] ** y[i]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    grown = np.exp(-np.abs(x))
    return np.where(x < 0, grown, 1) / (1 + grown)


def _gelu(x: np.ndarray) -> np.ndarray:
    """Of erfc, which is as right far below 0; at -inf the limit."""
    kept = np.maximum(x, -40.0)
    return kept * 0.5 * np.vectorize(math.erfc, [np.float64])(-kept / math.sqrt(2))


class Function(NamedTuple):
    """`exact` is right in float64; `numpy` what a user of numpy writes, None where it has none.

    The speed is that of arguments between `low` and `high`.
    """

    exact: Callable[..., np.ndarray]
    numpy: Callable[..., np.ndarray] | None
    loop: Callable[..., None]
    low: float = -5.0
    high: float = 5.0


FUNCTIONS = {
    "exp": Function(np.exp, np.exp, exp_loop),
    "log": Function(np.log, np.log, log_loop, 0.01, 100.0),
    "tanh": Function(np.tanh, np.tanh, tanh_loop),
    "erf": Function(np.vectorize(math.erf, [np.float64]), None, erf_loop),
    "sigmoid": Function(_sigmoid, lambda x: 1 / (1 + np.exp(-x)), sigmoid_loop),
    "gelu": Function(_gelu, None, gelu_loop),
    "sin": Function(np.sin, np.sin, sin_loop),
    "cos": Function(np.cos, np.cos, cos_loop),
    "sqrt": Function(np.sqrt, np.sqrt, sqrt_loop, 0.01, 100.0),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), lambda x: 1 / np.sqrt(x), rsqrt_loop, 0.01, 100.0),
    "pow": Function(np.power, np.power, pow_loop, 0.01, 8.0),
}


def _arguments(name: str, size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    item = FUNCTIONS[name]
    first = rng.uniform(item.low, item.high, size).astype(np.float32)
    second = rng.uniform(-3, 3, size).astype(np.float32)
    return [first, second] if name == "pow" else [first]


def _program(name: str, *arrays: np.ndarray) -> mlc.IRModule:
    return programs.formula(getattr(T, name), *arrays)


def function(found: Contest, name: str, size: int) -> Result:
    """One function of an array, into an array that is there."""
    item, arrays = FUNCTIONS[name], _arguments(name, size)
    out = np.empty_like(arrays[0])
    contenders = [
        programs.kernel(_program(name, *arrays), *arrays, out),
        *_numpy(item, arrays, out),
        *_torch(name, arrays, out),
        *peers.numba(item.loop, *arrays, out, threads=found.threads),
        *_jax(name, arrays),
    ]
    exact = item.exact(*(array.astype(np.float64) for array in arrays))
    moved = (len(arrays) + 1) * out.nbytes
    return found.run(f"{name} of {size} float32", contenders, exact, moved=moved)


def _numpy(item: Function, arrays: list[np.ndarray], out: np.ndarray) -> list[Contender]:
    call = item.numpy
    if call is None:
        return []
    if isinstance(call, np.ufunc):
        return [peers.into("numpy", lambda: call(*arrays, out=out), out)]
    return [Contender("numpy", lambda: call(*arrays))]


def _torch(name: str, arrays: list[np.ndarray], out: np.ndarray) -> list[Contender]:
    def into(*tensors: Any) -> Any:
        *given, target = tensors
        if name == "gelu":
            return module("torch").ops.aten.gelu.out(*given, out=target)
        return getattr(module("torch"), name)(*given, out=target)

    def copied(*tensors: Any) -> Any:
        *given, target = tensors
        home = module("torch").nn.functional if name == "gelu" else module("torch")
        return target.copy_(getattr(home, name)(*given))

    return [*peers.torch(into, *arrays, out), *peers.torch(copied, *arrays, out, compiled=True)]


def _jax(name: str, arrays: list[np.ndarray]) -> list[Contender]:
    def call(*values: Any) -> Any:
        library = module("jax")
        if name == "gelu":
            return library.nn.gelu(*values, approximate=False)
        homes = {"erf": library.lax, "sigmoid": library.nn, "rsqrt": library.lax}
        return getattr(homes.get(name, library.numpy), "power" if name == "pow" else name)(*values)

    return peers.jax(call, *arrays)


def accuracy(name: str, samples: int) -> Claim:
    """The largest error over so many float32 numbers; infinities and NaN must agree."""
    part = min(PART, samples)
    arrays = [np.zeros(part, np.float32)] * (2 if name == "pow" else 1)
    kernel = mlc.build(mlc.recipes.apply(_program(name, *arrays)))["main"]
    largest, out = 0.0, np.empty(part, np.float32)
    for given in _spread(name, samples, part):
        kernel(*given, out)
        largest = max(largest, _error(name, given, out))
    text = f"{name}: largest error over {samples} float32 numbers"
    return Claim(text, largest, "<=", ULP_BOUNDS[name], "ULP")


def _spread(name: str, samples: int, part: int) -> Iterator[list[np.ndarray]]:
    """Float32 numbers whose bits are evenly spread, in arrays of `part`.

    For pow the pairs of some; every other second one is a moderate exponent.
    """
    numbers = np.arange(samples, dtype=np.uint64)
    if name != "pow":
        for start in range(0, samples, part):
            yield [_float32(numbers[start : start + part], samples)]
        return
    side = math.isqrt(samples)
    first = _float32(numbers[:side], side)
    second = _float32(numbers[:side], side)
    second[::2] = np.linspace(-64, 64, len(second[::2]))
    for start in range(0, samples, part):
        at = numbers[start : start + part]
        yield [first[at // side], second[at % side]]


def _float32(numbers: np.ndarray, count: int) -> np.ndarray:
    return (numbers * (2**32 // count)).astype(np.uint32).view(np.float32)


def _error(name: str, given: list[np.ndarray], got: np.ndarray) -> float:
    """The largest, in units in the last place of the float64 result."""
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name].exact(*(array.astype(np.float64) for array in given))
        want = exact.astype(np.float32)
        finite = np.isfinite(want)
        if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
            raise WrongResult(f"{name}: infinities or NaN differ from float64's")
        unit = np.spacing(np.abs(want[finite])).astype(np.float64)
        error = np.abs(got[finite].astype(np.float64) - exact[finite]) / unit
    return float(error.max(initial=0.0))
