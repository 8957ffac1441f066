import numpy as np
import pytest

import minimlc as mlc
from minimlc.tune.features import NAMES
from minimlc.tune.model import CYCLES, estimated, fits, learned


def measurements(count, seed=0):
    """Programs whose times are off the estimate by what two features say."""
    rng = np.random.default_rng(seed)
    rows = rng.random((count, len(NAMES))) * 8
    return rows, rows[:, CYCLES] + rows[:, 0] - 0.5 * rows[:, 1] + 3


@pytest.mark.parametrize("kind", ["ridge", "trees"])
def test_a_model_learns_what_the_estimate_misses(kind):
    if kind == "trees":
        pytest.importorskip("sklearn")
    predict = learned(*measurements(200), kind)
    asked, times = measurements(100, seed=1)
    assert fits(predict(asked), times) > 0.85 > fits(estimated(asked), times)
    assert np.array_equal(predict(asked), learned(*measurements(200), kind)(asked))


def test_of_few_measurements_it_stays_near_the_estimate():
    rows, times = measurements(1)
    asked, _ = measurements(20, seed=1)
    assert np.allclose(learned(rows, times)(asked) - asked[:, CYCLES], times - rows[:, CYCLES])
    assert np.array_equal(learned(rows[:0], times[:0])(asked), estimated(asked))


def test_unknown_models_are_refused():
    with pytest.raises(mlc.CompileError, match="ridge"):
        learned(*measurements(3), "rigde")
