"""Random graphs, built for every native target, with recipes and without."""

import numpy as np
import pytest

import minimlc as mlc
from tests.fuzz import graphs
from tests.fuzz.graphs import failures, random_graph
from tests.fuzz.subject import native_targets
from tests.guard_pages import needs_guard_pages
from tests.helpers import some_and_more

pytestmark = needs_guard_pages


@pytest.mark.parametrize("target", native_targets())
@pytest.mark.parametrize("recipes", [True, False])
@pytest.mark.parametrize("seeds", some_and_more(range(10), range(40)), ids=len)
def test_graphs_stay_inside_their_arrays(target, recipes, seeds):
    whys = failures([random_graph(seed) for seed in seeds], target, recipes)
    assert {seed: why for seed, why in zip(seeds, whys, strict=True) if why} == {}


def test_random_graphs_are_the_same_each_time():
    assert random_graph(3).mod.script() == random_graph(3).mod.script()
    assert random_graph(3).mod.script() != random_graph(4).mod.script()


def test_rounding_is_told_from_what_is_wrong():
    """Its softmax is of sums whose largest are alike but for what float32 loses."""
    graph = graphs.random_graph(27141589)
    function = mlc.build(graph.mod, cache=False)["main"]
    graphs._check(function, graph)

    def wrong(*arrays):
        first, second = (np.array(each) for each in function(*arrays))
        first[0, 0] += 1
        return first, second

    with pytest.raises(AssertionError):
        graphs._check(wrong, graph)
