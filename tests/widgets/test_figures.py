"""The style of figures: transparent, in colours that read on a light page and on a dark one."""

import pytest
from matplotlib import colors, rcParams
from matplotlib.style import context

TEXTS = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
BACKS = ("#ffffff", "#111111")


def light(color: str) -> float:
    """Relative luminance, as WCAG 2.1 defines it."""
    parts = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in rgb(color)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def rgb(color: str) -> tuple[float, float, float]:
    return colors.to_rgb(color)


def contrast(color: str, back: str) -> float:
    dark, bright = sorted((light(color), light(back)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.fixture
def style():
    with context("minimlc_widgets.figures"):
        yield dict(rcParams)


@pytest.mark.parametrize("back", BACKS)
def test_figures_read_on_light_and_dark_pages(style, back):
    assert style["figure.facecolor"] == style["axes.facecolor"] == "none"
    assert all(contrast(style[name], back) >= 3.9 for name in TEXTS)
    lines = style["axes.prop_cycle"].by_key()["color"]
    assert len(lines) >= 6 and all(contrast(color, back) >= 3.5 for color in lines)


def test_no_page_is_put_behind_them(style):
    """JupyterLab does so where all ticks are bright, or all dark."""
    shades = [
        sum(
            w * v
            for w, v in zip((0.299, 0.587, 0.114), rgb(style[f"{axis}tick.color"]), strict=True)
        )
        for axis in "xy"
    ]
    assert min(shades) <= 0.5 < max(shades)
