"""Sizes and paddings of windows: as many as there are axes, or one for all."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op
from tests.helpers import refuses

LINE, IMAGE, VOLUME = (np.ones((1, 2, *sizes), np.float32) for sizes in ((5,), (5, 6), (4, 5, 6)))
ROW, SQUARE = (np.ones((3, 2, *sizes), np.float32) for sizes in ((2,), (2, 2)))
RIGHT = {
    "one for both ends": (lambda: op.conv1d(LINE, ROW, padding=1), (1, 3, 6)),
    "both ends": (lambda: op.conv1d(LINE, ROW, padding=(1, 2)), (1, 3, 7)),
    "an axis each": (lambda: op.conv2d(IMAGE, SQUARE, padding=(1, 2)), (1, 3, 6, 9)),
    "befores, then afters": (lambda: op.conv2d(IMAGE, SQUARE, padding=(1, 0, 0, 2)), (1, 3, 5, 7)),
    "three axes": (
        lambda: op.max_pool3d(VOLUME, pool_size=2, padding=(0, 1, 0, 1, 0, 0)),
        (1, 2, 2, 3, 3),
    ),
}
WRONG = {
    "padding is 1 or 2 integers >= 0, got (1, 2, 1)": lambda: op.conv1d(
        LINE, ROW, padding=(1, 2, 1)
    ),
    "padding is 1 or 2 integers >= 0, got -1": lambda: op.conv1d(LINE, ROW, padding=-1),
    "padding is 1 or 2 or 4 integers >= 0, got (1, 2, 3)": lambda: op.conv2d(
        IMAGE, SQUARE, padding=(1, 2, 3)
    ),
    "padding is 1 or 2 or 4 integers >= 0, got (0, -1, 0, 0)": lambda: op.max_pool2d(
        IMAGE, pool_size=2, padding=(0, -1, 0, 0)
    ),
    "pool_size is 1 or 2 integers >= 1, got 0": lambda: op.max_pool2d(IMAGE, pool_size=0),
    "pool_size is 1 or 3 integers, got (1, 2)": lambda: op.max_pool3d(VOLUME, pool_size=(1, 2)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_accepted(name):
    call, shape = RIGHT[name]
    assert call().shape == shape


@pytest.mark.parametrize("why", WRONG)
def test_refused(why):
    refuses("E204", WRONG[why], why)


def test_a_flag_of_numpy_is_a_flag():
    mod = mlc.parse("""
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    y = R.add(x, x)
    return y
""")
    x = np.ones((3, 4), np.float32)
    for cache in (np.True_, np.False_):
        np.testing.assert_array_equal(mlc.build(mod, cache=cache)["main"](x), x + x)
