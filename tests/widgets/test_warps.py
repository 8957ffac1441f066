"""Requests of a warp: sectors, banks, occupancy; what the views say is what was counted."""

import numpy as np
import pytest
from minimlc_widgets import Banks, Occupancy, Transactions
from minimlc_widgets.warps import bytes_of, served

from minimlc.gpusim.transactions import Warps
from minimlc.loops.values.errors import CompileError
from tests.gpusim import programs
from tests.widgets.values import profile


@pytest.mark.parametrize(
    ("index", "size", "used", "moved"),
    [
        ("b * 128 + t", 1024, 128, 128),
        ("(b * 128 + t) * 32", 32768, 128, 1024),
        ("b * 128 + t + 1", 1025, 128, 160),
        ("b * 128", 1024, 4, 32),
    ],
)
def test_bytes_that_a_copy_moves_and_uses(index, size, used, moved):
    view = Transactions(profile(programs.copy(index, size)))
    assert [place.name for place in view.places] == ["load A", "store B"]
    assert bytes_of(view.places[0].access) == (used, moved)
    assert view.accesses[0]["row"][2] == f"{used / moved:.0%} of {moved}"


def test_the_text_has_the_figures():
    assert (
        Transactions(profile(programs.copy("(b * 128 + t) * 2", 2048))).text()
        == """\
main: 8 blocks of 128 threads
                 requests  sectors a request  bytes used, first request
load A   line 6        32                  8                 50% of 256
store B  line 6        32                  4                100% of 128"""
    )
    assert (
        Banks(profile(programs.transpose(64, row=32))).text()
        == """\
main: 2 x 2 blocks of 32 x 8 threads, 4096 bytes of shared memory each
                     requests  wavefronts a request  by conflicts
store tile  line 10       128                     1             0
load tile   line 14       128                    32            31"""
    )


@pytest.mark.parametrize("action", ["load", "store"])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_wavefronts_are_those_that_are_counted(size, action):
    rng = np.random.default_rng(size)
    for each in range(200):
        span = int(rng.choice([4, 40, 400]))
        numbers = np.repeat(rng.integers(0, span, 32), 1 + each % 2)[:32]
        sample = np.where(rng.random(32) < 0.9, numbers * size, -1)
        if (sample < 0).all():
            continue
        words = served(sample.tolist(), size, action)
        rows = {each.wavefront for each in words}
        late = {each.wavefront for each in words if each.late}
        most, least = Warps(sample.reshape(1, 32), 1).wavefronts(size, loads=action == "load")
        assert (len(rows), len(rows) - len(late)) == (most, least)
        assert rows == set(range(most))
        assert len({(each.wavefront, each.bank, each.word) for each in words}) == len(
            {(each.wavefront, each.bank) for each in words}
        )  # a bank has one word in a wavefront


def test_occupancy_tells_what_limits_it():
    view = Occupancy(profile(programs.vectors("u * 4 + v")), ("T4", "H100"))
    assert view.text() == (
        "main: 1 block of 32 threads, 16384 bytes of shared memory each\n"
        "  T4: 4 of 32 (12%) warps in 4 blocks, limited by shared memory; "
        "at least 52.8 ns for memory\n"
        "  H100: 13 of 64 (20%) warps in 13 blocks, limited by shared memory; "
        "at least 5.04 ns for memory"
    )
    assert "13 of 64 (20%)" in view.static_html()
    assert Occupancy(profile(programs.tree()), "A100").kernels[0]["devices"][0]["name"] == "A100"


def test_wrong_input_is_refused():
    copy = profile(programs.copy("b * 128 + t"))
    for call, words in (
        (lambda: Transactions(3), "expected a profile, got int"),
        (lambda: Banks(copy), "no thread accesses shared memory"),
        (lambda: Occupancy(copy, "T5"), 'unknown device "T5"'),
    ):
        with pytest.raises(CompileError, match=words):
            call()
