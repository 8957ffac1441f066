"""Random graphs written in a longer way: the passes keep their results, built or interpreted."""

import pytest

import minimlc as mlc
from minimlc import passes
from tests.fuzz.detours import agree, check, check_bits, with_detours
from tests.fuzz.graphs import Graph, failures, random_graph
from tests.guard_pages import needs_guard_pages


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_every_pass_keeps_what_graphs_compute(start):
    for seed in range(start, start + 10):
        check(seed)


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_simplify_keeps_every_bit_of_odd_numbers(start):
    for seed in range(start, start + 20):
        check_bits(seed)


def test_detours_are_taken_and_found():
    """The graphs are longer indeed, and most of that is gone afterwards."""
    graphs = [random_graph(seed) for seed in range(20)]
    longer = [with_detours(graph, seed) for seed, graph in enumerate(graphs)]
    shorter = [passes.remove_unused(passes.simplify(mod)) for mod in longer]
    sizes = [
        sum(len(list(mod["main"].bindings())) for mod in mods)
        for mods in ([g.mod for g in graphs], longer, shorter)
    ]
    assert sizes[1] > 2 * sizes[0] and sizes[2] < 1.3 * sizes[0]


@needs_guard_pages
def test_built_graphs_agree_with_the_interpreter_and_stay_inside():
    """As LLVM compiles them, after the default pipeline; inputs between pages out of bounds."""
    graphs = [random_graph(seed) for seed in range(20)]
    longer = [Graph(with_detours(g, seed), g.inputs) for seed, g in enumerate(graphs)]
    assert {n: why for n, why in enumerate(failures(longer, "llvm")) if why} == {}


@needs_guard_pages
def test_built_graphs_agree_without_the_passes():
    """The same graphs with the new passes left out."""
    off = [s for s in passes.default_pipeline if s not in (passes.simplify, passes.fold_transposes)]
    for seed in range(5):
        graph = random_graph(seed)
        longer = with_detours(graph, seed)
        pairs = [mlc.build(longer, pipeline=steps, cache=False) for steps in (None, off)]
        agree(*(lib["main"](*graph.inputs) for lib in pairs), "on and off")
