"""Random graphs with a symbolic batch: one library agrees with the interpreter for each size."""

from tests.fuzz.batches import batched_graph, check, is_batched


def test_one_library_agrees_for_each_size():
    assert sum(check(seed, (2, 3)) for seed in range(6)) >= 10


def test_most_results_depend_on_the_batch():
    assert sum(is_batched(batched_graph(seed)) for seed in range(20)) > 10
