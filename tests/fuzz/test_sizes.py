"""Random functions of sizes compute what numpy does, or refuse a call and name its sizes."""

from tests.fuzz.sizes import Tally, check


def test_functions_of_sizes_compute_what_numpy_does():
    tallies = [check(seed, 12, 0) for seed in range(20)]
    right, undefined, refused = Tally(*map(sum, zip(*tallies, strict=True)))
    assert right > undefined + refused > 0


def test_compiled_functions_of_sizes_agree():
    assert sum(check(seed, 3, 2).right for seed in range(100, 104)) > 4
