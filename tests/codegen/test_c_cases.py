"""Every operator and every dtype it takes, as generated C: numpy's answers, in one compile."""

from collections import defaultdict

import pytest

from minimlc.services.build import build
from tests.fuzz.operators import check, kernel_name, kernels
from tests.graph.op_cases import cases

pytestmark = [pytest.mark.requires("cc"), pytest.mark.many]
GROUPS = defaultdict(list)
for case in cases():
    GROUPS[case.op].append(case)


@pytest.fixture(scope="module")
def library(request):
    tests = [item for item in request.session.items if item.path == request.path]
    thorough = pytest.mark.requires("thorough").mark
    chosen = {t.callspec.params["op"] for t in tests if thorough not in t.iter_markers()}
    return build(kernels([case for case in cases() if case.op in chosen]), "c", cache=False)


@pytest.mark.parametrize("op", GROUPS)
def test_operator(op, library):
    for case in GROUPS[op]:
        check(case, library[kernel_name(case)])
