"""A search's units on an engine that spreads work over hosts."""

import pytest

from minimlc.tune import Runner
from tests.tune.test_measure import candidate


@pytest.mark.requires("distributed")
def test_two_workers_of_dask():
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        cluster.get_client() as client,
        Runner(workers=2, executor=client.get_executor(), seconds=20) as runner,
    ):
        results = list(runner.submit([candidate(), candidate(trace="{}"), candidate()]))
    assert [each.kind for each in results] == ["ok", "illegal", "ok"]
    assert results[0].host == results[2].host
