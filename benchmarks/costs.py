"""Operators whose cost is easily of the wrong order: scatters, scans, any, a chain of products."""

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks import programs
from benchmarks.contest import Contest, contest
from benchmarks.harness import Contender
from benchmarks.report import Claim, Report

ROUNDED = 1e-4
"""The error of sums that round at each of many steps, relative to the greatest one."""


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Targets: 3 times numpy's time at the most for updates, twice for operators along an axis."""
    with contest("costs", thread_count, repeat) as found:
        for reduction in ("none", "add"):
            updates(found, 10**6, 10**5, reduction)
        updates(found, 1000, 10**5, "add")
        rows(found, (8000, 64), 512)
        scan(found, "cumsum", np.cumsum, (10**6,), "float32")
        scan(found, "cumprod", np.cumprod, (1000, 1000), "int64")
        holds(found, "any", 10**6)
        holds(found, "all", 10**6)
        chain(found, 150)
        joined(found.report, 100)
        found.report.notes.append("Everybody returns a fresh array; what is added is in order.")
    return found.report


def updated(x: np.ndarray, at: np.ndarray, new: np.ndarray, reduction: str) -> np.ndarray:
    """numpy's way of a scatter."""
    x = x.copy()
    if reduction == "add":
        np.add.at(x, at, new)
    else:
        x[at] = new
    return x


def updates(found: Contest, size: int, count: int, reduction: str) -> None:
    """Elements of a vector that get a new value, or more."""
    rng = np.random.default_rng(0)
    x, new = (rng.standard_normal(n, np.float32) for n in (size, count))
    at = rng.integers(0, size, count)
    title = f"scatter_elements ({reduction}) of {count} into {size}"

    def ours(x: Any, at: Any, new: Any) -> Any:
        return mlc.op.scatter_elements(x, at, new, reduction=reduction)

    def numpys(x: Any, at: Any, new: Any) -> np.ndarray:
        return updated(x, at, new, reduction)

    against(found, title, ours, numpys, 3.0, x, at, new)


def rows(found: Contest, shape: tuple[int, int], count: int) -> None:
    """Rows that a step of training adds to a table of words."""
    rng = np.random.default_rng(0)
    x, new = (rng.standard_normal((n, shape[1]), np.float32) for n in (shape[0], count))
    at = rng.integers(0, shape[0], (count, 1))
    title = f"scatter_nd (add) of {count} rows into {'×'.join(map(str, shape))}"

    def ours(x: Any, at: Any, new: Any) -> Any:
        return mlc.op.scatter_nd(x, at, new, reduction="add")

    def numpys(x: Any, at: Any, new: Any) -> np.ndarray:
        return updated(x, at[:, 0], new, "add")

    against(found, title, ours, numpys, 3.0, x, at, new)


def scan(
    found: Contest, name: str, numpys: Callable[..., Any], shape: tuple[int, ...], dtype: str
) -> None:
    """The elements up to each one along the first axis, combined."""
    x = (4 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    title = f"{name} of {'×'.join(map(str, shape))} {dtype} along axis 0"
    ours = getattr(mlc.op, name)
    against(found, title, lambda x: ours(x, axis=0), lambda x: numpys(x, 0, x.dtype), 2.0, x)


def holds(found: Contest, name: str, size: int) -> None:
    """Whether any holds where none does, or all where all do."""
    x = np.full(size, name == "all")
    title = f"{name} of {size}"
    against(found, title, getattr(mlc.op, name), getattr(np, name), 2.0, x)


def chain(found: Contest, size: int) -> None:
    """Three matrices in one einsum."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((size, size), np.float32) for _ in range(3))
    text = "ij,jk,kl->il"

    def ours(*parts: Any) -> Any:
        return mlc.op.einsum(parts, subscripts=text)

    title = f"einsum {text} of {size}"
    against(found, title, ours, lambda a, b, c: np.linalg.multi_dot([a, b, c]), 3.0, a, b, c)


def joined(report: Report, count: int) -> None:
    """How much processor time the build of a concat takes."""
    arrays = [np.full((2, 3), at, np.float32) for at in range(count)]
    mod = programs.graph(lambda *parts: mlc.op.concat(parts), *arrays)
    start = process_time()
    function = mlc.build(mod, cache=False)["main"]
    seconds = process_time() - start
    np.testing.assert_array_equal(function(*arrays), np.concatenate(arrays))
    report.claims.append(Claim(f"build of a concat of {count}", seconds, "<=", 0.5, "s"))


def against(
    found: Contest,
    title: str,
    ours: Callable[..., Any],
    numpys: Callable[..., Any],
    limit: float,
    *arrays: np.ndarray,
) -> None:
    """One contest of both targets for CPUs; a claim for each."""
    mod, names = programs.graph(ours, *arrays), {"llvm": "minimlc", "c": "minimlc, target c"}
    both = [programs.model(mod, *arrays, name=name, target=t) for t, name in names.items()]
    exact = np.asarray(numpys(*arrays))
    result = found.run(
        title,
        [*both, Contender("numpy", lambda: numpys(*arrays))],
        exact.astype(float),
        tolerance=ROUNDED if exact.dtype.kind == "f" else 0.0,
    )
    for target, name in names.items():
        ratio = result.seconds[name] / result.seconds["numpy"]
        found.report.claims.append(Claim(f"{title}, {target}", ratio, "<=", limit, "×", "numpy"))
