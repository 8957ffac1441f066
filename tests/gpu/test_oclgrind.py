"""The simulator names the threads that oclgrind names."""

import numpy as np
import pytest

from minimlc.gpusim.launch import launch
from minimlc.loops.values.errors import RaceError
from tests.gpu.oclgrind import reports
from tests.gpu.races import CORRECT, Planted, launches, planted
from tests.gpu.reports import said

pytestmark = pytest.mark.requires("oclgrind")
PLANTED = planted()


def arrays_for(whole):
    rng = np.random.default_rng(0)
    return [rng.random(param.shape).astype(param.dtype) for param in whole.func.params]


@pytest.mark.parametrize("item", PLANTED, ids=lambda item: item.name)
def test_the_same_threads(item: Planted, tmp_path, monkeypatch):
    """Of a race: both threads, and the element. Of a barrier, where oclgrind names no threads: the
    block, and how many of it come.
    """
    whole = item.launches()
    arrays = arrays_for(whole)
    known = reports(whole, arrays, tmp_path / "log", monkeypatch)
    with pytest.raises(RaceError) as caught:
        launch(whole, arrays)
    assert said(caught.value, whole) in known, sorted(map(str, known))[:20]


@pytest.mark.parametrize("name", CORRECT)
def test_no_report_without_a_mistake(name, tmp_path, monkeypatch):
    whole = launches(CORRECT[name])
    assert not reports(whole, arrays_for(whole), tmp_path / "log", monkeypatch)
