"""A cost model: the time of a program, learned from measurements of others.

It starts from the analytical model's estimate and learns by what factor that is off. Boosted trees
learn it (scikit-learn's, or xgboost's where it is installed); of few measurements, or without
either, a line does.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from minimlc.loops.values.errors import CompileError, did_you_mean
from minimlc.tune.features import NAMES

ENOUGH = 40
"""Measurements up to which a line learns more than trees."""

RIDGE = 4.0
"""How much a line's slopes are held back, in measurements."""

Predict = Callable[[np.ndarray], np.ndarray]
"""From features of shape (programs, features) to logarithms of times, of shape (programs,)."""

CYCLES = list(NAMES).index("cycles")


def estimated(features: np.ndarray) -> np.ndarray:
    """The analytical model: logarithms of cycles."""
    return features[:, CYCLES]


def learned(features: np.ndarray, times: np.ndarray, kind: str = "") -> Predict:
    """A model of the binary logarithms `times`, float64 of shape (programs,), of finite numbers.

    `kind` is "trees", "xgboost" or "ridge"; by default, the best installed one for so many
    measurements. The same data gives the same model. Raises `CompileError` for another kind.
    """
    kind = kind or _usual(len(times))
    if kind not in KINDS:
        raise CompileError(f'no cost model "{kind}"', hint=did_you_mean(kind, KINDS))
    if not len(times):
        return estimated
    off = times - estimated(features)
    usual = float(np.median(off))
    correct = KINDS[kind](features, off - usual)
    return lambda asked: estimated(asked) + usual + correct(asked)


def _usual(count: int) -> str:
    if count < ENOUGH:
        return "ridge"
    return next((k for k, name in PACKAGES.items() if find_spec(name)), "ridge")


def _ridge(features: np.ndarray, off: np.ndarray) -> Predict:
    """Least squares with slopes held back: A. Hoerl and R. Kennard, Ridge regression (1970)."""
    middle, scale = features.mean(0), features.std(0) + 1e-9
    steps = np.where(scale > 1e-6, (features - middle) / scale, 0.0)
    held = steps.T @ steps + RIDGE * np.eye(steps.shape[1])
    slopes = np.linalg.solve(held, steps.T @ (off - off.mean()))

    def predict(asked: np.ndarray) -> np.ndarray:
        moved = np.where(scale > 1e-6, (asked - middle) / scale, 0.0)
        return off.mean() + np.clip(moved, -3.0, 3.0) @ slopes

    return predict


def _trees(features: np.ndarray, off: np.ndarray) -> Predict:
    ensemble: Any = import_module("sklearn.ensemble")
    trees = ensemble.HistGradientBoostingRegressor(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=3, random_state=0
    )
    threads = ThreadpoolController()
    with threads.limit(limits=1):  # so few rows are not worth a thread
        trees.fit(features, off)

    def predict(asked: np.ndarray) -> np.ndarray:
        with threads.limit(limits=1):
            return trees.predict(asked)

    return predict


def _xgboost(features: np.ndarray, off: np.ndarray) -> Predict:
    package: Any = import_module("xgboost")
    trees = package.XGBRegressor(n_estimators=60, max_depth=4, random_state=0, n_jobs=1)
    return trees.fit(features, off).predict


KINDS: dict[str, Callable[..., Predict]] = {"xgboost": _xgboost, "trees": _trees, "ridge": _ridge}
PACKAGES = {"xgboost": "xgboost", "trees": "sklearn"}


def fits(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """The share of pairs that a model puts in the right order; 1.0 of less than two."""
    one, other = np.asarray(predicted), np.asarray(measured)
    first, second = np.triu_indices(len(one), 1)
    agree = (one[first] - one[second]) * (other[first] - other[second])
    return float(np.mean(agree > 0)) if len(agree) else 1.0
